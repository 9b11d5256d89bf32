/* SPDX-License-Identifier: MIT */
#include "cpu/x86/peaks_ymm_impl.h"

enum { INT8_MACS = 32 };

LUTRA_INLINE vec_i dot(vec_i acc, vec_i w, vec_i x)
{
    return _mm256_dpbusd_avx_epi32(acc, w, x);
}

#include "cpu/peaks_tmpl.h"

static void measure(struct cpu_peaks *out)
{
    measure_peaks(out, "vpdpbusd (256 bits)");
}

void cpu_peaks_init_avxvnni(struct cpu_kernels *out)
{
    out->peaks = measure;
}
