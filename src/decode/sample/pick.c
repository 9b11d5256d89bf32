/* SPDX-License-Identifier: MIT */
#include "decode/sample/sampler_impl.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

/* llama.cpp's rule: a seen token's logit is divided by the repeat penalty where positive and multiplied where not,
 * then lowered by count x frequency + presence. */
static void apply_penalties(const struct sample_state *st, float *row, int32_t *seen, int n_vocab)
{
    const struct sample_settings *set = &st->set;
    int n = (int)(st->n_seen < st->window ? st->n_seen : st->window);
    for (int i = 0; i < n; i++)
        if (st->history[i] >= 0 && st->history[i] < n_vocab) seen[st->history[i]]++;
    for (int i = 0; i < n; i++) {
        int32_t t = st->history[i];
        if (t < 0 || t >= n_vocab || !seen[t]) continue;
        row[t] = row[t] <= 0 ? row[t] * set->repeat_penalty : row[t] / set->repeat_penalty;
        row[t] -= (float)seen[t] * set->frequency_penalty + set->presence_penalty;
        seen[t] = 0;
    }
}

const float *sample_adjust(const struct sample_state *st, int n_vocab, const float *logits, struct sample_scratch *tmp)
{
    if (st->set.n_bias == 0 && (st->window == 0 || st->n_seen == 0)) return logits;
    memcpy(tmp->logits, logits, (size_t)n_vocab * sizeof *logits);
    for (int i = 0; i < st->set.n_bias; i++) tmp->logits[st->set.bias[i].token] += st->set.bias[i].bias;
    if (st->window > 0) apply_penalties(st, tmp->logits, tmp->seen, n_vocab);
    return tmp->logits;
}

/* Without top-k and top-p no order is needed: candidates stay in order of id. */
static int keep_min_p(
    const struct sample_settings *set, int n_vocab, const float *row, float max, struct sample_scratch *tmp)
{
    float floor = set->min_p > 0 ? max + logf(set->min_p) : -INFINITY;
    int n = 0;
    for (int32_t i = 0; i < n_vocab; i++)
        if (row[i] >= floor && row[i] > -INFINITY) tmp->cand[n++] = (struct sample_cand){i, row[i]};
    if (n >= set->min_keep || set->min_p <= 0) return n;
    return select_top_k(row, n_vocab, set->min_keep < n_vocab ? set->min_keep : n_vocab, max, tmp->cand, &tmp->select);
}

static int cut_min_p(const struct sample_settings *set, const struct sample_cand *cand, int n, float max)
{
    if (set->min_p <= 0) return n;
    float floor = max + logf(set->min_p);
    int keep = 1;
    while (keep < n && (cand[keep].logit >= floor || keep < set->min_keep)) keep++;
    return keep;
}

static double sum_of(const struct sample_cand *cand, int n, float max)
{
    double total = 0;
    for (int i = 0; i < n; i++) total += exp_nonpos(cand[i].logit - max);
    return total;
}

struct sample_choice sample_choose(
    const struct sample_settings *set, int n_vocab, const float *row, float max, struct sample_scratch *tmp)
{
    struct sample_cand *cand = tmp->cand;
    int n;
    if (set->top_k > 0) {
        n = select_top_k(row, n_vocab, set->top_k < n_vocab ? set->top_k : n_vocab, max, cand, &tmp->select);
        if (set->top_p < 1) n = select_prefix(cand, n, set->top_p, set->min_keep, max, sum_of(cand, n, max));
        n = cut_min_p(set, cand, n, max);
    } else if (set->top_p < 1) {
        n = select_top_p(row, n_vocab, set->top_p, set->min_keep, max, cand, &tmp->select);
        n = cut_min_p(set, cand, n, max);
    } else {
        n = keep_min_p(set, n_vocab, row, max, tmp);
    }
    double total = 0;
    for (int i = 0; i < n; i++) {
        cand[i].logit = exp_nonpos((cand[i].logit - max) / set->temperature);
        total += cand[i].logit;
    }
    return (struct sample_choice){cand, n, total};
}

static int32_t draw(struct sample_choice choice, double u)
{
    double goal = u * choice.total, sum = 0;
    int32_t last = -1;
    for (int i = 0; i < choice.n; i++) {
        if (choice.cand[i].logit <= 0) continue;
        last = choice.cand[i].id;
        sum += choice.cand[i].logit;
        if (sum > goal) break;
    }
    return last;
}

static int check_row(const float *logits, int n_vocab, float max, int has_nan, struct lutra_error *err)
{
    if (has_nan || max == INFINITY) {
        int at = 0;
        while (at < n_vocab - 1 && !isnan(logits[at]) && logits[at] != INFINITY) at++;
        return lutra_fail_at(err, LUTRA_E_INTERNAL, (uint64_t)at, "the model's logit of token %d is %s", at,
            isnan(logits[at]) ? "not a number" : "infinite");
    }
    return max > -INFINITY ? 0
                           : lutra_fail(err, LUTRA_E_NOT_FOUND, "no token left to sample: every logit is -infinity");
}

int sampler_pick(struct sampler *s, int seq, int thread, const float *logits, int64_t pos, struct sample_pick *pick,
    struct lutra_error *err)
{
    const struct sample_state *st = &s->seq[seq];
    struct sample_scratch *tmp = &s->scratch[thread];
    int n_vocab = s->lim.n_vocab, has_nan;
    float max = select_max(logits, n_vocab, &has_nan);
    TRY(check_row(logits, n_vocab, max, has_nan, err));

    const float *row = sample_adjust(st, n_vocab, logits, tmp);
    float row_max = row == logits ? max : select_max(row, n_vocab, &has_nan);
    if (row_max == -INFINITY)
        return lutra_fail(err, LUTRA_E_NOT_FOUND, "no token left to sample: the logit bias forbids every one");
    if (has_nan || row_max == INFINITY)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "penalties and logit bias drive a logit beyond what a float holds");
    if (st->set.temperature <= 0) {
        pick->token = select_argmax(row, n_vocab, row_max);
    } else {
        struct sample_choice choice = sample_choose(&st->set, n_vocab, row, row_max, tmp);
        struct rng_key key = {st->set.seed, st->sample, (uint32_t)pos};
        pick->token = draw(choice, rng_double(key, 0));
    }
    /* log softmax(logits)[token] under the model itself, not under the cut and heated distribution */
    double total = select_exp_sum(logits, n_vocab, max, 1.0f);
    pick->log_prob = (float)((double)(logits[pick->token] - max) - log(total));
    return 0;
}
