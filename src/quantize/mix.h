/* SPDX-License-Identifier: MIT
 *
 * Which tensor gets which type: llama-quantize's mixes by name ("Q4_K_M"), chosen as llama-quantize chooses.
 *
 *     s.mix = weights_mix_named("q4_k_m");
 *     TRY(weights_mix_choose(w, &s, choice, err));            choice[weights_tensor_count(w)]
 *
 * Tensors that change: matrices (two or more dimensions above 1) whose name ends in "weight", but norms, expert gates
 * and a few small ones (mix.c lists them).  For each of them, the first that applies:
 * - token_embd_type, for token_embd.weight; output_type, for output.weight, and token_embd.weight where there is none;
 * - the first rule whose pattern is found in its name;
 * - `pure`, or a mix that is no quantized type: the mix's type;
 * - the output matrix (a tied token_embd.weight): Q6_K; Q5_K where the mix is one of IQ2 or IQ3_XXS; Q8_0 where it is
 *   Q8_0 or MXFP4, or its blocks do not divide rows;
 * - the mix's rules (mix.c), which look at the part of the layer, which of how many layers, how many query heads share
 *   a key, experts, and whether there is an imatrix; else the mix's type.
 * Rows that are no whole blocks of that: Q2_K Q3_K TQ1_0 TQ2_0 become Q4_0, Q4_K Q5_0, Q5_K Q5_1, Q6_K Q8_0,
 * IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_XS IQ4_NL, and what does not fit then F16.
 *
 * Source: llama.cpp's src/llama-quant.cpp; its rules for Falcon and for IQ1_S and IQ1_M are left out.  It does not look
 * at patterns where the mix is no quantized type, nor with `pure` at output_type for a tied matrix.
 */
#ifndef LUTRA_QUANTIZE_MIX_H
#define LUTRA_QUANTIZE_MIX_H

#include "quantize/convert.h"

struct weights_mix {
    const char *name;     /* "Q4_K_M" */
    enum quant_type type; /* of most tensors */
    uint32_t file_type;   /* GGUF's general.file_type */
    uint32_t bit;         /* of it in a rule's set; 0: no rules */
};

/* Any case; "Q3_K" "Q4_K" "Q5_K" mean _M.  NULL: there is none of that name.  Of i = 0, 1, ... until NULL.  Of a type:
 * the first. */
const struct weights_mix *weights_mix_named(const char *name);
const struct weights_mix *weights_mix_at(size_t i);
const struct weights_mix *weights_mix_of(enum quant_type type);

struct weights_choice {
    enum quant_type type, wanted;         /* wanted: before blocks that do not divide the row */
    const struct weights_type_rule *rule; /* that decided, or NULL */
};

/* LUTRA_E_ARGUMENT: a pattern that is no regular expression, with the place; a tensor that is quantized already,
 * without allow_requantize.  LUTRA_E_UNSUPPORTED: a type that cannot be written; with `exact`, values that no type of
 * blocks holds. */
int weights_mix_choose(const struct weights *w, const struct weights_quantize_settings *settings,
    struct weights_choice *choice, struct lutra_error *err);

/* The type `type` falls back to for rows of n_elems: itself where its blocks divide the row. */
enum quant_type weights_legal_type(enum quant_type type, int64_t n_elems);

bool weights_is_quantized(enum quant_type type);

#endif
