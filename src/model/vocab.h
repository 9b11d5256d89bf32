/* SPDX-License-Identifier: MIT
 *
 * The vocabulary of a file.
 */
#ifndef LUTRA_MODEL_VOCAB_H
#define LUTRA_MODEL_VOCAB_H

#include "base/status.h"
#include "text/vocab.h"
#include "weights/weights.h"

/* The caller closes *out, NULL on failure.  Errors name the key. */
int vocab_read(struct text_vocab **out, const struct weights *w, struct lutra_error *err);

#endif
