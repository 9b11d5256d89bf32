/* SPDX-License-Identifier: MIT
 *
 * A session, shared by the engine's files: memory, passes, and what runs in them.
 *
 *     session.c   memory, forward passes, accounting       pass.c      a pass: the sources of its rows
 *     request.c   requests: submit, ends                   sample.c    one running sample: token -> text -> end
 *     prefix.c    what texts find in the cache             memory.c    values and cache on the devices
 *     inbox.c     what other threads ask for            admit.c     slots and memory: who begins, who waits
 *     hints.c     what is likely behind a prompt's tokens
 */
#ifndef LUTRA_ENGINE_SESSION_IMPL_H
#define LUTRA_ENGINE_SESSION_IMPL_H

#include "base/arena.h"
#include "base/settings.h"
#include "engine/drafters.h"
#include "engine/passes.h"
#include "kv/kv.h"
#include "ops/head.h"

enum { SESSION_STOP_BYTES = 512 /* longest stop string */, SESSION_BIAS = 4096 };

/* hints.c */
struct hints {
    int n_row;           /* that run at once; 0: no drafter asks for more of a pass than its results */
    bool wanted, states; /* hints of prompts; states of rows that want no result (session_ask_state) */
    int n_short;         /* tokens of the shortlist; 0: the whole vocabulary */
    size_t row_bytes;    /* of the head's matrix as in the file */
    struct op_list list; /* its operations: [list.n_op] */
    struct op *op;
    struct plan *plan;
    int n_plan;            /* 1 + the model's, when it was made; 0: never */
    struct weight weight;  /* the head's of the shortlist */
    int32_t *id, *next_id; /* [n_short] of the shortlist that is prepared; of one that may be */
    bool chosen;           /* one is prepared */
    uint8_t *source;       /* [n_short][row_bytes] */
    uint8_t *seen;         /* [n_vocab / 8 + 1] */
    struct batch batch;    /* the pass's, that wants hints alone */
    int32_t *out_row;      /* [n_row] */
    struct row_result *result;
    int32_t *top_id; /* [n_row][ROW_TOPK] */
    float *top_logit;
};

/* What other threads have asked for (inbox.c); all under the runtime's inbox lock. */
struct inbox {
    struct request *first, *last; /* submitted, not yet among the session's */
    uint64_t n_news, n_seen;      /* submits, cancels, resumes; of these, those that a pass has taken in */
    int n_waiting;                /* requests that have not begun */
    bool idle;                    /* the last pass had nothing to do */
    bool woken;                   /* lutra_wake() */
    bool closing;                 /* takes no more requests */
    int32_t next_id;
};

struct lutra_session {
    lutra_model *model;
    struct device *home, *cache_home; /* that allocated the values, and the cache */
    struct joined {
        struct device *device; /* with memory of its own */
        int n_value;           /* values that have a place there */
        bool cache;            /* has the cache one? */
    } joined[PLAN_DEVICES];
    int n_joined;
    int n_plan; /* the model's, when they were joined */
    int n_ctx, n_seq, n_batch, n_out, n_draft;
    int64_t n_cache;
    bool swa_trim;
    struct arena arena;
    uint64_t bytes; /* all memory of the session */

    struct kv_cache *kv;
    struct buffer kv_memory;
    struct buffer state_memory; /* states of recurrent layers, the CPU's; empty where there are none */
    struct buffer value[VALUE_MAX];
    struct waits *waits; /* for devices */
    struct timeline *timeline;
    struct batch batch;  /* of the last pass */
    struct row_tip *tip; /* [n_seq] of it */
    struct row_source *sources, samples, prompts;
    struct speculator *speculator; /* NULL: none */
    struct session_drafter drafter[DRAFTERS];
    const float *const *given; /* session_give_states; NULL: of no block */
    struct spec_settings spec;
    struct hints hints;
    struct row_cost cost; /* of passes of decoding */
    int n_cost;           /* passes that it has learnt from */
    struct pass_figures {
        uint64_t draft_us;   /* drafting for it, and learning from the one before */
        uint64_t learn_us;   /* from it */
        int n_underutilized; /* as in lutra_stats */
        int n_ahead;         /* rows of prompts that later passes will have */
    } of_pass;
    uint64_t prompt_us;   /* lutra_session_settings */
    float fixed_cost;     /* of a row, in passes of one: nothing is measured; 0: none */
    uint64_t *row_domain; /* [n_batch] pass.domain */
    int32_t *out_row;
    struct row_result *result; /* [n_out] */
    int n_result;
    float *logits; /* [n_out][n_vocab] */
    float *hidden; /* [n_out][d_model] */
    float *state;  /* [n_batch][d_model] of the rows that were asked for it: asked[row] */
    bool *asked;   /* [n_batch]; both NULL where hints.states is not set */
    int32_t *top_id;
    float *top_logit;       /* [n_out][ROW_TOPK] */
    float *listed_logit;    /* [n_out][ROW_LISTED] */
    struct head_parts head; /* of wanted rows, where devices share the head; else NULLs */
    struct lutra_row_result *public_result;

    atomic_bool cancel;
    uint32_t has_devices;    /* in its pass: those of the turn that it has */
    const char *lost_device; /* in this pass, the last one; or NULL */
    struct lutra_stats stats;

    struct sampler *sampler;
    pthread_mutex_t grammar_lock;
    struct grammar_cache *grammar_cache;    /* NULL before the first request with a grammar; under the lock */
    struct grammar_vocab *grammar_vocab[2]; /* [1] with control tokens spelt out; as above */
    struct sample *sample;                  /* [n_seq] */
    int32_t *held;                          /* [n_seq + 1] scratch: the sequences of a request */
    struct sample_pick *pick;               /* [n_seq] of the current pass */
    int *pick_status;
    struct lutra_error failed; /* why the first sample of a lutra_generate() failed or was cancelled; code 0 = none */
    struct request *first, *last; /* taken in, oldest first; links change under the inbox lock only */
    struct inbox inbox;
    int n_queue;          /* requests that may wait to begin */
    struct text_way *way; /* [n_way <= 2 n_seq + KV_SPARE] texts under way */
    int n_way;
    struct row_hints *kept_hints; /* [n_block][KV_BLOCK] behind the tokens of each block; NULL: the session has none */
};

/* memory.c: the session's values and cache, where the model's plan needs them.  With the turn. */
int memory_open(lutra_session *s, const enum quant_type *type, struct lutra_error *err);
/* The same for devices that the plan has now and had not before.  With the turn. */
int memory_follow(lutra_session *s, struct lutra_error *err);
/* Takes the turn. */
void memory_close(lutra_session *s);

/* hints.c: whether the session's drafters want hints or states, and sizes; then, with its arrays, their op list. */
int hints_open(lutra_session *s, const struct lutra_session_settings *set, struct lutra_error *err);
void hints_make(lutra_session *s);
/* Its plan, on the devices that are left: at first, and when the model's has changed.  With the turn. */
int hints_plan(lutra_session *s, struct lutra_error *err);
void hints_close(lutra_session *s);
/* Fills hints and states of the rows that ask for them, behind the pass.  With the turn. */
int hints_run(
    lutra_session *s, const struct pass_args *pass, const struct plan_rescue *rescue, struct lutra_error *err);

/* Adds the sources that every session has. */
void sources_open(lutra_session *s);
/* What the last pass left for a row; NULL: it wanted nothing. */
const struct row_result *session_result(const lutra_session *s, int32_t row);

/* sample.c */
/* In a slot, from its sequence in the cache, of the first n_done tokens of the prompt; row: of the last one in this
 * pass, where that has just been evaluated. */
void sample_start(lutra_session *s, struct sample *slot, struct request *r, int32_t seq, int n_done, int32_t row);
/* The token that it says next whatever is picked: of a given text, or of the tag after a budget.  -1: what is
 * picked. */
int32_t sample_forced(struct sample *slot);
/* Takes the picked token in: text out, end reached or not. */
void sample_advance(lutra_session *s, struct sample *slot, const struct sample_pick *pick);
/* The sample goes no further in this pass: drafts up to the row where it stands become its past. */
int sample_settle(lutra_session *s, struct sample *slot);

/* prefix.c: a sequence gets room, with what is found of it, whose hints are copied. */
int prefix_open(lutra_session *s, struct sequence *q, int max_tok);
/* Whether a text under way is about to evaluate more of what it shares with this one than there is now, by a block or
 * more: this one had better wait. */
bool prefix_is_coming(lutra_session *s, const struct sequence *q);
/* Keeps the hints of what is new in a sequence. */
void prefix_note(lutra_session *s, struct sequence *q);
/* Lists s->way. */
void texts_under_way(lutra_session *s);

/* sampling.c: a request's settings, the caller's over the model's. */
int request_copy_sampling(
    const lutra_session *session, struct request *r, const struct lutra_request *set, struct lutra_error *err);

/* inbox.c: puts a request among those that wait; LUTRA_E_BUSY: there are n_queue.  Any thread. */
int inbox_put(lutra_session *s, struct request *r, int32_t *id, struct lutra_error *err);
/* What was submitted joins the session's requests; the ends of a pass, and of a request. */
void inbox_take(lutra_session *s);
void inbox_rest(lutra_session *s, bool idle);
void inbox_begun(lutra_session *s, struct request *r);
/* Takes *link out of the session's requests; before: the one in front, or NULL. */
void inbox_unlink(lutra_session *s, struct request **link, struct request *before);
/* Samples of requests that are not taken in yet. */
int inbox_samples(lutra_session *s);
void inbox_close(lutra_session *s);

/* request.c */
void requests_close(lutra_session *s);
void requests_end(lutra_session *s, enum lutra_stop reason); /* all of them */
/* Asks the caller for drafts of a tip of request `r` (row_tip.guess). */
int request_guess(void *r, const struct row_tip *tip, const float *rate, int most, struct draft_guess *out);
/* Whether its prompt is being evaluated; whether it is to get no rows. */
bool request_in_prompt(const struct request *r);
bool request_paused(const struct request *r);
/* sample.c: the likeliest tokens of a row, as many as the request wants, into top; returns how many. */
int request_top(
    const struct request *r, const struct row_result *result, struct lutra_token_prob top[LUTRA_TOP_LOGPROBS]);
/* Was it cancelled, is its time over, or did its draft source fail? */
enum lutra_stop request_stopped(const lutra_session *s, const struct request *r);
/* Ends what was stopped, and frees what has ended. */
void requests_sweep(lutra_session *s);

/* admit.c: samples may be promised what the next pass writes; those that find no room wait. */
void requests_make_room(lutra_session *s);
/* Starts what can start, in order: samples that lost their room, samples of evaluated prompts, prompts. */
void requests_admit(lutra_session *s);
void request_give_back(lutra_session *s, struct request *r, int32_t n);
/* A slot's blocks go to the sample that is about to begin or be forked. */
void request_lend(lutra_session *s, struct request *r);
/* What its samples do not hold of all its blocks is reserved; false: the cache cannot promise them. */
bool request_reserve(lutra_session *s, struct request *r);
/* Starts samples of an evaluated prompt while slots are free: at the row of its last token in this pass, or, with row
 * -1, one token before its end.  false: one has to wait for blocks. */
bool request_start_samples(lutra_session *s, struct request *r, int32_t row);
/* Slots that r may take: the free ones, less those that other searches have a right to. */
int n_free_slots(const lutra_session *s, const struct request *r);
/* A slot that no sample uses, or NULL. */
struct sample *free_slot(lutra_session *s);

#endif
