/* SPDX-License-Identifier: MIT
 *
 * What a client asks for, whatever API it speaks.  A dialect (dialect.h) fills a struct ask from a body's fields;
 * ask_prepare() makes the prompts of it, with a model; the stepping thread (work.h) submits them.
 */
#ifndef LUTRA_SERVER_ASK_H
#define LUTRA_SERVER_ASK_H

#include "calls.h"
#include "json.h"

struct served;
struct exchange;

enum {
    ASK_PROMPTS_MAX = 256,
    ASK_TEXTS_MAX = 2048, /* to be turned into vectors */
    ASK_CHOICES_MAX = 256,
    ASK_STOPS_MAX = 64,
    ASK_BIAS_MAX = 4096,
};

/* One prompt: one request of the engine. */
struct prompt {
    struct exchange *exchange;
    int first; /* its choices: first .. first + n - 1 */
    int32_t *token;
    int n_token;
    int n_first; /* of a query and a document: tokens of the query */
    char *text;  /* to echo; freed with free() */
    int32_t id;  /* of the engine's request while it runs */
    int n_ended;
    int n_cached;      /* tokens that were found when it began */
    uint64_t begin_us; /* 0: it has not */
    bool running;
    /* Of a search: its run, its candidates' ends (by their numbers; owned), and these together. */
    lutra_search_run *search;
    unsigned char *reason;
    int n_reason, n_candidate;
    struct lutra_end all;
};

struct ask {
    json_t *body; /* owned; strings below are borrowed from it */
    const char *model;
    /* One of: a conversation, texts or token lists, a hole to fill. */
    json_t *chat;                /* owned: what a chat template is rendered with (lutra_chat.json), or NULL */
    const json_t *raw;           /* a string, a list of tokens, both mixed, or a list of these; borrowed */
    const char *raw_name;        /* the field that it comes from */
    const char *prefix, *suffix; /* both set: a hole between them */
    bool rolls;                  /* a conversation longer than the context loses its oldest turns ... */
    int n_dropped;               /* ... so many messages */
    const char *go_on;           /* text of the assistant that the reply continues, or NULL */
    bool no_reasoning;           /* the template is told not to think */
    int chat_flags;              /* lutra_chat_flags about reasoning where the request does not say */
    const char *chat_variables;  /* of the template, the server's; or NULL */
    bool hide_reasoning;         /* no reasoning in the reply */
    bool reasoning_in_text;      /* reasoning and its tags are ordinary text */
    struct lutra_request set;    /* n_samples, max_tokens, grammar, ...; not yet prompt, sampling and callbacks */
    struct lutra_sampling sampling;
    struct lutra_logit_bias *bias; /* owned */
    const char *stop[ASK_STOPS_MAX];
    int32_t stop_token[ASK_STOPS_MAX];
    const json_t *tools; /* that may be called; borrowed; NULL = none */
    bool must_call;      /* the reply is calls and nothing else */
    const char *tool;    /* ... one of this tool; NULL = of any */
    bool one_call;       /* at most one */
    enum call_style calls;
    struct lutra_request_experiment experiment;
    int32_t *said;                      /* owned; for tests: what the reply says, whatever the model holds likely */
    struct text schema, samplers;       /* owned: set.json_schema or set.structure, sampling.samplers */
    const char *breaker[ASK_STOPS_MAX]; /* sampling.dry_sequence_breakers */
    bool stream, include_usage, echo;
    bool nothing;                    /* no prompt: the client only wants the model to be loaded (Ollama) */
    int n;                           /* choices shown of each prompt; set.n_samples are drawn */
    int n_top;                       /* likeliest tokens shown beside each token */
    bool log_probs, shows_log_probs; /* tokens are kept with their log-probabilities; for llama.cpp: and shown */
    bool tokens;                     /* llama.cpp: token ids are shown */
    bool timings;
    bool progress;      /* of prompts is told in streams */
    bool scores_prompt; /* the prompt's tokens, too, are told with their log-probabilities */
    bool keeps;         /* how long its model stays open, Ollama's keep_alive; -1: for good */
    int64_t keep_us;
    /* Several candidates. */
    bool searches, events;    /* what becomes of them is told */
    struct lutra_search look; /* not yet verifier and callbacks */
    const char *store;        /* of documents to answer from, or NULL; and how many passages at most */
    int n_passage;
    const char *judge;       /* the verifier's name, or NULL */
    const char *judge_field; /* that has it */
    /* Not to be answered, but turned into vectors. */
    bool embeds, base64;
    bool ranks; /* each document of `raw` becomes a score for the query */
    const char *query;
    bool cuts;             /* texts that are too long are cut */
    int dimensions;        /* that the vectors must have; 0 = the model's */
    float *vector;         /* [n_prompt][d_model], or [n_prompt] scores; owned */
    int n_vector;          /* of them done */
    struct prompt *prompt; /* [n_prompt] owned */
    int n_prompt;
};

void ask_init(struct ask *a, json_t *body);
void ask_free(struct ask *a);

/* Fields that dialects share: sampling by llama.cpp's names (OpenAI's are among them), stop, seed, n, logit_bias. */
void ask_sampling(struct ask *a, const struct fields *f);
void ask_stop(struct ask *a, const struct fields *f, const char *name);
/* "grammar", "json_schema" of llama.cpp; a schema is kept as text. */
void ask_grammar(struct ask *a, const struct fields *f);
void ask_schema(struct ask *a, const json_t *schema, struct problem *p);
/* OpenAI's messages, checked, text parts joined, as chat["messages"]; what follows the last one as go_on. */
void ask_messages(struct ask *a, const struct fields *f);

/* OpenAI's tools and tool_choice. */
void ask_tools(struct ask *a, const struct fields *f);
/* Holds calls to the tools' schemas, in the format of a chat template (call_forms.c). */
void ask_structure(struct ask *a, enum call_style style, const char *chat_template, struct problem *p);

/* A conversation that rolls loses its oldest turns until a share of the context and room for the reply hold it. */
void ask_roll(struct ask *a, const struct served *m, const char *chat_template, double share, struct problem *p);
/* Tokens of a conversation's prompt. */
int ask_measure(const struct ask *a, const struct served *m, const char *chat_template, struct problem *p);
/* Prompts of a model: renders, tokenizes, checks lengths; sampling's defaults must have been set before reading. */
void ask_prepare(struct ask *a, const struct served *m, const char *chat_template, struct problem *p);

#endif
