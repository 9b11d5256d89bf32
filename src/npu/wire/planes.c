/* SPDX-License-Identifier: MIT */
#include "npu/wire/planes.h"

#include "npu/wire/tcm.h"
#include "npu/wire/tiling.h"

/* The kind's tiling, or else the best. */
static int find_tiling(struct npu_weights *w)
{
    w->panel = npu_planes_panel(w->kind), w->chunk = npu_planes_chunk(w->kind);
    if (!w->panel && !w->chunk) npu_tiling_of_lookups(w);
    w->kind = npu_planes_tiled(w->kind, w->panel, w->chunk);
    if (!w->panel || w->panel * w->unit_bytes > NPU_PLANES_STRIDE) return -1;
    return w->chunk && w->chunk * w->unit_bytes <= NPU_LOOKUP_CHUNK ? 0 : -1;
}

int npu_planes_layout(uint32_t kind, uint32_t k, uint32_t n, struct npu_weights *out)
{
    const uint32_t bits = npu_planes_bits(kind), group = npu_planes_group(kind), form = npu_planes_form(kind);
    if (bits < 1 || bits > 4 || (group != 32 && group != 64 && group != 128)) return -1;
    if ((form == NPU_PLANES_TERNARY && bits != 2) || (form == NPU_PLANES_ZEROS && bits < 2)) return -1;
    if (!k || !n || k > 1u << 20 || n > 1u << 24) return -1;
    *out = (struct npu_weights){.kind = kind, .n = n, .cols = NPU_PLANES_COLS, .unit_k = NPU_PLANES_K};
    out->n_units = (k + NPU_PLANES_K - 1) / NPU_PLANES_K;
    out->k = out->n_units * NPU_PLANES_K;
    out->n_blocks = (n + NPU_COLS - 1) / NPU_COLS;
    out->code_bytes = bits * group / 8 * 128;
    out->unit_bytes = npu_planes_groups(kind) * npu_planes_group_bytes(out);
    out->block_bytes = out->n_units * out->unit_bytes;
    uint64_t bytes = (uint64_t)out->block_bytes * npu_planes_blocks(out);
    if (bytes >= 1u << 31) return -1;
    out->bytes = (uint32_t)bytes;
    return find_tiling(out);
}

uint32_t npu_planes_unit(const struct npu_weights *w, uint32_t tile, uint32_t block, uint32_t *stride)
{
    uint32_t first = 0, left = npu_planes_blocks(w);
    for (; block - first >= w->panel; first += w->panel) left -= w->panel;
    *stride = (left < w->panel ? left : w->panel) * w->unit_bytes;
    return first * w->block_bytes + tile * *stride + (block - first) * w->unit_bytes;
}

static uint32_t group_offset(const struct npu_weights *w, uint32_t k, uint32_t n)
{
    uint32_t stride, unit = npu_planes_unit(w, k / NPU_PLANES_K, n / NPU_PLANES_COLS, &stride);
    return unit + k % NPU_PLANES_K / npu_planes_group(w->kind) * npu_planes_group_bytes(w);
}

uint32_t npu_planes_bit(const struct npu_weights *w, uint32_t plane, uint32_t k, uint32_t n, uint32_t *bit)
{
    const uint32_t bits = npu_planes_bits(w->kind), group = npu_planes_group(w->kind);
    uint32_t c = n % NPU_PLANES_COLS, v = c / 32, j = (bits - 1 - plane) * (group / 8) + k % group / 8;
    *bit = k % 8 / 2 + 4 * (k & 1);
    return group_offset(w, k, n) + 128 * j + 4 * (c % 32) + 2 * (v & 1) + (v >> 1);
}

uint32_t npu_planes_scale(const struct npu_weights *w, uint32_t k, uint32_t n)
{
    uint32_t c = n % NPU_PLANES_COLS;
    return group_offset(w, k, n) + w->code_bytes + c / 64 * 128 + 2 * (2 * (c % 32) + c / 32 % 2);
}

static uint32_t take_tables(struct npu_tcm *tcm, uint32_t m, uint32_t n_tiles)
{
    return npu_tcm_take(tcm, (uint64_t)m * npu_lut_bytes(n_tiles));
}

uint32_t npu_tcm_keeps(const struct npu_machine *machine)
{
    struct npu_tcm tcm = npu_tcm_from(machine->tcm_kept, machine->tcm_bytes);
    if (machine->tables_m) take_tables(&tcm, machine->tables_m, (machine->tables_k + NPU_PLANES_K - 1) / NPU_PLANES_K);
    return (uint32_t)(npu_tcm_fits(&tcm) ? tcm.used : tcm.end);
}

int npu_lookup_plan(
    const struct npu_weights *w, uint32_t m, const struct npu_machine *machine, struct npu_lookup_plan *out)
{
    struct npu_tcm tcm = npu_tcm_from(machine->tcm_kept, machine->tcm_bytes);
    const uint32_t blocks = npu_planes_blocks(w), most = npu_machine_threads(machine),
                   n = most < blocks ? most : blocks;
    out->tables = take_tables(&tcm, m, w->n_units);
    for (int i = 0; i < 2; i++) out->spill[i] = npu_tcm_take(&tcm, 512 * (uint64_t)m * blocks);
    out->thread_bytes = 1024 * w->panel + 3 * NPU_LOOKUP_CHUNK;
    out->threads = npu_tcm_take(&tcm, (uint64_t)n * out->thread_bytes);
    out->bytes = (uint32_t)tcm.used;
    return m && m <= NPU_LOOKUP_ROWS && npu_tcm_fits(&tcm) ? 0 : -1;
}
