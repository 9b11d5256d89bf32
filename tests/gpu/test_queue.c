/* SPDX-License-Identifier: MIT
 *
 * Submissions cut to slices, the cache of pipelines, a GPU with memory that the host does not see, and no GPU at all.
 */
#include "unit/gpu/gpu_fixture.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/device_impl.h"
#include "ops/ref/ref.h"

enum { N_IN = 256, N_OUT = 96, N_ROW = 40 };

/* A product and a norm of what it yields. */
struct list {
    struct op op[2];
    struct op_list list;
    struct weight weight;
    struct row row[N_ROW];
    struct kv_view kv;
    struct batch batch;
    struct buffer value[3];
    struct pass_args pass;
    float w[N_OUT][N_IN], scale[N_OUT];
};

static void open_list(struct list *l, struct device *d)
{
    struct lutra_error err = {0};
    bool keeps;
    memset(l, 0, sizeof *l);
    for (int i = 0; i < N_OUT * N_IN; i++) l->w[i / N_IN][i % N_IN] = sinf((float)i);
    for (int o = 0; o < N_OUT; o++) l->scale[o] = 1 + 0.01f * (float)o;
    l->weight =
        (struct weight){.use = WEIGHT_MATMUL, .tensor = {"w", QUANT_F32, 2, {N_IN, N_OUT, 1, 1}, l->w, sizeof l->w}};
    l->op[0] = op_make(OP_MATMUL, 0, 0, -1, -1);
    op_add_part(&l->op[0], &l->weight, l->scale, 1);
    l->op[1] = op_make(OP_RMS_NORM, 0, 1, -1, 2);
    l->op[1].norm.weight = l->scale, l->op[1].norm.n_norm = N_OUT, l->op[1].norm.eps = 1e-6f;
    l->list = (struct op_list){
        .op = l->op, .n_op = 2, .n_value = 3, .value = {{N_IN, ROWS_ALL}, {N_OUT, ROWS_ALL}, {N_OUT, ROWS_ALL}}};
    l->batch = (struct batch){.row = l->row, .n_row = N_ROW};
    l->pass = (struct pass_args){.batch = &l->batch, .kv = &l->kv, .value = l->value};
    assert_int_equal(d->ops->prepare(d, &l->weight, &keeps, &err), 0);
    assert_int_equal(d->ops->reserve(d, &l->list, N_ROW, 1, KV_BLOCK, &err), 0);
    assert_int_equal(d->memory->load(d, &l->list, &err), 0);
    for (int v = 0; v < 3; v++) {
        size_t bytes = sizeof(float) * N_ROW * (size_t)l->list.value[v].dim;
        assert_int_equal(d->ops->buffer_alloc(d, bytes, &l->value[v], &err), 0);
    }
    for (int i = 0; i < N_ROW * N_IN; i++) ((float *)l->value[0].host)[i] = cosf((float)i * 0.7f);
}

static void close_list(struct list *l, struct device *d)
{
    d->memory->unload(d, &l->list);
    for (int v = 0; v < 3; v++) d->ops->buffer_free(d, &l->value[v]);
    d->ops->release(d, &l->weight);
}

static int run_list(struct list *l, struct device *d, struct lutra_error *err)
{
    struct segment segment = {.op = l->op, .n_op = 2, .list = &l->list, .pass = &l->pass};
    struct ticket ticket;
    TRY(d->ops->submit(d, &segment, NULL, 0, &ticket, err));
    return d->ops->wait(d, &ticket, err);
}

static void check_list(const struct list *l)
{
    float row[N_OUT];
    for (int r = 0; r < N_ROW; r++) {
        ref_matmul(&l->weight.tensor, l->scale, (const float *)l->value[0].host + r * N_IN, row, 1);
        ref_rms_norm(row, l->scale, 1e-6f, row, N_OUT, N_OUT);
        for (int o = 0; o < N_OUT; o++)
            assert_true(fabsf(row[o] - ((const float *)l->value[2].host)[r * N_OUT + o]) < 1e-4f);
    }
}

/* ---- slices ---- */

static struct {
    PFN_vkQueueSubmit submit;
    PFN_vkCmdDispatchBase dispatch;
    int n_submit, n_dispatch;
    uint64_t groups, most_groups; /* of a submission */
} seen;

static VKAPI_ATTR VkResult VKAPI_CALL count_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    seen.n_submit++;
    if (seen.groups > seen.most_groups) seen.most_groups = seen.groups;
    seen.groups = 0;
    return seen.submit(queue, n, info, fence);
}

static VKAPI_ATTR void VKAPI_CALL count_dispatch(
    VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z, uint32_t n_x, uint32_t n_y, uint32_t n_z)
{
    seen.n_dispatch++;
    seen.groups += (uint64_t)n_x * n_y * n_z;
    seen.dispatch(commands, x, y, z, n_x, n_y, n_z);
}

static void watch(void *user, struct gpu_device *d)
{
    (void)user;
    memset(&seen, 0, sizeof seen);
    seen.submit = d->vk.QueueSubmit, seen.dispatch = d->vk.CmdDispatchBase;
    d->vk.QueueSubmit = count_submit, d->vk.CmdDispatchBase = count_dispatch;
}

static void submissions_are_cut_and_bits_stay(void **state)
{
    static float want[N_ROW * N_OUT];
    static const double slices[] = {10000, 0.2, 0.01};
    struct lutra_error err = {0};
    int before = 0;
    (void)state;
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        static struct list l;
        struct device *d = gpu_open_with(&(struct gpu_settings){.slice_ms = slices[i], .functions = watch});
        struct gpu_device *g = (struct gpu_device *)d;
        open_list(&l, d);
        VkQueryPool queries = g->queries;
        g->us_per_mac = 1e-3;        /* 983,040 products are predicted to take 983 us, ... */
        g->queries = VK_NULL_HANDLE; /* ... and nobody measures what they take */
        if (run_list(&l, d, &err) < 0) fail_msg("%s", err.what);
        check_list(&l);
        double longest_us = fmax(slices[i] * 1000, 983.04 / 9); /* nine groups: one is not cut */
        assert_true(g->slices.predicted_us <= longest_us + 5);
        if (i)
            assert_memory_equal(want, l.value[2].host, sizeof want);
        else
            assert_int_equal(seen.n_submit, 1);
        assert_true(seen.n_submit > before);
        before = seen.n_submit;
        memcpy(want, l.value[2].host, sizeof want);
        g->queries = queries;
        close_list(&l, d);
        d->ops->close(d);
    }
}

/* ---- the cache of pipelines ---- */

static size_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

/* Opens, computes and closes; returns how much of the file was taken. */
static size_t use_gpu(void)
{
    static struct list l;
    struct lutra_error err = {0};
    struct device *d = gpu_open();
    size_t taken = ((struct gpu_device *)d)->cache_bytes;
    open_list(&l, d);
    if (run_list(&l, d, &err) < 0) fail_msg("%s", err.what);
    check_list(&l);
    close_list(&l, d);
    d->ops->close(d);
    return taken;
}

static void change_byte(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 0x10, f);
    fclose(f);
}

static void damaged_caches_are_ignored(void **state)
{
    char folder[] = "/tmp/lutra-gpu-XXXXXX", command[128], path[300] = "";
    enum { HEAD_BYTES = 24 };
    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_int_equal(use_gpu(), 0);
    snprintf(command, sizeof command, "ls %s/lutra/vulkan-*.cache", folder);
    FILE *f = popen(command, "r");
    assert_true(fscanf(f, "%299s", path) == 1);
    pclose(f);
    size_t bytes = size_of(path);
    assert_true(bytes > HEAD_BYTES);
    assert_int_equal(use_gpu(), bytes - HEAD_BYTES);
    for (long at = 0; at < (long)bytes; at += at < 40 ? 5 : (long)bytes / 3) {
        change_byte(path, at);
        assert_int_equal(use_gpu(), 0);
        assert_int_equal(use_gpu(), bytes - HEAD_BYTES); /* it was written anew */
    }
    assert_int_equal(truncate(path, (off_t)bytes - 1), 0);
    assert_int_equal(use_gpu(), 0);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes into it */
    assert_int_equal(use_gpu(), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    setenv("XDG_CACHE_HOME", "/proc/no-such-folder", 1); /* nowhere to write */
    assert_int_equal(use_gpu(), 0);
    unsetenv("XDG_CACHE_HOME");
}

/* ---- memory of its own ---- */

/* As a discrete GPU: weights where the host does not see them, values beside another device's memory. */
static PFN_vkAllocateMemory alloc_memory;

static VKAPI_ATTR VkResult VKAPI_CALL alloc_first(
    VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *with, VkDeviceMemory *out)
{
    VkMemoryAllocateInfo first = *info;
    first.memoryTypeIndex = 0;
    return alloc_memory(device, &first, with, out);
}

static PFN_vkGetBufferMemoryRequirements requirements;

static VKAPI_ATTR void VKAPI_CALL any_type(VkDevice device, VkBuffer buffer, VkMemoryRequirements *out)
{
    requirements(device, buffer, out);
    out->memoryTypeBits = 3;
}

static void make_discrete(void *user, struct gpu_device *d)
{
    (void)user;
    alloc_memory = d->vk.AllocateMemory, d->vk.AllocateMemory = alloc_first;
    requirements = d->vk.GetBufferMemoryRequirements, d->vk.GetBufferMemoryRequirements = any_type;
    d->memory_types.memoryTypeCount = 2;
    d->memory_types.memoryTypes[1] = d->memory_types.memoryTypes[0];
    d->memory_types.memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    d->memory_types.memoryTypes[1].propertyFlags =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    d->import_align = 0;
}

static void mirrors_and_copies_serve_a_discrete_gpu(void **state)
{
    static struct list l;
    static float mine[3][N_ROW * N_IN];
    struct lutra_error err = {0};
    struct device *d = gpu_open_with(&(struct gpu_settings){.functions = make_discrete});
    struct gpu_device *g = (struct gpu_device *)d;
    const struct area in = area_of_all(N_IN, N_ROW), out = area_of_all(N_OUT, N_ROW);
    (void)state;
    open_list(&l, d);
    assert_null(weight_packed(&l.weight, d)->memory.mapped);
    assert_int_equal(g->mirrored_bytes, sizeof l.w);
    if (run_list(&l, d, &err) < 0) fail_msg("%s", err.what);
    check_list(&l);
    memcpy(mine[0], l.value[0].host, l.value[0].bytes);
    for (int v = 0; v < 3; v++) {
        d->ops->buffer_free(d, &l.value[v]);
        l.value[v] = (struct buffer){.host = mine[v], .bytes = sizeof mine[v]};
        assert_int_equal(d->memory->join(d, NULL, &l.value[v], &err), 0);
    }
    d->memory->acquire(d, &l.value[0], in);
    if (run_list(&l, d, &err) < 0) fail_msg("%s", err.what);
    assert_int_equal(d->memory->publish(d, &l.value[2], out, &err), 0);
    check_list(&l);
    mine[0][5] += 3; /* what the host changes is brought again */
    d->memory->acquire(d, &l.value[0], in);
    if (run_list(&l, d, &err) < 0) fail_msg("%s", err.what);
    assert_int_equal(d->memory->publish(d, &l.value[2], out, &err), 0);
    check_list(&l);
    assert_int_equal(d->memory->join(d, &l.list, &l.value[0], &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "cache"));
    for (int v = 0; v < 3; v++) d->memory->leave(d, &l.value[v]), l.value[v].bytes = 0;
    d->memory->unload(d, &l.list);
    d->ops->release(d, &l.weight);
    d->ops->close(d);
}

/* ---- no GPU ---- */

static void what_is_missing_is_said(void **state)
{
    struct lutra_error err = {0};
    struct device *d;
    (void)state;
    setenv("VK_ICD_FILENAMES", "/nonexistent.json", 1);
    setenv("VK_DRIVER_FILES", "/nonexistent.json", 1);
    assert_int_equal(gpu_device_open(&d, &(struct gpu_settings){0}, &err), LUTRA_E_UNSUPPORTED);
    assert_null(d);
    assert_non_null(strstr(err.what, "vulkan: "));
    assert_non_null(strstr(err.what, "no driver"));
    unsetenv("VK_ICD_FILENAMES");
    unsetenv("VK_DRIVER_FILES");
}

int main(void)
{
    gpu_need();
    const struct CMUnitTest tests[] = {cmocka_unit_test(submissions_are_cut_and_bits_stay),
        cmocka_unit_test(damaged_caches_are_ignored), cmocka_unit_test(mirrors_and_copies_serve_a_discrete_gpu),
        cmocka_unit_test(what_is_missing_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
