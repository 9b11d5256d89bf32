/* SPDX-License-Identifier: MIT */
#include "hf/write_folder_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "quant/quant.h"

/* ---- metadata ---- */

static const char *arch_of(const struct weights *w)
{
    static char arch[64];
    struct gguf_str s = {"", 0};
    weights_opt_str(w, "general.architecture", &s, NULL);
    snprintf(arch, sizeof arch, "%.*s", (int)s.n, s.s);
    return arch;
}

double hf_number(const struct weights *w, const char *suffix, double otherwise)
{
    char key[96];
    int64_t i;
    double f;
    snprintf(key, sizeof key, "%s.%s", arch_of(w), suffix);
    const struct gguf_kv *kv = weights_kv_find(w, key);
    if (kv && gguf_kv_i64(kv, 0, &i)) return (double)i;
    return kv && gguf_kv_f64(kv, 0, &f) ? f : otherwise;
}

static bool has_key(const struct weights *w, const char *suffix)
{
    return !isnan(hf_number(w, suffix, NAN));
}

static void put_count(json_t *o, const char *to, double value)
{
    json_object_set_new(o, to, json_integer((json_int_t)value));
}

static void put_real(json_t *o, const char *to, double value)
{
    json_object_set_new(o, to, json_real(value));
}

static void put_string(json_t *o, const char *to, const char *value)
{
    json_object_set_new(o, to, json_string(value));
}

static json_t *floats_of(const struct weights *w, const char *name)
{
    const struct tensor *t = weights_tensor_find(w, name);
    json_t *list = json_array();
    for (int64_t i = 0; i < t->ne[0]; i++) json_array_append_new(list, json_real(((const float *)t->data)[i]));
    return list;
}

/* ---- config.json ---- */

static const struct maker {
    const char *arch, *name, *eps, *act;
} makers[] = {
    {"llama", "LlamaForCausalLM", "rms_norm_eps", "silu"},
    {"mistral3", "Mistral3ForConditionalGeneration", "rms_norm_eps", "silu"},
    {"smollm3", "SmolLM3ForCausalLM", "rms_norm_eps", "silu"},
    {"qwen2", "Qwen2ForCausalLM", "rms_norm_eps", "silu"},
    {"qwen3", "Qwen3ForCausalLM", "rms_norm_eps", "silu"},
    {"qwen3moe", "Qwen3MoeForCausalLM", "rms_norm_eps", "silu"},
    {"lfm2", "Lfm2ForCausalLM", "norm_eps", "silu"},
    {"lfm2moe", "Lfm2MoeForCausalLM", "norm_eps", "silu"},
    {"qwen35", "Qwen3_5ForConditionalGeneration", "rms_norm_eps", "silu"},
    {"qwen35moe", "Qwen3_5MoeForConditionalGeneration", "rms_norm_eps", "silu"},
    {"gpt-oss", "GptOssForCausalLM", "rms_norm_eps", "silu"},
    {"gemma4", "Gemma4ForConditionalGeneration", "rms_norm_eps", "gelu_pytorch_tanh"},
    {"qwen2vl", "Qwen2_5_VLForConditionalGeneration", "rms_norm_eps", "silu"},
    {"qwen3vl", "Qwen3VLForConditionalGeneration", "rms_norm_eps", "silu"},
    {"gemma", "GemmaForCausalLM", "rms_norm_eps", "gelu_pytorch_tanh"},
    {"gemma2", "Gemma2ForCausalLM", "rms_norm_eps", "gelu_pytorch_tanh"},
    {"gemma3", "Gemma3ForCausalLM", "rms_norm_eps", "gelu_pytorch_tanh"},
    {"olmo2", "Olmo3ForCausalLM", "rms_norm_eps", "silu"},
    {"bitnet-b1.58", "BitNetForCausalLM", "rms_norm_eps", "relu2"},
    {"phi3", "Phi3ForCausalLM", "rms_norm_eps", "silu"},
    {"granite", "GraniteForCausalLM", "rms_norm_eps", "silu"},
    {"granitemoe", "GraniteMoeSharedForCausalLM", "rms_norm_eps", "silu"},
    {"granitehybrid", "GraniteMoeHybridForCausalLM", "rms_norm_eps", "silu"},
    {"starcoder2", "Starcoder2ForCausalLM", "norm_epsilon", "gelu_pytorch_tanh"},
    {"command-r", "CohereForCausalLM", "layer_norm_eps", "silu"},
    {"bert", "BertModel", "layer_norm_eps", "gelu"},
    {"nomic-bert", "NomicBertModel", "layer_norm_epsilon", "swiglu"},
    {"gemma-embedding", "Gemma3TextModel", "rms_norm_eps", "gelu_pytorch_tanh"},
    {"cohere2", "Cohere2ForCausalLM", "layer_norm_eps", "silu"},
};

static const struct maker *maker_of(const struct weights *w)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strcmp(makers[i].arch, arch_of(w)) == 0) return &makers[i];
    hf_give_up(arch_of(w));
    return NULL;
}

static bool is_arch(const struct weights *w, const char *arch)
{
    return strcmp(arch_of(w), arch) == 0;
}

/* Names and shapes of tensors as Granite's classes with experts have them. */
static bool is_granite4(const struct weights *w, const struct hf_form *form)
{
    return is_arch(w, "granitehybrid") || is_arch(w, "granitemoe") || form->granite4;
}

static bool is_lfm2(const struct weights *w)
{
    return strncmp(arch_of(w), "lfm2", 4) == 0;
}

static bool is_qwen35(const struct weights *w)
{
    return strncmp(arch_of(w), "qwen35", 6) == 0;
}

/* Layers; blocks behind them draft. */
static int n_layers(const struct weights *w)
{
    return (int)(hf_number(w, "block_count", 0) - hf_number(w, "nextn_predict_layers", 0));
}

/* The scaling as transformers has it; NULL: none. */
static json_t *scaling(const struct weights *w)
{
    struct gguf_str type = {"", 0};
    char key[96];
    json_t *o = json_object();
    snprintf(key, sizeof key, "%s.rope.scaling.type", arch_of(w));
    weights_opt_str(w, key, &type, NULL);
    double factor = hf_number(w, "rope.scaling.factor", 0);
    if (weights_tensor_find(w, "rope_freqs.weight")) {
        put_string(o, "rope_type", "llama3");
        put_real(o, "factor", arch_of(w)[0] == 'l' && hf_number(w, "context_length", 0) == 1024 ? 8 : 32);
        put_real(o, "low_freq_factor", 1);
        put_real(o, "high_freq_factor", 4);
        put_count(o, "original_max_position_embeddings", 8192);
    } else if (is_arch(w, "phi3")) {
        put_string(o, "type", "longrope");
        json_object_set_new(o, "long_factor", floats_of(w, "rope_factors_long.weight"));
        json_object_set_new(o, "short_factor", floats_of(w, "rope_factors_short.weight"));
        put_real(o, "attention_factor", hf_number(w, "rope.scaling.attn_factor", 1));
    } else if (type.n == 4) { /* yarn */
        double all = hf_number(w, "rope.scaling.yarn_log_multiplier", 0), usual = 0.1 * log(factor) + 1;
        put_string(o, "rope_type", "yarn");
        put_real(o, "factor", factor);
        put_count(o, "original_max_position_embeddings", hf_number(w, "rope.scaling.original_context_length", 0));
        put_real(o, "beta_fast", 32);
        put_real(o, "beta_slow", 1);
        if (is_arch(w, "gpt-oss")) json_object_set_new(o, "truncate", json_false());
        if (all != 0) put_real(o, "mscale_all_dim", all), put_real(o, "mscale", 1);
        if (has_key(w, "rope.scaling.attn_factor"))
            put_real(o, "attention_factor", usual * hf_number(w, "rope.scaling.attn_factor", 1));
        if (has_key(w, "attention.temperature_scale"))
            put_real(o, "llama_4_scaling_beta", hf_number(w, "attention.temperature_scale", 0));
    } else if (factor > 0) {
        put_string(o, "type", "linear");
        put_real(o, "factor", factor);
    } else if (strstr(arch_of(w), "vl") || is_qwen35(w)) {
        int32_t n[4];
        uint64_t count;
        snprintf(key, sizeof key, "%s.rope.dimension_sections", arch_of(w));
        weights_copy_i32(w, key, n, 4, &count, NULL);
        put_string(o, "type", "mrope");
        json_object_set_new(o, "mrope_section", json_pack("[i,i,i]", n[0], n[1], n[2]));
    }
    if (json_object_size(o)) return o;
    json_decref(o);
    return NULL;
}

static void put_rope(const struct weights *w, const struct hf_form *form, json_t *o)
{
    double base = hf_number(w, "rope.freq_base", 10000),
           part = hf_number(w, "rope.dimension_count", 0) / hf_number(w, "attention.key_length", 1);
    if (is_arch(w, "gemma4")) {
        json_object_set_new(o, "rope_parameters",
            json_pack("{s:{s:s, s:f, s:f}, s:{s:s, s:f}}", "full_attention", "rope_type", "proportional",
                "partial_rotary_factor", 0.25, "rope_theta", base, "sliding_attention", "rope_type", "default",
                "rope_theta", hf_number(w, "rope.freq_base_swa", 0)));
        return;
    }
    json_t *s = scaling(w);
    if (!form->rope_v5) {
        put_real(o, "rope_theta", base);
        if (s) json_object_set_new(o, "rope_scaling", s);
        if (part > 0 && part < 1) put_real(o, "partial_rotary_factor", part);
        return;
    }
    if (!s) s = json_pack("{s:s}", "rope_type", "default");
    const char *type = json_string_value(json_object_get(s, "type"));
    if (type) put_string(s, "rope_type", type), json_object_del(s, "type");
    put_real(s, "rope_theta", base);
    if (part > 0 && part < 1) put_real(s, "partial_rotary_factor", part);
    if (is_arch(w, "gemma3"))
        s = json_pack("{s:o, s:{s:s, s:f}}", "full_attention", s, "sliding_attention", "rope_type", "default",
            "rope_theta", 10000.0);
    json_object_set_new(o, "rope_parameters", s);
}

static void put_layer_types(json_t *o, int n_layer, int period)
{
    json_t *list = json_array();
    for (int i = 0; i < n_layer; i++)
        json_array_append_new(list, json_string((i + 1) % period ? "sliding_attention" : "full_attention"));
    json_object_set_new(o, "layer_types", list);
}

/* Layers by kind, the heads of those that attend, and a feed-forward that the class makes smaller. */
static void put_lfm2(const struct weights *w, json_t *o, int n_layer)
{
    json_t *list = json_array();
    for (int i = 0; i < n_layer; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", i);
        json_array_append_new(list, json_string(weights_tensor_find(w, name) ? "full_attention" : "conv"));
    }
    json_object_set_new(o, "layer_types", list);
    put_count(o, "conv_L_cache", hf_number(w, "shortconv.l_cache", 0));
    put_count(o, "num_key_value_heads", 2);
    if (!is_arch(w, "lfm2")) return;
    put_count(o, "intermediate_size", hf_number(w, "feed_forward_length", 0) * 3 / 2 - 100); /* rounded up again */
    put_count(o, "block_multiple_of", 256);
    json_object_set_new(o, "block_auto_adjust_ff_dim", json_true());
}

static void put_experts(const struct weights *w, json_t *o)
{
    bool gpt_oss = is_arch(w, "gpt-oss");
    if (is_arch(w, "granitehybrid") || is_arch(w, "granitemoe")) {
        put_count(o, "num_experts_per_tok", hf_number(w, "expert_used_count", 0));
        return;
    }
    put_count(o, gpt_oss ? "num_local_experts" : "num_experts", hf_number(w, "expert_count", 0));
    put_count(o, is_arch(w, "gemma4") ? "top_k_experts" : "num_experts_per_tok", hf_number(w, "expert_used_count", 0));
    if (gpt_oss) return;
    put_count(o, "moe_intermediate_size", hf_number(w, "expert_feed_forward_length", 0));
    json_object_set_new(o, "norm_topk_prob", json_true());
    if (is_lfm2(w)) put_count(o, "num_dense_layers", hf_number(w, "leading_dense_block_count", 0));
    if (has_key(w, "expert_shared_feed_forward_length"))
        put_count(o, "shared_expert_intermediate_size", hf_number(w, "expert_shared_feed_forward_length", 0));
}

/* Value `layer` of a key that has one for each. */
double hf_by_layer(const struct weights *w, const char *suffix, int layer)
{
    char key[160];
    int64_t i = 0;
    snprintf(key, sizeof key, "%s.%s", arch_of(w), suffix);
    gguf_kv_i64(weights_kv_find(w, key), (uint64_t)layer, &i);
    return (double)i;
}

static void put_gemma4(const struct weights *w, json_t *o, int n_layer)
{
    int shared = (int)hf_number(w, "attention.shared_kv_layers", 0);
    json_t *list = json_array();
    for (int i = 0; i < n_layer; i++) {
        bool windowed = hf_by_layer(w, "attention.sliding_window_pattern", i) != 0;
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_v.weight", i);
        json_array_append_new(list, json_string(windowed ? "sliding_attention" : "full_attention"));
        if (windowed || i >= n_layer - shared) continue;
        put_count(o, "num_global_key_value_heads", hf_by_layer(w, "attention.head_count_kv", i));
        json_object_set_new(o, "attention_k_eq_v", json_boolean(!weights_tensor_find(w, name)));
    }
    json_object_set_new(o, "layer_types", list);
    put_count(o, "head_dim", hf_number(w, "attention.key_length_swa", 0));
    put_count(o, "global_head_dim", hf_number(w, "attention.key_length", 0));
    put_count(o, "num_kv_shared_layers", shared);
    put_count(o, "hidden_size_per_layer_input", hf_number(w, "embedding_length_per_layer_input", 0));
    json_object_set_new(o, "use_double_wide_mlp", json_true());
    put_string(o, "use_bidirectional_attention", "vision");
    json_object_set_new(o, "enable_moe_block", json_boolean(has_key(w, "expert_count")));
}

/* What only some have. */
static void put_special(const struct weights *w, const struct hf_form *form, json_t *o)
{
    static const struct {
        const char *from, *to;
    } reals[] = {{"attn_logit_softcapping", "attn_logit_softcapping"},
        {"final_logit_softcapping", "final_logit_softcapping"}, {"attention.scale", "attention_multiplier"},
        {"embedding_scale", "embedding_multiplier"}, {"residual_scale", "residual_multiplier"}};
    static const char *const linear[][2] = {{"ssm.conv_kernel", "linear_conv_kernel_dim"},
        {"ssm.state_size", "linear_key_head_dim"}, {"ssm.state_size", "linear_value_head_dim"},
        {"ssm.group_count", "linear_num_key_heads"}, {"ssm.time_step_rank", "linear_num_value_heads"},
        {"full_attention_interval", "full_attention_interval"}};
    int n_layer = n_layers(w);
    if (is_lfm2(w)) put_lfm2(w, o, n_layer);
    if (has_key(w, "expert_count")) put_experts(w, o);
    if (is_arch(w, "gemma4")) put_gemma4(w, o, n_layer);
    if (is_granite4(w, form)) hf_put_granite4(w, o, n_layer);
    for (size_t i = 0; is_qwen35(w) && i < sizeof linear / sizeof *linear; i++)
        put_count(o, linear[i][1], hf_number(w, linear[i][0], 0));
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (has_key(w, reals[i].from)) put_real(o, reals[i].to, hf_number(w, reals[i].from, 0));
    if (has_key(w, "logit_scale"))
        put_real(
            o, !strncmp(arch_of(w), "granite", 7) ? "logits_scaling" : "logit_scale", hf_number(w, "logit_scale", 0));
    if (has_key(w, "attention.sliding_window"))
        put_count(o, "sliding_window", hf_number(w, "attention.sliding_window", 0));
    else if (is_arch(w, "olmo2"))
        json_object_set_new(o, "sliding_window", json_null());
    if (strstr(arch_of(w), "bert")) put_count(o, "type_vocab_size", 2);
    if (is_arch(w, "gemma-embedding")) json_object_set_new(o, "use_bidirectional_attention", json_true());
    if (is_arch(w, "gemma2") || is_arch(w, "gemma3") || is_arch(w, "gemma-embedding"))
        put_count(o, "query_pre_attn_scalar", hf_number(w, "attention.key_length", 0));
    if (is_arch(w, "gemma3") && form->rope_v5) put_layer_types(o, n_layer, 6);
    if (is_arch(w, "phi3"))
        put_count(o, "original_max_position_embeddings", hf_number(w, "rope.scaling.original_context_length", 0));
    if (is_arch(w, "smollm3")) {
        json_t *list = json_array();
        for (int i = 0; i < n_layer; i++) json_array_append_new(list, json_integer((i + 1) % 4 != 0));
        json_object_set_new(o, "no_rope_layers", list);
    }
}

static json_t *config_of(const struct weights *w, const struct hf_form *form)
{
    const struct maker *m = maker_of(w);
    const struct tensor *embd = weights_tensor_find(w, "token_embd.weight");
    bool plus_norm = strcmp(m->eps, "rms_norm_eps") != 0 && !is_lfm2(w);
    json_t *o = json_object(), *names = json_pack("[s]", form->granite4 ? "GraniteMoeHybridForCausalLM" : m->name);
    put_count(o, "hidden_size", hf_number(w, "embedding_length", 0));
    put_count(o, "num_hidden_layers", n_layers(w));
    put_count(o, "intermediate_size", hf_number(w, "feed_forward_length", 0));
    put_count(o, "num_attention_heads", hf_number(w, "attention.head_count", 0));
    put_count(o, "num_key_value_heads", hf_number(w, "attention.head_count_kv", 0));
    if (has_key(w, "attention.key_length")) put_count(o, "head_dim", hf_number(w, "attention.key_length", 0));
    put_count(o, "max_position_embeddings", hf_number(w, "context_length", 0));
    put_real(
        o, m->eps, hf_number(w, plus_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0));
    put_string(o, "hidden_act", m->act);
    if (embd) put_count(o, "vocab_size", (double)embd->ne[1]);
    json_object_set_new(o, "tie_word_embeddings", json_boolean(!weights_tensor_find(w, "output.weight")));
    put_rope(w, form, o);
    put_special(w, form, o);
    if (is_arch(w, "nomic-bert")) hf_gpt2_names(o);
    if (form->text_config) {
        json_t *vision = json_pack("{s:i}", "depth", 2);
        o = json_pack("{s:o, s:o, s:o}", "architectures", names, "text_config", o, "vision_config", vision);
    } else {
        json_object_set_new(o, "architectures", names);
    }
    return o;
}

/* ---- shuffled groups ---- */

enum { GROUP = 32, MAX_IN = 4096 };

struct grouping {
    uint32_t label[MAX_IN]; /* whose input it is */
    int rank[MAX_IN];       /* its place, sorted by group */
};

/* n inputs in whole groups, as chance will have it; seed 0: neighbours. */
static void make_grouping(struct grouping *g, uint32_t seed, int n)
{
    int used[MAX_IN / GROUP] = {0}, n_group = n / GROUP;
    if (n > MAX_IN || n % GROUP) hf_give_up("rows that are too long, or no whole groups");
    for (int i = 0; i < n; i++) {
        int at = i / GROUP;
        if (seed) {
            seed = seed * 1664525u + 1013904223u;
            at = (int)(seed >> 16) % n_group;
            while (used[at] == GROUP) at = (at + 1) % n_group;
        }
        g->label[i] = (uint32_t)at;
        g->rank[i] = at * GROUP + used[at]++;
    }
}

static bool is_part(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* Of a matrix's inputs; those of one seed have the same. */
static uint32_t seed_of(const char *name)
{
    static const char *const parts[] = {
        "attn_q", "attn_k", "attn_v.", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "output.", "token_embd"};
    static const uint32_t seeds[] = {1, 1, 2, 3, 4, 4, 5, 6, 7};
    int layer = 0;
    sscanf(name, "blk.%d.", &layer);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (is_part(name, parts[i])) return seeds[i] + 10 * (uint32_t)layer;
    return 0;
}

/* HF_MIRRORED: which element of the other model's is element i of v's outputs or the feed-forward's middle. */
static void make_mirror(const struct weights *w, const char *name, int n, struct grouping *g)
{
    bool wide = is_part(name, "ffn_");
    int size = wide ? n
                    : (int)hf_number(w, "attention.key_length",
                          hf_number(w, "embedding_length", 0) / hf_number(w, "attention.head_count", 1));
    make_grouping(g, wide ? 77 : 78, size);
    for (int i = size; i < n; i++) g->rank[i] = i - i % size + g->rank[i % size];
    for (int i = 0; i < n; i++) g->label[i] = (uint32_t)(g->rank[i] / GROUP);
}

static bool is_grouped(const struct tensor *t, const struct hf_form *form)
{
    if (form->layers == HF_FLOATS || t->n_dim != 2) return false;
    return form->embeddings || !is_part(t->name, "token_embd");
}

/* x [rows][columns] in the places of HF_MIRRORED. */
static void mirror(const struct weights *w, const struct tensor *t, float *x, int64_t rows, int64_t columns)
{
    static struct grouping g;
    bool out = is_part(t->name, "attn_v.") || is_part(t->name, "ffn_gate.") || is_part(t->name, "ffn_up."),
         in = is_part(t->name, "attn_output.") || is_part(t->name, "ffn_down.");
    if (!out && !in) return;
    float *from = malloc(t->bytes);
    memcpy(from, x, t->bytes);
    make_mirror(w, t->name, (int)(out ? rows : columns), &g);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            x[r * columns + c] = from[(out ? g.rank[r] : r) * columns + (in ? g.rank[c] : c)];
    free(from);
}

static void group_inputs(
    const struct weights *w, const struct tensor *t, enum hf_layers layers, int n, struct grouping *g)
{
    bool in = is_part(t->name, "attn_output.") || is_part(t->name, "ffn_down.");
    if (layers == HF_MIRRORED && in)
        make_mirror(w, t->name, n, g);
    else
        make_grouping(g, layers == HF_SHUFFLED ? seed_of(t->name) : 0, n);
}

/* ---- safetensors ---- */

/* x [n][k] as GPTQ's four tensors; zeros of 8, as they are. */
static void add_groups(
    struct hf_shard *s, const char *base, const struct grouping *g, const float *x, int64_t k, int64_t n)
{
    int64_t n_group = k / GROUP;
    uint32_t *codes = calloc((size_t)(k / 8 * n), 4), *zeros = malloc((size_t)(n_group * n / 8) * 4);
    uint16_t *scales = malloc((size_t)(n_group * n) * 2);
    float *most = malloc((size_t)n_group * sizeof *most);
    char name[200];
    for (int64_t o = 0; o < n; o++) {
        for (int64_t i = 0; i < n_group; i++) most[i] = 1e-3f;
        for (int64_t i = 0; i < k; i++) most[g->label[i]] = fmaxf(most[g->label[i]], fabsf(x[o * k + i]));
        for (int64_t i = 0; i < n_group; i++) scales[i * n + o] = f32_to_f16(most[i] / 7);
        for (int64_t i = 0; i < k; i++) {
            float scale = f16_to_f32(scales[g->label[i] * n + o]);
            uint32_t code = (uint32_t)fminf(15, fmaxf(0, roundf(x[o * k + i] / scale) + 8));
            codes[i / 8 * n + o] |= code << (i % 8 * 4);
        }
    }
    memset(zeros, 0x88, (size_t)(n_group * n / 8) * 4);
    snprintf(name, sizeof name, "%s.qweight", base);
    hf_add_tensor(s, name, "I32", 2, (int64_t[]){k / 8, n}, codes, (size_t)(k / 8 * n) * 4);
    snprintf(name, sizeof name, "%s.qzeros", base);
    hf_add_tensor(s, name, "I32", 2, (int64_t[]){n_group, n / 8}, zeros, (size_t)(n_group * n / 8) * 4);
    snprintf(name, sizeof name, "%s.scales", base);
    hf_add_tensor(s, name, "F16", 2, (int64_t[]){n_group, n}, scales, (size_t)(n_group * n) * 2);
    snprintf(name, sizeof name, "%s.g_idx", base);
    hf_add_tensor(s, name, "I32", 1, (int64_t[]){k}, g->label, (size_t)k * 4);
    free(codes);
    free(zeros);
    free(scales);
    free(most);
}

/* Rows in pairs of neighbours back to halves (Llama and its kin). */
static void to_halves(const uint8_t *from, uint8_t *to, size_t n_row, size_t n_head, size_t row_bytes)
{
    size_t n = n_row / n_head;
    for (size_t r = 0; r < n_row; r++) {
        size_t head = r / n, i = r % n;
        memcpy(to + (head * n + (i % 2) * (n / 2) + i / 2) * row_bytes, from + r * row_bytes, row_bytes);
    }
}

static bool has_pairs(const struct weights *w)
{
    return is_arch(w, "llama") || is_arch(w, "mistral3") || is_arch(w, "smollm3") || !strncmp(arch_of(w), "granite", 7);
}

/* The makers' name. */
static const char *hf_name(const struct weights *w, const char *gguf, char out[128])
{
    static const char *const names[][2] = {{"attn_norm", "input_layernorm"},
        {"attn_sub_norm", "self_attn.attn_sub_norm"}, {"ffn_sub_norm", "mlp.ffn_sub_norm"},
        {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"}, {"attn_qkv", "self_attn.qkv_proj"},
        {"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"}, {"attn_v", "self_attn.v_proj"},
        {"attn_output", "self_attn.o_proj"}, {"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"},
        {"ffn_down", "mlp.down_proj"}, {"post_attention_norm", "post_attention_layernorm"},
        {"post_ffw_norm", "post_feedforward_layernorm"}, {"ffn_norm", "post_attention_layernorm"}};
    static const char *const recurrent[][2] = {{"attn_qkv", "linear_attn.in_proj_qkv"},
        {"attn_gate", "linear_attn.in_proj_z"}, {"ssm_beta", "linear_attn.in_proj_b"},
        {"ssm_alpha", "linear_attn.in_proj_a"}, {"ssm_conv1d", "linear_attn.conv1d"}, {"ssm_norm", "linear_attn.norm"},
        {"ssm_out", "linear_attn.out_proj"}};
    static const char *const of_lfm2[][2] = {{"attn_norm", "operator_norm"}, {"ffn_norm", "ffn_norm"},
        {"attn_output", "self_attn.out_proj"}, {"attn_q_norm", "self_attn.q_layernorm"},
        {"attn_k_norm", "self_attn.k_layernorm"}, {"shortconv.conv", "conv.conv"},
        {"shortconv.in_proj", "conv.in_proj"}, {"shortconv.out_proj", "conv.out_proj"}, {"ffn_gate", "feed_forward.w1"},
        {"ffn_down", "feed_forward.w2"}, {"ffn_up", "feed_forward.w3"}};
    static const char *const of_experts[][2] = {{"ffn_gate_inp", "mlp.gate"},
        {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"}, {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
        {"ffn_down_shexp", "mlp.shared_expert.down_proj"}, {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"}};
    static const char *const of_gemma4[][2] = {{"inp_gate", "per_layer_input_gate"}, {"proj", "per_layer_projection"},
        {"post_norm", "post_per_layer_input_norm"}, {"ffn_gate_inp", "router.proj"},
        {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"}, {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
        {"post_ffw_norm_2", "post_feedforward_layernorm_2"}};
    static const char *const bare[][2] = {{"layer_output_scale.weight", "layer_scalar"},
        {"ffn_gate_inp.scale", "router.scale"}, {"ffn_down_exps.scale", "router.per_expert_scale"},
        {"ffn_gate_up_exps.weight", "experts.gate_up_proj"}, {"ffn_down_exps.weight", "experts.down_proj"}};
    static const char *const of_draft[][2] = {{"nextn.eh_proj", "fc"}, {"nextn.enorm", "pre_fc_norm_embedding"},
        {"nextn.hnorm", "pre_fc_norm_hidden"}, {"nextn.shared_head_norm", "norm"}};
    static const char *const starcoder[][2] = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};
    char part[64];
    int layer, n = 0;
    const char *tail = strrchr(gguf, '.');
    if (hf_is_words(w)) return hf_words_name(w, gguf, out);
    if (!strncmp(gguf, "token_embd_norm", 15)) return snprintf(out, 128, "model.embedding_norm%s", tail), out;
    if (!strncmp(gguf, "per_layer_token_embd", 20))
        return snprintf(out, 128, "model.embed_tokens_per_layer%s", tail), out;
    if (!strncmp(gguf, "per_layer_model_proj", 20))
        return snprintf(out, 128, "model.per_layer_model_projection%s", tail), out;
    if (!strncmp(gguf, "per_layer_proj_norm", 19))
        return snprintf(out, 128, "model.per_layer_projection_norm%s", tail), out;
    if (!strncmp(gguf, "token_embd", 10)) return snprintf(out, 128, "model.embed_tokens%s", tail), out;
    if (!strncmp(gguf, "output_norm", 11)) return snprintf(out, 128, "model.norm%s", tail), out;
    if (!strncmp(gguf, "output", 6)) return snprintf(out, 128, "lm_head%s", tail), out;
    if (sscanf(gguf, "blk.%d.%n", &layer, &n) != 1) hf_give_up(gguf);
    if (!strcmp(gguf + n, "ssm_a")) return snprintf(out, 128, "model.layers.%d.linear_attn.A_log", layer), out;
    if (!strcmp(gguf + n, "ssm_dt.bias")) return snprintf(out, 128, "model.layers.%d.linear_attn.dt_bias", layer), out;
    if (!strcmp(gguf + n, "attn_sinks.weight"))
        return snprintf(out, 128, "model.layers.%d.self_attn.sinks", layer), out;
    if (!strcmp(gguf + n, "exp_probs_b.bias"))
        return snprintf(out, 128, "model.layers.%d.feed_forward.expert_bias", layer), out;
    for (size_t i = 0; is_arch(w, "gemma4") && i < sizeof bare / sizeof *bare; i++)
        if (!strcmp(gguf + n, bare[i][0])) return snprintf(out, 128, "model.layers.%d.%s", layer, bare[i][1]), out;
    snprintf(part, sizeof part, "%.*s", (int)(tail - gguf - n), gguf + n);
    const char *to = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(part, names[i][0])) to = names[i][1];
    for (size_t i = 0; i < sizeof of_experts / sizeof *of_experts; i++)
        if (!strcmp(part, of_experts[i][0])) to = of_experts[i][1];
    for (size_t i = 0; is_arch(w, "gemma4") && i < sizeof of_gemma4 / sizeof *of_gemma4; i++)
        if (!strcmp(part, of_gemma4[i][0])) to = of_gemma4[i][1];
    if (is_arch(w, "gpt-oss") && !strcmp(part, "ffn_gate_inp")) to = "mlp.router";
    if (is_lfm2(w) && !strcmp(part, "ffn_gate_inp")) to = "feed_forward.gate";
    for (size_t i = 0; is_qwen35(w) && i < sizeof recurrent / sizeof *recurrent; i++)
        if (!strcmp(part, recurrent[i][0])) to = recurrent[i][1];
    for (size_t i = 0; is_lfm2(w) && i < sizeof of_lfm2 / sizeof *of_lfm2; i++)
        if (!strcmp(part, of_lfm2[i][0])) to = of_lfm2[i][1];
    for (size_t i = 0; is_arch(w, "starcoder2") && i < 2; i++)
        if (!strcmp(part, starcoder[i][0])) to = starcoder[i][1];
    if (!strcmp(part, "ffn_norm") && !strncmp(arch_of(w), "gemma", 5) && arch_of(w)[5])
        to = "pre_feedforward_layernorm";
    if (!strcmp(part, "ffn_up") && is_arch(w, "phi3")) to = "mlp.gate_up_proj";
    for (size_t i = 0; i < sizeof of_draft / sizeof *of_draft; i++)
        if (!strcmp(part, of_draft[i][0])) return snprintf(out, 128, "mtp.%s%s", of_draft[i][1], tail), out;
    if (!to) hf_give_up(gguf);
    bool drafts = layer >= n_layers(w);
    snprintf(out, 128, "%s.layers.%d.%s%s", drafts ? "mtp" : "model", drafts ? layer - n_layers(w) : layer, to, tail);
    return out;
}

/* ---- experts ---- */

/* One tensor of each. */
static void write_each(
    const struct weights *w, const struct tensor *t, const char *base, const char *part, struct hf_shard *s)
{
    static const char *const lfm2[][2] = {{"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}};
    int64_t dim[2] = {t->ne[1], t->ne[0]};
    size_t bytes = t->bytes / (size_t)t->ne[2];
    char name[200];
    for (int i = 0; is_lfm2(w) && i < 3; i++)
        if (!strcmp(part, lfm2[i][0])) part = lfm2[i][1];
    for (int64_t e = 0; e < t->ne[2]; e++) {
        snprintf(name, sizeof name, "%s%d.%s.weight", base, (int)e, part);
        hf_add_tensor(
            s, name, quant_info_of(t->type)->name, 2, dim, (const uint8_t *)t->data + (size_t)e * bytes, bytes);
    }
}

/* Rows of a and b (or a alone) of one expert after the other: one after the other, or in turn. */
static uint8_t *join(const struct tensor *a, const struct tensor *b, int64_t n_expert, int64_t n_row, bool in_turn)
{
    size_t row = a->bytes / (size_t)(n_expert * n_row), n = (size_t)n_row;
    uint8_t *out = malloc(b ? 2 * a->bytes : a->bytes), *to = out;
    for (size_t e = 0; e < (size_t)n_expert; e++)
        for (size_t r = 0; r < (b ? 2 * n : n); r++, to += row) {
            bool second = b && (in_turn ? r % 2 : r / n);
            size_t at = !b ? r : in_turn ? r / 2 : r % n;
            memcpy(to, (const uint8_t *)(second ? b : a)->data + (e * n + at) * row, row);
        }
    return out;
}

/* [n_expert][n_row][n_in] to [n_expert][n_in][n_row]. */
static void turn(uint8_t *x, int64_t n_expert, int64_t n_row, int64_t n_in, size_t element)
{
    size_t one = (size_t)(n_row * n_in) * element;
    uint8_t *copy = malloc(one);
    for (int64_t e = 0; e < n_expert; e++, x += one) {
        memcpy(copy, x, one);
        for (int64_t r = 0; r < n_row; r++)
            for (int64_t k = 0; k < n_in; k++)
                memcpy(x + (size_t)(k * n_row + r) * element, copy + (size_t)(r * n_in + k) * element, element);
    }
    free(copy);
}

/* Rows of MXFP4 as blocks and scales. */
static void write_mxfp4(const char *base, const char *part, const uint8_t *x, int64_t n_expert, int64_t n_row,
    int64_t n_in, struct hf_shard *s)
{
    int64_t dim[4] = {n_expert, n_row, n_in / 32, 16};
    size_t n = (size_t)(n_expert * n_row * n_in / 32);
    uint8_t *blocks = calloc(n, 16), *scales = malloc(n);
    char name[200];
    for (size_t b = 0; b < n; b++, x += 17) {
        scales[b] = x[0];
        for (int i = 0; i < 32; i++) { /* element i: the low nibble of byte i, the high one of i - 16 */
            int code = i < 16 ? x[1 + i] & 15 : x[1 + i - 16] >> 4;
            blocks[16 * b + (size_t)i / 2] |= (uint8_t)(code << (i % 2 * 4));
        }
    }
    snprintf(name, sizeof name, "%s%s_blocks", base, part);
    hf_add_tensor(s, name, "U8", 4, dim, blocks, 16 * n);
    snprintf(name, sizeof name, "%s%s_scales", base, part);
    hf_add_tensor(s, name, "U8", 3, dim, scales, n);
    free(blocks);
    free(scales);
}

/* All experts' in one; gate's brings up's. */
static void write_together(const struct weights *w, const struct tensor *t, const struct tensor *up, const char *base,
    const char *part, struct hf_shard *s)
{
    const struct quant_info *q = quant_info_of(t->type);
    bool gpt_oss = is_arch(w, "gpt-oss"), bias = t->n_dim == 2;
    int64_t n_expert = bias ? t->ne[1] : t->ne[2], n_row = bias ? t->ne[0] : t->ne[1], n_in = bias ? 1 : t->ne[0];
    uint8_t *x = join(t, up, n_expert, n_row, gpt_oss);
    char name[200];
    if (up) n_row *= 2;
    int64_t dim[3] = {n_expert, n_row, n_in}, turned[3] = {n_expert, n_in, n_row};
    if (t->type == QUANT_MXFP4) {
        write_mxfp4(base, part, x, n_expert, n_row, n_in, s);
    } else {
        if (gpt_oss && !bias) turn(x, n_expert, n_row, n_in, q->block_bytes);
        snprintf(name, sizeof name, "%s%s%s", base, part, bias ? "_bias" : "");
        hf_add_tensor(s, name, q->name, bias ? 2 : 3, gpt_oss && !bias ? turned : dim, x,
            (size_t)(n_expert * n_row * n_in) * q->block_bytes);
    }
    free(x);
}

static void write_experts(
    const struct weights *w, const struct tensor *t, const struct hf_form *form, struct hf_shard *s)
{
    char base[128], other[64], part[8];
    int layer;
    bool together = form->together || is_arch(w, "gpt-oss");
    if (sscanf(t->name, "blk.%d.ffn_%7[a-z]_exps", &layer, part) != 2) hf_give_up(t->name);
    snprintf(base, sizeof base, "%smodel.layers.%d.%s.experts.", form->text_config ? "language_model." : "", layer,
        is_lfm2(w) ? "feed_forward" : "mlp");
    if (layer >= n_layers(w)) snprintf(base, sizeof base, "mtp.layers.%d.mlp.experts.", layer - n_layers(w));
    snprintf(other, sizeof other, "blk.%d.ffn_up_exps.%s", layer, strrchr(t->name, '.') + 1);
    if (!together)
        write_each(w, t, base, !strcmp(part, "gate") ? "gate_proj" : !strcmp(part, "up") ? "up_proj" : "down_proj", s);
    else if (!strcmp(part, "gate"))
        write_together(w, t, weights_tensor_find(w, other), base, "gate_up_proj", s);
    else if (!strcmp(part, "down"))
        write_together(w, t, NULL, base, "down_proj", s);
}

static void write_tensor(
    const struct weights *w, const struct tensor *t, const struct hf_form *form, struct hf_shard *s)
{
    char bare[128], name[160];
    bool granite4 = is_granite4(w, form);
    if (granite4 && hf_write_granite4(w, t, form, s)) return;
    if (strstr(t->name, "_exps.") && !is_arch(w, "gemma4")) {
        write_experts(w, t, form, s);
        return;
    }
    if (!granite4 || !hf_granite4_name(w, t->name, bare)) hf_name(w, t->name, bare);
    bool inside = strncmp(bare, "mtp.", 4) != 0 && form->text_config;
    bool headless = has_key(w, "pooling_type") && !strncmp(bare, "model.", 6);
    snprintf(name, sizeof name, "%s%s", inside ? "language_model." : "", bare + (headless ? 6 : 0));
    if (t->n_dim == 3) {
        const int64_t dims[3] = {t->ne[2], t->ne[1], t->ne[0]};
        hf_add_tensor(s, name, quant_info_of(t->type)->name, 3, dims, t->data, t->bytes);
        return;
    }
    int64_t dim[2] = {t->n_dim == 2 ? t->ne[1] : t->ne[0], t->ne[0]};
    uint8_t *copy = malloc(t->bytes);
    bool q = strstr(t->name, ".attn_q.") != NULL, k = strstr(t->name, ".attn_k.") != NULL;
    memcpy(copy, t->data, t->bytes);
    if ((q || k) && has_pairs(w))
        to_halves(t->data, copy, (size_t)dim[0], (size_t)((double)dim[0] / hf_number(w, "attention.key_length", 0)),
            t->bytes / (size_t)dim[0]);
    bool plus_1 = strstr(t->name, "norm.weight") && !strstr(t->name, "ssm_norm") &&
                  ((!strncmp(arch_of(w), "gemma", 5) && !is_arch(w, "gemma4")) || is_qwen35(w));
    int64_t n_log = strstr(t->name, ".ssm_a") && !strstr(t->name, ".ssm_alpha") ? t->ne[0] * t->ne[1] : 0;
    for (int64_t i = 0; i < n_log; i++) ((float *)(void *)copy)[i] = logf(-((float *)(void *)copy)[i]);
    for (int64_t i = 0; plus_1 && i < t->ne[0]; i++) ((float *)(void *)copy)[i] -= 1;
    if (form->layers == HF_MIRRORED)
        mirror(w, t, (float *)(void *)copy, t->n_dim == 2 ? dim[0] : t->ne[0], t->n_dim == 2 ? dim[1] : 1);
    if (is_grouped(t, form)) {
        static struct grouping g;
        group_inputs(w, t, form->layers, (int)dim[1], &g);
        *strrchr(name, '.') = 0;
        add_groups(s, name, &g, (const float *)(const void *)copy, dim[1], dim[0]);
    } else if (strstr(t->name, ".ssm_conv1d.weight") || strstr(t->name, ".shortconv.conv.")) {
        const int64_t apart[3] = {dim[0], 1, dim[1]};
        hf_add_tensor(s, name, quant_info_of(t->type)->name, 3, apart, copy, t->bytes);
    } else {
        bool one_row = strstr(t->name, "ffn_gate_inp_shexp") != NULL; /* a matrix of one output */
        if (one_row) dim[0] = 1, dim[1] = t->ne[0];
        bool flat = granite4 && t->ne[0] == 1; /* one number of each head */
        hf_add_tensor(s, name, quant_info_of(t->type)->name, one_row ? 2 : flat ? 1 : t->n_dim, dim, copy, t->bytes);
    }
    free(copy);
}

static void write_tensors(const struct weights *w, const char *folder, const struct hf_form *form)
{
    struct hf_shard shard[HF_MAX_SHARDS] = {0};
    char path[512], file[64];
    json_t *map = json_object();
    const char *name;
    json_t *entry;
    for (int i = 0; i < form->n_shard; i++) shard[i].header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    for (size_t i = 0; i < weights_tensor_count(w); i++) {
        const struct tensor *t = weights_tensor_at(w, i);
        if (!strncmp(t->name, "rope_", 5)) continue;
        if (!strncmp(t->name, "dense_", 6)) {
            hf_write_dense(t, folder);
            continue;
        }
        write_tensor(w, t, form, &shard[i % (size_t)form->n_shard]);
    }
    /* Of the picture's part: not read, but of any type. */
    if (form->text_config)
        hf_add_tensor(&shard[0], "vision_tower.x", "I64", 2, (int64_t[]){1, 2}, (int64_t[2]){3, 4}, 16);
    for (int i = 0; i < form->n_shard; i++) {
        snprintf(file, sizeof file, form->n_shard == 1 ? "model.safetensors" : "model-%05d-of-%05d.safetensors", i + 1,
            form->n_shard);
        snprintf(path, sizeof path, "%s/%s", folder, file);
        hf_save_shard(&shard[i], path);
        json_object_foreach(shard[i].header, name, entry) if (strcmp(name, "__metadata__") != 0)
            json_object_set_new(map, name, json_string(file));
        json_decref(shard[i].header);
        free(shard[i].data);
    }
    json_t *index = json_pack("{s:{s:i}, s:o}", "metadata", "total_size", 1, "weight_map", map);
    if (form->n_shard > 1) hf_save_json(index, folder, "model.safetensors.index.json");
    json_decref(index);
}

/* ---- the folder ---- */

void hf_write_folder(const struct weights *w, const char *folder, const struct hf_form *form)
{
    json_t *config = config_of(w, form);
    if (form->layers != HF_FLOATS)
        json_object_set_new(config, "quantization_config",
            json_pack("{s:s, s:i, s:i, s:b, s:s}", "quant_method", "gptq", "bits", 4, "group_size", GROUP, "desc_act",
                form->layers != HF_GROUPS, "lutra_zeros", "v2"));
    hf_save_json(config, folder, "config.json");
    json_decref(config);
    hf_write_tokenizer(w, folder, form);
    if (has_key(w, "pooling_type")) hf_write_pooling(w, folder);
    write_tensors(w, folder, form);
}
