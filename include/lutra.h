/* SPDX-License-Identifier: MIT
 *
 * Lutra: an LLM inference engine.  This header and lutra_status.h are the whole public API.
 *
 *     lutra_runtime *rt = NULL;  lutra_model *model = NULL;  lutra_session *s = NULL;
 *     struct lutra_error err;
 *     if (lutra_runtime_open(&rt, NULL, &err) < 0 || lutra_model_open(&model, rt, "model.gguf", NULL, &err) < 0 ||
 *         lutra_session_open(&s, model, NULL, &err) < 0) { fprintf(stderr, "%s\n", err.what); ... }
 *     struct lutra_request r = lutra_request_default();
 *     r.prompt = tokens;  r.n_prompt = n;  r.on_text = print_piece;
 *     lutra_generate(s, &r, &err);
 *     lutra_session_close(&s);  lutra_model_close(&model);  lutra_runtime_close(&rt);
 *
 * One runtime (threads, devices, log) serves several loaded models; a session belongs to one model and holds its
 * cache.  Everything is closed in the reverse order of opening.
 *
 * Settings structs start with their size and come from a _default() function: the ABI can grow.  A NULL settings
 * pointer means the defaults.  Pointers in settings are borrowed for the call unless said otherwise.
 * Status: 0 or a negative LUTRA_E_*, detail in the optional error struct.
 * Threads: calls on one session must not overlap, except lutra_cancel(), which is safe anywhere, signal handlers
 * included.  Sessions of one runtime may be used from several threads; their steps take turns.
 */
#ifndef LUTRA_H
#define LUTRA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lutra_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lutra_runtime lutra_runtime;
typedef struct lutra_model lutra_model;
typedef struct lutra_session lutra_session;

const char *lutra_version(void); /* "0.1.0" */

/* Frees text returned by this API.  NULL is fine. */
void lutra_free(void *text);

/* Called during long work; total 0 = not known.  A nonzero return cancels it (LUTRA_E_CANCELLED). */
typedef int (*lutra_progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);

/* ---- runtime ---------------------------------------------------------------------------------------------------- */

struct lutra_runtime_settings {
    size_t size;
    int n_threads;      /* 0 = the CPUs this process may use (affinity and cgroup quota respected) */
    bool pin;           /* pin worker threads */
    const char *device; /* "cpu" (NULL), "cpu-ref", "npu-sim", "npu-qemu", "npu": see below */
    const char *isa;    /* highest instruction set to use ("avx2", "avx512", ...); NULL = the best here */
    lutra_log_fn log;   /* NULL = silent */
    void *log_user;
};
struct lutra_runtime_settings lutra_runtime_settings_default(void);

/* Devices: cpu-ref is the scalar reference of every operation; npu-sim an emulated NPU, npu-qemu a Hexagon program under
 * qemu-hexagon (it ends with the thread that opened the runtime), npu a Snapdragon's.  The CPU runs what an NPU cannot,
 * and everything once an NPU is lost. */
int lutra_runtime_open(lutra_runtime **out, const struct lutra_runtime_settings *settings, struct lutra_error *err);
void lutra_runtime_close(lutra_runtime **runtime); /* sets *runtime to NULL; its models must be closed */

/* Device and instruction set in words ("cpu: AMD EPYC, avx512bf16, 2 threads"); borrowed. */
const char *lutra_runtime_device_text(const lutra_runtime *runtime);
int lutra_runtime_n_threads(const lutra_runtime *runtime);

/* What the device does at best with the runtime's threads and instruction set, measured now (about half a second): the
 * yardstick of what a model achieves on it.  0: not known. */
struct lutra_peaks {
    size_t size;
    const char *int8_name;          /* the instruction behind int8_gmac_s, or NULL */
    double int8_gmac_s, f32_gmac_s; /* 10^9 multiply-accumulates a second: int8 dot products, f32 fma */
    double stream_gb_s;             /* reading memory */
    const char *bf16_name;          /* a matrix unit's product of bf16 pairs, or NULL; */
    double bf16_gmac_s;             /* the same of it */
};
void lutra_runtime_peaks(lutra_runtime *runtime, struct lutra_peaks *peaks); /* set peaks->size first */

/* ---- model ------------------------------------------------------------------------------------------------------ */

struct lutra_model_settings {
    size_t size;
    bool vocab_only; /* tokenizer and metadata only: no session can be opened */
    lutra_progress_fn progress;
    void *progress_user;
    const char *packed; /* file of lutra_pack(); NULL = MODEL.lutra-packed where there is one, "" = none */
};
struct lutra_model_settings lutra_model_settings_default(void);

/* Maps a GGUF file and prepares its weights for the runtime's devices.  An architecture, type, tokenizer or scaling
 * that is not implemented is refused by name (LUTRA_E_UNSUPPORTED). */
int lutra_model_open(lutra_model **out, lutra_runtime *runtime, const char *path,
    const struct lutra_model_settings *settings, struct lutra_error *err);
void lutra_model_close(lutra_model **model); /* its sessions must be closed */

struct lutra_model_info {
    size_t size;
    const char *name, *arch, *file_type; /* borrowed from the model */
    int n_vocab, n_ctx_train, d_model, n_layer, n_head, n_kv_head, d_head, d_ff;
    uint64_t n_param, file_bytes;
    uint64_t packed_bytes;          /* memory of prepared weights */
    uint64_t cache_bytes_per_token; /* F16 */
    int32_t bos, eos;               /* -1 = none */
    bool add_bos;
    const char *chat_template; /* NULL = none */
};
/* Set info->size first. */
void lutra_model_info_get(const lutra_model *model, struct lutra_model_info *info);

/* ---- text ------------------------------------------------------------------------------------------------------- */

enum lutra_tokenize_flags {
    LUTRA_ADD_SPECIAL = 1,   /* beginning/end tokens as the model asks */
    LUTRA_PARSE_SPECIAL = 2, /* control tokens spelt in the text become tokens */
};
/* Writes at most n_max tokens; *n_tok is how many the text has.  Thread-safe. */
int lutra_tokenize(const lutra_model *model, const char *text, size_t n_bytes, int flags, int32_t *tokens, int n_max,
    int *n_tok, struct lutra_error *err);

/* Writes at most n_max bytes of a token's text (no NUL; maybe part of a UTF-8 character); *n_bytes is its length.
 * Control tokens have text only with show_special. */
int lutra_token_text(
    const lutra_model *model, int32_t token, bool show_special, char *text, size_t n_max, size_t *n_bytes);

/* The whole text of tokens, UTF-8 (invalid bytes become U+FFFD); free with lutra_free(). */
int lutra_detokenize(const lutra_model *model, const int32_t *tokens, int n_tok, bool show_special, char **text,
    struct lutra_error *err);

/* Is it one of the model's end-of-generation tokens? */
bool lutra_token_is_end(const lutra_model *model, int32_t token);

struct lutra_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
};
/* The model's chat template over messages, as transformers renders it; *text is freed with lutra_free().
 * chat_template: another template instead of the model's, or NULL. */
int lutra_chat_render(const lutra_model *model, const char *chat_template, const struct lutra_message *messages,
    int n_message, bool add_generation_prompt, char **text, struct lutra_error *err);

/* The same with everything a template may ask for: a JSON object with "messages", "tools",
 * "add_generation_prompt", "enable_thinking", ...; bos_token and eos_token are added when absent. */
int lutra_chat_render_json(
    const lutra_model *model, const char *chat_template, const char *json, char **text, struct lutra_error *err);

/* ---- session ---------------------------------------------------------------------------------------------------- */

struct lutra_session_settings {
    size_t size;
    int n_ctx;              /* longest sequence, tokens; 0 = the model's training context, or what memory allows */
    int n_seq;              /* sequences alive at once; default 1 */
    int64_t n_cache;        /* tokens of all sequences together, shared prefixes counted once; 0 = n_ctx * n_seq, or
                               what memory allows */
    int n_batch;            /* rows of one forward pass; default 512 */
    int n_out;              /* rows of one pass whose results are kept; 0 = max(n_seq, 64) */
    const char *cache_type; /* "f16" (NULL), "f32", or "q8_0" where heads are multiples of 32 */
};
struct lutra_session_settings lutra_session_settings_default(void);

/* Reserves all memory that steps need: decoding allocates nothing. */
int lutra_session_open(
    lutra_session **out, lutra_model *model, const struct lutra_session_settings *settings, struct lutra_error *err);
void lutra_session_close(lutra_session **session);
void lutra_session_sizes(const lutra_session *session, int *n_ctx, int64_t *n_cache, uint64_t *bytes);

/* Stops what the session does within one step: running requests end with LUTRA_STOP_CANCELLED, forward passes
 * return LUTRA_E_CANCELLED.  From any thread or signal handler; cleared when the next request or pass begins. */
void lutra_cancel(lutra_session *session);

/* ---- generation: requests, continuously batched ----------------------------------------------------------------- */

struct lutra_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY forbids the token */
};

/* llama.cpp's names, defaults and order: bias, penalties, top-k, top-p, min-p, temperature. */
struct lutra_sampling {
    size_t size;
    uint64_t seed;           /* sample i of a request uses (seed, i): equal seeds give equal text */
    float temperature;       /* 0.8; <= 0 = greedy */
    int top_k;               /* 40; <= 0 = all */
    float top_p;             /* 0.95; 1 = off */
    float min_p;             /* 0.05; 0 = off */
    int penalty_last_n;      /* 64; 0 = off, -1 = the whole context */
    float repeat_penalty;    /* 1 = off */
    float frequency_penalty; /* 0 = off */
    float presence_penalty;  /* 0 = off */
    const struct lutra_logit_bias *bias;
    int n_bias;
};
struct lutra_sampling lutra_sampling_default(void);

enum lutra_stop {
    LUTRA_STOP_NONE,
    LUTRA_STOP_END,      /* end-of-generation token */
    LUTRA_STOP_STRING,   /* one of `stop` */
    LUTRA_STOP_LENGTH,   /* max_tokens */
    LUTRA_STOP_CTX_FULL, /* the sequence reached n_ctx */
    LUTRA_STOP_CALLER,   /* on_text returned nonzero */
    LUTRA_STOP_CANCELLED,
    LUTRA_STOP_DEADLINE,
    LUTRA_STOP_ERROR,
    LUTRA_STOP_PRUNED, /* a search gave it up, or had decided without it */
};

/* A token of one sample.  Text comes in whole UTF-8 characters (it may lag a token behind, n_bytes may be 0) and
 * never contains a stop string or part of one. */
struct lutra_piece {
    int32_t request;
    int sample;
    int32_t token;    /* -1: held-back text at the end, no new token */
    float log_prob;   /* natural log-probability under the model, before sampling changes */
    const char *text; /* borrowed for the call; a NUL follows (and NUL bytes may occur in it) */
    size_t n_bytes;
};

struct lutra_end {
    int32_t request;
    int sample;
    enum lutra_stop reason;
    int n_prompt, n_cached; /* prompt tokens, and how many of them came from the session's prefix cache */
    int n_tok;              /* tokens generated, the end token not counted */
    double sum_log_prob;
    uint64_t first_us, end_us; /* since submit: first token (TTFT), end */
};

struct lutra_request {
    size_t size;
    const int32_t *prompt; /* [n_prompt] copied at submit */
    int n_prompt;
    int n_samples;  /* 1; they share the prompt's cache */
    int max_tokens; /* -1 = until the context is full */
    struct lutra_sampling sampling;
    const char *const *stop; /* [n_stop] strings that end a sample; copied */
    int n_stop;
    bool ignore_end;                                             /* go on after end-of-generation tokens */
    bool show_special;                                           /* control tokens appear in the text */
    uint64_t timeout_us;                                         /* 0 = none */
    int (*on_text)(void *user, const struct lutra_piece *piece); /* may be NULL; nonzero ends this sample */
    void (*on_end)(void *user, const struct lutra_end *end);     /* may be NULL; once per sample */
    void *user;
};
struct lutra_request lutra_request_default(void);

/* Takes a request in; its samples run in the following steps.  LUTRA_E_CTX_FULL: the prompt does not fit n_ctx (ever).
 * Requests beyond n_seq or the cache wait their turn, first come first served. */
int lutra_submit(lutra_session *session, const struct lutra_request *request, int32_t *id, struct lutra_error *err);

/* One forward pass over rows of all running requests.  *n_active: samples still to finish (waiting ones counted).
 * An error ends all running samples with LUTRA_STOP_ERROR and is returned; the session stays usable. */
int lutra_step(lutra_session *session, int *n_active, struct lutra_error *err);

/* submit, then steps until this session has nothing left to do. */
int lutra_generate(lutra_session *session, const struct lutra_request *request, struct lutra_error *err);

/* Ends the samples of one request with LUTRA_STOP_CANCELLED (at the next step). */
int lutra_request_cancel(lutra_session *session, int32_t id);

/* ---- test-time scaling: several candidates, one answer ------------------------------------------------------------ */

typedef struct lutra_verifier lutra_verifier;

/* A model as a judge beside the generator.  Kinds, chosen by these settings or by the file's key `lutra.prm.kind`:
 *   value       a value head (`cls.output`): linear on the last hidden state, then a sigmoid
 *   token       the probability of one token against another behind a step ('+' and '-' unless others are named)
 *   likelihood  any language model: its probability of the step, exp(sum of log p(token | all before))
 * Its vocabulary must be the generator's.  A likelihood verifier on the generator's own lutra_model judges by the rows
 * that sampling has evaluated anyway; the other kinds evaluate theirs, as they read the row of a step's last token. */
struct lutra_verifier_settings {
    size_t size;
    int n_ctx;                       /* longest prompt + solution; 0 = the model's training context */
    int n_seq;                       /* candidates of all its searches at once; 16.  0 = no cache of its own, for
                                        searches on the same model (likelihood only) */
    int n_batch;                     /* rows of one pass; 512 */
    const char *mark;                /* text put behind each step for the verifier to judge at; NULL = none */
    const char *positive, *negative; /* token kind; NULL = what the file names */
    const char *kind;                /* NULL = what the file says */
};
struct lutra_verifier_settings lutra_verifier_settings_default(void);
int lutra_verifier_open(
    lutra_verifier **out, lutra_model *model, const struct lutra_verifier_settings *settings, struct lutra_error *err);
void lutra_verifier_close(lutra_verifier **verifier);

/* Rewards in [0, 1] of a solution's steps, read at the token before each entry of step_end (ascending offsets into
 * solution, the last <= n_solution).  Evaluates the prompt, too: a search scores only new rows. */
int lutra_verifier_score(lutra_verifier *verifier, const int32_t *prompt, int n_prompt, const int32_t *solution,
    const int *step_end, int n_step, double *reward, struct lutra_error *err);

enum lutra_search_method {
    LUTRA_SEARCH_VOTE,     /* self-consistency: the most frequent answer */
    LUTRA_SEARCH_WEIGHTED, /* votes weighted by reward */
    LUTRA_SEARCH_BEST,     /* best-of-N by reward */
    LUTRA_SEARCH_BEAM,     /* step-level beam search by reward */
    LUTRA_SEARCH_DVTS,     /* beam search in subtrees that do not compete */
    LUTRA_SEARCH_REBASE,   /* children in proportion to the softmax of rewards */
    LUTRA_SEARCH_AUTO, /* what the budget buys: the most accurate of `option`, else (weighted) votes while it lasts */
};

/* How the rewards of steps make a candidate's score.  AUTO: the product of likelihoods, else the last. */
enum lutra_search_score { LUTRA_SCORE_LAST, LUTRA_SCORE_MIN, LUTRA_SCORE_PRODUCT, LUTRA_SCORE_MEAN, LUTRA_SCORE_AUTO };

enum lutra_search_event_kind {
    LUTRA_EVENT_STEP, /* a step was scored (or, without a verifier, ended); what follows the last is one, too */
    LUTRA_EVENT_FORK, /* `candidate` is a new copy of `parent` */
    LUTRA_EVENT_PRUNE,
    LUTRA_EVENT_FINISH, /* a whole solution, scored; answer is set */
};

struct lutra_search_event {
    enum lutra_search_event_kind kind;
    int32_t request, candidate, parent; /* parent: -1 = the prompt */
    int n_step;                         /* steps so far */
    double reward, score;               /* of the last step, of the candidate; 0 without a verifier */
    const char *text;                   /* the last step (STEP), borrowed; "" otherwise */
    const char *answer;                 /* FINISH: canonical, "" = none */
};

/* A measured method, for LUTRA_SEARCH_AUTO (lutra eval --report writes such tables). */
struct lutra_search_option {
    enum lutra_search_method method;
    int width, expand;
    bool greedy;     /* one candidate at temperature 0 */
    double tokens;   /* generated per problem, all candidates */
    double us;       /* latency; < 0 = not measured */
    double accuracy; /* 0 .. 1 */
};

struct lutra_search {
    size_t size;
    enum lutra_search_method method;
    int width;  /* candidates: N of vote and best-of, rows of beam search, most at once of AUTO; 16 */
    int expand; /* BEAM, DVTS: children of each survivor, width / expand beams; 4 */
    enum lutra_search_score score;
    const char *step;         /* ends a step of any text but blanks, with the token it ends in: "\n" */
    int max_steps;            /* 64: a beam ends there; of an independent candidate, the rest is the last step */
    lutra_verifier *verifier; /* needed by all methods but VOTE */
    bool early_stop;          /* VOTE: end the others once they cannot change the winner; true */
    float prune_below;        /* live candidates below this share of the best score are pruned and give their
                                 rows to the others; 0.1 */
    float temperature;        /* REBASE; 0.1 */
    int64_t token_budget;     /* generated tokens; 0 = none.  Independent candidates are drawn in waves that should
                                 fit, and count, in order, while all up to them do; beams narrow to what is left.
                                 One candidate always comes to its end */
    void (*on_event)(void *user, const struct lutra_search_event *event); /* may be NULL */
    void *user;
    uint64_t time_budget_us;                  /* 0 = none; what is chosen then depends on the clock */
    const struct lutra_search_option *option; /* [n_option] AUTO; what a method leaves of the budget draws more */
    int n_option;
};
struct lutra_search lutra_search_default(void);

struct lutra_search_result {
    char *text;        /* the winner's; NULL = no candidate finished.  Owned by the search */
    char *answer;      /* canonical answer of `text`, "" = none */
    int32_t candidate; /* the winner, -1 = none */
    double score;      /* reward, or share of the votes */
    int n_candidates, n_finished, n_pruned;
    int64_t generated_tokens, verifier_rows;
    uint64_t us;                     /* measured, submit to end */
    enum lutra_search_method method; /* as asked, or as AUTO chose */
    int width, expand;
};

typedef struct lutra_search_run lutra_search_run;

/* Takes a search in, to run in the following lutra_step() calls beside other requests.  The request gives prompt,
 * sampling, max_tokens (of each candidate), stop strings and callbacks (a sample is a candidate); n_samples is ignored.
 * A search over steps needs a session with n_seq >= width.  Searches of one session may share a verifier, and then
 * its passes: LUTRA_E_BUSY when its n_seq leave no room for this one.  It must not be used elsewhere meanwhile. */
int lutra_search_submit(lutra_search_run **out, lutra_session *session, const struct lutra_request *request,
    const struct lutra_search *search, struct lutra_error *err);
/* NULL while it runs; valid until lutra_search_close(). */
const struct lutra_search_result *lutra_search_done(const lutra_search_run *run);
void lutra_search_close(lutra_search_run **run); /* cancels what still runs */

/* The canonical answer of a solution: what follows the last "####", stands in the last \\boxed{}, or follows "answer is",
 * else the last number; normalised (commas, currency, units, fractions, decimals, LaTeX).  Writes at most n_max bytes
 * with the NUL; returns its length, 0 = none. */
size_t lutra_answer(const char *text, char *answer, size_t n_max);

/* ---- rows: the layer below, for search, verification and evaluation ---------------------------------------------- */

/* A sequence in the cache that will hold at most max_tok tokens (0 = n_ctx).  LUTRA_E_CTX_FULL when the cache
 * cannot promise them. */
int lutra_seq_open(lutra_session *session, int max_tok, int32_t *seq, struct lutra_error *err);
/* A new sequence sharing the first n_tok tokens (n_tok <= length; -1 = all); costs at most one block copy. */
int lutra_seq_fork(lutra_session *session, int32_t seq, int n_tok, int max_tok, int32_t *fork, struct lutra_error *err);
void lutra_seq_close(lutra_session *session, int32_t seq);
int lutra_seq_length(const lutra_session *session, int32_t seq); /* committed tokens, or -1 */

enum lutra_want {
    LUTRA_WANT_LOGITS = 1,
    LUTRA_WANT_HIDDEN = 2,  /* the state after the last norm */
    LUTRA_WANT_TOPK = 4,    /* the 64 largest logits, and log_sum_exp */
    LUTRA_WANT_LOGPROB = 8, /* target_logit and log_sum_exp */
    LUTRA_ROW_DRAFT = 256,  /* a guess: kept apart until lutra_commit(), like all rows below it */
    LUTRA_ROW_BULK = 512,   /* of a prompt: whole blocks of 32 may use a faster arithmetic (docs/NUMERICS.md) */
};

struct lutra_row {
    int32_t token;
    int32_t pos; /* absolute position: length of the sequence, or parent's + 1 */
    int32_t seq;
    int32_t parent; /* earlier row of this pass that it continues, or -1 */
    uint32_t want;  /* set of enum lutra_want */
    int32_t target; /* token of LUTRA_WANT_LOGPROB */
};

struct lutra_row_result {
    int32_t row;
    const float *logits; /* [n_vocab] */
    const float *hidden; /* [d_model] */
    float log_sum_exp, target_logit;
    int n_top;
    const int32_t *top_id;
    const float *top_logit;
};

/* One forward pass.  Ordinary rows of a sequence form one chain from its end and are committed; draft rows (a chain
 * or a tree) wait for lutra_commit().  Results are valid until the next pass.  On error no sequence has changed. */
int lutra_forward(lutra_session *session, const struct lutra_row *rows, int n_row, struct lutra_error *err);
/* The i-th row that wanted something (0 .. n-1, in row order); NULL past the end. */
const struct lutra_row_result *lutra_forward_result(const lutra_session *session, int i);
/* Accepts a draft row and its ancestors of the last pass; other drafts of that sequence are forgotten. */
int lutra_commit(lutra_session *session, int32_t row, struct lutra_error *err);

/* ---- accounting ------------------------------------------------------------------------------------------------- */

/* Sums over steps since open or reset.  Counted, except the times, which are measured. */
struct lutra_stats {
    size_t size;
    uint64_t n_step;
    uint64_t rows_valid;         /* committed */
    uint64_t rows_wasted;        /* evaluated, then rejected or not needed */
    uint64_t rows_underutilized; /* rows a step could have held at about the same cost (device.flat_rows) */
    uint64_t prompt_tokens, cached_tokens, generated_tokens;
    uint64_t weight_bytes, cache_bytes; /* read by steps */
    uint64_t mac;
    uint64_t prompt_us, decode_us; /* steps with a chain of several rows, other steps */
    uint64_t sample_us;            /* sampling and text */
};
void lutra_session_stats(const lutra_session *session, struct lutra_stats *stats); /* set stats->size first */
void lutra_session_stats_reset(lutra_session *session);

/* ---- files ------------------------------------------------------------------------------------------------------ */

struct lutra_quantize_settings {
    size_t size;
    const char *type;                 /* "Q4_0", "Q8_0", "F16", ..., "COPY"; any case */
    const char *token_embedding_type; /* NULL = type (llama.cpp's --token-embedding-type) */
    const char *output_type;          /* NULL = type */
    bool allow_requantize;
    bool pure; /* no better type for the output matrix than for the rest */
    lutra_progress_fn progress;
    void *progress_user;
    lutra_log_fn log; /* tensors that kept or got another type, with the reason */
    void *log_user;
};
struct lutra_quantize_settings lutra_quantize_settings_default(void);
/* The new file appears whole or not at all. */
int lutra_quantize(lutra_runtime *runtime, const char *in_path, const char *out_path,
    const struct lutra_quantize_settings *settings, struct lutra_error *err);

#define LUTRA_PACKED_SUFFIX ".lutra-packed"

/* Writes the model's matrices as this runtime's device packs them, so that opening the model later maps them instead;
 * found without asking at the model's path + LUTRA_PACKED_SUFFIX.  The new file appears whole or not at all.  A file that
 * does not fit (another layout, or the model was changed or copied since) is left out, with a warning in the log. */
int lutra_pack(lutra_runtime *runtime, const char *model_path, const char *out_path, lutra_progress_fn progress,
    void *progress_user, struct lutra_error *err);

struct lutra_make_model_settings {
    size_t size;
    const char *shape; /* "qwen2.5-1.5b", ...: lutra_make_model_shape() */
    const char *type;  /* of the matrices */
    uint64_t seed;
    bool outliers; /* massive activations at the input of ffn_down */
    int n_layer;   /* 0 = the shape's */
    lutra_progress_fn progress;
    void *progress_user;
};
struct lutra_make_model_settings lutra_make_model_settings_default(void);
/* A file of random weights of a real shape, for measuring; streamed to disk. */
int lutra_make_model(lutra_runtime *runtime, const char *path, const struct lutra_make_model_settings *settings,
    struct lutra_error *err);
/* i = 0, 1, ... until NULL. */
const char *lutra_make_model_shape(int i);

/* Metadata, tensors and the memory a model needs, as a JSON text; free with lutra_free(). */
int lutra_inspect(const char *path, char **json, struct lutra_error *err);

#ifdef __cplusplus
}
#endif
#endif
