/* SPDX-License-Identifier: MIT
 *
 * NPU sessions, each with a window: opened as weights and caches need them; who lies where.
 */
#include <stdio.h>

#include "base/clock.h"
#include "npu/host/device_impl.h"

int npu_window_do(struct npu_device *d, int window, uint32_t code, uint32_t at, uint32_t bytes, struct lutra_error *err)
{
    struct npu_op op = {.code = code, .src = at, .k = bytes};
    struct npu_transport *link = d->window[window].link;
    uint64_t ticket;
    TRY(npu_transport_submit(link, &op, 1, &ticket, err));
    return npu_transport_wait(link, ticket, CLOCK_NEVER_US, err);
}

int npu_window_add(struct npu_device *d, struct lutra_error *err)
{
    struct npu_window *w = &d->window[d->n_window];
    struct npu_transport_settings settings = d->settings;
    if (d->n_window == NPU_WINDOWS)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: all %d sessions are full", d->base.name, NPU_WINDOWS);
    settings.session += (uint32_t)d->n_window;
    settings.seed += (uint64_t)d->n_window;
    *w = (struct npu_window){0};
    TRY(d->open(&w->link, &settings, err));
    int rc = npu_window_do(d, d->n_window, NPU_OP_EXP_TABLE, 0, 0, err);
    if (rc < 0)
        npu_transport_close(&w->link);
    else
        d->n_window++;
    return rc;
}

void npu_window_remove(struct npu_device *d)
{
    npu_transport_close(&d->window[--d->n_window].link);
}

uint32_t npu_window_bytes(const struct npu_device *d)
{
    return d->window[0].link->end - d->window[0].link->first;
}

/* ---- weights ---- */

static bool take_room(struct npu_device *d, int window, uint32_t bytes, uint32_t *at)
{
    *at = npu_transport_alloc(d->window[window].link, bytes);
    if (*at) d->window[window].weight_bytes += bytes;
    return *at != 0;
}

int npu_window_place(struct npu_device *d, uint32_t bytes, int *window, uint32_t *at, struct lutra_error *err)
{
    uint64_t most = npu_window_bytes(d) / 4 * 3;
    struct lutra_error why;
    int rc = 0;
    for (; rc == 0 && d->filling < d->n_window; d->filling += rc == 0) {
        uint64_t have = d->window[d->filling].weight_bytes;
        *window = d->filling;
        if ((!have || have + bytes <= most) && take_room(d, *window, bytes, at)) return 0;
        if (d->filling + 1 == d->n_window) rc = npu_window_add(d, &why);
    }
    for (*window = 0; *window < d->n_window; ++*window)
        if (take_room(d, *window, bytes, at)) return 0;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%u KiB do not fit into %d windows of %u KiB, nor is there another: %s",
        bytes >> 10, d->n_window, npu_window_bytes(d) >> 10, why.what);
}

/* ---- a pass's memory ---- */

/* Gives back an old region of the window and takes a larger one. */
static int renew(struct npu_device *d, int window, struct npu_region *r, size_t want, struct lutra_error *err)
{
    struct npu_transport *link = d->window[window].link;
    if (want <= r->bytes) return 0;
    npu_transport_free(link, r->at);
    uint32_t at = want < UINT32_MAX ? npu_transport_alloc(link, (uint32_t)want) : 0;
    if (!at) {
        r->at = r->bytes ? npu_transport_alloc(link, r->bytes) : 0; /* the old one, which just fitted */
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: %zu KiB of scratch do not fit into session %d, %u KiB are left",
            d->base.name, want >> 10, window + 1, (unsigned)(npu_transport_free_bytes(link) >> 10));
    }
    r->at = at;
    r->bytes = (uint32_t)want;
    return 0;
}

static bool has_head(const struct npu_device *d, const struct op_list *list, int window)
{
    for (int i = 0; i < list->n_op; i++)
        if (list->op[i].kind == OP_HEAD && npu_home(d, list, i) == window) return true;
    return false;
}

int npu_window_reserve(struct npu_device *d, int window, const struct op_list *list, struct lutra_error *err)
{
    struct npu_window *w = &d->window[window];
    size_t out = (size_t)d->most.max_out, vocab = ((size_t)list->n_vocab + 31) / 32 * 32;
    TRY(renew(d, window, &w->tables, npu_program_tables(d, list), err));
    TRY(renew(d, window, &w->factors, (size_t)d->most.max_rows * NPU_LINE, err));
    if (!has_head(d, list, window)) return 0;
    TRY(renew(d, window, &w->scratch, out * NPU_HEAD_SCRATCH, err));
    TRY(renew(d, window, &w->results, out * sizeof(struct npu_head_result), err));
    return renew(d, window, &w->logits, out * vocab * 4, err);
}

int npu_reserve_all(struct npu_device *d, const struct op_list *list, struct lutra_error *err)
{
    uint64_t values = 0;
    for (int v = 0; v < list->n_value; v++)
        values += 4 * (uint64_t)list->value[v].dim *
                      (uint64_t)(list->value[v].rows == ROWS_ALL ? d->most.max_rows : d->most.max_out) +
                  4 * NPU_LINE;
    if (values > d->most.value_bytes) d->most.value_bytes = values;
    for (int w = 0; w < d->n_window; w++) TRY(npu_window_reserve(d, w, list, err));
    return 0;
}

/* ---- in words ---- */

struct contents {
    int n_weight, n_layer;
    const char *first, *last; /* weights, as prepared */
    uint64_t cache_bytes;
};

static struct contents contents_of(const struct npu_device *d, int window)
{
    struct contents c = {.first = "", .last = ""};
    for (const struct packed *p = d->packed; p; p = p->next) {
        if (p->window != window) continue;
        if (!c.n_weight++) c.last = p->name;
        c.first = p->name;
    }
    for (const struct npu_buffer *b = d->buffer; b; b = b->next)
        if (b->n_layer && b->n_in[window]) {
            c.n_layer += (int)b->n_in[window];
            c.cache_bytes += b->bytes / (size_t)b->n_layer * b->n_in[window];
        }
    return c;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

void npu_window_describe(const struct npu_device *d, int window, char *text, size_t size)
{
    const struct npu_window *w = &d->window[window];
    struct contents c = contents_of(d, window);
    uint64_t all = w->link->end - w->link->first, left = npu_transport_free_bytes(w->link);
    char weights[160] = "no weights";
    if (c.n_weight)
        snprintf(weights, sizeof weights, "%d weights (%.50s .. %.50s) %.1f MiB", c.n_weight, c.first, c.last,
            mib(w->weight_bytes));
    snprintf(text, size, "%s session %d of %d: %s, caches of %d layers %.1f MiB, other %.1f MiB, free %.1f of %.1f MiB",
        d->base.name, window + 1, d->n_window, weights, c.n_layer, mib(c.cache_bytes),
        mib(all - left - w->weight_bytes - c.cache_bytes), mib(left), mib(all));
}
