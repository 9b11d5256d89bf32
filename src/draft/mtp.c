/* SPDX-License-Identifier: MIT
 *
 * A model's own MTP block as a drafter: a session of that block (model_open_block) beside the model's.  Its row k reads
 * token k + 1 of a text and the state that the model left for token k, and says what follows token k + 1.
 *
 * So a text of the block's is the model's without its first token, which its domain names: what the block has read of a
 * text, whoever's it was, is found in its session's cache as the model finds its own (kv/kv.h).  A prompt is read
 * behind the passes that evaluate it, each row once.  Where the model finds tokens that the block does not (the row of
 * the last token found needs the one behind it, which is another now; or the block's cache had no room), the block
 * reads them without a state, as zeros: guesses may be worse for it, and no text changes.
 *
 * Each sample has a track, which begins where its prompt ends.  It reads the states of what the sample has said when
 * it drafts: behind the last token whose state is known the block goes on with its own states and guesses, and these
 * rows are taken back before the next pass.
 *
 * States are the model's passes': a row source without rows asks for those of all tips and drafts, keeps the ones of
 * tokens that became text, and asks for those of a prompt's rows that the block has not read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "draft/draft_impl.h"

enum { STATES = 64 /* of a track that the block has not read yet */ };

/* Of a sample slot: a text of the block's. */
struct track {
    struct sequence seq;
    float *state; /* [STATES][d_model] of the tokens that are not evaluated: sequence_left() */
};

/* A prompt whose rows are in the pass. */
struct reading {
    const int32_t *token; /* [n_prompt] as the block's text, borrowed from the request */
    int n_prompt;
    int32_t seq;
    int pos, end; /* rows that the block is to evaluate; of those before `base` it has no states */
    int base;     /* the pass has the rows of tokens base and on ... */
    int32_t row;  /* ... from this one on */
};

struct mtp {
    lutra_session *first, *s;        /* whose samples; the block's */
    int n_ctx, n_seq, n_batch, bulk; /* of both */
    struct kv_cache *kv;             /* the block's */
    const struct sample *sample;     /* [n_seq] */
    lutra_model *block;
    struct row_source source;
    struct track *track;     /* [n_seq] */
    int *tip;                /* [n_seq] of the pass, of a slot; -1: none */
    struct reading *reading; /* [n_reading <= most_readings] */
    int n_reading, most_readings;
    int d_model;
    float *state;              /* of all tracks */
    int32_t *token;            /* of all tracks */
    struct draft_chain *chain; /* [n_seq] */
    float *said;               /* [n_seq][d_model] the block's state at the end of a chain */
    float *zero;               /* [d_model] */
    const float **given;
    int n_idle; /* passes since it was tried */
};

static uint64_t domain_of(uint64_t domain, int32_t first)
{
    return hash_bytes(domain, &first, sizeof first);
}

/* ---- rows of the block ---- */

/* A sequence's row at a position: its first one in the pass (begins), or behind the row added last. */
static void add_row(
    struct mtp *d, int32_t seq, int pos, bool begins, int32_t token, const float *state, uint32_t want, int *n)
{
    session_rows(d->s)[*n] =
        (struct row){.token = token, .pos = pos, .seq = seq, .parent = begins ? -1 : *n - 1, .want = want};
    d->given[(*n)++] = state;
}

/* The sequence may grow to n tokens. */
static bool has_room(const struct mtp *d, const struct sequence *q, int n)
{
    return q->id >= 0 && kv_seq_grow(d->kv, q->id, n < d->n_ctx ? n : d->n_ctx, NULL) == 0;
}

/* Rows for all states of a track, the last one with a result or none; false: there is no room. */
static bool add_states(struct mtp *d, const struct track *t, uint32_t want, int *n)
{
    const struct sequence *q = &t->seq;
    if (*n + sequence_left(q) > d->n_batch || !has_room(d, q, q->n_token)) return false;
    for (int pos = q->n_done; pos < q->n_token; pos++)
        add_row(d, q->id, pos, pos == q->n_done, q->token[pos],
            t->state + (size_t)(pos - q->n_done) * (size_t)d->d_model, pos == q->n_token - 1 ? want : WANT_NOTHING, n);
    return true;
}

/* ---- tracks ---- */

/* Whether a track knows a text of n tokens, and no more. */
static bool knows(const struct track *t, const int32_t *token, int n, uint64_t domain)
{
    const struct sequence *q = &t->seq;
    return q->id >= 0 && q->n_token == n - 1 && q->domain == domain_of(domain, token[0]) &&
           memcmp(q->token, token + 1, (size_t)q->n_token * sizeof *token) == 0;
}

/* The state of the next token, and the token behind that. */
static void add_state(struct mtp *d, struct track *t, const float *state, int32_t next)
{
    struct sequence *q = &t->seq;
    if (q->id < 0) return;
    if (sequence_left(q) == STATES) {
        int n = 0;
        if (!add_states(d, t, WANT_NOTHING, &n) || session_forward(d->s, n, false, NULL) < 0) {
            sequence_close(q, d->kv);
            return;
        }
        q->n_done = q->n_token;
    }
    memcpy(t->state + (size_t)sequence_left(q) * (size_t)d->d_model, state, (size_t)d->d_model * sizeof *state);
    q->token[q->n_token++] = next;
}

/* The state of token k of a text that the block has not read: of the track that the text was forked from, or none. */
static const float *state_of(const struct mtp *d, uint64_t domain, const int32_t *token, int k)
{
    for (const struct track *t = d->track; t < d->track + d->n_seq; t++) {
        const struct sequence *q = &t->seq;
        if (q->id >= 0 && q->n_done <= k && k < q->n_token && q->domain == domain &&
            memcmp(q->token, token + 1, ((size_t)k + 1) * sizeof *token) == 0)
            return t->state + (size_t)(k - q->n_done) * (size_t)d->d_model;
    }
    return d->zero;
}

/* The track of a slot's text, ready for the state of its token `at`; token [n > at]. */
static struct track *track_for(struct mtp *d, int slot, const int32_t *token, int at, int n_prompt, uint64_t domain)
{
    struct track *t = &d->track[slot];
    struct sequence *q = &t->seq;
    if (knows(t, token, at + 1, domain)) return t;
    sequence_close(q, d->kv);
    memcpy(q->token, token + 1, (size_t)at * sizeof *token);
    q->domain = domain_of(domain, token[0]);
    q->n_prompt = n_prompt - 1;
    struct kv_past past = {q->token, at, q->n_prompt, d->bulk, q->domain};
    int32_t n;
    if (kv_seq_open_past(d->kv, &past, at + 1, &q->id, &n, NULL) < 0) {
        q->id = -1;
        return t;
    }
    q->n_done = q->n_token = n;
    for (int k = n; k < at; k++) add_state(d, t, state_of(d, q->domain, token, k), token[k + 1]);
    return t;
}

/* ---- prompts ---- */

static void close_readings(struct mtp *d)
{
    while (d->n_reading > 0) kv_seq_close(d->kv, d->reading[--d->n_reading].seq);
}

/* The row of a text's first token in the pass. */
static int32_t first_row(const struct pass *pass, int32_t seq)
{
    int32_t r = 0;
    while (pass->batch->row[r].seq != seq) r++;
    return r;
}

/* Asks for the states of a prompt's rows in the pass that the block has not read. */
static void begin_reading(struct mtp *d, const struct pass *pass, const struct sequence *q, int n_row)
{
    int n = q->n_prompt - 1;
    int32_t found;
    if (d->n_reading == d->most_readings) return;
    struct reading *r = &d->reading[d->n_reading];
    *r = (struct reading){.token = q->token + 1, .n_prompt = n, .row = first_row(pass, q->id)};
    r->base = pass->batch->row[r->row].pos;
    r->end = r->base + n_row < n ? r->base + n_row : n;
    struct kv_past past = {r->token, r->end, n, d->bulk, domain_of(q->domain, q->token[0])};
    if (r->end == 0 || kv_seq_open_past(d->kv, &past, r->end, &r->seq, &found, NULL) < 0) return;
    r->pos = found;
    for (int k = found > r->base ? found : r->base; k < r->end; k++) session_ask_state(d->first, r->row + k - r->base);
    d->n_reading++;
}

/* As many of its rows as fit behind the n that there are. */
static void add_reading(struct mtp *d, struct reading *r, int *n)
{
    int more = batch_fit(d->bulk, r->pos, r->end - r->pos, d->n_batch - *n), last = r->n_prompt - 1;
    for (int i = 0; i < more; i++, r->pos++) {
        const float *state = r->pos < r->base ? NULL : session_state(d->first, r->row + r->pos - r->base);
        /* The last row of a prompt has a class of its own, as in pass_text(). */
        uint32_t want = r->pos == last ? ROW_BULK | WANT_HIDDEN : ROW_BULK;
        add_row(d, r->seq, r->pos, i == 0, r->token[r->pos], state ? state : d->zero, want, n);
    }
}

/* All rows of the prompts that are in the pass; what a failed pass leaves is read without states later. */
static void read_prompts(struct mtp *d)
{
    int n = 0, at = 0, rc = 0;
    while (rc == 0 && at < d->n_reading) {
        struct reading *r = &d->reading[at];
        add_reading(d, r, &n);
        if (r->pos == r->end)
            at++;
        else if (n == 0)
            break; /* a block is longer than a pass */
        if (n > 0 && (at == d->n_reading || r->pos < r->end)) {
            rc = session_forward(d->s, n, false, NULL);
            n = 0;
        }
    }
    close_readings(d);
}

/* ---- what passes leave ---- */

/* All rows that have a result leave their states, too, and those of prompts. */
static void ask(void *self, struct pass *pass)
{
    struct mtp *d = self;
    int n_way;
    const struct text_way *way = session_texts(d->first, &n_way);
    close_readings(d); /* of a pass that failed */
    for (int i = 0; i < d->n_seq; i++) {
        const struct sample *slot = &d->sample[i];
        if (!slot->request) sequence_close(&d->track[i].seq, d->kv);
        d->tip[i] = slot->request && slot->row >= 0 ? slot->tip : -1;
    }
    for (int i = 0; i < pass->batch->n_row; i++)
        if (pass->batch->row[i].want & WANT_ALL) session_ask_state(d->first, i);
    for (const struct text_way *w = way; w < way + n_way; w++)
        if (w->n_row > 0 && !w->slot) begin_reading(d, pass, w->seq, w->n_row);
}

/* A tip's states, from its own to that of the row where the last token was picked. */
static void see_tip(struct mtp *d, const struct pass *pass, int slot)
{
    const struct row_tip *tip = &pass->tip[d->tip[slot]];
    const struct request *r = d->sample[slot].request;
    const struct row *row = pass->batch->row;
    int32_t path[SPEC_DRAFT_MOST + 1];
    int n = 0;
    if (tip->picked < 0 || !r || r->id != tip->request || d->sample[slot].index != tip->sample) return; /* it ended */
    for (int32_t at = tip->taken; n <= SPEC_DRAFT_MOST; at = row[at].parent) {
        path[n++] = at;
        if (at == tip->row) break;
    }
    struct track *t = track_for(d, slot, tip->token, tip->n_token - 1, tip->n_prompt, tip->domain);
    while (n-- > 0) {
        const float *state = session_state(d->first, path[n]);
        if (!state) return;
        add_state(d, t, state, n ? row[path[n - 1]].token : tip->picked);
    }
}

/* A sample that went on from the last row of an evaluated text. */
static void see_text(struct mtp *d, const struct pass *pass, const struct text_way *w, int i)
{
    const struct sample *slot = &d->sample[i];
    const struct sequence *q = &slot->seq;
    const float *state = session_state(d->first, w->row);
    int at = pass->batch->row[w->row].pos;
    if (!slot->request || slot->tip >= 0 || (w->slot ? w->slot != slot : w->request != slot->request)) return;
    if (q->n_token != at + 2 || !state) return;
    add_state(d, track_for(d, i, q->token, at, q->n_prompt, q->domain), state, q->token[at + 1]);
}

static int see(void *self, const struct pass *pass, struct lutra_error *err)
{
    struct mtp *d = self;
    int n_way;
    const struct text_way *way = session_texts(d->first, &n_way);
    (void)err;
    if (pass->result) read_prompts(d);
    for (int i = 0; pass->result && i < d->n_seq; i++)
        if (d->tip[i] >= 0) see_tip(d, pass, i);
    for (const struct text_way *w = way; pass->result && w < way + n_way; w++)
        for (int i = 0; w->n_row > 0 && w->row >= 0 && i < d->n_seq; i++) see_text(d, pass, w, i);
    return 0;
}

/* ---- guesses ---- */

/* Rows of all chains that go on; returns how many. */
static int add_rows(struct mtp *d)
{
    int n = 0;
    for (int i = 0; i < d->n_seq; i++) {
        const struct track *t = &d->track[i];
        struct draft_chain *c = &d->chain[i];
        if (!c->going) continue;
        if (sequence_left(&t->seq) > 0)
            c->going = add_states(d, t, WANT_DRAW | WANT_HIDDEN, &n);
        else if (n < d->n_batch)
            add_row(d, t->seq.id, kv_seq_length(d->kv, t->seq.id), true, c->guess[c->n_guess - 1].token,
                d->said + (size_t)i * (size_t)d->d_model, WANT_DRAW | WANT_HIDDEN, &n);
        else
            c->going = false;
    }
    return n;
}

/* What the block says at the end of a chain; the slot's sampler draws from that: what the model itself would say, where
 * both hold the same likely. */
static void take(struct mtp *d, const struct pass *pass, int slot, const struct spec_wish *wish)
{
    struct draft_chain *c = &d->chain[slot];
    const struct row_tip *tip = &pass->tip[c->tip];
    bool said = false;
    int n;
    const struct row_result *r = session_results(d->s, &n);
    for (int i = 0; i < n && !said; i++, r++) {
        if (session_rows(d->s)[r->row].seq != d->track[slot].seq.id) continue;
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
        d->track[i].seq.n_done = d->track[i].seq.n_token;
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

/* A chain goes where the track has all states but that of the tip's token, which is evaluated now. */
static void begin_chain(struct mtp *d, const struct pass *pass, int i, int most)
{
    const struct sample *slot = &d->sample[i];
    const struct track *t = &d->track[i];
    struct draft_chain *c = &d->chain[i];
    c->tip = slot->request && slot->row >= 0 ? slot->tip : -1;
    c->n_guess = 0;
    c->p = 1;
    c->going = false;
    if (c->tip < 0) return;
    const struct row_tip *tip = &pass->tip[c->tip];
    c->going = tip->n_token < tip->max_tok && sequence_left(&t->seq) > 0 &&
               knows(t, tip->token, tip->n_token, tip->domain) && has_room(d, &t->seq, t->seq.n_token + most);
}

static void begin(void *self, const struct pass *pass, const struct spec_wish *wish)
{
    struct mtp *d = self;
    for (int i = 0; i < d->n_seq; i++) begin_chain(d, pass, i, wish->most);
    struct draft_outlook o = draft_outlook_of(d->first, pass);
    if (!pays(d, pass, wish, &o) && ++d->n_idle < TRIED_EVERY) return;
    d->n_idle = 0;
    while (pass_of_block(d, pass, wish) && pays(d, pass, wish, &o)) continue;
    for (int i = 0; i < d->n_seq; i++) {
        struct sequence *q = &d->track[i].seq;
        if (d->chain[i].n_guess > 0 && kv_seq_truncate(d->kv, q->id, q->n_done, NULL) < 0) sequence_close(q, d->kv);
    }
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
    size_t n = (size_t)d->n_seq, dim = (size_t)d->d_model, n_token = (size_t)d->n_ctx + 1;
    d->most_readings = d->n_seq + KV_SPARE; /* of the block's sequences, those without a track */
    d->track = calloc(n, sizeof *d->track);
    d->state = calloc(n, STATES * dim * sizeof *d->state);
    d->token = calloc(n, n_token * sizeof *d->token);
    d->chain = calloc(n, sizeof *d->chain);
    d->tip = calloc(n, sizeof *d->tip);
    d->said = calloc(n, dim * sizeof *d->said);
    d->zero = calloc(dim, sizeof *d->zero);
    d->reading = calloc((size_t)d->most_readings, sizeof *d->reading);
    d->given = calloc((size_t)d->n_batch, sizeof *d->given);
    if (!d->track || !d->state || !d->token || !d->chain || !d->tip || !d->said || !d->zero || !d->reading || !d->given)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "MTP block: out of memory");
    for (size_t i = 0; i < n; i++) {
        d->track[i].state = d->state + i * STATES * dim;
        d->track[i].seq = (struct sequence){.id = -1, .token = d->token + i * n_token};
    }
    session_give_states(d->s, d->given);
    return 0;
}

static int open_all(struct mtp *d, struct lutra_error *err)
{
    const struct session_sizes size = session_sizes(d->first);
    struct lutra_session_settings set;
    TRY(model_open_block(&d->block, session_model(d->first), err));
    if (!session_leaves_states(d->first))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "the MTP block of '%s': its layers leave no states of prompts",
            session_model(d->first)->name);
    d->d_model = model_ops(d->block->model)->d_model;
    d->sample = session_samples(d->first);
    lutra_session_settings_init(&set, sizeof set);
    set.n_ctx = d->n_ctx = size.n_ctx;
    set.n_seq = d->n_seq = size.n_seq;
    set.n_batch = size.n_batch;
    set.n_cache = size.n_cache;
    TRY(lutra_session_open(&d->s, d->block, &set, err));
    d->kv = session_cache(d->s);
    d->n_batch = session_sizes(d->s).n_batch;
    d->bulk = session_sizes(d->s).bulk;
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
    free(d->tip);
    free(d->said);
    free(d->zero);
    free(d->reading);
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
