/* SPDX-License-Identifier: MIT
 *
 * extend: what stood behind a rejected draft is offered once more [SDNPU 4.4, equation 3].
 *
 * A rejection is often for a time: the text has a word more, or another word, and then goes on as drafted.  So where a
 * draft was rejected, the longest stretch of it of which the model ranks each token high (among the best 8 behind the
 * one before) is kept for a few passes.  It is offered behind the text's end: behind its own last match with that, else
 * from its start.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/speculate/drafter_impl.h"

enum { STRETCH_MOST = 32, RANKED = 8, LIFETIME = 4 };

/* Of the sample that it came from. */
struct stretch {
    int32_t request, sample;
    int32_t token[STRETCH_MOST];
    int n, left; /* passes that it may still be offered in; 0: empty */
};

struct extender {
    int n_seq;
    struct stretch stretch[]; /* [n_seq] */
};

static int open_stretches(void **self, const struct spec_limits *lim, struct lutra_error *err)
{
    struct extender *x = calloc(1, sizeof *x + (size_t)lim->n_seq * sizeof *x->stretch);
    if (!x) return lutra_fail(err, LUTRA_E_NO_MEMORY, "recycle: no memory for %d sequences", lim->n_seq);
    x->n_seq = lim->n_seq;
    *self = x;
    return 0;
}

/* The sample's, or the one that will be missed least. */
static struct stretch *find(struct extender *x, const struct row_tip *tip, bool or_make)
{
    struct stretch *oldest = &x->stretch[0];
    for (int i = 0; i < x->n_seq; i++) {
        struct stretch *s = &x->stretch[i];
        if (s->left > 0 && s->request == tip->request && s->sample == tip->sample) return s;
        if (s->left < oldest->left) oldest = s;
    }
    return or_make ? oldest : NULL;
}

static int draft(const struct draft_ask *ask, struct draft_node *node)
{
    const struct row_tip *tip = ask->tip;
    const struct stretch *s = find(ask->self, tip, false);
    int from = 0, n = 0;
    float p = 1;
    if (!s) return 0;
    for (int i = s->n - 2; i >= 0 && from == 0; i--)
        if (s->token[i] == tip->token[tip->n_token - 1]) from = i + 1;
    for (; n < ask->most && from + n < s->n; n++) {
        int kind = 2 * (n < 3 ? n : 3) + (from > 0); /* by depth, by how it was placed */
        p *= ask->rate[kind];
        node[n] = (struct draft_node){s->token[from + n], n - 1, 1, p, kind, 0, -1, 0, 0};
    }
    return n;
}

static bool ranks_high(const struct pass *pass, int32_t row)
{
    const struct row_result *r = pass_result(pass, pass->batch->row[row].parent);
    for (int i = 0; r && i < r->n_top && i < RANKED; i++)
        if (r->top_id[i] == pass->batch->row[row].token) return true;
    return false;
}

/* The longest stretch of high-ranking tokens that ends in a rejected draft of this tip. */
static void keep_longest(struct extender *x, const struct pass *pass, const struct row_tip *tip)
{
    const struct batch *b = pass->batch;
    int32_t best_end = -1, seq = b->row[tip->row].seq;
    int best = 0;
    for (int32_t r = tip->row + 1; r < pass->draft_end; r++) {
        if (b->row[r].seq != seq || !(b->row[r].want & ROW_DRAFT)) continue;
        int n = 0;
        int32_t at = r;
        while (at > tip->taken && n < STRETCH_MOST && ranks_high(pass, at)) at = b->row[at].parent, n++;
        if (n <= best) continue;
        while (at > tip->taken) at = b->row[at].parent;
        if (at != tip->taken) continue; /* of another branch, rejected further up */
        best = n;
        best_end = r;
    }
    if (best < 2) return; /* one token is what recycle offers */
    struct stretch *s = find(x, tip, true);
    *s = (struct stretch){.request = tip->request, .sample = tip->sample, .n = best, .left = LIFETIME};
    for (int i = best - 1; i >= 0; i--, best_end = b->row[best_end].parent) s->token[i] = b->row[best_end].token;
}

static void see(void *self, const struct pass *pass)
{
    struct extender *x = self;
    for (int i = 0; i < x->n_seq; i++) x->stretch[i].left -= x->stretch[i].left > 0;
    for (int i = 0; i < pass->n_tip; i++)
        if (pass->tip[i].picked >= 0) keep_longest(x, pass, &pass->tip[i]);
}

const struct drafter drafter_extend = {
    .prior = 0.385f, /* of rejected tokens become right within a few passes [SDNPU Table 2] */
    .wants_top = true,
    .faint = true,
    .open = open_stretches,
    .close = free,
    .draft = draft,
    .see = see};
