/* SPDX-License-Identifier: MIT
 *
 * The QEMU back end's functions: floats lane by lane, DMA as a copy, tile operations handed to the host.
 * On any other target this file is empty.
 */
#include "npu/dsp/isa.h"

#if defined(__hexagon__) && !defined(ISA_HEXAGON)

#include "npu/dsp/soft.h"

void npu_qemu_clean(const void *p, uint32_t bytes)
{
    uintptr_t end = (uintptr_t)p + bytes;
    for (uintptr_t line = (uintptr_t)p & ~(uintptr_t)63; line < end; line += 64)
        __asm__ volatile("dccleaninva(%0)" : : "r"(line) : "memory");
}

#ifdef ISA_COUNT

void npu_qemu_tile(struct isa *isa, uint32_t op, const void *a, const void *b, uint32_t n)
{
    volatile uint32_t *box = isa->mailbox + NPU_BOX_TILE;
    box[2] = op;
    box[3] = (uint32_t)((const uint8_t *)a - isa->base);
    box[4] = (uint32_t)((const uint8_t *)b - isa->base);
    box[5] = n;
}

#else

static void futex(volatile uint32_t *word, uint32_t what, uint32_t value, const uint32_t *time)
{
    register uint32_t r0 __asm__("r0") = (uint32_t)word, r1 __asm__("r1") = what, r2 __asm__("r2") = value,
                         r3 __asm__("r3") = (uint32_t)time, r6 __asm__("r6") = 98;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3), "r"(r6) : "memory");
}

/* Sleeps until *word is not `old`, or for a millisecond. */
static void sleep_on(volatile uint32_t *word, uint32_t old)
{
    const uint32_t time[4] = {0, 1000000, 0, 0}; /* whatever the width of its fields */
    futex(word, 0 /* FUTEX_WAIT */, old, time);
}

/* Operations are listed, and the host is waited for only when a result is due: nothing they read changes before. */
void npu_qemu_tile(struct isa *isa, uint32_t op, const void *a, const void *b, uint32_t n)
{
    volatile uint32_t *box = isa->mailbox + NPU_BOX_TILE, *entry = box + NPU_TILE_FIRST + 4 * box[2];
    entry[0] = op, entry[3] = n;
    entry[1] = (uint32_t)((const uint8_t *)a - isa->base);
    entry[2] = (uint32_t)((const uint8_t *)b - isa->base);
    if (++box[2] < NPU_TILE_LIST && op != NPU_TILE_STORE) return;
    uint32_t before = box[0];
    __atomic_store_n(&box[0], before + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&box[4], __ATOMIC_SEQ_CST)) futex(&box[0], 1 /* FUTEX_WAKE */, 1, 0);
    for (uint32_t i = 1; __atomic_load_n(&box[1], __ATOMIC_ACQUIRE) == before; i++) {
        if (i % 256) continue;
        __atomic_store_n(&box[3], 1, __ATOMIC_RELEASE);
        sleep_on(&box[1], before);
        box[3] = 0;
    }
    box[2] = 0;
}

#endif

uint32_t npu_qemu_dma(struct isa *isa, uint8_t *dst, uint32_t dst_stride, const uint8_t *src, uint32_t src_stride,
    uint32_t width, uint32_t rows)
{
#ifdef ISA_COUNT
    volatile uint32_t *descriptor = isa->mailbox + 2 * NPU_BOX_TILE;
    descriptor[0] = (uint32_t)src, descriptor[1] = (uint32_t)dst, descriptor[2] = width, descriptor[3] = rows;
    descriptor[4] = src_stride, descriptor[5] = dst_stride;
#else
    (void)isa;
    for (uint32_t r = 0; r < rows; r++, dst += dst_stride, src += src_stride) {
        uint32_t i = 0;
        for (; i + 128 <= width; i += 128) v_storeu(dst + i, v_loadu(src + i));
        for (; i < width; i++) dst[i] = src[i];
    }
#endif
    return 0;
}

#ifndef ISA_COUNT

union lanes {
    vec v;
    uint16_t h[64];
    uint32_t w[32];
};

/* One function per operation of two vectors: `n` lanes of field `f`. */
#define LANES_2(X)                                                                                                     \
    X(mul16, h, 64, soft_mul16(x.h[i], y.h[i]))                                                                        \
    X(add16, h, 64, soft_add16(x.h[i], y.h[i]))                                                                        \
    X(sub16, h, 64, soft_sub16(x.h[i], y.h[i]))                                                                        \
    X(max16, h, 64, soft_max16(x.h[i], y.h[i]))                                                                        \
    X(min16, h, 64, soft_min16(x.h[i], y.h[i]))                                                                        \
    X(gt16, h, 64, soft_gt16(x.h[i], y.h[i]) ? 0xffff : 0)                                                             \
    X(mul32, w, 32, soft_mul32(x.w[i], y.w[i]))                                                                        \
    X(add32, w, 32, soft_add32(x.w[i], y.w[i]))                                                                        \
    X(sub32, w, 32, soft_sub32(x.w[i], y.w[i]))                                                                        \
    X(max32, w, 32, soft_max32(x.w[i], y.w[i]))                                                                        \
    X(min32, w, 32, soft_min32(x.w[i], y.w[i]))                                                                        \
    X(gt32, w, 32, soft_gt32(x.w[i], y.w[i]) ? 0xffffffffu : 0)                                                        \
    X(mul_even, w, 32, soft_mul_f16(x.h[2 * i], y.h[2 * i]))                                                           \
    X(mul_odd, w, 32, soft_mul_f16(x.h[2 * i + 1], y.h[2 * i + 1]))                                                    \
    X(narrow, h, 64, soft_narrow(i & 1 ? x.w[i / 2] : y.w[i / 2]))

#define LANES_1(X)                                                                                                     \
    X(of_i16, h, 64, soft_of_i16(x.h[i]))                                                                              \
    X(to_i16, h, 64, soft_to_i16(x.h[i]))                                                                              \
    X(of_i32, w, 32, soft_of_i32(x.w[i]))                                                                              \
    X(to_i32, w, 32, soft_to_i32(x.w[i]))

#define WRITE_2(name, f, n, value)                                                                                     \
    __attribute__((noinline)) vec npu_qemu_##name(vec a, vec b)                                                        \
    {                                                                                                                  \
        union lanes x = {.v = a}, y = {.v = b}, z;                                                                     \
        for (int i = 0; i < n; i++) z.f[i] = value;                                                                    \
        return z.v;                                                                                                    \
    }
LANES_2(WRITE_2)

#define WRITE_1(name, f, n, value)                                                                                     \
    __attribute__((noinline)) vec npu_qemu_##name(vec a)                                                               \
    {                                                                                                                  \
        union lanes x = {.v = a}, z;                                                                                   \
        for (int i = 0; i < n; i++) z.f[i] = value;                                                                    \
        return z.v;                                                                                                    \
    }
LANES_1(WRITE_1)

#endif

#endif
