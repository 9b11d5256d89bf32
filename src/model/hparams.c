/* SPDX-License-Identifier: MIT
 *
 * Hyperparameters from GGUF metadata.  Every value is checked against what the kernels can do.
 */
#include "model/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct arch archs[] = {
    {"llama", ROPE_NORM, false, false, false},
    {"qwen2", ROPE_NEOX, true, false, false},
    {"qwen3", ROPE_NEOX, false, true, false},
    {"gemma2", ROPE_NEOX, false, false, true},
};

/* Sizes beyond these are taken for damage. */
enum { MAX_LAYER = 1024, MAX_DIM = 1 << 20, MAX_HEAD = 4096, MAX_VOCAB = 1 << 24, MAX_CTX = 1 << 24 };

/* `{arch}.suffix` */
static const char *key(char out[96], const struct hparams *hp, const char *suffix)
{
    snprintf(out, 96, "%s.%s", hp->arch, suffix);
    return out;
}

static int bounded(const struct weights *w, const char *name, uint32_t value, uint32_t lo, uint32_t hi, int *out,
    struct lutra_error *err)
{
    if (value < lo || value > hi)
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s: key '%s' is %u, outside %u..%u", weights_path(w), name, value, lo, hi);
    *out = (int)value;
    return 0;
}

static int get_int(const struct hparams *hp, const struct weights *w, const char *suffix, uint32_t hi, int *out,
    struct lutra_error *err)
{
    char name[96];
    uint32_t value;
    TRY(weights_get_u32(w, key(name, hp, suffix), &value, err));
    return bounded(w, name, value, 1, hi, out, err);
}

/* A missing key leaves *out as it is. */
static int opt_int(const struct hparams *hp, const struct weights *w, const char *suffix, uint32_t hi, int *out,
    struct lutra_error *err)
{
    char name[96];
    uint32_t value = (uint32_t)*out;
    TRY(weights_opt_u32(w, key(name, hp, suffix), &value, err));
    return bounded(w, name, value, 1, hi, out, err);
}

/* Head counts may be arrays, one value per layer; only equal ones are implemented. */
static int get_heads(const struct hparams *hp, const struct weights *w, const char *suffix, int fallback, int *out,
    struct lutra_error *err)
{
    char name[96];
    key(name, hp, suffix);
    for (int layer = 0; layer < hp->n_layer; layer++) {
        uint32_t value = (uint32_t)fallback;
        int n = 0;
        if (fallback)
            TRY(weights_opt_layer_u32(w, name, (uint32_t)layer, &value, err));
        else
            TRY(weights_get_layer_u32(w, name, (uint32_t)layer, &value, err));
        TRY(bounded(w, name, value, 1, MAX_HEAD, &n, err));
        if (layer > 0 && n != *out)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: key '%s' differs between layers (%d, %d): not implemented",
                weights_path(w), name, *out, n);
        *out = n;
    }
    return 0;
}

static int get_float(const struct hparams *hp, const struct weights *w, const char *suffix, bool needed, float lo,
    float hi, float *out, struct lutra_error *err)
{
    char name[96];
    key(name, hp, suffix);
    if (needed)
        TRY(weights_get_f32(w, name, out, err));
    else
        TRY(weights_opt_f32(w, name, out, err));
    if (!(*out >= lo && *out <= hi))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' is %g, outside %g..%g", weights_path(w), name,
            (double)*out, (double)lo, (double)hi);
    return 0;
}

/* A factor without a type is linear, a factor of 0 none at all, and type none overrules any factor (llama.cpp). */
static int read_scaling(struct hparams *hp, const struct weights *w, const struct listener *to, struct lutra_error *err)
{
    char name[96];
    struct weights_str type = {"linear", 6};
    float factor = 0, magnitude = 1;
    TRY(get_float(hp, w, "rope.scaling.attn_factor", false, 0.0f, 1e6f, &magnitude, err));
    if (magnitude != 1)
        TRY(model_lack(
            to, err, "%s: key '%s' is not implemented", weights_path(w), key(name, hp, "rope.scaling.attn_factor")));
    TRY(weights_opt_str(w, key(name, hp, "rope.scaling.type"), &type, err));
    if (type.n == 4 && !memcmp(type.s, "none", 4)) return 0;
    if (type.n != 6 || memcmp(type.s, "linear", 6))
        return model_lack(to, err, "%s: rope scaling '%.*s' (key '%s') is not implemented", weights_path(w),
            (int)(type.n < 40 ? type.n : 40), type.s, name);
    bool has_factor = weights_kv_find(w, key(name, hp, "rope.scaling.factor"));
    TRY(get_float(hp, w, has_factor ? "rope.scaling.factor" : "rope.scale_linear", false, 0.0f, 1e6f, &factor, err));
    if (factor > 0) hp->rope.freq_scale = 1.0f / (factor < 1e-6f ? 1e-6f : factor);
    return 0;
}

static int read_rope(struct hparams *hp, const struct weights *w, const struct listener *to, struct lutra_error *err)
{
    char name[96];
    struct op_rope *r = &hp->rope;
    r->d_head = hp->d_head;
    r->n_rot = hp->d_head;
    r->freq_base = 10000.0f;
    int n_rot = hp->d_head;
    TRY(opt_int(hp, w, "rope.dimension_count", MAX_DIM, &n_rot, err));
    if (n_rot != hp->d_head)
        TRY(model_lack(to, err, "%s: key '%s' is %d with heads of %d: rotating a part of a head is not implemented",
            weights_path(w), key(name, hp, "rope.dimension_count"), n_rot, hp->d_head));
    return get_float(hp, w, "rope.freq_base", false, 1.0f, 1e12f, &r->freq_base, err);
}

/* Whether a key is absent, or says 0 (false): nothing of what it could ask for. */
static bool is_off(const struct weights_kv *kv)
{
    double f = 0;
    int64_t n = 0;
    return !kv || (kv->n == 1 && ((weights_kv_i64(kv, 0, &n) && n == 0) || (weights_kv_f64(kv, 0, &f) && f == 0)));
}

/* Features that would make the result wrong if they were ignored. */
static int refuse_unknown(const struct hparams *hp, const struct arch *arch, const struct weights *w,
    const struct listener *to, struct lutra_error *err)
{
    static const struct {
        const char *key, *what;
        bool gemma2; /* has it */
    } absent[] = {{"attn_logit_softcapping", "capped attention", true},
        {"final_logit_softcapping", "capped logits", true}, {"expert_count", "experts", false},
        {"attention.clamp_kqv", "clamped attention", false},
        {"attention.max_alibi_bias", "attention with biases for distance (ALiBi)", false},
        {"logit_scale", "scaled logits", false}, {"residual_scale", "scaled residuals", false},
        {"embedding_scale", "scaled embeddings", false}, {"attention.scale", "another scale of attention", false},
        {"attention.output_scale", "scaled attention", false}};
    char name[96];
    bool causal = true;
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        if ((arch && arch->gemma2 && absent[i].gemma2) || is_off(weights_kv_find(w, key(name, hp, absent[i].key))))
            continue;
        TRY(model_lack(to, err, "%s: key '%s' asks for %s: not implemented", weights_path(w), name, absent[i].what));
    }
    TRY(weights_opt_bool(w, key(name, hp, "attention.causal"), &causal, err));
    if (causal) return 0;
    return model_lack(to, err, "%s: key '%s' is false: models that look ahead (embeddings) are not implemented",
        weights_path(w), name);
}

/* A window as long as the context hides nothing. */
static int read_window(struct hparams *hp, const struct weights *w, const struct listener *to, struct lutra_error *err)
{
    char name[96];
    const struct weights_kv *kv = weights_kv_find(w, key(name, hp, "attention.sliding_window"));
    int64_t window = 0;
    if (is_off(kv)) return 0;
    if (kv->n == 1 && weights_kv_i64(kv, 0, &window) && window >= hp->n_ctx_train) {
        hp->window = window < MAX_CTX ? (int)window : MAX_CTX;
        return 0;
    }
    return model_lack(to, err, "%s: key '%s' asks for a window inside the context of %d: not implemented",
        weights_path(w), name, hp->n_ctx_train);
}

/* What Gemma 2 has beside others; the fallbacks are llama.cpp's, and so is telling 27b by its layers: the only one whose scores
 * are not scaled by the size of its heads. */
static int read_gemma2(struct hparams *hp, const struct weights *w, struct lutra_error *err)
{
    enum { LAYERS_27B = 46 };
    hp->alternate_window = 4096;
    hp->attention_cap = 50;
    hp->logit_cap = 30;
    TRY(opt_int(hp, w, "attention.sliding_window", MAX_CTX, &hp->alternate_window, err));
    TRY(get_float(hp, w, "attn_logit_softcapping", false, 0.0f, 1e6f, &hp->attention_cap, err));
    TRY(get_float(hp, w, "final_logit_softcapping", false, 0.0f, 1e6f, &hp->logit_cap, err));
    hp->embedding_scale = sqrtf((float)hp->d_model);
    if (hp->n_layer == LAYERS_27B) hp->attention_scale = 1.0f / sqrtf((float)hp->d_model / (float)hp->n_head);
    return 0;
}

static int read_arch(struct hparams *hp, const struct arch **arch, const struct weights *w, const struct listener *to,
    struct lutra_error *err)
{
    struct weights_str s;
    *arch = NULL;
    TRY(weights_get_str(w, "general.architecture", &s, err));
    snprintf(hp->arch, sizeof hp->arch, "%.*s", (int)(s.n < sizeof hp->arch ? s.n : sizeof hp->arch - 1), s.s);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        if (strlen(archs[i].name) != s.n || memcmp(archs[i].name, s.s, s.n)) continue;
        *arch = &archs[i];
        return 0;
    }
    return model_lack(to, err, "%s: architecture '%s' is not implemented (llama, qwen2, qwen3, gemma2 are)",
        weights_path(w), hp->arch);
}

int hparams_read(struct hparams *hp, const struct arch **arch, const struct weights *w, const struct listener *to,
    struct lutra_error *err)
{
    memset(hp, 0, sizeof *hp);
    hp->rope.freq_scale = hp->rope.magnitude = 1.0f;
    TRY(read_arch(hp, arch, w, to, err));
    TRY(refuse_unknown(hp, *arch, w, to, err));
    hp->n_ctx_train = MAX_CTX;
    TRY(*arch ? get_int(hp, w, "context_length", MAX_CTX, &hp->n_ctx_train, err)
              : opt_int(hp, w, "context_length", MAX_CTX, &hp->n_ctx_train, err));
    if (!*arch || !(*arch)->gemma2) TRY(read_window(hp, w, to, err));
    TRY(read_scaling(hp, w, to, err));
    if (!*arch) return 0;
    TRY(get_int(hp, w, "block_count", MAX_LAYER, &hp->n_layer, err));
    TRY(get_int(hp, w, "embedding_length", MAX_DIM, &hp->d_model, err));
    TRY(get_int(hp, w, "feed_forward_length", MAX_DIM, &hp->d_ff, err));
    TRY(get_heads(hp, w, "attention.head_count", 0, &hp->n_head, err));
    TRY(get_heads(hp, w, "attention.head_count_kv", hp->n_head, &hp->n_kv_head, err));
    if (hp->n_head % hp->n_kv_head)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: %d attention heads are not a multiple of %d key/value heads",
            weights_path(w), hp->n_head, hp->n_kv_head);
    hp->d_head = hp->d_model / hp->n_head;
    int d_value = hp->d_head > 0 ? hp->d_head : 1;
    hp->d_head = d_value;
    TRY(opt_int(hp, w, "attention.key_length", 1024, &hp->d_head, err));
    TRY(opt_int(hp, w, "attention.value_length", 1024, &d_value, err));
    if (d_value != hp->d_head)
        TRY(model_lack(to, err, "%s: key heads of %d and value heads of %d: not implemented", weights_path(w),
            hp->d_head, d_value));
    if (hp->d_head % 8 || hp->d_head > 512)
        TRY(model_lack(
            to, err, "%s: heads of %d elements: only multiples of 8 up to 512", weights_path(w), hp->d_head));
    TRY(get_float(hp, w, "attention.layer_norm_rms_epsilon", true, 0.0f, 1.0f, &hp->rms_eps, err));
    TRY(read_rope(hp, w, to, err));
    hp->embedding_scale = 1.0f;
    hp->attention_scale = 1.0f / sqrtf((float)hp->d_head);
    if ((*arch)->gemma2) TRY(read_gemma2(hp, w, err));
    const struct tensor *embd;
    TRY(weights_tensor_get(w, "token_embd.weight", &embd, err));
    if (embd->n_dim != 2 || embd->ne[1] < 1 || embd->ne[1] > MAX_VOCAB)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor 'token_embd.weight' is not a [vocabulary][%d] matrix",
            weights_path(w), hp->d_model);
    hp->n_vocab = (int)embd->ne[1];
    hp->tied = !weights_tensor_find(w, "output.weight");
    return 0;
}
