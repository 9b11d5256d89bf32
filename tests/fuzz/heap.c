/* SPDX-License-Identifier: MIT */
#include "fuzz/heap.h"

#include <malloc.h>
#include <string.h>

static size_t now, peak;

/* The names that --wrap gives to the real functions and expects for their stand-ins. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
char *__wrap_strdup(const char *s);

static void *count(void *p)
{
    if (p) now += malloc_usable_size(p);
    if (now > peak) peak = now;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return count(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return count(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
    size_t before = p ? malloc_usable_size(p) : 0;
    void *grown = __real_realloc(p, n);
    if (!grown) return NULL;
    if (now + malloc_usable_size(grown) > peak) peak = now + malloc_usable_size(grown); /* both exist while copying */
    now -= before;
    return count(grown);
}

void __wrap_free(void *p)
{
    if (p) now -= malloc_usable_size(p);
    __real_free(p);
}

char *__wrap_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = __wrap_malloc(n);
    return copy ? memcpy(copy, s, n) : NULL;
}

size_t heap_now(void)
{
    return now;
}

size_t heap_peak(void)
{
    return peak;
}

void heap_reset_peak(void)
{
    peak = now;
}
