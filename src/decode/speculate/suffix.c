/* SPDX-License-Identifier: MIT
 *
 * suffix: every continuation of the longest match, by how often it was seen (after SuffixDecoding, arXiv 2411.04975, with a
 * scan in place of its suffix tree).
 */
#include "decode/speculate/drafter_impl.h"

enum { MATCH_MOST = 16, OCCURRENCES = 32 };

/* An occurrence walks down the tree for as long as its continuation is in it. */
struct walk {
    int end[OCCURRENCES], at[OCCURRENCES]; /* at: the node it has reached, -1 the tip */
    int n;
};

struct place {
    int depth, n; /* n: occurrences that came this way */
    float p;
};

/* The likeliest token that is not in the tree yet: *from, one occurrence that goes on with it, and how many do. */
static int choose(const struct walk *w, const struct place *place, const int32_t *token, int n_token, const float *rate,
    int len, int *from, float *p)
{
    int best = 0;
    *p = 0;
    for (int i = 0; i < w->n; i++) {
        const struct place *up = &place[w->at[i]];
        int32_t next = draft_continuation(token, n_token, w->end[i], up->depth);
        int n = 0;
        for (int j = 0; j < w->n; j++)
            n += w->at[j] == w->at[i] && draft_continuation(token, n_token, w->end[j], up->depth) == next;
        float path = up->p * (float)n / (float)up->n * rate[draft_bucket(len + up->depth)];
        if (path > *p) *p = path, *from = i, best = n;
    }
    return best;
}

static int draft_suffix(const struct spec_settings *set, const float rate[DRAFT_BUCKETS], const int32_t *token,
    int n_token, int most, struct draft_node *node)
{
    (void)set;
    struct walk w;
    int len, n = 0;
    struct place places[SPEC_DRAFT_MOST + 1], *place = places + 1; /* place[-1]: the tip */
    w.n = draft_matches(token, n_token, MATCH_MOST, OCCURRENCES, w.end, &len);
    for (int i = 0; i < w.n; i++) w.at[i] = -1;
    place[-1] = (struct place){0, w.n, 1};
    for (; n < most; n++) {
        int from = 0;
        float p;
        int count = choose(&w, place, token, n_token, rate, len, &from, &p);
        if (count == 0) break;
        int up = w.at[from], depth = place[up].depth;
        int32_t next = draft_continuation(token, n_token, w.end[from], depth);
        node[n] = (struct draft_node){next, up, (float)count / (float)place[up].n, p, draft_bucket(len + depth)};
        place[n] = (struct place){depth + 1, count, p};
        for (int i = 0; i < w.n; i++)
            if (w.at[i] == up && draft_continuation(token, n_token, w.end[i], depth) == next) w.at[i] = n;
    }
    return n;
}

const struct drafter drafter_suffix = {"suffix", draft_suffix};
