/* SPDX-License-Identifier: MIT
 *
 * suffix: every continuation of the longest match, by how often it was seen (after SuffixDecoding, arXiv 2411.04975,
 * with a scan in place of its suffix tree).
 */
#include "decode/speculate/drafter_impl.h"

enum { MATCH_MOST = 16, NOTHING = -1 };

/* An occurrence walks down the tree for as long as its continuation is in it. */
struct walk {
    const struct draft_place *place; /* [n] */
    int at[DRAFT_PLACES];            /* the node that it has reached, -1 the tip */
    int n;
};

struct branch {
    int depth, n; /* n: occurrences that came this way */
    int n_child;
    float p;
};

/* The token d places behind a place; NOTHING: the text ends before. */
static int32_t next_of(const struct draft_place *p, int d)
{
    if (p->wraps) return draft_continuation(p->token, p->n_token, p->end, d);
    return p->end + d < p->n_token ? p->token[p->end + d] : NOTHING;
}

/* The likeliest token that is not in the tree yet: *from, one occurrence that goes on with it, and how many do. */
static int choose(const struct walk *w, const struct branch *branch, const struct draft_ask *ask, int len, int *from,
    float *p, int *kind)
{
    int best = 0;
    *p = 0;
    for (int i = 0; i < w->n; i++) {
        const struct branch *up = &branch[w->at[i]];
        int32_t next = next_of(&w->place[i], up->depth);
        int n = 0, as = draft_match_kind(len, up->depth, up->n_child);
        if (next == NOTHING) continue;
        for (int j = 0; j < w->n; j++) n += w->at[j] == w->at[i] && next_of(&w->place[j], up->depth) == next;
        float path = up->p * (float)n / (float)up->n * ask->rate[as];
        if (path > *p) *p = path, *from = i, *kind = as, best = n;
    }
    return best;
}

int draft_tree(
    const struct draft_ask *ask, const struct draft_place *place, int n_place, int len, struct draft_node *node)
{
    struct walk w = {.place = place, .n = n_place};
    struct branch branches[SPEC_DRAFT_MOST + 1], *branch = branches + 1; /* branch[-1]: the tip */
    int n = 0;
    for (int i = 0; i < w.n; i++) w.at[i] = -1;
    branch[-1] = (struct branch){0, w.n, 0, 1};
    for (float last = 1; n < ask->most; n++) {
        int from = 0, kind = 0;
        float p;
        int count = choose(&w, branch, ask, len, &from, &p, &kind);
        if (count == 0) break;
        int up = w.at[from], depth = branch[up].depth;
        int32_t next = next_of(&place[from], depth);
        last = p < last ? p : last; /* a second child's rate may be above the first's */
        node[n] = (struct draft_node){next, up, (float)count / (float)branch[up].n, last, kind, 0, -1, 0, 0};
        branch[n] = (struct branch){depth + 1, count, 0, p};
        branch[up].n_child++;
        for (int i = 0; i < w.n; i++)
            if (w.at[i] == up && next_of(&place[i], depth) == next) w.at[i] = n;
    }
    return n;
}

static int draft(const struct draft_ask *ask, struct draft_node *node)
{
    struct draft_place place[DRAFT_PLACES];
    int len, end[DRAFT_PLACES], n_token = ask->tip->n_token;
    int n = draft_matches(ask->tip->token, n_token, MATCH_MOST, DRAFT_PLACES, end, &len);
    for (int i = 0; i < n; i++) place[i] = (struct draft_place){ask->tip->token, n_token, end[i], true};
    return draft_tree(ask, place, n, len, node);
}

const struct drafter drafter_suffix = {.prior = 0.7f, .draft = draft};
