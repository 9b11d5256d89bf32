/* SPDX-License-Identifier: MIT
 *
 * How a grammar is built: expressions (what GBNF and JSON Schema become), then nodes and edges (what machines run).
 *
 * Expressions are numbers.  Functions that return one return a negative LUTRA_E_* on failure, and pass on such a number
 * that they are given: build_seq(b, build_bytes(...), build_rule(...)) needs one check at the end.
 */
#ifndef LUTRA_DECODE_GRAMMAR_GRAMMAR_IMPL_H
#define LUTRA_DECODE_GRAMMAR_GRAMMAR_IMPL_H

#include "base/status.h"
#include "decode/grammar/grammar.h"

enum { GRAMMAR_RULES = 1 << 16, GRAMMAR_EDGES = 1 << 20, GRAMMAR_NEST = 200 };

struct cp_range {
    uint32_t lo, hi; /* code points, both included */
};

/* A growing array. */
struct vec {
    void *p;
    int32_t n, room;
};
/* Room for n_more elements behind the n there are; n itself is the caller's to move. */
int vec_reserve(struct vec *v, int32_t n_more, size_t element_bytes, struct lutra_error *err);

enum expr_kind {
    EXPR_NEVER, /* matches nothing */
    EXPR_EMPTY,
    EXPR_BYTES,  /* pool[a .. a + b - 1] */
    EXPR_CLASS,  /* one character: range[a .. a + b - 1], ascending */
    EXPR_SEQ,    /* a, then b; lists lean to the right */
    EXPR_ALT,    /* a or b */
    EXPR_REPEAT, /* a, at least min and at most max times; max -1: no limit */
    EXPR_UNTIL,  /* any text up to and with the first of marks until[a .. a + b - 1], then what stands behind that mark;
                    min 1: or any text without them */
    EXPR_RULE,   /* rule a */
};
struct expr {
    enum expr_kind kind;
    int32_t a, b, min, max;
};
struct rule {
    int32_t name, n_name; /* in pool; n_name 0: none */
    int32_t expr;         /* -1: not defined yet */
    int32_t line;         /* where it is first named */
    int32_t start, end;   /* nodes */
};
struct until {
    int32_t text, n_text; /* in pool */
    int32_t then;         /* an expression */
    bool at_start;        /* it counts at the text's start only */
};
/* How characters of strings are written. */
enum build_chars {
    CHARS_JSON,
    CHARS_NO_TAG, /* JSON, with < only as \u003c */
    CHARS_PLAIN,  /* as they are, but for < and NUL */
};
struct builder {
    struct vec expr, pool, range, rule; /* struct expr, char, struct cp_range, struct rule */
    struct vec until;                   /* struct until */
    enum build_chars chars;
    bool dense; /* no white space between tokens */
    struct lutra_error *err;
};
void build_fini(struct builder *b);

int32_t build_never(struct builder *b);
int32_t build_empty(struct builder *b);
int32_t build_bytes(struct builder *b, const char *p, size_t n);
int32_t build_text(struct builder *b, const char *text);
/* Ranges in any order; `negate`: every other character.  Surrogates are left out. */
int32_t build_class(struct builder *b, const struct cp_range *range, int32_t n, bool negate);
int32_t build_seq(struct builder *b, int32_t first, int32_t second);
int32_t build_alt(struct builder *b, int32_t one, int32_t other);
int32_t build_repeat(struct builder *b, int32_t what, int32_t min, int32_t max);
/* A mark, but for what stands behind it; its text is not empty. */
int build_mark(struct builder *b, const char *text, struct until *out);
/* free_text: the text may end without one. */
int32_t build_until(struct builder *b, const struct until *mark, int32_t n, bool free_text);
int32_t build_rule(struct builder *b, int32_t rule); /* a call */
int32_t build_new_rule(struct builder *b);           /* its number; set with build_define */
int build_define(struct builder *b, int32_t rule, int32_t expr);

enum edge_kind {
    EDGE_EPS,
    EDGE_BYTE,
    EDGE_CALL,
    EDGE_COUNT, /* the only one of its node: a call that is made min to max times, one behind the other */
};
struct edge {
    int32_t to;
    uint8_t kind, lo, hi; /* EDGE_BYTE: lo..hi */
    int32_t rule;         /* EDGE_CALL, EDGE_COUNT: its number; then the callee's start node */
    int32_t min, max;     /* EDGE_COUNT: min >= 1; max -1: no limit */
};
struct grammar {
    int32_t n_node, n_edge;
    int32_t *first;        /* [n_node + 1] a node's edges */
    struct edge *edge;     /* [n_edge] */
    bool *is_end;          /* [n_node] the last node of a rule */
    bool *is_free;         /* [n_node] within text that may be anything */
    char *note;            /* what of a schema stays unconstrained, or NULL */
    int32_t start;         /* of the root */
    uint8_t class_of[256]; /* bytes that no edge tells apart have one class */
    uint8_t byte_of[256];  /* a byte of each class */
    int32_t n_class;
};

/* until.c: states over bytes; the one that nothing leads on from is a mark's end. */
struct until_table {
    int32_t n_state, start;
    int32_t *next; /* [n_state][256] a state, or ~i: mark i is complete; freed with free() */
};
int until_open(struct until_table *out, const struct builder *b, const struct until *mark, int32_t n);

/* Turns the builder's rules into a grammar whose root is rule `root`. */
int grammar_compile(struct grammar **out, struct builder *b, int32_t root);

/* An ECMAScript regular expression over the characters of a JSON string, as they are written between its quotes.
 * *lo, *hi: how many characters it matches; *hi -1: no limit.  On failure the text says what is not built. */
int32_t build_pattern(struct builder *b, const char *pattern, size_t n, int32_t *lo, int32_t *hi);

/* vocab.c: what masks walk.  Nodes are in order of their bytes, a node before its children. */
struct grammar_vocab {
    int32_t n_vocab, n_sorted, n_node, n_end, n_silent;
    char *pool;
    uint32_t *at;    /* [n_sorted + 1] bytes of sorted tokens in pool */
    int32_t *sorted; /* [n_sorted] tokens by their bytes */
    int32_t *end;    /* [n_end] tokens that end generation */
    int32_t *silent; /* [n_silent] tokens without text */
    int32_t *token;  /* [n_vocab] index in sorted; -1: never, -2: ends */
    uint8_t *byte;   /* [n_node] */
    uint16_t *depth; /* [n_node] 1 ... */
    int32_t *skip;   /* [n_node] the next node that is not below this one */
    int32_t *tokens; /* [n_node + 1] sorted[tokens[v] .. tokens[v + 1]) end at node v */
    int32_t max_depth;
};

#endif
