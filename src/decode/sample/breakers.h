/* SPDX-License-Identifier: MIT
 *
 * DRY's sequence breakers: texts that no match goes across, as the tokens that hold or begin them.
 */
#ifndef LUTRA_DECODE_SAMPLE_BREAKERS_H
#define LUTRA_DECODE_SAMPLE_BREAKERS_H

#include "decode/sample/sampler.h"
#include "text/vocab.h"

/* LUTRA_E_ARGUMENT: n_text is outside -1 .. 64, or there is no list. */
int sample_breakers_check(const char *const *text, int n_text, struct lutra_error *err);

/* Sets out->breaker, and *tail, where their tails are: both to be freed, also after an error.  n_text 0: llama.cpp's
 * texts.  LUTRA_E_ARGUMENT: a text is empty or too long, or in too many tokens. */
int sample_breakers_find(const struct text_vocab *vocab, const char *const *text, int n_text,
    struct sample_settings *out, int32_t **tail, struct lutra_error *err);

#endif
