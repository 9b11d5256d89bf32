/* SPDX-License-Identifier: MIT
 *
 * Tools of a request: what may be called, and what must be.
 */
#include <string.h>

#include "ask.h"

static bool is_tool_name(const char *name)
{
    size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") : 0;
    return n > 0 && n <= 64 && !name[n];
}

static const char *tool_name(const json_t *tool)
{
    return json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
}

static void check_tool(const struct fields *f, const json_t *tool, size_t i)
{
    const char *type = json_string_value(json_object_get(tool, "type"));
    const json_t *parameters = json_object_get(json_object_get(tool, "function"), "parameters");
    if (type && strcmp(type, "function") != 0)
        field_wrong(f, "tools", "item %zu: '%.40s': only functions are called", i, type);
    if (!is_tool_name(tool_name(tool)))
        field_wrong(f, "tools", "item %zu: function.name: 1 to 64 letters, digits, '_', '-', '.'", i);
    if (parameters && !json_is_object(parameters) && !json_is_null(parameters))
        field_wrong(f, "tools", "item %zu: function.parameters: not an object", i);
}

static void read_choice(struct ask *a, const struct fields *f)
{
    const json_t *choice = field_any(f, "tool_choice"), *tool;
    const char *word = json_string_value(choice);
    size_t i;
    if (json_is_object(choice)) {
        a->tool = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
        a->must_call = true;
        bool known = false;
        json_array_foreach((json_t *)a->tools, i, tool) known =
            known || (a->tool && strcmp(tool_name(tool), a->tool) == 0);
        if (!known) field_wrong(f, "tool_choice", "'%.64s' is none of the tools", a->tool ? a->tool : "");
    } else if (word && strcmp(word, "required") == 0) {
        a->must_call = true;
    } else if (word && strcmp(word, "none") == 0) {
        a->tools = NULL;
    } else if (choice && !(word && strcmp(word, "auto") == 0)) {
        field_wrong(f, "tool_choice", "none of auto, none, required, a function's name");
    }
}

void ask_tools(struct ask *a, const struct fields *f)
{
    const json_t *tools = field_array(f, "tools"), *tool;
    size_t i;
    if (json_array_size(tools) == 0) return;
    json_array_foreach((json_t *)tools, i, tool) check_tool(f, tool, i);
    if (f->problem->status) return;
    a->tools = tools;
    read_choice(a, f);
    if (f->problem->status || !a->tools) return;
    json_object_set(a->chat, "tools", (json_t *)tools);
    bool parallel = true;
    if (field_bool(f, "parallel_tool_calls", &parallel)) a->one_call = !parallel;
    if (a->must_call && (a->set.json_schema || a->set.grammar))
        field_wrong(f, "tool_choice", "beside a grammar or a schema: one of both, please");
}
