/* SPDX-License-Identifier: MIT
 *
 * Runs statements.  Text goes to the end of run->out; a block that is captured is the part added since it began.
 */
#include "text/jinja/jinja_impl.h"

int jinja_assign(struct jinja_run *run, const struct jinja_node *target, struct jinja_value value)
{
    if (target->type == JINJA_N_NAME) return jinja_scope_set(run, target->value, value);
    if (target->type == JINJA_N_NSREF) {
        struct jinja_value ns;
        TRY(jinja_lookup(run, target->value, &ns));
        if (ns.kind == JINJA_NAMESPACE) return jinja_dict_set(run, ns.dict, target->b->value, value);
        return jinja_fail(run, LUTRA_E_FORMAT, "cannot assign attribute on non-namespace object");
    }
    const struct jinja_list *list;
    TRY(jinja_enter(run));
    TRY(jinja_iterate(run, value, &list));
    size_t n = 0;
    for (const struct jinja_node *t = target->a; t; t = t->next) n++;
    if (n != list->n) return jinja_fail(run, LUTRA_E_FORMAT, "%zu values for %zu names", list->n, n);
    const struct jinja_value *item = list->items;
    for (const struct jinja_node *t = target->a; t; t = t->next) TRY(jinja_assign(run, t, *item++));
    jinja_leave(run);
    return 0;
}

/* Runs a body in a scope of its own and takes its text. */
static int capture(struct jinja_run *run, const struct jinja_node *body, struct jinja_value *out)
{
    size_t start = run->out.n;
    struct jinja_scope *outer = run->scope;
    TRY(jinja_scope_push(run));
    TRY(jinja_exec(run, body));
    run->scope = outer;
    return jinja_take(run, start, out);
}

static int exec_if(struct jinja_run *run, const struct jinja_node *node)
{
    for (const struct jinja_node *arm = node; arm; arm = arm->d) {
        struct jinja_value test;
        run->line = arm->line;
        TRY(jinja_eval(run, arm->a, &test));
        if (jinja_truth(test)) return jinja_exec(run, arm->b);
        if (!arm->d) return jinja_exec(run, arm->c);
    }
    return 0;
}

/* The items that pass the loop's filter, each tried in a scope of its own. */
static int filter_items(struct jinja_run *run, const struct jinja_node *node, const struct jinja_list **list)
{
    struct jinja_value kept, pass;
    struct jinja_scope *outer = run->scope;
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, &kept));
    TRY(jinja_scope_push(run));
    for (size_t i = 0; i < (*list)->n; i++) {
        TRY(jinja_assign(run, node->a, (*list)->items[i]));
        TRY(jinja_eval(run, node->c, &pass));
        if (jinja_truth(pass)) TRY(jinja_list_add(run, kept.list, (*list)->items[i]));
    }
    run->scope = outer;
    *list = kept.list;
    return 0;
}

/* One scope serves all rounds, emptied in between: what a round sets does not outlive it.  *none: no round came to
 * its end, which is when Jinja runs the else body (also if all rounds were continued). */
static int exec_rounds(struct jinja_run *run, const struct jinja_node *node, struct jinja_value loop, bool *none)
{
    const struct jinja_list *list = loop.loop->items;
    for (size_t i = 0; i < list->n && run->flow != JINJA_FLOW_BREAK; i++) {
        run->scope->n = 0;
        run->flow = JINJA_FLOW_ON;
        loop.loop->index0 = i;
        TRY(jinja_scope_set(run, jinja_view("loop", 4), loop));
        TRY(jinja_assign(run, node->a, list->items[i]));
        TRY(jinja_exec(run, node->d));
        if (run->flow == JINJA_FLOW_ON) *none = false;
    }
    run->flow = JINJA_FLOW_ON;
    run->scope->n = 0;
    return 0;
}

/* The loop over `over`, in a scope below `outer`. */
static int run_loop(struct jinja_run *run, const struct jinja_node *node, struct jinja_scope *outer,
    struct jinja_value over, int depth0)
{
    const struct jinja_list *list;
    struct jinja_scope *before = run->scope;
    run->scope = outer;
    TRY(jinja_iterate(run, over, &list));
    if (node->c) TRY(filter_items(run, node, &list));
    TRY(jinja_scope_push(run));
    struct jinja_loop *loop = jinja_alloc(&run->heap, sizeof *loop);
    if (!loop) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for a loop");
    *loop = (struct jinja_loop){.items = list, .node = node, .outer = outer, .depth0 = depth0};
    bool none = true;
    TRY(exec_rounds(run, node, (struct jinja_value){.kind = JINJA_LOOP, .loop = loop}, &none));
    if (none) TRY(jinja_exec(run, node->e));
    run->scope = before;
    return 0;
}

static int exec_for(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value over;
    TRY(jinja_eval(run, node->b, &over));
    return run_loop(run, node, run->scope, over, 0);
}

int jinja_call_loop(
    struct jinja_run *run, const struct jinja_loop *loop, const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_value over;
    size_t start = run->out.n;
    uint32_t line = run->line;
    if (!loop->node->op) return jinja_fail(run, LUTRA_E_FORMAT, "a loop is called that is not 'recursive'");
    TRY(jinja_bind(run, "loop", args, "iterable", &over));
    if (over.kind == JINJA_MISSING) return jinja_fail(run, LUTRA_E_FORMAT, "loop() needs what to walk");
    TRY(run_loop(run, loop->node, loop->outer, over, loop->depth0 + 1));
    run->line = line;
    return jinja_take(run, start, out);
}

static int exec_set(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value;
    if (node->type == JINJA_N_SET) {
        TRY(jinja_eval(run, node->b, &value));
    } else {
        TRY(capture(run, node->c, &value));
        if (node->b) TRY(jinja_apply_filter(run, node->b, value, &value));
    }
    return jinja_assign(run, node->a, value);
}

static int new_macro(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out)
{
    struct jinja_macro *macro = jinja_alloc(&run->heap, sizeof *macro);
    if (!macro) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for a macro");
    *macro = (struct jinja_macro){node, run->scope};
    *out = (struct jinja_value){.kind = JINJA_MACRO, .macro = macro};
    return 0;
}

static int exec_macro(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value macro;
    TRY(new_macro(run, node, &macro));
    return jinja_scope_set(run, node->value, macro);
}

static int exec_call_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value callee, caller, text;
    struct jinja_args args;
    TRY(new_macro(run, node, &caller));
    TRY(jinja_eval(run, node->c->a, &callee));
    TRY(jinja_eval_args(run, node->c, &caller, &args));
    TRY(jinja_call(run, callee, &args, &text));
    return jinja_str(run, text, &run->out);
}

static int exec_filter_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value text;
    TRY(capture(run, node->b, &text));
    TRY(jinja_apply_filter(run, node->a, text, &text));
    return jinja_str(run, text, &run->out);
}

/* The values of a with statement are evaluated outside of it. */
static int exec_with(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *outer = run->scope, *inner;
    TRY(jinja_scope_push(run));
    inner = run->scope;
    for (const struct jinja_node *set = node->a; set; set = set->next) {
        struct jinja_value value;
        run->scope = outer;
        TRY(jinja_eval(run, set->b, &value));
        run->scope = inner;
        TRY(jinja_assign(run, set->a, value));
    }
    TRY(jinja_exec(run, node->b));
    run->scope = outer;
    return 0;
}

static int exec_print(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_value value;
    TRY(jinja_eval(run, node->a, &value));
    return jinja_str(run, value, &run->out);
}

static int exec_one(struct jinja_run *run, const struct jinja_node *node)
{
    run->line = node->line;
    switch (node->type) {
    case JINJA_N_DATA: return jinja_str(run, node->value, &run->out);
    case JINJA_N_PRINT: return exec_print(run, node);
    case JINJA_N_IF: return exec_if(run, node);
    case JINJA_N_FOR: return exec_for(run, node);
    case JINJA_N_SET:
    case JINJA_N_SET_BLOCK: return exec_set(run, node);
    case JINJA_N_MACRO: return exec_macro(run, node);
    case JINJA_N_CALL_BLOCK: return exec_call_block(run, node);
    case JINJA_N_FILTER_BLOCK: return exec_filter_block(run, node);
    case JINJA_N_WITH: return exec_with(run, node);
    case JINJA_N_BREAK: run->flow = JINJA_FLOW_BREAK; return 0;
    case JINJA_N_CONTINUE: run->flow = JINJA_FLOW_CONTINUE; return 0;
    default: return jinja_fail(run, LUTRA_E_INTERNAL, "node %d is not a statement", node->type);
    }
}

int jinja_exec(struct jinja_run *run, const struct jinja_node *body)
{
    TRY(jinja_enter(run));
    for (; body && run->flow == JINJA_FLOW_ON; body = body->next) {
        TRY(jinja_step(run, 0));
        TRY(exec_one(run, body));
    }
    jinja_leave(run);
    return 0;
}
