/* SPDX-License-Identifier: MIT
 *
 * A run of operations in one session: sent a few messages ahead of what is answered, and what comes back at the end.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "npu/host/device_impl.h"

/* ---- on its way ---- */

int npu_run_feed(struct npu_device *d, struct lutra_error *err)
{
    while (d->n_sent < d->n_op && d->n_flight < NPU_AHEAD) {
        int n = d->n_op - d->n_sent < NPU_RUN_OPS ? d->n_op - d->n_sent : NPU_RUN_OPS;
        TRY(npu_transport_submit(d->window[d->at].link, d->op + d->n_sent, (uint32_t)n, &d->flight[d->n_flight], err));
        d->n_sent += n, d->n_flight++;
    }
    return 0;
}

static bool cancelled(const struct npu_device *d)
{
    return d->pass && d->pass->cancel && atomic_load_explicit(d->pass->cancel, memory_order_relaxed);
}

int npu_run_drain(struct npu_device *d, struct lutra_error *err)
{
    bool stop = false;
    while (d->n_flight || d->n_sent < d->n_op) {
        if (d->n_sent < d->n_op && cancelled(d)) d->n_op = d->n_sent, stop = true;
        TRY(npu_run_feed(d, err));
        if (!d->n_flight) break;
        int rc = npu_transport_wait(d->window[d->at].link, d->flight[0], CLOCK_NEVER_US, err);
        memmove(d->flight, d->flight + 1, (size_t)--d->n_flight * sizeof *d->flight);
        if (rc < 0) {
            d->n_op = d->n_sent;
            return rc;
        }
    }
    return stop ? lutra_fail(err, LUTRA_E_CANCELLED, "cancelled") : 0;
}

int npu_run_abandon(struct npu_device *d, struct lutra_error *err)
{
    struct lutra_error ignored;
    int rc = 0;
    d->pass = NULL; /* may be gone */
    d->n_op = d->n_sent;
    while (d->n_flight) {
        rc = npu_run_drain(d, &ignored);
        if (rc == LUTRA_E_DEVICE_LOST) break;
    }
    d->n_op = d->n_sent = d->n_flight = 0;
    return rc == LUTRA_E_DEVICE_LOST ? lutra_fail(err, rc, "%s", ignored.what) : 0;
}

/* ---- what comes back ---- */

/* New keys and values of a layer; rows that lie behind one another at once. */
static void acquire_layer(struct npu_device *d, const struct pass_args *pass, int layer)
{
    const struct kv_view *kv = pass->kv;
    int n_row = pass->batch->n_row;
    for (int r = 0, n; r < n_row; r += n) {
        const struct kv_row *row = &kv->row[r];
        for (n = 1; r + n < n_row && row[n].block == row->block && row[n].slot == row->slot + n;) n++;
        for (int h = 0; h < kv->layer[layer].n_kv_head; h++)
            for (int side = KV_K; side <= KV_V; side++)
                npu_cache_acquire(d, d->cache, kv, layer, kv_slot_at(kv, layer, (enum kv_side)side, h, r),
                    (uint32_t)n * (uint32_t)kv->layer[layer].vec_bytes[side]);
    }
}

static void take_result(const struct npu_device *d, const struct npu_window *w, const struct pass_args *pass, int i)
{
    struct row_result *to = &pass->result[i];
    const struct row *row = &pass->batch->row[to->row];
    uint32_t want = row->want, logits = w->logits.at + (uint32_t)i * d->logits_stride;
    const struct npu_head_result *from =
        (const struct npu_head_result *)(const void *)(w->link->base + w->results.at) + i;
    float most, sum;
    memcpy(&most, &from->most, 4);
    memcpy(&sum, &from->sum, 4);
    if (want & (WANT_TOPK | WANT_LOGPROB)) to->log_sum_exp = most + logf(sum);
    if (npu_head_target(pass, i)) memcpy(to->listed_logit, &from->target, 4);
    if (want & WANT_TOPK) {
        to->n_top = (int)from->n_top;
        memcpy(to->top_id, from->id, (size_t)to->n_top * 4);
        memcpy(to->top_logit, from->logit, (size_t)to->n_top * 4);
    }
    if (!npu_head_brings_logits(pass, i)) return;
    npu_transport_acquire(w->link, logits, d->logits_stride);
    if (want & WANT_LOGITS) memcpy(to->logits, w->link->base + logits, (size_t)d->n_vocab * 4);
    for (int k = 0; want & WANT_LOGPROB && k < row->n_listed; k++)
        memcpy(&to->listed_logit[k], w->link->base + logits + 4 * (size_t)row->listed[k], 4);
}

void npu_run_finish(struct npu_device *d)
{
    const struct pass_args *pass = d->pass;
    const struct npu_window *w = &d->window[d->head_window];
    d->pass = NULL;
    if (!pass) return;
    for (int i = 0; i < d->n_seg; i++)
        if (op_info_of(d->segment[i].kind)->writes_cache) acquire_layer(d, pass, d->segment[i].layer);
    if (d->hidden) npu_transport_acquire(w->link, d->hidden, d->hidden_bytes);
    if (d->head)
        npu_transport_acquire(w->link, w->results.at, (uint32_t)pass->n_out * (uint32_t)sizeof(struct npu_head_result));
    for (int i = 0; i < pass->n_out; i++) {
        if (d->head) take_result(d, w, pass, i);
        if (d->hidden && pass->batch->row[pass->result[i].row].want & WANT_HIDDEN)
            memcpy(pass->result[i].hidden, w->link->base + d->hidden + (size_t)i * 4 * (size_t)d->d_model,
                4 * (size_t)d->d_model);
    }
}
