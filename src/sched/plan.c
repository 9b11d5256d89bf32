/* SPDX-License-Identifier: MIT */
#include "sched/plan.h"

#include <stdio.h>
#include <string.h>

/* Whether a device does everything that uses the same cache: that stays together. */
static int supports(struct device *d, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    const struct op_info *info = op_info_of(op->kind);
    TRY(d->ops->supports(d, list, op, err));
    if (!info->reads_cache && !info->writes_cache) return 0;
    for (int i = 0; i < list->n_op; i++)
        if (op_uses_cache(list, &list->op[i], list->layer[op->layer].cache))
            TRY(d->ops->supports(d, list, &list->op[i], err));
    return 0;
}

/* The first device that can do an operation, or the last refusal. */
static int choose(const struct op_list *list, const struct op *op, struct device *const *device, int n_device,
    struct device **out, struct lutra_error *err)
{
    struct lutra_error why = {.what = "there is no device"};
    for (int d = 0; d < n_device; d++) {
        if (supports(device[d], list, op, &why) < 0) continue;
        *out = device[d];
        return 0;
    }
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "operation %s of layer %d: %s", op_name(op->kind), op->layer, why.what);
}

int plan_open(
    struct plan *plan, const struct op_list *list, struct device *const *device, int n_device, struct lutra_error *err)
{
    plan->list = list;
    plan->n_part = 0;
    for (int i = 0; i < list->n_op; i++) {
        struct device *d = NULL;
        TRY(choose(list, &list->op[i], device, n_device, &d, err));
        if (plan->n_part > 0 && plan->part[plan->n_part - 1].device == d) {
            plan->part[plan->n_part - 1].n++;
            continue;
        }
        if (plan->n_part == PLAN_MAX_PART)
            return lutra_fail(
                err, LUTRA_E_UNSUPPORTED, "the devices would change more than %d times in a pass", PLAN_MAX_PART);
        plan->part[plan->n_part++] = (struct plan_part){d, i, 1};
    }
    return 0;
}

/* Values change hands where the device changes. */
static int hand_over(
    const struct plan *plan, const struct step *step, struct device *from, struct device *to, struct lutra_error *err)
{
    for (int v = 0; v < plan->list->n_value; v++) {
        struct buffer *b = &step->value[v];
        if (b->writer != from) continue;
        if (from->ops->publish) TRY(from->ops->publish(from, b, err));
        if (to->ops->acquire) to->ops->acquire(to, b);
    }
    return 0;
}

static void mark_writes(const struct plan *plan, const struct plan_part *part, const struct step *step)
{
    for (int i = part->first; i < part->first + part->n; i++) {
        const struct op *op = &plan->list->op[i];
        for (int k = 0; k < op->n_out; k++) step->value[op->out[k]].writer = part->device;
    }
}

static int run_once(
    const struct plan *plan, const struct step *step, struct clock clock, uint64_t deadline_us, struct lutra_error *err)
{
    struct ticket before = {0};
    for (int p = 0; p < plan->n_part; p++) {
        const struct plan_part *part = &plan->part[p];
        if (step->cancel && atomic_load_explicit(step->cancel, memory_order_relaxed))
            return lutra_fail(err, LUTRA_E_CANCELLED, "cancelled");
        if (clock_now_us(clock) >= deadline_us) return lutra_fail(err, LUTRA_E_DEADLINE, "the deadline has passed");
        if (p > 0 && plan->part[p - 1].device != part->device) {
            TRY(before.device->ops->wait(before.device, &before, deadline_us, err));
            TRY(hand_over(plan, step, before.device, part->device, err));
        }
        struct segment segment = {&plan->list->op[part->first], part->n, plan->list, step};
        TRY(part->device->ops->submit(part->device, &segment, p > 0 ? &before : NULL, p > 0, &before, err));
        mark_writes(plan, part, step);
    }
    return before.device->ops->wait(before.device, &before, deadline_us, err);
}

int plan_run(const struct plan *plan, const struct step *step, struct clock clock, uint64_t deadline_us,
    const struct plan_rescue *rescue, struct lutra_error *err)
{
    int rc = run_once(plan, step, clock, deadline_us, err);
    while (rc == LUTRA_E_DEVICE_LOST && rescue) {
        for (int v = 0; v < plan->list->n_value; v++) step->value[v].writer = NULL;
        TRY(rescue->replace(rescue->user, err));
        rc = run_once(plan, step, clock, deadline_us, err);
    }
    return rc;
}

void plan_demand(const struct plan *plan, const struct step *step, struct demand *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < plan->list->n_op; i++) {
        struct demand one;
        op_demand(plan->list, &plan->list->op[i], step, &one);
        out->weight_bytes += one.weight_bytes;
        out->act_bytes += one.act_bytes;
        out->cache_bytes += one.cache_bytes;
        out->mac += one.mac;
    }
}

int plan_bulk_rows(const struct plan *plan)
{
    int most = 0;
    for (int p = 0; p < plan->n_part; p++) {
        struct device *d = plan->part[p].device;
        for (int i = 0; d->ops->bulk_rows && i < plan->part[p].n; i++) {
            int n = d->ops->bulk_rows(d, &plan->list->op[plan->part[p].first + i]);
            if (n > most) most = n;
        }
    }
    return most;
}

struct device_caps plan_caps(const struct plan *plan)
{
    struct device_caps caps = plan->part[0].device->caps;
    for (int p = 1; p < plan->n_part; p++) {
        const struct device_caps *c = &plan->part[p].device->caps;
        if (c->max_rows < caps.max_rows) caps.max_rows = c->max_rows;
        if (c->flat_rows < caps.flat_rows) caps.flat_rows = c->flat_rows;
        if (c->invariant_rows < caps.invariant_rows) caps.invariant_rows = c->invariant_rows;
        caps.f16_cache |= c->f16_cache;
    }
    return caps;
}

/* How many operations of a kind a device runs. */
static int count(const struct plan *plan, const struct device *d, enum op_kind kind)
{
    int n = 0;
    for (int p = 0; p < plan->n_part; p++)
        for (int i = plan->part[p].first; plan->part[p].device == d && i < plan->part[p].first + plan->part[p].n; i++)
            n += plan->list->op[i].kind == kind;
    return n;
}

static bool describe_device(const struct plan *plan, const struct device *d, char *text, size_t size)
{
    int at = snprintf(text, size, "%s runs", d->name), n_kind = 0;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        int n = count(plan, d, (enum op_kind)kind);
        if (!n) continue;
        if (at >= 0 && (size_t)at < size)
            at += snprintf(text + at, size - (size_t)at, "%s %d %s", n_kind ? "," : "", n, op_name((enum op_kind)kind));
        n_kind++;
    }
    return n_kind > 0;
}

bool plan_report(const struct plan *plan, struct device *first, int line, char *text, size_t size)
{
    struct device *seen[2] = {0};
    struct lutra_error why = {0}, last = {0};
    for (int p = 0, n = 0; p < plan->n_part; p++) {
        struct device *d = plan->part[p].device;
        if (d == seen[0] || d == seen[1] || n == 2) continue;
        seen[n++] = d;
        if (line-- == 0) return describe_device(plan, d, text, size);
    }
    for (int p = 0; p < plan->n_part; p++) {
        const struct plan_part *part = &plan->part[p];
        for (int i = part->first; part->device != first && i < part->first + part->n; i++) {
            const struct op *op = &plan->list->op[i];
            if (first->ops->supports(first, plan->list, op, &why) == 0 || !strcmp(why.what, last.what)) continue;
            last = why;
            if (line-- > 0) continue;
            snprintf(text, size, "%s runs %s of layer %d because of %s", part->device->name, op_name(op->kind),
                op->layer, why.what);
            return true;
        }
    }
    return false;
}
