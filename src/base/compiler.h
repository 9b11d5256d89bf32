/* SPDX-License-Identifier: MIT
 *
 * The compiler extensions Lutra uses, and nothing else: every other file is plain C11 plus intrinsics.
 */
#ifndef LUTRA_BASE_COMPILER_H
#define LUTRA_BASE_COMPILER_H

#define LUTRA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define LUTRA_LIKELY(x) __builtin_expect(!!(x), 1)
#define LUTRA_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define LUTRA_NOINLINE __attribute__((noinline))
#ifdef LUTRA_SANITIZED /* kernels' tiles are then compiled once, not into each of their callers with all its checks */
#define LUTRA_INLINE static inline
#else
#define LUTRA_INLINE static inline __attribute__((always_inline))
#endif
#define LUTRA_API __attribute__((visibility("default")))
#define LUTRA_ALIGNED(n) __attribute__((aligned(n)))
#define LUTRA_CONSTRUCTOR __attribute__((constructor)) /* tests only: the library runs nothing before main */
#define LUTRA_PREFETCH(p) __builtin_prefetch(p)
#define LUTRA_PREFETCH_L2(p) __builtin_prefetch(p, 0, 2) /* no further up than L2 */
#define LUTRA_PREFETCH_WRITE(p) __builtin_prefetch(p, 1)

/* Sizes from files and callers: both yield true on overflow and then leave *out unusable. */
#define LUTRA_MUL_OVERFLOWS(a, b, out) __builtin_mul_overflow(a, b, out)
#define LUTRA_ADD_OVERFLOWS(a, b, out) __builtin_add_overflow(a, b, out)

/* Tells the processor that this is a spin loop. */
static inline void compiler_pause(void)
{
#if defined(__x86_64__)
    __asm__ volatile("pause");
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Memory, that at p included, is now what the source says, and may have changed after: for instructions whose operands
 * in memory the compiler does not see (gcc's intrinsics of AMX do not say what they read). */
static inline void compiler_fence(const void *p)
{
    __asm__ volatile("" ::"r"(p) : "memory");
}

/* LUTRA_PREFETCH of a line at just this place among the instructions around it: gcc gathers plain ones at the start of
 * a long stretch without branches. */
static inline void compiler_prefetch_here(const void *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetcht0 %0" ::"m"(*(const char *)p));
#else
    LUTRA_PREFETCH(p);
#endif
}

/* p; but the compiler does not know that it is, and keeps nothing that was loaded through the one for the other. */
static inline const void *compiler_unknown(const void *p)
{
    __asm__("" : "+r"(p));
    return p;
}

#if defined(__x86_64__)
/* Which register files the operating system saves (XCR0); only where CPUID reports OSXSAVE. */
static inline unsigned long long compiler_xgetbv0(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (unsigned long long)high << 32 | low;
}
#endif

/* compiler_unknown of a vector in a register, which keeps its place: sums stay in the order of the source, and
 * constants are not made again at each use. */
#if defined(__aarch64__)
#define COMPILER_UNKNOWN_VECTOR(v) __asm__("" : "+w"(v))
#elif defined(__x86_64__)
#define COMPILER_UNKNOWN_VECTOR(v) __asm__("" : "+v"(v))
#endif

#endif
