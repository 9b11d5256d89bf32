/* SPDX-License-Identifier: MIT
 *
 * Texts as vectors.  The stepping thread evaluates them in slices, between passes of other requests.
 */
#ifndef LUTRA_SERVER_EMBED_H
#define LUTRA_SERVER_EMBED_H

#include "exchange.h"

extern const struct dialect dialect_embed, dialect_embed_llama, dialect_embed_ollama, dialect_embed_ollama_one;

/* Some more of its texts.  others: requests that hold a part of the cache are running. */
void embed_step(struct exchange *x, bool others);
bool embed_is_over(const struct exchange *x);

#endif
