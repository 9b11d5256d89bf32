/* SPDX-License-Identifier: MIT
 *
 * The NPU's program under qemu-hexagon: maps the window that the host shares (argv[1]: its file descriptor), serves the
 * ring, and sleeps where there is nothing to do.  Freestanding; system calls are the generic Linux ones by trap0(#1).
 */
#if defined(__hexagon__) && !defined(ISA_HEXAGON)

#include "npu/dsp/kernels.h"
#include "npu/dsp/server.h"

enum { SYS_EXIT = 93, SYS_NANOSLEEP = 101, SYS_YIELD = 124, SYS_MMAP = 222, PAGE = 4096, YIELDS = 2000 };

struct program {
    struct isa isa;
    struct npu_machine machine;
    struct npu_memory memory;
    struct npu_server server;
};

static long call6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r0 __asm__("r0") = a, r1 __asm__("r1") = b, r2 __asm__("r2") = c, r3 __asm__("r3") = d,
                     r4 __asm__("r4") = e, r5 __asm__("r5") = f, r6 __asm__("r6") = nr;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6) : "memory");
    return r0;
}

static uint32_t execute(void *user, const struct npu_op *op)
{
    struct program *p = user;
    uint32_t status = npu_op_check(&p->isa, &p->memory, op);
    return status == NPU_OK ? npu_execute(&p->isa, &p->machine, op) : status;
}

static void *map(long fd, uint32_t bytes)
{
    long p = call6(SYS_MMAP, 0, (long)bytes, 3, 1, fd, 0);
    return (unsigned long)p > (unsigned long)-PAGE ? 0 : (void *)p;
}

static void __attribute__((noreturn)) leave(long code)
{
    for (;;) call6(SYS_EXIT, code, 0, 0, 0, 0, 0);
}

/* A while after the last message the processor is given up, later the thread sleeps. */
static void idle(uint32_t times)
{
    const uint32_t time[4] = {0, 100000, 0, 0}; /* 100 us, whatever the width of its fields */
    if (times < YIELDS)
        call6(SYS_YIELD, 0, 0, 0, 0, 0, 0);
    else
        call6(SYS_NANOSLEEP, (long)time, 0, 0, 0, 0, 0);
}

__attribute__((noreturn, used)) void npu_program_main(const uint32_t *stack)
{
    static struct program p;
    uint32_t idles = 0;
    long fd = 0;
    int rc;
    for (const char *c = stack[0] > 1 ? (const char *)stack[2] : ""; *c >= '0' && *c <= '9'; c++)
        fd = 10 * fd + *c - '0';
    struct npu_ring *ring = map(fd, PAGE);
    if (!ring) leave(2);
    uint32_t bytes = ring->host.window_bytes, tcm = ring->host.tcm_bytes;
    uint8_t *base = map(fd, bytes);
    if (!base || __atomic_load_n(&ring->host.magic, __ATOMIC_ACQUIRE) != NPU_RING_MAGIC) {
        __atomic_store_n(&ring->npu.state, NPU_RING_NO_WINDOW, __ATOMIC_RELEASE);
        leave(3);
    }
    p.isa = (struct isa){.base = base, .mailbox = (volatile uint32_t *)base};
    p.machine = (struct npu_machine){NPU_RING_BYTES, tcm, 65536, 1, 0, 0};
    p.memory = (struct npu_memory){NPU_RING_BYTES + tcm, bytes};
    p.server = (struct npu_server){.view = {(struct npu_ring *)base, 0, 0, 0}, .execute = execute, .user = &p};
    npu_server_start(&p.server, &p.machine);
    while ((rc = npu_server_step(&p.server)) >= 0) {
        idles = rc ? 0 : idles + 1;
        if (!rc) idle(idles);
    }
    leave(0);
}

__asm__(".globl _start\n_start:\n{ r0 = r29\n r29 = and(r29, #-128) }\njump npu_program_main\n");

#endif
