/* SPDX-License-Identifier: MIT
 *
 * A dialect translates: a body into a struct ask, and what the engine says into the API's bytes.
 */
#ifndef LUTRA_SERVER_DIALECT_H
#define LUTRA_SERVER_DIALECT_H

#include "ask.h"

/* A token of a choice and what was likely in its place. */
struct scored {
    int32_t token;
    float log_prob;
    int n_top;
    struct lutra_token_prob top[LUTRA_TOP_LOGPROBS];
};

/* Tokens of a prompt: all, of these found in the cache, of these there now; milliseconds since it was begun. */
struct progress {
    int n_prompt, n_cached, n_done;
    double ms;
};

/* A call of a tool. */
struct call {
    char name[128], id[32];
    struct text arguments; /* JSON, as far as it has come */
};

/* One choice so far. */
struct choice {
    struct call *call; /* [n_call] */
    int n_call;
    struct call_parser calls;
    int64_t n_thought; /* tokens of reasoning */
    struct text answer, reasoning;
    struct scored *scored; /* [n_scored] where log_probs were asked for */
    int n_scored, n_told;  /* n_told: of them told in a stream */
    struct scored *asked;  /* [n_asked] of its prompt, from the second token on, where those were asked for: only the */
    int n_asked;           /* first choice of a prompt has them */
    int n_measured;        /* a dialect's: of its prompt's tokens and its own, so many have been told, */
    size_t n_bytes;        /* with so much text */
    struct lutra_end end;
    bool begun, ended;
};

/* What came of a choice. */
enum delta_kind {
    DELTA_ANSWER,
    DELTA_REASONING,
    DELTA_TOKEN,     /* no text yet, but a scored token */
    DELTA_CALL,      /* a new call, the choice's last one; its name is known */
    DELTA_ARGUMENTS, /* more of its arguments */
    DELTA_END,
};

/* A reply under way.  Used by one thread at a time: the one that sends. */
struct reply {
    const struct ask *ask;
    const struct served *model;
    struct choice *choice; /* [n_choice] */
    int n_choice;
    struct text *out;
    struct text notes; /* owned; members of "lutra", where the reply is no stream */
    char id[48];
    int64_t created; /* seconds since 1970 */
    uint64_t start_us;
    uint64_t load_us;     /* waited for the model */
    int n_event, n_part;  /* a dialect's: events told, parts begun */
    enum delta_kind part; /* a dialect's: what the part under way holds; DELTA_END: there is none */
};

struct delta {
    enum delta_kind kind;
    int choice;
    const char *text;
    size_t n;
};

struct dialect {
    const char *name;
    void (*read)(struct ask *a, struct problem *p);
    const char *stream_type; /* Content-Type of a stream */
    const char *ping;        /* keeps a silent stream alive; NULL = nothing can */
    void (*delta)(struct reply *r, const struct delta *d);
    void (*note)(struct reply *r, const char *member, size_t n); /* of "lutra", within a stream; NULL = none are told */
    void (*progress)(struct reply *r, int choice, const struct progress *p); /* within a stream; NULL: it is not told */
    void (*finish)(struct reply *r);                                         /* of a stream, all choices ended */
    void (*whole)(struct reply *r);                                          /* not a stream: everything at once */
    void (*refuse)(const struct problem *p, struct text *out);
    void (*broken)(const struct problem *p, struct text *out); /* an error within a stream */
};

extern const struct dialect dialect_chat, dialect_completions, dialect_llama, dialect_infill, dialect_ollama_chat,
    dialect_ollama_generate, dialect_anthropic, dialect_responses;

/* ---- shared by dialects ----------------------------------------------------------------------------------------- */

/* Is this an error that ends the whole reply? */
bool end_is_error(const struct lutra_end *end);
/* "stop", "length": OpenAI's words. */
const char *end_word(const struct lutra_end *end);
/* The same of a choice: "tool_calls" where it ended with calls. */
const char *choice_word(const struct choice *c);
struct usage {
    int64_t prompt, cached, generated, thought;
};
struct usage reply_usage(const struct reply *r);
/* The stop string, or the stop token's text, that ended a choice, as a JSON string; `none` where something else did. */
void reply_stop_json(const struct reply *r, const struct choice *c, const char *none, struct text *out);
/* A call's arguments as an object; what the model wrote that is none becomes {"malformed": "..."}. */
void reply_arguments(const struct call *call, struct text *out);
/* llama.cpp's prompt_progress object. */
void reply_progress(const struct progress *p, struct text *out);
/* llama.cpp's timings object. */
void reply_timings(const struct reply *r, struct text *out);
/* Text of a token as bytes; static storage is not used: into out. */
void token_text(const struct served *m, int32_t token, struct text *out);

/* OpenAI's error object. */
void openai_error(const struct problem *p, struct text *out);

#endif
