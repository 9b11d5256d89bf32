/* SPDX-License-Identifier: MIT
 *
 * A machine's memory: stacks, states, transitions, masks.
 *
 * A *frame* is a set of stacks: entries (node to return to, frame below), at most one per node, because two stacks that
 * return to the same node are merged and their frames below united.  Where the node is a counted call (EDGE_COUNT), the
 * entry has the number of the call it is in, and there is one for each number.
 *
 * A *state* is a set of (node, frame), at most one per node, all of which read a byte next.  Both are found again by
 * their content, so equal ones have equal numbers.
 */
#ifndef LUTRA_DECODE_GRAMMAR_MACHINE_IMPL_H
#define LUTRA_DECODE_GRAMMAR_MACHINE_IMPL_H

#include "decode/grammar/grammar_impl.h"

enum {
    MACHINE_STATES = 1 << 18,
    MACHINE_FRAMES = 1 << 20,
    MACHINE_DEPTH = 512, /* frames on one another; deeper nesting is not allowed by masks */
    FRAME_TEXT = 0,      /* returns to the end of the text */
    FRAME_UNKNOWN = 1,   /* any stack: for masks that serve all states with the same nodes */
    RETURN_TEXT = -1,
    RETURN_UNKNOWN = -2,
    /* In place of a number, where no token is long enough for the difference: */
    COUNT_BELOW = -1, /* far below min */
    COUNT_ABOVE = -2, /* at least min, far below max */
};

struct pair { /* of a frame: a node to return to, and the frame below; of a state: a node and its frame */
    int32_t node, frame, count; /* count: of calls at a counted call, this one included; else 0 */
};
struct frame {
    int32_t first, n, depth; /* pairs */
};
struct mask {
    uint64_t *bits;   /* [n_word] tokens that are allowed whatever stands below */
    int32_t *subtree; /* [n_subtree] nodes of the trie whose tokens depend on it */
    int32_t n_subtree;
};
struct state {
    int32_t first, n;  /* pairs */
    int32_t core;      /* the state of the same nodes above FRAME_UNKNOWN; -1: not looked for */
    int32_t reach;     /* of a core: tokens of at most so many bytes are allowed as in state `far` */
    int32_t far;       /* ... with COUNT_BELOW and COUNT_ABOVE for numbers; -1: it has no numbers */
    bool may_end;      /* the text may end here */
    bool escaped;      /* one of its derivations has come to the end of FRAME_UNKNOWN */
    int32_t *next;     /* [n_class] by class of byte; -2: not looked for; NULL: none is */
    struct mask *mask; /* of a core; or, with no subtrees, of a state; NULL: not made */
};
struct table { /* numbers found by hash; -1: free */
    int32_t *slot;
    int32_t n_slot; /* a power of two */
};
struct grammar_machine {
    const struct grammar *g;
    const struct grammar_vocab *v;
    int32_t n_word;
    struct vec pair, frame, state; /* struct pair, frame, state */
    struct table frames, states, unions;
    struct vec united; /* struct united: unions that were made */
    /* Scratch of a closure. */
    int32_t *frame_of; /* [n_node] -1: the node is not in the set */
    bool *waits;       /* [n_node] in todo */
    int32_t *member;   /* [n_node] nodes in the set */
    int32_t *todo;     /* [n_node] */
    int32_t n_member, n_todo;
    bool may_end, escaped;
    struct pair *sorted; /* [n_node] */
    int32_t *at;         /* [max_depth + 1] a walk's states by depth */
    bool *open;          /* [max_depth + 1] and whether one of them has escaped */
    struct vec subtree;  /* int32_t */
    int32_t start;
    size_t mask_bytes; /* of masks of states that are no cores */
    struct grammar_counts counts;
};

static inline struct state *machine_state(const struct grammar_machine *m, int32_t s)
{
    return (struct state *)m->state.p + s;
}

/* *next: the state behind one byte, or GRAMMAR_DEAD. */
int machine_step(struct grammar_machine *m, int32_t state, uint8_t byte, int32_t *next, struct lutra_error *err);

/* Whether the text may go on with anything, tokens without text included. */
bool machine_is_free(const struct grammar_machine *m, int32_t state);

/* The state of the same nodes above FRAME_UNKNOWN; counts of the innermost counted call stay, as far as they matter. */
int machine_core(struct grammar_machine *m, int32_t state, int32_t *core, struct lutra_error *err);

#endif
