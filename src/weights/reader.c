/* SPDX-License-Identifier: MIT */
#include "weights/reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/thread.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

enum { STRIDE = 4 << 20 };

struct weights_reader {
    pthread_t thread;
    struct reader_item *item;
    int n;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t told;
    int n_read, failed; /* failed: errno of item n_read */
    bool stop;
};

/* What an older kernel can do: a byte of each page through a pipe, whose write fails where the page cannot be read. */
static int touch(const char *from, size_t n, size_t page)
{
    int fd[2], failed = 0;
    char byte;
    if (pipe(fd) < 0) return errno;
    for (size_t at = 0; at < n && !failed; at += page)
        if (write(fd[1], from + at, 1) != 1 || read(fd[0], &byte, 1) != 1) failed = errno ? errno : EIO;
    close(fd[0]), close(fd[1]);
    return failed;
}

/* 0, or errno. */
static int read_pages(uintptr_t from, size_t n, size_t page)
{
    if (madvise((void *)from, n, MADV_POPULATE_READ) == 0) return 0;
    return errno == EINVAL ? touch((const char *)from, n, page) : errno;
}

static bool is_stopped(struct weights_reader *r)
{
    pthread_mutex_lock(&r->lock);
    bool stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    return stop;
}

static int read_item(struct weights_reader *r, const struct reader_item *item)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)item->data & ~(uintptr_t)(page - 1), end = (uintptr_t)item->data + item->bytes;
    int failed = 0;
    if (item->bytes) madvise((void *)at, end - at, MADV_WILLNEED);
    for (; at < end && !failed && !is_stopped(r); at += STRIDE) {
        size_t n = end - at < STRIDE ? end - at : STRIDE;
        failed = read_pages(at, (n + page - 1) & ~(page - 1), page);
    }
    return failed;
}

static void *read_all(void *arg)
{
    struct weights_reader *r = arg;
    for (int i = 0; i < r->n && !r->failed && !is_stopped(r); i++) {
        int failed = read_item(r, &r->item[i]);
        pthread_mutex_lock(&r->lock);
        r->failed = failed;
        if (!failed && !r->stop) r->n_read = i + 1;
        pthread_cond_broadcast(&r->told);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

int weights_reader_open(struct weights_reader **out, const struct reader_item *item, int n, struct lutra_error *err)
{
    struct weights_reader *r = *out = calloc(1, sizeof *r);
    if (r) r->item = calloc((size_t)n + 1, sizeof *r->item);
    if (r && r->item) {
        memcpy(r->item, item, (size_t)n * sizeof *item);
        r->n = n;
        pthread_mutex_init(&r->lock, NULL);
        pthread_cond_init(&r->told, NULL);
        if (thread_start(&r->thread, read_all, r) == 0) return 0;
        pthread_mutex_destroy(&r->lock);
        pthread_cond_destroy(&r->told);
    }
    if (r) free(r->item);
    free(r);
    *out = NULL;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory or no thread to read weights");
}

int weights_reader_wait(struct weights_reader *r, const void *data, struct lutra_error *err)
{
    int i = 0;
    while (i < r->n && r->item[i].data != data) i++;
    if (i == r->n) return 0;
    pthread_mutex_lock(&r->lock);
    while (r->n_read <= i && !r->failed) pthread_cond_wait(&r->told, &r->lock);
    const int n_read = r->n_read, failed = r->failed;
    pthread_mutex_unlock(&r->lock);
    if (n_read > i) return 0;
    return lutra_fail(err, LUTRA_E_IO, "tensor '%s' cannot be read: %s", r->item[n_read].name,
        failed == EFAULT ? "the file has become shorter, or its disk fails" : strerror(failed));
}

void weights_reader_close(struct weights_reader **reader)
{
    struct weights_reader *r = *reader;
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->told);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->told);
    free(r->item);
    free(r);
    *reader = NULL;
}
