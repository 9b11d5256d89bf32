/* SPDX-License-Identifier: MIT
 *
 * The GPU device's insides: loader.c (Vulkan, the choice of a GPU), memory.c (buffers, mirrors, imports),
 * pipelines.c, queue.c (submissions, tickets, slices), tables.c (what a segment's kernels read beside values),
 * program.c (operations to dispatches), head.c (results), device.c (what it can do, the front door).
 *
 * Kernels get addresses, not descriptors: a dispatch is a pipeline, at most 128 bytes of constants, and a grid.
 */
#ifndef LUTRA_GPU_DEVICE_IMPL_H
#define LUTRA_GPU_DEVICE_IMPL_H

#include "gpu/device.h"
#include "gpu/functions_impl.h"

enum {
    GPU_SLOTS = 8,    /* submissions under way */
    GPU_TABLES = 4,   /* segments under way */
    GPU_ROPES = 8,    /* distinct rotations of one op list */
    GPU_ROT_MAX = 512 /* rotated elements of a head, and elements of a head of attention */
};

/* ---- memory ---- */

struct gpu_memory {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t address; /* 0: there is none */
    uint8_t *mapped;  /* NULL: the host does not see it */
    size_t bytes;
};

enum gpu_use {
    GPU_SHARED,  /* the host and the GPU write it */
    GPU_READ,    /* the GPU writes, the host reads */
    GPU_WEIGHTS, /* written once */
};

/* Values and caches: memory of the host that operations name. */
struct gpu_buffer {
    struct gpu_buffer *next;
    uint8_t *host;
    size_t bytes;
    struct gpu_memory memory;
    uint64_t address; /* of `host`'s bytes, in `memory` */
    bool copies;      /* another device's memory, which the GPU cannot reach: bytes go back and forth */
    bool stale;       /* of `copies`: the host's bytes are newer */
    size_t used;      /* of `copies`: bytes that the GPU wrote last */
};

/* A prepared weight. */
struct packed {
    struct gpu_memory memory;
    uint64_t address; /* of the first byte, rounded down to a word; `skew` bytes before it */
    uint32_t skew, row_bytes;
    int64_t first; /* the output that it begins with */
    bool in_place;
    bool i8; /* class i8x32: rows are rounded first */
};

/* ---- kernels ---- */

enum gpu_shader {
    GPU_POINTWISE,
    GPU_NORM,
    GPU_ROPE,
    GPU_KV_APPEND,
    GPU_ATTENTION,
    GPU_EMBED,
    GPU_MATMUL,
    GPU_ROUND,
    GPU_MATMUL_I8,
    GPU_SHADER_COUNT /* the last */
};

/* How class i8x32 is computed (exact.c). */
enum gpu_exact {
    GPU_EXACT_UNKNOWN, /* nobody has asked */
    GPU_EXACT_FUSED,   /* the driver's fma() */
    GPU_EXACT_MADE,    /* of sums and products */
    GPU_EXACT_NO       /* not at all: such weights are dequantized */
};

/* constant_id 0 of pointwise.comp. */
enum gpu_pointwise {
    GPU_SWIGLU,
    GPU_GEGLU,
    GPU_GELU,
    GPU_RELU2,
    GPU_SWIGLU_OAI,
    GPU_ADD,
    GPU_SCALE,
    GPU_ADD_SCALED,
    GPU_PERMUTE,
    GPU_TAKE
};

/* In the order of enum gpu_shader; made by CMake from shaders/. */
struct gpu_code {
    const uint32_t *word;
    size_t bytes;
};
extern const struct gpu_code gpu_code[GPU_SHADER_COUNT];

enum { GPU_VARIANTS = 64 };

/* ---- the device ---- */

/* A command buffer, on its way from `ticket` being set until the timeline has reached it. */
struct gpu_slot {
    VkCommandPool pool;
    VkCommandBuffer commands;
    uint64_t ticket;
    double mac, predicted_us;
    bool measured;
};

/* Constants of an op list (op_constant, orders), by the host's pointer, ascending. */
struct gpu_constants {
    struct gpu_constants *next;
    const struct op_list *list;
    struct gpu_memory memory;
    int n;
    struct gpu_constant {
        const void *host;
        size_t n;
        uint64_t address;
    } entry[];
};

/* What reserve was asked for, the most of each. */
struct gpu_reserved {
    int max_rows, max_out, n_ctx;
    size_t rope_bytes, logits_bytes, hidden_bytes, rounded_bytes;
};

/* Results that wait takes from the scratch. */
struct gpu_head {
    const struct op *op; /* NULL: none */
    const struct pass_args *pass;
    uint64_t ticket;
    int n_vocab;
    size_t hidden_dim; /* 0: nobody wants hidden states */
};

struct gpu_device {
    struct device base;
    struct gpu_settings settings;

    void *library;
    struct gpu_functions vk;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue;
    uint32_t family;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory_types;
    char driver[128];
    size_t import_align; /* of host memory that the GPU can reach in place; 0: none */
    double timestamp_us; /* of one tick; 0: no clock */

    VkPipelineLayout layout;
    VkPipelineCache cache;
    size_t cache_bytes; /* that the user's folder had */
    int n_made;         /* pipelines */
    VkPipeline pipeline[GPU_SHADER_COUNT][GPU_VARIANTS][2];

    struct gpu_slot slot[GPU_SLOTS];
    int at;    /* the slot that is open or next */
    bool open; /* commands are being recorded */
    VkQueryPool queries;
    VkSemaphore timeline;
    uint64_t submitted, done; /* tickets */
    bool lost;
    bool silent; /* lost, and it may still be at work: what it uses is never freed */
    double us_per_mac;
    struct {
        uint64_t n;
        double predicted_us, measured_us; /* the longest */
    } slices;

    struct gpu_buffer *buffer;
    struct gpu_constants *constants;
    struct gpu_reserved most;
    struct gpu_memory logits, hidden, rounded, staging;
    enum gpu_exact exact;
    struct gpu_memory tables[GPU_TABLES];
    uint64_t tables_ticket[GPU_TABLES];
    int tables_at;
    struct gpu_head head;
    uint64_t in_place_bytes, mirrored_bytes;
};

static inline struct gpu_device *gpu_of(struct device *d)
{
    return (struct gpu_device *)d;
}

/* loader.c: all of Vulkan up to the queue.  gpu_unload may follow a failure. */
int gpu_load(struct gpu_device *d, struct lutra_error *err);
void gpu_unload(struct gpu_device *d);

/* A failed call as a status; VK_ERROR_DEVICE_LOST makes the device lost for good. */
int gpu_failed(struct gpu_device *d, VkResult result, const char *call, struct lutra_error *err);

/* memory.c.  On failure *out is empty; an empty one may be freed.  Nothing that is under way may use what is freed. */
int gpu_memory_alloc(
    struct gpu_device *d, size_t bytes, enum gpu_use use, struct gpu_memory *out, struct lutra_error *err);
/* Grows to at least `bytes`; what was in it is lost. */
int gpu_memory_grow(
    struct gpu_device *d, size_t bytes, enum gpu_use use, struct gpu_memory *memory, struct lutra_error *err);
/* The host's memory itself; *offset: of `host` in it.  False: it cannot be reached. */
bool gpu_memory_import(struct gpu_device *d, const void *host, size_t bytes, struct gpu_memory *out, size_t *offset);
int gpu_memory_write(
    struct gpu_device *d, struct gpu_memory *to, const void *from, size_t bytes, struct lutra_error *err);
void gpu_memory_free(struct gpu_device *d, struct gpu_memory *memory);

int gpu_buffer_add(
    struct gpu_device *d, void *host, size_t bytes, bool cache, struct gpu_buffer **out, struct lutra_error *err);
void gpu_buffer_drop(struct gpu_device *d, struct gpu_buffer *b);
struct gpu_buffer *gpu_buffer_of(const struct gpu_device *d, const void *host); /* of any byte in it; NULL: none */

/* weights.c */
int gpu_weight_check(struct gpu_device *d, const struct weight *w, struct lutra_error *err);
int gpu_weight_prepare(struct gpu_device *d, struct weight *w, bool *keeps_source, struct lutra_error *err);
void gpu_weight_release(struct gpu_device *d, struct weight *w);

/* constants.c */
int gpu_constants_load(struct gpu_device *d, const struct op_list *list, struct lutra_error *err);
void gpu_constants_unload(struct gpu_device *d, const struct op_list *list);
const struct gpu_constants *gpu_constants_of(const struct gpu_device *d, const struct op_list *list);
uint64_t gpu_constant_at(const struct gpu_constants *c, const void *host); /* 0: there is none */

/* pipelines.c.  variant: constant_id 0; wide: whether constant_id 1 is 4, not 1. */
int gpu_pipelines_open(struct gpu_device *d, struct lutra_error *err);
void gpu_pipelines_close(struct gpu_device *d);
void gpu_pipelines_forget(struct gpu_device *d, enum gpu_shader shader); /* made anew when they are asked for */
int gpu_pipeline(struct gpu_device *d, enum gpu_shader shader, uint32_t variant, bool wide, VkPipeline *out,
    struct lutra_error *err);

/* cache.c: d->cache, from and to the user's folder.  Failures leave it empty, or none. */
void gpu_cache_open(struct gpu_device *d);
void gpu_cache_close(struct gpu_device *d);

/* queue.c */
struct gpu_dispatch {
    VkPipeline pipeline;
    const void *push;
    uint32_t push_bytes;
    uint32_t x, y; /* groups */
    double mac;    /* of all groups */
};

int gpu_queue_open(struct gpu_device *d, struct lutra_error *err);
void gpu_queue_close(struct gpu_device *d);
/* Records; submits what is open where it would be predicted to take longer than a slice, and cuts what does so by
 * itself. */
int gpu_queue_dispatch(struct gpu_device *d, const struct gpu_dispatch *dispatch, struct lutra_error *err);
int gpu_queue_copy(struct gpu_device *d, const struct gpu_memory *from, size_t from_at, const struct gpu_memory *to,
    size_t to_at, size_t bytes, struct lutra_error *err);
int gpu_queue_barrier(struct gpu_device *d, struct lutra_error *err);
/* Submits what is open, if anything; d->submitted is the ticket of all so far. */
int gpu_queue_flush(struct gpu_device *d, struct lutra_error *err);
int gpu_queue_wait(struct gpu_device *d, uint64_t ticket, struct lutra_error *err);
/* Waits for all that was submitted; what is open is forgotten.  Loss is no failure here. */
void gpu_queue_drain(struct gpu_device *d);

/* tables.c: what a segment's kernels read beside values and constants. */
struct gpu_tables {
    uint64_t tokens, out_rows, kv_rows, kv_table; /* addresses */
    struct {
        struct op_rope rope;
        uint64_t at;
    } rope[GPU_ROPES];
    int n_rope;
};

/* Bytes for rotations of a list's passes of n rows; more than GPU_ROPES is refused. */
int gpu_tables_ropes(const struct op_list *list, int n_row, size_t *bytes, struct lutra_error *err);
size_t gpu_tables_bytes(const struct gpu_reserved *most);
int gpu_tables_write(
    struct gpu_device *d, const struct segment *segment, struct gpu_tables *out, struct lutra_error *err);
uint64_t gpu_tables_rope(const struct gpu_tables *t, const struct op_rope *rope);

/* program.c */
int gpu_program_submit(struct gpu_device *d, const struct segment *segment, struct lutra_error *err);
int gpu_program_prepare(struct gpu_device *d, const struct op_list *list, struct lutra_error *err); /* pipelines */

struct gpu_product {
    const struct weight *weight;
    struct columns own;                /* outputs; n 0: all */
    uint64_t x, rounded, bias, result; /* addresses; bias: 0 = none */
    int n_row;
};
size_t gpu_program_rounded_bytes(const struct tensor *t, int n_row);
/* Rows to int8, for products with weights of class i8x32. */
int gpu_program_round(struct gpu_device *d, const struct gpu_product *product, struct lutra_error *err);
int gpu_program_product(struct gpu_device *d, const struct gpu_product *product, struct lutra_error *err);

/* exact.c: sets d->exact. */
int gpu_exact_find(struct gpu_device *d, struct lutra_error *err);

/* head.c: after the head's ticket. */
void gpu_head_deliver(struct gpu_device *d);

#endif
