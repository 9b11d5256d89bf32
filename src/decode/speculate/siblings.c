/* SPDX-License-Identifier: MIT
 *
 * siblings: what followed in other replies to the same prompt, those that have ended (of this request, or of an earlier
 * one: another wave, a retry) and those that run beside this one.  The texts whose end agrees longest vote.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/speculate/drafter_impl.h"

enum { MATCH_MOST = 32, RING = 1 << 16, TEXTS = 64, LONGEST = RING / 4, PROMPT_END = 16, ALIKE = 5, ALIKE_OF = 8 };

/* A text that has ended: the prompt's last tokens and the reply. */
struct kept {
    uint64_t prompt_hash;
    int at, n; /* token[at .. at + n - 1]; n = 0: none */
};

struct siblings {
    struct kept kept[TEXTS]; /* kept[next] is the oldest */
    int next, end;           /* end: of the last text in the ring */
    const struct pass *pass; /* of the tips that are asked now */
    int32_t token[RING];
};

static int open_siblings(void **self, const struct spec_limits *lim, struct lutra_error *err)
{
    (void)lim;
    *self = calloc(1, sizeof(struct siblings));
    return *self ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "spec_type: siblings: out of memory");
}

static void begin(void *self, const struct pass *pass, const struct spec_wish *wish)
{
    (void)wish;
    ((struct siblings *)self)->pass = pass;
}

/* A text lies in one piece; those that it overwrites are forgotten. */
static void keep(void *self, const struct spec_text *text)
{
    struct siblings *s = self;
    int from = text->n_prompt > PROMPT_END ? text->n_prompt - PROMPT_END : 0, n = text->n_token - from;
    if (text->n_token <= text->n_prompt) return;
    if (n > LONGEST) n = LONGEST;
    int at = s->end + n <= RING ? s->end : 0;
    for (int i = 0; i < TEXTS; i++)
        if (s->kept[i].at < at + n && at < s->kept[i].at + s->kept[i].n) s->kept[i].n = 0;
    memcpy(s->token + at, text->token + from, (size_t)n * sizeof *s->token);
    s->kept[s->next] = (struct kept){text->prompt_hash, at, n};
    s->next = (s->next + 1) % TEXTS;
    s->end = at + n;
}

/* Places of the longest match so far. */
struct found {
    struct draft_place place[DRAFT_PLACES];
    int n, len;
};

static void look_in(struct found *f, const struct row_tip *tip, const int32_t *token, int n_token)
{
    int end[DRAFT_PLACES], len, cap = tip->n_token < MATCH_MOST ? tip->n_token : MATCH_MOST;
    int n = draft_find(token, n_token - 1, tip->token + tip->n_token - 1, cap, DRAFT_PLACES, end, &len);
    if (n == 0 || len < f->len) return;
    if (len > f->len) f->n = 0;
    f->len = len;
    for (int i = 0; i < n && f->n < DRAFT_PLACES; i++)
        f->place[f->n++] = (struct draft_place){token, n_token, end[i], false};
}

/* Where its end agrees with none, as behind a number of its own: the same place of texts that agree in most of the
 * tokens before. */
static void look_beside(struct found *f, const struct row_tip *tip, const int32_t *token, int n_token, int at)
{
    int alike = 0;
    if (at < ALIKE_OF || at >= n_token || tip->n_token < ALIKE_OF || f->n == DRAFT_PLACES) return;
    for (int i = 1; i <= ALIKE_OF; i++) alike += token[at - i] == tip->token[tip->n_token - i];
    if (alike >= ALIKE) f->place[f->n++] = (struct draft_place){token, n_token, at, false};
}

static int from_prompt(const struct row_tip *tip)
{
    return tip->n_prompt > PROMPT_END ? tip->n_prompt - PROMPT_END : 0;
}

static int draft(const struct draft_ask *ask, struct draft_node *node)
{
    const struct siblings *s = ask->self;
    const struct row_tip *tip = ask->tip;
    struct found f = {.n = 0}, beside = {.n = 0};
    int at = tip->n_token - from_prompt(tip);
    for (int i = 1; i <= TEXTS; i++) { /* the latest first */
        const struct kept *k = &s->kept[(s->next + TEXTS - i) % TEXTS];
        if (k->n < 2 || k->prompt_hash != tip->prompt_hash) continue;
        look_in(&f, tip, s->token + k->at, k->n);
        look_beside(&beside, tip, s->token + k->at, k->n, at);
    }
    for (int i = 0; i < s->pass->n_tip; i++) {
        const struct row_tip *t = &s->pass->tip[i];
        int from = from_prompt(t);
        if (t == tip || t->prompt_hash != tip->prompt_hash || t->n_token - from < 2) continue;
        look_in(&f, tip, t->token + from, t->n_token - from);
        look_beside(&beside, tip, t->token + from, t->n_token - from, at);
    }
    if (f.len < 2 && beside.n > 0) return draft_tree(ask, beside.place, beside.n, 2, node);
    return draft_tree(ask, f.place, f.n, f.len, node);
}

const struct drafter drafter_siblings = {
    .prior = 0.7f, .open = open_siblings, .close = free, .begin = begin, .draft = draft, .keep = keep};
