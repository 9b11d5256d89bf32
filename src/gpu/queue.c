/* SPDX-License-Identifier: MIT
 *
 * Submissions.  Each signals the timeline semaphore with its ticket.  A submission is ended where it is predicted to
 * take longer than a slice, so that a desktop on the same GPU stays usable; the prediction follows the GPU's own clock.
 * GPU_SLOTS submissions may be under way; one more waits for the first of them.
 */
#include <string.h>

#include "gpu/device_impl.h"

/* A GPU that ends no submission for so long, beyond a slice, is lost.  Mesa's CPU driver only waits for a processor. */
enum { HANG_MS = 1500, HANG_CPU_MS = 60000 };

/* Until something was measured: slow, so that the first submissions are short. */
static const double FIRST_US_PER_MAC = 1e-3, DISPATCH_US = 2, LEAST_MAC = 1e5;

#define CALL(d, call, name)                                                                                            \
    do {                                                                                                               \
        VkResult result_ = (call);                                                                                     \
        if (result_) return gpu_failed(d, result_, name, err);                                                         \
    } while (0)

static int open_slot(struct gpu_device *d, struct gpu_slot *s, struct lutra_error *err)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = d->family};
    CALL(d, d->vk.CreateCommandPool(d->device, &pool, NULL, &s->pool), "vkCreateCommandPool");
    const VkCommandBufferAllocateInfo buffer = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = s->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    CALL(d, d->vk.AllocateCommandBuffers(d->device, &buffer, &s->commands), "vkAllocateCommandBuffers");
    s->measured = true;
    return 0;
}

int gpu_queue_open(struct gpu_device *d, struct lutra_error *err)
{
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO, .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    const VkQueryPoolCreateInfo query = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = 2 * GPU_SLOTS};
    d->us_per_mac = FIRST_US_PER_MAC;
    CALL(d, d->vk.CreateSemaphore(d->device, &info, NULL, &d->timeline), "vkCreateSemaphore");
    if (d->timestamp_us > 0) CALL(d, d->vk.CreateQueryPool(d->device, &query, NULL, &d->queries), "vkCreateQueryPool");
    for (int i = 0; i < GPU_SLOTS; i++) TRY(open_slot(d, &d->slot[i], err));
    return 0;
}

void gpu_queue_close(struct gpu_device *d)
{
    for (int i = 0; i < GPU_SLOTS; i++)
        if (d->slot[i].pool) d->vk.DestroyCommandPool(d->device, d->slot[i].pool, NULL);
    if (d->queries) d->vk.DestroyQueryPool(d->device, d->queries, NULL);
    if (d->timeline) d->vk.DestroySemaphore(d->device, d->timeline, NULL);
}

/* ---- time ---- */

/* What a slot's submission took, once it is over: slower is believed at once, faster by and by. */
static void measure(struct gpu_device *d, struct gpu_slot *s)
{
    uint64_t tick[2];
    s->measured = true;
    if (!d->queries) return;
    if (d->vk.GetQueryPoolResults(d->device, d->queries, 2 * (uint32_t)(s - d->slot), 2, sizeof tick, tick,
            sizeof *tick, VK_QUERY_RESULT_64_BIT))
        return;
    double us = (double)(tick[1] - tick[0]) * d->timestamp_us;
    if (us > d->slices.measured_us) d->slices.measured_us = us;
    if (s->mac < LEAST_MAC) return;
    double rate = us / s->mac;
    d->us_per_mac = rate > d->us_per_mac ? rate : 0.75 * d->us_per_mac + 0.25 * rate;
}

static uint64_t patience_ns(const struct gpu_device *d)
{
    bool cpu = d->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    return (uint64_t)((cpu ? HANG_CPU_MS : HANG_MS) + d->settings.slice_ms) * 1000000u;
}

static int lost_by_silence(struct gpu_device *d, struct lutra_error *err)
{
    d->lost = d->silent = true;
    return lutra_fail(
        err, LUTRA_E_DEVICE_LOST, "vulkan: the device has ended nothing for %.1f s", (double)patience_ns(d) * 1e-9);
}

/* VK_TIMEOUT: nothing of what is under way has ended meanwhile. */
static VkResult wait_long(struct gpu_device *d, const VkSemaphoreWaitInfo *info)
{
    uint64_t seen = d->done, now = seen;
    for (;;) {
        VkResult rc = d->vk.WaitSemaphores(d->device, info, patience_ns(d));
        if (rc != VK_TIMEOUT) return rc;
        if (d->vk.GetSemaphoreCounterValue(d->device, d->timeline, &now) || now <= seen) return rc;
        seen = now;
    }
}

int gpu_queue_wait(struct gpu_device *d, uint64_t ticket, struct lutra_error *err)
{
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &d->timeline,
        .pValues = &ticket};
    if (d->lost) return gpu_failed(d, VK_ERROR_DEVICE_LOST, "vkWaitSemaphores", err);
    if (ticket <= d->done) return 0;
    VkResult rc = wait_long(d, &info);
    if (rc == VK_TIMEOUT) return lost_by_silence(d, err);
    if (rc) return gpu_failed(d, rc, "vkWaitSemaphores", err);
    d->done = ticket;
    for (int i = 0; i < GPU_SLOTS; i++)
        if (!d->slot[i].measured && d->slot[i].ticket <= ticket) measure(d, &d->slot[i]);
    return 0;
}

/* ---- commands ---- */

/* What was written before is seen by what follows, the host included. */
static void barrier(struct gpu_device *d, VkCommandBuffer commands, VkPipelineStageFlags to, VkAccessFlags access)
{
    const VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = access};
    d->vk.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, to, 0, 1,
        &all, 0, NULL, 0, NULL);
}

static void barrier_to_kernels(struct gpu_device *d, VkCommandBuffer commands)
{
    barrier(d, commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
        VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
            VK_ACCESS_TRANSFER_WRITE_BIT);
}

static int begin(struct gpu_device *d, struct lutra_error *err)
{
    struct gpu_slot *s = &d->slot[d->at];
    uint32_t query = 2 * (uint32_t)d->at;
    const VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    if (d->open) return 0;
    TRY(gpu_queue_wait(d, s->ticket, err));
    CALL(d, d->vk.ResetCommandPool(d->device, s->pool, 0), "vkResetCommandPool");
    CALL(d, d->vk.BeginCommandBuffer(s->commands, &info), "vkBeginCommandBuffer");
    if (d->queries) {
        d->vk.CmdResetQueryPool(s->commands, d->queries, query, 2);
        d->vk.CmdWriteTimestamp(s->commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, d->queries, query);
    }
    barrier_to_kernels(d, s->commands); /* behind earlier submissions, which it does not wait for otherwise */
    s->mac = s->predicted_us = 0;
    d->open = true;
    return 0;
}

int gpu_queue_barrier(struct gpu_device *d, struct lutra_error *err)
{
    TRY(begin(d, err));
    barrier_to_kernels(d, d->slot[d->at].commands);
    return 0;
}

int gpu_queue_copy(struct gpu_device *d, const struct gpu_memory *from, size_t from_at, const struct gpu_memory *to,
    size_t to_at, size_t bytes, struct lutra_error *err)
{
    const VkBufferCopy region = {.srcOffset = from_at, .dstOffset = to_at, .size = bytes};
    TRY(begin(d, err));
    d->vk.CmdCopyBuffer(d->slot[d->at].commands, from->buffer, to->buffer, 1, &region);
    return 0;
}

/* A rectangle of the grid's groups. */
static int push(struct gpu_device *d, const struct gpu_dispatch *g, uint32_t x, uint32_t y, uint32_t n_x, uint32_t n_y,
    struct lutra_error *err)
{
    TRY(begin(d, err));
    struct gpu_slot *s = &d->slot[d->at];
    double mac = g->mac / g->x / g->y * n_x * n_y;
    d->vk.CmdBindPipeline(s->commands, VK_PIPELINE_BIND_POINT_COMPUTE, g->pipeline);
    d->vk.CmdPushConstants(s->commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, g->push_bytes, g->push);
    d->vk.CmdDispatchBase(s->commands, x, y, 0, n_x, n_y, 1);
    s->mac += mac;
    s->predicted_us += mac * d->us_per_mac + DISPATCH_US;
    return 0;
}

/* How many of n equal parts fit into what is left of the slice; at least one into an empty one. */
static uint32_t fit(const struct gpu_device *d, double each_us, uint32_t n)
{
    double used = d->open ? d->slot[d->at].predicted_us : 0, room = d->settings.slice_ms * 1000 - used;
    if (each_us * n <= room) return n;
    return each_us <= room ? (uint32_t)(room / each_us) : used > 0 ? 0 : 1;
}

/* One column, whose groups are too many for a slice. */
static int push_column(struct gpu_device *d, const struct gpu_dispatch *g, uint32_t x, struct lutra_error *err)
{
    for (uint32_t y = 0, n; y < g->y; y += n) {
        n = fit(d, g->mac / g->x / g->y * d->us_per_mac, g->y - y);
        if (n) TRY(push(d, g, x, y, 1, n, err));
        if (y + n < g->y) TRY(gpu_queue_flush(d, err));
    }
    return 0;
}

int gpu_queue_dispatch(struct gpu_device *d, const struct gpu_dispatch *g, struct lutra_error *err)
{
    const VkPhysicalDeviceLimits *limits = &d->properties.limits;
    if (!g->x || !g->y) return 0;
    if (g->x > limits->maxComputeWorkGroupCount[0] || g->y > limits->maxComputeWorkGroupCount[1])
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: a grid of %u x %u groups", g->x, g->y);
    for (uint32_t x = 0, n; x < g->x; x += n) {
        double column_us = g->mac / g->x * d->us_per_mac;
        n = column_us <= d->settings.slice_ms * 1000 ? fit(d, column_us, g->x - x) : 1;
        if (column_us > d->settings.slice_ms * 1000)
            TRY(push_column(d, g, x, err));
        else if (n)
            TRY(push(d, g, x, 0, n, g->y, err));
        if (x + n < g->x) TRY(gpu_queue_flush(d, err));
    }
    return 0;
}

int gpu_queue_flush(struct gpu_device *d, struct lutra_error *err)
{
    struct gpu_slot *s = &d->slot[d->at];
    uint64_t ticket = d->submitted + 1;
    const VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &ticket};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = &values,
        .commandBufferCount = 1,
        .pCommandBuffers = &s->commands,
        .signalSemaphoreCount = 1,
        .pSignalSemaphores = &d->timeline};
    if (!d->open) return 0;
    d->open = false;
    barrier(d, s->commands, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    if (d->queries)
        d->vk.CmdWriteTimestamp(s->commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, d->queries, 2 * (uint32_t)d->at + 1);
    CALL(d, d->vk.EndCommandBuffer(s->commands), "vkEndCommandBuffer");
    CALL(d, d->vk.QueueSubmit(d->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    s->ticket = d->submitted = ticket;
    s->measured = false;
    d->slices.n++;
    if (s->predicted_us > d->slices.predicted_us) d->slices.predicted_us = s->predicted_us;
    d->at = (d->at + 1) % GPU_SLOTS;
    return 0;
}

void gpu_queue_drain(struct gpu_device *d)
{
    struct lutra_error ignored;
    d->open = false; /* the pool is reset before it records again */
    gpu_queue_wait(d, d->submitted, &ignored);
}
