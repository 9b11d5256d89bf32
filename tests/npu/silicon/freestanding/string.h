/* SPDX-License-Identifier: MIT
 *
 * For sim/tile.c on Hexagon, where there is no C library.
 */
#ifndef LUTRA_TESTS_NPU_SILICON_STRING_H
#define LUTRA_TESTS_NPU_SILICON_STRING_H

#include <stddef.h>

void *memset(void *dst, int c, size_t n);
void *memcpy(void *restrict dst, const void *restrict src, size_t n);

#endif
