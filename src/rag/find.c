/* SPDX-License-Identifier: MIT
 *
 * Search: exactly the order of FTS5's bm25(), in a fraction of its time.
 *
 * FTS5 would evaluate bm25() for each chunk with any of the words; with the commonest ones that is every chunk, and
 * each costs a look-up of its length.  Here an auxiliary function walks the hits of one phrase after another, the
 * lengths stand in an array, and the sums in another.  Hits of common words are kept while the file does not change.
 */
#include <math.h>

#include "rag/query.h"
#include "rag/rag_impl.h"

enum {
    CACHED_WORDS = 1024,
    CACHED_HITS_LEAST = 1024,  /* rarer words are read as fast */
    CACHED_HITS_MAX = 8 << 20, /* 8 bytes each, of all words together */
    FIND_MAX = 1000,
};

/* FTS5's constants of bm25(), and its least idf: of a word in more than half of the chunks. */
static const double BM25_K1 = 1.2, BM25_B = 0.75, IDF_LEAST = 1e-6;

/* Of a word that only earlier questions have, beside one of the question: a new subject wins over them. */
static const double EARLIER_WEIGHT = 0.5;

/* Which words say nothing about the subject of a chunk.  In a question with a word that no chunk has, the answer is
 * likely missing: those that a fifth of the chunks have.  In others only those that half of the chunks have, and about
 * as many as if they were strewn at random: the subject of all documents is as frequent, but it gathers.  The measure
 * is residual IDF (Church and Gale, 1995): how many bits the IDF is above that of a Poisson law of the same mean, here
 * in chunks of their lengths.  Of words in few chunks nothing is known: a small store may be all about one thing. */
enum { LENGTH_BINS = 64, BINS_A_MEAN = 16 };
static const struct spread {
    double share, n, residual; /* of the chunks, and chunks, at least; bits, less than */
} SPREAD_MISSING = {0.2, 16, INFINITY}, SPREAD_COMPLETE = {0.5, 32, 0.2};

struct hit {
    uint32_t chunk; /* index into word_cache.id */
    uint32_t n;     /* how often */
};

struct hits {
    char *phrase; /* NULL: not kept */
    struct hit *hit;
    size_t n, room;
};

/* One state of the file. */
struct word_cache {
    int64_t version;
    int64_t *id;  /* [n_chunk] ascending */
    double *norm; /* [n_chunk] its length in words; then k1 * (1 - b + b * length / mean length) */
    double *sum;  /* [n_chunk] of this search */
    uint8_t *own; /* [n_chunk] whether it has a word that tells its subject */
    struct {
        double n, length; /* chunks, and the sum of their lengths over the mean length */
    } bin[LENGTH_BINS];   /* by length */
    size_t n_chunk, room;
    struct hits kept[CACHED_WORDS];
    int n_kept;
    size_t n_kept_hits;
};

void word_cache_free(struct word_cache **cache)
{
    struct word_cache *c = *cache;
    if (!c) return;
    for (int i = 0; i < c->n_kept; i++) {
        free(c->kept[i].phrase);
        free(c->kept[i].hit);
    }
    free(c->id);
    free(c->norm);
    free(c->sum);
    free(c->own);
    free(c);
    *cache = NULL;
}

static int no_memory(const lutra_store *s, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", s->path);
}

/* ---- lengths ---- */

static int add_length(void *user, int64_t id, uint32_t n)
{
    struct word_cache *c = user;
    if (c->n_chunk == UINT32_MAX) return -1;
    if (c->n_chunk == c->room) {
        size_t room = c->room * 2 + 1024;
        int64_t *ids = realloc(c->id, room * sizeof *ids);
        if (ids) c->id = ids;
        double *norms = realloc(c->norm, room * sizeof *norms);
        if (norms) c->norm = norms;
        if (!ids || !norms) return -1;
        c->room = room;
    }
    c->id[c->n_chunk] = id;
    c->norm[c->n_chunk++] = n;
    return 0;
}

static int read_lengths(lutra_store *s, struct word_cache *c, struct lutra_error *err)
{
    double total = 0;
    TRY(lengths_read(s, add_length, c, err));
    for (size_t i = 0; i < c->n_chunk; i++) total += c->norm[i];
    double mean = total > 0 ? total / (double)c->n_chunk : 1;
    for (size_t i = 0; i < c->n_chunk; i++) {
        double length = c->norm[i] / mean, at = length * BINS_A_MEAN;
        int bin = at < LENGTH_BINS ? (int)at : LENGTH_BINS - 1;
        c->bin[bin].n++;
        c->bin[bin].length += length;
        c->norm[i] = BM25_K1 * (1 - BM25_B + BM25_B * c->norm[i] / mean); /* in FTS5's order: the same bits */
    }
    c->sum = malloc((c->n_chunk + 1) * sizeof *c->sum);
    c->own = malloc(c->n_chunk + 1);
    return c->sum && c->own ? 0 : no_memory(s, err);
}

/* What is kept of the file, as it is now. */
static int refresh(lutra_store *s, struct lutra_error *err)
{
    int64_t others;
    TRY(sql_number(s, "PRAGMA data_version", &others, err)); /* changes when another connection has committed */
    int64_t version = others + ((int64_t)sqlite3_total_changes(s->db) << 32);
    if (s->words && s->words->version == version) return 0;
    word_cache_free(&s->words);
    struct word_cache *c = calloc(1, sizeof *c);
    if (!c) return no_memory(s, err);
    c->version = version;
    int rc = read_lengths(s, c, err);
    if (rc < 0)
        word_cache_free(&c);
    else
        s->words = c;
    return rc;
}

/* ---- hits ---- */

struct collector {
    struct word_cache *cache;
    struct hits *hits; /* [n_phrase] of the expression */
    int n_phrase;
    struct hits *now;
    size_t at; /* in cache->id: hits come in ascending order */
};

/* The first index from c->at on whose id is at least `id`. */
static size_t seek(const struct collector *c, int64_t id)
{
    size_t low = c->at, step = 1, n = c->cache->n_chunk;
    while (low + step < n && c->cache->id[low + step] < id) {
        low += step;
        step *= 2;
    }
    size_t high = low + step < n ? low + step : n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->cache->id[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Places behind the first one: varints of 7 bits a byte, without marks of columns, since there is one column (FTS5's
 * format of a list of positions). */
static uint32_t count_varints(const unsigned char *from, const unsigned char *to)
{
    uint32_t n = 0;
    for (; from < to; from++) n += *from < 0x80;
    return n;
}

static int on_hit(const Fts5ExtensionApi *api, Fts5Context *fts, void *user)
{
    struct collector *c = user;
    struct hits *h = c->now;
    Fts5PhraseIter it;
    uint32_t n;
    int column, offset, code;
    c->at = seek(c, api->xRowid(fts));
    if (c->at == c->cache->n_chunk) return SQLITE_DONE; /* an index that knows more than there is: damaged */
    if (c->cache->id[c->at] != api->xRowid(fts)) return SQLITE_OK;
    code = api->xPhraseFirst(fts, 0, &it, &column, &offset);
    if (code != SQLITE_OK) return code;
    n = column < 0 ? 0 : 1 + count_varints(it.a, it.b);
    if (h->n == h->room) {
        size_t room = h->room * 2 + 64;
        struct hit *more = realloc(h->hit, room * sizeof *more);
        if (!more) return SQLITE_NOMEM;
        h->hit = more;
        h->room = room;
    }
    h->hit[h->n++] = (struct hit){(uint32_t)c->at, n};
    return SQLITE_OK;
}

/* lutra_hits(words, collector): called for the first row that matches; walks each phrase by itself. */
static void collect(
    const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *result, int n_arg, sqlite3_value **arg)
{
    struct collector *c = n_arg == 1 ? sqlite3_value_pointer(arg[0], "lutra_collector") : NULL;
    int code = c && api->xPhraseCount(fts) == c->n_phrase ? SQLITE_OK : SQLITE_MISUSE;
    for (int i = 0; i < (c ? c->n_phrase : 0) && code == SQLITE_OK; i++) {
        c->now = &c->hits[i];
        c->at = 0;
        code = api->xQueryPhrase(fts, i, c, on_hit);
    }
    if (code != SQLITE_OK)
        sqlite3_result_error_code(result, code);
    else
        sqlite3_result_int(result, 1);
}

int find_register(lutra_store *s, struct lutra_error *err)
{
    int code = s->fts->xCreateFunction(s->fts, "lutra_hits", NULL, collect, NULL);
    return code == SQLITE_OK ? 0 : store_fail(s, code, err);
}

/* Hits of all phrases of an expression, in its order. */
static int collect_hits(lutra_store *s, const char *expression, struct collector *c, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(s, &stmt, "SELECT lutra_hits(words, ?2) FROM words WHERE words MATCH ?1 LIMIT 1", err);
    if (rc == 0) {
        sqlite3_bind_text(stmt, 1, expression, -1, SQLITE_STATIC);
        sqlite3_bind_pointer(stmt, 2, c, "lutra_collector", NULL);
        rc = sql_step(s, stmt, err);
    }
    sqlite3_finalize(stmt);
    return rc < 0 ? rc : 0;
}

/* ---- a search ---- */

struct search {
    lutra_store *store;
    struct query query;
    int n_own;                                  /* phrases of the question itself, which come first */
    const struct hits *hits[QUERY_PHRASES_MAX]; /* of each phrase */
    struct hits read[QUERY_PHRASES_MAX];        /* those that were not kept */
    int n_read;
    struct text expression; /* the phrases that were not kept */
};

static const struct hits *find_kept(const struct word_cache *c, const char *phrase)
{
    for (int i = 0; i < c->n_kept; i++)
        if (strcmp(c->kept[i].phrase, phrase) == 0) return &c->kept[i];
    return NULL;
}

static int gather(struct search *f, struct lutra_error *err)
{
    struct word_cache *cache = f->store->words;
    for (int i = 0; i < f->query.n; i++) {
        const char *phrase = f->query.text.bytes + f->query.phrase[i];
        f->hits[i] = find_kept(cache, phrase);
        if (f->hits[i]) continue;
        if (f->n_read) text_add(&f->expression, " OR ", 4);
        text_add(&f->expression, phrase, strlen(phrase));
        f->hits[i] = &f->read[f->n_read++];
    }
    if (f->expression.failed) return no_memory(f->store, err);
    if (f->n_read == 0) return 0;
    struct collector c = {.cache = cache, .hits = f->read, .n_phrase = f->n_read};
    return collect_hits(f->store, f->expression.bytes, &c, err);
}

/* Common words stay; when there is no more room for them, all go. */
static void keep_common(struct search *f)
{
    struct word_cache *c = f->store->words;
    for (int i = 0; i < f->query.n; i++) {
        struct hits *h = (struct hits *)f->hits[i];
        if (h->phrase || h->n < CACHED_HITS_LEAST || h->n > CACHED_HITS_MAX / 4) continue;
        if (c->n_kept == CACHED_WORDS || c->n_kept_hits + h->n > CACHED_HITS_MAX) {
            for (int k = 0; k < c->n_kept; k++) {
                free(c->kept[k].phrase);
                free(c->kept[k].hit);
            }
            c->n_kept = 0;
            c->n_kept_hits = 0;
        }
        h->phrase = strdup(f->query.text.bytes + f->query.phrase[i]);
        if (!h->phrase) return;
        c->n_kept_hits += h->n;
        c->kept[c->n_kept++] = *h;
        *h = (struct hits){0};
    }
}

/* In the order of FTS5's sums, so that the results have the same bits. */
static void add_up(struct search *f)
{
    struct word_cache *c = f->store->words;
    memset(c->sum, 0, c->n_chunk * sizeof *c->sum);
    for (int i = 0; i < f->query.n; i++) {
        const struct hits *h = f->hits[i];
        double idf = log(((double)c->n_chunk - (double)h->n + 0.5) / ((double)h->n + 0.5));
        if (!(idf > 0)) idf = IDF_LEAST;
        if (i >= f->n_own) idf *= EARLIER_WEIGHT;
        for (size_t k = 0; k < h->n; k++) {
            double n = h->hit[k].n;
            c->sum[h->hit[k].chunk] += idf * ((n * (BM25_K1 + 1)) / (n + c->norm[h->hit[k].chunk]));
        }
    }
}

static bool is_spread(const struct word_cache *c, const struct hits *h, const struct spread *bound)
{
    double n = 0, strewn = 0; /* how often it stands there; the chunks that would have it by chance */
    if ((double)h->n < bound->share * (double)c->n_chunk || (double)h->n < bound->n) return false;
    for (size_t k = 0; k < h->n; k++) n += h->hit[k].n;
    for (int i = 0; i < LENGTH_BINS; i++)
        if (c->bin[i].n > 0)
            strewn += c->bin[i].n * (1 - exp(-n / (double)c->n_chunk * c->bin[i].length / c->bin[i].n));
    return log2(strewn / (double)h->n) < bound->residual;
}

/* Chunks that share with a question nothing but words which say nothing are not found. */
static void drop_untold(struct search *f)
{
    struct word_cache *c = f->store->words;
    const struct spread *bound = &SPREAD_COMPLETE;
    for (int i = 0; i < f->n_own; i++)
        if (f->hits[i]->n == 0) bound = &SPREAD_MISSING;
    memset(c->own, 0, c->n_chunk);
    for (int i = 0; i < f->query.n; i++) {
        const struct hits *h = f->hits[i];
        if (is_spread(c, h, bound)) continue;
        for (size_t k = 0; k < h->n; k++) c->own[h->hit[k].chunk] = 1;
    }
    for (size_t i = 0; i < c->n_chunk; i++)
        if (!c->own[i]) c->sum[i] = 0;
}

/* Indices of the best n_max chunks in best[], in order; returns how many.  Equal ones: the earlier chunk first. */
static int choose(const struct word_cache *c, uint32_t *best, int n_max)
{
    int n = 0;
    for (size_t i = 0; i < c->n_chunk; i++) {
        if (c->sum[i] <= 0 || (n == n_max && c->sum[i] <= c->sum[best[n - 1]])) continue;
        int at = n < n_max ? n++ : n - 1;
        for (; at > 0 && c->sum[best[at - 1]] < c->sum[i]; at--) best[at] = best[at - 1];
        best[at] = (uint32_t)i;
    }
    return n;
}

static int fetch(struct search *f, const uint32_t *best, int n, lutra_passages *p, struct lutra_error *err)
{
    const struct word_cache *c = f->store->words;
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(f->store, &stmt,
        "SELECT document, begin, end, text, name FROM chunk JOIN document ON document.id=chunk.document WHERE "
        "chunk.id=?1",
        err);
    for (int i = 0; i < n && rc == 0; i++) {
        sqlite3_bind_int64(stmt, 1, c->id[best[i]]);
        if ((rc = sql_step(f->store, stmt, err)) <= 0) break; /* 0: an index that knows more than there is: damaged */
        rc = passages_add(p, c->id[best[i]], c->sum[best[i]], stmt);
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    if (rc < 0 || p->n == n) return rc < 0 && p->all.failed ? no_memory(f->store, err) : rc;
    return lutra_fail(
        err, LUTRA_E_FORMAT, "%s: the store is damaged: the index has a chunk that is not there", f->store->path);
}

/* What `fn` does with a query, in one state of the file. */
static int with_search(lutra_store *s, const struct query *q, int n_own,
    int (*fn)(struct search *f, void *user, struct lutra_error *err), void *user, struct lutra_error *err)
{
    struct search *f = calloc(1, sizeof *f);
    if (!f) return no_memory(s, err);
    f->store = s;
    f->query = *q;
    f->n_own = n_own;
    int rc = sql_run(s, "BEGIN", err);
    if (rc == 0) rc = sql_end(s, fn(f, user, err), err);
    for (int i = 0; i < f->n_read; i++) free(f->read[i].hit);
    text_fini(&f->expression);
    free(f);
    return rc;
}

struct wanted {
    int n_max;
    bool asks;
    lutra_passages *passages;
};

static int search(struct search *f, void *user, struct lutra_error *err)
{
    const struct wanted *w = user;
    uint32_t best[FIND_MAX];
    TRY(refresh(f->store, err));
    TRY(gather(f, err));
    add_up(f);
    if (w->asks) drop_untold(f);
    int n = choose(f->store->words, best, w->n_max);
    keep_common(f);
    return fetch(f, best, n, w->passages, err);
}

/* asks: chunks that tell nothing about its subject are not found. */
struct question {
    const char *earlier, *text;
    size_t n_earlier, n;
    bool asks;
};

static int find(
    lutra_store *store, const struct question *question, int n_max, lutra_passages **out, struct lutra_error *err)
{
    *out = NULL;
    if (n_max < 1 || n_max > FIND_MAX)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "lutra_store_find: n_max %d is not in 1 .. %d", n_max, FIND_MAX);
    struct query q;
    lutra_passages *p = calloc(1, sizeof *p);
    bool good = query_read(&q, question->text ? question->text : "", question->text ? question->n : 0) && p;
    int n_own = q.n, rc = 0;
    if (good && question->earlier) good = query_add(&q, question->earlier, question->n_earlier);
    if (good) rc = with_search(store, &q, n_own, search, &(struct wanted){n_max, question->asks, p}, err);
    if (good && rc == 0) good = passages_finish(p) == 0;
    query_fini(&q);
    if (!good) rc = no_memory(store, err);
    if (rc < 0) lutra_passages_close(&p);
    *out = p;
    return rc;
}

int lutra_store_find(
    lutra_store *store, const char *query, size_t n_query, int n_max, lutra_passages **out, struct lutra_error *err)
{
    return find(store, &(struct question){.text = query, .n = n_query}, n_max, out, err);
}

int lutra_store_find_after(lutra_store *store, const char *earlier, size_t n_earlier, const char *query, size_t n_query,
    int n_max, lutra_passages **out, struct lutra_error *err)
{
    return find(store, &(struct question){earlier, query, n_earlier, n_query, true}, n_max, out, err);
}

/* ---- who has a phrase ---- */

static int by_index(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    return (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

static int look(struct search *f, void *user, struct lutra_error *err)
{
    struct holders *h = user;
    TRY(refresh(f->store, err));
    TRY(gather(f, err));
    const struct word_cache *c = f->store->words;
    struct collector all = {.cache = f->store->words};
    size_t at = seek(&all, h->chunk);
    bool is_there = at < c->n_chunk && c->id[at] == h->chunk;
    h->n_chunk = (int64_t)c->n_chunk;
    for (int i = 0; i < f->query.n; i++) {
        const struct hits *hits = f->hits[i];
        struct hit key = {.chunk = (uint32_t)at};
        h->n[i] = (int64_t)hits->n;
        h->has[i] = is_there && hits->n && bsearch(&key, hits->hit, hits->n, sizeof key, by_index);
    }
    keep_common(f);
    return 0;
}

int find_holders(lutra_store *s, const struct query *q, struct holders *h, struct lutra_error *err)
{
    return with_search(s, q, q->n, look, h, err);
}
