/* SPDX-License-Identifier: MIT
 *
 * Llama 2 and 3, and what converts to it: Mistral 7B and Nemo, TinyLlama, SmolLM and SmolLM2, Falcon 3, DeepSeek-LLM.
 * The plain block: every other page says how it differs from this one.
 */
#include "model/model_impl.h"

const struct arch model_llama = {.name = "llama", .rope = ROPE_NORM, .norms = NORM_BEFORE, .gate = OP_SWIGLU};
