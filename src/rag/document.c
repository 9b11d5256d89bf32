/* SPDX-License-Identifier: MIT
 *
 * Documents: added, replaced and removed, each in one transaction.
 */
#include <time.h>

#include "base/hash.h"
#include "base/settings.h"
#include "rag/charset.h"
#include "rag/rag_impl.h"
#include "text/utf8.h"

enum { NAME_MAX_BYTES = 4096, REPORT_CHUNKS = 256 };

void lutra_document_init(struct lutra_document *document, size_t size)
{
    settings_fill(document, size, &(struct lutra_document){.size = sizeof *document});
}

static int check_name(const lutra_store *s, const char *name, struct lutra_error *err)
{
    size_t n = name ? strnlen(name, NAME_MAX_BYTES + 1) : 0;
    if (n == 0) return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: a document without a name", s->path);
    if (n > NAME_MAX_BYTES)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%.80s...: a name of more than %d bytes", name, NAME_MAX_BYTES);
    if (text_utf8_valid(name, n) < n) return lutra_fail(err, LUTRA_E_ARGUMENT, "%.200s: the name is not UTF-8", name);
    return 0;
}

static int copy_document(
    lutra_store *s, struct lutra_document *d, const struct lutra_document *given, struct lutra_error *err)
{
    lutra_document_init(d, sizeof *d);
    TRY(settings_copy(d, sizeof *d, given, "lutra_document", err));
    TRY(check_name(s, d->name, err));
    if (!d->bytes) d->n_bytes = 0;
    size_t n = d->text ? d->n_text : d->n_bytes;
    if (n > s->set.max_bytes || d->n_bytes > INT64_MAX)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: %zu bytes, more than the %llu that are taken", d->name, n,
            (unsigned long long)s->set.max_bytes);
    return 0;
}

/* ---- what is there ---- */

struct held {
    int64_t id; /* 0 = not there */
    bool same;
};

static int look_up(
    lutra_store *s, const struct lutra_document *d, int64_t hash, struct held *held, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    *held = (struct held){0};
    int rc = sql_prepare(s, &stmt, "SELECT id, n_bytes, hash FROM document WHERE name=?1", err);
    if (rc == 0) {
        sql_bind_text(stmt, 1, d->name, strlen(d->name));
        rc = sql_step(s, stmt, err);
    }
    if (rc > 0) {
        held->id = sqlite3_column_int64(stmt, 0);
        held->same = sqlite3_column_int64(stmt, 1) == (int64_t)d->n_bytes && sqlite3_column_int64(stmt, 2) == hash;
    }
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : 0;
}

static int64_t hash_of(const struct lutra_document *d)
{
    return (int64_t)hash_bytes(0, d->bytes, d->n_bytes);
}

int lutra_store_holds(lutra_store *store, const struct lutra_document *document, bool *holds, struct lutra_error *err)
{
    struct lutra_document d;
    struct held held;
    *holds = false;
    TRY(copy_document(store, &d, document, err));
    TRY(look_up(store, &d, hash_of(&d), &held, err));
    *holds = held.same;
    return 0;
}

/* ---- chunks ---- */

/* One statement with a document's id. */
static int run_for(lutra_store *s, const char *sql, int64_t id, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(s, &stmt, sql, err);
    if (rc == 0) {
        sqlite3_bind_int64(stmt, 1, id);
        rc = sql_do(s, stmt, err);
    }
    sqlite3_finalize(stmt);
    return rc;
}

/* The ids of its chunks, which no other document's stand between; none: *first is 0. */
static int chunk_ids(lutra_store *s, int64_t id, int64_t *first, int64_t *last, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(s, &stmt, "SELECT min(id), max(id) FROM chunk WHERE document=?1", err);
    *first = *last = 0;
    if (rc == 0) {
        sqlite3_bind_int64(stmt, 1, id);
        rc = sql_step(s, stmt, err);
    }
    if (rc > 0) {
        *first = sqlite3_column_int64(stmt, 0);
        *last = sqlite3_column_int64(stmt, 1);
    }
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : 0;
}

/* Deletes all hints, too: any of them may quote tokens of the removed chunks. */
static int remove_chunks(lutra_store *s, int64_t id, struct lutra_error *err)
{
    int64_t first, last;
    TRY(chunk_ids(s, id, &first, &last, err));
    TRY(run_for(
        s, "INSERT INTO words(words, rowid, text) SELECT 'delete', id, text FROM chunk WHERE document=?1", id, err));
    TRY(run_for(s, "DELETE FROM chunk WHERE document=?1", id, err));
    if (first) TRY(lengths_remove(s, first, last, err));
    return sql_run(s, "DELETE FROM hint", err);
}

struct chunk_writer {
    sqlite3_stmt *chunk, *words;
    struct text text; /* of one chunk */
};

static int write_chunk(lutra_store *s, struct chunk_writer *w, int64_t id, const char *bytes, size_t begin, size_t n,
    struct lutra_error *err)
{
    w->text.n = 0;
    text_add_utf8(&w->text, bytes + begin, n);
    if (w->text.failed) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", s->path);
    if (strspn(w->text.bytes, " \t\r\n\f\v") == w->text.n) return 0;
    sqlite3_bind_int64(w->chunk, 1, id);
    sqlite3_bind_int64(w->chunk, 2, (int64_t)begin);
    sqlite3_bind_int64(w->chunk, 3, (int64_t)(begin + n));
    sql_bind_text(w->chunk, 4, w->text.bytes, w->text.n);
    TRY(sql_do(s, w->chunk, err));
    sqlite3_bind_int64(w->words, 1, sqlite3_last_insert_rowid(s->db));
    sql_bind_text(w->words, 2, w->text.bytes, w->text.n);
    return sql_do(s, w->words, err);
}

static int write_chunks(
    lutra_store *s, const struct lutra_document *d, int64_t id, const char *text, size_t n, struct lutra_error *err)
{
    struct chunk_writer w = {0};
    int rc = sql_prepare(s, &w.chunk, "INSERT INTO chunk(document, begin, end, text) VALUES(?1, ?2, ?3, ?4)", err);
    if (rc == 0) rc = sql_prepare(s, &w.words, "INSERT INTO words(rowid, text) VALUES(?1, ?2)", err);
    int64_t n_chunk = 0;
    for (size_t at = 0; rc == 0 && at < n; n_chunk++) {
        size_t len = text_cut(text + at, n - at, (size_t)s->set.chunk_bytes);
        rc = write_chunk(s, &w, id, text, at, len, err);
        at += len;
        bool report = d->progress && (n_chunk % REPORT_CHUNKS == 0 || at == n);
        if (rc == 0 && report && d->progress(d->progress_user, d->name, at, n))
            rc = lutra_fail(err, LUTRA_E_CANCELLED, "%s: cancelled", d->name);
    }
    sqlite3_finalize(w.chunk);
    sqlite3_finalize(w.words);
    text_fini(&w.text);
    return rc;
}

/* ---- add ---- */

static int write_document(lutra_store *s, const struct lutra_document *d, enum text_kind kind, int64_t hash,
    int64_t *id, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(s, &stmt,
        *id ? "UPDATE document SET kind=?2, n_bytes=?3, hash=?4, added=?5 WHERE name=?1"
            : "INSERT INTO document(name, kind, n_bytes, hash, added) VALUES(?1, ?2, ?3, ?4, ?5)",
        err);
    if (rc == 0) {
        sql_bind_text(stmt, 1, d->name, strlen(d->name));
        sqlite3_bind_int(stmt, 2, kind);
        sqlite3_bind_int64(stmt, 3, (int64_t)d->n_bytes);
        sqlite3_bind_int64(stmt, 4, hash);
        sqlite3_bind_int64(stmt, 5, (int64_t)time(NULL));
        rc = sql_do(s, stmt, err);
    }
    if (rc == 0 && !*id) *id = sqlite3_last_insert_rowid(s->db);
    sqlite3_finalize(stmt);
    return rc;
}

static int put(lutra_store *s, const struct lutra_document *d, enum text_kind kind, const struct text *text,
    enum lutra_added *what, struct lutra_error *err)
{
    struct held held;
    int64_t hash = hash_of(d);
    TRY(sql_run(s, "BEGIN IMMEDIATE", err));
    int rc = look_up(s, d, hash, &held, err);
    *what = held.same ? LUTRA_UNCHANGED : held.id ? LUTRA_REPLACED : LUTRA_ADDED;
    if (rc == 0 && held.id && !held.same) rc = remove_chunks(s, held.id, err);
    if (rc == 0 && !held.same) rc = write_document(s, d, kind, hash, &held.id, err);
    if (rc == 0 && !held.same) rc = write_chunks(s, d, held.id, text->bytes, text->n, err);
    int64_t first = 0, last;
    if (rc == 0 && !held.same) rc = chunk_ids(s, held.id, &first, &last, err);
    if (rc == 0 && first) rc = lengths_add(s, first, last, err);
    return sql_end(s, rc, err);
}

/* The kind that was named; TEXT_N_KIND: none was. */
static int named_kind(const struct lutra_document *d, enum text_kind *kind, struct lutra_error *err)
{
    *kind = d->text ? TEXT_PLAIN : TEXT_N_KIND;
    if (!d->kind) return 0;
    for (int k = 0; k < TEXT_N_KIND; k++)
        if (strcmp(d->kind, text_kind_name[k]) == 0) {
            *kind = (enum text_kind)k;
            return 0;
        }
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "%s: no such kind of document: '%.40s' (text, markdown, html)", d->name, d->kind);
}

/* The text as UTF-8, in `made` where it is not that already.  HTML without a mark names its charset itself. */
static int decode(const struct lutra_document *d, enum text_kind *kind, struct text *given, struct text *made,
    struct lutra_error *err)
{
    enum charset charset = charset_guess(given->bytes, given->n);
    bool is_marked = charset >= CHARSET_UTF16LE && charset <= CHARSET_UTF32BE;
    if (is_marked) {
        charset_add(made, charset, given->bytes, given->n);
        *given = *made;
    }
    if (*kind == TEXT_N_KIND) *kind = text_kind_guess(d->name, given->n ? given->bytes : "", given->n);
    const char *why = given->n ? text_refuse(given->bytes, given->n) : NULL;
    if (!why && charset == CHARSET_UNKNOWN && *kind != TEXT_HTML)
        why = "its charset is not known: neither UTF-8 nor Windows-1252 (iconv -f CHARSET -t UTF-8 makes it UTF-8)";
    if (why) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: not added: %s", d->name, why);
    if (charset == CHARSET_WINDOWS_1252 && *kind != TEXT_HTML) {
        charset_add(made, charset, given->bytes, given->n);
        *given = *made;
    }
    return made->failed ? lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", d->name) : 0;
}

int lutra_store_add(
    lutra_store *store, const struct lutra_document *document, enum lutra_added *what, struct lutra_error *err)
{
    struct lutra_document d;
    struct held held;
    enum text_kind kind = TEXT_PLAIN;
    enum lutra_added ignored;
    if (!what) what = &ignored;
    TRY(copy_document(store, &d, document, err));
    TRY(named_kind(&d, &kind, err));
    TRY(look_up(store, &d, hash_of(&d), &held, err));
    *what = LUTRA_UNCHANGED;
    if (held.same) return 0;
    struct text given = {.bytes = (char *)(d.text ? d.text : d.bytes), .n = d.text ? d.n_text : d.n_bytes};
    struct text decoded = {0}, made = {0};
    int rc = decode(&d, &kind, &given, &decoded, err);
    if (rc == 0 && kind == TEXT_HTML) rc = text_of_html(d.name, given.bytes, given.n, &made, err);
    if (rc == 0) rc = put(store, &d, kind, kind == TEXT_HTML ? &made : &given, what, err);
    text_fini(&decoded);
    text_fini(&made);
    return rc;
}

/* ---- remove ---- */

/* The ids of the document of a name and of those below it. */
static int next_below(lutra_store *s, const char *name, int64_t *id, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(
        s, &stmt, "SELECT id FROM document WHERE name=?1 OR (name > ?1 || '/' AND name < ?1 || '0') LIMIT 1", err);
    if (rc == 0) {
        sql_bind_text(stmt, 1, name, strlen(name));
        rc = sql_step(s, stmt, err);
    }
    *id = rc > 0 ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : 0;
}

static int remove_one(lutra_store *s, int64_t id, struct lutra_error *err)
{
    TRY(remove_chunks(s, id, err));
    TRY(run_for(s, "DELETE FROM exchange WHERE id IN (SELECT exchange FROM source WHERE document=?1)", id, err));
    TRY(run_for(s, "DELETE FROM source WHERE exchange NOT IN (SELECT id FROM exchange)", id, err));
    TRY(run_for(s, "DELETE FROM document WHERE id=?1", id, err));
    if (sqlite3_changes(s->db) == 1) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged: a document cannot be removed", s->path);
}

int lutra_store_remove(lutra_store *store, const char *name, int64_t *n_removed, struct lutra_error *err)
{
    int64_t id, n = 0;
    TRY(check_name(store, name, err));
    TRY(sql_run(store, "BEGIN IMMEDIATE", err));
    int rc = next_below(store, name, &id, err);
    for (; rc == 0 && id; n++) {
        rc = remove_one(store, id, err);
        if (rc == 0) rc = next_below(store, name, &id, err);
    }
    rc = sql_end(store, rc, err);
    if (n_removed) *n_removed = rc == 0 ? n : 0;
    return rc;
}
