/* SPDX-License-Identifier: MIT
 *
 * A Hugging Face folder whose linear layers are codes of 2, 3 or 4 bits, as GPTQ's programs write them (quant_method
 * `gptq`, checkpoint_format `gptq_v2`), from a folder of floats.
 *
 *     struct quant_group group = {4, 128, true};                size -1: a whole row
 *     settings.group = &group;
 *     settings.ready = ...;                                     the blocks of quant_group_row for a layer's tensor
 *     TRY(weights_quantize_file("in", "out", &settings, err));
 *
 * Per layer: qweight [K b/32][N], codes along the K inputs, the first in a word's low bits, a code of 3 bits may lie in
 * two words; qzeros [G][N b/32], along the N outputs, as they are (v1 stores them less one); scales [G][N], F16;
 * g_idx [K], the group of each input.  The weight is (code - zero) x scale.  Source: packed_linear.c's.
 *
 * Everything else is copied: other tensors bit for bit, config.json with quantization_config on top, the tokenizer's
 * files.  The folder appears whole or not at all.
 */
#ifndef LUTRA_QUANTIZE_GROUPS_H
#define LUTRA_QUANTIZE_GROUPS_H

#include "quantize/weighted.h"
#include "quantize/convert.h"

/* Whether w's tensor becomes groups: a matrix of a layer. */
bool weights_is_grouped(const struct weights *w, const struct tensor *t);

/* LUTRA_E_UNSUPPORTED: w is no folder, or quantized already, or has a layer whose rows or outputs are no whole groups
 * or words. */
int weights_groups_check(const struct weights *w, const struct quant_group *group, struct lutra_error *err);

/* LUTRA_E_ARGUMENT: `out` exists and is no empty folder. */
int weights_groups_target(const char *out, struct lutra_error *err);

/* What weights_quantize_file does where there are groups. */
int weights_write_groups(
    const char *in, const char *out, const struct weights_quantize_settings *settings, struct lutra_error *err);

#endif
