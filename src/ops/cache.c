/* SPDX-License-Identifier: MIT
 *
 * How a cache holds a vector (ops/kv_view.h).
 */
#include "ops/kv_view.h"

#include <math.h>
#include <string.h>

#include "quant/quant.h"

/* In place over n elements, n a power of two: in each round, pairs a, b that are `half` apart become a + b, a - b. */
static void transform(float *x, int n)
{
    for (int half = 1; half < n; half *= 2)
        for (int i = 0; i < n; i += 2 * half)
            for (int j = i; j < i + half; j++) {
                float a = x[j], b = x[j + half];
                x[j] = a + b;
                x[j + half] = a - b;
            }
    float scale = (float)(1 / sqrt(n));
    for (int i = 0; i < n; i++) x[i] *= scale;
}

void kv_rotate(float *x, int d_head)
{
    int n = d_head & -d_head;
    for (int i = 0; i < d_head; i += n) transform(x + i, n);
}

void kv_round(enum quant_type type, const float *x, void *to, int d_head)
{
    float rotated[KV_MOST_D_HEAD];
    if (kv_is_rotated(type)) {
        memcpy(rotated, x, (size_t)d_head * sizeof *x);
        kv_rotate(rotated, d_head);
        x = rotated;
    }
    quant_info_of(type)->quantize(x, to, (size_t)d_head);
}
