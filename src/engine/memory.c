/* SPDX-License-Identifier: MIT
 *
 * A session's values and cache, in memory that every device of the model's plan can reach.
 *
 * One device allocates a buffer, the others that have memory of their own join it: at first those of the plan, later
 * those that take over from a lost one.
 */
#include "engine/session_impl.h"

/* The device that allocates: one with memory of its own, so that nothing of it needs to be copied; else the CPU, also
 * for values whose columns come from several devices.  For the cache, one that uses it. */
static struct device *home_of(const lutra_session *s, bool cache)
{
    const struct plan *plan = &s->model->plan;
    if (!cache && plan_mixes(plan)) return s->model->runtime->devices.cpu;
    for (int i = 0; i < plan->n_device; i++)
        if (plan->device[i]->memory && (!cache || plan_keeps_cache(plan, plan->device[i]))) return plan->device[i];
    return s->model->runtime->devices.cpu;
}

/* Wanted rows, those for hints among them. */
static int most_out(const lutra_session *s)
{
    return s->n_out > s->hints.n_row ? s->n_out : s->hints.n_row;
}

static int reserve(lutra_session *s, struct device *d, struct lutra_error *err)
{
    return d->ops->reserve(d, model_ops(s->model->model), s->n_batch, most_out(s), s->n_ctx, err);
}

static int open_values(lutra_session *s, struct lutra_error *err)
{
    struct device *d = s->home = home_of(s, false);
    const struct op_list *list = model_ops(s->model->model);
    for (int v = 0; v < list->n_value; v++) {
        size_t rows = (size_t)(list->value[v].rows == ROWS_ALL ? s->n_batch : most_out(s));
        TRY(d->ops->buffer_alloc(d, rows * (size_t)list->value[v].dim * sizeof(float), &s->value[v], err));
        s->bytes += s->value[v].bytes;
    }
    return 0;
}

/* Windows are freed where all of the cache is the CPU's. */
static int check_windows(const lutra_session *s, struct lutra_error *err)
{
    const struct plan *plan = &s->model->plan;
    for (int i = 0; s->swa_trim && i < plan->n_device; i++)
        if (plan->device[i]->memory)
            return lutra_fail(
                err, LUTRA_E_UNSUPPORTED, "swa_trim: device '%s' keeps the whole cache", plan->device[i]->name);
    return 0;
}

static int open_cache(lutra_session *s, const enum quant_type *type, struct lutra_error *err)
{
    struct device *d = s->cache_home = home_of(s, true);
    const struct op_list *list = model_ops(s->model->model);
    struct kv_settings kv =
        kv_settings_for(list, type, s->n_ctx, s->n_cache / KV_BLOCK, s->n_seq, s->n_batch, s->n_draft, s->swa_trim);
    kv.by_block = !d->memory;
    size_t bytes = kv_bytes(&kv);
    int rc = d->memory ? d->memory->cache_alloc(d, list, bytes, &s->kv_memory, err)
                       : d->ops->buffer_alloc(d, bytes, &s->kv_memory, err);
    if (rc < 0) return rc;
    size_t states = kv_state_bytes(&kv, NULL);
    d = s->model->runtime->devices.cpu;
    if (states) TRY(d->ops->buffer_alloc(d, states, &s->state_memory, err));
    kv.state = s->state_memory.host;
    s->bytes += s->kv_memory.bytes + s->state_memory.bytes;
    return kv_open(&s->kv, &kv, &s->kv_memory, err);
}

/* What lies where, of devices with memory of their own. */
static void report_memory(const lutra_session *s)
{
    const struct plan *plan = &s->model->plan;
    char line[512];
    for (int i = 0; i < plan->n_device; i++) {
        struct device *d = plan->device[i];
        for (int k = 0; d->extras && d->extras->report && d->extras->report(d, k, line, sizeof line); k++)
            log_line(&s->model->runtime->log, LUTRA_LOG_INFO, "%s", line);
    }
}

/* What devices say that they have done for its model. */
static void report_account(const lutra_session *s)
{
    const struct plan *plan = &s->model->plan;
    char line[512];
    for (int i = 0; i < plan->n_device; i++) {
        struct device *d = plan->device[i];
        for (int k = 0; d->extras && d->extras->account && d->extras->account(d, plan->list, k, line, sizeof line); k++)
            log_line(&s->model->runtime->log, LUTRA_LOG_INFO, "%s", line);
    }
}

/* The session's note of a device; NULL: there is none. */
static struct joined *find(lutra_session *s, const struct device *d)
{
    for (int i = 0; i < s->n_joined; i++)
        if (s->joined[i].device == d) return &s->joined[i];
    return NULL;
}

static void leave(lutra_session *s, const struct joined *j)
{
    struct device *d = j->device;
    if (j->cache && s->cache_home != d) d->memory->leave(d, &s->kv_memory);
    for (int v = 0; s->home != d && v < j->n_value; v++) d->memory->leave(d, &s->value[v]);
}

/* The values, and the cache where it is used; what has been joined is noted. */
static int join(lutra_session *s, struct joined *j, struct lutra_error *err)
{
    struct device *d = j->device;
    const struct op_list *list = model_ops(s->model->model);
    for (; j->n_value < list->n_value; j->n_value++)
        if (s->home != d) TRY(d->memory->join(d, NULL, &s->value[j->n_value], err));
    if (j->cache || !plan_keeps_cache(&s->model->plan, d)) return 0;
    if (s->cache_home != d) TRY(d->memory->join(d, list, &s->kv_memory, err));
    j->cache = true;
    return 0;
}

/* The devices of a plan. */
static int follow(lutra_session *s, const struct plan *plan, struct lutra_error *err)
{
    for (int i = 0; i < plan->n_device; i++) {
        struct device *d = plan->device[i];
        struct joined *j = find(s, d);
        if (!d->memory) continue;
        if (!j) {
            TRY(reserve(s, d, err));
            j = &s->joined[s->n_joined++];
            *j = (struct joined){.device = d};
        }
        TRY(join(s, j, err));
    }
    return 0;
}

/* Of another plan than the last time. */
static int follow_hints(lutra_session *s, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    if (!h->n_row || h->n_plan == s->model->n_plan + 1) return 0;
    TRY(hints_plan(s, err));
    for (int i = 0; i < h->plan->n_device; i++) {
        struct device *d = h->plan->device[i];
        TRY(d->ops->reserve(d, &h->list, s->n_batch, most_out(s), s->n_ctx, err));
    }
    TRY(follow(s, h->plan, err));
    h->n_plan = s->model->n_plan + 1;
    return 0;
}

int memory_follow(lutra_session *s, struct lutra_error *err)
{
    TRY(follow(s, &s->model->plan, err));
    TRY(follow(s, &s->model->plan_many, err));
    TRY(follow_hints(s, err));
    if (s->n_plan != s->model->n_plan) kv_host_wrote_all(s->kv); /* who reads a layer may have nothing of it */
    s->n_plan = s->model->n_plan;
    return 0;
}

static int reserve_plan(lutra_session *s, const struct plan *plan, struct lutra_error *err)
{
    for (int i = 0; i < plan->n_device; i++)
        if (plan->device[i] != s->model->runtime->devices.cpu) TRY(reserve(s, plan->device[i], err));
    return 0;
}

int memory_open(lutra_session *s, const enum quant_type *type, struct lutra_error *err)
{
    TRY(check_windows(s, err));
    TRY(reserve(s, s->model->runtime->devices.cpu, err)); /* it stands behind all others */
    TRY(reserve_plan(s, &s->model->plan, err));
    TRY(reserve_plan(s, &s->model->plan_many, err));
    TRY(open_cache(s, type, err));
    TRY(open_values(s, err));
    TRY(memory_follow(s, err));
    report_memory(s);
    return 0;
}

void memory_close(lutra_session *s)
{
    turn_take(&s->model->runtime->turn, TURN_ALL);
    hints_close(s);
    report_account(s);
    for (int i = 0; i < s->n_joined; i++) leave(s, &s->joined[i]);
    if (s->kv_memory.host) s->cache_home->ops->buffer_free(s->cache_home, &s->kv_memory);
    struct device *cpu = s->model->runtime->devices.cpu;
    if (s->state_memory.host) cpu->ops->buffer_free(cpu, &s->state_memory);
    for (int v = 0; v < VALUE_MAX; v++)
        if (s->value[v].host) s->home->ops->buffer_free(s->home, &s->value[v]);
    turn_give(&s->model->runtime->turn, TURN_ALL);
}
