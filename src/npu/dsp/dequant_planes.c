/* SPDX-License-Identifier: MIT
 *
 * Bit planes to f16 tiles by two-level lookup [TMAN 4.1]: bits to codes, codes to halves.
 *
 * First level: the nibbles of a plane's vector are bits of even and of odd k; each finds a half with these four bits
 * in four nibbles, planes are added by or, and one shuffle of even and odd halves makes a vector of 4-bit codes as
 * tile32 has them (wire/layout.h).  Second level: a table of values.  What is a scale with a sign, or nothing, needs no
 * product of floats: the table masks the scale.  At 1 bit a nibble is looked up once for each of its bits, and there is
 * no second level.  Of codes with a zero 8 - z is added to all nibbles at once, where 2 or 3 bits leave room for it; of
 * 4 bits z is taken off what the second level found, which is exact.
 */
#include "npu/dsp/expand.h"
#include "npu/dsp/kernels.h"

/* Table t: the sign that bit t of a nibble stands for. */
static const uint16_t sign_tables[64]
    __attribute__((aligned(128))) = {0x8000, 0x8000, 0x0000, 0x8000, 0x8000, 0x8000, 0x0000, 0x8000, 0x8000, 0x0000,
        0x0000, 0x0000, 0x8000, 0x0000, 0x0000, 0x0000, 0x8000, 0x8000, 0x0000, 0x8000, 0x8000, 0x8000, 0x0000, 0x8000,
        0x8000, 0x0000, 0x0000, 0x0000, 0x8000, 0x0000, 0x0000, 0x0000, 0x8000, 0x8000, 0x8000, 0x8000, 0x0000, 0x8000,
        0x0000, 0x8000, 0x8000, 0x8000, 0x8000, 0x8000, 0x0000, 0x8000, 0x0000, 0x8000, 0x8000, 0x0000, 0x8000, 0x0000,
        0x0000, 0x0000, 0x0000, 0x0000, 0x8000, 0x0000, 0x8000, 0x0000, 0x0000, 0x0000, 0x0000, 0x0000};

/* Table p: the bits of a nibble, k 0 2 4 6 or 1 3 5 7, as bit p of nibbles 0, 2, 1, 3 of a half. */
static const uint16_t code_tables[64]
    __attribute__((aligned(128))) = {0x0000, 0x0000, 0x0001, 0x0004, 0x0100, 0x0400, 0x0101, 0x0404, 0x0010, 0x0040,
        0x0011, 0x0044, 0x0110, 0x0440, 0x0111, 0x0444, 0x1000, 0x4000, 0x1001, 0x4004, 0x1100, 0x4400, 0x1101, 0x4404,
        0x1010, 0x4040, 0x1011, 0x4044, 0x1110, 0x4440, 0x1111, 0x4444, 0x0000, 0x0000, 0x0002, 0x0008, 0x0200, 0x0800,
        0x0202, 0x0808, 0x0020, 0x0080, 0x0022, 0x0088, 0x0220, 0x0880, 0x0222, 0x0888, 0x2000, 0x8000, 0x2002, 0x8008,
        0x2200, 0x8800, 0x2202, 0x8808, 0x2020, 0x8080, 0x2022, 0x8088, 0x2220, 0x8880, 0x2222, 0x8888};

/* Second level, code q at half 2q (expand.h has those of 4 bits and of minima).  Of -1 .. 2; of -4 .. 3; and what is
 * left of a scale whose sign is set: all, nothing, all but the sign. */
static const uint16_t value_table[64] __attribute__((aligned(128))) = {0xbc00, 0, 0x0000, 0, 0x3c00, 0, 0x4000, 0};
static const uint16_t value_table_3[64] __attribute__((aligned(128))) = {
    0xc400, 0, 0xc200, 0, 0xc000, 0, 0xbc00, 0, 0x0000, 0, 0x3c00, 0, 0x4000, 0, 0x4200, 0};
static const uint16_t mask_table[64] __attribute__((aligned(128))) = {0xffff, 0, 0x0000, 0, 0x7fff, 0, 0x0000, 0};

/* Where the halves of 128 outputs go: blocks of 32 are `stride` apart. */
struct place {
    uint8_t *dst;
    uint32_t stride;
};

/* 8 k of 1 bit; scale: of 32 outputs each. */
ISA_INLINE void signs(struct isa *isa, struct place to, const uint8_t *restrict src, vec tables, const vec scale[4])
{
    vec x = v_load(src), y = upper(isa, x);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++, to.dst += 128) { /* k = 2i, 2i + 1 */
        vec2 even = v_lut16(x, tables, i), odd = v_lut16(y, tables, i);
        vec2 low = v_shuffoe_h(v_lo(odd), v_lo(even)), high = v_shuffoe_h(v_hi(odd), v_hi(even));
        v_store(to.dst, v_xor(v_lo(low), scale[0]));
        v_store(to.dst + to.stride, v_xor(v_hi(low), scale[1]));
        v_store(to.dst + 2 * (size_t)to.stride, v_xor(v_lo(high), scale[2]));
        v_store(to.dst + 3 * (size_t)to.stride, v_xor(v_hi(high), scale[3]));
    }
}

/* 4-bit codes of 8 k, of 32 outputs each; planes lie `apart`, the highest first. */
ISA_INLINE void codes(
    struct isa *isa, const uint32_t bits, vec code[4], const uint8_t *restrict src, uint32_t apart, vec tables)
{
    vec x = v_load(src);
    vec2 e = v_lut16(x, tables, (int)bits - 1), o = v_lut16(upper(isa, x), tables, (int)bits - 1);
    vec even[2] = {v_lo(e), v_hi(e)}, odd[2] = {v_lo(o), v_hi(o)};
#pragma GCC unroll 4
    for (uint32_t plane = bits - 1; plane--;) {
        x = v_load(src += apart);
        e = v_lut16(x, tables, (int)plane), o = v_lut16(upper(isa, x), tables, (int)plane);
        even[0] = v_or(even[0], v_lo(e)), even[1] = v_or(even[1], v_hi(e));
        odd[0] = v_or(odd[0], v_lo(o)), odd[1] = v_or(odd[1], v_hi(o));
    }
    vec2 low = v_shuffoe_h(odd[0], even[0]), high = v_shuffoe_h(odd[1], even[1]);
    code[0] = v_lo(low), code[1] = v_hi(low), code[2] = v_lo(high), code[3] = v_hi(high);
}

/* The second level of a kind. */
ISA_INLINE vec values(struct isa *isa, const uint32_t bits, const uint32_t form)
{
    (void)isa;
    if (form == NPU_PLANES_TERNARY) return v_const(mask_table);
    if (form == NPU_PLANES_MINIMA) return v_const(unsigned_table);
    if (form == NPU_PLANES_ZEROS) return bits == 4 ? v_const(unsigned_table) : v_const(signed_table);
    return bits == 2 ? v_const(value_table) : bits == 3 ? v_const(value_table_3) : v_const(signed_table);
}

/* 128 halves, twice each: two k of 32 outputs in each vector. */
ISA_INLINE void spread(struct isa *isa, vec out[4], const uint8_t *restrict halves)
{
    vec a = v_load(halves), b = v_load(halves + 128);
    vec2 low = v_shuffoe_h(a, a), high = v_shuffoe_h(b, b);
    out[0] = v_lo(low), out[1] = v_hi(low), out[2] = v_lo(high), out[3] = v_hi(high);
    (void)isa;
}

/* What is added to the codes of ZEROS: 8 - z in every nibble. */
ISA_INLINE void spread_zeros(struct isa *isa, vec out[4], const uint8_t *restrict zeros)
{
    const vec eight = v_splat_h(8), nibbles = v_splat_h(0x1111);
    vec a = v_mpyi_h(v_sub_h(eight, v_load(zeros)), nibbles);
    vec b = v_mpyi_h(v_sub_h(eight, v_load(zeros + 128)), nibbles);
    vec2 low = v_shuffoe_h(a, a), high = v_shuffoe_h(b, b);
    out[0] = v_lo(low), out[1] = v_hi(low), out[2] = v_lo(high), out[3] = v_hi(high);
    (void)isa;
}

/* -z of 4 bits as halves. */
ISA_INLINE void spread_negative(struct isa *isa, vec out[4], const uint8_t *restrict zeros)
{
    vec a = f16_of_i16(v_sub_h(v_zero(), v_load(zeros))), b = f16_of_i16(v_sub_h(v_zero(), v_load(zeros + 128)));
    vec2 low = v_shuffoe_h(a, a), high = v_shuffoe_h(b, b);
    out[0] = v_lo(low), out[1] = v_hi(low), out[2] = v_lo(high), out[3] = v_hi(high);
    (void)isa;
}

/* Four tile vectors of (q + negative) scale, rounded once: sums of integers are exact. */
ISA_INLINE void store_less(struct isa *isa, uint8_t *restrict dst, vec2 low, vec2 high, vec scale, vec negative)
{
    const vec x[4] = {v_lo(low), v_hi(low), v_lo(high), v_hi(high)}, factor = q16_mul(scale, v_splat_h(0x3c00));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) v_store(dst + 128 * i, f16_of_q16(q16_mul_qq(q16_add(x[i], negative), factor)));
    (void)isa;
}

/* One group of n_vectors, an even number, times 8 k; bits and form are constants where this is called. */
ISA_INLINE void group(struct isa *isa, const uint32_t bits, const uint32_t form, struct place to,
    const uint8_t *restrict src, uint32_t n_vectors)
{
    const uint32_t apart = 128 * n_vectors, signs_only = bits == 1 && form == NPU_PLANES_CENTRED;
    const vec first = v_const(signs_only ? sign_tables : code_tables), second = values(isa, bits, form);
    vec scale[4], least[4];
    spread(isa, scale, src + bits * apart);
    if (form == NPU_PLANES_MINIMA) spread(isa, least, src + bits * apart + 256);
    if (form == NPU_PLANES_ZEROS && bits < 4) spread_zeros(isa, least, src + bits * apart + 256);
    if (form == NPU_PLANES_ZEROS && bits == 4) spread_negative(isa, least, src + bits * apart + 256);
#pragma GCC unroll 4
    for (int v = 0; form == NPU_PLANES_TERNARY && v < 4; v++) scale[v] = v_or(scale[v], v_splat_h((int16_t)0x8000));
#pragma GCC unroll 2
    for (n_vectors &= ~1u; n_vectors; n_vectors--, src += 128, to.dst += 512) {
        vec code[4];
        if (signs_only) {
            signs(isa, to, src, first, scale);
            continue;
        }
        codes(isa, bits, code, src, apart, first);
#pragma GCC unroll 4
        for (uint32_t v = 0; v < 4; v++) {
            uint8_t *dst = to.dst + (size_t)v * to.stride;
            if (form == NPU_PLANES_ZEROS && bits < 4) code[v] = v_add_b(code[v], least[v]);
            vec2 low = v_lut16(code[v], second, 0), high = v_lut16(upper(isa, code[v]), second, 0);
            if (form == NPU_PLANES_TERNARY)
                mask_4(isa, dst, low, high, scale[v]);
            else if (form == NPU_PLANES_ZEROS && bits == 4)
                store_less(isa, dst, low, high, scale[v], least[v]);
            else
                store_4(isa, dst, low, high, scale[v], form == NPU_PLANES_MINIMA ? &least[v] : NULL);
        }
    }
}

/* Units of one block of 128 outputs. */
ISA_INLINE void units(struct isa *isa, const uint32_t bits, const uint32_t form, const struct npu_weights *w,
    struct place to, const uint8_t *restrict src, uint32_t src_stride, uint32_t n_units)
{
    const uint32_t per = npu_planes_group(w->kind), bytes = npu_planes_group_bytes(w);
    for (; n_units; n_units--, src += src_stride) {
        const uint8_t *g = src;
        for (uint32_t k = 0; k < NPU_PLANES_K; k += per, g += bytes, to.dst += 64 * per)
            group(isa, bits, form, to, g, per / 8);
    }
}

/* A function of its own: in one with the others, clang 19 gives those of 3 and 4 bits 2 % more packets. */
__attribute__((noinline)) static void units_with_zeros(struct isa *isa, const struct npu_weights *w, struct place to,
    const uint8_t *restrict src, uint32_t src_stride, uint32_t n_units)
{
    switch (npu_planes_bits(w->kind)) {
    case 2: units(isa, 2, NPU_PLANES_ZEROS, w, to, src, src_stride, n_units); break;
    case 3: units(isa, 3, NPU_PLANES_ZEROS, w, to, src, src_stride, n_units); break;
    default: units(isa, 4, NPU_PLANES_ZEROS, w, to, src, src_stride, n_units); break;
    }
}

void npu_planes_dequant(struct isa *isa, const struct npu_weights *w, uint8_t *restrict dst, uint32_t stride,
    const uint8_t *restrict src, uint32_t src_stride, uint32_t n_units)
{
    enum { CENTRED = NPU_PLANES_CENTRED, MINIMA = NPU_PLANES_MINIMA, ZEROS = NPU_PLANES_ZEROS };
    const struct place to = {dst, stride};
    switch (8 * npu_planes_form(w->kind) + npu_planes_bits(w->kind)) {
    case 8 * CENTRED + 1: units(isa, 1, CENTRED, w, to, src, src_stride, n_units); break;
    case 8 * CENTRED + 2: units(isa, 2, CENTRED, w, to, src, src_stride, n_units); break;
    case 8 * CENTRED + 3: units(isa, 3, CENTRED, w, to, src, src_stride, n_units); break;
    case 8 * CENTRED + 4: units(isa, 4, CENTRED, w, to, src, src_stride, n_units); break;
    case 8 * MINIMA + 1: units(isa, 1, MINIMA, w, to, src, src_stride, n_units); break;
    case 8 * MINIMA + 2: units(isa, 2, MINIMA, w, to, src, src_stride, n_units); break;
    case 8 * MINIMA + 3: units(isa, 3, MINIMA, w, to, src, src_stride, n_units); break;
    case 8 * MINIMA + 4: units(isa, 4, MINIMA, w, to, src, src_stride, n_units); break;
    case 8 * ZEROS + 2:
    case 8 * ZEROS + 3:
    case 8 * ZEROS + 4: units_with_zeros(isa, w, to, src, src_stride, n_units); break;
    default: units(isa, 2, NPU_PLANES_TERNARY, w, to, src, src_stride, n_units); break;
    }
}
