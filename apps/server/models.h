/* SPDX-License-Identifier: MIT
 *
 * Models by name: opened when a request asks for one, closed when nobody has asked for long, or when another one needs
 * its place.  Whoever holds a model has it open: requests do from their reading to the end of their answer.
 */
#ifndef LUTRA_SERVER_MODELS_H
#define LUTRA_SERVER_MODELS_H

#include "exchange.h"
#include "server.h"

/* The model of that name; NULL after a problem.  NULL or "" means the first. */
struct served *models_find(struct server *s, const struct api_key *key, const char *name, struct problem *p);
/* Holds it, opened where it was not, which may take long; false after a problem. */
bool models_hold(struct served *m, struct problem *p);
/* Holds it where it is open. */
bool models_try(struct served *m);
/* was_used: it is idle from now on; lists do not count. */
void models_release(struct served *m, bool was_used);

/* Closes it where nobody holds it; a problem where somebody does. */
void models_unload(struct served *m, struct problem *p);

/* It stays open so long after its last request; -1: for good. */
void models_keep(struct served *m, int64_t keep_us);
/* As long as the server says. */
void models_keep_usual(struct served *m);
/* ... and so long from now on, at least. */
int64_t models_stays(struct served *m);
/* server_settings.digest of it. */
void models_digest(struct served *m, char out[SERVER_DIGEST_BYTES]);

/* The first, or none where all are opened when asked for; -1 after a message. */
int models_start(struct server *s);
/* Closes those whose time is over; milliseconds until the next one's may be, -1: nothing to wait for. */
int models_close_idle(struct server *s);
void models_stop(struct server *s);
/* What sessions have counted since the start, those of closed models too. */
void models_count(struct server *s, struct lutra_stats *all);

#endif
