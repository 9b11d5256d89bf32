/* SPDX-License-Identifier: MIT */
#include "ask.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void ask_init(struct ask *a, json_t *body)
{
    *a = (struct ask){.body = body, .raw_name = "prompt", .n = 1};
    lutra_request_init(&a->set, sizeof a->set);
    lutra_sampling_init(&a->sampling, sizeof a->sampling);
    if (getrandom(&a->sampling.seed, sizeof a->sampling.seed, GRND_NONBLOCK) < 0)
        a->sampling.seed = (uintptr_t)a ^ (uintptr_t)body;
}

void ask_free(struct ask *a)
{
    for (int i = 0; i < a->n_prompt; i++) {
        free(a->prompt[i].token);
        free(a->prompt[i].text);
        free(a->prompt[i].reason);
    }
    free(a->prompt);
    free(a->vector);
    free(a->bias);
    free(a->said);
    text_free(&a->schema);
    text_free(&a->samplers);
    json_decref(a->chat);
    json_decref(a->body);
    *a = (struct ask){0};
}

/* ---- sampling --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool whole;
    size_t at;
    double min, max;
} numbers[] = {
#define AT(field) offsetof(struct lutra_sampling, field)
    {"temperature", false, AT(temperature), 0, 1000},
    {"top_k", true, AT(top_k), -1, 1 << 24},
    {"top_p", false, AT(top_p), 0, 1},
    {"min_p", false, AT(min_p), 0, 1},
    {"typical_p", false, AT(typical_p), 0, 1},
    {"top_n_sigma", false, AT(top_n_sigma), -1, 1000},
    {"repeat_last_n", true, AT(penalty_last_n), -1, 1 << 24},
    {"repeat_penalty", false, AT(repeat_penalty), 0.001, 1000},
    {"repetition_penalty", false, AT(repeat_penalty), 0.001, 1000},
    {"frequency_penalty", false, AT(frequency_penalty), -1000, 1000},
    {"presence_penalty", false, AT(presence_penalty), -1000, 1000},
    {"dry_multiplier", false, AT(dry_multiplier), -1000, 1000},
    {"dry_base", false, AT(dry_base), 0, 1000},
    {"dry_allowed_length", true, AT(dry_allowed_length), 0, 1 << 24},
    {"dry_penalty_last_n", true, AT(dry_penalty_last_n), -1, 1 << 24},
    {"xtc_probability", false, AT(xtc_probability), 0, 1},
    {"xtc_threshold", false, AT(xtc_threshold), 0, 1},
    {"dynatemp_range", false, AT(dynatemp_range), 0, 1000},
    {"dynatemp_exponent", false, AT(dynatemp_exponent), 0, 1000},
    {"mirostat", true, AT(mirostat), 0, 2},
    {"mirostat_tau", false, AT(mirostat_tau), 0, 1000},
    {"mirostat_eta", false, AT(mirostat_eta), 0, 1000},
    {"adaptive_target", false, AT(adaptive_target), -1, 1},
    {"adaptive_decay", false, AT(adaptive_decay), 0, 0.99},
#undef AT
};

static bool add_bias(struct ask *a, const struct fields *f, json_int_t token, const json_t *value)
{
    double bias = json_is_false(value) ? (double)-INFINITY : json_number_value(value);
    if (token < 0 || token > INT32_MAX || !(json_is_number(value) || json_is_false(value)) || bias > 1e6) {
        field_wrong(f, "logit_bias", "token %lld: not a token id with a number up to 10^6", (long long)token);
        return false;
    }
    a->bias[a->sampling.n_bias++] = (struct lutra_logit_bias){(int32_t)token, (float)bias};
    return true;
}

/* OpenAI's {"15043": -100}, llama.cpp's [[15043, -100]]; false in place of a number forbids the token. */
static void read_bias(struct ask *a, const struct fields *f)
{
    json_t *all = field_any(f, "logit_bias"), *value;
    const char *name;
    size_t i, n = json_is_object(all) ? json_object_size(all) : json_array_size(all);
    if (!all || n == 0) return;
    if (n > ASK_BIAS_MAX || (!json_is_object(all) && !json_is_array(all))) {
        field_wrong(f, "logit_bias", "not an object of at most %d token ids", ASK_BIAS_MAX);
        return;
    }
    a->bias = calloc(n, sizeof *a->bias);
    if (!a->bias) problem_set(f->problem, 503, "out_of_memory", NULL, "out of memory");
    if (!a->bias) return;
    a->sampling.n_bias = 0;
    a->sampling.bias = a->bias;
    if (json_is_object(all)) json_object_foreach(all, name, value)
        {
            char *end;
            long long token = strtoll(name, &end, 10);
            if (!add_bias(a, f, *name && !*end ? token : -1, value)) return;
        }
    else
        json_array_foreach(all, i, value)
        {
            const json_t *token = json_array_get(value, 0);
            if (!add_bias(a, f, json_is_integer(token) ? json_integer_value(token) : -1, json_array_get(value, 1)))
                return;
        }
}

/* A string or a list of strings into out[ASK_STOPS_MAX]; returns how many.  Empty ones are left out. */
static int read_strings(const struct fields *f, const char *name, const char **out)
{
    const json_t *value = field_any(f, name);
    int n = 0;
    size_t n_item = json_is_array(value) ? json_array_size(value) : value ? 1 : 0;
    for (size_t i = 0; i < n_item; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        const char *text = json_string_value(item);
        if (!text || strlen(text) != json_string_length(item) || n == ASK_STOPS_MAX) {
            field_wrong(f, name, "not a string or a list of at most %d strings, without NULs", ASK_STOPS_MAX);
            return 0;
        }
        if (*text) out[n++] = text;
    }
    return n;
}

/* "stop_token_ids" and "min_tokens", vLLM's names. */
static void read_stop_tokens(struct ask *a, const struct fields *f)
{
    const json_t *list = field_array(f, "stop_token_ids"), *item;
    size_t i;
    field_int(f, "min_tokens", 0, 1 << 30, &a->set.min_tokens);
    if (json_array_size(list) > ASK_STOPS_MAX)
        field_wrong(f, "stop_token_ids", "more than %d tokens", ASK_STOPS_MAX);
    else
        json_array_foreach((json_t *)list, i, item)
        {
            json_int_t token = json_integer_value(item);
            if (!json_is_integer(item) || token < 0 || token > INT32_MAX)
                field_wrong(f, "stop_token_ids", "item %zu is not a token id", i);
            a->stop_token[a->set.n_stop_tokens++] = (int32_t)token;
        }
}

void ask_stop(struct ask *a, const struct fields *f, const char *name)
{
    if (!field_any(f, name)) return;
    a->set.n_stop = read_strings(f, name, a->stop);
    for (int i = 0; i < a->set.n_stop; i++)
        if (strlen(a->stop[i]) > 256) field_wrong(f, name, "a string of more than 256 bytes");
}

static void read_samplers(struct ask *a, const struct fields *f)
{
    const char *name[ASK_STOPS_MAX];
    int n = read_strings(f, "samplers", name);
    if (n == 0) return;
    for (int i = 0; i < n; i++) {
        if (i > 0) text_put(&a->samplers, ";");
        text_put(&a->samplers, name[i]);
    }
    a->sampling.samplers = a->samplers.bytes;
}

void ask_sampling(struct ask *a, const struct fields *f)
{
    int64_t seed = -1;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        void *to = (char *)&a->sampling + numbers[i].at;
        if (numbers[i].whole)
            field_int(f, numbers[i].name, (int64_t)numbers[i].min, (int64_t)numbers[i].max, to);
        else
            field_float(f, numbers[i].name, numbers[i].min, numbers[i].max, to);
    }
    if (field_i64(f, "seed", INT64_MIN, INT64_MAX, &seed) && seed != -1) a->sampling.seed = (uint64_t)seed;
    read_bias(a, f);
    read_samplers(a, f);
    if (field_any(f, "dry_sequence_breakers")) {
        a->sampling.n_dry_sequence_breakers = read_strings(f, "dry_sequence_breakers", a->breaker);
        if (a->sampling.n_dry_sequence_breakers == 0) a->sampling.n_dry_sequence_breakers = -1;
        a->sampling.dry_sequence_breakers = a->breaker;
    }
    field_bool(f, "ignore_eos", &a->set.ignore_end);
    ask_stop(a, f, "stop");
    read_stop_tokens(a, f);
}

/* ---- constraints ------------------------------------------------------------------------------------------------ */

void ask_schema(struct ask *a, const json_t *schema, struct problem *p)
{
    text_clear(&a->schema);
    text_value(&a->schema, schema);
    if (a->schema.failed) problem_set(p, 503, "out_of_memory", NULL, "out of memory");
    a->set.json_schema = a->schema.bytes;
}

void ask_grammar(struct ask *a, const struct fields *f)
{
    const char *grammar = NULL;
    const json_t *schema = field_object(f, "json_schema");
    if (field_text(f, "grammar", &grammar) && *grammar) a->set.grammar = grammar;
    if (schema) ask_schema(a, schema, f->problem);
    if (a->set.grammar && a->set.json_schema) field_wrong(f, "grammar", "beside a JSON schema: one of both, please");
}

/* ---- conversations ---------------------------------------------------------------------------------------------- */

/* The text of "content": a string, null, or parts of type text. */
static bool read_content(const json_t *content, int at, struct text *out, struct problem *p)
{
    size_t i;
    const json_t *part;
    char path[96];
    if (json_is_string(content)) text_add(out, json_string_value(content), json_string_length(content));
    if (json_is_string(content) || json_is_null(content) || !content) return true;
    if (!json_is_array(content)) {
        snprintf(path, sizeof path, "messages[%d].content", at);
        problem_set(p, 400, "invalid_value", path, "%s: not a string or a list of parts", path);
        return false;
    }
    json_array_foreach((json_t *)content, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        bool is_refusal = type && strcmp(type, "refusal") == 0;
        if (is_refusal) text = json_object_get(part, "refusal");
        bool is_text = type && (is_refusal || strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 ||
                                   strcmp(type, "output_text") == 0);
        snprintf(path, sizeof path, "messages[%d].content[%zu]%s", at, i, is_text ? ".text" : ".type");
        if (!is_text)
            problem_set(p, 400, "unsupported_value", path, "%s: '%.40s': only text is understood", path,
                type ? type : "(none)");
        else if (!json_is_string(text))
            problem_set(p, 400, "invalid_value", path, "%s: not a string", path);
        if (p->status) return false;
        if (i > 0) text_put(out, "\n");
        text_add(out, json_string_value(text), json_string_length(text));
    }
    return true;
}

/* Arguments of calls as objects, where they are that: what templates expect. */
static json_t *copy_calls(const json_t *calls, int at, struct problem *p)
{
    json_t *copy = json_deep_copy(calls), *call;
    size_t i;
    char path[96];
    json_array_foreach(copy, i, call)
    {
        json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
        if (!json_is_object(function) || !json_is_string(json_object_get(function, "name"))) {
            snprintf(path, sizeof path, "messages[%d].tool_calls[%zu].function.name", at, i);
            problem_set(p, 400, "invalid_value", path, "%s: not a string", path);
            break;
        }
        if (!json_is_string(arguments)) continue;
        struct problem bad = {0};
        json_t *object = json_read(json_string_value(arguments), json_string_length(arguments), &bad);
        if (object) json_object_set_new(function, "arguments", object);
    }
    return copy;
}

static bool is_name(const char *text)
{
    size_t n = text ? strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") : 0;
    return n > 0 && n <= 64 && !text[n];
}

static json_t *copy_message(const json_t *m, int at, struct problem *p)
{
    static const char *const kept[] = {"name", "tool_call_id", "reasoning_content"};
    const char *role = json_string_value(json_object_get(m, "role"));
    const json_t *calls = json_object_get(m, "tool_calls");
    char path[64];
    snprintf(path, sizeof path, "messages[%d].role", at);
    if (!is_name(role)) problem_set(p, 400, "invalid_value", path, "%s: not a role's name", path);
    struct text content = {0};
    if (p->status || !read_content(json_object_get(m, "content"), at, &content, p)) {
        text_free(&content);
        return NULL;
    }
    json_t *copy = json_object();
    json_object_set_new(copy, "role", json_string(strcmp(role, "developer") == 0 ? "system" : role));
    json_object_set_new(copy, "content", json_stringn(content.bytes ? content.bytes : "", content.n));
    text_free(&content);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        json_t *value = json_object_get(m, kept[i]);
        if (json_is_string(value)) json_object_set(copy, kept[i], value);
    }
    if (json_is_array(calls) && json_array_size(calls))
        json_object_set_new(copy, "tool_calls", copy_calls(calls, at, p));
    return copy;
}

void ask_messages(struct ask *a, const struct fields *f)
{
    const json_t *messages = field_array(f, "messages"), *m;
    size_t i, n = json_array_size(messages);
    if (n == 0) {
        field_wrong(f, "messages", "no messages");
        return;
    }
    json_t *copies = json_array();
    json_array_foreach((json_t *)messages, i, m)
    {
        json_t *copy = copy_message(m, (int)i, f->problem);
        if (!copy) break;
        const char *role = json_string_value(json_object_get(copy, "role"));
        bool last = i + 1 == n && strcmp(role, "assistant") == 0 && !json_object_get(copy, "tool_calls");
        if (last) { /* the reply goes on behind it; the body has its text for as long as it is needed */
            json_object_set_new(a->body, " go on", json_incref(json_object_get(copy, "content")));
            a->go_on = json_string_value(json_object_get(a->body, " go on"));
            json_decref(copy);
        } else {
            json_array_append_new(copies, copy);
        }
    }
    a->chat = json_object();
    json_object_set_new(a->chat, "messages", copies);
    if (!f->problem->status && json_array_size(copies) == 0)
        field_wrong(f, "messages", "nothing stands before the reply that is to be continued");
}
