/* SPDX-License-Identifier: MIT
 *
 * Not promised: what speculation is studied with.  These names and their meaning may change with any version; the rest
 * of lutra/ does without them.
 */
#ifndef LUTRA_EXPERIMENTAL_H
#define LUTRA_EXPERIMENTAL_H

#include "lutra/core.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LUTRA_DRAFT_KINDS = 24 };

/* Where a sample stands when drafts for it are asked for: its text so far. */
struct lutra_draft_tip {
    int32_t request;
    int sample;
    const int32_t *token; /* [n_token] the prompt's and its own */
    int n_token;
    /* [LUTRA_DRAFT_KINDS] a draft of kind k with p was right in p * rate[k - 1] of the cases; 0: none was seen yet.
     * NULL: none of any kind. */
    const float *rate;
};

/* A guess at what the sample says next, or behind another guess.  Never changes. */
struct lutra_draft {
    int32_t token;
    int parent; /* a draft before this one that it continues; -1: the text */
    float p;    /* how likely it is if its parent is right, 0..1 */
    int kind;   /* 1..LUTRA_DRAFT_KINDS: drafts on the same ground, whose rate is learnt apart; 0: by depth */
    float rate; /* that of its kind before any draft of it was seen, 0..1 */
};

/* What the model holds likely behind a token: the best of those it has looked at (spec_shortlist).  Never changes. */
struct lutra_hints {
    int32_t token[8]; /* best first */
    float p[8];       /* share; 0: no more */
};
/* What a session's hints are of: the model's file as it is and the shortlist's length.  Where this number is the same,
 * hints of one session serve another; 0: it has none, no drafter is calibrated. */
LUTRA_API uint64_t lutra_session_hints(const lutra_session *session);

#ifdef __cplusplus
}
#endif
#endif
