/* SPDX-License-Identifier: MIT
 *
 * The names that counts.json has for layouts of weights.  A type that is packed as another's kind costs what that
 * costs: IQ4_XS as IQ4_NL; TQ1_0, TQ2_0 and Q1_0 as Q2_0.
 */
#ifndef LUTRA_BENCH_NPU_KINDS_H
#define LUTRA_BENCH_NPU_KINDS_H

#include "npu/wire/layout.h"

static const struct {
    const char *name;
    uint32_t kind;
} npu_kinds[] = {{"Q4_0", NPU_W_Q4_0}, {"Q4_1", NPU_W_Q4_1}, {"IQ4_NL", NPU_W_IQ4_NL}, {"Q8_0", NPU_W_Q8_0},
    {"supergroup", NPU_W_SUPER4}, {"supergroup8", NPU_W_SUPER8}, {"Q4_K", NPU_W_Q4_K}, {"Q5_K", NPU_W_Q5_K},
    {"Q6_K", NPU_W_Q6_K}, {"F16", NPU_W_F16}, {"MXFP4", NPU_W_MXFP4}, {"Q2_0", NPU_W_Q2_0}, {"Q2_K", NPU_W_Q2_K},
    {"Q3_K", NPU_W_Q3_K}};
enum { N_NPU_KINDS = sizeof npu_kinds / sizeof *npu_kinds };

#endif
