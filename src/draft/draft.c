/* SPDX-License-Identifier: MIT
 *
 * A second model that drafts: a session of its own, with a sequence for each sample of the first, that says what it
 * would say next.  All samples go through it in the same passes.  It draws with their samplers, and so with their
 * random numbers of (seed, sample, position): where both models hold the same likely they say the same, at any
 * temperature.
 *
 * A pass of it has to bring tokens at less time than they take without: that is known from what passes of both have
 * cost so far, and from how often its tokens were right.
 *
 * Where it has devices of its own, it goes on guessing while the first model judges its guesses: as if all of them were
 * right.  Where they were, the next guesses are there; else they are dropped, and nobody has waited for them but for
 * the rest of one of its passes.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "draft/draft_impl.h"

/* Of a sample slot. */
struct mirror {
    struct sequence seq; /* in the second session: the sample's text, and the guesses behind it */
    struct draft_chain chain;
    bool waits;    /* for what another mirror is about to evaluate of its text */
    int n_offered; /* of its guesses, those that the pass was offered */
    int base;      /* tokens of the text that they follow */
};

struct draft_model {
    lutra_session *first, *s;    /* whose samples; its own */
    int n_seq, n_ctx;            /* of both */
    struct kv_cache *kv;         /* its own's */
    int bulk;                    /* batch.bulk of its own */
    const struct sample *sample; /* [n_seq] */
    struct mirror *mirror;       /* [n_seq] as the slots of the first */
    int32_t *token;
    int32_t n_common; /* tokens that both models have; the others are neither drafted nor followed */
    float *logits;    /* [n_vocab of the first] where its own has fewer, else NULL */
    int n_idle;       /* passes since it was tried */
    /* Guessing ahead, on a thread of its own: `pass` and `wish` are those of the pass that is judged. */
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum { AHEAD_NOT, AHEAD_GOES, AHEAD_ENDS } ahead;
    atomic_bool stop;
    struct pass pass;
    struct spec_wish wish;
};

static int n_logits(const lutra_model *model)
{
    return model_ops(model->model)->n_vocab;
}

/* ---- catching up ---- */

/* Whether the draft model knows all tokens of a text behind the first n. */
static bool knows(const struct draft_model *d, const struct row_tip *tip, int n)
{
    while (n < tip->n_token && tip->token[n] < d->n_common) n++;
    return n == tip->n_token;
}

/* A mirror gets the tip's text, and of what it holds the beginning of that; or, where much more of it is found, what
 * others have evaluated. */
static void follow(struct draft_model *d, struct mirror *m, const struct row_tip *tip)
{
    struct sequence *q = &m->seq;
    struct kv_cache *kv = d->kv;
    int most = tip->n_token - 1; /* one row is left to evaluate */
    int n = sequence_common(q, tip->token, q->n_done < most ? q->n_done : most), bulk = d->bulk;
    memcpy(q->token + n, tip->token + n, (size_t)(tip->n_token - n) * sizeof *q->token);
    q->n_token = tip->n_token;
    q->n_prompt = tip->n_prompt;
    struct kv_past past = sequence_past(q, bulk);
    n = kv_seq_reach(kv, q->id, n);
    if (n >= 0 && kv_find(kv, &past) < n + KV_BLOCK && kv_seq_truncate(kv, q->id, n, NULL) == 0) {
        q->n_done = n;
        return;
    }
    sequence_close(q, kv);
    sequence_open(q, kv, bulk, d->n_ctx);
}

/* ---- passes ---- */

/* A mirror's next rows; behind the last of its text it draws. */
static void add_rows(struct pass *own, const struct sequence *q)
{
    int n = pass_text(own, q, q->n_token, false), pos = q->n_done + n;
    if (pos != q->n_token - 1) return; /* the prompt's last row draws; or there is no room */
    struct row last = {q->token[pos], pos, q->id, n > 0 ? own->batch->n_row - 1 : -1, 0, 0, NULL, NULL, NULL};
    pass_tip(own, last, (struct row_tip){0});
}

/* Whether a mirror before this one is about to evaluate a block or more of its text. */
static bool is_coming(const struct draft_model *d, const struct mirror *m)
{
    const struct sequence *q = &m->seq;
    for (const struct mirror *o = d->mirror; o < m; o++) {
        if (!o->chain.going || o->waits) continue;
        int n = sequence_common(&o->seq, q->token, q->n_token - 1);
        if (n > o->seq.n_done && n >= q->n_done + KV_BLOCK) return true;
    }
    return false;
}

/* All that are going; how many rows that makes. */
static int fill(struct draft_model *d)
{
    struct pass own;
    session_pass_begin(d->s, &own);
    for (int i = 0; i < d->n_seq; i++) {
        struct mirror *m = &d->mirror[i];
        m->waits = m->chain.going && is_coming(d, m);
        if (m->chain.going && !m->waits) add_rows(&own, &m->seq);
    }
    return own.batch->n_row;
}

/* Its result as one of the first model, with no other tokens than those that both have. */
static struct row_result in_common(struct draft_model *d, const struct row_result *r)
{
    struct row_result out = *r;
    int n = n_logits(session_model(d->first)), n_own = n_logits(session_model(d->s));
    double padding = 0; /* its share of the probabilities */
    for (int i = d->n_common; i < n_own; i++) padding += exp((double)r->logits[i] - (double)r->log_sum_exp);
    out.log_sum_exp += (float)log1p(-fmin(padding, 0.9999));
    if (d->logits) {
        memcpy(d->logits, r->logits, (size_t)d->n_common * sizeof *d->logits);
        out.logits = d->logits;
    }
    for (int i = d->n_common; i < n; i++) out.logits[i] = -INFINITY;
    return out;
}

/* What it says at the end of its text so far. */
static void take(struct draft_model *d, const struct pass *pass, struct mirror *m, const struct spec_wish *wish)
{
    const struct row_tip *tip = &pass->tip[m->chain.tip];
    const struct row_result *r = NULL, *result;
    struct draft_chain *c = &m->chain;
    int at = m->seq.n_token, n;
    m->seq.n_done = kv_seq_length(d->kv, m->seq.id);
    result = session_results(d->s, &n);
    for (int i = 0; i < n && !r; i++) {
        const struct row *row = &session_rows(d->s)[result[i].row];
        if (row->seq == m->seq.id && row->pos == at - 1) r = &result[i];
    }
    if (!r) return; /* it has not come so far */
    struct row_result common = in_common(d, r);
    if (draft_draw(d->first, (int)(m - d->mirror), &common, at, tip, wish, c))
        m->seq.token[m->seq.n_token++] = c->guess[c->n_guess - 1].token;
}

/* ---- guessing ahead ---- */

static void set_ahead(struct draft_model *d, int to)
{
    pthread_mutex_lock(&d->lock);
    d->ahead = to;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* The guesses that follow a tip's text, where all of it is what had been guessed: then the mirror's text is that and
 * them.  Others are dropped. */
static void keep_guesses(struct mirror *m, const struct row_tip *tip, const struct spec_wish *wish)
{
    const struct sequence *q = &m->seq;
    int n_new = tip->n_token - m->base, n = m->chain.n_guess - n_new;
    bool right = n_new >= 0 && n > 0 && q->id >= 0 && q->n_token == m->base + m->chain.n_guess &&
                 !memcmp(q->token, tip->token, (size_t)tip->n_token * sizeof *q->token);
    m->chain.n_guess = right ? n : 0;
    m->chain.p = 1;
    for (int i = 0; i < m->chain.n_guess; i++) {
        m->chain.guess[i] = m->chain.guess[n_new + i];
        m->chain.guess[i].parent = i - 1;
        m->chain.p *= wish->rate[m->chain.tip][spec_model_kind(m->chain.guess[i].p, i)];
    }
    m->base = tip->n_token;
    m->chain.going =
        m->chain.n_guess < wish->most && m->chain.p >= wish->p_min && tip->n_token + m->chain.n_guess < tip->max_tok;
}

/* Passes of the draft model, each a guess more behind what the pass was offered, until the first model is done. */
static void guess_on(struct draft_model *d)
{
    struct spec_wish wish = d->wish;
    wish.most = wish.most * 2 + 1 < DRAFT_CHAIN_MOST ? wish.most * 2 + 1 : DRAFT_CHAIN_MOST;
    for (int i = 0; i < d->n_seq; i++) {
        struct mirror *m = &d->mirror[i];
        m->chain.going = m->chain.tip >= 0 && m->seq.id >= 0 && m->n_offered > 0 && m->chain.p >= wish.p_min &&
                         m->base + m->chain.n_guess < d->pass.tip[m->chain.tip].max_tok && m->chain.n_guess < wish.most;
    }
    while (!atomic_load(&d->stop)) {
        int n = fill(d);
        if (n == 0 || session_forward(d->s, n, false, NULL) < 0) return;
        for (int i = 0; i < d->n_seq; i++)
            if (d->mirror[i].chain.going) take(d, &d->pass, &d->mirror[i], &wish);
    }
}

static void *guess_ahead(void *self)
{
    struct draft_model *d = self;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (d->ahead == AHEAD_NOT) pthread_cond_wait(&d->changed, &d->lock);
        if (d->ahead == AHEAD_ENDS) break;
        pthread_mutex_unlock(&d->lock);
        guess_on(d);
        pthread_mutex_lock(&d->lock);
        if (d->ahead == AHEAD_GOES) d->ahead = AHEAD_NOT;
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static void go_on(void *self)
{
    struct draft_model *d = self;
    bool any = false;
    for (int i = 0; i < d->n_seq; i++) any |= d->mirror[i].chain.tip >= 0 && d->mirror[i].n_offered > 0;
    if (!any || !d->has_thread) return;
    atomic_store(&d->stop, false);
    set_ahead(d, AHEAD_GOES);
}

static void rest(void *self)
{
    struct draft_model *d = self;
    if (!d->has_thread) return;
    atomic_store(&d->stop, true);
    pthread_mutex_lock(&d->lock);
    while (d->ahead == AHEAD_GOES) pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

/* ---- the guesses of a pass ---- */

struct draft_outlook draft_outlook_of(const lutra_session *first, const struct pass *pass)
{
    struct draft_outlook o = {.tokens = pass->n_tip, .n_row = pass->n_tip};
    for (int i = 0; i < pass->n_tip; i++) o.seen += pass->tip[i].n_token;
    o.us = row_cost_of(session_cost(first), o.n_row, o.seen);
    return o;
}

bool draft_draw(const lutra_session *first, int slot, const struct row_result *r, int at, const struct row_tip *tip,
    const struct spec_wish *wish, struct draft_chain *c)
{
    struct sample_pick pick;
    c->going = sampler_pick(session_sampler(first), slot, 0, r, at, &pick, NULL) == 0 &&
               !text_is_eog(session_model(first)->vocab, pick.token);
    if (!c->going) return false;
    float p = expf(pick.log_prob);
    c->p *= wish->rate[c->tip][spec_model_kind(p, c->n_guess)];
    c->guess[c->n_guess] = (struct draft_guess){.token = pick.token, .parent = c->n_guess - 1, .p = p};
    c->n_guess++;
    c->going = c->n_guess < wish->most && c->p >= wish->p_min && at + 1 < tip->max_tok;
    return true;
}

int draft_adds(
    const struct draft_chain *c, const struct pass *pass, const struct spec_wish *wish, double *right, double *seen)
{
    if (c->tip < 0 || !c->going) return 0;
    *right += (double)(c->p * wish->rate[c->tip][spec_model_kind(1, c->n_guess)]); /* at best */
    *seen += pass->tip[c->tip].n_token + c->n_guess;
    return 1;
}

bool draft_pays(
    const lutra_session *first, const lutra_session *own, int n, double right, double seen, struct draft_outlook *o)
{
    const struct row_cost *judged = session_cost(first), *guessed = session_cost(own);
    if (n == 0) return false;
    if (!row_cost_known(judged) || !row_cost_known(guessed)) return true;
    double more = row_cost_of(guessed, n, seen) + row_cost_of(judged, o->n_row + n, o->seen + seen) -
                  row_cost_of(judged, o->n_row, o->seen);
    if (right * o->us <= o->tokens * more) return false;
    *o = (struct draft_outlook){o->tokens + right, o->us + more, o->seen + seen, o->n_row + n};
    return true;
}

static bool pays(
    const struct draft_model *d, const struct pass *pass, const struct spec_wish *wish, struct draft_outlook *o)
{
    double right = 0, seen = 0;
    int n = 0;
    for (int i = 0; i < d->n_seq; i++) n += draft_adds(&d->mirror[i].chain, pass, wish, &right, &seen);
    return draft_pays(d->first, d->s, n, right, seen, o);
}

/* Guesses on from those that are there already, as far as that pays. */
static void begin_guesses(struct draft_model *d, const struct pass *pass, const struct spec_wish *wish)
{
    struct draft_outlook o = draft_outlook_of(d->first, pass);
    if (!pays(d, pass, wish, &o) && ++d->n_idle < TRIED_EVERY) return;
    d->n_idle = 0;
    do {
        for (int i = 0; i < d->n_seq; i++) {
            struct mirror *m = &d->mirror[i];
            if (!m->chain.going || m->chain.n_guess > 0) continue;
            follow(d, m, &pass->tip[m->chain.tip]);
            m->chain.going = m->seq.id >= 0 && knows(d, &pass->tip[m->chain.tip], m->seq.n_done);
        }
        int n = fill(d);
        if (n == 0 || session_is_cancelled(d->first) || session_forward(d->s, n, false, NULL) < 0) return;
        for (int i = 0; i < d->n_seq; i++)
            if (d->mirror[i].chain.going) take(d, pass, &d->mirror[i], wish);
    } while (pays(d, pass, wish, &o));
}

static void begin(void *self, const struct pass *pass, const struct spec_wish *wish)
{
    struct draft_model *d = self;
    for (int i = 0; i < d->n_seq; i++) {
        const struct sample *slot = &d->sample[i];
        struct mirror *m = &d->mirror[i];
        m->chain.tip = slot->request && slot->row >= 0 ? slot->tip : -1;
        m->n_offered = 0;
        m->chain.going = false;
        if (m->chain.tip < 0 || !d->has_thread) m->chain.n_guess = 0;
        if (m->chain.tip >= 0) keep_guesses(m, &pass->tip[m->chain.tip], wish);
    }
    begin_guesses(d, pass, wish);
    d->pass = *pass;
    d->wish = *wish;
    for (int i = 0; i < d->n_seq; i++) {
        struct mirror *m = &d->mirror[i];
        m->n_offered = m->chain.n_guess < wish->most ? m->chain.n_guess : wish->most;
    }
}

static int guesses(void *self, int tip, const struct draft_guess **out)
{
    const struct draft_model *d = self;
    for (int i = 0; i < d->n_seq; i++) {
        if (d->mirror[i].chain.tip != tip) continue;
        *out = d->mirror[i].chain.guess;
        return d->mirror[i].n_offered;
    }
    return 0;
}

/* ---- opening ---- */

/* Tokens are numbers: the same have to mean the same.  Families pad their vocabularies to different sizes. */
static int find_common(struct draft_model *d, const lutra_model *a, const lutra_model *b, struct lutra_error *err)
{
    int32_t differs;
    d->n_common = text_vocab_common(a->vocab, b->vocab, -1, &differs);
    if (differs >= 0 || d->n_common == 0)
        return lutra_fail_at(err, LUTRA_E_UNSUPPORTED, (uint64_t)differs,
            "draft model '%s': token %d is not that of '%s': not one vocabulary", b->name, differs < 0 ? 0 : differs,
            a->name);
    if (n_logits(b) >= n_logits(a)) return 0;
    d->logits = calloc((size_t)n_logits(a), sizeof *d->logits);
    return d->logits ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "draft model: out of memory");
}

static int open_all(struct draft_model *d, lutra_model *model, struct lutra_error *err)
{
    const struct session_sizes size = session_sizes(d->first);
    const lutra_model *first = session_model(d->first);
    struct lutra_session_settings set;
    if (!model->model || model->runtime != first->runtime)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "draft model '%s' has no weights, or another runtime", model->name);
    TRY(find_common(d, first, model, err));
    lutra_session_settings_init(&set, sizeof set);
    set.n_ctx = d->n_ctx = size.n_ctx;
    set.n_seq = d->n_seq = size.n_seq;
    d->sample = session_samples(d->first);
    TRY(lutra_session_open(&d->s, model, &set, err));
    session_share_timeline(d->s, d->first);
    d->kv = session_cache(d->s);
    d->bulk = session_sizes(d->s).bulk;
    d->mirror = calloc((size_t)d->n_seq, sizeof *d->mirror);
    d->token = calloc((size_t)d->n_seq, (size_t)d->n_ctx * sizeof *d->token);
    if (!d->mirror || !d->token) return lutra_fail(err, LUTRA_E_NO_MEMORY, "draft model: out of memory");
    for (int i = 0; i < d->n_seq; i++)
        d->mirror[i].seq = (struct sequence){.id = -1, .token = d->token + (size_t)i * (size_t)d->n_ctx};
    return 0;
}

static void close_all(void *self)
{
    struct draft_model *d = self;
    if (d->has_thread) {
        set_ahead(d, AHEAD_ENDS);
        pthread_join(d->thread, NULL);
    }
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    lutra_session_close(&d->s);
    free(d->mirror);
    free(d->token);
    free(d->logits);
    free(d);
}

int draft_model_open(struct session_drafter *out, lutra_session *s, lutra_model *model, struct lutra_error *err)
{
    static const struct session_drafter_ops ops = {close_all, go_on, rest};
    struct draft_model *d = calloc(1, sizeof *d);
    if (!d) return lutra_fail(err, LUTRA_E_NO_MEMORY, "draft model: out of memory");
    d->first = s;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    int rc = open_all(d, model, err);
    if (rc < 0) {
        close_all(d);
        return rc;
    }
    if (!(atomic_load(&model->devices) & atomic_load(&session_model(s)->devices)))
        d->has_thread = thread_start(&d->thread, guess_ahead, d) == 0; /* without it nothing is guessed ahead */
    *out = (struct session_drafter){&ops, d, {d, begin, guesses}, d->s};
    return 0;
}
