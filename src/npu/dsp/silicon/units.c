/* SPDX-License-Identifier: MIT
 *
 * Instructions of v73 that no builtin of the compiler gives.
 *
 * The tile unit's are written as words, since only the vendor's assembler knows their names.  The words are public
 * facts: they are decoded alike by the tests of Qualcomm's QEMU tree (tests/tcg/hexagon, GPL) and by
 * n-o-o-n/idp_hexagon (LGPL). Bits 15:14 are 11 at a packet's end and 01 before it; Rs stands in 20:16, Rt in 12:8.
 */
#if defined(__hexagon__)

#include "npu/dsp/silicon/silicon.h"

/* ---- user DMA: each hardware thread has an engine.  What a descriptor says is seen before it starts. ---- */

void npu_unit_dmstart(struct npu_dma_descriptor *first)
{
    __asm__ volatile("release(%0):at\n\tdmstart(%0)" : : "r"(first) : "memory");
}

void npu_unit_dmlink(struct npu_dma_descriptor *tail, struct npu_dma_descriptor *next)
{
    __asm__ volatile("release(%1):at\n\tdmlink(%0, %1)" : : "r"(tail), "r"(next) : "memory");
}

uint32_t npu_unit_dmpoll(void)
{
    uint32_t state;
    __asm__ volatile("%0 = dmpoll" : "=r"(state) : : "memory");
    return state & NPU_DMA_STATE;
}

uint32_t npu_unit_dmpause(void)
{
    uint32_t state;
    __asm__ volatile("%0 = dmpause" : "=r"(state) : : "memory");
    return state & NPU_DMA_STATE;
}

/* ---- cache ---- */

void npu_unit_line(uintptr_t line)
{
    __asm__ volatile("dccleaninva(%0)" : : "r"(line) : "memory");
}

void npu_unit_settle(void)
{
    __asm__ volatile("syncht" : : : "memory");
}

/* ---- tiles ---- */

/* bias = mxmem2(r0): per column a word, the low half its scale, the high half what is added; 128 zero bytes follow. */
void npu_unit_scales(const uint8_t *scales)
{
    register const uint8_t *r0 __asm__("r0") = scales;
    __asm__ volatile(".word 0x9200c3fe" : : "r"(r0) : "memory");
}

/* mxclracc.hf */
void npu_unit_clear(void)
{
    __asm__ volatile(".word 0xa6e0c013" : : : "memory");
}

/* { activation.hf = mxmem(r0, r1):deep   weight.hf = mxmem(r2, r1) } */
void npu_unit_mac(const uint8_t *act, const uint8_t *weight, uint32_t last_byte)
{
    register const uint8_t *r0 __asm__("r0") = act, *r2 __asm__("r2") = weight;
    register uint32_t r1 __asm__("r1") = last_byte;
    __asm__ volatile(".word 0x920041e2\n\t.word 0x9202e1ef" : : "r"(r0), "r"(r1), "r"(r2) : "memory");
}

/* cvt.hf = acc(r2), then mxmem(r0, r1) = cvt; and the vectors see it. */
void npu_unit_store(uint8_t *dst)
{
    register uint8_t *r0 __asm__("r0") = dst;
    register uint32_t r1 __asm__("r1") = 0, r2 __asm__("r2") = 2;
    __asm__ volatile(".word 0xa6e2da10\n\t.word 0xa6e0c118\n\tsyncht" : : "r"(r0), "r"(r1), "r"(r2) : "memory");
}

/* ---- clocks ---- */

uint64_t npu_unit_cycles(void)
{
    uint64_t x;
    __asm__ volatile("%0 = upcycle" : "=r"(x) : : "memory");
    return x;
}

uint64_t npu_unit_ticks(void)
{
    uint64_t x;
    __asm__ volatile("%0 = utimer" : "=r"(x) : : "memory");
    return x;
}

void npu_unit_pause(void)
{
    __asm__ volatile("pause(#63)" : : : "memory");
}

#endif
