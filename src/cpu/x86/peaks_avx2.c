/* SPDX-License-Identifier: MIT */
#include "cpu/x86/peaks_ymm_impl.h"

enum { INT8_MACS = 32 };

LUTRA_INLINE vec_i dot(vec_i acc, vec_i w, vec_i x)
{
    return _mm256_add_epi16(_mm256_maddubs_epi16(acc, x), w);
}

#include "cpu/peaks_tmpl.h"

static void measure(struct cpu_peaks *out)
{
    measure_peaks(out, "vpmaddubsw + vpaddw");
}

void cpu_peaks_init_avx2(struct cpu_kernels *out)
{
    out->peaks = measure;
}
