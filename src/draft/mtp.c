/* SPDX-License-Identifier: MIT
 *
 * A model's own MTP block as a drafter: a session of that block (model_open_block), beside the model's, with a track
 * for each text that is being continued.  Row k of a track reads token k + 1 of the text and the state that the model
 * left for token k, and says what follows token k + 1.  Behind the last token whose state is known the block goes on
 * with its own states and guesses; these rows are taken back before the next pass.
 *
 * The states are results of the model's passes: a row source without rows asks for those of all tips and drafts, and
 * keeps the ones of tokens that became text.  A track begins where the first state of its text was seen: the block does
 * not know the prompt but for its last token.
 */
#include <stdlib.h>
#include <string.h>

#include "draft/draft_impl.h"

enum { STATES = 64 /* of a track that the block has not read yet */ };

struct track {
    int request, sample; /* whose text, as row_tip has it; request -1: nobody's */
    uint64_t used;       /* pass that has used it last */
    int32_t seq;         /* of the block's session */
    int first, n;        /* its rows are those of tokens first .. first + n - 1 ... */
    int n_state;         /* ... and these are the states of the next tokens */
    float *state;        /* [STATES][d_model] */
    int32_t *token;      /* [n_ctx + 1] the text up to the token behind the last state */
};

struct mtp {
    lutra_session *first, *s;    /* whose samples; the block's */
    int n_ctx, n_seq, n_batch;   /* of the first; of the block's */
    const struct sample *sample; /* [n_seq] */
    lutra_model *block;
    struct row_source source;
    struct track *track; /* [n_track] */
    int n_track, d_model;
    float *state;              /* of all tracks */
    int32_t *token;            /* of all tracks */
    struct draft_chain *chain; /* [n_seq] */
    struct track **of;         /* [n_seq] the track of a slot with a chain */
    float *said;               /* [n_seq][d_model] the block's state at the end of a chain */
    const float **given;
    uint64_t n_pass;
    int n_idle; /* passes since it was tried */
};

/* ---- tracks ---- */

/* Tokens of the text that it knows. */
static int n_known(const struct track *t)
{
    return t->first + t->n + t->n_state + 1;
}

static bool knows(const struct track *t, const int32_t *token, int n)
{
    return n <= n_known(t) && memcmp(t->token, token, (size_t)n * sizeof *token) == 0;
}

static struct track *find(const struct mtp *d, int request, int sample)
{
    for (int i = 0; i < d->n_track; i++)
        if (d->track[i].request == request && d->track[i].sample == sample) return &d->track[i];
    return NULL;
}

/* Row 0 is that of token `first`. */
static void restart(struct mtp *d, struct track *t, int first)
{
    lutra_seq_truncate(d->s, t->seq, 0, NULL);
    t->first = first;
    t->n = t->n_state = 0;
}

/* Another's rows and states of a text's tokens before token `at`, where it has them: the text was forked from it. */
static void fork_track(struct mtp *d, struct track *t, const int32_t *token, int at)
{
    for (const struct track *from = d->track; from < d->track + d->n_track; from++) {
        if (from == t || from->request != t->request || from->first >= at || !knows(from, token, at + 1)) continue;
        int n = from->n < at - from->first ? from->n : at - from->first;
        lutra_seq_close(d->s, t->seq);
        if (lutra_seq_fork(d->s, from->seq, n, d->n_ctx, &t->seq, NULL) < 0) {
            t->seq = -1;
            lutra_seq_open(d->s, d->n_ctx, &t->seq, NULL); /* there is room: one was closed */
            return;
        }
        t->first = from->first;
        t->n = n;
        t->n_state = at - from->first - n;
        memcpy(t->state, from->state, (size_t)t->n_state * (size_t)d->d_model * sizeof *t->state);
        return;
    }
}

/* The track of a text, ready for the state of its token `at`; token [n > at]. */
static struct track *track_for(struct mtp *d, int request, int sample, const int32_t *token, int at)
{
    struct track *t = find(d, request, sample);
    if (!t) {
        t = d->track;
        for (int i = 1; i < d->n_track; i++)
            if (d->track[i].used < t->used) t = &d->track[i];
        t->request = request;
        t->sample = sample;
        restart(d, t, 0);
    }
    t->used = d->n_pass;
    if (n_known(t) - 1 == at && knows(t, token, at + 1)) return t;
    restart(d, t, at);
    fork_track(d, t, token, at);
    memcpy(t->token, token, ((size_t)at + 1) * sizeof *token);
    return t;
}

/* ---- rows of the block ---- */

/* Row k behind those that are evaluated; the one before it is the row added last. */
static void add_row(
    struct mtp *d, const struct track *t, int k, int32_t token, const float *state, uint32_t want, int *n)
{
    session_rows(d->s)[*n] = (struct row){.token = token,
        .pos = lutra_seq_length(d->s, t->seq) + k,
        .seq = t->seq,
        .parent = k ? *n - 1 : -1,
        .want = want};
    d->given[(*n)++] = state;
}

/* Rows for all states of a track, the last one with a result or none; false: there is no room. */
static bool add_states(struct mtp *d, const struct track *t, uint32_t want, int *n)
{
    if (*n + t->n_state > d->n_batch) return false;
    for (int k = 0; k < t->n_state; k++)
        add_row(d, t, k, t->token[t->first + t->n + k + 1], t->state + (size_t)k * (size_t)d->d_model,
            k == t->n_state - 1 ? want : WANT_NOTHING, n);
    return true;
}

static void read_states(struct track *t)
{
    t->n += t->n_state;
    t->n_state = 0;
}

/* The state of the next token, and the token behind that. */
static void add_state(struct mtp *d, struct track *t, const float *state, int32_t next)
{
    if (t->n_state == STATES) {
        int n = 0;
        if (add_states(d, t, WANT_NOTHING, &n) && session_forward(d->s, n, false, NULL) == 0)
            read_states(t);
        else
            restart(d, t, n_known(t) - 1);
    }
    memcpy(t->state + (size_t)t->n_state * (size_t)d->d_model, state, (size_t)d->d_model * sizeof *state);
    t->token[t->first + t->n + ++t->n_state] = next;
}

/* ---- what passes leave ---- */

/* All rows that have a result leave their states, too. */
static void ask(void *self, struct pass *pass)
{
    (void)self;
    for (int i = 0; i < pass->batch->n_row; i++)
        if (pass->batch->row[i].want & WANT_ALL) pass->batch->row[i].want |= WANT_HIDDEN;
}

/* A tip's states, from its own to that of the row where the last token was picked. */
static void see_tip(struct mtp *d, const struct pass *pass, const struct row_tip *tip)
{
    const struct row *row = pass->batch->row;
    int32_t path[SPEC_DRAFT_MOST + 1];
    int n = 0, at = tip->n_token - 1;
    if (tip->picked < 0) return;
    for (int32_t r = tip->taken; n <= SPEC_DRAFT_MOST; r = row[r].parent) {
        path[n++] = r;
        if (r == tip->row) break;
    }
    struct track *t = track_for(d, tip->request, tip->sample, tip->token, at);
    while (n-- > 0) {
        const struct row_result *r = pass_result(pass, path[n]);
        if (!r || !r->hidden) return;
        add_state(d, t, r->hidden, n ? row[path[n - 1]].token : tip->picked);
    }
}

/* A sample that went on from the last row of an evaluated text. */
static void see_text(struct mtp *d, const struct pass *pass, const struct text_way *w, const struct sample *slot)
{
    const struct sequence *q = &slot->seq;
    const struct row_result *r = pass_result(pass, w->row);
    int at = pass->batch->row[w->row].pos;
    if (!slot->request || slot->tip >= 0 || (w->slot ? w->slot != slot : w->request != slot->request)) return;
    if (q->n_token != at + 2 || !r || !r->hidden) return;
    add_state(d, track_for(d, slot->request->id, slot->index, q->token, at), r->hidden, q->token[at + 1]);
}

static int see(void *self, const struct pass *pass, struct lutra_error *err)
{
    struct mtp *d = self;
    int n_way;
    const struct text_way *way = session_texts(d->first, &n_way);
    (void)err;
    d->n_pass++;
    for (int i = 0; pass->result && i < pass->n_tip; i++) see_tip(d, pass, &pass->tip[i]);
    for (const struct text_way *w = way; pass->result && w < way + n_way; w++)
        for (int i = 0; w->n_row > 0 && w->row >= 0 && i < d->n_seq; i++) see_text(d, pass, w, &d->sample[i]);
    return 0;
}

/* ---- guesses ---- */

/* Whether a track has all states but that of the tip's token, which is evaluated now. */
static bool is_ready(const struct track *t, const struct row_tip *tip)
{
    return t && t->n_state > 0 && n_known(t) == tip->n_token && knows(t, tip->token, tip->n_token);
}

/* Rows of all chains that go on; returns how many. */
static int add_rows(struct mtp *d)
{
    int n = 0;
    for (int i = 0; i < d->n_seq; i++) {
        const struct track *t = d->of[i];
        struct draft_chain *c = &d->chain[i];
        if (!c->going) continue;
        if (t->n_state > 0)
            c->going = add_states(d, t, WANT_DRAW | WANT_HIDDEN, &n);
        else if (n < d->n_batch)
            add_row(d, t, 0, c->guess[c->n_guess - 1].token, d->said + (size_t)i * (size_t)d->d_model,
                WANT_DRAW | WANT_HIDDEN, &n);
        else
            c->going = false;
    }
    return n;
}

/* What the block says at the end of a chain; the slot's sampler draws from that: what the model itself would say, where
 * both hold the same likely. */
static void take(struct mtp *d, const struct pass *pass, int slot, const struct spec_wish *wish)
{
    const struct track *t = d->of[slot];
    struct draft_chain *c = &d->chain[slot];
    const struct row_tip *tip = &pass->tip[c->tip];
    bool said = false;
    int n;
    const struct row_result *r = session_results(d->s, &n);
    for (int i = 0; i < n && !said; i++, r++) {
        if (session_rows(d->s)[r->row].seq != t->seq) continue;
        memcpy(d->said + (size_t)slot * (size_t)d->d_model, r->hidden, (size_t)d->d_model * sizeof *d->said);
        draft_draw(d->first, slot, r, tip->n_token + c->n_guess, tip, wish, c);
        said = true;
    }
    c->going = c->going && said;
}

static bool pass_of_block(struct mtp *d, const struct pass *pass, const struct spec_wish *wish)
{
    int n = add_rows(d);
    if (n == 0 || session_is_cancelled(d->first) || session_forward(d->s, n, false, NULL) < 0) return false;
    for (int i = 0; i < d->n_seq; i++) {
        if (!d->chain[i].going) continue;
        read_states(d->of[i]);
        take(d, pass, i, wish);
    }
    return true;
}

static bool pays(const struct mtp *d, const struct pass *pass, const struct spec_wish *wish, struct draft_outlook *o)
{
    double right = 0, seen = 0;
    int n = 0;
    for (int i = 0; i < d->n_seq; i++) n += draft_adds(&d->chain[i], pass, wish, &right, &seen);
    return draft_pays(d->first, d->s, n, right, seen, o);
}

static void begin_chain(struct mtp *d, const struct pass *pass, int i)
{
    const struct sample *slot = &d->sample[i];
    struct draft_chain *c = &d->chain[i];
    c->tip = slot->request && slot->row >= 0 ? slot->tip : -1;
    c->n_guess = 0;
    c->p = 1;
    c->going = false;
    d->of[i] = NULL;
    if (c->tip < 0) return;
    const struct row_tip *tip = &pass->tip[c->tip];
    d->of[i] = find(d, tip->request, tip->sample);
    c->going = tip->n_token < tip->max_tok && is_ready(d->of[i], tip);
}

static void begin(void *self, const struct pass *pass, const struct spec_wish *wish)
{
    struct mtp *d = self;
    for (int i = 0; i < d->n_seq; i++) begin_chain(d, pass, i);
    struct draft_outlook o = draft_outlook_of(d->first, pass);
    if (!pays(d, pass, wish, &o) && ++d->n_idle < TRIED_EVERY) return;
    d->n_idle = 0;
    while (pass_of_block(d, pass, wish) && pays(d, pass, wish, &o)) continue;
    for (int i = 0; i < d->n_seq; i++)
        if (d->of[i]) lutra_seq_truncate(d->s, d->of[i]->seq, d->of[i]->n, NULL);
}

static int guesses(void *self, int tip, const struct draft_guess **out)
{
    const struct mtp *d = self;
    for (int i = 0; i < d->n_seq; i++) {
        if (d->chain[i].tip != tip) continue;
        *out = d->chain[i].guess;
        return d->chain[i].n_guess;
    }
    return 0;
}

/* ---- opening ---- */

static int open_tracks(struct mtp *d, struct lutra_error *err)
{
    size_t n = (size_t)d->n_track, n_state = (size_t)STATES * (size_t)d->d_model, n_token = (size_t)d->n_ctx + 1;
    d->track = calloc(n, sizeof *d->track);
    d->state = calloc(n * n_state, sizeof *d->state);
    d->token = calloc(n * n_token, sizeof *d->token);
    d->chain = calloc((size_t)d->n_seq, sizeof *d->chain);
    d->of = calloc((size_t)d->n_seq, sizeof *d->of);
    d->said = calloc((size_t)d->n_seq * (size_t)d->d_model, sizeof *d->said);
    d->given = calloc((size_t)d->n_batch, sizeof *d->given);
    if (!d->track || !d->state || !d->token || !d->chain || !d->of || !d->said || !d->given)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "MTP block: out of memory");
    for (int i = 0; i < d->n_track; i++) {
        struct track *t = &d->track[i];
        t->request = -1;
        t->state = d->state + (size_t)i * n_state;
        t->token = d->token + (size_t)i * n_token;
        TRY(lutra_seq_open(d->s, d->n_ctx, &t->seq, err));
    }
    session_give_states(d->s, d->given);
    return 0;
}

static int open_all(struct mtp *d, struct lutra_error *err)
{
    const struct session_sizes size = session_sizes(d->first);
    struct lutra_session_settings set;
    TRY(model_open_block(&d->block, session_model(d->first), err));
    d->d_model = model_ops(d->block->model)->d_model;
    d->sample = session_samples(d->first);
    lutra_session_settings_init(&set, sizeof set);
    set.n_ctx = d->n_ctx = size.n_ctx;
    set.n_seq = d->n_seq = d->n_track = size.n_seq;
    TRY(lutra_session_open(&d->s, d->block, &set, err));
    d->n_batch = session_sizes(d->s).n_batch;
    return open_tracks(d, err);
}

static void close_all(void *self)
{
    struct mtp *d = self;
    source_remove(session_sources(d->first), &d->source);
    lutra_session_close(&d->s);
    lutra_model_close(&d->block);
    free(d->track);
    free(d->state);
    free(d->token);
    free(d->chain);
    free(d->of);
    free(d->said);
    free(d->given);
    free(d);
}

int mtp_open(struct session_drafter *out, lutra_session *s, struct lutra_error *err)
{
    static const struct row_source_ops source = {"mtp", SOURCE_SEARCH, ask, see};
    static const struct session_drafter_ops ops = {close_all, NULL, NULL};
    struct mtp *d = calloc(1, sizeof *d);
    if (!d) return lutra_fail(err, LUTRA_E_NO_MEMORY, "MTP block: out of memory");
    d->first = s;
    int rc = open_all(d, err);
    if (rc < 0) {
        close_all(d);
        return rc;
    }
    d->source = (struct row_source){&source, d, NULL};
    source_add(session_sources(s), &d->source);
    *out = (struct session_drafter){&ops, d, {d, begin, guesses}, d->s};
    return 0;
}
