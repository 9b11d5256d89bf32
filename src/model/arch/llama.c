/* SPDX-License-Identifier: MIT
 *
 * Llama 2 and 3, and what converts to it: Mistral 7B and Nemo, TinyLlama, SmolLM and SmolLM2, Falcon 3, DeepSeek-LLM.
 * The plain block: every other page says how it differs from this one.  Mistral's first models look back 4096 positions
 * in all layers; their GGUF files do not say so, their folders do.
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    return model_read_windows(r, 0, 0, err);
}

const struct arch model_llama = {
    .name = "llama", .rope = ROPE_NORM, .norms = NORM_BEFORE, .gate = OP_SWIGLU, .keys = {WINDOW_KEY}, .read = read};
