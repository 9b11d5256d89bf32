/* SPDX-License-Identifier: MIT
 *
 * Requests and their samples, for whoever decides which of them go on: the engine's own files, and searches above it.
 */
#ifndef LUTRA_ENGINE_SAMPLES_H
#define LUTRA_ENGINE_SAMPLES_H

#include "decode/grammar/grammar.h"
#include "decode/sample/sampler.h"
#include "decode/source.h"
#include "engine/passes.h"
#include "text/encode.h"
#include "text/stream.h"

struct sample;

/* The search over a request's samples: told as they run, without a row of its own. */
struct sample_watch {
    void (*begin)(void *self, struct sample *slot); /* it starts from the prompt */
    void (*token)(void *self, struct sample *slot); /* a token came in and it goes on; may pause it */
    void (*end)(void *self, struct sample *slot, enum lutra_stop reason);
    bool (*waits)(const void *self); /* for a verifier outside: no samples may run, but the request is not over */
    void (*over)(void *self);        /* so has the request */
};

/* One sample slot: what a running sample needs, reserved when the session opens. */
struct sample {
    struct request *request;           /* NULL: the slot is free */
    int index;                         /* which of the request's samples */
    struct sequence seq;               /* [n_ctx + 1] prompt and generated tokens */
    bool has_room;                     /* for the rows of this pass */
    int32_t grammar_state;             /* of its text, where the request has a grammar */
    bool paused;                       /* no row until a search goes on with it */
    int32_t row;                       /* where it stands in the current pass, or -1 */
    int tip;                           /* of the pass; -1: none, it began from the prompt's logits */
    int n_pass, n_drafted, n_accepted; /* passes it had rows in; drafts in them; those that became text */
    int64_t n_underutilized;           /* rows that they could have held besides */
    double draft_us;                   /* its share of the drafting for them */
    double sum_log_prob;
    uint64_t first_us;
    struct text_stream *stream;
    char *hold; /* text not yet given out: it may begin a stop string or a tag */
    size_t n_hold;
    struct text_reasoning reasoning;
    size_t n_before;                                 /* bytes given out before the answer */
    int n_thought;                                   /* tokens of reasoning */
    int n_closed;                                    /* tokens of the request's closing tag that it was made to say */
    int stop;                                        /* of lutra_end */
    struct lutra_token_prob top[LUTRA_TOP_LOGPROBS]; /* [n_top] of the last token */
    int n_top;
};

/* Tokens that it has generated, in order behind the prompt's. */
static inline int sample_length(const struct sample *slot)
{
    return slot->seq.n_token - slot->seq.n_prompt;
}
static inline const int32_t *sample_generated(const struct sample *slot)
{
    return slot->seq.token + slot->seq.n_prompt;
}

/* A submitted request. */
struct request {
    struct request *next;
    struct lutra_request set;                   /* with its own copies of prompt, stop and bias */
    struct lutra_request_experiment experiment; /* the same of likely and forced tokens */
    uint64_t prompt_hash;                       /* of its tokens and its cache_domain */
    int32_t id;
    struct sequence seq; /* of the prompt: in the cache from its start until its last sample has begun */
    int n_vocab;
    int max_tok;  /* of each of its sequences */
    int n_cached; /* prompt tokens found in the cache when it began */
    int n_told;   /* prompt tokens that its caller has heard of */
    bool has_begun;
    bool stuck;   /* it, or a sample of it, waits for blocks or slots */
    int n_passed; /* requests that began meanwhile */
    int n_started, n_ended;
    const struct text_tags *tags;  /* of reasoning, or NULL */
    int32_t channel;               /* token that begins a text of channels; -1: none */
    bool reasons;                  /* the prompt has opened it */
    struct text_tokens closing;    /* the tag that a reasoning budget ends in; empty: none */
    atomic_bool cancelled, paused; /* by its caller, from any thread */
    bool waiting;                  /* it has not begun; under the inbox lock */
    struct lutra_error failed;     /* its draft source said what cannot be; code 0: nothing */
    uint64_t submit_us;
    double hints_us;                 /* its share of the hints' time */
    struct sample_settings sampling; /* with its own copies of biases and breakers */
    int32_t *breaker_tail;
    const struct sample_watch *watch; /* NULL: independent samples for the caller */
    void *watcher;
    struct grammar_entry *grammar; /* NULL: its text is free */
    struct grammar_machine *machine;
    bool sees_all;   /* the grammar sees headers and reasoning, too */
    uint64_t *allow; /* [n_seq][n_allow] by slot: tokens that the sample may say next */
    int n_allow;
    uint64_t *no_end;   /* [n_allow] all but tokens that end a sample; NULL: it may always end */
    uint64_t start_us;  /* of lutra_end */
    int width;          /* slots that the watcher keeps while it runs; 0: samples take them as they come free */
    int32_t share;      /* blocks that each of these slots keeps, too; 0: samples wait for theirs */
    int32_t n_reserved; /* promised to it and not in use by its prompt and samples */
};

/* ---- of a session, for searches ---- */

uint64_t session_now_us(const lutra_session *s);
/* Its next pass has something to do.  Any thread. */
void session_news(lutra_session *s);
/* Whether a verifier outside is waited for. */
bool request_waits(const struct request *r);
/* Its slots, [n_seq]. */
struct sample *session_samples(lutra_session *s);
/* Its requests, oldest first. */
struct request *session_requests(const lutra_session *s);
/* Where sources are added. */
struct row_source **session_sources(lutra_session *s);

/* Makes a prompt of the request's text, in `own`, which must outlive *set. */
int request_encode(const lutra_session *s, struct lutra_request *set, struct text_tokens *own, struct lutra_error *err);

/* lutra_submit() with a search over its samples. */
struct request_care {
    const struct sample_watch *watch;
    void *watcher;
    int width; /* as in struct request */
    int32_t share;
    struct request *request; /* out */
};
int request_submit(
    lutra_session *s, const struct lutra_request *set, struct request_care *care, int32_t *id, struct lutra_error *err);

/* ---- ends and forks ---- */

void sample_end(lutra_session *s, struct sample *slot, enum lutra_stop reason);
/* It cannot go on: this sample ends, for the reason in `why`, which is logged; others of its request go on. */
void sample_fail(lutra_session *s, struct sample *slot, const struct lutra_error *why);
/* Bytes of its text, n_text in all, that come before the answer. */
size_t sample_before_answer(const struct sample *slot, size_t n_text);
/* For samples that end before they start. */
void request_end_unstarted(lutra_session *s, struct request *r, enum lutra_stop reason);

void request_end(lutra_session *s, struct request *r, enum lutra_stop reason);

/* Blocks that a sample may need beside those of the prompt that it shares. */
int32_t request_share(int n_prompt, int max_tok);
/* The same of `width` samples that fork one another, the prompt, and the tails that two hold until one copies them. */
int64_t request_blocks(int n_prompt, int max_tok, int width);
/* The longest one of its sequences may become: prompt and max_tokens, within the context. */
int request_max_tok(const lutra_session *s, const struct lutra_request *set);
/* A copy of a running sample in another slot, as the request's next sample; NULL when there is no room or memory. */
struct sample *sample_fork(lutra_session *s, struct sample *from);

#endif
