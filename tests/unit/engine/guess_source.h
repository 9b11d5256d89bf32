/* SPDX-License-Identifier: MIT
 *
 * A row source that guesses: trees of random tokens, and of right ones where it knows what was said.
 */
#ifndef LUTRA_TESTS_GUESS_SOURCE_H
#define LUTRA_TESTS_GUESS_SOURCE_H

#include "engine/session_impl.h"

enum { GUESS_MOST = 24 };

struct guesser {
    struct row_source source;
    uint64_t state; /* of its random numbers */
    int most;       /* rows of one tree, up to GUESS_MOST */
    int right_in_8; /* of 8 guesses, so many know the text; 8: one chain of the text itself */
    int32_t (*right)(const void *text, const struct row_tip *tip, int depth); /* -1: it ends there */
    const void *text;
    long n_tree, n_right;
};

static inline int guess_below(struct guesser *g, int n)
{
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((g->state >> 33) % (unsigned)n);
}

static inline void guess_offer(void *self, struct pass *pass)
{
    struct guesser *g = self;
    for (int i = 0; i < pass->n_tip; i++) {
        int32_t row[GUESS_MOST + 1] = {pass->tip[i].row};
        int depth[GUESS_MOST + 1] = {0}, most = g->right_in_8 == 8 ? g->most : guess_below(g, g->most + 1);
        for (int n = 1; n <= most; n++) {
            int up = g->right_in_8 == 8 ? n - 1 : guess_below(g, n);
            int32_t token = guess_below(g, pass->n_vocab);
            if (guess_below(g, 8) < g->right_in_8) token = g->right(g->text, &pass->tip[i], depth[up] + 1);
            row[n] = pass_draft(pass, &pass->tip[i], row[up], token);
            depth[n] = depth[up] + 1;
            if (row[n] < 0) break;
        }
        g->n_tree += most > 0;
    }
}

static inline int guess_take(void *self, const struct pass *pass, struct lutra_error *err)
{
    (void)err;
    for (int i = 0; i < pass->n_tip; i++)
        ((struct guesser *)self)->n_right +=
            pass->batch->row[pass->tip[i].taken].pos - pass->batch->row[pass->tip[i].row].pos;
    return 0;
}

static inline void guess_begin(struct guesser *g, lutra_session *s)
{
    static const struct row_source_ops ops = {"guesses", SOURCE_DRAFTS, guess_offer, guess_take};
    g->source = (struct row_source){&ops, g, NULL};
    source_add(&s->sources, &g->source);
}

#endif
