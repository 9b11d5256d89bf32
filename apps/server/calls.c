/* SPDX-License-Identifier: MIT */
#include "calls.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "calls_json.h"

enum state {
    TEXT,      /* no call */
    HEAD,      /* an object's beginning, or Qwen 3.5's */
    ARGUMENTS, /* of an object, told as they come */
    TAIL,      /* behind arguments, to the call's end */
    XML,       /* parameters between tags */
    GEMMA,     /* a call, told when it is complete */
    HEADER,    /* harmony's, before <|message|> */
    BODY,      /* harmony's, behind it */
    PLAIN,     /* the rest is text */
};
enum { HEAD_MOST = 1 << 20 };

void calls_init(struct call_parser *p, enum call_style style, const json_t *tools)
{
    *p = (struct call_parser){.style = style, .tools = tools, .first = true};
    p->state = style == CALLS_HARMONY ? HEADER : TEXT;
}

void calls_free(struct call_parser *p)
{
    text_free(&p->in);
}

static void consume(struct call_parser *p, size_t n)
{
    memmove(p->in.bytes, p->in.bytes + n, p->in.n - n);
    p->in.n -= n;
    p->in.bytes[p->in.n] = 0;
}

static void tell_text(struct call_parser *p, size_t n, const struct call_sink *to)
{
    if (n > 0) to->text(to->user, p->in.bytes, n, false);
    if (n > 0) p->called = false;
    consume(p, n);
}

static size_t find(const struct call_parser *p, const char *mark)
{
    const char *at = memmem(p->in.bytes, p->in.n, mark, strlen(mark));
    return at ? (size_t)(at - p->in.bytes) : SIZE_MAX;
}

/* Bytes at the end that may be the beginning of a mark. */
static size_t may_begin(const struct call_parser *p, const char *mark)
{
    size_t n = strlen(mark) - 1;
    if (n > p->in.n) n = p->in.n;
    while (n > 0 && memcmp(p->in.bytes + p->in.n - n, mark, n) != 0) n--;
    return n;
}

static bool begins(const struct call_parser *p, size_t at, const char *mark)
{
    size_t n = strlen(mark);
    return p->in.n >= at + n && memcmp(p->in.bytes + at, mark, n) == 0;
}

/* Might the text from `at` on still become the mark? */
static bool may_become(const struct call_parser *p, size_t at, const char *mark)
{
    size_t n = p->in.n - at;
    return n < strlen(mark) && memcmp(p->in.bytes + at, mark, n) == 0;
}

static void begin_call(struct call_parser *p, const char *name, size_t n, const struct call_sink *to)
{
    snprintf(p->name, sizeof p->name, "%.*s", (int)(n < sizeof p->name ? n : sizeof p->name - 1), name);
    p->called = true;
    to->begin(to->user, p->name, strlen(p->name));
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

static const struct mark {
    enum call_style style;
    const char *text;
    enum state next;
    bool stays; /* it belongs to what follows */
} marks[] = {
    {CALLS_HERMES, "<tool_call>", HEAD, false},
    {CALLS_HERMES, "<function=", HEAD, true},
    {CALLS_MISTRAL, "[TOOL_CALLS]", HEAD, false},
    {CALLS_LLAMA, "<|python_tag|>", HEAD, false},
    {CALLS_GEMMA, "<|tool_call>", GEMMA, false},
    {CALLS_GEMMA, "<start_function_call>", GEMMA, false},
};

/* An object at the beginning of a reply, or behind another one. */
static bool object_begins(struct call_parser *p, bool *waits)
{
    *waits = false;
    if (p->style != CALLS_LLAMA) return false;
    if (!p->first && !p->called) return false;
    size_t at = call_blanks(p->in.bytes, p->in.n, 0);
    if (p->called && at < p->in.n && p->in.bytes[at] == ';') at = call_blanks(p->in.bytes, p->in.n, at + 1);
    *waits = at == p->in.n;
    if (*waits || p->in.bytes[at] != '{') return false;
    consume(p, at);
    return true;
}

static bool step_text(struct call_parser *p, const struct call_sink *to)
{
    bool waits;
    size_t first = SIZE_MAX, held = 0;
    const struct mark *found = NULL;
    if (p->in.n == 0) return false;
    if (object_begins(p, &waits)) {
        p->state = HEAD;
        return true;
    }
    if (waits) return false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (marks[i].style != p->style) continue;
        size_t at = find(p, marks[i].text), may = may_begin(p, marks[i].text);
        if (at < first) {
            first = at;
            found = &marks[i];
        }
        if (may > held) held = may;
    }
    if (!found) { /* line ends before a call are no text: they wait, too */
        size_t n = p->in.n - held;
        while (n > 0 && strchr(" \r\n", p->in.bytes[n - 1])) n--;
        if (n > 0) p->first = false;
        tell_text(p, n, to);
        return false;
    }
    size_t n = first;
    while (n > 0 && strchr(" \r\n", p->in.bytes[n - 1])) n--;
    tell_text(p, n, to);
    consume(p, first - n + (found->stays ? 0 : strlen(found->text)));
    p->state = found->next;
    return true;
}

/* ---- objects ---------------------------------------------------------------------------------------------------- */

/* It was no call: the rest is text. */
static bool give_up(struct call_parser *p)
{
    p->state = PLAIN;
    return true;
}

static void tell_string(const char *text, size_t n, const struct call_sink *to)
{
    json_t *value = json_loadb(text, n, JSON_DECODE_ANY, NULL);
    if (json_is_string(value)) to->arguments(to->user, json_string_value(value), json_string_length(value));
    json_decref(value);
}

static bool start_object(struct call_parser *p, const struct call_sink *to)
{
    struct call_head head;
    enum call_scan found = call_scan(p->in.bytes, p->in.n, &head);
    if (found == CALL_MORE && p->in.n < HEAD_MOST) return false;
    if (found != CALL_KNOWN) return give_up(p);
    begin_call(p, p->in.bytes + head.name, head.n_name, to);
    p->in_object = true;
    p->quoted = p->escaped = false;
    if (head.end == 0) {
        consume(p, head.arguments);
        p->state = ARGUMENTS;
        p->at = 0;
        p->depth = 0;
        return true;
    }
    if (head.n_arguments && p->in.bytes[head.arguments] == '"')
        tell_string(p->in.bytes + head.arguments, head.n_arguments, to);
    else if (head.n_arguments)
        to->arguments(to->user, p->in.bytes + head.arguments, head.n_arguments);
    else
        to->arguments(to->user, "{}", 2);
    consume(p, head.end - 1); /* its brace, as behind arguments that came one by one */
    p->state = TAIL;
    return true;
}

/* "name[ARGS]{...}", with "[CALL_ID]..." between them or not. */
static bool start_mistral(struct call_parser *p, const struct call_sink *to)
{
    size_t at = find(p, "[ARGS]");
    if (at == SIZE_MAX) return p->in.n > HEAD_MOST && give_up(p);
    size_t n = find(p, "[CALL_ID]") < at ? find(p, "[CALL_ID]") : at, from = call_blanks(p->in.bytes, n, 0);
    while (n > from && strchr(" \n", p->in.bytes[n - 1])) n--;
    begin_call(p, p->in.bytes + from, n - from, to);
    p->in_object = false;
    consume(p, at + 6);
    p->state = ARGUMENTS;
    p->at = 0;
    p->depth = 0;
    p->quoted = p->escaped = false;
    return true;
}

static bool start_xml(struct call_parser *p, const struct call_sink *to)
{
    size_t at = find(p, "<function="), end = find(p, ">");
    if (end == SIZE_MAX) return p->in.n > HEAD_MOST && give_up(p);
    begin_call(p, p->in.bytes + at + 10, end - at - 10, to);
    p->in_object = false;
    to->arguments(to->user, "{", 1);
    consume(p, end + 1);
    p->at = 0; /* parameters told */
    p->state = XML;
    return true;
}

static bool step_head(struct call_parser *p, const struct call_sink *to)
{
    size_t at = call_blanks(p->in.bytes, p->in.n, 0);
    if (at == p->in.n) return false;
    char c = p->in.bytes[at];
    if (p->style == CALLS_HERMES && (begins(p, at, "<function=") || may_become(p, at, "<function=")))
        return begins(p, at, "<function=") && start_xml(p, to);
    if (p->style == CALLS_MISTRAL && c == '[') {
        consume(p, at + 1);
        return p->in.n > 0;
    }
    if (p->style == CALLS_MISTRAL && c != '{') return start_mistral(p, to);
    return start_object(p, to);
}

/* Tells arguments to the brace that ends them. */
static bool step_arguments(struct call_parser *p, const struct call_sink *to)
{
    bool over = false;
    size_t i = 0;
    if (p->depth == 0) consume(p, call_blanks(p->in.bytes, p->in.n, 0));
    for (; i < p->in.n && !over; i++) {
        char c = p->in.bytes[i];
        if (p->quoted) {
            bool was = p->escaped;
            p->escaped = c == '\\' && !was;
            if (c == '"' && !was) p->quoted = false;
            continue;
        }
        p->quoted = c == '"';
        if (c == '{' || c == '[') p->depth++;
        if (c == '}' || c == ']') over = --p->depth <= 0;
        if (p->depth == 0 && !over) break; /* no object: null, a number */
    }
    if (p->depth < 0 || (i < p->in.n && !over)) i = 0;
    if (i > 0) to->arguments(to->user, p->in.bytes, i);
    if (p->depth == 0 && i == 0 && p->in.n > 0) over = true;
    consume(p, i);
    if (!over) return false;
    p->state = TAIL;
    return true;
}

/* Skips the rest of a call's object, its brace included; false: it has not come yet. */
static bool skip_object(struct call_parser *p)
{
    for (size_t i = 0; i < p->in.n; i++) {
        char c = p->in.bytes[i];
        bool was = p->escaped;
        p->escaped = p->quoted && c == '\\' && !was;
        if (c == '"' && !was) p->quoted = !p->quoted;
        if (p->quoted || c != '}') continue;
        consume(p, i + 1);
        p->in_object = false;
        return true;
    }
    consume(p, p->in.n);
    return false;
}

/* From the arguments to the call's end; more calls may follow. */
static bool step_tail(struct call_parser *p, const struct call_sink *to)
{
    static const char end[] = "</tool_call>";
    (void)to;
    if (p->in_object && !skip_object(p)) return false;
    if (p->style == CALLS_HERMES) {
        size_t at = find(p, end);
        if (at == SIZE_MAX) {
            size_t held = may_begin(p, end);
            consume(p, p->in.n - held);
            return false;
        }
        consume(p, at + sizeof end - 1);
    } else if (p->style == CALLS_MISTRAL) { /* ", {" is another call, "]" and anything else the end */
        size_t at = 0;
        while (at < p->in.n && strchr(",] \n", p->in.bytes[at]) && p->in.bytes[at]) at++;
        consume(p, at);
        if (p->in.n == 0) return false;
        p->state = p->in.bytes[0] == '{' ? HEAD : TEXT;
        return true;
    }
    p->state = TEXT;
    return true;
}

/* ---- Qwen 3.5 ---------------------------------------------------------------------------------------------------- */

/* Does a parameter's own schema say that it is a text?  src/decode/grammar/schema_xml.c writes it by the same rule. */
static bool says_text(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *one = json_object_get(schema, "const"), *item;
    json_t *list = json_object_get(schema, "enum");
    size_t i;
    if (json_is_string(type)) return strcmp(json_string_value(type), "string") == 0;
    if (type || (!one && json_array_size(list) == 0)) return false;
    bool texts = !one || json_is_string(one);
    json_array_foreach(list, i, item) texts = texts && json_is_string(item);
    return texts;
}

static bool is_text(const struct call_parser *p, const char *key, size_t n)
{
    size_t i;
    json_t *tool;
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), key);
    json_array_foreach((json_t *)p->tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        const char *its = json_string_value(json_object_get(function, "name"));
        if (!its || strcmp(its, p->name) != 0) continue;
        const json_t *parameters = json_object_get(function, "parameters");
        if (json_object_get(parameters, "$ref")) return false;
        return says_text(json_object_get(json_object_get(parameters, "properties"), name));
    }
    return false;
}

/* A parameter's value: text where the schema says so or it is no JSON. */
static void tell_parameter(
    struct call_parser *p, size_t key, size_t n_key, size_t from, size_t to_at, const struct call_sink *to)
{
    struct text t = {0};
    const char *in = p->in.bytes;
    if (from < to_at && in[from] == '\n') from++;
    if (from < to_at && in[to_at - 1] == '\n') to_at--;
    json_t *value = is_text(p, in + key, n_key) ? NULL : json_loadb(in + from, to_at - from, JSON_DECODE_ANY, NULL);
    text_put(&t, p->at++ ? ", " : "");
    text_json(&t, in + key, n_key);
    text_put(&t, ": ");
    if (value)
        text_add(&t, in + from, to_at - from);
    else
        text_json(&t, in + from, to_at - from);
    json_decref(value);
    if (!t.failed) to->arguments(to->user, t.bytes, t.n);
    text_free(&t);
}

static bool step_xml(struct call_parser *p, const struct call_sink *to)
{
    static const char open[] = "<parameter=", close[] = "</parameter>", end[] = "</function>";
    size_t at = call_blanks(p->in.bytes, p->in.n, 0);
    if (at == p->in.n || may_become(p, at, open) || may_become(p, at, end)) return false;
    if (!begins(p, at, open)) { /* its end, or what stands in its place */
        to->arguments(to->user, "}", 1);
        consume(p, at + (begins(p, at, end) ? sizeof end - 1 : 0));
        p->state = TAIL;
        return true;
    }
    size_t key = at + sizeof open - 1, close_at = find(p, close), gt = find(p, ">");
    if (gt == SIZE_MAX || close_at == SIZE_MAX) return p->in.n > HEAD_MOST && give_up(p);
    tell_parameter(p, key, gt - key, gt + 1, close_at, to);
    consume(p, close_at + sizeof close - 1);
    return true;
}

/* ---- Gemma ------------------------------------------------------------------------------------------------------ */

/* The call before byte `end`; cut: as far as it goes.  False: it is none. */
static bool tell_gemma(struct call_parser *p, size_t end, bool cut, const struct call_sink *to)
{
    struct text t = {0};
    size_t from = call_blanks(p->in.bytes, end, 0);
    if (begins(p, from, "call:")) from += 5;
    const char *brace = from < end ? memchr(p->in.bytes + from, '{', end - from) : NULL;
    size_t at = brace ? (size_t)(brace - p->in.bytes) : end;
    size_t n = brace && at > from ? calls_gemma_value(brace, end - at, 0, &t) : 0;
    bool is_call = n > 0 && (n != CALLS_CUT || cut) && !t.failed;
    if (is_call) begin_call(p, p->in.bytes + from, at - from, to);
    if (is_call) to->arguments(to->user, t.bytes, t.n);
    text_free(&t);
    return is_call;
}

static bool step_gemma(struct call_parser *p, const struct call_sink *to)
{
    static const char *const ends[] = {"<tool_call|>", "<end_function_call>"};
    size_t end = SIZE_MAX, n_mark = 0;
    for (int i = 0; i < 2; i++)
        if (find(p, ends[i]) < end) {
            end = find(p, ends[i]);
            n_mark = strlen(ends[i]);
        }
    if (end == SIZE_MAX) return p->in.n > HEAD_MOST && give_up(p);
    if (!tell_gemma(p, end, false, to)) return give_up(p);
    consume(p, end + n_mark);
    p->state = TEXT;
    return true;
}

/* ---- harmony ---------------------------------------------------------------------------------------------------- */

enum harmony { ANSWER, THOUGHT, CALL };

static bool step_header(struct call_parser *p, const struct call_sink *to)
{
    static const char end[] = "<|message|>", call[] = "to=functions.";
    if (p->in.n == 0) return false;
    if (p->first && may_become(p, 0, " to=")) return false;
    if (p->first && p->in.bytes[0] != '<' &&
        !begins(p, 0, " to=")) { /* the prompt ended in its header, or it has none */
        p->first = false;
        p->depth = ANSWER;
        p->state = BODY;
        return true;
    }
    size_t at = find(p, end);
    if (at == SIZE_MAX) return p->in.n > HEAD_MOST && give_up(p);
    p->first = false;
    const char *name = memmem(p->in.bytes, at, call, sizeof call - 1);
    p->depth = name ? CALL : memmem(p->in.bytes, at, "analysis", 8) ? THOUGHT : ANSWER;
    if (name) {
        name += sizeof call - 1;
        size_t most = at - (size_t)(name - p->in.bytes), n = 0;
        while (n < most && name[n] != ' ' && name[n] != '<') n++;
        begin_call(p, name, n, to);
    }
    consume(p, at + sizeof end - 1);
    p->state = BODY;
    return true;
}

static bool step_body(struct call_parser *p, const struct call_sink *to)
{
    static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};
    size_t end = SIZE_MAX, n_mark = 0, held = 0;
    for (int i = 0; i < 5; i++) {
        if (find(p, ends[i]) < end) {
            end = find(p, ends[i]);
            n_mark = i < 3 ? strlen(ends[i]) : 0; /* the last two belong to the header that follows */
        }
        if (may_begin(p, ends[i]) > held) held = may_begin(p, ends[i]);
    }
    size_t n = end == SIZE_MAX ? p->in.n - held : end;
    if (n > 0 && p->depth == CALL) to->arguments(to->user, p->in.bytes, n);
    if (n > 0 && p->depth != CALL) to->text(to->user, p->in.bytes, n, p->depth == THOUGHT);
    consume(p, n + (end == SIZE_MAX ? 0 : n_mark));
    if (end == SIZE_MAX) return false;
    p->state = HEADER;
    return true;
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static bool step(struct call_parser *p, const struct call_sink *to)
{
    switch ((enum state)p->state) {
    case TEXT: return step_text(p, to);
    case HEAD: return step_head(p, to);
    case ARGUMENTS: return step_arguments(p, to);
    case TAIL: return step_tail(p, to);
    case XML: return step_xml(p, to);
    case GEMMA: return step_gemma(p, to);
    case HEADER: return step_header(p, to);
    case BODY: return step_body(p, to);
    case PLAIN: tell_text(p, p->in.n, to); return false;
    }
    return false;
}

void calls_feed(struct call_parser *p, const char *text, size_t n, const struct call_sink *to)
{
    if (n == 0) return;
    if (p->style == CALLS_NONE) {
        to->text(to->user, text, n, false);
        return;
    }
    text_add(&p->in, text, n);
    if (p->in.failed) return;
    while (step(p, to)) continue;
}

void calls_end(struct call_parser *p, const struct call_sink *to)
{
    bool holds_text = p->state == TEXT || p->state == HEAD || p->state == PLAIN || (p->state == HEADER && p->first);
    if (p->state == GEMMA) holds_text = !tell_gemma(p, p->in.n, true, to);
    if (p->state == BODY && p->in.n > 0 && p->depth == CALL) to->arguments(to->user, p->in.bytes, p->in.n);
    if (p->state == BODY && p->in.n > 0 && p->depth != CALL)
        to->text(to->user, p->in.bytes, p->in.n, p->depth == THOUGHT);
    bool blank = call_blanks(p->in.bytes ? p->in.bytes : "", p->in.n, 0) == p->in.n;
    if (holds_text && p->in.n > 0 && !(p->called && blank)) tell_text(p, p->in.n, to);
    text_clear(&p->in);
}

enum call_style calls_style(const char *t)
{
    static const struct {
        const char *mark;
        enum call_style style;
    } known[] = {
        {"<|tool_call>", CALLS_GEMMA},
        {"<start_function_call>", CALLS_GEMMA},
        {"<|channel|>", CALLS_HARMONY},
        {"[TOOL_CALLS]", CALLS_MISTRAL},
        {"<tool_call>", CALLS_HERMES},
        {"<|python_tag|>", CALLS_LLAMA},
        {"ipython", CALLS_LLAMA},
    };
    if (!t || !strstr(t, "tools")) return CALLS_NONE;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(t, known[i].mark)) return known[i].style;
    return CALLS_NONE;
}

bool calls_need_special(enum call_style style)
{
    return style == CALLS_LLAMA || style == CALLS_MISTRAL || style == CALLS_HARMONY || style == CALLS_GEMMA;
}
