/* SPDX-License-Identifier: MIT
 *
 * Drafts from a store's tokens: the longest end of a text that occurs there, and a tree of what followed, best first.
 *
 * An estimate is the share of the occurrences that went on so, times the rate of its kind: length of the match, whether
 * it occurs once or more often, at the tip or behind.  Rates are learnt by who evaluates the drafts (lutra_draft.kind).
 */
#include "base/settings.h"
#include "rag/segments.h"

enum {
    MATCH_MOST = 16,
    DRAFTS_MOST = 64,
    PROBES = 16,  /* of a span: who goes on in one of 16 occurrences is found */
    CHILDREN = 4, /* of a guess, the likeliest */
    PLACES_MOST = 1 + (DRAFTS_MOST + 1) * CHILDREN,
    KINDS = 24,
};
_Static_assert((int)KINDS <= (int)LUTRA_DRAFT_KINDS, "a rate for each");

/* Less likely paths are not looked into. */
static const float path_least = 0.02f;

/* A guess, made or possible. */
struct place {
    int32_t token;
    int node;        /* its number once it is a draft; the tip is -1 */
    int parent;      /* place */
    int depth, kind; /* depth: tokens behind the text; that of the tip is 0 */
    float share, p;  /* of its parent's occurrences; estimate of the whole path */
    int64_t n;       /* occurrences */
    bool is_made;
    struct span span[SEGMENTS_MOST]; /* of each segment: the entries that have the match and the path */
};

struct lutra_drafts {
    struct segments segments;
    const float *rate; /* [KINDS] as the tip has it, or NULL */
    struct place place[PLACES_MOST];
    int n_place;
    int n_match; /* tokens of the tip's match */
};

/* ---- rates ---- */

/* 1, 2, 3-4, 5-8, 9-16 tokens, more. */
static int length_class(int n)
{
    int b = 0;
    while (b < 5 && n > 1 << b) b++;
    return b;
}

static int kind_of(int n_match, int depth, int64_t n)
{
    return 4 * length_class(n_match + depth) + 2 * (n > 1) + (depth > 0);
}

/* By length: what most texts come near to. */
static float prior_of(int kind)
{
    static const float prior[KINDS / 4] = {0.1f, 0.3f, 0.5f, 0.7f, 0.8f, 0.9f};
    return prior[kind / 4];
}

static float rate_of(const struct lutra_drafts *d, int kind)
{
    return d->rate && d->rate[kind] > 0 ? d->rate[kind] : prior_of(kind);
}

/* ---- the match ---- */

static bool is_token(const struct segments *s, int32_t token)
{
    return s->n && token >= 0 && token < s->at[0].head->n_symbol - 1;
}

/* The entries of each segment that begin with token[n]; returns how many there are. */
static int64_t find(const struct segments *s, const int32_t *token, int n, struct span *span)
{
    int64_t sum = 0;
    for (int i = 0; i < s->n; i++) {
        span[i] = (struct span){0, s->at[i].tokens.n};
        for (int d = 0; d < n && span[i].from < span[i].to; d++)
            span[i] = suffixes_narrow(&s->at[i].tokens, span[i], d, token[d] + 1);
        sum += span[i].to - span[i].from;
    }
    return sum;
}

/* The longest end of the text that occurs, by bisection: with an end occur all shorter ones. */
static int find_longest(const struct segments *s, const int32_t *token, int n_token, struct place *tip)
{
    int low = 0, high = n_token < MATCH_MOST ? n_token : MATCH_MOST;
    struct span span[SEGMENTS_MOST];
    for (int n = 1; n <= high; n++)
        if (!is_token(s, token[n_token - n])) high = n - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        int64_t n = find(s, token + n_token - middle, middle, span);
        if (n == 0) {
            high = middle - 1;
            continue;
        }
        low = middle;
        tip->n = n;
        memcpy(tip->span, span, sizeof span);
    }
    return low;
}

/* ---- the tree ---- */

/* A possible guess beneath a place, unless it is among those from `first` on. */
static void add_child(struct lutra_drafts *d, int up, int first, int32_t symbol)
{
    const struct place *parent = &d->place[up];
    struct place c = {.token = symbol - 1, .node = -1, .parent = up, .depth = parent->depth + 1};
    int at = d->n_place;
    for (int i = first; i < d->n_place; i++)
        if (d->place[i].token == c.token) return;
    for (int i = 0; i < d->segments.n; i++) {
        c.span[i] = parent->span[i];
        if (c.span[i].from < c.span[i].to)
            c.span[i] = suffixes_narrow(&d->segments.at[i].tokens, c.span[i], d->n_match + parent->depth, symbol);
        c.n += c.span[i].to - c.span[i].from;
    }
    if (at - first == CHILDREN) { /* in place of the rarest, if that is rarer */
        at = first;
        for (int i = first + 1; i < d->n_place; i++)
            if (d->place[i].n < d->place[at].n) at = i;
        if (d->place[at].n >= c.n) return;
    } else {
        d->n_place++;
    }
    c.kind = kind_of(d->n_match, parent->depth, parent->n);
    c.share = (float)c.n / (float)parent->n;
    c.p = parent->p * c.share * rate_of(d, c.kind);
    d->place[at] = c;
}

/* What followed a place most often: spans are sorted by it, so that even steps through them meet it. */
static void add_children(struct lutra_drafts *d, int up)
{
    int first = d->n_place;
    for (int i = 0; i < d->segments.n; i++) {
        const struct span *span = &d->place[up].span[i];
        int64_t n = span->to - span->from, n_probe = n < PROBES ? n : PROBES;
        int32_t last = 0;
        for (int64_t k = 0; k < n_probe; k++) {
            int32_t entry = span->from + (int32_t)((2 * k + 1) * n / (2 * n_probe));
            int32_t symbol = suffixes_symbol(&d->segments.at[i].tokens, entry, d->n_match + d->place[up].depth);
            if (symbol > 0 && symbol != last) add_child(d, up, first, symbol);
            last = symbol;
        }
    }
}

static int choose(const struct lutra_drafts *d)
{
    int best = -1;
    for (int i = 1; i < d->n_place; i++) {
        const struct place *c = &d->place[i];
        if (!c->is_made && c->p >= path_least && (best < 0 || c->p > d->place[best].p)) best = i;
    }
    return best;
}

static int grow(struct lutra_drafts *d, struct lutra_draft *draft, int n_max)
{
    int n = 0;
    add_children(d, 0);
    for (int k; n < n_max && (k = choose(d)) >= 0; n++) {
        struct place *c = &d->place[k];
        const struct place *up = &d->place[c->parent];
        c->is_made = true;
        c->node = n;
        draft[n] = (struct lutra_draft){c->token, up->node, c->share, 1 + c->kind, prior_of(c->kind)};
        add_children(d, k);
    }
    return n;
}

int lutra_drafts_guess(lutra_drafts *d, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    struct place *root = &d->place[0];
    *root = (struct place){.node = -1, .share = 1, .p = 1, .is_made = true};
    d->rate = tip->rate;
    d->n_place = 1;
    d->n_match = find_longest(&d->segments, tip->token, tip->n_token, root);
    return d->n_match > 0 ? grow(d, draft, n_max < DRAFTS_MOST ? n_max : DRAFTS_MOST) : 0;
}

/* ---- opening ---- */

int lutra_drafts_open(lutra_drafts **out, lutra_store *store, const lutra_model *model, lutra_progress_fn progress,
    void *progress_user, struct lutra_error *err)
{
    *out = NULL;
    lutra_drafts *d = calloc(1, sizeof *d);
    if (!d) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", store->path);
    int rc = segments_open(&d->segments, store, model, progress, progress_user, err);
    if (rc < 0)
        lutra_drafts_close(&d);
    else
        *out = d;
    return rc;
}

void lutra_drafts_close(lutra_drafts **drafts)
{
    if (!*drafts) return;
    segments_close(&(*drafts)->segments);
    free(*drafts);
    *drafts = NULL;
}

/* ---- frequencies ---- */

struct count {
    int64_t n;
    int32_t token;
};

static int by_frequency(const void *a, const void *b)
{
    const struct count *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

int lutra_drafts_likely(const lutra_drafts *d, int32_t *token, int n_max, struct lutra_error *err)
{
    const struct segments *s = &d->segments;
    int32_t n_vocab = s->n ? s->at[0].head->n_symbol - 1 : 0;
    int n = 0;
    struct count *count = calloc((size_t)n_vocab + 1, sizeof *count);
    if (!count) return lutra_fail(err, LUTRA_E_NO_MEMORY, "lutra_drafts_likely: out of memory");
    for (int32_t i = 0; i <= n_vocab; i++) count[i].token = i - 1;
    for (int i = 0; i < s->n; i++)
        for (int32_t k = 0; k < s->at[i].tokens.n; k++) count[s->at[i].tokens.symbol[k]].n++;
    qsort(count + 1, (size_t)n_vocab, sizeof *count, by_frequency); /* symbol 0 ends a text */
    while (n < n_max && n < n_vocab && count[n + 1].n > 0) token[n] = count[n + 1].token, n++;
    free(count);
    return n;
}

void lutra_drafts_stats_get(const lutra_drafts *drafts, struct lutra_drafts_stats *stats, size_t size)
{
    const struct segments *s = &drafts->segments;
    struct lutra_drafts_stats own = {
        .size = sizeof own, .n_text = s->n_text, .n_tok = s->n_symbol - s->n_text, .n_segment = s->n};
    for (int i = 0; i < s->n; i++) own.segment_bytes += s->at[i].n_bytes;
    settings_fill(stats, size, &own);
}
