/* SPDX-License-Identifier: MIT
 *
 * Expressions.  From loosest to tightest: if-else, or, and, not, comparisons, + -, ~, * / // %, **, unary + -,
 * then postfix (.name, [item], (call)), filters and tests.
 */
#include "text/jinja/jinja_impl.h"

int jinja_fail_parse(struct jinja_parser *p, const char *what)
{
    return lutra_fail_at(p->err, LUTRA_E_FORMAT, p->token.line, "template line %u: %s", p->token.line, what);
}

int jinja_advance(struct jinja_parser *p)
{
    if (p->has_ahead) {
        p->token = p->ahead;
        p->has_ahead = false;
        return 0;
    }
    return jinja_lex_next(&p->lexer, &p->token);
}

static int look_ahead(struct jinja_parser *p)
{
    if (!p->has_ahead) TRY(jinja_lex_next(&p->lexer, &p->ahead));
    p->has_ahead = true;
    return 0;
}

bool jinja_is_op(const struct jinja_parser *p, unsigned op)
{
    return p->token.type == JINJA_T_OPERATOR && p->token.op == op;
}

bool jinja_is_word(const struct jinja_parser *p, const char *word)
{
    return p->token.type == JINJA_T_NAME && jinja_is(p->token.value, word);
}

int jinja_expect_op(struct jinja_parser *p, unsigned op, const char *what)
{
    return jinja_is_op(p, op) ? jinja_advance(p) : jinja_fail_parse(p, what);
}

int jinja_new_node(struct jinja_parser *p, enum jinja_node_type type, struct jinja_node **out)
{
    *out = jinja_alloc(p->heap, sizeof **out);
    if (!*out) {
        return lutra_fail(p->err, LUTRA_E_NO_MEMORY, "the template needs more than %zu bytes", p->heap->max_bytes);
    }
    **out = (struct jinja_node){.type = (uint8_t)type, .line = p->token.line};
    return 0;
}

int jinja_fail_unknown(struct lutra_error *err, const struct jinja_node *node)
{
    return lutra_fail_at(err, LUTRA_E_UNSUPPORTED, node->line, "template line %u: %s '%.*s' is not supported",
        node->line, node->type == JINJA_N_TEST ? "test" : "filter", (int)(node->value.n < 60 ? node->value.n : 60),
        node->value.s);
}

/* What the name of a FILTER or TEST means. */
static void resolve(struct jinja_parser *p, struct jinja_node *node)
{
    node->function = (node->type == JINJA_N_TEST ? jinja_find_test : jinja_find_filter)(node->value);
    if (!node->function && !p->lenient && !p->unknown) p->unknown = node;
}

/* A node of two operands around what was parsed so far. */
static int wrap(struct jinja_parser *p, enum jinja_node_type type, unsigned op, struct jinja_node **node)
{
    struct jinja_node *outer;
    TRY(jinja_new_node(p, type, &outer));
    outer->op = (uint16_t)op;
    outer->a = *node;
    *node = outer;
    return 0;
}

static int descend(struct jinja_parser *p)
{
    bool deep = ++p->depth > JINJA_MAX_PARSE_DEPTH || !jinja_stack_left(&p->stack);
    return deep ? jinja_fail_parse(p, "nested too deep") : 0;
}

/* Comma-separated expressions up to a closing bracket, which is taken; `pairs`: key: value. */
static int parse_elements(struct jinja_parser *p, unsigned close, bool pairs, struct jinja_node **first)
{
    struct jinja_node **end = first, *value;
    *first = NULL;
    while (!jinja_is_op(p, close)) {
        TRY(jinja_parse_expr(p, true, end));
        if (pairs) {
            TRY(jinja_expect_op(p, ':', "expected ':'"));
            TRY(wrap(p, JINJA_N_PAIR, 0, end));
            TRY(jinja_parse_expr(p, true, &value));
            (*end)->b = value;
        }
        end = &(*end)->next;
        if (!jinja_is_op(p, ',') && !jinja_is_op(p, close))
            return jinja_fail_parse(p, "expected ',' or a closing bracket");
        if (jinja_is_op(p, ',')) TRY(jinja_advance(p));
    }
    return jinja_advance(p);
}

static int parse_constant(struct jinja_parser *p, struct jinja_value value, struct jinja_node **out)
{
    TRY(jinja_new_node(p, JINJA_N_CONST, out));
    (*out)->value = value;
    return jinja_advance(p);
}

static void note_use(struct jinja_parser *p, struct jinja_value name)
{
    if (jinja_is(name, "varargs")) p->uses |= JINJA_USES_VARARGS;
    if (jinja_is(name, "kwargs")) p->uses |= JINJA_USES_KWARGS;
    if (jinja_is(name, "caller")) p->uses |= JINJA_USES_CALLER;
}

static int parse_name(struct jinja_parser *p, struct jinja_node **out)
{
    struct jinja_value name = p->token.value;
    if (jinja_is(name, "true") || jinja_is(name, "True")) return parse_constant(p, jinja_bool(true), out);
    if (jinja_is(name, "false") || jinja_is(name, "False")) return parse_constant(p, jinja_bool(false), out);
    if (jinja_is(name, "none") || jinja_is(name, "None")) return parse_constant(p, jinja_none(), out);
    note_use(p, name);
    TRY(jinja_new_node(p, JINJA_N_NAME, out));
    (*out)->value = name;
    return jinja_advance(p);
}

/* Neighbouring literals are one string. */
static int parse_strings(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(parse_constant(p, p->token.value, out));
    while (p->token.type == JINJA_T_STRING) {
        struct jinja_value *have = &(*out)->value, more = p->token.value;
        char *text = jinja_alloc(p->heap, (size_t)have->n + more.n);
        if (!text) return lutra_fail(p->err, LUTRA_E_NO_MEMORY, "no memory for the template");
        memcpy(text, have->s, have->n);
        memcpy(text + have->n, more.s, more.n);
        *have = jinja_view(text, (size_t)have->n + more.n);
        TRY(jinja_advance(p));
    }
    return 0;
}

static int parse_parenthesis(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(jinja_advance(p));
    if (jinja_is_op(p, ')'))
        TRY(jinja_new_node(p, JINJA_N_TUPLE, out));
    else
        TRY(jinja_parse_tuple(p, true, out));
    return jinja_expect_op(p, ')', "expected ')'");
}

static int parse_primary(struct jinja_parser *p, struct jinja_node **out)
{
    switch (p->token.type) {
    case JINJA_T_NAME: return parse_name(p, out);
    case JINJA_T_STRING: return parse_strings(p, out);
    case JINJA_T_INT:
    case JINJA_T_FLOAT: return parse_constant(p, p->token.value, out);
    default: break;
    }
    if (jinja_is_op(p, '(')) return parse_parenthesis(p, out);
    bool dict = jinja_is_op(p, '{');
    if (!dict && !jinja_is_op(p, '[')) return jinja_fail_parse(p, "an expression was expected");
    TRY(jinja_new_node(p, dict ? JINJA_N_DICT : JINJA_N_LIST, out));
    TRY(jinja_advance(p));
    return parse_elements(p, dict ? '}' : ']', dict, &(*out)->a);
}

/* One argument: positional, name=, * or **. */
static int parse_argument(
    struct jinja_parser *p, struct jinja_node *call, struct jinja_node ***pos, struct jinja_node ***named)
{
    bool star = jinja_is_op(p, '*'), twofold = jinja_is_op(p, JINJA_OP2('*', '*'));
    if (star || twofold) {
        if (star ? call->d || call->e : call->e != NULL) return jinja_fail_parse(p, "invalid call arguments");
        TRY(jinja_advance(p));
        return jinja_parse_expr(p, true, star ? &call->d : &call->e);
    }
    if (p->token.type == JINJA_T_NAME) {
        TRY(look_ahead(p));
        if (p->ahead.type == JINJA_T_OPERATOR && p->ahead.op == '=') {
            struct jinja_node *keyword;
            TRY(jinja_new_node(p, JINJA_N_KEYWORD, &keyword));
            keyword->value = p->token.value;
            TRY(jinja_advance(p));
            TRY(jinja_advance(p));
            TRY(jinja_parse_expr(p, true, &keyword->a));
            **named = keyword;
            *named = &keyword->next;
            return 0;
        }
    }
    if (call->c || call->d || call->e) return jinja_fail_parse(p, "a positional argument after a named one");
    TRY(jinja_parse_expr(p, true, *pos));
    *pos = &(**pos)->next;
    return 0;
}

static int parse_arguments(struct jinja_parser *p, struct jinja_node *call)
{
    struct jinja_node **pos = &call->b, **named = &call->c;
    TRY(jinja_expect_op(p, '(', "expected '('"));
    while (!jinja_is_op(p, ')')) {
        TRY(parse_argument(p, call, &pos, &named));
        if (!jinja_is_op(p, ',') && !jinja_is_op(p, ')')) return jinja_fail_parse(p, "expected ',' or ')'");
        if (jinja_is_op(p, ',')) TRY(jinja_advance(p));
    }
    return jinja_advance(p);
}

/* What stands in [ ]: an expression, or start:stop:step; several with commas make a tuple. */
static int parse_subscript(struct jinja_parser *p, struct jinja_node *item)
{
    struct jinja_node *slice;
    TRY(jinja_advance(p));
    if (!jinja_is_op(p, ':')) {
        TRY(jinja_parse_tuple(p, true, &item->b));
        if (jinja_is_op(p, ']')) return jinja_advance(p);
    }
    TRY(jinja_new_node(p, JINJA_N_SLICE, &slice));
    slice->a = item->b;
    item->b = slice;
    TRY(jinja_expect_op(p, ':', "expected ':' or ']'"));
    if (!jinja_is_op(p, ':') && !jinja_is_op(p, ']')) TRY(jinja_parse_expr(p, true, &slice->b));
    if (jinja_is_op(p, ':')) {
        TRY(jinja_advance(p));
        if (!jinja_is_op(p, ']')) TRY(jinja_parse_expr(p, true, &slice->c));
    }
    return jinja_expect_op(p, ']', "expected ']'");
}

static int parse_postfix(struct jinja_parser *p, struct jinja_node **node)
{
    for (;;) {
        if (jinja_is_op(p, '.')) {
            TRY(jinja_advance(p));
            bool index = p->token.type == JINJA_T_INT;
            if (!index && p->token.type != JINJA_T_NAME) return jinja_fail_parse(p, "expected a name after '.'");
            TRY(wrap(p, index ? JINJA_N_ITEM : JINJA_N_ATTR, 0, node));
            if (index) {
                TRY(parse_constant(p, p->token.value, &(*node)->b));
            } else {
                (*node)->value = p->token.value;
                TRY(jinja_advance(p));
            }
        } else if (jinja_is_op(p, '[')) {
            TRY(wrap(p, JINJA_N_ITEM, 0, node));
            TRY(parse_subscript(p, *node));
        } else if (jinja_is_op(p, '(')) {
            TRY(wrap(p, JINJA_N_CALL, 0, node));
            TRY(parse_arguments(p, *node));
        } else {
            return 0;
        }
    }
}

/* The name of a filter or test.  It may have dots; none that exists here has any. */
static int parse_dotted(struct jinja_parser *p, const char *what, struct jinja_value *name)
{
    *name = p->token.value;
    if (p->token.type != JINJA_T_NAME) return jinja_fail_parse(p, what);
    TRY(jinja_advance(p));
    while (jinja_is_op(p, '.')) {
        TRY(jinja_advance(p));
        if (p->token.type != JINJA_T_NAME) return jinja_fail_parse(p, what);
        name->n = (uint32_t)(p->token.value.s + p->token.value.n - name->s);
        TRY(jinja_advance(p));
    }
    return 0;
}

static int parse_filter(struct jinja_parser *p, struct jinja_node **node)
{
    TRY(wrap(p, JINJA_N_FILTER, 0, node));
    TRY(parse_dotted(p, "expected the name of a filter", &(*node)->value));
    resolve(p, *node);
    return jinja_is_op(p, '(') ? parse_arguments(p, *node) : 0;
}

int jinja_parse_filters(struct jinja_parser *p, struct jinja_node *head, struct jinja_node **out)
{
    *out = head;
    TRY(parse_filter(p, out));
    while (jinja_is_op(p, '|')) {
        TRY(jinja_advance(p));
        TRY(parse_filter(p, out));
    }
    return 0;
}

/* Whether an argument without parentheses follows a test, as in `x is divisibleby 3`. */
static bool argument_follows(const struct jinja_parser *p)
{
    static const char *const no_argument[] = {"else", "or", "and"};
    if (p->token.type == JINJA_T_STRING || p->token.type == JINJA_T_INT || p->token.type == JINJA_T_FLOAT) return true;
    if (jinja_is_op(p, '[') || jinja_is_op(p, '{')) return true;
    if (p->token.type != JINJA_T_NAME) return false;
    for (size_t i = 0; i < sizeof no_argument / sizeof *no_argument; i++) {
        if (jinja_is_word(p, no_argument[i])) return false;
    }
    return true;
}

static int parse_test(struct jinja_parser *p, struct jinja_node **node)
{
    TRY(jinja_advance(p));
    bool negated = jinja_is_word(p, "not");
    if (negated) TRY(jinja_advance(p));
    TRY(wrap(p, JINJA_N_TEST, 0, node));
    struct jinja_node *test = *node;
    TRY(parse_dotted(p, "expected the name of a test", &test->value));
    resolve(p, test);
    if (jinja_is_op(p, '(')) {
        TRY(parse_arguments(p, test));
    } else if (jinja_is_word(p, "is")) {
        return jinja_fail_parse(p, "tests cannot be chained");
    } else if (argument_follows(p)) {
        TRY(parse_primary(p, &test->b));
        TRY(parse_postfix(p, &test->b));
    }
    return negated ? wrap(p, JINJA_N_NOT, 0, node) : 0;
}

static int parse_tail(struct jinja_parser *p, struct jinja_node **node)
{
    for (;;) {
        if (jinja_is_op(p, '|')) {
            TRY(jinja_advance(p));
            TRY(parse_filter(p, node));
        } else if (jinja_is_word(p, "is")) {
            TRY(parse_test(p, node));
        } else if (jinja_is_op(p, '(')) { /* a call after a filter or test */
            TRY(wrap(p, JINJA_N_CALL, 0, node));
            TRY(parse_arguments(p, *node));
        } else {
            return 0;
        }
    }
}

static int parse_unary(struct jinja_parser *p, bool with_filter, struct jinja_node **out)
{
    TRY(descend(p));
    if (jinja_is_op(p, '-') || jinja_is_op(p, '+')) {
        TRY(jinja_new_node(p, JINJA_N_UNARY, out));
        struct jinja_node *unary = *out;
        unary->op = (uint16_t)p->token.op;
        TRY(jinja_advance(p));
        TRY(parse_unary(p, false, &unary->a));
    } else {
        TRY(parse_primary(p, out));
    }
    TRY(parse_postfix(p, out));
    if (with_filter) TRY(parse_tail(p, out));
    p->depth--;
    return 0;
}

/* Left-associative levels, tightest last; ~ sits between sums and products and collects its parts. */
enum level { SUM, CONCAT, PRODUCT, POWER, UNARY };

static bool is_level(const struct jinja_parser *p, enum level level)
{
    switch (level) {
    case SUM: return jinja_is_op(p, '+') || jinja_is_op(p, '-');
    case CONCAT: return jinja_is_op(p, '~');
    case PRODUCT:
        return jinja_is_op(p, '*') || jinja_is_op(p, '/') || jinja_is_op(p, '%') || jinja_is_op(p, JINJA_OP2('/', '/'));
    case POWER: return jinja_is_op(p, JINJA_OP2('*', '*'));
    default: return false;
    }
}

static int parse_math(struct jinja_parser *p, enum level level, struct jinja_node **out)
{
    if (level == UNARY) return parse_unary(p, true, out);
    TRY(parse_math(p, level + 1, out));
    if (level == CONCAT && is_level(p, level)) {
        TRY(wrap(p, JINJA_N_CONCAT, 0, out));
        for (struct jinja_node *last = (*out)->a; is_level(p, level); last = last->next) {
            TRY(jinja_advance(p));
            TRY(parse_math(p, level + 1, &last->next));
        }
        return 0;
    }
    while (is_level(p, level)) {
        TRY(wrap(p, JINJA_N_BINARY, p->token.op, out));
        TRY(jinja_advance(p));
        TRY(parse_math(p, level + 1, &(*out)->b));
    }
    return 0;
}

/* The comparison operator that starts here, 0 if none; takes the `not` of `not in`. */
static int comparison_here(struct jinja_parser *p, unsigned *op)
{
    static const unsigned ops[] = {
        JINJA_OP2('=', '='), JINJA_OP2('!', '='), '<', '>', JINJA_OP2('<', '='), JINJA_OP2('>', '=')};
    *op = jinja_is_word(p, "in") ? 'i' : 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (jinja_is_op(p, ops[i])) *op = ops[i];
    }
    if (jinja_is_word(p, "not")) {
        TRY(look_ahead(p));
        if (p->ahead.type != JINJA_T_NAME || !jinja_is(p->ahead.value, "in")) return 0;
        TRY(jinja_advance(p));
        *op = 'n';
    }
    return 0;
}

static int parse_compare(struct jinja_parser *p, struct jinja_node **out)
{
    unsigned op;
    TRY(parse_math(p, SUM, out));
    TRY(comparison_here(p, &op));
    if (!op) return 0;
    TRY(wrap(p, JINJA_N_COMPARE, 0, out));
    for (struct jinja_node **end = &(*out)->b; op; end = &(*end)->next) {
        TRY(jinja_new_node(p, JINJA_N_OPERAND, end));
        (*end)->op = (uint16_t)op;
        TRY(jinja_advance(p));
        TRY(parse_math(p, SUM, &(*end)->a));
        TRY(comparison_here(p, &op));
    }
    return 0;
}

static int parse_not(struct jinja_parser *p, struct jinja_node **out)
{
    if (!jinja_is_word(p, "not")) return parse_compare(p, out);
    TRY(descend(p));
    TRY(jinja_new_node(p, JINJA_N_NOT, out));
    TRY(jinja_advance(p));
    TRY(parse_not(p, &(*out)->a));
    p->depth--;
    return 0;
}

static int parse_and(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(parse_not(p, out));
    while (jinja_is_word(p, "and")) {
        TRY(wrap(p, JINJA_N_AND, 0, out));
        TRY(jinja_advance(p));
        TRY(parse_not(p, &(*out)->b));
    }
    return 0;
}

static int parse_or(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(parse_and(p, out));
    while (jinja_is_word(p, "or")) {
        TRY(wrap(p, JINJA_N_OR, 0, out));
        TRY(jinja_advance(p));
        TRY(parse_and(p, &(*out)->b));
    }
    return 0;
}

int jinja_parse_expr(struct jinja_parser *p, bool with_cond, struct jinja_node **out)
{
    const struct jinja_node *unknown = p->unknown;
    bool lenient = p->lenient;
    *out = NULL;
    TRY(descend(p));
    TRY(parse_or(p, out));
    while (with_cond && jinja_is_word(p, "if")) {
        struct jinja_node *cond;
        p->unknown = unknown; /* what came before the if is lenient, too */
        p->lenient = true;
        TRY(jinja_new_node(p, JINJA_N_COND, &cond));
        cond->b = *out;
        *out = cond;
        TRY(jinja_advance(p));
        TRY(parse_or(p, &cond->a));
        if (jinja_is_word(p, "else")) {
            TRY(jinja_advance(p));
            TRY(jinja_parse_expr(p, true, &cond->c));
        }
    }
    p->lenient = lenient;
    p->depth--;
    return 0;
}

/* One expression, or several with commas. */
int jinja_parse_tuple(struct jinja_parser *p, bool with_cond, struct jinja_node **out)
{
    TRY(jinja_parse_expr(p, with_cond, out));
    if (!jinja_is_op(p, ',')) return 0;
    TRY(wrap(p, JINJA_N_TUPLE, 0, out));
    for (struct jinja_node **end = &(*out)->a->next; jinja_is_op(p, ','); end = &(*end)->next) {
        TRY(jinja_advance(p));
        bool ends = p->token.type == JINJA_T_PRINT_END || p->token.type == JINJA_T_BLOCK_END || jinja_is_op(p, ')') ||
                    jinja_is_op(p, ']');
        if (ends) break;
        TRY(jinja_parse_expr(p, with_cond, end));
    }
    return 0;
}

int jinja_parse_call_expr(struct jinja_parser *p, struct jinja_node **out)
{
    TRY(parse_primary(p, out));
    TRY(parse_postfix(p, out));
    return (*out)->type == JINJA_N_CALL ? 0 : jinja_fail_parse(p, "expected a call");
}

static int parse_one_target(struct jinja_parser *p, bool with_namespace, struct jinja_node **out)
{
    static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
    if (jinja_is_op(p, '(')) {
        TRY(descend(p));
        TRY(jinja_advance(p));
        TRY(jinja_parse_target(p, false, out));
        p->depth--;
        return jinja_expect_op(p, ')', "expected ')'");
    }
    if (p->token.type != JINJA_T_NAME) return jinja_fail_parse(p, "expected a name to assign to");
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (jinja_is_word(p, reserved[i])) return jinja_fail_parse(p, "cannot assign to a constant");
    }
    TRY(jinja_new_node(p, JINJA_N_NAME, out));
    (*out)->value = p->token.value;
    TRY(jinja_advance(p));
    if (!with_namespace || !jinja_is_op(p, '.')) return 0;
    TRY(jinja_advance(p));
    if (p->token.type != JINJA_T_NAME) return jinja_fail_parse(p, "expected the name of an attribute");
    (*out)->type = JINJA_N_NSREF;
    return parse_constant(p, p->token.value, &(*out)->b);
}

/* What for and set assign to: a name, ns.name, or names with commas and parentheses. */
int jinja_parse_target(struct jinja_parser *p, bool with_namespace, struct jinja_node **out)
{
    TRY(parse_one_target(p, with_namespace, out));
    if (!jinja_is_op(p, ',')) return 0;
    TRY(wrap(p, JINJA_N_TUPLE, 0, out));
    for (struct jinja_node **end = &(*out)->a->next; jinja_is_op(p, ','); end = &(*end)->next) {
        TRY(jinja_advance(p));
        if (p->token.type != JINJA_T_NAME && !jinja_is_op(p, '(')) break;
        if (jinja_is_word(p, "in")) break;
        TRY(parse_one_target(p, with_namespace, end));
    }
    return 0;
}
