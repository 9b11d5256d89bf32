/* SPDX-License-Identifier: MIT
 *
 * The names that counts.json has for layouts of weights.  A type that is packed as another's kind costs what that
 * costs: IQ4_XS as IQ4_NL; TQ1_0 and Q1_0 as TQ2_0, as planes TQ1_0 as TQ2_0.
 */
#ifndef LUTRA_SIM_KINDS_H
#define LUTRA_SIM_KINDS_H

#include "npu/wire/planes.h"

/* Place, name, kind; those of bit planes last. */
#define NPU_KINDS(X)                                                                                                   \
    X(Q4_0, "Q4_0", NPU_W_Q4_0)                                                                                        \
    X(Q4_1, "Q4_1", NPU_W_Q4_1)                                                                                        \
    X(IQ4_NL, "IQ4_NL", NPU_W_IQ4_NL)                                                                                  \
    X(Q8_0, "Q8_0", NPU_W_Q8_0)                                                                                        \
    X(SUPERGROUP, "supergroup", NPU_W_SUPER4)                                                                          \
    X(SUPERGROUP8, "supergroup8", NPU_W_SUPER8)                                                                        \
    X(Q4_K, "Q4_K", NPU_W_Q4_K)                                                                                        \
    X(Q5_K, "Q5_K", NPU_W_Q5_K)                                                                                        \
    X(Q6_K, "Q6_K", NPU_W_Q6_K)                                                                                        \
    X(F16, "F16", NPU_W_F16)                                                                                           \
    X(MXFP4, "MXFP4", NPU_W_MXFP4)                                                                                     \
    X(W2, "W2", NPU_W_W2)                                                                                              \
    X(W3, "W3", NPU_W_W3)                                                                                              \
    X(W4, "W4", NPU_W_W4)                                                                                              \
    X(TQ2_0, "TQ2_0", NPU_W_TERNARY)                                                                                   \
    X(Q2_K, "Q2_K", NPU_W_Q2_K)                                                                                        \
    X(Q3_K, "Q3_K", NPU_W_Q3_K)                                                                                        \
    X(Q1_0_PLANES, "Q1_0 planes", NPU_PLANES(1, 128, NPU_PLANES_CENTRED))                                              \
    X(Q2_0_PLANES, "Q2_0 planes", NPU_PLANES(2, 64, NPU_PLANES_CENTRED))                                               \
    X(TQ2_0_PLANES, "TQ2_0 planes", NPU_PLANES(2, 128, NPU_PLANES_TERNARY))                                            \
    X(W2_G64, "2 bit g64 asym", NPU_PLANES(2, 64, NPU_PLANES_MINIMA))                                                  \
    X(W3_G128, "3 bit g128 asym", NPU_PLANES(3, 128, NPU_PLANES_MINIMA))                                               \
    X(W4_G128, "4 bit g128 asym", NPU_PLANES(4, 128, NPU_PLANES_MINIMA))                                               \
    X(Q4_0_PLANES, "Q4_0 planes", NPU_PLANES(4, 32, NPU_PLANES_CENTRED))                                               \
    X(Q4_1_PLANES, "Q4_1 planes", NPU_PLANES(4, 32, NPU_PLANES_MINIMA))                                                \
    X(W4_G64, "4 bit g64 asym", NPU_PLANES(4, 64, NPU_PLANES_MINIMA))                                                  \
    X(W2_PLANES, "W2 planes", NPU_PLANES(2, 64, NPU_PLANES_ZEROS))                                                     \
    X(W3_PLANES, "W3 planes", NPU_PLANES(3, 64, NPU_PLANES_ZEROS))                                                     \
    X(W4_PLANES, "W4 planes", NPU_PLANES(4, 64, NPU_PLANES_ZEROS))                                                     \
    X(W4_PLANES_G128, "W4 planes, g128", NPU_PLANES(4, 128, NPU_PLANES_ZEROS))

#define NPU_KIND_PLACE(place, name, kind) KIND_##place,
#define NPU_KIND_ROW(place, name, kind) {name, kind},
enum { NPU_KINDS(NPU_KIND_PLACE) N_NPU_KINDS };
static const struct {
    const char *name;
    uint32_t kind;
} npu_kinds[N_NPU_KINDS] = {NPU_KINDS(NPU_KIND_ROW)};

#endif
