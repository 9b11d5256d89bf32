/* SPDX-License-Identifier: MIT
 *
 * calibrated: what the model itself held likely where the text's end stood before [SDNPU 4.3].
 *
 * The rows of a prompt, and those decoded since, have left the best 8 that the model expected behind them
 * (row_tip.hints).  First: where the last token stood, behind the longest equal stretch before it, what was expected
 * there.  Then: the same for what that leads to, and so on down a tree, best first.  So drafts say what the model
 * would, where the prompt says it otherwise.
 */
#include "decode/speculate/drafter_impl.h"

enum { MATCH_MOST = 8, OCCURRENCES = 8 };

/* A place in the tree, and what is expected behind it. */
struct place {
    int32_t token;
    int up, depth; /* up: -1 the tip */
    int len;       /* tokens that stood there before, too */
    int n_child;
    float p;
    struct row_hints next; /* a mean over places in the text */
};

/* The k-th token before the end of a place's path, and behind its beginning of the text. */
static int32_t token_before(const struct draft_ask *ask, const struct place *place, int at, int k)
{
    for (; at >= 0 && k > 0; k--) at = place[at].up;
    return at >= 0 ? place[at].token : ask->tip->token[ask->tip->n_token - 1 - k];
}

static void add_hints(struct row_hints *sum, const struct row_hints *one)
{
    for (int i = 0; i < ROW_HINTS && one->p[i] > 0; i++) {
        int k = 0, least = 0;
        for (; k < ROW_HINTS && sum->p[k] > 0 && sum->token[k] != one->token[i]; k++)
            if (sum->p[k] < sum->p[least]) least = k;
        if (k == ROW_HINTS) {
            if (sum->p[least] >= one->p[i]) continue;
            sum->p[k = least] = 0;
        }
        sum->token[k] = one->token[i];
        sum->p[k] += one->p[i];
    }
}

/* Best first, as shares of n places. */
static void put_in_order(struct row_hints *h, int n)
{
    for (int i = 0; i < ROW_HINTS; i++) {
        int32_t token = h->token[i];
        float p = h->p[i] / (float)n;
        int k = i;
        for (; k > 0 && h->p[k - 1] < p; k--) h->p[k] = h->p[k - 1], h->token[k] = h->token[k - 1];
        h->p[k] = p;
        h->token[k] = token;
    }
}

/* What was expected where a place's path stood in the text: the latest of the longest matches. */
static void look_up(const struct draft_ask *ask, struct place *place, int at)
{
    const struct row_tip *tip = ask->tip;
    struct place *to = &place[at];
    int32_t path[MATCH_MOST];
    int cap = tip->n_token + to->depth < MATCH_MOST ? tip->n_token + to->depth : MATCH_MOST, end[OCCURRENCES], n = 0;
    for (int k = 0; k < cap; k++) path[MATCH_MOST - 1 - k] = token_before(ask, place, at, k);
    int n_end = draft_find(tip->token, tip->n_token - 1, &path[MATCH_MOST - 1], cap, OCCURRENCES, end, &to->len);
    to->next = (struct row_hints){0};
    for (int i = 0; i < n_end; i++) {
        add_hints(&to->next, &tip->hints[end[i] - 1]);
        n += tip->hints[end[i] - 1].p[0] > 0;
    }
    if (n > 0) put_in_order(&to->next, n);
}

/* By rank (0, 1, 2-3, 4-7), length of the match (1, 2-3, more) and whether at the tip. */
static int kind_of(const struct place *up)
{
    int r = up->n_child < 2 ? up->n_child : up->n_child < 4 ? 2 : 3, len = up->len < 2 ? 0 : up->len < 4 ? 1 : 2;
    return 6 * r + 2 * len + (up->depth > 0);
}

static int draft(const struct draft_ask *ask, struct draft_node *node)
{
    struct place places[SPEC_DRAFT_MOST + 1], *place = places + 1; /* place[-1]: the tip */
    int n = 0;
    if (!ask->tip->hints) return 0;
    place[-1] = (struct place){.up = -1, .p = 1};
    look_up(ask, place, -1);
    for (float last = 1; n < ask->most; n++) {
        int up = -1;
        float p = 0;
        for (int i = -1; i < n; i++) {
            if (place[i].n_child == ROW_HINTS) continue;
            float path = place[i].p * place[i].next.p[place[i].n_child] * ask->rate[kind_of(&place[i])];
            if (path > p) p = path, up = i;
        }
        if (p < ask->set->p_min || p <= 0) break;
        struct place *from = &place[up];
        int rank = from->n_child;
        last = p < last ? p : last; /* a later child's rate may be above an earlier's */
        node[n] = (struct draft_node){from->next.token[rank], up, from->next.p[rank], last, kind_of(from), 0, -1, 0, 0};
        from->n_child++;
        place[n] = (struct place){.token = node[n].token, .up = up, .depth = from->depth + 1, .p = p};
        look_up(ask, place, n);
    }
    return n;
}

const struct drafter drafter_calibrated = {.prior = 0.7f, .wants_top = true, .wants_hints = true, .draft = draft};
