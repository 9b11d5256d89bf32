/* SPDX-License-Identifier: MIT
 *
 * ngram-simple: prompt lookup (Saxena, "Prompt Lookup Decoding", 2023).  What followed the latest earlier occurrence of
 * the last tokens follows again.
 */
#include "decode/speculate/drafter_impl.h"

static int draft(const struct draft_ask *ask, struct draft_node *node)
{
    int end, len;
    draft_matches(ask->tip->token, ask->tip->n_token, ask->set->ngram_n, 1, &end, &len);
    if (len < SPEC_NGRAM_LEAST) return 0;
    float p = 1;
    for (int d = 0; d < ask->most; d++) {
        int kind = draft_match_kind(len, d, 0);
        p *= ask->rate[kind];
        node[d] = (struct draft_node){
            draft_continuation(ask->tip->token, ask->tip->n_token, end, d), d - 1, 1, p, kind, 0, -1, 0, 0};
    }
    return ask->most;
}

const struct drafter drafter_ngram_simple = {.prior = 0.7f, .draft = draft};
