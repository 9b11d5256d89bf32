/* SPDX-License-Identifier: MIT
 *
 * Anthropic's API: POST /v1/messages and /v1/messages/count_tokens; a body becomes one of OpenAI's chat.
 */
#include "anthropic.h"

#include <string.h>

#include "openai.h"
#include "state.h"

static const char *error_type(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
    }
}

void anthropic_error(const struct problem *p, struct text *out)
{
    text_print(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", error_type(p->status));
    text_json_string(out, p->what);
    text_put(out, "}}");
}

static void broken(const struct problem *p, struct text *out)
{
    text_put(out, "event: error\ndata: ");
    anthropic_error(p, out);
    text_put(out, "\n\n");
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* The text of a string or of text blocks; a new string. */
static json_t *join_text(const struct fields *f, const char *name, const json_t *content)
{
    struct text t = {0};
    size_t i;
    json_t *block;
    if (json_is_string(content)) text_add(&t, json_string_value(content), json_string_length(content));
    json_array_foreach((json_t *)content, i, block)
    {
        const char *type = json_string_value(json_object_get(block, "type"));
        const json_t *text = json_object_get(block, "text");
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text)) {
            field_wrong(f, name, "block %zu: '%.40s': only text is understood", i, type ? type : "(none)");
            break;
        }
        if (t.n > 0) text_put(&t, "\n");
        text_add(&t, json_string_value(text), json_string_length(text));
    }
    json_t *joined = json_stringn(t.bytes ? t.bytes : "", t.n);
    text_free(&t);
    return joined;
}

/* A block that stands beside the text of a message; false: it is part of the text. */
static bool take_block(const struct fields *f, const json_t *block, json_t *message, json_t *results)
{
    const char *type = json_string_value(json_object_get(block, "type"));
    json_t *calls = json_object_get(message, "tool_calls");
    if (!type) return false;
    if (strcmp(type, "tool_use") == 0) {
        json_t *input = json_object_get(block, "input");
        if (!calls) json_object_set_new(message, "tool_calls", calls = json_array());
        json_t *function = json_pack("{s:O?,s:o}", "name", json_object_get(block, "name"), "arguments",
            json_is_object(input) ? json_deep_copy(input) : json_object());
        json_array_append_new(calls,
            json_pack("{s:s,s:O?,s:o}", "type", "function", "id", json_object_get(block, "id"), "function", function));
    } else if (strcmp(type, "tool_result") == 0) {
        json_t *text = join_text(f, "messages", json_object_get(block, "content"));
        json_array_append_new(results, json_pack("{s:s,s:O?,s:o}", "role", "tool", "tool_call_id",
                                           json_object_get(block, "tool_use_id"), "content", text));
    } else if (strcmp(type, "thinking") == 0) {
        openai_copy(block, "thinking", message, "reasoning_content");
    } else {
        return strcmp(type, "redacted_thinking") == 0;
    }
    return true;
}

static void convert_message(const struct fields *f, const json_t *m, json_t *to)
{
    const json_t *content = json_object_get(m, "content");
    json_t *message = json_object(), *texts = json_array(), *results = json_array(), *block;
    size_t i;
    openai_copy(m, "role", message, "role");
    json_array_foreach((json_t *)content, i, block) if (!take_block(f, block, message, results))
        json_array_append(texts, block);
    json_object_set_new(message, "content", join_text(f, "messages", json_is_string(content) ? content : texts));
    json_array_extend(to, results);
    bool says = json_string_length(json_object_get(message, "content")) > 0 || json_object_get(message, "tool_calls");
    if (says || json_array_size(results) == 0) json_array_append(to, message);
    json_decref(message);
    json_decref(texts);
    json_decref(results);
}

static void convert_tools(const struct fields *f, json_t *to)
{
    json_t *tools = json_array(), *tool, *choice = field_object(f, "tool_choice");
    const char *type = json_string_value(json_object_get(choice, "type"));
    size_t i;
    json_array_foreach(field_array(f, "tools"), i, tool)
    {
        const char *kind = json_string_value(json_object_get(tool, "type"));
        if (kind && strcmp(kind, "custom") != 0)
            field_wrong(f, "tools", "item %zu: '%.40s': only tools of the client are called", i, kind);
        json_t *function = json_object();
        openai_copy(tool, "name", function, "name");
        openai_copy(tool, "description", function, "description");
        openai_copy(tool, "input_schema", function, "parameters");
        json_array_append_new(tools, json_pack("{s:s,s:o}", "type", "function", "function", function));
    }
    if (json_array_size(tools)) json_object_set(to, "tools", tools);
    json_decref(tools);
    if (json_is_true(json_object_get(choice, "disable_parallel_tool_use")))
        json_object_set_new(to, "parallel_tool_calls", json_false());
    if (!type) return;
    if (strcmp(type, "tool") == 0)
        json_object_set_new(to, "tool_choice",
            json_pack("{s:s,s:{s:O?}}", "type", "function", "function", "name", json_object_get(choice, "name")));
    else
        json_object_set_new(to, "tool_choice", json_string(strcmp(type, "any") == 0 ? "required" : type));
}

/* Structured outputs (output_format was its name), and how much is thought. */
static void convert_output(const struct fields *f, json_t *to, bool thinks)
{
    struct fields config = {field_object(f, "output_config"), "output_config", f->problem};
    const json_t *format = field_object(&config, "format");
    if (!format) format = field_object(f, "output_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (format && (!type || strcmp(type, "json_schema") != 0))
        field_wrong(f, "output_config", "format.type: '%.40s' is not json_schema", type ? type : "(none)");
    if (format)
        json_object_set_new(to, "response_format",
            json_pack(
                "{s:s,s:{s:O?}}", "type", "json_schema", "json_schema", "schema", json_object_get(format, "schema")));
    if (thinks) openai_copy(config.object, "effort", to, "reasoning_effort");
}

static void read_common(struct ask *a, struct problem *p, bool counts)
{
    static const char *const refused[] = {"mcp_servers", "container", "context_management"};
    static const char *const same[] = {"temperature", "top_p", "top_k", "stream"};
    struct fields f = {.object = a->body, .problem = p};
    struct fields thinking = {field_object(&f, "thinking"), "thinking", p};
    const json_t *system = field_any(&f, "system");
    json_t *to = json_object(), *messages = json_array(), *m;
    const char *think = "disabled";
    size_t i;
    openai_refuse(&f, refused, sizeof refused / sizeof *refused);
    for (size_t k = 0; k < sizeof same / sizeof *same; k++) openai_copy(a->body, same[k], to, same[k]);
    openai_copy(a->body, "stop_sequences", to, "stop");
    openai_copy(a->body, "max_tokens", to, "max_tokens");
    if (!counts && !field_any(&f, "max_tokens")) field_wrong(&f, "max_tokens", "missing");
    if (system)
        json_array_append_new(
            messages, json_pack("{s:s,s:o}", "role", "system", "content", join_text(&f, "system", system)));
    json_array_foreach(field_array(&f, "messages"), i, m) convert_message(&f, m, messages);
    json_object_set_new(to, "messages", messages);
    convert_tools(&f, to);
    field_text(&thinking, "type", &think);
    json_object_set_new(to, "enable_thinking", json_boolean(strcmp(think, "disabled") != 0));
    openai_copy(thinking.object, "budget_tokens", to, "reasoning_budget");
    convert_output(&f, to, strcmp(think, "disabled") != 0);
    openai_read_converted(a, to, p);
}

static void read_messages(struct ask *a, struct problem *p)
{
    read_common(a, p, false);
}

void anthropic_count(struct exchange *x, struct text *out, struct problem *p)
{
    if (!front_read(x, p)) return;
    read_common(&x->ask, p, true);
    if (!p->status) ask_prepare(&x->ask, x->model, x->server->set->chat_template, p);
    if (p->n_ctx) p->status = 0; /* too long is a count, too */
    if (!p->status) text_print(out, "{\"input_tokens\":%d}", x->ask.prompt[0].n_token);
}

/* ---- replies ---------------------------------------------------------------------------------------------------- */

static const char *stop_reason(const struct choice *c)
{
    if (c->n_call > 0) return "tool_use";
    if (c->end.reason == LUTRA_STOP_STRING) return "stop_sequence";
    return strcmp(end_word(&c->end), "length") == 0 ? "max_tokens" : "end_turn";
}

static void event(struct reply *r, const char *name)
{
    text_print(r->out, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void open_message(struct reply *r)
{
    text_print(r->out, "{\"id\":\"msg_%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", r->id);
    text_json_string(r->out, r->model->set->name[0]);
}

/* Ends the block under way and begins one for what comes. */
static void change_block(struct reply *r, const struct delta *d)
{
    enum delta_kind kind = d->kind == DELTA_ARGUMENTS ? DELTA_CALL : d->kind;
    if (r->part == kind && d->kind != DELTA_CALL) return;
    if (r->part != DELTA_END) {
        event(r, "content_block_stop");
        text_print(r->out, ",\"index\":%d}\n\n", r->n_event++);
    }
    r->part = kind;
    if (kind == DELTA_END) return;
    event(r, "content_block_start");
    text_print(r->out, ",\"index\":%d,\"content_block\":", r->n_event);
    if (kind == DELTA_ANSWER) text_put(r->out, "{\"type\":\"text\",\"text\":\"\"}}\n\n");
    if (kind == DELTA_REASONING) text_put(r->out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n");
    if (kind != DELTA_CALL) return;
    const struct choice *c = &r->choice[d->choice];
    const struct call *call = &c->call[c->n_call - 1];
    text_print(r->out, "{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", call->id);
    text_json_string(r->out, call->name);
    text_put(r->out, ",\"input\":{}}}\n\n");
}

static void tell_start(struct reply *r)
{
    event(r, "message_start");
    text_put(r->out, ",\"message\":");
    open_message(r);
    text_print(r->out,
        ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%d,\"output_tokens\":"
        "0}}}"
        "\n\n",
        r->ask->prompt[0].n_token);
}

static void tell_delta(struct reply *r, const struct delta *d)
{
    static const char *const type[] = {[DELTA_ANSWER] = "text_delta\",\"text",
        [DELTA_REASONING] = "thinking_delta\",\"thinking",
        [DELTA_ARGUMENTS] = "input_json_delta\",\"partial_json"};
    const struct choice *c = &r->choice[d->choice];
    if (!c->begun) tell_start(r);
    if (d->kind == DELTA_TOKEN) return;
    change_block(r, d);
    if (d->kind == DELTA_CALL || d->kind == DELTA_END) return;
    event(r, "content_block_delta");
    text_print(r->out, ",\"index\":%d,\"delta\":{\"type\":\"%s\":", r->n_event, type[d->kind]);
    text_json(r->out, d->text, d->n);
    text_put(r->out, "}}\n\n");
}

static void put_usage(struct reply *r)
{
    struct usage u = reply_usage(r);
    text_print(r->out,
        "\"usage\":{\"input_tokens\":%lld,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%lld,"
        "\"output_tokens\":%lld}",
        (long long)(u.prompt - u.cached), (long long)u.cached, (long long)u.generated);
}

static void finish(struct reply *r)
{
    event(r, "message_delta");
    text_print(r->out, ",\"delta\":{\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(&r->choice[0]));
    reply_stop_json(r, &r->choice[0], "null", r->out);
    text_put(r->out, "},");
    put_usage(r);
    text_put(r->out, "}\n\n");
    event(r, "message_stop");
    text_put(r->out, "}\n\n");
}

static void tell_whole(struct reply *r)
{
    const struct choice *c = &r->choice[0];
    const char *comma = "";
    open_message(r);
    text_put(r->out, ",\"content\":[");
    if (c->reasoning.n) {
        text_put(r->out, "{\"type\":\"thinking\",\"signature\":\"\",\"thinking\":");
        text_json(r->out, c->reasoning.bytes, c->reasoning.n);
        text_put(r->out, "}");
        comma = ",";
    }
    if (c->answer.n || (!c->reasoning.n && !c->n_call)) {
        text_print(r->out, "%s{\"type\":\"text\",\"text\":", comma);
        text_json(r->out, c->answer.n ? c->answer.bytes : "", c->answer.n);
        text_put(r->out, "}");
        comma = ",";
    }
    for (int i = 0; i < c->n_call; i++) {
        text_print(r->out, "%s{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":", comma, c->call[i].id);
        text_json_string(r->out, c->call[i].name);
        text_put(r->out, ",\"input\":");
        reply_arguments(&c->call[i], r->out);
        text_put(r->out, "}");
        comma = ",";
    }
    text_print(r->out, "],\"stop_reason\":\"%s\",\"stop_sequence\":", stop_reason(c));
    reply_stop_json(r, c, "null", r->out);
    text_put(r->out, ",");
    put_usage(r);
    text_put(r->out, "}");
}

const struct dialect dialect_anthropic = {
    .name = "anthropic",
    .read = read_messages,
    .stream_type = "text/event-stream",
    .ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .delta = tell_delta,
    .finish = finish,
    .whole = tell_whole,
    .refuse = anthropic_error,
    .broken = broken,
};
