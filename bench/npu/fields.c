/* SPDX-License-Identifier: MIT
 *
 * Product of one row of act8 with bit-parallel codes by masks: what table lookup is compared with.  A field of a byte
 * is masked where it is (the upper one of two is shifted down), fields are added from the highest down, and the sum is
 * shifted between them, exactly.
 *
 * [block of 64 outputs][group]: vectors of 4 k per field of 32 outputs, those of the other 32 beside them, a word an
 * output | 64 scales | 64 minima.  Vector j, field f, byte b of an output: k = (32 / bits) j + 4 f + {0, 2, 1, 3}[b].
 */
#include "ablation.h"
#include "npu/wire/planes.h"

enum { AT_ONCE = 4, CHUNK = 4 }; /* vectors in registers; blocks per DMA */

/* Both halves of 64 outputs: AT_ONCE vectors of each, q the quads of their inputs. */
ISA_INLINE void fields(
    struct isa *isa, const uint32_t bits, vec total[2], const uint8_t *restrict w, const uint8_t *restrict q)
{
    const uint32_t n = 8 / bits;
    vec x[2 * AT_ONCE], s[4] = {v_zero(), v_zero(), v_zero(), v_zero()}; /* even fields, odd fields */
#pragma GCC unroll 8
    for (int i = 0; i < 2 * AT_ONCE; i++) x[i] = v_load(w + 128 * i);
#pragma GCC unroll 4
    for (uint32_t f = n; f; f -= 2) {
        vec even = v_splat_b(((1 << bits) - 1) << bits * (f - 2)), odd = v_splat_b(((1 << bits) - 1) << bits * (f - 1));
#pragma GCC unroll 4
        for (uint32_t j = 0; j < AT_ONCE; j++) {
            uint64_t quads = s_load_u64(q + 4 * (n * j + f - 2));
#pragma GCC unroll 2
            for (uint32_t h = 0; h < 2; h++) {
                s[h] = v_rmpyacc_ub_rb(s[h], v_and(x[2 * j + h], even), (uint32_t)quads);
                vec y = bits == 4 ? v_lsr_ub(x[2 * j + h], 4) : v_and(x[2 * j + h], odd);
                s[2 + h] = v_rmpyacc_ub_rb(s[2 + h], y, (uint32_t)(quads >> 32));
            }
        }
#pragma GCC unroll 4
        for (int c = 0; f > 2 && c < 4; c++) s[c] = v_asr_w(s[c], 2 * (int)bits);
    }
#pragma GCC unroll 2
    for (uint32_t h = 0; h < 2; h++)
        total[h] = v_add_w(total[h], v_add_w(s[h], bits == 4 ? s[2 + h] : v_asr_w(s[2 + h], (int)bits)));
    (void)isa;
}

/* One block of 64 outputs; bits, group and minima are constants where this is called. */
ISA_INLINE void block(struct isa *isa, const uint32_t bits, const uint32_t group, const uint32_t minima,
    uint8_t *restrict y, const uint8_t *restrict w, const uint8_t *restrict q, const uint8_t *restrict sums,
    const uint8_t *restrict scales, uint32_t n_groups)
{
    const vec one = v_splat_h(0x3c00);
    const uint32_t at_once = 32 / bits * AT_ONCE; /* inputs */
    vec sum[2];
    sum[0] = sum[1] = q32_add(v_zero(), v_zero());
    for (uint32_t g = 0; g < n_groups; g++) {
        vec i[2] = {v_zero(), v_zero()};
        int32_t inputs = 0;
#pragma GCC unroll 4
        for (uint32_t k = 0; k < group; k += at_once, w += 256 * AT_ONCE, q += at_once) fields(isa, bits, i, w, q);
#pragma GCC unroll 4
        for (uint32_t k = 0; k < group; k += 32, sums += 4) inputs += (int32_t)s_load_u32(sums);
        vec scale = v_splat_w((int32_t)s_load_u32(scales + (g * group >> 8) * 4));
        vec2 d = q32_mul_f16(v_load(w), one);
        sum[0] = q32_add_qq(sum[0], q32_mul_qq(q32_mul(f32_of_i32(i[0]), scale), v_lo(d)));
        sum[1] = q32_add_qq(sum[1], q32_mul_qq(q32_mul(f32_of_i32(i[1]), scale), v_hi(d)));
        if (minima) {
            vec2 m = q32_mul_f16(v_load(w + 128), one);
            vec a = q32_mul(f32_of_i32(v_splat_w(inputs)), scale);
            sum[0] = q32_add_qq(sum[0], q32_mul_qq(v_lo(m), a));
            sum[1] = q32_add_qq(sum[1], q32_mul_qq(v_hi(m), a));
        }
        w += 128 * (1 + minima);
    }
    v_store(y, f32_of_q32(sum[0]));
    v_store(y + 128, f32_of_q32(sum[1]));
}

#define BLOCK(bits, group, minima)                                                                                     \
    __attribute__((noinline)) static void block_##bits##_##group##_##minima(struct isa *isa, uint8_t *restrict y,      \
        const uint8_t *restrict w, const uint8_t *restrict q, const struct ablation_act8 *a, uint32_t n_groups)        \
    {                                                                                                                  \
        block(isa, bits, group, minima, y, w, q, q + a->sums, q + a->scales, n_groups);                                \
    }
BLOCK(1, 128, 0)
BLOCK(2, 128, 0)
BLOCK(2, 64, 0)
BLOCK(2, 64, 1)
BLOCK(4, 64, 1)
BLOCK(4, 128, 1)

static int block_of_kind(struct isa *isa, uint32_t kind, uint8_t *restrict y, const uint8_t *restrict w,
    const uint8_t *restrict q, const struct ablation_act8 *a, uint32_t n_groups)
{
    switch (npu_planes_untiled(kind)) {
    case NPU_PLANES(1, 128, NPU_PLANES_CENTRED): block_1_128_0(isa, y, w, q, a, n_groups); return 0;
    case NPU_PLANES(2, 128, NPU_PLANES_CENTRED):
    case NPU_PLANES(2, 128, NPU_PLANES_TERNARY): block_2_128_0(isa, y, w, q, a, n_groups); return 0;
    case NPU_PLANES(2, 64, NPU_PLANES_CENTRED): block_2_64_0(isa, y, w, q, a, n_groups); return 0;
    case NPU_PLANES(2, 64, NPU_PLANES_MINIMA): block_2_64_1(isa, y, w, q, a, n_groups); return 0;
    case NPU_PLANES(4, 64, NPU_PLANES_MINIMA): block_4_64_1(isa, y, w, q, a, n_groups); return 0;
    case NPU_PLANES(4, 128, NPU_PLANES_MINIMA): block_4_128_1(isa, y, w, q, a, n_groups); return 0;
    default: return -1;
    }
}

uint32_t ablation_fields(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct npu_weights w;
    struct ablation_act8 a;
    if (!npu_is_planes(op->kind) || npu_weights_layout(op->kind, op->k, op->n, &w) || op->k % 64 || op->n % 64)
        return NPU_BAD_SHAPE;
    const uint32_t n_groups = op->k / npu_planes_group(w.kind), n_blocks = op->n / 64,
                   bytes = n_groups * npu_planes_group_bytes(&w) / 2;
    if (machine->tcm_kept + 3 * CHUNK * (uint64_t)bytes > machine->tcm_bytes) return NPU_NO_ROOM;
    ablation_act8_layout(op->k, &a);
    uint8_t *ring = isa_ptr(machine->tcm_start + machine->tcm_kept), *y = isa_ptr(op->dst);
    uint32_t ticket[3] = {0, 0, 0};
    for (uint32_t c = 0, at = 0; at < n_blocks + 2 * CHUNK; c++, at += CHUNK) {
        if (c >= 2) dma_wait(ticket[(c - 2) % 3]);
        if (at < n_blocks)
            ticket[c % 3] = dma_start_1d(ring + c % 3 * CHUNK * bytes, isa_ptr(op->weights) + (size_t)at * bytes,
                (n_blocks - at < CHUNK ? n_blocks - at : CHUNK) * bytes);
        for (uint32_t i = 0; c >= 2 && i < CHUNK && at - 2 * CHUNK + i < n_blocks; i++, y += 256)
            if (block_of_kind(
                    isa, op->kind, y, ring + (c - 2) % 3 * CHUNK * bytes + i * bytes, isa_ptr(op->src), &a, n_groups))
                return NPU_BAD_SHAPE;
    }
    if (op->flags & NPU_TO_HOST) cache_flush(isa_ptr(op->dst), 4 * op->n);
    return NPU_OK;
}
