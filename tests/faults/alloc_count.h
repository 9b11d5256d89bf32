/* SPDX-License-Identifier: MIT
 *
 * Counts what a program takes from the allocator and from mmap, and makes a chosen allocation fail.
 *
 *     alloc_count_begin();
 *     for (...) step();
 *     struct alloc_count count = alloc_count_end();
 *     assert_int_equal(count.n_alloc + count.n_map, 0);
 *
 *     int n = alloc_fail_each(load_model, &args, 10000);      every allocation of load_model fails once
 *     assert_true(n > 0);
 *
 * Link with `test_alloc_count` (target_link_libraries): it defines malloc and its kin in the executable itself, so
 * calls made inside the C library (qsort, fopen) and other shared libraries are seen too, from every thread.  Works in
 * plain builds and under gcc's sanitizers; no LD_PRELOAD.  One user at a time per process.
 */
#ifndef LUTRA_TESTS_ALLOC_COUNT_H
#define LUTRA_TESTS_ALLOC_COUNT_H

#include <stdbool.h>
#include <stddef.h>

struct alloc_count {
    long n_alloc;    /* malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign */
    long n_free;     /* free of a non-NULL pointer */
    long n_map;      /* mmap */
    long n_unmap;    /* munmap */
    long live_bytes; /* heap taken and not given back since the mark; negative if older memory was freed */
    long peak_bytes; /* largest live_bytes since the mark; mmap is not in it */
};

/* The mark: everything counts from here. */
void alloc_count_begin(void);

/* Since the last mark; may be asked repeatedly. */
struct alloc_count alloc_count_end(void);

/* The n-th allocation from now (n_alloc and n_map together, n >= 1) returns NULL, MAP_FAILED or ENOMEM; the others
 * work.  0 = none fails. */
void alloc_fail_at(long n);

/* Whether the allocation chosen by the last alloc_fail_at has been reached. */
bool alloc_fail_reached(void);

/* Calls fn(arg) with its first allocation failing, then with its second, and so on until a call makes fewer.  fn must
 * return LUTRA_E_NO_MEMORY (-1) or 0, and leave nothing allocated on failure.  Returns how many allocations failed, or
 * a negative number: -n if with the n-th one failing fn returned something else or leaked heap memory; 0 if more than
 * max_runs would be needed. */
long alloc_fail_each(int (*fn)(void *arg), void *arg, long max_runs);

#endif
