/* SPDX-License-Identifier: MIT */
#include "quantize/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

struct record {
    uint64_t tensor, row, n, sum;
};

struct checkpoint {
    char *path;
    bool nameless;
    int fd, n_record;
    struct record *record; /* [n_record] */
    uint64_t *at;          /* [n_record] where its bytes are */
    uint64_t end;
};

static const char magic[] = "LUTRAca\1"; /* the last byte: another one whenever matrices are rounded otherwise */
enum { MAGIC = sizeof magic - 1, HEAD = MAGIC + sizeof(uint64_t) };

static bool read_at(int fd, void *out, size_t n, uint64_t at)
{
    for (ssize_t got; n > 0; n -= (size_t)got, at += (uint64_t)got, out = (char *)out + got) {
        got = pread(fd, out, n, (off_t)at);
        if (got < 0 && errno == EINTR)
            got = 0;
        else if (got <= 0)
            return false;
    }
    return true;
}

static bool write_at(int fd, const void *bytes, size_t n, uint64_t at)
{
    for (ssize_t put; n > 0; n -= (size_t)put, at += (uint64_t)put, bytes = (const char *)bytes + put) {
        put = pwrite(fd, bytes, n, (off_t)at);
        if (put < 0 && errno == EINTR)
            put = 0;
        else if (put <= 0)
            return false;
    }
    return true;
}

static int append(struct checkpoint *k, const struct record *r, struct lutra_error *err)
{
    size_t n = (size_t)k->n_record + 1;
    struct record *record = realloc(k->record, n * sizeof *record);
    if (record) k->record = record;
    uint64_t *at = realloc(k->at, n * sizeof *at);
    if (at) k->at = at;
    if (!record || !at) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", k->path);
    k->record[k->n_record] = *r;
    k->at[k->n_record++] = k->end + sizeof *r;
    k->end += sizeof *r + r->n;
    return 0;
}

/* The whole records; what follows them goes. */
static int read_records(struct checkpoint *k, uint64_t file_bytes, struct lutra_error *err)
{
    struct record r;
    k->end = HEAD;
    while (file_bytes - k->end > sizeof r && read_at(k->fd, &r, sizeof r, k->end) &&
           r.n <= file_bytes - k->end - sizeof r) {
        void *bytes = malloc((size_t)r.n + 1);
        if (!bytes) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", k->path);
        bool whole = read_at(k->fd, bytes, (size_t)r.n, k->end + sizeof r) && hash_parts(bytes, (size_t)r.n) == r.sum;
        free(bytes);
        if (!whole) break;
        TRY(append(k, &r, err));
    }
    if (ftruncate(k->fd, (off_t)k->end) < 0) return lutra_fail(err, LUTRA_E_IO, "%s: %s", k->path, strerror(errno));
    return 0;
}

static int open_file(struct checkpoint *k, uint64_t key, struct lutra_error *err)
{
    struct stat st;
    char head[HEAD], found[HEAD];
    memcpy(head, magic, MAGIC);
    memcpy(head + MAGIC, &key, sizeof key);
    k->fd = open(k->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (k->fd < 0 || fstat(k->fd, &st) < 0) return lutra_fail(err, LUTRA_E_IO, "%s: %s", k->path, strerror(errno));
    if (flock(k->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: another process writes it", k->path);
    if (st.st_size < HEAD) {
        if (!write_at(k->fd, head, HEAD, 0)) return lutra_fail(err, LUTRA_E_IO, "%s: %s", k->path, strerror(errno));
        st.st_size = HEAD;
    }
    if (!read_at(k->fd, found, HEAD, 0) || memcmp(head, found, HEAD) != 0)
        return lutra_fail(err, LUTRA_E_ARGUMENT,
            "%s: kept by a run with another model, text, types or version; remove it to begin anew", k->path);
    return read_records(k, (uint64_t)st.st_size, err);
}

/* It goes with its descriptor. */
static int open_nameless(struct checkpoint *k, struct lutra_error *err)
{
    k->fd = mkstemp(k->path);
    if (k->fd < 0) return lutra_fail(err, LUTRA_E_IO, "%s: %s", k->path, strerror(errno));
    fcntl(k->fd, F_SETFD, FD_CLOEXEC);
    unlink(k->path);
    return 0;
}

int checkpoint_open(struct checkpoint **out, const char *model, const uint64_t *key, struct lutra_error *err)
{
    static const char suffix[] = ".calibrated", random[] = "-XXXXXX";
    struct checkpoint *k = *out = calloc(1, sizeof *k);
    size_t room = strlen(model) + sizeof suffix + sizeof random;
    if (k) *k = (struct checkpoint){.fd = -1, .nameless = !key, .path = malloc(room)};
    int rc = k && k->path ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", model);
    if (rc == 0) {
        snprintf(k->path, room, "%s%s%s", model, suffix, key ? "" : random);
        rc = key ? open_file(k, *key, err) : open_nameless(k, err);
    }
    if (rc < 0) checkpoint_close(out, false);
    return rc;
}

void checkpoint_close(struct checkpoint **checkpoint, bool remove)
{
    struct checkpoint *k = *checkpoint;
    if (!k) return;
    if (remove && !k->nameless) unlink(k->path);
    if (k->fd >= 0) close(k->fd);
    free(k->record);
    free(k->at);
    free(k->path);
    free(k);
    *checkpoint = NULL;
}

int checkpoint_count(const struct checkpoint *k)
{
    return k->n_record;
}

static int find(const struct checkpoint *k, uint64_t tensor, uint64_t row)
{
    for (int i = 0; i < k->n_record; i++)
        if (k->record[i].tensor == tensor && k->record[i].row == row) return i;
    return -1;
}

bool checkpoint_has(const struct checkpoint *k, uint64_t tensor, uint64_t row)
{
    return find(k, tensor, row) >= 0;
}

bool checkpoint_read(const struct checkpoint *k, uint64_t tensor, uint64_t row, void *bytes, size_t n)
{
    int i = find(k, tensor, row);
    return i >= 0 && k->record[i].n == n && read_at(k->fd, bytes, n, k->at[i]);
}

int checkpoint_add(
    struct checkpoint *k, uint64_t tensor, uint64_t row, const void *bytes, size_t n, struct lutra_error *err)
{
    struct record r = {tensor, row, n, hash_parts(bytes, n)};
    if (!write_at(k->fd, &r, sizeof r, k->end) || !write_at(k->fd, bytes, n, k->end + sizeof r))
        return lutra_fail(err, LUTRA_E_IO, "%s: %s", k->path, strerror(errno));
    return append(k, &r, err);
}
