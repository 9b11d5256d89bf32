/* SPDX-License-Identifier: MIT
 *
 * The ablation kernels of bench/npu compute what they claim, in the emulator and without a fault: a baseline that is
 * counted must at least be right.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ablation.h"
#include "base/f16.h"
#include "npu/sim/sim.h"
#include "npu/sim/tile.h"
#include "npu/wire/layout.h"

enum { K = 256, N = 32, TCM = 1 << 20, TABLE = 65536 };

static uint64_t seed = 17;

static uint32_t next(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)(seed >> 16);
}

struct rig {
    struct npu_sim *sim;
    struct npu_machine machine;
};

static void rig_open(struct rig *r)
{
    struct npu_sim_settings s = {.tcm_bytes = TCM, .ddr_bytes = 1 << 20, .seed = 3};
    assert_int_equal(npu_sim_open(&r->sim, &s, NULL), 0);
    r->machine = (struct npu_machine){NPU_SIM_BOX_BYTES, TCM, TABLE, 1, 0, 0};
}

static void rig_run(struct rig *r, const struct npu_op *op)
{
    size_t n;
    assert_int_equal(ablation_execute(npu_sim_isa(r->sim), &r->machine, op), NPU_OK);
    const struct npu_sim_fault *f = npu_sim_faults(r->sim, &n);
    if (n) fail_msg("%s in %s line %d", npu_sim_fault_name(f->kind), f->kernel, f->line);
}

static uint8_t code[K][N];        /* 0 .. 15 */
static uint16_t scale[K / 32][N]; /* of groups along k */

static void set_bits(uint8_t *p, uint32_t o, uint32_t q, int lut)
{
    uint32_t v = o / 64, lane = o % 64, i, b;
    static const uint32_t back[4] = {0, 2, 1, 3};
    if (lut)
        i = 4 * (v / 8) + back[v % 4], b = 2 * lane + v / 4 % 2;
    else
        i = v / 2, b = 2 * lane + v % 2;
    for (uint32_t bit = 0; bit < 4; bit++) p[128 * bit + b] |= (uint8_t)((q >> bit & 1) << i);
}

/* The weights as the variant wants them. */
static uint32_t pack(uint32_t op, uint8_t *p)
{
    if (op == ABLATION_CONVERT) {
        struct npu_weights w;
        npu_weights_layout(NPU_W_Q4_0, K, N, &w);
        for (uint32_t k = 0; k < K; k++)
            for (uint32_t n = 0; n < N; n++) {
                uint32_t shift, at = npu_code_offset(&w, k, n, &shift);
                p[at] |= (uint8_t)(code[k][n] << shift);
                memcpy(p + npu_scale_offset(&w, k, n), &scale[k / 32][n], 2);
            }
        return w.block_bytes;
    }
    for (uint32_t k = 0; k < K; k++)
        for (uint32_t n = 0; n < N; n++) {
            uint32_t o = npu_tile_offset(k % 32, n) / 2, q = code[k][n], at, e;
            if (op == ABLATION_SCATTER)
                at = (n * (K / 32) + k / 32) * 18, e = k % 32, memcpy(p + at, &scale[k / 32][n], 2);
            else if (op == ABLATION_GROUPS) /* groups of 32 in tile order share the scale of output 0 */
                at = (k / 32 * 32 + o / 32) * 18, e = o % 32, memcpy(p + at, &scale[k / 32][0], 2);
            else {
                set_bits(p + k / 32 * ABLATION_PLANES_TILE, o, q, op == ABLATION_PLANES_LUT);
                continue;
            }
            p[at + 2 + e % 16] |= (uint8_t)(q << (e / 16 * 4));
        }
    return K * N;
}

static void values_are_in_their_places(void **state)
{
    (void)state;
    for (uint32_t op_code = ABLATION_SCATTER; op_code <= ABLATION_PLANES_LUT; op_code++) {
        struct rig r;
        uint8_t *packed = calloc(1, 65536);
        rig_open(&r);
        for (uint32_t k = 0; k < K; k++)
            for (uint32_t n = 0; n < N; n++) code[k][n] = (uint8_t)(next() % 16);
        for (uint32_t g = 0; g < K / 32; g++)
            for (uint32_t n = 0; n < N; n++) scale[g][n] = (uint16_t)(0x2c00 + next() % 2048);
        uint32_t bytes = pack(op_code, packed), at = npu_sim_buffer(r.sim, bytes + 128);
        memcpy(npu_sim_host(r.sim, at), packed, bytes);
        struct npu_op op = {.code = op_code, .k = K, .n = N, .weights = at};
        rig_run(&r, &op);
        const uint8_t *tiles = npu_sim_host(r.sim, r.machine.tcm_start + TABLE);
        for (uint32_t k = 0; k < K; k++)
            for (uint32_t n = 0; n < N; n++) {
                uint16_t h;
                memcpy(&h, tiles + k / 32 * 2048 + npu_tile_offset(k % 32, n), 2);
                uint16_t s = op_code >= ABLATION_PLANES   ? 0x3c00
                             : op_code == ABLATION_GROUPS ? scale[k / 32][0]
                                                          : scale[k / 32][n];
                float want = f16_to_f32(f32_to_f16((float)(code[k][n] - 8) * f16_to_f32(s)));
                if (f16_to_f32(h) != want)
                    fail_msg("op %u, k %u, n %u: %g, wanted %g", op_code, k, n, f16_to_f32(h), want);
            }
        free(packed);
        npu_sim_close(&r.sim);
    }
}

/* Where the scale of output n is behind its codes. */
static uint32_t finished_scale(uint32_t bits, uint32_t n)
{
    if (bits == 2) return 2 * (n / 16 * 32 + n % 8 * 2 + n / 8 % 2);
    return 2 * (2 * (8 * (n / 4 % 2) + n % 4 + 16 * (n / 8 % 2)) + n / 16);
}

static void put_finished(uint8_t *p, uint32_t bits, uint32_t k, uint32_t n, uint32_t q)
{
    static const uint32_t byte[4] = {0, 2, 1, 3};
    uint32_t at, shift;
    if (bits == 2)
        at = 128 * (k % 64 / 32 * 2 + n / 16) + k % 32 * 4 + byte[n % 4], shift = n % 16 / 4 * 2;
    else
        at = 128 * (n / 2) + k % 32 * 4 + byte[k % 128 / 32], shift = n % 2 * 4;
    p[at] |= (uint8_t)(q << shift);
}

/* Tiles of 32 outputs x 32 k: code times scale, and then plus the minimum, to the nearest half. */
static void finished_halves_are_those_of_their_groups(void **state)
{
    (void)state;
    for (uint32_t bits = 2; bits <= 4; bits += 2) {
        const uint32_t group = 32 * bits, unit = bits == 2 ? 640 : 2176, codes = 4 * bits * group;
        const uint32_t bytes = K / group * unit;
        struct rig r;
        static uint16_t d[K][N], m[K][N];
        uint8_t packed[K / 128 * 2176] = {0}; /* the larger of both */
        for (uint32_t g = 0; g < K / group; g++)
            for (uint32_t n = 0; n < N; n++) {
                d[g][n] = (uint16_t)(0x2000 + next() % 0x2000), m[g][n] = (uint16_t)(0xa800 + next() % 0x2000);
                uint8_t *scales = packed + g * unit + codes + finished_scale(bits, n);
                memcpy(scales, &d[g][n], 2), memcpy(scales + (bits == 2 ? 32 : 16), &m[g][n], 2);
            }
        for (uint32_t k = 0; k < K; k++)
            for (uint32_t n = 0; n < N; n++) {
                code[k][n] = (uint8_t)(next() % (1u << bits));
                put_finished(packed + k / group * unit, bits, k, n, code[k][n]);
            }
        rig_open(&r);
        uint32_t at = npu_sim_buffer(r.sim, bytes);
        memcpy(npu_sim_host(r.sim, at), packed, bytes);
        struct npu_op op = {.code = ABLATION_FINISHED_2 + bits / 4, .k = K, .n = N, .weights = at};
        rig_run(&r, &op);
        const uint8_t *tiles = npu_sim_host(r.sim, r.machine.tcm_start + TABLE);
        for (uint32_t k = 0; k < K; k++)
            for (uint32_t n = 0; n < N; n++) {
                uint16_t h;
                memcpy(&h, tiles + k / 32 * 2048 + npu_tile_offset(n, k % 32), 2);
                float x = f16_to_f32(f32_to_f16((float)code[k][n] * f16_to_f32(d[k / group][n])));
                if (h != f32_to_f16(x + f16_to_f32(m[k / group][n])))
                    fail_msg("%u bits, k %u, n %u: %#x", bits, k, n, h);
            }
        npu_sim_close(&r.sim);
    }
}

static void softmax_is_one(void **state)
{
    (void)state;
    enum { ROWS = 38, KEYS = 1344 };
    static float score[ROWS][KEYS];
    for (uint32_t way = NPU_EXP_TABLE; way <= NPU_EXP_F32; way++) {
        struct rig r;
        rig_open(&r);
        struct npu_op op = {.code = NPU_OP_EXP_TABLE};
        rig_run(&r, &op);
        struct isa *isa = npu_sim_isa(r.sim);
        uint32_t tiles = r.machine.tcm_start + TABLE + 4096, dst = npu_sim_buffer(r.sim, ROWS * 128);
        for (uint32_t i = 0; i < (uint32_t)KEYS * 64 * 2; i += 128) v_store(isa_ptr(tiles + i), v_zero());
        uint8_t *host = npu_sim_host(r.sim, tiles);
        for (uint32_t i = 0; i < ROWS; i++)
            for (uint32_t j = 0; j < KEYS; j++) {
                uint16_t h = f32_to_f16((float)(int32_t)(next() << 4) * 0x1p-29f);
                score[i][j] = f16_to_f32(h);
                memcpy(host + i / 32 * KEYS * 64 + j / 32 * 2048 + npu_tile_offset(i % 32, j % 32), &h, 2);
            }
        op = (struct npu_op){.code = ABLATION_SOFTMAX, .kind = way, .m = ROWS, .k = KEYS, .dst = dst};
        rig_run(&r, &op);
        cache_flush(isa_ptr(dst), ROWS * 128);
        for (uint32_t i = 0; i < ROWS; i++) {
            double most = -1e9, sum = 0, got;
            for (uint32_t j = 0; j < KEYS; j++) most = score[i][j] > most ? score[i][j] : most;
            for (uint32_t j = 0; j < KEYS; j++) sum += exp(score[i][j] - most);
            float s;
            memcpy(&s, (const uint8_t *)npu_sim_host(r.sim, dst) + i * 128, 4);
            if (!(fabs(s - sum) <= sum * 4e-3)) fail_msg("way %u, row %u: sum %g, wanted %g", way, i, s, sum);
            for (uint32_t j = KEYS / 1024 * 1024; j < KEYS; j++) { /* under the final maximum */
                uint16_t h;
                memcpy(&h, host + i / 32 * KEYS * 64 + j / 32 * 2048 + npu_tile_offset(i % 32, j % 32), 2);
                got = f16_to_f32(h);
                assert_true(fabs(got - exp(score[i][j] - most)) <= 6e-3 * exp(score[i][j] - most) + 1e-6);
            }
        }
        npu_sim_close(&r.sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_in_their_places),
        cmocka_unit_test(finished_halves_are_those_of_their_groups), cmocka_unit_test(softmax_is_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
