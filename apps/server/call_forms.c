/* SPDX-License-Identifier: MIT
 *
 * The text of calls, as each format writes it, as structural tags (lutra_request.structure): where a call begins, its
 * arguments are held to the tool's own schema.
 */
#include <stdio.h>
#include <string.h>

#include "ask.h"

enum { BEGINS = 3 };

static const struct form {
    enum call_style style;
    const char *sign;            /* its chat template has it; NULL = any */
    const char *writes;          /* style of a json_schema */
    const char *begin[BEGINS];   /* up to the arguments, NAME for the tool's; [0] where a call must come */
    const char *trigger[BEGINS]; /* what begins like begin[i], and nothing else does */
    const char *start;           /* triggers that begin with one of these count where free text begins only */
    const char *end, *separator; /* behind arguments; between calls */
    const char *outer[2];        /* around all calls; NULL = nothing */
    const char *header[5];       /* one of these follows begin; NULL = nothing */
    const char *thinks[3];       /* reasoning may come before: it begins, ends, and what follows; NULL = the engine's */
} forms[] = {
    {.style = CALLS_HERMES,
        .sign = "<function=",
        .writes = "qwen_xml",
        .begin = {"<tool_call>\n<function=NAME>\n", "<function=NAME>\n"},
        .trigger = {"<tool_call>", "<function="},
        .end = "</function>\n</tool_call>",
        .separator = "\n"},
    {.style = CALLS_HERMES,
        .writes = "json",
        .begin = {"<tool_call>\n{\"name\": \"NAME\", \"arguments\": "},
        .trigger = {"<tool_call>"},
        .end = "}\n</tool_call>",
        .separator = "\n"},
    {.style = CALLS_LLAMA,
        .writes = "json",
        .begin = {"{\"name\": \"NAME\", \"parameters\": ", "; {\"name\": \"NAME\", \"parameters\": ",
            "<|python_tag|>{\"name\": \"NAME\", \"parameters\": "},
        .trigger = {"{\"name\": \"", "; {\"name\": \"", "<|python_tag|>{"},
        .start = "{; ",
        .end = "}",
        .separator = "; "},
    {.style = CALLS_MISTRAL,
        .sign = "[ARGS]",
        .writes = "json",
        .begin = {"[TOOL_CALLS]NAME[ARGS]"},
        .trigger = {"[TOOL_CALLS]"},
        .end = "",
        .separator = ""},
    {.style = CALLS_MISTRAL,
        .writes = "json",
        .begin = {"{\"name\": \"NAME\", \"arguments\": "},
        .trigger = {"[TOOL_CALLS]"},
        .end = "}",
        .separator = ", ",
        .outer = {"[TOOL_CALLS][", "]"}},
    {.style = CALLS_HARMONY,
        .writes = "json",
        .begin = {"<|channel|>commentary to=functions.NAME",
            "<|start|>assistant to=functions.NAME<|channel|>commentary", " to=functions.NAME<|channel|>commentary"},
        .trigger = {"<|channel|>commentary to=functions.", "<|start|>assistant to=functions.", " to=functions."},
        .start = " ",
        .end = "",
        .header = {" <|constrain|>json<|message|>", "<|constrain|>json<|message|>", " json<|message|>", "<|message|>"},
        .thinks = {"<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant"}},
    {.style = CALLS_GEMMA,
        .sign = "<start_function_call>",
        .writes = "functiongemma",
        .begin = {"<start_function_call>call:NAME"},
        .trigger = {"<start_function_call>"},
        .end = "<end_function_call>",
        .separator = ""},
    {.style = CALLS_GEMMA,
        .writes = "gemma",
        .begin = {"<|tool_call>call:NAME"},
        .trigger = {"<|tool_call>"},
        .end = "<tool_call|>",
        .separator = ""},
};

static const struct form *find_form(enum call_style style, const char *chat_template)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].style == style && (!forms[i].sign || strstr(chat_template, forms[i].sign))) return &forms[i];
    return NULL;
}

static bool is_start(const struct form *form, const char *trigger)
{
    return form->start && strchr(form->start, trigger[0]);
}

static json_t *constant(const char *text)
{
    return json_pack("{s:s,s:s}", "type", "const_string", "value", text);
}

static json_t *tag_of(const struct form *form, const char *begin, const char *name, const json_t *function)
{
    const char *at = strstr(begin, "NAME");
    json_t *parameters = json_object_get(function, "parameters"), *any = json_pack("{s:s}", "type", "object");
    bool has = json_is_object(parameters) && json_object_size(parameters) > 0;
    json_t *content = json_pack("{s:s,s:s,s:s,s:b,s:O}", "type", "json_schema", "style", form->writes, "name", name,
        "strict", json_is_true(json_object_get(function, "strict")), "json_schema", has ? parameters : any);
    json_decref(any);
    if (form->header[0]) {
        json_t *headers = json_array();
        for (int i = 0; form->header[i]; i++) json_array_append_new(headers, constant(form->header[i]));
        content = json_pack(
            "{s:s,s:[{s:s,s:o},o]}", "type", "sequence", "elements", "type", "or", "elements", headers, content);
    }
    return json_pack("{s:s,s:o,s:o,s:s}", "type", "tag", "begin",
        json_sprintf("%.*s%s%s", (int)(at - begin), begin, name, at + 4), "content", content, "end", form->end);
}

/* Tags of the tools that may be called, with each of the first n ways to begin. */
static json_t *tags_of(const struct ask *a, const struct form *form, int n)
{
    json_t *tags = json_array(), *tool;
    size_t i;
    for (int k = 0; k < n && form->begin[k]; k++) json_array_foreach((json_t *)a->tools, i, tool)
        {
            const json_t *function = json_object_get(tool, "function");
            const char *name = json_string_value(json_object_get(function, "name"));
            if (!a->tool || strcmp(a->tool, name) == 0)
                json_array_append_new(tags, tag_of(form, form->begin[k], name, function));
        }
    return tags;
}

/* Calls and nothing else. */
static json_t *calls_only(const struct ask *a, const struct form *form, bool once)
{
    json_t *calls = json_pack("{s:s,s:o,s:s,s:b,s:b}", "type", "tags_with_separator", "tags", tags_of(a, form, 1),
        "separator", form->separator ? form->separator : "", "at_least_one", 1, "stop_after_first", once);
    if (form->outer[0])
        calls = json_pack(
            "{s:s,s:s,s:o,s:s}", "type", "tag", "begin", form->outer[0], "content", calls, "end", form->outer[1]);
    if (!form->thinks[0] || a->no_reasoning) return calls;
    json_t *thought = json_pack("{s:s,s:s,s:{s:s},s:s}", "type", "tag", "begin", form->thinks[0], "content", "type",
        "any_text", "end", form->thinks[1]);
    json_t *thinks =
        json_pack("{s:s,s:[o,o,O]}", "type", "sequence", "elements", thought, constant(form->thinks[2]), calls);
    return json_pack("{s:s,s:[o,o]}", "type", "or", "elements", thinks, calls);
}

/* Text in which calls may come. */
static json_t *calls_between(const struct ask *a, const struct form *form, bool once)
{
    json_t *triggers = json_array(), *starts = json_array(), *tags;
    for (int i = 0; i < BEGINS && form->trigger[i]; i++)
        json_array_append_new(is_start(form, form->trigger[i]) ? starts : triggers, json_string(form->trigger[i]));
    if (form->outer[0]) {
        tags = json_array();
        json_array_append_new(tags, calls_only(a, form, once));
    } else {
        tags = tags_of(a, form, BEGINS);
    }
    return json_pack("{s:s,s:o,s:o,s:o,s:b}", "type", "triggered_tags", "triggers", triggers, "start_triggers", starts,
        "tags", tags, "stop_after_first", once);
}

void ask_structure(struct ask *a, enum call_style style, const char *chat_template, struct problem *p)
{
    const struct form *form = find_form(style, chat_template);
    if (!form || a->set.grammar || a->set.json_schema) return;
    bool once = a->one_call || a->tool || !form->separator;
    json_t *format = a->must_call ? calls_only(a, form, once) : calls_between(a, form, once);
    json_t *structure = json_pack("{s:s,s:o}", "type", "structural_tag", "format", format);
    text_value(&a->schema, structure);
    if (!structure || a->schema.failed) problem_set(p, 503, "out_of_memory", NULL, "out of memory");
    json_decref(structure);
    a->set.structure = a->schema.bytes;
}
