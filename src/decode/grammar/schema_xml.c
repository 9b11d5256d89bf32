/* SPDX-License-Identifier: MIT
 *
 * An object as elements, as Qwen 3.5 and Qwen3-Coder write the arguments of a call:
 *
 *     <parameter=city>
 *     Rome
 *     </parameter>
 *
 * A property whose schema says that it is a text is written plainly, everything else as JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/schema_impl.h"

#define CLOSE "</parameter>"

/* Whether readers take a value as text without looking at it: its own schema says so, with no reference. */
static bool is_text(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *one = json_object_get(schema, "const"), *item;
    json_t *list = json_object_get(schema, "enum");
    size_t i;
    if (json_is_string(type)) return strcmp(json_string_value(type), "string") == 0;
    if (type || (!one && !json_array_size(list))) return false;
    bool texts = !one || json_is_string(one);
    json_array_foreach(list, i, item) texts = texts && json_is_string(item);
    return texts;
}

/* Text as it is, with the line end behind it that is none of it; a text with the closing tag cannot be written. */
static int32_t plainly(struct schema_compiler *c, const json_t *x)
{
    const char *text = json_string_value(x);
    if (!text || strstr(text, CLOSE) || memchr(text, 0, json_string_length(x))) return build_never(&c->b);
    return build_bytes(&c->b, text, json_string_length(x));
}

/* A text up to its closing tag. */
static int32_t text_value(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    struct builder *b = &c->b;
    static const char *const limits[] = {"minLength", "maxLength", "pattern", "format"};
    json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    int32_t close = build_text(b, "\n" CLOSE "\n"), e;
    bool limited = false;
    if (list || one) {
        e = build_never(b);
        for (size_t i = list ? json_array_size(list) : 1; i-- > 0;) {
            json_t *x = list ? json_array_get(list, i) : one;
            if (!list || !one || json_equal(x, one)) e = build_alt(b, plainly(c, x), e);
        }
        return build_seq(b, e, close);
    }
    for (int i = 0; i < 4; i++) limited = limited || json_object_get(schema, limits[i]);
    if (limited) {
        enum build_chars chars = b->chars;
        const char *quote = c->quote;
        b->chars = CHARS_PLAIN;
        c->quote = "";
        e = schema_string(c, schema, path);
        b->chars = chars;
        c->quote = quote;
        return build_seq(b, e, close);
    }
    struct until end;
    TRY(build_mark(b, CLOSE, &end));
    end.then = build_text(b, "\n");
    return build_until(b, &end, 1, false);
}

static int32_t element(struct schema_compiler *c, int32_t key, json_t *schema, bool own, const struct schema_path *path)
{
    struct builder *b = &c->b;
    int32_t open = build_seq(b, build_text(b, "<parameter="), build_seq(b, key, build_text(b, ">\n")));
    if (own && is_text(schema)) return build_seq(b, open, text_value(c, schema, path));
    return build_seq(b, open, build_seq(b, schema_value(c, schema, path), build_text(b, "\n" CLOSE "\n")));
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* Parameters that no property names, any number of them. */
static int32_t others(struct schema_compiler *c, json_t *properties, json_t *more, const struct schema_path *path)
{
    const struct schema_path here = {path, "additionalProperties", 0};
    size_t n = 0;
    const char *key, **name = malloc((json_object_size(properties) + 1) * sizeof *name);
    json_t *x;
    if (!name) return lutra_fail(c->b.err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    json_object_foreach(properties, key, x) name[n++] = key;
    qsort(name, n, sizeof *name, by_name);
    int32_t other = schema_other_keys(c, name, n, 0);
    free(name);
    int32_t rule = build_new_rule(&c->b);
    TRY(build_define(&c->b, rule, element(c, other, more, false, &here)));
    return build_repeat(&c->b, build_rule(&c->b, rule), 0, -1);
}

static bool is_required(const json_t *schema, const char *key)
{
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i,
        item) if (json_is_string(item) && strcmp(json_string_value(item), key) == 0) return true;
    return false;
}

/* Refuses what says more of the object than which properties it has. */
static int check(struct schema_compiler *c, const json_t *schema, const struct schema_path *path)
{
    static const char *const known[] = {"type", "properties", "required", "additionalProperties"};
    const char *key;
    json_t *x;
    const json_t *type = json_object_get(schema, "type"), *properties = json_object_get(schema, "properties");
    json_object_foreach((json_t *)schema, key, x)
    {
        bool is_known = schema_is_note(key);
        for (int i = 0; i < 4; i++) is_known = is_known || strcmp(key, known[i]) == 0;
        if (!is_known) return schema_fail(c, path, key, LUTRA_E_UNSUPPORTED, "in elements this keyword is not built");
    }
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "object") != 0))
        return schema_fail(c, path, "type", LUTRA_E_UNSUPPORTED, "only an object is written as elements");
    if (properties && !json_is_object(properties))
        return schema_fail(c, path, "properties", LUTRA_E_FORMAT, "it is no object");
    if (json_object_get(schema, "required") && !json_is_array(json_object_get(schema, "required")))
        return schema_fail(c, path, "required", LUTRA_E_FORMAT, "it is no array");
    return 0;
}

static int32_t elements(struct schema_compiler *c, json_t *schema, bool own, const struct schema_path *path)
{
    struct builder *b = &c->b;
    json_t *properties = json_object_get(schema, "properties"), *more = json_object_get(schema, "additionalProperties");
    json_t *x, *item;
    const struct schema_path at = {path, "properties", 0};
    const char *key;
    size_t i;
    TRY(check(c, schema, path));
    if (!more && !json_object_size(properties)) more = json_true();
    int32_t e = build_empty(b);
    json_object_foreach(properties, key, x)
    {
        const struct schema_path here = {&at, key, 0};
        int32_t one = strpbrk(key, "<>\n") ? schema_fail(c, &here, NULL, LUTRA_E_UNSUPPORTED, "no name of an element")
                                           : element(c, build_text(b, key), x, own, &here);
        e = build_seq(b, e, is_required(schema, key) ? one : build_repeat(b, one, 0, 1));
        TRY(e);
    }
    json_array_foreach(json_object_get(schema, "required"), i, item)
    {
        const char *name = json_string_value(item);
        if (!name || json_object_get(properties, name)) continue;
        if (!more || json_is_false(more)) return build_never(b);
        e = build_seq(b, e, element(c, build_text(b, name), more, false, path));
    }
    return more && !json_is_false(more) ? build_seq(b, e, others(c, properties, more, path)) : e;
}

int32_t schema_xml(struct schema_compiler *c, json_t *schema, const struct schema_path *path)
{
    json_t *whole = schema, *none = json_object();
    bool own = !json_object_get(schema, "$ref"); /* then readers find the types of parameters */
    int rc = own ? 0 : schema_both(c, none, schema, path, &whole);
    json_decref(none);
    int32_t e = rc < 0 ? rc : elements(c, whole, own, path);
    if (e != LUTRA_E_UNSUPPORTED || !c->lenient) return e;
    if (!*c->note) memcpy(c->note, c->b.err->what, sizeof c->note - 1);
    return others(c, NULL, json_true(), path);
}
