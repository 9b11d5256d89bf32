/* SPDX-License-Identifier: MIT
 *
 * Parses safetensors headers.  The file is hostile: nothing is used as a size or offset before it was compared with the
 * bytes that are there.
 */
#include "files/safetensors.h"
#include "files/file.h"

#include "base/f16.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct safetensors_type types[] = {
    {"F32", 4, QUANT_F32},
    {"F16", 2, QUANT_F16},
    {"BF16", 2, QUANT_BF16},
    {"F64", 8, QUANT_TYPE_END},
    {"I64", 8, QUANT_TYPE_END},
    {"U64", 8, QUANT_TYPE_END},
    {"I32", 4, QUANT_TYPE_END},
    {"U32", 4, QUANT_TYPE_END},
    {"I16", 2, QUANT_TYPE_END},
    {"U16", 2, QUANT_TYPE_END},
    {"I8", 1, QUANT_TYPE_END},
    {"U8", 1, QUANT_TYPE_END},
    {"BOOL", 1, QUANT_TYPE_END},
    {"F8_E4M3", 1, QUANT_TYPE_END},
    {"F8_E5M2", 1, QUANT_TYPE_END},
    {"F8_E8M0", 1, QUANT_TYPE_END},
};

static const struct safetensors_type *type_named(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

static int malformed(const struct model_file *file, const char *name, const char *what, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s': %s", file->label, show_name(name).s, what);
}

/* An integer that is not negative. */
static bool count_of(const json_t *v, uint64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static int take_shape(
    const struct model_file *file, struct safetensors_tensor *t, const json_t *shape, struct lutra_error *err)
{
    uint64_t bytes = (uint64_t)t->dtype->bytes;
    if (!json_is_array(shape)) return malformed(file, t->name, "no 'shape'", err);
    if (json_array_size(shape) > SAFETENSORS_MAX_DIM) return malformed(file, t->name, "more than 8 dimensions", err);
    t->n_dim = (int)json_array_size(shape);
    for (int i = 0; i < t->n_dim; i++) {
        if (!count_of(json_array_get(shape, (size_t)i), &t->dim[i]))
            return malformed(file, t->name, "a dimension that is no count", err);
        if (LUTRA_MUL_OVERFLOWS(bytes, t->dim[i], &bytes) || bytes > INT64_MAX)
            return malformed(file, t->name, "more than 2^63 bytes", err);
    }
    t->bytes = bytes;
    return 0;
}

static int take_place(
    const struct model_file *file, struct safetensors_tensor *t, const json_t *offsets, struct lutra_error *err)
{
    uint64_t begin, end, room = file->bytes - file->header_bytes;
    if (json_array_size(offsets) != 2 || !count_of(json_array_get(offsets, 0), &begin) ||
        !count_of(json_array_get(offsets, 1), &end))
        return malformed(file, t->name, "no two 'data_offsets'", err);
    if (begin > end || end > room)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s' (bytes %llu to %llu) ends outside the file's %llu",
            file->label, show_name(t->name).s, (unsigned long long)begin, (unsigned long long)end,
            (unsigned long long)room);
    if (end - begin != t->bytes) return malformed(file, t->name, "its size is not that of its shape", err);
    t->data = file->base + file->header_bytes + begin;
    return 0;
}

static int take_tensor(struct model_file *file, struct safetensors_tensor *t, const char *name, const json_t *entry,
    struct lutra_error *err)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!*name || strlen(name) > GGUF_MAX_NAME) return malformed(file, name, "a name of 0 or more than 255 bytes", err);
    t->name = names_add(&file->names, name, strlen(name));
    if (!t->name) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for names", file->label);
    if (!dtype) return malformed(file, name, "no 'dtype'", err);
    t->dtype = type_named(dtype);
    if (!t->dtype)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' has the unknown type '%s'", file->label,
            show_name(name).s, show_name(dtype).s);
    TRY(take_shape(file, t, json_object_get(entry, "shape"), err));
    return take_place(file, t, json_object_get(entry, "data_offsets"), err);
}

static int by_place(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Sorts a file's tensors by place. */
static int check_cover(
    const struct model_file *file, struct safetensors_tensor *tensor, size_t n, struct lutra_error *err)
{
    const uint8_t *at = file->base + file->header_bytes;
    qsort(tensor, n, sizeof *tensor, by_place);
    for (size_t i = 0; i < n; i++) {
        if (tensor[i].data < at) return malformed(file, tensor[i].name, "it overlaps the one before it", err);
        if (tensor[i].data > at) return malformed(file, tensor[i].name, "bytes before it are no tensor's", err);
        at += tensor[i].bytes;
    }
    if (at == file->base + file->bytes) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: %zu bytes at its end are no tensor's", file->label,
        (size_t)(file->base + file->bytes - at));
}

static int take_all(struct model_file *file, struct safetensors *list, json_t *header, struct lutra_error *err)
{
    const char *name;
    json_t *entry;
    size_t first = list->n, more = json_object_size(header);
    struct safetensors_tensor *grown = realloc(list->tensor, (list->n + more + 1) * sizeof *grown);
    if (!grown) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for tensors", file->label);
    list->tensor = grown;
    json_object_foreach(header, name, entry)
    {
        struct safetensors_tensor *t = &list->tensor[list->n];
        if (strcmp(name, "__metadata__") == 0) continue;
        *t = (struct safetensors_tensor){.file = list->n_file};
        TRY(take_tensor(file, t, name, entry, err));
        list->n++;
    }
    list->n_file++;
    return check_cover(file, list->tensor + first, list->n - first, err);
}

int safetensors_parse(struct model_file *file, struct safetensors *list, struct lutra_error *err)
{
    uint64_t n;
    json_error_t why;
    if (file->bytes < 8)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: %zu bytes are no safetensors file", file->label, file->bytes);
    memcpy(&n, file->base, 8);
    if (n > file->bytes - 8 || n > SAFETENSORS_MAX_HEADER)
        return lutra_fail(err, LUTRA_E_FORMAT,
            "%s: a header of %llu bytes in a file of %zu: cut short, or no safetensors", file->label,
            (unsigned long long)n, file->bytes);
    file->header_bytes = 8 + (size_t)n;
    json_t *header = json_loadb((const char *)file->base + 8, n, JSON_REJECT_DUPLICATES, &why);
    if (!header) return lutra_fail(err, LUTRA_E_FORMAT, "%s: header: %s", file->label, show_name(why.text).s);
    int rc = json_is_object(header) ? take_all(file, list, header, err)
                                    : lutra_fail(err, LUTRA_E_FORMAT, "%s: the header is no object", file->label);
    json_decref(header);
    return rc;
}

void safetensors_fini(struct safetensors *list)
{
    free(list->tensor);
    *list = (struct safetensors){0};
}

float safetensors_f32(const struct safetensors_tensor *t, uint64_t i)
{
    const uint8_t *p = t->data + i * (uint64_t)t->dtype->bytes;
    uint16_t half;
    float f;
    if (t->dtype->type == QUANT_F32) {
        memcpy(&f, p, sizeof f);
        return f;
    }
    memcpy(&half, p, sizeof half);
    return t->dtype->type == QUANT_F16 ? f16_to_f32(half) : bf16_to_f32(half);
}

static int by_name(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void safetensors_sort(struct safetensors *list)
{
    if (list->n) qsort(list->tensor, list->n, sizeof *list->tensor, by_name);
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *list, const char *name)
{
    struct safetensors_tensor key = {.name = name};
    return list->n ? bsearch(&key, list->tensor, list->n, sizeof *list->tensor, by_name) : NULL;
}
