/* SPDX-License-Identifier: MIT
 *
 * The definition of every operation of ops/op.h in scalar C: what a fast kernel is compared with.
 *
 * Written to be read, not to be fast.  Plain arrays of f32; sums that can be long are kept in double, so that the
 * distance of a kernel from these functions is the kernel's error.  Every function is pure but for its outputs,
 * allocates nothing and may run on any thread.  Arguments are trusted (batch_check and each device's supports() judge
 * them).  `out` may be the same array as an input of the same shape unless said otherwise; other overlaps are not
 * allowed.
 */
#ifndef LUTRA_OPS_REF_H
#define LUTRA_OPS_REF_H

#include "ops/kv_view.h"
#include "ops/op.h"

struct row;
struct row_result;

/* ---- weights: OP_EMBED, OP_MATMUL ---- */

/* out[n_in] = row `index` of w [n_out][n_in], dequantized (quant/quant.h), times scale.  w->data may have any
 * alignment.  Types without a reader give zeros: supports() has refused them. */
void ref_embed(const struct tensor *w, int64_t index, float scale, float *out);

/* The same of columns first .. first + n - 1, which are whole blocks. */
void ref_embed_part(const struct tensor *w, int64_t index, int64_t first, int64_t n, float scale, float *out);

/* Which row of the weight an OP_EMBED reads for a row of the batch. */
int32_t ref_embed_index(enum embed_by by, const struct row *row);

/* out[r][o] = sum over i of w[o][i] * x[r][i] + bias[o].  x: [n_row][n_in], out: [n_row][n_out] and not x;
 * bias: [n_out] or NULL. */
void ref_matmul(const struct tensor *w, const float *bias, const float *x, float *out, int n_row);

/* What OP_MATMUL does first with the inputs of a weight that is `i8row`: x [n] to the nearest multiple of its largest
 * magnitude / 127 (BitNet's activations: int8 with one scale per row; transformers' integrations/bitnet.py). */
void ref_round_row(const float *x, int64_t n, float *out);

/* ---- one row of activations ---- */

/* out = x / sqrt(mean(x^2) + eps) * weight, separately for each of the n / n_norm groups.  x, out: [n];
 * weight: [n_norm]. */
void ref_rms_norm(const float *x, const float *weight, float eps, float *out, int n, int n_norm);

/* out = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias, the same way; bias may be NULL. */
void ref_layer_norm(const float *x, const float *weight, const float *bias, float eps, float *out, int n, int n_norm);

/* Rotates x [n_head][d_head] to position pos, in place.  Pair i of a head, elements (2i, 2i+1) or (i, i + n_rot/2),
 * turns by theta_i = pos * freq_scale * freq_base^(-2i/n_rot) / factors[i]; the elements from n_rot on stay. */
void ref_rope(const struct op_rope *p, int32_t pos, float *x);

/* The rotation in a pass of n_ctx: long_factors are taken or gone. */
struct op_rope ref_rope_in(const struct op_rope *p, int n_ctx);

/* What rotation kernels take instead of angles: cs[n_rot/2][2] = cos theta_i, sin theta_i, times magnitude. */
void ref_rope_table(const struct op_rope *p, int32_t pos, float *cs);

/* The same in two parts: power[n_rot/2] = freq_base^(-2i/n_rot) serves all positions. */
void ref_rope_powers(const struct op_rope *p, double *power);
void ref_rope_turns(const struct op_rope *p, const double *power, int32_t pos, float *cs);

void ref_swiglu(const float *gate, const float *up, float *out, int n); /* gate / (1 + e^-gate) * up */
void ref_geglu(const float *gate, const float *up, float *out, int n);  /* the tanh form of gelu(gate), times up */
void ref_relu2(const float *gate, const float *up, float *out, int n);  /* max(gate, 0)^2 * up */
void ref_scale(const float *x, float by, float *out, int n);
void ref_swiglu_oai(const float *gate, const float *up, float *out, int n);          /* as OP_SWIGLU_OAI says */
void ref_gelu(const float *x, float *out, int n);                                    /* the tanh form */
void ref_gelu_erf(const float *x, float *out, int n);                                /* x Phi(x) */
void ref_add_scaled(const float *a, const float *b, float scale, float *out, int n); /* a + scale b */
void ref_add(const float *a, const float *b, float *out, int n);

/* out[i] = x[order[i]], each below n; out is not x. */
void ref_permute(const float *x, const int32_t *order, float *out, int n);

/* out[i] = x[out_row[i]].  x: [rows][dim], out: [n_out][dim] and not x. */
void ref_take(const float *x, const int32_t *out_row, int n_out, int dim, float *out);

/* ---- experts ---- */

/* OP_ROUTE of one row: scores [n_expert] -> out [2 * n_used], ids as floats, ascending, then weights.  A NaN ranks as
 * -infinity, and makes weights NaN. */
void ref_route(const struct op_route *p, const float *scores, float *out);

/* Part i of OP_EXPERTS for one row: x [n_in] or [n_used][n_in], route [2 * n_used] -> out [n_used][n_out]. */
void ref_experts(const struct op *op, int i, const float *x, const float *route, float *out);

/* OP_COMBINE of one row: x [n_used][n], route [2 * n_used] -> out [n]. */
void ref_combine(const float *x, const float *route, int n_used, int n, float *out);

/* ---- recurrent layers ---- */

void ref_mul(const float *a, const float *b, float *out, int n);

/* OP_GATE: out = x / (1 + e^-gate); gate [n_gate], n or one for all. */
void ref_gate(const float *gate, int n_gate, const float *x, float *out, int n);

/* OP_CONV of one token: x[0 .. n_tap - 1] are the inputs [n] of the last tokens, the oldest first. */
void ref_conv(const struct op_conv *p, const float *const *x, float *out, int n);

/* out = x * scale / sqrt(sum of squares + eps). */
void ref_l2_norm(const float *x, float eps, float scale, float *out, int n);

/* Decay and step of a value head from its elements of in[1] and in[2]; the key head whose q and k it uses. */
void ref_delta_gates(const struct op_delta *p, int head, float decay_in, float step_in, float *decay, float *step);
/* Where a value head's q, k [d_k] and v [d_v] lie in OP_DELTA_NET's first input. */
struct ref_delta_parts {
    const float *q, *k, *v;
};
struct ref_delta_parts ref_delta_parts(const struct op_delta *p, int head, const float *x);

/* One token of DELTA_TILE columns of a head: state [d_k][DELTA_TILE]; k, q [d_k] normalised, v, out [DELTA_TILE]. */
void ref_delta_step(
    float *state, int d_k, const float *k, const float *q, const float *v, float decay, float step, float *out);

/* A recurrent operation for all rows of a pass: states are saved, drafts leave their inputs.  value[v]: the array of
 * value v; scratch: ref_recurrent_floats. */
size_t ref_recurrent_floats(const struct op_list *list, const struct op *op, int n_draft);
void ref_recurrent(
    const struct op_list *list, const struct op *op, const struct kv_view *kv, float *const *value, float *scratch);

/* ---- the cache: OP_KV_APPEND, OP_ATTENTION ---- */

/* Rounds k, v [n_kv_head][d_head] to the cache's type and stores them as row `row`'s own. */
void ref_kv_append(const struct kv_view *kv, int layer, int row, const float *k, const float *v);

/* The K or V vector [d_head] that `row` sees at position pos (0 .. n_paged + n_path - 1), as f32. */
void ref_kv_read(const struct kv_view *kv, int layer, enum kv_side side, int head, int row, int32_t pos, float *out);

/* The attention of one row: q, out [n_head][d_head]; out may be q.  The row's own position is the last it sees.
 * scratch: double[n_paged + n_path + 2 * d_head]. */
void ref_attention(const struct kv_view *kv, int layer, const struct op_attention *p, int row, const float *q,
    float *out, double *scratch);

/* ---- OP_HEAD, after its matmul ---- */

/* logits[i] = cap * tanh(logits[i] / cap). */
void ref_softcap(float *logits, int n, float cap);

/* log(sum(exp(logits))); NaN when a logit is. */
float ref_log_sum_exp(const float *logits, int n);

/* The min(k, n) largest, best first, ties by lower id; returns how many.  A NaN ranks as -infinity. */
int ref_top_k(const float *logits, const uint64_t *allow, int n, int k, int32_t *id, float *logit);

/* Fills what the row wants of its logits in *result: log_sum_exp, listed_logit, the top entries. */
void ref_head_result(const float *logits, int n_vocab, const struct row *row, struct row_result *result);

#endif
