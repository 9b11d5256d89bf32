/* SPDX-License-Identifier: MIT
 *
 * OpenAI's POST /v1/responses, without stored conversations; a body becomes one of chat/completions.
 */
#include <string.h>

#include "openai.h"
#include "state.h"

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void convert_item(const struct fields *f, const json_t *item, size_t at, json_t *to)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    json_t *m = json_object(), *last = json_array_get(to, json_array_size(to) - 1);
    if (!type || strcmp(type, "message") == 0) {
        openai_copy(item, "role", m, "role");
        openai_copy(item, "content", m, "content");
    } else if (strcmp(type, "function_call") == 0) {
        json_t *call = json_pack("{s:s,s:O?,s:{s:O?,s:O?}}", "type", "function", "id", json_object_get(item, "call_id"),
            "function", "name", json_object_get(item, "name"), "arguments", json_object_get(item, "arguments"));
        json_t *calls = json_object_get(last, "tool_calls");
        if (calls) { /* parallel calls are one message */
            json_array_append_new(calls, call);
            json_decref(m);
            return;
        }
        json_object_set_new(m, "role", json_string("assistant"));
        json_object_set_new(m, "tool_calls", json_pack("[o]", call));
    } else if (strcmp(type, "function_call_output") == 0) {
        json_object_set_new(m, "role", json_string("tool"));
        openai_copy(item, "call_id", m, "tool_call_id");
        openai_copy(item, "output", m, "content");
    } else {
        if (strcmp(type, "reasoning") != 0) field_wrong(f, "input", "item %zu: '%.40s': not implemented", at, type);
        json_decref(m); /* what was thought is no part of the conversation */
        return;
    }
    json_array_append_new(to, m);
}

static void convert_tools(const struct fields *f, json_t *to)
{
    json_t *tools = json_array(), *tool, *choice = field_any(f, "tool_choice");
    size_t i;
    json_array_foreach(field_array(f, "tools"), i, tool)
    {
        const char *type = json_string_value(json_object_get(tool, "type"));
        if (!type || strcmp(type, "function") != 0)
            field_wrong(f, "tools", "item %zu: '%.40s': only functions are called", i, type ? type : "(none)");
        json_array_append_new(tools, json_pack("{s:s,s:O}", "type", "function", "function", tool));
    }
    if (json_array_size(tools)) json_object_set(to, "tools", tools);
    json_decref(tools);
    if (json_is_string(choice)) json_object_set(to, "tool_choice", choice);
    if (json_is_object(choice))
        json_object_set_new(to, "tool_choice",
            json_pack("{s:s,s:{s:O?}}", "type", "function", "function", "name", json_object_get(choice, "name")));
}

static void convert_format(const struct fields *f, json_t *to)
{
    struct fields text = {field_object(f, "text"), "text", f->problem};
    const json_t *format = field_object(&text, "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format) return;
    if (type && strcmp(type, "json_schema") == 0)
        json_object_set_new(to, "response_format",
            json_pack(
                "{s:s,s:{s:O?}}", "type", "json_schema", "json_schema", "schema", json_object_get(format, "schema")));
    else
        json_object_set(to, "response_format", (json_t *)format);
}

static void read_response(struct ask *a, struct problem *p)
{
    static const char *const same[] = {"temperature", "top_p", "stream", "parallel_tool_calls", "truncation"};
    static const char *const refused[] = {
        "previous_response_id", "conversation", "background", "prompt", "top_logprobs"};
    struct fields f = {.object = a->body, .problem = p};
    struct fields reasoning = {field_object(&f, "reasoning"), "reasoning", p};
    const json_t *input = field_any(&f, "input");
    const char *instructions = NULL;
    json_t *to = json_object(), *messages = json_array(), *item;
    size_t i;
    openai_refuse(&f, refused, sizeof refused / sizeof *refused);
    for (size_t k = 0; k < sizeof same / sizeof *same; k++) openai_copy(a->body, same[k], to, same[k]);
    openai_copy(a->body, "max_output_tokens", to, "max_tokens");
    openai_copy(reasoning.object, "effort", to, "reasoning_effort");
    if (field_text(&f, "instructions", &instructions))
        json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "system", "content", instructions));
    if (json_is_string(input))
        json_array_append_new(messages, json_pack("{s:s,s:O}", "role", "user", "content", input));
    if (!json_is_string(input) && !json_is_array(input)) field_wrong(&f, "input", "neither a text nor a list of items");
    json_array_foreach((json_t *)input, i, item) convert_item(&f, item, i, messages);
    json_object_set_new(to, "messages", messages);
    convert_tools(&f, to);
    convert_format(&f, to);
    openai_read_converted(a, to, p);
}

/* ---- replies ---------------------------------------------------------------------------------------------------- */

static void event(struct reply *r, const char *name)
{
    text_print(r->out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d", name, name, r->n_event++);
}

static const char *item_prefix(enum delta_kind kind)
{
    return kind == DELTA_REASONING ? "rs" : kind == DELTA_CALL ? "fc" : "msg";
}

/* An item of the output: a message, thoughts, or a call; its text so far where it is complete. */
static void put_item(struct reply *r, enum delta_kind kind, int index, const struct choice *c, int call, bool complete)
{
    const char *status = complete ? "completed" : "in_progress";
    text_print(r->out, "{\"id\":\"%s_%s_%d\",\"type\":", item_prefix(kind), r->id, index);
    if (kind == DELTA_CALL) {
        text_print(
            r->out, "\"function_call\",\"status\":\"%s\",\"call_id\":\"%s\",\"name\":", status, c->call[call].id);
        text_json_string(r->out, c->call[call].name);
        text_put(r->out, ",\"arguments\":");
        text_json(r->out, complete && c->call[call].arguments.n ? c->call[call].arguments.bytes : "",
            complete ? c->call[call].arguments.n : 0);
        text_put(r->out, "}");
        return;
    }
    const struct text *t = kind == DELTA_REASONING ? &c->reasoning : &c->answer;
    if (kind == DELTA_REASONING)
        text_print(r->out, "\"reasoning\",\"status\":\"%s\",\"summary\":[],\"content\":[", status);
    else
        text_print(r->out, "\"message\",\"status\":\"%s\",\"role\":\"assistant\",\"content\":[", status);
    if (complete) {
        text_print(r->out, "{\"type\":\"%s\",\"text\":", kind == DELTA_REASONING ? "reasoning_text" : "output_text");
        text_json(r->out, t->n ? t->bytes : "", t->n);
        text_put(r->out, kind == DELTA_REASONING ? "}" : ",\"annotations\":[],\"logprobs\":[]}");
    }
    text_put(r->out, "]}");
}

/* The whole response object; status "in_progress" has no output yet. */
static void put_response(struct reply *r, const char *status)
{
    const struct choice *c = &r->choice[0];
    bool complete = strcmp(status, "in_progress") != 0;
    int n = 0;
    text_print(r->out,
        "{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"model\":", r->id,
        (long long)r->created, status);
    text_json_string(r->out, r->model->set->name[0]);
    text_put(r->out, ",\"output\":[");
    if (complete && c->reasoning.n) put_item(r, DELTA_REASONING, n++, c, 0, true);
    if (complete && (c->answer.n || !c->n_call)) {
        if (n) text_put(r->out, ",");
        put_item(r, DELTA_ANSWER, n++, c, 0, true);
    }
    for (int i = 0; complete && i < c->n_call; i++) {
        if (n) text_put(r->out, ",");
        put_item(r, DELTA_CALL, n++, c, i, true);
    }
    text_put(r->out, "],\"error\":null,\"incomplete_details\":");
    text_put(r->out, strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null");
    text_put(r->out,
        ",\"instructions\":null,\"metadata\":{},\"previous_response_id\":null,\"store\":false,\"tools\":[],"
        "\"tool_choice\":\"auto\",\"parallel_tool_calls\":true,\"usage\":");
    struct usage u = reply_usage(r);
    if (complete)
        text_print(r->out,
            "{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":%lld,\"dropped_messages\":%d},"
            "\"output_tokens\":%lld,\"output_tokens_details\":{\"reasoning_tokens\":%lld},\"total_tokens\":%lld}}",
            (long long)u.prompt, (long long)u.cached, r->ask->n_dropped, (long long)u.generated, (long long)u.thought,
            (long long)(u.prompt + u.generated));
    else
        text_put(r->out, "null}");
}

/* Where the item under way stands in the output: items come in the order of their beginning. */
static int item_index(const struct reply *r)
{
    return r->n_part - 1;
}

static void end_item(struct reply *r, const struct choice *c, int call)
{
    const struct text *t = r->part == DELTA_REASONING ? &c->reasoning
                           : r->part == DELTA_CALL    ? &c->call[call].arguments
                                                      : &c->answer;
    const char *name = r->part == DELTA_REASONING ? "response.reasoning_text.done"
                       : r->part == DELTA_CALL    ? "response.function_call_arguments.done"
                                                  : "response.output_text.done";
    int index = item_index(r);
    event(r, name);
    text_print(r->out, ",\"item_id\":\"%s_%s_%d\",\"output_index\":%d,", item_prefix(r->part), r->id, index, index);
    text_put(r->out, r->part == DELTA_CALL ? "\"arguments\":" : "\"content_index\":0,\"logprobs\":[],\"text\":");
    text_json(r->out, t->n ? t->bytes : "", t->n);
    text_put(r->out, "}\n\n");
    if (r->part == DELTA_ANSWER) {
        event(r, "response.content_part.done");
        text_print(r->out,
            ",\"item_id\":\"msg_%s_%d\",\"output_index\":%d,\"content_index\":0,\"part\":{\"type\":"
            "\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":",
            r->id, index, index);
        text_json(r->out, t->n ? t->bytes : "", t->n);
        text_put(r->out, "}}\n\n");
    }
    event(r, "response.output_item.done");
    text_print(r->out, ",\"output_index\":%d,\"item\":", index);
    put_item(r, r->part, index, c, call, true);
    text_put(r->out, "}\n\n");
}

static void begin_item(struct reply *r, const struct choice *c)
{
    int index = r->n_part++;
    event(r, "response.output_item.added");
    text_print(r->out, ",\"output_index\":%d,\"item\":", index);
    put_item(r, r->part, index, c, c->n_call - 1, false);
    text_put(r->out, "}\n\n");
    if (r->part != DELTA_ANSWER) return;
    event(r, "response.content_part.added");
    text_print(r->out,
        ",\"item_id\":\"msg_%s_%d\",\"output_index\":%d,\"content_index\":0,\"part\":{\"type\":\"output_text\","
        "\"text\":\"\","
        "\"annotations\":[],\"logprobs\":[]}}\n\n",
        r->id, index, index);
}

static void tell_start(struct reply *r)
{
    static const char *const names[] = {"response.created", "response.in_progress"};
    for (int i = 0; i < 2; i++) {
        event(r, names[i]);
        text_put(r->out, ",\"response\":");
        put_response(r, "in_progress");
        text_put(r->out, "}\n\n");
    }
}

static void tell_delta(struct reply *r, const struct delta *d)
{
    const struct choice *c = &r->choice[d->choice];
    enum delta_kind kind = d->kind == DELTA_ARGUMENTS ? DELTA_CALL : d->kind;
    if (!c->begun) tell_start(r);
    if (d->kind == DELTA_TOKEN) return;
    if (kind != r->part || d->kind == DELTA_CALL) {
        if (r->part != DELTA_END) end_item(r, c, c->n_call - 1 - (d->kind == DELTA_CALL));
        r->part = kind;
        if (kind != DELTA_END) begin_item(r, c);
    }
    if (d->kind == DELTA_CALL || d->kind == DELTA_END) return;
    const char *name = kind == DELTA_REASONING ? "response.reasoning_text.delta"
                       : kind == DELTA_CALL    ? "response.function_call_arguments.delta"
                                               : "response.output_text.delta";
    event(r, name);
    text_print(r->out, ",\"item_id\":\"%s_%s_%d\",\"output_index\":%d,%s\"delta\":", item_prefix(kind), r->id,
        item_index(r), item_index(r), kind == DELTA_CALL ? "" : "\"content_index\":0,\"logprobs\":[],");
    text_json(r->out, d->text, d->n);
    text_put(r->out, "}\n\n");
}

static const char *final_status(const struct reply *r)
{
    return strcmp(end_word(&r->choice[0].end), "length") == 0 ? "incomplete" : "completed";
}

static void finish(struct reply *r)
{
    event(r, strcmp(final_status(r), "completed") == 0 ? "response.completed" : "response.incomplete");
    text_put(r->out, ",\"response\":");
    put_response(r, final_status(r));
    text_put(r->out, "}\n\n");
}

static void tell_whole(struct reply *r)
{
    put_response(r, final_status(r));
}

static void broken(const struct problem *p, struct text *out)
{
    text_put(out, "event: error\ndata: {\"type\":\"error\",\"code\":");
    text_json_string(out, p->code ? p->code : "error");
    text_put(out, ",\"message\":");
    text_json_string(out, p->what);
    text_put(out, ",\"param\":null}\n\n");
}

const struct dialect dialect_responses = {
    .name = "openai",
    .read = read_response,
    .stream_type = "text/event-stream",
    .ping = ": waiting\n\n",
    .delta = tell_delta,
    .finish = finish,
    .whole = tell_whole,
    .refuse = openai_error,
    .broken = broken,
};
