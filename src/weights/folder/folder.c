/* SPDX-License-Identifier: MIT
 *
 * Opens a folder: its JSON files, its shards, and the header of the GGUF file that converting it would make.
 */
#include "quant/quant.h"
#include "weights/folder/folder_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX "model.safetensors.index.json"
#define ONE_FILE "model.safetensors"

enum { MAX_TEXT_FILE = 256 << 20, MAX_SHARDS = 10000 };

/* ---- files ---- */

static char *path_of(const struct folder *f, const char *name)
{
    size_t room = strlen(f->w->path) + strlen(name) + 2;
    char *path = malloc(room);
    if (path) snprintf(path, room, "%s/%s", f->w->path, name);
    return path;
}

bool folder_has(const struct folder *f, const char *name)
{
    char *path = path_of(f, name);
    bool there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

static int map_in_folder(struct folder *f, const char *name, struct model_file *file, struct lutra_error *err)
{
    char *path = path_of(f, name);
    if (!path) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for a path", f->label);
    int rc = model_file_map(file, path, err);
    free(path);
    return rc;
}

static int map_text(struct folder *f, const char *name, struct model_file *file, struct lutra_error *err)
{
    TRY(map_in_folder(f, name, file, err));
    if (file->bytes <= MAX_TEXT_FILE) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: %zu bytes are too many", file->label, file->bytes);
}

static int parse_json(const struct model_file *file, size_t flags, json_t **out, struct lutra_error *err)
{
    json_error_t why;
    *out = json_loadb((const char *)file->base, file->bytes, JSON_REJECT_DUPLICATES | flags, &why);
    if (json_is_object(*out)) return 0;
    if (*out) strcpy(why.text, "not an object");
    json_decref(*out);
    *out = NULL;
    if (json_error_code(&why) == json_error_out_of_memory)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", file->label);
    return lutra_fail_at(
        err, LUTRA_E_FORMAT, (uint64_t)why.position, "%s: line %d: %s", file->label, why.line, show_name(why.text).s);
}

int folder_json(struct folder *f, const char *name, bool optional, json_t **out, struct lutra_error *err)
{
    /* Beside a tokenizer there are lengths of 10^30, which say "no limit". */
    size_t flags = strcmp(name, "tokenizer_config.json") == 0 ? JSON_DECODE_INT_AS_REAL : 0;
    struct model_file file = {0};
    *out = NULL;
    if (optional && !folder_has(f, name)) return 0;
    int rc = map_text(f, name, &file, err);
    if (rc == 0) rc = parse_json(&file, flags, out, err);
    model_file_close(&file);
    return rc;
}

int folder_text(struct folder *f, const char *name, json_t **out, struct lutra_error *err)
{
    struct model_file file = {0};
    *out = NULL;
    if (!folder_has(f, name)) return 0;
    int rc = map_text(f, name, &file, err);
    if (rc == 0 && memchr(file.base, 0, file.bytes))
        rc = lutra_fail(err, LUTRA_E_FORMAT, "%s: a NUL byte in text", file.label);
    if (rc == 0) {
        *out = json_stringn((const char *)file.base, file.bytes);
        if (!*out) rc = lutra_fail(err, LUTRA_E_FORMAT, "%s: not UTF-8", file.label);
    }
    model_file_close(&file);
    return rc;
}

/* ---- shards ---- */

static int open_shard(struct folder *f, const char *name, struct lutra_error *err)
{
    struct model_file *file = &f->w->file[f->w->n_file++];
    TRY(map_in_folder(f, name, file, err));
    return safetensors_parse(file, &f->list, err);
}

/* A file's name and nothing else: no way out of the folder. */
static bool is_plain(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/');
}

/* The shards that the index names, each once. */
static int list_shards(struct folder *f, json_t *map, json_t *shards, struct lutra_error *err)
{
    const char *tensor;
    json_t *shard;
    json_object_foreach(map, tensor, shard)
    {
        const char *name = json_string_value(shard);
        if (!is_plain(name))
            return lutra_fail(err, LUTRA_E_FORMAT, "%s/" INDEX ": tensor '%s' lies in no file of this folder", f->label,
                show_name(tensor).s);
        if (json_object_get(shards, name)) continue;
        if (json_object_set_new(shards, name, json_integer((json_int_t)json_object_size(shards))) < 0)
            return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s/" INDEX ": out of memory", f->label);
        if (json_object_size(shards) > MAX_SHARDS)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s/" INDEX ": more than %d files", f->label, MAX_SHARDS);
    }
    return 0;
}

/* The index and the shards must tell the same. */
static int check_index(struct folder *f, json_t *map, json_t *shards, struct lutra_error *err)
{
    for (size_t i = 0; i < f->list.n; i++) {
        const struct safetensors_tensor *t = &f->list.tensor[i];
        const char *shard = json_string_value(json_object_get(map, t->name));
        const json_t *number = shard ? json_object_get(shards, shard) : NULL;
        if (!number || (size_t)json_integer_value(number) != t->file)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s/" INDEX ": tensor '%s' lies in another file than it says",
                f->label, show_name(t->name).s);
    }
    if (f->list.n == json_object_size(map)) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s/" INDEX ": names %zu tensors, the files hold %zu", f->label,
        json_object_size(map), f->list.n);
}

static int room_for_files(struct folder *f, size_t n, struct lutra_error *err)
{
    struct model_file *file = realloc(f->w->file, (n + 1) * sizeof *file);
    if (!file) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for shards", f->label);
    memset(file + 1, 0, n * sizeof *file);
    f->w->file = file;
    return 0;
}

static int open_indexed(struct folder *f, json_t *map, json_t *shards, struct lutra_error *err)
{
    const char *name;
    json_t *number;
    TRY(list_shards(f, map, shards, err));
    TRY(room_for_files(f, json_object_size(shards) + 2, err)); /* and those of open_dense */
    json_object_foreach(shards, name, number) TRY(open_shard(f, name, err));
    safetensors_sort(&f->list);
    return check_index(f, map, shards, err);
}

static int open_index(struct folder *f, struct lutra_error *err)
{
    json_t *index, *shards = json_object();
    int rc = folder_json(f, INDEX, false, &index, err);
    json_t *map = json_object_get(index, "weight_map");
    if (rc == 0 && !json_is_object(map))
        rc = lutra_fail(err, LUTRA_E_FORMAT, "%s/" INDEX ": no 'weight_map'", f->label);
    if (rc == 0) rc = open_indexed(f, map, shards, err);
    json_decref(index);
    json_decref(shards);
    return rc;
}

/* Layers behind the pooling, each in a file of its own: `linear.` becomes `dense_2.` and `dense_3.`.  Sorts all. */
static int open_dense(struct folder *f, struct lutra_error *err)
{
    for (int i = 2; i <= 3; i++) {
        char name[64];
        size_t first = f->list.n;
        snprintf(name, sizeof name, "%d_Dense/" ONE_FILE, i);
        if (!(f->family->flags & FAMILY_ENCODER) || !folder_has(f, name)) continue;
        TRY(open_shard(f, name, err));
        for (; first < f->list.n; first++) {
            const char *old = f->list.tensor[first].name;
            if (strcmp(old, "linear.weight") != 0)
                return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s/%s: tensor '%s' is not 'linear.weight'", f->label, name,
                    show_name(old).s);
            f->list.tensor[first].name = i == 2 ? "dense_2.weight" : "dense_3.weight";
        }
    }
    safetensors_sort(&f->list);
    return 0;
}

/* A folder without weights is a vocabulary. */
static int open_tensors(struct folder *f, struct lutra_error *err)
{
    TRY(room_for_files(f, 3, err));
    const bool one = folder_has(f, ONE_FILE);
    if (one || folder_has(f, INDEX)) {
        TRY(one ? open_shard(f, ONE_FILE, err) : open_index(f, err));
        return open_dense(f, err);
    }
    if (!folder_has(f, "pytorch_model.bin") && !folder_has(f, "pytorch_model.bin.index.json")) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED,
        "%s: its weights are Python pickles (pytorch_model.bin); only safetensors are read", f->label);
}

/* ---- the header ---- */

static int compose(struct folder *f, struct lutra_error *err)
{
    struct model_file *header = &f->w->file[0];
    uint8_t *bytes;
    TRY(gguf_writer_header(&f->keys, &bytes, &header->bytes, err));
    header->base = bytes;
    header->composed = true;
    return gguf_parse(header, err);
}

/* The folder's name, and the type of its embeddings for that of the file. */
static void put_general(struct folder *f)
{
    const char *slash = strrchr(f->w->path, '/');
    const struct safetensors_tensor *embd = folder_embeddings(f);
    const struct quant_info *q = embd ? quant_info_of(embd->dtype->type) : NULL;
    gguf_writer_put_str(f->keys, "general.name", slash ? slash + 1 : f->w->path);
    if (q) gguf_writer_put_u32(f->keys, "general.file_type", q->file_type);
    if (f->packing) gguf_writer_put_u32(f->keys, "general.quantization_version", QUANTIZATION_VERSION);
}

static int read_folder(struct folder *f, struct lutra_error *err)
{
    if (!folder_has(f, "config.json"))
        return lutra_fail(err, LUTRA_E_IO, "%s: a folder without a config.json, no Hugging Face model", f->label);
    TRY(folder_read_config(f, err));
    TRY(open_tensors(f, err));
    folder_find_draft(f);
    TRY(folder_open_packed(f, err));
    put_general(f);
    TRY(folder_read_tokenizer(f, err));
    TRY(compose(f, err));
    return folder_take_tensors(f, err);
}

/* The list of tensors stays. */
static int keep_source(struct folder *f, struct lutra_error *err)
{
    f->w->source = malloc(sizeof *f->w->source);
    if (!f->w->source) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for tensors", f->label);
    *f->w->source = f->list;
    f->list = (struct safetensors){0};
    return 0;
}

void folder_close(struct weights *w)
{
    if (w->source) safetensors_fini(w->source);
    free(w->source);
    folder_close_packed(w);
}

int folder_open(struct weights *w, struct weights_how how, struct lutra_error *err)
{
    struct folder f = {.w = w, .how = how};
    for (size_t n = strlen(w->path); n > 1 && w->path[n - 1] == '/'; n--) w->path[n - 1] = 0;
    size_t n = strlen(w->path), room = sizeof w->file[0].label - 4;
    snprintf(w->file[0].label, sizeof w->file[0].label, "%s%s", n > room ? "..." : "",
        n > room ? w->path + n - room : w->path);
    char label[sizeof w->file[0].label];
    strcpy(label, w->file[0].label); /* w->file moves */
    f.label = label;
    int rc = gguf_writer_open_header(&f.keys, label, err);
    if (rc == 0) rc = read_folder(&f, err);
    if (rc == 0) rc = keep_source(&f, err);
    gguf_writer_abort(&f.keys);
    safetensors_fini(&f.list);
    json_decref(f.config);
    return rc;
}

/* ---- for who writes one ---- */

const struct safetensors *folder_tensors(const struct weights *w)
{
    return w->source;
}

bool folder_has_packed(const struct weights *w)
{
    return w->packed_layers;
}

const char *folder_label(const struct weights *w)
{
    return w->file->label;
}

uint64_t folder_row(const struct weights *w, const struct tensor *t, uint64_t n)
{
    const struct derived *d = weights_derived_of(w, t); /* q and k of some families */
    return d ? folder_row_of(d, n) : n;
}
