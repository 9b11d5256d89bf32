/* SPDX-License-Identifier: MIT
 *
 * What a render keeps track of: its budget, its errors, its scopes; and how calls find their arguments.
 */
#include <stdarg.h>
#include <stdio.h>

#include "text/jinja/jinja_impl.h"

int jinja_fail(struct jinja_run *run, int code, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return lutra_fail_at(run->err, code, run->line, "template line %u: %s", run->line, what);
}

int jinja_step(struct jinja_run *run, size_t n_bytes)
{
    uint64_t before = run->n_steps;
    run->n_steps += 1 + n_bytes / 16;
    if (run->n_steps >> 16 != before >> 16) TRY(text_work_go_on(run->work, run->err));
    if (run->n_steps <= TEXT_TEMPLATE_MAX_STEPS) return 0;
    return jinja_fail(run, LUTRA_E_FORMAT, "the template takes more than %d steps", TEXT_TEMPLATE_MAX_STEPS);
}

int jinja_enter(struct jinja_run *run)
{
    TRY(jinja_step(run, 0));
    bool deep = ++run->depth > JINJA_MAX_DEPTH || !jinja_stack_left(&run->stack);
    return deep ? jinja_fail(run, LUTRA_E_FORMAT, "nested too deep") : 0;
}

void jinja_leave(struct jinja_run *run)
{
    run->depth--;
}

int jinja_scope_push(struct jinja_run *run)
{
    struct jinja_scope *scope = jinja_alloc(&run->heap, sizeof *scope);
    if (!scope)
        return jinja_fail(run, LUTRA_E_NO_MEMORY, "the template needs more than %zu bytes", run->heap.max_bytes);
    *scope = (struct jinja_scope){.parent = run->scope};
    run->scope = scope;
    return 0;
}

/* *found = NULL where there is none. */
static int find_var(
    struct jinja_run *run, struct jinja_scope *scope, struct jinja_value name, struct jinja_value **found)
{
    bool same;
    *found = NULL;
    for (size_t i = 0; i < scope->n; i++) {
        TRY(jinja_compare_text(run, scope->vars[i].name, name, &same));
        if (same) return *found = &scope->vars[i].value, 0;
    }
    return 0;
}

int jinja_scope_set(struct jinja_run *run, struct jinja_value name, struct jinja_value value)
{
    struct jinja_scope *scope = run->scope;
    struct jinja_value *have;
    TRY(find_var(run, scope, name, &have));
    if (have) {
        *have = value;
        return 0;
    }
    if (scope->n == scope->cap) {
        size_t cap = scope->cap ? scope->cap * 2 : 4;
        struct jinja_var *vars = jinja_alloc(&run->heap, cap * sizeof *vars);
        if (!vars) return jinja_fail(run, LUTRA_E_NO_MEMORY, "no memory for a variable");
        if (scope->n) memcpy(vars, scope->vars, scope->n * sizeof *vars);
        scope->vars = vars;
        scope->cap = cap;
    }
    scope->vars[scope->n++] = (struct jinja_var){name, value};
    return 0;
}

/* Scopes from inside out, then the variables given, then the built-in functions. */
int jinja_lookup(struct jinja_run *run, struct jinja_value name, struct jinja_value *out)
{
    struct jinja_value *found = NULL;
    for (struct jinja_scope *scope = run->scope; scope && !found; scope = scope->parent) {
        TRY(find_var(run, scope, name, &found));
    }
    if (!found) TRY(jinja_dict_get(run, run->context, name, &found));
    const struct jinja_function *function = found ? NULL : jinja_find_global(name);
    *out = jinja_undefined();
    if (found)
        *out = *found;
    else if (function)
        *out = (struct jinja_value){.kind = JINJA_FUNCTION, .function = function};
    if (out->kind == JINJA_UNDEFINED && !out->n) {
        out->s = name.s;
        out->n = name.n;
    }
    return 0;
}

static int add_star(struct jinja_run *run, const struct jinja_node *node, struct jinja_list *pos)
{
    struct jinja_value v;
    const struct jinja_list *list;
    TRY(jinja_eval(run, node, &v));
    TRY(jinja_iterate(run, v, &list));
    for (size_t i = 0; i < list->n; i++) TRY(jinja_list_add(run, pos, list->items[i]));
    return 0;
}

static int add_named(struct jinja_run *run, struct jinja_dict *named, struct jinja_value name, struct jinja_value value)
{
    struct jinja_value *have;
    if (name.kind != JINJA_STRING) return jinja_fail(run, LUTRA_E_FORMAT, "the name of an argument must be a string");
    TRY(jinja_dict_get(run, named, name, &have));
    if (have) return jinja_fail(run, LUTRA_E_FORMAT, "an argument is given twice");
    return jinja_dict_set(run, named, name, value);
}

int jinja_eval_args(
    struct jinja_run *run, const struct jinja_node *node, const struct jinja_value *caller, struct jinja_args *out)
{
    struct jinja_value pos, named, v;
    *out = (struct jinja_args){0};
    if (!node->b && !node->c && !node->d && !node->e && !caller) return 0;
    TRY(jinja_list_new(run, JINJA_LIST_PLAIN, &pos));
    TRY(jinja_dict_new(run, &named));
    for (const struct jinja_node *n = node->b; n; n = n->next) {
        TRY(jinja_eval(run, n, &v));
        TRY(jinja_list_add(run, pos.list, v));
    }
    for (const struct jinja_node *n = node->c; n; n = n->next) {
        TRY(jinja_eval(run, n->a, &v));
        TRY(add_named(run, named.dict, n->value, v));
    }
    if (node->d) TRY(add_star(run, node->d, pos.list));
    if (node->e) {
        TRY(jinja_eval(run, node->e, &v));
        if (v.kind != JINJA_DICT)
            return jinja_fail(run, LUTRA_E_FORMAT, "** needs a mapping, not %s", jinja_type_name(v));
        for (size_t i = 0; i < v.dict->n; i++) {
            TRY(add_named(run, named.dict, v.dict->pairs[i].key, v.dict->pairs[i].value));
        }
    }
    if (caller) TRY(add_named(run, named.dict, jinja_view("caller", 6), *caller));
    *out = (struct jinja_args){pos.list->items, pos.list->n, named.dict->pairs, named.dict->n};
    return 0;
}

int jinja_bind(
    struct jinja_run *run, const char *who, const struct jinja_args *args, const char *params, struct jinja_value *out)
{
    size_t n = 0, n_used = 0;
    for (const char *word = params; *word; n++) {
        size_t k = strcspn(word, " ");
        TRY(jinja_step(run, 16 * args->n_named));
        out[n] = (struct jinja_value){.kind = JINJA_MISSING};
        if (n < args->n) out[n] = args->pos[n];
        for (size_t i = 0; i < args->n_named; i++) {
            struct jinja_value name = args->named[i].key;
            if (name.n != k || memcmp(name.s, word, k) != 0) continue;
            if (n < args->n) return jinja_fail(run, LUTRA_E_FORMAT, "%s: an argument is given twice", who);
            out[n] = args->named[i].value;
            n_used++;
        }
        word += k + (word[k] == ' ');
    }
    if (args->n > n) return jinja_fail(run, LUTRA_E_FORMAT, "%s takes at most %zu arguments", who, n);
    if (n_used < args->n_named) return jinja_fail(run, LUTRA_E_FORMAT, "%s: unknown named argument", who);
    return 0;
}
