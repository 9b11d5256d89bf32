/* SPDX-License-Identifier: MIT
 *
 * Drafters' guesses become rows while they pay, and what became of them teaches the next ones.
 */
#include "decode/speculate/speculate.h"

#include <stdlib.h>
#include <string.h>

#include "decode/speculate/drafter_impl.h"

static const struct drafter *const known[] = {&drafter_ngram_simple, &drafter_suffix};
enum { N_KNOWN = sizeof known / sizeof *known };

/* A guess of the pass: its row (another drafter may have made it, too), and what it rested on. */
struct mark {
    int32_t row;
    float share;
    int bucket;
};

struct used {
    const struct drafter *drafter;
    float rate[DRAFT_BUCKETS]; /* a guess with share s is right in s * rate of the cases */
    struct mark *mark;         /* [n_draft] */
    int n_mark;
};

struct speculator {
    struct row_source source;
    struct spec_settings set;
    struct used used[N_KNOWN];
    int n_used, n_draft;
};

/* ---- the cost ---- */

/* A row beside the first costs 0.09 of a pass of one: on the 1.5B shape 8 rows take 1.6 of one row's time and 32 take 3.7
 * (measured, 2 threads, Q4_0).  A prior for every machine; it is not measured where it runs. */
static const double row_cost = 0.09;

/* Tokens per cost do not fall by it: (tokens + p) / (cost + row_cost) >= tokens / cost. */
bool spec_row_pays(float p, double tokens, int n_row)
{
    return (double)p * (1 + row_cost * (n_row - 1)) >= row_cost * tokens;
}

/* ---- rates ---- */

/* Begins hopeful; after some 20 guesses it is what was seen.  A kind of guess that is not worth a row any more creeps back by
 * so little that it is tried once in about fifty of the passes that could have. */
static const float rate_prior = 0.7f, rate_gain = 0.05f, rate_return = 0.0005f;

static void learn(float *rate, float share, bool right)
{
    float r = *rate + rate_gain * ((right ? 1.0f : 0.0f) - share * *rate);
    *rate = r < 0.01f ? 0.01f : r > 0.99f ? 0.99f : r;
}

static void forgive(struct used *u, int bucket)
{
    if (u->rate[bucket] < rate_prior) u->rate[bucket] += rate_return * (rate_prior - u->rate[bucket]);
}

/* ---- the source ---- */

/* How many of the nodes become rows of a pass that will bring so many tokens. */
static int worth(
    const struct spec_settings *set, const struct pass *pass, double tokens, const struct draft_node *node, int n)
{
    int k = 0;
    while (k < n && node[k].p >= set->p_min && spec_row_pays(node[k].p, tokens, pass->batch->n_row + k))
        tokens += (double)node[k++].p;
    return k > 0 && k >= set->draft_min ? k : 0;
}

/* Returns how many rows that were not there; *tokens grows by what they are expected to bring. */
static int draft_for(struct speculator *sp, struct used *u, struct pass *pass, int tip, int most, double *tokens)
{
    struct draft_node node[SPEC_DRAFT_MOST];
    int32_t row[SPEC_DRAFT_MOST];
    struct row_tip *t = &pass->tip[tip];
    int n = u->drafter->draft(&sp->set, u->rate, t->token, t->n_token, most, node);
    int n_worth = worth(&sp->set, pass, *tokens, node, n), before = pass->batch->n_row;
    if (n > 0 && n_worth == 0) forgive(u, node[0].bucket);
    for (int i = 0; i < n_worth && u->n_mark < sp->n_draft; i++) {
        int had = pass->batch->n_row;
        row[i] = pass_draft(pass, t, node[i].parent < 0 ? t->row : row[node[i].parent], node[i].token);
        if (row[i] < 0) break; /* no room, or the sequence ends there */
        if (pass->batch->n_row > had) *tokens += (double)node[i].p;
        u->mark[u->n_mark++] = (struct mark){row[i], node[i].share, node[i].bucket};
    }
    return pass->batch->n_row - before;
}

static void offer(void *self, struct pass *pass)
{
    struct speculator *sp = self;
    double tokens = pass->n_tip;
    for (int k = 0; k < sp->n_used; k++) sp->used[k].n_mark = 0;
    for (int i = 0; i < pass->n_tip; i++) {
        int most = pass->left.drafts / (pass->n_tip - i); /* what is left is shared out evenly */
        if (most > sp->set.draft_max) most = sp->set.draft_max;
        for (int k = 0; k < sp->n_used && most > 0; k++) most -= draft_for(sp, &sp->used[k], pass, i, most, &tokens);
    }
}

static const struct row_tip *tip_of(const struct pass *pass, int32_t row)
{
    while (pass->batch->row[row].want & ROW_DRAFT) row = pass->batch->row[row].parent;
    for (int i = 0; i < pass->n_tip; i++)
        if (pass->tip[i].row == row) return &pass->tip[i];
    return NULL;
}

static bool lies_on(const struct pass *pass, int32_t row, int32_t below)
{
    while (below > row) below = pass->batch->row[below].parent;
    return below == row;
}

/* A guess counts where a token was picked right above it. */
static int take(void *self, const struct pass *pass, struct lutra_error *err)
{
    (void)err;
    struct speculator *sp = self;
    for (int k = 0; k < sp->n_used; k++) {
        struct used *u = &sp->used[k];
        for (int i = 0; i < u->n_mark; i++) {
            const struct mark *m = &u->mark[i];
            const struct row *r = &pass->batch->row[m->row];
            const struct row_tip *t = tip_of(pass, m->row);
            if (!t || t->picked < 0 || !lies_on(pass, r->parent, t->taken)) continue;
            bool right = r->parent == t->taken ? r->token == t->picked : lies_on(pass, m->row, t->taken);
            learn(&u->rate[m->bucket], m->share, right);
        }
    }
    return 0;
}

/* ---- opening ---- */

static int check(const struct spec_settings *set, struct lutra_error *err)
{
    if (set->draft_max < 1 || set->draft_max > SPEC_DRAFT_MOST)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "draft_max is %d, outside 1..%d", set->draft_max, SPEC_DRAFT_MOST);
    if (set->draft_min < 0 || set->draft_min > set->draft_max)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "draft_min is %d, outside 0..draft_max = %d", set->draft_min, set->draft_max);
    if (!(set->p_min >= 0 && set->p_min <= 1))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "draft_p_min is %g, outside 0..1", (double)set->p_min);
    if (set->ngram_n < SPEC_NGRAM_LEAST || set->ngram_n > SPEC_NGRAM_MOST)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "spec_ngram_size_n is %d, outside %d..%d", set->ngram_n,
            SPEC_NGRAM_LEAST, SPEC_NGRAM_MOST);
    return 0;
}

/* Drafters by name into sp->used. */
static int choose(struct speculator *sp, struct lutra_error *err)
{
    for (const char *at = sp->set.types; *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        int k = 0;
        while (k < N_KNOWN && (strlen(known[k]->name) != n || strncmp(known[k]->name, at, n) != 0)) k++;
        if (k == N_KNOWN)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "spec_type: '%.*s' is not built (ngram-simple and suffix are)",
                (int)(n < 100 ? n : 100), at);
        for (int i = 0; i < sp->n_used; i++)
            if (sp->used[i].drafter == known[k])
                return lutra_fail(err, LUTRA_E_ARGUMENT, "spec_type: '%s' is named twice", known[k]->name);
        sp->used[sp->n_used++].drafter = known[k];
        at += n;
    }
    return 0;
}

static int open_all(struct speculator *sp, struct lutra_error *err)
{
    TRY(check(&sp->set, err));
    TRY(choose(sp, err));
    for (int k = 0; k < sp->n_used; k++) {
        struct used *u = &sp->used[k];
        u->mark = malloc((size_t)sp->n_draft * sizeof *u->mark);
        if (!u->mark) return lutra_fail(err, LUTRA_E_NO_MEMORY, "speculation: out of memory");
        for (int b = 0; b < DRAFT_BUCKETS; b++) u->rate[b] = rate_prior;
    }
    sp->set.types = NULL; /* the caller's */
    return 0;
}

int speculator_open(struct speculator **out, const struct spec_settings *set, int n_draft, struct lutra_error *err)
{
    static const struct row_source_ops ops = {"speculation", SOURCE_DRAFTS, offer, take};
    *out = NULL;
    if (!set->types || !*set->types || strcmp(set->types, "none") == 0) return 0;
    struct speculator *sp = calloc(1, sizeof *sp);
    if (!sp) return lutra_fail(err, LUTRA_E_NO_MEMORY, "speculation: out of memory");
    sp->source = (struct row_source){&ops, sp, NULL};
    sp->set = *set;
    sp->n_draft = n_draft;
    int rc = open_all(sp, err);
    if (rc < 0) {
        speculator_close(&sp);
        return rc;
    }
    *out = sp;
    return 0;
}

void speculator_close(struct speculator **sp)
{
    if (!*sp) return;
    for (int k = 0; k < (*sp)->n_used; k++) free((*sp)->used[k].mark);
    free(*sp);
    *sp = NULL;
}

struct row_source *speculator_source(struct speculator *sp)
{
    return &sp->source;
}
