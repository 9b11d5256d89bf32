/* SPDX-License-Identifier: MIT
 *
 * GET /metrics: Prometheus' text, by llama.cpp's names, and what it does not count by ours.
 */
#include "state.h"

static void put(struct text *out, const char *kind, const char *name, const char *help, double value)
{
    text_print(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, kind, name, value);
}

static double seconds(const atomic_ullong *us)
{
    return (double)atomic_load(us) * 1e-6;
}

static double rate(const atomic_ullong *n, const atomic_ullong *us)
{
    return atomic_load(us) ? (double)atomic_load(n) / seconds(us) : 0;
}

void metrics_show(struct exchange *x, struct text *out, struct problem *p)
{
    struct server *s = x->server;
    int n_work = atomic_load(&s->n_exchange), n_running = atomic_load(&s->n_running);
    (void)p;
    put(out, "counter", "llamacpp:prompt_tokens_total", "Prompt tokens that were evaluated.",
        (double)(atomic_load(&s->n_prompt_token) - atomic_load(&s->n_cached_token)));
    put(out, "counter", "llamacpp:prompt_seconds_total", "Time from submission to the first token, of all prompts.",
        seconds(&s->prompt_us));
    put(out, "counter", "llamacpp:tokens_predicted_total", "Tokens that were generated.",
        (double)atomic_load(&s->n_token));
    put(out, "counter", "llamacpp:tokens_predicted_seconds_total",
        "Time of samples from their first token to their end.", seconds(&s->decode_us));
    put(out, "counter", "llamacpp:n_decode_total", "Forward passes.", (double)atomic_load(&s->n_pass));
    put(out, "gauge", "llamacpp:prompt_tokens_seconds", "Prompt tokens a second.",
        rate(&s->n_prompt_token, &s->prompt_us));
    put(out, "gauge", "llamacpp:predicted_tokens_seconds", "Generated tokens a second of one sample.",
        rate(&s->n_token, &s->decode_us));
    put(out, "gauge", "llamacpp:requests_processing", "Requests at work.", n_running);
    put(out, "gauge", "llamacpp:requests_deferred", "Requests that wait.", n_work > n_running ? n_work - n_running : 0);
    put(out, "gauge", "lutra:requests_paused", "Requests that wait until their client reads.",
        atomic_load(&s->n_paused));
    put(out, "counter", "lutra:requests_total", "Requests that were taken in.", (double)atomic_load(&s->n_request));
    put(out, "counter", "lutra:refused_total", "Requests that were refused.", (double)atomic_load(&s->n_refused));
    put(out, "counter", "lutra:cancelled_total", "Requests whose client hung up or stopped reading.",
        (double)atomic_load(&s->n_cancelled));
    put(out, "counter", "lutra:cached_tokens_total", "Prompt tokens found in the cache.",
        (double)atomic_load(&s->n_cached_token));
    put(out, "counter", "lutra:rows_valid_total", "Rows that were evaluated and kept.",
        (double)atomic_load(&s->rows_valid));
    put(out, "counter", "lutra:rows_wasted_total", "Rows that were evaluated for nothing.",
        (double)atomic_load(&s->rows_wasted));
    put(out, "counter", "lutra:rows_idle_total", "Rows that passes had room for at about the cost of one.",
        (double)atomic_load(&s->rows_idle));
}
