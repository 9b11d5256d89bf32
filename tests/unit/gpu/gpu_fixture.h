/* SPDX-License-Identifier: MIT
 *
 * A GPU for tests, or the reason why there is none: such tests are skipped.
 */
#ifndef LUTRA_TESTS_GPU_FIXTURE_H
#define LUTRA_TESTS_GPU_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gpu/device.h"

enum { SKIPPED = 77 };

/* Ends the program, as skipped, where there is none. */
static inline void gpu_need(void)
{
    struct lutra_error err = {0};
    struct device *d;
    int rc = gpu_device_open(&d, &(struct gpu_settings){0}, &err);
    if (rc < 0) {
        printf("skipped: %s\n", err.what);
        exit(rc == LUTRA_E_UNSUPPORTED ? SKIPPED : 1);
    }
    char text[300];
    gpu_device_text(d, text, sizeof text);
    printf("%s\n", text);
    d->ops->close(d);
}

static inline struct device *gpu_open_with(const struct gpu_settings *settings)
{
    struct lutra_error err = {0};
    struct device *d;
    if (gpu_device_open(&d, settings, &err) < 0) fail_msg("%s", err.what);
    return d;
}

static inline struct device *gpu_open(void)
{
    return gpu_open_with(&(struct gpu_settings){0});
}

#endif
