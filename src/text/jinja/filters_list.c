/* SPDX-License-Identifier: MIT
 *
 * Filters that walk lists.  Where Jinja returns an iterator, so do these: it has no length and is walked once.
 */
#include "text/jinja/jinja_impl.h"

#define FILTER(name)                                                                                                   \
    static int name(                                                                                                   \
        struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)

static const struct jinja_value nothing = {.kind = JINJA_MISSING};

static int need(struct jinja_run *run, const char *who, struct jinja_value v)
{
    return v.kind == JINJA_MISSING ? jinja_fail(run, LUTRA_E_FORMAT, "%s: an argument is missing", who) : 0;
}

/* A list of the items of v. */
static int listed(struct jinja_run *run, struct jinja_value v, enum jinja_list_kind kind, struct jinja_value *out)
{
    const struct jinja_list *list;
    TRY(jinja_iterate(run, v, &list));
    TRY(jinja_list_new(run, kind, out));
    for (size_t i = 0; i < list->n; i++) TRY(jinja_list_add(run, out->list, list->items[i]));
    return 0;
}

FILTER(f_list)
{
    TRY(jinja_bind(run, "list", args, "", NULL));
    return listed(run, self, JINJA_LIST_PLAIN, out);
}

FILTER(f_first)
{
    const struct jinja_list *list;
    TRY(jinja_bind(run, "first", args, "", NULL));
    TRY(jinja_iterate(run, self, &list));
    *out = list->n ? list->items[0] : jinja_undefined();
    return 0;
}

FILTER(f_last)
{
    const struct jinja_list *list;
    TRY(jinja_bind(run, "last", args, "", NULL));
    if (self.kind == JINJA_LIST && self.sub == JINJA_LIST_ITERATOR) {
        return jinja_fail(run, LUTRA_E_FORMAT, "last: an iterator cannot be reversed");
    }
    TRY(jinja_iterate(run, self, &list));
    *out = list->n ? list->items[list->n - 1] : jinja_undefined();
    return 0;
}

/* One of the items: Jinja2 draws it, here a text depends on its input alone. */
FILTER(f_random)
{
    const struct jinja_list *list;
    TRY(jinja_bind(run, "random", args, "", NULL));
    if (self.kind != JINJA_STRING && (self.kind != JINJA_LIST || self.sub == JINJA_LIST_ITERATOR))
        return jinja_fail(run, LUTRA_E_FORMAT, "random: a sequence is needed, not %s", jinja_type_name(self));
    TRY(jinja_iterate(run, self, &list));
    *out = list->n ? list->items[(run->n_steps * 0x9E3779B97F4A7C15u >> 33) % list->n] : jinja_undefined();
    return 0;
}

FILTER(f_reverse)
{
    struct jinja_value items;
    size_t start = run->out.n;
    TRY(jinja_bind(run, "reverse", args, "", NULL));
    TRY(listed(run, self, JINJA_LIST_ITERATOR, &items));
    struct jinja_list *list = items.list;
    for (size_t i = 0; i < list->n / 2; i++) {
        struct jinja_value swap = list->items[i];
        list->items[i] = list->items[list->n - 1 - i];
        list->items[list->n - 1 - i] = swap;
    }
    *out = items;
    if (self.kind != JINJA_STRING) return 0;
    for (size_t i = 0; i < list->n; i++) TRY(jinja_str(run, list->items[i], &run->out));
    return jinja_take(run, start, out);
}

FILTER(f_join)
{
    struct jinja_value a[2], item;
    const struct jinja_list *list;
    TRY(jinja_bind(run, "join", args, "d attribute", a));
    TRY(jinja_iterate(run, self, &list));
    size_t start = run->out.n;
    for (size_t i = 0; i < list->n; i++) {
        item = list->items[i];
        if (a[1].kind != JINJA_MISSING && a[1].kind != JINJA_NONE) TRY(jinja_path(run, item, a[1], nothing, &item));
        if (i && a[0].kind != JINJA_MISSING) TRY(jinja_str(run, a[0], &run->out));
        TRY(jinja_str(run, item, &run->out));
    }
    return jinja_take(run, start, out);
}

FILTER(f_items)
{
    TRY(jinja_bind(run, "items", args, "", NULL));
    TRY(jinja_list_new(run, JINJA_LIST_ITERATOR, out));
    if (self.kind == JINJA_UNDEFINED) return 0;
    if (self.kind != JINJA_DICT) return jinja_fail(run, LUTRA_E_FORMAT, "Can only get item pairs from a mapping.");
    for (size_t i = 0; i < self.dict->n; i++) {
        struct jinja_value pair;
        TRY(jinja_tuple2(run, self.dict->pairs[i].key, self.dict->pairs[i].value, &pair));
        TRY(jinja_list_add(run, out->list, pair));
    }
    return 0;
}

/* map('filter', ...) */
static int map_filter(
    struct jinja_run *run, const struct jinja_list *list, const struct jinja_args *args, struct jinja_list *out)
{
    struct jinja_value name = args->n ? args->pos[0] : jinja_undefined(), item;
    const struct jinja_function *filter = name.kind == JINJA_STRING ? jinja_find_filter(name) : NULL;
    if (!filter) return jinja_fail(run, LUTRA_E_UNSUPPORTED, "map: no such filter");
    struct jinja_args rest = {args->pos + 1, args->n - 1, args->named, args->n_named};
    for (size_t i = 0; i < list->n; i++) {
        TRY(jinja_apply(run, filter, list->items[i], &rest, &item));
        TRY(jinja_list_add(run, out, item));
    }
    return 0;
}

FILTER(f_map)
{
    struct jinja_value a[2] = {nothing, nothing}, item;
    const struct jinja_list *list;
    TRY(jinja_enter(run)); /* map('map', ...) */
    TRY(jinja_iterate(run, self, &list));
    TRY(jinja_list_new(run, JINJA_LIST_ITERATOR, out));
    bool by_attribute = args->n == 0 && args->n_named > 0;
    if (!by_attribute)
        TRY(map_filter(run, list, args, out->list));
    else
        TRY(jinja_bind(run, "map", args, "attribute default", a));
    for (size_t i = 0; by_attribute && i < list->n; i++) {
        TRY(jinja_path(run, list->items[i], a[0], a[1], &item));
        TRY(jinja_list_add(run, out->list, item));
    }
    jinja_leave(run);
    return 0;
}

/* select, reject and their -attr forms: keep items whose test (truth without one) comes out as `want`. */
static int choose(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, bool by_attribute,
    bool want, struct jinja_value *out)
{
    const struct jinja_list *list;
    size_t at = by_attribute;
    if (args->n < at) return jinja_fail(run, LUTRA_E_FORMAT, "the name of the attribute is missing");
    TRY(jinja_list_new(run, JINJA_LIST_ITERATOR, out));
    if (!jinja_truth(self)) return 0;
    const struct jinja_function *test = NULL;
    if (args->n > at) {
        test = args->pos[at].kind == JINJA_STRING ? jinja_find_test(args->pos[at]) : NULL;
        if (!test) return jinja_fail(run, LUTRA_E_UNSUPPORTED, "select or reject: no such test");
        at++;
    }
    struct jinja_args rest = {args->pos + at, args->n - at, args->named, args->n_named};
    TRY(jinja_iterate(run, self, &list));
    for (size_t i = 0; i < list->n; i++) {
        struct jinja_value item = list->items[i];
        if (by_attribute) TRY(jinja_path(run, item, args->pos[0], nothing, &item));
        if (test) TRY(test->call(run, item, &rest, &item));
        if (jinja_truth(item) == want) TRY(jinja_list_add(run, out->list, list->items[i]));
    }
    return 0;
}

FILTER(f_select)
{
    return choose(run, self, args, false, true, out);
}

FILTER(f_reject)
{
    return choose(run, self, args, false, false, out);
}

FILTER(f_selectattr)
{
    return choose(run, self, args, true, true, out);
}

FILTER(f_rejectattr)
{
    return choose(run, self, args, true, false, out);
}

/* What an item is compared by: an attribute, without case unless told otherwise. */
static int sort_key(struct jinja_run *run, struct jinja_value item, struct jinja_value attribute, bool case_matters,
    struct jinja_value *out)
{
    *out = item;
    if (attribute.kind != JINJA_MISSING && attribute.kind != JINJA_NONE)
        TRY(jinja_path(run, item, attribute, nothing, out));
    return out->kind == JINJA_STRING && !case_matters ? jinja_change_case(run, *out, JINJA_LOWER, out) : 0;
}

/* "a,b": a tuple of several. */
static int sort_keys(struct jinja_run *run, struct jinja_value item, struct jinja_value attributes, bool case_matters,
    struct jinja_value *out)
{
    const char *comma = attributes.kind == JINJA_STRING ? memchr(attributes.s, ',', attributes.n) : NULL;
    if (!comma) return sort_key(run, item, attributes, case_matters, out);
    struct jinja_value key;
    TRY(jinja_list_new(run, JINJA_LIST_TUPLE, out));
    for (size_t at = 0, end; at <= attributes.n; at = end + 1) {
        comma = at < attributes.n ? memchr(attributes.s + at, ',', attributes.n - at) : NULL;
        end = comma ? (size_t)(comma - attributes.s) : attributes.n;
        TRY(sort_key(run, item, jinja_part(attributes, at, end - at), case_matters, &key));
        TRY(jinja_list_add(run, out->list, key));
    }
    return 0;
}

int jinja_sort_pairs(struct jinja_run *run, struct jinja_pair *pairs, struct jinja_pair *spare, size_t n, bool reverse)
{
    if (n < 2) return 0;
    size_t half = n / 2, i = 0, j = half;
    TRY(jinja_sort_pairs(run, pairs, spare, half, reverse));
    TRY(jinja_sort_pairs(run, pairs + half, spare, n - half, reverse));
    for (size_t k = 0; k < n; k++) {
        int order = 0;
        TRY(jinja_step(run, sizeof *pairs));
        if (i < half && j < n) TRY(jinja_order(run, pairs[j].key, pairs[i].key, &order));
        bool right = i == half || (j < n && (reverse ? order == 1 : order == -1));
        spare[k] = right ? pairs[j++] : pairs[i++];
    }
    memcpy(pairs, spare, n * sizeof *pairs);
    return 0;
}

static int sort_list(struct jinja_run *run, const struct jinja_list *list, struct jinja_value attribute,
    bool case_matters, bool reverse, struct jinja_value *out)
{
    struct jinja_pair *pairs = jinja_alloc(&run->heap, (2 * list->n + 1) * sizeof *pairs);
    if (!pairs) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for sorting %zu items", list->n);
    for (size_t i = 0; i < list->n; i++) {
        pairs[i].value = list->items[i];
        TRY(sort_keys(run, list->items[i], attribute, case_matters, &pairs[i].key));
    }
    TRY(jinja_sort_pairs(run, pairs, pairs + list->n, list->n, reverse));
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, out));
    for (size_t i = 0; i < list->n; i++) TRY(jinja_list_add(run, out->list, pairs[i].value));
    return 0;
}

FILTER(f_sort)
{
    struct jinja_value a[3];
    const struct jinja_list *list;
    TRY(jinja_bind(run, "sort", args, "reverse case_sensitive attribute", a));
    TRY(jinja_iterate(run, self, &list));
    return sort_list(run, list, a[2], jinja_truth(a[1]), jinja_truth(a[0]), out);
}

FILTER(f_dictsort)
{
    struct jinja_value a[3], items;
    TRY(jinja_bind(run, "dictsort", args, "case_sensitive by reverse", a));
    if (self.kind != JINJA_DICT) return jinja_fail(run, LUTRA_E_FORMAT, "dictsort: a mapping is needed");
    bool by_value = jinja_is(a[1], "value");
    if (a[1].kind != JINJA_MISSING && !by_value && !jinja_is(a[1], "key")) {
        return jinja_fail(run, LUTRA_E_FORMAT, "dictsort: by must be 'key' or 'value'");
    }
    TRY(f_items(run, self, &(struct jinja_args){0}, &items));
    return sort_list(run, items.list, jinja_int(by_value), jinja_truth(a[0]), jinja_truth(a[2]), out);
}

FILTER(f_unique)
{
    struct jinja_value a[2], seen, key, *found;
    const struct jinja_list *list;
    TRY(jinja_bind(run, "unique", args, "case_sensitive attribute", a));
    TRY(jinja_iterate(run, self, &list));
    TRY(jinja_dict_new(run, &seen));
    TRY(jinja_list_new(run, JINJA_LIST_ITERATOR, out));
    for (size_t i = 0; i < list->n; i++) {
        TRY(sort_key(run, list->items[i], a[1], jinja_truth(a[0]), &key));
        TRY(jinja_dict_get(run, seen.dict, key, &found));
        if (found) continue;
        TRY(jinja_dict_set(run, seen.dict, key, jinja_none()));
        TRY(jinja_list_add(run, out->list, list->items[i]));
    }
    return 0;
}

static int extreme(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, int sign, struct jinja_value *out)
{
    struct jinja_value a[2], best = jinja_undefined(), key;
    const struct jinja_list *list;
    TRY(jinja_bind(run, "min or max", args, "case_sensitive attribute", a));
    TRY(jinja_iterate(run, self, &list));
    *out = best;
    for (size_t i = 0; i < list->n; i++) {
        int order = sign;
        TRY(sort_key(run, list->items[i], a[1], jinja_truth(a[0]), &key));
        if (i) TRY(jinja_order(run, key, best, &order));
        if (order != sign) continue;
        best = key;
        *out = list->items[i];
    }
    return 0;
}

FILTER(f_min)
{
    return extreme(run, self, args, -1, out);
}

FILTER(f_max)
{
    return extreme(run, self, args, 1, out);
}

FILTER(f_sum)
{
    struct jinja_value a[2], item;
    const struct jinja_list *list;
    TRY(jinja_bind(run, "sum", args, "attribute start", a));
    TRY(jinja_iterate(run, self, &list));
    *out = a[1].kind == JINJA_MISSING ? jinja_int(0) : a[1];
    for (size_t i = 0; i < list->n; i++) {
        item = list->items[i];
        if (a[0].kind != JINJA_MISSING && a[0].kind != JINJA_NONE) TRY(jinja_path(run, item, a[0], nothing, &item));
        TRY(jinja_binary(run, '+', *out, item, out));
    }
    return 0;
}

/* batch(n): lists of n items, the last one filled up if there is something to fill with. */
FILTER(f_batch)
{
    struct jinja_value a[2], row = {0};
    const struct jinja_list *list;
    int64_t n;
    TRY(jinja_bind(run, "batch", args, "linecount fill_with", a));
    TRY(need(run, "batch", a[0]));
    if (!jinja_as_int(a[0], &n) || n < 1) return jinja_fail(run, LUTRA_E_FORMAT, "batch: a positive number is needed");
    TRY(jinja_iterate(run, self, &list));
    TRY(jinja_list_new(run, JINJA_LIST_ITERATOR, out));
    for (size_t i = 0; i < list->n; i++) {
        if (i % (size_t)n == 0) {
            TRY(jinja_list_new(run, JINJA_LIST_PLAIN, &row));
            TRY(jinja_list_add(run, out->list, row));
        }
        TRY(jinja_list_add(run, row.list, list->items[i]));
    }
    bool fill = list->n > 0 && a[1].kind != JINJA_MISSING && a[1].kind != JINJA_NONE;
    while (fill && row.list->n < (size_t)n) TRY(jinja_list_add(run, row.list, a[1]));
    return 0;
}

/* slice(n): n lists, the first of them one longer where it does not come out even; then the shorter ones are filled. */
FILTER(f_slice)
{
    struct jinja_value a[2], column, list;
    int64_t n;
    TRY(jinja_bind(run, "slice", args, "slices fill_with", a));
    TRY(need(run, "slice", a[0]));
    if (!jinja_as_int(a[0], &n) || n == 0) return jinja_fail(run, LUTRA_E_FORMAT, "slice: a number is needed");
    TRY(listed(run, self, JINJA_LIST_PLAIN, &list));
    TRY(jinja_list_new(run, JINJA_LIST_ITERATOR, out));
    bool fill = a[1].kind != JINJA_MISSING && a[1].kind != JINJA_NONE;
    int64_t at = 0, each = n > 0 ? (int64_t)list.list->n / n : 0, longer = n > 0 ? (int64_t)list.list->n % n : 0;
    for (int64_t i = 0; i < n; i++) {
        TRY(jinja_list_new(run, JINJA_LIST_PLAIN, &column));
        for (int64_t end = at + each + (i < longer); at < end; at++)
            TRY(jinja_list_add(run, column.list, list.list->items[at]));
        if (fill && i >= longer) TRY(jinja_list_add(run, column.list, a[1]));
        TRY(jinja_list_add(run, out->list, column));
    }
    return 0;
}

/* One group of groupby: (key, items), whose parts have names, too. */
static int add_group(
    struct jinja_run *run, struct jinja_list *groups, struct jinja_value key, struct jinja_list **items)
{
    struct jinja_value group, list;
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, &list));
    TRY(jinja_tuple2(run, key, list, &group));
    group.list->is_group = true;
    *items = list.list;
    return jinja_list_add(run, groups, group);
}

FILTER(f_groupby)
{
    struct jinja_value a[3], key, before = jinja_none();
    struct jinja_list *items = NULL;
    const struct jinja_list *list;
    bool same;
    TRY(jinja_bind(run, "groupby", args, "attribute default case_sensitive", a));
    TRY(need(run, "groupby", a[0]));
    TRY(jinja_iterate(run, self, &list));
    struct jinja_pair *pairs = jinja_alloc(&run->heap, (2 * list->n + 1) * sizeof *pairs);
    if (!pairs) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for sorting %zu items", list->n);
    struct jinja_value fallback = a[1].kind == JINJA_NONE ? nothing : a[1];
    for (size_t i = 0; i < list->n; i++) {
        pairs[i].value = list->items[i];
        TRY(jinja_path(run, list->items[i], a[0], fallback, &key));
        TRY(sort_key(run, key, nothing, jinja_truth(a[2]), &pairs[i].key));
    }
    TRY(jinja_sort_pairs(run, pairs, pairs + list->n, list->n, false));
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, out));
    for (size_t i = 0; i < list->n; i++) {
        same = i > 0;
        if (i) TRY(jinja_equal(run, before, pairs[i].key, &same));
        before = pairs[i].key;
        TRY(jinja_path(run, pairs[i].value, a[0], fallback, &key));
        if (!same) TRY(add_group(run, out->list, key, &items));
        TRY(jinja_list_add(run, items, pairs[i].value));
    }
    return 0;
}

static const struct jinja_function filters[] = {{"list", f_list}, {"first", f_first}, {"last", f_last},
    {"random", f_random}, {"reverse", f_reverse}, {"join", f_join}, {"items", f_items}, {"map", f_map},
    {"select", f_select}, {"reject", f_reject}, {"selectattr", f_selectattr}, {"rejectattr", f_rejectattr},
    {"sort", f_sort}, {"dictsort", f_dictsort}, {"unique", f_unique}, {"min", f_min}, {"max", f_max}, {"sum", f_sum},
    {"batch", f_batch}, {"slice", f_slice}, {"groupby", f_groupby}};

const struct jinja_function *jinja_find_filter_of_lists(struct jinja_value name)
{
    return jinja_search(filters, sizeof filters / sizeof *filters, name);
}
