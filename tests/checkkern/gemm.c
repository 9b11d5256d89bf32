/* SPDX-License-Identifier: MIT
 *
 * Checks of weight kernels: packing, exact integer parts, error bounds, row bits whatever the batch.
 *
 * Bound of a matmul output against the reference (f32 activations, sums in double):
 *     |new - ref| <= sum over k of |w| step / 2  +  4 (groups + 4) 2^-24 sum over k of |w| |x|
 * step = the activation scale of k's group (0 for f32 activations, where groups = n_in): the first term is the rounding
 * of activations to int8, the second that of the f32 accumulation.  Class bf16 rounds each factor to 8 bits instead, at
 * most 2^-8 of it:
 *     |new - ref| <= 2.01 * 2^-8 sum over k of |w| |x|  +  16 (n_in + 4) 2^-24 sum over k of |w| |x|
 * and because that is 100 times what happens with random numbers, its RMS is bounded, too (compare_rms).
 * Activations with one scale per row (class i8row) are compared with products of the rounded ones: the second term.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "checkkern.h"
#include "cpu/layout.h"
#include "ops/ref/ref.h"
#include "quant/quant.h"

enum { MAX_ROWS = 66, TILE_INPUTS = 256 };

/* How the inputs of a case are made. */
enum kind { RANDOM, OUTLIERS, WORST_POSITIVE, WORST_NEGATIVE, INTEGERS, KINDS };

static const char *const KIND_NAME[KINDS] = {"random", "outliers", "worst case +", "worst case -", "integers"};

struct problem {
    const struct cpu_gemm *gemm;
    size_t n_out, n_in, n_row, row_bytes;
    enum kind kind;
    bool i8row;
    uint8_t *src; /* file rows */
    float *w;     /* [n_out][n_in] dequantized */
    float *x;     /* [n_row][n_in] */
    float *bias;  /* [n_out] */
    struct guarded packed;
};

static void *take(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) abort();
    return p;
}

/* Bytes of a block where a f16 scale lies, or -1; the K-quants' small scales are made harmless separately. */
static void set_f16(uint8_t *block, int at, float value)
{
    uint16_t h = f32_to_f16(value);
    memcpy(block + at, &h, 2);
}

/* Gives a block of random bytes sane scales: `value` for the main one. */
static void set_scales(enum quant_type type, uint8_t *b, float value, float min, bool integers, bool worst)
{
    switch (type) {
    case QUANT_Q4_0:
    case QUANT_Q5_0:
    case QUANT_Q8_0:
    case QUANT_IQ2_XXS:
    case QUANT_IQ2_XS:
    case QUANT_IQ2_S:
    case QUANT_IQ3_XXS:
    case QUANT_IQ3_S:
    case QUANT_Q1_0:
    case QUANT_Q2_0:
    case QUANT_IQ4_NL: set_f16(b, 0, value); break;
    case QUANT_W2:
    case QUANT_W3:
    case QUANT_W4: /* worst: the zero at the other end; else any byte would do */
        set_f16(b, 0, value);
        b[2] = worst ? ~b[3] & 15 : b[2] & 15;
        break;
    case QUANT_Q2_K:
        set_f16(b, 80, value);
        set_f16(b, 82, fabsf(min));
        for (int i = 0; i < 16 && integers; i++) b[i] &= 0x33;
        break;
    case QUANT_Q3_K:
        set_f16(b, 108, value);
        for (int i = 0; i < 12 && integers; i++) b[96 + i] = i < 8 ? b[96 + i] & 0x33 : 0xaa; /* 0 .. 3 */
        break;
    case QUANT_IQ4_XS:
        set_f16(b, 0, value);
        if (integers) b[2] = b[3] = 0xaa;
        for (int i = 4; i < 8 && integers; i++) b[i] &= 0x33;
        break;
    case QUANT_Q4_1:
    case QUANT_Q5_1:
        set_f16(b, 0, value);
        set_f16(b, 2, min);
        break;
    case QUANT_MXFP4: b[0] = integers ? 128 : (uint8_t)(worst ? 130 : 120 + b[0] % 10); break;
    case QUANT_Q4_K:
    case QUANT_Q5_K:
        set_f16(b, 0, value);
        set_f16(b, 2, fabsf(min));
        for (int i = 0; i < 12 && integers; i++) b[4 + i] &= i < 8 ? 3 : 0x33;
        break;
    case QUANT_Q6_K:
        set_f16(b, 208, value);
        for (int i = 0; i < 16 && integers; i++) b[192 + i] = (uint8_t)((int)(b[192 + i] % 7) - 3);
        break;
    case QUANT_TQ1_0: set_f16(b, 52, value); break;
    case QUANT_TQ2_0: set_f16(b, 64, value); break;
    default: break;
    }
}

static bool is_bf16(const struct cpu_gemm *g)
{
    return strcmp(g->numerics, "bf16") == 0;
}

/* Integer weights that bf16 has, 8 bits: of a 4-bit scale s up to 1, IQ4_XS's up to 2. */
static void limit_scales(enum quant_type type, uint8_t *b)
{
    int first = 0, end = 0, step = 1, mask = 0x11; /* where s is */
    switch (type) {
    case QUANT_IQ2_XXS: first = 9, end = 66, step = 8, mask = 0x1f; break;
    case QUANT_IQ2_XS: first = 66, end = 74; break;
    case QUANT_IQ2_S: first = 74, end = 82; break;
    case QUANT_IQ3_XXS: first = 69, end = 98, step = 4, mask = 0x1f; break;
    case QUANT_IQ3_S: first = 106, end = 110; break;
    case QUANT_IQ4_XS:
        for (int i = 4; i < 8; i++) b[i] = (uint8_t)(b[i] % 16 % 3 | b[i] / 16 % 3 << 4);
        break;
    default: break;
    }
    for (int i = first; i < end; i += step) b[i] &= (uint8_t)mask;
}

/* TQ codes are 0..2 only, and TQ1_0's bytes are multiples of 256/243: made by quantizing. */
static void fill_quantized(const struct quant_info *q, uint8_t *src, size_t n, enum kind kind, uint64_t *seed)
{
    float x[QUANT_SUPER];
    for (size_t i = 0; i < n; i += q->block_elems, src += q->block_bytes) {
        for (size_t e = 0; e < q->block_elems; e++) {
            float r = random_normal(seed);
            x[e] = kind == WORST_POSITIVE ? 2 : kind == WORST_NEGATIVE ? -2 : kind == INTEGERS ? rintf(r * 20) : r;
            if ((q->type == QUANT_TQ1_0 || q->type == QUANT_TQ2_0) && kind == INTEGERS)
                x[e] = x[e] > 0 ? 1 : x[e] < 0 ? -1 : 0;
        }
        q->quantize(x, src, q->block_elems);
    }
}

static void fill_weights(struct problem *p, uint64_t *seed)
{
    const struct quant_info *q = quant_info_of(p->gemm->type);
    size_t total = p->n_out * p->row_bytes;
    bool worst = p->kind == WORST_POSITIVE || p->kind == WORST_NEGATIVE;
    if (q->block_elems == 1 || p->gemm->type == QUANT_TQ1_0 || p->gemm->type == QUANT_TQ2_0) {
        fill_quantized(q, p->src, p->n_out * p->n_in, p->kind, seed);
        return;
    }
    for (size_t i = 0; i < total; i++) p->src[i] = (uint8_t)(random_u64(seed) >> 13);
    if (worst) memset(p->src, p->kind == WORST_POSITIVE ? 0xff : 0, total);
    /* The extreme byte code of Q8_0 is -128, and of Q6_K's scales too. */
    if (p->kind == WORST_NEGATIVE && p->gemm->type == QUANT_Q8_0) memset(p->src, 0x80, total);
    if (p->kind == WORST_POSITIVE && p->gemm->type == QUANT_Q8_0) memset(p->src, 0x7f, total);
    for (size_t b = 0; b < total; b += q->block_bytes) {
        float d = p->kind == INTEGERS ? 1 : worst ? 1.5f : (float)(0.01 + 0.1 * random_unit(seed));
        float m = p->kind == INTEGERS ? 2 : worst ? 1.25f : random_normal(seed);
        if (worst && p->gemm->type == QUANT_Q6_K) memset(p->src + b + 192, p->kind == WORST_POSITIVE ? 0x7f : 0x80, 16);
        set_scales(p->gemm->type, p->src + b, d, m, p->kind == INTEGERS, worst);
        if (p->kind == INTEGERS && is_bf16(p->gemm)) limit_scales(p->gemm->type, p->src + b);
    }
}

static void fill_inputs(struct problem *p, uint64_t *seed)
{
    for (size_t i = 0; i < p->n_row * p->n_in; i++) {
        float r = random_normal(seed);
        switch (p->kind) {
        case WORST_POSITIVE: p->x[i] = 127; break;
        case WORST_NEGATIVE: p->x[i] = i / p->n_in % 2 ? -127 : 127; break;
        case INTEGERS: p->x[i] = i % 16 == 3 ? 127 : rintf(r * 4); break;
        case OUTLIERS: p->x[i] = random_u64(seed) % 97 == 0 ? 1000 * r : r; break;
        default: p->x[i] = r; break;
        }
    }
    for (size_t o = 0; o < p->n_out; o++) p->bias[o] = p->kind == INTEGERS ? (float)(o % 5) : random_normal(seed);
}

static struct problem open_problem(
    const struct cpu_gemm *g, size_t n_out, size_t n_in, size_t n_row, enum kind kind, uint64_t *seed)
{
    struct problem p = {.gemm = g, .n_out = n_out, .n_in = n_in, .n_row = n_row, .kind = kind};
    const struct quant_info *q = quant_info_of(g->type);
    p.row_bytes = n_in / q->block_elems * q->block_bytes;
    p.src = take(n_out * p.row_bytes);
    p.w = take(n_out * n_in * sizeof(float));
    p.x = take(n_row * n_in * sizeof(float));
    p.bias = take(n_out * sizeof(float));
    fill_weights(&p, seed);
    fill_inputs(&p, seed);
    struct tensor t = {.type = g->type, .n_dim = 2, .ne = {(int64_t)n_in, (int64_t)n_out, 1, 1}, .data = p.src};
    for (size_t o = 0; o < n_out; o++) ref_embed(&t, (int64_t)o, 1.0f, p.w + o * n_in);
    return p;
}

static void close_problem(struct problem *p)
{
    free(p->src);
    free(p->w);
    free(p->x);
    free(p->bias);
}

/* Packs in two ranges, as two threads would, and reads every row back. */
static void check_pack(struct tally *t, struct problem *p)
{
    const struct cpu_gemm *g = p->gemm;
    size_t panels = (p->n_out + (size_t)g->mr - 1) / (size_t)g->mr, bytes = g->packed_bytes(g, p->n_out, p->n_in);
    struct guarded row = guard(p->n_in * sizeof(float), 0x11);
    p->packed = guard(bytes, 0xee);
    /* The source may lie at any byte. */
    uint8_t *odd = take(p->n_out * p->row_bytes + 1);
    memcpy(odd + 1, p->src, p->n_out * p->row_bytes);
    g->pack(g, odd + 1, p->n_out, p->n_in, panels / 2, panels - panels / 2, p->packed.data);
    g->pack(g, odd + 1, p->n_out, p->n_in, 0, panels / 2, p->packed.data);
    free(odd);
    bool same = true;
    for (size_t o = 0; o < p->n_out; o++) {
        g->unpack_row(g, p->packed.data, p->n_out, p->n_in, o, (float *)(void *)row.data);
        same &= memcmp(row.data, p->w + o * p->n_in, p->n_in * sizeof(float)) == 0;
    }
    expect(t, g->name, same, "unpack_row differs from the file's values (%zu x %zu)", p->n_out, p->n_in);
    expect(t, g->name, unguard(&row), "unpack_row wrote outside its row");
}

/* out[n][n_out] by the kernel for rows first .. first + n - 1, in `parts` ranges of panels. */
static void run_rows(struct tally *t, const struct problem *p, size_t first, size_t n, size_t parts, float *out)
{
    const struct cpu_gemm *g = p->gemm;
    size_t panels = (p->n_out + (size_t)g->mr - 1) / (size_t)g->mr, stride = p->n_out + 3;
    struct guarded act = guard(g->act_bytes(p->n_in, n), 0xff), y = guard(n * stride * sizeof(float), 0x55);
    struct guarded work = guard(g->work_bytes, 0x7f);
    for (size_t r = 0; r < n; r++) {
        const float *x = p->x + (first + r) * p->n_in;
        g->act_row(x, p->n_in, r, n, p->i8row ? cpu_row_max(x, p->n_in) : 0, act.data);
    }
    for (size_t part = 0; part < parts; part++) {
        size_t panel = panels * part / parts, last = panels * (part + 1) / parts;
        if (panel == last) continue;
        struct cpu_gemm_args a = {.gemm = g,
            .packed = p->packed.data,
            .act = act.data,
            .out = (float *)(void *)y.data + panel * (size_t)g->mr,
            .out_stride = stride,
            .bias = p->bias,
            .n_out = p->n_out,
            .n_in = p->n_in,
            .panel = panel,
            .n_panel = last - panel,
            .n_row = n,
            .work = g->work_bytes ? work.data : NULL};
        g->run(&a);
    }
    bool gaps = true;
    for (size_t r = 0; r < n; r++) {
        memcpy(out + r * p->n_out, y.data + r * stride * 4, p->n_out * sizeof(float));
        for (size_t i = p->n_out * 4; i < stride * 4; i++) gaps &= y.data[r * stride * 4 + i] == 0x55;
    }
    expect(t, g->name, gaps, "wrote between rows (%zu x %zu, %zu rows)", p->n_out, p->n_in, n);
    expect(t, g->name, unguard(&y), "wrote outside the output (%zu x %zu, %zu rows)", p->n_out, p->n_in, n);
    expect(t, g->name, unguard(&act), "wrote outside the activations (%zu inputs, %zu rows)", p->n_in, n);
    expect(t, g->name, unguard(&work), "wrote outside its work memory (%zu x %zu, %zu rows)", p->n_out, p->n_in, n);
}

/* The bound of one output; see the head of this file. */
static double bound_of(const struct problem *p, const float *w, const float *x)
{
    size_t group = p->gemm->act_group ? (size_t)p->gemm->act_group : 1;
    double rounding = 0, magnitude = 0;
    for (size_t k = 0; k < p->n_in; k += group) {
        double max = 0, weights = 0;
        for (size_t i = k; i < k + group && i < p->n_in; i++) {
            if (fabs(x[i]) > max) max = fabs(x[i]);
            weights += fabs(w[i]);
            magnitude += fabs((double)w[i] * x[i]);
        }
        if (p->gemm->act_group && !p->i8row) rounding += weights * max / 127 * 0.5001;
        magnitude += p->gemm->act_group ? weights * max / 127 : 0;
    }
    /* Formats with a minimum cancel code against it: their terms are larger than |w| by a bounded factor. */
    double groups = (double)p->n_in / (double)(p->gemm->act_group ? 32 : 1);
    if (is_bf16(p->gemm)) rounding = 2.01 * 0x1p-8 * magnitude;
    return rounding + 16 * (groups + 4) * 0x1p-24 * magnitude;
}

static void compare_reference(struct tally *t, const struct problem *p, const float *out)
{
    double worst = 0;
    size_t at = 0;
    bool finite = true;
    for (size_t i = 0; i < p->n_row * p->n_out; i++) {
        const float *w = p->w + i % p->n_out * p->n_in, *x = p->x + i / p->n_out * p->n_in;
        double sum = p->bias[i % p->n_out], bound = bound_of(p, w, x) + 1e-6 + 2e-7 * fabs(sum);
        for (size_t k = 0; k < p->n_in; k++) sum += (double)w[k] * x[k];
        /* All integers here are exact in f32, whatever the order. */
        if (p->kind == INTEGERS)
            bound = p->gemm->act_group || p->gemm->type == QUANT_F32 || is_bf16(p->gemm) ? 0 : 1e-3;
        double error = fabs(out[i] - sum) / (bound > 0 ? bound : 1e-9);
        finite &= isfinite(out[i]);
        if (error > worst) worst = error, at = i;
    }
    expect(t, p->gemm->name, finite && worst <= 1,
        "%s, %zu x %zu, %zu rows: error %g times the bound at row %zu output %zu", KIND_NAME[p->kind], p->n_out,
        p->n_in, p->n_row, worst, at / p->n_out, at % p->n_out);
}

/* Rounding to nearest leaves a RMS error of 2^-8 / sqrt(3) of a factor near 1, of 0.74 times that where all mantissas
 * are as likely as those of products: 0.0024 for two.  Cutting one of them off gives 0.0037. */
static void compare_rms(struct tally *t, const struct problem *p, const float *out)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < p->n_row * p->n_out; i++) {
        const float *w = p->w + i % p->n_out * p->n_in, *x = p->x + i / p->n_out * p->n_in;
        double sum = p->bias[i % p->n_out];
        for (size_t k = 0; k < p->n_in; k++) {
            sum += (double)w[k] * x[k];
            size += (double)w[k] * w[k] * x[k] * x[k];
        }
        error += (out[i] - sum) * (out[i] - sum);
    }
    double rms = sqrt(error / size);
    expect(t, p->gemm->name, rms < 0.0028, "%zu x %zu, %zu rows: RMS error %g of the products'", p->n_out, p->n_in,
        p->n_row, rms);
}

static void check_case(struct tally *t, const struct cpu_gemm *g, const struct cpu_gemm *lower, size_t n_out,
    size_t n_in, size_t n_row, enum kind kind, uint64_t *seed)
{
    struct problem p = open_problem(g, n_out, n_in, n_row, kind, seed);
    float *out = take(n_row * n_out * sizeof(float)), *other = take(n_row * n_out * sizeof(float));
    check_pack(t, &p);
    run_rows(t, &p, 0, n_row, 2, out);
    compare_reference(t, &p, out);
    /* Not of one row, whose errors all its outputs share. */
    if (is_bf16(g) && kind == RANDOM && n_out > LANES && n_row > 1) compare_rms(t, &p, out);
    if (strcmp(g->numerics, lower->numerics) == 0) {
        struct problem q = p;
        q.gemm = lower;
        q.packed = guard(lower->packed_bytes(lower, n_out, n_in), 0xee);
        lower->pack(lower, p.src, n_out, n_in, 0, (n_out + (size_t)lower->mr - 1) / (size_t)lower->mr, q.packed.data);
        run_rows(t, &q, 0, n_row, 1, other);
        unguard(&q.packed);
        expect(t, g->name, memcmp(out, other, n_row * n_out * sizeof(float)) == 0,
            "%s, %zu x %zu, %zu rows: bits differ from %s, the same class %s", KIND_NAME[kind], n_out, n_in, n_row,
            lower->name, g->numerics);
    }
    expect(t, g->name, unguard(&p.packed), "pack wrote outside %zu x %zu", n_out, n_in);
    free(out);
    free(other);
    close_problem(&p);
}

/* Rounds rows to int8, x = code * scale, in f32 as kernels do: a code must not depend on who rounds. */
static void round_rows(const struct problem *p)
{
    for (size_t r = 0; r < p->n_row; r++) {
        float *x = p->x + r * p->n_in, max = 1e-5f;
        for (size_t k = 0; k < p->n_in; k++) max = fmaxf(max, fabsf(x[k]));
        for (size_t k = 0; k < p->n_in; k++) x[k] = rintf(x[k] * (127 / max)) * (max / 127);
    }
}

/* One scale per row: products of the rounded activations, which a scale per group would not give. */
static void check_i8row(
    struct tally *t, const struct cpu_gemm *g, size_t n_out, size_t n_in, size_t n_row, enum kind kind, uint64_t *seed)
{
    struct problem p = open_problem(g, n_out, n_in, n_row, kind, seed);
    float *out = take(n_row * n_out * sizeof(float));
    p.i8row = true;
    check_pack(t, &p);
    run_rows(t, &p, 0, n_row, 2, out);
    round_rows(&p);
    compare_reference(t, &p, out);
    expect(t, g->name, unguard(&p.packed), "pack wrote outside %zu x %zu", n_out, n_in);
    free(out);
    close_problem(&p);
}

/* Rows alone, and in every batch of 1 .. 66 (quick: 1 .. 18 and 34), have the same bits. */
static void check_invariance(struct tally *t, const struct cpu_gemm *g, bool quick, uint64_t *seed)
{
    const size_t n_out = 37, n_in = 512, most = quick ? 34 : MAX_ROWS;
    struct problem p = open_problem(g, n_out, n_in, most, RANDOM, seed);
    float *alone = take(MAX_ROWS * n_out * sizeof(float)), *out = take(MAX_ROWS * n_out * sizeof(float));
    check_pack(t, &p);
    for (size_t r = 0; r < most; r++) run_rows(t, &p, r, 1, 1, alone + r * n_out);
    for (size_t n = 1; n <= most; n += quick && n >= 18 ? 16 : 1) {
        size_t first = random_u64(seed) % (most - n + 1);
        run_rows(t, &p, first, n, 1 + n % 2, out);
        expect(t, g->name, memcmp(out, alone + first * n_out, n * n_out * sizeof(float)) == 0,
            "bits of rows depend on the batch of %zu", n);
    }
    expect(t, g->name, unguard(&p.packed), "pack wrote outside its memory");
    free(alone);
    free(out);
    close_problem(&p);
}

/* Any number of outputs: those of a weight that is cut after them have the bits they have in the whole weight. */
static void check_counts(struct tally *t, const struct cpu_gemm *g, uint64_t *seed)
{
    enum { MOST = 3 * LANES, ROWS = 9 };
    const struct quant_info *q = quant_info_of(g->type);
    size_t n_in = q->block_elems == 1 ? 37 : q->block_elems < 64 ? 64 : q->block_elems;
    struct problem whole = open_problem(g, MOST, n_in, ROWS, RANDOM, seed);
    float all[ROWS * MOST], out[ROWS * MOST];
    check_pack(t, &whole);
    run_rows(t, &whole, 0, ROWS, 1, all);
    compare_reference(t, &whole, all);
    for (size_t n = 1; n < MOST; n++) {
        struct problem p = whole;
        bool same = true;
        p.n_out = n;
        p.n_row = 1 + n % ROWS;
        check_pack(t, &p);
        run_rows(t, &p, 0, p.n_row, 1 + n % 2, out);
        for (size_t r = 0; r < p.n_row; r++) same &= memcmp(out + r * n, all + r * MOST, n * sizeof *out) == 0;
        expect(t, g->name, same, "the first %zu outputs, %zu rows: bits differ from those among %d", n, p.n_row, MOST);
        expect(t, g->name, unguard(&p.packed), "pack wrote outside %zu x %zu", n, n_in);
    }
    expect(t, g->name, unguard(&whole.packed), "pack wrote outside %d x %zu", MOST, n_in);
    close_problem(&whole);
}

/* A scale at each end of what half floats hold, and of MXFP4's exponents (above
 * 252 f32 overflows): an output has one of them. */
static const float END_SCALES[] = {0, 0x1p-24f, 0x1.ff8p-15f, 0x1p-14f, 65504, -0x1p-24f, -65504};
static const uint8_t SMALL_EXPONENTS[] = {0, 1, 2, 3, 63}, LARGE_EXPONENTS[] = {127, 128, 200, 251, 252};

static void set_end_scales(struct problem *p, bool large)
{
    const struct quant_info *q = quant_info_of(p->gemm->type);
    enum { N = sizeof END_SCALES / sizeof *END_SCALES, M = sizeof SMALL_EXPONENTS };
    for (size_t b = 0; b < p->n_out * p->row_bytes; b += q->block_bytes) {
        size_t o = b / p->row_bytes;
        float scale = END_SCALES[o % N];
        uint8_t *to = p->src + b;
        if (q->block_elems == 1) {
            scale *= to[0] & 1 ? 1.0f : -1.0f;
            q->quantize(&scale, to, 1);
        } else if (q->type == QUANT_MXFP4) {
            to[0] = (large ? LARGE_EXPONENTS : SMALL_EXPONENTS)[o % M];
        } else {
            set_scales(q->type, to, scale, END_SCALES[(o / N + o) % N], false, false);
        }
    }
}

/* Nothing may be lost of scales that are zero, subnormal or the largest: bounds here have no absolute part. */
static void check_ends(struct tally *t, const struct cpu_gemm *g, uint64_t *seed)
{
    const struct quant_info *q = quant_info_of(g->type);
    size_t n_in = q->block_elems == 1 ? 67 : q->block_elems < 64 ? 96 : q->block_elems;
    for (int large = 0; large < 2; large++) {
        struct problem p = open_problem(g, 50, n_in, 5, RANDOM, seed);
        float out[5 * 50];
        double worst = 0;
        size_t at = 0;
        set_end_scales(&p, large);
        struct tensor file = {
            .type = g->type, .n_dim = 2, .ne = {(int64_t)n_in, (int64_t)p.n_out, 1, 1}, .data = p.src};
        for (size_t o = 0; o < p.n_out; o++) ref_embed(&file, (int64_t)o, 1.0f, p.w + o * n_in), p.bias[o] = 0;
        for (size_t i = 0; i < p.n_row * n_in; i++) p.x[i] *= large ? 0x1p-40f : 0x1p40f;
        check_pack(t, &p);
        run_rows(t, &p, 0, p.n_row, 1, out);
        for (size_t i = 0; i < p.n_row * p.n_out; i++) {
            const float *w = p.w + i % p.n_out * n_in, *x = p.x + i / p.n_out * n_in;
            double sum = 0, bound = bound_of(&p, w, x);
            for (size_t k = 0; k < n_in; k++) sum += (double)w[k] * x[k];
            double error = out[i] == sum ? 0 : fabs(out[i] - sum) / bound;
            if (!(error <= worst)) worst = error, at = i;
        }
        expect(t, g->name, worst <= 1,
            "scales at the ends, inputs of 2^%d: error %g times the bound at row %zu output %zu", large ? -40 : 40,
            worst, at / p.n_out, at % p.n_out);
        expect(t, g->name, unguard(&p.packed), "pack wrote outside its memory");
        close_problem(&p);
    }
}

static void check_refusals(struct tally *t, const struct cpu_gemm *g)
{
    const struct quant_info *q = quant_info_of(g->type);
    expect(t, g->name, g->packed_bytes(g, 0, 256) == 0, "packs a weight without rows");
    expect(
        t, g->name, g->packed_bytes(g, SIZE_MAX / 4, SIZE_MAX / 256 / 256 * 256) == 0, "packs a weight that overflows");
    if (q->block_elems > 1)
        expect(t, g->name, g->packed_bytes(g, 16, q->block_elems + 1) == 0, "packs a partial block");
}

void check_gemm(struct tally *t, const struct cpu_gemm *g, const struct cpu_gemm *lower, const struct options *o)
{
    const struct quant_info *q = quant_info_of(g->type);
    static const size_t OUTS[] = {1, 16, 23, 64, 50};
    static const size_t ROWS[] = {1, 3, 8, 13, 5};
    uint64_t state = o->seed ^ (uint64_t)g->type << 32;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < 5; i++) {
            if (o->quick && (kind + i) % 5 > 0) continue; /* one kind for each shape */
            /* Whole tiles, odd tails of blocks, and single blocks. */
            size_t unit = q->block_elems == 1 ? 1 : q->block_elems, blocks = (size_t[]){1, 3, 9, 16, 11}[i];
            size_t n_in = unit == 1 ? (size_t[]){1, 31, 256, 300, 515}[i] : unit * blocks;
            if (unit == QUANT_SUPER) n_in = unit * (size_t[]){1, 2, 3, 1, 5}[i];
            check_case(t, g, lower, OUTS[i], n_in, ROWS[i], (enum kind)kind, &state);
        }
    }
    /* So long and so many rows or panels that a kernel may take them in several passes. */
    check_case(t, g, lower, 17, (o->quick ? 6 : 42) * TILE_INPUTS, 70, RANDOM, &state);
    check_case(t, g, lower, 850, TILE_INPUTS, 2, RANDOM, &state);
    for (int kind = 0; g->act_group && kind < KINDS; kind++) {
        if (o->quick && kind != (int)g->type % KINDS) continue;
        size_t n_row = (size_t[]){1, 6, 8, 13, 70}[kind];
        check_i8row(t, g, 50, q->block_elems == QUANT_SUPER ? 768 : 640, n_row, (enum kind)kind, &state);
        check_i8row(t, g, 17, 1536, n_row + 2, (enum kind)kind, &state);
    }
    check_invariance(t, g, o->quick, &state);
    check_counts(t, g, &state);
    if (!is_bf16(g)) check_ends(t, g, &state); /* bf16 tiles have no subnormals */
    check_refusals(t, g);
}

/* Rows in batches of whatever size, in whatever ranges of panels, have the bits they have among all. */
static void check_bulk_invariance(
    struct tally *t, const struct cpu_gemm *g, size_t n_out, size_t n_in, size_t n_row, uint64_t *seed)
{
    struct problem p = open_problem(g, n_out, n_in, n_row, RANDOM, seed);
    float *all = take(n_row * n_out * sizeof(float)), *out = take(n_row * n_out * sizeof(float));
    check_pack(t, &p);
    run_rows(t, &p, 0, n_row, 1, all);
    for (size_t n = 1, parts = 1; n < n_row; n += 7 + n / 4, parts++) {
        size_t first = random_u64(seed) % (n_row - n + 1);
        run_rows(t, &p, first, n, parts, out);
        expect(t, g->name, memcmp(out, all + first * n_out, n * n_out * sizeof(float)) == 0,
            "bits of rows depend on the batch of %zu or on %zu ranges of panels (%zu x %zu)", n, parts, n_out, n_in);
    }
    expect(t, g->name, unguard(&p.packed), "pack wrote outside its memory");
    free(all);
    free(out);
    close_problem(&p);
}

void check_gemm_bulk(struct tally *t, const struct cpu_gemm *g, const struct cpu_gemm *few, const struct options *o)
{
    const struct quant_info *q = quant_info_of(g->type);
    /* Half panels, pairs and odd ones, more than one call takes at once; half tiles and slices of inputs; odd rows. */
    static const size_t OUTS[] = {1, 23, 64, 50, 37, 565}, ROWS[] = {31, 97, 1, 131, 300, 66};
    static const size_t INPUTS[] = {32, 96, 512, 544, 1568, 1056}, SUPER_INPUTS[] = {256, 512, 768, 1024, 1536, 256};
    const size_t *some = q->block_elems == QUANT_SUPER ? SUPER_INPUTS : INPUTS;
    size_t inputs[6];
    for (int i = 0; i < 6; i++) inputs[i] = (some[i] + q->block_elems - 1) / q->block_elems * q->block_elems;
    uint64_t state = o->seed ^ (uint64_t)g->type << 40;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < 6; i++) {
            if (o->quick ? (kind + i) % 5 > 0 : kind > 0 && i > 3) continue;
            check_case(t, g, few, OUTS[i], inputs[i], ROWS[i], (enum kind)kind, &state);
        }
    }
    check_counts(t, g, &state);
    check_bulk_invariance(t, g, 37, inputs[3], 300, &state);
    check_bulk_invariance(t, g, 165, inputs[0], 530, &state); /* more rows than one pass takes */
}
