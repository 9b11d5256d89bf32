/* SPDX-License-Identifier: MIT
 *
 * The runtime: one thread pool, one log and the devices, shared by all models loaded into it.
 */
#include "engine/engine_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "cpu/device.h"
#include "npu/host/device.h"

/* Of the emulator and of QEMU's child: reserved, touched only where used. */
enum { NPU_WINDOW_BYTES = 512 << 20, NPU_VECTOR_THREADS = 4 };

const char *lutra_version(void)
{
    return "0.1.0";
}

void lutra_free(void *text)
{
    free(text);
}

static int open_cpu(
    lutra_runtime *rt, const struct lutra_runtime_settings *set, bool reference, struct lutra_error *err)
{
    uint32_t limit = CPU_ISA_ALL;
    if (set->isa) TRY(cpu_isa_up_to(set->isa, &limit, err));
    struct cpu_device_settings cpu = {.isa = reference ? 0 : cpu_isa() & limit};
    TRY(cpu_device_open(&rt->cpu, rt->pool, &cpu, err));
    struct cpu_info info;
    cpu_info_read(&info);
    const char *isa = "reference kernels";
    for (uint32_t bit = 1; bit & CPU_ISA_ALL; bit <<= 1)
        if (cpu.isa & bit) isa = cpu_isa_name(bit);
    snprintf(rt->text, sizeof rt->text, "%s: %s, %s, %d threads", reference ? "cpu-ref" : "cpu", info.model, isa,
        pool_size(rt->pool));
    return 0;
}

/* Another device goes first; the CPU stands behind it. */
static int open_first(lutra_runtime *rt, npu_transport_open *open, struct lutra_error *err)
{
    char cpu[sizeof rt->text];
    struct npu_transport_settings npu = {.memory_bytes = NPU_WINDOW_BYTES, .n_threads = NPU_VECTOR_THREADS};
    const char *window = getenv("LUTRA_NPU_WINDOW_KIB");
    if (window && atoi(window) > 0) npu.memory_bytes = (uint32_t)atoi(window) << 10;
    TRY(npu_device_open(&rt->first, open, &npu, rt->pool, err));
    memcpy(cpu, rt->text, sizeof cpu);
    snprintf(
        rt->text, sizeof rt->text, "%s, %zu MiB; %.120s", rt->first->name, rt->first->caps.memory_bytes >> 20, cpu);
    rt->device = rt->first;
    return 0;
}

static const struct {
    const char *name;
    npu_transport_open *open; /* NULL: the CPU alone */
} device_kinds[] = {{"cpu", NULL}, {"cpu-ref", NULL}, {"npu-sim", npu_local_open}, {"npu-qemu", npu_child_open},
    {"npu", npu_fastrpc_open}};

static int open_device(lutra_runtime *rt, const struct lutra_runtime_settings *set, struct lutra_error *err)
{
    const char *name = set->device ? set->device : "cpu";
    for (size_t i = 0; i < sizeof device_kinds / sizeof *device_kinds; i++) {
        if (strcmp(name, device_kinds[i].name)) continue;
        TRY(open_cpu(rt, set, !strcmp(name, "cpu-ref"), err));
        rt->device = rt->cpu;
        return device_kinds[i].open ? open_first(rt, device_kinds[i].open, err) : 0;
    }
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "device '%s' is not known (cpu, cpu-ref, npu-sim, npu-qemu, npu are)", name);
}

int lutra_runtime_open(lutra_runtime **out, const struct lutra_runtime_settings *settings, struct lutra_error *err)
{
    struct lutra_runtime_settings set;
    lutra_runtime_settings_init(&set, sizeof set);
    *out = NULL;
    TRY(settings_copy(&set, sizeof set, settings, "runtime", err));
    if (set.n_threads < 0 || set.n_threads > 1024)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "n_threads is %d, outside 0..1024", set.n_threads);
    lutra_runtime *rt = calloc(1, sizeof *rt);
    if (!rt) return lutra_fail(err, LUTRA_E_NO_MEMORY, "runtime: out of memory");
    log_init(&rt->log, set.log, set.log_user, LUTRA_LOG_DEBUG);
    rt->clock = clock_real();
    turn_init(&rt->turn);
    struct pool_settings pool = {.n_thread = set.n_threads, .pin = set.pin};
    int rc = pool_open(&rt->pool, &pool, err);
    if (rc == 0) rc = open_device(rt, &set, err);
    if (rc < 0) {
        lutra_runtime_close(&rt);
        return rc;
    }
    *out = rt;
    return 0;
}

void lutra_runtime_close(lutra_runtime **runtime)
{
    lutra_runtime *rt = *runtime;
    if (!rt) return;
    if (rt->first) rt->first->ops->close(rt->first);
    if (rt->cpu) rt->cpu->ops->close(rt->cpu);
    pool_close(&rt->pool);
    turn_fini(&rt->turn);
    log_fini(&rt->log);
    free(rt);
    *runtime = NULL;
}

const char *lutra_runtime_device_text(const lutra_runtime *runtime)
{
    return runtime->text;
}

int lutra_runtime_n_threads(const lutra_runtime *runtime)
{
    return pool_size(runtime->pool);
}

void lutra_runtime_peaks(lutra_runtime *rt, struct lutra_peaks *peaks, size_t size)
{
    struct device_peaks p = {0};
    turn_take(&rt->turn);
    struct device *d = rt->device;
    if (d->ops->peaks) d->ops->peaks(d, &p);
    turn_give(&rt->turn);
    struct lutra_peaks all = {sizeof all, p.int8_name, p.int8_gmac, p.f32_gmac, p.stream_gbs, p.bf16_name, p.bf16_gmac};
    settings_fill(peaks, size, &all);
}
