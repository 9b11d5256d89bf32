/* SPDX-License-Identifier: MIT
 *
 * lutra_pack(): a model's matrices as a runtime's devices pack them, in a file.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/settings.h"
#include "engine/model.h"

/* What the device has made of the model's matrices; *out is freed by the caller. */
static int collect(const lutra_model *m, struct packed_copy **out, size_t *n, struct lutra_error *err)
{
    int n_weight = model_n_weight(m->model);
    *n = 0;
    *out = calloc((size_t)n_weight + 1, sizeof **out);
    if (!*out) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", weights_path(m->weights));
    for (int i = 0; i < n_weight; i++) {
        const struct weight *w = model_weight(m->model, i);
        struct packed_view v;
        if (packed_view_of(w, &v) && v.data)
            (*out)[(*n)++] = (struct packed_copy){v.layout, w->tensor.name, v.data, v.bytes};
    }
    if (*n > 0) return 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: device '%s' makes nothing that a file could keep",
        weights_path(m->weights), runtime_first(m->runtime)->name);
}

/* lutra_progress_fn with its stage. */
struct writing {
    lutra_progress_fn fn;
    void *user;
};

static int report(void *user, uint64_t done, uint64_t total)
{
    const struct writing *w = user;
    return w->fn ? w->fn(w->user, "writing", done, total) : 0;
}

static int write_packed(const lutra_model *m, const char *path, struct writing *progress, struct lutra_error *err)
{
    char writer[512];
    struct packed_copy *copy;
    size_t n;
    snprintf(writer, sizeof writer, "lutra %s, %s", lutra_version(), m->runtime->devices.text);
    int rc = collect(m, &copy, &n, err);
    if (rc == 0) rc = packed_write(path, m->weights, writer, copy, n, report, progress, err);
    free(copy);
    return rc;
}

int lutra_pack(lutra_runtime *runtime, const char *model_path, const char *out_path,
    const struct lutra_model_settings *settings, struct lutra_error *err)
{
    struct lutra_model_settings set;
    lutra_model_settings_init(&set, sizeof set);
    TRY(settings_copy(&set, sizeof set, settings, "pack", err));
    struct writing writing = {set.progress, set.progress_user};
    lutra_model *m;
    set.packed = "";
    set.vocab_only = false;
    set.expert_ram = -1;
    TRY(lutra_model_open(&m, runtime, model_path, &set, err));
    int rc = write_packed(m, out_path, &writing, err);
    lutra_model_close(&m);
    return rc;
}

int lutra_pack_check(const char *packed_path, struct lutra_error *err)
{
    return packed_check(packed_path, err);
}
