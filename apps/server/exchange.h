/* SPDX-License-Identifier: MIT
 *
 * A request of HTTP and its answer.  Four kinds of threads meet here, so `lock` guards what is below it:
 *
 *   I/O (libmicrohttpd's)  collects the body, sends; suspends the connection while there is nothing to send
 *   front                  reads the body, makes prompts
 *   stepping               runs them; its callbacks append events
 *   watch                  sees hang-ups and time-outs
 *
 * The connection holds one reference and the work another one; the last frees it.
 */
#ifndef LUTRA_SERVER_EXCHANGE_H
#define LUTRA_SERVER_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>

#include "dialect.h"

struct MHD_Connection;
struct server;
struct route;
struct link;
struct page_file;

enum event_kind {
    EVENT_TEXT,
    EVENT_END,
    EVENT_NOTE,     /* the text is a member of "lutra": "search":{...} */
    EVENT_SCORED,   /* a token of the prompt of a choice */
    EVENT_PROGRESS, /* of a choice's prompt */
};

/* What the engine said, in exchange.events; n_bytes of text follow. */
struct event {
    enum event_kind kind;
    int choice;
    enum lutra_part part;
    bool keep;       /* of a note: a reply that is no stream has it, too */
    bool on_request; /* of a note: a stream has it only where events are asked for */
    size_t n_bytes;
    struct scored scored; /* token -1: none */
    struct progress progress;
    struct lutra_end end;
};

enum { EVENTS_FULL_BYTES = 256 << 10, EVENTS_MOST_BYTES = 8 << 20 };

struct exchange {
    struct server *server;
    const struct route *route;
    const struct page_file *file; /* the answer is this file; NULL: it is out */
    struct link *link;
    char *path, method[16];
    struct text body;
    uint64_t start_us;
    bool begun;          /* its handler or its work was started */
    bool at_work;        /* front and stepping threads have it, or had */
    bool complete;       /* the answer was sent whole */
    uint64_t body_bytes; /* received */
    bool keeps_body;     /* false: what comes is dropped */
    bool hard_close;     /* the connection ends with the answer */
    char origin[256];    /* of a browser's page that may read the answer; "" = none */
    struct api_key *key; /* NULL: none is needed */
    bool counted;        /* by its key, as a request at work */
    /* The I/O thread's, once work has begun. */
    struct reply reply;
    struct text out;   /* to send */
    size_t n_sent;     /* of out */
    struct text spare; /* takes turns with events */
    bool finished;     /* everything is in out */
    uint64_t sent_bytes;

    atomic_int refs;
    atomic_bool gone;   /* the client hung up: cancel */
    atomic_bool paused; /* it gets no rows until its client has read; set by the stepping thread, with the lock held */
    pthread_mutex_t lock;
    struct MHD_Connection *connection; /* NULL: closed */
    bool suspended, ready, done;       /* ready: status and head are known; done: the work has ended */
    bool ping;
    struct problem problem;
    struct text events;         /* of struct event */
    uint64_t event_us, full_us; /* last event or ping; since when it is full, 0 = it is not */
    int status;                 /* for the log */

    /* The stepping thread's. */
    struct problem refusal;
    bool broke, cancelled; /* a sample ended in an error; the engine was told to cancel */

    struct ask ask;
    struct served *model;
    struct exchange *next; /* in a queue */
};

struct exchange *exchange_open(struct server *s, struct MHD_Connection *connection, const char *path);
void exchange_release(struct exchange *x);
/* The connection may go on: something has changed. */
void exchange_wake(struct exchange *x);
/* Work has begun: the answer's head may be sent. */
void exchange_begin(struct exchange *x);
/* Work has ended, well or with a problem (NULL: none). */
void exchange_end(struct exchange *x, const struct problem *p);
void exchange_event(struct exchange *x, const struct event *e, const char *text);
/* The client is gone, or has not read for too long. */
void exchange_cancel(struct exchange *x);

#endif
