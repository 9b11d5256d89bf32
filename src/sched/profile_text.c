/* SPDX-License-Identifier: MIT
 *
 * A profile as JSON: written whole, read for what a plan needs and for the times that people ask for.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/profile.h"

enum { VERSION = 4 };

static const char *const class_name[] = {"few", "many"};

/* ---- writing ---- */

static json_t *parts_json(const struct profile *p, const int *part)
{
    json_t *a = json_array();
    for (int d = 0; d < p->n_device; d++) json_array_append_new(a, json_integer(part[d]));
    return a;
}

static json_t *time_json(struct profile_time t)
{
    return json_pack("[ff]", t.us, t.spread_us);
}

static json_t *times_json(const struct profile *p, const struct profile_time *time)
{
    json_t *a = json_array();
    for (int d = 0; d < p->n_device; d++) json_array_append_new(a, time_json(time[d]));
    return a;
}

static json_t *shape_json(const struct profile *p, const struct profile_kind *k, const struct profile_shape *s)
{
    json_t *o = json_pack("{so}", "alone", times_json(p, s->alone)), *together = json_array();
    for (int set = 0; k->cut && set < PROFILE_SETS; set++)
        for (int i = 0; i < s->n_joint[set]; i++)
            json_array_append_new(together, json_pack("{soso}", "part", parts_json(p, s->joint[set][i].part), "us",
                                                times_json(p, s->joint[set][i].time)));
    if (k->cut) json_object_set_new(o, "part", parts_json(p, s->part));
    if (k->cut) json_object_set_new(o, "free", parts_json(p, s->free));
    json_object_set_new(o, "together", together);
    return o;
}

static json_t *pass_json(const struct profile_pass *pass, int n_plan)
{
    json_t *predicted = json_object(), *measured = json_object(), *uneven = json_object();
    for (int i = 0; i < n_plan; i++) {
        const char *name = profile_plan_name((enum profile_plan)i);
        if (i < PLAN_CLASS) json_object_set_new(predicted, name, json_real(pass->predicted_us[i]));
        json_object_set_new(measured, name, time_json(pass->measured[i]));
        json_object_set_new(uneven, name, json_real(pass->uneven[i]));
    }
    return json_pack("{si si si si sb sf so so so ss}", "rows", pass->n_row, "rows_left_out", pass->n_left_out, "reps",
        pass->reps, "passes", pass->passes, "once", pass->once, "sync_us", pass->sync_us, "predicted_us", predicted,
        "measured_us", measured, "uneven", uneven, "best", profile_plan_name(pass->best));
}

char *profile_text(const struct profile *p, const struct profile_key *key)
{
    json_t *devices = json_array(), *kinds = json_array(), *passes = json_object();
    for (int d = 0; d < p->n_device; d++) json_array_append_new(devices, json_string(p->device[d]));
    for (int k = 0; k < p->n_kind; k++) {
        const struct profile_kind *kind = &p->kind[k];
        json_t *o = json_pack("{ss sb si}", "name", kind->name, "cut", (int)kind->cut, "count", kind->count);
        for (int c = 0; c < PASS_CLASSES; c++) json_object_set_new(o, class_name[c], shape_json(p, kind, &kind->of[c]));
        json_array_append_new(kinds, o);
    }
    for (int c = 0; c < PASS_CLASSES; c++)
        json_object_set_new(passes, class_name[c], pass_json(&p->pass[c], p->n_plan));
    json_t *all =
        json_pack("{si ss ss ss si so so so}", "lutra_profile", VERSION, "build", key->build, "model", key->model,
            "machine", key->machine, "grid", PROFILE_GRID, "devices", devices, "passes", passes, "kinds", kinds);
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    return text;
}

/* ---- reading ---- */

static int wrong(struct lutra_error *err, const char *key)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "profile: key '%s' is missing or not of its kind", key);
}

static const char *string_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int read_int(const json_t *o, const char *key, int most, int *out, struct lutra_error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > most) return wrong(err, key);
    *out = (int)json_integer_value(v);
    return 0;
}

static int read_us(const json_t *v, const char *key, double *out, struct lutra_error *err)
{
    *out = json_number_value(v);
    return json_is_number(v) && *out >= 0 && *out < 1e12 ? 0 : wrong(err, key);
}

static int read_time(const json_t *v, const char *key, struct profile_time *out, struct lutra_error *err)
{
    if (!json_is_array(v) || json_array_size(v) != 2) return wrong(err, key);
    TRY(read_us(json_array_get(v, 0), key, &out->us, err));
    return read_us(json_array_get(v, 1), key, &out->spread_us, err);
}

static int read_times(const json_t *o, const char *key, int n, struct profile_time *out, struct lutra_error *err)
{
    const json_t *a = json_object_get(o, key);
    if (!json_is_array(a) || json_array_size(a) != (size_t)n) return wrong(err, key);
    for (int d = 0; d < n; d++) TRY(read_time(json_array_get(a, (size_t)d), key, &out[d], err));
    return 0;
}

/* Sixteenths, which are all of them together. */
static int read_parts(const json_t *o, const char *key, int n, int *part, struct lutra_error *err)
{
    const json_t *a = json_object_get(o, key);
    int64_t sum = 0;
    if (!json_is_array(a) || json_array_size(a) != (size_t)n) return wrong(err, key);
    for (int d = 0; d < n; d++) {
        const json_t *v = json_array_get(a, (size_t)d);
        int64_t x = json_integer_value(v);
        if (!json_is_integer(v) || x < 0 || x > PROFILE_GRID) return wrong(err, key);
        sum += x;
        part[d] = (int)x;
    }
    return sum == PROFILE_GRID ? 0 : wrong(err, key);
}

static int read_shape(
    const json_t *o, int n, const struct profile_kind *k, struct profile_shape *s, struct lutra_error *err)
{
    TRY(read_times(o, "alone", n, s->alone, err));
    if (k->cut) TRY(read_parts(o, "part", n, s->part, err));
    if (k->cut) TRY(read_parts(o, "free", n, s->free, err));
    const json_t *together = json_object_get(o, "together");
    if (!json_is_array(together)) return wrong(err, "together");
    for (size_t i = 0; i < json_array_size(together); i++) {
        const json_t *one = json_array_get(together, i);
        struct profile_joint j = {{0}, {{0, 0}}};
        unsigned set = 0;
        TRY(read_parts(one, "part", n, j.part, err));
        TRY(read_times(one, "us", n, j.time, err));
        for (int d = 0; d < n; d++) set |= (j.part[d] > 0 ? 1u : 0u) << d;
        if (s->n_joint[set] == PROFILE_POINTS) return wrong(err, "together");
        s->joint[set][s->n_joint[set]++] = j;
    }
    return 0;
}

static int read_kind(const json_t *o, int n, struct profile_kind *k, struct lutra_error *err)
{
    const char *name = string_of(o, "name");
    if (!*name || strlen(name) >= sizeof k->name || !json_is_boolean(json_object_get(o, "cut")))
        return wrong(err, "kinds");
    strcpy(k->name, name);
    k->cut = json_is_true(json_object_get(o, "cut"));
    TRY(read_int(o, "count", PLAN_PIECES, &k->count, err));
    for (int c = 0; c < PASS_CLASSES; c++) TRY(read_shape(json_object_get(o, class_name[c]), n, k, &k->of[c], err));
    return 0;
}

static int read_pass(const json_t *o, int n_plan, struct profile_pass *pass, struct lutra_error *err)
{
    const char *best = string_of(o, "best");
    int found = -1;
    TRY(read_int(o, "rows", 1 << 20, &pass->n_row, err));
    TRY(read_int(o, "rows_left_out", 1 << 20, &pass->n_left_out, err));
    TRY(read_int(o, "reps", 1 << 20, &pass->reps, err));
    TRY(read_int(o, "passes", 1 << 20, &pass->passes, err));
    if (!json_is_boolean(json_object_get(o, "once"))) return wrong(err, "once");
    pass->once = json_is_true(json_object_get(o, "once"));
    TRY(read_us(json_object_get(o, "sync_us"), "sync_us", &pass->sync_us, err));
    for (int i = 0; i < n_plan; i++) {
        const char *name = profile_plan_name((enum profile_plan)i);
        const json_t *predicted = json_object_get(json_object_get(o, "predicted_us"), name);
        if (i < PLAN_CLASS) TRY(read_us(predicted, "predicted_us", &pass->predicted_us[i], err));
        TRY(read_time(
            json_object_get(json_object_get(o, "measured_us"), name), "measured_us", &pass->measured[i], err));
        TRY(read_us(json_object_get(json_object_get(o, "uneven"), name), "uneven", &pass->uneven[i], err));
        if (!strcmp(best, name)) found = i;
    }
    if (found < 0) return wrong(err, "best");
    pass->best = (enum profile_plan)found;
    return 0;
}

/* The profile is this program's, of this model, machine and devices. */
static int check_key(const json_t *all, const struct profile_key *key, struct lutra_error *err)
{
    int version = 0;
    TRY(read_int(all, "lutra_profile", 1 << 20, &version, err));
    if (version != VERSION)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "profile: of version %d, not %d", version, VERSION);
    if (strcmp(string_of(all, "build"), key->build) != 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "profile: of another build of lutra");
    if (strcmp(string_of(all, "model"), key->model) != 0)
        return lutra_fail(
            err, LUTRA_E_UNSUPPORTED, "profile: of another model file, adapter or -ot, or the file has changed");
    if (strcmp(string_of(all, "machine"), key->machine) != 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "profile: of other devices, threads or another machine");
    return 0;
}

static int read_all(const json_t *all, const struct profile_key *key, struct profile *p, struct lutra_error *err)
{
    const json_t *devices = json_object_get(all, "devices"), *kinds = json_object_get(all, "kinds");
    int grid = 0;
    TRY(check_key(all, key, err));
    TRY(read_int(all, "grid", 1 << 20, &grid, err));
    if (grid != PROFILE_GRID) return wrong(err, "grid");
    if (!json_is_array(devices) || json_array_size(devices) < 1 || json_array_size(devices) > SOLVE_DEVICES)
        return wrong(err, "devices");
    if (!json_is_array(kinds) || json_array_size(kinds) > PROFILE_KINDS) return wrong(err, "kinds");
    for (size_t d = 0; d < json_array_size(devices); d++) {
        const char *name = json_string_value(json_array_get(devices, d));
        if (!name || !*name || strlen(name) >= sizeof *p->device) return wrong(err, "devices");
        strcpy(p->device[p->n_device++], name);
    }
    for (size_t k = 0; k < json_array_size(kinds); k++)
        TRY(read_kind(json_array_get(kinds, k), p->n_device, &p->kind[p->n_kind++], err));
    const json_t *passes = json_object_get(all, "passes"), *few = json_object_get(passes, *class_name);
    p->n_plan = json_object_get(json_object_get(few, "measured_us"), "class") ? PROFILE_PLANS : PLAN_CLASS;
    for (int c = 0; c < PASS_CLASSES; c++)
        TRY(read_pass(json_object_get(passes, class_name[c]), p->n_plan, &p->pass[c], err));
    return 0;
}

int profile_parse(struct profile *p, const char *text, size_t n, const struct profile_key *key, struct lutra_error *err)
{
    json_error_t why;
    memset(p, 0, sizeof *p);
    json_t *all = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (!all) return lutra_fail(err, LUTRA_E_FORMAT, "profile: line %d: %.100s", why.line, why.text);
    int rc = read_all(all, key, p, err);
    json_decref(all);
    if (rc < 0) memset(p, 0, sizeof *p);
    return rc;
}
