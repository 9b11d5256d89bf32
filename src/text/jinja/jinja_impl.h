/* SPDX-License-Identifier: MIT
 *
 * Inside chat templates; private to text/.
 *
 *     source -lex.c-> tokens -parse_*.c-> tree -exec.c, eval.c-> text
 *
 * Everything lives in a heap that is freed as one and that has a ceiling.  Values are immutable, except namespaces,
 * so they are copied by sharing.  Every function that can fail returns a status and describes the failure in the
 * run's error, with the line of the statement being executed.
 */
#ifndef LUTRA_TEXT_JINJA_JINJA_IMPL_H
#define LUTRA_TEXT_JINJA_JINJA_IMPL_H

#include "text/jinja/syntax_impl.h"
#include "text/jinja/value_impl.h"
#include "text/template.h"

/* ---- running ---- */

struct jinja_var {
    struct jinja_value name, value;
};

struct jinja_scope {
    struct jinja_scope *parent;
    struct jinja_var *vars; /* [n] */
    size_t n, cap;
};

struct jinja_run {
    struct jinja_heap heap;
    struct jinja_text out;
    struct jinja_scope *scope;
    struct jinja_dict *context; /* the variables given */
    struct lutra_error *err;
    jinja_input all_input; /* [n_all_input] of ones: where strings that are wholly input come from */
    size_t n_all_input;
    const struct text_work *work; /* asked now and then whether to go on */
    struct jinja_stack stack;
    int64_t now;
    uint64_t n_steps;
    uint32_t line;
    int depth;
    enum { JINJA_FLOW_ON, JINJA_FLOW_BREAK, JINJA_FLOW_CONTINUE } flow;
};

#define JINJA_MAX_DEPTH 600       /* nesting of evaluation, and of values being printed, compared or written */
#define JINJA_MAX_PARSE_DEPTH 150 /* nesting of brackets and blocks */
#define JINJA_MAX_RANGE 100000    /* as Jinja's sandbox */

int jinja_fail(struct jinja_run *run, int code, const char *fmt, ...) LUTRA_PRINTF(3, 4); /* adds the line */
int jinja_step(struct jinja_run *run, size_t n_bytes); /* counts one step and n_bytes / 16 more: of bytes touched */
int jinja_enter(struct jinja_run *run);                /* one level deeper; pairs with jinja_leave */
void jinja_leave(struct jinja_run *run);

/* exec.c, eval.c, call.c */
int jinja_exec(struct jinja_run *run, const struct jinja_node *body);
int jinja_eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out);
int jinja_call(
    struct jinja_run *run, struct jinja_value callee, const struct jinja_args *args, struct jinja_value *out);
int jinja_call_loop(/* a recursive loop over other items: its text */
    struct jinja_run *run, const struct jinja_loop *loop, const struct jinja_args *args, struct jinja_value *out);
struct jinja_value jinja_next(struct jinja_cycle *cycle); /* of a cycler or joiner */
int jinja_apply(struct jinja_run *run, const struct jinja_function *function, struct jinja_value self,
    const struct jinja_args *args, struct jinja_value *out); /* calls a filter or method */
int jinja_eval_args(
    struct jinja_run *run, const struct jinja_node *node, const struct jinja_value *caller, struct jinja_args *out);
int jinja_apply_filter(
    struct jinja_run *run, const struct jinja_node *node, struct jinja_value in, struct jinja_value *out);
int jinja_assign(struct jinja_run *run, const struct jinja_node *target, struct jinja_value value);
int jinja_scope_push(struct jinja_run *run);
int jinja_scope_set(struct jinja_run *run, struct jinja_value name, struct jinja_value value);
int jinja_lookup(struct jinja_run *run, struct jinja_value name, struct jinja_value *out);
/* Binds arguments to the parameters "first second third"; absent ones are JINJA_MISSING. */
int jinja_bind(
    struct jinja_run *run, const char *who, const struct jinja_args *args, const char *params, struct jinja_value *out);

/* ops.c */
int jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *out);
int jinja_order(struct jinja_run *run, struct jinja_value a, struct jinja_value b, int *out); /* <0, 0, >0, 2: NaN */
int jinja_binary(
    struct jinja_run *run, unsigned op, struct jinja_value a, struct jinja_value b, struct jinja_value *out);
int jinja_compare(struct jinja_run *run, unsigned op, struct jinja_value a, struct jinja_value b, bool *out);
int jinja_contains(struct jinja_run *run, struct jinja_value item, struct jinja_value in, bool *out);
bool jinja_as_int(struct jinja_value v, int64_t *out);  /* int or bool */
bool jinja_as_float(struct jinja_value v, double *out); /* any number */

/* attr.c */
int jinja_attr(struct jinja_run *run, struct jinja_value object, struct jinja_value name, struct jinja_value *out);
int jinja_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key, struct jinja_value *out);
int jinja_slice(
    struct jinja_run *run, struct jinja_value object, const struct jinja_value bounds[3], struct jinja_value *out);
/* "a.b.0": a path of items; `fallback`, unless MISSING, stands in for what is undefined at any step. */
int jinja_path(struct jinja_run *run, struct jinja_value object, struct jinja_value path, struct jinja_value fallback,
    struct jinja_value *out);

/* print.c, json_values.c, json_write.c */
int jinja_str(struct jinja_run *run, struct jinja_value v, struct jinja_text *out);  /* Python's str() */
int jinja_repr(struct jinja_run *run, struct jinja_value v, struct jinja_text *out); /* Python's repr() */
int jinja_to_string(struct jinja_run *run, struct jinja_value v, struct jinja_value *out);
void jinja_print_float(double f, char out[40]);
/* The members of `json`, as views of it and marked as input, then those of `own`, unmarked, which may be NULL. */
int jinja_json_values(
    struct jinja_run *run, const struct json_t *json, const struct json_t *own, struct jinja_value *out);
size_t jinja_json_bytes(const struct json_t *json, int depth); /* about its length as text, a level below `depth` */
int jinja_fromjson(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out);
int jinja_tojson(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out);

int jinja_escape(/* the filter: & < > ' " as entities */
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out);

int jinja_pprint(/* the filter */
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out);
int jinja_urlize(/* the filter */
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out);
/* Stable merge sort of pairs {key to compare, item}; `spare` has room for n. */
int jinja_sort_pairs(struct jinja_run *run, struct jinja_pair *pairs, struct jinja_pair *spare, size_t n, bool reverse);

/* format_percent.c, format_braces.c: Python's format % args, and the methods of text format and format_map. */
int jinja_percent(struct jinja_run *run, struct jinja_value format, struct jinja_value args, struct jinja_value *out);
int jinja_str_format(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out);
int jinja_str_format_map(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out);

/* Text under construction that becomes a value: the tail of run->out is the scratch. */
int jinja_take(struct jinja_run *run, size_t from, struct jinja_value *out);

/* strings.c */
int jinja_put(struct jinja_run *run, const char *text); /* to run->out */
bool jinja_is_space(uint32_t cp);
bool jinja_is_word_char(uint32_t cp); /* \w of Python's patterns */
int jinja_n_chars(struct jinja_run *run, struct jinja_value s, int64_t *n);
size_t jinja_char_at(struct jinja_value s, size_t byte, uint32_t *cp);    /* length in bytes of the character there */
size_t jinja_char_before(struct jinja_value s, size_t end, uint32_t *cp); /* where the character before `end` begins */
struct jinja_value jinja_trim(struct jinja_value s, bool left, bool right); /* without space */
int jinja_strip(struct jinja_run *run, struct jinja_value s, struct jinja_value chars, bool left, bool right,
    struct jinja_value *out);
/* *hit: the first place from from_byte on, or the last of all; NULL if absent. */
int jinja_find(
    struct jinja_run *run, struct jinja_value in, struct jinja_value what, size_t from_byte, const char **hit);
int jinja_find_last(struct jinja_run *run, struct jinja_value in, struct jinja_value what, const char **hit);
int jinja_replace(struct jinja_run *run, struct jinja_value s, struct jinja_value old, struct jinja_value with,
    int64_t count, struct jinja_value *out);
int jinja_split_lines(struct jinja_run *run, struct jinja_value s, bool keep_ends, struct jinja_value *out);
int jinja_justify(struct jinja_run *run, struct jinja_value s, int64_t width, struct jinja_value fill, char side,
    struct jinja_value *out); /* side: < > ^, where the text stands */
enum jinja_case {
    JINJA_UPPER,
    JINJA_LOWER,
    JINJA_CAPITAL,
    JINJA_TITLE_METHOD,
    JINJA_TITLE_FILTER,
    JINJA_SWAP,
    JINJA_FOLD
};
int jinja_change_case(struct jinja_run *run, struct jinja_value s, enum jinja_case how, struct jinja_value *out);

/* Tables by name; NULL if there is none. */
const struct jinja_function *jinja_find_filter(struct jinja_value name);
const struct jinja_function *jinja_find_test(struct jinja_value name);
const struct jinja_function *jinja_find_global(struct jinja_value name);
const struct jinja_function *jinja_find_method(struct jinja_value object, struct jinja_value name);
const struct jinja_function *jinja_find_method_of_cycler(struct jinja_value name);
const struct jinja_function *jinja_find_method_of_text(struct jinja_value name);
const struct jinja_function *jinja_search(const struct jinja_function *table, size_t n, struct jinja_value name);
const struct jinja_function *jinja_find_filter_of_lists(struct jinja_value name);
const struct jinja_function *jinja_find_filter_of_text(struct jinja_value name);

#endif
