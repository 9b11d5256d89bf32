/* SPDX-License-Identifier: MIT
 *
 * The packed cache of a model, found when it is opened (beside/pack.c writes it); and what passes cost, beside it.
 */
#include "weights/packed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "engine/packed_impl.h"
#include "engine/session_impl.h"
#include "weights/figures.h"

/* Where the packed copy of a model is looked for; to be freed. */
static char *path_beside(const char *model)
{
    size_t room = strlen(model) + sizeof LUTRA_PACKED_SUFFIX;
    char *path = malloc(room);
    if (path) snprintf(path, room, "%s%s", model, LUTRA_PACKED_SUFFIX);
    return path;
}

void packed_cache_known(const struct lutra_model *m)
{
    struct lutra_error why;
    const char *machine = m->runtime->devices.text;
    if (!m->packed || m->lazy_weights || !m->check_packed || m->n_damaged || packed_is_good(m->packed, machine)) return;
    if (packed_note_good(m->packed, machine, &why) < 0)
        log_line(&m->runtime->log, LUTRA_LOG_INFO, "the packed copy is compared again next time: %s", why.what);
}

void packed_cache_find(struct lutra_model *m)
{
    int n = model_n_weight(m->model), n_found = 0;
    const char *missing = NULL; /* a layout wanted that the file does not have */
    if (!m->packed) return;
    bool copy = !packed_in_huge_pages(m->packed);
    for (int i = 0; i < n; i++) {
        struct weight *w = model_weight(m->model, i);
        struct packed_view v;
        if (weight_is_ready(w, NULL)) continue;
        bool kept = packed_view_of(w, &v);
        w->stored = kept ? packed_find(m->packed, v.layout, w->tensor.name, v.bytes, &w->stored_sum) : NULL;
        w->copy_stored = copy;
        w->check_stored = m->check_packed;
        n_found += w->stored != NULL;
        if (kept && !w->stored) missing = v.layout;
    }
    const char *path = weights_path(m->packed), *how = copy ? "copied" : "mapped";
    if (!missing)
        log_line(&m->runtime->log, LUTRA_LOG_INFO, "%s: %d of %d matrices %s from it", path, n_found, n, how);
    else
        log_line(&m->runtime->log, LUTRA_LOG_WARN,
            "%s: %d of %d matrices %s from it; others are packed again, since this processor's kernels read layout %s, "
            "which the file has not: make it here with lutra pack",
            path, n_found, n, how, missing);
}

int packed_cache_open(struct lutra_model *m, const struct lutra_model_settings *set, struct lutra_error *err)
{
    const char *model = weights_path(m->weights), *wish = set->packed;
    struct lutra_error why;
    if (wish && !*wish) return 0;
    char *path = wish ? strdup(wish) : path_beside(model);
    if (!path) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", model);
    bool there = access(path, F_OK) == 0;
    int rc = there || !wish ? 0 : lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
    if (there && packed_open(&m->packed, path, m->weights, &why) < 0)
        log_line(&m->runtime->log, LUTRA_LOG_WARN, "%s; left out", why.what);
    m->check_packed = set->check_packed || (m->packed && !packed_is_good(m->packed, m->runtime->devices.text));
    if (m->packed && m->check_packed && !packed_gaps_clean(m->packed)) {
        log_line(&m->runtime->log, LUTRA_LOG_WARN, "%s: damaged between its tensors; left out", path);
        weights_close(&m->packed);
    }
    free(path);
    return rc;
}

/* ---- costs ---- */

enum { COSTS_LEAST = 50 /* passes of a session that are worth keeping */ };

/* Model, machine and what runs where: the same rows cost the same.  False: there is no packed copy. */
static bool costs_of(const lutra_session *s, char *path, size_t n, uint64_t *key)
{
    const lutra_model *m = s->model;
    const struct demand *all = m->demand.rows;
    if (!m->packed) return false;
    char who[512];
    int k = snprintf(who, sizeof who, "%s\n%s\n%s\n%s\n%llu %llu", m->runtime->devices.text, m->name, m->file_type,
        m->plan_text, (unsigned long long)all[ROWS_ALL].weight_bytes, (unsigned long long)all[ROWS_ALL].mac);
    *key = hash_bytes(ROW_COST_KNOTS, who, k < (int)sizeof who ? (size_t)k : sizeof who - 1);
    return snprintf(path, n, "%s.costs", weights_path(m->packed)) < (int)n;
}

void packed_costs_read(lutra_session *s)
{
    char path[4096];
    uint64_t key;
    double us[ROW_COST_KNOTS];
    const lutra_model *m = s->model;
    if (row_cost_known(&m->cost) && m->cost_plan == m->n_plan)
        row_cost_know(&s->cost, m->cost.us);
    else if (costs_of(s, path, sizeof path, &key) && figures_read(path, key, us, ROW_COST_KNOTS))
        row_cost_know(&s->cost, us);
}

void packed_costs_write(const lutra_session *s)
{
    char path[4096];
    uint64_t key;
    struct lutra_error why;
    if (s->n_cost < COSTS_LEAST) return;
    turn_take(&s->model->runtime->turn, TURN_ALL);
    s->model->cost = s->cost;
    s->model->cost_plan = s->model->n_plan;
    turn_give(&s->model->runtime->turn, TURN_ALL);
    if (!s->speculator || !costs_of(s, path, sizeof path, &key)) return;
    if (figures_write(path, key, s->cost.us, ROW_COST_KNOTS, &why) < 0)
        log_line(&s->model->runtime->log, LUTRA_LOG_INFO, "costs of rows are not kept: %s", why.what);
}
