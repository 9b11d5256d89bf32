/* SPDX-License-Identifier: MIT
 *
 *     count TYPE ISA ROWS      runs the kernel of TYPE, with instruction sets up to ISA, once over N_OUT x N_IN weights
 *
 * and prints the address of the kernel and how many times 256 weights it went through.  The binary is static, so the
 * address is that of its symbol.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "cpu/kernels.h"
#include "quant/quant.h"

enum { N_OUT = 256, N_IN = 512 };

static void *take(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) exit(2);
    return memset(p, 1, bytes);
}

int main(int n, char **arg)
{
    struct cpu_kernels k;
    uint32_t isa;
    if (n != 4 || cpu_isa_up_to(arg[2], &isa, NULL) < 0) return 2;
    cpu_kernels_init(&k, isa & cpu_isa());
    size_t n_row = strtoul(arg[3], NULL, 10);
    for (int i = 0; i < QUANT_TYPE_END; i++) {
        const struct cpu_gemm *g = &k.gemm[i];
        if (!g->run || strcmp(quant_info_of(g->type)->name, arg[1]) != 0) continue;
        struct cpu_gemm_args a = {.gemm = g,
            .packed = take(g->packed_bytes(g, N_OUT, N_IN)),
            .act = take(g->act_bytes(N_IN, n_row)),
            .out = take(n_row * N_OUT * sizeof(float)),
            .out_stride = N_OUT,
            .n_out = N_OUT,
            .n_in = N_IN,
            .n_panel = N_OUT / (size_t)g->mr,
            .n_row = n_row};
        g->run(&a);
        printf("%s %#lx %d\n", g->name, (unsigned long)(uintptr_t)g->run, N_OUT * N_IN / 256);
        return 0;
    }
    return 1;
}
