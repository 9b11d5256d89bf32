/* SPDX-License-Identifier: MIT
 *
 * AMX tiles for kernels: their shapes.  Only for files whose name ends in _amx.c, called where CPU_AMX is set.
 *
 *     struct amx_shapes s = {0};
 *     amx_shape(&s, 0, 16, 64);     tile 0: 16 rows of 64 bytes
 *     amx_begin(&s);                now, on this thread: loads the shapes, clears all tiles
 *     compiler_fence(memory);       before _tile_loadd of what C code wrote: gcc's intrinsic does not say it reads
 *     _tile_loadd(0, memory, stride);
 *     ...
 *     amx_end();                    tiles are in their initial state again, so that a context switch need not save them
 *
 * A call of a kernel begins and ends on its own: nothing is kept between calls, and threads need no preparation.
 *
 * _tile_dpbssd(c, a, b), and dpbsud, dpbusd, dpbuud for unsigned a, b, add to c[m][n] (i32) the sum over k of
 * a[m][k] b[k/4][4n + k%4]: up to 16 rows m, 64 bytes k, 16 columns n.  So the rows of b are what cpu/layout.h calls a
 * step: 16 output rows x 4 inputs.  _tile_dpbf16ps(c, a, b) is the same for pairs of bf16 and c f32; denormals count
 * as zero, in and out, and each pair's two products are added in their own order (Intel SDM volume 2).
 */
#ifndef LUTRA_CPU_X86_AMX_IMPL_H
#define LUTRA_CPU_X86_AMX_IMPL_H

#include <immintrin.h>
#include <stdint.h>

#include "base/compiler.h"

/* The 64 bytes that LDTILECFG reads; shapes of tiles not set are 0: such a tile must not be used. */
struct amx_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16]; /* 0 .. 64 */
    uint8_t rows[16];       /* 0 .. 16 */
} LUTRA_ALIGNED(64);

LUTRA_INLINE void amx_shape(struct amx_shapes *s, int tile, int rows, int row_bytes)
{
    s->palette = 1;
    s->rows[tile] = (uint8_t)rows;
    s->row_bytes[tile] = (uint16_t)row_bytes;
}

LUTRA_INLINE void amx_begin(const struct amx_shapes *s)
{
    compiler_fence(s);
    _tile_loadconfig(s);
}

LUTRA_INLINE void amx_end(void)
{
    _tile_release();
}

#endif
