/* SPDX-License-Identifier: MIT
 *
 * "lutra": {"rag": "NAME"} of a request: the last question is asked about passages of a store of documents that the
 * server was started with; the reply has "lutra": {"sources": [...]}, numbered as the model sees them.
 */
#ifndef LUTRA_SERVER_DOCUMENTS_H
#define LUTRA_SERVER_DOCUMENTS_H

#include "exchange.h"

/* The field of a body of chat/completions: "NAME", or {"store": "NAME", "passages": 5}. */
void documents_read(struct ask *a, const struct fields *f);
/* Can the stores be read?  Said before the server takes requests; false after a message. */
bool documents_check(const struct server *s);
/* Finds passages, puts them before the question and tells their sources.  Of a front thread. */
void documents_prepare(struct exchange *x, struct problem *p);

#endif
