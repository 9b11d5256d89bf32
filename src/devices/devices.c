/* SPDX-License-Identifier: MIT
 *
 * The devices of a runtime, opened by their names: the only file that names every kind.
 */
#include "devices/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "cpu/device.h"
#include "gpu/device.h"
#include "npu/host/device.h"
#include "phone/device.h"

enum { CLUSTER_MOST = 1024, REPEAT_MOST = 9999 };
/* Of the emulator and of QEMU's child: reserved, touched only where used. */
enum { NPU_WINDOW_BYTES = 512 << 20, NPU_WINDOW_MOST = 1 << 30, NPU_THREADS = 4 };

typedef const struct lutra_runtime_settings runtime_settings;

/* A device that can be asked for.  text [n] becomes what it is, in words. */
struct opener {
    const char *name;
    int (*open)(const struct opener *self, enum npu_packing packing, struct device_set *all, runtime_settings *set,
        struct device **out, char *text, size_t n, struct lutra_error *err);
    npu_transport_open *transport; /* of an NPU: */
    const char *what;
};

/* What may stand behind an NPU's name. */
static const char *const packings[] = {"", ":supergroup", ":bitplane", ":lookup"};

/* What stands for silicon where there is none. */
#define EMULATED ", emulated in this process"
#define UNDER_QEMU ", emulated by QEMU: floats in software, tiles on the host"

/* As a cluster where settings say so; else of all threads. */
static int open_cpu_with(struct device_set *all, struct cpu_device_settings cpu, struct pool *pool, const char *name,
    struct device **out, char *text, size_t n, struct lutra_error *err)
{
    struct cpu_info info;
    const char *kernels = "reference kernels";
    TRY(cpu_device_open(out, pool, &cpu, err));
    if (!all->cpu) all->cpu = *out;
    cpu_info_read(&info);
    for (uint32_t bit = 1; bit & CPU_ISA_ALL; bit <<= 1)
        if (cpu.isa & bit) kernels = cpu_isa_name(bit);
    snprintf(text, n, "%s: %.80s, %s, %d thread%s", name, info.model, kernels, pool_size(pool),
        pool_size(pool) == 1 ? "" : "s");
    return 0;
}

static int find_isa(runtime_settings *set, uint32_t *isa, struct lutra_error *err)
{
    uint32_t limit = CPU_ISA_ALL;
    if (set->isa) TRY(cpu_isa_up_to(set->isa, &limit, err));
    *isa = cpu_isa() & limit;
    return 0;
}

static int open_cpu(const struct opener *self, enum npu_packing packing, struct device_set *all, runtime_settings *set,
    struct device **out, char *text, size_t n, struct lutra_error *err)
{
    struct cpu_device_settings cpu = {0};
    (void)self, (void)packing;
    if (all->caller_cpu >= 0)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "device 'cpu', which has all processors, beside a cluster of them");
    TRY(find_isa(set, &cpu.isa, err));
    return open_cpu_with(all, cpu, all->pool, "cpu", out, text, n, err);
}

static int open_cpu_ref(const struct opener *self, enum npu_packing packing, struct device_set *all,
    runtime_settings *set, struct device **out, char *text, size_t n, struct lutra_error *err)
{
    (void)packing, (void)set;
    return open_cpu_with(
        all, (struct cpu_device_settings){.name = self->name}, all->pool, self->name, out, text, n, err);
}

static int open_npu(const struct opener *self, enum npu_packing packing, struct device_set *all, runtime_settings *set,
    struct device **out, char *text, size_t n, struct lutra_error *err)
{
    struct npu_transport_settings npu = {.memory_bytes = NPU_WINDOW_BYTES, .n_threads = NPU_THREADS};
    npu.packing = packing;
    const char *given[] = {set->npu_qemu, set->npu_program, set->npu_library};
    if (set->npu_window_bytes > NPU_WINDOW_MOST)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "npu_window_bytes is %llu, at most %llu",
            (unsigned long long)set->npu_window_bytes, (unsigned long long)NPU_WINDOW_MOST);
    if (set->npu_window_bytes) npu.memory_bytes = (uint32_t)set->npu_window_bytes;
    for (int i = 0; i < 3; i++)
        if (given[i] && !all->npu_path[i] && !(all->npu_path[i] = strdup(given[i])))
            return lutra_fail(err, LUTRA_E_NO_MEMORY, "runtime: out of memory");
    npu.qemu = all->npu_path[0], npu.program = all->npu_path[1], npu.library = all->npu_path[2];
    TRY(npu_device_open(out, self->transport, &npu, all->pool, err));
    snprintf(text, n, "%s%s, %zu MiB%s", self->name, packings[packing], (*out)->caps.memory_bytes >> 20, self->what);
    return 0;
}

static int open_vulkan(const struct opener *self, enum npu_packing packing, struct device_set *all,
    runtime_settings *set, struct device **out, char *text, size_t n, struct lutra_error *err)
{
    (void)self, (void)packing, (void)all;
    if (!(set->gpu_slice_ms >= 0 && set->gpu_slice_ms <= 1e6))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "gpu_slice_ms is %g, outside 0..1000000", set->gpu_slice_ms);
    TRY(gpu_device_open(out, &(struct gpu_settings){.slice_ms = set->gpu_slice_ms}, err));
    gpu_device_text(*out, text, n);
    return 0;
}

static const struct opener openers[] = {{"cpu", open_cpu, NULL, ""}, {"cpu-ref", open_cpu_ref, NULL, ""},
    {"npu-sim", open_npu, npu_local_open, EMULATED}, {"npu-qemu", open_npu, npu_child_open, UNDER_QEMU},
    {"npu", open_npu, npu_fastrpc_open, ""}, {"vulkan", open_vulkan, NULL, ""}};

const char *lutra_device_name(int i)
{
    return i >= 0 && (size_t)i < sizeof openers / sizeof *openers ? openers[i].name : NULL;
}

static bool is(const char *text, const char *name, size_t n_name)
{
    return strlen(text) == n_name && memcmp(text, name, n_name) == 0;
}

/* ---- clusters of CPUs ---- */

/* How often "cpu:1*3" computes its products: a slower processor, for tests.  1 without a star. */
static int repeat_of(const char *name, size_t n_name, struct lutra_error *err)
{
    const char *star = memchr(name, '*', n_name);
    if (!star) return 1;
    const char *end = name + n_name, *at = star + 1;
    int times = 0;
    while (at < end && *at >= '0' && *at <= '9' && times <= REPEAT_MOST) times = times * 10 + *at++ - '0';
    if (at == end && times >= 1 && times <= REPEAT_MOST) return times;
    return lutra_fail(err, LUTRA_E_ARGUMENT,
        "device '%.*s': behind '*' stands how often products are computed, 1 to %d", (int)(n_name < 60 ? n_name : 60),
        name, REPEAT_MOST);
}

/* "cpu:0-3": its processors; 0: the name is no cluster's.  Errors name it. */
static int cluster_of(const char *name, size_t n_name, int cpu[CLUSTER_MOST], struct lutra_error *err)
{
    int allowed[CLUSTER_MOST], n_allowed = cpu_allowed(allowed, CLUSTER_MOST);
    int shown = (int)(n_name < 60 ? n_name : 60);
    if (n_name < 5 || memcmp(name, "cpu:", 4) != 0) return 0;
    const char *star = memchr(name, '*', n_name);
    int n = cpu_list_parse(name + 4, (star ? (size_t)(star - name) : n_name) - 4, cpu, CLUSTER_MOST);
    if (!n)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "device '%.*s': behind 'cpu:' stand processors, as 0-3 or 0-3+6", shown, name);
    for (int i = 0, k = 0; i < n; i++) {
        for (k = 0; k < n_allowed && k < CLUSTER_MOST && allowed[k] != cpu[i];) k++;
        if (k == n_allowed || k == CLUSTER_MOST)
            return lutra_fail(
                err, LUTRA_E_ARGUMENT, "device '%.*s': this process may not run on processor %d", shown, name, cpu[i]);
    }
    return n;
}

/* Number i of "3,1".  Of one class of rows, up to a '/' or the end, numbers may be 0, but not all. */
static int number_at(const char *split, const char *at, int i, bool by_class, float *out, struct lutra_error *err)
{
    char *end;
    float sum = 0;
    *out = 0;
    for (int k = 0; at; k++) {
        float x = strtof(at, &end);
        if (end == at || !(x >= 0 && x < 1e6f) || !(by_class || x > 0) || (*end && *end != ',' && *end != '/'))
            return lutra_fail(err, LUTRA_E_ARGUMENT, "split '%s': it is positive numbers with commas", split);
        if (k == i) *out = x;
        sum += x;
        at = *end == ',' ? end + 1 : NULL;
        if (!at && k < i)
            return lutra_fail(err, LUTRA_E_ARGUMENT, "split '%s': it has no number for device %d", split, k + 2);
    }
    return sum > 0 ? 0 : lutra_fail(err, LUTRA_E_ARGUMENT, "split '%s': nobody has a part", split);
}

/* How a device shares: "3,1", or "1,0/0,1" of bulk rows and of the others. */
static int read_split(runtime_settings *set, int i, struct device_caps *caps, struct lutra_error *err)
{
    const char *other = set->split ? strchr(set->split, '/') : NULL;
    if (!set->split) return 0;
    if (other && strchr(other + 1, '/'))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "split '%s': more than two classes of rows", set->split);
    caps->by_class = other != NULL;
    if (other) TRY(number_at(set->split, set->split, i, true, &caps->bulk_speed, err));
    return number_at(set->split, other ? other + 1 : set->split, i, other != NULL, &caps->speed, err);
}

/* The first computes where it is asked to, in the runtime's pool; the others beside it, with its packed weights. */
static int open_cluster(struct device_set *all, runtime_settings *set, const char *name, size_t n_name,
    struct device **out, char *text, size_t n_text, struct lutra_error *err)
{
    int cpu[CLUSTER_MOST], n = cluster_of(name, n_name, cpu, err);
    char own[32];
    if (n < 0) return n;
    snprintf(own, sizeof own, "%.*s", (int)n_name, name);
    struct cpu_device_settings settings = {.name = own, .speed = (float)n, .cpu = cpu[0]};
    settings.repeat = repeat_of(name, n_name, err);
    if (settings.repeat < 0) return settings.repeat;
    TRY(find_isa(set, &settings.isa, err));
    if (all->cpu && strncmp(all->cpu->name, "cpu:", 4) != 0)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "device '%s' beside '%s', which has all processors", own, all->cpu->name);
    if (!all->cpu) return open_cpu_with(all, settings, all->pool, own, out, text, n_text, err);
    struct pool_settings pool = {.n_thread = n, .cpu = cpu, .n_cpu = n};
    TRY(pool_open(&all->cluster[all->n_device], &pool, err));
    settings.store = all->cpu;
    settings.async = true;
    return open_cpu_with(all, settings, all->cluster[all->n_device], own, out, text, n_text, err);
}

/* The runtime's pool: of the first cluster, where there is one. */
static int open_pool(struct device_set *all, runtime_settings *set, struct lutra_error *err)
{
    struct pool_settings pool = {.n_thread = set->n_threads, .pin = set->pin};
    int cpu[CLUSTER_MOST], n = 0;
    for (const char *name = set->device; name && !n; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL)
        n = cluster_of(name, strcspn(name, ","), cpu, err);
    if (n < 0) return n;
    all->caller_cpu = n ? cpu[0] : -1;
    if (n) pool = (struct pool_settings){.n_thread = n, .cpu = cpu, .n_cpu = n};
    return pool_open(&all->pool, &pool, err);
}

/* ---- a phone that is modelled ---- */

/* What its devices share: the clock is virtual, and a CPU computes their values. */
struct phone {
    struct soc_profile profile;
    struct virtual_time time;
    struct device *inner, *gpu; /* gpu: whose weights the NPU uses; a CPU's where that stands in its place */
    enum sim_graphs graphs;
};

static int open_phone_unit(struct device_set *all, enum sim_device kind, struct lutra_error *err)
{
    struct phone *p = all->phone;
    struct device **out = &all->device[all->n_device];
    if (all->n_device == PLAN_DEVICES)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "more than %d devices with the CPU", PLAN_DEVICES);
    const struct sim_device_settings s = {.profile = &p->profile,
        .kind = kind,
        .end = SIM_MIDDLE,
        .graphs = p->graphs,
        .time = &p->time,
        .inner = p->inner,
        .store = p->gpu};
    TRY(sim_device_open(out, &s, err));
    if (kind != SIM_NPU) p->gpu = *out;
    return 0;
}

/* Cuts `suffix` off the end of the name. */
static bool cut_suffix(char *name, const char *suffix)
{
    size_t n = strlen(name), n_suffix = strlen(suffix);
    if (n <= n_suffix || strcmp(name + n - n_suffix, suffix) != 0) return false;
    name[n - n_suffix] = 0;
    return true;
}

/* "sim:PROFILE": its GPU, and the NPU for products beside it; with ".gpu" or ".cpu" behind it that alone, with ".npu"
 * the NPU beside the CPU; then ":weightless": nothing is computed, and no weights are read. */
static int open_phone(struct device_set *all, runtime_settings *set, const char *name, size_t n_name, char *text,
    size_t n_text, struct lutra_error *err)
{
    char profile[256];
    struct cpu_device_settings cpu = {.name = "sim.values", .speed = 1};
    snprintf(profile, sizeof profile, "%.*s", (int)(n_name - 4), name + 4);
    const bool weightless = cut_suffix(profile, ":weightless"), gpu = cut_suffix(profile, ".gpu"),
               npu = !gpu && cut_suffix(profile, ".npu"), only_cpu = !gpu && !npu && cut_suffix(profile, ".cpu");
    if (all->phone)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "device '%.*s': one phone at a time", (int)n_name, name);
    struct phone *p = all->phone = calloc(1, sizeof *p);
    if (!p) return lutra_fail(err, LUTRA_E_NO_MEMORY, "runtime: out of memory");
    p->graphs = set->progressive ? SIM_GRAPHS_PROGRESSIVE : SIM_GRAPHS_ALL;
    TRY(soc_profile_open(&p->profile, profile, err));
    TRY(find_isa(set, &cpu.isa, err));
    if (!weightless) TRY(cpu_device_open(&p->inner, all->pool, &cpu, err));
    *all->clock = clock_virtual(&p->time);
    snprintf(text, n_text, "%s of %s, modelled: %s, time from a profile",
        gpu        ? "sim.gpu"
        : npu      ? "sim.npu and sim.cpu"
        : only_cpu ? "sim.cpu"
                   : "sim.gpu and sim.npu",
        p->profile.soc, weightless ? "no values" : "values from the CPU");
    if (npu) { /* products there, the rest on the CPU, whose weights it uses */
        TRY(open_phone_unit(all, SIM_CPU, err));
        all->n_device++;
        TRY(open_phone_unit(all, SIM_NPU, err));
        struct device *first = all->device[all->n_device];
        all->device[all->n_device] = all->device[all->n_device - 1], all->device[all->n_device - 1] = first;
        return 0;
    }
    if (only_cpu) return open_phone_unit(all, SIM_CPU, err);
    TRY(open_phone_unit(all, SIM_GPU, err));
    if (gpu) return 0;
    all->n_device++;
    return open_phone_unit(all, SIM_NPU, err);
}

static void close_phone(struct device_set *all)
{
    if (all->phone && all->phone->inner) all->phone->inner->ops->close(all->phone->inner);
    free(all->phone);
}

/* ---- any device ---- */

/* Its number, or -1. */
static int packing_of(const char *suffix, size_t n)
{
    int i = (int)(sizeof packings / sizeof *packings);
    while (i-- && !is(packings[i], suffix, n)) continue;
    return i;
}

/* The device that the first n_name bytes name, as the next in order. */
static int open_device(
    struct device_set *all, runtime_settings *set, const char *name, size_t n_name, struct lutra_error *err)
{
    const char *colon = memchr(name, ':', n_name);
    size_t n_own = colon ? (size_t)(colon - name) : n_name;
    int packing = packing_of(name + n_own, n_name - n_own);
    char text[192];
    bool cluster = n_name > 4 && memcmp(name, "cpu:", 4) == 0, known = false;
    const bool phone = n_name > 4 && memcmp(name, "sim:", 4) == 0;
    if (all->n_device == PLAN_DEVICES)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "more than %d devices with the CPU", PLAN_DEVICES);
    if (cluster) TRY(open_cluster(all, set, name, n_name, &all->device[all->n_device], text, sizeof text, err));
    if (phone) TRY(open_phone(all, set, name, n_name, text, sizeof text, err));
    for (size_t i = 0; !cluster && !phone && packing >= 0 && i < sizeof openers / sizeof *openers; i++) {
        if (!is(openers[i].name, name, n_own) || (packing && !openers[i].transport)) continue;
        TRY(openers[i].open(
            &openers[i], (enum npu_packing)packing, all, set, &all->device[all->n_device], text, sizeof text, err));
        known = true;
        break;
    }
    if (!cluster && !phone && !known)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "device '%.*s' is not known (cpu, cpu-ref, npu-sim, npu-qemu, npu, vulkan are; behind an NPU's name "
            "':supergroup', "
            "':bitplane' or ':lookup'; cpu:0-3 is a cluster; sim:8gen3 is a phone that is modelled)",
            (int)(n_name < 60 ? n_name : 60), name);
    size_t at = strlen(all->text);
    snprintf(all->text + at, sizeof all->text - at, "%s%s", all->n_device ? "; " : "", text);
    struct device *d = all->device[all->n_device++];
    if (phone || !d->caps.shares) return 0;
    return read_split(set, all->n_device - 1, &d->caps, err);
}

/* A number for a device that is not there is a mistake; one device has all, whatever is said. */
static int check_split(const char *split, int n_device, struct lutra_error *err)
{
    int n = 1;
    for (const char *at = split; at && *at; at++) {
        n = *at == '/' ? 1 : n + (*at == ',');
        if (n > n_device && n_device > 1)
            return lutra_fail(err, LUTRA_E_ARGUMENT, "split '%s': more numbers than the %d devices", split, n_device);
    }
    return 0;
}

/* The names in order, and the CPU behind them where it is not among them. */
static int open_listed(struct device_set *all, runtime_settings *set, struct lutra_error *err)
{
    for (const char *name = set->device ? set->device : "cpu"; name;) {
        size_t n = strcspn(name, ",");
        TRY(open_device(all, set, name, n, err));
        name = name[n] ? name + n + 1 : NULL;
    }
    TRY(check_split(set->split, all->n_device, err));
    if (all->cpu) return 0;
    struct lutra_runtime_settings unnamed = *set;
    unnamed.split = NULL;
    TRY(open_device(all, &unnamed, "cpu", 3, err));
    all->cpu->caps.shares = 0; /* nobody asked it to: it does what the others cannot */
    return 0;
}

int device_set_open(struct device_set *all, runtime_settings *set, struct clock *clock, struct lutra_error *err)
{
    *all = (struct device_set){.clock = clock, .split = set->split != NULL};
    TRY(open_pool(all, set, err));
    return open_listed(all, set, err);
}

void device_set_close(struct device_set *all)
{
    for (int i = 0; i < all->n_device; i++) all->device[i]->ops->close(all->device[i]);
    close_phone(all);
    pool_close(&all->pool);
    for (int i = 0; i < PLAN_DEVICES; i++) pool_close(&all->cluster[i]);
    for (int i = 0; i < 3; i++) free(all->npu_path[i]);
}

bool device_set_shares(const struct device_set *all)
{
    int n = 0;
    for (int i = 0; i < all->n_device; i++) n += plan_part_is_said(all->device[i]);
    return n > 1;
}
