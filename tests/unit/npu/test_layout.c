/* SPDX-License-Identifier: MIT
 *
 * npu/wire's layouts and plans: every code and scale has a place of its own and is GGUF's; every TCM plan fits.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "base/status.h"
#include "npu/host/pack.h"
#include "npu/wire/message.h"
#include "npu/wire/planes.h"
#include "npu/wire/tcm.h"
#include "quant/quant.h"

static const uint32_t types[] = {QUANT_Q4_0, QUANT_Q4_1, QUANT_IQ4_NL, QUANT_Q8_0, QUANT_F16, QUANT_IQ4_XS, QUANT_MXFP4,
    QUANT_Q1_0, QUANT_Q2_0, QUANT_TQ1_0, QUANT_TQ2_0, QUANT_W2, QUANT_W3, QUANT_W4};

static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

static void codes_and_scales_have_places_of_their_own(void **state)
{
    (void)state;
    for (uint32_t kind = NPU_W_Q4_0; kind <= NPU_W_SUPER4; kind++) {
        struct npu_weights w;
        assert_int_equal(npu_weights_layout(kind, 192, 70, &w), 0);
        uint32_t bytes = w.n_blocks * w.block_bytes;
        uint8_t *used = calloc(bytes, 1); /* bits 0..3, 4..7: nibbles; 0xff: bytes of scales */
        for (uint32_t n = 0; n < w.n_blocks * NPU_COLS; n++)
            for (uint32_t k = 0; k < w.k; k++) {
                uint32_t shift, at = npu_code_offset(&w, k, n, &shift), scale = npu_scale_offset(&w, k, n);
                const int spread = kind == NPU_W_W3 && k % 32 >= 24; /* a bit each in three vectors */
                uint8_t mask = (uint8_t)((spread ? 1u : (1u << npu_weights_bits(kind)) - 1) << shift);
                assert_true(at < bytes && scale + 1 < bytes);
                for (uint32_t i = 0; i < (spread ? 3 : 1); i++, at += NPU_LINE) {
                    assert_int_equal(used[at] & mask, 0);
                    used[at] |= mask;
                }
                assert_true(scale % w.block_bytes % w.unit_bytes >= w.code_bytes);
            }
        for (uint32_t i = 0; i < bytes; i++)
            assert_int_equal(used[i], i % w.block_bytes % w.unit_bytes < w.code_bytes ? 0xff : 0);
        free(used);
    }
}

/* The same of W2, W3 and W4, from a pair (a, b) and a code; W2's is a half. */
static float value_of_pair(uint32_t kind, uint16_t a, uint16_t b, int q)
{
    if (kind == NPU_W_W3) return (float)(q + (b & 15) - 8) * f16_to_f32(a);
    if (kind == NPU_W_W4) return (float)((q - (b & 15)) * (int16_t)a) * ldexpf(1, -(b >> 10 & 31));
    const int off = b & NPU_W2_STEPS(q);
    return f16_to_f32((uint16_t)((a > off ? a - off : 0) ^ (b >> 12 & 1) << 15));
}

/* Value of one GGUF element from its packed code and scale, exactly as quant/ computes it. */
static float value(const struct npu_weights *w, const uint8_t *packed, uint32_t k, uint32_t n)
{
    static const int8_t nl[16] = QUANT_IQ4_NL_VALUES, fp4[16] = QUANT_MXFP4_VALUES;
    uint32_t shift, at = npu_code_offset(w, k, n, &shift);
    uint16_t d, m;
    if (w->kind == NPU_W_F16) {
        memcpy(&d, packed + at, 2);
        return f16_to_f32(d);
    }
    memcpy(&d, packed + npu_scale_offset(w, k, n), 2);
    if (npu_weights_zero(w->kind)) {
        int code = packed[at] >> shift & ((1 << npu_weights_bits(w->kind)) - 1);
        if (w->kind == NPU_W_W3 && k % 32 >= 24)
            code = (packed[at] >> shift & 1) | (packed[at + NPU_LINE] >> shift & 1) << 1 |
                   (packed[at + 2 * NPU_LINE] >> shift & 1) << 2;
        memcpy(&m, packed + npu_scale_offset(w, k, n) + 2, 2);
        return value_of_pair(w->kind, d, m, code);
    }
    int q = w->kind == NPU_W_Q8_0 ? packed[at] - 128 : packed[at] >> shift & ((1 << npu_weights_bits(w->kind)) - 1);
    if (w->kind == NPU_W_MXFP4) return (float)fp4[q] * f16_to_f32(d);
    if (w->kind == NPU_W_TERNARY) return (float)(q - 1) * f16_to_f32(d);
    if (w->kind == NPU_W_Q4_0) return (float)(q - 8) * f16_to_f32(d);
    if (w->kind == NPU_W_IQ4_NL) return (float)nl[q] * f16_to_f32(d);
    if (w->kind == NPU_W_Q8_0) return (float)q * f16_to_f32(d);
    memcpy(&m, packed + npu_scale_offset(w, k, n) + 128, 2);
    return (float)q * f16_to_f32(d) + f16_to_f32(m);
}

/* The bits of the same value; the scale of a group of IQ4_XS is rounded to a half, so are the values of kind W2, and
 * zeros of groups with a zero have no sign. */
static void check_value(uint32_t type, uint32_t k, uint32_t n, float file, float packed)
{
    int same = type == QUANT_IQ4_XS                     ? fabsf(file - packed) <= fabsf(file) * 0x1p-11f
               : type == QUANT_W2 || type == QUANT_Q2_0 ? f16_to_f32(f32_to_f16(file)) == packed
               : type == QUANT_W3 || type == QUANT_W4   ? file == packed
                                                        : f32_bits(file) == f32_bits(packed);
    if (!same) fail_msg("%s: input %u, output %u: %g, wanted %g", quant_type_name(type), k, n, packed, file);
}

static void packing_loses_nothing(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const struct quant_info *q = quant_info_of(types[t]);
        struct npu_weights w;
        uint32_t kind, k = q->block_elems > 64 ? 512 : 320, n = 45;
        size_t row_bytes;
        assert_int_equal(npu_pack_kind(types[t], &kind, NULL), 0);
        assert_int_equal(npu_weights_layout(kind, k, n, &w), 0);
        assert_int_equal(quant_row_bytes(types[t], k, &row_bytes), 0);
        float *row = malloc(k * sizeof *row), *back = malloc(k * sizeof *back);
        size_t all = (size_t)w.n_blocks * w.block_bytes;
        uint8_t *rows = malloc(row_bytes * n), *packed = malloc(all), *parts = malloc(all);
        memset(packed, 0xaa, all), memset(parts, 0x55, all);
        for (uint32_t r = 0; r < n; r++) {
            for (uint32_t i = 0; i < k; i++) row[i] = (float)(int64_t)next(&seed) * 0x1p-63f;
            if (q->quantize) q->quantize(row, rows + r * row_bytes, k);
            if (!q->quantize) quant_random_blocks(q, r, 1, rows + r * row_bytes, k);
        }
        npu_pack_tile32(&w, types[t], rows, row_bytes, packed, 0, w.n_blocks);
        for (uint32_t b = w.n_blocks; b--;) npu_pack_tile32(&w, types[t], rows, row_bytes, parts, b, b + 1);
        assert_memory_equal(packed, parts, all); /* every byte, whoever packs which part */
        for (uint32_t r = 0; r < n; r++) {
            q->dequantize(rows + r * row_bytes, back, k);
            for (uint32_t i = 0; i < k; i++) check_value(types[t], i, r, back[i], value(&w, packed, i, r));
        }
        free(row), free(back), free(rows), free(packed), free(parts);
    }
}

static void unknown_types_are_refused_by_name(void **state)
{
    (void)state;
    struct lutra_error err;
    uint32_t kind;
    assert_int_equal(npu_pack_kind(QUANT_Q5_0, &kind, &err), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "Q5_0"));
}

/* A scale that W2 and W4 do not take: the whole matrix is packed as a wider kind, with the same values. */
static void any_scale_is_packed(void **state)
{
    (void)state;
    static const struct {
        uint32_t type, kind, wide;
    } list[] = {{QUANT_W2, NPU_W_W2, NPU_W_Q4_0}, {QUANT_Q2_0, NPU_W_W2, NPU_W_Q4_0}, {QUANT_W3, NPU_W_W3, NPU_W_W3},
        {QUANT_W4, NPU_W_W4, NPU_W_Q8_0}};
    static const uint16_t strange[] = {0x0001, 0x83ff, 0x6000, 0xfbff}, usual[] = {0x0400, 0x85ff, 0x5fff, 0x8000};
    enum { K = 128, N = 40 };
    for (size_t t = 0; t < sizeof list / sizeof *list; t++)
        for (int s = 0; s < 8; s++) {
            const struct quant_info *q = quant_info_of(list[t].type);
            const uint16_t scale = s < 4 ? strange[s] : usual[s - 4];
            struct npu_weights w;
            size_t row_bytes;
            uint8_t rows[N * 128], *packed;
            float back[K];
            assert_int_equal(quant_row_bytes(list[t].type, K, &row_bytes), 0);
            for (int r = 0; r < N; r++) quant_random_blocks(q, (uint64_t)(N * s + r), 0.1f, rows + r * row_bytes, K);
            memcpy(rows + N * row_bytes - q->block_bytes, &scale, 2); /* of the last group of all */
            uint32_t kind = npu_pack_kind_of_rows(list[t].type, list[t].kind, rows, N * row_bytes);
            assert_int_equal(kind, s < 4 ? list[t].wide : list[t].kind);
            assert_int_equal(npu_weights_layout(kind, K, N, &w), 0);
            packed = malloc(w.bytes);
            npu_pack_tile32(&w, list[t].type, rows, row_bytes, packed, 0, w.n_blocks);
            for (uint32_t r = 0; r < N; r++) {
                q->dequantize(rows + r * row_bytes, back, K);
                for (uint32_t i = 0; i < K; i++)
                    check_value(kind == NPU_W_W2 ? QUANT_W2 : QUANT_W4, i, r, back[i], value(&w, packed, i, r));
            }
            free(packed);
        }
}

static void supergroups_keep_their_values(void **state)
{
    (void)state;
    struct npu_weights w;
    uint64_t seed = 99;
    assert_int_equal(npu_weights_layout(NPU_W_SUPER4, 128, 40, &w), 0);
    float *x = malloc(128 * 40 * sizeof *x);
    uint8_t *packed = malloc((size_t)w.n_blocks * w.block_bytes);
    for (int i = 0; i < 128 * 40; i++) x[i] = (float)(int64_t)next(&seed) * 0x1p-63f;
    npu_pack_supergroup(&w, x, 128, packed, 0, w.n_blocks);
    for (uint32_t n = 0; n < 40; n++)
        for (uint32_t k = 0; k < 128; k++) {
            uint32_t shift, at = npu_code_offset(&w, k, n, &shift);
            uint16_t d;
            memcpy(&d, packed + npu_scale_offset(&w, k, n), 2);
            float step = f16_to_f32(d), got = (float)((packed[at] >> shift & 15) - 8) * step;
            float worst = (step < 0 ? -step : step) * 1.01f; /* +8 steps do not exist: up to one whole step */
            assert_true(got - x[n * 128 + k] <= worst && x[n * 128 + k] - got <= worst);
        }
    free(x), free(packed);
}

/* Whatever lay there: a block's outputs past the last one are 0. */
static void outputs_past_the_last_are_zeros(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct npu_weights w;
        uint32_t kind;
        size_t row_bytes;
        assert_int_equal(npu_pack_kind(types[i], &kind, NULL), 0);
        assert_int_equal(npu_weights_layout(kind, 256, 40, &w), 0);
        assert_int_equal(quant_row_bytes(types[i], 256, &row_bytes), 0);
        size_t bytes = (size_t)w.n_blocks * w.block_bytes;
        uint8_t *rows = malloc(40 * row_bytes), *a = calloc(bytes, 1), *b = malloc(bytes);
        memset(rows, 0x2c, 40 * row_bytes), memset(b, 0xff, bytes);
        for (uint32_t r = 0; npu_weights_zero(kind) && r < 40; r++) /* a zero is no byte like another */
            quant_random_blocks(quant_info_of(types[i]), r, 0.1f, rows + r * row_bytes, 256);
        npu_pack_tile32(&w, types[i], rows, row_bytes, a, 0, w.n_blocks);
        npu_pack_tile32(&w, types[i], rows, row_bytes, b, 0, w.n_blocks);
        if (memcmp(a, b, bytes)) fail_msg("%s: outputs past the last are what lay there", quant_type_name(types[i]));
        free(rows), free(a), free(b);
    }
}

struct range {
    uint64_t first, last;
};

static void check_apart(const struct range *r, int n, uint32_t limit)
{
    for (int i = 0; i < n; i++) {
        assert_true(r[i].last <= limit);
        assert_int_equal(r[i].first % NPU_TILE, 0);
        for (int j = 0; j < i; j++) assert_true(r[i].first >= r[j].last || r[j].first >= r[i].last);
    }
}

/* Thousands of shapes: what a plan gives out lies in TCM, apart, large enough, and covers rows and outputs. */
static void plans_fit(void **state)
{
    (void)state;
    uint64_t seed = 4711;
    uint32_t planned = 0;
    for (int i = 0; i < 20000; i++) {
        struct npu_weights w;
        struct npu_gemm_plan p;
        uint32_t kind = (uint32_t)(NPU_W_Q4_0 + next(&seed) % 6),
                 k = (uint32_t)(64 * (1 + next(&seed) % (1u << next(&seed) % 9)));
        uint32_t n = (uint32_t)(1 + next(&seed) % (1u << next(&seed) % 18)),
                 m = (uint32_t)(1 + next(&seed) % (1u << next(&seed) % 12));
        uint32_t tcm = (uint32_t)(1 + next(&seed) % 8) << 20;
        uint32_t kept = next(&seed) % 2 ? 65536 : 0;
        if (npu_weights_layout(kind, k, n, &w) || npu_gemm_plan(&w, m, kept, tcm, &p)) continue;
        planned++;
        struct range r[64];
        int c = 0;
        uint64_t act = (uint64_t)p.row_blocks * k * 64, packed = (uint64_t)p.chunk_blocks * w.block_bytes;
        uint64_t tiles = kind == NPU_W_F16 ? 0 : (uint64_t)p.chunk_blocks * k * 64,
                 out = (uint64_t)p.chunk_blocks * p.row_blocks * NPU_TILE;
        assert_true(p.row_blocks && p.chunk_blocks && p.act >= kept && p.bytes <= tcm);
        assert_true(
            (uint64_t)p.row_blocks * p.n_passes * 32 >= m && (uint64_t)p.row_blocks * (p.n_passes - 1) * 32 < m);
        assert_true(
            (uint64_t)p.chunk_blocks * p.n_chunks >= w.n_blocks && p.chunk_blocks * (p.n_chunks - 1) < w.n_blocks);
        r[c++] = (struct range){p.act, p.act + act};
        for (uint32_t j = 0; j < p.lead + 2; j++, c++) r[c] = (struct range){p.packed[j], p.packed[j] + packed};
        for (uint32_t j = 0; j < p.lead + 1; j++, c++) r[c] = (struct range){p.tiles[j], p.tiles[j] + tiles};
        for (uint32_t j = 0; j < p.lead + 1; j++, c++) r[c] = (struct range){p.out[j], p.out[j] + out};
        check_apart(r, c, p.bytes);
    }
    assert_true(planned > 10000);
}

/* Every part belongs to one thread, and none has more than one part more than another. */
static void shares_cover_all_parts(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= NPU_THREADS_MAX; n++)
        for (uint32_t parts = 0; parts < 100; parts++) {
            struct npu_shares s = npu_shares(parts, n);
            assert_int_equal(npu_share_start(s, 0), 0);
            assert_int_equal(npu_share_start(s, n), parts);
            for (uint32_t t = 0; t < n; t++) {
                uint32_t own = npu_share_start(s, t + 1) - npu_share_start(s, t);
                assert_true(own == parts / n || own == parts / n + 1);
            }
        }
}

/* Areas of any size, also absurd ones: apart, aligned, behind what is kept; they fit exactly if the last one ends
 * inside. */
static void tcm_is_given_out_once(void **state)
{
    (void)state;
    uint64_t seed = 99;
    int fitted = 0;
    for (int i = 0; i < 20000; i++) {
        uint32_t kept = (uint32_t)(next(&seed) % 70000), end = (uint32_t)(1 + next(&seed) % (8 << 20));
        struct npu_tcm tcm = npu_tcm_from(kept, end);
        uint64_t last = kept;
        int n = (int)(next(&seed) % 12);
        for (int j = 0; j < n; j++) {
            uint64_t bytes = next(&seed) % 50 ? next(&seed) % (1u << next(&seed) % 20) : next(&seed) >> 8;
            uint64_t at = npu_tcm_take(&tcm, bytes);
            if (!npu_tcm_fits(&tcm)) continue;
            assert_true(at % NPU_TILE == 0 && at >= last && at + bytes <= end && at + bytes <= tcm.used);
            last = at + bytes;
        }
        assert_true(npu_tcm_fits(&tcm) == (tcm.used <= end));
        fitted += n && npu_tcm_fits(&tcm);
    }
    assert_true(fitted > 4000);
}

/* Heads of every size: areas of a thread lie apart, and where it does not fit nothing is planned. */
static void plans_of_attention_fit(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 1100; n++)
        for (uint32_t tcm = 64 << 10; tcm <= 2 << 20; tcm *= 2) {
            struct npu_attention_plan p;
            if (npu_attention_plan(n, 4096, tcm, &p)) {
                assert_true(n % 8 || n > 1024 || 2000 * (uint64_t)n + 65536 > tcm);
                continue;
            }
            uint64_t tiles = p.n / 32 * NPU_TILE, raw = 128 * p.n;
            struct range r[] = {{0, 4096}, {p.query, p.query + tiles}, {p.keys[0], p.keys[0] + raw},
                {p.keys[1], p.keys[1] + raw}, {p.values[0], p.values[0] + raw}, {p.values[1], p.values[1] + raw},
                {p.key_tiles, p.key_tiles + 2 * tiles}, {p.value_tiles, p.value_tiles + 2 * tiles},
                {p.score_tiles, p.score_tiles + 4096}, {p.prob_tiles, p.prob_tiles + 4096}, {p.probs, p.probs + 4096},
                {p.out_tiles, p.out_tiles + tiles}, {p.out, p.out + 128 * p.n}, {p.scratch, p.scratch + 8192}};
            assert_true(p.bytes <= tcm && p.n >= n);
            check_apart(r, sizeof r / sizeof *r, p.bytes);
        }
}

/* Bit planes: what a search found is in the kind and in a word of the message, which say the same layout and plan. */
static void tilings_are_read_back(void **state)
{
    (void)state;
    uint64_t seed = 1717;
    uint32_t planned = 0;
    for (int i = 0; i < 2000; i++) {
        struct npu_weights w, again;
        struct npu_gemm_plan p, q;
        const uint32_t bits = 1 + next(&seed) % 4, group = 32u << next(&seed) % 3,
                       kind = NPU_PLANES(bits, group, next(&seed) % 2), m = 1 + next(&seed) % 300;
        assert_int_equal(npu_weights_layout(kind, 1 + next(&seed) % 5000, 1 + next(&seed) % 20000, &w), 0);
        assert_int_equal(npu_planes_untiled(w.kind), kind);
        assert_int_equal(npu_weights_layout(w.kind, w.k, w.n, &again), 0);
        assert_memory_equal(&again, &w, sizeof w);
        if (npu_gemm_plan(&w, m, 65536, 8 << 20, &p)) continue;
        planned++;
        const uint32_t tiling = npu_gemm_tiling(p.lead, p.row_blocks, p.chunk_blocks);
        assert_int_equal(npu_gemm_plan_of(&w, m, tiling, 65536, 8 << 20, &q), 0);
        assert_memory_equal(&q, &p, sizeof p);
        assert_int_equal(npu_gemm_plan_of(&w, m, tiling, 65536, p.bytes, &q), 0);
        assert_int_equal(npu_gemm_plan_of(&w, m, tiling, 65536, p.bytes - 1, &q), -1);
        assert_true(p.chunk_blocks % 4 == 0 && p.chunk_blocks * (p.n_chunks - 1) < w.n_blocks);
        assert_true(p.row_blocks * p.n_passes * 32 >= m && p.row_blocks * (p.n_passes - 1) * 32 < m);
    }
    assert_true(planned > 1000);
}

static void impossible_tilings_are_refused(void **state)
{
    (void)state;
    static const uint32_t bad[][2] = {{0, 8}, {6, 0}, {8, 8}, {6, 9}}; /* units of 9 KiB */
    static const uint32_t words[][3] = {{0, 1, 4}, {3, 1, 4}, {1, 0, 4}, {1, 1, 0}, {1, 1, 6}, {1, 100, 4}};
    const uint32_t kind = NPU_PLANES(4, 32, NPU_PLANES_CENTRED);
    struct npu_weights w;
    struct npu_gemm_plan p;
    assert_int_equal(npu_weights_layout(npu_planes_tiled(kind, 7, 7), 1024, 4096, &w), 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_int_equal(
            npu_gemm_plan_of(&w, 1, npu_gemm_tiling(words[i][0], words[i][1], words[i][2]), 0, 4 << 20, &p), -1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(npu_weights_layout(npu_planes_tiled(kind, bad[i][0], bad[i][1]), 1024, 4096, &w), -1);
}

static void impossible_shapes_are_refused(void **state)
{
    (void)state;
    struct npu_weights w;
    struct npu_gemm_plan p;
    assert_int_equal(npu_weights_layout(NPU_W_Q4_0, 0, 1, &w), -1);
    assert_int_equal(npu_weights_layout(NPU_W_Q4_0, 96, 1, &w), -1);
    assert_int_equal(npu_weights_layout(NPU_W_Q4_0, 64, 0, &w), -1);
    assert_int_equal(npu_weights_layout(0, 64, 64, &w), -1);
    assert_int_equal(npu_weights_layout(99, 64, 64, &w), -1);
    assert_int_equal(npu_weights_layout(NPU_W_Q4_0, 0xffffffc0u, 0xffffffffu, &w), -1);
    assert_int_equal(npu_weights_layout(NPU_W_Q8_0, 65536, 32, &w), 0);
    assert_int_equal(npu_gemm_plan(&w, 1, 0, 8 << 20, &p), -1);
    assert_int_equal(npu_gemm_plan(&w, 0, 0, 8 << 20, &p), -1);
    assert_int_equal(npu_gemm_plan(&w, 1, 16 << 20, 8 << 20, &p), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_and_scales_have_places_of_their_own),
        cmocka_unit_test(packing_loses_nothing),
        cmocka_unit_test(unknown_types_are_refused_by_name),
        cmocka_unit_test(any_scale_is_packed),
        cmocka_unit_test(supergroups_keep_their_values),
        cmocka_unit_test(outputs_past_the_last_are_zeros),
        cmocka_unit_test(plans_fit),
        cmocka_unit_test(shares_cover_all_parts),
        cmocka_unit_test(tcm_is_given_out_once),
        cmocka_unit_test(plans_of_attention_fit),
        cmocka_unit_test(tilings_are_read_back),
        cmocka_unit_test(impossible_tilings_are_refused),
        cmocka_unit_test(impossible_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
