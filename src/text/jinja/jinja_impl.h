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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "text/template.h"

/* ---- heap.c: memory of one template or one render ---- */

struct jinja_heap {
    struct jinja_chunk *chunks;
    char *free;
    size_t n_free;
    size_t used_bytes, max_bytes; /* of chunks */
};

void *jinja_alloc(struct jinja_heap *heap, size_t bytes); /* 8-byte aligned, not cleared; NULL at the ceiling */
void jinja_heap_fini(struct jinja_heap *heap);

/* A growing text; its memory is malloc'd and bounded by max_bytes. */
struct jinja_text {
    char *p;
    size_t n, cap, max_bytes;
};

int jinja_text_add(struct jinja_text *text, const char *bytes, size_t n_bytes);

/* ---- values ---- */

enum jinja_kind {
    JINJA_MISSING, /* an argument that was not given; never seen by templates */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST, /* anything with a fixed order: see enum jinja_list_kind */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_FUNCTION,
    JINJA_METHOD,
    JINJA_MACRO,
    JINJA_LOOP,
};

enum jinja_list_kind { JINJA_LIST_PLAIN, JINJA_LIST_TUPLE, JINJA_LIST_RANGE, JINJA_LIST_VIEW, JINJA_LIST_ITERATOR };

struct jinja_value {
    uint8_t kind; /* enum jinja_kind */
    uint8_t sub;  /* enum jinja_list_kind of a list */
    uint32_t n;   /* bytes of a string, or of an undefined value's name */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s; /* UTF-8, not NUL-terminated; UNDEFINED: what was looked up */
        struct jinja_list *list;
        struct jinja_dict *dict; /* also NAMESPACE */
        const struct jinja_function *function;
        const struct jinja_method *method;
        const struct jinja_macro *macro;
        struct jinja_loop *loop;
    };
};

struct jinja_list {
    struct jinja_value *items; /* [n] */
    size_t n, cap;
    bool spent; /* an iterator that has been walked */
};

struct jinja_pair {
    struct jinja_value key, value;
};

struct jinja_dict {
    struct jinja_pair *pairs; /* [n] in order of insertion */
    uint32_t *index;          /* [mask + 1] pair number or UINT32_MAX; NULL while n is small */
    size_t n, cap, mask;
};

struct jinja_run;
struct jinja_args;

typedef int (*jinja_call_fn)(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out);

/* A function, method, filter or test: self is unused, the object, or the value on the left. */
struct jinja_function {
    const char *name;
    jinja_call_fn call;
};

struct jinja_method {
    const struct jinja_function *function;
    struct jinja_value self;
};

struct jinja_macro {
    const struct jinja_node *node; /* MACRO or CALL_BLOCK */
    struct jinja_scope *scope;     /* where it was defined */
};

struct jinja_loop {
    const struct jinja_list *items;
    size_t index0;
    struct jinja_value last_changed; /* arguments of loop.changed(), MISSING before the first call */
};

struct jinja_args {
    const struct jinja_value *pos; /* [n] */
    size_t n;
    const struct jinja_pair *named; /* [n_named], keys are strings */
    size_t n_named;
};

/* ---- tokens and tree ---- */

enum jinja_token_type {
    JINJA_T_END,
    JINJA_T_DATA,
    JINJA_T_BLOCK_BEGIN,
    JINJA_T_BLOCK_END,
    JINJA_T_PRINT_BEGIN,
    JINJA_T_PRINT_END,
    JINJA_T_NAME,
    JINJA_T_STRING,
    JINJA_T_INT,
    JINJA_T_FLOAT,
    JINJA_T_OPERATOR, /* op: the characters, e.g. '=' | '=' << 8 */
};

struct jinja_token {
    enum jinja_token_type type;
    uint32_t line;
    unsigned op;
    struct jinja_value value; /* text of DATA, NAME and STRING; number of INT and FLOAT */
};

struct jinja_lexer {
    struct jinja_heap *heap;
    struct lutra_error *err;
    const char *p; /* source with \n line ends only */
    size_t n, at;
    uint32_t line;
    enum { JINJA_IN_TEXT, JINJA_IN_BLOCK, JINJA_IN_PRINT } state;
    bool line_starting; /* what came before ended in a newline */
    unsigned pending;   /* type of a tag whose preceding text was just returned; 0 if none */
    uint32_t n_open;    /* brackets open inside the tag */
    char open[256];     /* their closing characters */
};

int jinja_lex_init(
    struct jinja_lexer *lexer, struct jinja_heap *heap, const char *source, size_t n, struct lutra_error *err);
int jinja_lex_next(struct jinja_lexer *lexer, struct jinja_token *out);
int jinja_unescape(struct jinja_lexer *lexer, const char *p, size_t n, struct jinja_value *out); /* escape.c */

enum jinja_node_type {
    /* expressions */
    JINJA_N_CONST,   /* value */
    JINJA_N_NAME,    /* value: its name */
    JINJA_N_LIST,    /* a: elements */
    JINJA_N_TUPLE,   /* a: elements */
    JINJA_N_DICT,    /* a: PAIRs */
    JINJA_N_PAIR,    /* a: key, b: value */
    JINJA_N_UNARY,   /* op a */
    JINJA_N_BINARY,  /* a op b */
    JINJA_N_AND,     /* a, b */
    JINJA_N_OR,      /* a, b */
    JINJA_N_NOT,     /* a */
    JINJA_N_COMPARE, /* a, then b: chain of OPERANDs */
    JINJA_N_OPERAND, /* op a */
    JINJA_N_CONCAT,  /* a: parts */
    JINJA_N_COND,    /* b if a else c; c may be NULL */
    JINJA_N_ATTR,    /* a.value */
    JINJA_N_ITEM,    /* a[b] */
    JINJA_N_SLICE,   /* start a, stop b, step c, each may be NULL; only as b of ITEM */
    JINJA_N_CALL,    /* a(b: positional, c: KEYWORDs, *d, **e) */
    JINJA_N_KEYWORD, /* value = a */
    JINJA_N_FILTER,  /* a|value(b, c, d, e); a is NULL at the head of a filter block */
    JINJA_N_TEST,    /* a is value(b, c, d, e) */
    /* statements */
    JINJA_N_DATA,         /* value: text */
    JINJA_N_PRINT,        /* a */
    JINJA_N_IF,           /* a: test, b: body, c: else body, d: next elif */
    JINJA_N_FOR,          /* a: target, b: iterable, c: filter, d: body, e: else body */
    JINJA_N_SET,          /* a: target, b: value */
    JINJA_N_SET_BLOCK,    /* a: target, b: filter or NULL, c: body */
    JINJA_N_MACRO,        /* value: name, a: PARAMs, b: body, op: JINJA_USES_* */
    JINJA_N_PARAM,        /* value: name, a: default or NULL */
    JINJA_N_CALL_BLOCK,   /* a: PARAMs, b: body, c: CALL */
    JINJA_N_FILTER_BLOCK, /* a: FILTER, b: body */
    JINJA_N_WITH,         /* a: SETs, b: body */
    JINJA_N_BREAK,
    JINJA_N_CONTINUE,
    JINJA_N_NSREF, /* value.b: target of set; b is a CONST string */
};

enum { JINJA_USES_VARARGS = 1, JINJA_USES_KWARGS = 2, JINJA_USES_CALLER = 4 };

struct jinja_node {
    uint8_t type; /* enum jinja_node_type */
    uint8_t uses; /* MACRO, CALL_BLOCK: JINJA_USES_* */
    uint16_t op;  /* operator as in the token, or a word: 'i' in, 'n' not in */
    uint32_t line;
    struct jinja_value value;
    struct jinja_node *a, *b, *c, *d, *e;
    struct jinja_node *next;               /* sibling */
    const struct jinja_function *function; /* FILTER, TEST; NULL if the name is unknown */
};

#define JINJA_OP2(x, y) ((unsigned)(x) | (unsigned)(y) << 8)

struct jinja_parser {
    struct jinja_lexer lexer;
    struct jinja_heap *heap;
    struct lutra_error *err;
    struct jinja_token token, ahead;
    bool has_ahead;
    int depth, loop_depth;
    unsigned uses; /* of the macro being parsed */
};

int jinja_parse(
    struct jinja_heap *heap, const char *source, size_t n, struct jinja_node **out, struct lutra_error *err);

/* parse_expr.c, used by parse.c */
int jinja_advance(struct jinja_parser *p);
int jinja_fail_parse(struct jinja_parser *p, const char *what);
int jinja_expect_op(struct jinja_parser *p, unsigned op, const char *what);
bool jinja_is_op(const struct jinja_parser *p, unsigned op);
bool jinja_is_word(const struct jinja_parser *p, const char *word);
int jinja_new_node(struct jinja_parser *p, enum jinja_node_type type, struct jinja_node **out);
int jinja_parse_expr(struct jinja_parser *p, bool with_cond, struct jinja_node **out);
int jinja_parse_tuple(struct jinja_parser *p, bool with_cond, struct jinja_node **out);
int jinja_parse_target(struct jinja_parser *p, bool with_namespace, struct jinja_node **out);
int jinja_parse_filters(struct jinja_parser *p, struct jinja_node *head, struct jinja_node **out);
int jinja_parse_call_expr(struct jinja_parser *p, struct jinja_node **out);

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
int jinja_step(struct jinja_run *run, size_t n_bytes); /* counts one step and n_bytes / 16 more */
int jinja_enter(struct jinja_run *run);                /* one level deeper; pairs with jinja_leave */
void jinja_leave(struct jinja_run *run);

/* exec.c, eval.c, call.c */
int jinja_exec(struct jinja_run *run, const struct jinja_node *body);
int jinja_eval(struct jinja_run *run, const struct jinja_node *node, struct jinja_value *out);
int jinja_call(
    struct jinja_run *run, struct jinja_value callee, const struct jinja_args *args, struct jinja_value *out);
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

/* value.c: constructors */
static inline struct jinja_value jinja_undefined(void)
{
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .s = ""};
}
static inline struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.kind = JINJA_NONE};
}
static inline struct jinja_value jinja_bool(bool b)
{
    return (struct jinja_value){.kind = JINJA_BOOL, .b = b};
}
static inline struct jinja_value jinja_int(int64_t i)
{
    return (struct jinja_value){.kind = JINJA_INT, .i = i};
}
static inline struct jinja_value jinja_float(double f)
{
    return (struct jinja_value){.kind = JINJA_FLOAT, .f = f};
}
static inline struct jinja_value jinja_view(const char *s, size_t n) /* a string that shares s */
{
    return (struct jinja_value){.kind = JINJA_STRING, .n = (uint32_t)n, .s = s};
}
static inline bool jinja_is(struct jinja_value v, const char *text)
{
    return v.kind == JINJA_STRING && v.n == strlen(text) && memcmp(v.s, text, v.n) == 0;
}
static inline bool jinja_same_text(struct jinja_value a, struct jinja_value b)
{
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

int jinja_string(struct jinja_run *run, const char *s, size_t n, struct jinja_value *out); /* a copy */
int jinja_list_new(struct jinja_run *run, enum jinja_list_kind kind, struct jinja_value *out);
int jinja_list_add(struct jinja_run *run, struct jinja_list *list, struct jinja_value item);
int jinja_tuple2(struct jinja_run *run, struct jinja_value a, struct jinja_value b, struct jinja_value *out);
int jinja_dict_new(struct jinja_run *run, struct jinja_value *out);
int jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value);
/* *out = NULL if there is no such key; LUTRA_E_FORMAT if the key cannot be hashed. */
int jinja_dict_get(
    struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key, struct jinja_value **out);
bool jinja_hashable(struct jinja_value key);
bool jinja_truth(struct jinja_value v);
/* Python's len(); LUTRA_E_FORMAT where there is none. */
int jinja_length(struct jinja_run *run, struct jinja_value v, int64_t *out);
/* What a for loop over v walks: a list of items (shared where v is one). */
int jinja_iterate(struct jinja_run *run, struct jinja_value v, const struct jinja_list **out);
bool jinja_iterable(struct jinja_value v);
const char *jinja_type_name(struct jinja_value v);

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

/* print.c, json_read.c, json_write.c */
int jinja_str(struct jinja_run *run, struct jinja_value v, struct jinja_text *out);  /* Python's str() */
int jinja_repr(struct jinja_run *run, struct jinja_value v, struct jinja_text *out); /* Python's repr() */
int jinja_to_string(struct jinja_run *run, struct jinja_value v, struct jinja_value *out);
void jinja_print_float(double f, char out[40]);
int jinja_json_read(struct jinja_run *run, const char *json, size_t n, struct jinja_value *out);
int jinja_tojson(
    struct jinja_run *run, struct jinja_value self, const struct jinja_args *args, struct jinja_value *out);

/* Text under construction that becomes a value: the tail of run->out is the scratch. */
int jinja_take(struct jinja_run *run, size_t from, struct jinja_value *out);

/* strings.c */
bool jinja_is_space(uint32_t cp);
size_t jinja_n_chars(struct jinja_value s);
size_t jinja_char_at(struct jinja_value s, size_t byte, uint32_t *cp); /* length in bytes of the character there */
struct jinja_value jinja_strip(struct jinja_value s, struct jinja_value chars, bool left, bool right);
const char *jinja_find(struct jinja_value in, struct jinja_value what, size_t from_byte); /* NULL if absent */
int jinja_replace(struct jinja_run *run, struct jinja_value s, struct jinja_value old, struct jinja_value with,
    int64_t count, struct jinja_value *out);
int jinja_split_lines(struct jinja_run *run, struct jinja_value s, struct jinja_value *out);
enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_CAPITAL, JINJA_TITLE_METHOD, JINJA_TITLE_FILTER };
int jinja_change_case(struct jinja_run *run, struct jinja_value s, enum jinja_case how, struct jinja_value *out);

/* Tables by name; NULL if there is none. */
const struct jinja_function *jinja_find_filter(struct jinja_value name);
const struct jinja_function *jinja_find_test(struct jinja_value name);
const struct jinja_function *jinja_find_global(struct jinja_value name);
const struct jinja_function *jinja_find_method(struct jinja_value object, struct jinja_value name);
const struct jinja_function *jinja_search(const struct jinja_function *table, size_t n, struct jinja_value name);
const struct jinja_function *jinja_find_filter_of_lists(struct jinja_value name);

#endif
