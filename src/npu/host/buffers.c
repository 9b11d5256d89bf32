/* SPDX-License-Identifier: MIT
 *
 * Values and caches over several windows.  Where one window holds a buffer alone, the host's memory is that window's;
 * otherwise the host has memory of its own and copies to and from its places in the windows.
 */
#include <stdlib.h>
#include <string.h>

#include "npu/host/device_impl.h"

static void down(struct npu_device *d, int window, uint32_t at, const void *host, uint32_t bytes)
{
    struct npu_transport *link = d->window[window].link;
    if (link->base + at != host) memcpy(link->base + at, host, bytes);
    npu_transport_publish(link, at, bytes);
}

static void up(struct npu_device *d, int window, uint32_t at, void *host, uint32_t bytes)
{
    struct npu_transport *link = d->window[window].link;
    npu_transport_acquire(link, at, bytes);
    if (link->base + at != host) memcpy(host, link->base + at, bytes);
}

/* ---- memory ---- */

void npu_buffer_drop(struct npu_device *d, struct npu_buffer *b)
{
    for (struct npu_buffer **at = &d->buffer; *at; at = &(*at)->next)
        if (*at == b) {
            *at = b->next;
            break;
        }
    for (int w = 0; w < d->n_window; w++) npu_transport_free(d->window[w].link, b->at[w]);
    if (b->own) free(b->host);
    free(b->layer);
    free(b);
}

struct npu_buffer *npu_buffer_of(const struct npu_device *d, const void *host)
{
    struct npu_buffer *b = d->buffer;
    while (b && b->host != host) b = b->next;
    return b;
}

static int no_room(const struct npu_device *d, size_t bytes, int window, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: a buffer of %zu KiB does not fit into session %d, %u KiB are left",
        d->base.name, bytes >> 10, window + 1, (unsigned)(npu_transport_free_bytes(d->window[window].link) >> 10));
}

/* Its place in a window, with a little behind the end: kernels read whole vectors. */
static int take_place(struct npu_device *d, struct npu_buffer *b, int window, size_t bytes, struct lutra_error *err)
{
    if (bytes < UINT32_MAX - 4096)
        b->at[window] = npu_transport_alloc(d->window[window].link, (uint32_t)bytes + NPU_LINE);
    return b->at[window] ? 0 : no_room(d, bytes, window, err);
}

/* The host's side of a buffer whose places are taken, unless it is somebody else's. */
static int take_host(struct npu_device *d, struct npu_buffer *b, struct lutra_error *err)
{
    int only = -1, n = 0;
    if (b->host) return 0;
    for (int w = 0; w < d->n_window; w++)
        if (b->at[w]) only = w, n++;
    b->own = n != 1;
    if (!b->own)
        b->host = d->window[only].link->base + b->at[only];
    else if (posix_memalign((void **)&b->host, 128, (b->bytes + 127) / 128 * 128)) {
        b->host = NULL;
        return lutra_fail(
            err, LUTRA_E_NO_MEMORY, "%s: no memory for a buffer of %zu KiB", d->base.name, b->bytes >> 10);
    }
    return 0;
}

static struct npu_buffer *new_buffer(struct npu_device *d, void *host, size_t bytes, struct lutra_error *err)
{
    struct npu_buffer *b = calloc(1, sizeof *b);
    if (!b) {
        lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", d->base.name);
        return NULL;
    }
    b->host = host, b->bytes = bytes, b->host_fresh = true;
    b->next = d->buffer, d->buffer = b;
    return b;
}

int npu_value_alloc(struct npu_device *d, void *host, size_t bytes, struct npu_buffer **out, struct lutra_error *err)
{
    struct npu_buffer *b = *out = new_buffer(d, host, bytes, err);
    int rc = b ? 0 : LUTRA_E_NO_MEMORY;
    for (int w = 0; rc == 0 && w < d->n_window; w++) rc = take_place(d, b, w, bytes, err);
    if (rc == 0) rc = take_host(d, b, err);
    if (rc == 0 || !b) return rc;
    npu_buffer_drop(d, b);
    *out = NULL;
    return rc;
}

/* ---- the cache ---- */

/* Room that a window has left beside values. */
static uint64_t room_for_layers(const struct npu_device *d, int window)
{
    uint64_t left = npu_transport_free_bytes(d->window[window].link), taken = d->most.value_bytes + 4 * NPU_LINE;
    return left > taken ? left - taken : 0;
}

/* A window for one more layer: that of its weights, that of the layer before, any, a new one. */
static int choose(struct npu_device *d, const struct op_list *list, const struct npu_buffer *b, int layer,
    uint64_t layer_bytes, struct lutra_error *err)
{
    int wish[2 + NPU_WINDOWS], n = 0;
    wish[n++] = npu_layer_home(d, list, layer);
    if (layer) wish[n++] = b->layer[layer - 1].window;
    for (int w = 0; w < d->n_window; w++) wish[n++] = w;
    for (int i = 0; i < n; i++)
        if ((b->n_in[wish[i]] + 1) * layer_bytes <= room_for_layers(d, wish[i])) return wish[i];
    int last = d->n_window;
    TRY(npu_window_add(d, err));
    TRY(npu_window_reserve(d, last, list, err));
    if (layer_bytes <= room_for_layers(d, last)) return last;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "one layer takes %llu KiB beside %llu KiB of values",
        (unsigned long long)layer_bytes >> 10, (unsigned long long)d->most.value_bytes >> 10);
}

static int place_layers(struct npu_device *d, const struct op_list *list, struct npu_buffer *b, struct lutra_error *err)
{
    struct lutra_error why;
    uint64_t each = b->bytes / (size_t)b->n_layer;
    for (int i = 0; i < b->n_layer; i++) {
        int w = choose(d, list, b, i, each, &why);
        if (w < 0)
            return lutra_fail(err, w, "%s: a cache of %zu KiB does not fit into %d sessions: %s", d->base.name,
                b->bytes >> 10, d->n_window, why.what);
        b->layer[i].window = w, b->layer[i].index = b->n_in[w]++;
    }
    for (int w = 0; w < d->n_window; w++)
        if (b->n_in[w]) TRY(take_place(d, b, w, each * b->n_in[w], err));
    return 0;
}

int npu_cache_place(struct npu_device *d, const struct op_list *list, void *host, size_t bytes, struct npu_buffer **out,
    struct lutra_error *err)
{
    struct npu_buffer *b = *out = new_buffer(d, host, bytes, err);
    if (!b) return LUTRA_E_NO_MEMORY;
    int had = d->n_window;
    b->n_layer = list->n_layer;
    b->layer = calloc((size_t)list->n_layer, sizeof *b->layer);
    int rc = b->layer ? place_layers(d, list, b, err) : lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: out of memory");
    if (rc == 0) rc = take_host(d, b, err);
    if (rc == 0) return 0;
    npu_buffer_drop(d, b);
    while (d->n_window > had) npu_window_remove(d);
    *out = NULL;
    return rc;
}

/* Of any layer: they are alike, and lie one behind another. */
static size_t pool_layer(const struct kv_view *kv)
{
    return (size_t)kv->n_block * kv->layer[0].block_bytes;
}

void npu_cache_offsets(
    const struct npu_buffer *b, const struct kv_view *kv, int window, uint32_t *pool, uint32_t *draft)
{
    *pool = b->at[window];
    *draft = kv->n_draft ? b->at[window] + (uint32_t)(b->n_in[window] * pool_layer(kv)) : *pool;
}

/* The window offset of host memory of one layer. */
static uint32_t place_of(const struct npu_buffer *b, const struct kv_view *kv, int layer, const uint8_t *host)
{
    size_t draft_layer = 2 * kv->layer[0].side_bytes[KV_K] / KV_BLOCK * (size_t)kv->n_draft;
    uint32_t index = b->layer[layer].index, pool, draft;
    npu_cache_offsets(b, kv, b->layer[layer].window, &pool, &draft);
    if (kv->n_draft && host >= kv->draft)
        return draft + (uint32_t)(index * draft_layer + (size_t)(host - kv->draft) - (size_t)layer * draft_layer);
    return pool + (uint32_t)(index * pool_layer(kv) + (size_t)(host - kv->pool) - (size_t)layer * pool_layer(kv));
}

void npu_cache_publish(struct npu_device *d, const struct npu_buffer *b, const struct kv_view *kv, int layer,
    uint8_t *host, uint32_t bytes)
{
    down(d, b->layer[layer].window, place_of(b, kv, layer, host), host, bytes);
}

void npu_cache_acquire(struct npu_device *d, const struct npu_buffer *b, const struct kv_view *kv, int layer,
    uint8_t *host, uint32_t bytes)
{
    up(d, b->layer[layer].window, place_of(b, kv, layer, host), host, bytes);
}

/* ---- values ---- */

static int first_fresh(const struct npu_buffer *b)
{
    int w = 0;
    while (!(b->fresh >> w & 1)) w++;
    return w;
}

/* Old lines, written back later, would undo what comes now. */
static int clean(struct npu_device *d, struct npu_buffer *b, int window, struct lutra_error *err)
{
    if (b->dirty[window]) TRY(npu_window_do(d, window, NPU_OP_FLUSH, b->at[window], b->dirty[window], err));
    b->dirty[window] = 0;
    return 0;
}

/* Bytes of a value that some window has, where the host can read them now. */
static int find_fresh(struct npu_device *d, struct npu_buffer *b, size_t first, size_t bytes, const uint8_t **out,
    struct lutra_error *err)
{
    const int w = first_fresh(b);
    struct npu_transport *link = d->window[w].link;
    const uint32_t at = b->at[w] + (uint32_t)first;
    TRY(clean(d, b, w, err));
    npu_transport_acquire(link, at, (uint32_t)bytes);
    *out = link->base + at;
    return 0;
}

int npu_value_to_host(struct npu_device *d, struct npu_buffer *b, uint32_t bytes, struct lutra_error *err)
{
    const uint8_t *from;
    b->shared = true;
    if (b->host_fresh || !b->fresh) return 0;
    TRY(find_fresh(d, b, 0, bytes, &from, err));
    if (from != b->host) memcpy(b->host, from, bytes);
    b->host_fresh = true;
    return 0;
}

/* From the first byte of an area to its last, in the value. */
struct extent {
    size_t first, bytes, each, stride;
};

static struct extent extent_of(const struct area *a)
{
    struct extent e = {.each = (size_t)a->columns.n * 4, .stride = (size_t)a->dim * 4};
    e.first = (size_t)a->columns.first * 4 + (size_t)a->first * e.stride;
    e.bytes = (size_t)(a->rows - 1) * e.stride + e.each;
    return e;
}

int npu_value_area_to_host(struct npu_device *d, struct npu_buffer *b, const struct area *area, struct lutra_error *err)
{
    const struct extent e = extent_of(area);
    const uint8_t *from;
    b->shared = true;
    if (!b->fresh || area->rows < 1) return 0;
    TRY(find_fresh(d, b, e.first, e.bytes, &from, err));
    for (int r = 0; from != b->host + e.first && r < area->rows; r++)
        memcpy(b->host + e.first + (size_t)r * e.stride, from + (size_t)r * e.stride, e.each);
    return 0;
}

void npu_value_area_comes(struct npu_buffer *b, const struct area *area)
{
    int n = 0;
    b->shared = true;
    for (int i = 0; i < b->n_come && i < NPU_AREAS; i++) /* of a pass that was not finished */
        if (!area_meets(&b->come[i], area)) b->come[n++] = b->come[i];
    const bool lost = b->n_come > NPU_AREAS;
    if (n < NPU_AREAS) b->come[n] = *area;
    b->n_come = lost ? NPU_AREAS + 1 : n + 1;
}

/* Columns of others, to where the value's own columns are; with none of them, to `window`. */
static int bring_areas(struct npu_device *d, struct npu_buffer *b, int window, struct lutra_error *err)
{
    const int w = b->fresh ? first_fresh(b) : window;
    struct npu_transport *link = d->window[w].link;
    if (!b->n_come) return 0;
    if (b->n_come > NPU_AREAS)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: rows of two classes take turns too often", d->base.name);
    TRY(clean(d, b, w, err));
    for (; b->n_come; b->n_come--) {
        const struct area *a = &b->come[b->n_come - 1];
        const struct extent e = extent_of(a);
        uint8_t *to = link->base + b->at[w] + e.first;
        if (a->rows < 1) continue;
        npu_transport_acquire(link, b->at[w] + (uint32_t)e.first, (uint32_t)e.bytes); /* own columns between them */
        for (int r = 0; to != b->host + e.first && r < a->rows; r++)
            memcpy(to + (size_t)r * e.stride, b->host + e.first + (size_t)r * e.stride, e.each);
        npu_transport_publish(link, b->at[w] + (uint32_t)e.first, (uint32_t)e.bytes);
    }
    TRY(npu_window_do(d, w, NPU_OP_INVALIDATE, b->at[w], (uint32_t)b->bytes, err));
    b->fresh = 1u << w, b->host_fresh = false;
    return 0;
}

int npu_value_to_window(struct npu_device *d, struct npu_buffer *b, int window, uint32_t bytes, struct lutra_error *err)
{
    if (!b->at[window])
        return lutra_fail(err, LUTRA_E_INTERNAL, "%s: a value has no place in session %d", d->base.name, window + 1);
    TRY(bring_areas(d, b, window, err));
    if (b->fresh >> window & 1) return 0;
    const uint8_t *from = b->host;
    /* Not by way of the host's memory, where other devices may be writing rows or columns of theirs. */
    if (b->fresh) TRY(find_fresh(d, b, 0, bytes, &from, err));
    TRY(clean(d, b, window, err));
    down(d, window, b->at[window], from, bytes);
    b->shared = true;
    b->fresh |= 1u << window;
    return 0;
}
