/* SPDX-License-Identifier: MIT */
#include "npu/wire/layout.h"

/* A DMA of about this size hides its set-up; larger ones only cost TCM. */
enum { DMA_TARGET_BYTES = 64 << 10 };

static uint32_t round_up(uint32_t x, uint32_t to)
{
    return (x + to - 1) / to * to;
}

int npu_weights_wide(uint32_t kind)
{
    return kind == NPU_W_Q8_0 || kind == NPU_W_SUPER8 || kind == NPU_W_Q5_K || kind == NPU_W_Q6_K;
}

int npu_weights_integer(uint32_t kind)
{
    return kind != NPU_W_F16 && kind != NPU_W_SUPER4 && kind != NPU_W_SUPER8;
}

int npu_weights_layout(uint32_t kind, uint32_t k, uint32_t n, struct npu_weights *out)
{
    uint32_t unit_k = kind >= NPU_W_Q4_K ? NPU_SUPER_K : NPU_UNIT_K;
    uint32_t code = unit_k * NPU_COLS / 2 * (kind == NPU_W_F16 ? 4 : npu_weights_wide(kind) ? 2 : 1);
    uint32_t tail = kind == NPU_W_F16 ? 0 : kind == NPU_W_Q4_1 ? 256 : kind >= NPU_W_Q4_K ? 640 : 128;
    if (kind < NPU_W_Q4_0 || kind >= NPU_W_END || !k || k % unit_k || !n) return -1;
    uint64_t bytes = (uint64_t)(k / unit_k) * (code + tail) * (((uint64_t)n + NPU_COLS - 1) / NPU_COLS);
    if (bytes > 1u << 31) return -1;
    out->kind = kind;
    out->k = k;
    out->n = n;
    out->unit_k = unit_k;
    out->n_units = k / unit_k;
    out->n_blocks = n / NPU_COLS + (n % NPU_COLS != 0);
    out->code_bytes = code;
    out->unit_bytes = code + tail;
    out->block_bytes = out->n_units * out->unit_bytes;
    return 0;
}

static uint32_t unit_of(const struct npu_weights *w, uint32_t k, uint32_t n)
{
    return n / NPU_COLS * w->block_bytes + k / w->unit_k * w->unit_bytes;
}

/* Position of the low two bits of k or of a K-quant's group in a word: 0 2 1 3. */
static uint32_t byte_of(uint32_t k)
{
    return (k & 1) << 1 | (k >> 1 & 1);
}

uint32_t npu_code_offset(const struct npu_weights *w, uint32_t k, uint32_t n, uint32_t *shift)
{
    uint32_t in_unit = k % w->unit_k, word = 4 * (n % NPU_COLS) + byte_of(k);
    if (w->kind == NPU_W_F16) {
        *shift = 0;
        return unit_of(w, k, n) + in_unit / 2 * NPU_LINE + 4 * (n % NPU_COLS) + (k & 1) * 2;
    }
    if (npu_weights_wide(w->kind)) {
        *shift = 0;
        return unit_of(w, k, n) + in_unit / 4 * NPU_LINE + word;
    }
    *shift = k & 4;
    return unit_of(w, k, n) + in_unit / 8 * NPU_LINE + word;
}

uint32_t npu_scale_offset(const struct npu_weights *w, uint32_t k, uint32_t n)
{
    uint32_t c = n % NPU_COLS, in_unit = k % w->unit_k, half;
    if (w->unit_k == NPU_SUPER_K) {
        uint32_t g = in_unit / (w->kind == NPU_W_Q6_K ? 16 : 32);
        return unit_of(w, k, n) + w->code_bytes + (g >> 2) * 128 + 4 * c + byte_of(g);
    }
    if (w->kind == NPU_W_SUPER4 || w->kind == NPU_W_SUPER8) {
        uint32_t j = in_unit / 8, g = (in_unit % 8 >> 1) * 2 + c / 16;
        half = 2 * (16 * (j >> 1 & 1) + 8 * (j & 1) + g) + (j >> 2);
    } else {
        half = 2 * c + in_unit / 32;
    }
    return unit_of(w, k, n) + w->code_bytes + 2 * half;
}

uint32_t npu_super_offset(const struct npu_weights *w, uint32_t k, uint32_t n)
{
    return unit_of(w, k, n) + w->code_bytes + 512 + 4 * (n % NPU_COLS);
}

void npu_act8_layout(uint32_t k, struct npu_act8 *out)
{
    out->sums = k;
    out->scales = out->sums + k / 32 * 4;
    out->bytes = round_up(out->scales + (k + NPU_ACT_BLOCK - 1) / NPU_ACT_BLOCK * 4, NPU_LINE);
}

/* Bytes of one thread's rings with chunks of c blocks and r blocks of rows. */
static uint64_t rings(const struct npu_weights *w, uint32_t c, uint32_t r)
{
    uint64_t packed = round_up(w->block_bytes, 1) * (uint64_t)c, tiles = (uint64_t)w->k * 64 * c;
    packed = (packed + NPU_TILE - 1) / NPU_TILE * NPU_TILE;
    return 3 * packed + 2 * tiles + 2 * (uint64_t)NPU_TILE * r * c;
}

static void place(const struct npu_weights *w, uint32_t at, struct npu_gemm_plan *p)
{
    uint32_t packed = round_up(w->block_bytes * p->chunk_blocks, NPU_TILE), tiles = w->k * 64 * p->chunk_blocks;
    uint32_t out = NPU_TILE * p->row_blocks * p->chunk_blocks;
    for (int i = 0; i < 3; i++, at += packed) p->packed[i] = at;
    for (int i = 0; i < 2; i++, at += tiles) p->tiles[i] = at;
    for (int i = 0; i < 2; i++, at += out) p->out[i] = at;
}

int npu_gemm_plan(const struct npu_weights *w, uint32_t m, uint32_t first_byte, uint32_t tcm_bytes, uint32_t n_threads,
    struct npu_gemm_plan *out)
{
    uint32_t all_rows = m / 32 + (m % 32 != 0);
    uint64_t first = ((uint64_t)first_byte + NPU_TILE - 1) / NPU_TILE * NPU_TILE, act = (uint64_t)w->k * 64;
    if (!m || !n_threads || first >= tcm_bytes) return -1;
    uint64_t room = tcm_bytes - first;
    if (act + n_threads * rings(w, 1, 1) > room) return -1;

    /* As many rows as fit beside the smallest rings: each pass reads every weight again. */
    uint64_t per_row = act + n_threads * 2 * (uint64_t)NPU_TILE, fixed = n_threads * rings(w, 1, 0);
    uint64_t rows = (room - fixed) / per_row;
    out->row_blocks = rows < all_rows ? (uint32_t)rows : all_rows;
    out->n_passes = (all_rows + out->row_blocks - 1) / out->row_blocks;
    out->row_blocks = (all_rows + out->n_passes - 1) / out->n_passes;

    uint32_t chunk = 1, share = (w->n_blocks + n_threads - 1) / n_threads;
    while (chunk < share && (uint64_t)chunk * w->block_bytes < DMA_TARGET_BYTES &&
           out->row_blocks * act + n_threads * rings(w, chunk + 1, out->row_blocks) <= room)
        chunk++;
    out->chunk_blocks = chunk;
    out->n_chunks = (w->n_blocks + chunk - 1) / chunk;
    out->act = (uint32_t)first;
    out->thread_stride = (uint32_t)rings(w, chunk, out->row_blocks);
    place(w, (uint32_t)(first + out->row_blocks * act), out);
    out->bytes = (uint32_t)(first + out->row_blocks * act + (uint64_t)n_threads * out->thread_stride);
    return 0;
}

int npu_gemv_plan(const struct npu_weights *w, uint32_t first_byte, uint32_t tcm_bytes, struct npu_gemv_plan *out)
{
    uint64_t first = ((uint64_t)first_byte + NPU_TILE - 1) / NPU_TILE * NPU_TILE;
    if (first + 3 * (uint64_t)w->block_bytes > tcm_bytes) return -1;
    uint32_t chunk = 1;
    while (chunk < w->n_blocks && (uint64_t)chunk * w->block_bytes < DMA_TARGET_BYTES &&
           first + 3 * (uint64_t)(chunk + 1) * w->block_bytes <= tcm_bytes)
        chunk++;
    out->chunk_blocks = chunk;
    out->n_chunks = (w->n_blocks + chunk - 1) / chunk;
    for (uint32_t i = 0; i < 3; i++) out->packed[i] = (uint32_t)first + i * chunk * w->block_bytes;
    out->bytes = (uint32_t)first + 3 * chunk * w->block_bytes;
    return 0;
}

int npu_attention_plan(uint32_t n, uint32_t first_byte, uint32_t tcm_bytes, struct npu_attention_plan *out)
{
    if (!n || n % 8 || n > 1024) return -1;
    n = out->n = round_up(n, 64);
    uint32_t tiles = n / 32 * NPU_TILE, raw = 64 * 2 * n;
    struct {
        uint32_t *offset, bytes;
    } parts[] = {{&out->query, tiles}, {&out->keys[0], raw}, {&out->keys[1], raw}, {&out->values[0], raw},
        {&out->values[1], raw}, {&out->key_tiles, 2 * tiles}, {&out->value_tiles, 2 * tiles},
        {&out->score_tiles, 2 * NPU_TILE}, {&out->prob_tiles, 2 * NPU_TILE}, {&out->probs, 2 * NPU_TILE},
        {&out->out_tiles, tiles}, {&out->out, 32 * 4 * n}, {&out->scratch, 64 * NPU_LINE}};
    uint64_t at = ((uint64_t)first_byte + NPU_TILE - 1) / NPU_TILE * NPU_TILE;
    for (uint32_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].offset = (uint32_t)at;
        at += round_up(parts[i].bytes, NPU_TILE);
        if (at > tcm_bytes) return -1;
    }
    out->bytes = (uint32_t)at;
    return 0;
}
