/* SPDX-License-Identifier: MIT
 *
 * Hugging Face folders from GGUF files: what converters do, undone.  Written from transformers' config classes and the
 * formats of safetensors and tokenizers, not from the reader that is tested with it.
 */
#ifndef LUTRA_TESTS_HF_WRITE_FOLDER_H
#define LUTRA_TESTS_HF_WRITE_FOLDER_H

#include <jansson.h>

#include "weights/weights.h"

enum { HF_MAX_SHARDS = 4 };

/* How matrices are stored: as they are; or those of layers and the head (the file's are F32) rounded to the nearest of
 * GPTQ's 4 bits in groups of 32. */
enum hf_layers {
    HF_FLOATS,
    HF_GROUPS,   /* of neighbours */
    HF_SHUFFLED, /* of any inputs (desc_act): q and k, gate and up have the same ones */
    HF_MIRRORED, /* HF_GROUPS' model with the outputs of v, gate and up in another order, and so the inputs behind them:
                  * in the order of their groups these are HF_GROUPS' bits.  No fused matrices. */
};

/* What of the format's freedom to use. */
struct hf_form {
    int n_shard;      /* 1: model.safetensors alone */
    bool rope_v5;     /* `rope_parameters` of transformers 5 instead of `rope_scaling` and `rope_theta` */
    bool merge_pairs; /* merges as ["a", "b"] instead of "a b" */
    bool text_config; /* the keys inside `text_config`, tensors under `language_model.` */
    enum hf_layers layers;
    bool embeddings; /* HF_SHUFFLED: these, too */
    bool granite4;   /* a GGUF file of the architecture granite as the class of Granite 4 */
    bool together;   /* all experts of a layer in one tensor (gpt-oss: always) */
};

/* Writes the folder, which must exist; aborts when it cannot. */
void hf_write_folder(const struct weights *w, const char *folder, const struct hf_form *form);

/* Parts of it. */
void hf_write_tokenizer(const struct weights *w, const char *folder, const struct hf_form *form);
void hf_save_json(const json_t *json, const char *folder, const char *name);

#endif
