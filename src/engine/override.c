/* SPDX-License-Identifier: MIT
 *
 * Tensors given to devices by name (lutra_model_settings.override_tensor), as llama.cpp's -ot.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/model_impl.h"

/* The device of this name that is left; else the error lists those that are. */
static int find_device(
    const lutra_runtime *rt, const char *name, size_t n, struct device **out, struct lutra_error *err)
{
    char names[160] = "";
    struct device *left[PLAN_DEVICES];
    int n_left = runtime_devices(rt, left);
    for (int i = 0, at = 0; i < n_left; i++) {
        *out = left[i];
        if (strlen(left[i]->name) == n && strncasecmp(left[i]->name, name, n) == 0) return 0;
        if ((size_t)at < sizeof names)
            at += snprintf(names + at, sizeof names - (size_t)at, "%s%s", i ? ", " : "", left[i]->name);
    }
    return lutra_fail(err, LUTRA_E_ARGUMENT, "override_tensor: '%.*s' is no device of this runtime (%s)",
        (int)(n < 60 ? n : 60), name, names);
}

/* Gives what a pattern matches, and nothing has matched before, to a device; returns how many. */
static int give(struct lutra_model *m, const char *pattern, size_t n, struct device *d, struct lutra_error *err)
{
    int code, found = 0;
    PCRE2_SIZE at;
    PCRE2_UCHAR why[128];
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, n, 0, &code, &at, NULL);
    if (!compiled) {
        pcre2_get_error_message(code, why, sizeof why);
        return lutra_fail(err, LUTRA_E_ARGUMENT, "override_tensor: '%.*s' is no regular expression: %s at %zu",
            (int)(n < 60 ? n : 60), pattern, (char *)why, at);
    }
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    for (int i = 0; match && i < model_n_weight(m->model); i++) {
        struct weight *w = model_weight(m->model, i);
        const char *name = w->tensor.name;
        if (pcre2_match(compiled, (PCRE2_SPTR)name, strlen(name), 0, 0, match, NULL) < 0) continue;
        if (!w->only) w->only = d;
        found++;
    }
    pcre2_code_free(compiled);
    if (!match) return lutra_fail(err, LUTRA_E_NO_MEMORY, "override_tensor: out of memory");
    pcre2_match_data_free(match);
    return found;
}

int model_override(struct lutra_model *m, const char *list, struct lutra_error *err)
{
    for (const char *item = list; item;) {
        size_t n = strcspn(item, ","), at = n;
        struct device *d = NULL;
        while (at > 0 && item[at] != '=') at--;
        if (at == 0 || at + 1 >= n)
            return lutra_fail(
                err, LUTRA_E_ARGUMENT, "override_tensor: '%.*s' is no PATTERN=DEVICE", (int)(n < 60 ? n : 60), item);
        TRY(find_device(m->runtime, item + at + 1, n - at - 1, &d, err));
        int found = give(m, item, at, d, err);
        if (found < 0) return found;
        if (!found)
            log_line(
                &m->runtime->log, LUTRA_LOG_INFO, "override_tensor: no tensor's name matches '%.*s'", (int)at, item);
        item = item[n] ? item + n + 1 : NULL;
    }
    return 0;
}
