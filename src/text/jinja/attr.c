/* SPDX-License-Identifier: MIT
 *
 * Attributes, items and slices with Jinja's rules: `a.b` looks for an attribute (method) first and an item second,
 * `a['b']` the other way round; what is not there is undefined, and asking an undefined value fails.
 */
#include "text/jinja/jinja_impl.h"

static int fail_undefined(struct jinja_run *run, struct jinja_value v)
{
    return jinja_fail(run, LUTRA_E_FORMAT, "'%.*s' is undefined", (int)(v.n < 200 ? v.n : 200), v.s);
}

static struct jinja_value missing(struct jinja_value name)
{
    struct jinja_value v = jinja_undefined();
    if (name.kind == JINJA_STRING) {
        v.s = name.s;
        v.n = name.n;
    }
    return v;
}

static int loop_attr(struct jinja_run *run, struct jinja_loop *loop, struct jinja_value name, struct jinja_value *out)
{
    (void)run;
    int64_t i = (int64_t)loop->index0, n = (int64_t)loop->items->n;
    if (jinja_is(name, "index0"))
        *out = jinja_int(i);
    else if (jinja_is(name, "index"))
        *out = jinja_int(i + 1);
    else if (jinja_is(name, "first"))
        *out = jinja_bool(i == 0);
    else if (jinja_is(name, "last"))
        *out = jinja_bool(i + 1 == n);
    else if (jinja_is(name, "length"))
        *out = jinja_int(n);
    else if (jinja_is(name, "revindex"))
        *out = jinja_int(n - i);
    else if (jinja_is(name, "revindex0"))
        *out = jinja_int(n - i - 1);
    else if (jinja_is(name, "depth"))
        *out = jinja_int(loop->depth0 + 1);
    else if (jinja_is(name, "depth0"))
        *out = jinja_int(loop->depth0);
    else if (jinja_is(name, "previtem"))
        *out = i > 0 ? loop->items->items[i - 1] : missing(name);
    else if (jinja_is(name, "nextitem"))
        *out = i + 1 < n ? loop->items->items[i + 1] : missing(name);
    return 0;
}

static int bind_method(
    struct jinja_run *run, struct jinja_value object, struct jinja_value name, struct jinja_value *out)
{
    const struct jinja_function *function = jinja_find_method(object, name);
    if (!function) return 0;
    struct jinja_method *method = jinja_alloc(&run->heap, sizeof *method);
    if (!method) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for a method");
    *method = (struct jinja_method){function, object};
    *out = (struct jinja_value){.kind = JINJA_METHOD, .method = method};
    return 0;
}

/* Attributes proper; *out stays undefined where there is none. */
static int own_attr(struct jinja_run *run, struct jinja_value object, struct jinja_value name, struct jinja_value *out)
{
    if (object.kind == JINJA_NAMESPACE) {
        struct jinja_value *found;
        TRY(jinja_dict_get(run, object.dict, name, &found));
        if (found) *out = *found;
        return 0;
    }
    if (object.kind == JINJA_LOOP) TRY(loop_attr(run, object.loop, name, out));
    if (object.kind == JINJA_LIST && object.list->is_group && (jinja_is(name, "grouper") || jinja_is(name, "list")))
        *out = object.list->items[jinja_is(name, "list")];
    if (object.kind == JINJA_CYCLER && jinja_is(name, "current")) *out = object.cycle->items[object.cycle->at];
    if (object.kind == JINJA_MACRO && jinja_is(name, "name")) *out = object.macro->node->value;
    if (out->kind != JINJA_UNDEFINED) return 0;
    return bind_method(run, object, name, out);
}

static int list_item(struct jinja_run *run, struct jinja_value object, int64_t i, struct jinja_value *out)
{
    bool text = object.kind == JINJA_STRING;
    int64_t n = 0;
    if (text)
        TRY(jinja_n_chars(run, object, &n));
    else
        n = (int64_t)object.list->n;
    if (i < 0) i += n;
    if (i < 0 || i >= n) return 0;
    if (!text) {
        *out = object.list->items[i];
        return 0;
    }
    size_t at = 0, k = 0;
    uint32_t cp;
    for (int64_t c = 0; c <= i; c++, at += k) k = jinja_char_at(object, at, &cp);
    *out = jinja_part(object, at - k, k);
    return 0;
}

/* Items proper: of dicts by key, of sequences by position. */
static int own_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key, struct jinja_value *out)
{
    int64_t i;
    if (object.kind == JINJA_DICT && jinja_hashable(key)) {
        struct jinja_value *found;
        TRY(jinja_dict_get(run, object.dict, key, &found));
        if (found) *out = *found;
        return 0;
    }
    bool indexed = object.kind == JINJA_STRING || (object.kind == JINJA_LIST && object.sub <= JINJA_LIST_RANGE);
    return indexed && jinja_as_int(key, &i) ? list_item(run, object, i, out) : 0;
}

int jinja_attr(struct jinja_run *run, struct jinja_value object, struct jinja_value name, struct jinja_value *out)
{
    if (object.kind == JINJA_UNDEFINED) return fail_undefined(run, object);
    *out = missing(name);
    TRY(own_attr(run, object, name, out));
    return out->kind == JINJA_UNDEFINED ? own_item(run, object, name, out) : 0;
}

int jinja_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key, struct jinja_value *out)
{
    if (object.kind == JINJA_UNDEFINED) return fail_undefined(run, object);
    *out = missing(key);
    TRY(own_item(run, object, key, out));
    return out->kind == JINJA_UNDEFINED && key.kind == JINJA_STRING ? own_attr(run, object, key, out) : 0;
}

/* One step of a path. */
static int step(struct jinja_run *run, struct jinja_value key, struct jinja_value fallback, struct jinja_value *at)
{
    TRY(jinja_item(run, *at, key, at));
    if (at->kind == JINJA_UNDEFINED && fallback.kind != JINJA_MISSING) *at = fallback;
    return 0;
}

int jinja_path(struct jinja_run *run, struct jinja_value object, struct jinja_value path, struct jinja_value fallback,
    struct jinja_value *out)
{
    *out = object;
    TRY(jinja_step(run, path.kind == JINJA_STRING ? path.n : 0));
    if (path.kind != JINJA_STRING) return step(run, path, fallback, out);
    for (size_t at = 0; at <= path.n;) {
        const char *dot = at < path.n ? memchr(path.s + at, '.', path.n - at) : NULL;
        struct jinja_value part = jinja_part(path, at, (dot ? (size_t)(dot - path.s) : path.n) - at), key = part;
        bool digits = part.n > 0 && part.n < 10;
        int64_t number = 0;
        for (uint32_t i = 0; i < part.n && digits; i++) {
            digits = part.s[i] >= '0' && part.s[i] <= '9';
            number = number * 10 + (part.s[i] - '0');
        }
        if (digits) key = jinja_int(number);
        TRY(step(run, key, fallback, out));
        at += part.n + 1;
    }
    return 0;
}

/* Python's slice.indices: where to start, how often to step. */
static void resolve(const int64_t bounds[3], const bool given[3], int64_t n, int64_t *start, int64_t *count)
{
    int64_t step = bounds[2], low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1, ends[2];
    for (int e = 0; e < 2; e++) {
        int64_t at = bounds[e];
        if (!given[e])
            at = (e == 0) == (step > 0) ? low : high;
        else if (at < 0)
            at = at + n < low ? low : at + n;
        else if (at > high)
            at = high;
        ends[e] = at;
    }
    *start = ends[0];
    int64_t distance = step > 0 ? ends[1] - ends[0] : ends[0] - ends[1];
    uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
    *count = distance > 0 ? (int64_t)(((uint64_t)distance - 1) / stride) + 1 : 0;
}

/* A bound: any integer, taken to the next of 64 bits, where a sequence has no item either; none is no bound. */
static int read_bound(struct jinja_run *run, struct jinja_value v, bool *given, int64_t *at)
{
    *given = v.kind != JINJA_MISSING && v.kind != JINJA_NONE;
    if (!*given || jinja_as_int(v, at)) return 0;
    if (v.kind != JINJA_BIG)
        return jinja_fail(run, LUTRA_E_FORMAT, "a slice ends at integers, not %s", jinja_type_name(v));
    *at = v.s[0] == '-' ? INT64_MIN : INT64_MAX;
    return 0;
}

int jinja_slice(
    struct jinja_run *run, struct jinja_value object, const struct jinja_value bounds[3], struct jinja_value *out)
{
    int64_t at[3] = {0, 0, 1}, start, count;
    bool given[3];
    if (object.kind == JINJA_UNDEFINED) return fail_undefined(run, object);
    if (object.kind != JINJA_STRING && (object.kind != JINJA_LIST || object.sub > JINJA_LIST_RANGE))
        return jinja_fail(run, LUTRA_E_FORMAT, "%s has no slices", jinja_type_name(object));
    for (int i = 0; i < 3; i++) TRY(read_bound(run, bounds[i], &given[i], &at[i]));
    if (at[2] == 0) return jinja_fail(run, LUTRA_E_FORMAT, "slice step cannot be zero");
    const struct jinja_list *list;
    TRY(jinja_iterate(run, object, &list));
    resolve(at, given, (int64_t)list->n, &start, &count);
    if (object.kind == JINJA_STRING) {
        size_t from = run->out.n;
        for (int64_t i = 0; i < count; i++) TRY(jinja_str(run, list->items[start + i * at[2]], &run->out));
        return jinja_take(run, from, out);
    }
    TRY(jinja_list_new(run, object.sub, out));
    for (int64_t i = 0; i < count; i++) TRY(jinja_list_add(run, out->list, list->items[start + i * at[2]]));
    return 0;
}
