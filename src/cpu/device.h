/* SPDX-License-Identifier: MIT
 *
 * The CPU as a device (ops/device.h): packs weights, runs segments on the thread pool.
 *
 *     struct device *cpu;
 *     TRY(cpu_device_open(&cpu, pool, &(struct cpu_device_settings){.isa = cpu_isa()}, err));
 *     TRY(cpu->ops->prepare(cpu, &weight, &keeps_source, err));         once per weight
 *     TRY(cpu->ops->reserve(cpu, &list, max_rows, max_out, n_ctx, err)); when a session opens
 *     TRY(cpu->ops->submit(cpu, &segment, NULL, 0, &ticket, err));       runs to the end before it returns
 *
 * A step's scratch belongs to the device: one submit at a time per device (the pool serves one run at a time anyway).
 */
#ifndef LUTRA_CPU_DEVICE_H
#define LUTRA_CPU_DEVICE_H

#include "base/pool.h"
#include "ops/device.h"

struct cpu_device_settings {
    uint32_t isa;         /* set of enum cpu_isa (base/cpuinfo.h) that kernels may use; 0 = the reference kernels */
    const char *name;     /* NULL: "cpu"; copied */
    float speed;          /* caps.speed: one of several clusters of processors, which share operations; 0: alone */
    struct device *store; /* a CPU device with the same kernels, whose prepared weights it uses; NULL: its own */
    bool async;           /* a thread of its own is the pool's caller: submit does not wait for it ... */
    int cpu;              /* ... and this processor is its */
    int repeat;           /* products are computed so often, as if its processors were slower; 0, 1: once */
};

/* The pool is borrowed and outlives the device.  On failure *out is NULL. */
int cpu_device_open(
    struct device **out, struct pool *pool, const struct cpu_device_settings *settings, struct lutra_error *err);

#endif
