/* SPDX-License-Identifier: MIT
 *
 * Model files from model files: quantize one into another, with llama-quantize's habits.
 *
 *     struct weights_quantize_settings s = weights_quantize_default();
 *     s.mix = weights_mix_named("Q4_K_M");
 *     TRY(weights_quantize_file("in.gguf", "out.gguf", &s, err));
 *
 * Which tensor gets which type: quantize/mix.h.
 *
 * Metadata is copied; general.file_type and general.quantization_version are set; split.* and general.alignment go
 * (the output is one file).  The output appears whole or not at all.  Memory: about 10 MB plus the header.
 */
#ifndef LUTRA_QUANTIZE_CONVERT_H
#define LUTRA_QUANTIZE_CONVERT_H

#include "weights/weights.h"

/* The first rule whose pattern is found in a tensor's name decides its type. */
struct weights_type_rule {
    const char *pattern; /* a regular expression (PCRE2): "blk\\.[0-3]\\.ffn_down" */
    enum quant_type type;
};

struct weights_mix;
struct imatrix;
struct quant_group;

/* Calls fn(arg, i) for i = 0..n-1, in any order, on any threads, and returns when all are done. */
typedef void (*weights_parallel_fn)(void *user, void (*fn)(void *arg, int i), void *arg, int n);

/* Nonzero cancels: LUTRA_E_CANCELLED, no file. */
typedef int (*weights_progress_fn)(void *user, uint64_t done_bytes, uint64_t total_bytes);

struct weights_quantize_settings {
    const struct weights_mix *mix;        /* quantize/mix.h */
    bool copy;                            /* every tensor as it is; of the settings below only `exact` is looked at */
    bool exact;                           /* refuse a folder's layer that would become F32 (weights_f32_reason) */
    bool pure;                            /* no exceptions by tensor but the rules and types below */
    bool leave_output;                    /* output.weight stays as it is */
    bool dry_run;                         /* only tells the types, one line per tensor (info), and writes nothing */
    bool allow_requantize;                /* from an already quantized type: loses twice */
    int token_embd_type;                  /* enum quant_type, or -1 */
    int output_type;                      /* the same, for the output matrix */
    const struct weights_type_rule *rule; /* [n_rule], or NULL */
    size_t n_rule;
    const struct imatrix *imatrix; /* errors are weighed by it, where it has the tensor and the type can; or NULL */
    const char *imatrix_path;      /* goes into the metadata beside it */
    /* NULL, or the output is a folder whose layers become groups (quantize/groups.h): no mix, nor what changes it. */
    const struct quant_group *group;
    enum weights_zeros zeros; /* how the input is read */
    /* A tensor's bytes in a type, made elsewhere, valid until the next call; NULL: none, it is converted here.  Or no
     * such function. */
    int (*ready)(void *user, const struct tensor *t, enum quant_type type, const void **bytes, struct lutra_error *err);
    void *ready_user;
    weights_parallel_fn parallel; /* NULL: serially */
    void *parallel_user;
    weights_progress_fn progress; /* NULL: none.  Bytes of input tensors */
    void *progress_user;
    lutra_log_fn log; /* NULL: none.  One line per tensor (debug) and per fallback (warn) */
    void *log_user;
};

/* F16, no overrides, no callbacks. */
struct weights_quantize_settings weights_quantize_default(void);

/* Errors: those of weights_open and the writer; LUTRA_E_ARGUMENT: a pattern, re-quantizing without leave,
 * input and output being the same file; LUTRA_E_UNSUPPORTED: a type that cannot be written; LUTRA_E_FORMAT: a
 * weight is NaN or infinite. */
int weights_quantize_file(
    const char *in, const char *out, const struct weights_quantize_settings *settings, struct lutra_error *err);

#endif
