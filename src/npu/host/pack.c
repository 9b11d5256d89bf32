/* SPDX-License-Identifier: MIT */
#include "npu/host/pack.h"

#include "base/f16.h"
#include "base/status.h"
#include "quant/quant.h"

#include <math.h>
#include <string.h>

int npu_pack_kind(uint32_t quant_type, uint32_t *kind, struct lutra_error *err)
{
    switch (quant_type) {
    case QUANT_Q4_0: *kind = NPU_W_Q4_0; return 0;
    case QUANT_Q4_1: *kind = NPU_W_Q4_1; return 0;
    case QUANT_IQ4_NL: *kind = NPU_W_IQ4_NL; return 0;
    case QUANT_Q8_0: *kind = NPU_W_Q8_0; return 0;
    case QUANT_F16: *kind = NPU_W_F16; return 0;
    case QUANT_Q4_K: *kind = NPU_W_Q4_K; return 0;
    case QUANT_Q5_K: *kind = NPU_W_Q5_K; return 0;
    case QUANT_Q6_K: *kind = NPU_W_Q6_K; return 0;
    default: break;
    }
    const char *name = quant_type_name(quant_type);
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: no weight layout for %s", name ? name : "an unknown type");
}

void npu_pack_codes(const struct npu_weights *w, uint8_t *dst, const uint8_t *code, uint32_t k, uint32_t n)
{
    static const uint8_t order[4] = {0, 2, 1, 3};
    uint32_t shift;
    uint8_t *to = dst + npu_code_offset(w, k, n, &shift);
    if (npu_weights_wide(w->kind)) {
        for (uint32_t j = 0; j < 8; j++, to += NPU_LINE, code += 4)
            for (uint32_t i = 0; i < 4; i++) to[i] = code[order[i]];
        return;
    }
    for (uint32_t j = 0; j < 4; j++, to += NPU_LINE, code += 8)
        for (uint32_t i = 0; i < 4; i++) to[i] = (uint8_t)(code[order[i]] | code[4 + order[i]] << 4);
}

static void put_halves(const struct npu_weights *w, uint8_t *dst, const uint8_t *half, uint32_t k, uint32_t n)
{
    uint32_t shift;
    uint8_t *to = dst + npu_code_offset(w, k, n, &shift);
    for (uint32_t j = 0; j < 16; j++) memcpy(to + j * NPU_LINE, half + 4 * j, 4);
}

/* One GGUF block of 32 elements of output n, starting at k. */
static void put_block(const struct npu_weights *w, uint8_t *dst, const uint8_t *block, uint32_t k, uint32_t n)
{
    uint32_t scale = npu_scale_offset(w, k, n);
    uint8_t code[32];
    memcpy(dst + scale, block, 2);
    block += 2;
    if (w->kind == NPU_W_Q4_1) {
        memcpy(dst + scale + 128, block, 2);
        block += 2;
    }
    for (uint32_t i = 0; i < 16; i++) {
        code[i] = w->kind == NPU_W_Q8_0 ? block[i] ^ 0x80u : block[i] & 15u;
        code[i + 16] = w->kind == NPU_W_Q8_0 ? block[i + 16] ^ 0x80u : (uint8_t)(block[i] >> 4);
    }
    npu_pack_codes(w, dst, code, k, n);
}

void npu_pack_tile32(
    const struct npu_weights *w, const void *rows, size_t row_bytes, uint8_t *dst, uint32_t first, uint32_t last)
{
    size_t block_bytes = row_bytes / (w->k / 32);
    for (uint32_t b = first; b < last; b++) {
        uint32_t from = b * NPU_COLS, end = from + NPU_COLS < w->n ? from + NPU_COLS : w->n;
        if (end - from < NPU_COLS) memset(dst + (size_t)b * w->block_bytes, 0, w->block_bytes);
        if (w->unit_k == NPU_SUPER_K) {
            npu_pack_k(w, rows, row_bytes, dst, from, end);
            continue;
        }
        for (uint32_t k = 0; k < w->k; k += 32)
            for (uint32_t n = from; n < end; n++)
                (w->kind == NPU_W_F16 ? put_halves : put_block)(
                    w, dst, (const uint8_t *)rows + n * row_bytes + k / 32 * block_bytes, k, n);
    }
}

static void put_half(uint8_t *dst, uint32_t offset, uint16_t h)
{
    memcpy(dst + offset, &h, 2);
}

static void put_code(const struct npu_weights *w, uint8_t *dst, uint32_t k, uint32_t n, uint32_t code)
{
    uint32_t shift, at = npu_code_offset(w, k, n, &shift);
    dst[at] = (uint8_t)(dst[at] | code << shift);
}

/* Group: k, k + 1 and outputs n .. n + 15; outputs past the last one count as 0. */
static void put_group(
    const struct npu_weights *w, const float *rows, size_t stride, uint8_t *dst, uint32_t k, uint32_t n)
{
    const int wide = w->kind == NPU_W_SUPER8;
    float extreme = 0;
    for (uint32_t i = 0; i < 32; i++) {
        float x = n + i / 2 < w->n ? rows[(n + i / 2) * stride + k + i % 2] : 0;
        if (fabsf(x) > fabsf(extreme)) extreme = x;
    }
    float d = wide ? fabsf(extreme) / 127 : extreme / -8, inverse = d != 0 ? 1 / d : 0;
    put_half(dst, npu_scale_offset(w, k, n), f32_to_f16(d));
    for (uint32_t i = 0; i < 32; i++) {
        float x = n + i / 2 < w->n ? rows[(n + i / 2) * stride + k + i % 2] : 0;
        float q = floorf(x * inverse + (wide ? 128.5f : 8.5f)), most = wide ? 255 : 15;
        put_code(w, dst, k + i % 2, n + i / 2, (uint32_t)(q < 0 ? 0 : q > most ? most : q));
    }
}

void npu_pack_supergroup(
    const struct npu_weights *w, const float *rows, size_t row_stride, uint8_t *dst, uint32_t first, uint32_t last)
{
    for (uint32_t b = first; b < last; b++) {
        memset(dst + (size_t)b * w->block_bytes, 0, w->block_bytes);
        for (uint32_t k = 0; k < w->k; k += 2)
            for (uint32_t n = b * NPU_COLS; n < (b + 1) * NPU_COLS; n += 16) put_group(w, rows, row_stride, dst, k, n);
    }
}
