/* SPDX-License-Identifier: MIT
 *
 * Rotation by position: its keys, and what scaling makes of the frequencies.
 *
 * LongRoPE has two lists of factors in the file, for sessions up to the original context and for longer ones.
 * YaRN (Peng et al. 2023) keeps high frequencies and scales low ones, with a ramp between.  For each pair of elements
 * that is a number by which its frequency is divided: a factor of OP_ROPE, like Llama 3's.
 */
#include "model/model_impl.h"

#include <math.h>
#include <string.h>

static bool is_word(struct gguf_str s, const char *word)
{
    return s.n == strlen(word) && memcmp(s.s, word, s.n) == 0;
}

static int read_yarn(const struct reader *r, float factor, struct lutra_error *err)
{
    struct yarn *y = &r->hp->yarn;
    char name[96];
    float extrapolated = 1, magnitude = 1;
    TRY(model_opt_float(r, "rope.scaling.yarn_ext_factor", -1.0f, 1e6f, &extrapolated, err));
    TRY(model_opt_float(r, "rope.scaling.yarn_attn_factor", -1.0f, 1e6f, &magnitude, err));
    if ((extrapolated != 1 && extrapolated >= 0) || magnitude != 1)
        TRY(model_lack(r->to, err, "%s: key '%s' is not implemented", weights_path(r->w),
            model_key(name, r, magnitude != 1 ? "rope.scaling.yarn_attn_factor" : "rope.scaling.yarn_ext_factor")));
    *y = (struct yarn){.factor = factor, .beta_fast = 32, .beta_slow = 1};
    TRY(model_opt_float(r, "rope.scaling.yarn_beta_fast", 1e-6f, 1e6f, &y->beta_fast, err));
    TRY(model_opt_float(r, "rope.scaling.yarn_beta_slow", 1e-6f, 1e6f, &y->beta_slow, err));
    return model_opt_float(r, "rope.scaling.yarn_log_multiplier", 0.0f, 1e6f, &y->log_multiplier, err);
}

/* A factor without a type is linear, a factor of 0 none at all, and type none overrules any factor (llama.cpp). */
int model_read_scaling(const struct reader *r, struct lutra_error *err)
{
    char name[96];
    struct gguf_str type = {"linear", 6};
    struct op_rope *rope = &r->hp->rope;
    float factor = 0;
    rope->freq_scale = rope->magnitude = 1;
    r->hp->n_ctx_orig = r->hp->n_ctx_train;
    TRY(model_opt_float(r, "rope.scaling.attn_factor", 0.0f, 1e6f, &rope->magnitude, err));
    TRY(model_opt_int(r, "rope.scaling.original_context_length", MODEL_MAX_CTX, &r->hp->n_ctx_orig, err));
    TRY(weights_opt_str(r->w, model_key(name, r, "rope.scaling.type"), &type, err));
    if (is_word(type, "none")) return 0;
    if (!is_word(type, "linear") && !is_word(type, "yarn") && !is_word(type, "longrope"))
        return model_lack(r->to, err, "%s: rope scaling '%.*s' (key '%s') is not implemented", weights_path(r->w),
            (int)(type.n < 40 ? type.n : 40), type.s, name);
    bool has_factor = weights_kv_find(r->w, model_key(name, r, "rope.scaling.factor"));
    TRY(model_opt_float(r, has_factor ? "rope.scaling.factor" : "rope.scale_linear", 0.0f, 1e6f, &factor, err));
    if (factor > 0 && factor < 1e-6f) factor = 1e-6f;
    if (is_word(type, "yarn")) return read_yarn(r, factor > 0 ? factor : 1, err);
    if (factor > 0) rope->freq_scale = 1.0f / factor;
    return 0;
}

int model_read_rope(const struct reader *r, struct lutra_error *err)
{
    char name[96];
    struct hparams *hp = r->hp;
    struct op_rope *rope = &hp->rope;
    rope->kind = r->arch->rope;
    rope->d_head = rope->n_rot = hp->d_head;
    rope->freq_base = 10000.0f;
    TRY(model_opt_int(r, "rope.dimension_count", MODEL_MAX_DIM, &rope->n_rot, err));
    bool fits =
        rope->n_rot == hp->d_head || (r->arch->rotates_part && rope->n_rot < hp->d_head && rope->n_rot % 2 == 0);
    if (!fits) {
        TRY(model_lack(r->to, err, "%s: key '%s' is %d with heads of %d: rotating a part of a head is not implemented",
            weights_path(r->w), model_key(name, r, "rope.dimension_count"), rope->n_rot, hp->d_head));
        rope->n_rot = hp->d_head;
    }
    TRY(model_opt_float(r, "rope.freq_base", 1.0f, 1e12f, &rope->freq_base, err));
    hp->window_rope = *rope;
    return 0;
}

/* The pair of elements that turns beta times over n_ctx positions. */
static double pair_of(const struct op_rope *rope, int n_ctx, double beta)
{
    return rope->n_rot * log(n_ctx / (beta * 2 * M_PI)) / (2 * log(rope->freq_base));
}

static double yarn_magnitude(double factor, double multiplier)
{
    return factor <= 1 ? 1 : 0.1 * multiplier * log(factor) + 1;
}

/* Divides frequencies further: factors[n_rot / 2]. */
static void apply_yarn(struct hparams *hp, float *factors)
{
    struct op_rope *rope = &hp->rope;
    const struct yarn *y = &hp->yarn;
    double first = pair_of(rope, hp->n_ctx_orig, y->beta_fast), last = pair_of(rope, hp->n_ctx_orig, y->beta_slow);
    first = fmax(0, y->between_pairs ? first : floor(first));
    last = fmin(rope->n_rot - 1, y->between_pairs ? last : ceil(last));
    for (int i = 0; i < rope->n_rot / 2; i++) {
        double kept = 1 - fmin(1, fmax(0, (i - first) / fmax(0.001, last - first)));
        factors[i] = (float)(factors[i] / ((1 - kept) / y->factor + kept));
    }
    rope->magnitude *= (float)(yarn_magnitude(y->factor, 1) /
                               (y->log_multiplier != 0 ? yarn_magnitude(y->factor, y->log_multiplier) : 1));
}

int model_rope_factors(struct model *m, struct lutra_error *err)
{
    struct hparams *hp = &m->hp;
    int n = hp->rope.n_rot / 2;
    void *own;
    TRY(model_vector(m, "rope_freqs.weight", n, true, &hp->rope.factors, err));
    TRY(model_vector(m, "rope_factors_long.weight", n, true, &hp->rope.long_factors, err));
    if (hp->rope.long_factors) TRY(model_vector(m, "rope_factors_short.weight", n, false, &hp->rope.factors, err));
    hp->rope.short_ctx = hp->n_ctx_orig;
    if (hp->yarn.factor > 0) {
        TRY(arena_take(&m->arena, (size_t)n * sizeof(float), "rope factors", &own, err));
        for (int i = 0; i < n; i++) ((float *)own)[i] = hp->rope.factors ? hp->rope.factors[i] : 1;
        apply_yarn(hp, own);
        hp->rope.factors = own;
    }
    if (!m->arch->two_ropes) hp->window_rope = hp->rope;
    return 0;
}
