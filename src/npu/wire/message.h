/* SPDX-License-Identifier: MIT
 *
 * What the host asks of the NPU: one operation and the machine it runs on.
 *
 * All words are 32-bit little-endian; buffers are offsets into the shared window (0: none); TCM belongs to the
 * executor. Rows of f32 matrices start at multiples of 128 bytes.  The same structs on both sides, no padding.
 */
#ifndef LUTRA_NPU_WIRE_MESSAGE_H
#define LUTRA_NPU_WIRE_MESSAGE_H

#include <stdint.h>

enum npu_opcode {
    NPU_OP_NOP,
    NPU_OP_DEQUANT,    /* weight blocks to f16 tiles: the matrix product's second stage alone */
    NPU_OP_GEMM,       /* Y [m][n] f32 = X [m][k] f32 W^T (+ bias) on f16 tiles; param: npu_gemm_tiling, or 0 */
    NPU_OP_ADD,        /* y = a + b, f32 */
    NPU_OP_SWIGLU,     /* y = silu(a) * b, f32 */
    NPU_OP_RMS_NORM,   /* rows of f32 times gain */
    NPU_OP_ROPE,       /* m rows of n f32 rotated by tables: see below */
    NPU_OP_EXP16,      /* y = exp(x) for x <= 0, f16: one of three ways */
    NPU_OP_ATTENTION,  /* rows over the cache: see below */
    NPU_OP_EXP_TABLE,  /* builds the table of NPU_EXP_TABLE at the start of TCM */
    NPU_OP_GEGLU,      /* y = gelu_tanh(a) * b, f32 */
    NPU_OP_RELU2,      /* y = max(a, 0)^2 * b, f32 */
    NPU_OP_EMBED,      /* m rows of k f32: columns rows[r] of packed weights, times param */
    NPU_OP_TAKE,       /* m rows of n f32: row r = row rows[r] of src */
    NPU_OP_KV_APPEND,  /* K = src, V = weights, rows of k heads of n f32, to halves in the cache: see below */
    NPU_OP_HEAD,       /* logits and what is asked of them, streamed over the vocabulary: see below */
    NPU_OP_INVALIDATE, /* k bytes at src: the host has written them */
    NPU_OP_FLUSH,      /* k bytes at src: the host will read them */
    NPU_OP_FIT,        /* m rows of n f32 at dst made small enough for halves, in place: see below */
    NPU_OP_UNFIT,      /* m rows of n f32 at dst times their factors, in place */
    NPU_OP_TABLES,     /* m rows of k f32 to tables in TCM: see below */
    NPU_OP_LOOKUP,     /* Y [m][n] f32 = the rows in those tables times W^T (+ bias), W bit planes */
    NPU_OP_CLOCK,      /* 16 bytes at dst: cycles of the processor, ticks of its 19.2 MHz timer; zeros: it has none */
    NPU_OP_READ,       /* k bytes at src, read in one way by all threads: to be timed */
    NPU_OPS
};

enum npu_exp_way { NPU_EXP_TABLE, NPU_EXP_F16, NPU_EXP_F32 };

/* Of NPU_OP_READ.  k is a multiple of NPU_READ_PIECE; at dst the xor of the vectors that were looked at: all, of DMA
 * each piece's first; behind it a vector for each thread.  l2fetch asks for one piece before the loads, DMA for
 * NPU_READ_AHEAD. */
enum npu_read_way { NPU_READ_LOADS, NPU_READ_FETCHED, NPU_READ_DMA };
enum { NPU_READ_PIECE = 8192, NPU_READ_AHEAD = 4 };

/* Buffers the host wrote are invalidated before, those it reads are flushed after. */
enum { NPU_FROM_HOST = 1, NPU_TO_HOST = 2 };

enum npu_op_status { NPU_OK, NPU_BAD_OP, NPU_BAD_SHAPE, NPU_NO_ROOM, NPU_NO_TABLES };

struct npu_op {
    uint32_t code;  /* enum npu_opcode */
    uint32_t flags; /* NPU_FROM_HOST, NPU_TO_HOST */
    uint32_t m, n, k;
    uint32_t kind;    /* enum npu_weight_kind, or the way of NPU_OP_EXP16, NPU_OP_ATTENTION, NPU_OP_READ */
    uint32_t src;     /* X, a */
    uint32_t weights; /* W, b, gain, tables of NPU_OP_ROPE */
    uint32_t dst;
    uint32_t src_stride, dst_stride; /* bytes between rows */
    uint32_t param;                  /* bits of an f32: epsilon, or the scale of Q K^T, of an embedding */
    uint32_t rows;                   /* a table of the operation; of NPU_OP_ROPE the first row's number */
    uint32_t bias;                   /* f32 [n] added to every row; sinks of attention; 0: none */
    uint32_t param2;                 /* bits of an f32: soft cap of scores or logits; 0: none */
    uint32_t scratch;                /* memory of NPU_OP_HEAD */
};

/* Rotation.  y = x * c + partner * s, where the partner of element i is i + d where the mask is set, i - d elsewhere,
 * and d = k elements.  c, s and the mask repeat with a period of `param` elements, a multiple of 32 that divides n.
 * Tables at `weights`: the mask (words of ones and zeros), then for each row of the pass c and s; an element that stays
 * has c 1 and s 0.  Row r of the message is row `rows` + r of the tables. */

/* Massive rows.  NPU_OP_FIT multiplies a row whose largest magnitude is 2^13 or more by the power of two that brings it
 * into [2^12, 2^13): then neither it nor a product of it overflows halves, and nothing is lost but what is 2^-26 of it.
 * The inverse, 1 for the rows that it leaves alone, goes to weights + 128 r as a vector of f32; NPU_OP_UNFIT multiplies
 * by it. */

/* Tables of rows [TMAN 5].  NPU_OP_TABLES leaves them in TCM (npu/wire/planes.h), where they stay for every
 * NPU_OP_LOOKUP behind it, so that all products with one input share them.  Any other operation but NPU_OP_NOP,
 * NPU_OP_INVALIDATE and NPU_OP_FLUSH ends them; a lookup with other m or k, or without tables, is refused
 * (NPU_NO_TABLES). */

/* The cache: rows of n halves that lie `layer_stride` apart from layer to layer, `head_stride` from head to head. */
struct npu_slot { /* NPU_OP_KV_APPEND: rows -> npu_slot [m]; param: the layer */
    uint32_t keys, values, layer_stride, head_stride;
};

/* Attention.  rows -> struct npu_attention, `bytes` long with all its tables, which depend neither on layer nor on
 * head; k is the layer, m the rows, whose strides are those of whole rows.  Rows are cut into groups; a group's rows
 * times the query heads of one KV head fill up to 32 rows of a tile.  A group reads its segments of 64 keys in
 * ascending position; bit i of a row's mask of a segment: it sees key i.  A segment is one or more runs of keys, 64 in
 * all; keys that no row sees may hold anything. */
enum { NPU_SEGMENT = 64, NPU_ATTENTION_ROWS = 32 };
struct npu_run {
    struct npu_slot at; /* of the first key */
    uint32_t n;         /* keys, `2 n` bytes apart */
};
struct npu_segment {
    uint32_t run, n_runs;
    uint32_t mask; /* number of the first row's mask; one per row of the group */
};
struct npu_group {
    uint32_t row, n_rows; /* n_rows * n_heads <= NPU_ATTENTION_ROWS */
    uint32_t segment, n_segments;
};
struct npu_attention {
    uint32_t bytes, n_groups;
    uint32_t groups, segments, runs, masks; /* offsets from the start of this struct, masks 8-byte aligned */
    uint32_t n_kv_heads, n_heads;           /* n_heads: query heads per KV head */
};

/* The head.  rows -> npu_head_row [m], dst -> npu_head_result [m], scratch: m * NPU_HEAD_SCRATCH bytes. */
enum {
    NPU_HEAD_SLICE = 2048, /* outputs at a time */
    NPU_HEAD_GROUPS = 8,   /* of a slice: what threads share of a row */
    NPU_HEAD_SCRATCH = NPU_HEAD_SLICE * 4 + NPU_HEAD_GROUPS * 384,
    NPU_HEAD_TOP = 64,
    NPU_HEAD_TOPK = 1, /* the largest NPU_HEAD_TOP logits */
    NPU_HEAD_SUM = 2,  /* sum of exponentials */
};
struct npu_head_row {
    uint32_t want;   /* NPU_HEAD_* */
    uint32_t target; /* whose logit is reported */
    uint32_t logits; /* f32 [n rounded up to 32], or 0 */
};
struct npu_head_result {
    uint32_t most, sum; /* bits of f32: log-sum-exp is most + log(sum) */
    uint32_t target;    /* bits of the target's logit */
    uint32_t n_top;
    uint32_t id[NPU_HEAD_TOP], logit[NPU_HEAD_TOP]; /* best first, ties by lower id */
    uint32_t pad[28];
};

enum { NPU_THREADS_MAX = 8 };

/* Operations in a message of a device, and its messages on their way. */
enum { NPU_RUN_OPS = 16, NPU_AHEAD = 2 };

/* What the executor knows of its machine. */
struct npu_machine {
    uint32_t tcm_start; /* window offset */
    uint32_t tcm_bytes;
    uint32_t tcm_kept;           /* first bytes of TCM that hold the exp table; 0: there is none */
    uint32_t n_threads;          /* vector threads, at least 1 */
    uint32_t tables_m, tables_k; /* rows and inputs of the tables that stand in TCM; 0: none do */
};
static inline uint32_t npu_machine_threads(const struct npu_machine *machine)
{
    return machine->n_threads < NPU_THREADS_MAX ? machine->n_threads : NPU_THREADS_MAX;
}

#endif
