/* SPDX-License-Identifier: MIT
 *
 * Drafters' guesses become rows while they pay, and what became of them teaches the next ones.
 */
#include "decode/speculate/speculate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decode/speculate/drafter_impl.h"
#include "decode/speculate/worth_impl.h"

enum { MOST_DRAFTERS = 9 /* all of them */, TYPE_PARTS = 5, DOMAINS = 64, NOBODYS = DOMAINS };

/* Which of them `auto` has: those that pay everywhere (docs/SPECULATION.md). */
static const struct {
    const char *name;
    const struct drafter *part[TYPE_PARTS];
} types[] = {
    {"ngram-simple", {&drafter_ngram_simple}},
    {"suffix", {&drafter_suffix}},
    {"siblings", {&drafter_siblings}},
    {"calibrated", {&drafter_calibrated}},
    {"recycle", {&drafter_recycle, &drafter_extend}},
    {"draft", {&drafter_model}},
    {"mtp", {&drafter_mtp}},
    {"auto", {&drafter_suffix, &drafter_siblings, &drafter_recycle, &drafter_extend, &drafter_mtp}},
    {"draft-simple", {&drafter_model}}, /* as llama.cpp names them */
    {"draft-mtp", {&drafter_mtp}},
};
enum { N_TYPE = sizeof types / sizeof *types };

/* What the others say where one has guessed: nothing, the same, something else. */
enum view { ALONE, AGREED, OPPOSED, N_VIEW };

struct used {
    const struct drafter *drafter;
    void *self;  /* the drafter's own */
    uint64_t us; /* that it has taken since it was weighed */
};

/* How often a drafter's guesses were right in the texts of one cache domain. */
struct rates {
    float rate[DRAFT_KINDS];
    float viewed[N_VIEW][DRAFT_KINDS];                          /* the same by view; 0: none seen yet */
    uint8_t n_rate[DRAFT_KINDS], n_viewed[N_VIEW][DRAFT_KINDS]; /* guesses that these were learnt from, up to LEARNT */
    const struct row_tip *tried[DRAFT_KINDS];                   /* the first tip of the pass with guesses of a kind */
};

/* A path of guesses below a tip, whoever made them. */
struct path {
    int32_t token;
    int parent;
    uint16_t by, below; /* bitmasks of drafters used[k]: whose best guess here is this token; who guesses behind it */
    bool faint;         /* only faint ones have guessed it */
    float right, p;     /* estimates that it is right where its parent is, that all of it is */
};

/* One drafter's guesses at one tip. */
struct stream {
    struct row_tip *tip;
    const struct drafter *drafter;
    struct rates *rates;     /* of its tip's domain */
    float counts;            /* a token of its tip */
    struct draft_node *node; /* [draft_max] */
    int n, at;               /* nodes before `at` have been looked at */
};

/* A guess of the pass: its row (another drafter may have made it, too), whose it is, and what it rested on. */
struct mark {
    int32_t row;
    int by, kind, view; /* used[by] */
    float share, prior;
};

struct speculator {
    struct row_source source;
    struct spec_settings set;
    struct spec_limits lim;
    struct used used[MOST_DRAFTERS];
    int n_used;
    struct draft_domain domain[DOMAINS];
    struct rates *rates;    /* [DOMAINS + 1][n_used]; NOBODYS: as they begin, for domains that have no place */
    int *place;             /* [n_seq] of the domains of a pass's tips */
    const float **tip_rate; /* [n_seq] one drafter's */
    int64_t n_pass;
    struct stream *stream; /* [n_seq][n_used] */
    int n_stream;
    float *counts;           /* [n_seq] what a token of a tip counts */
    struct draft_node *node; /* [n_seq][n_used][draft_max] */
    struct path *path;       /* [1 + n_used * draft_max] of one tip; path[0] is the tip */
    struct mark *mark;       /* [n_draft][n_used] */
    int n_mark;

    /* Whether drafters pay for their time; only where passes are measured */
    struct worth worth[MOST_DRAFTERS]; /* [n_used] */
    bool weighs;
    uint16_t *by;          /* [n_draft] of the draft rows in order: who has drafted them, a bit each */
    int32_t first;         /* of them */
    double pass_us, seen;  /* what the pass is estimated to take, drafting left out; positions that its rows see */
    double tokens, all_us; /* of a pass: means of n_weighed, or of the last twenty */
    int n_weighed;
    uint64_t spent_us;
};

/* ---- rates ---- */

/* A rate begins as the drafter says, which counts as PRIOR guesses; it is the mean of what was seen, at last of some 20
 * guesses.  An unprofitable kind of guess decays back slowly, so it is retried in about 1 of 50 eligible passes. */
enum { PRIOR = 4, LEARNT = 20 };
static const float rate_return = 0.0005f;

static void learn(float *rate, uint8_t *n, float share, bool right)
{
    *n = (uint8_t)(*n < LEARNT - PRIOR ? *n + 1 : LEARNT - PRIOR);
    float r = *rate + 1.0f / (float)(PRIOR + *n) * ((right ? 1.0f : 0.0f) - share * *rate);
    *rate = r < 0.01f ? 0.01f : r > 0.99f ? 0.99f : r;
}

static float prior_of(const struct drafter *drafter, const struct draft_node *n)
{
    return drafter->n_prior && n->kind >= drafter->n_prior ? n->prior : drafter->prior;
}

static struct rates *rates_of(const struct speculator *sp, int tip, int k)
{
    return &sp->rates[sp->place[tip] * sp->n_used + k];
}

/* What has been learnt of a tip's domain; what the pass will teach goes there, too. */
static void find_places(struct speculator *sp, const struct pass *pass)
{
    sp->n_pass++;
    for (int i = 0; i < pass->n_tip; i++) {
        bool was_others;
        int at = draft_domain_take(sp->domain, DOMAINS, pass->tip[i].domain, sp->n_pass, &was_others);
        sp->place[i] = at < 0 ? NOBODYS : at;
        struct rates *of = rates_of(sp, i, 0);
        if (was_others) memcpy(of, &sp->rates[NOBODYS * sp->n_used], (size_t)sp->n_used * sizeof *of);
        for (int k = 0; k < sp->n_used; k++) memset(of[k].tried, 0, sizeof of[k].tried);
    }
}

static void forgive(const struct stream *s)
{
    const struct draft_node *first = s->node;
    float prior = prior_of(s->drafter, first);
    float *rate[] = {&s->rates->rate[first->kind], &s->rates->viewed[first->view][first->kind]};
    for (int i = 0; i < 2 && first->row < 0; i++)
        if (*rate[i] > 0 && *rate[i] < prior) *rate[i] += rate_return * (prior - *rate[i]);
}

/* ---- what pays ---- */

/* The pass as it stands: what it is expected to bring, and what that costs. */
struct offer {
    double tokens, seen; /* seen: positions that its rows see */
    double draft_us;     /* that drafting takes */
};

static double gain(const struct speculator *sp, const struct pass *pass, const struct offer *o)
{
    return o->tokens / (row_cost_of(sp->lim.cost, pass->batch->n_row, o->seen) + o->draft_us);
}

/* Whether even guesses that are all right would not pay: beside many samples nobody needs to draft. */
static bool is_vain(const struct speculator *sp, const struct pass *pass, const struct offer *o)
{
    int n = pass->batch->n_row;
    double now = o->tokens / row_cost_of(sp->lim.cost, n, o->seen), each = o->seen / n;
    float most = 1;
    for (int i = 0; i < pass->n_tip; i++) most = sp->counts[i] > most ? sp->counts[i] : most;
    for (int k = 1; k <= 4 * sp->set.draft_max && k <= sp->lim.n_draft; k++)
        if ((o->tokens + (double)most * k) / (row_cost_of(sp->lim.cost, n + k, o->seen + k * each) + o->draft_us) > now)
            return false;
    return true;
}

/* A request is over when the last of its n samples is.  A token counts by the odds that its sample is that last one:
 * they fall with its lead over the one furthest behind, in halves of the mean length so far.  All n together count less
 * than n where texts are short: of drafts that are right by chance the least lucky sample has `unlucky` deviations
 * fewer than the mean, and it is the one that ends the request. */
static void count_tokens(struct speculator *sp, const struct pass *pass)
{
    for (int i = 0; i < pass->n_tip; i++) {
        const struct row_tip *a = &pass->tip[i];
        int n = 0, least = a->n_token, sum = 0;
        float all = 0;
        for (int j = 0; j < pass->n_tip; j++) {
            const struct row_tip *b = &pass->tip[j];
            if (b->request != a->request) continue;
            n++;
            sum += 1 + b->n_token - b->n_prompt;
            if (b->n_token < least) least = b->n_token;
        }
        float mean = (float)sum / (float)n, unlucky = 0.75f * sqrtf(2 * logf((float)n));
        for (int j = 0; j < pass->n_tip; j++)
            if (pass->tip[j].request == a->request) all += expf((float)(least - pass->tip[j].n_token) / (0.5f * mean));
        float count = (float)n * fmaxf(0.25f, 1 - unlucky / sqrtf(mean));
        sp->counts[i] = count * expf((float)(least - a->n_token) / (0.5f * mean)) / all;
    }
}

/* What drafting takes in a pass, on average. */
static double drafting_us(const struct speculator *sp)
{
    double us = 0;
    for (int k = 0; sp->weighs && k < sp->n_used; k++)
        if (!sp->worth[k].out) us += sp->worth[k].us;
    return us;
}

/* ---- views ---- */

/* All drafters' guesses at a tip as paths; returns how many there are. */
static int find_paths(struct speculator *sp, const struct stream *stream)
{
    struct path *path = sp->path;
    int n = 1;
    path[0] = (struct path){.parent = -1, .p = 1};
    for (int k = 0; k < sp->n_used; k++) {
        for (int j = 0; j < stream[k].n; j++) {
            struct draft_node *d = &stream[k].node[j];
            int up = d->parent < 0 ? 0 : stream[k].node[d->parent].path, at = up + 1;
            while (at < n && !(path[at].parent == up && path[at].token == d->token)) at++;
            if (at == n) path[n++] = (struct path){.token = d->token, .parent = up, .faint = true};
            d->path = at;
            if (sp->used[k].drafter->faint) continue;
            path[at].faint = false;
            if (!(path[up].below >> k & 1)) path[at].by |= (uint16_t)(1 << k); /* the first is its likeliest */
            path[up].below |= (uint16_t)(1 << k);
        }
    }
    return n;
}

/* Estimates at one tip again, now that all have spoken.  What two drafters guess on grounds of their own is right far
 * more often than what one guesses against another: the rates of these are learnt apart. */
static void compare(struct speculator *sp, struct stream *stream)
{
    struct path *path = sp->path;
    int n = find_paths(sp, stream);
    for (int k = 0; k < sp->n_used; k++) {
        const struct drafter *drafter = stream[k].drafter;
        const struct rates *u = stream[k].rates;
        for (int j = 0; j < stream[k].n; j++) {
            struct draft_node *d = &stream[k].node[j];
            struct path *at = &path[d->path];
            int others = ~(1 << k);
            d->view = at->by & others ? AGREED : path[at->parent].below & others ? OPPOSED : ALONE;
            float viewed = u->viewed[d->view][d->kind], rate = u->rate[d->kind];
            float p = d->share * (viewed > 0 ? viewed : rate > 0 ? rate : prior_of(drafter, d));
            if (drafter->faint == at->faint && p > at->right) at->right = p;
        }
    }
    for (int i = 1; i < n; i++) path[i].p = path[path[i].parent].p * path[i].right;
    for (int k = 0; k < sp->n_used; k++) {
        float last = 1; /* a drafter's order stays: later guesses count no more than earlier ones */
        for (int j = 0; j < stream[k].n; j++) {
            float p = path[stream[k].node[j].path].p;
            stream[k].node[j].p = last = p < last ? p : last;
        }
    }
}

/* ---- the queue ---- */

/* One drafter's guesses at all tips. */
static void ask(struct speculator *sp, struct pass *pass, int k)
{
    struct used *u = &sp->used[k];
    struct spec_wish wish = {.most = sp->set.draft_max, .p_min = sp->set.p_min, .rate = sp->tip_rate};
    for (int i = 0; i < pass->n_tip; i++) sp->tip_rate[i] = rates_of(sp, i, k)->rate;
    if (u->drafter->begin) u->drafter->begin(u->self, pass, &wish);
    for (int i = 0; i < pass->n_tip; i++) {
        struct stream *s = &sp->stream[i * sp->n_used + k];
        *s = (struct stream){&pass->tip[i], u->drafter, rates_of(sp, i, k), sp->counts[i], s->node, 0, 0};
        struct draft_ask ask = {u->self, &sp->set, s->rates->rate, s->tip, sp->set.draft_max};
        int n = u->drafter->draft(&ask, s->node);
        for (int j = 0; j < n; j++) s->node[j].row = -1;
        if (n >= sp->set.draft_min) s->n = n;
    }
}

static void ask_drafters(struct speculator *sp, struct pass *pass)
{
    uint64_t at = clock_now_us(*sp->lim.clock);
    sp->n_stream = pass->n_tip * sp->n_used;
    if (sp->weighs) worth_choose(sp->worth, sp->n_used);
    for (int k = 0; k < sp->n_used; k++) {
        for (int i = 0; i < pass->n_tip; i++) sp->stream[i * sp->n_used + k].n = 0;
        if (sp->weighs && !sp->worth[k].asked) continue;
        ask(sp, pass, k);
        uint64_t now = clock_now_us(*sp->lim.clock);
        sp->used[k].us += now - at;
        at = now;
    }
    for (int i = 0; i < pass->n_tip; i++) compare(sp, &sp->stream[i * sp->n_used]);
}

/* The likeliest guess that was not looked at, of those that are likely enough. */
static struct draft_node *pop(struct speculator *sp, struct stream **of)
{
    struct draft_node *best = NULL;
    for (int i = 0; i < sp->n_stream; i++) {
        struct stream *s = &sp->stream[i];
        if (s->at >= s->n || s->node[s->at].p < sp->set.p_min) continue;
        if (!best || s->counts * s->node[s->at].p > (*of)->counts * best->p) best = &s->node[s->at], *of = s;
    }
    if (best) (*of)->at++;
    return best;
}

/* A kind of guess that is hardly known is tried at one tip of a pass: else beside many samples the first wrong guess is
 * made at all of them at once.  Guesses from outside say what they are worth. */
static bool may_try(const struct stream *s, int kind)
{
    struct rates *u = s->rates;
    if (!u->tried[kind]) u->tried[kind] = s->tip;
    return u->tried[kind] == s->tip || u->n_rate[kind] >= PRIOR || s->drafter->n_prior > 0;
}

/* Guesses become rows in the queue's order; those behind the best that this came to are taken back. */
static void fill(struct speculator *sp, struct pass *pass, struct offer *o)
{
    const struct batch *b = pass->batch;
    struct stream *s = NULL;
    int keep = b->n_row, n_mark = 0, most = sp->lim.n_draft * sp->n_used;
    double best = gain(sp, pass, o);
    for (struct draft_node *n; sp->n_mark < most && (n = pop(sp, &s));) {
        int32_t parent = n->parent < 0 ? s->tip->row : s->node[n->parent].row, before = b->n_row;
        if (parent < 0 || s->tip->n_draft >= sp->set.draft_max) continue; /* or the sequence ends before it */
        if (!may_try(s, n->kind)) continue;
        n->row = pass_draft(pass, s->tip, parent, n->token);
        if (n->row == LUTRA_E_BUSY) break;
        if (n->row < 0) continue;
        sp->mark[sp->n_mark++] = (struct mark){
            n->row, (int)(s - sp->stream) % sp->n_used, n->kind, n->view, n->share, prior_of(s->drafter, n)};
        if (b->n_row > before) o->tokens += (double)(s->counts * n->p), o->seen += b->row[n->row].pos + 1;
        double now = gain(sp, pass, o);
        if (now <= best && b->n_row > keep) continue;
        best = now > best ? now : best;
        keep = b->n_row;
        n_mark = sp->n_mark;
    }
    sp->n_mark = n_mark;
    pass_cut(pass, keep);
    for (int i = 0; i < sp->n_stream; i++) {
        struct draft_node *first = sp->stream[i].node;
        if (sp->stream[i].n == 0) continue;
        if (first->row >= keep) first->row = -1;
        forgive(&sp->stream[i]);
    }
}

static void offer(void *self, struct pass *pass)
{
    struct speculator *sp = self;
    uint64_t start = clock_now_us(*sp->lim.clock);
    sp->n_mark = sp->n_stream = 0;
    sp->first = pass->batch->n_row;
    sp->weighs = row_cost_known(sp->lim.cost);
    struct offer o = {.tokens = pass->n_tip, .draft_us = drafting_us(sp)};
    for (int i = 0; i < pass->n_tip; i++) o.seen += pass->batch->row[pass->tip[i].row].pos + 1;
    count_tokens(sp, pass);
    if (pass->n_tip > 0 && !is_vain(sp, pass, &o)) {
        find_places(sp, pass);
        ask_drafters(sp, pass);
        fill(sp, pass, &o);
    }
    sp->seen = o.seen;
    sp->pass_us = pass->n_tip > 0 ? row_cost_of(sp->lim.cost, pass->batch->n_row, o.seen) : 0;
    sp->spent_us += clock_now_us(*sp->lim.clock) - start;
}

/* ---- what became of it ---- */

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

/* ---- what drafters are worth ---- */

/* Tokens that a tip would not have got without drafter k: those from the first row on that only k has drafted. */
static int only_by(const struct speculator *sp, const struct pass *pass, const struct row_tip *t, int k)
{
    int n = 0, depth = 0;
    for (int32_t r = t->taken; r != t->row; r = pass->batch->row[r].parent) {
        depth++;
        if (r >= sp->first && sp->by[r - sp->first] == 1 << k) n = depth;
    }
    return n;
}

/* What drafter k has brought, in microseconds: its tokens at what a token takes, less the rows that only it has
 * wanted. */
static double brought_by(const struct speculator *sp, const struct pass *pass, int k)
{
    int n_row = pass->draft_end, tokens = 0, rows = 0;
    for (int i = 0; i < pass->n_tip; i++)
        if (pass->tip[i].picked >= 0) tokens += only_by(sp, pass, &pass->tip[i], k);
    for (int32_t r = sp->first; r < n_row; r++) rows += sp->by[r - sp->first] == 1 << k;
    if (rows == 0) return 0;
    double less = row_cost_of(sp->lim.cost, n_row - rows, sp->seen * (n_row - rows) / n_row);
    return tokens * sp->all_us / sp->tokens - (sp->pass_us - less);
}

static void weigh(struct speculator *sp, const struct pass *pass)
{
    static const double gain = 0.05;
    double us = sp->pass_us, tokens = 0;
    memset(sp->by, 0, (size_t)sp->lim.n_draft * sizeof *sp->by);
    for (int i = 0; i < sp->n_mark; i++) sp->by[sp->mark[i].row - sp->first] |= (uint16_t)(1 << sp->mark[i].by);
    for (int i = 0; i < pass->n_tip; i++) {
        const struct row_tip *t = &pass->tip[i];
        if (t->picked >= 0) tokens += 1 + pass->batch->row[t->taken].pos - pass->batch->row[t->row].pos;
    }
    for (int k = 0; k < sp->n_used; k++) us += (double)sp->used[k].us;
    if (tokens == 0) return;
    double by = ++sp->n_weighed * gain < 1 ? 1.0 / sp->n_weighed : gain;
    sp->tokens += by * (tokens - sp->tokens);
    sp->all_us += by * (us - sp->all_us);
    for (int k = 0; k < sp->n_used; k++) {
        if (!sp->worth[k].asked) continue;
        worth_learn(&sp->worth[k], (double)sp->used[k].us, brought_by(sp, pass, k));
        sp->used[k].us = 0;
    }
    worth_settle(sp->worth, sp->n_used, sp->pass_us);
}

/* Time that learning takes counts at the next weighing. */
static void see(struct speculator *sp, const struct pass *pass)
{
    uint64_t at = clock_now_us(*sp->lim.clock);
    for (int k = 0; k < sp->n_used; k++) {
        struct used *u = &sp->used[k];
        if (!u->drafter->see || (sp->weighs && sp->worth[k].out && !sp->worth[k].asked)) continue;
        u->drafter->see(u->self, pass);
        uint64_t now = clock_now_us(*sp->lim.clock);
        if (sp->n_stream > 0) u->us += now - at;
        at = now;
    }
}

/* A guess counts where a token was picked right above it. */
static int take(void *self, const struct pass *pass, struct lutra_error *err)
{
    (void)err;
    struct speculator *sp = self;
    uint64_t start = clock_now_us(*sp->lim.clock);
    for (int i = 0; i < sp->n_mark; i++) {
        const struct mark *m = &sp->mark[i];
        const struct row *r = &pass->batch->row[m->row];
        const struct row_tip *t = tip_of(pass, m->row);
        int place = t ? sp->place[t - pass->tip] : NOBODYS;
        if (place == NOBODYS || t->picked < 0 || !lies_on(pass, r->parent, t->taken)) continue;
        bool right = r->parent == t->taken ? r->token == t->picked : lies_on(pass, m->row, t->taken);
        struct rates *u = &sp->rates[place * sp->n_used + m->by];
        float *rate = &u->rate[m->kind], *viewed = &u->viewed[m->view][m->kind];
        if (*rate == 0) *rate = m->prior;
        if (*viewed == 0) *viewed = *rate;
        learn(rate, &u->n_rate[m->kind], m->share, right);
        learn(viewed, &u->n_viewed[m->view][m->kind], m->share, right);
    }
    if (sp->weighs && sp->n_stream > 0)
        weigh(sp, pass);
    else
        for (int k = 0; k < sp->n_used; k++) sp->used[k].us = 0;
    see(sp, pass);
    sp->spent_us += clock_now_us(*sp->lim.clock) - start;
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

static int add_type(struct speculator *sp, int type, struct lutra_error *err)
{
    for (int k = 0; k < TYPE_PARTS && types[type].part[k]; k++) {
        if (k > 0 && types[type].part[k] == &drafter_mtp && !sp->lim.mtp) continue; /* auto's, where there is one */
        for (int i = 0; i < sp->n_used; i++)
            if (sp->used[i].drafter == types[type].part[k])
                return lutra_fail(
                    err, LUTRA_E_ARGUMENT, "spec_type: '%s' names a drafter a second time", types[type].name);
        sp->used[sp->n_used++].drafter = types[type].part[k];
    }
    return 0;
}

/* The type that a list begins with, -1 if there is none; *at moves behind it, *n: the name's length. */
static int next_type(const char **at, int *n)
{
    const char *name = *at;
    int k = 0;
    *n = (int)strcspn(name, ",");
    while (k < N_TYPE && (strlen(types[k].name) != (size_t)*n || strncmp(types[k].name, name, (size_t)*n) != 0)) k++;
    *at += *n;
    *at += **at == ',';
    return k < N_TYPE ? k : -1;
}

/* Drafters by name into sp->used. */
static int choose(struct speculator *sp, struct lutra_error *err)
{
    sp->used[sp->n_used++].drafter = &drafter_outside;
    bool any = spec_settings_any(&sp->set), model = false;
    for (const char *at = any ? sp->set.types : "", *name = at; *at; name = at) {
        int n, k = next_type(&at, &n);
        if (k < 0)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED,
                "spec_type: '%.*s' is not built (ngram-simple, suffix, siblings, calibrated, recycle, draft or "
                "draft-simple, mtp or draft-mtp, and auto are, and store where a request drafts from one: --rag)",
                n < 100 ? n : 100, name);
        TRY(add_type(sp, k, err));
        model |= types[k].part[0] == &drafter_model;
    }
    if (sp->lim.model && !model) sp->used[sp->n_used++].drafter = &drafter_model; /* whoever brings one means it */
    return 0;
}

static int open_all(struct speculator *sp, struct lutra_error *err)
{
    TRY(check(&sp->set, err));
    TRY(choose(sp, err));
    size_t n = (size_t)sp->lim.n_seq * (size_t)sp->n_used, most = (size_t)sp->set.draft_max;
    sp->stream = calloc(n, sizeof *sp->stream);
    sp->node = calloc(n, most * sizeof *sp->node);
    sp->counts = calloc((size_t)sp->lim.n_seq, sizeof *sp->counts);
    sp->path = calloc(1 + (size_t)sp->n_used * most, sizeof *sp->path);
    sp->mark = calloc((size_t)sp->lim.n_draft, (size_t)sp->n_used * sizeof *sp->mark);
    sp->by = calloc((size_t)sp->lim.n_draft, sizeof *sp->by);
    sp->rates = calloc(DOMAINS + 1, (size_t)sp->n_used * sizeof *sp->rates);
    sp->place = calloc((size_t)sp->lim.n_seq, sizeof *sp->place);
    sp->tip_rate = calloc((size_t)sp->lim.n_seq, sizeof *sp->tip_rate);
    if (!sp->rates || !sp->place || !sp->tip_rate || !sp->stream || !sp->counts || !sp->node || !sp->path ||
        !sp->mark || !sp->by)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "speculation: out of memory");
    for (size_t i = 0; i < n; i++) sp->stream[i].node = sp->node + i * most;
    for (int k = 0; k < sp->n_used; k++) {
        struct used *u = &sp->used[k];
        int n_prior = u->drafter->n_prior ? u->drafter->n_prior : DRAFT_KINDS;
        for (int at = 0; at <= NOBODYS; at++)
            for (int i = 0; i < n_prior; i++) sp->rates[at * sp->n_used + k].rate[i] = u->drafter->prior;
        if (u->drafter->open) TRY(u->drafter->open(&u->self, &sp->lim, err));
    }
    worth_begin(sp->worth, sp->n_used);
    sp->set.types = NULL; /* the caller's */
    return 0;
}

bool spec_settings_any(const struct spec_settings *set)
{
    return set->types && *set->types && strcmp(set->types, "none") != 0;
}

bool spec_settings_need_hints(const struct spec_settings *set)
{
    bool need = false;
    for (const char *at = spec_settings_any(set) ? set->types : ""; *at;) {
        int n, k = next_type(&at, &n);
        for (int i = 0; k >= 0 && i < TYPE_PARTS && types[k].part[i]; i++) need |= types[k].part[i]->wants_hints;
    }
    return need;
}

enum spec_need spec_settings_need_mtp(const struct spec_settings *set)
{
    enum spec_need need = SPEC_WITHOUT;
    for (const char *at = spec_settings_any(set) ? set->types : ""; *at;) {
        int n, k = next_type(&at, &n);
        if (k < 0) continue;
        if (types[k].part[0] == &drafter_mtp) return SPEC_NEEDS;
        for (int i = 1; i < TYPE_PARTS; i++)
            if (types[k].part[i] == &drafter_mtp) need = SPEC_TAKES;
    }
    return need;
}

int speculator_open(
    struct speculator **out, const struct spec_settings *set, const struct spec_limits *lim, struct lutra_error *err)
{
    static const struct row_source_ops ops = {"speculation", SOURCE_DRAFTS, offer, take};
    *out = NULL;
    struct speculator *sp = calloc(1, sizeof *sp);
    if (!sp) return lutra_fail(err, LUTRA_E_NO_MEMORY, "speculation: out of memory");
    sp->source = (struct row_source){&ops, sp, NULL};
    sp->set = *set;
    sp->lim = *lim;
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
    for (int k = 0; k < (*sp)->n_used; k++)
        if ((*sp)->used[k].self) (*sp)->used[k].drafter->close((*sp)->used[k].self);
    free((*sp)->stream);
    free((*sp)->counts);
    free((*sp)->node);
    free((*sp)->path);
    free((*sp)->mark);
    free((*sp)->by);
    free((*sp)->rates);
    free((*sp)->place);
    free((*sp)->tip_rate);
    free(*sp);
    *sp = NULL;
}

struct row_source *speculator_source(struct speculator *sp)
{
    return &sp->source;
}

void speculator_keep(struct speculator *sp, const struct spec_text *text)
{
    for (int k = 0; sp && k < sp->n_used; k++)
        if (sp->used[k].drafter->keep) sp->used[k].drafter->keep(sp->used[k].self, text);
}

bool speculator_wants_top(const struct speculator *sp)
{
    for (int k = 0; sp && k < sp->n_used; k++)
        if (sp->used[k].drafter->wants_top) return true;
    return false;
}

uint64_t speculator_spent_us(struct speculator *sp)
{
    uint64_t us = sp ? sp->spent_us : 0;
    if (sp) sp->spent_us = 0;
    return us;
}
