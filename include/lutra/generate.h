/* SPDX-License-Identifier: MIT
 *
 * Requests, continuously batched.
 *
 *     struct lutra_request r;
 *     lutra_request_init(&r, sizeof r);
 *     r.prompt = tokens;  r.n_prompt = n;  r.on_text = print_piece;
 *     lutra_generate(session, &r, &err);
 *
 * Or several at once: lutra_submit() each, then lutra_step() until none is active.  A thread that serves others:
 *
 *     while (lutra_wait(&session, 1, LUTRA_WAIT_FOREVER) == 1 && !ends) lutra_step(session, NULL, &err);
 */
#ifndef LUTRA_GENERATE_H
#define LUTRA_GENERATE_H

#include "lutra/chat.h"
#include "lutra/session.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lutra_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -INFINITY forbids the token */
};

/* llama.cpp's names, defaults and order: bias, penalties, dry, top-n-sigma, top-k, typical-p, top-p, min-p, XTC,
 * temperature (`samplers` may change it), then the draw.  The token at a position is a function of the sequence's text
 * and the seed. */
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
    /* The chain, "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature" (NULL), any of these and
     * adaptive_p in any order: what is left out is off.  Copied at submit. */
    const char *samplers;
    float dry_multiplier;   /* 0 = off: what goes on with text of the last dry_penalty_last_n tokens loses ... */
    float dry_base;         /* 1.75: ... multiplier x base ^ (length of the match - allowed) */
    int dry_allowed_length; /* 2 tokens */
    int dry_penalty_last_n; /* 64; 0 = off, -1 = the whole context */
    /* [n] texts that no match goes across, copied; n 0: "\n" ":" "\"" "*"; n -1: none.  At most 64 of at most 40
     * bytes. */
    const char *const *dry_sequence_breakers;
    int n_dry_sequence_breakers;
    float top_n_sigma;                       /* -1; <= 0 = off */
    float typical_p;                         /* 1 = off */
    float xtc_probability, xtc_threshold;    /* 0 = off; 0.1, above 0.5 = off */
    float dynatemp_range, dynatemp_exponent; /* 0 = off; 1 */
    int mirostat;                            /* 0 = off; 1, 2: it cuts, and of the others only temperature acts */
    float mirostat_tau, mirostat_eta;        /* 5 bits, 0.1: target surprise and learning rate */
    float adaptive_target, adaptive_decay;   /* -1 = off, else 0..1, with adaptive_p in `samplers`; 0.9 */
};
LUTRA_API void lutra_sampling_init(struct lutra_sampling *sampling, size_t size);

/* The same with what the model's file recommends (general.sampling.*): the defaults of its requests.  `samplers` is the
 * model's. */
LUTRA_API void lutra_model_sampling_get(const lutra_model *model, struct lutra_sampling *sampling, size_t size);

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
    LUTRA_STOP_PRUNED, /* a search dropped this candidate, or had already chosen its answer */
    LUTRA_STOP_TOKEN,  /* one of `stop_tokens` */
};

/* What a text is: models that reason do so first, between tags that their template mentions
 * (lutra_model_info.reasoning_open).  The parts together are the text. */
enum lutra_part {
    LUTRA_PART_ANSWER,
    LUTRA_PART_REASONING,
    LUTRA_PART_MARK, /* a tag, and spaces around reasoning */
};

/* Never changes. */
struct lutra_token_prob {
    int32_t token;
    float log_prob; /* natural, under the model, before sampling changes and masks */
};

enum { LUTRA_TOP_LOGPROBS = 20 };

/* A token of one sample.  Text comes in whole UTF-8 characters (it may lag a token behind, n_bytes may be 0) and
 * never contains a stop string or part of one. */
struct lutra_piece {
    int32_t request;
    int sample;
    int32_t token;    /* -1: more of the last one's text, or held-back text at the end; no new token */
    float log_prob;   /* natural log-probability under the model, before sampling changes */
    const char *text; /* borrowed for the call; a NUL follows (and NUL bytes may occur in it) */
    size_t n_bytes;
    enum lutra_part part;
    const struct lutra_token_prob *top; /* [n_top] the likeliest at the token's place, best first; borrowed */
    int n_top;                          /* the request's top_logprobs; 0 where token is -1 */
};

/* A token of a prompt, as the model saw it coming. */
struct lutra_prompt_piece {
    int32_t request;
    int index; /* in the prompt, 1 and on */
    int32_t token;
    float log_prob;                     /* natural, under the model, behind the tokens before it */
    const struct lutra_token_prob *top; /* [n_top] the likeliest there, best first; borrowed */
    int n_top;                          /* the request's top_logprobs */
};

struct lutra_end {
    int32_t request;
    int sample;
    enum lutra_stop reason;
    int n_prompt, n_cached; /* prompt tokens, and how many of them came from the session's prefix cache */
    int n_tok;              /* tokens generated, the end token not counted */
    double sum_log_prob;
    uint64_t first_us, end_us; /* since submit: first token (TTFT), end */
    int n_pass;                /* passes that it had rows in: n_tok / n_pass is the accept length */
    int n_drafted, n_accepted; /* drafts in them; those that became its text */
    int n_wasted;              /* drafts that did not */
    int64_t n_underutilized;   /* rows that its passes could have held besides, as in lutra_stats */
    uint64_t draft_us;         /* its share of the drafting for its passes */
    uint64_t hints_us;         /* its request's share of hints: what is likely behind the prompt's tokens */
    int stop;                  /* index of the stop string or stop token that ended it; -1: another reason */
    uint64_t
        start_us; /* since submit: its prompt was begun.  first_us - start_us is the prompt's time, end_us - first_us
                          that of decoding */
};

struct lutra_request {
    size_t size;
    const int32_t *prompt; /* [n_prompt] copied at submit */
    int n_prompt;
    int n_samples;                         /* 1; they share the prompt's cache */
    int max_tokens;                        /* -1 = until the context is full; 0 = none: the prompt is evaluated */
    const struct lutra_sampling *sampling; /* copied at submit; NULL = lutra_model_sampling_get() */
    const char *const *stop;               /* [n_stop] strings that end a sample; copied */
    int n_stop;
    bool ignore_end;                                             /* go on after end-of-generation tokens */
    bool show_special;                                           /* control tokens appear in the text */
    uint64_t timeout_us;                                         /* 0 = none */
    int (*on_text)(void *user, const struct lutra_piece *piece); /* may be NULL; nonzero ends this sample */
    void (*on_end)(void *user, const struct lutra_end *end);     /* may be NULL; once per sample */
    void *user;
    /* Drafts of the caller's own beside those of the session's spec_type (docs/SPECULATION.md), or NULL: fills at most
     * n_max and returns how many.  Which of them are evaluated is the session's choice, and none changes the text.  A
     * token or parent that cannot be, or too many, end the request with LUTRA_STOP_ERROR. */
    int (*on_draft)(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max);
    const char *chat_template; /* that made the prompt: its tags tell reasoning apart; NULL = the model's */
    /* Tokens that a sample may think; then it says the tag that ends reasoning, with log-probs of 0, and goes on with
     * its answer. Up to 8 more where they complete a character, the tag or what may be a stop string.  0: the tag comes
     * at once; -1 (default): as many as it likes.  Where the chat template has no tags of reasoning, anything but -1 is
     * LUTRA_E_ARGUMENT. */
    int reasoning_budget;
    /* What every sample's text must be, or NULL; at most one of the two, a NUL-terminated text, read at submit.  The
     * best tokens that are allowed are drawn from, as if all others had a logit of -infinity; log-probs stay the
     * model's.  Reasoning before the answer is free, and ends no text that owes one.  A sample ends with LUTRA_STOP_END
     * where its text is whole and nothing may follow.  src/decode/grammar/README.md lists what is built; what is not is
     * LUTRA_E_UNSUPPORTED, what cannot be read LUTRA_E_FORMAT, both with the line or path. */
    const char *grammar;     /* GBNF, llama.cpp's notation */
    const char *json_schema; /* a JSON Schema */
    /* Requests share evaluated prompts within one domain only, so that n_cached and times tell one client nothing of
     * another's prompts; 0 is a domain, too. */
    uint64_t cache_domain;
    int top_logprobs; /* likeliest tokens that pieces list, 0 .. LUTRA_TOP_LOGPROBS */
    int min_tokens;   /* until a sample has so many, no end-of-generation or stop token is drawn */
    /* [n_stop_tokens] tokens that end a sample and are no part of its text, at most 64; copied. */
    const int32_t *stop_tokens;
    int n_stop_tokens;
    /* Prompt tokens in the cache so far: as the prompt begins, those that are found there; then after each pass that
     * evaluated some.  May be NULL. */
    void (*on_prompt)(void *user, int32_t request, int n_done, int n_prompt);
    /* [n_text] the prompt as text, where `prompt` is NULL: tokens as LUTRA_ADD_SPECIAL | LUTRA_PARSE_SPECIAL makes
     * them.  Without known_hints. */
    const char *text;
    size_t n_text;
    /* Instead of `grammar` and `json_schema`: structural tags in XGrammar's notation (JSON), text that is free up to a
     * trigger and constrained behind it, as for calls of tools; src/decode/grammar/structure.c lists what is built.
     * With show_special they see control tokens, too.  Where the text is divided into channels they see all of it. */
    const char *structure;
    const struct lutra_request_experiment *experiment; /* lutra/experimental.h; NULL = none */
    /* Hears of each prompt token but the first, once and in order, before the samples' text; may be NULL.  The prompt
     * is then evaluated whole, whatever is cached, and none of its rows as bulk rows (docs/NUMERICS.md). */
    void (*on_prompt_piece)(void *user, const struct lutra_prompt_piece *piece);
};
LUTRA_API void lutra_request_init(struct lutra_request *request, size_t size);

/* Takes a request in, from any thread; its samples run in the passes that follow.  LUTRA_E_CTX_FULL: the prompt does
 * not fit n_ctx (ever); LUTRA_E_BUSY: n_queue others wait already.  Requests beyond n_seq or the cache wait their turn,
 * first come first served. */
LUTRA_API int lutra_submit(
    lutra_session *session, const struct lutra_request *request, int32_t *id, struct lutra_error *err);

/* One forward pass over rows of all running requests.  *n_active: samples still to finish (waiting ones counted).
 * An error ends all running samples with LUTRA_STOP_ERROR and is returned; the session stays usable. */
LUTRA_API int lutra_step(lutra_session *session, int *n_active, struct lutra_error *err);

/* submit, then passes until this session has nothing left to do.  Samples that ended in an error or were cancelled make
 * it return the first one's reason (LUTRA_E_CANCELLED). */
LUTRA_API int lutra_generate(lutra_session *session, const struct lutra_request *request, struct lutra_error *err);

/* From any thread, taken in by the next lutra_step(): ends the samples of one request with LUTRA_STOP_CANCELLED; gives
 * it no rows until it is resumed (its samples keep their places, its deadline and a cancel still end it).
 * LUTRA_E_NOT_FOUND: it has ended, or there is none. */
LUTRA_API int lutra_request_cancel(lutra_session *session, int32_t id);
LUTRA_API int lutra_request_pause(lutra_session *session, int32_t id);
LUTRA_API int lutra_request_resume(lutra_session *session, int32_t id);

#ifdef __cplusplus
}
#endif
#endif
