/* SPDX-License-Identifier: MIT
 *
 * Tokens, the tree that the parser makes of them, and the parser's own interface; private to text/.
 */
#ifndef LUTRA_TEXT_JINJA_SYNTAX_IMPL_H
#define LUTRA_TEXT_JINJA_SYNTAX_IMPL_H

#include "text/jinja/value_impl.h"

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
    JINJA_N_FOR,          /* a: target, b: iterable, c: filter, d: body, e: else body, op: 1 if recursive */
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
    struct jinja_stack stack;
    int depth, loop_depth;
    unsigned uses; /* of the macro being parsed */
    /* Jinja2 knows every filter and test when it compiles, but for those of an if statement or expression: these fail
     * where they run.  A body inside the if that has a scope of its own (a loop's, a macro's) is strict again. */
    bool lenient;
    const struct jinja_node *unknown; /* the first FILTER or TEST without a function that is not of an if */
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
int jinja_fail_unknown(struct lutra_error *err, const struct jinja_node *node); /* a FILTER or TEST without function */

#endif
