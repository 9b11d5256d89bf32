/* SPDX-License-Identifier: MIT
 *
 * The public function lutra_make_model, and the names of its shapes.
 */
#include "engine/runtime.h"
#include "base/settings.h"
#include "make/make.h"
#include "quantize/files.h"

void lutra_make_model_settings_init(struct lutra_make_model_settings *settings, size_t size)
{
    struct lutra_make_model_settings d = {.size = sizeof d, .type = "Q4_0"};
    settings_fill(settings, size, &d);
}

int lutra_make_model(
    lutra_runtime *runtime, const char *path, const struct lutra_make_model_settings *settings, struct lutra_error *err)
{
    struct lutra_make_model_settings set;
    lutra_make_model_settings_init(&set, sizeof set);
    TRY(handle_check(runtime, "runtime", err));
    TRY(settings_copy(&set, sizeof set, settings, "make-model", err));
    if (set.n_layer < 0) return lutra_fail(err, LUTRA_E_ARGUMENT, "make-model: n_layer is %d", set.n_layer);
    struct files_progress progress = {set.progress, set.progress_user, "writing"};
    struct weights_make_settings w = weights_make_default();
    w.shape = set.shape ? set.shape : "(none)";
    w.seed = set.seed;
    w.outliers = set.outliers;
    w.n_layer = (uint32_t)set.n_layer;
    w.progress = files_report;
    w.progress_user = &progress;
    w.log = runtime->log.fn;
    w.log_user = runtime->log.user;
    struct quant_group group;
    TRY(files_group("make-model", set.type, FILES_GROUPS, set.group_size, set.asymmetric, &group, err));
    if (group.bits)
        w.group = &group;
    else
        TRY(files_type_named("make-model", set.type, &w.type, err));
    return weights_make_model(path, &w, err);
}

const char *lutra_make_model_shape(int i)
{
    const struct weights_shape *shape = i >= 0 ? weights_shape_at((size_t)i) : NULL;
    return shape ? shape->name : NULL;
}
