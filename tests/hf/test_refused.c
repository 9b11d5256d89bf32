/* SPDX-License-Identifier: MIT
 *
 * Folders that are malformed, or that ask for what is not implemented: each refused, by file and key or tensor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hf/write_folder.h"
#include "lutra/status.h"
#include "unit/weights/build.h"
#include "make/make.h"

static struct lutra_error err;

/* hf/ anew: a model of `shape`. */
static void make_form(const char *shape, const struct hf_form *form)
{
    char command[320];
    struct weights *w;
    struct weights_make_settings s = weights_make_default();
    s.shape = shape;
    snprintf(command, sizeof command, "rm -rf '%s'; mkdir '%s'", in_folder("hf"), in_folder("hf"));
    assert_int_equal(system(command), 0);
    if (weights_make_model(in_folder("made.gguf"), &s, &err) < 0) fail_msg("%s", err.what);
    if (weights_open(&w, in_folder("made.gguf"), &err) < 0) fail_msg("%s", err.what);
    hf_write_folder(w, in_folder("hf"), form);
    weights_close(&w);
}

static void make(const char *shape, int n_shard)
{
    make_form(shape, &(struct hf_form){.n_shard = n_shard});
}

static void refused(int status, const char *file, const char *text)
{
    struct weights *w;
    err.what[0] = 0;
    int rc = weights_open(&w, in_folder("hf"), &err);
    if (rc != status) fail_msg("status %d, not %d, for '%s': %s", rc, status, text, err.what);
    assert_null(w);
    if (!strstr(err.what, text) || !strstr(err.what, file))
        fail_msg("'%s' tells nothing of '%s' in %s", err.what, text, file);
}

/* ---- values of the JSON files ---- */

/* The object that the path `a/b/2/c` ends in; its last part in *last. */
static json_t *walk(json_t *root, const char *path, char last[64])
{
    json_t *at = root;
    for (;;) {
        size_t n = strcspn(path, "/");
        snprintf(last, 64, "%.*s", (int)n, path);
        if (!path[n]) return at;
        path += n + 1;
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(last)) : json_object_get(at, last);
        assert_non_null(at);
    }
}

static void change(const char *file, const char *path, const char *value)
{
    char last[64], full[600];
    snprintf(full, sizeof full, "%s/%s", in_folder("hf"), file);
    json_t *root = json_load_file(full, 0, NULL), *at = walk(root, path, last);
    json_t *v = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(root && (!value || v));
    if (!v)
        json_object_del(at, last);
    else if (json_is_array(at))
        json_array_set_new(at, (size_t)atoi(last), v);
    else
        json_object_set_new(at, last, v);
    hf_save_json(root, in_folder("hf"), file);
    json_decref(root);
}

#define FMT LUTRA_E_FORMAT
#define UNS LUTRA_E_UNSUPPORTED

/* Quantized by this method, with more keys. */
#define BY(method, more, ...)                                                                                          \
    {                                                                                                                  \
        "tiny-llama", "config.json", "quantization_config", "{\"quant_method\":\"" method "\"," more "}", __VA_ARGS__  \
    }
#define CT(more, ...) BY("compressed-tensors", "\"format\":\"pack-quantized\"," more, __VA_ARGS__)

static const struct edit {
    const char *shape, *file, *path, *value; /* value NULL: removed */
    int status;
    const char *text;
} edits[] = {
    {"tiny-llama", "config.json", "architectures/0", "\"MambaForCausalLM\"", UNS, "'MambaForCausalLM'"},
    {"tiny-llama", "config.json", "architectures", NULL, FMT, "architectures"},
    {"tiny-llama", "config.json", "hidden_size", NULL, FMT, "'hidden_size' is missing"},
    {"tiny-llama", "config.json", "hidden_size", "\"256\"", FMT, "'hidden_size' is no count"},
    {"tiny-llama", "config.json", "num_hidden_layers", "-1", FMT, "'num_hidden_layers' is no count"},
    {"tiny-llama", "config.json", "num_attention_heads", "0", FMT, "'num_attention_heads' is 0"},
    {"tiny-llama", "config.json", "num_attention_heads", "8", FMT, "hf: tensor 'blk.0.attn_q.weight' has 256 rows"},
    {"tiny-llama", "config.json", "head_dim", "65", FMT, "'head_dim'"},
    {"tiny-llama", "config.json", "rms_norm_eps", "\"x\"", FMT, "'rms_norm_eps' is no number"},
    {"tiny-llama", "config.json", "hidden_act", "\"relu\"", UNS, "'hidden_act' asks for another activation"},
    {"tiny-llama", "config.json", "rope_scaling/rope_type", "\"dynamic\"", UNS, "'dynamic'"},
    {"tiny-llama", "config.json", "rope_scaling/rope_type", "\"longrope\"", UNS, "'longrope'"},
    {"tiny-llama", "config.json", "rope_scaling/high_freq_factor", "1", FMT, "'llama3'"},
    {"tiny-llama", "config.json", "num_local_experts", "8", UNS, "experts"},
    {"tiny-llama", "config.json", "quantization_config", "{\"quant_method\":\"bitsandbytes\"}", UNS, "'bitsandbytes'"},
    {"tiny-llama", "config.json", "quantization_config", "{\"quant_method\":\"gptq\",\"checkpoint_format\":\"marlin\"}",
        UNS, "GPTQ with checkpoint_format 'marlin'"},
    {"tiny-llama", "config.json", "quantization_config",
        "{\"quant_method\":\"gptq\",\"checkpoint_format\":\"bitblas\"}", UNS, "GPTQ with checkpoint_format 'bitblas'"},
    CT("\"transform_config\":{\"config_groups\":{\"R1\":{}}}", UNS, "compressed-tensors with 'transform_config'"),
    CT("\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}", UNS, "sparsity_config of the format 'sparse-24-b"),
    CT("\"config_groups\":{\"g\":{\"weights\":{\"type\":\"int\"},\"output_activations\":{\"num_bits\":8}}}", UNS,
        "compressed-tensors with output_activations of 'g'"),
    CT("\"config_groups\":{\"g\":{\"weights\":{\"type\":\"int\"},\"format\":\"int-quantized\"}}", UNS,
        "compressed-tensors with a group in the format 'int-quantized'"),
    CT("\"config_groups\":{\"g\":{\"weights\":{\"type\":\"int\"},\"input_activations\":null,\"output_activations\":"
       "null,"
       "\"format\":\"pack-quantized\"}},\"transform_config\":{\"config_groups\":{}},\"sparsity_config\":{\"format\":"
       "\"dense\"}",
        0, NULL),
    CT("\"config_groups\":{\"g\":{\"weights\":{\"type\":\"int\"},\"format\":null}},\"transform_config\":null,"
       "\"sparsity_config\":{}",
        0, NULL),
    BY("auto-round", "\"act_bits\":8", UNS, "auto-round with act_bits '8'"),
    BY("auto-round", "\"data_type\":\"mx_fp\"", UNS, "auto-round with data_type 'mx_fp'"),
    BY("auto-round", "\"packing_format\":\"auto_round:llm_compressor\"", UNS, "'auto_round:llm_compressor'"),
    BY("auto-round", "\"extra_config\":{\"lm_head\":{\"act_bits\":4}}", UNS, "auto-round with act_bits '4'"),
    BY("gptq", "\"act_bits\":8,\"data_type\":\"int\"", UNS, "gptq with act_bits '8'"),
    BY("gptq", "\"data_type\":\"int_asym_float_zp\"", UNS, "gptq with data_type 'int_asym_float_zp'"),
    BY("awq", "\"act_bits\":8", UNS, "awq with act_bits '8'"),
    BY("gptq", "\"act_bits\":null,\"data_type\":null", 0, NULL),
    BY("auto-round",
        "\"act_bits\":16,\"data_type\":\"int_sym\",\"packing_format\":\"auto_round\","
        "\"extra_config\":{\"lm_head\":{\"bits\":16,\"data_type\":\"float\",\"act_bits\":32}}",
        0, NULL),
    BY("intel/auto-round", "\"data_type\":\"int\",\"packing_format\":\"auto_round:gptq:exllamav2\"", 0, NULL),
    BY("auto-round", "\"data_type\":\"int\",\"packing_format\":\"auto_round:auto_awq\"", 0, NULL),
    BY("gptq", "\"lutra_zeros\":\"v3\"", FMT, "'lutra_zeros' is neither \"v1\" nor \"v2\""),
    BY("gptq", "\"lutra_zeros\":2", FMT, "'lutra_zeros' is neither \"v1\" nor \"v2\""),
    BY("gptq", "\"lutra_zeros\":null", 0, NULL),
    {"tiny-llama", "config.json", "layer_types", "[\"full_attention\",\"linear_attention\"]", UNS, "'layer_types'"},
    {"tiny-qwen2", "config.json", "use_sliding_window", "true", 0, NULL},
    {"tiny-gemma2", "config.json", "query_pre_attn_scalar", "224", UNS, "'query_pre_attn_scalar'"},
    {"tiny-gemma3", "config.json", "sliding_window_pattern", "5", UNS, "'sliding_window_pattern'"},
    {"tiny-gemma3", "config.json", "use_bidirectional_attention", "true", UNS, "embeddings"},
    {"tiny-smollm3", "config.json", "no_rope_layers", "[1,1,1,1]", UNS, "'no_rope_layers'"},
    {"tiny-command-r", "config.json", "use_qk_norm", "true", UNS, "'use_qk_norm'"},
    {"tiny-phi", "config.json", "rope_scaling/long_factor", "[1.0]", FMT, "'long_factor'"},
    {"tiny-mistral3", "config.json", "rope_scaling/truncate", "false", UNS, "'truncate'"},
    {"tiny-mistral3", "config.json", "rope_scaling/factor", NULL, UNS, "without a factor"},
    {"tiny-qwen3moe", "config.json", "norm_topk_prob", "false", UNS, "'norm_topk_prob'"},
    {"tiny-qwen3moe", "config.json", "norm_topk_prob", NULL, UNS, "'norm_topk_prob'"},
    {"tiny-qwen3moe", "config.json", "decoder_sparse_step", "2", UNS, "'decoder_sparse_step'"},
    {"tiny-qwen3moe", "config.json", "mlp_only_layers", "[0]", UNS, "'mlp_only_layers'"},
    {"tiny-qwen3moe", "config.json", "mlp_only_layers", "[]", 0, NULL},
    {"tiny-qwen3moe", "config.json", "num_experts", "0", FMT, "'num_experts' is 0"},
    {"tiny-qwen3moe", "config.json", "num_experts", "100000", FMT, "100000 experts"},
    {"tiny-qwen3moe", "config.json", "num_experts", NULL, FMT, "'num_experts' is missing"},
    {"tiny-qwen3moe", "config.json", "num_experts", "9", FMT,
        "hf: tensor 'model.layers.0.mlp.experts.8.gate_proj.weight' is missing"},
    {"tiny-qwen3moe", "config.json", "num_experts", "7", UNS,
        "hf: tensor 'model.layers.0.mlp.experts.7.down_proj.weight' is not part of"},
    {"tiny-qwen3moe", "config.json", "num_hidden_layers", "3", FMT,
        "hf: tensor 'model.layers.2.mlp.experts.0.gate_proj.weight' is missing"},
    {"tiny-qwen3moe", "config.json", "moe_intermediate_size", "128", FMT,
        "hf: tensor 'model.layers.0.mlp.experts.0.gate_proj.weight' is not 128 x 256"},
    {"tiny-qwen3moe", "config.json", "moe_intermediate_size", "0", FMT, "'moe_intermediate_size' is 0"},
    {"tiny-qwen35moe", "config.json", "shared_expert_intermediate_size", "\"x\"", FMT, "is no count"},
    {"tiny-qwen35moe", "config.json", "intermediate_size", NULL, 0, NULL},
    {"tiny-lfm2moe", "config.json", "use_expert_bias", "false", UNS, "'use_expert_bias'"},
    {"tiny-lfm2moe", "config.json", "num_dense_layers", "0", FMT,
        "hf: tensor 'model.layers.0.feed_forward.experts.0.w1.weight' is missing"},
    {"tiny-gpt-oss", "config.json", "swiglu_limit", "8.0", UNS, "'swiglu_limit'"},
    {"tiny-gpt-oss", "config.json", "rope_scaling/truncate", "true", UNS, "'truncate'"},
    {"tiny-gpt-oss", "config.json", "rope_scaling", NULL, FMT, "'rope_parameters' is missing"},
    {"tiny-gpt-oss", "config.json", "quantization_config", "{\"quant_method\":\"mxfp4\"}", 0, NULL},
    {"tiny-qwen3moe", "config.json", "quantization_config", "{\"quant_method\":\"mxfp4\"}", UNS, "'mxfp4'"},
    {"tiny-gemma4-moe", "config.json", "enable_moe_block", "false", UNS, "'num_experts' asks for experts"},
    {"tiny-gemma4", "config.json", "num_experts", "8", UNS, "'num_experts' asks for experts"},
    {"tiny-gemma4", "config.json", "use_bidirectional_attention", "\"all\"", UNS, "embeddings"},
    {"tiny-gemma4", "config.json", "num_kv_shared_layers", "7", FMT, "'num_kv_shared_layers' is out of range"},
    {"tiny-gemma4", "config.json", "global_head_dim", "0", FMT, "'global_head_dim'"},
    {"tiny-gemma4", "config.json", "layer_types/1", "\"linear_attention\"", UNS, "'layer_types'"},
    {"tiny-gemma4", "config.json", "rope_parameters/full_attention/rope_type", "\"default\"", UNS, "without windows"},
    {"tiny-gemma4", "config.json", "rope_parameters/sliding_attention/rope_type", "\"linear\"", UNS, "with windows"},
    {"tiny-granitehybrid", "config.json", "mamba_conv_bias", "false", UNS, "'mamba_conv_bias'"},
    {"tiny-granitehybrid", "config.json", "mamba_proj_bias", "true", UNS, "'mamba_proj_bias'"},
    {"tiny-granitehybrid", "config.json", "time_step_limit", "[0.0,0.1]", UNS, "'time_step_limit' asks for bounds"},
    {"tiny-granitehybrid", "config.json", "time_step_limit", "[0.01,null]", UNS, "'time_step_limit' asks for bounds"},
    {"tiny-granitehybrid", "config.json", "layer_types/1", "\"sliding_attention\"", UNS, "'layer_types'"},
    {"tiny-granitehybrid", "config.json", "position_embedding_type", "\"alibi\"", UNS, "'position_embedding_type'"},
    {"tiny-granitehybrid", "config.json", "position_embedding_type", "\"rope\"", 0, NULL},
    {"tiny-granitehybrid", "config.json", "normalization_function", "\"layernorm\"", UNS, "'normalization_function'"},
    {"tiny-granitehybrid", "config.json", "mamba_expand", "0", FMT, "'mamba_expand' is out of range"},
    {"tiny-granitehybrid", "config.json", "mamba_n_heads", "0", FMT, "'mamba_n_heads' does not divide"},
    {"tiny-granitehybrid", "config.json", "mamba_n_heads", "5", FMT, "'mamba_n_heads' does not divide"},
    {"tiny-granitehybrid-moe", "config.json", "mamba_d_head", "32", FMT, "'mamba_d_head' is not the layer's share"},
    {"tiny-granitehybrid", "config.json", "shared_intermediate_size", "\"x\"", FMT, "is no count"},
    {"tiny-granitehybrid", "config.json", "layer_types", "[\"attention\",\"attention\",\"attention\",\"attention\"]", 0,
        NULL},
    {"tiny-granitehybrid-moe", "config.json", "layer_types", "[\"attention\",\"attention\",\"attention\"]", 0, NULL},
    {"tiny-granitemoe-shared", "config.json", "shared_intermediate_size", "\"x\"", FMT, "is no count"},
    {"tiny-granitehybrid-moe", "config.json", "num_local_experts", "9", FMT,
        "hf: tensor 'model.layers.0.block_sparse_moe.input_linear.weight' is not 9 x 512 x 256"},
    {"tiny-granitehybrid-moe", "config.json", "num_hidden_layers", "4", UNS, "'layer_types'"},
    {"tiny-llama", "config.json", "tie_word_embeddings", "false", 0, NULL},
    {"tiny-qwen2", "config.json", "tie_word_embeddings", "false", FMT, "'lm_head.weight' is missing"},
    {"tiny-bert", "config.json", "hidden_act", "\"relu\"", UNS, "'hidden_act' asks for another activation"},
    {"tiny-bert", "config.json", "position_embedding_type", "\"relative_key\"", UNS, "relative positions"},
    {"tiny-bert", "1_Pooling/config.json", "pooling_mode_max_tokens", "true", UNS, "another pooling"},
    {"tiny-bert", "1_Pooling/config.json", "pooling_mode_cls_token", "false", UNS, "another pooling"},
    {"tiny-bert", "tokenizer.json", "model/type", "\"BPE\"", UNS, "no WordPiece"},
    {"tiny-bert", "tokenizer.json", "normalizer/type", "\"NFC\"", UNS, "another normalizer"},
    {"tiny-bert", "tokenizer.json", "pre_tokenizer/type", "\"Whitespace\"", UNS, "another pre_tokenizer"},
    {"tiny-bert", "tokenizer.json", "model/max_input_chars_per_word", "50", UNS, "'max_input_chars_per_word'"},
    {"tiny-bert", "tokenizer.json", "post_processor/single/0/SpecialToken/id", "\"[MASK]\"", UNS, "post_processor"},
    {"tiny-bert", "tokenizer_config.json", "cls_token", NULL, FMT, "'cls_token'"},
    {"tiny-nomic-bert", "config.json", "activation_function", "\"gelu\"", UNS, "another gate"},
    {"tiny-nomic-bert", "config.json", "prenorm", "true", UNS, "'prenorm'"},
    {"tiny-nomic-bert", "config.json", "moe_every_n_layers", "2", UNS, "'moe_every_n_layers'"},
    {"tiny-nomic-bert", "config.json", "n_embd", NULL, FMT, "'hidden_size' is missing"},
    {"tiny-gemma-embedding", "config.json", "use_bidirectional_attention", "false", UNS, "a causal mask"},
    {"tiny-gemma-embedding", "2_Dense/config.json", "bias", "true", UNS, "with a bias"},
    {"tiny-gemma-embedding", "3_Dense/config.json", "activation_function", "\"torch.nn.modules.activation.Tanh\"", UNS,
        "an activation"},
    {"tiny-gemma-embedding", "2_Dense/config.json", "out_features", "0", FMT, "is no count"},
    {"tiny-llama", "tokenizer.json", "model/type", "\"Unigram\"", UNS, "'Unigram'"},
    {"tiny-llama", "tokenizer.json", "model/vocab", NULL, FMT, "no 'vocab'"},
    {"tiny-llama", "tokenizer.json", "model/vocab/he", "-3", FMT, "without an id"},
    {"tiny-llama", "tokenizer.json", "model/vocab/he", "3", FMT, "two tokens of one id"},
    {"tiny-llama", "tokenizer.json", "model/vocab/he", "512", FMT, "only 512 embeddings"},
    {"tiny-llama", "tokenizer.json", "model/merges/3", "\"ab\"", FMT, "merge 3"},
    {"tiny-llama", "tokenizer.json", "model/merges/3", "[\"a\"]", FMT, "merge 3"},
    {"tiny-llama", "tokenizer.json", "model/ignore_merges", "false", 0, NULL},
    {"tiny-qwen2", "tokenizer.json", "model/ignore_merges", "true", 0, NULL},
    {"tiny-llama", "tokenizer.json", "model/end_of_word_suffix", "\"</w>\"", UNS, "borders of words"},
    {"tiny-llama", "tokenizer.json", "added_tokens/0", "{\"id\":1}", FMT, "added token"},
    {"tiny-llama", "tokenizer.json", "normalizer", "{\"type\":\"Lowercase\"}", UNS, "'Lowercase'"},
    {"tiny-llama", "tokenizer.json", "pre_tokenizer/pretokenizers/0/pattern/Regex", "\"[a-z]+\"", UNS, "[a-z]+"},
    {"tiny-llama", "tokenizer.json", "pre_tokenizer/pretokenizers/0/behavior", "\"Contiguous\"", UNS, "step 1"},
    {"tiny-llama", "tokenizer.json", "pre_tokenizer", "null", UNS, "its normalizer or pre_tokenizer"},
    {"tiny-llama", "tokenizer.json", "post_processor/single/0/SpecialToken/id", "\"<|eot_id|>\"", UNS,
        "post_processor"},
};

static void try_edit(const struct edit *e)
{
    change(e->file, e->path, e->value);
    if (e->status) {
        refused(e->status, strncmp(e->text, "hf:", 3) == 0 ? "" : e->file, e->text);
        return;
    }
    struct weights *w;
    if (weights_open(&w, in_folder("hf"), &err) < 0) fail_msg("%s: %s", e->path, err.what);
    weights_close(&w);
}

/* Each shape's folder is made once; a file that an edit changed is written back behind it. */
static void test_values(void **state)
{
    enum { N_EDIT = sizeof edits / sizeof *edits };
    static bool tried[N_EDIT];
    (void)state;
    for (size_t first = 0; first < N_EDIT; first++) {
        if (tried[first]) continue;
        make(edits[first].shape, 1);
        for (size_t i = first; i < N_EDIT; i++) {
            char path[600];
            if (strcmp(edits[i].shape, edits[first].shape) != 0) continue;
            snprintf(path, sizeof path, "%s/%s", in_folder("hf"), edits[i].file);
            json_t *before = json_load_file(path, 0, NULL);
            try_edit(&edits[i]);
            hf_save_json(before, in_folder("hf"), edits[i].file);
            json_decref(before);
            tried[i] = true;
        }
    }
}

/* ---- safetensors ---- */

/* model.safetensors of one header and n bytes of data. */
static void save_tensors(const char *header, size_t n)
{
    char path[600];
    uint64_t length = strlen(header);
    snprintf(path, sizeof path, "%s/model.safetensors", in_folder("hf"));
    FILE *f = fopen(path, "wb");
    fwrite(&length, 8, 1, f);
    fputs(header, f);
    for (size_t i = 0; i < n; i++) fputc(0, f);
    fclose(f);
}

static void test_safetensors(void **state)
{
    static const struct {
        const char *header;
        size_t n;
        int status;
        const char *text;
    } cases[] = {
        {"", 8, FMT, "header"},
        {"[]", 0, FMT, "no object"},
        {"{\"a\":1}", 0, FMT, "no 'dtype'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":1}", 4, FMT, "duplicate"},
        {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, FMT, "a name of 0"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, UNS, "'F4'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, FMT, "no count"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, FMT, "no 'shape'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4, FMT, "2^63"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, FMT, "8 dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, FMT, "'data_offsets'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, FMT, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, FMT, "size"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, FMT, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, FMT, "before it"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, FMT, "at its end"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
            8, FMT, "overlaps"},
    };
    (void)state;
    make("tiny-llama", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        save_tensors(cases[i].header, cases[i].n);
        refused(cases[i].status, "model.safetensors", cases[i].text);
    }
    /* Well-formed, but of no type a model has. */
    save_tensors("{\"lm_head.weight\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8);
    refused(UNS, "hf", "type I64");
}

/* The first `from` in the header of model.safetensors becomes `to`, which is as long. */
static void edit_header(const char *from, const char *to)
{
    char path[600];
    uint64_t n;
    snprintf(path, sizeof path, "%s/model.safetensors", in_folder("hf"));
    FILE *f = fopen(path, "r+b");
    assert_int_equal(fread(&n, 8, 1, f), 1);
    char *text = calloc(n + 1, 1);
    assert_int_equal(fread(text, n, 1, f), 1);
    char *at = strstr(text, from);
    if (!at || strlen(from) != strlen(to)) fail_msg("no '%s' in the header", from);
    fseek(f, 8 + (long)(at - text), SEEK_SET);
    fwrite(to, strlen(to), 1, f);
    fclose(f);
    free(text);
}

/* Experts' tensors that are missing, misshapen, of another type, or too many. */
static void test_experts(void **state)
{
    static const struct {
        const char *shape, *from, *to;
        int status;
        const char *text;
    } cases[] = {
        {"tiny-qwen3moe", "0.mlp.experts.3.up_proj", "0.mlp.experts.9.up_proj", FMT,
            "'model.layers.0.mlp.experts.3.up_proj.weight' is missing"},
        {"tiny-lfm2moe", "1.feed_forward.experts.3.w2", "1.feed_forward.experts.3.w4", FMT,
            "'model.layers.1.feed_forward.experts.3.w2.weight' is missing"},
        {"tiny-qwen35moe", "3.mlp.experts.down_proj", "3.mlp.experts.town_proj", FMT,
            "'model.layers.3.mlp.experts.0.down_proj.weight' is missing"},
        {"tiny-qwen35moe", "[8,512,256]", "[8,256,512]", FMT, "experts.gate_up_proj' is not 8 x 512 x 256"},
        {"tiny-qwen35moe", "[8,256,256]", "[4,512,256]", FMT, "experts.down_proj' is not 8 x 256 x 256"},
        {"tiny-granitehybrid-moe", "0.block_sparse_moe.input_lin", "0.block_sparse_moe.input_men", FMT,
            "'model.layers.0.block_sparse_moe.input_linear.weight' is missing"},
        {"tiny-gpt-oss", "experts.gate_up_proj_bias", "experts.gate_up_proj_bios", FMT,
            "experts.gate_up_proj_bias' is missing"},
        {"tiny-gpt-oss", "[6,256,512]", "[6,512,256]", FMT, "experts.gate_up_proj' is not 6 x 256 x 512"},
        {"tiny-gpt-oss", "0.mlp.experts.down_proj\"", "0.mlp.experts.down_prok\"", FMT,
            "'model.layers.0.mlp.experts.down_proj' is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_form(
            cases[i].shape, &(struct hf_form){.n_shard = 1,
                                .together = !strstr(cases[i].shape, "qwen3moe") && !strstr(cases[i].shape, "lfm2")});
        edit_header(cases[i].from, cases[i].to);
        refused(cases[i].status, "hf", cases[i].text);
    }
}

static void test_cut_short(void **state)
{
    char path[600];
    (void)state;
    make("tiny-llama", 1);
    snprintf(path, sizeof path, "%s/model.safetensors", in_folder("hf"));
    assert_int_equal(truncate(path, 100000), 0);
    refused(FMT, "model.safetensors", "outside");
    assert_int_equal(truncate(path, 100), 0);
    refused(FMT, "model.safetensors", "cut short");
    assert_int_equal(truncate(path, 4), 0);
    refused(FMT, "model.safetensors", "no safetensors");
    assert_int_equal(truncate(path, 0), 0);
    refused(FMT, "model.safetensors", "empty");
}

/* ---- files ---- */

static void remove_file(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", in_folder("hf"), name);
    assert_int_equal(unlink(path), 0);
}

static void test_index(void **state)
{
    static const char index[] = "model.safetensors.index.json";
    (void)state;
    make("tiny-llama", 2);
    change(index, "weight_map/model.norm.weight", "\"../x.safetensors\"");
    refused(FMT, index, "'model.norm.weight' lies in no file of this folder");
    change(index, "weight_map/model.norm.weight", NULL);
    refused(FMT, index, "'model.norm.weight' lies in another file");
    make("tiny-llama", 2);
    change(index, "weight_map/new.weight", "\"model-00001-of-00002.safetensors\"");
    refused(FMT, index, "tensors");
    change(index, "weight_map", "3");
    refused(FMT, index, "no 'weight_map'");
    make("tiny-llama", 2);
    remove_file("model-00002-of-00002.safetensors");
    refused(LUTRA_E_IO, "model-00002-of-00002.safetensors", "cannot open");
}

/* What generation_config.json says of ends and sampling becomes keys. */
static void test_generation(void **state)
{
    char path[600];
    struct weights *w;
    uint32_t eot = 0, eom = 0, top_k = 0;
    float temp = 0;
    static const char text[] =
        "{\"eos_token_id\": [510, 509, 1], \"temperature\": 0.5, \"top_k\": 20, \"top_p\": \"x\"}";
    (void)state;
    make("tiny-llama", 1);
    snprintf(path, sizeof path, "%s/generation_config.json", in_folder("hf"));
    save(path, text, sizeof text - 1);
    if (weights_open(&w, in_folder("hf"), &err) < 0) fail_msg("%s", err.what);
    assert_int_equal(weights_get_u32(w, "tokenizer.ggml.eot_token_id", &eot, &err), 0);
    assert_int_equal(weights_get_u32(w, "tokenizer.ggml.eom_token_id", &eom, &err), 0);
    assert_int_equal(weights_get_u32(w, "general.sampling.top_k", &top_k, &err), 0);
    assert_int_equal(weights_get_f32(w, "general.sampling.temp", &temp, &err), 0);
    assert_true(eot == 509 && eom == 1 && top_k == 20 && temp == 0.5f); /* 510 is eos */
    assert_null(weights_kv_find(w, "general.sampling.top_p"));
    weights_close(&w);
}

static void test_missing(void **state)
{
    char path[600];
    (void)state;
    make("tiny-llama", 1);
    remove_file("tokenizer.json");
    refused(LUTRA_E_IO, "tokenizer.json", "cannot open");
    remove_file("model.safetensors");
    snprintf(path, sizeof path, "%s/pytorch_model.bin", in_folder("hf"));
    save(path, "x", 1);
    refused(UNS, "hf", "Python pickles");
    remove_file("config.json");
    refused(LUTRA_E_IO, "hf", "without a config.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_generation),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
