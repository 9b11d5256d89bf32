/* SPDX-License-Identifier: MIT
 *
 * The filter tojson as transformers defines it: json.dumps(x, ensure_ascii=False, indent, separators, sort_keys),
 * so neither non-ASCII characters nor HTML is escaped.
 */
#include <math.h>
#include <stdio.h>

#include "text/jinja/jinja_impl.h"

struct writer {
    struct jinja_run *run;
    struct jinja_value indent; /* the text of one level; not a string: all on one line */
    struct jinja_value item_separator, key_separator;
    bool ascii, sort;
    size_t level;
};

static int write_value(struct writer *w, struct jinja_value v);

static int add(struct writer *w, struct jinja_value part)
{
    return jinja_str(w->run, part, &w->run->out);
}

static int add_text(struct writer *w, const char *text)
{
    return add(w, jinja_view(text, strlen(text)));
}

/* One character; what it is written as comes from where it comes. */
static int write_char(struct writer *w, struct jinja_value one, uint32_t cp)
{
    static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *hit = cp && cp < 0x80 ? strchr(special, (int)cp) : NULL;
    char code[16];
    bool input = one.input && one.input[0];
    if (hit) {
        snprintf(code, sizeof code, "\\%c", letters[hit - special]);
    } else if (cp < 0x20 || (w->ascii && cp > 0x7E && cp < 0x10000)) {
        snprintf(code, sizeof code, "\\u%04x", (unsigned)cp);
    } else if (w->ascii && cp >= 0x10000) {
        snprintf(code, sizeof code, "\\u%04x\\u%04x", 0xD800u + ((unsigned)(cp - 0x10000) >> 10),
            0xDC00u + ((unsigned)cp & 0x3FF));
    } else {
        return add(w, one);
    }
    struct jinja_value coded = jinja_view(code, strlen(code));
    coded.input = input ? w->run->all_input : NULL;
    return add(w, coded);
}

static int write_string(struct writer *w, struct jinja_value s)
{
    uint32_t cp;
    TRY(add_text(w, "\""));
    for (size_t at = 0, k; at < s.n; at += k) {
        k = jinja_char_at(s, at, &cp);
        TRY(write_char(w, jinja_part(s, at, k), cp));
    }
    return add_text(w, "\"");
}

static int write_float(struct writer *w, struct jinja_value v)
{
    char text[40];
    jinja_print_float(v.f, text);
    const char *spelt = isnan(v.f) ? "NaN" : isinf(v.f) ? (v.f < 0 ? "-Infinity" : "Infinity") : text;
    struct jinja_value number = jinja_view(spelt, strlen(spelt));
    number.input = v.input;
    return add(w, number);
}

static int new_line(struct writer *w)
{
    if (w->indent.kind != JINJA_STRING) return 0;
    TRY(add_text(w, "\n"));
    for (size_t i = 0; i < w->level; i++) TRY(add(w, w->indent));
    return 0;
}

static int write_list(struct writer *w, const struct jinja_list *list)
{
    if (list->n == 0) return add_text(w, "[]");
    TRY(add_text(w, "["));
    w->level++;
    for (size_t i = 0; i < list->n; i++) {
        if (i) TRY(add(w, w->item_separator));
        TRY(new_line(w));
        TRY(write_value(w, list->items[i]));
    }
    w->level--;
    TRY(new_line(w));
    return add_text(w, "]");
}

/* Keys that are not strings are written as their JSON text in quotes. */
static int write_key(struct writer *w, struct jinja_value key)
{
    if (key.kind == JINJA_STRING) return write_string(w, key);
    if (key.kind != JINJA_INT && key.kind != JINJA_BIG && key.kind != JINJA_FLOAT && key.kind != JINJA_BOOL &&
        key.kind != JINJA_NONE) {
        return jinja_fail(w->run, LUTRA_E_FORMAT, "tojson: a key cannot be %s", jinja_type_name(key));
    }
    TRY(add_text(w, "\""));
    TRY(write_value(w, key));
    return add_text(w, "\"");
}

/* The pairs in ascending order of keys, by insertion: few keys, and each comparison counts as a step. */
static int sort_pairs(struct writer *w, const struct jinja_dict *dict, struct jinja_pair **out)
{
    struct jinja_pair *pairs = jinja_alloc(&w->run->heap, (dict->n + 1) * sizeof *pairs);
    if (!pairs) return jinja_fail(w->run, LUTRA_E_NO_MEMORY, "no memory for sorting %zu keys", dict->n);
    for (size_t i = 0; i < dict->n; i++) {
        size_t at = i;
        for (int order; at > 0; at--) {
            TRY(jinja_step(w->run, 0));
            TRY(jinja_order(w->run, dict->pairs[i].key, pairs[at - 1].key, &order));
            if (order >= 0) break;
            pairs[at] = pairs[at - 1];
        }
        pairs[at] = dict->pairs[i];
    }
    *out = pairs;
    return 0;
}

static int write_dict(struct writer *w, const struct jinja_dict *dict)
{
    struct jinja_pair *pairs = dict->pairs;
    if (dict->n == 0) return add_text(w, "{}");
    if (w->sort) TRY(sort_pairs(w, dict, &pairs));
    TRY(add_text(w, "{"));
    w->level++;
    for (size_t i = 0; i < dict->n; i++) {
        if (i) TRY(add(w, w->item_separator));
        TRY(new_line(w));
        TRY(write_key(w, pairs[i].key));
        TRY(add(w, w->key_separator));
        TRY(write_value(w, pairs[i].value));
    }
    w->level--;
    TRY(new_line(w));
    return add_text(w, "}");
}

static int write_any(struct writer *w, struct jinja_value v)
{
    switch (v.kind) {
    case JINJA_NONE: return add_text(w, "null");
    case JINJA_BOOL: return add_text(w, v.b ? "true" : "false");
    case JINJA_INT:
    case JINJA_BIG: return jinja_str(w->run, v, &w->run->out);
    case JINJA_FLOAT: return write_float(w, v);
    case JINJA_STRING: return write_string(w, v);
    case JINJA_DICT: return write_dict(w, v.dict);
    case JINJA_LIST:
        if (v.sub == JINJA_LIST_PLAIN || v.sub == JINJA_LIST_TUPLE) return write_list(w, v.list);
        break;
    default: break;
    }
    return jinja_fail(w->run, LUTRA_E_FORMAT, "tojson: object of type %s is not JSON serializable", jinja_type_name(v));
}

static int write_value(struct writer *w, struct jinja_value v)
{
    TRY(jinja_enter(w->run));
    int rc = write_any(w, v);
    jinja_leave(w->run);
    return rc;
}

static int set_indent(struct writer *w, struct jinja_value indent)
{
    int64_t width;
    w->indent = indent;
    if (!jinja_as_int(indent, &width)) {
        if (indent.kind == JINJA_STRING || indent.kind == JINJA_NONE || indent.kind == JINJA_MISSING) return 0;
        return jinja_fail(w->run, LUTRA_E_FORMAT, "tojson: indent cannot be %s", jinja_type_name(indent));
    }
    static const char spaces[65] = "                                                                ";
    if (width > 64) return jinja_fail(w->run, LUTRA_E_FORMAT, "tojson: an indent above 64 is not supported");
    w->indent = jinja_view(spaces, width > 0 ? (size_t)width : 0);
    return 0;
}

int jinja_tojson(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_value a[5];
    TRY(jinja_bind(run, "tojson", args, "ensure_ascii indent separators sort_keys", a));
    struct writer w = {.run = run, .ascii = jinja_truth(a[0]), .sort = jinja_truth(a[3])};
    TRY(set_indent(&w, a[1]));
    w.item_separator = w.indent.kind == JINJA_STRING ? jinja_view(",", 1) : jinja_view(", ", 2);
    w.key_separator = jinja_view(": ", 2);
    if (a[2].kind == JINJA_LIST && a[2].list->n == 2 && a[2].list->items[0].kind == JINJA_STRING &&
        a[2].list->items[1].kind == JINJA_STRING) {
        w.item_separator = a[2].list->items[0];
        w.key_separator = a[2].list->items[1];
    } else if (a[2].kind != JINJA_MISSING && a[2].kind != JINJA_NONE) {
        return jinja_fail(run, LUTRA_E_FORMAT, "tojson: separators must be two strings");
    }
    size_t start = run->out.n;
    TRY(write_value(&w, self));
    return jinja_take(run, start, out);
}
