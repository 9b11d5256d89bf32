/* SPDX-License-Identifier: MIT
 *
 * The formats with codebooks as the x86 kernels see them.  A tile is read into codes of 4 inputs x 16 rows and integer
 * scales, once for all columns (gemm_book_form_ymm_impl.h, gemm_book_form_avx512_impl.h; few columns on 512 bits use
 * codes as they are read).  Codes are unsigned, value + OFFSET.
 */
#ifndef LUTRA_CPU_X86_GEMM_BOOK_FORM_IMPL_H
#define LUTRA_CPU_X86_GEMM_BOOK_FORM_IMPL_H

#include "cpu/kernels.h"

/* Fillers of one file each. */
void cpu_gemm_init_book_avx2(struct cpu_kernels *k);
void cpu_gemm_init_book_avxvnni(struct cpu_kernels *k);
void cpu_gemm_init_book_avx512(struct cpu_kernels *k);

#if defined(__AVX2__)
#include <immintrin.h>
#include <stdbool.h>

#if defined(__AVX512F__)
#include "cpu/x86/gemm_tile_avx512_impl.h"
#else
#include "cpu/x86/gemm_x86_impl.h"

enum { STEP_BYTES = 64 };
#endif
#include "cpu/gemm_book_form_impl.h"

enum { OFFSET = 64, START_SHIFT = 1, STEPS = 64 };

#endif

#endif
