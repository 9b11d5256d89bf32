/* SPDX-License-Identifier: MIT
 *
 * What the host asks of the NPU: one operation and the machine it runs on.
 *
 * All words are 32-bit little-endian; buffers are offsets into the shared window (0: none); TCM belongs to the executor.
 * Rows of f32 matrices start at multiples of 128 bytes.  The same structs on both sides, no padding.
 */
#ifndef LUTRA_NPU_WIRE_MESSAGE_H
#define LUTRA_NPU_WIRE_MESSAGE_H

#include <stdint.h>

enum npu_opcode {
    NPU_OP_NOP,
    NPU_OP_DEQUANT,   /* weight blocks to f16 tiles: the matrix product's second stage alone */
    NPU_OP_QUANTIZE,  /* f32 row to act8 */
    NPU_OP_GEMV,      /* y [n] f32 = W act8, integer core */
    NPU_OP_GEMM,      /* Y [m][n] f32 = X [m][k] f32 W^T on f16 tiles */
    NPU_OP_ADD,       /* y = a + b, f32 */
    NPU_OP_SWIGLU,    /* y = silu(a) * b, f32 */
    NPU_OP_RMS_NORM,  /* rows of f32 times gain */
    NPU_OP_ROPE,      /* rotation of pairs by a table of cos and sin */
    NPU_OP_EXP16,     /* y = exp(x) for x <= 0, f16: one of three ways */
    NPU_OP_ATTENTION, /* m rows of n over the keys of one KV head */
    NPU_OP_EXP_TABLE, /* builds the table of NPU_EXP_TABLE at the start of TCM */
    NPU_OPS
};

enum npu_exp_way { NPU_EXP_TABLE, NPU_EXP_F16, NPU_EXP_F32 };

/* Buffers the host wrote are invalidated before, those it reads are flushed after. */
enum { NPU_FROM_HOST = 1, NPU_TO_HOST = 2 };

enum npu_op_status { NPU_OK, NPU_BAD_OP, NPU_BAD_SHAPE, NPU_NO_ROOM };

struct npu_op {
    uint32_t code;  /* enum npu_opcode */
    uint32_t flags; /* NPU_FROM_HOST, NPU_TO_HOST */
    uint32_t m, n, k;
    uint32_t
        kind; /* enum npu_weight_kind, or the way of NPU_OP_EXP16 and NPU_OP_ATTENTION, or neox pairs of NPU_OP_ROPE */
    uint32_t src;     /* X, a, act8's source */
    uint32_t weights; /* W, b, gain, table of cos and sin */
    uint32_t dst;
    uint32_t src_stride, dst_stride; /* bytes between rows */
    uint32_t param;                  /* bits of an f32: epsilon, or the scale of Q K^T */
    uint32_t rows;                   /* attention: struct npu_row [m] */
};

/* Attention.  Keys and values are halves, in segments of 64 keys: weights is an array of npu_segment, k the number of keys.
 * A row sees key j if j < limit, or if bit j - tree_base of its 64 tree bits is set: its ancestors among the drafts. */
enum { NPU_SEGMENT = 64 };
struct npu_segment {
    uint32_t keys, values; /* offsets of [64][n] halves; keys past the last may hold anything */
};
struct npu_row {
    uint32_t limit, tree_base, tree[2];
};

/* What the executor knows of its machine. */
struct npu_machine {
    uint32_t tcm_start; /* window offset */
    uint32_t tcm_bytes;
    uint32_t tcm_kept; /* first bytes of TCM that hold the exp table; 0: there is none */
    uint32_t n_threads;
};

#endif
