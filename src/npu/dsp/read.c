/* SPDX-License-Identifier: MIT
 *
 * Memory read in one of three ways and next to nothing else, to be timed [TMAN Table 2]: loads of vectors, l2fetch one
 * piece before the loads, and DMA into TCM.
 */
#include "npu/dsp/kernels.h"

enum { PIECE = NPU_READ_PIECE, AHEAD = NPU_READ_AHEAD };

struct reading {
    const struct npu_op *op;
    uint8_t *tcm; /* of thread 0; the others' follow */
};

static vec fold(struct isa *isa, const uint8_t *p)
{
    vec a = v_zero(), b = v_zero();
    (void)isa;
    for (uint32_t i = 0; i < PIECE; i += 256) a = v_xor(a, v_load(p + i)), b = v_xor(b, v_load(p + i + 128));
    return v_xor(a, b);
}

/* Pieces thread, thread + n, ... */
static void share_of_read(struct isa *isa, void *user, uint32_t thread, uint32_t n)
{
    const struct reading *r = user;
    const uint32_t pieces = r->op->k / PIECE, own = thread < pieces ? (pieces - thread + n - 1) / n : 0;
    const uint32_t ahead = r->op->kind == NPU_READ_DMA ? AHEAD : r->op->kind == NPU_READ_FETCHED;
    const uint8_t *src = isa_ptr(r->op->src) + thread * PIECE;
    uint8_t *tcm = r->tcm + thread * AHEAD * PIECE;
    uint32_t ticket[AHEAD];
    vec sum = v_zero();
    for (uint32_t c = 0; c < own + ahead; c++) {
        const uint32_t slot = c % AHEAD;
        const uint8_t *next = src + (size_t)c * n * PIECE;
        if (r->op->kind == NPU_READ_DMA && c >= AHEAD) {
            dma_wait(ticket[slot]);
            sum = v_xor(sum, v_load(tcm + slot * PIECE));
        } else if (r->op->kind != NPU_READ_DMA && c >= ahead) {
            sum = v_xor(sum, fold(isa, next - (size_t)ahead * n * PIECE));
        }
        if (c >= own) continue;
        if (r->op->kind == NPU_READ_DMA) ticket[slot] = dma_start_1d(tcm + slot * PIECE, next, PIECE);
        if (r->op->kind == NPU_READ_FETCHED) l2_fetch(next, PIECE);
    }
    v_store(isa_ptr(r->op->dst) + 128 * (1 + thread), sum);
}

uint32_t npu_read(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct reading r = {op, isa_ptr(machine->tcm_start)};
    struct npu_scratch_plan plan;
    const uint32_t n = npu_machine_threads(machine);
    uint8_t *dst = isa_ptr(op->dst);
    vec sum = v_zero();
    if (!op->k || op->k % PIECE || op->src % 128 || op->dst % 128 || op->kind > NPU_READ_DMA) return NPU_BAD_SHAPE;
    if (npu_scratch_plan((uint64_t)n * AHEAD * PIECE, machine, &plan)) return NPU_NO_ROOM;
    r.tcm += plan.at;
    isa_threads(n, share_of_read, &r);
    for (uint32_t t = 1; t <= n; t++) sum = v_xor(sum, v_load(dst + 128 * t));
    v_store(dst, sum);
    return NPU_OK;
}
