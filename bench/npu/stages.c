/* SPDX-License-Identifier: MIT
 *
 * The stages of attention one at a time, to be counted [TTS Figure 8]: the library's own functions, hence the
 * inclusion.
 */
#include "ablation.h"

#define npu_attention ablation_whole_attention
uint32_t npu_attention(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op);
#include "npu/dsp/attention.c"

/* Fills the memory that a stage reads, so that the emulator does not complain. */
static void fill(struct isa *isa, const struct job *j)
{
    for (uint32_t i = j->plan.query; i < j->plan.bytes; i += 128) v_store(j->tcm + i, v_zero());
    (void)isa;
}

uint32_t ablation_stage(struct isa *isa, const struct npu_machine *machine, const struct npu_op *op)
{
    struct job j = {.op = op, .tcm = isa_ptr(machine->tcm_start), .table = isa_ptr(machine->tcm_start)};
    if (machine->tcm_kept < EXP_TABLE_BYTES || !op->k || op->k % NPU_SEGMENT) return NPU_BAD_SHAPE;
    if (npu_attention_plan(op->n, machine->tcm_kept, machine->tcm_bytes, &j.plan)) return NPU_NO_ROOM;
    j.n_tiles = op->n / 32;
    j.n_rows = ROWS;
    if (op->m == ABLATION_STAGE_NONE) fill(isa, &j);
    uint8_t *masks = isa_ptr(op->rows);
    for (uint32_t r = 0; r < ROWS; r++) j.batch_of[r] = (uint8_t)r;
    vec x = v_zero();
    for (uint32_t s = 0; s < op->k; s += NPU_SEGMENT) {
        switch (op->m) {
        case ABLATION_STAGE_TILES: make_tiles(isa, &j, 0); break;
        case ABLATION_STAGE_MASKS: mask_scores(isa, &j, masks); break;
        case ABLATION_STAGE_MAXIMA: x = largest(isa, &j, x); break;
        case ABLATION_STAGE_EXP: exponentials(isa, &j, x); break;
        case ABLATION_STAGE_SUMS:
            for (uint32_t i = 0; i < 2; i++)
                x = v_or(x,
                    turn_tile(isa, j.tcm + j.plan.prob_tiles + i * TILE_BYTES, j.tcm + j.plan.probs + i * TILE_BYTES));
            break;
        case ABLATION_STAGE_OUTPUT: accumulate(isa, &j, x); break;
        default: break;
        }
    }
    v_store(j.tcm + j.plan.scratch, x);
    return NPU_OK;
}
