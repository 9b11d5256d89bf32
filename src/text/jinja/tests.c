/* SPDX-License-Identifier: MIT
 *
 * Tests: `x is name`.
 */
#include <utf8proc.h>

#include "text/jinja/jinja_impl.h"

#define TEST(name)                                                                                                     \
    static int name(                                                                                                   \
        struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)

static int answer(struct jinja_run *run, const struct jinja_args *args, bool holds, struct jinja_value *out)
{
    *out = jinja_bool(holds);
    return jinja_bind(run, "test", args, "", NULL);
}

TEST(t_defined)
{
    return answer(run, args, self.kind != JINJA_UNDEFINED, out);
}

TEST(t_undefined)
{
    return answer(run, args, self.kind == JINJA_UNDEFINED, out);
}

TEST(t_none)
{
    return answer(run, args, self.kind == JINJA_NONE, out);
}

TEST(t_string)
{
    return answer(run, args, self.kind == JINJA_STRING, out);
}

TEST(t_mapping)
{
    return answer(run, args, self.kind == JINJA_DICT, out);
}

TEST(t_iterable)
{
    return answer(run, args, jinja_iterable(self), out);
}

TEST(t_sequence)
{
    bool list = self.kind == JINJA_LIST && self.sub <= JINJA_LIST_RANGE;
    bool other = self.kind == JINJA_STRING || self.kind == JINJA_DICT || self.kind == JINJA_UNDEFINED;
    return answer(run, args, list || other, out);
}

TEST(t_number)
{
    return answer(run, args, self.kind >= JINJA_BOOL && self.kind <= JINJA_BIG, out);
}

TEST(t_integer)
{
    return answer(run, args, self.kind == JINJA_INT || self.kind == JINJA_BIG, out);
}

TEST(t_float)
{
    return answer(run, args, self.kind == JINJA_FLOAT, out);
}

TEST(t_boolean)
{
    return answer(run, args, self.kind == JINJA_BOOL, out);
}

TEST(t_true)
{
    return answer(run, args, self.kind == JINJA_BOOL && self.b, out);
}

TEST(t_false)
{
    return answer(run, args, self.kind == JINJA_BOOL && !self.b, out);
}

/* An undefined value has a __call__, which fails. */
TEST(t_callable)
{
    bool function = self.kind == JINJA_FUNCTION || self.kind == JINJA_METHOD || self.kind == JINJA_MACRO;
    return answer(run, args,
        function || self.kind == JINJA_UNDEFINED || self.kind == JINJA_LOOP || self.kind == JINJA_JOINER, out);
}

/* The remainder of division by `by` is `want`. */
static int check_rest(
    struct jinja_run *run, struct jinja_value self, struct jinja_value by, int64_t want, struct jinja_value *out)
{
    struct jinja_value rest;
    bool same;
    TRY(jinja_binary(run, '%', self, by, &rest));
    TRY(jinja_equal(run, rest, jinja_int(want), &same));
    *out = jinja_bool(same);
    return 0;
}

TEST(t_odd)
{
    TRY(answer(run, args, false, out));
    return check_rest(run, self, jinja_int(2), 1, out);
}

TEST(t_even)
{
    TRY(answer(run, args, false, out));
    return check_rest(run, self, jinja_int(2), 0, out);
}

TEST(t_divisibleby)
{
    struct jinja_value by;
    TRY(jinja_bind(run, "divisibleby", args, "num", &by));
    return check_rest(run, self, by, 0, out);
}

/* Upper or lower: some cased character, and none of the other case. */
static int check_case(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args,
    utf8proc_category_t want, utf8proc_category_t other, struct jinja_value *out)
{
    bool some = false, all = true;
    uint32_t cp;
    TRY(jinja_to_string(run, self, &self));
    TRY(jinja_step(run, self.n));
    for (size_t at = 0; at < self.n;) {
        at += jinja_char_at(self, at, &cp);
        utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)cp);
        some |= category == want;
        all &= category != other && category != UTF8PROC_CATEGORY_LT;
    }
    return answer(run, args, some && all, out);
}

TEST(t_lower)
{
    return check_case(run, self, args, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LU, out);
}

TEST(t_upper)
{
    return check_case(run, self, args, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, out);
}

static int compare(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, unsigned op, struct jinja_value *out)
{
    struct jinja_value other;
    bool holds;
    TRY(jinja_bind(run, "comparison", args, "other", &other));
    if (other.kind == JINJA_MISSING) return jinja_fail(run, LUTRA_E_FORMAT, "the comparison needs an argument");
    TRY(jinja_compare(run, op, self, other, &holds));
    *out = jinja_bool(holds);
    return 0;
}

TEST(t_eq)
{
    return compare(run, self, args, JINJA_OP2('=', '='), out);
}

TEST(t_ne)
{
    return compare(run, self, args, JINJA_OP2('!', '='), out);
}

TEST(t_lt)
{
    return compare(run, self, args, '<', out);
}

TEST(t_le)
{
    return compare(run, self, args, JINJA_OP2('<', '='), out);
}

TEST(t_gt)
{
    return compare(run, self, args, '>', out);
}

TEST(t_ge)
{
    return compare(run, self, args, JINJA_OP2('>', '='), out);
}

TEST(t_in)
{
    return compare(run, self, args, 'i', out);
}

/* Identity: of values that are held by reference, the same object; of the rest, the same value and type. */
TEST(t_sameas)
{
    struct jinja_value other;
    bool same = false;
    TRY(jinja_bind(run, "sameas", args, "other", &other));
    if (self.kind == other.kind && self.kind >= JINJA_LIST)
        same = self.list == other.list;
    else if (self.kind == other.kind)
        TRY(jinja_equal(run, self, other, &same));
    *out = jinja_bool(same);
    return 0;
}

TEST(t_filter)
{
    return answer(run, args, self.kind == JINJA_STRING && jinja_find_filter(self), out);
}

TEST(t_test)
{
    return answer(run, args, self.kind == JINJA_STRING && jinja_find_test(self), out);
}

/* Nothing here is marked up; see the filter safe. */
TEST(t_escaped)
{
    (void)self;
    return answer(run, args, false, out);
}

static const struct jinja_function tests[] = {{"defined", t_defined}, {"undefined", t_undefined}, {"none", t_none},
    {"string", t_string}, {"mapping", t_mapping}, {"iterable", t_iterable}, {"sequence", t_sequence},
    {"number", t_number}, {"integer", t_integer}, {"float", t_float}, {"boolean", t_boolean}, {"true", t_true},
    {"false", t_false}, {"callable", t_callable}, {"odd", t_odd}, {"even", t_even}, {"divisibleby", t_divisibleby},
    {"lower", t_lower}, {"upper", t_upper}, {"eq", t_eq}, {"equalto", t_eq}, {"==", t_eq}, {"ne", t_ne}, {"!=", t_ne},
    {"lt", t_lt}, {"lessthan", t_lt}, {"<", t_lt}, {"le", t_le}, {"<=", t_le}, {"gt", t_gt}, {"greaterthan", t_gt},
    {">", t_gt}, {"ge", t_ge}, {">=", t_ge}, {"in", t_in}, {"sameas", t_sameas}, {"filter", t_filter}, {"test", t_test},
    {"escaped", t_escaped}};

const struct jinja_function *jinja_find_test(struct jinja_value name)
{
    return jinja_search(tests, sizeof tests / sizeof *tests, name);
}
