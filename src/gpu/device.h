/* SPDX-License-Identifier: MIT
 *
 * A GPU as a device (ops/device.h), by Vulkan 1.2.  The loader is opened when a device is asked for; nothing of it is
 * linked.
 *
 *     struct device *gpu;
 *     TRY(gpu_device_open(&gpu, &(struct gpu_settings){0}, err));
 *
 * Where the build had no compiler for shaders, or the machine has no loader or no fitting device, opening fails with
 * LUTRA_E_UNSUPPORTED and the reason.  A device serves one thread at a time.
 */
#ifndef LUTRA_GPU_DEVICE_H
#define LUTRA_GPU_DEVICE_H

#include "ops/device.h"

struct gpu_device;

struct gpu_settings {
    double slice_ms; /* a submission is cut where it is predicted to take longer; 0 = 10 */

    /* Called once Vulkan's functions are known and before anything is made with them: a test replaces some (struct
     * gpu_functions of gpu/functions_impl.h).  NULL: none. */
    void (*functions)(void *user, struct gpu_device *device);
    void *user;
};

/* On failure *out is NULL. */
int gpu_device_open(struct device **out, const struct gpu_settings *settings, struct lutra_error *err);

/* The GPU, its driver and version in words. */
void gpu_device_text(const struct device *device, char *text, size_t size);

#endif
