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

static void put_half(uint8_t *dst, uint32_t offset, uint16_t h)
{
    memcpy(dst + offset, &h, 2);
}

static void put_code(const struct npu_weights *w, uint8_t *dst, uint32_t k, uint32_t n, uint32_t code)
{
    uint32_t shift, at = npu_code_offset(w, k, n, &shift);
    dst[at] = (uint8_t)(dst[at] | code << shift);
}

/* One GGUF block of 32 elements (F16: 32 halves) of output n, starting at k. */
static void put_block(const struct npu_weights *w, uint8_t *dst, const uint8_t *block, uint32_t k, uint32_t n)
{
    uint16_t d;
    if (w->kind == NPU_W_F16) {
        uint32_t shift;
        for (uint32_t i = 0; i < 32; i++) memcpy(dst + npu_code_offset(w, k + i, n, &shift), block + 2 * i, 2);
        return;
    }
    memcpy(&d, block, 2);
    put_half(dst, npu_scale_offset(w, k, n), d);
    if (w->kind == NPU_W_Q8_0) {
        for (uint32_t i = 0; i < 32; i++) put_code(w, dst, k + i, n, block[2 + i] ^ 0x80u);
        return;
    }
    const uint8_t *qs = block + 2;
    if (w->kind == NPU_W_Q4_1) {
        uint16_t m;
        memcpy(&m, block + 2, 2);
        put_half(dst, npu_scale_offset(w, k, n) + 128, m);
        qs = block + 4;
    }
    for (uint32_t i = 0; i < 16; i++) {
        put_code(w, dst, k + i, n, qs[i] & 15u);
        put_code(w, dst, k + i + 16, n, qs[i] >> 4);
    }
}

void npu_pack_tile32(
    const struct npu_weights *w, const void *rows, size_t row_bytes, uint8_t *dst, uint32_t first, uint32_t last)
{
    if (w->unit_k == NPU_SUPER_K) {
        npu_pack_k(w, rows, row_bytes, dst, first, last);
        return;
    }
    size_t block_bytes = row_bytes / (w->k / 32);
    for (uint32_t b = first; b < last; b++) {
        memset(dst + (size_t)b * w->block_bytes, 0, w->block_bytes);
        for (uint32_t n = b * NPU_COLS; n < (b + 1) * NPU_COLS && n < w->n; n++)
            for (uint32_t k = 0; k < w->k; k += 32)
                put_block(w, dst, (const uint8_t *)rows + n * row_bytes + k / 32 * block_bytes, k, n);
    }
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
