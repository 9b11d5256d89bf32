/* SPDX-License-Identifier: MIT
 *
 * Files of a folder: safetensors and JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/write_folder_impl.h"

void hf_give_up(const char *why)
{
    fprintf(stderr, "write_folder: %s\n", why);
    abort();
}

void hf_add_tensor(struct hf_shard *s, const char *name, const char *dtype, int n_dim, const int64_t *dim,
    const void *data, size_t bytes)
{
    json_t *shape = json_array();
    for (int i = 0; i < n_dim; i++) json_array_append_new(shape, json_integer(dim[i]));
    if (s->room - s->n < bytes) s->data = realloc(s->data, s->room = s->n + bytes + (s->room / 2));
    memcpy(s->data + s->n, data, bytes);
    json_object_set_new(s->header, name,
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets", (json_int_t)s->n,
            (json_int_t)(s->n + bytes)));
    s->n += bytes;
}

void hf_save_shard(const struct hf_shard *s, const char *path)
{
    char *text = json_dumps(s->header, JSON_COMPACT);
    uint64_t n = strlen(text), padded = (n + 7) / 8 * 8;
    FILE *f = fopen(path, "wb");
    if (!f) hf_give_up(path);
    fwrite(&padded, 8, 1, f);
    fwrite(text, n, 1, f);
    for (uint64_t i = n; i < padded; i++) fputc(' ', f);
    if (s->n && fwrite(s->data, s->n, 1, f) != 1) hf_give_up(path);
    if (fclose(f) != 0) hf_give_up(path);
    free(text);
}

void hf_save_json(const json_t *json, const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (json_dump_file(json, path, JSON_COMPACT | JSON_REAL_PRECISION(17)) < 0) hf_give_up(path);
}
