/* SPDX-License-Identifier: MIT
 *
 * What the files that write a folder share.
 */
#ifndef LUTRA_TESTS_HF_WRITE_FOLDER_IMPL_H
#define LUTRA_TESTS_HF_WRITE_FOLDER_IMPL_H

#include "hf/write_folder.h"

void hf_give_up(const char *why);
/* The value of `{arch}.suffix`. */
double hf_number(const struct weights *w, const char *suffix, double otherwise);

struct hf_shard {
    json_t *header;
    uint8_t *data;
    size_t n, room;
};

void hf_add_tensor(struct hf_shard *s, const char *name, const char *dtype, int n_dim, const int64_t *dim,
    const void *data, size_t bytes);
void hf_save_shard(const struct hf_shard *s, const char *path);

/* Of encoders (write_encoder.c): BERT and Nomic's, and their names of a GGUF tensor, in out[128]. */
bool hf_is_words(const struct weights *w);
const char *hf_words_name(const struct weights *w, const char *gguf, char *out);
/* config.json as Nomic's class has it. */
void hf_gpt2_names(json_t *o);
/* A layer behind the pooling, in a folder of its own; how vectors are pooled. */
void hf_write_dense(const struct tensor *t, const char *folder);
void hf_write_pooling(const struct weights *w, const char *folder);

#endif
