/* SPDX-License-Identifier: MIT
 *
 * The plans of a model, for passes of few rows and of many: as a profile says that lies beside it, or as it is told to.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/hash.h"
#include "engine/model_impl.h"
#include "weights/packed.h"

struct plan *model_plan(lutra_model *m, int n_row)
{
    return pass_class_of(n_row) == PASS_FEW ? &m->plan : &m->plan_many;
}

/* ---- devices ---- */

int model_devices(const lutra_model *m, struct device *out[PLAN_DEVICES])
{
    const lutra_runtime *rt = m->runtime;
    int n = 0;
    for (int i = 0; i < rt->devices.n_device; i++)
        if (atomic_load(&m->devices) >> i & 1 && !atomic_load(&rt->lost[i])) out[n++] = rt->devices.device[i];
    return n;
}

bool model_uses(const lutra_model *m, const struct device *d)
{
    const struct plan *const plans[] = {&m->plan, &m->plan_many};
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < plans[p]->n_device; i++)
            if (plans[p]->device[i] == d) return true;
    return false;
}

int model_device_named(
    const lutra_runtime *rt, const char *setting, const char *name, size_t n, struct lutra_error *err)
{
    char names[160] = "";
    for (int i = 0, at = 0; i < rt->devices.n_device; i++) {
        if (atomic_load(&rt->lost[i])) continue;
        if (strlen(rt->devices.device[i]->name) == n && strncasecmp(rt->devices.device[i]->name, name, n) == 0)
            return i;
        if ((size_t)at < sizeof names)
            at += snprintf(names + at, sizeof names - (size_t)at, "%s%s", at ? ", " : "", rt->devices.device[i]->name);
    }
    return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: '%.*s' is no device of this runtime (%s)", setting,
        (int)(n < 60 ? n : 60), name, names);
}

int model_choose_devices(lutra_model *m, const char *names, struct lutra_error *err)
{
    struct device *left[PLAN_DEVICES];
    unsigned set = 0;
    for (const char *name = names; name;) {
        size_t n = strcspn(name, ",");
        int number = model_device_named(m->runtime, "device", name, n, err);
        if (number < 0) return number;
        set |= 1u << number;
        name = name[n] ? name + n + 1 : NULL;
    }
    atomic_store(&m->devices, names ? set : TURN_ALL);
    if (model_devices(m, left) == 0) atomic_store(&m->devices, TURN_ALL);
    return 0;
}

/* Whether several of them share operations; some: they could. */
static bool shares(const lutra_model *m, bool some)
{
    struct device *device[PLAN_DEVICES];
    int n = 0;
    for (int i = model_devices(m, device) - 1; i >= 0; i--)
        n += plan_part_is_said(device[i]) || ((some || m->mixes) && device[i]->caps.shares);
    return n > 1;
}

/* ---- its profile ---- */

/* A hash of what makes the model another one than its file says: adapters, and tensors that are kept for a device.
 * 0: nothing. */
static uint64_t variant_of(const lutra_model *m)
{
    uint64_t sum = m->adapters;
    for (int i = 0; i < model_n_weight(m->model); i++) {
        const struct weight *w = model_weight(m->model, i);
        if (!w->only) continue;
        sum = hash_bytes(sum, w->tensor.name, strlen(w->tensor.name));
        sum = hash_bytes(sum, w->only->name, strlen(w->only->name));
    }
    return sum;
}

void model_profile_key(const lutra_model *m, char model[24], struct profile_key *key)
{
    snprintf(model, 24, "%016llx", (unsigned long long)(packed_identity(m->weights) ^ variant_of(m)));
    *key = (struct profile_key){.build = lutra_version(), .model = model, .machine = m->runtime->devices.text};
}

char *model_profile_path(const lutra_model *m)
{
    const char *model = weights_path(m->weights);
    size_t room = strlen(model) + sizeof m->runtime->devices.text + sizeof LUTRA_PROFILE_SUFFIX + 20, n;
    const uint64_t variant = variant_of(m);
    char *path = malloc(room);
    if (!path) return NULL;
    n = (size_t)snprintf(path, room, "%s.", model);
    struct device *device[PLAN_DEVICES];
    for (int i = 0, k = model_devices(m, device); i < k; i++)
        for (const char *c = device[i]->name; *c && n < room - sizeof LUTRA_PROFILE_SUFFIX - 10; c++)
            path[n++] = (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ? *c : '-';
    if (variant) n += (size_t)snprintf(path + n, room - n, "-%08x", (unsigned)(variant ^ variant >> 32));
    snprintf(path + n, room - n, "%s", LUTRA_PROFILE_SUFFIX);
    return path;
}

static int read_profile(lutra_model *m, const char *path, struct lutra_error *err)
{
    char model[24];
    struct profile_key key;
    model_profile_key(m, model, &key);
    return profile_read(&m->profile, path, &key, err);
}

/* ---- which plan ---- */

/* Its profile, where devices could share at all; a bad one counts only where it was asked for. */
static int find_profile(lutra_model *m, const char *file, bool needed, struct lutra_error *err)
{
    struct lutra_error why;
    char *beside = file ? NULL : model_profile_path(m);
    const char *path = file ? file : beside;
    int rc = 0;
    if (!path) return lutra_fail(err, LUTRA_E_NO_MEMORY, "plan: out of memory");
    if (needed || access(path, F_OK) == 0) rc = read_profile(m, path, &why);
    if (rc < 0 && needed)
        lutra_fail(err, rc, "plan: %s; 'lutra profile' makes one%s", why.what,
            file && access(file, F_OK) != 0 ? "; auto, one, even, class, solved and free are names" : "");
    else if (rc < 0)
        log_line(&m->runtime->log, LUTRA_LOG_WARN, "%s; left out, make it again with 'lutra profile'", why.what);
    free(beside);
    return needed ? rc : 0;
}

int model_choose_plans(lutra_model *m, const char *wish, struct lutra_error *err)
{
    struct device *device[PLAN_DEVICES];
    bool automatic = !wish || !*wish || !strcmp(wish, "auto");
    int named = automatic ? -1 : profile_plan_named(wish);
    const char *file = !automatic && named < 0 ? wish : NULL;
    for (int c = 0; c < PASS_CLASSES; c++) m->plan_kind[c] = named >= 0 ? (enum profile_plan)named : PLAN_EVEN;
    for (int i = model_devices(m, device) - 1; named == PLAN_FREE && i >= 0; i--)
        if (device[i]->caps.one_share)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "plan free: %s has one part of a weight", device[i]->name);
    bool solved = named == PLAN_SOLVED || named == PLAN_FREE;
    if (file || solved || (automatic && shares(m, true) && !m->runtime->devices.split))
        TRY(find_profile(m, file, !automatic, err));
    for (int c = 0; m->profile && named < 0 && c < PASS_CLASSES; c++) m->plan_kind[c] = m->profile->pass[c].best;
    m->mixes = named == PLAN_EVEN || named == PLAN_CLASS || m->runtime->devices.split || m->profile;
    return 0;
}

/* A cut between devices whose numbers differ is the same for few rows and many, but for PLAN_FREE: what a row gives may
 * not depend on how many others are beside it.  It may depend on the row's class. */
static bool find_cuts(const lutra_model *m, enum pass_class rows, const struct op_list *list,
    struct device *const *device, int n_device, struct plan_cut *cut)
{
    const bool mixed = m->mixes && plan_devices_differ(device, n_device);
    if (mixed && m->plan_kind[rows] != PLAN_FREE) rows = PASS_FEW;
    enum profile_plan kind = m->plan_kind[rows];
    if (kind == PLAN_EVEN && !mixed && !plan_devices_by_class(device, n_device)) return false;
    if (kind == PLAN_EVEN || kind == PLAN_CLASS) {
        const struct plan_cut each = (kind == PLAN_EVEN ? plan_cut_evenly : plan_cut_by_class)(device, n_device);
        for (int i = 0; i < list->n_op; i++) cut[i] = each;
        return true;
    }
    if (kind == PLAN_SOLVED || kind == PLAN_FREE)
        return m->profile && profile_cuts(m->profile, rows, kind, list, device, n_device, cut);
    struct device *first = device[0];
    for (int i = n_device - 1; i >= 0; i--)
        if (device[i]->caps.shares) first = device[i];
    for (int i = 0; i < list->n_op; i++) cut[i] = (struct plan_cut){.n = 1, .device = {first}, .part = {1}};
    return true;
}

/* In one line, for people. */
static void describe(lutra_model *m)
{
    static const char *const what[] = {
        "one device", "by speed", "as solved", "by class of rows", "free: text may depend on load"};
    const char *from = m->profile ? "from the profile" : "no profile", *few = what[m->plan_kind[PASS_FEW]],
               *many = what[m->plan_kind[PASS_MANY]];
    char why[200];
    m->plan_text[0] = 0;
    if (!shares(m, false)) return;
    if (few == many)
        snprintf(m->plan_text, sizeof m->plan_text, "%s (%s)", few, from);
    else
        snprintf(m->plan_text, sizeof m->plan_text, "few rows %s, many %s (%s)", few, many, from);
    profile_reason(m->profile, &m->plan, &m->plan_many, why, sizeof why);
    log_line(&m->runtime->log, LUTRA_LOG_INFO, "plan: %s, %s", m->plan_text, why);
}

int model_open_plan(
    lutra_model *m, enum pass_class rows, const struct op_list *list, struct plan *out, struct lutra_error *err)
{
    struct device *device[PLAN_DEVICES];
    int n = model_devices(m, device);
    struct plan_cut *cut = calloc((size_t)list->n_op + 1, sizeof *cut);
    if (!cut) return lutra_fail(err, LUTRA_E_NO_MEMORY, "plan: out of memory");
    bool said = find_cuts(m, rows, list, device, n, cut);
    if (!said) m->plan_kind[rows] = PLAN_EVEN; /* a device of its profile is lost */
    int rc = plan_open_cut(out, list, device, n, said ? cut : NULL, err);
    free(cut);
    return rc;
}

int model_open_plans(lutra_model *m, struct lutra_error *err)
{
    TRY(model_open_plan(m, PASS_FEW, model_ops(m->model), &m->plan, err));
    TRY(model_open_plan(m, PASS_MANY, model_ops(m->model), &m->plan_many, err));
    describe(m);
    return 0;
}
