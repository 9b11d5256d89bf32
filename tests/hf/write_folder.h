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

/* What of the format's freedom to use. */
struct hf_form {
    int n_shard;      /* 1: model.safetensors alone */
    bool rope_v5;     /* `rope_parameters` of transformers 5 instead of `rope_scaling` and `rope_theta` */
    bool merge_pairs; /* merges as ["a", "b"] instead of "a b" */
    bool text_config; /* the keys inside `text_config`, tensors under `language_model.` */
};

/* Writes the folder, which must exist; aborts when it cannot. */
void hf_write_folder(const struct weights *w, const char *folder, const struct hf_form *form);

/* Parts of it. */
void hf_write_tokenizer(const struct weights *w, const char *folder, const struct hf_form *form);
void hf_save_json(const json_t *json, const char *folder, const char *name);

#endif
