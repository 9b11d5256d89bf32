/* SPDX-License-Identifier: MIT
 *
 * Strings, lists, dicts: making them, looking into them, walking them.
 */
#include "text/jinja/jinja_impl.h"

static int out_of_memory(struct jinja_run *run)
{
    return jinja_fail(run, LUTRA_E_NO_MEMORY, "the template needs more than %zu bytes", run->heap.max_bytes);
}

int jinja_string(struct jinja_run *run, const char *s, size_t n, jinja_input input, struct jinja_value *out)
{
    TRY(jinja_step(run, n));
    char *copy = n < UINT32_MAX ? jinja_alloc(&run->heap, n) : NULL;
    if (!copy) return out_of_memory(run);
    if (n) memcpy(copy, s, n);
    *out = jinja_view(copy, n);
    if (!n || !input || !memchr(input, 1, n)) return 0;
    out->input = run->all_input;
    if (n <= run->n_all_input && !memchr(input, 0, n)) return 0;
    uint8_t *marks = jinja_alloc(&run->heap, n);
    if (!marks) return out_of_memory(run);
    memcpy(marks, input, n);
    out->input = marks;
    return 0;
}

int jinja_marked(struct jinja_run *run, const char *s, size_t n, bool input, struct jinja_value *out)
{
    *out = jinja_view(s, n);
    if (!n || !input) return 0;
    out->input = run->all_input;
    if (n <= run->n_all_input) return 0;
    uint8_t *marks = jinja_alloc(&run->heap, n);
    if (!marks) return out_of_memory(run);
    memset(marks, 1, n);
    out->input = marks;
    return jinja_step(run, n);
}

int jinja_compare_text(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *same)
{
    *same = jinja_same_text(a, b);
    return jinja_step(run, a.n == b.n ? a.n : 0);
}

int jinja_list_new(struct jinja_run *run, enum jinja_list_kind kind, struct jinja_value *out)
{
    struct jinja_list *list = jinja_alloc(&run->heap, sizeof *list);
    if (!list) return out_of_memory(run);
    *list = (struct jinja_list){0};
    *out = (struct jinja_value){.kind = JINJA_LIST, .sub = (uint8_t)kind, .list = list};
    return 0;
}

/* An array twice as large in *array, the old one left to the heap. */
static int grow(struct jinja_run *run, void **array, size_t n, size_t *cap, size_t elem_bytes)
{
    if (n < *cap) return 0;
    size_t cap_new = *cap ? *cap * 2 : 4;
    if (cap_new > run->heap.max_bytes / elem_bytes) return out_of_memory(run);
    void *bigger = jinja_alloc(&run->heap, cap_new * elem_bytes);
    if (!bigger) return out_of_memory(run);
    if (n) memcpy(bigger, *array, n * elem_bytes);
    *array = bigger;
    *cap = cap_new;
    return 0;
}

int jinja_list_add(struct jinja_run *run, struct jinja_list *list, struct jinja_value item)
{
    TRY(jinja_step(run, 0));
    TRY(grow(run, (void **)&list->items, list->n, &list->cap, sizeof *list->items));
    list->items[list->n++] = item;
    return 0;
}

int jinja_tuple2(struct jinja_run *run, struct jinja_value a, struct jinja_value b, struct jinja_value *out)
{
    TRY(jinja_list_new(run, JINJA_LIST_TUPLE, out));
    struct jinja_value *items = jinja_alloc(&run->heap, 2 * sizeof *items);
    if (!items) return out_of_memory(run);
    items[0] = a;
    items[1] = b;
    *out->list = (struct jinja_list){.items = items, .n = 2, .cap = 2};
    return 0;
}

int jinja_dict_new(struct jinja_run *run, struct jinja_value *out)
{
    struct jinja_dict *dict = jinja_alloc(&run->heap, sizeof *dict);
    if (!dict) return out_of_memory(run);
    *dict = (struct jinja_dict){0};
    *out = (struct jinja_value){.kind = JINJA_DICT, .dict = dict};
    return 0;
}

bool jinja_hashable(struct jinja_value key)
{
    if (key.kind == JINJA_DICT) return false;
    if (key.kind != JINJA_LIST) return true;
    if (key.sub != JINJA_LIST_TUPLE) return key.sub == JINJA_LIST_RANGE || key.sub == JINJA_LIST_ITERATOR;
    for (size_t i = 0; i < key.list->n; i++) { /* tuples of tuples: refused, so that this cannot recurse */
        struct jinja_value item = key.list->items[i];
        if (item.kind == JINJA_LIST || item.kind == JINJA_DICT) return false;
    }
    return true;
}

/* Equal values hash equally: 1, 1.0 and true are one key in Python. */
static uint64_t hash(const struct jinja_dict *seed, struct jinja_value key)
{
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)(uintptr_t)seed;
    int64_t i;
    if (jinja_as_int(key, &i)) {
        h ^= (uint64_t)i;
    } else if (key.kind == JINJA_FLOAT) {
        h ^= key.f >= -9e18 && key.f <= 9e18 ? (uint64_t)(int64_t)key.f : 1;
    } else if (key.kind == JINJA_STRING) {
        for (size_t k = 0; k < key.n; k++) h = (h ^ (unsigned char)key.s[k]) * 0x100000001b3u;
    } else {
        h ^= key.kind;
    }
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

/* The pair that holds the key, or dict->n.  *slot: where an index entry for it is or belongs. */
static int find(
    struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key, size_t *pair, size_t *slot)
{
    if (!jinja_hashable(key)) return jinja_fail(run, LUTRA_E_FORMAT, "unhashable type: %s", jinja_type_name(key));
    bool same;
    if (key.kind == JINJA_STRING) TRY(jinja_step(run, key.n));
    *slot = dict->index ? hash(dict, key) & dict->mask : 0;
    for (;; ++*slot) {
        if (dict->index) *slot &= dict->mask;
        *pair = dict->index ? dict->index[*slot] : *slot;
        if (*pair >= dict->n) break;
        struct jinja_value have = dict->pairs[*pair].key;
        if (have.kind == JINJA_STRING && key.kind == JINJA_STRING)
            TRY(jinja_compare_text(run, have, key, &same));
        else
            TRY(jinja_equal(run, have, key, &same));
        if (same) return 0;
    }
    *pair = dict->n;
    return 0;
}

static int build_index(struct jinja_run *run, struct jinja_dict *dict)
{
    size_t size = dict->mask ? (dict->mask + 1) * 2 : 32;
    dict->index = jinja_alloc(&run->heap, size * sizeof *dict->index);
    if (!dict->index) return out_of_memory(run);
    memset(dict->index, 0xFF, size * sizeof *dict->index);
    dict->mask = size - 1;
    for (size_t i = 0; i < dict->n; i++) {
        struct jinja_value key = dict->pairs[i].key;
        TRY(jinja_step(run, key.kind == JINJA_STRING ? key.n : 0));
        size_t at = hash(dict, key) & dict->mask;
        while (dict->index[at] != UINT32_MAX) at = (at + 1) & dict->mask;
        dict->index[at] = (uint32_t)i;
    }
    return 0;
}

int jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value)
{
    size_t pair, slot;
    TRY(find(run, dict, key, &pair, &slot));
    if (pair < dict->n) {
        dict->pairs[pair].value = value;
        return 0;
    }
    TRY(grow(run, (void **)&dict->pairs, dict->n, &dict->cap, sizeof *dict->pairs));
    dict->pairs[dict->n++] = (struct jinja_pair){key, value};
    if (dict->n >= 8 && dict->n * 2 > dict->mask) return build_index(run, dict);
    if (dict->index) dict->index[slot] = (uint32_t)pair;
    return 0;
}

int jinja_dict_get(
    struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key, struct jinja_value **out)
{
    size_t pair, slot;
    TRY(find(run, dict, key, &pair, &slot));
    *out = pair < dict->n ? &dict->pairs[pair].value : NULL;
    return 0;
}

bool jinja_truth(struct jinja_value v)
{
    switch (v.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return v.b;
    case JINJA_INT: return v.i != 0;
    case JINJA_FLOAT: return v.f != 0;
    case JINJA_STRING: return v.n != 0;
    case JINJA_LIST: return v.sub == JINJA_LIST_ITERATOR || v.list->n != 0;
    case JINJA_DICT: return v.dict->n != 0;
    default: return true;
    }
}

int jinja_length(struct jinja_run *run, struct jinja_value v, int64_t *out)
{
    *out = 0;
    if (v.kind == JINJA_UNDEFINED) return 0;
    if (v.kind == JINJA_STRING) return jinja_n_chars(run, v, out);
    if (v.kind == JINJA_LIST && v.sub != JINJA_LIST_ITERATOR)
        *out = (int64_t)v.list->n;
    else if (v.kind == JINJA_DICT)
        *out = (int64_t)v.dict->n;
    else if (v.kind == JINJA_LOOP)
        *out = (int64_t)v.loop->items->n;
    else
        return jinja_fail(run, LUTRA_E_FORMAT, "object of type %s has no length", jinja_type_name(v));
    return 0;
}

bool jinja_iterable(struct jinja_value v)
{
    return v.kind == JINJA_STRING || v.kind == JINJA_LIST || v.kind == JINJA_DICT || v.kind == JINJA_UNDEFINED;
}

int jinja_iterate(struct jinja_run *run, struct jinja_value v, const struct jinja_list **out)
{
    static const struct jinja_list nothing = {0};
    struct jinja_value list = {0};
    *out = &nothing;
    if (v.kind == JINJA_UNDEFINED) return 0;
    if (v.kind == JINJA_LIST) {
        if (v.sub != JINJA_LIST_ITERATOR || !v.list->spent) *out = v.list;
        if (v.sub == JINJA_LIST_ITERATOR) v.list->spent = true;
        return 0;
    }
    if (v.kind != JINJA_STRING && v.kind != JINJA_DICT) {
        return jinja_fail(run, LUTRA_E_FORMAT, "%s object is not iterable", jinja_type_name(v));
    }
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, &list));
    if (v.kind == JINJA_STRING) {
        uint32_t cp;
        for (size_t at = 0, k; at < v.n; at += k) {
            k = jinja_char_at(v, at, &cp);
            TRY(jinja_list_add(run, list.list, jinja_part(v, at, k)));
        }
    }
    for (size_t i = 0; v.kind == JINJA_DICT && i < v.dict->n; i++) {
        TRY(jinja_list_add(run, list.list, v.dict->pairs[i].key));
    }
    *out = list.list;
    return 0;
}

const char *jinja_type_name(struct jinja_value v)
{
    static const char *const lists[] = {"list", "tuple", "range", "view", "iterator"};
    static const char *const names[] = {"nothing", "undefined", "None", "bool", "int", "float", "int", "str", "list",
        "dict", "namespace", "function", "method", "macro", "loop", "cycler", "joiner"};
    return v.kind == JINJA_LIST ? lists[v.sub] : names[v.kind];
}
