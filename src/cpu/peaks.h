/* SPDX-License-Identifier: MIT
 *
 * What the machine does at best, measured now: the yardsticks of `lutra bench` and of checkkern --bench.
 *
 *     struct cpu_peaks peaks = cpu_peaks_measure(&kernels, pool);
 *     double gbs = cpu_stream_measure(pool, bytes_per_thread);
 *
 * All threads of the pool work at once, as they do in a pass: what they share (power, bandwidth) is part of the peak.
 */
#ifndef LUTRA_CPU_PEAKS_H
#define LUTRA_CPU_PEAKS_H

#include "base/pool.h"
#include "cpu/kernels.h"

/* Sums over the pool's threads, of the best of many short samples; about 0.1 s.  All zero: the level has no peak. */
struct cpu_peaks cpu_peaks_measure(const struct cpu_kernels *kernels, struct pool *pool);

/* GB/s that the pool's threads together read, each its own bytes_per_thread in huge pages; 0 = no memory for it.  Bytes
 * far above the caches': DRAM. */
double cpu_stream_measure(struct pool *pool, size_t bytes_per_thread);

#endif
