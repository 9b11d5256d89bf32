/* SPDX-License-Identifier: MIT
 *
 * Structural tags, XGrammar's notation: text that is free up to a trigger, then constrained.
 *
 *     {"type": "structural_tag", "format": FORMAT}, with FORMAT one of
 *     {"type": "const_string", "value": TEXT}
 *     {"type": "any_text"}                                up to the end of the tag that it stands in
 *     {"type": "json_schema", "json_schema": SCHEMA, "style": "json" | "qwen_xml" | "gemma" | "functiongemma",
 *      "name": NAME, "strict": true}                      name: for messages; not strict: what is not built stays free
 *     {"type": "sequence" | "or", "elements": [FORMAT, ...]}
 *     {"type": "tag", "begin": TEXT, "content": FORMAT, "end": TEXT}
 *     {"type": "tags_with_separator", "tags": [TAG, ...], "separator": TEXT, "at_least_one", "stop_after_first"}
 *     {"type": "triggered_tags", "triggers": [TEXT, ...], "start_triggers": [TEXT, ...], "tags": [TAG, ...],
 *      "at_least_one", "stop_after_first"}                start_triggers: they count where free text begins
 */
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/schema_impl.h"

enum { NEST = 32, TRIGGERS = 32, TAGS = 1024 };

static int32_t format(struct schema_compiler *c, json_t *x, int depth);

static int wrong(struct schema_compiler *c, const char *what)
{
    return lutra_fail(c->b.err, LUTRA_E_FORMAT, "structural tag: %s", what);
}

static const char *text_of(const json_t *x, const char *key)
{
    const char *text = json_string_value(json_object_get(x, key));
    return text ? text : "";
}

static int32_t schema(struct schema_compiler *c, json_t *x)
{
    static const struct {
        const char *name;
        enum schema_style style;
        enum build_chars chars;
        const char *quote;
    } styles[] = {
        {"json", STYLE_JSON, CHARS_JSON, "\""},
        {"qwen_xml", STYLE_XML, CHARS_NO_TAG, "\""},
        {"gemma", STYLE_GEMMA, CHARS_PLAIN, "<|\"|>"},
        {"functiongemma", STYLE_GEMMA, CHARS_PLAIN, "<escape>"},
    };
    const char *style = json_object_get(x, "style") ? text_of(x, "style") : "json";
    const struct schema_path top = {NULL, NULL, 0};
    size_t i = 0;
    while (i < sizeof styles / sizeof *styles && strcmp(styles[i].name, style) != 0) i++;
    if (i == sizeof styles / sizeof *styles) return wrong(c, "style is json, qwen_xml, gemma or functiongemma");
    c->root = json_object_get(x, "json_schema");
    c->name = json_string_value(json_object_get(x, "name"));
    c->lenient = json_is_false(json_object_get(x, "strict"));
    c->style = styles[i].style;
    c->quote = styles[i].quote;
    c->b.chars = styles[i].chars;
    c->b.dense = c->style == STYLE_GEMMA;
    c->any = -1;
    c->known.n = c->texts.n = 0;
    if (!c->root) return wrong(c, "no json_schema");
    return (c->style == STYLE_XML ? schema_xml : schema_value)(c, c->root, &top);
}

static int32_t list(struct schema_compiler *c, json_t *x, bool all, int depth)
{
    json_t *elements = json_object_get(x, "elements");
    size_t n = json_array_size(elements);
    if (n == 0 || n > TAGS) return wrong(c, "elements are 1 to 1024 formats");
    int32_t e = all ? build_empty(&c->b) : build_never(&c->b);
    while (n-- > 0 && e >= 0) {
        int32_t one = format(c, json_array_get(elements, n), depth);
        e = all ? build_seq(&c->b, one, e) : build_alt(&c->b, one, e);
    }
    return e;
}

static int32_t free_text(struct schema_compiler *c, const char *end)
{
    struct builder *b = &c->b;
    if (!*end) return build_until(b, NULL, 0, true);
    struct until mark;
    TRY(build_mark(b, end, &mark));
    mark.then = build_empty(b);
    return build_until(b, &mark, 1, false);
}

/* A tag without the first `skip` bytes of what begins it. */
static int32_t tag(struct schema_compiler *c, json_t *x, size_t skip, int depth)
{
    struct builder *b = &c->b;
    json_t *content = json_object_get(x, "content");
    const char *begin = text_of(x, "begin"), *end = text_of(x, "end");
    int32_t open = build_text(b, begin + skip);
    if (strcmp(text_of(content, "type"), "any_text") == 0) return build_seq(b, open, free_text(c, end));
    return build_seq(b, open, build_seq(b, format(c, content, depth), build_text(b, end)));
}

/* The tags that begin with a trigger, behind it. */
static int32_t tags(struct schema_compiler *c, json_t *x, const char *trigger, int depth)
{
    json_t *all = json_object_get(x, "tags");
    size_t n_trigger = strlen(trigger), n = json_array_size(all);
    int32_t e = build_never(&c->b);
    if (n == 0 || n > TAGS) return wrong(c, "tags are 1 to 1024 tags");
    bool any = false;
    while (n-- > 0 && e >= 0) {
        json_t *one = json_array_get(all, n);
        if (strncmp(text_of(one, "begin"), trigger, n_trigger) != 0) continue;
        any = true;
        e = build_alt(&c->b, tag(c, one, n_trigger, depth), e);
    }
    if (!any) return wrong(c, "a trigger that no tag begins with");
    int32_t rule = build_new_rule(&c->b);
    TRY(build_define(&c->b, rule, e));
    return build_rule(&c->b, rule);
}

static int32_t separated(struct schema_compiler *c, json_t *x, int depth)
{
    struct builder *b = &c->b;
    int32_t one = tags(c, x, "", depth), more = build_empty(b);
    if (!json_is_true(json_object_get(x, "stop_after_first")))
        more = build_repeat(b, build_seq(b, build_text(b, text_of(x, "separator")), one), 0, -1);
    int32_t e = build_seq(b, one, more);
    return json_is_true(json_object_get(x, "at_least_one")) ? e : build_alt(b, build_empty(b), e);
}

static int32_t triggered(struct schema_compiler *c, json_t *x, int depth)
{
    struct builder *b = &c->b;
    struct until mark[TRIGGERS];
    bool once = json_is_true(json_object_get(x, "stop_after_first"));
    int32_t rule = build_new_rule(b), n = 0;
    for (int kind = 0; kind < 2; kind++) {
        json_t *triggers = json_object_get(x, kind ? "start_triggers" : "triggers"), *item;
        size_t i;
        json_array_foreach(triggers, i, item)
        {
            const char *text = json_string_value(item);
            if (!text || !*text || n == TRIGGERS) return wrong(c, "triggers are up to 32 texts");
            TRY(build_mark(b, text, &mark[n]));
            int32_t then = tags(c, x, text, depth);
            mark[n].then = once ? then : build_seq(b, then, build_rule(b, rule));
            mark[n++].at_start = kind == 1;
        }
    }
    if (n == 0) return wrong(c, "no triggers");
    TRY(build_define(b, rule, build_until(b, mark, n, true)));
    if (!json_is_true(json_object_get(x, "at_least_one"))) return build_rule(b, rule);
    int32_t first = tags(c, x, "", depth);
    return once ? first : build_seq(b, first, build_rule(b, rule));
}

static int32_t format(struct schema_compiler *c, json_t *x, int depth)
{
    const char *type = text_of(x, "type");
    if (++depth > NEST) return wrong(c, "nested more than 32 deep");
    if (strcmp(type, "const_string") == 0) return build_text(&c->b, text_of(x, "value"));
    if (strcmp(type, "any_text") == 0) return free_text(c, "");
    if (strcmp(type, "json_schema") == 0) return schema(c, x);
    if (strcmp(type, "sequence") == 0) return list(c, x, true, depth);
    if (strcmp(type, "or") == 0) return list(c, x, false, depth);
    if (strcmp(type, "tag") == 0) return tag(c, x, 0, depth);
    if (strcmp(type, "tags_with_separator") == 0) return separated(c, x, depth);
    if (strcmp(type, "triggered_tags") == 0) return triggered(c, x, depth);
    return lutra_fail(c->b.err, LUTRA_E_UNSUPPORTED, "structural tag: the type '%.40s' is not built", type);
}

int grammar_open_structure(struct grammar **out, const char *json, size_t n_bytes, struct lutra_error *err)
{
    *out = NULL;
    struct lutra_error why = {0};
    json_error_t no_json;
    struct schema_compiler c;
    if (n_bytes > SCHEMA_BYTES * 4) return lutra_fail(err, LUTRA_E_FORMAT, "structural tag: more than 4 MiB of text");
    json_t *x = json_loadb(json, n_bytes, JSON_REJECT_DUPLICATES, &no_json);
    if (!x) return lutra_fail(err, LUTRA_E_FORMAT, "structural tag: no JSON: %s", no_json.text);
    schema_begin(&c, NULL, &why);
    int rc = build_new_rule(&c.b);
    if (rc >= 0) rc = build_define(&c.b, 0, format(&c, json_object_get(x, "format"), 0));
    if (rc >= 0) rc = grammar_compile(out, &c.b, 0);
    if (rc >= 0 && *c.note && !((*out)->note = strdup(c.note))) {
        grammar_close(out);
        rc = lutra_fail(&why, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    }
    schema_end(&c);
    json_decref(x);
    return rc < 0 ? lutra_fail_at(err, rc, why.where, "%s", why.what) : 0;
}

const char *grammar_note(const struct grammar *grammar)
{
    return grammar->note;
}
