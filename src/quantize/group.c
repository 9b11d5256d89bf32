/* SPDX-License-Identifier: MIT
 *
 * Groups of GPTQ's own format, rounded into GGUF's blocks of 32 that hold their values: each block repeats the group's
 * scale, and uses those of its codes that have a counterpart.
 */
#include <math.h>
#include <stdlib.h>

#include "base/f16.h"
#include "quant/arithmetic.h"
#include "quantize/solve_impl.h"
#include "quantize/weighted.h"

enum { BLOCK = QUANT_BLOCK };

enum quant_type quant_group_type(const struct quant_group *f)
{
    return f->bits == 4 && !f->symmetric ? QUANT_Q5_0 : QUANT_Q4_0;
}

/* One group as a block without integers: x = d (code - zero). */
struct trial {
    struct solve_type t;
    struct solved s;
    float error;
};

static void try_zero(struct trial *best, const struct quant_kernels *run, const struct quant_group *f, int zero,
    const float *x, const float *w)
{
    struct trial now = {.t = {.n = f->size, .group = f->size, .n_group = 1, .lo = -zero, .n_code = 1 << f->bits}};
    uint8_t code;
    now.s.sc[0] = 1;
    now.s.d = f16_to_f32(f32_to_f16(quant_symmetric_scale(&now.t, run, x, w)));
    for (int i = 0; i < f->size; i++) {
        float e = x[i] - quant_solved_value(&now.t, &now.s, i, x[i], &code);
        now.error += w[i] * e * e;
    }
    if (now.error < best->error || !best->t.n) *best = now;
}

/* The zero that the range asks for, and its neighbours. */
static void solve(
    struct trial *best, const struct quant_kernels *run, const struct quant_group *f, const float *x, const float *w)
{
    int half = 1 << (f->bits - 1), last = 2 * half - 1;
    float lo, hi;
    best->t.n = 0;
    if (f->symmetric) {
        try_zero(best, run, f, half, x, w);
        return;
    }
    quant_min_max(x, f->size, &lo, &hi);
    lo = fminf(lo, 0), hi = fmaxf(hi, 0);
    int zero = hi > lo && isfinite(hi - lo) ? quant_clamp(roundf((float)last * -lo / (hi - lo)), 0, last) : half;
    for (int z = zero - 1; z <= zero + 1; z++)
        if (z >= 0 && z <= last) try_zero(best, run, f, z, x, w);
}

void quant_coder_begin(struct quant_coder *c, const struct quant_kernels *run, enum quant_type type,
    const struct quant_group *group, float *x, const float *w)
{
    struct trial best;
    c->group = group;
    c->x = x;
    c->t = quant_solve_type(type);
    if (!group) {
        quant_solve(c->t, run, x, w, &c->s);
        return;
    }
    solve(&best, run, group, x, w);
    c->own = best.t;
    c->s = best.s;
}

float quant_coder_round(struct quant_coder *c, int i, float x)
{
    uint8_t code;
    if (!c->group) return quant_solved_value(c->t, &c->s, i, x, &c->s.code[i]);
    float value = quant_solved_value(&c->own, &c->s, i, x, &code);
    c->x[i] = (float)(code + c->own.lo);
    return value;
}

void quant_coder_end(const struct quant_coder *c, uint8_t *row, int at)
{
    size_t block_bytes = quant_info_of(c->t->type)->block_bytes;
    struct solved s;
    if (!c->group) {
        c->t->pack(&c->s, row + (size_t)(at / c->t->n) * block_bytes);
        return;
    }
    s.d = c->s.d;
    for (int block = 0; block < c->group->size; block += BLOCK) {
        for (int i = 0; i < BLOCK; i++) s.code[i] = (uint8_t)((int)c->x[block + i] - c->t->lo);
        c->t->pack(&s, row + (size_t)((at + block) / BLOCK) * block_bytes);
    }
}

void quant_group_row(
    const struct quant_kernels *run, const struct quant_group *f, const float *w, float *x, int n, uint8_t *dst)
{
    struct quant_coder c;
    for (int at = 0; at < n; at += f->size) {
        quant_coder_begin(&c, run, quant_group_type(f), f, x + at, w + at);
        for (int i = 0; i < f->size; i++) quant_coder_round(&c, i, x[at + i]);
        quant_coder_end(&c, dst, at);
    }
}
