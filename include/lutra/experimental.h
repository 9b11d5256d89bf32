/* SPDX-License-Identifier: MIT
 *
 * Not promised: what speculation is studied with.  These names and their meaning may change with any version; the rest
 * of lutra/ does without them.  Callbacks run as lutra/session.h says.
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

/* lutra_session_settings.experiment; read when the session opens. */
struct lutra_session_experiment {
    size_t size;
    /* What a further row costs, in passes of one row, 0..1: how much is drafted is then a matter of counts and the same
     * everywhere; 0 = as measured while it runs. */
    float draft_row_cost;
};
LUTRA_API void lutra_session_experiment_init(struct lutra_session_experiment *experiment, size_t size);

/* lutra_request.experiment; copied at submit. */
struct lutra_request_experiment {
    size_t size;
    /* [n_likely] tokens that its text will probably use beside those of the prompt, the likeliest first: calibrated
     * drafts look at them (spec_shortlist).  May be NULL. */
    const int32_t *likely;
    int n_likely;
    /* Where the session's drafters are calibrated: the hints of prompt tokens first .. first + n - 1, as they are
     * evaluated or found in the prefix cache; of all but the last token.  Borrowed for the call.  May be NULL. */
    void (*on_hints)(void *user, int32_t request, int first, const struct lutra_hints *hints, int n);
    /* [n_prompt] hints of its prompt's tokens that are known already, e.g. of an earlier prompt with the same text in
     * it (lutra_recall_known()); p[0] 0: not known.  Where the session's drafters are calibrated, those rows are not
     * evaluated for hints again.  They are guesses like all hints: wrong ones cost passes, never the text.  A token or
     * p that cannot be is LUTRA_E_ARGUMENT.  May be NULL. */
    const struct lutra_hints *known_hints;
    /* [n_forced] what its samples say, whatever the model holds likely, and no more: to measure drafts at a text that
     * random weights would not write.  Log-probs are 0.  NULL = they say what is sampled. */
    const int32_t *forced;
    int n_forced;
};
LUTRA_API void lutra_request_experiment_init(struct lutra_request_experiment *experiment, size_t size);

#ifdef __cplusplus
}
#endif
#endif
