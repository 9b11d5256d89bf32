/* SPDX-License-Identifier: MIT */
#include "weights/packed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "weights/figures.h"
#include "files/gguf_write.h"
#include "weights/weights_impl.h"

#define KIND "lutra-packed"
#define KEY_SUMS "lutra.packed.sums"

enum { PACKED_VERSION = 2, PACKED_ALIGN = 4096, WRITE_BYTES = 64 << 20, HUGE_PAGE_BYTES = 2 << 20 };

/* What tells one model file from another, all shards taken together. */
struct identity {
    uint64_t bytes, modified_ns, header_hash;
};

static struct identity identity_of(const struct weights *w)
{
    struct identity id = {0};
    for (size_t i = 0; i < w->n_file; i++) {
        const struct model_file *f = &w->file[i];
        id.bytes += f->bytes;
        if (f->modified_ns > id.modified_ns) id.modified_ns = f->modified_ns;
        id.header_hash = hash_bytes(id.header_hash + i, f->base, f->header_bytes) >> 1; /* readers show 63 bits */
    }
    return id;
}

uint64_t packed_identity(const struct weights *w)
{
    const struct identity id = identity_of(w);
    return hash_bytes(0, &id, sizeof id);
}

static bool name_copy(char name[GGUF_MAX_NAME + 1], const char *layout, const char *tensor)
{
    return snprintf(name, GGUF_MAX_NAME + 1, "%s/%s", layout, tensor) <= GGUF_MAX_NAME;
}

/* A sum as the file keeps it: copies that lie under each other's names are damage, too. */
static uint64_t sealed(uint64_t sum, const char *name)
{
    return sum ^ hash_bytes(0, name, strlen(name));
}

/* ---- reading ---- */

static int check_sums(const struct weights *packed, struct lutra_error *err)
{
    const struct gguf_kv *kv;
    TRY(weights_get_array(packed, KEY_SUMS, GGUF_U64, &kv, err));
    if (packed->n_file == 1 && kv->n == packed->n_tensor) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '" KEY_SUMS "' has %llu entries for %zu tensors in %zu files",
        weights_path(packed), (unsigned long long)kv->n, packed->n_tensor, packed->n_file);
}

/* Of a file whose sums have been checked; t is one of its tensors. */
static uint64_t sum_of(const struct weights *packed, const struct tensor *t)
{
    const struct gguf_kv *kv = weights_kv_find(packed, KEY_SUMS);
    uint64_t sum;
    memcpy(&sum, (const uint8_t *)kv->data + (size_t)(t - packed->file[0].tensor) * sizeof sum, sizeof sum);
    return sealed(sum, t->name);
}

static int check_identity(const struct weights *packed, const struct weights *model, struct lutra_error *err)
{
    struct identity is = identity_of(model), was;
    const char *path = weights_path(packed);
    TRY(weights_get_u64(packed, "lutra.packed.source.bytes", &was.bytes, err));
    TRY(weights_get_u64(packed, "lutra.packed.source.modified_ns", &was.modified_ns, err));
    TRY(weights_get_u64(packed, "lutra.packed.source.header_hash", &was.header_hash, err));
    if (was.bytes != is.bytes)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: packed from %llu bytes, the model has %llu", path,
            (unsigned long long)was.bytes, (unsigned long long)is.bytes);
    if (was.header_hash != is.header_hash)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: packed from a model with another header", path);
    if (was.modified_ns != is.modified_ns)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: the model was modified or copied since it was packed", path);
    return 0;
}

static int check_kind(const struct weights *packed, struct lutra_error *err)
{
    struct gguf_str kind = {"", 0};
    uint32_t version;
    TRY(weights_opt_str(packed, "general.architecture", &kind, err));
    if (kind.n != strlen(KIND) || memcmp(kind.s, KIND, kind.n) != 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: not a packed copy", weights_path(packed));
    TRY(weights_get_u32(packed, "lutra.packed.version", &version, err));
    if (version != PACKED_VERSION)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: a packed copy of version %u, not %u", weights_path(packed),
            (unsigned)version, (unsigned)PACKED_VERSION);
    return check_sums(packed, err);
}

int packed_check(const char *path, struct lutra_error *err)
{
    struct weights *packed;
    const struct tensor *bad = NULL;
    size_t n_bad = 0;
    TRY(weights_open(&packed, path, err));
    int rc = check_kind(packed, err);
    for (size_t i = 0; rc == 0 && i < packed->n_tensor; i++) {
        const struct tensor *t = packed->tensor[i];
        if (hash_parts(t->data, t->bytes) == sum_of(packed, t)) continue;
        if (n_bad++ == 0) bad = t;
    }
    if (n_bad)
        rc = lutra_fail(err, LUTRA_E_FORMAT, "%s: %zu of %zu tensors are damaged, the first is '%s'", path, n_bad,
            packed->n_tensor, show_name(bad->name).s);
    weights_close(&packed);
    return rc;
}

int packed_open(struct weights **out, const char *path, const struct weights *model, struct lutra_error *err)
{
    TRY(weights_open(out, path, err));
    int rc = check_kind(*out, err);
    if (rc == 0) rc = check_identity(*out, model, err);
    if (rc < 0) {
        weights_close(out);
        return rc;
    }
    /* Read from disk in huge pages, too; a kernel without them declines. */
    for (size_t i = 0; i < (*out)->n_file; i++)
        madvise((void *)(uintptr_t)(*out)->file[i].base, (*out)->file[i].bytes, MADV_HUGEPAGE);
    return 0;
}

const void *packed_find(const struct weights *packed, const char *layout, const char *name, size_t bytes, uint64_t *sum)
{
    char both[GGUF_MAX_NAME + 1];
    const struct tensor *t = name_copy(both, layout, name) ? weights_tensor_find(packed, both) : NULL;
    if (!t || t->bytes != bytes || (uintptr_t)t->data % PACKED_ALIGN != 0) return NULL;
    *sum = sum_of(packed, t);
    return t->data;
}

static bool zeros(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p == 0) p++;
    return p >= end;
}

bool packed_gaps_clean(const struct weights *packed)
{
    const struct model_file *f = &packed->file[0];
    const uint8_t *at = f->base + f->header_bytes;
    for (size_t i = 0; i < f->n_tensor; i++) { /* in file order, which is that of their places */
        const struct tensor *t = &f->tensor[i];
        if (!zeros(at, t->data)) return false;
        at = (const uint8_t *)t->data + t->bytes;
    }
    return zeros(at, f->base + f->bytes);
}

/* Bytes of start .. start + bytes - 1 that this process has mapped in huge pages of the page cache; smaps lists address
 * ranges, each followed by its counters. */
static size_t huge_bytes(uintptr_t start, size_t bytes)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    size_t sum = 0;
    bool inside = false;
    while (f && fgets(line, sizeof line, f)) {
        uintptr_t first, last;
        size_t kib;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2)
            inside = first < start + bytes && last > start;
        else if (inside && sscanf(line, "FilePmdMapped: %zu kB", &kib) == 1)
            sum += kib << 10;
    }
    if (f) fclose(f);
    return sum;
}

bool packed_in_huge_pages(const struct weights *packed)
{
    enum { PLACES = 8 };
    const struct model_file *f = &packed->file[0];
    volatile uint8_t sink = 0;
    size_t whole = f->bytes / HUGE_PAGE_BYTES;
    if (whole < PLACES) return true; /* small: it does not matter */
    for (size_t i = 0; i < PLACES; i++) sink ^= f->base[whole * i / PLACES * HUGE_PAGE_BYTES];
    return huge_bytes((uintptr_t)f->base, f->bytes) >= (size_t)PLACES / 2 * HUGE_PAGE_BYTES;
}

/* ---- writing ---- */

/* sum: room for n_copy. */
static int declare(struct gguf_writer *w, const struct weights *model, const char *writer,
    const struct packed_copy *copy, size_t n_copy, uint64_t *sum, struct lutra_error *err)
{
    const struct identity id = identity_of(model);
    char name[GGUF_MAX_NAME + 1];
    gguf_writer_align(w, PACKED_ALIGN);
    gguf_writer_put_str(w, "general.architecture", KIND);
    gguf_writer_put_u32(w, "lutra.packed.version", PACKED_VERSION);
    gguf_writer_put_str(w, "lutra.packed.writer", writer);
    gguf_writer_put_scalar(w, "lutra.packed.source.bytes", GGUF_U64, &id.bytes);
    gguf_writer_put_scalar(w, "lutra.packed.source.modified_ns", GGUF_U64, &id.modified_ns);
    gguf_writer_put_scalar(w, "lutra.packed.source.header_hash", GGUF_U64, &id.header_hash);
    for (size_t i = 0; i < n_copy; i++) {
        const int64_t ne[1] = {(int64_t)(copy[i].bytes / 4)}; /* bytes that are of no type: so many words */
        if (!name_copy(name, copy[i].layout, copy[i].name))
            return lutra_fail(
                err, LUTRA_E_ARGUMENT, "the name of tensor '%s' is too long to be packed", show_name(copy[i].name).s);
        gguf_writer_add_tensor(w, name, QUANT_F32, 1, ne);
        sum[i] = sealed(hash_parts(copy[i].data, copy[i].bytes), name);
    }
    gguf_writer_put_array(w, KEY_SUMS, GGUF_U64, sum, n_copy);
    return 0;
}

static int write_copies(struct gguf_writer *w, const struct packed_copy *copy, size_t n_copy,
    int (*progress)(void *user, uint64_t done, uint64_t total), void *user, struct lutra_error *err)
{
    uint64_t done = 0, total = 0;
    for (size_t i = 0; i < n_copy; i++) total += copy[i].bytes;
    for (size_t i = 0; i < n_copy; i++) {
        for (size_t at = 0; at < copy[i].bytes;) {
            size_t n = copy[i].bytes - at < WRITE_BYTES ? copy[i].bytes - at : WRITE_BYTES;
            if (progress && progress(user, done, total))
                return lutra_fail(err, LUTRA_E_CANCELLED, "packing was cancelled");
            if (gguf_writer_data(w, (const uint8_t *)copy[i].data + at, n) < 0) return 0; /* commit tells */
            at += n;
            done += n;
        }
    }
    if (progress) progress(user, total, total);
    return 0;
}

int packed_write(const char *path, const struct weights *model, const char *writer, const struct packed_copy *copy,
    size_t n_copy, int (*progress)(void *user, uint64_t done, uint64_t total), void *user, struct lutra_error *err)
{
    struct gguf_writer *w;
    uint64_t *sum = calloc(n_copy + 1, sizeof *sum);
    if (!sum) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for its sums", path);
    int rc = gguf_writer_open(&w, path, err);
    if (rc == 0) rc = declare(w, model, writer, copy, n_copy, sum, err);
    free(sum);
    if (rc == 0) rc = write_copies(w, copy, n_copy, progress, user, err);
    if (rc < 0) {
        gguf_writer_abort(&w);
        return rc;
    }
    return gguf_writer_commit(&w, err);
}

bool packed_view_of(const struct weight *w, struct packed_view *out)
{
    for (const struct held *h = w->held; h < w->held + WEIGHT_HOLDERS; h++) {
        const struct device_extras *x = h->device ? h->device->extras : NULL;
        if (x && x->packed && x->packed(h->device, w, out)) return true;
    }
    return false;
}

/* ---- which files have been compared ---- */

static bool known_of(const struct weights *packed, const char *machine, char *path, size_t n, uint64_t *key)
{
    struct stat st;
    char who[512];
    if (stat(weights_path(packed), &st) < 0) return false;
    int k = snprintf(who, sizeof who, "%lld %lld.%09ld %lld.%09ld %llu %llu %s", (long long)st.st_size,
        (long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec, (long)st.st_ctim.tv_nsec,
        (unsigned long long)st.st_ino, (unsigned long long)st.st_dev, machine);
    *key = hash_bytes(1, who, k < (int)sizeof who ? (size_t)k : sizeof who - 1);
    return snprintf(path, n, "%s.checked", weights_path(packed)) < (int)n;
}

bool packed_is_good(const struct weights *packed, const char *machine)
{
    char path[4096];
    uint64_t key;
    double one;
    return known_of(packed, machine, path, sizeof path, &key) && figures_read(path, key, &one, 1);
}

int packed_note_good(const struct weights *packed, const char *machine, struct lutra_error *err)
{
    char path[4096];
    uint64_t key;
    const double one = 1;
    return known_of(packed, machine, path, sizeof path, &key) ? figures_write(path, key, &one, 1, err) : 0;
}
