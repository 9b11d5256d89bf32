/* SPDX-License-Identifier: MIT
 *
 * Runtime, model, text.
 *
 * One runtime (threads, devices, log) serves several loaded models; a session belongs to one model and holds its
 * cache.  Everything is closed in the reverse order of opening.
 *
 * Status: 0 or a negative LUTRA_E_*, detail in the optional error struct.
 * Threads: several threads may open, use and close models and sessions of one runtime; their passes take turns.  Calls
 * on one session must not overlap, except those that lutra/session.h names.
 * Stack: 64 KiB are enough for calls that take text (templates and JSON that nest deeper are an error); threads that
 * open models or step sessions should have their system's usual size.
 * A NULL handle is LUTRA_E_ARGUMENT; a call without a status then does nothing and returns 0 or NULL.  Closing NULL
 * does nothing.
 * A NULL settings pointer means the defaults.  Pointers in settings are borrowed for the call unless said otherwise.
 *
 * Structs, so that a program and a library of different age fit:
 *
 * - Settings, requests, searches begin with their size.  `lutra_x_init(&x, sizeof x)` fills in the defaults and never
 *   writes past that size.  What an older program's struct lacks has its default.  A newer program's struct may be
 *   larger: fields that this library does not know must be 0, else the call fails with LUTRA_E_UNSUPPORTED.
 * - They nest by pointer; NULL means the defaults of the inner struct, which is copied.
 * - What the library fills in (peaks, info, stats) is passed with its size, too: fields it does not know become 0.
 * - What it hands out (pieces, ends, events, results) is read through its pointer and may grow at the end.
 * - Arrays whose elements may grow (rows, options) come with the size of one, under the same rules.
 * - Messages, biases and lutra_error never change.
 * - New fields go to the end, never into padding.
 */
#ifndef LUTRA_CORE_H
#define LUTRA_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lutra/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lutra_runtime lutra_runtime;
typedef struct lutra_model lutra_model;
typedef struct lutra_session lutra_session;

LUTRA_API const char *lutra_version(void); /* "0.1.0" */

/* Frees text returned by this API.  NULL is fine. */
LUTRA_API void lutra_free(void *text);

/* Called during long work; total 0 = not known.  A nonzero return cancels it (LUTRA_E_CANCELLED). */
typedef int (*lutra_progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);

/* ---- runtime ---------------------------------------------------------------------------------------------------- */

struct lutra_runtime_settings {
    size_t size;
    int n_threads;      /* 0 = the CPUs this process may use (affinity and cgroup quota respected), and never more */
    bool pin;           /* pin worker threads */
    const char *device; /* "cpu" (NULL), "cpu-ref", "npu-sim", "npu-qemu", "npu", "vulkan", or a list: see below */
    const char *isa;    /* highest instruction set to use ("avx2", "avx512", ...); NULL = the best here */
    lutra_log_fn log;   /* NULL = silent */
    void *log_user;
    uint64_t npu_window_bytes; /* memory of one session of an NPU, up to 1 GiB; 0 = 512 MiB */
    const char *npu_qemu;      /* qemu-hexagon of "npu-qemu"; NULL = the one in PATH */
    const char *npu_program;   /* its lutra-npu-qemu.elf; NULL = beside the program, one folder up, in ../lib/lutra */
    const char *npu_library;   /* libcdsprpc.so of "npu"; NULL = the device's own */
    /* What each device gets of the products that they share: "3,1"; by class of rows "1,1/0,1": of bulk rows
     * (LUTRA_ROW_BULK), and behind the '/' of all others.  NULL = clusters of CPUs as many parts as they have CPUs,
     * others none. */
    const char *split;
    /* How the caller waits for the other devices of a pass: "predict" (NULL) sleeps until shortly before a device
     * should be done and then polls, "poll" only polls, "block" leaves it to its driver.  Results are the same. */
    const char *sync;
    double gpu_slice_ms; /* predicted length at which a submission to a GPU is cut; 0 = 10 */
    /* Models are read and packed while their first prompt is evaluated, layer by layer; what cannot be read fails that
     * prompt, by tensor, and not lutra_model_open().  A modelled phone ("sim:8gen3") switches its NPU's graphs during
     * prompts, block by block [SDNPU 4.2].  Results are the same.  LUTRA_E_UNSUPPORTED: devices that keep weights in a
     * memory of their own. */
    bool progressive;
};
LUTRA_API void lutra_runtime_settings_init(struct lutra_runtime_settings *settings, size_t size);

/* Devices: cpu-ref is the scalar reference of every operation; npu-sim an emulated NPU, npu-qemu a Hexagon program
 * under qemu-hexagon (it ends with the thread that opened the runtime), npu a Snapdragon's, vulkan a GPU (Vulkan 1.2;
 * LUTRA_E_UNSUPPORTED says what is missing).  Behind an NPU's name ":supergroup" packs Q4_0 and Q8_0 of the layers
 * anew, a scale for 2 inputs x 16 outputs; ":bitplane" packs Q1_0, Q2_0, TQ1_0, TQ2_0 (from fewer bytes), Q4_0, Q4_1,
 * W2, W3 and W4 of the layers as bit planes, with the same results; other types stay as they are, and the log says
 * which; ":lookup" does that, too, and multiplies rows that are not whole blocks of a prompt by table lookup.  A list
 * is in order of preference: each operation runs on the first device that can do it, and on the next when that one is
 * lost.  The CPU stands last where the list does not name it.  "cpu:0-3,cpu:4-7" are two clusters of its processors,
 * each with its own pool of threads; they compute each product together, with the bits of one. */
LUTRA_API int lutra_runtime_open(
    lutra_runtime **out, const struct lutra_runtime_settings *settings, struct lutra_error *err);
/* Sets *runtime to NULL.  LUTRA_E_BUSY: models of it are open, and nothing has changed. */
LUTRA_API int lutra_runtime_close(lutra_runtime **runtime);

/* Names that a device list may have: 0, 1, ...; NULL: no more.  Not every one can be opened here. */
LUTRA_API const char *lutra_device_name(int i);

/* Device and instruction set in words ("cpu: AMD EPYC, avx512bf16, 2 threads"); borrowed. */
LUTRA_API const char *lutra_runtime_device_text(const lutra_runtime *runtime);
LUTRA_API int lutra_runtime_n_threads(const lutra_runtime *runtime);

/* What the device does at best with the runtime's threads and instruction set, measured now (about half a second): the
 * yardstick of what a model achieves on it.  0: not known. */
struct lutra_peaks {
    size_t size;                    /* as passed */
    const char *int8_name;          /* the instruction behind int8_gmac_s, or NULL */
    double int8_gmac_s, f32_gmac_s; /* 10^9 multiply-accumulates a second: int8 dot products, f32 fma */
    double stream_gb_s;             /* reading memory */
    const char *bf16_name;          /* a matrix unit's product of bf16 pairs, or NULL; */
    double bf16_gmac_s;             /* the same of it */
};
LUTRA_API void lutra_runtime_peaks_get(lutra_runtime *runtime, struct lutra_peaks *peaks, size_t size);

/* ---- model ------------------------------------------------------------------------------------------------------ */

/* A LoRA adapter.  Never changes. */
struct lutra_adapter {
    const char *path;
    float scale; /* 1: as it was trained; 0: it changes nothing */
};

enum { LUTRA_ADAPTERS_MOST = 16 };

struct lutra_model_settings {
    size_t size;
    bool vocab_only; /* tokenizer and metadata only: no session can be opened */
    lutra_progress_fn progress;
    void *progress_user;
    const char *packed; /* file of lutra_pack(); NULL = MODEL.lutra-packed where there is one, "" = none */
    bool check_packed;  /* compare that file's sums at every start, not only when its size, times or inode are new */
    const char *zeros; /* how a folder's GPTQ layers store their zeros, "v1" (less one) or "v2"; NULL = as the data say;
                           LUTRA_E_ARGUMENT: a model without such layers; vocab_only needs none */
    /* "PATTERN=DEVICE,...": tensors whose name a pattern (Perl's syntax) matches somewhere are given to that device of
     * the runtime, by the first such pattern; so are the operations that use them, or the model is refused.  NULL: each
     * operation goes to the first device that can do it. */
    const char *override_tensor;
    /* How devices share a pass: "even" (by the runtime's split or their CPUs, else alike), "one" (all on the first),
     * "class" (bulk rows on the NPU or GPU, others on the CPU), "solved" (as lutra_profile()'s file by the model says),
     * "free" (the same, but for few rows and for many by itself: a text may depend on what runs beside it and on cached
     * prefixes), or such a FILE, of which the plans that it found fastest are taken.  "auto" (NULL): as that file
     * where there is one for these devices and no split was said; else clusters of CPUs "even".  Results of clusters
     * are the same.  LUTRA_E_UNSUPPORTED: a file of another model, machine or build. */
    const char *plan;
    /* [n_adapter] LoRA adapters: GGUF files of llama.cpp's convert_lora_to_gguf.py.  What all of them add is part of
     * the model while it is open.  LUTRA_E_FORMAT or LUTRA_E_UNSUPPORTED names a tensor that does not fit. */
    const struct lutra_adapter *adapter;
    int n_adapter;
    /* "NAME,...": devices of the runtime that its passes use, in the runtime's order; passes of models that have no
     * device in common run at the same time.  NULL: all. */
    const char *device;
    /* Bytes of memory for packed experts, -1: all of them.  Each layer packs as many of its experts as are its share,
     * those that are used most; the others stay in the file's mapping, which is read as they are used.  Results are the
     * same.  With a file of lutra_pack() all experts are used in its mapping.  LUTRA_E_UNSUPPORTED: experts of a folder
     * that are put together from several tensors. */
    int64_t expert_ram;
};
LUTRA_API void lutra_model_settings_init(struct lutra_model_settings *settings, size_t size);

/* Maps a GGUF file or a Hugging Face folder and prepares its weights for the runtime's devices.  An architecture, type,
 * tokenizer or scaling that is not implemented is LUTRA_E_UNSUPPORTED, which names it. */
LUTRA_API int lutra_model_open(lutra_model **out, lutra_runtime *runtime, const char *path,
    const struct lutra_model_settings *settings, struct lutra_error *err);
/* Sets *model to NULL.  LUTRA_E_BUSY: sessions or verifiers of it are open, and nothing has changed. */
LUTRA_API int lutra_model_close(lutra_model **model);

struct lutra_model_info {
    size_t size;
    const char *name, *arch, *file_type; /* borrowed from the model */
    int n_vocab, n_ctx_train, d_model, n_layer, n_head, n_kv_head, d_head, d_ff;
    uint64_t n_param, file_bytes;
    uint64_t packed_bytes;          /* memory of prepared weights */
    uint64_t cache_bytes_per_token; /* F16 */
    int32_t bos, eos;               /* -1 = none */
    bool add_bos;
    const char *chat_template;                    /* NULL = none */
    const char *reasoning_open, *reasoning_close; /* the tags around reasoning, known from the template; NULL = none */
    const char *step_mark; /* a verifier's own mark behind each step (lutra/search.h); NULL = none */
    const char *plan;      /* how devices share its passes, in words; "" = nothing is shared */
    bool encoder;          /* makes vectors of whole texts (lutra_embed, lutra_rerank) and writes none */
    bool ranks;            /* has a head that says how well a document answers a query (lutra_rerank) */
};
LUTRA_API void lutra_model_info_get(const lutra_model *model, struct lutra_model_info *info, size_t size);

/* The i-th key of the file's metadata, in its order; NULL past the last.  Of the model. */
LUTRA_API const char *lutra_model_meta_key(const lutra_model *model, int i);
/* The value of a key as text: a string as it is, a number in decimal, true or false, an array as JSON.  Free with
 * lutra_free().  LUTRA_E_NOT_FOUND: there is no such key. */
LUTRA_API int lutra_model_meta(const lutra_model *model, const char *key, char **text, struct lutra_error *err);

/* ---- text ------------------------------------------------------------------------------------------------------- */

enum lutra_tokenize_flags {
    LUTRA_ADD_SPECIAL = 1,   /* beginning/end tokens as the model asks */
    LUTRA_PARSE_SPECIAL = 2, /* control tokens spelt in the text become tokens */
};
/* Writes at most n_max tokens; *n_tok is how many the text has.  Thread-safe. */
LUTRA_API int lutra_tokenize(const lutra_model *model, const char *text, size_t n_bytes, int flags, int32_t *tokens,
    int n_max, int *n_tok, struct lutra_error *err);

/* Writes at most n_max bytes of a token's text (no NUL; maybe part of a UTF-8 character); *n_bytes is its length.
 * Control tokens have text only with show_special. */
LUTRA_API int lutra_token_text(
    const lutra_model *model, int32_t token, bool show_special, char *text, size_t n_max, size_t *n_bytes);

/* The whole text of tokens, UTF-8 (invalid bytes become U+FFFD); free with lutra_free().  *n_bytes is its length, which
 * the NUL behind it is not part of, though the text may hold others; may be NULL. */
LUTRA_API int lutra_detokenize(const lutra_model *model, const int32_t *tokens, int n_tok, bool show_special,
    char **text, size_t *n_bytes, struct lutra_error *err);

/* Is it one of the model's end-of-generation tokens? */
LUTRA_API bool lutra_token_is_end(const lutra_model *model, int32_t token);

#ifdef __cplusplus
}
#endif
#endif
