/* SPDX-License-Identifier: MIT
 *
 * config.json as `{arch}.` keys.  What would change the result and has no key here is refused by name.
 */
#include "weights/folder/folder_impl.h"

#include <math.h>
#include <string.h>

/* ---- values ---- */

json_t *config_get(const struct folder *f, const char *key)
{
    json_t *v = json_object_get(f->config, key);
    return json_is_null(v) ? NULL : v;
}

int config_wrong(const struct folder *f, const char *key, const char *what, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s/config.json: '%s' %s", f->label, key, what);
}

int config_count(const struct folder *f, const char *key, uint64_t *out, struct lutra_error *err)
{
    const json_t *v = config_get(f, key);
    if (!v) return config_wrong(f, key, "is missing", err);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > UINT32_MAX)
        return config_wrong(f, key, "is no count", err);
    *out = (uint64_t)json_integer_value(v);
    return 0;
}

/* The same; *out stays where the key is missing. */
static int opt_count(const struct folder *f, const char *key, uint64_t *out, struct lutra_error *err)
{
    return config_get(f, key) ? config_count(f, key, out, err) : 0;
}

int config_number(const struct folder *f, const json_t *in, const char *key, double *out, struct lutra_error *err)
{
    const json_t *v = json_object_get(in, key);
    if (!v || json_is_null(v)) return 0;
    if (!json_is_number(v)) return config_wrong(f, key, "is no number", err);
    *out = json_number_value(v);
    return fabs(*out) <= 3e38 ? 0 : config_wrong(f, key, "does not fit in a float", err);
}

bool config_true(const struct folder *f, const char *key)
{
    return json_is_true(config_get(f, key));
}

int folder_lacks(const struct folder *f, struct lutra_error *err, const char *key, const char *what)
{
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "%s/config.json: '%s' asks for %s: not implemented", f->label, key, what);
}

const char *folder_key(const struct folder *f, const char *suffix, char out[96])
{
    snprintf(out, 96, "%s.%s", f->family->arch, suffix);
    return out;
}

void folder_put_u32(struct folder *f, const char *suffix, uint64_t value)
{
    char key[96];
    gguf_writer_put_u32(f->keys, folder_key(f, suffix, key), (uint32_t)value);
}

void folder_put_f32(struct folder *f, const char *suffix, double value)
{
    char key[96];
    gguf_writer_put_f32(f->keys, folder_key(f, suffix, key), (float)value);
}

void folder_put_str(struct folder *f, const char *suffix, const char *value)
{
    char key[96];
    gguf_writer_put_str(f->keys, folder_key(f, suffix, key), value);
}

/* ---- which family ---- */

static int find_family(struct folder *f, json_t *root, struct lutra_error *err)
{
    json_t *list = json_object_get(root, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    if (!name) return config_wrong(f, "architectures", "names none", err);
    f->family = family_find(name, &f->head);
    if (f->family) return 0;
    return lutra_fail(
        err, LUTRA_E_UNSUPPORTED, "%s/config.json: architecture '%s' is not supported", f->label, show_name(name).s);
}

/* The text part's keys before the file's own before the class's. */
static int merge(struct folder *f, json_t *root, struct lutra_error *err)
{
    json_t *text = json_object_get(root, "text_config"), *defaults = json_loads(f->family->defaults, 0, NULL);
    f->config = json_is_object(text) ? json_copy(text) : json_object();
    int rc = !f->config || !defaults ? -1 : json_object_update_missing(f->config, root);
    if (rc == 0) rc = json_object_update_missing(f->config, defaults);
    json_decref(defaults);
    if (rc == 0) f->family = family_settle(f);
    return rc == 0 ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "%s/config.json: out of memory", f->label);
}

/* Nomic's own class has GPT-2's names for what others call otherwise. */
static int rename_keys(struct folder *f, struct lutra_error *err)
{
    static const char *const names[][2] = {{"n_embd", "hidden_size"}, {"n_layer", "num_hidden_layers"},
        {"n_head", "num_attention_heads"}, {"n_inner", "intermediate_size"}, {"rotary_emb_base", "rope_theta"},
        {"layer_norm_epsilon", "layer_norm_eps"}, {"max_trained_positions", "max_position_embeddings"}};
    if (strcmp(f->family->arch, "nomic-bert") != 0) return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *v = config_get(f, names[i][0]);
        if (v && json_object_set(f->config, names[i][1], v) < 0)
            return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s/config.json: out of memory", f->label);
    }
    return 0;
}

/* Rotation is `rope_parameters` (transformers 5), one for all layers or one per kind of layer; or `rope_scaling`. */
static void find_rope(struct folder *f)
{
    json_t *rope = config_get(f, "rope_parameters"), *of_kind = json_object_get(rope, "full_attention");
    f->window_rope = json_object_get(rope, "sliding_attention");
    if (json_is_object(of_kind)) rope = of_kind;
    f->rope = rope ? rope : config_get(f, "rope_scaling");
}

/* ---- sizes ---- */

/* Granite 4's class is one for models with experts and without. */
static bool has_experts(const struct folder *f)
{
    if (!(f->family->flags & FAMILY_EXPERTS)) return false;
    return !(f->family->flags & FAMILY_GRANITE4) || json_integer_value(config_get(f, "num_local_experts")) != 0;
}

static int read_heads(struct folder *f, struct lutra_error *err)
{
    uint64_t d_model;
    double part = 1;
    TRY(config_count(f, "hidden_size", &d_model, err));
    f->d_model = d_model;
    TRY(config_count(f, "num_attention_heads", &f->n_head, err));
    if (f->n_head == 0) return config_wrong(f, "num_attention_heads", "is 0", err);
    f->n_kv_head = f->n_head;
    f->d_head = d_model / f->n_head;
    TRY(opt_count(f, "num_key_value_heads", &f->n_kv_head, err));
    TRY(opt_count(f, "head_dim", &f->d_head, err));
    if (f->n_kv_head == 0 || f->n_kv_head > f->n_head)
        return config_wrong(f, "num_key_value_heads", "is out of range", err);
    if (f->n_head > 4096) return config_wrong(f, "num_attention_heads", "is out of range", err);
    if (f->d_head == 0 || f->d_head > 4096 || f->d_head % 2)
        return config_wrong(f, "head_dim", "is 0, odd or too large", err);
    TRY(config_number(f, f->config, "partial_rotary_factor", &part, err));
    TRY(config_number(f, f->rope, "partial_rotary_factor", &part, err));
    if (!(part > 0 && part <= 1)) return config_wrong(f, "partial_rotary_factor", "is outside 0..1", err);
    f->n_rot = (uint64_t)(part * (double)f->d_head);
    folder_put_u32(f, "attention.head_count", f->n_head);
    if (f->family->flags & FAMILY_GEMMA4) return 0; /* the others by layer: family.c */
    if (!(f->family->flags & (FAMILY_CONV | FAMILY_MAMBA))) folder_put_u32(f, "attention.head_count_kv", f->n_kv_head);
    folder_put_u32(f, "attention.key_length", f->d_head);
    folder_put_u32(f, "attention.value_length", f->d_head);
    folder_put_u32(f, "rope.dimension_count", f->n_rot);
    return 0;
}

/* LFM2's class makes a feed-forward of another size than config.json says. */
static int adjust_feed_forward(struct folder *f, uint64_t *n, struct lutra_error *err)
{
    double multiplier = 1;
    uint64_t unit = 256;
    if (!(f->family->flags & FAMILY_CONV)) return 0;
    TRY(opt_count(f, "block_ff_dim", n, err)); /* as older files call it */
    if (!config_true(f, "block_auto_adjust_ff_dim")) return 0;
    TRY(config_number(f, f->config, "block_ffn_dim_multiplier", &multiplier, err));
    TRY(opt_count(f, "block_multiple_of", &unit, err));
    if (unit < 1 || !(multiplier > 0 && multiplier < 64))
        return config_wrong(f, "block_multiple_of", "is out of range", err);
    *n = (uint64_t)(multiplier * (double)(2 * *n / 3));
    *n = (*n + unit - 1) / unit * unit;
    return 0;
}

static int read_sizes(struct folder *f, struct lutra_error *err)
{
    bool longer = strcmp(f->family->arch, "command-r") == 0 && config_get(f, "model_max_length");
    const char *context = longer ? "model_max_length" : "max_position_embeddings";
    double eps = -1;
    uint64_t n;
    TRY(config_count(f, context, &n, err));
    folder_put_u32(f, "context_length", n);
    TRY(config_count(f, "hidden_size", &n, err));
    folder_put_u32(f, "embedding_length", n);
    bool by_layer = f->family->flags & FAMILY_GEMMA4,
         of_experts = f->family->flags & FAMILY_EXPERTS && !config_get(f, "intermediate_size");
    if (!by_layer && !of_experts) {
        bool shared = f->family->flags & FAMILY_GRANITE4 && !has_experts(f); /* the one that experts lie beside */
        TRY(config_count(f, shared ? "shared_intermediate_size" : "intermediate_size", &n, err));
        TRY(adjust_feed_forward(f, &n, err));
        folder_put_u32(f, "feed_forward_length", n);
    }
    TRY(config_count(f, "num_hidden_layers", &f->n_layer, err));
    TRY(config_number(f, f->config, f->family->eps, &eps, err));
    if (eps < 0) return config_wrong(f, f->family->eps, "is missing or negative", err);
    bool layer_norm = f->family->flags & FAMILY_LAYER_NORM;
    folder_put_f32(f, layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", eps);
    return read_heads(f, err);
}

/* ---- experts ---- */

/* The first of two keys that is there. */
static const char *either(const struct folder *f, const char *key, const char *other)
{
    return config_get(f, key) || !config_get(f, other) ? key : other;
}

static int read_experts(struct folder *f, struct lutra_error *err)
{
    uint64_t n_used;
    const char *count = either(f, "num_experts", "num_local_experts"),
               *used = either(f, "num_experts_per_tok", "experts_per_token"),
               *size = f->family->flags & (FAMILY_GPT_OSS | FAMILY_GRANITE4) ? "intermediate_size"
                                                                             : "moe_intermediate_size";
    TRY(config_count(f, count, &f->n_expert, err));
    TRY(config_count(f, used, &n_used, err));
    TRY(config_count(f, size, &f->d_ff_expert, err));
    if (f->n_expert == 0) return config_wrong(f, count, "is 0", err);
    if (f->d_ff_expert == 0) return config_wrong(f, size, "is 0", err);
    folder_put_u32(f, "expert_count", f->n_expert);
    folder_put_u32(f, "expert_used_count", n_used);
    if (!(f->family->flags & FAMILY_GRANITE4)) folder_put_u32(f, "expert_feed_forward_length", f->d_ff_expert);
    return 0;
}

/* ---- windows ---- */

/* What `layer_types` says must be what the architecture has built in. */
static int check_layer_types(struct folder *f, bool window, struct lutra_error *err)
{
    unsigned own = FAMILY_RECURRENT | FAMILY_CONV | FAMILY_GEMMA4 | FAMILY_GRANITE4;
    const json_t *types = f->family->flags & own ? NULL : config_get(f, "layer_types");
    uint64_t period = (uint64_t)f->family->window_period, pattern = period;
    if (period) TRY(opt_count(f, "sliding_window_pattern", &pattern, err));
    if (window && pattern != period)
        return folder_lacks(f, err, "sliding_window_pattern", "another pattern of windows");
    for (size_t i = 0; i < json_array_size(types) && i < f->n_layer; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        bool inside = window && (!period || (i + 1) % period != 0);
        if (!type || strcmp(type, inside ? "sliding_attention" : "full_attention") != 0)
            return folder_lacks(f, err, "layer_types", "other kinds of layers, or another order of them");
    }
    return 0;
}

static int read_window(struct folder *f, struct lutra_error *err)
{
    uint64_t window = 0, first = f->n_layer;
    bool counts = !(f->family->flags & FAMILY_WINDOW_USED);
    if (counts) TRY(opt_count(f, "sliding_window", &window, err));
    if (!counts && config_true(f, "use_sliding_window")) {
        TRY(opt_count(f, "max_window_layers", &first, err));
        if (first < f->n_layer) return folder_lacks(f, err, "use_sliding_window", "windows in the last layers");
    }
    if (window) folder_put_u32(f, "attention.sliding_window", window);
    return check_layer_types(f, window != 0, err);
}

/* ---- rotation ---- */

/* The factor of scores in transformers' terms; GGUF's is further multiplied by what YaRN's paper recommends. */
static int put_yarn_magnitude(struct folder *f, double factor, struct lutra_error *err)
{
    double all = 0, one = 1, given = 0, usual = factor > 1 ? 0.1 * log(factor) + 1 : 1, implied = usual;
    TRY(config_number(f, f->rope, "mscale", &one, err));
    TRY(config_number(f, f->rope, "mscale_all_dim", &all, err));
    TRY(config_number(f, f->rope, "attention_factor", &given, err));
    if (all != 0) {
        folder_put_f32(f, "rope.scaling.yarn_log_multiplier", all);
        implied = factor > 1 ? usual / (0.1 * all * log(factor) + 1) : 1;
    }
    if (given <= 0) given = implied * (all != 0 && factor > 1 ? (0.1 * one * log(factor) + 1) / usual : 1);
    if (fabs(given / implied - 1) > 1e-6) folder_put_f32(f, "rope.scaling.attn_factor", given / implied);
    return 0;
}

static int read_yarn(struct folder *f, double factor, struct lutra_error *err)
{
    uint64_t original;
    double fast = 32, slow = 1;
    TRY(config_count(f, "max_position_embeddings", &original, err));
    const json_t *given = json_object_get(f->rope, "original_max_position_embeddings");
    if (json_is_integer(given) && json_integer_value(given) > 0) original = (uint64_t)json_integer_value(given);
    TRY(config_number(f, f->rope, "beta_fast", &fast, err));
    TRY(config_number(f, f->rope, "beta_slow", &slow, err));
    bool whole = !json_is_false(json_object_get(f->rope, "truncate"));
    if (whole == !!(f->family->flags & FAMILY_GPT_OSS))
        return folder_lacks(f, err, "truncate", whole ? "YaRN with whole pairs" : "YaRN without whole pairs");
    folder_put_str(f, "rope.scaling.type", "yarn");
    folder_put_f32(f, "rope.scaling.factor", factor);
    folder_put_u32(f, "rope.scaling.original_context_length", original);
    folder_put_f32(f, "rope.scaling.yarn_beta_fast", fast);
    folder_put_f32(f, "rope.scaling.yarn_beta_slow", slow);
    return put_yarn_magnitude(f, factor, err);
}

static int read_rope(struct folder *f, struct lutra_error *err)
{
    const char *type = json_string_value(json_object_get(f->rope, "rope_type"));
    double base = 10000, factor = 0;
    TRY(config_number(f, f->config, "rope_theta", &base, err));
    TRY(config_number(f, f->rope, "rope_theta", &base, err));
    TRY(config_number(f, f->rope, "factor", &factor, err));
    folder_put_f32(f, "rope.freq_base", base);
    if (!type) type = json_string_value(json_object_get(f->rope, "type"));
    if (!type || strcmp(type, "default") == 0 || strcmp(type, "mrope") == 0) return 0;
    if (strcmp(type, "llama3") == 0) return 0; /* a tensor of factors: tensors.c */
    if (strcmp(type, "proportional") == 0 && f->family->flags & FAMILY_GEMMA4 && (factor == 0 || factor == 1)) return 0;
    if ((strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0) && strcmp(f->family->arch, "phi3") == 0) return 0;
    if (!(factor > 0) || (strcmp(type, "linear") != 0 && strcmp(type, "yarn") != 0))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "%s/config.json: 'rope_scaling' of type '%s' is not implemented for %s%s", f->label, show_name(type).s,
            f->family->name, factor > 0 ? "" : " without a factor");
    if (strcmp(type, "yarn") == 0) return read_yarn(f, factor, err);
    folder_put_str(f, "rope.scaling.type", "linear");
    folder_put_f32(f, "rope.scaling.factor", factor);
    return 0;
}

/* ---- the rest ---- */

static int check_activation(struct folder *f, struct lutra_error *err)
{
    const char *key = config_get(f, "hidden_activation") ? "hidden_activation" : "hidden_act";
    const char *name = json_string_value(config_get(f, key));
    bool gelu = f->family->flags & FAMILY_GELU;
    /* Gemma's first files say `gelu`, and their class takes the tanh form all the same. */
    bool old = strcmp(f->family->arch, "gemma") == 0 && strcmp(key, "hidden_act") == 0;
    if (!name || old) return 0;
    if (strcmp(f->family->arch, "bert") == 0 && strcmp(name, "gelu") == 0) return 0; /* the exact one */
    const char *other = f->family->flags & FAMILY_RELU2 ? "relu2" : "silu";
    if (gelu ? !strcmp(name, "gelu_pytorch_tanh") || !strcmp(name, "gelu_new") : !strcmp(name, other)) return 0;
    return folder_lacks(f, err, key, "another activation");
}

/* What nobody may ignore. */
static int check_absent(struct folder *f, struct lutra_error *err)
{
    static const char *const counts[] = {"num_local_experts", "num_experts", "n_routed_experts"};
    bool reads =
        f->family->flags & FAMILY_EXPERTS || (f->family->flags & FAMILY_GEMMA4 && config_true(f, "enable_moe_block"));
    for (size_t i = 0; !reads && i < sizeof counts / sizeof *counts; i++)
        if (json_integer_value(config_get(f, counts[i])) > 0) return folder_lacks(f, err, counts[i], "experts");
    if (config_get(f, "clip_qkv")) return folder_lacks(f, err, "clip_qkv", "clamped attention");
    return folder_read_packing(f, err);
}

static int read_all(struct folder *f, struct lutra_error *err)
{
    TRY(rename_keys(f, err));
    TRY(check_absent(f, err));
    TRY(check_activation(f, err));
    gguf_writer_put_str(f->keys, "general.architecture", f->family->arch);
    find_rope(f);
    TRY(read_sizes(f, err));
    if (has_experts(f)) TRY(read_experts(f, err));
    TRY(read_window(f, err));
    TRY(read_rope(f, err));
    f->tied = config_true(f, "tie_word_embeddings") || f->head != FAMILY_SPEAKS; /* a judge has no lm_head */
    if (f->family->flags & FAMILY_ENCODER) f->tied = true;
    if (f->head != FAMILY_SPEAKS) gguf_writer_put_str(f->keys, "lutra.prm.kind", "value");
    if (f->head == FAMILY_JUDGES_STEPS) gguf_writer_put_str(f->keys, "lutra.prm.mark", "<extra_0>");
    TRY(folder_read_pooling(f, err));
    return f->family->more ? f->family->more(f, err) : 0;
}

int folder_read_config(struct folder *f, struct lutra_error *err)
{
    json_t *root;
    TRY(folder_json(f, "config.json", false, &root, err));
    int rc = find_family(f, root, err);
    if (rc == 0) rc = merge(f, root, err);
    json_decref(root);
    return rc < 0 ? rc : read_all(f, err);
}
