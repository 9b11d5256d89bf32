/* SPDX-License-Identifier: MIT
 *
 * More methods of strings: layout, case, and what the characters are.
 */
#include <utf8proc.h>

#include "text/jinja/jinja_impl.h"

#define METHOD(name)                                                                                                   \
    static int name(                                                                                                   \
        struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out)

static int justify(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, char side, struct jinja_value *out)
{
    struct jinja_value a[2], fill = jinja_view(" ", 1);
    int64_t width, n = 1;
    TRY(jinja_bind(run, "center, ljust or rjust", args, "width fillchar", a));
    if (!jinja_as_int(a[0], &width)) return jinja_fail(run, LUTRA_E_FORMAT, "a width must be an integer");
    if (a[1].kind != JINJA_MISSING) fill = a[1];
    if (fill.kind == JINJA_STRING) TRY(jinja_n_chars(run, fill, &n));
    if (fill.kind != JINJA_STRING || n != 1) return jinja_fail(run, LUTRA_E_FORMAT, "the fill must be one character");
    return jinja_justify(run, self, width, fill, side, out);
}

METHOD(str_center)
{
    return justify(run, self, args, '^', out);
}

METHOD(str_ljust)
{
    return justify(run, self, args, '<', out);
}

METHOD(str_rjust)
{
    return justify(run, self, args, '>', out);
}

/* Zeros between the sign and the rest. */
METHOD(str_zfill)
{
    struct jinja_value a, digits;
    int64_t width;
    TRY(jinja_bind(run, "zfill", args, "width", &a));
    if (!jinja_as_int(a, &width)) return jinja_fail(run, LUTRA_E_FORMAT, "a width must be an integer");
    bool sign = self.n > 0 && (self.s[0] == '-' || self.s[0] == '+');
    if (width < INT32_MIN) width = 0;
    TRY(jinja_justify(run, jinja_part(self, sign, self.n - sign), width - sign, jinja_view("0", 1), '>', &digits));
    return jinja_binary(run, '+', jinja_part(self, 0, sign), digits, out);
}

METHOD(str_swapcase)
{
    TRY(jinja_bind(run, "swapcase", args, "", NULL));
    return jinja_change_case(run, self, JINJA_SWAP, out);
}

METHOD(str_casefold)
{
    TRY(jinja_bind(run, "casefold", args, "", NULL));
    return jinja_change_case(run, self, JINJA_FOLD, out);
}

METHOD(str_expandtabs)
{
    struct jinja_value a;
    int64_t size = 8, column = 0;
    size_t start = run->out.n;
    uint32_t cp;
    TRY(jinja_bind(run, "expandtabs", args, "tabsize", &a));
    if (a.kind != JINJA_MISSING && !jinja_as_int(a, &size))
        return jinja_fail(run, LUTRA_E_FORMAT, "expandtabs: the size must be an integer");
    for (size_t at = 0, k; at < self.n; at += k) {
        k = jinja_char_at(self, at, &cp);
        if (cp != '\t') {
            TRY(jinja_str(run, jinja_part(self, at, k), &run->out));
            column = cp == '\n' || cp == '\r' ? 0 : column + 1;
            continue;
        }
        int64_t room = size > 0 ? size - column % size : 0;
        column += room;
        for (; room > 0; room--) TRY(jinja_str(run, jinja_view(" ", 1), &run->out));
    }
    return jinja_take(run, start, out);
}

/* ---- what all characters are ---- */

static utf8proc_category_t category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

static bool is_alpha(uint32_t cp)
{
    return category(cp) >= UTF8PROC_CATEGORY_LU && category(cp) <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

/* Digits that are no decimals: superscripts, circled ones and the like (Unicode's Numeric_Type=Digit). */
static bool is_digit(uint32_t cp)
{
    static const uint32_t ranges[][2] = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0x1369, 0x1371}, {0x19DA, 0x19DA},
        {0x2070, 0x2070}, {0x2074, 0x2079}, {0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247C}, {0x2488, 0x2490},
        {0x24EA, 0x24EA}, {0x24F5, 0x24FD}, {0x24FF, 0x24FF}, {0x2776, 0x277E}, {0x2780, 0x2788}, {0x278A, 0x2792},
        {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (cp >= ranges[i][0] && cp <= ranges[i][1]) return true;
    }
    return is_decimal(cp);
}

static bool is_alnum(uint32_t cp)
{
    return is_alpha(cp) || (category(cp) >= UTF8PROC_CATEGORY_ND && category(cp) <= UTF8PROC_CATEGORY_NO);
}

static int check_all(struct jinja_run *run, struct jinja_value self, const struct jinja_args *args,
    bool (*fits)(uint32_t cp), struct jinja_value *out)
{
    uint32_t cp;
    bool all = self.n > 0;
    TRY(jinja_bind(run, "a test of characters", args, "", NULL));
    TRY(jinja_step(run, self.n));
    for (size_t at = 0; at < self.n && all; all = fits(cp)) at += jinja_char_at(self, at, &cp);
    *out = jinja_bool(all);
    return 0;
}

METHOD(str_isalpha)
{
    return check_all(run, self, args, is_alpha, out);
}

METHOD(str_isalnum)
{
    return check_all(run, self, args, is_alnum, out);
}

METHOD(str_isdecimal)
{
    return check_all(run, self, args, is_decimal, out);
}

METHOD(str_isdigit)
{
    return check_all(run, self, args, is_digit, out);
}

METHOD(str_isspace)
{
    return check_all(run, self, args, jinja_is_space, out);
}

METHOD(str_isascii)
{
    TRY(jinja_bind(run, "isascii", args, "", NULL));
    TRY(jinja_step(run, self.n));
    *out = jinja_bool(true);
    for (uint32_t i = 0; i < self.n; i++) out->b &= (unsigned char)self.s[i] < 0x80;
    return 0;
}

/* Some cased character, and none of the other case (of neither: title case). */
static int check_case(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, bool upper, struct jinja_value *out)
{
    bool some = false, all = true;
    uint32_t cp;
    TRY(jinja_bind(run, "a test of characters", args, "", NULL));
    TRY(jinja_step(run, self.n));
    for (size_t at = 0; at < self.n;) {
        at += jinja_char_at(self, at, &cp);
        bool is_upper = category(cp) == UTF8PROC_CATEGORY_LU, is_lower = category(cp) == UTF8PROC_CATEGORY_LL;
        some |= upper ? is_upper : is_lower;
        all &= !(upper ? is_lower : is_upper) && category(cp) != UTF8PROC_CATEGORY_LT;
    }
    *out = jinja_bool(some && all);
    return 0;
}

METHOD(str_islower)
{
    return check_case(run, self, args, false, out);
}

METHOD(str_isupper)
{
    return check_case(run, self, args, true, out);
}

METHOD(str_istitle)
{
    bool some = false, all = true, inside = false;
    uint32_t cp;
    TRY(jinja_bind(run, "istitle", args, "", NULL));
    TRY(jinja_step(run, self.n));
    for (size_t at = 0; at < self.n;) {
        at += jinja_char_at(self, at, &cp);
        bool begins = category(cp) == UTF8PROC_CATEGORY_LU || category(cp) == UTF8PROC_CATEGORY_LT;
        bool cased = begins || category(cp) == UTF8PROC_CATEGORY_LL;
        if (cased && begins == inside) all = false;
        some |= cased;
        inside = cased;
    }
    *out = jinja_bool(some && all);
    return 0;
}

static const struct jinja_function methods[] = {{"center", str_center}, {"ljust", str_ljust}, {"rjust", str_rjust},
    {"zfill", str_zfill}, {"swapcase", str_swapcase}, {"casefold", str_casefold}, {"expandtabs", str_expandtabs},
    {"isalpha", str_isalpha}, {"isalnum", str_isalnum}, {"isdecimal", str_isdecimal}, {"isdigit", str_isdigit},
    {"isspace", str_isspace}, {"isascii", str_isascii}, {"islower", str_islower}, {"isupper", str_isupper},
    {"istitle", str_istitle}};

const struct jinja_function *jinja_find_method_of_text(struct jinja_value name)
{
    return jinja_search(methods, sizeof methods / sizeof *methods, name);
}
