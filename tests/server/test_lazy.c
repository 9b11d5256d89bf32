/* SPDX-License-Identifier: MIT
 *
 * Replies that may call tools, drawn through the grammar that tools set up and read by the parser of calls: in the form
 * of each model family, text, a call, text, a second call.  Text is free, broken triggers in it too; a trigger may be
 * cut anywhere into tokens; behind it the tool's schema holds; and the parser finds what was drawn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ask.h"
#include "base/rng.h"
#include "calls.h"
#include "decode/grammar/grammar.h"
#include "search/json_schema.h"

enum { ROUNDS = 60, STEPS = 3000, VOCAB = 256 + 64, TEXT = 16384 };

static const struct family {
    const char *name, *sign; /* sign: what its chat template has */
    enum call_style style;
    const char *begin[3];  /* where text stands before, at the reply's start, right behind a call; NULL: the first */
    const char *end;       /* behind the arguments; "": they end it */
    const char *broken[3]; /* text that only begins like a call */
    bool list, alone;      /* calls stand in one list; a call ends the reply */
} families[] = {
    {"qwen", "", CALLS_HERMES, {"<tool_call>\n{\"name\": \"NAME\", \"arguments\": "}, "}\n</tool_call>",
        {"<tool_cal>", "</tool_call", "<tool"}, false, false},
    {"qwen 3.5", "<function=", CALLS_HERMES, {"<tool_call>\n<function=NAME>\n", "<function=NAME>\n"},
        "</function>\n</tool_call>", {"<function", "<tool_call", "<parameter="}, false, false},
    {"llama", "", CALLS_LLAMA,
        {"<|python_tag|>{\"name\": \"NAME\", \"parameters\": ", "{\"name\": \"NAME\", \"parameters\": ",
            "; {\"name\": \"NAME\", \"parameters\": "},
        "}", {"<|python_ta", "{\"name\"", ";"}, false, false},
    {"mistral", "", CALLS_MISTRAL, {"[TOOL_CALLS][{\"name\": \"NAME\", \"arguments\": "}, "]",
        {"[TOOL_CALLS", "[TOOL", "["}, true, false},
    {"mistral 3", "[ARGS]", CALLS_MISTRAL, {"[TOOL_CALLS]NAME[ARGS]"}, "", {"[TOOL_CALL]", "[ARGS]", "["}, false,
        false},
    {"gpt-oss", "", CALLS_HARMONY,
        {"<|channel|>commentary to=functions.NAME", " to=functions.NAME<|channel|>commentary"}, "",
        {"to=function", "<|chan", "commentary"}, false, true},
    {"gemma", "", CALLS_GEMMA, {"<|tool_call>call:NAME"}, "<tool_call|>", {"<|tool_cal>", "call:f{", "<|"}, false,
        false},
    {"functiongemma", "<start_function_call>", CALLS_GEMMA, {"<start_function_call>call:NAME"}, "<end_function_call>",
        {"<start_function>", "call:look", "<"}, false, false},
};

static const char tools_json[] =
    "[{\"function\":{\"name\":\"look\",\"parameters\":{\"type\":\"object\",\"properties\":{\"city\":{\"enum\":["
    "\"Rome\","
    "\"\xC3\xA9\"]},\"days\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":20}},\"required\":[\"city\"],"
    "\"additionalProperties\":false}}},"
    "{\"function\":{\"name\":\"look.up\",\"parameters\":{\"type\":\"object\",\"properties\":{\"where\":{\"$ref\":"
    "\"#/$defs/place\"},\"all\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/place\"},\"maxItems\":2}},"
    "\"required\":[\"where\"],\"additionalProperties\":false,\"$defs\":{\"place\":{\"type\":\"object\",\"properties\":"
    "{\"n\":{\"type\":\"string\",\"maxLength\":4},\"on\":{\"type\":\"boolean\"}},\"required\":[\"on\"],"
    "\"additionalProperties\":false}}}}}]";

static uint32_t counter;

static uint32_t draw(uint32_t n)
{
    return rng_u32((struct rng_key){36, 7, 0}, counter++) % n;
}

/* A reply as it is drawn. */
struct reply {
    const struct family *family;
    struct grammar_machine *machine;
    struct grammar_token token[VOCAB];
    char piece[64][8];
    int32_t state;
    char text[TEXT];
    size_t n;
    char said[TEXT]; /* its free text, without blanks */
    size_t n_said;
    char name[64][16]; /* of its calls */
    int n_call;
};

static void take(struct reply *r, int32_t t)
{
    uint64_t mask[VOCAB / 64];
    struct lutra_error err = {0};
    assert_true(grammar_mask(r->machine, r->state, mask, &err) >= 0);
    assert_int_equal(grammar_follow(r->machine, r->state, t, &r->state, &err), 0);
    bool may = mask[t / 64] >> t % 64 & 1;
    memcpy(r->text + r->n, r->token[t].p, r->token[t].n);
    r->n += r->token[t].n;
    r->text[r->n] = 0;
    if (may != (r->state != GRAMMAR_DEAD) || !may)
        fail_msg("%s: '%s': the last token: mask %d, state %d", r->family->name, r->text, may, r->state);
}

/* A text, cut into tokens at random. */
static void say(struct reply *r, const char *text)
{
    for (size_t n = strlen(text), at = 0; at < n;) {
        int32_t fit[VOCAB], n_fit = 0;
        for (int32_t t = 0; t < VOCAB - 1; t++) {
            size_t k = r->token[t].n;
            if (k && k <= n - at && memcmp(r->token[t].p, text + at, k) == 0) fit[n_fit++] = t;
        }
        int32_t t = fit[draw((uint32_t)n_fit)];
        take(r, t);
        at += r->token[t].n;
    }
}

static void say_freely(struct reply *r, const char *text)
{
    say(r, text);
    for (; *text; text++)
        if (!strchr(" \n", *text)) r->said[r->n_said++] = *text;
}

static void talk(struct reply *r)
{
    static const char *const words[] = {"Let me see. ", "\xC3\xA9", "a < b", "x", "42\n", "{}", "\"", "ok, "};
    say_freely(r, "W"); /* what begins a reply may begin a call */
    for (uint32_t n = draw(5); n > 0; n--) {
        say_freely(r, words[draw(8)]);
        if (draw(2) == 0) say_freely(r, r->family->broken[draw(3)]);
        say_freely(r, ".");
    }
}

/* Whether what stands behind text[from] is one whole JSON value that begins there. */
static bool is_whole(const char *text, size_t n)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && text[i] == '\\') {
            i++;
            continue;
        }
        if (text[i] == '"') quoted = !quoted;
        if (quoted) continue;
        if (strchr("{[", text[i])) depth++;
        if (strchr("}]", text[i]) && --depth == 0) return i + 1 == n;
    }
    return false;
}

static bool has_ended(const struct reply *r, size_t from)
{
    const struct family *f = r->family;
    size_t n_end = strlen(f->end);
    if (f->list) return is_whole(r->text + from, r->n - from);
    bool at_end = r->n - from > n_end && memcmp(r->text + r->n - n_end, f->end, n_end) == 0;
    if (f->end[0] == '}') return at_end && is_whole(r->text + from, r->n - from - n_end);
    if (n_end) return at_end;
    const char *brace = strchr(r->text + from, '{');
    return brace && is_whole(brace, r->n - (size_t)(brace - r->text));
}

/* Whether the call ends inside the token. */
static bool overruns(struct reply *r, size_t from, int32_t t)
{
    size_t n = r->n, n_token = r->token[t].n;
    bool ends = false;
    memcpy(r->text + n, r->token[t].p, n_token);
    for (size_t k = 1; k < n_token && !ends; k++) {
        char next = r->text[n + k];
        r->text[r->n = n + k] = 0;
        ends = has_ended(r, from);
        r->text[n + k] = next;
    }
    r->text[r->n = n] = 0;
    return ends;
}

/* Draws by the mask up to the call's end. */
static void draw_call(struct reply *r, size_t from)
{
    for (int step = 0; !has_ended(r, from); step++) {
        uint64_t mask[VOCAB / 64];
        int32_t may[VOCAB], n = 0;
        struct lutra_error err = {0};
        if (step == STEPS) fail_msg("%s: no end: %.300s", r->family->name, r->text);
        assert_true(grammar_mask(r->machine, r->state, mask, &err) >= 0);
        for (int32_t t = 0; t < VOCAB - 1; t++)
            if (mask[t / 64] >> t % 64 & 1 && !overruns(r, from, t)) may[n++] = t;
        if (n == 0) fail_msg("%s: nothing follows '%s'", r->family->name, r->text);
        int32_t t = may[draw((uint32_t)n)];
        for (int i = 0; i < n && draw(3) == 0; i++) /* what closes something */
            if (strchr("\"}]</", *r->token[may[i]].p)) t = may[i];
        take(r, t);
    }
}

static void call(struct reply *r)
{
    const struct family *f = r->family;
    static const char *const names[] = {"look", "look.up"};
    bool first = r->n == 0, behind = r->n_call > 0 && r->text[r->n - 1] != '.' && r->text[r->n - 1] != 'W';
    const char *begin = first && f->begin[1] ? f->begin[1] : behind && f->begin[2] ? f->begin[2] : f->begin[0];
    const char *name = names[draw(2)], *at = strstr(begin, "NAME");
    char text[200];
    size_t from = r->n;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - begin), begin, name, at + 4);
    say(r, text);
    draw_call(r, f->list ? from + strlen("[TOOL_CALLS]") : from + strlen(text));
    if (!f->list) { /* one name begins the other: what was drawn may have gone on with it */
        bool longer = strncmp(r->text + from + strlen(text), ".up", 3) == 0;
        strcpy(r->name[r->n_call++], longer ? names[1] : name);
        return;
    }
    json_t *list = json_loads(r->text + from + strlen("[TOOL_CALLS]"), 0, NULL), *one;
    size_t i;
    assert_non_null(list);
    json_array_foreach(list, i, one) strcpy(r->name[r->n_call++], json_string_value(json_object_get(one, "name")));
    json_decref(list);
}

/* ---- what the parser makes of it ---- */

struct found {
    struct text text, arguments[64];
    char name[64][32];
    int n;
};

static void on_text(void *user, const char *text, size_t n, bool thought)
{
    struct found *f = user;
    (void)thought;
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \n", text[i])) text_add(&f->text, text + i, 1);
}

static void on_begin(void *user, const char *name, size_t n)
{
    struct found *f = user;
    snprintf(f->name[f->n++], sizeof f->name[0], "%.*s", (int)n, name);
}

static void on_arguments(void *user, const char *json, size_t n)
{
    struct found *f = user;
    text_add(&f->arguments[f->n - 1], json, n);
}

static void check_arguments(const struct reply *r, const char *name, struct text *arguments, const json_t *tools)
{
    struct json_schema *schema;
    struct lutra_error err = {0};
    struct lutra_check check;
    char why[160] = "";
    const json_t *function = json_object_get(json_array_get(tools, strcmp(name, "look") != 0), "function");
    char *text = json_dumps(json_object_get(function, "parameters"), 0);
    assert_int_equal(json_schema_open(&schema, "parameters", text, strlen(text), &err), 0);
    lutra_check_init(&check, sizeof check);
    text_add(arguments, "", 1);
    check.text = arguments->bytes;
    if (json_schema_ask(schema, &check, why, sizeof why) != 1)
        fail_msg("%s: %s: %s\n%s", r->family->name, arguments->bytes, why, r->text);
    json_schema_close(&schema);
    free(text);
}

static void read_back(const struct reply *r, const json_t *tools)
{
    static struct found f;
    struct call_parser p;
    struct call_sink sink = {on_text, on_begin, on_arguments, &f};
    f = (struct found){0};
    calls_init(&p, r->family->style, tools);
    for (size_t at = 0, n; at < r->n; at += n) {
        n = 1 + draw(9);
        if (n > r->n - at) n = r->n - at;
        calls_feed(&p, r->text + at, n, &sink);
    }
    calls_end(&p, &sink);
    calls_free(&p);
    if (f.n != r->n_call) fail_msg("%s: %d calls, not %d, in: %s", r->family->name, f.n, r->n_call, r->text);
    for (int i = 0; i < f.n; i++) {
        if (strcmp(f.name[i], r->name[i]) != 0) fail_msg("%s: call %d of %s", r->family->name, i, r->text);
        check_arguments(r, f.name[i], &f.arguments[i], tools);
        text_free(&f.arguments[i]);
    }
    if (f.text.n != r->n_said || memcmp(f.text.bytes ? f.text.bytes : "", r->said, r->n_said) != 0)
        fail_msg("%s: text '%.*s' of: %s", r->family->name, (int)f.text.n, f.text.bytes, r->text);
    text_free(&f.text);
}

static void fill_vocab(struct reply *r)
{
    static char byte[256];
    memset(r->token, 0, sizeof r->token);
    for (int i = 0; i < 256; i++) {
        byte[i] = (char)i;
        r->token[i] = (struct grammar_token){byte + i, 1, false};
    }
    for (int i = 0; i < 63; i++) { /* pieces of what calls are made of */
        const char *from = i % 4 == 0 && *r->family->end ? r->family->end : r->family->begin[0];
        size_t at = draw((uint32_t)strlen(from)), n = 2 + draw(5);
        snprintf(r->piece[i], sizeof r->piece[i], "%.*s", (int)n, from + at);
        r->token[256 + i] = (struct grammar_token){r->piece[i], strlen(r->piece[i]), false};
    }
    r->token[VOCAB - 1] = (struct grammar_token){"", 0, true};
}

static void one_reply(const struct family *family, int round, const json_t *tools)
{
    static struct reply r;
    struct ask a = {.tools = tools, .one_call = round % 3 == 0};
    struct problem p = {0};
    struct lutra_error err = {0};
    struct grammar *grammar;
    struct grammar_vocab *vocab;
    r = (struct reply){.family = family};
    ask_structure(&a, family->style, family->sign, &p);
    assert_int_equal(p.status, 0);
    fill_vocab(&r);
    if (grammar_open_structure(&grammar, a.set.structure, strlen(a.set.structure), &err) < 0) fail_msg("%s", err.what);
    assert_int_equal(grammar_vocab_open(&vocab, r.token, VOCAB, &err), 0);
    assert_int_equal(grammar_machine_open(&r.machine, grammar, vocab, &err), 0);
    r.state = grammar_start(r.machine);
    bool once = a.one_call || family->alone;
    if (draw(3)) talk(&r);
    if (draw(6)) call(&r);
    for (int more = (int)draw(3); !once && more > 0 && r.n_call < 20; more--) {
        if (draw(2) && !family->list) talk(&r);
        if (!family->list) call(&r);
    }
    if (once && r.n_call && !grammar_is_whole(r.machine, r.state))
        fail_msg("%s: more than one call may follow: %s", family->name, r.text);
    if (!grammar_may_end(r.machine, r.state)) fail_msg("%s: may not end: %s", family->name, r.text);
    read_back(&r, tools);
    grammar_machine_close(&r.machine);
    grammar_vocab_close(&vocab);
    grammar_close(&grammar);
    text_free(&a.schema);
}

static void calls_in_free_text(void **state)
{
    (void)state;
    json_t *tools = json_loads(tools_json, 0, NULL);
    assert_non_null(tools);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (int round = 0; round < ROUNDS; round++) one_reply(&families[i], round, tools);
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_in_free_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
