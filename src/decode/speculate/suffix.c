/* SPDX-License-Identifier: MIT
 *
 * suffix: every continuation of the longest match, by how often it was seen (after SuffixDecoding, arXiv 2411.04975,
 * with a scan in place of its suffix tree).
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
    int n_child;
    float p;
};

/* The likeliest token that is not in the tree yet: *from, one occurrence that goes on with it, and how many do. */
static int choose(const struct walk *w, const struct place *place, const struct draft_ask *ask, int len, int *from,
    float *p, int *kind)
{
    const int32_t *token = ask->tip->token;
    int best = 0, n_token = ask->tip->n_token;
    *p = 0;
    for (int i = 0; i < w->n; i++) {
        const struct place *up = &place[w->at[i]];
        int32_t next = draft_continuation(token, n_token, w->end[i], up->depth);
        int n = 0, as = draft_match_kind(len, up->depth, up->n_child);
        for (int j = 0; j < w->n; j++)
            n += w->at[j] == w->at[i] && draft_continuation(token, n_token, w->end[j], up->depth) == next;
        float path = up->p * (float)n / (float)up->n * ask->rate[as];
        if (path > *p) *p = path, *from = i, *kind = as, best = n;
    }
    return best;
}

static int draft(const struct draft_ask *ask, struct draft_node *node)
{
    struct walk w;
    const int32_t *token = ask->tip->token;
    int len, n = 0, n_token = ask->tip->n_token;
    struct place places[SPEC_DRAFT_MOST + 1], *place = places + 1; /* place[-1]: the tip */
    w.n = draft_matches(token, n_token, MATCH_MOST, OCCURRENCES, w.end, &len);
    for (int i = 0; i < w.n; i++) w.at[i] = -1;
    place[-1] = (struct place){0, w.n, 0, 1};
    for (float last = 1; n < ask->most; n++) {
        int from = 0, kind = 0;
        float p;
        int count = choose(&w, place, ask, len, &from, &p, &kind);
        if (count == 0) break;
        int up = w.at[from], depth = place[up].depth;
        int32_t next = draft_continuation(token, n_token, w.end[from], depth);
        last = p < last ? p : last; /* a second child's rate may be above the first's */
        node[n] = (struct draft_node){next, up, (float)count / (float)place[up].n, last, kind, 0, -1, 0, 0};
        place[n] = (struct place){depth + 1, count, 0, p};
        place[up].n_child++;
        for (int i = 0; i < w.n; i++)
            if (w.at[i] == up && draft_continuation(token, n_token, w.end[i], depth) == next) w.at[i] = n;
    }
    return n;
}

const struct drafter drafter_suffix = {.prior = 0.7f, .draft = draft};
