/* SPDX-License-Identifier: MIT */
#include "cpu/arm/peaks_neon_impl.h"

enum { INT8_MACS = 16 };

LUTRA_INLINE vec_i dot(vec_i acc, vec_i w, vec_i x)
{
    return vreinterpretq_s8_s32(vdotq_s32(vreinterpretq_s32_s8(acc), w, x));
}

#include "cpu/peaks_tmpl.h"

static void measure(struct cpu_peaks *out)
{
    measure_peaks(out, "sdot");
}

void cpu_peaks_init_dotprod(struct cpu_kernels *out)
{
    out->peaks = measure;
}
