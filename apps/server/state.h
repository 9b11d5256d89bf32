/* SPDX-License-Identifier: MIT
 *
 * The server: its parts and what they share.
 */
#ifndef LUTRA_SERVER_STATE_H
#define LUTRA_SERVER_STATE_H

#include "exchange.h"
#include "server.h"

#include <sys/socket.h>

struct MHD_Daemon;

enum { BODY_MOST_BYTES = 4 << 20, FRONT_THREADS = 2, LINKS_MAX = 65536, KEYS_MAX = 1024 };

enum model_state { MODEL_CLOSED, MODEL_OPENING, MODEL_OPEN, MODEL_CLOSING };

/* A model that is served.  loaded, info and n_ctx are those of an open one, for who holds it (models.h). */
struct served {
    struct server *server;
    const struct server_model *set;
    int index;
    struct server_loaded loaded;
    struct lutra_model_info info;
    int n_ctx;
    int n_active; /* samples still to end, after its last pass */
    /* With model_lock held. */
    enum model_state state;
    int n_user;
    uint64_t used_us;                 /* by a request, last */
    int64_t keep_us;                  /* it stays open so long after that; -1: for good */
    char digest[SERVER_DIGEST_BYTES]; /* "": nobody has asked */
};

/* What a connection waits for. */
enum link_wait {
    LINK_SENDS, /* the rest of a request, for --timeout */
    LINK_RESTS, /* the next request, for twice as long */
    LINK_WORKS, /* the engine */
    LINK_WAITS, /* that its answer is sent; libmicrohttpd watches that */
};

/* An open connection. */
struct link {
    int fd;
    uint32_t index, generation;
    enum link_wait wait;
    struct link *previous, *next; /* of those that wait for the same */
    uint64_t deadline_us;         /* where it sends or rests */
    struct exchange *exchange;    /* at work for it */
    bool hung_up;                 /* the client sends no more */
};

/* In the order in which they began to wait, which is that of their deadlines. */
struct link_list {
    struct link *first, *last;
};

enum permit_kind { PERMIT_MODELS, PERMIT_STORES, PERMIT_JUDGES, PERMITS };

struct api_key {
    char text[256];
    char name[64];
    /* What it may use (permit.c). */
    char *only[PERMITS];      /* names with commas, owned; NULL = all */
    int n_tokens, n_requests; /* of a reply; at work at once; 0 = any number */
    atomic_int n_running;
};

struct queue {
    struct exchange *first, **last;
    int n;
};
void queue_put(struct queue *q, struct exchange *x);
struct exchange *queue_take(struct queue *q);

struct server {
    const struct server_settings *set;
    struct served *model; /* [set->n_model] */
    pthread_mutex_t model_lock, open_lock;
    pthread_cond_t model_changed;
    int main_fd;               /* an eventfd: signals add 1, models that may be closed some time 2^32 */
    struct lutra_stats closed; /* what models that were closed had counted */
    struct MHD_Daemon *daemon;
    int listen_fd;
    bool is_passed;         /* the socket is the service manager's */
    bool is_unix, is_local; /* a Unix socket; only this machine reaches it */
    char address[160];      /* to show */
    uint64_t start_us;
    int64_t start_time;  /* seconds since 1970 */
    struct api_key *key; /* [n_key] */
    int n_key;
    atomic_bool draining;

    /* Front threads: requests whose body has come. */
    pthread_mutex_t front_lock;
    pthread_cond_t front_ready;
    struct queue front;
    pthread_t front_thread[FRONT_THREADS];
    int n_front_thread;
    bool front_ends;

    /* Stepping thread. */
    pthread_mutex_t work_lock;
    pthread_cond_t work_ready;
    struct queue inbox;
    bool work_changed; /* a cancel */
    bool works, work_ends;
    lutra_session **at_work;  /* [set->n_model] the thread's own */
    lutra_session *waits_for; /* one of those that the thread sleeps for */
    pthread_t work_thread;

    /* Watch thread: connections. */
    pthread_mutex_t link_lock;
    struct link *link[LINKS_MAX]; /* by index */
    struct link_list waiting[LINK_WAITS];
    uint64_t tick_us, timer_us; /* the next look at those at work; when the timer rings; 0 = never */
    uint32_t next_link, link_generation;
    bool watches, watch_ends;
    int watch_fd, timer_fd;
    pthread_t watch_thread;

    atomic_int n_exchange, n_answering; /* at work; or still being sent */
    atomic_ullong n_request, n_refused, n_cancelled, n_prompt_token, n_cached_token, n_token;
    atomic_ullong prompt_us, decode_us;
    atomic_ullong n_pass, rows_valid, rows_wasted, rows_idle; /* of all sessions */
    atomic_int n_running, n_sample, n_paused; /* requests; samples still to end; requests whose client does not read */
};

uint64_t clock_us(void); /* monotonic */

/* front.c */
int front_start(struct server *s);
void front_stop(struct server *s);
void front_put(struct server *s, struct exchange *x);
/* The body as ask.body, and its model, for route.body; false after a problem. */
bool front_read(struct exchange *x, struct problem *p);

/* work.c */
int work_start(struct server *s);
void work_stop(struct server *s);
/* Submits a request's prompts, from any thread, before work_put(); what was submitted before one that is refused is
 * cancelled. */
void work_submit(struct exchange *x);
void work_put(struct server *s, struct exchange *x);
void work_poke(struct server *s); /* something was cancelled */

/* watch.c */
int watch_start(struct server *s);
void watch_stop(struct server *s);
struct link *watch_open(struct server *s, int fd);
void watch_close(struct server *s, struct link *l);
/* x: at work for it (LINK_WORKS), else NULL. */
void watch_set(struct server *s, struct link *l, enum link_wait wait, struct exchange *x);

/* http.c */
int http_start(struct server *s);
void http_quiesce(struct server *s); /* no new connections */
void http_stop(struct server *s);

/* listen.c: a listening socket, and the service manager told (sd_notify's protocol) */
int listen_open(struct server *s);
void listen_close(struct server *s);
void listen_notify(const char *text);

/* guard.c: keys, Host, Origin */
int guard_open(struct server *s);
void guard_close(struct server *s);
void guard_check(struct exchange *x, bool is_public, struct problem *p);
/* The cache domain of its key: no client sees by what is cached what another one has asked. */
uint64_t guard_domain(const struct exchange *x);

/* permit.c: what a key may use; a key that is NULL, everything */
bool permit_has(const struct api_key *key, enum permit_kind kind, const char *name);
bool permit_model(const struct api_key *key, const struct served *m);
/* 403: the field `param` names what the key may not use. */
void permit_refuse(struct problem *p, enum permit_kind kind, const char *param, const char *name);
/* The length of the reply that is asked for. */
void permit_tokens(const struct exchange *x, struct problem *p);
/* A request begins, or is one too many: 429; it ends. */
void permit_begin(struct exchange *x, struct problem *p);
void permit_end(struct exchange *x);
/* One "field=value" of the key file; says what is wrong. */
int permit_read(const struct server *s, struct api_key *key, const char *path, int line, const char *word);

/* log.c */
/* begun: its reply is the caller's to read; ended: so is its problem. */
void log_access(const struct exchange *x, uint64_t end_us, bool begun, bool ended);

/* ---- routes (routes.c) ------------------------------------------------------------------------------------------ */

struct route {
    const char *method, *path;
    const struct dialect *dialect;                                        /* of a generation; NULL: now or body tells */
    void (*now)(struct exchange *x, struct text *out, struct problem *p); /* answered on the I/O thread */
    void (*body)(struct exchange *x, struct text *out, struct problem *p); /* answered on a front thread */
    bool is_public;
    void (*refuse)(const struct problem *p, struct text *out); /* errors where there is no dialect; NULL = OpenAI's */
    const char *type; /* Content-Type of what `now` and `body` answer; NULL = JSON */
};
/* Handlers. */
void openai_models(struct exchange *x, struct text *out, struct problem *p);
void llama_props(struct exchange *x, struct text *out, struct problem *p);
void llama_slots(struct exchange *x, struct text *out, struct problem *p);
void llama_tokenize(struct exchange *x, struct text *out, struct problem *p);
void llama_detokenize(struct exchange *x, struct text *out, struct problem *p);
void llama_template(struct exchange *x, struct text *out, struct problem *p);
void llama_load(struct exchange *x, struct text *out, struct problem *p);
void llama_unload(struct exchange *x, struct text *out, struct problem *p);
void ollama_version(struct exchange *x, struct text *out, struct problem *p);
void ollama_tags(struct exchange *x, struct text *out, struct problem *p);
void ollama_ps(struct exchange *x, struct text *out, struct problem *p);
void ollama_show(struct exchange *x, struct text *out, struct problem *p);
void anthropic_count(struct exchange *x, struct text *out, struct problem *p);
void metrics_show(struct exchange *x, struct text *out, struct problem *p);
void openai_model(struct exchange *x, struct text *out, struct problem *p);

/* NULL after a problem: 404, or 405 with the methods there are. */
const struct route *route_find(const char *method, const char *path, struct problem *p);

#endif
