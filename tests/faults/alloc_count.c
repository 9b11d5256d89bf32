/* SPDX-License-Identifier: MIT */
#include "faults/alloc_count.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"
#include "lutra/status.h"

static atomic_long n_alloc, n_free, n_map, n_unmap, live_bytes, peak_bytes;
static atomic_long until_failure; /* allocations left up to the one that fails; 0 and below = none */
static bool armed;                /* a failure was asked for by alloc_fail_at */

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_memalign)(size_t, size_t);
static void (*real_free)(void *);
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);
static int (*real_munmap)(void *, size_t);

/* Start-up memory, never given back: the loader and a sanitizer's runtime allocate before the real functions can be
 * looked up or used. */
static _Alignas(16) unsigned char early[1 << 18];
static size_t early_used;
static bool started;

static void *take_early(size_t bytes)
{
    size_t at = early_used;
    if (bytes > sizeof early - 16 - at) return NULL;
    early_used = at + (bytes + 15) / 16 * 16;
    return early + at;
}

static bool is_early(const void *p)
{
    return (uintptr_t)p >= (uintptr_t)early && (uintptr_t)p < (uintptr_t)early + sizeof early;
}

static void find(const char *name, void *slot)
{
    void *function = dlsym(RTLD_NEXT, name);
    memcpy(slot, &function, sizeof function);
}

/* After the constructors of all shared libraries, before main: one thread. */
LUTRA_CONSTRUCTOR static void start(void)
{
    find("malloc", &real_malloc);
    find("calloc", &real_calloc);
    find("realloc", &real_realloc);
    find("memalign", &real_memalign);
    find("free", &real_free);
    find("mmap", &real_mmap);
    find("munmap", &real_munmap);
    started = true;
}

static bool must_fail(void)
{
    if (atomic_load(&until_failure) <= 0 || atomic_fetch_sub(&until_failure, 1) != 1) return false;
    errno = ENOMEM;
    return true;
}

static void *note_alloc(void *p)
{
    if (!p) return NULL;
    long live = atomic_fetch_add(&live_bytes, (long)malloc_usable_size(p)) + (long)malloc_usable_size(p);
    long peak = atomic_load(&peak_bytes);
    while (live > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, live)) {
    }
    return p;
}

static void note_free(void *p)
{
    if (p) atomic_fetch_sub(&live_bytes, (long)malloc_usable_size(p));
}

LUTRA_API void *malloc(size_t bytes)
{
    if (!started) return take_early(bytes);
    atomic_fetch_add(&n_alloc, 1);
    return must_fail() ? NULL : note_alloc(real_malloc(bytes));
}

LUTRA_API void *calloc(size_t n, size_t bytes)
{
    if (!started) return take_early(n * bytes);
    atomic_fetch_add(&n_alloc, 1);
    return must_fail() ? NULL : note_alloc(real_calloc(n, bytes));
}

LUTRA_API void *realloc(void *old, size_t bytes)
{
    if (!started || is_early(old)) {
        void *copy = malloc(bytes);
        size_t rest = old ? (size_t)(early + sizeof early - (unsigned char *)old) : 0;
        return copy && old ? memcpy(copy, old, bytes < rest ? bytes : rest) : copy;
    }
    atomic_fetch_add(&n_alloc, 1);
    if (must_fail()) return NULL;
    long old_bytes = old ? (long)malloc_usable_size(old) : 0;
    void *p = real_realloc(old, bytes);
    if (p || !bytes) atomic_fetch_sub(&live_bytes, old_bytes);
    return note_alloc(p);
}

LUTRA_API void *memalign(size_t align, size_t bytes)
{
    if (!started) return NULL;
    atomic_fetch_add(&n_alloc, 1);
    return must_fail() ? NULL : note_alloc(real_memalign(align, bytes));
}

LUTRA_API void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

LUTRA_API int posix_memalign(void **out, size_t align, size_t bytes)
{
    void *p = memalign(align, bytes);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}

LUTRA_API void free(void *p)
{
    if (!p || is_early(p)) return;
    atomic_fetch_add(&n_free, 1);
    note_free(p);
    real_free(p);
}

LUTRA_API void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    if (!started) return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
    atomic_fetch_add(&n_map, 1);
    return must_fail() ? MAP_FAILED : real_mmap(at, bytes, prot, flags, fd, offset);
}

LUTRA_API void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return mmap(at, bytes, prot, flags, fd, offset);
}

LUTRA_API int munmap(void *at, size_t bytes)
{
    if (!started) return (int)syscall(SYS_munmap, at, bytes);
    atomic_fetch_add(&n_unmap, 1);
    return real_munmap(at, bytes);
}

void alloc_count_begin(void)
{
    atomic_store(&n_alloc, 0);
    atomic_store(&n_free, 0);
    atomic_store(&n_map, 0);
    atomic_store(&n_unmap, 0);
    atomic_store(&live_bytes, 0);
    atomic_store(&peak_bytes, 0);
}

struct alloc_count alloc_count_end(void)
{
    return (struct alloc_count){
        .n_alloc = atomic_load(&n_alloc),
        .n_free = atomic_load(&n_free),
        .n_map = atomic_load(&n_map),
        .n_unmap = atomic_load(&n_unmap),
        .live_bytes = atomic_load(&live_bytes),
        .peak_bytes = atomic_load(&peak_bytes),
    };
}

void alloc_fail_at(long n)
{
    armed = n > 0;
    atomic_store(&until_failure, n);
}

bool alloc_fail_reached(void)
{
    return armed && atomic_load(&until_failure) <= 0;
}

long alloc_fail_each(int (*fn)(void *arg), void *arg, long max_runs)
{
    for (long n = 1; n <= max_runs; n++) {
        alloc_count_begin();
        alloc_fail_at(n);
        int rc = fn(arg);
        bool reached = alloc_fail_reached();
        alloc_fail_at(0);
        if (!reached) return rc == LUTRA_OK ? n - 1 : -n;
        if (rc != LUTRA_OK && rc != LUTRA_E_NO_MEMORY) return -n;
        if (rc != LUTRA_OK && alloc_count_end().live_bytes > 0) return -n;
    }
    return 0;
}
