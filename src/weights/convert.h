/* SPDX-License-Identifier: MIT
 *
 * Model files from model files: quantize one into another, with llama-quantize's habits.
 *
 *     struct weights_quantize_settings s = weights_quantize_default();
 *     s.type = QUANT_Q4_0;
 *     TRY(weights_quantize_file("in.gguf", "out.gguf", &s, err));
 *
 * Which tensors change:
 * - matrices (2 dimensions or more) whose name ends in "weight", except norms ("_norm.weight") and expert gates
 *   ("ffn_gate_inp.weight"), go to `type`; everything else is copied as it is;
 * - unless `pure`, when `type` is quantized: the output matrix (token_embd.weight where there is no output.weight)
 *   goes to Q6_K (to Q8_0 when `type` is Q8_0 or MXFP4, or rows are not whole blocks of 256), and for the ternary
 *   types token_embd.weight goes to Q4_K;
 * - rules and the two overrides below come before both;
 * - a type whose blocks do not divide the row falls back, with a warning: Q4_K to Q5_0, Q5_K to Q5_1, Q6_K to Q8_0,
 *   TQ1_0 and TQ2_0 to Q4_0, and anything that still does not fit to F16.
 *
 * Metadata is copied; general.file_type and general.quantization_version are set; split.* and general.alignment go
 * (the output is one file).  The output appears whole or not at all.  Memory: about 10 MB plus the header.
 */
#ifndef LUTRA_WEIGHTS_CONVERT_H
#define LUTRA_WEIGHTS_CONVERT_H

#include "weights/weights.h"

/* The first rule whose pattern matches decides a tensor's type.  Pattern: '*' stands for any run of characters,
 * '?' for one; the whole name must match ("blk.*.ffn_down.weight"). */
struct weights_type_rule {
    const char *pattern;
    enum quant_type type;
};

/* Calls fn(arg, i) for i = 0..n-1, in any order, on any threads, and returns when all are done. */
typedef void (*weights_parallel_fn)(void *user, void (*fn)(void *arg, int i), void *arg, int n);

/* Nonzero cancels: LUTRA_E_CANCELLED, no file. */
typedef int (*weights_progress_fn)(void *user, uint64_t done_bytes, uint64_t total_bytes);

struct weights_quantize_settings {
    enum quant_type type;
    bool copy;                            /* every tensor as it is; the settings below are not looked at */
    bool pure;                            /* no exceptions by tensor but the rules */
    bool allow_requantize;                /* from an already quantized type: loses twice */
    int token_embd_type;                  /* enum quant_type, or -1: as described above */
    int output_type;                      /* the same, for output.weight */
    const struct weights_type_rule *rule; /* [n_rule], or NULL */
    size_t n_rule;
    weights_parallel_fn parallel; /* NULL: serially */
    void *parallel_user;
    weights_progress_fn progress; /* NULL: none.  Bytes of input tensors */
    void *progress_user;
    lutra_log_fn log; /* NULL: none.  One line per tensor (debug) and per fallback (warn) */
    void *log_user;
};

/* F16, no overrides, no callbacks. */
struct weights_quantize_settings weights_quantize_default(void);

/* Errors: those of weights_open and the writer; LUTRA_E_ARGUMENT: a type that is not implemented, re-quantizing
 * without leave, input and output being the same file; LUTRA_E_FORMAT: a weight is NaN or infinite. */
int weights_quantize_file(
    const char *in, const char *out, const struct weights_quantize_settings *settings, struct lutra_error *err);

/* The type `type` falls back to for rows of n_elems: itself where its blocks divide the row. */
enum quant_type weights_legal_type(enum quant_type type, int64_t n_elems);

/* What a settings struct makes of a tensor; has_output: the model has an output.weight. */
enum quant_type weights_quantized_type(
    const struct weights_quantize_settings *settings, const struct tensor *t, bool has_output);

#endif
