/* SPDX-License-Identifier: MIT
 *
 * Bodies of requests of every dialect, with hostile fields and broken bytes, and replies with calls, control tokens and
 * stops of every kind.  A body is refused with a status and a message, or becomes prompts that the engine takes; every
 * answer, error and event is JSON.
 *
 *     fuzz_server               4,000 inputs from number 1
 *     fuzz_server --long        the 200,000 behind them (about five minutes under ASan)
 *     fuzz_server N [FIRST]     inputs FIRST .. FIRST + N - 1; input numbers name inputs for good
 */
#include <jansson.h>
#include <stdbool.h>

#include "embed.h"
#include "fuzz/fuzz.h"
#include "models.h"
#include "search.h"
#include "state.h"
#include "translate.h"

enum { SECONDS_PER_INPUT = 30, STEPS = 2 };

static const struct {
    const struct dialect *dialect;
    const char *body;
} seeds[] = {
    {&dialect_chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"Sam has 42 cards.\"}],\"max_tokens\":3}"},
    {&dialect_chat,
        "{\"messages\":[{\"role\":\"system\",\"content\":\"x\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\","
        "\"text\":"
        "\"a\"}]},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\","
        "\"function\":"
        "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":"
        "\"2\"}],"
        "\"stream\":true,\"n\":2,\"logprobs\":true,\"top_logprobs\":3,\"stream_options\":{\"include_usage\":true}}"},
    {&dialect_chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"response_format\":{\"type\":\"json_"
                    "schema\",\"json_schema\":"
                    "{\"schema\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":0}},"
                    "\"required\":[\"n\"]}}},"
                    "\"stop\":[\"a\",\"b\"],\"logit_bias\":{\"5\":1}}"},
    {&dialect_chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tool_choice\":\"required\",\"tools\":[{"
                    "\"type\":\"function\","
                    "\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
                    "\"string\"}}}}}]}"},
    {&dialect_chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":4,\"lutra\":{\"search\":{"
                    "\"method\":\"vote\","
                    "\"width\":2,\"budget\":9},\"events\":true}}"},
    {&dialect_chat,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"grammar\":\"root ::= [0-9]+ | \\\"a\\\"\"}"},
    {&dialect_completions, "{\"prompt\":\"Sam has\",\"max_tokens\":2,\"echo\":true,\"best_of\":2,\"stream\":false}"},
    {&dialect_completions, "{\"prompt\":[[1,2],[3]],\"logprobs\":2,\"n\":2,\"stream\":true}"},
    {&dialect_responses,
        "{\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"x\"}]},{"
        "\"type\":"
        "\"function_call\",\"call_id\":\"1\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\","
        "\"call_id\":\"1\",\"output\":\"y\"}],\"stream\":true,\"reasoning\":{\"effort\":\"low\"},\"text\":{\"format\":{"
        "\"type\":"
        "\"text\"}}}"},
    {&dialect_llama, "{\"prompt\":[\"a\",70,\"b\"],\"n_predict\":2,\"n_probs\":2,\"return_tokens\":true,\"samplers\":["
                     "\"top_k\"],\"stream\":"
                     "true,\"json_schema\":{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"maxItems\":2}}"},
    {&dialect_infill,
        "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":[{\"filename\":\"c\",\"text\":\"d\"}]}"},
    {&dialect_ollama_chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"options\":{\"temperature\":0,\"num_"
                           "predict\":2,\"stop\":"
                           "[\"a\"]},\"think\":false,\"format\":\"json\",\"stream\":true}"},
    {&dialect_ollama_generate, "{\"prompt\":\"x\",\"system\":\"y\",\"raw\":true,\"suffix\":\"\",\"options\":{}}"},
    {&dialect_anthropic, "{\"max_tokens\":4,\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"messages\":[{\"role\":"
                         "\"user\",\"content\":[{"
                         "\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":\"r\"},{\"type\":\"text\","
                         "\"text\":\"x\"}]}],\"tools\":[{"
                         "\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}],\"tool_choice\":{\"type\":\"any\"},"
                         "\"stop_sequences\":[\"a\"],"
                         "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":3},\"stream\":true}"},
    {&dialect_embed, "{\"input\":[\"a\",[1,2]],\"encoding_format\":\"base64\",\"dimensions\":64}"},
    {&dialect_embed_llama, "{\"content\":[\"a\",5]}"},
    {&dialect_embed_ollama, "{\"input\":\"a\",\"truncate\":true}"},
    {&dialect_embed_ollama_one, "{\"prompt\":\"a\"}"},
};
enum { N_SEED = sizeof seeds / sizeof *seeds };

static const char *const names[] = {"messages", "role", "content", "tool_calls", "function", "arguments", "name",
    "type", "text", "prompt", "suffix", "echo", "best_of", "n", "seed", "stop", "stream", "stream_options",
    "logit_bias", "temperature", "top_k", "top_p", "logprobs", "top_logprobs", "response_format", "json_schema",
    "schema", "grammar", "tools", "tool_choice", "parameters", "properties", "items", "enum", "anyOf", "$ref", "$defs",
    "pattern", "minItems", "maxItems", "minimum", "required", "lutra", "search", "method", "width", "expand", "budget",
    "verifier", "step", "max_tokens", "min_tokens", "stop_token_ids", "samplers", "dry_sequence_breakers", "mirostat",
    "input", "input_extra", "dimensions", "options", "format", "think", "thinking", "system", "reasoning",
    "chat_template_kwargs", "enable_thinking", "reasoning_budget", "reasoning_effort", "modalities", "n_probs",
    "n_predict", "t_max_predict_ms"};
static const char *const texts[] = {"", "x", "\n", "assistant", "user", "<|im_end|>", "<tool_call>",
    "{\"name\": \"f\"}", "vote", "beam", "best", "auto", "likelihood", "json_schema", "object", "integer",
    "\xF0\x9F\xA6\x99", "e\xCC\x81", "root ::= root", "root ::= [a-", "root ::= \"a\"{2,99999999}", "^(a+)+$",
    "#/$defs/a", "500ms", "top_k", "a\\u0000b"};
static const char *const pieces[] = {"<tool_call>", "</tool_call>", "{\"name\": \"f\", \"arguments\": {", "}}", "{",
    "}", "[TOOL_CALLS]", "[ARGS]", "<|channel|>", "commentary to=functions.f", "<|message|>", "<|call|>",
    "<|tool_call>call:f{", "<|\"|>", "<tool_call|>", "<function=f>", "<parameter=a>", "</parameter>", "</function>",
    "\"", "\\", "\\u12", "\n", " ", "f", "42", "\xC3\xA9", "\xF0\x9F\xA6\x99", "<think>", "null", ",", ":", "[", "]",
    ";"};
static const char *const junk[] = {"{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud83d", "null", "1e999", "-0",
    "123456789012345678901", "\x01", "\xFF", "\xC3", "\xED\xA0\x80", "[[[[[[[[", "{\"a\":", "\0"};

static long n_prepared, n_refused, n_ran;

static uint64_t draw(uint64_t *dice, uint64_t below)
{
    return fuzz_roll(dice) % below;
}
#define ONE_OF(dice, list) list[draw(dice, sizeof list / sizeof *list)]

/* ---- bodies ----------------------------------------------------------------------------------------------------- */

static json_t *any_value(uint64_t *dice, int depth)
{
    static const double numbers[] = {0, -1, 0.5, 1e308, -1e308, 2147483648.0, 9007199254740993.0, 1e-320};
    json_t *all;
    switch (draw(dice, depth > 0 ? 9 : 6)) {
    case 0: return json_null();
    case 1: return json_boolean(draw(dice, 2));
    case 2: return json_integer((json_int_t)draw(dice, 8) - 2);
    case 3: return draw(dice, 2) ? json_real(ONE_OF(dice, numbers)) : json_integer((json_int_t)fuzz_roll(dice));
    case 4:
    case 5: return json_string(ONE_OF(dice, texts));
    case 6:
        all = json_array();
        for (uint64_t n = draw(dice, 4); n > 0; n--) json_array_append_new(all, any_value(dice, depth - 1));
        return all;
    default:
        all = json_object();
        for (uint64_t n = draw(dice, 4); n > 0; n--)
            json_object_set_new(all, ONE_OF(dice, names), any_value(dice, depth - 1));
        return all;
    }
}

/* Some place in it, or itself. */
static json_t *any_place(uint64_t *dice, json_t *in)
{
    while (draw(dice, 4)) {
        json_t *next = NULL, *value;
        const char *name;
        uint64_t n = json_is_object(in) ? json_object_size(in) : json_array_size(in), at = n ? draw(dice, n) : 0;
        if (json_is_array(in)) next = json_array_get(in, at);
        if (json_is_object(in)) json_object_foreach(in, name, value) if (at-- == 0) next = value;
        if (!json_is_object(next) && !json_is_array(next)) break;
        in = next;
    }
    return in;
}

static void change_value(uint64_t *dice, json_t *body)
{
    json_t *at = any_place(dice, body);
    json_t *value = any_value(dice, 3);
    uint64_t i = 0, which = json_object_size(at) ? draw(dice, json_object_size(at)) : 0;
    const char *name, *known = NULL;
    json_t *old;
    if (json_is_array(at)) {
        uint64_t n = json_array_size(at);
        if (n && draw(dice, 2))
            json_array_set_new(at, draw(dice, n), value);
        else
            json_array_insert_new(at, draw(dice, n + 1), value);
        return;
    }
    json_object_foreach(at, name, old) if (i++ == which) known = name;
    json_object_set_new(at, known && draw(dice, 2) ? known : ONE_OF(dice, names), value);
}

static void break_bytes(uint64_t *dice, struct text *t)
{
    struct text out = {0};
    size_t at = draw(dice, t->n + 1), skip = draw(dice, 4) ? 0 : draw(dice, t->n - at + 1);
    const char *bytes = ONE_OF(dice, junk);
    text_add(&out, t->bytes ? t->bytes : "", at);
    text_add(&out, bytes, *bytes ? strlen(bytes) : 1);
    text_add(&out, t->bytes ? t->bytes + at + skip : "", t->n - at - skip);
    text_free(t);
    *t = out;
}

/* ---- what comes of them ----------------------------------------------------------------------------------------- */

static void must_be_json(const char *text, size_t n, const char *what)
{
    json_error_t error;
    json_t *value = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!value) fuzz_fail("%s is no JSON (%s): %.*s", what, error.text, (int)(n < 600 ? n : 600), text);
    json_decref(value);
}

/* A whole answer, lines of JSON, or a stream of events. */
static void check_answer(const struct exchange *x)
{
    const struct text *out = &x->out;
    const char *type = x->route->dialect->stream_type;
    if (out->failed) fuzz_fail("the answer has failed");
    if (!x->ask.stream) {
        must_be_json(out->bytes, out->n, "the answer");
        return;
    }
    bool events = strcmp(type, "text/event-stream") == 0;
    for (size_t at = 0; at < out->n;) {
        const char *line = out->bytes + at, *end = memchr(line, '\n', out->n - at);
        size_t n = end ? (size_t)(end - line) : out->n - at;
        at += n + 1;
        if (n == 0 || (events && strncmp(line, "event: ", 7) == 0) ||
            (events && n == 12 && !memcmp(line, "data: [DONE]", 12)))
            continue;
        if (events && (n < 6 || memcmp(line, "data: ", 6) != 0)) fuzz_fail("no event: %.*s", (int)n, line);
        must_be_json(line + (events ? 6 : 0), n - (events ? 6 : 0), "an event");
    }
}

/* Not the NUL, which jansson does not read in a name. */
static int32_t any_token(uint64_t *dice)
{
    return 1 + (int32_t)draw(dice, 300);
}

/* What an engine might say, whatever was asked. */
static void say_something(uint64_t *dice, struct exchange *x)
{
    struct ask *a = &x->ask;
    struct text events = {0};
    for (int choice = 0; choice < x->reply.n_choice; choice++) {
        for (uint64_t n = draw(dice, 40); n > 0; n--) {
            const char *piece = ONE_OF(dice, pieces);
            struct event e = {.kind = EVENT_TEXT,
                .choice = choice,
                .part = draw(dice, 9) ? LUTRA_PART_ANSWER : LUTRA_PART_REASONING,
                .n_bytes = draw(dice, 5) ? strlen(piece) : 0,
                .scored = {.token = draw(dice, 9) ? any_token(dice) : -1,
                    .log_prob = -1,
                    .n_top = a->log_probs ? a->n_top : 0}};
            for (int k = 0; k < e.scored.n_top; k++) e.scored.top[k] = (struct lutra_token_prob){any_token(dice), -2};
            text_add(&events, &e, sizeof e);
            text_add(&events, piece, e.n_bytes);
        }
        struct event e = {.kind = EVENT_END, .choice = choice, .scored = {.token = -1}};
        e.end.stop = -1;
        e.end.reason = LUTRA_STOP_END + (int)draw(dice, LUTRA_STOP_DEADLINE - LUTRA_STOP_END + 1);
        if (e.end.reason == LUTRA_STOP_STRING && a->set.n_stop == 0) e.end.reason = LUTRA_STOP_END;
        if (e.end.reason == LUTRA_STOP_STRING) e.end.stop = (int)draw(dice, (uint64_t)a->set.n_stop);
        if (a->set.n_stop_tokens && draw(dice, 2)) {
            e.end.reason = LUTRA_STOP_TOKEN;
            e.end.stop = (int)draw(dice, (uint64_t)a->set.n_stop_tokens);
        }
        text_add(&events, &e, sizeof e);
    }
    translate_events(x, &events);
    translate_end(x);
    text_free(&events);
}

static void run(struct exchange *x)
{
    struct ask *a = &x->ask;
    struct lutra_request r = a->set;
    struct lutra_error err = {0};
    int32_t id;
    r.prompt = a->prompt[0].token;
    r.n_prompt = a->prompt[0].n_token;
    r.sampling = &a->sampling;
    r.stop = a->stop;
    r.stop_tokens = a->stop_token;
    r.n_samples = r.n_samples > 2 ? 2 : r.n_samples;
    lutra_session *s = x->model->loaded.session;
    if (a->searches) {
        lutra_search_run *search = NULL;
        if (lutra_search_submit(&search, s, &r, &a->look, &err) < 0 && !err.what[0]) fuzz_fail("no reason");
        for (int i = 0; i < STEPS && search; i++) lutra_step(s, NULL, &err);
        lutra_search_close(&search);
    } else if (lutra_submit(s, &r, &id, &err) < 0) {
        if (!err.what[0]) fuzz_fail("no reason");
        return;
    } else {
        for (int i = 0; i < STEPS; i++) lutra_step(s, NULL, &err);
        lutra_request_cancel(s, id);
    }
    for (int n = 1; n > 0;) lutra_step(s, &n, &err);
    n_ran++;
}

static void check_refusal(struct exchange *x, const struct problem *p)
{
    struct text error = {0};
    if (p->status < 400 || p->status > 599 || !p->what[0]) fuzz_fail("refused with %d '%s'", p->status, p->what);
    x->route->dialect->refuse(p, &error);
    must_be_json(error.bytes, error.n, "an error");
    text_free(&error);
    n_refused++;
}

static void feed(uint64_t *dice, struct exchange *x, const struct served *m, const struct text *body)
{
    struct problem p = {0};
    struct ask *a = &x->ask;
    json_t *json = json_read(body->bytes, body->n, &p);
    if (json) {
        ask_init(a, json);
        a->set.reasoning_budget = -1;
        x->route->dialect->read(a, &p);
        if (!p.status && a->searches) search_prepare(a, m, NULL, &p);
        if (!p.status && !a->nothing) ask_prepare(a, m, NULL, &p);
    }
    if (p.status) {
        check_refusal(x, &p);
        return;
    }
    n_prepared++;
    x->reply.ask = a;
    x->reply.model = x->model;
    x->reply.part = DELTA_END;
    if (!a->embeds && !a->nothing) {
        run(x);
        x->reply.n_choice = a->n_prompt * a->set.n_samples;
        x->reply.choice = calloc((size_t)x->reply.n_choice, sizeof *x->reply.choice);
        if (!x->reply.choice) fuzz_fail("no memory");
        for (int i = 0; i < x->reply.n_choice; i++)
            calls_init(&x->reply.choice[i].calls, (enum call_style)draw(dice, CALLS_GEMMA + 1), a->tools);
    }
    say_something(dice, x);
    check_answer(x);
}

static void try_one(uint64_t *dice, struct server *server, struct served *m)
{
    size_t seed = draw(dice, N_SEED);
    struct route route = {.dialect = seeds[seed].dialect};
    struct exchange *x = exchange_open(server, NULL, "/");
    json_t *body = json_loads(seeds[seed].body, 0, NULL);
    struct text text = {0};
    if (!x || !body) fuzz_fail("seed %zu", seed);
    for (uint64_t n = draw(dice, 4); n > 0; n--) change_value(dice, body);
    text_value(&text, body);
    json_decref(body);
    for (uint64_t n = draw(dice, 4) ? 0 : draw(dice, 4); n > 0; n--) break_bytes(dice, &text);
    x->route = &route;
    if (!models_try(m)) fuzz_fail("the model is not open");
    x->model = m;
    snprintf(x->reply.id, sizeof x->reply.id, "fuzz");
    feed(dice, x, m, &text);
    text_free(&text);
    exchange_release(x);
}

int main(int argc, char **argv)
{
    struct fuzz_inputs in = fuzz_begin(argc, argv, 4000, 200000);
    struct lutra_error err = {0};
    struct lutra_session_settings set;
    lutra_runtime *runtime = NULL;
    const char *name = "tiny";
    lutra_verifier *judge = NULL;
    struct server_judge judges[] = {{"likelihood", 0, true}};
    struct server_settings settings;
    struct server server = {.set = &settings};
    struct server_model model = {.name = &name, .n_name = 1, .path = "tiny"};
    struct served m = {.state = MODEL_OPEN, .server = &server, .set = &model, .loaded = {.n_seq = 4, .judge = &judge}};
    struct lutra_verifier_settings verifier;
    struct lutra_runtime_settings threads;
    lutra_runtime_settings_init(&threads, sizeof threads);
    threads.n_threads = 1; /* the model is so small that waking a second thread costs more than its work */
    server_settings_init(&settings);
    settings.judge = judges;
    settings.n_judge = 1;
    lutra_session_settings_init(&set, sizeof set);
    lutra_verifier_settings_init(&verifier, sizeof verifier);
    set.n_seq = 4;
    set.n_ctx = 512;
    verifier.n_seq = 0;
    if (lutra_runtime_open(&runtime, &threads, &err) < 0 ||
        lutra_model_open(&m.loaded.model, runtime, LUTRA_SOURCE_DIR "/models/abacus-xs-f16.gguf", NULL, &err) < 0 ||
        lutra_session_open(&m.loaded.session, m.loaded.model, &set, &err) < 0)
        fuzz_fail("%s", err.what);
    verifier.model = m.loaded.model;
    if (lutra_verifier_open(&judge, "likelihood", &verifier, &err) < 0) fuzz_fail("%s", err.what);
    lutra_model_info_get(m.loaded.model, &m.info, sizeof m.info);
    lutra_session_sizes_get(m.loaded.session, &m.n_ctx, NULL, NULL);
    for (fuzz_input = in.first; fuzz_input < in.first + in.n; fuzz_input++) {
        uint64_t dice = (uint64_t)36 << 32 ^ fuzz_input;
        fuzz_watch(SECONDS_PER_INPUT);
        try_one(&dice, &server, &m);
        fuzz_watch(0);
    }
    lutra_verifier_close(&judge);
    lutra_session_close(&m.loaded.session);
    lutra_model_close(&m.loaded.model);
    lutra_runtime_close(&runtime);
    printf("%llu bodies: %ld refused with a reason, %ld prepared, %ld of them run; every answer is JSON\n",
        (unsigned long long)in.n, n_refused, n_prepared, n_ran);
    return 0;
}
