/* SPDX-License-Identifier: MIT
 *
 * What requests hear with drafts and without: text, log-probs, ends and events are compared bit for bit.
 */
#ifndef LUTRA_TESTS_DRAFTS_FIXTURE_H
#define LUTRA_TESTS_DRAFTS_FIXTURE_H

#include "engine_fixture.h"

#include "guess_source.h"

enum { N_WHO = 3, MAX_CAND = 120, MAX_TOK = 100, N_PROMPT = 40 };

/* What a request's listener hears. */
struct heard {
    char text[MAX_CAND][1024];
    int32_t token[MAX_CAND][MAX_TOK];
    float log_prob[MAX_CAND][MAX_TOK];
    int n_token[MAX_CAND], n_tok[MAX_CAND];
    enum lutra_stop reason[MAX_CAND];
    double sum_log_prob[MAX_CAND];
    int n_pass[MAX_CAND], n_drafted, n_accepted;
    char event[MAX_CAND * 40][96];
    int n_event;
    int n_prompt, enough; /* on_text returns nonzero at so many tokens; 0: never */
    int cancel;           /* sample 0 cancels all at so many; 0: never */
    lutra_session *s;
};

/* Requests of one run, by their ids. */
struct run {
    struct heard who[N_WHO];
    char winner[1024];
    double score;
    uint64_t n_pass;
};

static struct run plain, drafted; /* large: not on the stack */

static inline int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    assert_in_range(p->sample, 0, MAX_CAND - 1);
    size_t at = strlen(h->text[p->sample]);
    for (size_t i = 0; i < p->n_bytes && at < sizeof h->text[0] - 1; i++)
        h->text[p->sample][at++] = p->text[i] ? p->text[i] : '@'; /* NUL is text, too */
    if (p->token < 0) return 0;
    int n = h->n_token[p->sample]++;
    assert_in_range(n, 0, MAX_TOK - 1);
    h->token[p->sample][n] = p->token;
    h->log_prob[p->sample][n] = p->log_prob;
    if (h->cancel && p->sample == 0 && n + 1 == h->cancel) lutra_cancel(h->s);
    return h->enough && n + 1 == h->enough + p->sample;
}

static inline void on_end(void *user, const struct lutra_end *e)
{
    struct heard *h = user;
    assert_int_equal(h->reason[e->sample], LUTRA_STOP_NONE);
    h->reason[e->sample] = e->reason;
    h->n_tok[e->sample] = e->n_tok;
    h->sum_log_prob[e->sample] = e->sum_log_prob;
    h->n_pass[e->sample] = e->n_pass;
    h->n_drafted += e->n_drafted;
    h->n_accepted += e->n_accepted;
}

static inline void on_event(void *user, const struct lutra_search_event *e)
{
    struct heard *h = user;
    assert_in_range(h->n_event, 0, sizeof h->event / sizeof *h->event - 1);
    snprintf(h->event[h->n_event++], sizeof *h->event, "%d %d %d %d %.17g %.17g %.20s", e->candidate, (int)e->kind,
        e->parent, e->n_step, e->reward, e->score, e->answer);
}

static inline int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The same but for the order in which candidates that end beside each other are told of. */
static inline void assert_same(struct run *a, struct run *b, int trial)
{
    for (int w = 0; w < N_WHO; w++) {
        struct heard *x = &a->who[w], *y = &b->who[w];
        qsort(x->event, (size_t)x->n_event, sizeof *x->event, by_text);
        qsort(y->event, (size_t)y->n_event, sizeof *y->event, by_text);
        if (memcmp(x->text, y->text, sizeof x->text) || memcmp(x->token, y->token, sizeof x->token) ||
            memcmp(x->log_prob, y->log_prob, sizeof x->log_prob) || memcmp(x->n_token, y->n_token, sizeof x->n_token) ||
            memcmp(x->reason, y->reason, sizeof x->reason) || memcmp(x->n_tok, y->n_tok, sizeof x->n_tok) ||
            memcmp(x->sum_log_prob, y->sum_log_prob, sizeof x->sum_log_prob) || x->n_event != y->n_event ||
            memcmp(x->event, y->event, sizeof x->event))
            fail_msg("trial %d, request %d: not as without drafts", trial, w);
    }
    assert_string_equal(a->winner, b->winner);
    assert_true(a->score == b->score);
}

static int32_t prompt[N_WHO][N_PROMPT];

/* What sample tip->sample says at this depth behind the tip, as the plain run has heard it. */
static inline int32_t said(const void *text, const struct row_tip *tip, int depth)
{
    const struct heard *h = &((const struct run *)text)->who[tip->request % N_WHO];
    int inherited = h->n_tok[tip->sample] - h->n_token[tip->sample]; /* by a fork */
    int n = tip->n_token - h->n_prompt + depth - 1 - inherited;
    return n >= 0 && n < h->n_token[tip->sample] ? h->token[tip->sample][n] : -1;
}

/* Passes take no time: none is measured, and what is drafted does not depend on the machine. */
static inline void stop_time(struct fixture *f)
{
    static struct virtual_time time;
    f->rt->clock = clock_virtual(&time);
}

static inline void generate(
    struct fixture *f, struct guesser *g, int n_samples, int cancel, float temperature, struct run *out)
{
    struct lutra_sampling sampling;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = temperature;
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    r.sampling = &sampling;
    memset(out, 0, sizeof *out);
    out->who[0].n_prompt = N_PROMPT;
    out->who[0].cancel = cancel;
    out->who[0].s = f->s;
    for (int i = 0; i < N_PROMPT; i++) prompt[0][i] = token_at(i);
    r.prompt = prompt[0];
    r.n_prompt = N_PROMPT;
    r.n_samples = n_samples;
    r.max_tokens = 64;
    r.ignore_end = true;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = &out->who[0];
    if (g) guess_begin(g, f->s);
    lutra_session_stats_reset(f->s);
    assert_int_equal(lutra_generate(f->s, &r, NULL), cancel ? LUTRA_E_CANCELLED : 0);
    out->n_pass = f->s->stats.n_pass;
}

/* Tokens of the prompt and n that were said behind it that the cache has. */
static inline int n_kept(struct fixture *f, const int32_t *token, int n)
{
    int32_t text[N_PROMPT + MAX_TOK];
    memcpy(text, prompt[0], sizeof prompt[0]);
    memcpy(text + N_PROMPT, token, (size_t)n * sizeof *token);
    struct kv_past past = {text, N_PROMPT + n, N_PROMPT, 0, 0};
    return kv_find(f->s->kv, &past);
}

#define LIKE_AVX512 0.09f /* cost of a row; processors with dearer ones draft less */

static inline void spec_session_at(struct fixture *f, int n_seq, const char *spec, float row_cost)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = n_seq;
    ss.n_ctx = 256;
    ss.spec_type = spec;
    ss.experiment = fixture_row_cost(row_cost);
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

/* What rows cost is counted, then measured. */
static inline void spec_session(struct fixture *f, int n_seq, const char *spec)
{
    spec_session_at(f, n_seq, spec, 0);
}

#endif
