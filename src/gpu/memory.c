/* SPDX-License-Identifier: MIT
 *
 * Memory of the GPU and of the host: buffers with addresses, mirrors written by way of a staging buffer, and the
 * host's memory where the GPU can reach it.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/device_impl.h"

enum { STAGING_BYTES = 4 << 20 };

#define LOCAL VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define SEEN (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
#define CACHED VK_MEMORY_PROPERTY_HOST_CACHED_BIT

enum { WISHES = 4 };

/* Kinds of memory for a use, best first; 0: no more. */
static const VkMemoryPropertyFlags wishes[][WISHES] = {
    [GPU_SHARED] = {LOCAL | SEEN | CACHED, LOCAL | SEEN, SEEN | CACHED, SEEN},
    [GPU_READ] = {SEEN | CACHED, SEEN},
    [GPU_WEIGHTS] = {LOCAL, SEEN}};

static int make_buffer(struct gpu_device *d, size_t bytes, const void *next, VkBuffer *out)
{
    const VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .pNext = next,
        .size = bytes,
        .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    return d->vk.CreateBuffer(d->device, &info, NULL, out);
}

/* Binds, and takes the address. */
static VkResult bind(struct gpu_device *d, struct gpu_memory *m)
{
    VkResult rc = d->vk.BindBufferMemory(d->device, m->buffer, m->memory, 0);
    if (rc) return rc;
    const VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = m->buffer};
    m->address = d->vk.GetBufferDeviceAddress(d->device, &info);
    return VK_SUCCESS;
}

/* One type of memory, mapped where the host sees it. */
static VkResult try_type(struct gpu_device *d, uint32_t type, VkDeviceSize size, struct gpu_memory *m)
{
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &flags,
        .allocationSize = size,
        .memoryTypeIndex = type};
    void *mapped = NULL;
    VkResult rc = d->vk.AllocateMemory(d->device, &info, NULL, &m->memory);
    if (rc) return rc;
    rc = bind(d, m);
    if (rc == 0 && (d->memory_types.memoryTypes[type].propertyFlags & SEEN) == SEEN)
        rc = d->vk.MapMemory(d->device, m->memory, 0, VK_WHOLE_SIZE, 0, &mapped);
    m->mapped = mapped;
    if (rc == 0) return rc;
    d->vk.FreeMemory(d->device, m->memory, NULL);
    m->memory = VK_NULL_HANDLE;
    return rc;
}

int gpu_memory_alloc(
    struct gpu_device *d, size_t bytes, enum gpu_use use, struct gpu_memory *out, struct lutra_error *err)
{
    VkMemoryRequirements need;
    *out = (struct gpu_memory){.bytes = bytes};
    if (bytes == 0) bytes = 4;
    if (bytes > SIZE_MAX - 3) return lutra_fail(err, LUTRA_E_NO_MEMORY, "vulkan: a buffer of %zu bytes", bytes);
    VkResult rc = make_buffer(d, (bytes + 3) & ~(size_t)3, NULL, &out->buffer);
    if (rc) {
        *out = (struct gpu_memory){0};
        return gpu_failed(d, rc, "vkCreateBuffer", err);
    }
    d->vk.GetBufferMemoryRequirements(d->device, out->buffer, &need);
    rc = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (int w = 0; rc && rc != VK_ERROR_DEVICE_LOST && w < WISHES && wishes[use][w]; w++)
        for (uint32_t i = 0; rc && i < d->memory_types.memoryTypeCount; i++) {
            VkMemoryPropertyFlags has = d->memory_types.memoryTypes[i].propertyFlags;
            if (!(need.memoryTypeBits >> i & 1) || (has & wishes[use][w]) != wishes[use][w]) continue;
            rc = try_type(d, i, need.size, out);
        }
    if (rc == 0) return 0;
    gpu_memory_free(d, out);
    if (rc == VK_ERROR_DEVICE_LOST) return gpu_failed(d, rc, "vkAllocateMemory", err);
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "vulkan: no memory for %zu KiB", bytes >> 10);
}

int gpu_memory_grow(
    struct gpu_device *d, size_t bytes, enum gpu_use use, struct gpu_memory *memory, struct lutra_error *err)
{
    struct gpu_memory more;
    if (memory->address && bytes <= memory->bytes) return 0;
    TRY(gpu_memory_alloc(d, bytes, use, &more, err));
    gpu_memory_free(d, memory);
    *memory = more;
    return 0;
}

static bool import_range(struct gpu_device *d, void *start, size_t bytes, struct gpu_memory *out)
{
    const VkExternalMemoryHandleTypeFlagBits kind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
    const VkExternalMemoryBufferCreateInfo outside = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, .handleTypes = kind};
    VkMemoryHostPointerPropertiesEXT reach = {.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VkMemoryRequirements need;
    if (d->vk.GetMemoryHostPointerPropertiesEXT(d->device, kind, start, &reach)) return false;
    if (make_buffer(d, bytes, &outside, &out->buffer)) return false;
    d->vk.GetBufferMemoryRequirements(d->device, out->buffer, &need);
    uint32_t types = need.memoryTypeBits & reach.memoryTypeBits, type = 0;
    if (!types || need.size > bytes) return false;
    while (!(types >> type & 1)) type++;
    const VkMemoryAllocateFlagsInfo flags = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkImportMemoryHostPointerInfoEXT import = {.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
        .pNext = &flags,
        .handleType = kind,
        .pHostPointer = start};
    const VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &import,
        .allocationSize = bytes,
        .memoryTypeIndex = type};
    return d->vk.AllocateMemory(d->device, &info, NULL, &out->memory) == 0 && bind(d, out) == 0;
}

bool gpu_memory_import(struct gpu_device *d, const void *host, size_t bytes, struct gpu_memory *out, size_t *offset)
{
    *out = (struct gpu_memory){0};
    if (!d->import_align || !d->vk.GetMemoryHostPointerPropertiesEXT || !bytes) return false;
    uintptr_t mask = d->import_align - 1, first = (uintptr_t)host & ~mask,
              end = ((uintptr_t)host + bytes + mask) & ~mask;
    *offset = (uintptr_t)host - first;
    if (import_range(d, (void *)first, end - first, out)) {
        out->mapped = (uint8_t *)first;
        out->bytes = end - first;
        return true;
    }
    gpu_memory_free(d, out);
    return false;
}

int gpu_memory_write(
    struct gpu_device *d, struct gpu_memory *to, const void *from, size_t bytes, struct lutra_error *err)
{
    if (to->mapped) {
        memcpy(to->mapped, from, bytes);
        return 0;
    }
    TRY(gpu_memory_grow(d, STAGING_BYTES, GPU_SHARED, &d->staging, err));
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        memcpy(d->staging.mapped, (const uint8_t *)from + at, n);
        TRY(gpu_queue_copy(d, &d->staging, 0, to, at, n, err));
        TRY(gpu_queue_flush(d, err));
        TRY(gpu_queue_wait(d, d->submitted, err));
    }
    return 0;
}

void gpu_memory_free(struct gpu_device *d, struct gpu_memory *memory)
{
    if (memory->buffer && !d->silent) d->vk.DestroyBuffer(d->device, memory->buffer, NULL);
    if (memory->memory && !d->silent) d->vk.FreeMemory(d->device, memory->memory, NULL);
    *memory = (struct gpu_memory){0};
}

/* ---- values and caches ---- */

struct gpu_buffer *gpu_buffer_of(const struct gpu_device *d, const void *host)
{
    struct gpu_buffer *b = d->buffer;
    while (b && ((const uint8_t *)host < b->host || (const uint8_t *)host >= b->host + b->bytes)) b = b->next;
    return b;
}

/* Somebody else's memory: itself, or for a value a place that bytes are copied to and from. */
static int take_over(struct gpu_device *d, struct gpu_buffer *b, bool cache, struct lutra_error *err)
{
    size_t offset;
    if (gpu_memory_import(d, b->host, b->bytes, &b->memory, &offset)) {
        b->address = b->memory.address + offset;
        return 0;
    }
    if (cache)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: the GPU cannot reach a cache in another device's memory");
    b->copies = b->stale = true;
    TRY(gpu_memory_alloc(d, b->bytes, GPU_SHARED, &b->memory, err));
    b->address = b->memory.address;
    return 0;
}

int gpu_buffer_add(
    struct gpu_device *d, void *host, size_t bytes, bool cache, struct gpu_buffer **out, struct lutra_error *err)
{
    struct gpu_buffer *b = *out = calloc(1, sizeof *b);
    if (!b) return lutra_fail(err, LUTRA_E_NO_MEMORY, "vulkan: out of memory");
    b->host = host;
    b->bytes = bytes ? bytes : 1;
    int rc = host ? take_over(d, b, cache, err) : gpu_memory_alloc(d, bytes, GPU_SHARED, &b->memory, err);
    if (rc < 0) {
        free(b);
        *out = NULL;
        return rc;
    }
    if (!host) b->host = b->memory.mapped, b->address = b->memory.address;
    b->next = d->buffer;
    d->buffer = b;
    return 0;
}

void gpu_buffer_drop(struct gpu_device *d, struct gpu_buffer *b)
{
    for (struct gpu_buffer **at = &d->buffer; *at; at = &(*at)->next)
        if (*at == b) {
            *at = b->next;
            break;
        }
    gpu_memory_free(d, &b->memory);
    free(b);
}
