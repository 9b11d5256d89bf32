/* SPDX-License-Identifier: MIT */
#include "npu/wire/layout.h"

#include "npu/wire/message.h"
#include "npu/wire/planes.h"
#include "npu/wire/tcm.h"
#include "npu/wire/tiling.h"

/* A DMA of about this size hides its set-up; larger ones only cost TCM. */
enum { DMA_TARGET_BYTES = 128 << 10 };

/* Phases of a product, where it has so many outputs: its first and last ones overlap with nothing. */
enum { CHUNKS_LEAST = 24 };

static uint32_t round_up(uint32_t x, uint32_t to)
{
    return (x + to - 1) / to * to;
}

uint32_t npu_weights_bits(uint32_t kind)
{
    if (kind == NPU_W_F16) return 16;
    if (kind == NPU_W_W2 || kind == NPU_W_TERNARY || kind == NPU_W_Q2_K) return 2;
    if (kind == NPU_W_W3) return 3;
    return kind == NPU_W_Q8_0 || kind == NPU_W_SUPER8 || kind == NPU_W_Q5_K || kind == NPU_W_Q6_K ? 8 : 4;
}

int npu_weights_zero(uint32_t kind)
{
    return kind == NPU_W_W2 || kind == NPU_W_W3 || kind == NPU_W_W4;
}

uint32_t npu_weights_groups(uint32_t kind)
{
    return kind == NPU_W_Q4_K || kind == NPU_W_Q5_K ? 8 : 16;
}

int npu_weights_layout(uint32_t kind, uint32_t k, uint32_t n, struct npu_weights *out)
{
    if (npu_is_planes(kind)) return npu_planes_layout(kind, k, n, out);
    uint32_t unit_k = kind >= NPU_W_Q4_K ? NPU_SUPER_K : NPU_UNIT_K;
    uint32_t code = unit_k * NPU_COLS / 8 * npu_weights_bits(kind);
    uint32_t tail = kind == NPU_W_F16 ? 0 : kind == NPU_W_Q4_1 ? 256 : kind >= NPU_W_Q4_K ? 640 : 128;
    if (kind < NPU_W_Q4_0 || kind >= NPU_W_END || !k || k % unit_k || !n) return -1;
    uint64_t bytes = (uint64_t)(k / unit_k) * (code + tail) * (((uint64_t)n + NPU_COLS - 1) / NPU_COLS);
    if (bytes > 1u << 31) return -1;
    out->kind = kind;
    out->k = k;
    out->n = n;
    out->cols = NPU_COLS;
    out->unit_k = unit_k;
    out->n_units = k / unit_k;
    out->n_blocks = n / NPU_COLS + (n % NPU_COLS != 0);
    out->code_bytes = code;
    out->unit_bytes = code + tail;
    out->block_bytes = out->n_units * out->unit_bytes;
    out->panel = out->chunk = 0;
    out->bytes = (uint32_t)bytes;
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
    uint32_t in_unit = k % w->unit_k, word = 4 * (n % NPU_COLS) + byte_of(k), bits = npu_weights_bits(w->kind);
    if (w->kind == NPU_W_F16) {
        *shift = 0;
        return unit_of(w, k, n) + in_unit / 2 * NPU_LINE + 4 * (n % NPU_COLS) + (k & 1) * 2;
    }
    if (w->kind == NPU_W_W3) {
        const uint32_t tile = in_unit / 32 * 3 * NPU_LINE, spread = k % 32 >= 24;
        *shift = k / 4 % 2 * 4 + (spread ? 3 : 0);
        return unit_of(w, k, n) + tile + (spread ? 0 : k % 32 / 8 * NPU_LINE) + word;
    }
    uint32_t fields = 8 / bits;
    *shift = k / 4 % fields * bits;
    return unit_of(w, k, n) + in_unit / 4 / fields * NPU_LINE + word;
}

uint32_t npu_scale_offset(const struct npu_weights *w, uint32_t k, uint32_t n)
{
    uint32_t c = n % NPU_COLS, in_unit = k % w->unit_k, half;
    if (w->unit_k == NPU_SUPER_K) {
        uint32_t g = in_unit * npu_weights_groups(w->kind) / NPU_SUPER_K;
        return unit_of(w, k, n) + w->code_bytes + (g >> 2) * 128 + 4 * c + byte_of(g);
    }
    if (w->kind == NPU_W_SUPER4 || w->kind == NPU_W_SUPER8) {
        uint32_t j = in_unit / 8, g = (in_unit % 8 >> 1) * 2 + c / 16;
        half = 2 * (16 * (j >> 1 & 1) + 8 * (j & 1) + g) + (j >> 2);
    } else if (npu_weights_zero(w->kind)) {
        half = 2 * c;
    } else {
        half = 2 * c + in_unit / 32;
    }
    return unit_of(w, k, n) + w->code_bytes + 2 * half;
}

uint32_t npu_super_offset(const struct npu_weights *w, uint32_t k, uint32_t n)
{
    return unit_of(w, k, n) + w->code_bytes + 512 + 4 * (n % NPU_COLS);
}

/* 0: it fits. */
static int lay_gemm(
    const struct npu_weights *w, uint32_t rows, uint32_t chunk, struct npu_tcm tcm, struct npu_gemm_plan *p)
{
    const uint64_t packed = (uint64_t)(w->panel ? chunk / 4 : chunk) * w->block_bytes;
    uint64_t tiles = w->kind == NPU_W_F16 ? 0 : (uint64_t)chunk * w->k * 64;
    p->row_blocks = rows, p->chunk_blocks = chunk;
    p->act = npu_tcm_take(&tcm, (uint64_t)rows * w->k * 64);
    for (uint32_t i = 0; i < p->lead + 2; i++) p->packed[i] = npu_tcm_take(&tcm, packed);
    for (uint32_t i = 0; i < p->lead + 1; i++) p->tiles[i] = npu_tcm_take(&tcm, tiles);
    for (uint32_t i = 0; i < p->lead + 1; i++) p->out[i] = npu_tcm_take(&tcm, (uint64_t)chunk * rows * NPU_TILE);
    p->bytes = (uint32_t)tcm.used;
    return npu_tcm_fits(&tcm) ? 0 : -1;
}

static int plan_gemm(
    const struct npu_weights *w, uint32_t m, uint32_t lead, struct npu_tcm tcm, struct npu_gemm_plan *out)
{
    uint32_t all = m / 32 + (m % 32 != 0), rows = all;
    *out = (struct npu_gemm_plan){.lead = lead};
    if (!m) return -1;
    /* As many rows as fit beside the smallest chunks: each pass reads every weight again. */
    while (rows && lay_gemm(w, rows, 1, tcm, out)) rows--;
    if (!rows) return -1;
    out->n_passes = (all + rows - 1) / rows;
    rows = (all + out->n_passes - 1) / out->n_passes;

    uint32_t chunk = 1;
    while (chunk < w->n_blocks / CHUNKS_LEAST && (uint64_t)chunk * w->block_bytes < DMA_TARGET_BYTES &&
           !lay_gemm(w, rows, chunk + 1, tcm, out))
        chunk++;
    out->n_chunks = (w->n_blocks + chunk - 1) / chunk;
    return lay_gemm(w, rows, chunk, tcm, out);
}

int npu_gemm_plan(
    const struct npu_weights *w, uint32_t m, uint32_t first_byte, uint32_t tcm_bytes, struct npu_gemm_plan *out)
{
    const struct npu_tcm tcm = npu_tcm_from(first_byte, tcm_bytes);
    struct npu_gemm_plan less;
    if (w->panel) return npu_tiling_of_tiles(w, m, first_byte, tcm_bytes, out);
    int narrow = plan_gemm(w, m, NPU_LEAD_MAX, tcm, out);
    if (!narrow && out->n_passes == 1) return 0;
    if (plan_gemm(w, m, 1, tcm, &less)) return -1;
    if (narrow || less.n_passes < out->n_passes) *out = less;
    return 0;
}

int npu_gemm_plan_of(const struct npu_weights *w, uint32_t m, uint32_t tiling, uint32_t first_byte, uint32_t tcm_bytes,
    struct npu_gemm_plan *out)
{
    const uint32_t all = m / 32 + (m % 32 != 0), lead = tiling & 3, rows = tiling >> 2 & 0x3fff, chunk = tiling >> 16;
    if (!tiling) return npu_gemm_plan(w, m, first_byte, tcm_bytes, out);
    if (!m || !lead || lead > NPU_LEAD_MAX || !rows || !chunk || (w->panel && chunk % 4)) return -1;
    *out = (struct npu_gemm_plan){.lead = lead};
    out->n_passes = (all + rows - 1) / rows;
    out->n_chunks = (w->n_blocks + chunk - 1) / chunk;
    return lay_gemm(w, rows, chunk, npu_tcm_from(first_byte, tcm_bytes), out);
}

uint32_t npu_op_row_parts(const struct npu_op *op)
{
    switch (op->code) {
    case NPU_OP_ROPE: return op->n / op->param;
    case NPU_OP_HEAD: return NPU_HEAD_GROUPS;
    case NPU_OP_TABLES: return (op->k + NPU_PLANES_K - 1) / NPU_PLANES_K;
    default: return 1;
    }
}

uint32_t npu_op_parts(const struct npu_op *op)
{
    switch (op->code) {
    case NPU_OP_ADD:
    case NPU_OP_SWIGLU:
    case NPU_OP_GEGLU:
    case NPU_OP_RELU2: return op->n / 32; /* of all rows at once */
    case NPU_OP_LOOKUP: return (op->n + NPU_PLANES_COLS - 1) / NPU_PLANES_COLS;
    case NPU_OP_TABLES:
    case NPU_OP_RMS_NORM:
    case NPU_OP_FIT:
    case NPU_OP_UNFIT:
    case NPU_OP_ROPE:
    case NPU_OP_HEAD: return op->m * npu_op_row_parts(op);
    default: return 1;
    }
}

uint32_t npu_op_threads(const struct npu_op *op, const struct npu_machine *machine)
{
    uint32_t n = npu_machine_threads(machine), parts = npu_op_parts(op);
    return n < parts ? n : parts;
}

int npu_attention_plan(uint32_t n, uint32_t first_byte, uint32_t tcm_bytes, struct npu_attention_plan *out)
{
    struct npu_tcm tcm = npu_tcm_from(first_byte, tcm_bytes);
    if (!n || n % 8 || n > 1024) return -1;
    n = out->n = round_up(n, 64);
    uint32_t tiles = n / 32 * NPU_TILE, raw = 64 * 2 * n;
    out->query = npu_tcm_take(&tcm, tiles);
    for (int i = 0; i < 2; i++) out->keys[i] = npu_tcm_take(&tcm, raw);
    for (int i = 0; i < 2; i++) out->values[i] = npu_tcm_take(&tcm, raw);
    out->key_tiles = npu_tcm_take(&tcm, 2 * tiles);
    out->value_tiles = npu_tcm_take(&tcm, 2 * tiles);
    out->score_tiles = npu_tcm_take(&tcm, 2 * NPU_TILE);
    out->prob_tiles = npu_tcm_take(&tcm, 2 * NPU_TILE);
    out->probs = npu_tcm_take(&tcm, 2 * NPU_TILE);
    out->out_tiles = npu_tcm_take(&tcm, tiles);
    out->out = npu_tcm_take(&tcm, 32 * 4 * n);
    out->scratch = npu_tcm_take(&tcm, 64 * NPU_LINE);
    out->bytes = (uint32_t)tcm.used;
    return npu_tcm_fits(&tcm) ? 0 : -1;
}

uint32_t npu_attention_threads(uint32_t n, const struct npu_machine *machine, uint32_t *area_bytes)
{
    struct npu_attention_plan plan;
    uint32_t threads = npu_machine_threads(machine), start = round_up(machine->tcm_kept, NPU_TILE);
    if (npu_attention_plan(n, machine->tcm_kept, machine->tcm_bytes, &plan)) return 0;
    *area_bytes = plan.bytes - start;
    while (threads > 1 && start + (uint64_t)threads * *area_bytes > machine->tcm_bytes) threads--;
    return threads;
}

int npu_scratch_plan(uint64_t bytes, const struct npu_machine *machine, struct npu_scratch_plan *out)
{
    struct npu_tcm tcm = npu_tcm_from(machine->tcm_kept, machine->tcm_bytes);
    out->at = npu_tcm_take(&tcm, bytes);
    out->bytes = (uint32_t)tcm.used;
    return npu_tcm_fits(&tcm) ? 0 : -1;
}
