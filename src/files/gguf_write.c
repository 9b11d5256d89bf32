/* SPDX-License-Identifier: MIT */
#include "files/gguf_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "base/temporary.h"
#include "files/names.h"
#include "quant/quant.h"

enum { PIECE_BYTES = 8 << 20, MAX_ALIGNMENT = 4096, FIXED_BYTES = 24 };

/* A growing run of bytes. */
struct bytes {
    uint8_t *p;
    size_t n, room;
};

struct planned {
    char *name;
    size_t bytes;
};

struct gguf_writer {
    int status;              /* the first failure */
    struct lutra_error what; /* and its description */
    int fd;
    char *path, *temporary;
    uint8_t *piece; /* [PIECE_BYTES] the file's next bytes, of which n_piece are there */
    size_t n_piece;
    uint64_t alignment;
    struct bytes kv, infos; /* serialized, without the fixed header */
    uint64_t n_kv;
    char **key; /* [n_kv], to refuse duplicates */
    size_t key_room;
    struct planned *tensor; /* [n_tensor] */
    size_t n_tensor, tensor_room;
    uint64_t offset; /* where the next declared tensor's data will start */
    bool header_done;
    size_t current, current_bytes; /* tensor being written, and how much of it is */
};

static const uint8_t zeros[MAX_ALIGNMENT];

static uint64_t align_up(const struct gguf_writer *w, uint64_t n)
{
    return (n + w->alignment - 1) / w->alignment * w->alignment;
}

/* Notes the failure that sticks. */
#define STICK(w, code, ...) ((w)->status = lutra_fail(&(w)->what, code, __VA_ARGS__))

static int no_memory(struct gguf_writer *w)
{
    return STICK(w, LUTRA_E_NO_MEMORY, "%s: no memory to write the header", w->path);
}

/* ---- the header in memory ---- */

static int append(struct gguf_writer *w, struct bytes *b, const void *p, size_t n)
{
    if (w->status) return w->status;
    if (b->room - b->n < n) {
        size_t room = b->room + b->room / 2 + n + 256;
        uint8_t *grown = realloc(b->p, room);
        if (!grown) return no_memory(w);
        b->p = grown;
        b->room = room;
    }
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
    return 0;
}

static int append_u32(struct gguf_writer *w, struct bytes *b, uint32_t v)
{
    return append(w, b, &v, sizeof v);
}

static int append_u64(struct gguf_writer *w, struct bytes *b, uint64_t v)
{
    return append(w, b, &v, sizeof v);
}

static int append_str(struct gguf_writer *w, struct bytes *b, const char *s, size_t n)
{
    append_u64(w, b, n);
    return append(w, b, s, n);
}

/* Starts a key: its name and type.  Everything before the data is still open. */
static int put_key(struct gguf_writer *w, const char *key, uint32_t kind)
{
    if (w->status) return w->status;
    size_t n = strlen(key);
    if (w->header_done) return STICK(w, LUTRA_E_ARGUMENT, "%s: key '%s' comes after tensor data", w->path, key);
    if (n == 0 || n > GGUF_MAX_KEY) return STICK(w, LUTRA_E_ARGUMENT, "%s: a key of %zu bytes", w->path, n);
    for (uint64_t i = 0; i < w->n_kv; i++)
        if (strcmp(w->key[i], key) == 0)
            return STICK(w, LUTRA_E_ARGUMENT, "%s: key '%s' is put twice", w->path, show_name(key).s);
    if (w->n_kv == w->key_room) {
        size_t room = w->key_room * 2 + 32;
        char **grown = realloc(w->key, room * sizeof *grown);
        if (!grown) return no_memory(w);
        w->key = grown;
        w->key_room = room;
    }
    w->key[w->n_kv] = strdup(key);
    if (!w->key[w->n_kv]) return no_memory(w);
    w->n_kv++;
    append_str(w, &w->kv, key, n);
    return append_u32(w, &w->kv, kind);
}

int gguf_writer_put_scalar(struct gguf_writer *w, const char *key, enum gguf_kind kind, const void *data)
{
    size_t n = gguf_kind_bytes(kind);
    if (w->status) return w->status;
    if (n == 0) return STICK(w, LUTRA_E_ARGUMENT, "%s: key '%s': type %d is no scalar", w->path, key, (int)kind);
    TRY(put_key(w, key, kind));
    return append(w, &w->kv, data, n);
}

int gguf_writer_put_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    return gguf_writer_put_scalar(w, key, GGUF_U32, &value);
}

int gguf_writer_put_f32(struct gguf_writer *w, const char *key, float value)
{
    return gguf_writer_put_scalar(w, key, GGUF_F32, &value);
}

int gguf_writer_put_bool(struct gguf_writer *w, const char *key, bool value)
{
    uint8_t byte = value;
    return gguf_writer_put_scalar(w, key, GGUF_BOOL, &byte);
}

static int put_string(struct gguf_writer *w, const char *key, struct gguf_str value)
{
    TRY(put_key(w, key, GGUF_STRING));
    return append_str(w, &w->kv, value.s, value.n);
}

int gguf_writer_put_str(struct gguf_writer *w, const char *key, const char *value)
{
    return put_string(w, key, (struct gguf_str){value, strlen(value)});
}

static int put_array_head(struct gguf_writer *w, const char *key, enum gguf_kind elem, uint64_t n)
{
    TRY(put_key(w, key, GGUF_ARRAY));
    append_u32(w, &w->kv, elem);
    return append_u64(w, &w->kv, n);
}

int gguf_writer_put_strs(struct gguf_writer *w, const char *key, const struct gguf_str *value, uint64_t n)
{
    TRY(put_array_head(w, key, GGUF_STRING, n));
    for (uint64_t i = 0; i < n; i++) TRY(append_str(w, &w->kv, value[i].s, value[i].n));
    return 0;
}

int gguf_writer_put_array(struct gguf_writer *w, const char *key, enum gguf_kind elem, const void *data, uint64_t n)
{
    size_t bytes;
    if (w->status) return w->status;
    if (gguf_kind_bytes(elem) == 0 || LUTRA_MUL_OVERFLOWS(n, gguf_kind_bytes(elem), &bytes))
        return STICK(w, LUTRA_E_ARGUMENT, "%s: key '%s': no array of %llu x type %d", w->path, key,
            (unsigned long long)n, (int)elem);
    TRY(put_array_head(w, key, elem, n));
    return append(w, &w->kv, data, bytes);
}

int gguf_writer_copy(struct gguf_writer *w, const struct gguf_kv *kv)
{
    if (kv->kind == GGUF_STRING) return put_string(w, kv->key, gguf_kv_str(kv, 0));
    if (kv->kind != GGUF_ARRAY) return gguf_writer_put_scalar(w, kv->key, kv->kind, kv->data);
    if (kv->elem != GGUF_STRING) return gguf_writer_put_array(w, kv->key, kv->elem, kv->data, kv->n);
    TRY(put_array_head(w, kv->key, GGUF_STRING, kv->n));
    for (uint64_t i = 0; i < kv->n; i++) {
        struct gguf_str s = gguf_kv_str(kv, i);
        TRY(append_str(w, &w->kv, s.s, s.n));
    }
    return 0;
}

/* ---- tensors ---- */

int gguf_writer_align(struct gguf_writer *w, uint32_t alignment)
{
    if (w->status) return w->status;
    if (w->n_tensor || alignment < 8 || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)))
        return STICK(w, LUTRA_E_ARGUMENT, "%s: alignment %u", w->path, (unsigned)alignment);
    w->alignment = alignment;
    return gguf_writer_put_u32(w, "general.alignment", alignment);
}

static int check_tensor(
    struct gguf_writer *w, const char *name, enum quant_type type, int n_dim, const int64_t *ne, size_t *bytes)
{
    size_t n = strlen(name);
    if (w->header_done) return STICK(w, LUTRA_E_ARGUMENT, "%s: tensor '%s' comes after data", w->path, name);
    if (n == 0 || n > GGUF_MAX_NAME) return STICK(w, LUTRA_E_ARGUMENT, "%s: a tensor name of %zu bytes", w->path, n);
    if (n_dim < 1 || n_dim > 4)
        return STICK(w, LUTRA_E_ARGUMENT, "%s: tensor '%s' has %d dimensions", w->path, name, n_dim);
    if (!quant_in_gguf(type) || quant_row_bytes(type, ne[0], bytes) < 0)
        return STICK(w, LUTRA_E_ARGUMENT, "%s: tensor '%s': no rows of %lld in type %s", w->path, name,
            (long long)ne[0], quant_type_name(type) ? quant_type_name(type) : "?");
    for (int i = 1; i < n_dim; i++)
        if (ne[i] <= 0 || LUTRA_MUL_OVERFLOWS(*bytes, (size_t)ne[i], bytes))
            return STICK(
                w, LUTRA_E_ARGUMENT, "%s: tensor '%s': dimension %d is %lld", w->path, name, i, (long long)ne[i]);
    for (size_t i = 0; i < w->n_tensor; i++)
        if (strcmp(w->tensor[i].name, name) == 0)
            return STICK(w, LUTRA_E_ARGUMENT, "%s: tensor '%s' is added twice", w->path, name);
    return 0;
}

int gguf_writer_add_tensor(struct gguf_writer *w, const char *name, enum quant_type type, int n_dim, const int64_t *ne)
{
    size_t bytes;
    if (w->status) return w->status;
    TRY(check_tensor(w, name, type, n_dim, ne, &bytes));
    if (w->n_tensor == w->tensor_room) {
        size_t room = w->tensor_room * 2 + 64;
        struct planned *grown = realloc(w->tensor, room * sizeof *grown);
        if (!grown) return no_memory(w);
        w->tensor = grown;
        w->tensor_room = room;
    }
    char *copy = strdup(name);
    if (!copy) return no_memory(w);
    w->tensor[w->n_tensor++] = (struct planned){copy, bytes};
    append_str(w, &w->infos, name, strlen(name));
    append_u32(w, &w->infos, (uint32_t)n_dim);
    for (int i = 0; i < n_dim; i++) append_u64(w, &w->infos, (uint64_t)ne[i]);
    append_u32(w, &w->infos, (uint32_t)type);
    TRY(append_u64(w, &w->infos, w->offset));
    if (LUTRA_ADD_OVERFLOWS(w->offset, bytes, &w->offset) || w->offset > INT64_MAX / 2)
        return STICK(w, LUTRA_E_ARGUMENT, "%s: more than 2^62 bytes of tensors", w->path);
    w->offset = align_up(w, w->offset);
    return 0;
}

static uint64_t header_bytes(const struct gguf_writer *w)
{
    return align_up(w, FIXED_BYTES + w->kv.n + w->infos.n);
}

uint64_t gguf_writer_file_bytes(const struct gguf_writer *w)
{
    return header_bytes(w) + w->offset;
}

/* ---- the file ---- */

static int write_piece(struct gguf_writer *w)
{
    for (size_t at = 0; at < w->n_piece && w->status == 0;) {
        ssize_t done = write(w->fd, w->piece + at, w->n_piece - at);
        if (done > 0)
            at += (size_t)done;
        else if (done == 0 || errno != EINTR)
            STICK(w, LUTRA_E_IO, "%s: cannot write: %s", w->temporary, done == 0 ? "short write" : strerror(errno));
    }
    w->n_piece = 0;
    return w->status;
}

static int write_all(struct gguf_writer *w, const void *p, size_t n)
{
    const uint8_t *at = p;
    while (n > 0 && w->status == 0) {
        size_t part = n < PIECE_BYTES - w->n_piece ? n : PIECE_BYTES - w->n_piece;
        memcpy(w->piece + w->n_piece, at, part);
        at += part;
        n -= part;
        w->n_piece += part;
        if (w->n_piece == PIECE_BYTES) write_piece(w);
    }
    return w->status;
}

/* Magic, version and counts. */
static void fill_fixed(const struct gguf_writer *w, uint8_t fixed[FIXED_BYTES])
{
    uint32_t version = GGUF_VERSION;
    uint64_t n_tensor = w->n_tensor;
    memcpy(fixed, "GGUF", 4);
    memcpy(fixed + 4, &version, 4);
    memcpy(fixed + 8, &n_tensor, 8);
    memcpy(fixed + 16, &w->n_kv, 8);
}

static int write_header(struct gguf_writer *w)
{
    uint8_t fixed[FIXED_BYTES];
    uint64_t total = gguf_writer_file_bytes(w);
    fill_fixed(w, fixed);
    if (w->header_done || w->status) return w->status;
    w->header_done = true;
    /* Reserving the space tells of a full disk now; not every file system can. */
    if (fallocate(w->fd, 0, 0, (off_t)total) != 0 && (errno == ENOSPC || errno == EFBIG || errno == EDQUOT))
        return STICK(
            w, LUTRA_E_IO, "%s: no room for %llu bytes: %s", w->temporary, (unsigned long long)total, strerror(errno));
    write_all(w, fixed, sizeof fixed);
    write_all(w, w->kv.p, w->kv.n);
    write_all(w, w->infos.p, w->infos.n);
    return write_all(w, zeros, header_bytes(w) - FIXED_BYTES - w->kv.n - w->infos.n);
}

int gguf_writer_data(struct gguf_writer *w, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    TRY(write_header(w));
    while (n > 0) {
        if (w->current == w->n_tensor)
            return STICK(w, LUTRA_E_ARGUMENT, "%s: %zu bytes more data than declared", w->path, n);
        size_t size = w->tensor[w->current].bytes, want = size - w->current_bytes, part = n < want ? n : want;
        TRY(write_all(w, at, part));
        at += part;
        n -= part;
        w->current_bytes += part;
        if (w->current_bytes == size) {
            TRY(write_all(w, zeros, align_up(w, size) - size));
            w->current++;
            w->current_bytes = 0;
        }
    }
    return w->status;
}

static int create_temporary(struct gguf_writer *w)
{
    struct stat there;
    if (stat(w->path, &there) == 0 && !S_ISREG(there.st_mode)) /* a device or folder would be replaced, too */
        return STICK(w, LUTRA_E_ARGUMENT, "%s: not a regular file", w->path);
    w->fd = temporary_create(w->path, &w->temporary);
    if (w->fd >= 0) return 0;
    if (!w->temporary) return no_memory(w);
    return STICK(w, LUTRA_E_IO, "%s: cannot create: %s", w->temporary, strerror(errno));
}

int gguf_writer_open(struct gguf_writer **out, const char *path, struct lutra_error *err)
{
    *out = NULL;
    struct gguf_writer *w = calloc(1, sizeof *w);
    if (!w) return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory to write a model");
    w->fd = -1;
    w->alignment = GGUF_ALIGNMENT;
    w->path = strdup(path);
    w->piece = malloc(PIECE_BYTES);
    int rc = w->path && w->piece ? create_temporary(w)
                                 : lutra_fail(&w->what, LUTRA_E_NO_MEMORY, "no memory to write a model");
    if (rc < 0) {
        if (err) *err = w->what;
        gguf_writer_abort(&w);
        return rc;
    }
    *out = w;
    return 0;
}

int gguf_writer_open_header(struct gguf_writer **out, const char *label, struct lutra_error *err)
{
    struct gguf_writer *w = calloc(1, sizeof *w);
    *out = w;
    if (w) w->path = strdup(label);
    if (w && w->path) {
        w->fd = -1;
        w->alignment = GGUF_ALIGNMENT;
        return 0;
    }
    free(w);
    *out = NULL;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for its metadata", label);
}

int gguf_writer_header(struct gguf_writer **writer, uint8_t **bytes, size_t *n, struct lutra_error *err)
{
    struct gguf_writer *w = *writer;
    *bytes = w->status ? NULL : malloc(FIXED_BYTES + w->kv.n);
    if (*bytes) {
        *n = FIXED_BYTES + w->kv.n;
        fill_fixed(w, *bytes);
        memcpy(*bytes + FIXED_BYTES, w->kv.p, w->kv.n);
    } else if (!w->status) {
        no_memory(w);
    }
    int rc = w->status;
    if (rc < 0 && err) *err = w->what;
    gguf_writer_abort(writer);
    return rc;
}

static int finish(struct gguf_writer *w)
{
    TRY(write_header(w));
    if (w->current != w->n_tensor)
        return STICK(
            w, LUTRA_E_ARGUMENT, "%s: the data of tensor '%s' is not complete", w->path, w->tensor[w->current].name);
    TRY(write_piece(w));
    if (fsync(w->fd) != 0) return STICK(w, LUTRA_E_IO, "%s: cannot sync: %s", w->temporary, strerror(errno));
    /* Renamed while its lock is held: closed first, it could be taken for one that a dead writer left. */
    if (rename(w->temporary, w->path) != 0)
        return STICK(w, LUTRA_E_IO, "%s: cannot rename to it: %s", w->path, strerror(errno));
    close(w->fd); /* all of it was synced */
    w->fd = -1;
    temporary_settle(w->path);
    return 0;
}

int gguf_writer_status(const struct gguf_writer *w)
{
    return w->status;
}

int gguf_writer_commit(struct gguf_writer **w, struct lutra_error *err)
{
    int rc = finish(*w);
    if (rc < 0 && err) *err = (*w)->what;
    gguf_writer_abort(w);
    return rc;
}

void gguf_writer_abort(struct gguf_writer **writer)
{
    struct gguf_writer *w = *writer;
    if (!w) return;
    if (w->fd >= 0) {
        unlink(w->temporary);
        close(w->fd);
    }
    for (uint64_t i = 0; i < w->n_kv; i++) free(w->key[i]);
    for (size_t i = 0; i < w->n_tensor; i++) free(w->tensor[i].name);
    free(w->key);
    free(w->tensor);
    free(w->piece);
    free(w->kv.p);
    free(w->infos.p);
    free(w->path);
    free(w->temporary);
    free(w);
    *writer = NULL;
}
