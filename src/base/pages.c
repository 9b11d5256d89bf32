/* SPDX-License-Identifier: MIT */
#include "base/pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static uintptr_t page_size(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

static void advise(uintptr_t start, uintptr_t end, int advice)
{
    if (start < end) madvise((void *)start, end - start, advice);
}

void pages_want(const void *data, size_t bytes)
{
    uintptr_t page = page_size(), at = (uintptr_t)data;
    advise(at & ~(page - 1), (at + bytes + page - 1) & ~(page - 1), MADV_WILLNEED);
}

void pages_drop(const void *data, size_t bytes)
{
    uintptr_t page = page_size(), at = (uintptr_t)data;
    advise((at + page - 1) & ~(page - 1), (at + bytes) & ~(page - 1), MADV_DONTNEED);
}

uint64_t pages_waited(void)
{
    struct rusage r;
    return getrusage(RUSAGE_SELF, &r) == 0 ? (uint64_t)r.ru_majflt : 0;
}
