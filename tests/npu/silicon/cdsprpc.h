/* SPDX-License-Identifier: MIT
 *
 * Functions beside libcdsprpc.so's own of the stand-in that runs the NPU's end under qemu-hexagon; found by dlsym.
 */
#ifndef LUTRA_TESTS_NPU_SILICON_CDSPRPC_H
#define LUTRA_TESTS_NPU_SILICON_CDSPRPC_H

#include "box.h"

/* What the NPU's end and its firmware see, before and after a session. */
typedef struct box *silicon_box(void);
/* Forgets everything, and which program plays the NPU from now on. */
typedef void silicon_begin(const char *qemu, const char *program);

#endif
