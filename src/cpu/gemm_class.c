/* SPDX-License-Identifier: MIT
 *
 * Descriptors of the matmul kernels over the packed layout: one per numerics class, completed by type, name and run.
 */
#include "cpu/layout.h"

static struct cpu_gemm common(enum quant_type type, const char *name, cpu_gemm_run *run)
{
    return (struct cpu_gemm){.name = name,
        .layout = CPU_PANEL_LAYOUT,
        .type = type,
        .mr = LANES,
        .kr = 4,
        .packed_bytes = cpu_packed_bytes,
        .pack = cpu_pack,
        .run = run,
        .unpack_row = cpu_unpack_row};
}

struct cpu_gemm cpu_gemm_i8x32(enum quant_type type, const char *name, cpu_gemm_run *run)
{
    struct cpu_gemm g = common(type, name, run);
    g.numerics = "i8x32";
    g.act_group = 32;
    g.act_bytes = cpu_act_bytes_q8x32;
    g.act_row = cpu_act_row_q8x32;
    return g;
}

struct cpu_gemm cpu_gemm_i8x256(enum quant_type type, const char *name, cpu_gemm_run *run)
{
    struct cpu_gemm g = common(type, name, run);
    g.numerics = "i8x256";
    g.act_group = 256;
    g.act_bytes = cpu_act_bytes_q8x256;
    g.act_row = cpu_act_row_q8x256;
    return g;
}

struct cpu_gemm cpu_gemm_f32(enum quant_type type, const char *name, cpu_gemm_run *run)
{
    struct cpu_gemm g = common(type, name, run);
    g.numerics = "f32";
    g.kr = 1;
    g.act_bytes = cpu_act_bytes_f32;
    g.act_row = cpu_act_row_f32;
    return g;
}
