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

/* Value `layer` of a key that has one for each. */
double hf_by_layer(const struct weights *w, const char *suffix, int layer);

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

/* Of Granite 4 (write_granite.c): its keys; its name of a GGUF tensor, NULL where it is as others have it; and whether
 * a tensor was written, or will be, together with others. */
void hf_put_granite4(const struct weights *w, json_t *o, int n_layer);
const char *hf_granite4_name(const struct weights *w, const char *gguf, char *out);
bool hf_write_granite4(const struct weights *w, const struct tensor *t, const struct hf_form *form, struct hf_shard *s);

#endif
