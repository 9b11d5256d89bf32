/* SPDX-License-Identifier: MIT
 *
 * ngram-simple: prompt lookup (Saxena, "Prompt Lookup Decoding", 2023).  What followed the latest earlier occurrence of the
 * last tokens follows again.
 */
#include "decode/speculate/drafter_impl.h"

static int draft_ngram(const struct spec_settings *set, const float rate[DRAFT_BUCKETS], const int32_t *token,
    int n_token, int most, struct draft_node *node)
{
    int end, len;
    draft_matches(token, n_token, set->ngram_n, 1, &end, &len);
    if (len < SPEC_NGRAM_LEAST) return 0;
    float p = 1;
    for (int d = 0; d < most; d++) {
        int bucket =
            draft_bucket(len + d); /* a row is reached when all above it were right: the match has grown by them */
        p *= rate[bucket];
        node[d] = (struct draft_node){draft_continuation(token, n_token, end, d), d - 1, 1, p, bucket};
    }
    return most;
}

const struct drafter drafter_ngram_simple = {"ngram-simple", draft_ngram};
