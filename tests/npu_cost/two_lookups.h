/* SPDX-License-Identifier: MIT */
#ifndef LUTRA_TESTS_NPU_COST_TWO_LOOKUPS_H
#define LUTRA_TESTS_NPU_COST_TWO_LOOKUPS_H

extern int two_lookups_bytes; /* whether products by lookup have tables of bytes (bench/npu/vlut32.c) */

#endif
