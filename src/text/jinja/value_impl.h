/* SPDX-License-Identifier: MIT
 *
 * The heap of a template or a render, and the values in it; private to text/.  Values are immutable, except
 * namespaces, so they are copied by sharing.
 */
#ifndef LUTRA_TEXT_JINJA_VALUE_IMPL_H
#define LUTRA_TEXT_JINJA_VALUE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

/* ---- stack.c: the end of what may be used of this thread's stack ---- */

struct jinja_stack {
    uintptr_t end;
};

struct jinja_stack jinja_stack_here(void);
bool jinja_stack_left(const struct jinja_stack *stack);

/* ---- heap.c: memory of one template or one render ---- */

struct jinja_heap {
    struct jinja_chunk *chunks;
    char *free;
    size_t n_free;
    size_t used_bytes, max_bytes; /* of chunks */
};

void *jinja_alloc(struct jinja_heap *heap, size_t bytes); /* 8-byte aligned, not cleared; NULL at the ceiling */
void jinja_heap_fini(struct jinja_heap *heap);

/* Where the bytes of a text come from: input[i] is not 0 where byte i is the variables', not the template's.  NULL:
 * all are the template's. */
typedef const uint8_t *jinja_input;

/* A growing text; its memory is malloc'd and bounded by max_bytes. */
struct jinja_text {
    char *p;
    uint8_t *input; /* [n] as above, never NULL */
    size_t n, cap, max_bytes;
};

int jinja_text_add(struct jinja_text *text, const char *bytes, size_t n_bytes, jinja_input input);

/* ---- values ---- */

enum jinja_kind {
    JINJA_MISSING, /* an argument that was not given; never seen by templates */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_BIG, /* an integer of the variables beyond 64 bits: its digits, as of a string; printed, not computed with */
    JINJA_STRING,
    JINJA_LIST, /* anything with a fixed order: see enum jinja_list_kind */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_FUNCTION,
    JINJA_METHOD,
    JINJA_MACRO,
    JINJA_LOOP,
    JINJA_CYCLER,
    JINJA_JOINER,
};

enum jinja_list_kind { JINJA_LIST_PLAIN, JINJA_LIST_TUPLE, JINJA_LIST_RANGE, JINJA_LIST_VIEW, JINJA_LIST_ITERATOR };

struct jinja_value {
    uint8_t kind;      /* enum jinja_kind */
    uint8_t sub;       /* enum jinja_list_kind of a list */
    uint32_t n;        /* bytes of a string, or of an undefined value's name */
    jinja_input input; /* [n] of a string; of a number not NULL where it is made from input */
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
        struct jinja_cycle *cycle; /* CYCLER, JOINER */
    };
};

struct jinja_list {
    struct jinja_value *items; /* [n] */
    size_t n, cap;
    bool spent;    /* an iterator that has been walked */
    bool is_group; /* a tuple of groupby: (grouper, list) */
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
struct jinja_node;
struct jinja_scope;

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
    const struct jinja_node *node; /* FOR */
    struct jinja_scope *outer;     /* around the statement: where a recursive loop runs again */
    int depth0;
    struct jinja_value last_changed; /* arguments of loop.changed(), MISSING before the first call */
};

struct jinja_cycle {
    const struct jinja_value *items; /* [n]; of a joiner: "", then the separator */
    size_t n, at;
};

struct jinja_args {
    const struct jinja_value *pos; /* [n] */
    size_t n;
    const struct jinja_pair *named; /* [n_named], keys are strings */
    size_t n_named;
};

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
static inline struct jinja_value jinja_part(struct jinja_value s, size_t at, size_t n) /* s[at .. at + n), shared */
{
    return (struct jinja_value){
        .kind = JINJA_STRING, .n = (uint32_t)n, .input = s.input ? s.input + at : NULL, .s = s.s + at};
}
static inline bool jinja_is(struct jinja_value v, const char *text)
{
    return v.kind == JINJA_STRING && v.n == strlen(text) && memcmp(v.s, text, v.n) == 0;
}
static inline bool jinja_same_text(struct jinja_value a, struct jinja_value b)
{
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

int jinja_string(
    struct jinja_run *run, const char *s, size_t n, jinja_input input, struct jinja_value *out); /* a copy */
/* A view of s, wholly input or wholly the template's. */
int jinja_marked(struct jinja_run *run, const char *s, size_t n, bool input, struct jinja_value *out);
/* jinja_same_text(), charged. */
int jinja_compare_text(struct jinja_run *run, struct jinja_value a, struct jinja_value b, bool *same);
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

#endif
