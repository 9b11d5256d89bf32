/* SPDX-License-Identifier: MIT
 *
 * The tables, and whether a file has exactly these.
 */
#include <stdio.h>

#include "rag/rag_impl.h"

/* Compared letter by letter with what the file says it has: change one, and RAG_SCHEMA_VERSION with it.
 * Version 3 has the tables of 2 and other words in the index: an older file's index is built anew. */
static const struct {
    int since; /* the version that brought it */
    const char *name, *sql;
} tables[] = {
    {1, "document",
        "CREATE TABLE document(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL, "
        "n_bytes INTEGER NOT NULL, hash INTEGER NOT NULL, added INTEGER NOT NULL)"},
    {1, "chunk",
        "CREATE TABLE chunk(id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL, begin INTEGER NOT NULL, "
        "end INTEGER NOT NULL, text TEXT NOT NULL)"},
    {1, "chunk_of_document", "CREATE INDEX chunk_of_document ON chunk(document, begin)"},
    {1, "words", "CREATE VIRTUAL TABLE words USING fts5(text, content='chunk', content_rowid='id', tokenize='lutra')"},
    {1, "exchange",
        "CREATE TABLE exchange(id INTEGER PRIMARY KEY AUTOINCREMENT, added INTEGER NOT NULL, question TEXT NOT NULL, "
        "answer TEXT NOT NULL)"},
    {1, "source",
        "CREATE TABLE source(exchange INTEGER NOT NULL, document INTEGER NOT NULL, PRIMARY KEY(exchange, document)) "
        "WITHOUT ROWID"},
    {2, "lengths", "CREATE TABLE lengths(block INTEGER PRIMARY KEY, n BLOB NOT NULL)"},
    {2, "hint",
        "CREATE TABLE hint(chunk INTEGER NOT NULL, model INTEGER NOT NULL, hints BLOB NOT NULL, "
        "PRIMARY KEY(chunk, model))"},
};
enum { N_TABLES = sizeof tables / sizeof *tables };

/* Tables that SQLite and FTS5 make for themselves. */
static bool is_inner(const char *name)
{
    static const char *const names[] = {"words_data", "words_idx", "words_docsize", "words_config", "sqlite_sequence"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return strncmp(name, "sqlite_autoindex_", 17) == 0;
}

static int check_entry(
    const lutra_store *s, int64_t version, const char *name, const char *sql, int *found, struct lutra_error *err)
{
    for (int i = 0; i < N_TABLES; i++) {
        if (tables[i].since > version || strcmp(name, tables[i].name) != 0) continue;
        if (strcmp(sql, tables[i].sql) != 0)
            return lutra_fail(
                err, LUTRA_E_FORMAT, "%s: the store is damaged: '%s' is not as Lutra makes it", s->path, name);
        *found += 1;
        return 0;
    }
    if (is_inner(name)) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: not a Lutra store: it has '%.100s'", s->path, name);
}

/* Exactly those of a version. */
static int check_tables(lutra_store *s, int64_t version, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int found = 0, wanted = 0;
    for (int i = 0; i < N_TABLES; i++) wanted += tables[i].since <= version;
    int rc = sql_prepare(s, &stmt, "SELECT name, sql FROM sqlite_schema", err);
    while (rc == 0 && (rc = sql_step(s, stmt, err)) > 0) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        const char *sql = (const char *)sqlite3_column_text(stmt, 1);
        rc = check_entry(s, version, name ? name : "", sql ? sql : "", &found, err);
        if (rc < 0) break;
    }
    sqlite3_finalize(stmt);
    if (rc < 0 || found == wanted) return rc;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged: a table is missing", s->path);
}

/* Those that a file of an older version lacks; 0: an empty file. */
static int make_tables(lutra_store *s, int64_t version, struct lutra_error *err)
{
    char numbers[96];
    int rc = 0;
    for (int i = 0; i < N_TABLES && rc == 0; i++)
        if (tables[i].since > version) rc = sql_run(s, tables[i].sql, err);
    if (rc == 0) rc = version > 0 ? index_build(s, err) : lengths_add(s, 1, INT64_MAX, err);
    snprintf(numbers, sizeof numbers, "PRAGMA application_id=%d; PRAGMA user_version=%d", RAG_APPLICATION_ID,
        RAG_SCHEMA_VERSION);
    return rc < 0 ? rc : sql_run(s, numbers, err);
}

/* *version: 0 for an empty file. */
static int check_numbers(lutra_store *s, int64_t *version, struct lutra_error *err)
{
    int64_t application, n_entry;
    TRY(sql_number(s, "PRAGMA application_id", &application, err));
    TRY(sql_number(s, "PRAGMA user_version", version, err));
    TRY(sql_number(s, "SELECT count(*) FROM sqlite_schema", &n_entry, err));
    if (n_entry == 0 && application == 0 && *version == 0) return 0;
    if (application != RAG_APPLICATION_ID)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: an SQLite file of another program, not a Lutra store", s->path);
    if (*version > RAG_SCHEMA_VERSION)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: made by a newer Lutra (schema %lld; this one knows %d)",
            s->path, (long long)*version, RAG_SCHEMA_VERSION);
    if (*version < 1 || n_entry == 0)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged: no tables", s->path);
    return check_tables(s, *version, err);
}

int schema_open(lutra_store *s, struct lutra_error *err)
{
    int64_t version;
    TRY(check_numbers(s, &version, err));
    if (version == RAG_SCHEMA_VERSION) return 0;
    if (version > 0 && sqlite3_db_readonly(s->db, "main"))
        return lutra_fail(err, LUTRA_E_IO,
            "%s: made by an older Lutra (schema %lld), to be brought up to date, and may "
            "not be written",
            s->path, (long long)version);
    /* Two programs may find it so at once: who comes second sees the tables. */
    TRY(sql_run(s, "BEGIN IMMEDIATE", err));
    int rc = check_numbers(s, &version, err);
    if (rc == 0 && version < RAG_SCHEMA_VERSION) rc = make_tables(s, version, err);
    return sql_end(s, rc, err);
}
