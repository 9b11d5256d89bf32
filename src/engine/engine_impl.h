/* SPDX-License-Identifier: MIT
 *
 * The engine's objects, shared by its files.
 *
 *     runtime.c   threads, device, log                    model.c     file -> weights, op list, plan; vocab.c its
 *                                                                     tokens
 *     text.c      tokens and chat templates               session.c   memory, forward passes, accounting
 *     step.c      a step: the sources of its rows         sample.c    one running sample: token -> text -> end
 *     request.c   requests: submit, admission, ends       prefix.c    finished sequences kept for reuse
 *     packed.c    the packed cache beside a model         inspect.c   what a file says
 *     memory.c    values and cache on the devices         turn.c      one thread at a time on the devices
 *     hints.c     what is likely behind a prompt's tokens  draft.c     a second model that drafts
 *     observe.c   a look at every matmul's inputs
 */
#ifndef LUTRA_ENGINE_ENGINE_IMPL_H
#define LUTRA_ENGINE_ENGINE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/pool.h"
#include "decode/grammar/grammar.h"
#include "decode/row_cost.h"
#include "decode/sample/sampler.h"
#include "decode/source.h"
#include "decode/speculate/speculate.h"
#include "engine/settings.h"
#include "kv/kv.h"
#include "lutra.h"
#include "model/model.h"
#include "sched/plan.h"
#include "text/encode.h"
#include "text/reasoning.h"
#include "text/stream.h"
#include "text/template.h"
#include "text/vocab.h"
#include "weights/weights.h"

/* Threads take turns, first come first served; one that has the turn may take it again. */
struct turn {
    pthread_mutex_t lock;
    pthread_cond_t given;
    uint64_t next, now; /* the number that the next to come gets, and the one whose turn it is */
    pthread_t owner;    /* while depth > 0 */
    int depth;          /* how often the owner has taken it */
};

struct lutra_runtime {
    struct log log;
    struct clock clock;
    struct pool *pool;
    struct pool *cluster[PLAN_DEVICES];  /* of clusters of CPUs but the first, whose pool is `pool`; or NULL */
    struct device *device[PLAN_DEVICES]; /* [n_device], the first is asked first; the CPU is one of them */
    atomic_bool lost[PLAN_DEVICES];
    int n_device;
    struct device *cpu;
    /* Whoever has it may run a pass, prepare and release weights, reserve, allocate buffers, and read or change the
     * plans of this runtime's models: a step that loses its device changes its model's. */
    struct turn turn;
    char *npu_path[3]; /* qemu, program, library: the devices' while they are open; or NULL */
    char text[400];
};

struct lutra_model {
    lutra_runtime *runtime;
    struct weights *weights;
    struct weights *packed; /* packed copies of its matrices (weights/packed.h), or NULL */
    bool check_packed;      /* their sums are compared even where they are used in place */
    int n_damaged;          /* copies whose sums were wrong */
    struct text_vocab *vocab;
    struct text_template *chat;   /* NULL: none in the file, or one that does not parse (then logged) */
    char *chat_source;            /* NUL-terminated copy, or NULL */
    atomic_bool chat_told;        /* what the template cannot take has been said */
    const struct text_tags *tags; /* of reasoning, known from it; NULL: none */
    struct model *model;          /* NULL when vocab_only, like the plan */
    bool by_piece;                /* weights are packed when a layer is reached (model_hold) and freed after it */
    struct plan plan;
    struct demand_rates demand; /* of a pass */
    int n_plan;                 /* how often the plan has changed */
    struct row_cost cost;  /* of passes, as the last session to be closed has measured it; under the runtime's turn */
    int cost_plan;         /* n_plan then */
    struct device *loaded; /* has the op list's constants, or NULL */
    _Atomic uint64_t packed_bytes;
    char name[128], file_type[16];
    struct lutra_sampling sampling; /* the defaults of its requests */
    char *samplers;                 /* that the file names, or NULL */
};

/* ---- a session ---- */

struct sample;
struct draft_model;

enum { SESSION_STOP_BYTES = 512 /* longest stop string */, SESSION_BIAS = 4096, SESSION_RETAINED = 4 };

/* Who looks after the samples of a request, a search: told as they run, without a row of its own. */
struct sample_watch {
    void (*begin)(void *self, struct sample *slot); /* it starts from the prompt */
    void (*token)(void *self, struct sample *slot); /* a token came in and it goes on; may pause it */
    void (*end)(void *self, struct sample *slot, enum lutra_stop reason);
    void (*over)(void *self); /* so has the request */
};

/* One sample slot: what a running sample needs, reserved when the session opens. */
struct sample {
    struct request *request; /* NULL: the slot is free */
    int index;               /* which of the request's samples */
    int32_t seq;
    int32_t grammar_state;   /* of its text, where the request has a grammar */
    int32_t pending;         /* token to evaluate next */
    bool paused;             /* no row until a search goes on with it */
    int32_t row;             /* where it stands in the current pass, or -1 */
    int tip;                 /* of the pass; -1: none, it began from the prompt's logits */
    int32_t *token;          /* [n_ctx + 1] prompt and generated tokens; the last may not be in the cache yet */
    int n_token;             /* how many of them are in the cache or in the current pass */
    struct row_hints *hints; /* [n_ctx + 1] behind each token, as far as known; NULL: the session has none */
    int n_generated;
    int n_pass, n_drafted, n_accepted; /* passes it had rows in; drafts in them; those that became text */
    int64_t n_underutilized;           /* rows that they could have held besides */
    double draft_us;                   /* its share of the drafting for them */
    double sum_log_prob;
    uint64_t first_us;
    struct text_stream *stream;
    char *hold; /* text not yet given out: it may begin a stop string or a tag */
    size_t n_hold;
    struct text_reasoning reasoning;
    size_t n_before; /* bytes given out before the answer */
    int n_thought;   /* tokens of reasoning */
    int n_closed;    /* tokens of the request's closing tag that it was made to say */
};

/* A submitted request.  Its prompt lives in its own sequence until the last of its samples has started. */
struct request {
    struct request *next;
    struct lutra_request set; /* with its own copies of prompt, stop and bias */
    int32_t id;
    int32_t seq; /* of the prompt; -1 before it starts and after the last sample took it over */
    int n_vocab;
    int max_tok;  /* of each of its sequences */
    int n_done;   /* prompt tokens in the cache */
    int n_cached; /* of these, from the prefix cache */
    int n_started, n_ended;
    int32_t last_row;             /* row of the last prompt token in the current pass, or -1 */
    const struct text_tags *tags; /* of reasoning, or NULL */
    bool reasons;                 /* the prompt has opened it */
    struct text_tokens closing;   /* the tag that a reasoning budget ends in; empty: none */
    struct row_hints *hints;      /* [n_prompt] behind each token, as far as known; NULL: the session has none */
    bool cancelled;
    struct lutra_error failed; /* its draft source said what cannot be; code 0: nothing */
    uint64_t submit_us;
    double calibrate_us;             /* its share of the hints' time */
    struct sample_settings sampling; /* with its own copies of biases and breakers */
    int32_t *breaker_tail;
    const struct sample_watch *watch; /* NULL: independent samples for the caller */
    void *watcher;
    struct grammar *grammar; /* NULL: its text is free */
    struct grammar_machine *machine;
    uint64_t *allow; /* [n_seq][n_allow] by slot: tokens that the sample may say next */
    int n_allow;
    int width;          /* slots that the watcher keeps while it runs; 0: samples take them as they come free */
    int32_t share;      /* blocks that each of these slots keeps, too; 0: samples wait for theirs */
    int32_t n_reserved; /* promised to it and not in use by its prompt and samples */
};

/* A finished sequence kept so that a later prompt with the same beginning need not be evaluated again. */
struct retained {
    int32_t seq;             /* -1: empty */
    int32_t *token;          /* [n_ctx] */
    struct row_hints *hints; /* [n_ctx] or NULL */
    int n_token;
    uint64_t used; /* step number: the oldest goes first */
};

/* hints.c */
struct hints {
    int n_row;           /* that run at once; 0: the session has no hints */
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
    bool free_windows;
    struct arena arena;
    uint64_t bytes; /* all memory of the session */

    struct kv_cache *kv;
    struct buffer kv_memory;
    struct buffer value[VALUE_MAX];
    struct batch batch;  /* of the last pass */
    struct row_tip *tip; /* [n_seq] of it */
    struct row_source *sources, samples, prompts;
    struct speculator *speculator;   /* NULL: none */
    struct draft_model *draft_model; /* NULL: none */
    struct spec_model draft_face;
    struct spec_settings spec;
    struct hints hints;
    struct row_cost cost; /* of passes of decoding */
    int n_cost;           /* passes that it has learnt from */
    struct pass_figures {
        uint64_t draft_us;   /* drafting for it, and learning from the one before */
        uint64_t learn_us;   /* from it */
        int n_underutilized; /* as in lutra_stats */
    } of_pass;
    float fixed_cost; /* of a row, in passes of one: nothing is measured; 0: none */
    int32_t *out_row;
    struct row_result *result; /* [n_out] */
    int n_result;
    float *logits; /* [n_out][n_vocab] */
    float *hidden; /* [n_out][d_model] */
    int32_t *top_id;
    float *top_logit;    /* [n_out][ROW_TOPK] */
    float *listed_logit; /* [n_out][ROW_LISTED] */
    struct lutra_row_result *public_result;

    atomic_bool cancel;
    struct lutra_stats stats;

    struct sampler *sampler;
    struct grammar_vocab *grammar_vocab; /* NULL before the first request with a grammar */
    struct sample *sample;               /* [n_seq] */
    int32_t *held;                       /* [n_seq + 1] scratch: the sequences of a request */
    struct sample_pick *pick;            /* [n_seq] of the current step */
    int *pick_status;
    struct lutra_error failed;    /* the first sample of a lutra_generate() that ended in an error; code 0 = none */
    struct request *first, *last; /* submitted, oldest first */
    int32_t next_id;
    struct retained retained[SESSION_RETAINED];
};

/* turn.c */
void turn_init(struct turn *t);
void turn_fini(struct turn *t);
void turn_take(struct turn *t);
void turn_give(struct turn *t);

/* runtime.c: the first device that is not lost. */
struct device *runtime_first(const lutra_runtime *rt);
/* Those that are left, in order; returns how many. */
int runtime_devices(const lutra_runtime *rt, struct device *out[PLAN_DEVICES]);
/* fn(arg, i) for i = 0..n-1 on its threads. */
void runtime_parallel(void *runtime, void (*fn)(void *arg, int i), void *arg, int n);

/* model.c: after LUTRA_E_DEVICE_LOST, the model on the devices that are left: a new plan, and what was on the lost one
 * is prepared again from the file.  With the turn. */
int model_leave_device(struct lutra_model *m, struct device *lost, struct lutra_error *err);

/* model.c: as lutra_model_open, for the quantizer: matrices keep the file's column order (weights_order).
 * by_piece: only observe.c runs it, piece by piece and not to its head; weights are prepared when a piece holds them,
 * and released behind it. */
int model_open_unsorted(lutra_model **out, lutra_runtime *runtime, const char *path,
    const struct lutra_model_settings *settings, bool by_piece, struct lutra_error *err);
/* Prepares what n operations read and is not prepared yet; with another model nothing.  What was held when it fails
 * goes with the model. */
int model_hold(struct lutra_model *m, const struct op *op, int n, struct lutra_error *err);
void model_let_go(struct lutra_model *m, const struct op *op, int n);

/* memory.c: the session's values and cache, where the model's plan needs them.  With the turn. */
int memory_open(lutra_session *s, enum quant_type type, struct lutra_error *err);
/* What a cache of n_block blocks is opened with, but for its order and who makes room. */
struct kv_settings memory_cache(const struct op_list *list, enum quant_type type, int n_ctx, int64_t n_block, int n_seq,
    int n_row, int n_draft, bool free_windows);
/* The same for devices that the plan has now and had not before.  With the turn. */
int memory_follow(lutra_session *s, struct lutra_error *err);
/* Takes the turn. */
void memory_close(lutra_session *s);

/* The vocabulary of a file.  The caller closes *out, NULL on failure. */
int vocab_read(struct text_vocab **out, const struct weights *w, struct lutra_error *err);

/* session.c: drafters, where the settings name any, or at the first request that brings its own. */
int session_speculate(lutra_session *s, bool anyway, struct lutra_error *err);

/* hints.c: whether the session's drafters want hints, and sizes; then, with its arrays, their op list. */
int hints_open(lutra_session *s, const struct lutra_session_settings *set, struct lutra_error *err);
void hints_make(lutra_session *s);
/* Its plan, on the devices that are left: at first, and when the model's has changed.  With the turn. */
int hints_plan(lutra_session *s, struct lutra_error *err);
void hints_close(lutra_session *s);
/* Fills those of the rows that ask for them, behind the pass.  With the turn. */
int hints_run(lutra_session *s, const struct step *pass, const struct plan_rescue *rescue, struct lutra_error *err);

/* draft.c: a session of `model`, of the same runtime and vocabulary, beside this one, which has its sizes. */
int draft_model_open(struct draft_model **out, lutra_session *s, lutra_model *model, struct lutra_error *err);
void draft_model_close(struct draft_model **d);
struct spec_model draft_model_face(struct draft_model *d);
/* Memory of its session, in bytes. */
uint64_t draft_model_bytes(const struct draft_model *d);

/* session.c: one pass over s->batch.row[0 .. n_row - 1]; commits ordinary rows. */
int session_forward(lutra_session *s, int n_row, struct lutra_error *err);
/* finite.c: LUTRA_E_INTERNAL where a result of the pass is no number; names the position and a weight that is none. */
int session_check_numbers(const lutra_session *s, struct lutra_error *err);
/* Adds the sources that every session has. */
void sources_open(lutra_session *s);
/* What the last pass left for a row; NULL: it wanted nothing. */
const struct row_result *session_result(const lutra_session *s, int32_t row);

/* text.c: whether the text of tokens ends with the tag that opens reasoning; tags may be NULL. */
bool text_opens_reasoning(
    const struct text_vocab *vocab, const struct text_tags *tags, const int32_t *token, int n_tok);

/* sample.c */
void sample_start(lutra_session *s, struct sample *slot, struct request *r, int32_t seq);
/* The token that it says next whatever is picked: of a given text, or of the tag after a budget.  -1: what is
 * picked. */
int32_t sample_forced(struct sample *slot);
/* Takes the picked token in: text out, end reached or not. */
void sample_advance(lutra_session *s, struct sample *slot, const struct sample_pick *pick);
void sample_end(lutra_session *s, struct sample *slot, enum lutra_stop reason);
/* The sample goes no further in this pass: drafts up to the row where it stands become its past. */
int sample_settle(lutra_session *s, struct sample *slot);
/* Bytes of its text, n_text in all, that come before the answer. */
size_t sample_before_answer(const struct sample *slot, size_t n_text);
/* For samples that end before they start. */
void request_end_unstarted(lutra_session *s, struct request *r, enum lutra_stop reason);

/* prefix.c */
void prefix_open(lutra_session *s, int32_t *tokens, struct row_hints *hints);
/* Gives a finished sample's sequence to the prefix cache (or closes it).  It stays while nobody needs its blocks. */
void prefix_retain(lutra_session *s, struct sample *slot);
/* Closes the sequence that was not used for longest; false: there is none. */
bool prefix_make_room(void *session);
/* A sequence for the prompt with as many tokens as a retained one shares, whose hints are copied, or an empty one. */
struct prefix_prompt {
    const int32_t *token; /* [n_token] */
    int n_token;
    struct row_hints *hints; /* [n_token] or NULL */
};
int prefix_seq_open(lutra_session *s, const struct prefix_prompt *prompt, int max_tok, int32_t *seq, int *n_cached,
    struct lutra_error *err);
int prefix_seq_fork(lutra_session *s, int32_t from, int n_tok, int max_tok, int32_t *seq, struct lutra_error *err);

/* sampling.c: what a model file says of sampling; a request's settings, the caller's over the model's. */
int model_read_sampling(struct lutra_model *model, struct lutra_error *err);
int request_copy_sampling(
    const lutra_session *session, struct request *r, const struct lutra_request *set, struct lutra_error *err);

/* request.c */
void requests_close(lutra_session *s);
void request_end(lutra_session *s, struct request *r, enum lutra_stop reason);
void requests_end(lutra_session *s, enum lutra_stop reason); /* all of them */
/* Asks the caller for drafts of a tip of request `r` (row_tip.guess). */
int request_guess(void *r, const struct row_tip *tip, const float *rate, int most, struct draft_guess *out);
/* Whether its prompt is being evaluated. */
bool request_in_prompt(const struct request *r);
/* Was it cancelled, is its time over, or did its draft source fail? */
enum lutra_stop request_stopped(const lutra_session *s, const struct request *r);
/* Ends what was stopped, and frees what has ended. */
void requests_sweep(lutra_session *s);
/* Starts what can start: samples of evaluated prompts first, then the prompts of waiting requests, in order. */
/* Blocks that a sample may need beside those of the prompt that it shares. */
int32_t request_share(int n_prompt, int max_tok);
/* The same of `width` samples that fork one another, the prompt, and the tails that two hold until one copies them. */
int64_t request_blocks(int n_prompt, int max_tok, int width);
/* A slot's blocks go to the sample that is about to begin or be forked. */
void request_lend(lutra_session *s, struct request *r);
/* What its samples do not hold of all its blocks is reserved; false: the cache cannot promise them. */
bool request_reserve(lutra_session *s, struct request *r);
void requests_admit(lutra_session *s);
/* The sequence of the next sample, n_tok tokens of the prompt.  A single sample takes the prompt's own. */
int request_sample_seq(lutra_session *s, struct request *r, int n_tok, int32_t *seq);
/* Slots that r may take: the free ones, less those that other searches have a right to. */
int n_free_slots(const lutra_session *s, const struct request *r);
/* The longest one of its sequences may become: prompt and max_tokens, within the context. */
int request_max_tok(const lutra_session *s, const struct lutra_request *set);
/* A slot that no sample uses, or NULL. */
struct sample *free_slot(lutra_session *s);
/* A copy of a running sample in another slot, as the request's next sample; NULL when there is no room. */
struct sample *sample_fork(lutra_session *s, struct sample *from);

#endif
