/* SPDX-License-Identifier: MIT
 *
 * Exchanges: what was asked, what was answered, and from which documents.
 */
#include <time.h>

#include "base/settings.h"
#include "rag/rag_impl.h"

void lutra_exchange_init(struct lutra_exchange *exchange, size_t size)
{
    settings_fill(exchange, size, &(struct lutra_exchange){.size = sizeof *exchange});
}

/* Text as the file may hold it: UTF-8 without NULs. */
static int clean(lutra_store *s, struct text *out, const char *bytes, size_t n, struct lutra_error *err)
{
    for (const char *p = bytes, *end = bytes ? bytes + n : NULL; p < end;) {
        const char *nul = memchr(p, 0, (size_t)(end - p));
        text_add_utf8(out, p, (size_t)((nul ? nul : end) - p));
        if (nul) text_add(out, " ", 1);
        p = nul ? nul + 1 : end;
    }
    return out->failed ? lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", s->path) : 0;
}

static int put_sources(lutra_store *s, int64_t id, const lutra_passages *p, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    if (!p) return 0;
    int rc = sql_prepare(
        s, &stmt, "INSERT OR IGNORE INTO source(exchange, document) SELECT ?1, id FROM document WHERE id=?2", err);
    for (int i = 0; i < p->n && rc == 0; i++) {
        sqlite3_bind_int64(stmt, 1, id);
        sqlite3_bind_int64(stmt, 2, p->found[i].document);
        rc = sql_do(s, stmt, err);
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int put(lutra_store *s, const struct text *question, const struct text *answer, const lutra_passages *p,
    struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    TRY(sql_run(s, "BEGIN IMMEDIATE", err));
    int rc = sql_prepare(s, &stmt, "INSERT INTO exchange(added, question, answer) VALUES(?1, ?2, ?3)", err);
    if (rc == 0) {
        sqlite3_bind_int64(stmt, 1, (int64_t)time(NULL));
        sql_bind_text(stmt, 2, question->bytes, question->n);
        sql_bind_text(stmt, 3, answer->bytes, answer->n);
        rc = sql_do(s, stmt, err);
    }
    sqlite3_finalize(stmt);
    if (rc == 0) rc = put_sources(s, sqlite3_last_insert_rowid(s->db), p, err);
    return sql_end(s, rc, err);
}

int lutra_store_commit(lutra_store *store, const struct lutra_exchange *exchange, struct lutra_error *err)
{
    struct lutra_exchange e;
    struct text question = {0}, answer = {0};
    lutra_exchange_init(&e, sizeof e);
    TRY(settings_copy(&e, sizeof e, exchange, "lutra_exchange", err));
    int rc = clean(store, &question, e.question, e.n_question, err);
    if (rc == 0) rc = clean(store, &answer, e.answer, e.n_answer, err);
    if (rc == 0) rc = put(store, &question, &answer, e.passages, err);
    text_fini(&question);
    text_fini(&answer);
    return rc;
}

int lutra_store_history(lutra_store *store, int (*fn)(void *user, const struct lutra_stored_exchange *exchange),
    void *user, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(store, &stmt, "SELECT id, added, question, answer FROM exchange ORDER BY id", err);
    while (rc == 0 && (rc = sql_step(store, stmt, err)) > 0) {
        const char *question = (const char *)sqlite3_column_text(stmt, 2),
                   *answer = (const char *)sqlite3_column_text(stmt, 3);
        struct lutra_stored_exchange e = {.id = sqlite3_column_int64(stmt, 0),
            .added = sqlite3_column_int64(stmt, 1),
            .question = question ? question : "",
            .answer = answer ? answer : "",
            .n_question = question ? (size_t)sqlite3_column_bytes(stmt, 2) : 0,
            .n_answer = answer ? (size_t)sqlite3_column_bytes(stmt, 3) : 0};
        rc = fn(user, &e) ? lutra_fail(err, LUTRA_E_CANCELLED, "%s: cancelled", store->path) : 0;
    }
    sqlite3_finalize(stmt);
    return rc;
}

int lutra_store_forget(lutra_store *store, struct lutra_error *err)
{
    TRY(sql_run(store, "BEGIN IMMEDIATE", err));
    int rc = sql_run(store, "DELETE FROM source", err);
    if (rc == 0) rc = sql_run(store, "DELETE FROM exchange", err);
    if (rc == 0) rc = sql_run(store, "DELETE FROM hint", err); /* made behind them, maybe */
    return sql_end(store, rc, err);
}
