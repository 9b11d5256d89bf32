/* SPDX-License-Identifier: MIT
 *
 * Mapping of files, shards of a split model, and the lookup of tensors.
 */
#include "weights/weights_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/pages.h"

/* ---- shards: PREFIX-00001-of-00003.gguf holds split.no = 0, split.count = 3 ---- */

enum { SHARD_TAIL = sizeof "-00001-of-00003.gguf" }; /* with its NUL; counts have at most 5 digits */

static void shard_tail(char tail[SHARD_TAIL], uint64_t i, uint64_t n)
{
    snprintf(tail, SHARD_TAIL, "-%05u-of-%05u.gguf", (unsigned)(i + 1) % 100000, (unsigned)n % 100000);
}

/* Of shard i. */
static int check_shard_name(const struct weights *w, uint64_t i, uint64_t n, struct lutra_error *err)
{
    char tail[SHARD_TAIL];
    size_t len = strlen(w->path);
    shard_tail(tail, i, n);
    if (len >= SHARD_TAIL - 1 && strcmp(w->path + len - (SHARD_TAIL - 1), tail) == 0) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: one of %u shards, but its name does not end in '%s'", w->file[0].label,
        (unsigned)n, tail);
}

/* The path of shard i beside the first; to be freed. */
static char *shard_path(const struct weights *w, uint64_t i, uint64_t n)
{
    char *path = strdup(w->path);
    if (path) shard_tail(path + strlen(path) - (SHARD_TAIL - 1), i, n);
    return path;
}

static int open_shard(struct weights *w, uint64_t i, uint64_t n, struct lutra_error *err)
{
    uint64_t no, count;
    char *path = shard_path(w, i, n);
    if (!path) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for shards", w->file[0].label);
    struct model_file *file = &w->file[i];
    w->n_file = i + 1;
    int rc = model_file_map(file, path, err);
    free(path);
    TRY(rc);
    TRY(gguf_parse(file, err));
    TRY(gguf_get_uint(file, "split.no", UINT16_MAX, &no, err));
    TRY(gguf_get_uint(file, "split.count", UINT16_MAX, &count, err));
    if (no != i || count != n)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: says it is shard %llu of %llu, not %llu of %llu", file->label,
            (unsigned long long)no + 1, (unsigned long long)count, (unsigned long long)i + 1, (unsigned long long)n);
    return 0;
}

/* The one open file is shard `no` of n: opens the first in its place. */
static int go_to_first(struct weights *w, uint64_t no, uint64_t n, struct lutra_error *err)
{
    TRY(check_shard_name(w, no, n, err));
    model_file_close(&w->file[0]);
    memset(w->file, 0, sizeof *w->file);
    shard_tail(w->path + strlen(w->path) - (SHARD_TAIL - 1), 0, n);
    w->n_file = 0;
    return open_shard(w, 0, n, err);
}

/* From any of them. */
static int open_shards(struct weights *w, struct lutra_error *err)
{
    uint64_t no, count, n_tensor = 0, want;
    TRY(gguf_get_uint(&w->file[0], "split.no", UINT16_MAX, &no, err));
    TRY(gguf_get_uint(&w->file[0], "split.count", UINT16_MAX, &count, err));
    if (count <= 1) return 0;
    if (no != 0) TRY(go_to_first(w, no, count, err));
    TRY(gguf_get_uint(&w->file[0], "split.tensors.count", INT32_MAX, &want, err));
    TRY(check_shard_name(w, 0, count, err)); /* before memory is taken for as many as the file claims */
    struct model_file *file = realloc(w->file, count * sizeof *file);
    if (!file) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for shards", w->path);
    w->file = file;
    memset(file + 1, 0, (count - 1) * sizeof *file);
    for (uint64_t i = 1; i < count; i++) TRY(open_shard(w, i, count, err));
    for (size_t i = 0; i < w->n_file; i++) n_tensor += w->file[i].n_tensor;
    if (gguf_kv_find(&w->file[0], "split.tensors.count") && n_tensor != want)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: the shards hold %llu tensors, split.tensors.count says %llu",
            w->file[0].label, (unsigned long long)n_tensor, (unsigned long long)want);
    return 0;
}

/* ---- tensors ---- */

static int compare_tensors(const void *a, const void *b)
{
    const struct tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int index_tensors(struct weights *w, struct lutra_error *err)
{
    size_t n = 0;
    for (size_t f = 0; f < w->n_file; f++) n += w->file[f].n_tensor;
    w->tensor = malloc((n + 1) * sizeof *w->tensor);
    w->tensor_by_name = malloc((n + 1) * sizeof *w->tensor_by_name);
    if (!w->tensor || !w->tensor_by_name)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for tensors", w->file[0].label);
    for (size_t f = 0; f < w->n_file; f++) {
        for (size_t i = 0; i < w->file[f].n_tensor; i++) {
            const struct tensor *t = &w->file[f].tensor[i];
            w->tensor[w->n_tensor] = w->tensor_by_name[w->n_tensor] = t;
            w->n_tensor++;
            w->tensor_bytes += t->bytes;
        }
    }
    qsort(w->tensor_by_name, n, sizeof *w->tensor_by_name, compare_tensors);
    for (size_t i = 1; i < n; i++)
        if (strcmp(w->tensor_by_name[i - 1]->name, w->tensor_by_name[i]->name) == 0)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s' occurs twice", w->file[0].label,
                show_name(w->tensor_by_name[i]->name).s);
    return 0;
}

static int open_file(struct weights *w, struct lutra_error *err)
{
    TRY(model_file_map(&w->file[0], w->path, err));
    TRY(gguf_parse(&w->file[0], err));
    TRY(open_shards(w, err));
    return foreign_open(w, err);
}

int weights_zeros_named(const char *name, enum weights_zeros *out, struct lutra_error *err)
{
    *out = WEIGHTS_ZEROS_BY_DATA;
    if (!name) return 0;
    *out = strcmp(name, "v2") == 0 ? WEIGHTS_ZEROS_V2 : WEIGHTS_ZEROS_V1;
    if (*out == WEIGHTS_ZEROS_V2 || strcmp(name, "v1") == 0) return 0;
    return lutra_fail(err, LUTRA_E_ARGUMENT, "zeros '%s'; there are v1 and v2", name);
}

/* A folder's key says how zeros are read; of a file it would be what the folder had that it was made of. */
static int check_zeros(const struct weights *w, enum weights_zeros zeros, struct lutra_error *err)
{
    if (zeros != WEIGHTS_ZEROS_V1 && zeros != WEIGHTS_ZEROS_V2) return 0;
    if (w->source && gguf_kv_find(&w->file[0], "lutra.zeros")) return 0;
    return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: --zeros v%d: no folder with layers of GPTQ", w->file[0].label,
        zeros == WEIGHTS_ZEROS_V1 ? 1 : 2);
}

int weights_open(struct weights **out, const char *path, struct lutra_error *err)
{
    return weights_open_as(out, path, (struct weights_how){WEIGHTS_ZEROS_BY_DATA, false}, err);
}

int weights_open_as(struct weights **out, const char *path, struct weights_how how, struct lutra_error *err)
{
    *out = NULL;
    struct weights *w = calloc(1, sizeof *w);
    if (!w) return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory to open a model");
    int rc = LUTRA_E_NO_MEMORY;
    w->path = strdup(path);
    w->file = calloc(1, sizeof *w->file);
    if (!w->path || !w->file) {
        lutra_fail(err, rc, "no memory to open a model");
        goto fail;
    }
    w->n_file = 1;
    struct stat st;
    bool is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if ((rc = is_folder ? folder_open(w, how, err) : open_file(w, err)) < 0) goto fail;
    if ((rc = check_zeros(w, how.zeros, err)) < 0) goto fail;
    if ((rc = index_tensors(w, err)) < 0) goto fail;
    if ((rc = foreign_scale(w, err)) < 0) goto fail;
    *out = w;
    return 0;
fail:
    weights_close(&w);
    return rc;
}

void weights_close(struct weights **w)
{
    if (!*w) return;
    for (size_t i = 0; i < (*w)->n_file; i++) model_file_close(&(*w)->file[i]);
    for (size_t i = 0; i < (*w)->n_derived; i++) {
        struct derived *d = &(*w)->derived[i];
        if (d->data) munmap(d->data, d->bytes);
        if (d->owns_from) folder_free_stack(d->from);
    }
    folder_close(*w);
    free((*w)->derived);
    free((*w)->file);
    free((*w)->path);
    free((*w)->tensor);
    free((*w)->tensor_by_name);
    free(*w);
    *w = NULL;
}

const char *weights_path(const struct weights *w)
{
    return w->path;
}

uint64_t weights_file_bytes(const struct weights *w)
{
    uint64_t n = 0;
    for (size_t i = 0; i < w->n_file; i++) n += w->file[i].bytes;
    return n;
}

uint64_t weights_tensor_bytes(const struct weights *w)
{
    return w->tensor_bytes;
}

size_t weights_tensor_count(const struct weights *w)
{
    return w->n_tensor;
}

const struct tensor *weights_tensor_at(const struct weights *w, size_t i)
{
    return w->tensor[i];
}

const struct tensor *weights_tensor_find(const struct weights *w, const char *name)
{
    size_t lo = 0, hi = w->n_tensor;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(name, w->tensor_by_name[mid]->name);
        if (order == 0) return w->tensor_by_name[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

int weights_tensor_get(const struct weights *w, const char *name, const struct tensor **out, struct lutra_error *err)
{
    *out = weights_tensor_find(w, name);
    if (*out) return 0;
    return lutra_fail(err, LUTRA_E_NOT_FOUND, "%s: tensor '%s' is missing", w->file[0].label, show_name(name).s);
}

int weights_derive(struct weights *w, size_t bytes, struct derived **out, struct lutra_error *err)
{
    *out = &w->derived[w->n_derived];
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for tensors", w->file[0].label);
    **out = (struct derived){.data = p, .bytes = bytes};
    w->n_derived++;
    return 0;
}

struct derived *weights_derived_of(const struct weights *w, const struct tensor *t)
{
    uintptr_t at = (uintptr_t)t->data;
    for (size_t i = 0; i < w->n_derived; i++) {
        struct derived *d = &w->derived[i];
        if (at >= (uintptr_t)d->data && at < (uintptr_t)d->data + d->bytes) return d;
    }
    return NULL;
}

void weights_fetch(const struct weights *w, const struct tensor *t)
{
    struct derived *d = weights_derived_of(w, t);
    if (!d || d->there) return;
    d->fill(d);
    d->there = true;
}

bool weights_is_derived(const struct weights *w, const struct tensor *t)
{
    return weights_derived_of(w, t) != NULL;
}

const char *weights_f32_reason(const struct weights *w, const struct tensor *t)
{
    const struct derived *d = weights_derived_of(w, t);
    return d ? d->f32_reason : NULL;
}

bool weights_zeros_means(const struct weights *w, const struct tensor *t, double mean[2])
{
    const struct derived *d = weights_derived_of(w, t);
    return d && folder_zeros_means(d, mean);
}

const int32_t *weights_order(const struct weights *w, const struct tensor *t)
{
    const struct derived *d = weights_derived_of(w, t);
    return d ? d->order : NULL;
}

void weights_drop_pages(const struct weights *w, const struct tensor *t)
{
    struct derived *d = weights_derived_of(w, t);
    if (d && !d->fill) return; /* nothing could bring it back */
    if (d) d->there = false;
    pages_drop(t->data, t->bytes);
}

void weights_drop_read_pages(const struct weights *w, bool of_tensors)
{
    for (const struct model_file *f = w->file; f < w->file + w->n_file; f++)
        if (!f->composed) pages_drop(f->base, of_tensors ? f->bytes : f->header_bytes);
}

void weights_prefetch(const struct weights *w, const struct tensor *t)
{
    if (!weights_derived_of(w, t)) pages_want(t->data, t->bytes);
}

/* ---- warnings ---- */

void weights_tell_warnings(const struct weights *w, void (*tell)(void *user, const char *sentence), void *user)
{
    struct gguf_str zeros = {"", 0};
    char sentence[512];
    bool wrong = false;
    size_t n_i2s = 0;
    for (size_t i = 0; i < w->n_derived; i++) n_i2s += foreign_is_i2s(&w->derived[i]);
    if (n_i2s) {
        snprintf(sentence, sizeof sentence,
            "%s: tensors of bitnet.cpp's I2_S (%zu) are read in the order of its x86 builds; that of a file made on "
            "Arm, or without ACT_PARALLEL, is another, which nothing in it tells",
            w->file[0].label, n_i2s);
        tell(user, sentence);
    }
    if (!w->source || weights_opt_bool(w, "lutra.zeros.label_is_wrong", &wrong, NULL) < 0 || !wrong) return;
    if (weights_opt_str(w, "lutra.zeros", &zeros, NULL) < 0) return;
    snprintf(sentence, sizeof sentence, "%s: its zeros are stored otherwise than config.json says: %.*s",
        w->file[0].label, (int)(zeros.n < 200 ? zeros.n : 200), zeros.s);
    tell(user, sentence);
}
