/* SPDX-License-Identifier: MIT
 *
 * checkkern: every kernel of the CPU's table against the reference, per instruction set; and its speed.
 *
 *     checkkern [--seed=N] [--only=PATTERN] [--quick] [--bench] [--threads=N] [--json] [--digest]
 *
 * For each level that this CPU has, the table is filled again (cpu_kernels_init) and every slot whose function is new
 * is checked.  A fault inside a kernel is reported with the kernel's name.  Exit status: 0 all passed, 1 some failed.
 */
#ifndef LUTRA_CHECKKERN_H
#define LUTRA_CHECKKERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/kernels.h"

enum { CANARY_BYTES = 128 };

struct options {
    uint64_t seed;
    const char *only; /* part of a kernel's name, or NULL */
    bool bench, json, digest;
    bool quick; /* every kernel, format and odd tail once: for emulators */
    int threads;
};

/* Counts, and the kernel under test for fault reports. */
struct tally {
    int kernels, checks, failed;
};

/* Memory behind a canary, 64-byte aligned, filled with `fill`; what reads or writes past its last 64 bytes faults. */
struct guarded {
    uint8_t *base, *data;
    size_t bytes, room, mapped;
};

struct guarded guard(size_t bytes, int fill);
bool unguard(struct guarded *g); /* frees; false: a canary was overwritten */

/* Deterministic numbers. */
uint64_t random_u64(uint64_t *state);
double random_unit(uint64_t *state); /* [0, 1) */
float random_normal(uint64_t *state);

/* Counts one check and reports it when it failed. */
void expect(struct tally *t, const char *kernel, bool ok, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Calls fn(arg) and reports a fault in it under the kernel's name; false on a fault. */
bool survive(struct tally *t, const char *kernel, void (*fn)(void *arg), void *arg);

void check_gemm(struct tally *t, const struct cpu_gemm *g, const struct cpu_gemm *lower, const struct options *o);
/* Of a kernel in `bulk`; few: that of the same type in `gemm`. */
void check_gemm_bulk(struct tally *t, const struct cpu_gemm *g, const struct cpu_gemm *few, const struct options *o);
void check_small(
    struct tally *t, const struct cpu_kernels *k, const struct cpu_kernels *lower, const struct options *o);

void check_attention(
    struct tally *t, const struct cpu_kernels *k, const struct cpu_kernels *lower, const struct options *o);

void bench_attention(const struct cpu_kernels *k, const struct cpu_kernels *lower, const struct options *o);
void bench_gemm(const struct cpu_kernels *k, const struct cpu_kernels *lower, const struct options *o);

void print_digests(const struct cpu_kernels *k);

double now_seconds(void);

#endif
