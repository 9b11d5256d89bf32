/* SPDX-License-Identifier: MIT */
#include "cpu/arm/peaks_neon_impl.h"

enum { INT8_MACS = 16 };

LUTRA_INLINE vec_i dot(vec_i acc, vec_i w, vec_i x)
{
    return vreinterpretq_s8_s32(vpadalq_s16(
        vreinterpretq_s32_s8(acc), vpaddq_s16(vmull_s8(vget_low_s8(w), vget_low_s8(x)), vmull_high_s8(w, x))));
}

#include "cpu/peaks_tmpl.h"

static void measure(struct cpu_peaks *out)
{
    measure_peaks(out, "smull + addp + sadalp");
}

void cpu_peaks_init_neon(struct cpu_kernels *out)
{
    out->peaks = measure;
}
