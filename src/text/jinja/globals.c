/* SPDX-License-Identifier: MIT
 *
 * Functions every template can call.
 */
#include <time.h>

#include "text/jinja/jinja_impl.h"

#define GLOBAL(name)                                                                                                   \
    static int name(                                                                                                   \
        struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)

GLOBAL(g_range)
{
    int64_t a[3] = {0, 0, 1};
    (void)self;
    if (args->n < 1 || args->n > 3 || args->n_named)
        return jinja_fail(run, LUTRA_E_FORMAT, "range takes 1 to 3 integers");
    for (size_t i = 0; i < args->n; i++) {
        if (!jinja_as_int(args->pos[i], &a[args->n == 1 ? 1 : i])) {
            return jinja_fail(run, LUTRA_E_FORMAT, "range takes integers, not %s", jinja_type_name(args->pos[i]));
        }
    }
    if (a[2] == 0) return jinja_fail(run, LUTRA_E_FORMAT, "range: the step must not be zero");
    TRY(jinja_list_new(run, JINJA_LIST_RANGE, out));
    int64_t i = a[0];
    while (a[2] > 0 ? i < a[1] : i > a[1]) {
        if (out->list->n == JINJA_MAX_RANGE) return jinja_fail(run, LUTRA_E_FORMAT, "the range is too long");
        TRY(jinja_list_add(run, out->list, jinja_int(i)));
        if (__builtin_add_overflow(i, a[2], &i)) break;
    }
    return 0;
}

/* dict(mapping or pairs, name=value, ...); a namespace is made the same way. */
GLOBAL(g_dict)
{
    (void)self;
    if (args->n > 1) return jinja_fail(run, LUTRA_E_FORMAT, "dict takes one positional argument");
    TRY(jinja_dict_new(run, out));
    const struct jinja_value from = args->n ? args->pos[0] : jinja_none();
    for (size_t i = 0; from.kind == JINJA_DICT && i < from.dict->n; i++) {
        TRY(jinja_dict_set(run, out->dict, from.dict->pairs[i].key, from.dict->pairs[i].value));
    }
    if (args->n && from.kind != JINJA_DICT) {
        const struct jinja_list *list, *pair;
        TRY(jinja_iterate(run, from, &list));
        for (size_t i = 0; i < list->n; i++) {
            TRY(jinja_iterate(run, list->items[i], &pair));
            if (pair->n != 2) return jinja_fail(run, LUTRA_E_FORMAT, "dict: pairs are needed");
            TRY(jinja_dict_set(run, out->dict, pair->items[0], pair->items[1]));
        }
    }
    for (size_t i = 0; i < args->n_named; i++) {
        TRY(jinja_dict_set(run, out->dict, args->named[i].key, args->named[i].value));
    }
    return 0;
}

GLOBAL(g_namespace)
{
    TRY(g_dict(run, self, args, out));
    out->kind = JINJA_NAMESPACE;
    return 0;
}

GLOBAL(g_raise_exception)
{
    struct jinja_value message;
    (void)self;
    (void)out;
    TRY(jinja_bind(run, "raise_exception", args, "message", &message));
    TRY(jinja_to_string(run, message, &message));
    return jinja_fail(run, LUTRA_E_FORMAT, "%.*s", (int)(message.n < 360 ? message.n : 360), message.s);
}

GLOBAL(g_strftime_now)
{
    struct jinja_value format;
    char spelt[128], text[1024];
    struct tm tm;
    time_t now = (time_t)run->now;
    (void)self;
    TRY(jinja_bind(run, "strftime_now", args, "format", &format));
    if (format.kind != JINJA_STRING || format.n >= sizeof spelt || memchr(format.s, 0, format.n)) {
        return jinja_fail(run, LUTRA_E_FORMAT, "strftime_now: a format of less than %zu bytes is needed", sizeof spelt);
    }
    memcpy(spelt, format.s, format.n);
    spelt[format.n] = 0;
    if (!localtime_r(&now, &tm)) return jinja_fail(run, LUTRA_E_FORMAT, "strftime_now: the time is out of range");
    size_t n = strftime(text, sizeof text, spelt, &tm);
    if (!n && format.n) return jinja_fail(run, LUTRA_E_FORMAT, "strftime_now: the text is too long");
    return jinja_string(run, text, n, format.input ? run->all_input : NULL, out);
}

static int new_cycle(
    struct jinja_run *run, enum jinja_kind kind, const struct jinja_value *items, size_t n, struct jinja_value *out)
{
    struct jinja_cycle *cycle = jinja_alloc(&run->heap, sizeof *cycle);
    struct jinja_value *copy = jinja_alloc(&run->heap, n * sizeof *copy);
    if (!cycle || !copy) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for a cycler");
    TRY(jinja_step(run, n * sizeof *copy));
    memcpy(copy, items, n * sizeof *copy);
    *cycle = (struct jinja_cycle){.items = copy, .n = n};
    *out = (struct jinja_value){.kind = (uint8_t)kind, .cycle = cycle};
    return 0;
}

/* cycler(a, b, ...): .next() gives one after the other, .current the one that is next, .reset() begins again. */
GLOBAL(g_cycler)
{
    (void)self;
    if (args->n == 0 || args->n_named) return jinja_fail(run, LUTRA_E_FORMAT, "cycler: at least one item is needed");
    return new_cycle(run, JINJA_CYCLER, args->pos, args->n, out);
}

/* joiner(separator): called, it gives nothing, and from then on the separator. */
GLOBAL(g_joiner)
{
    struct jinja_value separator;
    (void)self;
    TRY(jinja_bind(run, "joiner", args, "sep", &separator));
    if (separator.kind == JINJA_MISSING) separator = jinja_view(", ", 2);
    return new_cycle(run, JINJA_JOINER, (struct jinja_value[]){jinja_view("", 0), separator}, 2, out);
}

struct jinja_value jinja_next(struct jinja_cycle *cycle)
{
    struct jinja_value item = cycle->items[cycle->at++];
    if (cycle->at == cycle->n) cycle->at = 0;
    return item;
}

static int m_next(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
{
    TRY(jinja_bind(run, "next", args, "", NULL));
    *out = jinja_next(self.cycle);
    return 0;
}

static int m_reset(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)
{
    TRY(jinja_bind(run, "reset", args, "", NULL));
    self.cycle->at = 0;
    *out = jinja_none();
    return 0;
}

const struct jinja_function *jinja_find_method_of_cycler(struct jinja_value name)
{
    static const struct jinja_function methods[] = {{"next", m_next}, {"reset", m_reset}};
    return jinja_search(methods, sizeof methods / sizeof *methods, name);
}

static const struct jinja_function globals[] = {{"range", g_range}, {"dict", g_dict}, {"namespace", g_namespace},
    {"cycler", g_cycler}, {"joiner", g_joiner}, {"raise_exception", g_raise_exception},
    {"strftime_now", g_strftime_now}};

const struct jinja_function *jinja_find_global(struct jinja_value name)
{
    return jinja_search(globals, sizeof globals / sizeof *globals, name);
}
