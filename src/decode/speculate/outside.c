/* SPDX-License-Identifier: MIT
 *
 * Guesses of a caller's drafter, which the tip names (row_tip.guess), put in order.
 */
#include "decode/speculate/drafter_impl.h"

enum { BY_DEPTH = 5 };
_Static_assert((int)DRAFT_KINDS == (int)BY_DEPTH + (int)GUESS_KINDS, "kinds by depth, then those that guesses name");

/* By depth: 1, 2, 3-4, 5-8, more. */
static int kind_of(const struct draft_guess *guess, int depth)
{
    int kind = 0;
    if (guess->kind) return BY_DEPTH + guess->kind - 1;
    while (kind < BY_DEPTH - 1 && depth > 1 << kind) kind++;
    return kind;
}

/* The likeliest guess that is not in order yet and whose parent is: guess i has become node at[i], or -1. */
static int choose(const struct draft_ask *ask, const struct draft_guess *guess, int n, const int *at, const int *depth,
    const struct draft_node *node, struct draft_node *out)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        int parent = guess[i].parent;
        if (at[i] >= 0 || (parent >= 0 && at[parent] < 0)) continue;
        int kind = kind_of(&guess[i], depth[i]);
        float rate = ask->rate[kind] > 0 ? ask->rate[kind] : guess[i].rate;
        float p = (parent < 0 ? 1 : node[at[parent]].p) * guess[i].p * rate;
        if (best >= 0 && p <= out->p) continue;
        best = i;
        *out = (struct draft_node){.token = guess[i].token,
            .parent = parent < 0 ? -1 : at[parent],
            .share = guess[i].p,
            .p = p,
            .kind = kind,
            .prior = guess[i].rate,
            .row = -1};
    }
    return best;
}

static int draft(const struct draft_ask *ask, struct draft_node *node)
{
    const struct row_tip *tip = ask->tip;
    struct draft_guess guess[SPEC_DRAFT_MOST];
    int at[SPEC_DRAFT_MOST], depth[SPEC_DRAFT_MOST],
        n = tip->guess ? tip->guess(tip->guesser, tip, ask->rate + BY_DEPTH, ask->most, guess) : 0;
    for (int i = 0; i < n; i++) {
        at[i] = -1;
        depth[i] = guess[i].parent < 0 ? 1 : depth[guess[i].parent] + 1;
    }
    for (int k = 0; k < n; k++) at[choose(ask, guess, n, at, depth, node, &node[k])] = k;
    return n;
}

const struct drafter drafter_outside = {.prior = 0.95f, .n_prior = BY_DEPTH, .draft = draft};
