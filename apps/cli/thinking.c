/* SPDX-License-Identifier: MIT
 *
 * Options about what a model thinks before it answers, for the commands that render chat templates.
 */
#include "thinking.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct thinking_options, field)

static const struct option table[] = {
    {"-rea --reasoning", "REASONING", OPT_CHOICE, AT(mode), "NAME",
        .help = "whether a model thinks before it answers: on and off tell the chat template so (enable_thinking), "
                "low, medium and high also how much (reasoning_effort); auto = as the template likes",
        .choices = "auto on off low medium high", .excludes = "-no-cnv"},
    {"--reasoning-budget", "THINK_BUDGET", OPT_INT, AT(budget), "N",
        .help = "most tokens of thinking, then the tag that ends it is forced; 0 = no thinking, as --reasoning off; "
                "-1 = as the model likes",
        .min = -1, .max = 1 << 24, .excludes = "-no-cnv"},
    {"--reasoning-format", "THINK", OPT_CHOICE, AT(format), "NAME",
        .help = "auto and deepseek tell thinking apart from the answer (the program shows it dim, or on stderr; the "
                "server sends it as reasoning_content), none takes it for a part of the answer",
        .choices = "auto deepseek none"},
    {"--reasoning-preserve", "REASONING_PRESERVE", OPT_ON, AT(keep), NULL,
        .help = "earlier thinking stays in the conversation, where the chat template can do that (preserve_thinking, "
                "clear_thinking); else the template decides, and most drop it",
        .excludes = "-no-cnv"},
    {"--no-reasoning-preserve", NULL, OPT_OFF, AT(keep), NULL, .help = "the template decides (default)"},
    {"--chat-template-kwargs", "CHAT_TEMPLATE_KWARGS", OPT_TEXT, AT(kwargs), "JSON",
        .help = "more variables of the chat template, an object: '{\"reasoning_effort\": \"low\"}'",
        .excludes = "-no-cnv"},
};
#undef AT

void thinking_options_init(struct thinking_options *o)
{
    *o = (struct thinking_options){.mode = "auto", .format = "auto", .budget = -1};
}

struct option_set thinking_option_set(struct thinking_options *o)
{
    return (struct option_set){"Thinking", table, OPTION_COUNT(table), o, NULL};
}

static bool is_effort(const char *mode)
{
    return strcmp(mode, "low") == 0 || strcmp(mode, "medium") == 0 || strcmp(mode, "high") == 0;
}

bool thinking_is_off(const struct thinking_options *o)
{
    return o->budget == 0 || strcmp(o->mode, "off") == 0;
}

int thinking_flags(const struct thinking_options *o)
{
    if (thinking_is_off(o)) return LUTRA_CHAT_NO_REASONING;
    return strcmp(o->mode, "auto") == 0 ? 0 : LUTRA_CHAT_REASONING;
}

bool thinking_in_answer(const struct thinking_options *o)
{
    return strcmp(o->format, "none") == 0;
}

/* Sets a key that --chat-template-kwargs has not set. */
static void set_default(json_t *all, const char *key, json_t *value)
{
    if (json_object_get(all, key))
        json_decref(value);
    else
        json_object_set_new(all, key, value);
}

int thinking_variables(const struct thinking_options *o, char **out)
{
    json_error_t why;
    *out = NULL;
    if (!o->kwargs && !o->keep && !is_effort(o->mode)) return 0;
    json_t *all = o->kwargs ? json_loads(o->kwargs, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why) : json_object();
    if (!json_is_object(all)) {
        say("--chat-template-kwargs: %s", all ? "not a JSON object" : why.text);
        json_decref(all);
        return EXIT_USAGE;
    }
    if (json_object_get(all, "messages")) {
        say("--chat-template-kwargs: 'messages' is the conversation's");
        json_decref(all);
        return EXIT_USAGE;
    }
    if (is_effort(o->mode)) set_default(all, "reasoning_effort", json_string(o->mode));
    if (o->keep) set_default(all, "preserve_thinking", json_true());
    if (o->keep) set_default(all, "clear_thinking", json_false());
    *out = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return 0;
}
