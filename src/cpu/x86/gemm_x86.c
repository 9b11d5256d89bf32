/* SPDX-License-Identifier: MIT
 *
 * Descriptors of the x86 matmul kernels: one per numerics class, completed by type, name and run.
 */
#include "cpu/x86/gemm_x86_impl.h"

static struct cpu_gemm common(enum quant_type type, const char *name, cpu_gemm_run *run)
{
    return (struct cpu_gemm){.name = name,
        .layout = CPU_PANEL_LAYOUT,
        .type = type,
        .mr = LANES,
        .nr = ACT_COLUMNS,
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
    g.act_row = cpu_act_row_q8x32_avx2;
    return g;
}

struct cpu_gemm cpu_gemm_i8x256(enum quant_type type, const char *name, cpu_gemm_run *run)
{
    struct cpu_gemm g = common(type, name, run);
    g.numerics = "i8x256";
    g.act_group = 256;
    g.act_bytes = cpu_act_bytes_q8x256;
    g.act_row = cpu_act_row_q8x256_avx2;
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

void cpu_gemm_init_avx2(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_avx2(out);
    cpu_gemm_init_super_avx2(out);
    cpu_gemm_init_float_avx2(out);
}

void cpu_gemm_init_avxvnni(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_avxvnni(out);
    cpu_gemm_init_super_avxvnni(out);
}

void cpu_gemm_init_avx512(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_avx512(out);
    cpu_gemm_init_super_avx512(out);
    cpu_gemm_init_float_avx512(out);
}

void cpu_gemm_init_amx(struct cpu_kernels *out)
{
    cpu_gemm_init_i8_amx(out);
    cpu_gemm_init_super_amx(out);
}
