/* SPDX-License-Identifier: MIT
 *
 * A Hugging Face folder read as the GGUF file that converting it would make: config.c and family.c write its metadata,
 * tokenizer.c and split.c that of its text, tensors.c names and shapes, experts.c those of experts, folder.c puts them
 * together.
 *
 * The names of keys and tensors, and what is changed on the way, are llama.cpp's converter's (conversion/ of its
 * source).
 */
#ifndef LUTRA_WEIGHTS_FOLDER_IMPL_H
#define LUTRA_WEIGHTS_FOLDER_IMPL_H

#include "weights/folder/folder.h"
#include "files/gguf_write.h"
#include "weights/weights_impl.h"

#include <jansson.h>

struct folder;

enum family_flags {
    FAMILY_PAIRS = 1,        /* q and k rows are reordered: GGUF rotates neighbours, where the makers rotate halves */
    FAMILY_NORM_PLUS_1 = 2,  /* norms multiply by 1 + weight */
    FAMILY_BEHIND = 4,       /* norms behind the sub-layers */
    FAMILY_GELU = 8,         /* else SiLU ... */
    FAMILY_LAYER_NORM = 16,  /* else RMS */
    FAMILY_WINDOW_USED = 32, /* a window counts only with use_sliding_window */
    FAMILY_RELU2 = 64,       /* ... or a squared ReLU */
    FAMILY_CONV = 256,       /* LFM2: layers that are short convolutions, and names of its own */
    FAMILY_RECURRENT = 128,  /* layers that do not attend; the norm before the feed-forward is post_attention_norm */
    FAMILY_EXPERTS = 512,
    FAMILY_GPT_OSS = 1024, /* names and layouts of its own (experts.c), YaRN without whole pairs */
    FAMILY_ENCODER = 4096, /* rows see the whole text, and there is no head */
    FAMILY_WORDS = 8192,   /* BERT's kind of vocabulary, names and norms */
    FAMILY_GEMMA4 = 2048, /* sizes of heads by layer, keys and values shared, a table of what layers add of the token */
    FAMILY_GRANITE4 = 16384, /* names of its own; gate and up of the feed-forward lie in one tensor */
    FAMILY_MAMBA = 32768,    /* layers that are Mamba-2 */
};

/* Models that one page of model/arch/ runs, as Hugging Face names them. */
struct family {
    const char *name; /* in `architectures` */
    const char *arch; /* general.architecture */
    unsigned flags;
    int window_period; /* as model/arch/ has it: layers period, 2 period, ... see everything; 0: none */
    const char *eps;
    const char *defaults;                                   /* JSON: what its config class means by a missing key */
    int (*more)(struct folder *f, struct lutra_error *err); /* its own keys; or NULL */
};

/* The head: one output per token of the vocabulary; or a judge's one or two classes, from the last hidden state
 * (tensors `score`) or with a dense layer and a ReLU before them (`score.0`, `score.2`); a judge of steps reads them
 * at the token <extra_0>. */
enum family_head { FAMILY_SPEAKS, FAMILY_CLASSIFIES, FAMILY_JUDGES_STEPS };

/* By the class's name; NULL when there is no such family. */
const struct family *family_find(const char *name, enum family_head *head);

/* The family of a folder that family_find found, which its configuration may make another: Granite 4 without a Mamba-2
 * layer is Granite 3 with other names. */
const struct family *family_settle(const struct folder *f);

/* How layers that others have quantized are packed (packed_linear.c). */
enum packing { PACKING_NONE, PACKING_GPTQ, PACKING_AWQ, PACKING_CT, PACKING_BITNET };

struct linear;

struct folder {
    struct weights *w;
    const char *label;          /* of messages: the folder's path, its tail if long */
    json_t *config;             /* config.json with its text_config and defaults on top */
    json_t *rope, *window_rope; /* rotation of the layers, of those with windows; borrowed from config or NULL */
    const struct family *family;
    enum family_head head;
    struct safetensors list;  /* of all shards, by name */
    struct gguf_writer *keys; /* the metadata so far */
    uint64_t n_layer, n_head, n_kv_head, d_head, n_rot;
    uint64_t d_model, n_expert, d_ff_expert, n_dense_lead; /* n_expert 0: none; n_dense_lead: first layers without */
    uint64_t n_shared_kv;                                  /* last layers that read the keys and values of others */
    const char *draft; /* the name of the MTP blocks' `fc.weight`, NULL: none; of its first bytes ... */
    size_t n_prefix;   /* ... so many are the beginning of all their names */
    uint64_t n_draft;  /* such blocks, counted behind the layers */
    bool tied;
    enum packing packing;
    struct weights_how how; /* as asked for */
    struct linear *layers;  /* [n_layers] w->packed_layers: what is packed */
    size_t n_layers;
};

/* ---- files (folder.c) ---- */

/* A JSON object from a file of the folder; *out = NULL when it is not there and may be missing. */
int folder_json(struct folder *f, const char *name, bool optional, json_t **out, struct lutra_error *err);

bool folder_has(const struct folder *f, const char *name);

/* A text file of the folder as a JSON string; the same. */
int folder_text(struct folder *f, const char *name, json_t **out, struct lutra_error *err);

/* ---- values of config.json (config.c) ---- */

/* NULL: missing or null. */
json_t *config_get(const struct folder *f, const char *key);
int config_count(const struct folder *f, const char *key, uint64_t *out, struct lutra_error *err);
int config_number(const struct folder *f, const json_t *in, const char *key, double *out, struct lutra_error *err);
bool config_true(const struct folder *f, const char *key);

/* config.json is malformed: its key `key` ... */
int config_wrong(const struct folder *f, const char *key, const char *what, struct lutra_error *err);

int folder_lacks(const struct folder *f, struct lutra_error *err, const char *key, const char *what);

/* Keys `{arch}.suffix`. */
const char *folder_key(const struct folder *f, const char *suffix, char out[96]);
void folder_put_u32(struct folder *f, const char *suffix, uint64_t value);
void folder_put_f32(struct folder *f, const char *suffix, double value);
void folder_put_str(struct folder *f, const char *suffix, const char *value);

/* How a text's vectors are pooled, and the layers behind: what sentence-transformers keeps beside the model. */
int folder_read_pooling(struct folder *f, struct lutra_error *err);

/* All of config.json. */
int folder_read_config(struct folder *f, struct lutra_error *err);

/* ---- the rest ---- */

int folder_read_tokenizer(struct folder *f, struct lutra_error *err);

/* The name in tokenizer.ggml.pre that splits text as `pre_tokenizer` does; LUTRA_E_UNSUPPORTED where there is none. */
int folder_split_name(
    const struct folder *f, const json_t *pre_tokenizer, bool ignore_merges, const char **out, struct lutra_error *err);

/* ---- layers that others have quantized (packing.c, packed_linear.c) ---- */

/* How, by config.json's quantization_config; LUTRA_E_UNSUPPORTED by name. */
int folder_read_packing(struct folder *f, struct lutra_error *err);

/* How GPTQ's zeros are said to be stored: 1, 2; 0: nothing is said.  *insists: whatever the data say. */
int folder_zeros_label(const struct folder *f, bool *insists);
bool folder_says_v2(const struct folder *f); /* the configuration, in so many words */

/* Finds and checks them, and puts keys that tell how their zeros are read. */
int folder_open_packed(struct folder *f, struct lutra_error *err);

/* Frees what that left in w->packed_layers. */
void folder_close_packed(struct weights *w);

/* Whether a tensor is one of those that a layer consists of; *is_codes: the one that stands for all. */
bool folder_is_packed(const struct folder *f, const struct safetensors_tensor *t, bool *is_codes);

/* The name that its weight would have, in out. */
const char *folder_packed_name(const struct folder *f, const char *codes, char out[GGUF_MAX_NAME + 1]);

/* The layer of these codes as a tensor, but for its data, and how that is computed. */
void folder_describe_packed(
    const struct folder *f, const struct safetensors_tensor *codes, struct tensor *t, struct derived *d);

/* Where output n of the maker's comes to lie. */
uint64_t folder_row_of(const struct derived *d, uint64_t n);

/* The embeddings, a matrix that is not empty; NULL: none. */
const struct safetensors_tensor *folder_embeddings(const struct folder *f);

/* Tensors that the model does not read: of pictures and sound, drafting blocks, copies. */
bool folder_is_left_out(const struct folder *f, const char *name);

/* What a tensor of MTP blocks is called behind the beginning that all of theirs have ("layers.0.mlp..."); NULL: it is
 * none of theirs. */
const char *folder_draft_name(const struct folder *f, const char *name);
/* Finds them, and puts how many blocks there are in all. */
void folder_find_draft(struct folder *f);

/* ---- experts (experts.c) ---- */

/* Whether a tensor holds weights of experts. */
bool folder_is_expert(const struct folder *f, const char *name);

/* Adds the tensors of all layers' experts to w->file[0]'s, which have room for twice those of the folder. */
int folder_take_experts(struct folder *f, struct lutra_error *err);

/* Names, shapes and bytes of w->file[0]'s tensors. */
int folder_take_tensors(struct folder *f, struct lutra_error *err);

#endif
