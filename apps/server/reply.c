/* SPDX-License-Identifier: MIT
 *
 * What dialects share about replies.
 */
#include <string.h>

#include "state.h"

bool end_is_error(const struct lutra_end *end)
{
    return end->reason == LUTRA_STOP_ERROR;
}

const char *end_word(const struct lutra_end *end)
{
    switch (end->reason) {
    case LUTRA_STOP_LENGTH:
    case LUTRA_STOP_CTX_FULL:
    case LUTRA_STOP_DEADLINE: return "length";
    default: return "stop";
    }
}

const char *choice_word(const struct choice *c)
{
    const char *word = end_word(&c->end);
    return c->n_call > 0 && strcmp(word, "stop") == 0 ? "tool_calls" : word;
}

void reply_stop_json(const struct reply *r, const struct choice *c, const char *none, struct text *out)
{
    const struct lutra_end *e = &c->end;
    struct text word = {0};
    if (e->reason == LUTRA_STOP_STRING)
        text_json_string(out, r->ask->stop[e->stop]);
    else if (e->reason == LUTRA_STOP_TOKEN) {
        token_text(r->model, r->ask->stop_token[e->stop], &word);
        text_json(out, word.n ? word.bytes : "", word.n);
    } else
        text_put(out, none);
    text_free(&word);
}

void reply_arguments(const struct call *call, struct text *out)
{
    struct problem none = {0};
    json_t *object = call->arguments.n ? json_read(call->arguments.bytes, call->arguments.n, &none) : json_object();
    if (object) {
        text_value(out, object);
    } else {
        text_put(out, "{\"malformed\":");
        text_json(out, call->arguments.bytes, call->arguments.n);
        text_put(out, "}");
    }
    json_decref(object);
}

struct usage reply_usage(const struct reply *r)
{
    struct usage u = {0};
    int n = r->ask->set.n_samples;
    for (int i = 0; i < r->n_choice; i++) {
        const struct lutra_end *end = &r->choice[i].end;
        if (i % n == 0) u.prompt += end->n_prompt;
        if (i % n == 0) u.cached += end->n_cached;
        u.generated += end->n_tok;
        u.thought += r->choice[i].n_thought;
    }
    return u;
}

static double per_second(double n, double us)
{
    return us > 0 ? n * 1e6 / us : 0;
}

void reply_progress(const struct progress *p, struct text *out)
{
    text_print(out, "{\"total\":%d,\"cache\":%d,\"processed\":%d,\"time_ms\":%.0f}", p->n_prompt, p->n_cached,
        p->n_done, p->ms);
}

void reply_timings(const struct reply *r, struct text *out)
{
    struct usage u = reply_usage(r);
    uint64_t begin_us = UINT64_MAX, first_us = 0, end_us = 0;
    int64_t drafted = 0, accepted = 0, n_pass = 0, wasted = 0, idle = 0;
    for (int i = 0; i < r->n_choice; i++) {
        const struct lutra_end *e = &r->choice[i].end;
        if (e->start_us < begin_us) begin_us = e->start_us;
        if (e->first_us > first_us) first_us = e->first_us;
        if (e->end_us > end_us) end_us = e->end_us;
        drafted += e->n_drafted;
        accepted += e->n_accepted;
        n_pass += e->n_pass;
        wasted += e->n_wasted;
        idle += e->n_underutilized;
    }
    double prompt_us = first_us > begin_us ? (double)(first_us - begin_us) : 0,
           decode_us = end_us > first_us ? (double)(end_us - first_us) : 0;
    int64_t n_prompt = u.prompt - u.cached;
    text_print(out,
        "{\"cache_n\":%lld,\"prompt_n\":%lld,\"prompt_ms\":%.3f,\"prompt_per_token_ms\":%.3f,"
        "\"prompt_per_second\":%.3f,\"predicted_n\":%lld,\"predicted_ms\":%.3f,\"predicted_per_token_ms\":%.3f,"
        "\"predicted_per_second\":%.3f",
        (long long)u.cached, (long long)n_prompt, prompt_us * 1e-3,
        n_prompt > 0 ? prompt_us * 1e-3 / (double)n_prompt : 0, per_second((double)n_prompt, prompt_us),
        (long long)u.generated, decode_us * 1e-3, u.generated > 0 ? decode_us * 1e-3 / (double)u.generated : 0,
        per_second((double)u.generated, decode_us));
    if (drafted > 0)
        text_print(out, ",\"draft_n\":%lld,\"draft_n_accepted\":%lld", (long long)drafted, (long long)accepted);
    text_print(out, ",\"passes\":%lld,\"rows_wasted\":%lld,\"rows_idle\":%lld}", (long long)n_pass, (long long)wasted,
        (long long)idle);
}

void token_text(const struct served *m, int32_t token, struct text *out)
{
    char bytes[512];
    size_t n = 0;
    if (lutra_token_text(m->loaded.model, token, true, bytes, sizeof bytes, &n) < 0) n = 0;
    text_add(out, bytes, n < sizeof bytes ? n : sizeof bytes);
}
