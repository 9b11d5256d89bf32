/* SPDX-License-Identifier: MIT
 *
 * What concerns the store as a whole: list, sizes, check, compact.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "base/settings.h"
#include "rag/rag_impl.h"
#include "rag/segments.h"

int lutra_store_list(
    lutra_store *store, int (*fn)(void *user, const struct lutra_stored *document), void *user, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(store, &stmt,
        "SELECT name, kind, n_bytes, added, (SELECT count(*) FROM chunk WHERE chunk.document=document.id) "
        "FROM document ORDER BY name",
        err);
    while (rc == 0 && (rc = sql_step(store, stmt, err)) > 0) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        int64_t kind = sqlite3_column_int64(stmt, 1);
        struct lutra_stored d = {.name = name ? name : "",
            .kind = text_kind_name[kind >= 0 && kind < TEXT_N_KIND ? kind : TEXT_PLAIN],
            .n_bytes = (uint64_t)sqlite3_column_int64(stmt, 2),
            .added = sqlite3_column_int64(stmt, 3),
            .n_chunk = sqlite3_column_int64(stmt, 4)};
        rc = fn(user, &d) ? lutra_fail(err, LUTRA_E_CANCELLED, "%s: cancelled", store->path) : 0;
    }
    sqlite3_finalize(stmt);
    return rc;
}

static uint64_t size_of(const char *path, const char *end)
{
    struct stat st;
    char whole[4200];
    int n = snprintf(whole, sizeof whole, "%s%s", path, end);
    return n > 0 && (size_t)n < sizeof whole && stat(whole, &st) == 0 ? (uint64_t)st.st_size : 0;
}

int lutra_store_stats_get(lutra_store *store, struct lutra_store_stats *stats, size_t size, struct lutra_error *err)
{
    struct lutra_store_stats s = {.size = sizeof s};
    int64_t text_bytes;
    TRY(sql_number(store, "SELECT count(*) FROM document", &s.n_document, err));
    TRY(sql_number(store, "SELECT count(*) FROM chunk", &s.n_chunk, err));
    TRY(sql_number(store, "SELECT count(*) FROM exchange", &s.n_exchange, err));
    TRY(sql_number(store, "SELECT total(length(CAST(text AS BLOB))) FROM chunk", &text_bytes, err));
    s.text_bytes = (uint64_t)text_bytes;
    s.file_bytes = size_of(store->path, "") + size_of(store->path, "-wal");
    s.token_bytes = segments_bytes(store);
    int64_t hint_bytes;
    TRY(sql_number(store, "SELECT total(length(hints)) FROM hint", &hint_bytes, err));
    s.hint_bytes = (uint64_t)hint_bytes;
    settings_fill(stats, size, &s);
    return 0;
}

int lutra_store_check(lutra_store *store, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(store, &stmt, "PRAGMA integrity_check(1)", err);
    if (rc == 0) rc = sql_step(store, stmt, err);
    if (rc > 0) {
        const char *said = (const char *)sqlite3_column_text(stmt, 0);
        rc = said && strcmp(said, "ok") == 0
                 ? 0
                 : lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged: %.300s", store->path, said ? said : "");
    }
    sqlite3_finalize(stmt);
    if (rc < 0) return rc;
    int64_t n_lost;
    TRY(sql_number(store, "SELECT count(*) FROM chunk WHERE document NOT IN (SELECT id FROM document)", &n_lost, err));
    if (n_lost)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged: %lld chunks of no document", store->path,
            (long long)n_lost);
    TRY(sql_number(store, "SELECT count(*) FROM hint WHERE chunk NOT IN (SELECT id FROM chunk)", &n_lost, err));
    if (n_lost) return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged: hints of no chunk", store->path);
    TRY(lengths_check(store, err));
    return sql_run(store, "INSERT INTO words(words, rank) VALUES('integrity-check', 1)", err);
}

/* Moves the log into the file and empties it. */
static int empty_log(lutra_store *s, struct lutra_error *err)
{
    int64_t busy;
    TRY(sql_number(s, "PRAGMA wal_checkpoint(TRUNCATE)", &busy, err));
    if (busy)
        return lutra_fail(
            err, LUTRA_E_BUSY, "%s: another program reads the store: its log could not be emptied; try again", s->path);
    return 0;
}

int index_build(lutra_store *s, struct lutra_error *err)
{
    TRY(sql_run(s, "INSERT INTO words(words) VALUES('rebuild')", err));
    TRY(sql_run(s, "DELETE FROM lengths", err));
    return lengths_add(s, 1, INT64_MAX, err);
}

/* FTS5 keeps the words of removed chunks until their segments are merged: what is rebuilt has none. */
static int build_index(lutra_store *s, struct lutra_error *err)
{
    TRY(sql_run(s, "BEGIN IMMEDIATE", err));
    return sql_end(s, index_build(s, err), err);
}

int lutra_store_compact(lutra_store *store, lutra_progress_fn progress, void *progress_user, struct lutra_error *err)
{
    static const char *const stages[] = {"building the index anew", "writing the file anew"};
    enum { N_STAGES = sizeof stages / sizeof *stages };
    for (int i = 0; i < N_STAGES; i++) {
        if (progress && progress(progress_user, stages[i], (uint64_t)i, N_STAGES))
            return lutra_fail(err, LUTRA_E_CANCELLED, "%s: cancelled", store->path);
        TRY(i == 0 ? build_index(store, err) : sql_run(store, "VACUUM", err));
    }
    TRY(segments_compact(store, err));
    return empty_log(store, err);
}
