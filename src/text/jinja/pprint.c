/* SPDX-License-Identifier: MIT
 *
 * The filter pprint: Python's pprint.pformat, 80 columns wide, with sorted keys.  A value that does not fit the rest of
 * its line is written over several: lists, tuples and mappings an item a line, text in pieces that end with spaces.
 */
#include "text/jinja/jinja_impl.h"

enum { COLUMNS = 80 };

/* What stands around a value: the column where it begins, how much of its last line others need, how deep it is. */
struct place {
    int64_t indent, after;
    int level;
};

static int pretty(struct jinja_run *run, struct jinja_value v, struct place at);

static void cut_back(struct jinja_run *run, size_t to)
{
    run->out.n = to;
    run->out.p[to] = 0;
}

/* Writes v on one line; *n: its characters. */
static int write_line(struct jinja_run *run, struct jinja_value v, int64_t *n)
{
    size_t start = run->out.n;
    TRY(jinja_repr(run, v, &run->out));
    return jinja_n_chars(run, jinja_view(run->out.p + start, run->out.n - start), n);
}

static int width_of(struct jinja_run *run, struct jinja_value v, int64_t *n)
{
    size_t start = run->out.n;
    TRY(write_line(run, v, n));
    cut_back(run, start);
    return 0;
}

static int next_line(struct jinja_run *run, const char *before, int64_t indent)
{
    struct jinja_value spaces;
    TRY(jinja_put(run, before));
    TRY(jinja_binary(run, '*', jinja_view(" ", 1), jinja_int(indent), &spaces));
    return jinja_str(run, spaces, &run->out);
}

static int put_items(struct jinja_run *run, struct jinja_value v, struct place at)
{
    bool tuple = v.sub == JINJA_LIST_TUPLE;
    const char *end = !tuple ? "]" : v.list->n == 1 ? ",)" : ")";
    struct place inner = {at.indent + 1, 1, at.level + 1};
    TRY(jinja_put(run, tuple ? "(" : "["));
    for (size_t i = 0; i < v.list->n; i++) {
        if (i) TRY(next_line(run, ",\n", inner.indent));
        if (i + 1 == v.list->n) inner.after = at.after + (int64_t)strlen(end);
        TRY(pretty(run, v.list->items[i], inner));
    }
    return jinja_put(run, end);
}

static int put_pairs(struct jinja_run *run, const struct jinja_dict *dict, struct place at)
{
    TRY(jinja_put(run, "{"));
    for (size_t i = 0; i < dict->n; i++) {
        int64_t n;
        if (i) TRY(next_line(run, ",\n", at.indent + 1));
        TRY(write_line(run, dict->pairs[i].key, &n));
        TRY(jinja_put(run, ": "));
        struct place inner = {at.indent + n + 3, i + 1 == dict->n ? at.after + 1 : 1, at.level + 1};
        TRY(pretty(run, dict->pairs[i].value, inner));
    }
    return jinja_put(run, "}");
}

/* Behind the non-space and the space from `at` on. */
static size_t word_end(struct jinja_value s, size_t at)
{
    uint32_t cp;
    for (int space = 0; space < 2; space++) {
        for (size_t k; at < s.n; at += k) {
            k = jinja_char_at(s, at, &cp);
            if (jinja_is_space(cp) != (space == 1)) break;
        }
    }
    return at;
}

/* Adds to `pieces` what is made of one line of a text: as many words each as fit. */
static int cut_line(
    struct jinja_run *run, struct jinja_value line, int64_t width, int64_t last_width, struct jinja_list *pieces)
{
    size_t from = 0;
    for (size_t at = 0, end; at < line.n; at = end) {
        int64_t n;
        end = word_end(line, at);
        if (end == line.n) width = last_width;
        TRY(width_of(run, jinja_part(line, from, end - from), &n));
        if (n <= width) continue;
        if (at > from) TRY(jinja_list_add(run, pieces, jinja_part(line, from, at - from)));
        from = at;
    }
    return from < line.n ? jinja_list_add(run, pieces, jinja_part(line, from, line.n - from)) : 0;
}

static int put_text(struct jinja_run *run, struct jinja_value s, struct place at)
{
    struct jinja_value lines, pieces;
    bool outermost = at.level == 0;
    if (outermost) at.indent++, at.after++;
    TRY(jinja_split_lines(run, s, true, &lines));
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, &pieces));
    for (size_t i = 0; i < lines.list->n; i++) {
        int64_t n, width = COLUMNS - at.indent, last = i + 1 == lines.list->n ? width - at.after : width;
        TRY(width_of(run, lines.list->items[i], &n));
        if (n <= last)
            TRY(jinja_list_add(run, pieces.list, lines.list->items[i]));
        else
            TRY(cut_line(run, lines.list->items[i], width, last, pieces.list));
    }
    bool brackets = outermost && pieces.list->n > 1;
    if (brackets) TRY(jinja_put(run, "("));
    for (size_t i = 0; i < pieces.list->n; i++) {
        if (i) TRY(next_line(run, "\n", at.indent));
        TRY(jinja_repr(run, pieces.list->items[i], &run->out));
    }
    return brackets ? jinja_put(run, ")") : 0;
}

static bool is_sequence(struct jinja_value v)
{
    return v.kind == JINJA_LIST && v.sub <= JINJA_LIST_TUPLE && !v.list->is_group;
}

static int pretty(struct jinja_run *run, struct jinja_value v, struct place at)
{
    size_t start = run->out.n;
    int64_t n;
    TRY(write_line(run, v, &n));
    bool divides = is_sequence(v) || v.kind == JINJA_DICT || (v.kind == JINJA_STRING && v.n);
    if (!divides || n <= COLUMNS - at.indent - at.after) return 0;
    cut_back(run, start);
    TRY(jinja_enter(run));
    if (v.kind == JINJA_STRING)
        TRY(put_text(run, v, at));
    else if (v.kind == JINJA_DICT)
        TRY(put_pairs(run, v.dict, at));
    else
        TRY(put_items(run, v, at));
    jinja_leave(run);
    return 0;
}

/* Values that Python does not compare are sorted by the names of their types. */
static int64_t type_rank(struct jinja_value v)
{
    if (v.kind == JINJA_NONE) return 0;
    return v.kind <= JINJA_BIG ? 1 : v.kind == JINJA_STRING ? 2 : 3;
}

static int sort_inside(struct jinja_run *run, struct jinja_value *v);

static int sort_dict(struct jinja_run *run, struct jinja_value *v)
{
    const struct jinja_dict *dict = v->dict;
    struct jinja_pair *pairs = jinja_alloc(&run->heap, (2 * dict->n + 1) * sizeof *pairs);
    if (!pairs) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for sorting %zu items", dict->n);
    for (size_t i = 0; i < dict->n; i++) {
        struct jinja_value key = dict->pairs[i].key;
        TRY(jinja_tuple2(run, jinja_int(type_rank(key)), key, &pairs[i].key));
        TRY(jinja_tuple2(run, key, dict->pairs[i].value, &pairs[i].value));
    }
    TRY(jinja_sort_pairs(run, pairs, pairs + dict->n, dict->n, false));
    TRY(jinja_dict_new(run, v));
    for (size_t i = 0; i < dict->n; i++) {
        const struct jinja_value *pair = pairs[i].value.list->items;
        struct jinja_value value = pair[1];
        TRY(sort_inside(run, &value));
        TRY(jinja_dict_set(run, v->dict, pair[0], value));
    }
    return 0;
}

/* The value with the keys of all mappings in it sorted. */
static int sort_inside(struct jinja_run *run, struct jinja_value *v)
{
    TRY(jinja_enter(run));
    if (v->kind == JINJA_DICT) TRY(sort_dict(run, v));
    if (is_sequence(*v)) {
        const struct jinja_list *list = v->list;
        TRY(jinja_list_new(run, v->sub, v));
        for (size_t i = 0; i < list->n; i++) {
            struct jinja_value item = list->items[i];
            TRY(sort_inside(run, &item));
            TRY(jinja_list_add(run, v->list, item));
        }
    }
    jinja_leave(run);
    return 0;
}

int jinja_pprint(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
{
    size_t start = run->out.n;
    TRY(jinja_bind(run, "pprint", args, "", NULL));
    TRY(sort_inside(run, &self));
    TRY(pretty(run, self, (struct place){0}));
    return jinja_take(run, start, out);
}
