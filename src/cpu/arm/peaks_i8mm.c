/* SPDX-License-Identifier: MIT */
#include "cpu/arm/peaks_neon_impl.h"

enum { INT8_MACS = 32 };

LUTRA_INLINE vec_i dot(vec_i acc, vec_i w, vec_i x)
{
    return vreinterpretq_s8_s32(vmmlaq_s32(vreinterpretq_s32_s8(acc), w, x));
}

#include "cpu/peaks_tmpl.h"

static void measure(struct cpu_peaks *out)
{
    measure_peaks(out, "smmla");
}

void cpu_peaks_init_i8mm(struct cpu_kernels *out)
{
    out->peaks = measure;
}
