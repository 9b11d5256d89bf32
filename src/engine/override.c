/* SPDX-License-Identifier: MIT
 *
 * Tensors given to devices by name (lutra_model_settings.override_tensor), as llama.cpp's -ot.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "engine/model_impl.h"

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
        while (at > 0 && item[at] != '=') at--;
        if (at == 0 || at + 1 >= n)
            return lutra_fail(
                err, LUTRA_E_ARGUMENT, "override_tensor: '%.*s' is no PATTERN=DEVICE", (int)(n < 60 ? n : 60), item);
        int number = model_device_named(m->runtime, "override_tensor", item + at + 1, n - at - 1, err);
        if (number < 0) return number;
        int found = give(m, item, at, m->runtime->devices.device[number], err);
        if (found < 0) return found;
        if (!found)
            log_line(&m->runtime->log, LUTRA_LOG_WARN, "override_tensor: no tensor matches '%.*s'", (int)at, item);
        item = item[n] ? item + n + 1 : NULL;
    }
    return 0;
}
