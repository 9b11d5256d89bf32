/* SPDX-License-Identifier: MIT
 *
 * Whether products of 32-element formats have the CPU's bits on this GPU (class i8x32): 4,096 groups of random codes
 * and scales, rounded and multiplied there and here.  Tried with the driver's fma() and with one made of sums and
 * products; where neither has the bits, such weights are dequantized.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "base/rng.h"
#include "gpu/device_impl.h"

/* Half of the groups are of Q8_0, half of Q4_1, which has minima. */
enum { GROUPS = 64, OUTS = 32, INPUTS = GROUPS * QUANT_BLOCK, WORDS = 10 };

struct trial {
    struct gpu_memory x, rounded, result;
    float want_x[GROUPS][2]; /* scale, scale times sum */
    int8_t code[INPUTS];
    struct quant_q8_0 q8_0[OUTS][GROUPS];
    struct quant_q4_1 q4_1[OUTS][GROUPS];
};

/* Uniform in [-1, 1). */
static float noise(uint32_t i)
{
    return (float)(int32_t)rng_u32((struct rng_key){0, 0, 0}, i) * 0x1p-31f;
}

static void fill(struct trial *t)
{
    float *x = (float *)(void *)t->x.mapped;
    for (int i = 0; i < INPUTS; i++) x[i] = noise((uint32_t)i) * (i % 53 == 0 ? 100.0f : 1);
    for (int o = 0; o < OUTS; o++)
        for (int g = 0; g < GROUPS; g++) {
            uint32_t at = INPUTS + (uint32_t)(o * GROUPS + g) * 64;
            t->q8_0[o][g].d = f32_to_f16(0.01f * noise(at));
            t->q4_1[o][g].d = f32_to_f16(0.1f * noise(at + 1));
            t->q4_1[o][g].m = f32_to_f16(noise(at + 2));
            for (int i = 0; i < QUANT_BLOCK; i++) t->q8_0[o][g].qs[i] = (int8_t)(127 * noise(at + 3 + (uint32_t)i));
            for (int i = 0; i < 16; i++) t->q4_1[o][g].qs[i] = (uint8_t)(int8_t)(127 * noise(at + 40 + (uint32_t)i));
        }
}

/* As cpu_act_row_q8x32 does. */
static void round_here(struct trial *t)
{
    const float *x = (const float *)(const void *)t->x.mapped;
    for (int g = 0; g < GROUPS; g++) {
        float most = 0;
        int sum = 0;
        for (int i = 0; i < QUANT_BLOCK; i++) most = fmaxf(most, fabsf(x[g * QUANT_BLOCK + i]));
        float d = most / 127.0f, inverse = 127.0f / most;
        for (int i = 0; i < QUANT_BLOCK; i++) {
            float scaled = x[g * QUANT_BLOCK + i] * inverse;
            t->code[g * QUANT_BLOCK + i] = (int8_t)rintf(scaled);
            sum += t->code[g * QUANT_BLOCK + i];
        }
        t->want_x[g][0] = d;
        t->want_x[g][1] = d * (float)sum;
    }
}

static bool rounded_alike(const struct trial *t)
{
    for (int g = 0; g < GROUPS; g++) {
        const uint8_t *got = t->rounded.mapped + (size_t)g * WORDS * 4;
        if (memcmp(got, t->code + g * QUANT_BLOCK, QUANT_BLOCK) || memcmp(got + QUANT_BLOCK, t->want_x[g], 8))
            return false;
    }
    return true;
}

static float product_here(const struct trial *t, enum quant_type type, int o)
{
    float sum = 0;
    for (int g = 0; g < GROUPS; g++) {
        const int8_t *x = t->code + g * QUANT_BLOCK;
        const struct quant_q4_1 *w = &t->q4_1[o][g];
        int total = 0;
        for (int i = 0; i < QUANT_BLOCK; i++)
            total += x[i] * (type == QUANT_Q8_0 ? t->q8_0[o][g].qs[i] : w->qs[i % 16] >> (i < 16 ? 0 : 4) & 15);
        float scale = f16_to_f32(type == QUANT_Q8_0 ? t->q8_0[o][g].d : w->d) * t->want_x[g][0];
        sum = fmaf((float)total, scale, sum);
        if (type == QUANT_Q4_1) sum = fmaf(f16_to_f32(w->m), t->want_x[g][1], sum);
    }
    return sum;
}

static int multiply(
    struct gpu_device *d, struct trial *t, enum quant_type type, const void *rows, bool *alike, struct lutra_error *err)
{
    struct weight w = {.use = WEIGHT_MATMUL, .tensor = {"self-test", type, 2, {INPUTS, OUTS, 1, 1}, rows, 0}};
    bool keeps;
    w.tensor.bytes = type == QUANT_Q8_0 ? sizeof t->q8_0 : sizeof t->q4_1;
    TRY(gpu_weight_prepare(d, &w, &keeps, err));
    const struct gpu_product product = {
        .weight = &w, .x = t->x.address, .rounded = t->rounded.address, .result = t->result.address, .n_row = 1};
    int rc = gpu_program_round(d, &product, err);
    if (rc == 0) rc = gpu_queue_barrier(d, err);
    if (rc == 0) rc = gpu_program_product(d, &product, err);
    if (rc == 0) rc = gpu_queue_flush(d, err);
    if (rc == 0) rc = gpu_queue_wait(d, d->submitted, err);
    gpu_weight_release(d, &w);
    *alike = rounded_alike(t);
    for (int o = 0; rc == 0 && o < OUTS; o++) {
        float want = product_here(t, type, o);
        *alike &= memcmp(&want, t->result.mapped + 4 * o, sizeof want) == 0;
    }
    return rc;
}

static int try_both(struct gpu_device *d, struct trial *t, struct lutra_error *err)
{
    static const enum gpu_exact ways[] = {GPU_EXACT_FUSED, GPU_EXACT_MADE};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        bool q8_0, q4_1;
        d->exact = ways[i];
        TRY(multiply(d, t, QUANT_Q8_0, t->q8_0, &q8_0, err));
        TRY(multiply(d, t, QUANT_Q4_1, t->q4_1, &q4_1, err));
        if (q8_0 && q4_1) return 0;
        gpu_pipelines_forget(d, GPU_ROUND);
        gpu_pipelines_forget(d, GPU_MATMUL_I8);
    }
    d->exact = GPU_EXACT_NO;
    return 0;
}

int gpu_exact_find(struct gpu_device *d, struct lutra_error *err)
{
    if (d->exact != GPU_EXACT_UNKNOWN) return 0;
    struct trial *t = calloc(1, sizeof *t);
    if (!t) return lutra_fail(err, LUTRA_E_NO_MEMORY, "vulkan: out of memory");
    int rc = gpu_memory_alloc(d, INPUTS * sizeof(float), GPU_SHARED, &t->x, err);
    if (rc == 0) rc = gpu_memory_alloc(d, GROUPS * WORDS * 4, GPU_SHARED, &t->rounded, err);
    if (rc == 0) rc = gpu_memory_alloc(d, OUTS * sizeof(float), GPU_SHARED, &t->result, err);
    if (rc == 0) {
        fill(t);
        round_here(t);
        rc = try_both(d, t, err);
    }
    if (rc < 0) d->exact = GPU_EXACT_UNKNOWN;
    gpu_memory_free(d, &t->x);
    gpu_memory_free(d, &t->rounded);
    gpu_memory_free(d, &t->result);
    free(t);
    return rc;
}
