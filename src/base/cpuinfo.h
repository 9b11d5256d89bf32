/* SPDX-License-Identifier: MIT
 *
 * What this machine lets this process use: processors, instruction sets, caches, memory.
 *
 * Every function asks the system anew; nothing is cached and nothing is global.  Any thread.  Kernel tables take a set
 * of `enum cpu_isa` bits as an argument, so a test can hand them fewer than the machine has.
 */
#ifndef LUTRA_BASE_CPUINFO_H
#define LUTRA_BASE_CPUINFO_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* One line per instruction set: name, bit, text.  A bit is set only if the processor has all of it and the operating
 * system saves its registers.  No bit implies another. */
#define CPU_ISA_LIST(X)                                                                                                \
    X(CPU_AVX2, 0, "avx2")             /* AVX2, FMA, F16C, BMI1, BMI2 */                                               \
    X(CPU_AVXVNNI, 1, "avxvnni")       /* the 256-bit form without AVX-512 */                                          \
    X(CPU_AVX512, 2, "avx512")         /* F, BW, VL, DQ, VNNI, VBMI, GFNI, and all of avx2 */                          \
    X(CPU_AVX512BF16, 3, "avx512bf16") /* vdpbf16ps */                                                                 \
    X(CPU_AMX, 4, "amx") /* tiles of int8 and bf16, all of avx512bf16, and Linux grants their registers */             \
    X(CPU_NEON, 5, "neon")                                                                                             \
    X(CPU_DOTPROD, 6, "dotprod")                                                                                       \
    X(CPU_I8MM, 7, "i8mm")

enum cpu_isa {
#define CPU_ISA_ENUM(name, bit, text) name = 1 << bit,
    CPU_ISA_LIST(CPU_ISA_ENUM)
#undef CPU_ISA_ENUM
};

#define CPU_ISA_ALL 0xffu

struct cpu_info {
    uint32_t isa;    /* set of enum cpu_isa */
    size_t l2_bytes; /* of the first processor; 0 = not known */
    char model[64];  /* e.g. "AMD EPYC"; "unknown" if the system does not say */
};

/* Never fails: what cannot be found out is 0 or "unknown". */
void cpu_info_read(struct cpu_info *out);

/* Processors this process may keep busy: its affinity mask, and its cgroup's quota rounded up; at least 1. */
int cpu_usable(void);

/* Fills cpu[0..max-1] with the numbers of the processors in the affinity mask, ascending; returns how many there are,
 * which may exceed max; 0 if the system does not say. */
int cpu_allowed(int *cpu, int max);

/* The numbers in a text like "0-3+6", in its order; returns how many, 0 where it is none, or has more than max. */
int cpu_list_parse(const char *text, size_t n, int *cpu, int max);

/* Where there is AMX this asks Linux for its registers, which it grants to a whole process once; where it does not
 * (an old kernel, a sandbox, a signal stack too small for them), CPU_AMX is not set. */
uint32_t cpu_isa(void);

/* "avx2" and so on; NULL for anything but a single known bit. */
const char *cpu_isa_name(uint32_t bit);

/* The set of everything up to and including the named instruction set, in the order of CPU_ISA_LIST; "none" is the
 * empty set.  Meet it with cpu_isa().  LUTRA_E_ARGUMENT if the name is not known. */
int cpu_isa_up_to(const char *name, uint32_t *out, struct lutra_error *err);

/* Memory that can be taken without swapping: MemAvailable, and what the cgroup's limit leaves (its page cache that
 * can be dropped counts as free); UINT64_MAX if the system does not say. */
uint64_t cpu_memory_available(void);

#endif
