/* SPDX-License-Identifier: MIT
 *
 * Hyperparameters from GGUF metadata.  Every value is checked against what the kernels can do.
 */
#include "model/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct arch *const archs[] = {&model_llama, &model_mistral3, &model_qwen2, &model_qwen3, &model_qwen2vl,
    &model_qwen3vl, &model_gemma, &model_gemma2, &model_gemma3, &model_gemma4, &model_olmo2, &model_smollm3,
    &model_phi3, &model_granite, &model_granitemoe, &model_granitehybrid, &model_qwen3moe, &model_qwen35,
    &model_qwen35moe, &model_lfm2, &model_lfm2moe, &model_gpt_oss, &model_starcoder2, &model_command_r, &model_cohere2,
    &model_bitnet, &model_bitnet_25, &model_bitnet_b158, &model_bert, &model_nomic_bert, &model_gemma_embedding};
enum { N_ARCH = sizeof archs / sizeof *archs };

/* Sizes beyond these are taken for damage. */
enum { MAX_HEAD = 4096, MAX_VOCAB = 1 << 24, MAX_EXPERT = 1024, MAX_EXPERT_USED = 64 };

const char *model_key(char out[96], const struct reader *r, const char *suffix)
{
    snprintf(out, 96, "%s.%s", r->hp->arch, suffix);
    return out;
}

static int bounded(
    const struct reader *r, const char *name, uint32_t value, uint32_t hi, int *out, struct lutra_error *err)
{
    if (value < 1 || value > hi)
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s: key '%s' is %u, outside 1..%u", weights_path(r->w), name, value, hi);
    *out = (int)value;
    return 0;
}

int model_get_int(const struct reader *r, const char *suffix, uint32_t hi, int *out, struct lutra_error *err)
{
    char name[96];
    uint32_t value;
    TRY(weights_get_u32(r->w, model_key(name, r, suffix), &value, err));
    return bounded(r, name, value, hi, out, err);
}

int model_opt_int(const struct reader *r, const char *suffix, uint32_t hi, int *out, struct lutra_error *err)
{
    char name[96];
    uint32_t value = (uint32_t)*out;
    if (!weights_kv_find(r->w, model_key(name, r, suffix))) return 0;
    TRY(weights_opt_u32(r->w, name, &value, err));
    return bounded(r, name, value, hi, out, err);
}

/* A size that a file gives once, or once for each layer: *out becomes the last layer's.  Needed: a missing key is an
 * error, otherwise it leaves *out.  Layers differ only where the architecture can; layers of recurrent kinds may have 0
 * of it. */
static int read_layer_sizes(
    const struct reader *r, const char *suffix, bool needed, uint32_t hi, int *out, struct lutra_error *err)
{
    char name[96];
    int first = 0;
    model_key(name, r, suffix);
    for (int layer = 0; layer < r->hp->n_layer; layer++) {
        uint32_t value = (uint32_t)*out;
        TRY(needed ? weights_get_layer_u32(r->w, name, (uint32_t)layer, &value, err)
                   : weights_opt_layer_u32(r->w, name, (uint32_t)layer, &value, err));
        if (value == 0 && r->arch->conv_without_kv) continue;
        TRY(bounded(r, name, value, hi, out, err));
        if (!first) first = *out;
        if (*out != first && !r->arch->by_layer)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: key '%s' differs between layers (%d, %d): not implemented",
                weights_path(r->w), name, first, *out);
    }
    return 0;
}

/* d_ff; where all is experts', their size will do. */
static int read_feed_forward(const struct reader *r, struct lutra_error *err)
{
    bool needed = true;
    if (r->arch->experts && !r->arch->dense_beside) {
        TRY(model_opt_int(r, "expert_feed_forward_length", MODEL_MAX_DIM, &r->hp->d_ff, err));
        needed = r->hp->d_ff == 0;
    }
    return read_layer_sizes(r, "feed_forward_length", needed, MODEL_MAX_DIM, &r->hp->d_ff, err);
}

static int get_float(
    const struct reader *r, const char *suffix, bool needed, float lo, float hi, float *out, struct lutra_error *err)
{
    char name[96];
    model_key(name, r, suffix);
    if (needed)
        TRY(weights_get_f32(r->w, name, out, err));
    else
        TRY(weights_opt_f32(r->w, name, out, err));
    if (!(*out >= lo && *out <= hi))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' is %g, outside %g..%g", weights_path(r->w), name,
            (double)*out, (double)lo, (double)hi);
    return 0;
}

int model_opt_float(const struct reader *r, const char *suffix, float lo, float hi, float *out, struct lutra_error *err)
{
    return get_float(r, suffix, false, lo, hi, out, err);
}

bool model_key_is_off(const struct reader *r, const char *suffix)
{
    char name[96];
    double f = 0;
    int64_t n = 0;
    const struct gguf_kv *kv = weights_kv_find(r->w, model_key(name, r, suffix));
    return !kv || (kv->n == 1 && ((gguf_kv_i64(kv, 0, &n) && n == 0) || (gguf_kv_f64(kv, 0, &f) && f == 0)));
}

static bool reads_key(const struct arch *arch, const char *key)
{
    for (int i = 0; arch && i < ARCH_KEYS && arch->keys[i]; i++)
        if (strcmp(arch->keys[i], key) == 0) return true;
    return false;
}

/* Features that would make the result wrong if they were ignored. */
static int refuse_unknown(const struct reader *r, struct lutra_error *err)
{
    static const struct {
        const char *key, *what;
    } absent[] = {{"attn_logit_softcapping", "capped attention"}, {"final_logit_softcapping", "capped logits"},
        {"expert_count", "experts"}, {"attention.clamp_kqv", "clamped attention"},
        {"attention.max_alibi_bias", "attention with biases for distance (ALiBi)"}, {"logit_scale", "scaled logits"},
        {"residual_scale", "scaled residuals"}, {"embedding_scale", "scaled embeddings"},
        {"attention.scale", "another scale of attention"}, {"attention.output_scale", "scaled attention"},
        {"attention.temperature_scale", "attention scaled by position"}};
    char name[96];
    bool encoder = r->arch && r->arch->encoder, causal = !encoder;
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        if (reads_key(r->arch, absent[i].key) || model_key_is_off(r, absent[i].key)) continue;
        TRY(model_lack(r->to, err, "%s: key '%s' asks for %s: not implemented", weights_path(r->w),
            model_key(name, r, absent[i].key), absent[i].what));
    }
    TRY(weights_opt_bool(r->w, model_key(name, r, "attention.causal"), &causal, err));
    if (causal == !encoder) return 0;
    if (encoder)
        return model_lack(r->to, err, "%s: key '%s' is true: not implemented for encoders", weights_path(r->w), name);
    return model_lack(r->to, err, "%s: key '%s' is false: models that look ahead (embeddings) are not implemented",
        weights_path(r->w), name);
}

/* Of architectures whose layers have no windows: one as long as the context hides nothing. */
static int read_window(const struct reader *r, struct lutra_error *err)
{
    char name[96];
    int64_t window = 0;
    if (reads_key(r->arch, WINDOW_KEY) || model_key_is_off(r, WINDOW_KEY)) return 0;
    const struct gguf_kv *kv = weights_kv_find(r->w, model_key(name, r, WINDOW_KEY));
    if (kv->n == 1 && gguf_kv_i64(kv, 0, &window) && window >= r->hp->n_ctx_train) {
        r->hp->window = window < MODEL_MAX_CTX ? (int)window : MODEL_MAX_CTX;
        return 0;
    }
    return model_lack(r->to, err, "%s: key '%s' asks for a window inside the context of %d: not implemented",
        weights_path(r->w), name, r->hp->n_ctx_train);
}

int model_read_windows(const struct reader *r, int window, int period, struct lutra_error *err)
{
    r->hp->window = window;
    r->hp->window_period = period;
    if (!window && model_key_is_off(r, WINDOW_KEY)) return 0;
    TRY(model_opt_int(r, WINDOW_KEY, MODEL_MAX_CTX, &r->hp->window, err));
    return model_opt_int(r, "attention.sliding_window_pattern", MODEL_MAX_LAYER, &r->hp->window_period, err);
}

int model_opt_layer_int(
    const struct reader *r, const char *suffix, int layer, uint32_t hi, int *out, struct lutra_error *err)
{
    char name[96];
    uint32_t value = (uint32_t)*out;
    if (!weights_kv_find(r->w, model_key(name, r, suffix))) return 0;
    TRY(weights_opt_layer_u32(r->w, name, (uint32_t)layer, &value, err));
    return bounded(r, name, value, hi, out, err);
}

/* What all layers have, before a page says where they differ. */
static void same_layers(struct hparams *hp)
{
    for (int i = 0; i < hp->n_layer; i++)
        hp->layer[i] = (struct hparams_layer){
            .n_head = hp->n_head, .n_kv_head = hp->n_kv_head, .d_head = hp->d_head, .d_ff = hp->d_ff, .cache = i};
}

void model_set_recurrent(struct hparams *hp, int layer, enum layer_kind kind)
{
    hp->layer[layer].kind = kind;
    hp->layer[layer].cache = -1;
}

static void set_windows(struct hparams *hp)
{
    for (int i = 0; i < hp->n_layer; i++)
        hp->layer[i].window = hp->window_period && (i + 1) % hp->window_period == 0 ? 0 : hp->window;
}

static int read_arch(struct reader *r, struct lutra_error *err)
{
    struct gguf_str s;
    char known[512];
    size_t n = 0;
    TRY(weights_get_str(r->w, "general.architecture", &s, err));
    snprintf(
        r->hp->arch, sizeof r->hp->arch, "%.*s", (int)(s.n < sizeof r->hp->arch ? s.n : sizeof r->hp->arch - 1), s.s);
    for (int i = 0; i < N_ARCH; i++) {
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", archs[i]->name);
        if (strlen(archs[i]->name) == s.n && !memcmp(archs[i]->name, s.s, s.n)) r->arch = archs[i];
    }
    if (r->arch) return 0;
    if (strcmp(r->hp->arch, "clip") == 0)
        return model_lack(r->to, err,
            "%s: architecture 'clip' is the vision or audio part of a model (mmproj): not read", weights_path(r->w));
    return model_lack(
        r->to, err, "%s: architecture '%s' is not implemented (%s are)", weights_path(r->w), r->hp->arch, known);
}

static int read_head_sizes(const struct reader *r, struct lutra_error *err)
{
    char name[96];
    struct hparams *hp = r->hp;
    TRY(read_layer_sizes(r, "attention.head_count", true, MAX_HEAD, &hp->n_head, err));
    hp->n_kv_head = hp->n_head;
    TRY(read_layer_sizes(r, "attention.head_count_kv", false, MAX_HEAD, &hp->n_kv_head, err));
    if (!hp->n_head)
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s: key '%s' is 0", weights_path(r->w), model_key(name, r, "attention.head_count"));
    if (hp->n_head % hp->n_kv_head)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: %d attention heads are not a multiple of %d key/value heads",
            weights_path(r->w), hp->n_head, hp->n_kv_head);
    hp->d_head = hp->d_model / hp->n_head;
    int d_value = hp->d_head > 0 ? hp->d_head : 1;
    hp->d_head = d_value;
    TRY(model_opt_int(r, "attention.key_length", 1024, &hp->d_head, err));
    TRY(model_opt_int(r, "attention.value_length", 1024, &d_value, err));
    if (d_value != hp->d_head)
        TRY(model_lack(r->to, err, "%s: key heads of %d and value heads of %d: not implemented", weights_path(r->w),
            hp->d_head, d_value));
    if (hp->d_head % 2 || hp->d_head < 8 || hp->d_head > 512)
        TRY(model_lack(
            r->to, err, "%s: heads of %d elements: only even numbers from 8 to 512", weights_path(r->w), hp->d_head));
    return 0;
}

/* What the tensors alone say. */
static int read_vocabulary(const struct reader *r, struct lutra_error *err)
{
    const struct tensor *embd;
    TRY(weights_tensor_get(r->w, "token_embd.weight", &embd, err));
    if (embd->n_dim != 2 || embd->ne[1] < 1 || embd->ne[1] > MAX_VOCAB)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor 'token_embd.weight' is not a [vocabulary][%d] matrix",
            weights_path(r->w), r->hp->d_model);
    r->hp->n_vocab = (int)embd->ne[1];
    r->hp->tied = !weights_tensor_find(r->w, "output.weight");
    return 0;
}

/* How many experts, how many of them a row goes to, and their size. */
static int read_experts(const struct reader *r, struct lutra_error *err)
{
    struct hparams *hp = r->hp;
    float scale = 1;
    if (!r->arch->experts || (r->arch->maybe_experts && model_key_is_off(r, "expert_count"))) return 0;
    TRY(model_get_int(r, "expert_count", MAX_EXPERT, &hp->n_expert, err));
    TRY(model_get_int(r, "expert_used_count", MAX_EXPERT_USED, &hp->n_expert_used, err));
    if (hp->n_expert_used > hp->n_expert)
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s: %d of %d experts are used", weights_path(r->w), hp->n_expert_used, hp->n_expert);
    hp->d_ff_expert = hp->d_ff / hp->n_expert_used;
    TRY(model_opt_int(r, "expert_feed_forward_length", MODEL_MAX_DIM, &hp->d_ff_expert, err));
    if (hp->d_ff_expert < 1)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: experts of %d elements", weights_path(r->w), hp->d_ff_expert);
    TRY(model_opt_float(r, "expert_weights_scale", 0.0f, 1e6f, &scale, err));
    hp->route = (struct op_route){.score = r->arch->route,
        .n_expert = hp->n_expert,
        .n_used = hp->n_expert_used,
        .normalize = r->arch->route_normalized,
        .scale = scale > 0 ? scale : 1};
    return 0;
}

int hparams_read(struct hparams *hp, const struct arch **arch, const struct weights *w, const struct listener *to,
    struct lutra_error *err)
{
    struct reader r = {.w = w, .to = to, .hp = hp};
    memset(hp, 0, sizeof *hp);
    *arch = NULL;
    TRY(read_arch(&r, err));
    TRY(refuse_unknown(&r, err));
    hp->n_ctx_train = MODEL_MAX_CTX;
    TRY(r.arch ? model_get_int(&r, "context_length", MODEL_MAX_CTX, &hp->n_ctx_train, err)
               : model_opt_int(&r, "context_length", MODEL_MAX_CTX, &hp->n_ctx_train, err));
    TRY(read_window(&r, err));
    TRY(model_read_scaling(&r, err));
    if (!r.arch) return 0;
    TRY(model_get_int(&r, "block_count", MODEL_MAX_LAYER, &hp->n_layer, err));
    if (!model_key_is_off(&r, "nextn_predict_layers"))
        TRY(model_opt_int(&r, "nextn_predict_layers", (uint32_t)hp->n_layer - 1, &hp->n_draft_layer, err));
    hp->n_layer -= hp->n_draft_layer;
    TRY(model_get_int(&r, "embedding_length", MODEL_MAX_DIM, &hp->d_model, err));
    TRY(read_feed_forward(&r, err));
    if (!model_key_is_off(&r, "pooling_type")) TRY(model_opt_int(&r, "pooling_type", POOLING_RANK, &hp->pooling, err));
    TRY(read_head_sizes(&r, err));
    const char *eps = r.arch->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
    TRY(get_float(&r, eps, true, 0.0f, 1.0f, &hp->norm_eps, err));
    TRY(model_read_rope(&r, err));
    hp->embedding_scale = hp->residual_scale = 1.0f;
    hp->attention_scale = 1.0f / sqrtf((float)hp->d_head);
    hp->gate = r.arch->gate;
    TRY(read_experts(&r, err));
    same_layers(hp);
    if (r.arch->read) TRY(r.arch->read(&r, err));
    if (!r.arch->by_layer) set_windows(hp);
    TRY(read_vocabulary(&r, err));
    *arch = r.arch;
    return 0;
}
