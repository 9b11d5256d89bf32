/* SPDX-License-Identifier: MIT
 *
 * Attention of some heads (cpu/attention.h has the rest: kernels include that, and not this).
 */
#ifndef LUTRA_CPU_ATTENTION_HEADS_H
#define LUTRA_CPU_ATTENTION_HEADS_H

#include "cpu/attention.h"

/* attention_run for the query heads of K/V heads first .. first + n - 1: nothing else is read or written. */
void attention_run_heads(const struct cpu_attention *kernels, const struct attention_args *a, int first, int n,
    struct pool *pool, int ith, int nth);

#endif
