/* SPDX-License-Identifier: MIT
 *
 * Evaluates expressions.
 */
#include "text/jinja/jinja_impl.h"

static int eval_list(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    TRY(jinja_list_new(run, node->type == JINJA_N_TUPLE ? JINJA_LIST_TUPLE : JINJA_LIST_PLAIN, out));
    for (const struct jinja_node *n = node->a; n; n = n->next) {
        struct jinja_value item;
        TRY(jinja_eval(run, n, &item));
        TRY(jinja_list_add(run, out->list, item));
    }
    return 0;
}

static int eval_dict(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    TRY(jinja_dict_new(run, out));
    for (const struct jinja_node *n = node->a; n; n = n->next) {
        struct jinja_value key, value;
        TRY(jinja_eval(run, n->a, &key));
        TRY(jinja_eval(run, n->b, &value));
        TRY(jinja_dict_set(run, out->dict, key, value));
    }
    return 0;
}

static int eval_unary(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value v;
    int64_t i;
    TRY(jinja_eval(run, node->a, &v));
    if (jinja_as_int(v, &i)) {
        if (node->op == '-') return jinja_binary(run, '-', jinja_int(0), jinja_int(i), out);
        *out = jinja_int(i);
        return 0;
    }
    if (v.kind != JINJA_FLOAT) {
        return jinja_fail(run, LUTRA_E_FORMAT, "bad operand type for unary %c: %s", node->op, jinja_type_name(v));
    }
    *out = jinja_float(node->op == '-' ? -v.f : v.f);
    return 0;
}

static int eval_binary(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value a, b;
    TRY(jinja_eval(run, node->a, &a));
    TRY(jinja_eval(run, node->b, &b));
    return jinja_binary(run, node->op, a, b, out);
}

/* and, or: the value that decided, as in Python. */
static int eval_logic(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    TRY(jinja_eval(run, node->a, out));
    if (jinja_truth(*out) == (node->type == JINJA_N_OR)) return 0;
    return jinja_eval(run, node->b, out);
}

static int eval_not(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    TRY(jinja_eval(run, node->a, out));
    *out = jinja_bool(!jinja_truth(*out));
    return 0;
}

static int eval_compare(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value left, right;
    bool holds = true;
    TRY(jinja_eval(run, node->a, &left));
    for (const struct jinja_node *n = node->b; n && holds; n = n->next) {
        TRY(jinja_eval(run, n->a, &right));
        TRY(jinja_compare(run, n->op, left, right, &holds));
        left = right;
    }
    *out = jinja_bool(holds);
    return 0;
}

static int eval_concat(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value parts;
    TRY(eval_list(run, node, &parts));
    size_t start = run->out.n;
    for (size_t i = 0; i < parts.list->n; i++) TRY(jinja_str(run, parts.list->items[i], &run->out));
    return jinja_take(run, start, out);
}

static int eval_cond(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    TRY(jinja_eval(run, node->a, out));
    const struct jinja_node *chosen = jinja_truth(*out) ? node->b : node->c;
    *out = jinja_undefined();
    return chosen ? jinja_eval(run, chosen, out) : 0;
}

static int eval_item(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object, key, bounds[3] = {{0}, {0}, {0}};
    TRY(jinja_eval(run, node->a, &object));
    const struct jinja_node *b = node->b;
    if (b->type != JINJA_N_SLICE) {
        TRY(jinja_eval(run, b, &key));
        return jinja_item(run, object, key, out);
    }
    if (b->a) TRY(jinja_eval(run, b->a, &bounds[0]));
    if (b->b) TRY(jinja_eval(run, b->b, &bounds[1]));
    if (b->c) TRY(jinja_eval(run, b->c, &bounds[2]));
    return jinja_slice(run, object, bounds, out);
}

static int eval_call(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value callee;
    struct jinja_args args;
    TRY(jinja_eval(run, node->a, &callee));
    TRY(jinja_eval_args(run, node, NULL, &args));
    return jinja_call(run, callee, &args, out);
}

int jinja_apply_filter(
    struct jinja_run *run, const struct jinja_node *node, struct jinja_value in, struct jinja_value *out)
{
    struct jinja_args args;
    TRY(jinja_enter(run));
    if (node->a) TRY(jinja_apply_filter(run, node->a, in, &in));
    jinja_leave(run);
    if (!node->function) return jinja_fail_unknown(run->err, node);
    TRY(jinja_eval_args(run, node, NULL, &args));
    return jinja_apply(run, node->function, in, &args, out);
}

static int eval_filter(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value in;
    struct jinja_node alone = *node;
    alone.a = NULL;
    TRY(jinja_eval(run, node->a, &in));
    return jinja_apply_filter(run, &alone, in, out);
}

static int eval_test(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value in;
    struct jinja_args args;
    if (!node->function) return jinja_fail_unknown(run->err, node);
    TRY(jinja_eval(run, node->a, &in));
    TRY(jinja_eval_args(run, node, NULL, &args));
    return node->function->call(run, in, &args, out);
}

static int eval_attr(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value object;
    TRY(jinja_eval(run, node->a, &object));
    return jinja_attr(run, object, node->value, out);
}

static int eval_any(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    switch (node->type) {
    case JINJA_N_CONST: *out = node->value; return 0;
    case JINJA_N_NAME: return jinja_lookup(run, node->value, out);
    case JINJA_N_LIST:
    case JINJA_N_TUPLE: return eval_list(run, node, out);
    case JINJA_N_DICT: return eval_dict(run, node, out);
    case JINJA_N_UNARY: return eval_unary(run, node, out);
    case JINJA_N_BINARY: return eval_binary(run, node, out);
    case JINJA_N_AND:
    case JINJA_N_OR: return eval_logic(run, node, out);
    case JINJA_N_NOT: return eval_not(run, node, out);
    case JINJA_N_COMPARE: return eval_compare(run, node, out);
    case JINJA_N_CONCAT: return eval_concat(run, node, out);
    case JINJA_N_COND: return eval_cond(run, node, out);
    case JINJA_N_ATTR: return eval_attr(run, node, out);
    case JINJA_N_ITEM: return eval_item(run, node, out);
    case JINJA_N_CALL: return eval_call(run, node, out);
    case JINJA_N_FILTER: return eval_filter(run, node, out);
    case JINJA_N_TEST: return eval_test(run, node, out);
    default: return jinja_fail(run, LUTRA_E_INTERNAL, "node %d is not an expression", node->type);
    }
}

int jinja_eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_value value = jinja_undefined(); /* *out may be an operand of its own expression */
    TRY(jinja_enter(run));
    TRY(eval_any(run, node, &value));
    jinja_leave(run);
    *out = value;
    return 0;
}
