/* SPDX-License-Identifier: MIT */
#include "decode/sample/sampler_impl.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"

struct sample_settings sample_settings_default(void)
{
    return (struct sample_settings){
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .penalty_last_n = 64,
        .repeat_penalty = 1.0f,
    };
}

static int check_range(const char *name, float x, float low, float high, struct lutra_error *err)
{
    if (x >= low && x <= high) return 0;
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "%s: %g is not between %g and %g", name, (double)x, (double)low, (double)high);
}

int sample_settings_check(const struct sample_settings *s, int n_vocab, struct lutra_error *err)
{
    TRY(check_range("temperature", s->temperature, -1e6f, 1e6f, err));
    TRY(check_range("top_p", s->top_p, 0, 1e6f, err));
    TRY(check_range("min_p", s->min_p, -1e6f, 1, err));
    TRY(check_range("repeat_penalty", s->repeat_penalty, 1e-3f, 1e3f, err));
    TRY(check_range("frequency_penalty", s->frequency_penalty, -1e3f, 1e3f, err));
    TRY(check_range("presence_penalty", s->presence_penalty, -1e3f, 1e3f, err));
    if (s->penalty_last_n < -1)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "penalty_last_n: %d is not -1, 0 or a length", s->penalty_last_n);
    if (s->n_bias < 0 || (s->n_bias > 0 && !s->bias))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "logit bias: %d entries, list missing", s->n_bias);
    for (int i = 0; i < s->n_bias; i++) {
        if (s->bias[i].token < 0 || s->bias[i].token >= n_vocab)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
                "logit bias: token %d is not in the vocabulary of %d", s->bias[i].token, n_vocab);
        if (!(s->bias[i].bias <= 1e6f))
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
                "logit bias: %g for token %d is not -infinity to 1e6", (double)s->bias[i].bias, s->bias[i].token);
    }
    return 0;
}

static int open_scratch(struct sample_scratch *tmp, int n_vocab)
{
    tmp->logits = calloc((size_t)n_vocab, sizeof *tmp->logits);
    tmp->seen = calloc((size_t)n_vocab, sizeof *tmp->seen);
    tmp->cand = calloc((size_t)n_vocab, sizeof *tmp->cand);
    tmp->passes = nucleus_passes_for(cpu_isa());
    TRY(nucleus_init(&tmp->nucleus, n_vocab));
    return tmp->logits && tmp->seen && tmp->cand ? 0 : LUTRA_E_NO_MEMORY;
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
    for (int i = 0; rc == 0 && i < limits->n_thread; i++) rc = open_scratch(&s->scratch[i], limits->n_vocab);
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

static int window_of(const struct sample_settings *set, int n_history)
{
    bool off = set->repeat_penalty == 1 && set->frequency_penalty == 0 && set->presence_penalty == 0;
    if (off) return 0;
    return set->penalty_last_n < 0 || set->penalty_last_n > n_history ? n_history : set->penalty_last_n;
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
    st->sample = sample;
    st->window = window_of(settings, s->lim.n_history);
    st->n_seen = 0;
    return 0;
}

void sampler_accept(struct sampler *s, int seq, int32_t token)
{
    struct sample_state *st = &s->seq[seq];
    if (st->window > 0) st->history[st->n_seen % st->window] = token;
    st->n_seen++;
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
        int64_t kept = from->n_seen < from->window ? from->n_seen : from->window;
        memcpy(history, from->history, (size_t)kept * sizeof *history);
    }
    to->sample = sample;
}
