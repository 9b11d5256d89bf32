/* SPDX-License-Identifier: MIT
 *
 * Calls of functions, methods and macros.
 */
#include "text/jinja/jinja_impl.h"

/* Positional arguments beyond the parameters: varargs, or too many. */
static int bind_rest(struct jinja_run *run, const struct jinja_node *macro, const struct jinja_args *args, size_t from)
{
    struct jinja_value rest;
    if (!(macro->uses & JINJA_USES_VARARGS)) {
        if (from >= args->n) return 0;
        return jinja_fail(run, LUTRA_E_FORMAT, "macro takes not more than %zu argument(s)", from);
    }
    TRY(jinja_list_new(run, JINJA_LIST_TUPLE, &rest));
    for (size_t i = from; i < args->n; i++) TRY(jinja_list_add(run, rest.list, args->pos[i]));
    return jinja_scope_set(run, jinja_view("varargs", 7), rest);
}

static int is_param(struct jinja_run *run, const struct jinja_node *macro, struct jinja_value name, bool *out)
{
    *out = false;
    for (const struct jinja_node *p = macro->a; p && !*out; p = p->next)
        TRY(jinja_compare_text(run, p->value, name, out));
    return 0;
}

/* Named arguments that no parameter takes: caller, kwargs, or unknown. */
static int bind_unclaimed(struct jinja_run *run, const struct jinja_node *macro, const struct jinja_args *args)
{
    struct jinja_value rest, caller = jinja_undefined();
    bool known;
    TRY(jinja_dict_new(run, &rest));
    for (size_t i = 0; i < args->n_named; i++) {
        struct jinja_value name = args->named[i].key;
        TRY(is_param(run, macro, name, &known));
        if (known) continue;
        if (jinja_is(name, "caller") && (macro->uses & JINJA_USES_CALLER)) {
            caller = args->named[i].value;
        } else if (macro->uses & JINJA_USES_KWARGS) {
            TRY(jinja_dict_set(run, rest.dict, name, args->named[i].value));
        } else {
            return jinja_fail(run, LUTRA_E_FORMAT, "macro takes no keyword argument '%.*s'",
                (int)(name.n < 60 ? name.n : 60), name.s);
        }
    }
    if (macro->uses & JINJA_USES_KWARGS) TRY(jinja_scope_set(run, jinja_view("kwargs", 6), rest));
    TRY(is_param(run, macro, jinja_view("caller", 6), &known));
    if (!(macro->uses & JINJA_USES_CALLER) || known) return 0;
    return jinja_scope_set(run, jinja_view("caller", 6), caller);
}

static int bind_params(struct jinja_run *run, const struct jinja_node *macro, const struct jinja_args *args)
{
    size_t n = 0;
    for (const struct jinja_node *p = macro->a; p; p = p->next, n++) {
        struct jinja_value value = {.kind = JINJA_MISSING};
        if (n < args->n) value = args->pos[n];
        for (size_t i = 0; i < args->n_named; i++) {
            bool same;
            TRY(jinja_compare_text(run, args->named[i].key, p->value, &same));
            if (!same) continue;
            if (n < args->n) return jinja_fail(run, LUTRA_E_FORMAT, "macro: an argument is given twice");
            value = args->named[i].value;
        }
        if (value.kind == JINJA_MISSING && p->a) TRY(jinja_eval(run, p->a, &value));
        if (value.kind == JINJA_MISSING)
            value = (struct jinja_value){.kind = JINJA_UNDEFINED, .n = p->value.n, .s = p->value.s};
        TRY(jinja_scope_set(run, p->value, value));
    }
    TRY(bind_rest(run, macro, args, n));
    return bind_unclaimed(run, macro, args);
}

static int call_macro(
    struct jinja_run *run, const struct jinja_macro *macro, const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_scope *outer = run->scope;
    uint32_t line = run->line;
    size_t start = run->out.n;
    run->scope = macro->scope;
    TRY(jinja_scope_push(run));
    TRY(bind_params(run, macro->node, args));
    TRY(jinja_exec(run, macro->node->b));
    run->scope = outer;
    run->line = line;
    return jinja_take(run, start, out);
}

/* What is made of input is input: a number counts as its digits. */
int jinja_apply(struct jinja_run *run, const struct jinja_function *function, struct jinja_value self,
    const struct jinja_args *args, struct jinja_value *out)
{
    struct jinja_value from = self; /* *out may be it */
    bool given = from.input;
    for (size_t i = 0; i < args->n; i++) given |= args->pos[i].input != NULL;
    for (size_t i = 0; i < args->n_named; i++) given |= args->named[i].value.input != NULL;
    TRY(function->call(run, self, args, out));
    if (given && out->kind >= JINJA_BOOL && out->kind <= JINJA_FLOAT) out->input = run->all_input;
    return 0;
}

int jinja_call(struct jinja_run *run, struct jinja_value callee, const struct jinja_args *args, struct jinja_value *out)
{
    switch (callee.kind) {
    case JINJA_FUNCTION: return callee.function->call(run, jinja_none(), args, out);
    case JINJA_METHOD: return jinja_apply(run, callee.method->function, callee.method->self, args, out);
    case JINJA_MACRO: return call_macro(run, callee.macro, args, out);
    case JINJA_LOOP: return jinja_call_loop(run, callee.loop, args, out);
    case JINJA_JOINER:
        TRY(jinja_bind(run, "joiner", args, "", NULL));
        *out = jinja_next(callee.cycle);
        callee.cycle->at = 1; /* the separator from now on */
        return 0;
    case JINJA_UNDEFINED:
        return jinja_fail(run, LUTRA_E_FORMAT, "'%.*s' is undefined, or not safe to call",
            (int)(callee.n < 200 ? callee.n : 200), callee.s);
    default: return jinja_fail(run, LUTRA_E_FORMAT, "%s object is not callable", jinja_type_name(callee));
    }
}
