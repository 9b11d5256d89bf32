/* SPDX-License-Identifier: MIT
 *
 * POST /v1/chat/completions.
 */
#include <string.h>

#include "documents.h"
#include "openai.h"
#include "search.h"
#include "state.h"

#define PREFIX "chatcmpl"
#define CHUNK "chat.completion.chunk"

static void read_format(struct ask *a, const struct fields *f)
{
    const json_t *format = field_object(f, "response_format");
    struct fields in = {format, "response_format", f->problem};
    const char *type = "text";
    if (!format) return;
    field_text(&in, "type", &type);
    if (strcmp(type, "json_object") == 0) {
        const json_t *schema = field_object(&in, "schema"); /* of llama.cpp */
        json_t *any = schema ? NULL : json_pack("{s:s}", "type", "object");
        ask_schema(a, schema ? schema : any, f->problem);
        json_decref(any);
    } else if (strcmp(type, "json_schema") == 0) {
        struct fields named = {field_object(&in, "json_schema"), "response_format.json_schema", f->problem};
        const json_t *schema = field_object(&named, "schema");
        if (!schema)
            field_wrong(&named, "schema", "missing");
        else
            ask_schema(a, schema, f->problem);
    } else if (strcmp(type, "text") != 0) {
        field_wrong(&in, "type", "'%.40s' is none of text, json_object, json_schema", type);
    }
    if (a->set.grammar && a->set.json_schema)
        field_wrong(f, "response_format", "beside a grammar: one of both, please");
}

/* How much it may think: OpenAI's effort, llama.cpp's and vLLM's fields, the template's own. */
static void read_reasoning(struct ask *a, const struct fields *f)
{
    const char *effort = NULL, *format = NULL;
    struct fields kwargs = {field_object(f, "chat_template_kwargs"), "chat_template_kwargs", f->problem};
    bool thinks = !(a->chat_flags & LUTRA_CHAT_NO_REASONING), says = false;
    if (field_text(f, "reasoning_effort", &effort)) {
        json_object_set_new(a->chat, "reasoning_effort", json_string(effort));
        if (strcmp(effort, "none") == 0) thinks = false;
    }
    says = field_bool(&kwargs, "enable_thinking", &thinks);
    says = field_bool(f, "enable_thinking", &thinks) || says;
    if (says) a->chat_flags = thinks ? LUTRA_CHAT_REASONING : LUTRA_CHAT_NO_REASONING;
    if (field_int(f, "reasoning_budget", -1, 1 << 30, &a->set.reasoning_budget) ||
        field_int(f, "thinking_budget_tokens", -1, 1 << 30, &a->set.reasoning_budget))
        thinks = thinks && a->set.reasoning_budget != 0;
    if (kwargs.object) json_object_update_missing(a->chat, (json_t *)kwargs.object);
    if (field_text(f, "reasoning_format", &format)) a->reasoning_in_text = strcmp(format, "none") == 0;
    if (!thinks || a->go_on) a->no_reasoning = true;
    if (a->no_reasoning) a->set.reasoning_budget = -1;
}

void openai_read_chat(struct ask *a, const json_t *body, struct problem *p)
{
    static const char *const refused[] = {"audio", "web_search_options", "functions", "function_call",
        /* vLLM's and SGLang's; here response_format and grammar */
        "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs", "regex", "ebnf"};
    struct fields f = {.object = body, .problem = p};
    const char *truncation = NULL;
    const json_t *kinds;
    ask_messages(a, &f);
    if (p->status) return;
    openai_common(a, &f);
    field_int(&f, "max_completion_tokens", -1, 1 << 30, &a->set.max_tokens);
    field_bool(&f, "logprobs", &a->log_probs);
    if (field_int(&f, "top_logprobs", 0, LUTRA_TOP_LOGPROBS, &a->n_top) && a->n_top && !a->log_probs)
        field_wrong(&f, "top_logprobs", "without logprobs");
    read_format(a, &f);
    ask_tools(a, &f);
    read_reasoning(a, &f);
    if (field_text(&f, "truncation", &truncation)) {
        a->rolls = strcmp(truncation, "auto") == 0;
        if (!a->rolls && strcmp(truncation, "disabled") != 0)
            field_wrong(&f, "truncation", "'%.40s' is neither auto nor disabled", truncation);
    }
    search_read(a, &f);
    documents_read(a, &f);
    openai_refuse(&f, refused, sizeof refused / sizeof *refused);
    kinds = field_array(&f, "modalities");
    for (size_t i = 0; i < json_array_size(kinds); i++) {
        const char *kind = json_string_value(json_array_get(kinds, i));
        if (!kind || strcmp(kind, "text") != 0) field_wrong(&f, "modalities", "only text is written");
    }
}

static void read_chat(struct ask *a, struct problem *p)
{
    openai_read_chat(a, a->body, p);
}

static void open_choice(struct reply *r, int choice)
{
    openai_open(r, PREFIX, CHUNK);
    text_print(r->out, ",\"choices\":[{\"index\":%d,\"delta\":", choice);
}

static void tell_delta(struct reply *r, const struct delta *d)
{
    const struct choice *c = &r->choice[d->choice];
    if (!c->begun) {
        open_choice(r, d->choice);
        text_put(r->out, "{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n");
    }
    open_choice(r, d->choice);
    text_put(r->out, "{");
    if (d->kind == DELTA_CALL) {
        text_print(r->out,
            "\"tool_calls\":[{\"index\":%d,\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", c->n_call - 1,
            c->call[c->n_call - 1].id);
        text_json_string(r->out, c->call[c->n_call - 1].name);
        text_put(r->out, ",\"arguments\":\"\"}}]");
    } else if (d->kind == DELTA_ARGUMENTS) {
        text_print(r->out, "\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":", c->n_call - 1);
        text_json(r->out, d->text, d->n);
        text_put(r->out, "}}]");
    } else if (d->kind != DELTA_END) {
        text_print(r->out, "\"%s\":", d->kind == DELTA_REASONING ? "reasoning_content" : "content");
        text_json(r->out, d->text, d->n);
    }
    text_put(r->out, "},");
    if (r->ask->log_probs && c->n_scored > c->n_told) {
        text_put(r->out, "\"logprobs\":");
        openai_log_probs(r, c, c->n_told);
        text_put(r->out, ",");
    }
    if (d->kind == DELTA_END)
        openai_end_choice(r, c, choice_word(c), "]}\n\n");
    else
        text_put(r->out, "\"finish_reason\":null}]}\n\n");
}

static void tell_progress(struct reply *r, int choice, const struct progress *p)
{
    open_choice(r, choice);
    text_put(r->out, "{\"role\":\"assistant\",\"content\":null},\"finish_reason\":null}],\"prompt_progress\":");
    reply_progress(p, r->out);
    text_put(r->out, "}\n\n");
}

static void note(struct reply *r, const char *member, size_t n)
{
    openai_open(r, PREFIX, CHUNK);
    text_put(r->out, ",\"choices\":[],\"lutra\":{");
    text_add(r->out, member, n);
    text_put(r->out, "}}\n\n");
}

static void finish(struct reply *r)
{
    openai_finish(r, PREFIX, CHUNK);
}

static void tell_calls(struct reply *r, const struct choice *c)
{
    for (int i = 0; i < c->n_call; i++) {
        const struct call *call = &c->call[i];
        text_put(r->out, i ? "," : ",\"tool_calls\":[");
        text_print(r->out, "{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", call->id);
        text_json_string(r->out, call->name);
        text_put(r->out, ",\"arguments\":");
        text_json(r->out, call->arguments.n ? call->arguments.bytes : "", call->arguments.n);
        text_put(r->out, "}}");
    }
    if (c->n_call) text_put(r->out, "]");
}

static void tell_whole(struct reply *r)
{
    openai_open(r, PREFIX, "chat.completion");
    text_put(r->out, ",\"choices\":[");
    for (int i = 0; i < r->n_choice; i++) {
        const struct choice *c = &r->choice[i];
        text_print(r->out, "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":", i ? "," : "", i);
        if (c->answer.n == 0 && c->n_call > 0)
            text_put(r->out, "null");
        else
            text_json(r->out, c->answer.bytes ? c->answer.bytes : "", c->answer.n);
        tell_calls(r, c);
        if (c->reasoning.n > 0) {
            text_put(r->out, ",\"reasoning_content\":");
            text_json(r->out, c->reasoning.bytes, c->reasoning.n);
        }
        text_put(r->out, ",\"refusal\":null},\"logprobs\":");
        if (r->ask->log_probs)
            openai_log_probs(r, c, 0);
        else
            text_put(r->out, "null");
        text_put(r->out, ",");
        openai_end_choice(r, c, choice_word(c), "");
    }
    text_put(r->out, "]");
    openai_usage(r);
    if (r->notes.n) {
        text_put(r->out, ",\"lutra\":{");
        text_add(r->out, r->notes.bytes, r->notes.n);
        text_put(r->out, "}");
    }
    text_put(r->out, "}");
}

const struct dialect dialect_chat = {
    .name = "openai",
    .read = read_chat,
    .stream_type = "text/event-stream",
    .ping = ": waiting\n\n",
    .delta = tell_delta,
    .note = note,
    .progress = tell_progress,
    .finish = finish,
    .whole = tell_whole,
    .refuse = openai_error,
    .broken = openai_broken,
};
