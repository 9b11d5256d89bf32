/* SPDX-License-Identifier: MIT
 *
 * The model families of Hugging Face that Lutra has an architecture for.  Defaults are those of the makers' config
 * classes (transformers, configuration_*.py), as far as published files leave them out.
 */
#include "weights/folder/folder_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LAYERS = 1024 };

/* Scores are scaled by query_pre_attn_scalar; model/arch/gemma.c knows that of the size of heads, and 27b's. */
static int check_score_scale(struct folder *f, uint64_t layers_27b, struct lutra_error *err)
{
    uint64_t d_model, want = f->d_head;
    double scalar = (double)f->d_head;
    TRY(config_count(f, "hidden_size", &d_model, err));
    TRY(config_number(f, f->config, "query_pre_attn_scalar", &scalar, err));
    if (f->n_layer == layers_27b) want = d_model / f->n_head;
    return scalar == (double)want ? 0 : folder_lacks(f, err, "query_pre_attn_scalar", "another scale of attention");
}

/* A cap: null is none. */
static int put_cap(struct folder *f, const char *key, struct lutra_error *err)
{
    double cap = 0;
    TRY(config_number(f, f->config, key, &cap, err));
    folder_put_f32(f, key, cap);
    return 0;
}

static int more_gemma2(struct folder *f, struct lutra_error *err)
{
    TRY(check_score_scale(f, 46, err));
    TRY(put_cap(f, "attn_logit_softcapping", err));
    return put_cap(f, "final_logit_softcapping", err);
}

static int put_gemma3(struct folder *f, struct lutra_error *err)
{
    double base = 10000;
    if (config_get(f, "attn_logit_softcapping")) TRY(put_cap(f, "attn_logit_softcapping", err));
    if (config_get(f, "final_logit_softcapping")) TRY(put_cap(f, "final_logit_softcapping", err));
    TRY(config_number(f, f->config, "rope_local_base_freq", &base, err));
    TRY(config_number(f, f->window_rope, "rope_theta", &base, err));
    folder_put_f32(f, "rope.freq_base_swa", base);
    return check_score_scale(f, 62, err);
}

static int more_gemma3(struct folder *f, struct lutra_error *err)
{
    if (config_true(f, "use_bidirectional_attention"))
        return folder_lacks(f, err, "use_bidirectional_attention", "embeddings");
    return put_gemma3(f, err);
}

static int more_gemma_embedding(struct folder *f, struct lutra_error *err)
{
    if (!config_true(f, "use_bidirectional_attention"))
        return folder_lacks(f, err, "use_bidirectional_attention", "a causal mask");
    return put_gemma3(f, err);
}

/* How many kinds of segments there are. */
static int put_segments(struct folder *f, struct lutra_error *err)
{
    uint64_t n;
    TRY(config_count(f, "type_vocab_size", &n, err));
    gguf_writer_put_u32(f->keys, "tokenizer.ggml.token_type_count", (uint32_t)n);
    return 0;
}

static int more_bert(struct folder *f, struct lutra_error *err)
{
    const char *kind = json_string_value(config_get(f, "position_embedding_type"));
    if (kind && strcmp(kind, "absolute") != 0)
        return folder_lacks(f, err, "position_embedding_type", "relative positions");
    return put_segments(f, err);
}

static int more_nomic(struct folder *f, struct lutra_error *err)
{
    static const char *const no[] = {"prenorm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias",
        "rotary_emb_interleaved", "use_rms_norm", "moe_every_n_layers"};
    const char *act = json_string_value(config_get(f, "activation_function"));
    double part = 1;
    if (!act || strcmp(act, "swiglu") != 0) return folder_lacks(f, err, "activation_function", "another gate");
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (config_true(f, no[i]) || json_integer_value(config_get(f, no[i])) > 0)
            return folder_lacks(f, err, no[i], "another kind of layers");
    TRY(config_number(f, f->config, "rotary_emb_fraction", &part, err));
    if (part != 1) return folder_lacks(f, err, "rotary_emb_fraction", "a rotation of parts of heads");
    return put_segments(f, err);
}

static int more_granite(struct folder *f, struct lutra_error *err)
{
    static const struct {
        const char *from, *to;
    } scales[] = {{"attention_multiplier", "attention.scale"}, {"embedding_multiplier", "embedding_scale"},
        {"residual_multiplier", "residual_scale"}, {"logits_scaling", "logit_scale"}};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        double value = 1;
        TRY(config_number(f, f->config, scales[i].from, &value, err));
        folder_put_f32(f, scales[i].to, value);
    }
    return 0;
}

/* Of Granite 4's layers; the class takes a missing list for Mamba-2 throughout. */
static bool is_mamba(const struct folder *f, uint64_t layer)
{
    const json_t *types = config_get(f, "layer_types");
    const char *type = json_string_value(json_array_get(types, layer));
    return !types || (type && strcmp(type, "mamba") == 0);
}

/* Only layers that attend have key/value heads. */
static int put_mamba_layers(struct folder *f, struct lutra_error *err)
{
    const json_t *types = config_get(f, "layer_types");
    uint32_t n[MOST_LAYERS] = {0};
    char key[96];
    if (f->n_layer > MOST_LAYERS) return folder_lacks(f, err, "num_hidden_layers", "more than 1024 layers");
    for (uint64_t i = 0; i < f->n_layer; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (is_mamba(f, i)) continue;
        if (!type || strcmp(type, "attention") != 0)
            return folder_lacks(f, err, "layer_types", "other kinds of layers");
        n[i] = (uint32_t)f->n_kv_head;
    }
    folder_key(f, "attention.head_count_kv", key);
    return gguf_writer_put_array(f->keys, key, GGUF_U32, n, f->n_layer);
}

/* Inner elements are mamba_expand times those of the model, in heads of mamba_d_head, or as many as that gives. */
static int put_mamba_sizes(struct folder *f, struct lutra_error *err)
{
    static const char *const counts[][2] = {{"mamba_d_conv", "ssm.conv_kernel"}, {"mamba_d_state", "ssm.state_size"},
        {"mamba_n_groups", "ssm.group_count"}, {"mamba_n_heads", "ssm.time_step_rank"}};
    uint64_t n = 0, d_head;
    double expand = 2;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        TRY(config_count(f, counts[i][0], &n, err));
        folder_put_u32(f, counts[i][1], n);
    }
    TRY(config_number(f, f->config, "mamba_expand", &expand, err));
    double inner = expand * (double)f->d_model;
    if (!(inner >= 1 && inner <= UINT32_MAX)) return config_wrong(f, "mamba_expand", "is out of range", err);
    if (n == 0 || (uint64_t)inner % n) return config_wrong(f, "mamba_n_heads", "does not divide the layer", err);
    const char *text = json_string_value(config_get(f, "mamba_d_head"));
    bool given = !text || strcmp(text, "auto") != 0;
    if (given) TRY(config_count(f, "mamba_d_head", &d_head, err));
    if (given && d_head != (uint64_t)inner / n)
        return config_wrong(f, "mamba_d_head", "is not the layer's share of a head", err);
    folder_put_u32(f, "ssm.inner_size", (uint64_t)inner);
    return 0;
}

/* A step's bounds, which are 0 and infinity where nobody says otherwise. */
static int check_step_bounds(struct folder *f, struct lutra_error *err)
{
    const json_t *bounds = config_get(f, "time_step_limit");
    if (json_number_value(json_array_get(bounds, 0)) > 0 || json_is_number(json_array_get(bounds, 1)))
        return folder_lacks(f, err, "time_step_limit", "bounds of a step");
    return 0;
}

static int put_mamba(struct folder *f, struct lutra_error *err)
{
    const json_t *bias = config_get(f, "mamba_conv_bias");
    if (bias && !json_is_true(bias)) return folder_lacks(f, err, "mamba_conv_bias", "convolutions without biases");
    if (config_true(f, "mamba_proj_bias"))
        return folder_lacks(f, err, "mamba_proj_bias", "Mamba-2 matrices with biases");
    TRY(check_step_bounds(f, err));
    TRY(put_mamba_sizes(f, err));
    return put_mamba_layers(f, err);
}

static int more_granite4(struct folder *f, struct lutra_error *err)
{
    const char *position = json_string_value(config_get(f, "position_embedding_type")),
               *norm = json_string_value(config_get(f, "normalization_function"));
    bool rotates = position && strcmp(position, "rope") == 0;
    uint64_t shared;
    char key[96];
    if (position && !rotates && strcmp(position, "nope") != 0)
        return folder_lacks(f, err, "position_embedding_type", "other positions");
    if (norm && strcmp(norm, "rmsnorm") != 0)
        return folder_lacks(f, err, "normalization_function", "another kind of norms");
    gguf_writer_put_bool(f->keys, folder_key(f, "rope.scaling.finetuned", key), rotates);
    if (f->n_expert) {
        TRY(config_count(f, "shared_intermediate_size", &shared, err));
        folder_put_u32(f, "expert_shared_feed_forward_length", shared);
    }
    if (f->family->flags & FAMILY_MAMBA) TRY(put_mamba(f, err));
    return more_granite(f, err);
}

static int more_cohere(struct folder *f, struct lutra_error *err)
{
    double scale = 0.0625, part = 1;
    if (config_true(f, "use_qk_norm")) return folder_lacks(f, err, "use_qk_norm", "norms of queries and keys");
    TRY(config_number(f, f->config, "logit_scale", &scale, err));
    TRY(config_number(f, f->config, "rotary_pct", &part, err));
    if (part != 1) return folder_lacks(f, err, "rotary_pct", "a rotation of parts of heads");
    folder_put_f32(f, "logit_scale", scale);
    return 0;
}

static int more_mistral3(struct folder *f, struct lutra_error *err)
{
    double beta = 0;
    TRY(config_number(f, f->rope, "llama_4_scaling_beta", &beta, err));
    if (beta != 0) folder_put_f32(f, "attention.temperature_scale", beta);
    return 0;
}

/* Every fourth layer does not rotate: a constant of the architecture as it is implemented. */
static int more_smollm3(struct folder *f, struct lutra_error *err)
{
    const json_t *list = config_get(f, "no_rope_layers"), *interval = config_get(f, "no_rope_layer_interval");
    bool same = list || !interval || json_integer_value(interval) == 4;
    for (size_t i = 0; i < json_array_size(list); i++)
        same = same && json_integer_value(json_array_get(list, i)) == ((i + 1) % 4 != 0);
    return same ? 0 : folder_lacks(f, err, "no_rope_layers", "another choice of layers without rotation");
}

/* Text is one position in time, height and width. */
static int more_vl(struct folder *f, struct lutra_error *err)
{
    const json_t *sections = json_object_get(f->rope, "mrope_section");
    int32_t section[4] = {0};
    char key[64];
    if (!sections) return 0;
    if (json_array_size(sections) > 4) return folder_lacks(f, err, "mrope_section", "more than four sections");
    for (size_t i = 0; i < json_array_size(sections); i++)
        section[i] = (int32_t)json_integer_value(json_array_get(sections, i));
    snprintf(key, sizeof key, "%s.rope.dimension_sections", f->family->arch);
    return gguf_writer_put_array(f->keys, key, GGUF_I32, section, 4);
}

/* Which layers attend: every interval-th. */
static int put_interval(struct folder *f, struct lutra_error *err)
{
    const json_t *types = config_get(f, "layer_types");
    uint64_t interval;
    TRY(config_count(f, "full_attention_interval", &interval, err));
    for (size_t i = 0; i < json_array_size(types) && i < f->n_layer; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        bool attends = interval && (i + 1) % interval == 0;
        if (!type || strcmp(type, attends ? "full_attention" : "linear_attention") != 0)
            return folder_lacks(f, err, "layer_types", "other kinds of layers, or another order of them");
    }
    folder_put_u32(f, "full_attention_interval", interval);
    return 0;
}

/* A value head's key head is its neighbour here, where GGUF's are dealt out in turn. */
static int more_qwen35(struct folder *f, struct lutra_error *err)
{
    uint64_t n_tap, d_key, d_value, n_key, n_value;
    const json_t *gate = config_get(f, "attn_output_gate");
    if (gate && !json_is_true(gate)) return folder_lacks(f, err, "attn_output_gate", "attention without gates");
    TRY(config_count(f, "linear_conv_kernel_dim", &n_tap, err));
    TRY(config_count(f, "linear_key_head_dim", &d_key, err));
    TRY(config_count(f, "linear_value_head_dim", &d_value, err));
    TRY(config_count(f, "linear_num_key_heads", &n_key, err));
    TRY(config_count(f, "linear_num_value_heads", &n_value, err));
    if (d_key != d_value) return folder_lacks(f, err, "linear_value_head_dim", "keys and values of two sizes");
    folder_put_u32(f, "ssm.conv_kernel", n_tap);
    folder_put_u32(f, "ssm.state_size", d_key);
    folder_put_u32(f, "ssm.group_count", n_key);
    folder_put_u32(f, "ssm.time_step_rank", n_value);
    folder_put_u32(f, "ssm.inner_size", n_value * d_value);
    folder_put_u32(f, "ssm.lutra.key_neighbours", 1);
    TRY(put_interval(f, err));
    return more_vl(f, err);
}

static int more_qwen35moe(struct folder *f, struct lutra_error *err)
{
    uint64_t shared;
    TRY(config_count(f, "shared_expert_intermediate_size", &shared, err));
    folder_put_u32(f, "expert_shared_feed_forward_length", shared);
    return more_qwen35(f, err);
}

/* The chosen experts' weights are divided by their sum: a constant of the architecture. */
static int check_normalized(struct folder *f, struct lutra_error *err)
{
    return config_true(f, "norm_topk_prob") ? 0 : folder_lacks(f, err, "norm_topk_prob", "weights as they are chosen");
}

static int more_qwen3moe(struct folder *f, struct lutra_error *err)
{
    const json_t *step = config_get(f, "decoder_sparse_step");
    if (step && json_integer_value(step) != 1)
        return folder_lacks(f, err, "decoder_sparse_step", "layers without experts");
    if (json_array_size(config_get(f, "mlp_only_layers")))
        return folder_lacks(f, err, "mlp_only_layers", "layers without experts");
    return check_normalized(f, err);
}

/* Constants of its experts' SwiGLU. */
static int more_gpt_oss(struct folder *f, struct lutra_error *err)
{
    double alpha = 1.702, limit = 7;
    if (!f->rope) return lutra_fail(err, LUTRA_E_FORMAT, "%s/config.json: 'rope_parameters' is missing", f->label);
    TRY(config_number(f, f->config, "swiglu_alpha", &alpha, err));
    TRY(config_number(f, f->config, "swiglu_limit", &limit, err));
    if (alpha != 1.702) return folder_lacks(f, err, "swiglu_alpha", "another slope of the gate");
    return limit == 7 ? 0 : folder_lacks(f, err, "swiglu_limit", "another limit of the gate");
}

/* Layers that do not attend have no key/value heads. */
static int more_lfm2(struct folder *f, struct lutra_error *err)
{
    const json_t *types = config_get(f, "layer_types"), *attends = config_get(f, "full_attn_idxs");
    uint32_t n[MOST_LAYERS] = {0};
    uint64_t n_tap;
    char key[64];
    if (f->n_layer > MOST_LAYERS) return folder_lacks(f, err, "num_hidden_layers", "more than 1024 layers");
    if (config_get(f, "tie_embedding")) f->tied = config_true(f, "tie_embedding");
    if (config_true(f, "conv_bias")) return folder_lacks(f, err, "conv_bias", "convolutions with biases");
    for (uint64_t i = 0; i < f->n_layer; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        bool yes = type && strcmp(type, "full_attention") == 0;
        for (size_t k = 0; !types && k < json_array_size(attends); k++)
            yes |= json_integer_value(json_array_get(attends, k)) == (json_int_t)i;
        if (types && !yes && (!type || strcmp(type, "conv") != 0))
            return folder_lacks(f, err, "layer_types", "other kinds of layers");
        n[i] = yes ? (uint32_t)f->n_kv_head : 0;
    }
    TRY(config_count(f, "conv_L_cache", &n_tap, err));
    folder_put_u32(f, "shortconv.l_cache", n_tap);
    snprintf(key, sizeof key, "%s.attention.head_count_kv", f->family->arch);
    return gguf_writer_put_array(f->keys, key, GGUF_U32, n, f->n_layer);
}

static int more_lfm2moe(struct folder *f, struct lutra_error *err)
{
    double scale = 1;
    TRY(config_count(f, "num_dense_layers", &f->n_dense_lead, err));
    TRY(config_number(f, f->config, "routed_scaling_factor", &scale, err));
    TRY(check_normalized(f, err));
    if (!config_true(f, "use_expert_bias")) return folder_lacks(f, err, "use_expert_bias", "a choice without biases");
    folder_put_u32(f, "leading_dense_block_count", f->n_dense_lead);
    folder_put_u32(f, "expert_gating_func", 2); /* sigmoids */
    if (scale != 1) folder_put_f32(f, "expert_weights_scale", scale);
    return more_lfm2(f, err);
}

#define QWEN35_KEYS                                                                                                    \
    "\"head_dim\":256,\"partial_rotary_factor\":0.25,\"full_attention_interval\":4,\"linear_conv_kernel_dim\":4,"      \
    "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"linear_num_key_heads\":16,"                           \
    "\"linear_num_value_heads\":32"
#define QWEN35_DEFAULTS "{" QWEN35_KEYS "}"
#define QWEN35MOE_DEFAULTS                                                                                             \
    "{" QWEN35_KEYS ",\"num_experts\":256,\"num_experts_per_tok\":8,\"moe_intermediate_size\":512,"                    \
    "\"shared_expert_intermediate_size\":512}"

/* LongRoPE: two lists of factors become tensors (tensors.c); the magnitude both get. */
static int more_phi3(struct folder *f, struct lutra_error *err)
{
    uint64_t n_ctx, original;
    double magnitude = 0;
    if (!json_object_get(f->rope, "long_factor")) return 0;
    TRY(config_count(f, "max_position_embeddings", &n_ctx, err));
    TRY(config_count(f, "original_max_position_embeddings", &original, err));
    if (original < 2 || n_ctx == 0)
        return folder_lacks(f, err, "original_max_position_embeddings", "an original context of less than 2");
    double scale = (double)n_ctx / (double)original;
    magnitude = scale > 1 ? sqrt(1 + log(scale) / log((double)original)) : 1;
    TRY(config_number(f, f->rope, "attention_factor", &magnitude, err));
    folder_put_u32(f, "rope.scaling.original_context_length", original);
    folder_put_f32(f, "rope.scaling.attn_factor", magnitude);
    return 0;
}

static int put_layers(
    struct folder *f, const char *suffix, enum gguf_kind kind, const void *value, struct lutra_error *err)
{
    char key[64];
    snprintf(key, sizeof key, "%s.%s", f->family->arch, suffix);
    int rc = gguf_writer_put_array(f->keys, key, kind, value, f->n_layer);
    return rc < 0 ? lutra_fail(err, rc, "%s: key '%s' cannot be put", f->label, key) : 0;
}

/* Which layers have a window, and sizes of heads and feed-forwards that follow from it. */
static int put_gemma4_layers(struct folder *f, uint64_t n_global, uint64_t d_ff, bool wide, struct lutra_error *err)
{
    const json_t *types = config_get(f, "layer_types");
    uint32_t n_kv[MOST_LAYERS], ff[MOST_LAYERS];
    uint8_t windowed[MOST_LAYERS];
    if (f->n_layer > MOST_LAYERS) return folder_lacks(f, err, "num_hidden_layers", "more than 1024 layers");
    for (uint64_t i = 0; i < f->n_layer; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        bool known = type && (!strcmp(type, "sliding_attention") || !strcmp(type, "full_attention"));
        if (types && !known) return folder_lacks(f, err, "layer_types", "other kinds of layers");
        windowed[i] = types ? strcmp(type, "sliding_attention") == 0 : (i + 1) % 6 != 0;
        if (i + 1 == f->n_layer) windowed[i] = 0; /* as the class has it, whatever the list says */
        n_kv[i] = (uint32_t)(windowed[i] ? f->n_kv_head : n_global);
        ff[i] = (uint32_t)(wide && i >= f->n_layer - f->n_shared_kv ? 2 * d_ff : d_ff);
    }
    TRY(put_layers(f, "attention.sliding_window_pattern", GGUF_BOOL, windowed, err));
    TRY(put_layers(f, "attention.head_count_kv", GGUF_U32, n_kv, err));
    return put_layers(f, "feed_forward_length", GGUF_U32, ff, err);
}

/* Rotation of the layers with windows. */
static int put_gemma4_window_rope(struct folder *f, struct lutra_error *err)
{
    const char *type = json_string_value(json_object_get(f->window_rope, "rope_type"));
    double base = 10000, part = 1;
    TRY(config_number(f, f->window_rope, "rope_theta", &base, err));
    TRY(config_number(f, f->window_rope, "partial_rotary_factor", &part, err));
    if (part != 1 || (type && strcmp(type, "default") != 0))
        return folder_lacks(f, err, "rope_parameters", "another rotation in layers with windows");
    type = json_string_value(json_object_get(f->rope, "rope_type"));
    if (!type || strcmp(type, "proportional") != 0)
        return folder_lacks(f, err, "rope_parameters", "another rotation in layers without windows");
    folder_put_f32(f, "rope.freq_base_swa", base);
    return 0;
}

/* Experts are tensors as GGUF has them: experts.c has nothing to do. */
static int put_gemma4_experts(struct folder *f, struct lutra_error *err)
{
    static const char *const counts[][2] = {{"num_experts", "expert_count"}, {"top_k_experts", "expert_used_count"},
        {"moe_intermediate_size", "expert_feed_forward_length"}};
    uint64_t n;
    for (size_t i = 0; config_true(f, "enable_moe_block") && i < sizeof counts / sizeof *counts; i++) {
        TRY(config_count(f, counts[i][0], &n, err));
        folder_put_u32(f, counts[i][1], n);
    }
    return 0;
}

static int more_gemma4(struct folder *f, struct lutra_error *err)
{
    uint64_t d_global, n_global = f->n_kv_head, d_ff, d_per_layer;
    const char *both = json_string_value(config_get(f, "use_bidirectional_attention"));
    if (config_get(f, "per_layer_config")) return folder_lacks(f, err, "per_layer_config", "sizes by layer");
    if (both && strcmp(both, "all") == 0) return folder_lacks(f, err, "use_bidirectional_attention", "embeddings");
    TRY(config_count(f, "global_head_dim", &d_global, err));
    TRY(config_count(f, "intermediate_size", &d_ff, err));
    TRY(config_count(f, "hidden_size_per_layer_input", &d_per_layer, err));
    TRY(config_count(f, "num_kv_shared_layers", &f->n_shared_kv, err));
    if (config_true(f, "attention_k_eq_v") && config_get(f, "num_global_key_value_heads"))
        TRY(config_count(f, "num_global_key_value_heads", &n_global, err));
    if (d_global == 0 || d_global > 4096 || d_global % 2)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s/config.json: 'global_head_dim' is 0, odd or too large", f->label);
    if (f->n_shared_kv > f->n_layer)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s/config.json: 'num_kv_shared_layers' is out of range", f->label);
    folder_put_u32(f, "attention.key_length", d_global);
    folder_put_u32(f, "attention.value_length", d_global);
    folder_put_u32(f, "attention.key_length_swa", f->d_head);
    folder_put_u32(f, "attention.value_length_swa", f->d_head);
    folder_put_u32(f, "rope.dimension_count", d_global);
    folder_put_u32(f, "rope.dimension_count_swa", f->d_head);
    folder_put_u32(f, "embedding_length_per_layer_input", d_per_layer);
    folder_put_u32(f, "attention.shared_kv_layers", f->n_shared_kv);
    f->n_rot = d_global;
    TRY(put_cap(f, "final_logit_softcapping", err));
    TRY(put_gemma4_experts(f, err));
    TRY(put_gemma4_window_rope(f, err));
    return put_gemma4_layers(f, n_global, d_ff, config_true(f, "use_double_wide_mlp"), err);
}

#define GEMMA4_DEFAULTS                                                                                                \
    "{\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,\"global_head_dim\":512,"                   \
    "\"rms_norm_eps\":1e-6,\"max_position_embeddings\":131072,\"sliding_window\":512,\"tie_word_embeddings\":true,"    \
    "\"hidden_size_per_layer_input\":256,\"num_kv_shared_layers\":0,\"rope_parameters\":{\"sliding_attention\":{"      \
    "\"rope_type\":\"default\",\"rope_theta\":1e4},\"full_attention\":{\"rope_type\":\"proportional\","                \
    "\"partial_rotary_factor\":0.25,\"rope_theta\":1e6}}}"

#define GEMMA3_DEFAULTS                                                                                                \
    "{\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,\"rms_norm_eps\":1e-6,"                     \
    "\"max_position_embeddings\":131072,\"rope_theta\":1e6,\"sliding_window\":4096,\"query_pre_attn_scalar\":256,"     \
    "\"tie_word_embeddings\":true}"

#define GRANITE4_DEFAULTS                                                                                              \
    "{\"rms_norm_eps\":1e-6,\"num_local_experts\":8,\"num_experts_per_tok\":2,\"shared_intermediate_size\":1024,"      \
    "\"mamba_n_heads\":128,\"mamba_n_groups\":1,\"mamba_d_state\":256,\"mamba_d_head\":\"auto\",\"mamba_d_conv\":4,"   \
    "\"mamba_expand\":2}"

#define GRANITEMOE_DEFAULTS                                                                                            \
    "{\"rms_norm_eps\":1e-6,\"num_local_experts\":8,\"num_experts_per_tok\":2,\"shared_intermediate_size\":0,"         \
    "\"position_embedding_type\":\"rope\"}"

/* Granite 4 without a Mamba-2 layer, and without experts or with them. */
static const struct family attending_granite4[2] = {
    {"GraniteMoeHybridForCausalLM", "granite", FAMILY_PAIRS | FAMILY_GRANITE4, 0, "rms_norm_eps", GRANITE4_DEFAULTS,
        more_granite4},
    {"GraniteMoeHybridForCausalLM", "granitemoe", FAMILY_PAIRS | FAMILY_EXPERTS | FAMILY_GRANITE4, 0, "rms_norm_eps",
        GRANITE4_DEFAULTS, more_granite4},
};

static const struct family families[] = {
    {"LlamaForCausalLM", "llama", FAMILY_PAIRS, 0, "rms_norm_eps", "{\"rms_norm_eps\":1e-6}", NULL},
    {"MistralForCausalLM", "llama", FAMILY_PAIRS, 0, "rms_norm_eps", "{\"rms_norm_eps\":1e-6}", NULL},
    {"Mistral3ForConditionalGeneration", "mistral3", FAMILY_PAIRS, 0, "rms_norm_eps", "{\"rms_norm_eps\":1e-5}",
        more_mistral3},
    {"Ministral3ForCausalLM", "mistral3", FAMILY_PAIRS, 0, "rms_norm_eps", "{\"rms_norm_eps\":1e-5}", more_mistral3},
    {"SmolLM3ForCausalLM", "smollm3", FAMILY_PAIRS | FAMILY_WINDOW_USED, 0, "rms_norm_eps",
        "{\"rope_theta\":2e6,\"tie_word_embeddings\":true}", more_smollm3},
    {"GraniteForCausalLM", "granite", FAMILY_PAIRS, 0, "rms_norm_eps", "{\"rms_norm_eps\":1e-6}", more_granite},
    {"GraniteMoeForCausalLM", "granitemoe", FAMILY_PAIRS | FAMILY_EXPERTS | FAMILY_GRANITE4, 0, "rms_norm_eps",
        GRANITEMOE_DEFAULTS, more_granite4},
    {"GraniteMoeSharedForCausalLM", "granitemoe", FAMILY_PAIRS | FAMILY_EXPERTS | FAMILY_GRANITE4, 0, "rms_norm_eps",
        GRANITEMOE_DEFAULTS, more_granite4},
    {"GraniteMoeHybridForCausalLM", "granitehybrid", FAMILY_PAIRS | FAMILY_EXPERTS | FAMILY_GRANITE4 | FAMILY_MAMBA, 0,
        "rms_norm_eps", GRANITE4_DEFAULTS, more_granite4},
    {"Qwen2ForCausalLM", "qwen2", FAMILY_WINDOW_USED, 0, "rms_norm_eps", "{}", NULL},
    {"Qwen3ForCausalLM", "qwen3", FAMILY_WINDOW_USED, 0, "rms_norm_eps", "{\"head_dim\":128}", NULL},
    {"Qwen2VLForConditionalGeneration", "qwen2vl", FAMILY_WINDOW_USED, 0, "rms_norm_eps", "{}", more_vl},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2vl", FAMILY_WINDOW_USED, 0, "rms_norm_eps", "{}", more_vl},
    {"Qwen3VLForConditionalGeneration", "qwen3vl", FAMILY_WINDOW_USED, 0, "rms_norm_eps", "{\"head_dim\":128}",
        more_vl},
    {"Qwen3_5ForConditionalGeneration", "qwen35", FAMILY_NORM_PLUS_1 | FAMILY_RECURRENT, 0, "rms_norm_eps",
        QWEN35_DEFAULTS, more_qwen35},
    {"Qwen3_5ForCausalLM", "qwen35", FAMILY_NORM_PLUS_1 | FAMILY_RECURRENT, 0, "rms_norm_eps", QWEN35_DEFAULTS,
        more_qwen35},
    {"Qwen3MoeForCausalLM", "qwen3moe", FAMILY_WINDOW_USED | FAMILY_EXPERTS, 0, "rms_norm_eps", "{}", more_qwen3moe},
    {"Qwen3_5MoeForConditionalGeneration", "qwen35moe", FAMILY_NORM_PLUS_1 | FAMILY_RECURRENT | FAMILY_EXPERTS, 0,
        "rms_norm_eps", QWEN35MOE_DEFAULTS, more_qwen35moe},
    {"Qwen3_5MoeForCausalLM", "qwen35moe", FAMILY_NORM_PLUS_1 | FAMILY_RECURRENT | FAMILY_EXPERTS, 0, "rms_norm_eps",
        QWEN35MOE_DEFAULTS, more_qwen35moe},
    {"GptOssForCausalLM", "gpt-oss", FAMILY_EXPERTS | FAMILY_GPT_OSS, 2, "rms_norm_eps",
        "{\"rms_norm_eps\":1e-5,\"head_dim\":64,\"sliding_window\":128,\"rope_theta\":150000,"
        "\"num_experts_per_tok\":4}",
        more_gpt_oss},
    {"Lfm2MoeForCausalLM", "lfm2moe", FAMILY_CONV | FAMILY_EXPERTS, 0, "norm_eps",
        "{\"norm_eps\":1e-5,\"rope_theta\":1e6,\"intermediate_size\":7168,\"moe_intermediate_size\":1792,\"conv_L_"
        "cache\":3,"
        "\"num_dense_layers\":2,\"num_experts\":32,\"num_experts_per_tok\":4,\"use_expert_bias\":true,"
        "\"norm_topk_prob\":true,\"tie_word_embeddings\":true}",
        more_lfm2moe},
    {"Lfm2ForCausalLM", "lfm2", FAMILY_CONV, 0, "norm_eps",
        "{\"norm_eps\":1e-5,\"rope_theta\":1e6,\"intermediate_size\":12288,\"conv_L_cache\":3,\"block_auto_adjust_ff_"
        "dim\":true,"
        "\"block_multiple_of\":256,\"tie_word_embeddings\":true}",
        more_lfm2},
    {"GemmaForCausalLM", "gemma", FAMILY_NORM_PLUS_1 | FAMILY_GELU, 0, "rms_norm_eps",
        "{\"head_dim\":256,\"tie_word_embeddings\":true}", NULL},
    {"Gemma2ForCausalLM", "gemma2", FAMILY_NORM_PLUS_1 | FAMILY_GELU | FAMILY_BEHIND, 2, "rms_norm_eps",
        "{\"head_dim\":256,\"tie_word_embeddings\":true,\"query_pre_attn_scalar\":256,\"sliding_window\":4096}",
        more_gemma2},
    {"Gemma3ForCausalLM", "gemma3", FAMILY_NORM_PLUS_1 | FAMILY_GELU | FAMILY_BEHIND, 6, "rms_norm_eps",
        GEMMA3_DEFAULTS, more_gemma3},
    {"Gemma3ForConditionalGeneration", "gemma3", FAMILY_NORM_PLUS_1 | FAMILY_GELU | FAMILY_BEHIND, 6, "rms_norm_eps",
        GEMMA3_DEFAULTS, more_gemma3},
    {"Gemma3TextModel", "gemma-embedding", FAMILY_NORM_PLUS_1 | FAMILY_GELU | FAMILY_BEHIND | FAMILY_ENCODER, 6,
        "rms_norm_eps", GEMMA3_DEFAULTS, more_gemma_embedding},
    {"BertModel", "bert", FAMILY_GELU | FAMILY_LAYER_NORM | FAMILY_ENCODER | FAMILY_WORDS, 0, "layer_norm_eps",
        "{\"layer_norm_eps\":1e-12,\"type_vocab_size\":2,\"max_position_embeddings\":512}", more_bert},
    {"NomicBertModel", "nomic-bert", FAMILY_LAYER_NORM | FAMILY_ENCODER | FAMILY_WORDS, 0, "layer_norm_eps",
        "{\"layer_norm_eps\":1e-12,\"type_vocab_size\":2,\"max_position_embeddings\":2048}", more_nomic},
    {"Gemma4ForConditionalGeneration", "gemma4", FAMILY_GELU | FAMILY_BEHIND | FAMILY_GEMMA4, 0, "rms_norm_eps",
        GEMMA4_DEFAULTS, more_gemma4},
    {"Gemma4ForCausalLM", "gemma4", FAMILY_GELU | FAMILY_BEHIND | FAMILY_GEMMA4, 0, "rms_norm_eps", GEMMA4_DEFAULTS,
        more_gemma4},
    {"Olmo2ForCausalLM", "olmo2", FAMILY_BEHIND, 4, "rms_norm_eps", "{}", NULL},
    {"Olmo3ForCausalLM", "olmo2", FAMILY_BEHIND, 4, "rms_norm_eps", "{\"sliding_window\":4096}", NULL},
    {"BitNetForCausalLM", "bitnet-b1.58", FAMILY_RELU2, 0, "rms_norm_eps",
        "{\"rms_norm_eps\":1e-5,\"rope_theta\":500000}", NULL},
    {"Phi3ForCausalLM", "phi3", 0, 0, "rms_norm_eps", "{\"original_max_position_embeddings\":4096}", more_phi3},
    {"Starcoder2ForCausalLM", "starcoder2", FAMILY_GELU | FAMILY_LAYER_NORM, 0, "norm_epsilon",
        "{\"tie_word_embeddings\":true}", NULL},
    {"CohereForCausalLM", "command-r", FAMILY_LAYER_NORM, 0, "layer_norm_eps", "{\"tie_word_embeddings\":true}",
        more_cohere},
    {"Cohere2ForCausalLM", "cohere2", FAMILY_LAYER_NORM, 4, "layer_norm_eps",
        "{\"tie_word_embeddings\":true,\"sliding_window\":4096,\"logit_scale\":0.0625}", more_cohere},
};

/* Classes of judges: the layers of ...ForCausalLM behind another head. */
static const struct {
    const char *ending;
    enum family_head head;
} judges[] = {{"ForSequenceClassification", FAMILY_CLASSIFIES}, {"ForTokenClassification", FAMILY_CLASSIFIES},
    {"ForRewardModel", FAMILY_CLASSIFIES}, {"ForProcessRewardModel", FAMILY_JUDGES_STEPS}};

const struct family *family_find(const char *name, enum family_head *head)
{
    char plain[96];
    size_t n = strlen(name);
    *head = FAMILY_SPEAKS;
    for (size_t i = 0; i < sizeof judges / sizeof *judges && *head == FAMILY_SPEAKS; i++) {
        size_t m = strlen(judges[i].ending);
        if (n <= m || n - m > 64 || strcmp(name + n - m, judges[i].ending) != 0) continue;
        snprintf(plain, sizeof plain, "%.*sForCausalLM", (int)(n - m), name);
        name = plain;
        *head = judges[i].head;
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, name) == 0) return &families[i];
    return NULL;
}

const struct family *family_settle(const struct folder *f)
{
    size_t n = json_array_size(config_get(f, "layer_types"));
    bool attends = f->family->flags & FAMILY_MAMBA && n > 0;
    for (size_t i = 0; i < n && attends; i++) attends = !is_mamba(f, i);
    bool experts = json_integer_value(config_get(f, "num_local_experts")) != 0;
    return attends ? &attending_granite4[experts] : f->family;
}
