/* SPDX-License-Identifier: MIT
 *
 * Statements.
 */
#include "text/jinja/jinja_impl.h"

static int parse_body(struct jinja_parser *p, const char *ends, struct jinja_node **out);

/* Takes the end of a tag. */
static int end_block(struct jinja_parser *p)
{
    if (p->token.type != JINJA_T_BLOCK_END) return jinja_fail_parse(p, "expected the end of the statement");
    return jinja_advance(p);
}

/* A body with a scope of its own, where unknown filters and tests are refused. */
static int parse_strict_body(struct jinja_parser *p, const char *ends, struct jinja_node **out)
{
    bool lenient = p->lenient;
    p->lenient = false;
    TRY(parse_body(p, ends, out));
    p->lenient = lenient;
    return 0;
}

/* The same and its closing tag, `{% end %}`. */
static int parse_closed_body(struct jinja_parser *p, const char *end, struct jinja_node **out)
{
    TRY(parse_strict_body(p, end, out));
    TRY(jinja_advance(p));
    return end_block(p);
}

/* The filters of a block, which are of its scope. */
static int parse_block_filters(struct jinja_parser *p, struct jinja_node **out)
{
    bool lenient = p->lenient;
    p->lenient = false;
    TRY(jinja_parse_filters(p, NULL, out));
    p->lenient = lenient;
    return 0;
}

/* if and elif are one node each, the elifs chained by d. */
static int parse_if(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_node *arm;
    bool lenient = p->lenient;
    p->lenient = true;
    TRY(jinja_new_node(p, JINJA_N_IF, &arm));
    *out = arm;
    for (;;) {
        TRY(jinja_advance(p));
        TRY(jinja_parse_tuple(p, false, &arm->a));
        TRY(end_block(p));
        TRY(parse_body(p, "elif else endif", &arm->b));
        if (!jinja_is_word(p, "elif")) break;
        TRY(jinja_new_node(p, JINJA_N_IF, &arm->d));
        arm = arm->d;
    }
    if (jinja_is_word(p, "else")) {
        TRY(jinja_advance(p));
        TRY(end_block(p));
        TRY(parse_body(p, "endif", &arm->c));
    }
    p->lenient = lenient;
    TRY(jinja_advance(p));
    return end_block(p);
}

static int parse_for(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_node *loop;
    bool lenient = p->lenient;
    TRY(jinja_new_node(p, JINJA_N_FOR, out));
    loop = *out;
    TRY(jinja_advance(p));
    TRY(jinja_parse_target(p, false, &loop->a));
    if (!jinja_is_word(p, "in")) return jinja_fail_parse(p, "expected 'in'");
    TRY(jinja_advance(p));
    TRY(jinja_parse_tuple(p, false, &loop->b));
    p->lenient = false;
    if (jinja_is_word(p, "if")) {
        TRY(jinja_advance(p));
        TRY(jinja_parse_expr(p, true, &loop->c));
    }
    if (jinja_is_word(p, "recursive")) {
        loop->op = 1;
        TRY(jinja_advance(p));
    }
    TRY(end_block(p));
    p->loop_depth++;
    TRY(parse_body(p, "else endfor", &loop->d));
    p->loop_depth--;
    if (jinja_is_word(p, "else")) {
        TRY(jinja_advance(p));
        TRY(end_block(p));
        TRY(parse_body(p, "endfor", &loop->e));
    }
    p->lenient = lenient;
    TRY(jinja_advance(p));
    return end_block(p);
}

static int parse_set(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_node *set;
    TRY(jinja_new_node(p, JINJA_N_SET, out));
    set = *out;
    TRY(jinja_advance(p));
    TRY(jinja_parse_target(p, true, &set->a));
    if (jinja_is_op(p, '=')) {
        TRY(jinja_advance(p));
        TRY(jinja_parse_tuple(p, true, &set->b));
        return end_block(p);
    }
    set->type = JINJA_N_SET_BLOCK;
    if (jinja_is_op(p, '|')) {
        TRY(jinja_advance(p));
        TRY(parse_block_filters(p, &set->b));
    }
    TRY(end_block(p));
    return parse_closed_body(p, "endset", &set->c);
}

/* "(a, b=1)" */
static int parse_params(struct jinja_parser *p, struct jinja_node **out)
{
    bool lenient = p->lenient;
    p->lenient = false;
    TRY(jinja_expect_op(p, '(', "expected '('"));
    for (bool defaults = false; !jinja_is_op(p, ')');) {
        if (p->token.type != JINJA_T_NAME) return jinja_fail_parse(p, "expected the name of a parameter");
        TRY(jinja_new_node(p, JINJA_N_PARAM, out));
        (*out)->value = p->token.value;
        TRY(jinja_advance(p));
        if (jinja_is_op(p, '=')) {
            defaults = true;
            TRY(jinja_advance(p));
            TRY(jinja_parse_expr(p, true, &(*out)->a));
        } else if (defaults) {
            return jinja_fail_parse(p, "a parameter without default after one with");
        }
        out = &(*out)->next;
        if (!jinja_is_op(p, ',') && !jinja_is_op(p, ')')) return jinja_fail_parse(p, "expected ',' or ')'");
        if (jinja_is_op(p, ',')) TRY(jinja_advance(p));
    }
    p->lenient = lenient;
    return jinja_advance(p);
}

/* The body of a macro or call block: loops around it do not reach in, and its use of varargs etc. is noted. */
static int parse_macro_body(struct jinja_parser *p, struct jinja_node *macro, const char *end)
{
    int loop_depth = p->loop_depth;
    unsigned uses = p->uses;
    p->loop_depth = 0;
    p->uses = 0;
    TRY(parse_closed_body(p, end, &macro->b));
    macro->uses = (uint8_t)p->uses;
    p->loop_depth = loop_depth;
    p->uses |= uses;
    return 0;
}

static int parse_macro(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_new_node(p, JINJA_N_MACRO, out));
    TRY(jinja_advance(p));
    if (p->token.type != JINJA_T_NAME) return jinja_fail_parse(p, "expected the name of the macro");
    (*out)->value = p->token.value;
    TRY(jinja_advance(p));
    TRY(parse_params(p, &(*out)->a));
    TRY(end_block(p));
    return parse_macro_body(p, *out, "endmacro");
}

static int parse_call_block(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_new_node(p, JINJA_N_CALL_BLOCK, out));
    (*out)->value = jinja_view("caller", 6);
    TRY(jinja_advance(p));
    if (jinja_is_op(p, '(')) TRY(parse_params(p, &(*out)->a));
    TRY(jinja_parse_call_expr(p, &(*out)->c));
    TRY(end_block(p));
    return parse_macro_body(p, *out, "endcall");
}

static int parse_filter_block(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_new_node(p, JINJA_N_FILTER_BLOCK, out));
    TRY(jinja_advance(p));
    TRY(parse_block_filters(p, &(*out)->a));
    TRY(end_block(p));
    return parse_closed_body(p, "endfilter", &(*out)->b);
}

static int parse_with(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_new_node(p, JINJA_N_WITH, out));
    TRY(jinja_advance(p));
    for (struct jinja_node **set = &(*out)->a; p->token.type != JINJA_T_BLOCK_END; set = &(*set)->next) {
        if ((*out)->a) TRY(jinja_expect_op(p, ',', "expected ','"));
        TRY(jinja_new_node(p, JINJA_N_SET, set));
        struct jinja_node *one = *set;
        TRY(jinja_parse_target(p, false, &one->a));
        TRY(jinja_expect_op(p, '=', "expected '='"));
        TRY(jinja_parse_expr(p, true, &one->b));
    }
    TRY(end_block(p));
    return parse_closed_body(p, "endwith", &(*out)->b);
}

/* transformers marks what the assistant says with {% generation %}; here it is only a scope. */
static int parse_generation(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_new_node(p, JINJA_N_WITH, out));
    TRY(jinja_advance(p));
    TRY(end_block(p));
    return parse_closed_body(p, "endgeneration", &(*out)->b);
}

static int parse_jump(struct jinja_parser *p, enum jinja_node_type type, struct jinja_node **out)
{
    if (p->loop_depth == 0) return jinja_fail_parse(p, "break or continue outside of a loop");
    TRY(jinja_new_node(p, type, out));
    TRY(jinja_advance(p));
    return end_block(p);
}

static int parse_statement(struct jinja_parser *p, struct jinja_node **out)
{
    if (jinja_is_word(p, "if")) return parse_if(p, out);
    if (jinja_is_word(p, "for")) return parse_for(p, out);
    if (jinja_is_word(p, "set")) return parse_set(p, out);
    if (jinja_is_word(p, "macro")) return parse_macro(p, out);
    if (jinja_is_word(p, "call")) return parse_call_block(p, out);
    if (jinja_is_word(p, "filter")) return parse_filter_block(p, out);
    if (jinja_is_word(p, "with")) return parse_with(p, out);
    if (jinja_is_word(p, "generation")) return parse_generation(p, out);
    if (jinja_is_word(p, "break")) return parse_jump(p, JINJA_N_BREAK, out);
    if (jinja_is_word(p, "continue")) return parse_jump(p, JINJA_N_CONTINUE, out);
    if (p->token.type != JINJA_T_NAME) return jinja_fail_parse(p, "expected a statement");
    int n = p->token.value.n < 60 ? (int)p->token.value.n : 60;
    bool stray = n > 3 && memcmp(p->token.value.s, "end", 3) == 0;
    return lutra_fail_at(p->err, stray ? LUTRA_E_FORMAT : LUTRA_E_UNSUPPORTED, p->token.line,
        stray ? "template line %u: '%.*s' closes nothing" : "template line %u: statement '%.*s' is not supported",
        p->token.line, n, p->token.value.s);
}

/* Whether the current name is one of the words in `ends`. */
static bool ends_here(const struct jinja_parser *p, const char *ends)
{
    for (const char *word = ends; p->token.type == JINJA_T_NAME && *word;) {
        size_t n = strcspn(word, " ");
        if (p->token.value.n == n && memcmp(p->token.value.s, word, n) == 0) return true;
        word += n + (word[n] == ' ');
    }
    return false;
}

/* Nodes up to a tag whose word is in `ends` (which then is the current token), or up to the end if "". */
static int parse_body(struct jinja_parser *p, const char *ends, struct jinja_node **out)
{
    if (++p->depth > JINJA_MAX_PARSE_DEPTH || !jinja_stack_left(&p->stack))
        return jinja_fail_parse(p, "nested too deep");
    for (*out = NULL; p->token.type != JINJA_T_END;) {
        if (p->token.type == JINJA_T_DATA) {
            TRY(jinja_new_node(p, JINJA_N_DATA, out));
            (*out)->value = p->token.value;
            TRY(jinja_advance(p));
        } else if (p->token.type == JINJA_T_PRINT_BEGIN) {
            TRY(jinja_advance(p));
            TRY(jinja_new_node(p, JINJA_N_PRINT, out));
            TRY(jinja_parse_tuple(p, true, &(*out)->a));
            if (p->token.type != JINJA_T_PRINT_END) return jinja_fail_parse(p, "expected '}}'");
            TRY(jinja_advance(p));
        } else {
            TRY(jinja_advance(p));
            if (ends_here(p, ends)) break;
            TRY(parse_statement(p, out));
        }
        out = &(*out)->next;
    }
    p->depth--;
    if (p->token.type != JINJA_T_END || !*ends) return 0;
    return lutra_fail_at(
        p->err, LUTRA_E_FORMAT, p->token.line, "template line %u: '%s' is missing", p->token.line, ends);
}

int jinja_parse(struct jinja_heap *heap, const char *source, size_t n, struct jinja_node **out, struct lutra_error *err)
{
    struct jinja_parser p = {.heap = heap, .err = err, .stack = jinja_stack_here()};
    TRY(jinja_lex_init(&p.lexer, heap, source, n, err));
    TRY(jinja_advance(&p));
    TRY(parse_body(&p, "", out));
    return p.unknown ? jinja_fail_unknown(err, p.unknown) : 0;
}
