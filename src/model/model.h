/* SPDX-License-Identifier: MIT
 *
 * An architecture's hyperparameters and its forward pass as an op list.  Runs nothing.
 *
 *     struct model *m;
 *     TRY(model_open(&m, weights, &err));      reads metadata, checks every tensor's shape, writes the op list
 *     model_hparams(m)->n_layer ... model_ops(m)->op[i] ...
 *     model_close(&m);
 *
 * Architectures: one page each in arch/.  Anything else, and any scaling, window or head shape that is not implemented,
 * is refused by name (LUTRA_E_UNSUPPORTED).
 */
#ifndef LUTRA_MODEL_MODEL_H
#define LUTRA_MODEL_MODEL_H

#include <stdbool.h>

#include "ops/op.h"
#include "weights/weights.h"

enum { MODEL_MAX_LAYER = 1024 };

enum layer_kind {
    LAYER_ATTENTION,
    LAYER_DELTA_NET, /* gated delta rule */
    LAYER_CONV,      /* short convolution */
    LAYER_MAMBA,     /* Mamba-2 */
};

/* Of one layer. */
struct hparams_layer {
    int n_head, n_kv_head, d_head, d_ff;
    int window; /* positions that a row sees at most; 0: all */
    int cache;  /* the layer whose keys and values it reads; -1: it is recurrent */
    enum layer_kind kind;
};

enum { POOLING_RANK = 4 };

struct hparams {
    char arch[32]; /* general.architecture */
    int n_layer, d_model, n_vocab;
    int n_head, n_kv_head, d_head, d_ff;         /* of the last layer; `layer` says what each has */
    struct hparams_layer layer[MODEL_MAX_LAYER]; /* [n_layer] */
    int d_per_layer;                             /* of what each layer adds of the token itself; 0: nothing */
    int pooling;    /* of embeddings, as files number it: 0 none, 1 mean, 2 cls, 3 last, POOLING_RANK */
    int n_position; /* rows of the table of learnt positions, the longest text; 0: none */
    int n_ctx_train;
    int n_ctx_orig;    /* before it was stretched by scaling of the rotation */
    int window;        /* a row sees that many positions at most, itself included; 0: all ... */
    int window_period; /* ... in all layers but every window_period-th; 0: in all */
    int nope_interval; /* every nope_interval-th layer has no RoPE; 0: all have */
    float norm_eps;
    float embedding_scale, attention_scale; /* of the embeddings' rows, of the scores */
    float attention_cap, logit_cap;         /* cap * tanh(x / cap) of scores and logits; 0: none */
    float residual_scale, logit_scale;      /* of what sub-layers add; of logits, 0: none */
    float temperature_scale;                /* op_rope.growth of queries */
    struct op_rope rope;                    /* n_head is set per use */
    struct op_rope window_rope;             /* of layers with a window */
    struct yarn {
        float factor, beta_fast, beta_slow, log_multiplier;
        bool between_pairs;                   /* the ramp's ends are not rounded to whole pairs */
    } yarn;                                   /* factor 0: none */
    enum op_kind gate;                        /* of the feed-forward */
    int n_expert, n_expert_used, d_ff_expert; /* 0: no experts */
    struct op_route route;                    /* n_expert and n_used are set, bias per layer */
    int n_dense_lead;                         /* first layers without experts */
    int d_ff_shared;                          /* of an expert that all rows go to; 0: none */
    bool dense_beside;                        /* an ordinary feed-forward beside the experts (Gemma 4) */
    int n_tap;                                /* of recurrent layers' convolutions */
    int n_key_head, n_value_head;             /* of a delta rule or Mamba-2, whose groups are key heads */
    int d_state, d_value;                     /* elements of a key and of a value head */
    bool key_neighbours;                      /* op_delta.neighbours */
    int n_draft_layer;                        /* blocks behind the last that draft (MTP): model_open_nextn */
    bool tied;                                /* the head is the embedding */
};

struct model;

/* weights must outlive the model: op weights and vectors refer to the mapping.  On failure *out is NULL. */
int model_open(struct model **out, const struct weights *weights, struct lutra_error *err);

/* The same with LoRA adapters (adapter.c), whose files must outlive the model, too.  LUTRA_E_UNSUPPORTED and
 * LUTRA_E_FORMAT name the adapter's tensor or key. */
struct model_adapter {
    const struct weights *weights;
    float scale; /* of what it adds; 0: nothing */
};
int model_open_adapted(struct model **out, const struct weights *weights, const struct model_adapter *adapter,
    int n_adapter, struct lutra_error *err);
void model_close(struct model **model);

/* The first MTP block (`nextn`) of a model as a model of one layer.  A row of it is a token and, in the value that its
 * op list has as given, the state after the last norm (WANT_HIDDEN) that `trunk`, or itself, left for the token before;
 * it says what follows the token.  So has Qwen 3.5, as vLLM and llama.cpp (#24025) run it.  Embeddings and head are the
 * trunk's weights, which the op list refers to and model_weight() does not list; `trunk` must outlive it.
 * LUTRA_E_UNSUPPORTED: it has none. */
int model_open_nextn(struct model **out, struct model *trunk, struct lutra_error *err);

/* Tells everything that keeps this file from being opened, a sentence at a time; nothing when it can be. */
typedef void (*model_tell_fn)(void *user, const char *sentence);
void model_tell_unsupported(const struct weights *weights, model_tell_fn tell, void *user);

const struct hparams *model_hparams(const struct model *model);

/* The forward pass; weights in it are prepared in place by the engine. */
const struct op_list *model_ops(const struct model *model);

/* Every matrix the op list refers to, each once: what devices have to prepare. */
int model_n_weight(const struct model *model);
struct weight *model_weight(struct model *model, int i);

/* When weights have a device, before they are prepared: of every layer's experts only so many are packed at a time as
 * fit `bytes` in all; the others stay in the file's mapping (weight.n_packed).  Returns how many of a layer; 0 where
 * it has none.  LUTRA_E_UNSUPPORTED: a folder's experts that no tensor of it holds as they are. */
int model_limit_experts(struct model *model, uint64_t bytes, struct lutra_error *err);

/* The head of a reward model or a ranker: `cls.output`, of one or two classes, on a hidden state or, where the file has
 * a dense layer `cls`, on that layer's outputs behind a ReLU, or tanh in rankers (POOLING_RANK). */
struct model_value_head {
    int n_class;                     /* 0: the model has no such head */
    const float *weight, *bias;      /* [n_class][d_model], [n_class] or NULL */
    const float *dense, *dense_bias; /* [d_model][d_model], [d_model]; or NULL */
};
const struct model_value_head *model_value_head(const struct model *model);

/* Layers behind the mean of a text's states: `dense_2` and `dense_3` of EmbeddingGemma. */
struct model_dense {
    int n_mid;              /* 0: there are none */
    const float *up, *down; /* [n_mid][d_model], [d_model][n_mid] */
};
const struct model_dense *model_dense(const struct model *model);

/* Elements of all tensors. */
uint64_t model_n_param(const struct model *model);

#endif
