/* SPDX-License-Identifier: MIT
 *
 * Hints of passages: from a prompt that had them into the store, and into the next one.
 *
 * A row of `hint` has those of one chunk by one model, 48 bytes for each token that the passage has by itself: 8
 * tokens, 4 bytes each, and 8 shares in 65,535ths, 2 bytes each, little-endian; share 0: no more.  Behind other text
 * the first and last tokens may be others: what is in the middle is looked for, and goes as far as it is the same.
 */
#include "rag/rag_impl.h"

enum { TOP = 8, TOKEN_BYTES = TOP * 6, EDGE_TOKENS = 4 };

/* A passage that stands in the prompt. */
struct place {
    int64_t chunk;
    int n_own;    /* tokens that it has by itself */
    int from, n;  /* of these are in the prompt */
    int at;       /* there */
    bool is_kept; /* the store has its hints */
};

struct lutra_recall {
    lutra_store *store;
    int64_t of;
    const lutra_passages *passages;
    struct lutra_hints *hints; /* [n_prompt] */
    int n_prompt, n_place;
    bool any_known;
    struct place place[];
};

static int no_memory(const lutra_store *s, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", s->path);
}

/* ---- where passages stand ---- */

/* Of token[n] in the prompt, but for the edges; false: it is not there. */
static bool locate(struct place *p, const int32_t *token, int n, const int32_t *prompt, int n_prompt)
{
    int edge = n / 4 < EDGE_TOKENS ? n / 4 : EDGE_TOKENS, n_middle = n - 2 * edge, at = 0;
    size_t bytes = (size_t)n_middle * sizeof *token;
    while (at + n_middle <= n_prompt && memcmp(prompt + at, token + edge, bytes) != 0) at++;
    if (n == 0 || at + n_middle > n_prompt) return false;
    int from = edge, end = edge + n_middle, to = at + n_middle;
    for (; from > 0 && at > 0 && prompt[at - 1] == token[from - 1]; at--) from--;
    for (; end < n && to < n_prompt && prompt[to] == token[end]; to++) end++;
    *p = (struct place){.chunk = p->chunk, .n_own = n, .from = from, .n = end - from, .at = at};
    return true;
}

/* The passages of a prompt. */
static int find_places(
    lutra_recall *r, const lutra_model *model, const int32_t *prompt, int n_prompt, struct lutra_error *err)
{
    int32_t *token = NULL;
    int rc = 0, room = 0;
    for (int i = 0; i < lutra_passages_count(r->passages) && rc == 0; i++) {
        const struct lutra_passage *p = lutra_passages_at(r->passages, i);
        struct place *place = &r->place[r->n_place];
        int n = 0, most = (int)p->n_bytes + 8; /* a token has a byte at least, but for those around a text */
        if (most > room) {
            free(token);
            token = malloc((size_t)most * sizeof *token);
            room = token ? most : 0;
            if (!token) return no_memory(r->store, err);
        }
        rc = lutra_tokenize(model, p->text, passage_length(p), 0, token, room, &n, err);
        place->chunk = p->chunk;
        if (rc == 0 && n <= room && locate(place, token, n, prompt, n_prompt)) r->n_place++;
    }
    free(token);
    return rc;
}

/* ---- rows ---- */

static void write_hints(uint8_t *to, const struct lutra_hints *h)
{
    for (int k = 0; k < TOP; k++) {
        unsigned p = h->p[k] > 0 ? (unsigned)(h->p[k] * 65535 + 0.5f) : 0;
        for (int b = 0; b < 4; b++) to[4 * k + b] = (uint8_t)((uint32_t)h->token[k] >> 8 * b);
        for (int b = 0; b < 2; b++) to[4 * TOP + 2 * k + b] = (uint8_t)(p >> 8 * b);
    }
}

/* False: a token that the vocabulary has not. */
static bool read_hints(const uint8_t *from, int n_vocab, struct lutra_hints *h)
{
    *h = (struct lutra_hints){0};
    for (int k = 0; k < TOP; k++) {
        uint32_t token = 0, p = (uint32_t)from[4 * TOP + 2 * k] | (uint32_t)from[4 * TOP + 2 * k + 1] << 8;
        for (int b = 0; b < 4; b++) token |= (uint32_t)from[4 * k + b] << 8 * b;
        if (p == 0) break;
        if (token >= (uint32_t)n_vocab) return false;
        h->token[k] = (int32_t)token;
        h->p[k] = (float)p / 65535;
    }
    return true;
}

/* A row as it was written, or it is taken for none. */
static void use_row(lutra_recall *r, struct place *p, const uint8_t *row, int n_bytes, int n_vocab)
{
    struct lutra_hints h;
    if (!row || n_bytes != p->n_own * TOKEN_BYTES) return;
    for (int i = 0; i < p->n_own; i++)
        if (!read_hints(row + (size_t)i * TOKEN_BYTES, n_vocab, &h)) return;
    for (int i = 0; i < p->n; i++) {
        (void)read_hints(row + (size_t)(p->from + i) * TOKEN_BYTES, n_vocab, &r->hints[p->at + i]);
        r->any_known |= r->hints[p->at + i].p[0] > 0;
    }
    p->is_kept = true;
}

static int read_rows(lutra_recall *r, const lutra_model *model, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    struct lutra_model_info info;
    lutra_model_info_get(model, &info, sizeof info);
    int rc = sql_prepare(r->store, &stmt, "SELECT hints FROM hint WHERE chunk=?1 AND model=?2", err);
    for (int i = 0; i < r->n_place && rc >= 0; i++) {
        sqlite3_bind_int64(stmt, 1, r->place[i].chunk);
        sqlite3_bind_int64(stmt, 2, r->of);
        rc = sql_step(r->store, stmt, err);
        if (rc > 0) use_row(r, &r->place[i], sqlite3_column_blob(stmt, 0), sqlite3_column_bytes(stmt, 0), info.n_vocab);
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : 0;
}

/* ---- a prompt ---- */

int lutra_recall_open(lutra_recall **out, lutra_store *store, const lutra_model *model, uint64_t hints,
    const lutra_passages *passages, const int32_t *prompt, int n_prompt, struct lutra_error *err)
{
    size_t n = (size_t)lutra_passages_count(passages);
    *out = NULL;
    if (n_prompt < 1 || !prompt) return lutra_fail(err, LUTRA_E_ARGUMENT, "lutra_recall_open: the prompt is empty");
    lutra_recall *r = calloc(1, sizeof *r + (n + 1) * sizeof *r->place);
    if (r) *r = (lutra_recall){.store = store, .of = (int64_t)hints, .passages = passages, .n_prompt = n_prompt};
    if (r) r->hints = calloc((size_t)n_prompt, sizeof *r->hints);
    int rc = r && r->hints ? 0 : no_memory(store, err);
    if (rc == 0) rc = find_places(r, model, prompt, n_prompt, err);
    if (rc == 0) rc = read_rows(r, model, err);
    if (rc < 0) lutra_recall_close(&r);
    *out = r;
    return rc;
}

void lutra_recall_close(lutra_recall **recall)
{
    lutra_recall *r = *recall;
    if (!r) return;
    free(r->hints);
    free(r);
    *recall = NULL;
}

const struct lutra_hints *lutra_recall_known(const lutra_recall *recall)
{
    return recall && recall->any_known ? recall->hints : NULL;
}

void lutra_recall_take(lutra_recall *r, int first, const struct lutra_hints *hints, int n)
{
    if (!r || first < 0 || first > r->n_prompt || n < 0 || n > r->n_prompt - first) return;
    memcpy(r->hints + first, hints, (size_t)n * sizeof *hints);
}

/* ---- keeping them ---- */

static bool is_new(const lutra_recall *r, const struct place *p)
{
    for (int i = 0; i < p->n; i++)
        if (!(r->hints[p->at + i].p[0] > 0)) return false;
    return !p->is_kept;
}

static int write_row(const lutra_recall *r, sqlite3_stmt *stmt, const struct place *p, struct lutra_error *err)
{
    size_t n_bytes = (size_t)p->n_own * TOKEN_BYTES;
    uint8_t *row = calloc(n_bytes, 1);
    if (!row) return no_memory(r->store, err);
    for (int i = 0; i < p->n; i++) write_hints(row + (size_t)(p->from + i) * TOKEN_BYTES, &r->hints[p->at + i]);
    sqlite3_bind_int64(stmt, 1, p->chunk);
    sqlite3_bind_int64(stmt, 2, r->of);
    sqlite3_bind_blob64(stmt, 3, row, n_bytes, SQLITE_STATIC);
    int rc = sql_do(r->store, stmt, err);
    sqlite3_clear_bindings(stmt);
    free(row);
    return rc;
}

/* Whether the store has all passages of the prompt: hints may have words of each. */
static int all_there(const lutra_recall *r, bool *all, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(r->store, &stmt, "SELECT 1 FROM chunk WHERE id=?1", err);
    *all = true;
    for (int i = 0; i < lutra_passages_count(r->passages) && rc >= 0; i++) {
        sqlite3_bind_int64(stmt, 1, lutra_passages_at(r->passages, i)->chunk);
        rc = sql_step(r->store, stmt, err);
        *all &= rc > 0;
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : 0;
}

static int write_rows(const lutra_recall *r, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    bool all;
    TRY(all_there(r, &all, err));
    if (!all) return 0;
    int rc = sql_prepare(r->store, &stmt, "REPLACE INTO hint(chunk, model, hints) VALUES(?1, ?2, ?3)", err);
    for (int i = 0; i < r->n_place && rc == 0; i++)
        if (is_new(r, &r->place[i])) rc = write_row(r, stmt, &r->place[i], err);
    sqlite3_finalize(stmt);
    return rc;
}

int lutra_recall_save(lutra_recall *r, struct lutra_error *err)
{
    int n_new = 0;
    for (int i = 0; r && i < r->n_place; i++) n_new += is_new(r, &r->place[i]);
    if (n_new == 0) return 0;
    TRY(sql_run(r->store, "BEGIN IMMEDIATE", err));
    TRY(sql_end(r->store, write_rows(r, err), err));
    for (int i = 0; i < r->n_place; i++) r->place[i].is_kept |= is_new(r, &r->place[i]);
    return 0;
}
