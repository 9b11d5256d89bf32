/* SPDX-License-Identifier: MIT
 *
 * Python's operators on values.
 */
#include <math.h>

#include "text/jinja/jinja_impl.h"

bool jinja_as_int(struct jinja_value v, int64_t *out)
{
    if (v.kind == JINJA_INT)
        *out = v.i;
    else if (v.kind == JINJA_BOOL)
        *out = v.b;
    else
        return false;
    return true;
}

bool jinja_as_float(struct jinja_value v, double *out)
{
    int64_t i;
    if (v.kind == JINJA_FLOAT)
        *out = v.f;
    else if (jinja_as_int(v, &i))
        *out = (double)i;
    else
        return false;
    return true;
}

static int fail_op(struct jinja_run *run, unsigned op, struct jinja_value a, struct jinja_value b)
{
    char text[3] = {(char)op, (char)(op >> 8), 0};
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED) {
        struct jinja_value u = a.kind == JINJA_UNDEFINED ? a : b;
        return jinja_fail(run, LUTRA_E_FORMAT, "'%.*s' is undefined", (int)(u.n < 200 ? u.n : 200), u.s);
    }
    return jinja_fail(run, LUTRA_E_FORMAT, "unsupported operand types for %s: %s and %s", text, jinja_type_name(a),
        jinja_type_name(b));
}

/* Lists of one kind, element by element: the first difference, or the lengths. */
static int first_difference(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b, size_t *at)
{
    size_t n = a->n < b->n ? a->n : b->n;
    bool same = true;
    for (*at = 0; *at < n; ++*at) {
        TRY(jinja_equal(run, a->items[*at], b->items[*at], &same));
        if (!same) break;
    }
    return 0;
}

static int equal_dicts(struct jinja_run *run, const struct jinja_dict *a, const struct jinja_dict *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && *out; i++) {
        struct jinja_value *other;
        TRY(jinja_dict_get(run, b, a->pairs[i].key, &other));
        *out = other != NULL;
        if (other) TRY(jinja_equal(run, a->pairs[i].value, *other, out));
    }
    return 0;
}

static int equal_any(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out)
{
    int64_t i = 0, j = 0;
    double x, y;
    size_t at;
    if (jinja_as_int(a, &i) && jinja_as_int(b, &j)) return *out = i == j, 0;
    if (jinja_as_float(a, &x) && jinja_as_float(b, &y)) return *out = x == y, 0;
    *out = false;
    if (a.kind != b.kind) return 0;
    switch (a.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE: *out = true; return 0;
    case JINJA_BIG:
    case JINJA_STRING: return jinja_compare_text(run, a, b, out);
    case JINJA_DICT: return equal_dicts(run, a.dict, b.dict, out);
    case JINJA_LIST:
        *out = a.list == b.list;
        if (*out || a.sub != b.sub || a.sub >= JINJA_LIST_VIEW || a.list->n != b.list->n) return 0;
        TRY(first_difference(run, a.list, b.list, &at));
        *out = at == a.list->n;
        return 0;
    default: *out = a.list == b.list; return 0; /* identity: all these are pointers */
    }
}

int jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out)
{
    TRY(jinja_enter(run));
    int rc = equal_any(run, a, b, out);
    jinja_leave(run);
    return rc;
}

static int order_lists(struct jinja_run *run, const struct jinja_list *a, const struct jinja_list *b, int *out)
{
    size_t at;
    TRY(first_difference(run, a, b, &at));
    if (at < a->n && at < b->n) return jinja_order(run, a->items[at], b->items[at], out);
    *out = a->n < b->n ? -1 : a->n > b->n;
    return 0;
}

static int order_any(struct jinja_run *run, struct jinja_value a, struct jinja_value b, int *out)
{
    int64_t i = 0, j = 0;
    double x, y;
    if (jinja_as_int(a, &i) && jinja_as_int(b, &j)) return *out = i < j ? -1 : i > j, 0;
    if (jinja_as_float(a, &x) && jinja_as_float(b, &y)) return *out = x < y ? -1 : x > y ? 1 : x == y ? 0 : 2, 0;
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) { /* bytes of UTF-8 order as code points do */
        uint32_t n = a.n < b.n ? a.n : b.n;
        int order = n ? memcmp(a.s, b.s, n) : 0;
        *out = order < 0 ? -1 : order > 0 ? 1 : a.n < b.n ? -1 : a.n > b.n;
        return jinja_step(run, n);
    }
    if (a.kind == JINJA_LIST && b.kind == JINJA_LIST && a.sub == b.sub && a.sub <= JINJA_LIST_TUPLE) {
        return order_lists(run, a.list, b.list, out);
    }
    return fail_op(run, '<', a, b);
}

int jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, int *out)
{
    TRY(jinja_enter(run));
    int rc = order_any(run, a, b, out);
    jinja_leave(run);
    return rc;
}

int jinja_contains(struct jinja_run *run, struct jinja_value item, struct jinja_value in, bool *out)
{
    *out = false;
    if (in.kind == JINJA_STRING) {
        if (item.kind != JINJA_STRING) return fail_op(run, JINJA_OP2('i', 'n'), item, in);
        const char *hit;
        TRY(jinja_find(run, in, item, 0, &hit));
        *out = hit != NULL;
        return 0;
    }
    if (in.kind == JINJA_DICT) {
        struct jinja_value *found;
        TRY(jinja_dict_get(run, in.dict, item, &found));
        *out = found != NULL;
        return 0;
    }
    const struct jinja_list *list;
    TRY(jinja_iterate(run, in, &list));
    for (size_t i = 0; i < list->n && !*out; i++) TRY(jinja_equal(run, list->items[i], item, out));
    return 0;
}

int jinja_compare(struct jinja_run *run, unsigned op, struct jinja_value a, struct jinja_value b, bool *out)
{
    int order = 0;
    switch (op) {
    case 'i': return jinja_contains(run, a, b, out);
    case 'n': TRY(jinja_contains(run, a, b, out)); return *out = !*out, 0;
    case JINJA_OP2('=', '='): return jinja_equal(run, a, b, out);
    case JINJA_OP2('!', '='): TRY(jinja_equal(run, a, b, out)); return *out = !*out, 0;
    default: break;
    }
    TRY(jinja_order(run, a, b, &order));
    if (order == 2)
        *out = false;
    else if (op == '<')
        *out = order < 0;
    else if (op == '>')
        *out = order > 0;
    else if (op == JINJA_OP2('<', '='))
        *out = order <= 0;
    else
        *out = order >= 0;
    return 0;
}

static int power(struct jinja_run *run, int64_t base, int64_t exponent, struct jinja_value *out)
{
    int64_t result = 1;
    bool over = false;
    for (; exponent > 0 && !over; exponent >>= 1) {
        if (exponent & 1) over = __builtin_mul_overflow(result, base, &result);
        if (exponent > 1) over |= __builtin_mul_overflow(base, base, &base);
    }
    if (over) return jinja_fail(run, LUTRA_E_FORMAT, "integer overflow in **");
    *out = jinja_int(result);
    return 0;
}

static int integers(struct jinja_run *run, unsigned op, int64_t i, int64_t j, struct jinja_value *out)
{
    int64_t result = 0;
    bool over = false;
    switch (op) {
    case '+': over = __builtin_add_overflow(i, j, &result); break;
    case '-': over = __builtin_sub_overflow(i, j, &result); break;
    case '*': over = __builtin_mul_overflow(i, j, &result); break;
    case '/': *out = jinja_float((double)i / (double)j); return 0;
    case '%': result = j == -1 ? 0 : i % j; break;
    default:
        over = i == INT64_MIN && j == -1;
        if (!over) result = i / j - (i % j != 0 && (i < 0) != (j < 0));
    }
    if (op == '%' && result != 0 && (result < 0) != (j < 0)) result += j; /* the sign of the divisor */
    if (over) return jinja_fail(run, LUTRA_E_FORMAT, "integer overflow in %c", (char)op);
    *out = jinja_int(result);
    return 0;
}

/* Division that rounds down, and the rest with the sign of the divisor; zeros are signed as in Python. */
static double divide(double x, double y, bool want_rest)
{
    double rest = fmod(x, y), quotient = (x - rest) / y;
    if (rest != 0 && (rest < 0) != (y < 0)) {
        rest += y;
        quotient -= 1;
    }
    if (want_rest) return rest != 0 ? rest : copysign(0, y);
    return quotient != 0 ? floor(quotient + 0.5) : copysign(0, x / y); /* quotient is whole but for rounding */
}

static double floats(unsigned op, double x, double y)
{
    switch (op) {
    case '+': return x + y;
    case '-': return x - y;
    case '*': return x * y;
    case '/': return x / y;
    case JINJA_OP2('*', '*'): return pow(x, y);
    default: return divide(x, y, op == '%');
    }
}

static int join_lists(struct jinja_run *run, struct jinja_value a, struct jinja_value b, struct jinja_value *out)
{
    TRY(jinja_list_new(run, a.sub, out));
    for (size_t i = 0; i < a.list->n; i++) TRY(jinja_list_add(run, out->list, a.list->items[i]));
    for (size_t i = 0; i < b.list->n; i++) TRY(jinja_list_add(run, out->list, b.list->items[i]));
    return 0;
}

static int join_strings(struct jinja_run *run, struct jinja_value a, struct jinja_value b, struct jinja_value *out)
{
    size_t start = run->out.n;
    TRY(jinja_str(run, a, &run->out));
    TRY(jinja_str(run, b, &run->out));
    return jinja_take(run, start, out);
}

static int repeat(struct jinja_run *run, struct jinja_value v, int64_t times, struct jinja_value *out)
{
    size_t start = run->out.n;
    if (v.kind == JINJA_STRING) {
        for (int64_t i = 0; i < times && v.n > 0; i++) TRY(jinja_str(run, v, &run->out));
        return jinja_take(run, start, out);
    }
    TRY(jinja_list_new(run, v.sub, out));
    for (int64_t i = 0; i < times && v.list->n > 0; i++) {
        for (size_t k = 0; k < v.list->n; k++) TRY(jinja_list_add(run, out->list, v.list->items[k]));
    }
    return 0;
}

static bool is_sequence(struct jinja_value v)
{
    return v.kind == JINJA_STRING || (v.kind == JINJA_LIST && v.sub <= JINJA_LIST_TUPLE);
}

static int binary(
    struct jinja_run *run, unsigned op, struct jinja_value a, struct jinja_value b, struct jinja_value *out)
{
    int64_t i = 0, j = 0;
    double x, y;
    bool whole = jinja_as_int(a, &i) && jinja_as_int(b, &j);
    if (jinja_as_float(a, &x) && jinja_as_float(b, &y)) {
        bool divides = op == '/' || op == '%' || op == JINJA_OP2('/', '/');
        if (divides && y == 0) return jinja_fail(run, LUTRA_E_FORMAT, "division by zero");
        if (op == JINJA_OP2('*', '*')) {
            if (whole && j >= 0) return power(run, i, j, out);
            if (x == 0 && y < 0) return jinja_fail(run, LUTRA_E_FORMAT, "0 cannot be raised to a negative power");
            if (x < 0 && y != floor(y))
                return jinja_fail(run, LUTRA_E_UNSUPPORTED, "complex numbers are not supported");
        } else if (whole) {
            return integers(run, op, i, j, out);
        }
        *out = jinja_float(floats(op, x, y));
        return 0;
    }
    if (op == '+' && a.kind == JINJA_STRING && b.kind == JINJA_STRING) return join_strings(run, a, b, out);
    if (op == '+' && is_sequence(a) && a.kind == JINJA_LIST && b.kind == JINJA_LIST && a.sub == b.sub) {
        return join_lists(run, a, b, out);
    }
    if (op == '*' && is_sequence(a) && jinja_as_int(b, &j)) return repeat(run, a, j, out);
    if (op == '*' && is_sequence(b) && jinja_as_int(a, &i)) return repeat(run, b, i, out);
    if (op == '%' && a.kind == JINJA_STRING) return jinja_percent(run, a, b, out);
    if (a.kind == JINJA_BIG || b.kind == JINJA_BIG)
        return jinja_fail(run, LUTRA_E_FORMAT, "an integer beyond 64 bits is only printed, not computed with");
    return fail_op(run, op, a, b);
}

int jinja_binary(
    struct jinja_run *run, unsigned op, struct jinja_value a, struct jinja_value b, struct jinja_value *out)
{
    TRY(binary(run, op, a, b, out));
    bool number = out->kind >= JINJA_BOOL && out->kind <= JINJA_FLOAT;
    if (number && (a.input || b.input)) out->input = run->all_input;
    return 0;
}
