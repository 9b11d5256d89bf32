/* SPDX-License-Identifier: MIT
 *
 * Opening, closing, statements, and what SQLite's codes mean in words.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/settings.h"
#include "rag/rag_impl.h"

enum { WAL_RETRY_MS = 10 };

int store_fail(const lutra_store *s, int code, struct lutra_error *err)
{
    const char *why = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_NOMEM: return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", s->path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return lutra_fail(err, LUTRA_E_BUSY, "%s: locked by another program", s->path);
    case SQLITE_FULL: return lutra_fail(err, LUTRA_E_IO, "%s: the disk is full; nothing was changed", s->path);
    case SQLITE_READONLY: return lutra_fail(err, LUTRA_E_IO, "%s: may not be written", s->path);
    case SQLITE_NOTADB: return lutra_fail(err, LUTRA_E_FORMAT, "%s: not a Lutra store: no SQLite file", s->path);
    case SQLITE_CORRUPT: return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged (%s)", s->path, why);
    case SQLITE_TOOBIG: return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: too long for a store", s->path);
    case SQLITE_INTERRUPT: return lutra_fail(err, LUTRA_E_CANCELLED, "%s: cancelled", s->path);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_PROTOCOL: return lutra_fail(err, LUTRA_E_IO, "%s: %s", s->path, why);
    default:
        /* What a damaged file makes of our statements: a table or a column that is not there, a value of another
         * type. */
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged (%s)", s->path, why);
    }
}

int sql_prepare(lutra_store *s, sqlite3_stmt **out, const char *sql, struct lutra_error *err)
{
    int code = sqlite3_prepare_v3(s->db, sql, -1, 0, out, NULL);
    return code == SQLITE_OK ? 0 : store_fail(s, code, err);
}

int sql_step(lutra_store *s, sqlite3_stmt *stmt, struct lutra_error *err)
{
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
    return store_fail(s, code, err);
}

int sql_do(lutra_store *s, sqlite3_stmt *stmt, struct lutra_error *err)
{
    int rc;
    while ((rc = sql_step(s, stmt, err)) > 0) continue;
    sqlite3_reset(stmt);
    return rc;
}

int sql_run(lutra_store *s, const char *sql, struct lutra_error *err)
{
    int code = sqlite3_exec(s->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : store_fail(s, code, err);
}

int sql_number(lutra_store *s, const char *sql, int64_t *out, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    *out = 0;
    int rc = sql_prepare(s, &stmt, sql, err);
    if (rc == 0) rc = sql_step(s, stmt, err);
    if (rc > 0) *out = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : 0;
}

int sql_end(lutra_store *s, int rc, struct lutra_error *err)
{
    if (rc == 0) rc = sql_run(s, "COMMIT", err);
    if (rc < 0 && !sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

void sql_bind_text(sqlite3_stmt *stmt, int i, const char *text, size_t n)
{
    sqlite3_bind_text64(stmt, i, text ? text : "", n, SQLITE_STATIC, SQLITE_UTF8);
}

/* Write-ahead logging: readers and a writer at once, and a killed writer leaves what was committed.  While another
 * program turns it on SQLite does not wait as it does elsewhere. */
static int begin_wal(lutra_store *s, struct lutra_error *err)
{
    if (sqlite3_db_readonly(s->db, "main")) return 0;
    for (uint64_t waited = 0;; waited += WAL_RETRY_MS) {
        int code = sqlite3_exec(s->db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL);
        if (code == SQLITE_OK) return 0;
        if ((code & 0xff) != SQLITE_BUSY || waited * 1000 > s->set.busy_us) return store_fail(s, code, err);
        sqlite3_sleep(WAL_RETRY_MS);
    }
}

/* The file may be anybody's: its schema runs nothing, and its pages are looked at before they are used. */
static int configure(lutra_store *s, struct lutra_error *err)
{
    uint64_t busy_ms = s->set.busy_us / 1000;
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_busy_timeout(s->db, busy_ms > INT_MAX ? INT_MAX : (int)busy_ms);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
    return sql_run(s, "PRAGMA cell_size_check=ON; PRAGMA secure_delete=ON; PRAGMA synchronous=NORMAL", err);
}

static int open_file(lutra_store *s, struct lutra_error *err)
{
    int flags = O_RDWR | O_CLOEXEC | (s->set.must_exist ? 0 : O_CREAT);
    int fd = open(s->path, flags, 0600);
    if (fd < 0 && errno == ENOENT && s->set.must_exist)
        return lutra_fail(err, LUTRA_E_NOT_FOUND, "%s: no such store", s->path);
    if (fd < 0 && errno != EACCES && errno != EROFS)
        return lutra_fail(err, LUTRA_E_IO, "%s: %s", s->path, strerror(errno));
    if (fd >= 0) close(fd);
    int code = sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    return code == SQLITE_OK ? 0 : store_fail(s, code, err);
}

void lutra_store_settings_init(struct lutra_store_settings *settings, size_t size)
{
    struct lutra_store_settings d = {
        .size = sizeof d, .chunk_bytes = 1000, .busy_us = 10u * 1000 * 1000, .max_bytes = UINT64_C(1) << 30};
    settings_fill(settings, size, &d);
}

static int check_settings(const struct lutra_store_settings *set, struct lutra_error *err)
{
    if (set->chunk_bytes < 200 || set->chunk_bytes > 100000)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "lutra_store_settings: chunk_bytes %d is not in 200 .. 100000", set->chunk_bytes);
    if (set->max_bytes > INT_MAX)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "lutra_store_settings: max_bytes is more than 2 GiB");
    return 0;
}

int lutra_store_open(
    lutra_store **out, const char *path, const struct lutra_store_settings *settings, struct lutra_error *err)
{
    int rc;
    struct lutra_store_settings set;
    lutra_store_settings_init(&set, sizeof set);
    *out = NULL;
    TRY(settings_copy(&set, sizeof set, settings, "lutra_store_settings", err));
    TRY(check_settings(&set, err));
    if (!path || !*path) return lutra_fail(err, LUTRA_E_ARGUMENT, "lutra_store_open: no path");
    lutra_store *s = calloc(1, sizeof *s);
    if (s) s->path = strdup(path);
    if (!s || !s->path) {
        free(s);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    }
    s->set = set;
    if ((rc = open_file(s, err)) < 0) goto fail;
    if ((rc = configure(s, err)) < 0) goto fail;
    if ((rc = tokenizer_register(s, err)) < 0) goto fail;
    if ((rc = find_register(s, err)) < 0) goto fail;
    if ((rc = schema_open(s, err)) < 0) goto fail;
    if ((rc = begin_wal(s, err)) < 0) goto fail;
    *out = s;
    return 0;
fail:
    lutra_store_close(&s);
    return rc;
}

void lutra_store_close(lutra_store **store)
{
    lutra_store *s = *store;
    if (!s) return;
    word_cache_free(&s->words);
    sqlite3_close_v2(s->db);
    free(s->path);
    free(s);
    *store = NULL;
}
