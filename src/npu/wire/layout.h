/* SPDX-License-Identifier: MIT
 *
 * Where everything lies: weights, quantized activations, and the TCM plan of a matrix product.
 *
 * Pure functions of shape, type, TCM size and thread count, compiled on both sides, so that host and NPU cannot
 * disagree.  Sizes in bytes, offsets from the start of the object.  No allocation, no state, any thread.
 *
 * tile32, the default weight layout.  W is [n][k] (n outputs).  Blocks of 32 outputs; in a block, units of 64 k; in a
 * unit:
 *
 *     codes of tile 0 (k 0..31) | codes of tile 1 (k 32..63) | 64 scales, f16 | 64 minima, f16 (Q4_1 only)
 *
 *   Scale s of output c of tile t is half 2c + t: one even/odd interleaving spreads it over a tile's vector.
 *   4-bit codes: 4 vectors per tile; vector j holds k = 8j .. 8j+7; of output c the bytes 4c .. 4c+3 are
 *     low nibbles  [k0 k2 k1 k3]    high nibbles  [k4 k6 k5 k7]
 *   so that a 16-entry lookup yields vectors of the 32x32 half tile, and a word is four k for an integer dot product.
 *   2-bit codes: 2 vectors per tile; vector j holds k = 16j .. 16j+15, four to a byte: bits 1..0
 *     [k0 k2 k1 k3], bits 3..2 [k4 k6 k5 k7] and so on.
 *   8-bit codes (offset by 128, unsigned): 8 vectors per tile; vector j holds k = 4j .. 4j+3, bytes [k0 k2 k1 k3].
 *   Codes and scales are GGUF's, bit for bit, but for scales that GGUF composes (npu/host/pack.h).  Outputs past n have
 *   scale 0.
 *
 *   F16: the two 32x32 half tiles themselves, without scales.
 *
 *   Codes with a zero of their own, (q - zero) d in groups of 64 k (W2, W3, W4): codes | 32 pairs of halves, one per
 *   output, from which kernels make what a code stands for (host/pack.c writes them, dsp/dequant.c reads them).
 *   d of W2 and W4 is 0, or from NPU_ZERO_LEAST up to less than NPU_ZERO_END, without its sign.
 *     W2: a row of four around 0 is s, 2 s and 3 s (zero 0 or 3) or s, 2 s and -s (zero 1 or 2), where s is d or -d.
 *       Codes 0: 0; 1, 2, 3: 3 s, s, 2 s or -s, 2 s, s; code q is `top` less the bits of `steps` that NPU_W2_STEPS(q)
 *       leaves, not below 0, and turned over where bit 12 of `steps` says so.  The pair: top | steps.
 *     W4: d's 11 bits as an integer with its sign | 25 - exponent in bits 10..14, the zero in bits 0..3.
 *     W3: d | 8 - zero in each nibble.  3 vectors of codes per tile; vector j holds k = 8j .. 8j+7 as 4-bit codes lie,
 *       and the upper bit of each nibble is bit j of a code of k = 24 .. 31, which a fourth would have in that nibble.
 *
 *   K-quants: units of 256 k.  Codes as above (Q3_K 4 bits, 4..11; Q5_K and Q6_K 8 bits, 0..31 and 0..63), then
 *     512 scale bytes | 32 pairs (d, dmin), f16
 *     Q4_K, Q5_K: 8 scales, 8 minima per output; Q3_K, Q6_K: 16 signed scales;
 *     Q2_K: 16 bytes of minimum and scale, 4 bits each
 *   Scale of group g of output c is byte 128 (g >> 2) + 4c + {0, 2, 1, 3}[g & 3], minima 256 bytes further.
 *
 * supergroup [TTS 5.1].  The same code order, but a scale belongs to 2 k x 16 outputs: 8 groups fill a vector of 4-bit
 *   codes, and a unit (64 k x 32 outputs, 8 such vectors) has 64 scales behind its codes.  Scale of group g of vector
 *   j is half 2 * (16 * (j >> 1 & 1) + 8 * (j & 1) + g) + (j >> 2): two lookups with constant indices spread it.
 *   8-bit codes lie as above, their scales where those of 4-bit codes of the same k would.
 *
 * bitplane: npu/wire/planes.h.
 */
#ifndef LUTRA_NPU_WIRE_LAYOUT_H
#define LUTRA_NPU_WIRE_LAYOUT_H

#include <stdint.h>

enum { NPU_COLS = 32, NPU_UNIT_K = 64, NPU_SUPER_K = 256, NPU_TILE = 2048, NPU_LINE = 128 };

/* Weight kinds: the code width and what a code stands for.  Those of bit planes are NPU_PLANES (npu/wire/planes.h). */
enum npu_weight_kind {
    NPU_W_Q4_0 = 1, /* (q - 8) d */
    NPU_W_Q4_1,     /* q d + m */
    NPU_W_IQ4_NL,   /* table[q] d */
    NPU_W_Q8_0,     /* (q - 128) d: GGUF's signed code plus 128 */
    NPU_W_MXFP4,    /* table[q] d, d a power of two */
    NPU_W_W2,       /* (q - zero) d, 2 bits: W2, and Q2_0, whose zero is 1 */
    NPU_W_W3,       /* the same, 3 bits */
    NPU_W_W4,       /* 4 bits */
    NPU_W_TERNARY,  /* (q - 1) d of q up to 2, d not negative, 2 bits: TQ1_0, TQ2_0, Q1_0 */
    NPU_W_SUPER4,   /* supergroup, (q - 8) d */
    NPU_W_F16,      /* plain halves in tiles */
    NPU_W_SUPER8,   /* supergroup, (q - 128) d */
    NPU_W_Q4_K,     /* q d sc - dmin mn */
    NPU_W_Q5_K,     /* the same */
    NPU_W_Q6_K,     /* (q - 32) d sc */
    NPU_W_Q2_K,     /* q d sc - dmin mn */
    NPU_W_Q3_K,     /* (q - 8) d sc */
    NPU_W_END
};

/* Halves, without their sign, that d of W2 and W4 may be: 2^-14, and less than 512. */
enum { NPU_ZERO_LEAST = 0x0400, NPU_ZERO_END = 0x6000 };

/* The bits of `steps` that the code of W2 takes off. */
#define NPU_W2_STEPS(q) ((q) == 0 ? 0xffff : (q) == 1 ? 0x0400 : (q) == 2 ? 0x8bff : 0x87ff)

struct npu_weights {
    uint32_t kind; /* of bit planes with panel and chunk */
    uint32_t k, n;
    uint32_t cols;        /* outputs of a packed block: 32, of bit planes 128 */
    uint32_t unit_k;      /* 64, K-quants 256, bit planes 128 */
    uint32_t n_units;     /* of unit_k */
    uint32_t n_blocks;    /* of 32 outputs */
    uint32_t unit_bytes;  /* codes, scales and minima */
    uint32_t code_bytes;  /* of a unit; of bit planes, of a group */
    uint32_t block_bytes; /* n_units * unit_bytes */
    uint32_t panel;       /* of bit planes: packed blocks whose units lie side by side; else 0 */
    uint32_t chunk;       /* of bit planes: tiles of k that one DMA of a lookup brings at most */
    uint32_t bytes;       /* of the matrix */
};

/* 0, or -1: unknown kind, k not a positive multiple of 64 (K-quants: 256), n not positive, more than 2^31 bytes in
 * all.  Of bit planes k may be any, out->k is the next multiple of 128. */
int npu_weights_layout(uint32_t kind, uint32_t k, uint32_t n, struct npu_weights *out);

/* Where the code of (k, n) is: byte offset, and the shift of a code of less than 8 bits; of F16 the half itself; of W3
 * and k % 32 >= 24 its lowest bit, the others NPU_LINE further each. */
uint32_t npu_code_offset(const struct npu_weights *w, uint32_t k, uint32_t n, uint32_t *shift);
uint32_t npu_scale_offset(const struct npu_weights *w, uint32_t k, uint32_t n); /* K-quants: of a byte; W*: of a pair */
uint32_t npu_super_offset(const struct npu_weights *w, uint32_t k, uint32_t n); /* K-quants: of d; dmin follows */

/* Bits of a code: 2, 3, 4, 8; F16 16.  Groups of 64 with a zero (W2, W3, W4)?  Groups of a unit of a K-quant: 8, 16. */
uint32_t npu_weights_bits(uint32_t kind);
int npu_weights_zero(uint32_t kind);
uint32_t npu_weights_groups(uint32_t kind);

/* The k that weights are packed for: the next multiple of 64, the rest zero. */
static inline uint32_t npu_weights_k(uint32_t k)
{
    return (k + NPU_UNIT_K - 1) / NPU_UNIT_K * NPU_UNIT_K;
}

/* Outputs that are packed: n rounded up to whole blocks. */
static inline uint32_t npu_weights_outputs(const struct npu_weights *w)
{
    return (w->n + w->cols - 1) & ~(w->cols - 1);
}

/* Equal parts of work as threads share them: thread t has those from npu_share_start(s, t) up to the next thread's. */
struct npu_shares {
    uint32_t each, more; /* the first `more` threads have one more */
};
static inline struct npu_shares npu_shares(uint32_t parts, uint32_t n_threads)
{
    uint32_t each = parts / n_threads;
    return (struct npu_shares){each, parts - each * n_threads};
}
static inline uint32_t npu_share_start(struct npu_shares s, uint32_t thread)
{
    return s.each * thread + (thread < s.more ? thread : s.more);
}

enum { NPU_LEAD_MAX = 2 };

/* TCM plan of Y [m][n] = X [m][k] W^T on tiles.  Offsets from the start of TCM, each a multiple of 2048.  All threads
 * work on the same chunk of outputs: its DMA, its tiles and its results are shared by units, so TCM does not limit
 * threads. */
struct npu_gemm_plan {
    uint32_t lead;       /* phases that vector threads may be before the tile thread; 1 where more takes more passes */
    uint32_t row_blocks; /* blocks of 32 rows held at once */
    uint32_t n_passes;   /* over the weights: ceil(m / 32 / row_blocks) */
    uint32_t chunk_blocks; /* blocks of 32 outputs per phase; of bit planes a multiple of 4 */
    uint32_t n_chunks;
    uint32_t act;                      /* f16 tiles [row_blocks][k / 32] */
    uint32_t packed[NPU_LEAD_MAX + 2]; /* chunks: two DMAs in flight while one is used */
    uint32_t tiles[NPU_LEAD_MAX + 1];  /* f16 weight tiles [chunk_blocks][k / 32]; F16 needs none */
    uint32_t out[NPU_LEAD_MAX + 1];    /* f16 tiles [chunk_blocks][row_blocks] */
    uint32_t bytes;                    /* of TCM used */
};

/* 0, or -1 when not even one block of rows and outputs fits.  first_byte: TCM taken by others.  Of bit planes a search
 * (npu/wire/tiling.h), whose choice a message holds. */
int npu_gemm_plan(
    const struct npu_weights *w, uint32_t m, uint32_t first_byte, uint32_t tcm_bytes, struct npu_gemm_plan *out);

/* The choice in a word, and the plan that it says; 0: npu_gemm_plan's own.  -1 also for what is no choice. */
static inline uint32_t npu_gemm_tiling(uint32_t lead, uint32_t row_blocks, uint32_t chunk_blocks)
{
    return lead | row_blocks << 2 | chunk_blocks << 16;
}
int npu_gemm_plan_of(const struct npu_weights *w, uint32_t m, uint32_t tiling, uint32_t first_byte, uint32_t tcm_bytes,
    struct npu_gemm_plan *out);

/* Equal parts that an operation's packets are divided into, over all rows; attention's by its tables, see
 * npu_attention_threads.  Of NPU_OP_GEMM: of a chunk of outputs, and there is a thread more for its tiles.  What has
 * one part runs on one thread. */
struct npu_op;
struct npu_machine;
uint32_t npu_op_parts(const struct npu_op *op);
uint32_t npu_op_row_parts(const struct npu_op *op); /* of one row, where rows are divided */
uint32_t npu_op_threads(const struct npu_op *op, const struct npu_machine *machine);

/* TCM plan of attention with heads of n: offsets from the start of TCM; n below is that of the plan. */
struct npu_attention_plan {
    uint32_t n;                       /* the head size in TCM: a multiple of 64 */
    uint32_t query;                   /* f16 tiles [n / 32]: dimensions down, rows across */
    uint32_t keys[2], values[2];      /* [64][n] halves as they arrive */
    uint32_t key_tiles;               /* [2][n / 32] */
    uint32_t value_tiles;             /* [n / 32][2] */
    uint32_t score_tiles, prob_tiles; /* [2]: keys down, rows across; the other way round */
    uint32_t probs;                   /* as score_tiles */
    uint32_t out_tiles;               /* [n / 32] */
    uint32_t out;                     /* f32 [32][n] */
    uint32_t scratch;                 /* 64 vectors */
    uint32_t bytes;
};
/* 0, or -1: n is not a multiple of 8, or it does not fit. */
int npu_attention_plan(uint32_t n, uint32_t first_byte, uint32_t tcm_bytes, struct npu_attention_plan *out);

/* Threads that TCM has room for, each with an area of its own: tiles of rows are shared by so many.  0: not even
 * one. */
uint32_t npu_attention_threads(uint32_t n, const struct npu_machine *machine, uint32_t *area_bytes);

/* One area of TCM for an operation that needs no more: rotations, embeddings, exponentials.  0, or -1. */
struct npu_scratch_plan {
    uint32_t at, bytes; /* bytes: up to its end */
};
int npu_scratch_plan(uint64_t bytes, const struct npu_machine *machine, struct npu_scratch_plan *out);

/* Of a row of n, or of the part of it that a thread has. */
static inline uint64_t npu_rope_scratch(uint32_t n)
{
    return 4 * (uint64_t)n + 8192;
}

static inline uint64_t npu_embed_scratch(const struct npu_weights *w)
{
    return NPU_TILE + 64 * (uint64_t)w->k + w->block_bytes;
}

#endif
