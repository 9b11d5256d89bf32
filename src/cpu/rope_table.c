/* SPDX-License-Identifier: MIT
 *
 * Cosines and sines of a rotation, computed once per step and row instead of once per layer.
 */
#include <math.h>

#include "cpu/device_impl.h"

bool cpu_rope_same_table(const struct op_rope *a, const struct op_rope *b)
{
    return a->n_rot == b->n_rot && a->freq_base == b->freq_base && a->freq_scale == b->freq_scale &&
           a->factors == b->factors && a->magnitude == b->magnitude;
}

void cpu_rope_fill(const struct op_rope *p, int32_t pos, float *cs)
{
    for (int i = 0; i < p->n_rot / 2; i++) {
        double theta = pos * (double)p->freq_scale * pow(p->freq_base, -2.0 * i / p->n_rot);
        if (p->factors) theta /= p->factors[i];
        cs[2 * i] = (float)(cos(theta) * p->magnitude);
        cs[2 * i + 1] = (float)(sin(theta) * p->magnitude);
    }
}
