/* SPDX-License-Identifier: MIT
 *
 * Instruction sets.  x86: Intel SDM volume 2, CPUID leaves 1 and 7; volume 1 section 13.3 for XCR0; the permission for
 * AMX tiles: Linux's Documentation/arch/x86/xstate.rst.
 * Arm: the kernel's hwcaps (Documentation/arch/arm64/elf_hwcaps.rst).
 */
#include "base/cpuinfo.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQUEST_XSTATE = 0x1023, XSTATE_TILE_DATA = 18 }; /* of arch_prctl */

static bool bit(uint32_t word, int i)
{
    return word >> i & 1u;
}

/* Threads and their children have the registers from then on; asking again changes nothing. */
static bool may_use_tiles(void)
{
    return syscall(SYS_arch_prctl, ARCH_REQUEST_XSTATE, XSTATE_TILE_DATA) == 0;
}

uint32_t cpu_isa(void)
{
    uint32_t a, b, c, d, c1, isa = 0;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !bit(c1, 27) || !bit(c1, 28)) return 0; /* OSXSAVE, AVX */
    uint64_t saved = compiler_xgetbv0();
    if ((saved & 0x06) != 0x06 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0; /* xmm and ymm are saved */
    bool avx2 = bit(b, 5) && bit(b, 3) && bit(b, 8) && bit(c1, 12) && bit(c1, 29);    /* AVX2 BMI1 BMI2 FMA F16C */
    bool zmm = (saved & 0xe6) == 0xe6;                                                /* and opmask and zmm */
    bool avx512 = avx2 && zmm && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31) /* F DQ BW VL */
                  && bit(c, 1) && bit(c, 8) && bit(c, 11);                            /* VBMI GFNI VNNI */
    bool tiles = (saved >> 17 & 3) == 3 && bit(d, 22) && bit(d, 24) && bit(d, 25);    /* AMX-BF16 AMX-TILE AMX-INT8 */
    uint32_t a1 = 0;
    if (a >= 1) __get_cpuid_count(7, 1, &a1, &b, &c, &d);
    if (avx2) isa |= CPU_AVX2;
    if (avx2 && bit(a1, 4)) isa |= CPU_AVXVNNI;
    if (avx512) isa |= CPU_AVX512;
    if (avx512 && bit(a1, 5)) isa |= CPU_AVX512BF16;
    if (isa & CPU_AVX512BF16 && tiles && may_use_tiles()) isa |= CPU_AMX;
    return isa;
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

enum { HWCAP_DOTPROD_BIT = 20, HWCAP2_I8MM_BIT = 13 };

uint32_t cpu_isa(void)
{
    uint32_t isa = CPU_NEON;
    if (getauxval(AT_HWCAP) >> HWCAP_DOTPROD_BIT & 1u) isa |= CPU_DOTPROD;
    if (getauxval(AT_HWCAP2) >> HWCAP2_I8MM_BIT & 1u) isa |= CPU_I8MM;
    return isa;
}

#else

uint32_t cpu_isa(void)
{
    return 0;
}

#endif

const char *cpu_isa_name(uint32_t isa)
{
    switch (isa) {
#define ISA_NAME(name, bit, text)                                                                                      \
    case name: return text;
        CPU_ISA_LIST(ISA_NAME)
#undef ISA_NAME
    }
    return NULL;
}

int cpu_isa_up_to(const char *name, uint32_t *out, struct lutra_error *err)
{
    *out = 0;
    if (strcmp(name, "none") == 0) return LUTRA_OK;
    for (uint32_t isa = 1; isa & CPU_ISA_ALL; isa <<= 1) {
        *out |= isa;
        if (strcmp(cpu_isa_name(isa), name) == 0) return LUTRA_OK;
    }
    *out = 0;
    return lutra_fail(err, LUTRA_E_ARGUMENT, "no instruction set is called '%s'", name);
}
