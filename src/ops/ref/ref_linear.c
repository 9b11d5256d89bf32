/* SPDX-License-Identifier: MIT
 *
 * OP_EMBED and OP_MATMUL: rows of a weight matrix of any format, as f32 values.
 */
#include "ops/batch.h"
#include "ops/ref/ref.h"

#include <math.h>
#include <string.h>

#include "quant/quant.h"

/* A run of elements that is whole blocks in every format, and its largest size (F32). */
enum { RUN = QUANT_SUPER, RUN_BYTES_MAX = RUN * 4, ROW_TILE = 16 };

/* Elements first .. first + n - 1 of row `index`; first is a multiple of RUN, n <= RUN.  Goes through an aligned
 * copy because a file may place a tensor at any byte. */
static void read_run(const struct tensor *w, int64_t index, int64_t first, int n, float *out)
{
    const struct quant_info *q = quant_info_of(w->type);
    uint32_t aligned[RUN_BYTES_MAX / 4];
    if (!q) {
        memset(out, 0, (size_t)n * sizeof *out);
        return;
    }
    size_t row_bytes = (size_t)(w->ne[0] / q->block_elems) * q->block_bytes;
    size_t offset = (size_t)(first / q->block_elems) * q->block_bytes;
    const uint8_t *src = (const uint8_t *)w->data + (size_t)index * row_bytes + offset;
    memcpy(aligned, src, (size_t)n / q->block_elems * q->block_bytes);
    q->dequantize(aligned, out, (size_t)n);
}

static int run_length(int64_t n_in, int64_t first)
{
    return n_in - first < RUN ? (int)(n_in - first) : RUN;
}

void ref_embed_part(const struct tensor *w, int64_t index, int64_t first, int64_t n, float scale, float *out)
{
    for (int64_t at = 0; at < n; at += RUN) {
        int some = run_length(n, at);
        read_run(w, index, first + at, some, out + at);
        for (int i = 0; i < some; i++) out[at + i] *= scale;
    }
}

int32_t ref_embed_index(enum embed_by by, const struct row *row)
{
    switch (by) {
    case EMBED_POSITION: return row->pos;
    case EMBED_SEGMENT: return (row->want & ROW_SECOND) != 0;
    default: return row->token;
    }
}

void ref_embed(const struct tensor *w, int64_t index, float scale, float *out)
{
    ref_embed_part(w, index, 0, w->ne[0], scale, out);
}

/* One output of up to ROW_TILE rows. */
static void dot_rows(const struct tensor *w, int64_t o, const float *x, double *sum, int n_row)
{
    int64_t n_in = w->ne[0];
    float run[RUN];
    for (int r = 0; r < n_row; r++) sum[r] = 0;
    for (int64_t first = 0; first < n_in; first += RUN) {
        int n = run_length(n_in, first);
        read_run(w, o, first, n, run);
        for (int r = 0; r < n_row; r++) {
            const float *xr = x + r * n_in + first;
            for (int i = 0; i < n; i++) sum[r] += (double)run[i] * xr[i];
        }
    }
}

void ref_matmul(const struct tensor *w, const float *bias, const float *x, float *out, int n_row)
{
    int64_t n_in = w->ne[0], n_out = w->ne[1];
    for (int r0 = 0; r0 < n_row; r0 += ROW_TILE) {
        int n = n_row - r0 < ROW_TILE ? n_row - r0 : ROW_TILE;
        for (int64_t o = 0; o < n_out; o++) {
            double sum[ROW_TILE];
            dot_rows(w, o, x + r0 * n_in, sum, n);
            for (int r = 0; r < n; r++) out[(r0 + r) * n_out + o] = (float)(sum[r] + (bias ? bias[o] : 0));
        }
    }
}

void ref_round_row(const float *x, int64_t n, float *out)
{
    double most = 1e-5;
    for (int64_t i = 0; i < n; i++)
        if (fabs(x[i]) > most) most = fabs(x[i]);
    double scale = 127 / most; /* codes are within 127: nothing is clamped */
    for (int64_t i = 0; i < n; i++) out[i] = (float)(rint(x[i] * scale) / scale);
}
