/* SPDX-License-Identifier: MIT
 *
 * A build without Vulkan's headers or a compiler for shaders.
 */
#include "gpu/device.h"

int gpu_device_open(struct device **out, const struct gpu_settings *settings, struct lutra_error *err)
{
    (void)settings;
    *out = NULL;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "vulkan: this build is without it: %s", LUTRA_GPU_MISSING);
}

void gpu_device_text(const struct device *device, char *text, size_t size)
{
    (void)device;
    if (size) text[0] = 0;
}
