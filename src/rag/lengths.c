/* SPDX-License-Identifier: MIT
 *
 * How many words each chunk has, read at a store's first search.
 *
 * FTS5 has a row for each chunk (words_docsize); stepping over 100,000 of them takes longer than the search.  So
 * `lengths` has them again, a row for the chunks of 1,000 ids: 4 bytes each, little-endian, the number of words + 1; 0:
 * there is no such chunk.  Adding or removing chunks changes them in the same transaction.
 */
#include "rag/rag_impl.h"

enum { BLOCK_IDS = 1000, BLOCK_BYTES = 4 * BLOCK_IDS }; /* a row fits into a page */
#define BLOCKS_MOST (INT64_MAX / BLOCK_IDS)

struct block {
    int64_t number; /* of ids number * BLOCK_IDS + i; -1: none */
    uint8_t n[BLOCK_BYTES];
};

struct writer {
    lutra_store *store;
    sqlite3_stmt *get, *put, *drop;
    struct block block;
};

static int damaged(const lutra_store *s, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: the store is damaged: lengths of chunks", s->path);
}

static uint32_t length_at(const uint8_t *n, int i)
{
    return (uint32_t)n[4 * i] | (uint32_t)n[4 * i + 1] << 8 | (uint32_t)n[4 * i + 2] << 16 |
           (uint32_t)n[4 * i + 3] << 24;
}

static void set_length(uint8_t *n, int i, uint32_t length)
{
    for (int k = 0; k < 4; k++) n[4 * i + k] = (uint8_t)(length >> 8 * k);
}

/* SQLite's varint: 7 bits a byte, the high ones first; a length, and one more. */
static uint32_t read_length(const uint8_t *varint, int n)
{
    uint64_t length = 0;
    for (int i = 0; i < n && i < 9; i++) {
        length = length << 7 | (varint[i] & 0x7f);
        if (!(varint[i] & 0x80)) break;
    }
    return length < UINT32_MAX ? (uint32_t)length + 1 : UINT32_MAX;
}

/* ---- writing ---- */

static int writer_open(struct writer *w, lutra_store *s, struct lutra_error *err)
{
    *w = (struct writer){.store = s, .block.number = -1};
    TRY(sql_prepare(s, &w->get, "SELECT n FROM lengths WHERE block=?1", err));
    TRY(sql_prepare(s, &w->put, "REPLACE INTO lengths(block, n) VALUES(?1, ?2)", err));
    return sql_prepare(s, &w->drop, "DELETE FROM lengths WHERE block=?1", err);
}

static void writer_close(struct writer *w)
{
    sqlite3_finalize(w->get);
    sqlite3_finalize(w->put);
    sqlite3_finalize(w->drop);
}

static int save_block(struct writer *w, struct lutra_error *err)
{
    static const uint8_t none[BLOCK_BYTES];
    if (w->block.number < 0) return 0;
    bool is_empty = memcmp(w->block.n, none, sizeof none) == 0;
    sqlite3_stmt *stmt = is_empty ? w->drop : w->put;
    sqlite3_bind_int64(stmt, 1, w->block.number);
    if (!is_empty) sqlite3_bind_blob(stmt, 2, w->block.n, BLOCK_BYTES, SQLITE_STATIC);
    return sql_do(w->store, stmt, err);
}

/* The block of an id, after the one before is saved. */
static int go_to(struct writer *w, int64_t id, struct lutra_error *err)
{
    if (id < 0 || id / BLOCK_IDS >= BLOCKS_MOST) return damaged(w->store, err);
    if (w->block.number == id / BLOCK_IDS) return 0;
    TRY(save_block(w, err));
    w->block = (struct block){.number = id / BLOCK_IDS};
    sqlite3_bind_int64(w->get, 1, w->block.number);
    int rc = sql_step(w->store, w->get, err);
    if (rc > 0) {
        const void *bytes = sqlite3_column_blob(w->get, 0);
        bool fits = sqlite3_column_bytes(w->get, 0) == BLOCK_BYTES;
        if (fits) memcpy(w->block.n, bytes, BLOCK_BYTES);
        rc = fits ? 0 : damaged(w->store, err);
    }
    sqlite3_reset(w->get);
    return rc;
}

int lengths_add(lutra_store *s, int64_t first, int64_t last, struct lutra_error *err)
{
    struct writer w;
    sqlite3_stmt *stmt = NULL;
    int rc = writer_open(&w, s, err);
    if (rc == 0)
        rc = sql_prepare(s, &stmt, "SELECT id, sz FROM words_docsize WHERE id BETWEEN ?1 AND ?2 ORDER BY id", err);
    if (rc == 0) {
        sqlite3_bind_int64(stmt, 1, first);
        sqlite3_bind_int64(stmt, 2, last);
    }
    while (rc == 0 && (rc = sql_step(s, stmt, err)) > 0) {
        int64_t id = sqlite3_column_int64(stmt, 0);
        const uint8_t *size = sqlite3_column_blob(stmt, 1);
        rc = go_to(&w, id, err);
        if (rc == 0) set_length(w.block.n, (int)(id % BLOCK_IDS), read_length(size, sqlite3_column_bytes(stmt, 1)));
    }
    sqlite3_finalize(stmt);
    if (rc == 0) rc = save_block(&w, err);
    writer_close(&w);
    return rc;
}

/* Blocks in the middle go whole. */
static int drop_between(lutra_store *s, int64_t first, int64_t last, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(s, &stmt, "DELETE FROM lengths WHERE block > ?1 AND block < ?2", err);
    if (rc == 0) {
        sqlite3_bind_int64(stmt, 1, first / BLOCK_IDS);
        sqlite3_bind_int64(stmt, 2, last / BLOCK_IDS);
        rc = sql_do(s, stmt, err);
    }
    sqlite3_finalize(stmt);
    return rc;
}

int lengths_remove(lutra_store *s, int64_t first, int64_t last, struct lutra_error *err)
{
    struct writer w;
    int64_t ends[] = {first, last};
    int rc = writer_open(&w, s, err);
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = go_to(&w, ends[i], err);
        int64_t at = w.block.number * BLOCK_IDS;
        for (int k = 0; k < BLOCK_IDS && rc == 0; k++)
            if (at + k >= first && at + k <= last) set_length(w.block.n, k, 0);
    }
    if (rc == 0) rc = save_block(&w, err);
    writer_close(&w);
    return rc < 0 ? rc : drop_between(s, first, last, err);
}

/* ---- reading ---- */

int lengths_read(lutra_store *s, int (*fn)(void *user, int64_t id, uint32_t n), void *user, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(s, &stmt, "SELECT block, n FROM lengths ORDER BY block", err);
    while (rc == 0 && (rc = sql_step(s, stmt, err)) > 0) {
        int64_t block = sqlite3_column_int64(stmt, 0);
        const uint8_t *n = sqlite3_column_blob(stmt, 1);
        bool fits = sqlite3_column_bytes(stmt, 1) == BLOCK_BYTES && block >= 0 && block < BLOCKS_MOST;
        rc = fits ? 0 : damaged(s, err);
        for (int i = 0; i < BLOCK_IDS && rc == 0; i++) {
            uint32_t length = length_at(n, i);
            if (length && fn(user, block * BLOCK_IDS + i, length - 1) < 0)
                rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", s->path);
        }
    }
    sqlite3_finalize(stmt);
    return rc;
}

struct comparison {
    lutra_store *store;
    sqlite3_stmt *index;
    struct lutra_error *err;
    bool differs;
};

/* The index's next row is the same one. */
static int compare(void *user, int64_t id, uint32_t n)
{
    struct comparison *c = user;
    if (c->differs) return 0;
    int rc = sql_step(c->store, c->index, c->err);
    c->differs = rc <= 0 || sqlite3_column_int64(c->index, 0) != id ||
                 read_length(sqlite3_column_blob(c->index, 1), sqlite3_column_bytes(c->index, 1)) != n + 1;
    return 0;
}

int lengths_check(lutra_store *s, struct lutra_error *err)
{
    struct comparison c = {.store = s, .err = err};
    int rc = sql_prepare(s, &c.index, "SELECT id, sz FROM words_docsize ORDER BY id", err);
    if (rc == 0) rc = lengths_read(s, compare, &c, err);
    if (rc == 0 && !c.differs) rc = sql_step(s, c.index, err);
    sqlite3_finalize(c.index);
    return rc > 0 || (rc == 0 && c.differs) ? damaged(s, err) : rc;
}
