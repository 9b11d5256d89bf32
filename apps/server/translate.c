/* SPDX-License-Identifier: MIT */
#include "translate.h"

#include <stdlib.h>
#include <string.h>

#include "state.h"

static void keep_scored(struct choice *c, const struct scored *scored, struct text *out)
{
    if ((c->n_scored & (c->n_scored - 1)) == 0) { /* room doubles at powers of two */
        size_t room = c->n_scored ? (size_t)c->n_scored * 2 : 1;
        struct scored *grown = realloc(c->scored, room * sizeof *grown);
        if (!grown) {
            out->failed = true;
            return;
        }
        c->scored = grown;
    }
    c->scored[c->n_scored++] = *scored;
}

static void take_text(struct exchange *x, const struct event *e, const char *text)
{
    struct reply *r = &x->reply;
    const struct ask *a = r->ask;
    struct choice *c = &r->choice[e->choice];
    enum lutra_part part = a->reasoning_in_text ? LUTRA_PART_ANSWER : e->part;
    bool shown = part == LUTRA_PART_ANSWER || (part == LUTRA_PART_REASONING && !a->hide_reasoning);
    bool scored = a->log_probs && e->scored.token >= 0;
    size_t n = shown ? e->n_bytes : 0;
    if (scored) keep_scored(c, &e->scored, &x->out);
    if (n > 0) text_add(part == LUTRA_PART_ANSWER ? &c->answer : &c->reasoning, text, n);
    x->out.failed = x->out.failed || c->answer.failed || c->reasoning.failed;
    if (!a->stream || x->out.failed || (n == 0 && !scored)) return;
    enum delta_kind kind = n == 0 ? DELTA_TOKEN : part == LUTRA_PART_ANSWER ? DELTA_ANSWER : DELTA_REASONING;
    x->route->dialect->delta(r, &(struct delta){kind, e->choice, text, n});
    c->begun = true;
    c->n_told = c->n_scored;
}

static void take_end(struct exchange *x, const struct event *e)
{
    struct reply *r = &x->reply;
    struct choice *c = &r->choice[e->choice];
    c->end = e->end;
    c->ended = true;
    if (!r->ask->stream || end_is_error(&e->end)) return;
    x->route->dialect->delta(r, &(struct delta){DELTA_END, e->choice, "", 0});
    c->begun = true;
}

void translate_events(struct exchange *x, const struct text *events)
{
    struct event e;
    x->reply.out = &x->out;
    for (size_t at = 0; at + sizeof e <= events->n; at += sizeof e + e.n_bytes) {
        memcpy(&e, events->bytes + at, sizeof e);
        if (e.kind == EVENT_END)
            take_end(x, &e);
        else
            take_text(x, &e, events->bytes + at + sizeof e);
    }
}

void translate_end(struct exchange *x)
{
    const struct dialect *d = x->route->dialect;
    x->reply.out = &x->out;
    if (!x->ask.stream)
        d->whole(&x->reply);
    else if (x->problem.status)
        d->broken(&x->problem, &x->out);
    else
        d->finish(&x->reply);
}
