/* SPDX-License-Identifier: MIT
 *
 * What the AMX matmul files share: from how many rows on AMX is used, and its blocks of activations.
 *
 * Fewer rows go to the kernel that the table held before (cpu_gemm.run_few), with that kernel's activations: both give
 * the same bits, so the number is a matter of speed only.
 *
 * Rows of the batch are rows of tile A here, in blocks of amx_block_rows; rows that a last block lacks have scales 0.
 */
#ifndef LUTRA_CPU_X86_GEMM_AMX_IMPL_H
#define LUTRA_CPU_X86_GEMM_AMX_IMPL_H

#include "cpu/x86/amx_impl.h"
#include "cpu/x86/gemm_x86_impl.h"

enum {
    AMX_MIN_ROWS = 7,                /* of the formats with 32-element blocks */
    AMX_MIN_ROWS256 = 7,             /* of K-quants */
    AMX_MIN_ROWS_TERNARY = 6,        /* of TQ1_0 and TQ2_0 */
    AMX_MAX_BLOCKS = 32,             /* of rows in one pass over a unit's panels */
    AMX_PASS_BYTES = 1 << 20,        /* of activations in one pass: they stay in L2 */
    AMX_SPARE = 8,                   /* records that may be read behind the last of a block */
    AMX32_BYTES = 32 + 2 * 4,        /* of a q8x32 record for AMX, per row */
    AMX32_PAIR_BYTES = 1024 + 128,   /* of a pair of groups, for up to 8 rows: gemm_i8_amx_pairs_tmpl.h */
    AMX256_BYTES = 256 + 4 + 16 + 4, /* of a q8x256 record, likewise; 4 unused, for whole cache lines */
    AMX256_PAIR_BYTES = 4096 + 192,  /* of one in pairs of groups, for up to 8 rows: gemm_super_amx_pairs_tmpl.h */
    AMX256_REACH_AT = 160            /* in what follows its codes */
};

LUTRA_INLINE size_t amx_block_rows(size_t n_row)
{
    return n_row <= 8 ? 8 : 16;
}

LUTRA_INLINE size_t amx_blocks(size_t n_row)
{
    return (n_row + amx_block_rows(n_row) - 1) / amx_block_rows(n_row);
}

/* Blocks of one pass, when a block of all inputs takes `bytes`: as many as fit L2, in passes of equal length. */
LUTRA_INLINE size_t amx_pass_blocks(size_t n_block, size_t bytes)
{
    size_t most = AMX_PASS_BYTES / bytes;
    most = most < 4 ? 4 : most > AMX_MAX_BLOCKS ? AMX_MAX_BLOCKS : most;
    size_t n_pass = (n_block + most - 1) / most;
    return (n_block + n_pass - 1) / n_pass;
}

/* Begins a product in tile register `slot`: of inputs a (lines of `bytes` bytes) with weights b.  pairs: two products
 * in turn share a, which is loaded for the even slots. */
LUTRA_INLINE void begin_dot(int slot, const uint8_t *a, size_t bytes, const void *b, const bool pairs)
{
    compiler_fence(b);
    switch (slot) {
    case 0:
        _tile_zero(0);
        _tile_loadd(4, a, bytes);
        _tile_loadd(6, b, 64);
        _tile_dpbssd(0, 4, 6);
        break;
    case 1:
        _tile_zero(1);
        _tile_loadd(7, b, 64);
        if (pairs) {
            _tile_dpbssd(1, 4, 7);
        } else {
            _tile_loadd(5, a, bytes);
            _tile_dpbssd(1, 5, 7);
        }
        break;
    case 2:
        _tile_zero(2);
        _tile_loadd(6, b, 64);
        if (pairs) {
            _tile_loadd(5, a, bytes);
            _tile_dpbssd(2, 5, 6);
        } else {
            _tile_loadd(4, a, bytes);
            _tile_dpbssd(2, 4, 6);
        }
        break;
    default:
        _tile_zero(3);
        if (!pairs) _tile_loadd(5, a, bytes);
        _tile_loadd(7, b, 64);
        _tile_dpbssd(3, 5, 7);
        break;
    }
}

LUTRA_INLINE void store_dot(int slot, uint8_t (*dot)[1024])
{
    switch (slot) {
    case 0: _tile_stored(0, dot[0], 64); break;
    case 1: _tile_stored(1, dot[1], 64); break;
    case 2: _tile_stored(2, dot[0], 64); break;
    default: _tile_stored(3, dot[1], 64); break;
    }
}

/* Puts an AMX kernel and its activations over what the slot holds, which stays for few rows. */
LUTRA_INLINE void amx_over(struct cpu_gemm *slot, const char *name, cpu_gemm_run *run,
    size_t (*act_bytes)(size_t, size_t), cpu_act_row *act_row)
{
    slot->run_few = slot->run;
    slot->name = name;
    slot->run = run;
    slot->act_bytes = act_bytes;
    slot->act_row = act_row;
}

size_t cpu_act_bytes_q8x32_amx(size_t n_in, size_t n_row);
size_t cpu_act_bytes_q8x256_amx(size_t n_in, size_t n_row);
size_t cpu_act_bytes_ternary_amx(size_t n_in, size_t n_row);
cpu_act_row cpu_act_row_q8x256_amx, cpu_act_row_q6_k_amx, cpu_act_row_ternary_amx, cpu_act_row_q8x32_amx;

#endif
