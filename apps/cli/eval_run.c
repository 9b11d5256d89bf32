/* SPDX-License-Identifier: MIT */
#include "eval.h"

#include <stdlib.h>
#include <string.h>

/* What the callbacks of one problem need. */
struct asked {
    struct eval_problem *problem;
    bool greedy;
    int *n_done, *n_failed;
    uint64_t *tokens;
};

static struct eval_sample *sample_of(struct asked *a, int i)
{
    return a->greedy ? &a->problem->greedy : &a->problem->sample[i];
}

static int on_text(void *user, const struct lutra_piece *piece)
{
    if (piece->n_bytes) buffer_add(&sample_of(user, piece->sample)->text, piece->text, piece->n_bytes);
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    struct asked *a = user;
    struct eval_sample *s = sample_of(a, end->sample);
    s->answer = s->text.text ? eval_answer(s->text.text, true) : NULL;
    s->right = s->answer && strcmp(s->answer, a->problem->answer) == 0;
    s->done = true;
    s->n_tok = end->n_tok;
    s->sum_log_prob = end->sum_log_prob;
    s->reason = end->reason;
    buffer_free(&s->text);
    *a->tokens += (uint64_t)end->n_tok;
    ++*a->n_done;
    *a->n_failed += end->reason == LUTRA_STOP_ERROR;
}

/* Each problem gets numbers of its own: splitmix64 of seed and place. */
static uint64_t problem_seed(uint64_t seed, int i)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u * ((uint64_t)i + 1);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int submit(struct engine *e, struct asked *a, const struct lutra_sampling *sampling, int i, int n,
    int max_tokens, struct lutra_error *err)
{
    struct lutra_request r = lutra_request_default();
    int32_t id;
    r.prompt = a->problem->prompt.id;
    r.n_prompt = a->problem->prompt.n;
    r.n_samples = n;
    r.max_tokens = max_tokens;
    r.sampling = *sampling;
    r.sampling.seed = problem_seed(sampling->seed, i);
    if (a->greedy) r.sampling.temperature = 0;
    r.on_text = on_text;
    r.on_end = on_end;
    r.user = a;
    return lutra_submit(e->session, &r, &id, err);
}

int eval_run(struct eval_set *set, struct engine *e, const struct lutra_sampling *sampling, int n, int max_tokens,
    const char *stage, struct eval_pass *pass)
{
    /* Requests waiting behind the running ones, so that no row stays empty at the end of a problem. */
    enum { AHEAD = 256 };
    struct lutra_error err = {0};
    bool greedy = n == 0;
    int per_problem = greedy ? 1 : n, n_done = 0, n_failed = 0, n_sent = 0, n_active = 0, code = 0;
    int total = set->n * per_problem;
    struct asked *asked = get_memory((size_t)set->n * sizeof *asked);
    lutra_session_stats_reset(e->session);
    uint64_t start = now_us(), tokens = 0;
    while (!code && n_done < total) {
        while (!code && n_sent < set->n && n_sent * per_problem - n_done < AHEAD + per_problem) {
            asked[n_sent] = (struct asked){&set->problem[n_sent], greedy, &n_done, &n_failed, &tokens};
            if (submit(e, &asked[n_sent], sampling, n_sent, per_problem, max_tokens, &err) < 0) code = fail_with(&err);
            n_sent++;
        }
        if (interrupted()) code = EXIT_INTERRUPTED;
        if (!code && lutra_step(e->session, &n_active, &err) < 0) code = fail_with(&err);
        progress_show(stage, (uint64_t)n_done, (uint64_t)total);
    }
    progress_clear();
    pass->seconds = (double)(now_us() - start) * 1e-6;
    pass->tokens = tokens;
    pass->stats.size = sizeof pass->stats;
    lutra_session_stats(e->session, &pass->stats);
    if (!code && n_failed) {
        say("%d of %d answers ended in an error: the model's logits leave no token to sample", n_failed, total);
        code = EXIT_FAILED;
    }
    /* Requests still running call back into `asked`: end them before it goes. */
    if (code) {
        interrupt_watch(NULL);
        lutra_session_close(&e->session);
    }
    free(asked);
    return interrupted() ? EXIT_INTERRUPTED : code;
}
