/* SPDX-License-Identifier: MIT
 *
 * Any sampler chain over candidates.  What each stage keeps and changes is llama.cpp's rule for it; their order, and
 * which have an effect, is in the settings (settings.c).  Probabilities are those of the candidates left: softmax of
 * their logits.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "decode/sample/sampler_impl.h"

struct chain {
    const struct sample_state *st;
    const struct sample_settings *set;
    struct sample_scratch *tmp;
    int n_vocab;
    struct sample_cand *cand; /* [n] */
    int n;
    int n_row; /* n and those at -infinity that no stage has cut: llama.cpp counts them in entropies and by top-k */
    double u;  /* XTC's number */
};

/* What a logit weighs that lies `depth` below the largest. */
static float mass_of(float depth)
{
    return exp2_minus(depth * 1.44269504f);
}

static float largest(const struct chain *c)
{
    float max = -INFINITY;
    for (int i = 0; i < c->n; i++) max = c->cand[i].logit > max ? c->cand[i].logit : max;
    return max;
}

static double total_mass(const struct chain *c, float max)
{
    double total = 0;
    for (int i = 0; i < c->n; i++) total += mass_of(max - c->cand[i].logit);
    return total;
}

/* The natural logarithm of candidate i's probability. */
static double log_p(const struct chain *c, int i, float max, double log_total)
{
    return (double)c->cand[i].logit - (double)max - log_total;
}

static void keep_from(struct chain *c, float floor)
{
    int n = 0;
    for (int i = 0; i < c->n; i++)
        if (c->cand[i].logit >= floor) c->cand[n++] = c->cand[i];
    c->n = n;
}

/* Only finite logits stay. */
static int settle(struct chain *c, struct lutra_error *err)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        float x = c->cand[i].logit;
        if (isnan(x) || x == INFINITY)
            return lutra_fail(
                err, LUTRA_E_ARGUMENT, "penalties and logit bias drive a logit beyond what a float holds");
        if (x > -INFINITY) c->cand[n++] = c->cand[i];
    }
    c->n = n;
    return n > 0 ? 0
                 : lutra_fail(err, LUTRA_E_NOT_FOUND, "no token left to sample: bias and penalties forbid every one");
}

/* ---- penalties ---- */

static void penalise(struct chain *c)
{
    int32_t *seen = c->tmp->seen;
    int n = sample_look_back(c->st, c->st->window);
    for (int i = 0; i < n; i++) {
        int32_t t = sample_token_back(c->st, i);
        if (t >= 0 && t < c->n_vocab) seen[t]++;
    }
    for (int i = 0; i < c->n; i++) {
        struct sample_cand *is = &c->cand[i];
        if (seen[is->id]) is->logit = sample_penalised(c->set, is->logit, seen[is->id]);
    }
    for (int i = 0; i < n; i++) {
        int32_t t = sample_token_back(c->st, i);
        if (t >= 0 && t < c->n_vocab) seen[t] = 0;
    }
}

static void apply_dry(struct chain *c)
{
    if (dry_find(c->st, c->n_vocab, c->tmp) == 0) return;
    for (int i = 0; i < c->n; i++) {
        int noted = c->tmp->seen[c->cand[i].id];
        if (noted) c->cand[i].logit -= dry_penalty(c->set, noted);
    }
    dry_clear(c->st, c->n_vocab, c->tmp);
}

/* ---- cuts ---- */

/* Logits far below the best are noise about a mean (Top-n-sigma: Not all logits are you need; arXiv 2411.07641). */
static void cut_top_n_sigma(struct chain *c)
{
    double sum = 0, squares = 0;
    if (c->n_row <= 1) return;
    for (int i = 0; i < c->n; i++) sum += (double)c->cand[i].logit;
    double mean = sum / c->n;
    for (int i = 0; i < c->n; i++) squares += ((double)c->cand[i].logit - mean) * ((double)c->cand[i].logit - mean);
    keep_from(c, (float)((double)largest(c) - (double)c->set->top_n_sigma * sqrt(squares / c->n)));
}

static void cut_top_k(struct chain *c)
{
    struct select_queue q = select_queue(c->cand, c->n);
    for (int i = 0; i < c->set->top_k && q.n_left > 0; i++) select_next(&q);
    c->n = select_taken(&q);
    if (c->n_row > c->set->top_k) c->n_row = c->set->top_k;
}

/* Those whose surprise is nearest to the entropy (Meister et al.: Locally typical sampling; arXiv 2202.00666). */
static void cut_typical(struct chain *c)
{
    float max = largest(c), *logit = c->tmp->logits;
    double total = total_mass(c, max), log_total = log(total), entropy = 0, sum = 0;
    for (int i = 0; i < c->n; i++)
        entropy -= (double)mass_of(max - c->cand[i].logit) / total * log_p(c, i, max, log_total);
    for (int i = 0; i < c->n; i++) {
        double off = fabs(-log_p(c, i, max, log_total) - entropy);
        logit[c->cand[i].id] = c->cand[i].logit;
        c->cand[i].logit = (float)-off;
    }
    struct select_queue q = select_queue(c->cand, c->n);
    while (q.n_left > 0 && sum <= (double)c->set->typical_p * total) sum += mass_of(max - logit[select_next(&q).id]);
    c->n = c->n_row = select_taken(&q);
    for (int i = 0; i < c->n; i++) c->cand[i].logit = logit[c->cand[i].id];
}

static void cut_top_p(struct chain *c)
{
    float max = largest(c);
    double goal = (double)c->set->top_p * total_mass(c, max), sum = 0;
    struct select_queue q = select_queue(c->cand, c->n);
    do sum += mass_of(max - select_next(&q).logit);
    while (q.n_left > 0 && sum < goal);
    c->n = c->n_row = select_taken(&q);
}

static void cut_min_p(struct chain *c)
{
    keep_from(c, largest(c) + logf(c->set->min_p));
    c->n_row = c->n;
}

/* Exclude top choices: of those at or above the threshold only the least stays (p-e-w, text-generation-webui, pull
 * request 6335). */
static void cut_xtc(struct chain *c)
{
    float max = largest(c);
    double floor = (double)c->set->xtc_threshold * total_mass(c, max);
    struct sample_cand least = {-1, 0};
    if (c->n_row < 2 || c->u > (double)c->set->xtc_probability) return;
    for (int i = 0; i < c->n; i++)
        if ((double)mass_of(max - c->cand[i].logit) >= floor && (least.id < 0 || select_is_worse(c->cand[i], least)))
            least = c->cand[i];
    int n = 0;
    for (int i = 0; i < c->n; i++)
        if (least.id < 0 || c->cand[i].id == least.id || select_is_worse(c->cand[i], least)) c->cand[n++] = c->cand[i];
    c->n_row -= c->n - n;
    c->n = n;
}

/* ---- temperature ---- */

static void heat(struct chain *c, float temperature)
{
    if (temperature > 0) {
        for (int i = 0; i < c->n; i++) c->cand[i].logit /= temperature;
        return;
    }
    struct select_queue q = select_queue(c->cand, c->n);
    select_next(&q);
    c->n = select_taken(&q);
}

/* Dynamic: hotter the flatter the distribution is. */
static void apply_temperature(struct chain *c)
{
    float range = c->set->dynatemp_range, middle = c->set->temperature;
    if (range <= 0) {
        heat(c, middle);
        return;
    }
    if (c->n_row <= 1) return;
    float max = largest(c), low = middle > range ? middle - range : 0, high = middle + range;
    double total = total_mass(c, max), log_total = log(total), entropy = 0;
    for (int i = 0; i < c->n; i++)
        entropy -= (double)mass_of(max - c->cand[i].logit) / total * log_p(c, i, max, log_total);
    double flat = fmax(entropy, 0) / log((double)c->n_row);
    heat(c, low + (high - low) * (float)pow(flat, (double)c->set->dynatemp_exponent));
}

/* ---- last stages: what they leave depends on what they picked before ---- */

/* Tokens near a target probability, which moves against what was picked (llama.cpp, pull request 17927). */
static void apply_adaptive_p(struct chain *c)
{
    const double width = 0.3, peak = 5, sharpness = 10;
    const struct sample_state *st = c->st;
    double target = (double)c->set->adaptive_target;
    if (st->near_weight > 0) target = 2 * target - (double)(st->near_sum / st->near_weight);
    target = fmin(fmax(target, 0), 1);
    float max = largest(c);
    double total = total_mass(c, max);
    for (int i = 0; i < c->n; i++) {
        double p = (double)mass_of(max - c->cand[i].logit) / total, off = fabs(p - target) / width;
        c->tmp->logits[c->cand[i].id] = (float)p;
        c->cand[i].logit = (float)(peak - sharpness * off * off / (1 + off));
    }
}

/* How many tokens hold a surprise of mu bits, from Zipf's law through the best 100 (Basu et al.: Mirostat; arXiv
 * 2007.14966). */
static int mirostat_k(const struct chain *c, const double *ratio, int n)
{
    double by_rank = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        double t = log((i + 2.0) / (i + 1.0));
        by_rank += t * ratio[i];
        squares += t * t;
    }
    double s = by_rank / squares, epsilon = s - 1;
    double k = pow(epsilon * pow(2, (double)c->st->mu) / (1 - pow(c->n_vocab, -epsilon)), 1 / s);
    return k >= 1 ? k < c->n ? (int)k : c->n : 1;
}

static void cut_mirostat(struct chain *c)
{
    enum { BEST = 100 };
    double ratio[BEST]; /* log of a probability over the next one's */
    int n = 0;
    struct select_queue q = select_queue(c->cand, c->n);
    struct sample_cand last = select_next(&q);
    for (; n < BEST - 1 && q.n_left > 0; n++) {
        struct sample_cand next = select_next(&q);
        ratio[n] = (double)last.logit - (double)next.logit;
        last = next;
    }
    int k = mirostat_k(c, ratio, n);
    while (c->n - q.n_left < k) select_next(&q);
    select_taken(&q);
    c->n = k;
}

static void cut_mirostat_2(struct chain *c)
{
    float max = largest(c);
    double floor = (double)max + log(total_mass(c, max)) - (double)c->st->mu * 0.69314718055994531;
    int n = 0;
    struct sample_cand best = c->cand[0];
    for (int i = 0; i < c->n; i++) {
        if (select_is_worse(best, c->cand[i])) best = c->cand[i];
        if ((double)c->cand[i].logit >= floor) c->cand[n++] = c->cand[i];
    }
    if (n == 0) c->cand[n++] = best;
    c->n = n;
}

static void (*const stages[])(struct chain *) = {
    [STAGE_PENALTIES] = penalise,
    [STAGE_DRY] = apply_dry,
    [STAGE_TOP_N_SIGMA] = cut_top_n_sigma,
    [STAGE_TOP_K] = cut_top_k,
    [STAGE_TYPICAL] = cut_typical,
    [STAGE_TOP_P] = cut_top_p,
    [STAGE_MIN_P] = cut_min_p,
    [STAGE_XTC] = cut_xtc,
    [STAGE_TEMPERATURE] = apply_temperature,
    [STAGE_ADAPTIVE_P] = apply_adaptive_p,
    [STAGE_MIROSTAT] = cut_mirostat,
    [STAGE_MIROSTAT_2] = cut_mirostat_2,
};

int chain_apply(const struct sample_state *st, int n_vocab, struct sample_scratch *tmp, int n, int n_row, double u,
    struct sample_choice *out, struct lutra_error *err)
{
    struct chain c = {st, &st->set, tmp, n_vocab, tmp->cand, n, n_row, u};
    TRY(settle(&c, err));
    for (int i = 0; i < st->set.n_stage; i++) {
        stages[st->set.stage[i]](&c);
        TRY(settle(&c, err));
    }
    float max = largest(&c);
    *out = (struct sample_choice){c.cand, c.n, 0};
    for (int i = 0; i < c.n; i++) {
        c.cand[i].logit = mass_of(max - c.cand[i].logit);
        out->total += (double)c.cand[i].logit;
    }
    return 0;
}

static int last_stage(const struct sample_settings *set)
{
    return set->n_stage > 0 ? set->stage[set->n_stage - 1] : -1;
}

float chain_probability(
    const struct sample_state *st, const struct sample_choice *choice, int at, const struct sample_scratch *tmp)
{
    if (last_stage(&st->set) == STAGE_ADAPTIVE_P) return tmp->logits[choice->cand[at].id];
    return fmaxf((float)((double)choice->cand[at].logit / choice->total), FLT_MIN);
}

void chain_accept(struct sample_state *st, int32_t token)
{
    const struct sample_settings *set = &st->set;
    int last = last_stage(set);
    bool picked = st->picked == token;
    st->picked = -1;
    if (!picked) return;
    if (last == STAGE_MIROSTAT || last == STAGE_MIROSTAT_2)
        st->mu -= set->mirostat_eta * (-log2f(st->picked_p) - set->mirostat_tau);
    if (last == STAGE_ADAPTIVE_P) {
        st->near_sum = st->picked_p + set->adaptive_decay * st->near_sum;
        st->near_weight = 1 + set->adaptive_decay * st->near_weight;
    }
}
