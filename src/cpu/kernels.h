/* SPDX-License-Identifier: MIT
 *
 * The table of CPU kernels: one slot per job, filled once from the CPU's ISA flags.
 *
 *     struct cpu_kernels k;
 *     cpu_kernels_init(&k, cpu_isa());      reference in every slot, then better ISAs override, ascending
 *     cpu_kernels_init(&k, 0);              the reference kernels alone (the definition, src/ops/ref)
 *
 * isa is a parameter so that a test can fill the table per level.  A caller picks a kernel only through a slot: the
 * weight kernels of a type are one descriptor {packed_bytes, pack, quantize, run, unpack_row}, so that layout and
 * kernel cannot drift apart.  Filling never fails, allocates nothing; the table is plain data, read-only after, any
 * thread.
 */
#ifndef LUTRA_CPU_KERNELS_H
#define LUTRA_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "cpu/attention.h"
#include "ops/params.h"
#include "quant/formats.h"

struct cpu_gemm;

/* A block of a prompt that goes to the bulk kernels of a weight, where it has them (ROW_BULK of ops/batch.h). */
enum { CPU_BULK_ROWS = 32 };

/* out[i] = f(a[i], b[i]) for i < n, whatever the other elements; out may be a or b. */
typedef void cpu_pointwise(const float *a, const float *b, size_t n, float *out);

/* Prepares row `row` of n_row rows from x[n_in].  Distinct rows may be prepared by several threads.  row_max: 0, and
 * activations that become int8 have a scale per group; or the row's cpu_row_max, and it has one scale (class i8row). */
typedef void cpu_act_row(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act);

/* Two weights of one shape and type at once, whose outputs become activations: for every row r and output o,
 * f(w x, w2 x2)[o] goes to where act_row of the same kernel would put input o of row r. */
struct cpu_gate {
    cpu_pointwise *f;   /* n is LANES */
    const void *packed; /* w2, with its bias */
    const float *bias;
    void *act; /* act_bytes(n_out, n_row); n_out is a multiple of 32 */
};

/* One call of a matmul kernel: output rows of panels panel .. panel + n_panel - 1 for all n_row batch rows:
 * out[r * out_stride + o - panel * mr] = sum over k of w[o][k] x[r][k], + bias[o].  Writes those outputs and nothing
 * else. */
struct cpu_gemm_args {
    const struct cpu_gemm *gemm;
    const void *packed; /* the whole packed weight, 64-byte aligned */
    const void *act;    /* activations of all n_row rows as act_row left them, 64-byte aligned */
    float *out;         /* of row 0 and the first output of the range */
    size_t out_stride;  /* in floats */
    const float *bias;  /* [n_out] or NULL */
    size_t n_out, n_in;
    size_t panel, n_panel;       /* a panel is mr output rows; the last of the weight may be partial */
    size_t n_row;                /* >= 1 */
    void *work;                  /* gemm->work_bytes, 64-byte aligned, of this thread alone; NULL if 0 */
    const struct cpu_gate *gate; /* NULL: none; otherwise out is not used.  Kernels with takes_gate only */
};

/* Kernels of one weight type and class.  One arithmetic for all n_row: an output's bits do not depend on n_row, on the
 * panel range or on other rows (docs/NUMERICS.md).  Trusts its caller: n_in is whole blocks, sizes do not overflow. */
struct cpu_gemm {
    const char *name;     /* "gemm_q4_0_q8x32_16x8_avx512" */
    const char *numerics; /* class: kernels of one type and class give the same bits on every ISA; or "ref" */
    const char *layout;   /* what pack writes, with its version: one name and type, one sequence of bytes everywhere */
    enum quant_type type;
    int mr, kr;    /* output rows of a panel, inputs per dot-product step */
    int act_group; /* inputs per activation scale, but in class i8row; 0 = activations stay f32 */

    /* Bytes of the packed weight, a multiple of 64.  0: the shape overflows or is not whole blocks. */
    size_t (*packed_bytes)(const struct cpu_gemm *self, size_t n_out, size_t n_in);

    /* Packs panels panel .. panel + n_panel - 1 from src ([n_out] rows of the file format, maybe only 1-byte
     * aligned) into dst (the whole packed weight).  Distinct panel ranges may be packed by several threads. */
    void (*pack)(const struct cpu_gemm *self, const void *src, size_t n_out, size_t n_in, size_t panel, size_t n_panel,
        void *dst);

    /* Bytes of the prepared activations of n_row rows, a multiple of 64; grows with both. */
    size_t (*act_bytes)(size_t n_in, size_t n_row);

    /* Kernels with the same act_row share prepared activations. */
    cpu_act_row *act_row;

    size_t work_bytes;  /* of cpu_gemm_args.work */
    size_t unit_panels; /* the most panels that a call likes; 0: any */
    bool takes_gate;
    void (*run)(const struct cpu_gemm_args *a);

    /* What run calls for few rows, with the same bits; NULL: it calls nothing. */
    void (*run_few)(const struct cpu_gemm_args *a);

    /* dst[n_in] = row `row` of the packed weight, the exact values of the file format (embedding gather). */
    void (*unpack_row)(
        const struct cpu_gemm *self, const void *packed, size_t n_out, size_t n_in, size_t row, float *dst);
};

/* What the instructions of a level do at best, data in registers. */
struct cpu_peaks {
    const char *int8_name; /* the int8 dot product, in the processor's words; NULL: no peak */
    double int8_gmac;      /* 10^9 multiply-accumulates a second */
    double f32_gmac;       /* the same of fma */
    const char *bf16_name; /* the matrix unit's product of bf16 pairs; NULL: none */
    double bf16_gmac;      /* the same of it */
};

struct cpu_kernels {
    uint32_t isa;     /* the flags it was filled for */
    const char *name; /* of the highest level used: "reference", "avx2", "avxvnni", "avx512", ... */

    struct cpu_gemm gemm[QUANT_TYPE_END]; /* by weight type; run == NULL: type not implemented */

    /* A second class over the same packed weight, faster in bulk (CPU_BULK_ROWS rows and more); run == NULL: none. */
    struct cpu_gemm bulk[QUANT_TYPE_END];

    const char *small_isa; /* of the row kernels from here to sum_exp */

    /* out[n] = x / sqrt(mean(x^2) + eps) * w, one group; out may be x. */
    void (*rms_norm)(const float *x, const float *w, size_t n, float eps, float *out);

    /* out[n] = (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + bias (NULL: none), one group; out may be x. */
    void (*layer_norm)(const float *x, const float *w, const float *bias, size_t n, float eps, float *out);

    /* Rotates x[n_head][d_head] in place.  cs[n_rot/2][2] = cos, sin of every pair, magnitude included (ref_rope_table
     * computes it per position). */
    void (*rope)(const struct op_rope *op, const float *cs, float *x);

    /* f(a) * b, and a + b.  Tails use the same polynomial as full vectors. */
    cpu_pointwise *swiglu, *geglu, *relu2, *swiglu_oai, *add;
    cpu_pointwise *mul, *gate; /* a * b, and b / (1 + exp(-a)) */

    /* One token of OP_CONV: x[0 .. n_tap - 1] are the inputs [n] of the last tokens, the oldest first. */
    void (*conv)(const struct op_conv *op, const float *const *x, size_t n, float *out);

    /* out[n] = x * scale / sqrt(sum of squares + eps). */
    void (*l2_norm)(const float *x, size_t n, float eps, float scale, float *out);

    /* One token of DELTA_TILE columns of OP_DELTA_NET: state[d_k][DELTA_TILE] is advanced; k, q [d_k] are normalised,
     * v and out [DELTA_TILE]. */
    void (*delta_step)(
        float *state, int d_k, const float *k, const float *q, const float *v, float decay, float step, float *out);

    void (*gelu)(const float *x, size_t n, float *out);     /* the tanh form */
    void (*gelu_erf)(const float *x, size_t n, float *out); /* x (1 + erf(x / sqrt(2))) / 2 */
    void (*add_scaled)(const float *a, const float *b, float scale, size_t n, float *out); /* a + scale b */

    void (*f32_to_f16)(const float *x, size_t n, uint16_t *out); /* exact round to nearest even */
    void (*f16_to_f32)(const uint16_t *x, size_t n, float *out);

    float (*max_row)(const float *x, size_t n);             /* exact; n >= 1 */
    double (*sum_exp)(const float *x, size_t n, float max); /* sum of exp(x - max); f32 exp, own fixed order */

    struct cpu_attention attention; /* cpu/attention.h */

    void (*peaks)(struct cpu_peaks *out); /* of the calling thread's core, measured (cpu/peaks.h); NULL: none */
    const char *bf16_name;
    double (*bf16_peak)(void); /* 10^9 multiply-accumulates a second of that core's matrix unit; NULL: none */
};

void cpu_kernels_init(struct cpu_kernels *out, uint32_t isa);

/* Fillers, lowest first; each file of kernels overrides its own slots.  gemm_* and small_* live apart. */
void cpu_gemm_init_ref(struct cpu_kernels *out);
void cpu_gemm_init_avx2(struct cpu_kernels *out);
void cpu_gemm_init_avxvnni(struct cpu_kernels *out);
void cpu_gemm_init_avx512(struct cpu_kernels *out);
void cpu_gemm_init_amx(struct cpu_kernels *out);
void cpu_gemm_init_neon(struct cpu_kernels *out);
void cpu_gemm_init_dotprod(struct cpu_kernels *out);
void cpu_gemm_init_i8mm(struct cpu_kernels *out);
void cpu_small_init_ref(struct cpu_kernels *out);
void cpu_small_init_avx2(struct cpu_kernels *out);
void cpu_small_init_avx512(struct cpu_kernels *out);
void cpu_small_init_neon(struct cpu_kernels *out);
void cpu_peaks_init_avx2(struct cpu_kernels *out);
void cpu_peaks_init_avxvnni(struct cpu_kernels *out);
void cpu_peaks_init_avx512(struct cpu_kernels *out);
void cpu_peaks_init_amx(struct cpu_kernels *out);
void cpu_peaks_init_neon(struct cpu_kernels *out);
void cpu_peaks_init_dotprod(struct cpu_kernels *out);
void cpu_peaks_init_i8mm(struct cpu_kernels *out);

#endif
