/* SPDX-License-Identifier: MIT
 *
 * Which devices have prepared a weight, and which of its outputs.
 */
#include "ops/weight.h"

#include "ops/device.h"

struct held *weight_held(struct weight *w, const struct device *d)
{
    for (struct held *h = w->held; h < w->held + WEIGHT_HOLDERS; h++)
        if (h->device == d) return h;
    return NULL;
}

const struct packed *weight_packed(const struct weight *w, const struct device *d)
{
    for (const struct held *h = w->held; h < w->held + WEIGHT_HOLDERS; h++)
        if (h->device == d) return h->packed;
    return NULL;
}

/* A place for one more device: one that nobody has, else one whose device has prepared nothing. */
static struct held *place_for(struct weight *w)
{
    struct held *idle = NULL;
    for (struct held *h = w->held; h < w->held + WEIGHT_HOLDERS; h++) {
        if (!h->device) return h;
        if (!h->packed) idle = h;
    }
    return idle;
}

int weight_give(struct weight *w, struct device *d, struct columns outputs, struct lutra_error *err)
{
    struct held *h = weight_held(w, d);
    if (!h) {
        h = place_for(w);
        if (!h)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "tensor '%s' would be on more than %d devices", w->tensor.name,
                WEIGHT_HOLDERS);
        *h = (struct held){.device = d, .want = outputs};
        return 0;
    }
    int64_t end = h->want.first + h->want.n, new_end = outputs.first + outputs.n;
    if (outputs.first < h->want.first) h->want.first = outputs.first;
    h->want.n = (new_end > end ? new_end : end) - h->want.first;
    return 0;
}

struct held *weight_to_prepare(struct weight *w, struct device *d, struct lutra_error *err)
{
    struct held *h = weight_held(w, d);
    if (h) return h;
    return weight_give(w, d, (struct columns){0, w->tensor.ne[1]}, err) < 0 ? NULL : weight_held(w, d);
}

void weight_forget(struct held *h)
{
    h->packed = NULL;
    h->has = (struct columns){0, 0};
    h->bytes = 0;
}

static bool is_ready(const struct held *h)
{
    return h->packed && h->has.first <= h->want.first && h->has.first + h->has.n >= h->want.first + h->want.n;
}

bool weight_is_ready(const struct weight *w, const struct device *d)
{
    bool any = false;
    for (const struct held *h = w->held; h < w->held + WEIGHT_HOLDERS; h++) {
        if (!h->device || (d && h->device != d)) continue;
        if (!is_ready(h)) return false;
        any = true;
    }
    return any;
}

int weight_prepare(struct weight *w, bool *keeps_source, struct lutra_error *err)
{
    *keeps_source = false;
    for (const struct held *h = w->held; h < w->held + WEIGHT_HOLDERS; h++) {
        bool keeps = true;
        if (h->device && !weight_is_ready(w, h->device)) TRY(h->device->ops->prepare(h->device, w, &keeps, err));
        *keeps_source |= h->device && keeps;
    }
    return 0;
}

size_t weight_bytes(const struct weight *w)
{
    size_t sum = 0;
    for (const struct held *h = w->held; h < w->held + WEIGHT_HOLDERS; h++) {
        if (h->bytes && h->has.n == w->tensor.ne[1]) return h->bytes;
        sum += h->bytes;
    }
    return sum ? sum : w->tensor.bytes;
}

bool weight_is_given(const struct weight *w)
{
    for (int i = 0; i < WEIGHT_HOLDERS; i++)
        if (w->held[i].device) return true;
    return false;
}

uint64_t weight_prepared_bytes(const struct weight *w)
{
    uint64_t outputs = 0;
    for (int i = 0; i < WEIGHT_HOLDERS; i++) outputs += w->held[i].bytes ? (uint64_t)w->held[i].has.n : 0;
    if (w->n_expert) outputs = outputs / (uint64_t)w->n_expert * (uint64_t)w->n_packed;
    return w->tensor.bytes / (uint64_t)(w->tensor.ne[1] > 0 ? w->tensor.ne[1] : 1) * outputs;
}
