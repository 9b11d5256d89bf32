/* SPDX-License-Identifier: MIT
 *
 * Model files: quantize, pack, make, inspect.
 *
 * Threads: any; calls on one runtime take turns on its devices with the passes of its sessions.  Callbacks run on the
 * calling thread and may not use the models of this call.
 */
#ifndef LUTRA_FILES_H
#define LUTRA_FILES_H

#include "lutra/core.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lutra_quantize_settings {
    size_t size;
    const char *type;                 /* llama-quantize's mixes: "Q4_K_M", "F16", ..., "W4", ..., or "COPY"; any case */
    const char *token_embedding_type; /* "Q8_0", ..., as all types below; NULL = the mix's */
    const char *output_type;          /* of the output matrix; NULL = the mix's */
    bool allow_requantize;
    bool pure; /* every matrix of the mix's main type */
    lutra_progress_fn progress;
    void *progress_user;
    lutra_log_fn log; /* a line per tensor: debug; warnings for those whose rows do not fit the mix's type */
    void *log_user;
    const char *const
        *tensor_type; /* [n_tensor_type] "REGEX=TYPE" (PCRE2, found anywhere in a name): the first decides */
    int n_tensor_type;
    bool leave_output_tensor; /* output.weight stays as it is */
    bool dry_run;             /* only the log's lines, as info; out_path is not looked at */
    bool exact; /* with COPY: LUTRA_E_UNSUPPORTED where a folder's quantized layer would grow to F32, with the reason */
    const char *imatrix; /* lutra_imatrix's file or llama-imatrix's: errors are weighed by it; or NULL */
    /* A text, or NULL: matrices are rounded layer by layer on the inputs that already rounded layers give for it, so
     * that what they yield changes least (GPTQ).  The model must run on the CPU. */
    const char *calibration;
    size_t n_calibration_bytes;
    int calibration_ctx, calibration_chunks; /* tokens of a chunk: 512; at most so many: 64, 0 = all */
    /* A calibration keeps each finished matrix in out_path + ".calibrated" until the new file is written, and goes on
     * from there after a kill, with the same result.  LUTRA_E_ARGUMENT: they are of another model, text, or types. */
    bool resume;
    /* Bits per weight, over all matrices that change: their types are chosen by the divergence that each costs over the
     * calibration text (settings.type must be NULL; what the settings above decide stays).  0 = no budget. */
    float budget;
    bool only_measure; /* the calibration text chooses types and weighs errors, and that is all */
    /* With type "W2", "W3" or "W4" and a calibration, out_path becomes a Hugging Face folder of GPTQ v2's layers, and
     * in_path is one of floats.  Groups of 32, 64 or 128 inputs, or -1, whole rows; 0 = 128. */
    int group_size;
    bool asymmetric;   /* groups have zeros of their own; else 2^(bits - 1) */
    const char *zeros; /* of in_path, as in lutra_model_settings */
    /* What a budget chooses from, names with commas; NULL = "TQ2_0,Q2_K,Q3_K,IQ4_XS,Q4_K,Q5_K,Q6_K,Q8_0". */
    const char *budget_types;
};
LUTRA_API void lutra_quantize_settings_init(struct lutra_quantize_settings *settings, size_t size);
/* The new file appears whole or not at all.  Which tensor gets which type is what llama-quantize decides.
 * LUTRA_E_UNSUPPORTED names a tensor whose type cannot be written yet. */
LUTRA_API int lutra_quantize(lutra_runtime *runtime, const char *in_path, const char *out_path,
    const struct lutra_quantize_settings *settings, struct lutra_error *err);
/* The names of `type`: i = 0, 1, ... until NULL. */
LUTRA_API const char *lutra_quantize_type(int i);

struct lutra_imatrix_settings {
    size_t size;
    int n_ctx;           /* tokens of a chunk: 512 */
    int n_chunk;         /* at most so many; 0 = all */
    bool dat;            /* llama.cpp's older file in place of GGUF */
    const char *dataset; /* the text's name in the file, or NULL */
    lutra_progress_fn progress;
    void *progress_user;
};
LUTRA_API void lutra_imatrix_settings_init(struct lutra_imatrix_settings *settings, size_t size);
/* What llama-imatrix makes of a text: the mean squares of the inputs of every matrix of the layers, column by column,
 * for lutra_quantize.  The tokens are cut into whole chunks.  The new file appears whole or not at all. */
LUTRA_API int lutra_imatrix(lutra_model *model, const int32_t *tokens, int n_token, const char *out_path,
    const struct lutra_imatrix_settings *settings, struct lutra_error *err);

#define LUTRA_PACKED_SUFFIX ".lutra-packed"

/* Writes the model's matrices as this runtime's device packs them, so that opening the model later maps them instead;
 * found without asking at the model's path + LUTRA_PACKED_SUFFIX.  The new file appears whole or not at all.  A file
 * that does not fit (another layout, or the model was changed or copied since) is left out, with a warning in the log;
 * so is a matrix in it that is found damaged.
 * settings: how the model is opened, or NULL; `packed` and `vocab_only` count for nothing. */
LUTRA_API int lutra_pack(lutra_runtime *runtime, const char *model_path, const char *out_path,
    const struct lutra_model_settings *settings, struct lutra_error *err);
/* Reads such a file and compares its sums.  LUTRA_E_FORMAT names the first damaged tensor. */
LUTRA_API int lutra_pack_check(const char *packed_path, struct lutra_error *err);

#define LUTRA_PROFILE_SUFFIX ".lutra-profile"

/* Measures the model's operations on the devices of this runtime that can share them, each alone and all at once, and
 * whole passes for each plan (lutra_model_settings.plan), and keeps that in a JSON file: out_path; NULL: where
 * lutra_model_open looks for it, beside the model under a name with these devices.  It appears whole or not at all.
 * *text: what is in it, for lutra_free(); text may be NULL.  Nothing else should run meanwhile; settings.plan counts
 * for nothing.  LUTRA_E_UNSUPPORTED: more than three devices share; LUTRA_E_ARGUMENT: the runtime's split says parts by
 * class of rows; LUTRA_E_IO: before anything is measured, where the file could not be written. */
LUTRA_API int lutra_profile(lutra_runtime *runtime, const char *model_path, const char *out_path,
    const struct lutra_model_settings *settings, char **text, struct lutra_error *err);

/* What the devices of this runtime are like, without a model [HETERO 3]: rates of products by size, times by rows and
 * the rows of a stage, the influence of order and shape, GB/s of weights read alone and all at once.  *json, for
 * lutra_free(): {"lutra_traits": 1, "machine", "devices": [{"name", "square", "rows", "stage", "order", "shape", "gbs",
 * "together_gbs"}], "gbs"} with times {"rows", "in", "out", "us"}; null: left out, it would take too long.  progress
 * may be NULL.  Nothing else should run meanwhile. */
LUTRA_API int lutra_characterize(
    lutra_runtime *runtime, lutra_progress_fn progress, void *user, char **json, struct lutra_error *err);

struct lutra_make_model_settings {
    size_t size;
    const char *shape; /* "qwen2.5-1.5b", ...: lutra_make_model_shape() */
    const char *type;  /* of the matrices; "W2", "W3", "W4" or "W8": a folder of layers quantized by GPTQ */
    uint64_t seed;
    bool outliers; /* massive activations at the input of ffn_down */
    int n_layer;   /* 0 = the shape's */
    lutra_progress_fn progress;
    void *progress_user;
    /* Of W2 to W8, as lutra_quantize's: 32, 64, 128, or -1, whole rows; 0 = 128. */
    int group_size;
    bool asymmetric;
};
LUTRA_API void lutra_make_model_settings_init(struct lutra_make_model_settings *settings, size_t size);
/* A file, or with groups a folder, of random weights of a real shape, for measuring; streamed to disk. */
LUTRA_API int lutra_make_model(lutra_runtime *runtime, const char *path,
    const struct lutra_make_model_settings *settings, struct lutra_error *err);
/* i = 0, 1, ... until NULL. */
LUTRA_API const char *lutra_make_model_shape(int i);

/* A file as JSON text: metadata, tensors, the memory that the model needs and what is free; in `unsupported` a sentence
 * for each thing that keeps it from running, in `warnings` for what may be read wrong.  Free with lutra_free(). */
LUTRA_API int lutra_inspect(const char *path, char **json, struct lutra_error *err);

#ifdef __cplusplus
}
#endif
#endif
