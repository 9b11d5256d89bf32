/* SPDX-License-Identifier: MIT */
#include "translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

static void keep_scored(struct scored **list, int *n, const struct scored *scored, struct text *out)
{
    if ((*n & (*n - 1)) == 0) { /* room doubles at powers of two */
        size_t room = *n ? (size_t)*n * 2 : 1;
        struct scored *grown = realloc(*list, room * sizeof *grown);
        if (!grown) {
            out->failed = true;
            return;
        }
        *list = grown;
    }
    (*list)[(*n)++] = *scored;
}

/* A choice's text on its way. */
struct course {
    struct exchange *exchange;
    int choice;
    bool told;
};

static void tell(struct course *to, enum delta_kind kind, const char *text, size_t n)
{
    struct exchange *x = to->exchange;
    struct choice *c = &x->reply.choice[to->choice];
    to->told = true;
    x->out.failed = x->out.failed || c->answer.failed || c->reasoning.failed;
    if (!x->ask.stream || x->out.failed) return;
    x->route->dialect->delta(&x->reply, &(struct delta){kind, to->choice, text, n});
    c->begun = true;
    c->n_told = c->n_scored;
}

static void on_text(void *user, const char *text, size_t n, bool thought)
{
    struct course *to = user;
    struct choice *c = &to->exchange->reply.choice[to->choice];
    if (thought && to->exchange->ask.hide_reasoning) return;
    text_add(thought ? &c->reasoning : &c->answer, text, n);
    tell(to, thought ? DELTA_REASONING : DELTA_ANSWER, text, n);
}

static void on_call(void *user, const char *name, size_t n)
{
    struct course *to = user;
    struct exchange *x = to->exchange;
    struct choice *c = &x->reply.choice[to->choice];
    struct call *grown = realloc(c->call, (size_t)(c->n_call + 1) * sizeof *grown);
    if (!grown) {
        x->out.failed = true;
        return;
    }
    c->call = grown;
    struct call *call = &c->call[c->n_call++];
    *call = (struct call){0};
    snprintf(call->name, sizeof call->name, "%.*s", (int)n, name);
    snprintf(call->id, sizeof call->id, "call_%.12s%02d%02d", x->reply.id, to->choice % 100, c->n_call % 100);
    tell(to, DELTA_CALL, "", 0);
}

static void on_arguments(void *user, const char *json, size_t n)
{
    struct course *to = user;
    struct choice *c = &to->exchange->reply.choice[to->choice];
    if (c->n_call == 0) return;
    text_add(&c->call[c->n_call - 1].arguments, json, n);
    if (c->call[c->n_call - 1].arguments.failed) to->exchange->out.failed = true;
    tell(to, DELTA_ARGUMENTS, json, n);
}

static void take_text(struct exchange *x, const struct event *e, const char *text)
{
    const struct ask *a = x->reply.ask;
    struct choice *c = &x->reply.choice[e->choice];
    struct course to = {x, e->choice, false};
    struct call_sink sink = {on_text, on_call, on_arguments, &to};
    bool whole = a->reasoning_in_text || a->calls == CALLS_HARMONY; /* its parser tells channels apart */
    enum lutra_part part = whole ? LUTRA_PART_ANSWER : e->part;
    bool scored = a->log_probs && e->scored.token >= 0;
    if (e->part == LUTRA_PART_REASONING && e->scored.token >= 0) c->n_thought++;
    if (scored) keep_scored(&c->scored, &c->n_scored, &e->scored, &x->out);
    if (e->n_bytes > 0 && part == LUTRA_PART_ANSWER) calls_feed(&c->calls, text, e->n_bytes, &sink);
    if (e->n_bytes > 0 && part == LUTRA_PART_REASONING) on_text(&to, text, e->n_bytes, true);
    if (scored && !to.told) tell(&to, DELTA_TOKEN, "", 0);
}

static void take_end(struct exchange *x, const struct event *e)
{
    struct choice *c = &x->reply.choice[e->choice];
    struct course to = {x, e->choice, false};
    struct call_sink sink = {on_text, on_call, on_arguments, &to};
    calls_end(&c->calls, &sink);
    c->end = e->end;
    c->ended = true;
    if (!end_is_error(&e->end)) tell(&to, DELTA_END, "", 0);
}

static void take_note(struct exchange *x, const struct event *e, const char *member)
{
    const struct dialect *d = x->route->dialect;
    if (x->ask.stream) {
        if (d->note && (x->ask.events || !e->on_request)) d->note(&x->reply, member, e->n_bytes);
    } else if (e->keep) {
        if (x->reply.notes.n) text_put(&x->reply.notes, ",");
        text_add(&x->reply.notes, member, e->n_bytes);
        x->out.failed = x->out.failed || x->reply.notes.failed;
    }
}

static void take_progress(struct exchange *x, const struct event *e)
{
    const struct dialect *d = x->route->dialect;
    if (d->progress) d->progress(&x->reply, e->choice, &e->progress);
}

void translate_events(struct exchange *x, const struct text *events)
{
    struct event e;
    x->reply.out = &x->out;
    for (size_t at = 0; at + sizeof e <= events->n; at += sizeof e + e.n_bytes) {
        memcpy(&e, events->bytes + at, sizeof e);
        struct choice *c = &x->reply.choice[e.choice];
        if (e.kind == EVENT_NOTE)
            take_note(x, &e, events->bytes + at + sizeof e);
        else if (e.kind == EVENT_SCORED)
            keep_scored(&c->asked, &c->n_asked, &e.scored, &x->out);
        else if (e.kind == EVENT_PROGRESS)
            take_progress(x, &e);
        else if (e.kind == EVENT_END)
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
