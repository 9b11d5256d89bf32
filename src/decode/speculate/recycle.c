/* SPDX-License-Identifier: MIT
 *
 * recycle: a table of what the model itself has held likely behind each token, walked from the text's last token (after
 * Token Recycling, arXiv 2408.08696), one cache line for each token of the vocabulary.  Every row that was verified
 * refreshes the entry of its token with its best 8 and their probabilities, rejected rows, too [SDNPU 4.4]: they were
 * computed anyway.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decode/speculate/drafter_impl.h"

/* A table for each cache domain.  Tables take memory as they are written. */
enum { DOMAINS = 8 };

struct recycler {
    int32_t n_vocab;
    int64_t n_pass;
    struct draft_domain domain[DOMAINS];
    struct row_hints *table[DOMAINS]; /* [n_vocab] */
};

static void close_tables(void *self)
{
    struct recycler *r = self;
    if (r)
        for (int i = 0; i < DOMAINS; i++) free(r->table[i]);
    free(r);
}

static int open_tables(void **self, const struct spec_limits *lim, struct lutra_error *err)
{
    struct recycler *r = *self = calloc(1, sizeof *r);
    bool ok = r;
    for (int i = 0; i < DOMAINS && ok; i++) ok = (r->table[i] = calloc((size_t)lim->n_vocab, sizeof(struct row_hints)));
    if (ok) return r->n_vocab = lim->n_vocab, 0;
    close_tables(r);
    *self = NULL;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "recycle: no memory for %d tokens", lim->n_vocab);
}

/* The domain's table to write into, a new one if need be; NULL: all are others'. */
static struct row_hints *take_table(struct recycler *r, uint64_t domain)
{
    bool was_others;
    int i = draft_domain_take(r->domain, DOMAINS, domain, r->n_pass, &was_others);
    if (i < 0) return NULL;
    if (was_others) memset(r->table[i], 0, (size_t)r->n_vocab * sizeof *r->table[i]);
    return r->table[i];
}

/* By rank (0, 1, 2-3, 4-7) and by depth (tip, one below, further). */
static int kind_of(int rank, int depth)
{
    int r = rank < 2 ? rank : rank < 4 ? 2 : 3;
    return 3 * r + (depth < 2 ? depth : 2);
}

struct place {
    int32_t token;
    int depth, n_child;
    float p;
};

/* Best first: each time the likeliest of all next children. */
static int draft(const struct draft_ask *ask, struct draft_node *node)
{
    const struct recycler *r = ask->self;
    int known = draft_domain_find(r->domain, DOMAINS, ask->tip->domain);
    struct place places[SPEC_DRAFT_MOST + 1], *place = places + 1; /* place[-1]: the tip */
    int n = 0;
    if (known < 0) return 0;
    const struct row_hints *table = r->table[known];
    place[-1] = (struct place){ask->tip->token[ask->tip->n_token - 1], 0, 0, 1};
    for (float last = 1; n < ask->most; n++) {
        int up = -1, kind = 0;
        float p = 0;
        for (int i = -1; i < n; i++) {
            const struct place *at = &place[i];
            if (at->n_child == ROW_HINTS) continue;
            int as = kind_of(at->n_child, at->depth);
            float path = at->p * table[at->token].p[at->n_child] * ask->rate[as];
            if (path > p) p = path, up = i, kind = as;
        }
        if (p < ask->set->p_min || p <= 0) break;
        const struct row_hints *e = &table[place[up].token];
        int rank = place[up].n_child++;
        last = p < last ? p : last; /* a later child's rate may be above an earlier's */
        node[n] = (struct draft_node){e->token[rank], up, e->p[rank], last, kind, 0, -1, 0, 0};
        place[n] = (struct place){e->token[rank], place[up].depth + 1, 0, p};
    }
    return n;
}

static uint64_t domain_of(const struct pass *pass, int row)
{
    return pass->domain ? pass->domain[row] : 0;
}

/* Rows of prompts that have hints [SDNPU 4.3], then rows that were verified. */
static void see(void *self, const struct pass *pass)
{
    struct recycler *to = self;
    struct row_hints *table;
    to->n_pass++;
    for (int r = 0; r < pass->batch->n_row; r++)
        if (pass->batch->row[r].hints && (table = take_table(to, domain_of(pass, r))))
            table[pass->batch->row[r].token] = *pass->batch->row[r].hints;
    for (int i = 0; i < pass->n_result; i++) {
        const struct row_result *r = &pass->result[i];
        const struct row *row = &pass->batch->row[r->row];
        if (row->want & WANT_TOPK && isfinite(r->log_sum_exp) && (table = take_table(to, domain_of(pass, r->row))))
            row_hints_of(r, &table[row->token]);
    }
}

const struct drafter drafter_recycle = {.prior = 0.7f,
    .wants_top = true,
    .faint = true,
    .open = open_tables,
    .close = close_tables,
    .draft = draft,
    .see = see};
