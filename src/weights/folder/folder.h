/* SPDX-License-Identifier: MIT
 *
 * What writers of a Hugging Face folder ask of one that was read.
 */
#ifndef LUTRA_WEIGHTS_FOLDER_H
#define LUTRA_WEIGHTS_FOLDER_H

#include "files/safetensors.h"
#include "weights/weights.h"

#include <jansson.h>

/* The folder's own tensors; NULL: `w` is no folder. */
const struct safetensors *folder_tensors(const struct weights *w);

/* Whether some of its layers are quantized already. */
bool folder_has_packed(const struct weights *w);

/* Its path for messages, the tail if long. */
const char *folder_label(const struct weights *w);

/* Which row of t the maker's output n is: q and k of some families are reordered. */
uint64_t folder_row(const struct weights *w, const struct tensor *t, uint64_t n);

/* The pre_tokenizer of tokenizer.json that splits as tokenizer.ggml.pre's `name` says, one of split.c's; to be
 * released. */
json_t *folder_split_json(const char *name);

/* Llama 3.1's scaling of the rotation: long waves are stretched, short ones stay, with a ramp between. */
struct weights_llama3_rope {
    float factor, low, high, n_ctx; /* n_ctx: the context before it was stretched */
};
/* By which pair i of n_rot / 2 turns more slowly.  In floats, as transformers and GGUF's converter compute. */
float weights_llama3_rope_factor(uint32_t i, uint32_t n_rot, float base, const struct weights_llama3_rope *rope);

#endif
