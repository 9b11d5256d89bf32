/* SPDX-License-Identifier: MIT
 *
 * A Hexagon program under qemu-hexagon that has the objects of liblutra_npu.so in it: takes FastRPC calls from the box
 * (argv[1]: its file descriptor) as the framework on the NPU would, arguments of 32 bits and all.
 */
#include "guest.h"
#include "npu/wire/serve.h"

int lutra_npu_skel_handle_invoke(uint64_t handle, uint32_t scalars, union npu_remote_arg *arg);

struct box *box;
int box_file;

long call6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r0 __asm__("r0") = a, r1 __asm__("r1") = b, r2 __asm__("r2") = c, r3 __asm__("r3") = d,
                     r4 __asm__("r4") = e, r5 __asm__("r5") = f, r6 __asm__("r6") = nr;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6) : "memory");
    return r0;
}

void *guest_map(uint32_t at, uint32_t bytes, long offset, long fd)
{
    long flags = fd < 0 ? 0x22 : 1; /* private and anonymous; shared */
    return (void *)call6(SYS_MMAP, (long)at, (long)bytes, 3, flags | (at ? 0x10 : 0), fd, offset / 4096);
}

void guest_sleep(uint32_t us)
{
    const uint32_t time[4] = {0, 1000 * us, 0, 0}; /* whatever the width of its fields */
    call6(SYS_NANOSLEEP, (long)time, 0, 0, 0, 0, 0);
}

int guest_invoke(void)
{
    union npu_remote_arg arg[BOX_ARGS];
    uint32_t handles = (box->scalars >> 4 & 15) + (box->scalars & 15), n = box->n_args;
    for (uint32_t i = 0; i < n; i++) {
        if (i + handles >= n)
            arg[i].handle = box->arg[i].handle;
        else
            arg[i].buffer.data = box->arg[i].at < BOX_DATA ? box->data + box->arg[i].at : 0,
            arg[i].buffer.bytes = box->arg[i].bytes;
    }
    int rc = lutra_npu_skel_handle_invoke(box->handle, box->scalars, box->null_args ? 0 : arg);
    for (uint32_t i = n - (box->scalars & 15); i < n; i++) box->arg[i].handle = arg[i].handle;
    return rc;
}

__attribute__((noreturn, used)) void guest_main(const uint32_t *stack)
{
    for (const char *c = (const char *)stack[2]; *c >= '0' && *c <= '9'; c++) box_file = 10 * box_file + *c - '0';
    box = guest_map(0, BOX_BYTES, 0, box_file);
    firmware_begin();
    for (uint32_t done = 0;;) {
        uint32_t asked = __atomic_load_n(&box->asked, __ATOMIC_ACQUIRE);
        if (asked == done) {
            if (__atomic_load_n(&box->quit, __ATOMIC_ACQUIRE)) call6(SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0);
            guest_sleep(100);
            continue;
        }
        box->rc = box->scalars == BOX_RINGS ? guest_rings() : guest_invoke();
        done = asked;
        __atomic_store_n(&box->answered, done, __ATOMIC_RELEASE);
    }
}

__asm__(".globl _start\n_start:\n{ r0 = r29\n r29 = and(r29, #-128) }\njump guest_main\n");
