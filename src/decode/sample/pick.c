/* SPDX-License-Identifier: MIT */
#include "decode/sample/sampler_impl.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"

static void apply_penalties(const struct sample_state *st, float *row, int32_t *seen, int n_vocab)
{
    int n = sample_look_back(st, st->window);
    for (int i = 0; i < n; i++) {
        int32_t t = sample_token_back(st, i);
        if (t >= 0 && t < n_vocab) seen[t]++;
    }
    for (int i = 0; i < n; i++) {
        int32_t t = sample_token_back(st, i);
        if (t < 0 || t >= n_vocab || !seen[t]) continue;
        row[t] = sample_penalised(&st->set, row[t], seen[t]);
        seen[t] = 0;
    }
}

const float *sample_adjust(const struct sample_state *st, int n_vocab, const float *logits, struct sample_scratch *tmp)
{
    if (st->set.n_bias == 0 && (st->window == 0 || st->n_seen == 0)) return logits;
    if (logits != tmp->logits) memcpy(tmp->logits, logits, (size_t)n_vocab * sizeof *logits);
    for (int i = 0; i < st->set.n_bias; i++) tmp->logits[st->set.bias[i].token] += st->set.bias[i].bias;
    if (st->window > 0) apply_penalties(st, tmp->logits, tmp->seen, n_vocab);
    return tmp->logits;
}

/* The same for one token. */
static float bias_one(const struct sample_state *st, int32_t token, float x)
{
    for (int i = 0; i < st->set.n_bias; i++)
        if (st->set.bias[i].token == token) x += st->set.bias[i].bias;
    return x;
}

static float adjust_one(const struct sample_state *st, int32_t token, float x)
{
    int count = 0;
    x = bias_one(st, token, x);
    for (int i = sample_look_back(st, st->window); i-- > 0;) count += sample_token_back(st, i) == token;
    return count ? sample_penalised(&st->set, x, count) : x;
}

static int cut_min_p(const struct sample_settings *set, const struct sample_cand *cand, int n, float max)
{
    if (set->min_p <= 0) return n;
    float floor = max + logf(set->min_p);
    int keep = 1;
    while (keep < n && cand[keep].logit >= floor) keep++;
    return keep;
}

static double sum_of(const struct sample_cand *cand, int n, float max)
{
    double total = 0;
    for (int i = 0; i < n; i++) total += (double)weight_of(cand[i].logit, max, LOG2_E);
    return total;
}

/* What top-p and min-p leave of the best top_k. */
static int cut_best(const struct sample_settings *set, const struct sample_cand *cand, int n, float max)
{
    if (set->top_p < 1) n = select_prefix(cand, n, set->top_p, max, sum_of(cand, n, max));
    return cut_min_p(set, cand, n, max);
}

static struct sample_choice weigh(const struct sample_settings *set, struct sample_cand *cand, int n, float max)
{
    double total = 0;
    float heat = heat_of(set->temperature);
    for (int i = 0; i < n; i++) {
        cand[i].logit = weight_of(cand[i].logit, max, heat);
        total += cand[i].logit;
    }
    return (struct sample_choice){cand, n, total};
}

struct sample_choice sample_choose(
    const struct sample_settings *set, int n_vocab, const float *row, float max, struct sample_scratch *tmp)
{
    int k = set->top_k < n_vocab ? set->top_k : n_vocab;
    int n = select_top_k(row, n_vocab, k, max, tmp->cand, &tmp->select);
    return weigh(set, tmp->cand, cut_best(set, tmp->cand, n, max), max);
}

static int draw_at(struct sample_choice choice, double u)
{
    double goal = u * choice.total, sum = 0;
    int last = 0;
    for (int i = 0; i < choice.n; i++) {
        if (choice.cand[i].logit <= 0) continue;
        last = i;
        sum += choice.cand[i].logit;
        if (sum > goal) break;
    }
    return last;
}

static int32_t draw(struct sample_choice choice, double u)
{
    return choice.cand[draw_at(choice, u)].id;
}

/* The numbers of a position: of the draw, and of XTC. */
enum { OF_TOKEN, OF_XTC };

static double number_at(const struct sample_state *st, int64_t pos, uint32_t which)
{
    return rng_double((struct rng_key){st->set.seed, st->sample, (uint32_t)pos}, which);
}

static double random_at(const struct sample_state *st, int64_t pos)
{
    return number_at(st, pos, OF_TOKEN);
}

/* max: the model's largest logit; at: its token, or that of a NaN, or -1. */
static int check_model(float max, bool has_nan, int at, struct lutra_error *err)
{
    if ((has_nan || max == INFINITY) && at < 0)
        return lutra_fail(err, LUTRA_E_INTERNAL, "a logit of the model is %s", has_nan ? "not a number" : "infinite");
    if (has_nan || max == INFINITY)
        return lutra_fail_at(err, LUTRA_E_INTERNAL, (uint64_t)at, "the model's logit of token %d is %s", at,
            has_nan ? "not a number" : "infinite");
    return max > -INFINITY ? 0
                           : lutra_fail(err, LUTRA_E_NOT_FOUND, "no token left to sample: every logit is -infinity");
}

static int check_allowed(const struct sample_state *st, bool any, struct lutra_error *err)
{
    if (any || !st->allow) return 0;
    return lutra_fail(err, LUTRA_E_NOT_FOUND, "no token left to sample: the grammar allows none");
}

static int check_adjusted(float max, bool has_nan, struct lutra_error *err)
{
    if (has_nan || max == INFINITY)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "penalties and logit bias drive a logit beyond what a float holds");
    return max > -INFINITY
               ? 0
               : lutra_fail(err, LUTRA_E_NOT_FOUND, "no token left to sample: the logit bias forbids every one");
}

/* ---- from all logits ---- */

static int find_bad(const float *logits, int n_vocab, bool nan)
{
    int at = 0;
    while (at < n_vocab - 1 && !(nan ? isnan(logits[at]) : logits[at] == INFINITY)) at++;
    return at;
}

/* The row with -infinity for tokens that are not allowed. */
static const float *allowed(const struct sample_state *st, const float *logits, int n_vocab, struct sample_scratch *tmp)
{
    for (int i = 0; i < n_vocab; i++) tmp->logits[i] = st->allow[i / 64] >> i % 64 & 1 ? logits[i] : -INFINITY;
    return tmp->logits;
}

/* By any chain, from n candidates of the row. */
static int pick_by_chain(const struct sampler *s, struct sample_state *st, struct sample_scratch *tmp, int n,
    int64_t pos, int32_t *token, struct lutra_error *err)
{
    struct sample_choice choice;
    TRY(chain_apply(st, s->lim.n_vocab, tmp, n, s->lim.n_vocab, number_at(st, pos, OF_XTC), &choice, err));
    int at = draw_at(choice, random_at(st, pos));
    *token = st->picked = choice.cand[at].id;
    st->picked_p = chain_probability(st, &choice, at, tmp);
    return 0;
}

static int pick_from_all(const struct sampler *s, struct sample_state *st, struct sample_scratch *tmp,
    const float *logits, int64_t pos, int32_t *token, struct lutra_error *err)
{
    int n_vocab = s->lim.n_vocab;
    struct row_extent of = tmp->passes->extent(logits, n_vocab);
    bool bad = of.has_nan || of.max == INFINITY;
    TRY(check_model(of.max, of.has_nan, bad ? find_bad(logits, n_vocab, of.has_nan) : -1, err));
    if (st->allow) {
        logits = allowed(st, logits, n_vocab, tmp);
        of = tmp->passes->extent(logits, n_vocab);
        TRY(check_allowed(st, of.max > -INFINITY, err));
    }
    if (!st->plain) {
        for (int i = 0; i < n_vocab; i++) tmp->cand[i] = (struct sample_cand){i, logits[i]};
        for (int i = 0; i < st->set.n_bias; i++) tmp->cand[st->set.bias[i].token].logit += st->set.bias[i].bias;
        return pick_by_chain(s, st, tmp, n_vocab, pos, token, err);
    }
    const float *row = sample_adjust(st, n_vocab, logits, tmp);
    if (row == tmp->logits) of = tmp->passes->extent(row, n_vocab);
    TRY(check_adjusted(of.max, of.has_nan, err));
    if (st->set.temperature <= 0)
        *token = select_argmax(row, n_vocab, of.max);
    else if (st->set.top_k <= 0)
        *token = nucleus_draw(&tmp->nucleus, tmp->passes, &st->set, row, n_vocab, of, random_at(st, pos));
    else
        *token = draw(sample_choose(&st->set, n_vocab, row, of.max, tmp), random_at(st, pos));
    return 0;
}

/* ---- from the best and the listed ---- */

static bool is_allowed(const struct sample_state *st, int32_t token)
{
    return !st->allow || st->allow[token / 64] >> token % 64 & 1;
}

static int find_token(const int32_t *listed, int n, int32_t token)
{
    for (int i = 0; i < n; i++)
        if (listed[i] == token) return i;
    return -1;
}

bool sample_list_add(struct sample_list *list, int32_t token)
{
    if (list->here) return false;
    if (!list->grows || find_token(list->token, list->n, token) >= 0) return true;
    if (list->n == list->most) return false;
    list->token[list->n++] = token;
    return true;
}

/* False: there is no room. */
static bool list_dry(struct sampler *s, struct sample_state *st, struct sample_list *list)
{
    struct sample_scratch *tmp = &s->scratch[0];
    int n = dry_find(st, s->lim.n_vocab, tmp);
    bool room = true;
    for (int i = 0; i < n && room; i++) {
        int32_t t = sample_token_back(st, i);
        if (t >= 0 && t < s->lim.n_vocab && tmp->seen[t]) room = sample_list_add(list, t);
    }
    dry_clear(st, s->lim.n_vocab, tmp);
    return room;
}

/* Bias, penalties and DRY may take n listed tokens out of the best ROW_TOPK; the others stay in order. */
struct sample_list sampler_listed(struct sampler *s, int seq)
{
    struct sample_state *st = &s->seq[seq];
    int n_seen = sample_look_back(st, st->window);
    struct sample_list list = {.token = st->listed, .most = ROW_TOPK - st->best, .grows = true, .allow = st->allow};
    if (st->best == 0 || st->best > ROW_TOPK || st->set.n_bias > list.most - n_seen) return (struct sample_list){0};
    for (int i = 0; i < st->set.n_bias; i++) sample_list_add(&list, st->set.bias[i].token);
    for (int i = n_seen; i-- > 0;) {
        int32_t t = sample_token_back(st, i);
        if (t >= 0 && t < s->lim.n_vocab) sample_list_add(&list, t);
    }
    if (st->dry_window > 0 && !list_dry(s, st, &list)) return (struct sample_list){0};
    list.grows = st->window > 0;
    list.here = st->dry_window > 0;
    return list;
}

/* Candidates best first, those of -infinity left out: insertion from the end. */
static int insert(struct sample_cand *cand, int n, struct sample_cand c)
{
    if (c.logit == -INFINITY) return n;
    int at = n;
    for (; at > 0 && select_is_worse(cand[at - 1], c); at--) cand[at] = cand[at - 1];
    cand[at] = c;
    return n + 1;
}

/* The best and the listed as candidates, these with their bias. */
static int load_best(const struct sample_state *st, struct sample_cand *cand, const struct row_result *r)
{
    int n = 0;
    for (int i = 0; i < r->n_top; i++)
        if (find_token(r->listed, r->n_listed, r->top_id[i]) < 0)
            cand[n++] = (struct sample_cand){r->top_id[i], r->top_logit[i]};
    for (int i = 0; i < r->n_listed; i++)
        if (is_allowed(st, r->listed[i]))
            cand[n++] = (struct sample_cand){r->listed[i], bias_one(st, r->listed[i], r->listed_logit[i])};
    return n;
}

static int pick_from_best(const struct sampler *s, struct sample_state *st, struct sample_scratch *tmp,
    const struct row_result *r, int64_t pos, int32_t *token, struct lutra_error *err)
{
    struct sample_cand *cand = tmp->cand;
    int n = 0, best = st->best;
    bool has_nan = isnan(r->log_sum_exp) || (r->n_top && isnan(r->top_logit[0]));
    if (st->allow) /* the best are not the model's */
        TRY(check_model(r->log_sum_exp, has_nan, -1, err));
    else
        TRY(check_model(r->top_logit[0], has_nan, has_nan ? -1 : r->top_id[0], err));
    if (!st->plain) {
        n = load_best(st, cand, r);
        TRY(check_allowed(st, n > 0, err));
        return pick_by_chain(s, st, tmp, n, pos, token, err);
    }
    for (int i = 0; i < r->n_top; i++)
        if (find_token(r->listed, r->n_listed, r->top_id[i]) < 0)
            n = insert(cand, n, (struct sample_cand){r->top_id[i], r->top_logit[i]});
    for (int i = 0; i < r->n_listed; i++) {
        if (!is_allowed(st, r->listed[i])) continue;
        struct sample_cand c = {r->listed[i], adjust_one(st, r->listed[i], r->listed_logit[i])};
        has_nan |= isnan(c.logit);
        n = insert(cand, n, c);
    }
    TRY(check_allowed(st, n > 0 || has_nan, err));
    float max = n ? cand[0].logit : -INFINITY;
    TRY(check_adjusted(max, has_nan, err));
    if (n > best) n = best;
    *token = st->set.temperature <= 0
                 ? cand[0].id
                 : draw(weigh(&st->set, cand, cut_best(&st->set, cand, n, max), max), random_at(st, pos));
    return 0;
}

static float logit_of(const struct row_result *r, int32_t token)
{
    if (r->logits) return r->logits[token];
    int at = find_token(r->listed, r->n_listed, token);
    if (at >= 0) return r->listed_logit[at];
    for (at = 0; r->top_id[at] != token;) at++;
    return r->top_logit[at];
}

int sampler_pick(struct sampler *s, int seq, int thread, const struct row_result *result, int64_t pos,
    struct sample_pick *pick, struct lutra_error *err)
{
    struct sample_state *st = &s->seq[seq];
    struct sample_scratch *tmp = &s->scratch[thread];
    if (result->logits) {
        TRY(pick_from_all(s, st, tmp, result->logits, pos, &pick->token, err));
    } else {
        TRY(pick_from_best(s, st, tmp, result, pos, &pick->token, err));
    }
    /* log softmax(logits)[token] under the model itself, not under the cut and heated distribution */
    pick->log_prob = (float)((double)logit_of(result, pick->token) - (double)result->log_sum_exp);
    return 0;
}
