/* SPDX-License-Identifier: MIT
 *
 * What files of an architecture hold beside the plain block's tensors and keys.
 */
#include "make/make_impl.h"

#include "files/gguf_write.h"

#include <stdio.h>
#include <string.h>

void make_put_u32(struct gguf_writer *w, const struct weights_shape *s, const char *name, uint32_t value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", s->arch, name);
    gguf_writer_put_u32(w, key, value);
}

void make_put_f32(struct gguf_writer *w, const struct weights_shape *s, const char *name, float value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", s->arch, name);
    gguf_writer_put_f32(w, key, value);
}

static void put_str(struct gguf_writer *w, const struct weights_shape *s, const char *name, const char *value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", s->arch, name);
    gguf_writer_put_str(w, key, value);
}

/* Windows of half a small model's context, so that tests get beyond them. */
static uint32_t window_of(const struct weights_shape *s, uint32_t real)
{
    return s->n_ctx <= 1024 ? s->n_ctx / 2 : real;
}

static void gemma2_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    make_put_u32(w, s, "attention.sliding_window", window_of(s, 4096));
    make_put_f32(w, s, "attn_logit_softcapping", 50);
    make_put_f32(w, s, "final_logit_softcapping", 30);
}

static void gemma3_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    bool small = s->n_ctx == 32768; /* 270m and 1b: not stretched */
    make_put_u32(w, s, "attention.sliding_window", window_of(s, small ? 512 : 1024));
    if (small) return;
    put_str(w, s, "rope.scaling.type", "linear");
    make_put_f32(w, s, "rope.scaling.factor", 8);
}

/* `{arch}.name` as an array of each layer's value. */
static void put_layers(struct gguf_writer *w, const struct weights_shape *s, const char *name, uint32_t windowed,
    uint32_t other, enum gguf_kind kind)
{
    const struct weights_mixed_layers *l = weights_shape_mixed(s);
    uint32_t n[MAKE_MAX_LAYER];
    uint8_t yes[MAKE_MAX_LAYER];
    char key[96];
    for (uint32_t i = 0; i < s->n_layer; i++) {
        n[i] = (i + 1) % l->period ? windowed : other;
        yes[i] = n[i] != 0;
    }
    snprintf(key, sizeof key, "%s.%s", s->arch, name);
    gguf_writer_put_array(w, key, kind, kind == GGUF_BOOL ? (const void *)yes : n, s->n_layer);
}

/* The last layers that share: others of both kinds come before them, however few layers there are. */
uint32_t make_shared_layers(const struct weights_shape *s)
{
    const struct weights_mixed_layers *l = weights_shape_mixed(s);
    uint32_t most = s->n_layer > l->period ? s->n_layer - l->period : 0;
    return l->n_shared < most ? l->n_shared : most;
}

static void experts_keys(struct gguf_writer *w, const struct weights_shape *s);

static void gemma4_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    const struct weights_mixed_layers *l = weights_shape_mixed(s);
    uint32_t ff[MAKE_MAX_LAYER];
    char key[96];
    if (weights_shape_experts(s)) experts_keys(w, s);
    make_put_u32(w, s, "attention.sliding_window", window_of(s, l->n_shared ? 512 : 1024));
    put_layers(w, s, "attention.sliding_window_pattern", 1, 0, GGUF_BOOL);
    put_layers(w, s, "attention.head_count_kv", s->n_kv_head, l->n_kv_head, GGUF_U32);
    make_put_u32(w, s, "attention.key_length", l->d_head);
    make_put_u32(w, s, "attention.value_length", l->d_head);
    make_put_u32(w, s, "attention.key_length_swa", s->d_head);
    make_put_u32(w, s, "attention.value_length_swa", s->d_head);
    make_put_u32(w, s, "attention.shared_kv_layers", make_shared_layers(s));
    make_put_u32(w, s, "rope.dimension_count", l->d_head);
    make_put_u32(w, s, "rope.dimension_count_swa", s->d_head);
    make_put_f32(w, s, "rope.freq_base_swa", 10000);
    make_put_f32(w, s, "final_logit_softcapping", 30);
    make_put_u32(w, s, "embedding_length_per_layer_input", l->d_per_layer);
    for (uint32_t i = 0; i < s->n_layer; i++) ff[i] = i >= s->n_layer - make_shared_layers(s) ? 2 * s->d_ff : s->d_ff;
    snprintf(key, sizeof key, "%s.feed_forward_length", s->arch);
    gguf_writer_put_array(w, key, GGUF_U32, ff, s->n_layer);
}

static void mistral3_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    put_str(w, s, "rope.scaling.type", "yarn");
    make_put_f32(w, s, "rope.scaling.factor", 16);
    make_put_u32(w, s, "rope.scaling.original_context_length", s->n_ctx / 16);
    make_put_f32(w, s, "rope.scaling.yarn_beta_fast", 32);
    make_put_f32(w, s, "rope.scaling.yarn_beta_slow", 1);
    make_put_f32(w, s, "rope.scaling.yarn_log_multiplier", 1);
    make_put_f32(w, s, "attention.temperature_scale", 0.1f);
}

/* OLMo 3's windows and scaling; OLMo 2 has none. */
static void olmo2_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    if (s->n_ctx == 4096) return;
    make_put_u32(w, s, "attention.sliding_window", window_of(s, 4096));
    put_str(w, s, "rope.scaling.type", "yarn");
    make_put_f32(w, s, "rope.scaling.factor", 8);
    make_put_u32(w, s, "rope.scaling.original_context_length", s->n_ctx / 8);
    make_put_f32(w, s, "rope.scaling.attn_factor", 1.2079442f);
}

/* Pairs that turn by time, height and width. */
static void put_sections(struct gguf_writer *w, const struct weights_shape *s)
{
    int32_t pairs = (int32_t)s->d_head / 2, section[4] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
    char key[96];
    snprintf(key, sizeof key, "%s.rope.dimension_sections", s->arch);
    gguf_writer_put_array(w, key, GGUF_I32, section, 4);
}

static void phi3_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    uint32_t original = s->n_ctx <= 1024 ? s->n_ctx / 2 : 4096;
    make_put_u32(w, s, "rope.scaling.original_context_length", original);
    make_put_f32(w, s, "rope.scaling.attn_factor", 1.1902381f);
}

static void granite_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    make_put_f32(w, s, "attention.scale", 0.015625f);
    make_put_f32(w, s, "embedding_scale", 12);
    make_put_f32(w, s, "residual_scale", 0.22f);
    make_put_f32(w, s, "logit_scale", 8);
}

static void granitemoe_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    const struct weights_recurrent *r = weights_shape_recurrent(s);
    granite_keys(w, s);
    make_put_u32(w, s, "expert_count", weights_shape_experts(s)->n_expert);
    make_put_u32(w, s, "expert_used_count", weights_shape_experts(s)->n_used);
    if (r) make_put_u32(w, s, "expert_shared_feed_forward_length", r->d_ff_shared);
}

static void encoder_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    char key[96];
    snprintf(key, sizeof key, "%s.attention.causal", s->arch);
    gguf_writer_put_bool(w, key, false);
    if (strstr(s->arch, "bert")) gguf_writer_put_u32(w, "tokenizer.ggml.token_type_count", 2);
}

static void gemma_embedding_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    encoder_keys(w, s);
    make_put_u32(w, s, "attention.sliding_window", s->n_ctx <= 1024 ? s->n_ctx / 4 : 512);
    make_put_u32(w, s, "dense_2_feat_in", s->d_model);
    make_put_u32(w, s, "dense_2_feat_out", weights_shape_pooling(s)->n_mid);
    make_put_u32(w, s, "dense_3_feat_in", weights_shape_pooling(s)->n_mid);
    make_put_u32(w, s, "dense_3_feat_out", s->d_model);
}

static void command_r_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    make_put_f32(w, s, "logit_scale", 0.0625f);
}

static void cohere2_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    make_put_f32(w, s, "logit_scale", 0.25f);
    make_put_u32(w, s, "attention.sliding_window", window_of(s, 4096));
}

static void experts_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    const struct weights_experts *e = weights_shape_experts(s);
    make_put_u32(w, s, "expert_count", e->n_expert);
    make_put_u32(w, s, "expert_used_count", e->n_used);
    make_put_u32(w, s, "expert_feed_forward_length", e->d_ff);
}

static void gpt_oss_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    experts_keys(w, s);
    make_put_u32(w, s, "attention.sliding_window", s->n_ctx <= 1024 ? 64 : 128);
    put_str(w, s, "rope.scaling.type", "yarn");
    make_put_f32(w, s, "rope.scaling.factor", 32);
    make_put_u32(w, s, "rope.scaling.original_context_length", s->n_ctx / 32);
}

/* A third of the rotated pairs for each of time, height and width. */
static void qwen35_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    const struct weights_recurrent *r = weights_shape_recurrent(s);
    int32_t pairs = (int32_t)make_rotated(s) / 2, section[4] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0};
    char key[96];
    if (weights_shape_experts(s)) experts_keys(w, s);
    if (r->d_ff_shared) make_put_u32(w, s, "expert_shared_feed_forward_length", r->d_ff_shared);
    snprintf(key, sizeof key, "%s.rope.dimension_sections", s->arch);
    gguf_writer_put_array(w, key, GGUF_I32, section, 4);
    make_put_u32(w, s, "full_attention_interval", r->period);
    make_put_u32(w, s, "ssm.conv_kernel", r->n_tap);
    make_put_u32(w, s, "ssm.state_size", r->d_state);
    make_put_u32(w, s, "ssm.group_count", r->n_k_head);
    make_put_u32(w, s, "ssm.time_step_rank", r->n_v_head);
    make_put_u32(w, s, "ssm.inner_size", r->n_v_head * r->d_state);
}

static void lfm2_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    const struct weights_recurrent *r = weights_shape_recurrent(s);
    uint32_t n[MAKE_MAX_LAYER];
    char key[96];
    for (uint32_t i = 0; i < s->n_layer; i++) n[i] = weights_shape_attends(s, i) ? s->n_kv_head : 0;
    snprintf(key, sizeof key, "%s.attention.head_count_kv", s->arch);
    gguf_writer_put_array(w, key, GGUF_U32, n, s->n_layer);
    make_put_u32(w, s, "shortconv.l_cache", r->n_tap);
    if (!weights_shape_experts(s)) return;
    experts_keys(w, s);
    make_put_u32(w, s, "expert_gating_func", 2);
    make_put_u32(w, s, "leading_dense_block_count", r->n_dense_lead);
}

static void granitehybrid_keys(struct gguf_writer *w, const struct weights_shape *s)
{
    const struct weights_recurrent *r = weights_shape_recurrent(s);
    uint32_t n[MAKE_MAX_LAYER];
    char key[96];
    make_put_f32(w, s, "attention.scale", 0.0078125f);
    make_put_f32(w, s, "embedding_scale", 12);
    make_put_f32(w, s, "residual_scale", 0.22f);
    make_put_f32(w, s, "logit_scale", 6);
    snprintf(key, sizeof key, "%s.rope.scaling.finetuned", s->arch);
    gguf_writer_put_bool(w, key, false);
    for (uint32_t i = 0; i < s->n_layer; i++) n[i] = weights_shape_attends(s, i) ? s->n_kv_head : 0;
    snprintf(key, sizeof key, "%s.attention.head_count_kv", s->arch);
    gguf_writer_put_array(w, key, GGUF_U32, n, s->n_layer);
    make_put_u32(w, s, "ssm.conv_kernel", r->n_tap);
    make_put_u32(w, s, "ssm.state_size", r->d_state);
    make_put_u32(w, s, "ssm.group_count", r->n_k_head);
    make_put_u32(w, s, "ssm.time_step_rank", r->n_v_head);
    make_put_u32(w, s, "ssm.inner_size", r->n_v_head * r->d_value);
    if (!weights_shape_experts(s)) return;
    make_put_u32(w, s, "expert_count", weights_shape_experts(s)->n_expert);
    make_put_u32(w, s, "expert_used_count", weights_shape_experts(s)->n_used);
    make_put_u32(w, s, "expert_shared_feed_forward_length", r->d_ff_shared);
}

uint32_t make_rotated(const struct weights_shape *s)
{
    if (strncmp(s->arch, "qwen35", 6) == 0) return s->d_head / 4;
    return strcmp(s->arch, "phi3") == 0 && s->n_kv_head < s->n_head ? s->d_head * 3 / 4 : s->d_head;
}

static const struct make_arch archs[] = {
    {"llama", MAKE_NORM_BEFORE, NULL},
    {"mistral3", MAKE_NORM_BEFORE, mistral3_keys},
    {"smollm3", MAKE_NORM_BEFORE, NULL},
    {"qwen2", MAKE_NORM_BEFORE | MAKE_QKV_BIAS, NULL},
    {"qwen2vl", MAKE_NORM_BEFORE | MAKE_QKV_BIAS, put_sections},
    {"qwen3", MAKE_NORM_BEFORE | MAKE_QK_NORM, NULL},
    {"qwen3vl", MAKE_NORM_BEFORE | MAKE_QK_NORM, put_sections},
    {"qwen3moe", MAKE_NORM_BEFORE | MAKE_QK_NORM | MAKE_EXPERTS, experts_keys},
    {"qwen35", MAKE_NORM_BEFORE | MAKE_QK_NORM | MAKE_GATED_ATTENTION | MAKE_SECOND_NORM_POST, qwen35_keys},
    {"qwen35moe", MAKE_NORM_BEFORE | MAKE_QK_NORM | MAKE_GATED_ATTENTION | MAKE_SECOND_NORM_POST | MAKE_EXPERTS,
        qwen35_keys},
    {"lfm2", MAKE_NORM_BEFORE | MAKE_QK_NORM | MAKE_CONV_LAYERS, lfm2_keys},
    {"lfm2moe", MAKE_NORM_BEFORE | MAKE_QK_NORM | MAKE_CONV_LAYERS | MAKE_EXPERTS, lfm2_keys},
    {"gpt-oss",
        MAKE_NORM_BEFORE | MAKE_QKV_BIAS | MAKE_OUTPUT_BIAS | MAKE_EXPERTS | MAKE_EXPERT_BIASES | MAKE_SINKS |
            MAKE_SECOND_NORM_POST,
        gpt_oss_keys},
    {"phi3", MAKE_NORM_BEFORE | MAKE_FUSED | MAKE_LONG_ROPE, phi3_keys},
    {"granite", MAKE_NORM_BEFORE, granite_keys},
    {"granitemoe", MAKE_NORM_BEFORE | MAKE_EXPERTS, granitemoe_keys},
    {"granitehybrid", MAKE_NORM_BEFORE | MAKE_MAMBA | MAKE_EXPERTS, granitehybrid_keys},
    {"starcoder2", MAKE_NORM_BEFORE | MAKE_LAYER_NORM | MAKE_ALL_BIASES | MAKE_NO_GATE, NULL},
    {"command-r", MAKE_NORM_BEFORE | MAKE_LAYER_NORM | MAKE_ONE_NORM, command_r_keys},
    {"cohere2", MAKE_NORM_BEFORE | MAKE_LAYER_NORM | MAKE_ONE_NORM, cohere2_keys},
    {"gemma", MAKE_NORM_BEFORE, NULL},
    {"gemma2", MAKE_NORM_BEFORE | MAKE_NORM_BEHIND, gemma2_keys},
    {"gemma3", MAKE_NORM_BEFORE | MAKE_NORM_BEHIND | MAKE_QK_NORM, gemma3_keys},
    {"gemma4", MAKE_NORM_BEFORE | MAKE_NORM_BEHIND | MAKE_QK_NORM | MAKE_MIXED_LAYERS, gemma4_keys},
    {"bert",
        MAKE_LAYER_NORM | MAKE_ALL_BIASES | MAKE_NO_GATE | MAKE_ENCODER | MAKE_SUM_NORMS | MAKE_SEGMENTS |
            MAKE_POSITIONS,
        encoder_keys},
    {"nomic-bert", MAKE_LAYER_NORM | MAKE_NORM_BIASES | MAKE_FUSED_QKV | MAKE_ENCODER | MAKE_SUM_NORMS | MAKE_SEGMENTS,
        encoder_keys},
    {"gemma-embedding", MAKE_NORM_BEFORE | MAKE_NORM_BEHIND | MAKE_QK_NORM | MAKE_ENCODER, gemma_embedding_keys},
    {"bitnet", MAKE_NORM_BEFORE | MAKE_SUB_NORMS, NULL},
    {"bitnet-25", MAKE_NORM_BEFORE | MAKE_SUB_NORMS, NULL},
    {"bitnet-b1.58", MAKE_NORM_BEFORE | MAKE_SUB_NORMS, NULL},
    {"olmo2", MAKE_NORM_BEHIND | MAKE_QK_NORM | MAKE_QK_ROW, olmo2_keys},
};

const struct make_arch *make_arch_find(const char *name)
{
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strcmp(archs[i].name, name) == 0) return &archs[i];
    return NULL;
}
