/* SPDX-License-Identifier: MIT
 *
 * Types of other engines' files that one of GGUF's holds, value for value: their blocks in its order.
 *
 * Q2_0 with one scale for 128, as PrismML's first files have it under the number of that with one for 64:
 *
 *     [ d 2 ][ qs 32 ]                              x = (q - 1) d, values in the order of Q2_0
 *
 * I2_S of bitnet.cpp's files as TQ2_0, which has the same two bits in another order:
 *
 *     I2_S  [ codes n/4 ][ scale 4: f32 ][ 28 unused ]        of a whole tensor of n;  x = (q - 1) scale
 *     codes[32b+l]  [ x[e] ][ x[e+32] ][ x[e+64] ][ x[e+96] ]  e = 128b + l, two bits each
 *
 * NVFP4 with a float beside a matrix, which multiplies what it yields (`blk.0.attn_q.scale` of `blk.0.attn_q.weight`),
 * as blocks that have that float.
 *
 * TQ2_0's scales are the tensor's, to the nearest of 16 bits.  The order is that of bitnet.cpp's dequantization and of
 * ik_llama.cpp's.  bitnet.cpp's quantize_i2_s (src/ggml-bitnet-mad.cpp) has it on x86 with ACT_PARALLEL, the default
 * there, and two others of the same size: built for Arm it puts 64 elements into 16 bytes, and on x86 without
 * ACT_PARALLEL a column of four rows into a byte.  The codes are 0 to 2 in all of them, only elsewhere, and nothing in
 * a file says where: hence a warning (weights_tell_warnings).
 */
#include "base/f16.h"
#include "quant/formats.h"
#include "weights/weights_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The four values of a byte, last first. */
static uint8_t turned(uint8_t b)
{
    return (uint8_t)((b & 3) << 6 | (b & 12) << 2 | (b >> 2 & 12) | b >> 6);
}

static float scale_of(const uint8_t *codes, uint64_t n)
{
    float scale;
    memcpy(&scale, codes + n / 4, sizeof scale);
    return scale;
}

bool weights_near_f16(float x)
{
    return fabsf(f16_to_f32(f32_to_f16(x)) - x) <= 0x1p-11f * fabsf(x);
}

/* t is what `fill` makes of its bytes. */
static void derive(struct tensor *t, struct derived *d, void (*fill)(const struct derived *), enum quant_type type)
{
    d->from = t->data;
    d->fill = fill;
    t->type = type;
    t->data = d->data;
    t->bytes = d->bytes;
}

static void fill_i2s(const struct derived *d)
{
    struct quant_tq2_0 *to = d->data;
    size_t n = d->bytes / sizeof *to;
    const uint8_t *from = d->from;
    uint16_t scale = f32_to_f16(scale_of(from, n * QUANT_SUPER));
    for (size_t k = 0; k < n; k++, from += sizeof to->qs) {
        for (size_t i = 0; i < sizeof to->qs; i++) to[k].qs[i] = turned(from[i]);
        to[k].d = scale;
    }
}

static void fill_q2_0(const struct derived *d)
{
    struct quant_q2_0 *to = d->data;
    const uint8_t *from = d->from;
    for (size_t k = 0; k < d->bytes / sizeof *to; k += 2, from += Q2_0_128_BYTES)
        for (size_t half = 0; half < 2; half++) {
            memcpy(&to[k + half].d, from, sizeof to->d);
            memcpy(to[k + half].qs, from + sizeof to->d + half * sizeof to->qs, sizeof to->qs);
        }
}

static int derive_q2_0(struct weights *w, struct tensor *t, struct lutra_error *err)
{
    struct derived *d;
    TRY(weights_derive(w, t->bytes / Q2_0_128_BYTES * 2 * sizeof(struct quant_q2_0), &d, err));
    derive(t, d, fill_q2_0, QUANT_Q2_0);
    return 0;
}

static int derive_i2s(struct weights *w, struct tensor *t, struct lutra_error *err)
{
    uint64_t n = (uint64_t)(t->bytes - I2S_TAIL) * 4;
    float scale = scale_of(t->data, n);
    struct derived *d;
    if (!weights_near_f16(scale))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s': a scale of %g, which no float of 16 bits comes near",
            w->file[0].label, show_name(t->name).s, (double)scale);
    TRY(weights_derive(w, n / QUANT_SUPER * sizeof(struct quant_tq2_0), &d, err));
    if (f16_to_f32(f32_to_f16(scale)) != scale) d->f32_reason = "a scale that floats of 16 bits do not hold";
    derive(t, d, fill_i2s, QUANT_TQ2_0);
    return 0;
}

static bool is_foreign(const struct tensor *t)
{
    return (int)t->type == GGUF_I2_S || (int)t->type == GGUF_Q2_0_128;
}

int foreign_open(struct weights *w, struct lutra_error *err)
{
    size_t n = 0;
    for (size_t f = 0; f < w->n_file; f++)
        for (size_t i = 0; i < w->file[f].n_tensor; i++) n += is_foreign(&w->file[f].tensor[i]);
    if (n == 0) return 0;
    w->derived = calloc(n, sizeof *w->derived);
    if (!w->derived) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for tensors", w->file[0].label);
    for (size_t f = 0; f < w->n_file; f++)
        for (size_t i = 0; i < w->file[f].n_tensor; i++) {
            struct tensor *t = &w->file[f].tensor[i];
            if (is_foreign(t)) TRY(((int)t->type == GGUF_I2_S ? derive_i2s : derive_q2_0)(w, t, err));
        }
    return 0;
}

bool foreign_is_i2s(const struct derived *d)
{
    return d->fill == fill_i2s;
}

/* ---- scales beside NVFP4 ---- */

static void fill_nvfp4(const struct derived *d)
{
    struct quant_nvfp4_scaled *to = d->data;
    const struct quant_nvfp4 *from = d->from;
    for (size_t k = 0; k < d->bytes / sizeof *to; k++) {
        memcpy(to[k].scale, &d->scale, sizeof d->scale);
        to[k].b = from[k];
    }
}

/* The matrix X.weight of NVFP4 that a tensor X.scale (`suffix`) belongs to, or NULL. */
static struct tensor *matrix_of(struct weights *w, const struct tensor *scale, const char *suffix)
{
    char name[GGUF_MAX_NAME + sizeof ".weight"];
    size_t n = strlen(scale->name), m = strlen(suffix);
    if (n <= m || strcmp(scale->name + n - m, suffix) != 0) return NULL;
    snprintf(name, sizeof name, "%.*s.weight", (int)(n - m), scale->name);
    const struct tensor *t = weights_tensor_find(w, name);
    if (!t || (t->type != QUANT_NVFP4 && t->type != QUANT_NVFP4_SCALED)) return NULL;
    for (size_t f = 0; f < w->n_file; f++) {
        const struct tensor *first = w->file[f].tensor;
        if (t >= first && t < first + w->file[f].n_tensor) return &w->file[f].tensor[t - first];
    }
    return NULL;
}

static int derive_nvfp4(struct weights *w, struct tensor *t, const struct tensor *scale, struct lutra_error *err)
{
    struct derived *d;
    float x;
    if (scale->type != QUANT_F32 || scale->bytes != sizeof x)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "%s: tensor '%s' is no single float: scales of parts of an NVFP4 matrix are not implemented",
            w->file[0].label, show_name(scale->name).s);
    memcpy(&x, scale->data, sizeof x);
    if (!isfinite(x))
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s: tensor '%s' is NaN or infinite", w->file[0].label, show_name(scale->name).s);
    TRY(weights_derive(w, t->bytes / sizeof(struct quant_nvfp4) * sizeof(struct quant_nvfp4_scaled), &d, err));
    d->scale = x;
    d->f32_reason = "NVFP4 with a scale beside it";
    w->tensor_bytes += d->bytes - t->bytes;
    derive(t, d, fill_nvfp4, QUANT_NVFP4_SCALED);
    return 0;
}

/* Those that are tensors no more are marked so. */
enum { LEFT_OUT = QUANT_TYPE_END };

static size_t without_left_out(const struct tensor **list, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if ((int)list[i]->type != LEFT_OUT) list[kept++] = list[i];
    return kept;
}

static int take_scales(struct weights *w, size_t *n, bool count_only, struct lutra_error *err)
{
    for (size_t f = 0; f < w->n_file; f++)
        for (size_t i = 0; i < w->file[f].n_tensor; i++) {
            struct tensor *t = &w->file[f].tensor[i], *matrix = matrix_of(w, t, ".scale");
            if (!matrix && !matrix_of(w, t, ".input_scale")) continue;
            ++*n;
            if (count_only) continue;
            if (matrix) TRY(derive_nvfp4(w, matrix, t, err));
            w->tensor_bytes -= t->bytes;
            t->type = (enum quant_type)LEFT_OUT;
        }
    return 0;
}

int foreign_scale(struct weights *w, struct lutra_error *err)
{
    size_t n = 0;
    TRY(take_scales(w, &n, true, err));
    if (n == 0) return 0;
    struct derived *derived = realloc(w->derived, (w->n_derived + n) * sizeof *derived);
    if (!derived) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for tensors", w->file[0].label);
    w->derived = derived;
    TRY(take_scales(w, &n, false, err));
    without_left_out(w->tensor_by_name, w->n_tensor);
    w->n_tensor = without_left_out(w->tensor, w->n_tensor);
    return 0;
}
