/* SPDX-License-Identifier: MIT
 *
 * Model files with random weights in the shape of a real model: for tests, benchmarks and comparisons with other
 * engines where no trained model is at hand.  Any GGUF reader loads them.
 *
 *     struct weights_make_settings s = weights_make_default();
 *     s.shape = "qwen2.5-1.5b";
 *     s.type = QUANT_Q4_0;
 *     TRY(weights_make_model("random.gguf", &s, err));
 *
 * Matrices are normal with deviation 1/sqrt(row length), norms 1 + 0.1 normal, biases 0.1 normal, so activations and
 * logits stay near 1 through any depth.  The numbers come from a pool of 2^20 per row length: each run of 256
 * elements of a row is one of its 4096 runs, drawn at random, so that writing is as fast as copying and two rows are
 * practically never equal; rows shorter than 768 are made one by one.
 * The weights are a function of (shape, seed, n_layer, n_vocab); `type` only rounds them: files of one seed in several
 * types are quantizations of one model.  All matrices get `type` (where their rows are whole blocks; see
 * weights_legal_type), all vectors F32.
 *
 * The tokenizer is byte-level BPE with GPT-2's byte alphabet, a few merges, filler tokens of type `unused`, and the
 * special tokens at the end; or that of another model file.
 */
#ifndef LUTRA_MAKE_MAKE_H
#define LUTRA_MAKE_MAKE_H

#include "quantize/weighted.h"
#include "quantize/convert.h"

struct weights_shape {
    const char *name; /* "qwen2.5-0.5b" */
    const char *arch; /* "llama", "gemma3", ... (make_arch.c) */
    uint32_t d_model, n_layer, n_head, n_kv_head, d_head, d_ff, n_vocab, n_ctx;
    bool tied; /* no output.weight: token_embd serves */
    float rope_base;
    float rope_factor; /* Llama-3 frequency factors as rope_freqs.weight (8: 3.1, 32: 3.2); 0: none */
    float rms_eps;
};

struct weights_experts {
    const char *shape;
    uint32_t n_expert, n_used, d_ff;
};
/* Of a shape whose architecture has them; NULL: it has none. */
const struct weights_experts *weights_shape_experts(const struct weights_shape *shape);

/* i = 0, 1, ... until NULL: real shapes first, then the "tiny-" ones for tests. */
const struct weights_shape *weights_shape_at(size_t i);
/* Case-insensitive; NULL when there is none. */
const struct weights_shape *weights_shape_find(const char *name);

/* Gemma 4: layers with windows have the shape's heads, every period-th layer has others. */
struct weights_mixed_layers {
    const char *shape;
    uint32_t period, d_head, n_kv_head; /* of every period-th layer */
    uint32_t n_shared;                  /* last layers that read the cache of earlier ones; their d_ff is doubled */
    uint32_t d_per_layer;               /* of what each layer adds of the token itself; 0: nothing */
    bool k_is_v;                        /* every period-th layer has no attn_v */
};
/* NULL: all layers are equal. */
const struct weights_mixed_layers *weights_shape_mixed(const struct weights_shape *shape);

/* Layers that do not attend.  d_state 0: short convolutions (LFM2); otherwise gated delta rules (Qwen3.5). */
struct weights_recurrent {
    const char *shape;
    uint32_t n_tap, period; /* every period-th layer attends ... */
    uint64_t attends;       /* ... or, period 0, layer i where bit i is set */
    uint32_t n_k_head, n_v_head, d_state;
    uint32_t n_dense_lead; /* first layers without experts */
    uint32_t d_ff_shared;  /* of an expert that all rows go to; 0: none */
    uint32_t d_value;      /* of heads of Mamba-2 (Granite 4 hybrid); 0: none */
};
/* NULL: all layers attend. */
const struct weights_recurrent *weights_shape_recurrent(const struct weights_shape *shape);
bool weights_shape_attends(const struct weights_shape *shape, uint32_t layer);

/* What becomes of a text's states: how they are pooled, as files number it, and what reads that. */
struct weights_pooling {
    const char *shape;
    uint32_t pooling; /* 1 mean, 2 cls, 3 last, 4 rank */
    uint32_t n_class; /* of a head `cls.output`; 0: none */
    bool dense;       /* a layer `cls` before it */
    uint32_t n_mid;   /* of dense layers behind the mean; 0: none */
};
/* NULL: the file says nothing. */
const struct weights_pooling *weights_shape_pooling(const struct weights_shape *shape);

struct weights_make_settings {
    const char *shape;
    enum quant_type type;
    const struct quant_group
        *group; /* in place of a type: a Hugging Face folder whose layers have GPTQ's codes of 2, 3,
                                      * 4 or 8 bits, of llama, qwen2 and qwen3; or NULL */
    uint64_t seed;
    bool outliers;         /* 4 inputs of each ffn_down at about 1000 times the usual size: their ffn_up rows are
                            * scaled by 1000 and their ffn_down columns by 1/32 */
    uint32_t n_vocab;      /* 0: the shape's.  At least 512 */
    uint32_t n_layer;      /* 0: the shape's */
    const char *tokenizer; /* GGUF file whose tokenizer.* keys are copied (n_vocab then is its token count unless set
                            * to more), or NULL */
    weights_progress_fn progress; /* NULL: none.  Bytes of the output's tensors */
    void *progress_user;
    lutra_log_fn log; /* NULL: none.  A warning for each tensor that falls back to another type */
    void *log_user;
};

/* F16, seed 1; the shape is to be set. */
struct weights_make_settings weights_make_default(void);

/* Streams the file; memory: about 25 MB plus the header, whatever the shape.  The file appears whole or not at all.
 * Errors: LUTRA_E_ARGUMENT (unknown shape or type, n_vocab too small), those of the writer, LUTRA_E_CANCELLED;
 * of groups also LUTRA_E_UNSUPPORTED (another architecture, rows that are no whole groups, outliers, a tokenizer). */
int weights_make_model(const char *path, const struct weights_make_settings *settings, struct lutra_error *err);

#endif
