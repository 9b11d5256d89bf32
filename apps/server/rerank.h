/* SPDX-License-Identifier: MIT
 *
 * Documents by how well they answer a query.  The stepping thread evaluates the pairs as it does texts (embed.h).
 */
#ifndef LUTRA_SERVER_RERANK_H
#define LUTRA_SERVER_RERANK_H

#include "dialect.h"

extern const struct dialect dialect_rerank, dialect_rerank_llama;

/* The text of an item of `documents`, borrowed; NULL: it has none. */
const char *rerank_document(const json_t *document);

#endif
