/* SPDX-License-Identifier: MIT
 *
 * One prompt, several ways, one text; and text to tokens and back.  Through the public API alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "check/check_impl.h"

enum { N_PROMPT = 70, N_REPLY = 24, N_BESIDE = 3, N_OTHER = 9 };

struct reply {
    int32_t token[N_REPLY];
    double log_prob[N_REPLY];
    int n;
    const struct reply *guess; /* what drafts say */
    bool wrong;                /* every second guess is another token */
    int n_vocab;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct reply *r = user;
    if (p->token >= 0 && r->n < N_REPLY) r->log_prob[r->n] = (double)p->log_prob, r->token[r->n++] = p->token;
    return 0;
}

/* A chain of what was said the first time. */
static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    const struct reply *r = user;
    int at = r->n, n = 0;
    (void)tip;
    while (n < n_max && n < 4 && at + n < r->guess->n) {
        int32_t token = r->guess->token[at + n];
        if (r->wrong && n % 2 == 1) token = (token + 1) % r->n_vocab;
        draft[n] = (struct lutra_draft){.token = token, .parent = n - 1, .p = 0.9f};
        n++;
    }
    return n;
}

struct texts {
    struct checker *c;
    lutra_model *model;
    lutra_session *session;
    struct lutra_model_info info;
    int32_t prompt[N_PROMPT], other[N_OTHER];
};

/* Tokens that are words, as the generator says. */
static void draw_tokens(const struct texts *t, uint32_t stream, int32_t *token, int n)
{
    struct rng_key key = {0x6c757472, stream, 1};
    for (int i = 0; i < n; i++) token[i] = (int32_t)(rng_u32(key, (uint32_t)i) % (uint32_t)t->info.n_vocab);
    if (t->info.add_bos) token[0] = t->info.bos;
}

static int ask(struct texts *t, struct reply *r, int n_prompt, bool cached, int n_beside, struct lutra_error *err)
{
    struct lutra_request q;
    struct lutra_sampling s;
    struct reply beside[N_BESIDE] = {0};
    int32_t id, ids[N_BESIDE];
    int n_active = 1;
    lutra_sampling_init(&s, sizeof s);
    lutra_request_init(&q, sizeof q);
    s.temperature = 1;
    s.seed = 7;
    q.prompt = t->prompt;
    q.n_prompt = n_prompt;
    q.sampling = &s;
    q.max_tokens = N_REPLY;
    q.ignore_end = true;
    q.on_text = on_text;
    q.user = r;
    if (r->guess) q.on_draft = on_draft;
    q.cache_domain = cached ? 1 : 2 + (uint64_t)(uintptr_t)r; /* of its own: nothing is found in the cache */
    r->n_vocab = t->info.n_vocab;
    TRY(lutra_submit(t->session, &q, &id, err));
    q.prompt = t->other;
    q.n_prompt = N_OTHER;
    q.on_draft = NULL;
    for (int i = 0; i < n_beside; i++) {
        s.seed = (uint64_t)(100 + i);
        q.user = &beside[i];
        TRY(lutra_submit(t->session, &q, &ids[i], err));
    }
    while (n_active > 0) TRY(lutra_step(t->session, &n_active, err));
    return 0;
}

static void compare(struct texts *t, const struct reply *a, const struct reply *b, const char *how)
{
    int i = 0;
    while (i < a->n && i < b->n && a->token[i] == b->token[i] &&
           memcmp(&a->log_prob[i], &b->log_prob[i], sizeof a->log_prob[i]) == 0)
        i++;
    if (i == a->n && i == b->n) return;
    check_found(t->c, "a prompt %s gives another text than alone: token %d of %d", how, i, a->n);
}

/* The log-probabilities of a reply's tokens behind a fork of the prompt, all rows in one pass. */
static int score_fork(struct texts *t, const struct reply *first, struct lutra_error *err)
{
    struct lutra_row row[N_PROMPT + N_REPLY];
    int32_t seq, fork;
    int cut = N_PROMPT / 2;
    TRY(lutra_seq_open(t->session, 0, &seq, err));
    for (int i = 0; i < cut; i++) row[i] = (struct lutra_row){t->prompt[i], i, seq, i - 1, 0, 0};
    int rc = lutra_forward(t->session, row, cut, sizeof *row, err);
    if (rc == 0) rc = lutra_seq_fork(t->session, seq, -1, 0, &fork, err);
    if (rc < 0) {
        lutra_seq_close(t->session, seq);
        return rc;
    }
    int n = 0;
    for (int i = cut; i < N_PROMPT + first->n; i++, n++) {
        int32_t token = i < N_PROMPT ? t->prompt[i] : first->token[i - N_PROMPT];
        row[n] = (struct lutra_row){token, i, fork, n - 1, 0, 0};
        int next = i - N_PROMPT + 1;
        if (next >= 0 && next < first->n) row[n].want = LUTRA_WANT_LOGPROB, row[n].target = first->token[next];
    }
    rc = lutra_forward(t->session, row, n, sizeof *row, err);
    for (int i = 0; rc == 0 && i < first->n; i++) {
        const struct lutra_row_result *r = lutra_forward_result(t->session, i);
        float log_prob = r ? r->target_logit - r->log_sum_exp : 0;
        if (log_prob == (float)first->log_prob[i]) continue;
        check_found(
            t->c, "a prompt behind a fork gives another log-probability than alone: token %d of %d", i, first->n);
        break;
    }
    lutra_seq_close(t->session, fork);
    lutra_seq_close(t->session, seq);
    return rc;
}

static int check_replies(struct texts *t, struct lutra_error *err)
{
    struct reply alone = {0}, now;
    draw_tokens(t, 1, t->prompt, N_PROMPT);
    draw_tokens(t, 2, t->other, N_OTHER);
    TRY(ask(t, &alone, N_PROMPT, true, 0, err));
    now = (struct reply){0};
    TRY(ask(t, &now, N_PROMPT, true, 0, err));
    compare(t, &alone, &now, "from the cache");
    now = (struct reply){0};
    TRY(ask(t, &now, N_PROMPT, false, N_BESIDE, err));
    compare(t, &alone, &now, "beside others");
    now = (struct reply){.guess = &alone};
    TRY(ask(t, &now, N_PROMPT, false, 0, err));
    compare(t, &alone, &now, "with right drafts");
    now = (struct reply){.guess = &alone, .wrong = true};
    TRY(ask(t, &now, N_PROMPT, false, 0, err));
    compare(t, &alone, &now, "with wrong drafts");
    return score_fork(t, &alone, err);
}

/* An encoder's vector of the prompt, alone and between others. */
static int check_vectors(struct texts *t, struct lutra_error *err)
{
    size_t n = (size_t)t->info.d_model;
    float *out = malloc(4 * n * sizeof *out);
    draw_tokens(t, 1, t->prompt, N_PROMPT);
    draw_tokens(t, 2, t->other, N_OTHER);
    const struct lutra_embed_text text[] = {{t->other, N_OTHER}, {t->prompt, N_PROMPT}, {t->other, 1}};
    int rc = out ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "check: out of memory");
    if (rc == 0) rc = lutra_embed(t->session, &text[1], 1, LUTRA_POOL_MEAN, out, err);
    if (rc == 0) rc = lutra_embed(t->session, text, 3, LUTRA_POOL_MEAN, out + n, err);
    if (rc == 0 && memcmp(out, out + 2 * n, n * sizeof *out) != 0)
        check_found(t->c, "a text between others gives another vector than alone");
    free(out);
    return rc;
}

/* Whether a token has no text: what it stood for is lost. */
static bool loses(const struct texts *t, const int32_t *token, int n)
{
    char piece[256];
    for (int i = 0; i < n; i++) {
        size_t n_bytes = 0;
        if (lutra_token_text(t->model, token[i], false, piece, sizeof piece, &n_bytes) < 0 || n_bytes == 0) return true;
    }
    return false;
}

static int check_round_trips(struct texts *t, int *n_text, struct lutra_error *err)
{
    static const char *const text[] = {"The owls were counted by night.", " two  spaces, and a tab\there",
        "Zeile eins\nZeile zwei: \xc3\xa4\xc3\xb6\xc3\xbc \xc3\x9f", "int main(void) { return 0x2a; }",
        "\xe6\xbc\xa2\xe5\xad\x97 \xd0\xba\xd0\xb8\xd1\x80\xd0\xb8\xd0\xbb\xd0\xbb \xf0\x9f\xa6\x89",
        "1,234.5 + 67 = ?"};
    int32_t token[256], again[256];
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        int n, n_again = 0;
        char *back = NULL;
        TRY(lutra_tokenize(t->model, text[i], strlen(text[i]), 0, token, 256, &n, err));
        if (t->info.encoder && loses(t, token, n < 256 ? n : 256)) continue; /* unknown words of WordPiece */
        TRY(lutra_detokenize(t->model, token, n < 256 ? n : 256, false, &back, NULL, err));
        int rc = lutra_tokenize(t->model, back, strlen(back), 0, again, 256, &n_again, err);
        bool same = rc == 0 && n_again == n && memcmp(again, token, (size_t)n * sizeof *token) == 0;
        if (strcmp(back, text[i]) != 0 && !same) /* some vocabularies lose letters' case or spaces, but only once */
            check_found(t->c, "text becomes tokens and another text: '%s' comes back as '%s'", text[i], back);
        lutra_free(back);
        if (rc < 0) return rc;
        ++*n_text;
    }
    return 0;
}

static void check_template(struct texts *t)
{
    struct lutra_message m = {.role = "user", .content = "How are owls counted?"};
    struct lutra_chat chat;
    struct lutra_error why = {0};
    int32_t token[4];
    int n;
    if (!t->info.chat_template) return;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &m;
    chat.n_message = 1;
    if (lutra_chat_tokenize(t->model, &chat, token, 4, &n, &why) < 0)
        check_found(t->c, "the chat template renders no message: %s", why.what);
}

int check_texts(struct checker *c, lutra_model *model, lutra_session *session, struct lutra_error *err)
{
    struct texts t = {.c = c, .model = model, .session = session};
    int n_text = 0;
    lutra_model_info_get(model, &t.info, sizeof t.info);
    TRY((t.info.encoder ? check_vectors : check_replies)(&t, err));
    TRY(check_round_trips(&t, &n_text, err));
    check_template(&t);
    check_passed(c, "one %s ways; %d texts to tokens and back%s", t.info.encoder ? "text in two" : "prompt in six",
        n_text, t.info.chat_template ? "; the chat template" : "");
    return 0;
}
