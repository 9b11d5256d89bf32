/* SPDX-License-Identifier: MIT */
#include "decode/sample/sampler_impl.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"

static int open_scratch(struct sample_scratch *tmp, int n_vocab, int n_history)
{
    tmp->logits = calloc((size_t)n_vocab, sizeof *tmp->logits);
    tmp->seen = calloc((size_t)n_vocab, sizeof *tmp->seen);
    tmp->cand = calloc((size_t)n_vocab, sizeof *tmp->cand);
    tmp->match = calloc((size_t)n_history + 1, sizeof *tmp->match);
    tmp->passes = nucleus_passes_for(cpu_isa());
    TRY(nucleus_init(&tmp->nucleus, n_vocab));
    return tmp->logits && tmp->seen && tmp->cand && tmp->match ? 0 : LUTRA_E_NO_MEMORY;
}

static int check_limits(const struct sampler_limits *lim, struct lutra_error *err)
{
    enum { MOST = 1 << 24 };
    if (lim->n_vocab < 1 || lim->n_vocab > MOST || lim->n_seq < 1 || lim->n_seq > MOST || lim->n_history < 0 ||
        lim->n_bias < 0 || lim->n_bias > MOST || lim->n_thread < 1 || lim->n_thread > MOST)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "sampler: %d tokens, %d sequences, %d history, %d biases, %d threads",
            lim->n_vocab, lim->n_seq, lim->n_history, lim->n_bias, lim->n_thread);
    return 0;
}

int sampler_open(struct sampler **out, const struct sampler_limits *limits, struct lutra_error *err)
{
    *out = NULL;
    TRY(check_limits(limits, err));
    struct sampler *s = calloc(1, sizeof *s);
    if (!s) return lutra_fail(err, LUTRA_E_NO_MEMORY, "sampler: out of memory");
    s->lim = *limits;
    size_t n_seq = (size_t)limits->n_seq;
    /* calloc checks the products; one extra entry keeps empty tables from being NULL. */
    s->seq = calloc(n_seq, sizeof *s->seq);
    s->scratch = calloc((size_t)limits->n_thread, sizeof *s->scratch);
    s->bias = calloc(n_seq, ((size_t)limits->n_bias + 1) * sizeof *s->bias);
    s->history = calloc(n_seq, ((size_t)limits->n_history + 1) * sizeof *s->history);
    s->listed = calloc(n_seq, ROW_LISTED * sizeof *s->listed);
    int rc = s->seq && s->scratch && s->bias && s->history && s->listed ? 0 : LUTRA_E_NO_MEMORY;
    for (int i = 0; rc == 0 && i < limits->n_thread; i++)
        rc = open_scratch(&s->scratch[i], limits->n_vocab, limits->n_history);
    if (rc < 0) {
        sampler_close(&s);
        return lutra_fail(
            err, rc, "sampler: out of memory for %d sequences of %d tokens", limits->n_seq, limits->n_history);
    }
    for (size_t i = 0; i < n_seq; i++) {
        s->seq[i].set = sample_settings_default();
        s->seq[i].set.bias = s->bias + i * ((size_t)limits->n_bias + 1);
        s->seq[i].history = s->history + i * ((size_t)limits->n_history + 1);
        s->seq[i].listed = s->listed + i * ROW_LISTED;
    }
    *out = s;
    return 0;
}

void sampler_close(struct sampler **sampler)
{
    struct sampler *s = *sampler;
    if (!s) return;
    for (int i = 0; s->scratch && i < s->lim.n_thread; i++) {
        free(s->scratch[i].logits);
        free(s->scratch[i].seen);
        free(s->scratch[i].cand);
        free(s->scratch[i].match);
        nucleus_fini(&s->scratch[i].nucleus);
    }
    free(s->scratch);
    free(s->seq);
    free(s->bias);
    free(s->history);
    free(s->listed);
    free(s);
    *sampler = NULL;
}

static int window_of(int last_n, int n_history)
{
    return last_n < 0 || last_n > n_history ? n_history : last_n;
}

/* Each sequence's lists and ring stay where they are; only their contents move. */
static struct sample_bias *bias_of(struct sampler *s, int seq)
{
    return s->bias + (size_t)seq * ((size_t)s->lim.n_bias + 1);
}

int sampler_init_sequence(
    struct sampler *s, int seq, const struct sample_settings *settings, uint32_t sample, struct lutra_error *err)
{
    if (seq < 0 || seq >= s->lim.n_seq)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "sampler: sequence %d of %d", seq, s->lim.n_seq);
    TRY(sample_settings_check(settings, s->lim.n_vocab, err));
    if (settings->n_bias > s->lim.n_bias)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "logit bias: %d entries, at most %d", settings->n_bias, s->lim.n_bias);
    struct sample_state *st = &s->seq[seq];
    if (settings->n_bias) memcpy(bias_of(s, seq), settings->bias, (size_t)settings->n_bias * sizeof *settings->bias);
    st->set = *settings;
    st->set.bias = bias_of(s, seq);
    st->plain = sample_settings_compile(&st->set, &st->best);
    st->sample = sample;
    st->window = window_of(st->set.penalty_last_n, s->lim.n_history);
    st->dry_window = window_of(st->set.dry_last_n, s->lim.n_history);
    st->ring = st->window > st->dry_window ? st->window : st->dry_window;
    st->n_seen = 0;
    st->mu = 2 * settings->mirostat_tau;
    st->near_weight = 1 / (1 - settings->adaptive_decay);
    st->near_sum = settings->adaptive_target * st->near_weight;
    st->picked = -1;
    return 0;
}

void sampler_accept(struct sampler *s, int seq, int32_t token)
{
    struct sample_state *st = &s->seq[seq];
    if (st->ring > 0) st->history[st->n_seen % st->ring] = token;
    st->n_seen++;
    chain_accept(st, token);
}

void sampler_allow(struct sampler *s, int seq, const uint64_t *allow)
{
    s->seq[seq].allow = allow;
}

void sampler_fork(struct sampler *s, int dst, int src, uint32_t sample)
{
    struct sample_state *to = &s->seq[dst];
    const struct sample_state *from = &s->seq[src];
    if (dst != src) {
        int32_t *history = to->history, *listed = to->listed;
        *to = *from;
        to->history = history;
        to->listed = listed;
        to->set.bias = bias_of(s, dst);
        memcpy(bias_of(s, dst), bias_of(s, src), (size_t)from->set.n_bias * sizeof *s->bias);
        int64_t kept = from->n_seen < from->ring ? from->n_seen : from->ring;
        memcpy(history, from->history, (size_t)kept * sizeof *history);
    }
    to->sample = sample;
}
