/* SPDX-License-Identifier: MIT
 *
 * The window, which the host shares by its file descriptor, and TCM, which is all taken, together with the
 * tile unit, and held while the window is served.
 */
#if defined(__hexagon__)

#include "npu/dsp/silicon/silicon.h"

enum {
    TIMEOUT_US = 1000000,
    ALL_TCM = 8 << 20,       /* where nobody says how much there is */
    LEAST_TCM = 256 << 10,   /* the exp table and one kernel's buffers */
    TABLE_BYTES = 64 << 10,  /* gathers address this much of one page, from a base so aligned */
    LAST_BYTES = TILE_BYTES, /* the scales */
    ONE = 0x3c00,
};

int npu_window_map(struct npu_silicon *s)
{
    uint64_t physical;
    void *at = 0;
    int error = HAP_mmap_get((int)s->ask.fd, &at, &physical);
    if (error || !at) return npu_serve_error(NPU_SERVE_MAP, (uint32_t)error);
    s->window = at;
    npu_cache_clean(s->window, sizeof(struct npu_ring));
    const struct npu_ring *r = at;
    if (r->host.magic == NPU_RING_MAGIC && r->host.window_bytes == s->ask.window_bytes && !((uintptr_t)at % 4096))
        return 0;
    npu_window_unmap(s);
    return npu_serve_error(NPU_SERVE_WINDOW, 0);
}

/* Lines that were written are written back first: later they would fall upon whatever the memory is used for then. */
void npu_window_unmap(struct npu_silicon *s)
{
    if (!s->window) return;
    npu_cache_clean(s->window, s->ask.window_bytes);
    HAP_mmap_put((int)s->ask.fd);
    s->window = 0;
}

static int can_take(void)
{
    return compute_resource_attr_init && compute_resource_attr_set_vtcm_param_v2 &&
           compute_resource_attr_set_hmx_param && compute_resource_attr_get_vtcm_ptr_v2 && compute_resource_acquire &&
           compute_resource_release;
}

static int acquire(struct npu_pool *pool, struct compute_attributes *a)
{
    uint32_t bytes = ALL_TCM;
    if (compute_resource_query_VTCM && compute_resource_query_VTCM(0, &bytes, 0, 0, 0)) bytes = ALL_TCM;
    int error = compute_resource_attr_init(a);
    if (!error) error = compute_resource_attr_set_vtcm_param_v2(a, bytes, TABLE_BYTES, LEAST_TCM);
    if (!error) error = compute_resource_attr_set_hmx_param(a, 1);
    if (!error) pool->context = compute_resource_acquire(a, TIMEOUT_US);
    return error;
}

int npu_tcm_take(struct npu_pool *pool)
{
    struct compute_attributes a = {{0}};
    void *at = 0;
    uint32_t bytes = 0;
    if (!can_take()) return npu_serve_error(NPU_SERVE_TCM, NPU_SERVE_ABSENT);
    int error = acquire(pool, &a);
    if (error || !pool->context) return npu_serve_error(NPU_SERVE_TCM, (uint32_t)error);
    error = compute_resource_attr_get_vtcm_ptr_v2(&a, &at, &bytes);
    if (error || !at || bytes < LEAST_TCM || (uintptr_t)at % TABLE_BYTES) {
        npu_tcm_give(pool);
        return npu_serve_error(NPU_SERVE_TCM, (uint32_t)error);
    }
    pool->tcm = at, pool->tcm_bytes = bytes / TILE_BYTES * TILE_BYTES;
    pool->scales = pool->tcm + pool->tcm_bytes - LAST_BYTES;
    for (uint32_t i = 0; i < 64; i++) ((uint32_t *)(void *)pool->scales)[i] = i < 32 ? ONE : 0;
    return 0;
}

void npu_tcm_give(struct npu_pool *pool)
{
    if (pool->context) compute_resource_release(pool->context);
    pool->context = 0, pool->tcm = 0, pool->tcm_bytes = 0;
}

#endif
