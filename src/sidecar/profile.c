/* SPDX-License-Identifier: MIT
 *
 * lutra_profile(): a model's operations and passes measured on the devices of a runtime, and kept in a file.
 */
#include <stdlib.h>

#include "base/affinity.h"
#include "base/settings.h"
#include "engine/passes.h"
#include "sched/traits.h"

enum { DEPTH = 256, FEW_ROWS = 1, MANY_ROWS = 256, REPS = 7, PASSES = 8, LIMIT_S = 300 };

/* A session with a pass in hand that has not run: DEPTH tokens in the cache, n_row rows behind them. */
struct probe {
    lutra_session *s;
    struct kv_view view;
    struct pass_args pass;
    int32_t seq;
    bool held;
};

static int32_t token_at(const lutra_session *s, int i)
{
    return (int32_t)((uint32_t)i * 2654435761u % (uint32_t)model_ops(session_model(s)->model)->n_vocab);
}

/* A prompt's rows, of which the last wants a result. */
static void set_rows(lutra_session *s, int32_t seq, int pos, int n)
{
    for (int i = 0; i < n; i++)
        session_rows(s)[i] = (struct row){.token = token_at(s, pos + i),
            .pos = pos + i,
            .seq = seq,
            .parent = i - 1,
            .want = i == n - 1 ? WANT_TOPK : ROW_BULK};
}

static int hold(struct probe *p, int n_row, struct lutra_error *err)
{
    if (p->held) session_let_go(p->s);
    p->held = false;
    set_rows(p->s, p->seq, DEPTH, n_row);
    TRY(session_hold(p->s, n_row, &p->view, &p->pass, err));
    p->held = true;
    /* As where a plan cuts by class, which is found only now. */
    for (int i = 0; n_row > FEW_ROWS && i < n_row - 1; i++) session_rows(p->s)[i].want |= ROW_BULK;
    return 0;
}

static int open_probe(struct probe *p, lutra_model *m, int n_row, struct lutra_error *err)
{
    struct lutra_session_settings set;
    lutra_session_settings_init(&set, sizeof set);
    set.n_batch = MANY_ROWS, set.n_ctx = DEPTH + MANY_ROWS;
    TRY(lutra_session_open(&p->s, m, &set, err));
    TRY(lutra_seq_open(p->s, DEPTH + MANY_ROWS, &p->seq, err));
    set_rows(p->s, p->seq, 0, DEPTH);
    TRY(session_forward(p->s, DEPTH, false, err));
    return hold(p, n_row, err);
}

static void close_probe(struct probe *p)
{
    if (p->held) session_let_go(p->s);
    lutra_session_close(&p->s);
}

struct telling {
    lutra_progress_fn fn;
    void *user;
    uint64_t begun_us;
    const lutra_model *model; /* these are set by measure() */
    struct probe *many;
};

static int tell(void *user, uint64_t done, uint64_t total)
{
    const struct telling *t = user;
    return t->fn ? t->fn(t->user, "measuring", done, total) : 0;
}

static void fetch(void *user, const struct tensor *tensor)
{
    const struct telling *t = user;
    weights_fetch(t->model->weights, tensor);
}

static int shorten(void *user, int n_row, struct lutra_error *err)
{
    return hold(((const struct telling *)user)->many, n_row, err);
}

/* What was left out to end in time. */
static void say(lutra_model *m, const struct profile_pass *p)
{
    if (p->n_left_out)
        log_line(&m->runtime->log, LUTRA_LOG_INFO, "profile: passes of %d rows, since those of %d would take too long",
            p->n_row, p->n_left_out);
    if (p->reps < REPS || p->passes < PASSES)
        log_line(&m->runtime->log, LUTRA_LOG_INFO,
            "profile: of %d rows, in %d s: operations in %d of %d passes, plans in %d of %d%s", p->n_row, LIMIT_S,
            p->reps, REPS, p->passes, PASSES, p->once ? ", no pass of the same plan before" : "");
}

static int measure(lutra_model *m, struct profile *out, struct telling *t, struct lutra_error *err)
{
    struct probe probe[PASS_CLASSES] = {{0}};
    struct device *device[PLAN_DEVICES];
    int rc = open_probe(&probe[PASS_FEW], m, FEW_ROWS, err);
    if (rc == 0) rc = open_probe(&probe[PASS_MANY], m, MANY_ROWS, err);
    if (rc == 0) {
        const double took_us = (double)(clock_now_us(m->runtime->clock) - t->begun_us), all_us = LIMIT_S * 1e6;
        struct profile_how how = {.list = model_ops(m->model),
            .device = device,
            .n_device = model_devices(m, device),
            .pass = {&probe[PASS_FEW].pass, &probe[PASS_MANY].pass},
            .clock = m->runtime->clock,
            .sync = m->runtime->sync,
            .reps = REPS,
            .passes = PASSES,
            .limit_us = took_us < all_us ? all_us - took_us : 1,
            .shorten = shorten,
            .progress = tell,
            .fetch = fetch,
            .user = t};
        struct affinity before;
        t->model = m, t->many = &probe[PASS_MANY];
        turn_take(&m->runtime->turn, TURN_ALL);
        affinity_set(m->runtime->devices.caller_cpu, &before);
        rc = profile_make(out, &how, err);
        affinity_restore(&before);
        turn_give(&m->runtime->turn, TURN_ALL);
    }
    for (int c = 0; c < PASS_CLASSES; c++) {
        close_probe(&probe[c]);
        if (rc == 0) say(m, &out->pass[c]);
    }
    return rc;
}

static int keep(const lutra_model *m, const char *path, const struct profile *p, char **out, struct lutra_error *err)
{
    char model[24];
    struct profile_key key;
    model_profile_key(m, model, &key);
    char *text = profile_text(p, &key);
    int rc = text ? profile_write(path, text, err) : lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: out of memory");
    if (rc == 0 && out)
        *out = text;
    else
        free(text);
    return rc;
}

/* What would only be known minutes later. */
static int check(const lutra_model *m, const char *path, struct lutra_error *err)
{
    struct device *device[PLAN_DEVICES];
    if (plan_devices_by_class(device, model_devices(m, device)))
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "profile: the parts of each class of rows are said: there is nothing to find");
    return profile_can_write(path, err);
}

static int profile(lutra_model *m, const char *path, struct telling *t, char **text, struct lutra_error *err)
{
    TRY(check(m, path, err));
    struct profile *p = malloc(sizeof *p);
    int rc = p ? measure(m, p, t, err) : lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: out of memory");
    if (rc == 0) rc = keep(m, path, p, text, err);
    free(p);
    return rc;
}

int lutra_profile(lutra_runtime *runtime, const char *model_path, const char *out_path,
    const struct lutra_model_settings *settings, char **text, struct lutra_error *err)
{
    struct lutra_model_settings set;
    lutra_model_settings_init(&set, sizeof set);
    if (text) *text = NULL;
    TRY(handle_check(runtime, "runtime", err));
    TRY(settings_copy(&set, sizeof set, settings, "profile", err));
    struct telling t = {.fn = set.progress, .user = set.progress_user, .begun_us = clock_now_us(runtime->clock)};
    lutra_model *m;
    set.plan = "even";
    set.vocab_only = false;
    TRY(lutra_model_open(&m, runtime, model_path, &set, err));
    char *beside = out_path ? NULL : model_profile_path(m);
    const char *path = out_path ? out_path : beside;
    int rc = path ? profile(m, path, &t, text, err) : lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: out of memory");
    free(beside);
    lutra_model_close(&m);
    return rc;
}

/* ---- without a model ---- */

enum { BUDGET_MS = 300, STREAM_MB = 256 };

int lutra_characterize(
    lutra_runtime *runtime, lutra_progress_fn progress, void *user, char **json, struct lutra_error *err)
{
    struct telling t = {.fn = progress, .user = user};
    struct affinity before;
    TRY(handle_check(runtime, "runtime", err));
    struct traits *traits = malloc(sizeof *traits);
    if (!traits) return lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: out of memory");
    const struct traits_how how = {.device = runtime->devices.device,
        .n_device = runtime->devices.n_device,
        .clock = runtime->clock,
        .budget_us = BUDGET_MS * 1e3,
        .memory_bytes = STREAM_MB * 1e6,
        .progress = tell,
        .user = &t};
    turn_take(&runtime->turn, TURN_ALL);
    affinity_set(runtime->devices.caller_cpu, &before);
    int rc = traits_measure(traits, &how, err);
    affinity_restore(&before);
    turn_give(&runtime->turn, TURN_ALL);
    *json = rc == 0 ? traits_text(traits, runtime->devices.text) : NULL;
    if (rc == 0 && !*json) rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "profile: out of memory");
    free(traits);
    return rc;
}
