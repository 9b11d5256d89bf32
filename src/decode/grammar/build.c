/* SPDX-License-Identifier: MIT
 *
 * Expressions: what a parser of grammars makes.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/grammar_impl.h"

enum { EXPRS = 1 << 21, POOL = 1 << 24, CODE_POINTS = 0x110000 };

int vec_reserve(struct vec *v, int32_t n_more, size_t element_bytes, struct lutra_error *err)
{
    int64_t need = (int64_t)v->n + n_more;
    if (need <= v->room) return 0;
    int64_t room = v->room ? v->room : 64;
    while (room < need) room *= 2;
    void *p = room > INT32_MAX / 2 ? NULL : realloc(v->p, (size_t)room * element_bytes);
    if (!p) return lutra_fail(err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    v->p = p;
    v->room = (int32_t)room;
    return 0;
}

void build_fini(struct builder *b)
{
    free(b->expr.p);
    free(b->pool.p);
    free(b->range.p);
    free(b->rule.p);
    free(b->until.p);
    *b = (struct builder){0};
}

static int32_t add(struct builder *b, struct expr e)
{
    if (b->expr.n >= EXPRS) return lutra_fail(b->err, LUTRA_E_FORMAT, "grammar: too large");
    TRY(vec_reserve(&b->expr, 1, sizeof e, b->err));
    ((struct expr *)b->expr.p)[b->expr.n] = e;
    return b->expr.n++;
}

static enum expr_kind kind_of(const struct builder *b, int32_t e)
{
    return ((const struct expr *)b->expr.p)[e].kind;
}

int32_t build_never(struct builder *b)
{
    return add(b, (struct expr){.kind = EXPR_NEVER});
}

int32_t build_empty(struct builder *b)
{
    return add(b, (struct expr){.kind = EXPR_EMPTY});
}

int32_t build_bytes(struct builder *b, const char *p, size_t n)
{
    if (!n) return build_empty(b);
    if (n > (size_t)(POOL - b->pool.n)) return lutra_fail(b->err, LUTRA_E_FORMAT, "grammar: too large");
    TRY(vec_reserve(&b->pool, (int32_t)n, 1, b->err));
    memcpy((char *)b->pool.p + b->pool.n, p, n);
    b->pool.n += (int32_t)n;
    return add(b, (struct expr){.kind = EXPR_BYTES, .a = b->pool.n - (int32_t)n, .b = (int32_t)n});
}

int32_t build_text(struct builder *b, const char *text)
{
    return build_bytes(b, text, strlen(text));
}

static int by_start(const void *x, const void *y)
{
    const struct cp_range *p = x, *q = y;
    return (p->lo > q->lo) - (p->lo < q->lo);
}

/* Adds lo..hi to the class that begins at `from`, without surrogates. */
static int put_range(struct builder *b, uint32_t lo, uint32_t hi)
{
    if (hi >= CODE_POINTS) hi = CODE_POINTS - 1;
    if (lo < 0xd800 && hi > 0xdfff) {
        TRY(put_range(b, lo, 0xd7ff));
        return put_range(b, 0xe000, hi);
    }
    if (lo >= 0xd800 && lo <= 0xdfff) lo = 0xe000;
    if (hi >= 0xd800 && hi <= 0xdfff) hi = 0xd7ff;
    if (lo > hi) return 0;
    TRY(vec_reserve(&b->range, 1, sizeof(struct cp_range), b->err));
    ((struct cp_range *)b->range.p)[b->range.n++] = (struct cp_range){lo, hi};
    return 0;
}

int32_t build_class(struct builder *b, const struct cp_range *range, int32_t n, bool negate)
{
    struct cp_range *sorted = malloc(((size_t)n + 1) * sizeof *sorted);
    if (!sorted) return lutra_fail(b->err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    if (n) memcpy(sorted, range, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_start);
    int32_t from = b->range.n, rc = 0;
    uint32_t next = 0; /* the first character not looked at */
    for (int32_t i = 0; i < n && rc >= 0; i++) {
        uint32_t lo = sorted[i].lo > next ? sorted[i].lo : next;
        if (negate && sorted[i].lo > next) rc = put_range(b, next, sorted[i].lo - 1);
        if (!negate && sorted[i].hi >= lo) rc = put_range(b, lo, sorted[i].hi);
        if (sorted[i].hi >= next) next = sorted[i].hi + 1;
    }
    free(sorted);
    if (rc >= 0 && negate && next < CODE_POINTS) rc = put_range(b, next, CODE_POINTS - 1);
    if (rc < 0) return rc;
    if (from == b->range.n) return build_never(b);
    return add(b, (struct expr){.kind = EXPR_CLASS, .a = from, .b = b->range.n - from});
}

int32_t build_seq(struct builder *b, int32_t first, int32_t second)
{
    if (first < 0) return first;
    if (second < 0) return second;
    if (kind_of(b, first) == EXPR_EMPTY) return second;
    if (kind_of(b, second) == EXPR_EMPTY) return first;
    return add(b, (struct expr){.kind = EXPR_SEQ, .a = first, .b = second});
}

int32_t build_alt(struct builder *b, int32_t one, int32_t other)
{
    if (one < 0) return one;
    if (other < 0) return other;
    if (kind_of(b, one) == EXPR_NEVER) return other;
    if (kind_of(b, other) == EXPR_NEVER) return one;
    return add(b, (struct expr){.kind = EXPR_ALT, .a = one, .b = other});
}

int32_t build_repeat(struct builder *b, int32_t what, int32_t min, int32_t max)
{
    if (what < 0) return what;
    if (!max) return build_empty(b);
    if (min == 1 && max == 1) return what;
    return add(b, (struct expr){.kind = EXPR_REPEAT, .a = what, .min = min, .max = max});
}

int build_mark(struct builder *b, const char *text, struct until *out)
{
    int32_t e = build_text(b, text);
    TRY(e);
    struct expr x = ((const struct expr *)b->expr.p)[e];
    *out = (struct until){.text = x.a, .n_text = x.b};
    return 0;
}

int32_t build_until(struct builder *b, const struct until *mark, int32_t n, bool free_text)
{
    for (int32_t i = 0; i < n; i++) TRY(mark[i].then);
    TRY(vec_reserve(&b->until, n, sizeof *mark, b->err));
    if (n) memcpy((struct until *)b->until.p + b->until.n, mark, (size_t)n * sizeof *mark);
    b->until.n += n;
    return add(b, (struct expr){.kind = EXPR_UNTIL, .a = b->until.n - n, .b = n, .min = free_text});
}

int32_t build_rule(struct builder *b, int32_t rule)
{
    if (rule < 0) return rule;
    return add(b, (struct expr){.kind = EXPR_RULE, .a = rule});
}

int32_t build_new_rule(struct builder *b)
{
    if (b->rule.n >= GRAMMAR_RULES)
        return lutra_fail(b->err, LUTRA_E_FORMAT, "grammar: more than %d rules", GRAMMAR_RULES);
    TRY(vec_reserve(&b->rule, 1, sizeof(struct rule), b->err));
    ((struct rule *)b->rule.p)[b->rule.n] = (struct rule){.expr = -1};
    return b->rule.n++;
}

int build_define(struct builder *b, int32_t rule, int32_t expr)
{
    if (rule < 0) return rule;
    if (expr < 0) return expr;
    ((struct rule *)b->rule.p)[rule].expr = expr;
    return 0;
}
