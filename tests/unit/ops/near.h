/* SPDX-License-Identifier: MIT
 *
 * How near a device's results on a random list must be to the reference's, for tests of devices.
 */
#ifndef TESTS_NEAR_H
#define TESTS_NEAR_H

#include <math.h>

#include "unit/ops/random_list.h"

static inline void assert_near(const float *a, const float *b, size_t n, double bound, const char *what, uint32_t seed)
{
    double most = 0, error = 0;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(b[i]) && fabs(b[i]) > most) most = fabs(b[i]);
        if (isfinite(b[i]) && fabs((double)a[i] - b[i]) > error) error = fabs((double)a[i] - b[i]);
        if (!isfinite(a[i]) && isfinite(b[i])) fail_msg("list %u: %s is not finite", seed, what);
    }
    if (error > bound * most) fail_msg("list %u: %s is off by %g of %g", seed, what, error, most);
}

/* Whether squares of an operation's inputs fit f32: gates of gates grow without end. */
static inline bool is_tame(const struct random_list *r, const struct op *op)
{
    for (int k = 0; k < op->n_in; k++) {
        const struct buffer *b = &r->value[op->in[k]];
        for (size_t i = 0; i < b->bytes / sizeof(float); i++)
            if (fabsf(((const float *)b->host)[i]) > 1e15f) return false;
    }
    return true;
}

#endif
