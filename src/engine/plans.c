/* SPDX-License-Identifier: MIT
 *
 * The plans of a model, for passes of few rows and of many: as a profile says that lies beside it, or as it is told to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/model_impl.h"
#include "weights/packed.h"
#include "weights/temporary.h"

enum { FILE_MOST = 4 << 20 };

struct plan *model_plan(lutra_model *m, int n_row)
{
    return pass_class_of(n_row) == PASS_FEW ? &m->plan : &m->plan_many;
}

/* ---- a profile's file ---- */

static void key_of(const lutra_model *m, char model[24], struct profile_key *key)
{
    snprintf(model, 24, "%016llx", (unsigned long long)(packed_identity(m->weights) ^ m->adapters));
    *key = (struct profile_key){.build = lutra_version(), .model = model, .machine = m->runtime->text};
}

char *profile_path(const lutra_model *m)
{
    const char *model = weights_path(m->weights);
    size_t room = strlen(model) + sizeof m->runtime->text + sizeof LUTRA_PROFILE_SUFFIX + 2, n;
    char *path = malloc(room);
    if (!path) return NULL;
    n = (size_t)snprintf(path, room, "%s.", model);
    for (int i = 0; i < m->runtime->n_device; i++)
        for (const char *c = m->runtime->device[i]->name; *c && n < room - sizeof LUTRA_PROFILE_SUFFIX - 1; c++)
            path[n++] = (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ? *c : '-';
    snprintf(path + n, room - n, "%s", LUTRA_PROFILE_SUFFIX);
    return path;
}

/* A plain file, whole; *text is freed by the caller. */
static int read_whole(const char *path, char **text, size_t *n, struct lutra_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *text = NULL;
    *n = 0;
    if (fd < 0) return lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
    int rc = 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MOST)
        rc = lutra_fail(err, LUTRA_E_FORMAT, "%s: no file of at most %d bytes", path, FILE_MOST);
    else if (!(*text = malloc((size_t)st.st_size + 1)))
        rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    for (ssize_t got = 1; rc == 0 && got && *n < (size_t)st.st_size; *n += (size_t)got)
        if ((got = read(fd, *text + *n, (size_t)st.st_size - *n)) < 0) {
            rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
            break;
        }
    close(fd);
    return rc;
}

static int read_profile(lutra_model *m, const char *path, struct lutra_error *err)
{
    char model[24], *text;
    struct profile_key key;
    struct lutra_error why;
    size_t n;
    key_of(m, model, &key);
    int rc = read_whole(path, &text, &n, err);
    m->profile = rc == 0 ? malloc(sizeof *m->profile) : NULL;
    if (rc == 0 && !m->profile) rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    if (rc == 0 && (rc = profile_parse(m->profile, text, n, &key, &why)) < 0) {
        lutra_fail(err, rc, "%s: %s", path, why.what);
        free(m->profile);
        m->profile = NULL;
    }
    free(text);
    return rc;
}

int profile_write(const lutra_model *m, const char *path, const struct profile *p, char **out, struct lutra_error *err)
{
    char model[24], *name;
    struct profile_key key;
    key_of(m, model, &key);
    char *text = profile_text(p, &key);
    if (!text) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    int fd = temporary_create(path, &name), rc = 0;
    size_t n = strlen(text);
    if (!name) rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    for (size_t at = 0; rc == 0 && fd >= 0 && at < n;) {
        ssize_t k = write(fd, text + at, n - at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0)
            rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
        else
            at += (size_t)k;
    }
    if (rc == 0 && (fd < 0 || fsync(fd) < 0 || rename(name, path) < 0))
        rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
    if (rc < 0 && fd >= 0) unlink(name);
    if (fd >= 0) close(fd);
    free(name);
    if (rc == 0 && out)
        *out = text;
    else
        free(text);
    return rc;
}

/* ---- which plan ---- */

static int plan_named(const char *name)
{
    for (int i = 0; i < PROFILE_PLANS; i++)
        if (!strcmp(name, profile_plan_name((enum profile_plan)i))) return i;
    return -1;
}

/* Its profile, where devices could share at all; a bad one counts only where it was asked for. */
static int find_profile(lutra_model *m, const char *file, bool needed, struct lutra_error *err)
{
    struct lutra_error why;
    char *beside = file ? NULL : profile_path(m);
    const char *path = file ? file : beside;
    int rc = 0;
    if (!path) return lutra_fail(err, LUTRA_E_NO_MEMORY, "plan: out of memory");
    if (needed || access(path, F_OK) == 0) rc = read_profile(m, path, &why);
    if (rc < 0 && needed)
        lutra_fail(err, rc, "plan: %s; 'lutra profile' makes one", why.what);
    else if (rc < 0)
        log_line(&m->runtime->log, LUTRA_LOG_WARN, "%s; left out, make it again with 'lutra profile'", why.what);
    free(beside);
    return needed ? rc : 0;
}

static bool shares(const lutra_runtime *rt)
{
    int n = 0;
    for (int i = 0; i < rt->n_device; i++) n += rt->device[i]->caps.speed > 0;
    return n > 1;
}

int model_choose_plans(lutra_model *m, const char *wish, struct lutra_error *err)
{
    bool automatic = !wish || !*wish || !strcmp(wish, "auto");
    int named = automatic ? -1 : plan_named(wish);
    const char *file = !automatic && named < 0 ? wish : NULL;
    for (int c = 0; c < PASS_CLASSES; c++) m->plan_kind[c] = named >= 0 ? (enum profile_plan)named : PLAN_EVEN;
    if (file || named == PLAN_SOLVED || (automatic && shares(m->runtime) && !m->runtime->split))
        TRY(find_profile(m, file, !automatic, err));
    for (int c = 0; m->profile && named < 0 && c < PASS_CLASSES; c++) m->plan_kind[c] = m->profile->pass[c].best;
    return 0;
}

static bool find_cuts(
    const lutra_model *m, enum pass_class rows, struct device *const *device, int n_device, struct plan_cut *cut)
{
    const struct op_list *list = model_ops(m->model);
    enum profile_plan kind = m->plan_kind[rows];
    if (kind == PLAN_EVEN) return false;
    if (kind == PLAN_SOLVED) return m->profile && profile_cuts(m->profile, rows, kind, list, device, n_device, cut);
    for (int i = 0; i < list->n_op; i++) cut[i] = (struct plan_cut){1, {m->runtime->cpu}, {1}};
    return true;
}

/* In one line, for people. */
static void describe(lutra_model *m)
{
    static const char *const what[] = {"one device", "by speed", "as solved"};
    const char *from = m->profile ? "from the profile" : "no profile";
    if (!shares(m->runtime)) {
        m->plan_text[0] = 0;
    } else if (m->plan_kind[PASS_FEW] == m->plan_kind[PASS_MANY]) {
        snprintf(m->plan_text, sizeof m->plan_text, "%s (%s)", what[m->plan_kind[PASS_FEW]], from);
    } else {
        snprintf(m->plan_text, sizeof m->plan_text, "few rows %s, many %s (%s)", what[m->plan_kind[PASS_FEW]],
            what[m->plan_kind[PASS_MANY]], from);
    }
    if (m->plan_text[0]) log_line(&m->runtime->log, LUTRA_LOG_INFO, "plan: %s", m->plan_text);
}

int model_open_plans(lutra_model *m, struct lutra_error *err)
{
    struct device *device[PLAN_DEVICES];
    const struct op_list *list = model_ops(m->model);
    int n = runtime_devices(m->runtime, device), rc = 0;
    struct plan_cut *cut = calloc((size_t)list->n_op + 1, sizeof *cut);
    if (!cut) return lutra_fail(err, LUTRA_E_NO_MEMORY, "plan: out of memory");
    for (int c = 0; c < PASS_CLASSES && rc == 0; c++) {
        bool said = find_cuts(m, (enum pass_class)c, device, n, cut);
        if (!said) m->plan_kind[c] = PLAN_EVEN; /* a device of its profile is lost */
        rc = plan_open_cut(c == PASS_FEW ? &m->plan : &m->plan_many, list, device, n, said ? cut : NULL, err);
    }
    if (rc == 0) describe(m);
    free(cut);
    return rc;
}
