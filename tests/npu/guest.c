/* SPDX-License-Identifier: MIT
 *
 * The Hexagon side of the test bench: maps the file named by argv[1], then executes what the mailbox asks for and
 * counts packets.  Freestanding; system calls are the generic Linux ones by trap0(#1).  The mailbox is bench.h's.
 */
#include "npu/dsp/kernels.h"

#include "bench_box.h"
#include "isa_ops.h"

static long call6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r0 __asm__("r0") = a, r1 __asm__("r1") = b, r2 __asm__("r2") = c, r3 __asm__("r3") = d,
                     r4 __asm__("r4") = e, r5 __asm__("r5") = f, r6 __asm__("r6") = nr;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6) : "memory");
    return r0;
}

enum { SYS_OPENAT = 56, SYS_EXIT = 93, SYS_YIELD = 124, SYS_MMAP = 222 };

/* Packets, instructions and HVX instructions so far are c20 .. c22 under QEMU; the assembler does not know them. */
#define COUNTER(name, word)                                                                                            \
    static inline uint32_t name(void)                                                                                  \
    {                                                                                                                  \
        register uint32_t x __asm__("r0");                                                                             \
        __asm__ volatile(".word " word : "=r"(x) : : "memory");                                                        \
        return x;                                                                                                      \
    }
COUNTER(packets, "0x6a14c000")
COUNTER(instructions, "0x6a15c000")
COUNTER(hvx_instructions, "0x6a16c000")

static void serve(struct isa *isa, volatile uint32_t *box)
{
    struct npu_op op;
    struct npu_machine machine;
    for (uint32_t i = 0; i < sizeof machine / 4; i++) ((uint32_t *)&machine)[i] = box[BOX_MACHINE + i];
    for (uint32_t i = 0; i < sizeof op / 4; i++) ((uint32_t *)&op)[i] = box[BOX_OP + i];
    uint32_t p = packets(), n = instructions(), h = hvx_instructions();
    if (box[BOX_COMMAND] == BOX_EXECUTE)
        box[BOX_STATUS] = npu_execute(isa, &machine, &op);
    else
        isa_ops_run(isa, isa_ptr(op.dst), isa_ptr(op.src), isa_ptr(machine.tcm_start));
    box[BOX_PACKETS] = packets() - p;
    box[BOX_INSTRUCTIONS] = instructions() - n;
    box[BOX_HVX] = hvx_instructions() - h;
    for (uint32_t i = 0; i < sizeof machine / 4; i++) box[BOX_MACHINE + i] = ((uint32_t *)&machine)[i];
}

__attribute__((noreturn, used)) void guest_main(const uint32_t *stack)
{
    long fd = call6(SYS_OPENAT, -100, (long)stack[2], 2, 0, 0, 0);
    uint32_t *small = (uint32_t *)call6(SYS_MMAP, 0, 4096, 3, 1, fd, 0);
    uint8_t *base = (uint8_t *)call6(SYS_MMAP, 0, (long)small[BOX_BYTES], 3, 1, fd, 0);
    volatile uint32_t *box = (volatile uint32_t *)base;
    struct isa isa = {.base = base, .mailbox = box};
    for (uint32_t answered = 0;;) {
        uint32_t asked = __atomic_load_n(&box[BOX_ASKED], __ATOMIC_ACQUIRE);
        if (asked == answered) {
            call6(SYS_YIELD, 0, 0, 0, 0, 0, 0);
            continue;
        }
        if (box[BOX_COMMAND] == BOX_QUIT) call6(SYS_EXIT, 0, 0, 0, 0, 0, 0);
        serve(&isa, box);
        answered = asked;
        __atomic_store_n(&box[BOX_ANSWERED], answered, __ATOMIC_RELEASE);
    }
}

__asm__(".globl _start\n_start:\n{ r0 = r29\n r29 = and(r29, #-128) }\njump guest_main\n");
