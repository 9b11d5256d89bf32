/* SPDX-License-Identifier: MIT
 *
 * Opening a model, in parts: its sampling (sampling.c), its weights (model.c).
 */
#ifndef LUTRA_ENGINE_MODEL_IMPL_H
#define LUTRA_ENGINE_MODEL_IMPL_H

#include "engine/model.h"

/* After LUTRA_E_DEVICE_LOST, the model on the devices that are left: a new plan, and what was on the lost one
 * is prepared again from the file.  With the turn.  *err says why when it is called, for the log. */
int model_leave_device(struct lutra_model *m, struct device *lost, struct lutra_error *err);

/* plans.c: the devices that its passes may use: those that lutra_model_settings.device names, NULL: all; where none of
 * them is left, all that are. */
int model_choose_devices(lutra_model *m, const char *names, struct lutra_error *err);
/* The number of a device that is left, by its name; the error names the setting and lists those that there are. */
int model_device_named(
    const lutra_runtime *rt, const char *setting, const char *name, size_t n, struct lutra_error *err);
/* Which plans, as lutra_model_settings.plan says; and these plans on the devices that are left. */
int model_choose_plans(lutra_model *m, const char *wish, struct lutra_error *err);
int model_open_plans(lutra_model *m, struct lutra_error *err);
/* override.c: sets weight.only of the tensors that "PATTERN=DEVICE,..." names; before the plan is opened. */
int model_override(struct lutra_model *m, const char *list, struct lutra_error *err);

/* sampling.c: what a model file says of sampling. */
int model_read_sampling(struct lutra_model *model, struct lutra_error *err);

#endif
