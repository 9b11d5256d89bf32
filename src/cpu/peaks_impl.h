/* SPDX-License-Identifier: MIT
 *
 * The clock of the peaks: nanoseconds, since a sample lasts less than a millisecond.
 */
#ifndef LUTRA_CPU_PEAKS_IMPL_H
#define LUTRA_CPU_PEAKS_IMPL_H

#include <time.h>

static inline double peak_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif
