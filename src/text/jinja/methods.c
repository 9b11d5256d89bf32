/* SPDX-License-Identifier: MIT
 *
 * Methods of strings, dicts, lists and loops.  Methods that would change a list or dict do not exist: the sandbox of
 * transformers refuses them.
 */
#include "text/jinja/jinja_impl.h"

#define METHOD(name)                                                                                                   \
    static int name(                                                                                                   \
        struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
#define COUNT(table) (sizeof table / sizeof *table)

static int need_string(struct jinja_run *run, const char *who, struct jinja_value v)
{
    if (v.kind == JINJA_STRING) return 0;
    return jinja_fail(run, LUTRA_E_FORMAT, "%s: a string is needed, not %s", who, jinja_type_name(v));
}

static int strip_side(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, bool left,
    bool right, struct jinja_value *out)
{
    struct jinja_value chars;
    TRY(jinja_bind(run, "strip", args, "chars", &chars));
    if (chars.kind != JINJA_MISSING && chars.kind != JINJA_NONE) TRY(need_string(run, "strip", chars));
    return jinja_strip(run, self, chars, left, right, out);
}

METHOD(str_strip)
{
    return strip_side(run, self, args, true, true, out);
}

METHOD(str_lstrip)
{
    return strip_side(run, self, args, true, false, out);
}

METHOD(str_rstrip)
{
    return strip_side(run, self, args, false, true, out);
}

/* Runs of space divide; at most `limit` cuts, from the left or the right. */
static int split_space(struct jinja_run *run, struct jinja_value s, int64_t limit, bool right, struct jinja_value *out)
{
    struct jinja_value none = {0};
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, out));
    TRY(jinja_strip(run, s, none, !right, right, &s));
    for (; s.n > 0; limit--) {
        size_t at = right ? s.n : 0;
        uint32_t cp = 0;
        while (limit != 0 && (right ? at > 0 : at < s.n)) {
            size_t next = at;
            if (right) do
                    next--;
                while (next > 0 && ((unsigned char)s.s[next] & 0xC0) == 0x80);
            size_t k = jinja_char_at(s, next, &cp);
            if (jinja_is_space(cp)) break;
            at = right ? next : at + k;
        }
        if (limit == 0) at = right ? 0 : s.n;
        struct jinja_value word = right ? jinja_part(s, at, s.n - at) : jinja_part(s, 0, at);
        TRY(jinja_list_add(run, out->list, word));
        s = right ? jinja_part(s, 0, at) : jinja_part(s, at, s.n - at);
        TRY(jinja_strip(run, s, none, !right, right, &s));
    }
    return 0;
}

static int split_at(struct jinja_run *run, struct jinja_value s, struct jinja_value by, int64_t limit, bool right,
    struct jinja_value *out)
{
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, out));
    for (; limit != 0; limit--) {
        const char *hit;
        TRY(right ? jinja_find_last(run, s, by, &hit) : jinja_find(run, s, by, 0, &hit));
        if (!hit) break;
        size_t before = (size_t)(hit - s.s), after = before + by.n;
        struct jinja_value rest = jinja_part(s, after, s.n - after);
        TRY(jinja_list_add(run, out->list, right ? rest : jinja_part(s, 0, before)));
        s = right ? jinja_part(s, 0, before) : rest;
    }
    return jinja_list_add(run, out->list, s);
}

static int split(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, bool right, struct jinja_value *out)
{
    struct jinja_value a[2];
    int64_t limit = -1;
    TRY(jinja_bind(run, "split", args, "sep maxsplit", a));
    if (a[1].kind != JINJA_MISSING && !jinja_as_int(a[1], &limit)) {
        return jinja_fail(run, LUTRA_E_FORMAT, "split: maxsplit must be an integer");
    }
    TRY(jinja_step(run, self.n));
    if (a[0].kind == JINJA_MISSING || a[0].kind == JINJA_NONE) {
        TRY(split_space(run, self, limit, right, out));
    } else {
        TRY(need_string(run, "split", a[0]));
        if (a[0].n == 0) return jinja_fail(run, LUTRA_E_FORMAT, "split: empty separator");
        TRY(split_at(run, self, a[0], limit, right, out));
    }
    struct jinja_list *list = out->list;
    for (size_t i = 0; right && i < list->n / 2; i++) { /* the parts were found from the right */
        struct jinja_value swap = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = swap;
    }
    return 0;
}

METHOD(str_split)
{
    return split(run, self, args, false, out);
}

METHOD(str_rsplit)
{
    return split(run, self, args, true, out);
}

METHOD(str_splitlines)
{
    struct jinja_value keep;
    TRY(jinja_bind(run, "splitlines", args, "keepends", &keep));
    return jinja_split_lines(run, self, jinja_truth(keep), out);
}

/* What start and end leave of *s, as a slice of Python's; *before: the characters cut off.  false: start lies behind
 * the end of the text, where not even "" is found. */
static int cut(
    struct jinja_run *run, const struct jinja_value bounds[2], struct jinja_value *s, int64_t *before, bool *inside)
{
    int64_t n, at[2] = {0, INT64_MAX};
    uint32_t cp;
    *before = 0;
    *inside = true;
    if (bounds[0].kind == JINJA_MISSING && bounds[1].kind == JINJA_MISSING) return 0;
    TRY(jinja_n_chars(run, *s, &n));
    for (int i = 0; i < 2; i++) {
        bool given = bounds[i].kind != JINJA_MISSING && bounds[i].kind != JINJA_NONE;
        if (given && !jinja_as_int(bounds[i], &at[i]))
            return jinja_fail(
                run, LUTRA_E_FORMAT, "start and end must be integers, not %s", jinja_type_name(bounds[i]));
        if (at[i] < 0) at[i] = at[i] + n < 0 ? 0 : at[i] + n;
    }
    if (at[1] > n) at[1] = n;
    *inside = at[0] <= at[1];
    if (!*inside) return 0;
    size_t from = 0, to;
    for (int64_t i = 0; i < at[0]; i++) from += jinja_char_at(*s, from, &cp);
    to = from;
    for (int64_t i = at[0]; i < at[1]; i++) to += jinja_char_at(*s, to, &cp);
    *s = jinja_part(*s, from, to - from);
    *before = at[0];
    return jinja_step(run, to);
}

static bool touches(struct jinja_value s, struct jinja_value part, bool end)
{
    return part.n <= s.n && (part.n == 0 || memcmp(end ? s.s + s.n - part.n : s.s, part.s, part.n) == 0);
}

/* The argument may be a tuple of strings. */
static int check_end(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, bool end, struct jinja_value *out)
{
    struct jinja_value a[3], part;
    int64_t before;
    bool inside;
    TRY(jinja_bind(run, "startswith or endswith", args, "part start end", a));
    TRY(cut(run, a + 1, &self, &before, &inside));
    part = a[0];
    *out = jinja_bool(false);
    if (part.kind == JINJA_STRING) TRY(jinja_step(run, part.n));
    if (part.kind != JINJA_LIST || part.sub != JINJA_LIST_TUPLE) {
        TRY(need_string(run, "startswith or endswith", part));
        *out = jinja_bool(inside && touches(self, part, end));
        return 0;
    }
    for (size_t i = 0; i < part.list->n; i++) {
        TRY(need_string(run, "startswith or endswith", part.list->items[i]));
        TRY(jinja_step(run, part.list->items[i].n));
        if (inside && touches(self, part.list->items[i], end)) *out = jinja_bool(true);
    }
    return 0;
}

METHOD(str_startswith)
{
    return check_end(run, self, args, false, out);
}

METHOD(str_endswith)
{
    return check_end(run, self, args, true, out);
}

static int recase(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, enum jinja_case how,
    struct jinja_value *out)
{
    TRY(jinja_bind(run, "a change of case", args, "", NULL));
    return jinja_change_case(run, self, how, out);
}

METHOD(str_upper)
{
    return recase(run, self, args, JINJA_UPPER, out);
}

METHOD(str_lower)
{
    return recase(run, self, args, JINJA_LOWER, out);
}

METHOD(str_title)
{
    return recase(run, self, args, JINJA_TITLE_METHOD, out);
}

METHOD(str_capitalize)
{
    return recase(run, self, args, JINJA_CAPITAL, out);
}

METHOD(str_replace)
{
    struct jinja_value a[3];
    int64_t count = -1;
    TRY(jinja_bind(run, "replace", args, "old new count", a));
    TRY(need_string(run, "replace", a[0]));
    TRY(need_string(run, "replace", a[1]));
    if (a[2].kind != JINJA_MISSING && !jinja_as_int(a[2], &count)) {
        return jinja_fail(run, LUTRA_E_FORMAT, "replace: count must be an integer");
    }
    return jinja_replace(run, self, a[0], a[1], count, out);
}

METHOD(str_join)
{
    struct jinja_value v;
    const struct jinja_list *list;
    TRY(jinja_bind(run, "join", args, "iterable", &v));
    TRY(jinja_iterate(run, v, &list));
    size_t start = run->out.n;
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i].kind != JINJA_STRING) run->out.n = start;
        TRY(need_string(run, "join", list->items[i]));
        if (i) TRY(jinja_str(run, self, &run->out));
        TRY(jinja_str(run, list->items[i], &run->out));
    }
    return jinja_take(run, start, out);
}

static int find_part(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, bool last,
    bool must, struct jinja_value *out)
{
    struct jinja_value a[3];
    int64_t before, at = -1;
    bool inside;
    const char *hit = NULL;
    TRY(jinja_bind(run, "find or index", args, "part start end", a));
    TRY(need_string(run, "find or index", a[0]));
    TRY(cut(run, a + 1, &self, &before, &inside));
    if (inside) TRY(last ? jinja_find_last(run, self, a[0], &hit) : jinja_find(run, self, a[0], 0, &hit));
    if (hit) TRY(jinja_n_chars(run, jinja_part(self, 0, (size_t)(hit - self.s)), &at));
    if (!hit && must) return jinja_fail(run, LUTRA_E_FORMAT, "index: the text is not found");
    *out = jinja_int(hit ? at + before : -1);
    return 0;
}

METHOD(str_find)
{
    return find_part(run, self, args, false, false, out);
}

METHOD(str_rfind)
{
    return find_part(run, self, args, true, false, out);
}

METHOD(str_index)
{
    return find_part(run, self, args, false, true, out);
}

METHOD(str_rindex)
{
    return find_part(run, self, args, true, true, out);
}

METHOD(str_count)
{
    struct jinja_value a[3];
    int64_t n = 0, before;
    bool inside;
    const char *hit = NULL;
    TRY(jinja_bind(run, "count", args, "part start end", a));
    TRY(need_string(run, "count", a[0]));
    TRY(cut(run, a + 1, &self, &before, &inside));
    if (inside && a[0].n)
        TRY(jinja_find(run, self, a[0], 0, &hit));
    else if (inside)
        TRY(jinja_n_chars(run, self, &n));
    for (; hit; n++) TRY(jinja_find(run, self, a[0], (size_t)(hit - self.s) + a[0].n, &hit));
    *out = jinja_int(n + (inside && a[0].n == 0));
    return 0;
}

/* (before, the separator, behind); not found: the text and two empty ones. */
static int partition(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, bool last, struct jinja_value *out)
{
    struct jinja_value by, empty = jinja_view("", 0);
    const char *hit;
    TRY(jinja_bind(run, "partition", args, "sep", &by));
    TRY(need_string(run, "partition", by));
    if (by.n == 0) return jinja_fail(run, LUTRA_E_FORMAT, "partition: empty separator");
    TRY(last ? jinja_find_last(run, self, by, &hit) : jinja_find(run, self, by, 0, &hit));
    size_t at = hit ? (size_t)(hit - self.s) : 0, behind = at + by.n;
    struct jinja_value found[3] = {jinja_part(self, 0, at), by, jinja_part(self, 0, 0)};
    if (hit) found[2] = jinja_part(self, behind, self.n - behind);
    struct jinja_value none[3] = {last ? empty : self, empty, last ? self : empty};
    TRY(jinja_list_new(run, JINJA_LIST_TUPLE, out));
    for (int i = 0; i < 3; i++) TRY(jinja_list_add(run, out->list, hit ? found[i] : none[i]));
    return 0;
}

METHOD(str_partition)
{
    return partition(run, self, args, false, out);
}

METHOD(str_rpartition)
{
    return partition(run, self, args, true, out);
}

static int remove_end(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, bool end, struct jinja_value *out)
{
    struct jinja_value part;
    TRY(jinja_bind(run, "removeprefix or removesuffix", args, "part", &part));
    TRY(need_string(run, "removeprefix or removesuffix", part));
    TRY(jinja_step(run, part.n));
    *out = self;
    if (touches(self, part, end)) *out = jinja_part(self, end ? 0 : part.n, self.n - part.n);
    return 0;
}

METHOD(str_removeprefix)
{
    return remove_end(run, self, args, false, out);
}

METHOD(str_removesuffix)
{
    return remove_end(run, self, args, true, out);
}

static const struct jinja_function string_methods[] = {{"strip", str_strip}, {"lstrip", str_lstrip},
    {"rstrip", str_rstrip}, {"split", str_split}, {"rsplit", str_rsplit}, {"splitlines", str_splitlines},
    {"startswith", str_startswith}, {"endswith", str_endswith}, {"upper", str_upper}, {"lower", str_lower},
    {"title", str_title}, {"capitalize", str_capitalize}, {"replace", str_replace}, {"join", str_join},
    {"find", str_find}, {"rfind", str_rfind}, {"index", str_index}, {"rindex", str_rindex}, {"count", str_count},
    {"partition", str_partition}, {"rpartition", str_rpartition}, {"removeprefix", str_removeprefix},
    {"removesuffix", str_removesuffix}, {"format", jinja_str_format}, {"format_map", jinja_str_format_map}};

enum part { KEYS, VALUES, ITEMS };

static int list_pairs(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, enum part part,
    struct jinja_value *out)
{
    TRY(jinja_bind(run, "keys, values or items", args, "", NULL));
    TRY(jinja_list_new(run, JINJA_LIST_VIEW, out));
    for (size_t i = 0; i < self.dict->n; i++) {
        struct jinja_value item = part == KEYS ? self.dict->pairs[i].key : self.dict->pairs[i].value;
        if (part == ITEMS) TRY(jinja_tuple2(run, self.dict->pairs[i].key, item, &item));
        TRY(jinja_list_add(run, out->list, item));
    }
    return 0;
}

METHOD(dict_keys)
{
    return list_pairs(run, self, args, KEYS, out);
}

METHOD(dict_values)
{
    return list_pairs(run, self, args, VALUES, out);
}

METHOD(dict_items)
{
    return list_pairs(run, self, args, ITEMS, out);
}

METHOD(dict_get)
{
    struct jinja_value a[2], *found;
    TRY(jinja_bind(run, "get", args, "key default", a));
    TRY(jinja_dict_get(run, self.dict, a[0], &found));
    *out = found ? *found : a[1].kind == JINJA_MISSING ? jinja_none() : a[1];
    return 0;
}

/* Values never change, so a copy is the value. */
METHOD(any_copy)
{
    TRY(jinja_bind(run, "copy", args, "", NULL));
    *out = self;
    return 0;
}

static const struct jinja_function dict_methods[] = {
    {"keys", dict_keys}, {"values", dict_values}, {"items", dict_items}, {"get", dict_get}, {"copy", any_copy}};

METHOD(list_index)
{
    struct jinja_value a[3];
    int64_t n = (int64_t)self.list->n, bounds[2] = {0, n};
    bool same = false;
    TRY(jinja_bind(run, "index", args, "item start stop", a));
    for (int i = 0; i < 2; i++) {
        if (a[i + 1].kind != JINJA_MISSING && !jinja_as_int(a[i + 1], &bounds[i]))
            return jinja_fail(run, LUTRA_E_FORMAT, "index: start and stop must be integers");
        if (bounds[i] < 0) bounds[i] = bounds[i] + n < 0 ? 0 : bounds[i] + n;
    }
    for (int64_t i = bounds[0]; i < bounds[1] && i < n && !same; i++) {
        TRY(jinja_equal(run, self.list->items[i], a[0], &same));
        *out = jinja_int(i);
    }
    return same ? 0 : jinja_fail(run, LUTRA_E_FORMAT, "index: the value is not in the list");
}

METHOD(list_count)
{
    struct jinja_value item;
    int64_t n = 0;
    bool same;
    TRY(jinja_bind(run, "count", args, "item", &item));
    for (size_t i = 0; i < self.list->n; i++) {
        TRY(jinja_equal(run, self.list->items[i], item, &same));
        n += same;
    }
    *out = jinja_int(n);
    return 0;
}

static const struct jinja_function list_methods[] = {{"index", list_index}, {"count", list_count}, {"copy", any_copy}};

METHOD(loop_cycle)
{
    if (args->n == 0 || args->n_named) return jinja_fail(run, LUTRA_E_FORMAT, "no items for cycling given");
    *out = args->pos[self.loop->index0 % args->n];
    return 0;
}

METHOD(loop_changed)
{
    struct jinja_value now;
    bool same = false;
    TRY(jinja_list_new(run, JINJA_LIST_TUPLE, &now));
    for (size_t i = 0; i < args->n; i++) TRY(jinja_list_add(run, now.list, args->pos[i]));
    if (self.loop->last_changed.kind != JINJA_MISSING) TRY(jinja_equal(run, self.loop->last_changed, now, &same));
    self.loop->last_changed = now;
    *out = jinja_bool(!same);
    return 0;
}

static const struct jinja_function loop_methods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

const struct jinja_function *jinja_search(const struct jinja_function *table, size_t n, struct jinja_value name)
{
    for (size_t i = 0; i < n; i++) {
        if (jinja_is(name, table[i].name)) return &table[i];
    }
    return NULL;
}

const struct jinja_function *jinja_find_method(struct jinja_value object, struct jinja_value name)
{
    switch (object.kind) {
    case JINJA_STRING: {
        const struct jinja_function *found = jinja_search(string_methods, COUNT(string_methods), name);
        return found ? found : jinja_find_method_of_text(name);
    }
    case JINJA_DICT: return jinja_search(dict_methods, COUNT(dict_methods), name);
    case JINJA_LIST:
        return object.sub <= JINJA_LIST_RANGE ? jinja_search(list_methods, COUNT(list_methods), name) : NULL;
    case JINJA_CYCLER: return jinja_find_method_of_cycler(name);
    case JINJA_LOOP: return jinja_search(loop_methods, COUNT(loop_methods), name);
    default: return NULL;
    }
}
