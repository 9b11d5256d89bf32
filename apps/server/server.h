/* SPDX-License-Identifier: MIT
 *
 * An HTTP server over the public API: the front door for the program that has options and opens models.
 *
 *     struct server_settings set;
 *     server_settings_init(&set);
 *     set.model = models;  set.n_model = 1;  set.open = open_model;  set.close = close_model;
 *     int code = server_run(&set);          returns when it has been told to end
 */
#ifndef LUTRA_SERVER_SERVER_H
#define LUTRA_SERVER_SERVER_H

#include "lutra.h"

/* A model by the names that requests use; the first is shown. */
struct server_model {
    const char *const *name; /* [n_name] */
    int n_name;
    const char *path; /* to show */
};

enum { SERVER_DIGEST_BYTES = 65 };

/* An open model and a session of it.  n_seq samples run at once. */
struct server_loaded {
    lutra_model *model;
    lutra_session *session;
    struct lutra_sampling sampling; /* defaults of requests */
    int n_seq;
    enum lutra_pooling pooling; /* of texts as vectors */
    lutra_verifier **judge;     /* [server_settings.n_judge] */
};

/* A verifier that requests may name. */
struct server_judge {
    const char *name;
    int n_seq;         /* candidates of all searches at once; 0 = any number */
    bool by_name_only; /* not where a request names none */
};

/* A store of documents that requests may name. */
struct server_store {
    const char *name, *path;
};

struct server_settings {
    lutra_runtime *runtime;
    const struct server_model *model; /* [n_model] */
    int n_model;
    const struct server_judge *judge; /* [n_judge] */
    int n_judge;
    const struct server_store *store; /* [n_store] */
    int n_store;
    int (*open)(void *user, int model, struct server_loaded *out, struct lutra_error *err);
    void (*close)(void *user, int model, struct server_loaded *loaded);
    /* A name of a model's content in hexadecimal digits, as Ollama's clients compare models by: asked for once, by any
     * thread, when a list of its shows the model.  NULL: there are none. */
    void (*digest)(void *user, int model, char out[SERVER_DIGEST_BYTES]);
    void *user;
    void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2))); /* a message to the operator */
    void (*line)(const char *text, size_t n);                                   /* of the access log */

    int most_models;      /* open at once */
    int idle_s;           /* a model that nobody asks for so long is closed; 0 = never */
    bool open_when_asked; /* the first model, too, is not opened at the start */

    const char *host;       /* an address, or the path of a Unix socket: it has a slash or ends in .sock */
    int port;               /* 0 = a free one */
    bool no_auth;           /* an address that others reach may be served without keys */
    const char *const *key; /* [n_key] */
    int n_key;
    const char *key_file;
    const char *const *allow_origin; /* [n] "https://app.example", "*" */
    int n_allow_origin;
    const char *const *allow_host; /* [n] names in Host, "*" */
    int n_allow_host;
    int time_out_s; /* for headers, for a body */
    int ping_s;     /* comments in silent streams; 0 = none */
    int n_queue;    /* requests at once, waiting ones counted */
    int n_connection;
    int max_tokens;             /* of requests that do not say; -1 = until the context is full */
    bool context_shift;         /* ask.rolls of requests that do not say */
    bool strict_model;          /* a single model does not answer to other names */
    bool reasoning_in_text;     /* reasoning is not told apart */
    int reasoning_budget;       /* lutra_request.reasoning_budget of requests that do not say */
    const char *chat_template;  /* another one for all models, or NULL */
    const char *chat_variables; /* lutra_chat.variables of requests, which may say otherwise; or NULL */
    int chat_flags;             /* lutra_chat_flags about reasoning, of requests that do not say */
    bool access_log;            /* a line per request, to `line` */
    bool log_json;              /* of JSON; else for people: requests that ask or fail */
    bool log_all;               /* for people, too: of every request */
};
void server_settings_init(struct server_settings *set);

/* Is it in this build? */
bool server_is_built(void);
/* Serves until SIGINT or SIGTERM; then answers what it has taken in, and a second one ends that, too.  0, or -1 after a
 * message. */
int server_run(const struct server_settings *set);

#endif
