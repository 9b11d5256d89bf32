/* SPDX-License-Identifier: MIT
 *
 * What an op list's operations carry beside weights (norms, biases, sinks, orders) in one buffer per list.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/device_impl.h"

/* What kernels read of an operation: place 0, 1, ...; false: no more.  Rotations become tables (tables.c). */
static bool vector_at(const struct op_list *list, const struct op *op, int place, const void **host, size_t *n)
{
    struct op_constant c;
    if (op->kind == OP_PERMUTE) {
        *host = op->permute.order;
        *n = (size_t)list->value[op->out[0]].dim;
        return place == 0;
    }
    if (op->kind == OP_ROPE || !op_constant(op, place, &c)) return false;
    *host = c.x;
    *n = c.n;
    return true;
}

/* Vectors of the operations that run here, with repetitions; sizes in *words. */
static int collect(struct gpu_device *d, const struct op_list *list, struct gpu_constants *out, size_t *words)
{
    const void *host;
    size_t n;
    int count = 0;
    *words = 0;
    for (int i = 0; i < list->n_op; i++) {
        if (d->base.ops->supports(&d->base, list, &list->op[i], NULL) < 0) continue;
        for (int k = 0; vector_at(list, &list->op[i], k, &host, &n); k++) {
            if (!host) continue;
            if (out) {
                memcpy(out->memory.mapped + 4 * *words, host, 4 * n);
                out->entry[count] = (struct gpu_constant){host, n, out->memory.address + 4 * *words};
            }
            *words += n;
            count++;
        }
    }
    return count;
}

static int by_host(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct gpu_constant *)a)->host;
    uintptr_t y = (uintptr_t)((const struct gpu_constant *)b)->host;
    return (x > y) - (x < y);
}

static int by_host_longest_first(const void *a, const void *b)
{
    size_t x = ((const struct gpu_constant *)a)->n, y = ((const struct gpu_constant *)b)->n;
    int host = by_host(a, b);
    return host ? host : (x < y) - (x > y);
}

/* One entry for each vector: two operations may read the same one to different lengths. */
static void sort(struct gpu_constants *c)
{
    int n = 0;
    qsort(c->entry, (size_t)c->n, sizeof *c->entry, by_host_longest_first);
    for (int i = 0; i < c->n; i++)
        if (!n || c->entry[n - 1].host != c->entry[i].host) c->entry[n++] = c->entry[i];
    c->n = n;
}

int gpu_constants_load(struct gpu_device *d, const struct op_list *list, struct lutra_error *err)
{
    size_t words;
    int n = collect(d, list, NULL, &words);
    gpu_constants_unload(d, list);
    struct gpu_constants *c = calloc(1, sizeof *c + (size_t)n * sizeof *c->entry);
    if (!c) return lutra_fail(err, LUTRA_E_NO_MEMORY, "vulkan: out of memory");
    int rc = gpu_memory_alloc(d, 4 * words, GPU_SHARED, &c->memory, err);
    if (rc < 0) {
        free(c);
        return rc;
    }
    c->list = list;
    c->n = collect(d, list, c, &words);
    sort(c);
    c->next = d->constants;
    d->constants = c;
    return 0;
}

void gpu_constants_unload(struct gpu_device *d, const struct op_list *list)
{
    for (struct gpu_constants **at = &d->constants, *c; (c = *at);) {
        if (list && c->list != list) {
            at = &c->next;
            continue;
        }
        gpu_queue_drain(d);
        *at = c->next;
        gpu_memory_free(d, &c->memory);
        free(c);
    }
}

const struct gpu_constants *gpu_constants_of(const struct gpu_device *d, const struct op_list *list)
{
    const struct gpu_constants *c = d->constants;
    while (c && c->list != list) c = c->next;
    return c;
}

uint64_t gpu_constant_at(const struct gpu_constants *c, const void *host)
{
    const struct gpu_constant key = {host, 0, 0}, *found = NULL;
    if (c && host) found = bsearch(&key, c->entry, (size_t)c->n, sizeof key, by_host);
    return found ? found->address : 0;
}
