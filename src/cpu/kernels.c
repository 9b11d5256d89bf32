/* SPDX-License-Identifier: MIT
 *
 * Fills the kernel table: the reference first, then every instruction set in ascending order.
 */
#include "cpu/kernels.h"

#include <string.h>

#include "base/cpuinfo.h"

void cpu_kernels_init(struct cpu_kernels *out, uint32_t isa)
{
    memset(out, 0, sizeof *out);
    out->isa = isa;
    out->name = "reference";
    cpu_gemm_init_ref(out);
    cpu_small_init_ref(out);
#if defined(__x86_64__)
    if (isa & CPU_AVX2) {
        out->name = "avx2";
        cpu_gemm_init_avx2(out);
        cpu_small_init_avx2(out);
        cpu_peaks_init_avx2(out);
    }
    if (isa & CPU_AVXVNNI) {
        out->name = "avxvnni";
        cpu_gemm_init_avxvnni(out);
        cpu_peaks_init_avxvnni(out);
    }
    if (isa & CPU_AVX512) {
        out->name = "avx512";
        cpu_gemm_init_avx512(out);
        cpu_small_init_avx512(out);
        cpu_peaks_init_avx512(out);
    }
    if (isa & CPU_AMX) {
        out->name = "amx";
        cpu_gemm_init_amx(out);
        attention_init_amx(&out->attention);
        cpu_peaks_init_amx(out);
    }
#elif defined(__aarch64__)
    if (isa & CPU_NEON) {
        out->name = "neon";
        cpu_gemm_init_neon(out);
        cpu_small_init_neon(out);
        cpu_peaks_init_neon(out);
    }
    if (isa & CPU_DOTPROD) {
        out->name = "dotprod";
        cpu_gemm_init_dotprod(out);
        cpu_peaks_init_dotprod(out);
    }
    if (isa & CPU_I8MM) {
        out->name = "i8mm";
        cpu_gemm_init_i8mm(out);
        cpu_peaks_init_i8mm(out);
    }
#endif
}
