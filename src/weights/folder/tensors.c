/* SPDX-License-Identifier: MIT
 *
 * A folder's tensors under GGUF's names.  Matrices are views of the mapped files, but for q and k of families whose
 * rows are reordered: computed when they are fetched.  Vectors become floats at once, as GGUF has them.
 */
#include "quant/quant.h"
#include "weights/folder/folder_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DRAFTS = 64 /* MTP blocks */ };

/* ---- names ---- */

struct renaming {
    const char *from, *to;
};

static const struct renaming outside[] = {
    {"model.embed_tokens.", "token_embd."},
    {"model.norm.", "output_norm."},
    {"model.embedding_norm.", "token_embd_norm."},
    {"model.embed_tokens_per_layer.", "per_layer_token_embd."},
    {"model.per_layer_model_projection.", "per_layer_model_proj."},
    {"model.per_layer_projection_norm.", "per_layer_proj_norm."},
    {"lm_head.", "output."},
};

/* A judge's head. */
static const struct renaming heads[] = {{"score.0.", "cls."}, {"score.2.", "cls.output."}, {"score.", "cls.output."}};

/* Of a layer, up to `.weight` or `.bias`. */
static const struct renaming inside[] = {
    {"input_layernorm.", "attn_norm."},
    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},
    {"self_attn.qkv_proj.", "attn_qkv."},
    {"self_attn.o_proj.", "attn_output."},
    {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."},
    {"self_attn.attn_sub_norm.", "attn_sub_norm."},
    {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.up_proj.", "ffn_up."},
    {"mlp.gate_up_proj.", "ffn_up."},
    {"mlp.ffn_sub_norm.", "ffn_sub_norm."},
    {"mlp.down_proj.", "ffn_down."},
    {"mlp.c_fc.", "ffn_up."},
    {"mlp.c_proj.", "ffn_down."},
};
static const struct renaming of_lfm2[] = {
    {"operator_norm.", "attn_norm."},
    {"ffn_norm.", "ffn_norm."},
    {"self_attn.out_proj.", "attn_output."},
    {"self_attn.q_layernorm.", "attn_q_norm."},
    {"self_attn.k_layernorm.", "attn_k_norm."},
    {"conv.conv.", "shortconv.conv."},
    {"conv.in_proj.", "shortconv.in_proj."},
    {"conv.out_proj.", "shortconv.out_proj."},
    {"feed_forward.w1.", "ffn_gate."},
    {"feed_forward.w2.", "ffn_down."},
    {"feed_forward.w3.", "ffn_up."},
    {"feed_forward.gate.", "ffn_gate_inp."},
    {"feed_forward.expert_bias", "exp_probs_b.bias"},
};
static const struct renaming of_experts[] = {
    {"mlp.gate.", "ffn_gate_inp."},
    {"mlp.shared_expert.gate_proj.", "ffn_gate_shexp."},
    {"mlp.shared_expert.up_proj.", "ffn_up_shexp."},
    {"mlp.shared_expert.down_proj.", "ffn_down_shexp."},
    {"mlp.shared_expert_gate.", "ffn_gate_inp_shexp."},
};
static const struct renaming of_gpt_oss[] = {
    {"self_attn.sinks", "attn_sinks.weight"},
    {"mlp.router.", "ffn_gate_inp."},
    {"post_attention_layernorm.", "post_attention_norm."},
};
static const struct renaming of_gemma4[] = {
    {"per_layer_input_gate.", "inp_gate."},
    {"per_layer_projection.", "proj."},
    {"post_per_layer_input_norm.", "post_norm."},
    {"layer_scalar", "layer_output_scale.weight"},
    {"router.proj.", "ffn_gate_inp."},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"experts.down_proj", "ffn_down_exps.weight"},
    {"pre_feedforward_layernorm_2.", "pre_ffw_norm_2."},
    {"post_feedforward_layernorm_1.", "post_ffw_norm_1."},
    {"post_feedforward_layernorm_2.", "post_ffw_norm_2."},
};
static const struct renaming recurrent[] = {
    {"linear_attn.in_proj_qkv.", "attn_qkv."},
    {"linear_attn.in_proj_z.", "attn_gate."},
    {"linear_attn.in_proj_b.", "ssm_beta."},
    {"linear_attn.in_proj_a.", "ssm_alpha."},
    {"linear_attn.conv1d.", "ssm_conv1d."},
    {"linear_attn.norm.", "ssm_norm."},
    {"linear_attn.out_proj.", "ssm_out."},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"post_attention_layernorm.", "post_attention_norm."},
};
/* A matrix `ffn_gate_up` becomes two (take_halves). */
static const struct renaming of_granite4[] = {
    {"shared_mlp.input_linear.", "ffn_gate_up."},
    {"shared_mlp.output_linear.", "ffn_down."},
    {"mamba.in_proj.", "ssm_in."},
    {"mamba.conv1d.", "ssm_conv1d."},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.A_log", "ssm_a"},
    {"mamba.D", "ssm_d"},
    {"mamba.norm.", "ssm_norm."},
    {"mamba.out_proj.", "ssm_out."},
};
static const struct renaming granite4_beside_experts[] = {
    {"shared_mlp.input_linear.", "ffn_gate_up_shexp."},
    {"shared_mlp.output_linear.", "ffn_down_shexp."},
    {"block_sparse_moe.router.layer.", "ffn_gate_inp."},
};
/* Of MTP blocks, what is not a layer's: the first one's. */
static const struct renaming of_draft[] = {
    {"fc.", "nextn.eh_proj."},
    {"pre_fc_norm_embedding.", "nextn.enorm."},
    {"pre_fc_norm_hidden.", "nextn.hnorm."},
    {"norm.", "nextn.shared_head_norm."},
    {"embed_tokens.", "nextn.embed_tokens."},
};
/* BERT's and Nomic's, without `bert.`. */
static const struct renaming of_words[] = {
    {"embeddings.word_embeddings.", "token_embd."},
    {"embeddings.position_embeddings.", "position_embd."},
    {"embeddings.token_type_embeddings.", "token_types."},
    {"embeddings.LayerNorm.", "token_embd_norm."},
    {"emb_ln.", "token_embd_norm."},
};
static const struct renaming inside_words[] = {
    {"attention.self.query.", "attn_q."},
    {"attention.self.key.", "attn_k."},
    {"attention.self.value.", "attn_v."},
    {"attention.output.dense.", "attn_output."},
    {"attention.output.LayerNorm.", "attn_output_norm."},
    {"intermediate.dense.", "ffn_up."},
    {"output.dense.", "ffn_down."},
    {"output.LayerNorm.", "layer_output_norm."},
    {"attn.Wqkv.", "attn_qkv."},
    {"attn.out_proj.", "attn_output."},
    {"norm1.", "attn_output_norm."},
    {"mlp.fc11.", "ffn_up."},
    {"mlp.fc12.", "ffn_gate."},
    {"mlp.fc2.", "ffn_down."},
    {"norm2.", "layer_output_norm."},
};
static const struct renaming norms_before[] = {{"post_attention_layernorm.", "ffn_norm."}};
static const struct renaming norms_behind[] = {
    {"post_attention_layernorm.", "post_attention_norm."},
    {"pre_feedforward_layernorm.", "ffn_norm."},
    {"post_feedforward_layernorm.", "post_ffw_norm."},
};

static bool begins(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* `with` replaced by its other name; NULL when no renaming fits.  out[GGUF_MAX_NAME + 1] */
static char *rename_by(const struct renaming *list, size_t n, const char *name, const char *before, char *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!begins(name, list[i].from)) continue;
        snprintf(out, GGUF_MAX_NAME + 1, "%s%s%s", before, list[i].to, name + strlen(list[i].from));
        return out;
    }
    return NULL;
}

#define RENAME(list, name, before, out) rename_by(list, sizeof(list) / sizeof *(list), name, before, out)

const char *folder_draft_name(const struct folder *f, const char *name)
{
    return f->draft && strncmp(name, f->draft, f->n_prefix) == 0 ? name + f->n_prefix : NULL;
}

void folder_find_draft(struct folder *f)
{
    static const char *const names[] = {
        "mtp.fc.weight", "model.mtp.fc.weight", "language_model.mtp.fc.weight", "model.language_model.mtp.fc.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !f->draft && f->family->flags & FAMILY_RECURRENT; i++) {
        const struct safetensors_tensor *t = safetensors_find(&f->list, names[i]);
        if (t) f->draft = t->name, f->n_prefix = strlen(t->name) - strlen("fc.weight");
    }
    for (size_t i = 0; f->draft && i < f->list.n; i++) {
        const char *name = folder_draft_name(f, f->list.tensor[i].name);
        unsigned layer;
        if (name && sscanf(name, "layers.%4u.", &layer) == 1 && layer < MOST_DRAFTS && layer >= f->n_draft)
            f->n_draft = layer + 1;
    }
    folder_put_u32(f, "block_count", f->n_layer + f->n_draft);
    if (f->n_draft) folder_put_u32(f, "nextn_predict_layers", f->n_draft);
}

bool folder_is_left_out(const struct folder *f, const char *name)
{
    static const char *const of_senses[] = {"visual.", "model.visual.", "vision_tower.", "model.vision_tower.",
        "multi_modal_projector.", "model.multi_modal_projector.", "vision_model.", "model.vision_model.",
        "audio_tower.", "model.audio_tower.", "embed_vision.", "model.embed_vision.", "embed_audio.",
        "model.embed_audio."};
    bool senses = config_get(f, "vision_config") || config_get(f, "audio_config");
    for (size_t i = 0; senses && i < sizeof of_senses / sizeof *of_senses; i++)
        if (begins(name, of_senses[i])) return true;
    if (f->family->flags & FAMILY_WORDS) { /* heads that predict masked words, and a layer that nobody's vectors use */
        if (begins(name, "bert.")) name += strlen("bert.");
        if (begins(name, "pooler.") || begins(name, "cls.") || !strcmp(name, "embeddings.position_ids")) return true;
    }
    if (!f->draft && f->family->flags & FAMILY_RECURRENT && begins(name, "mtp.")) return true; /* parts of a block */
    return strstr(name, ".rotary_emb.inv_freq") || (f->tied && strstr(name, "lm_head."));
}

/* The same of a layer's, or NULL. */
static const char *layer_name(const struct folder *f, uint64_t layer, const char *name, char out[GGUF_MAX_NAME + 1])
{
    char before[32];
    snprintf(before, sizeof before, "blk.%llu.", (unsigned long long)layer);
    if (RENAME(inside, name, before, out)) return out;
    if (f->family->flags & FAMILY_CONV && RENAME(of_lfm2, name, before, out)) return out;
    if (f->family->flags & FAMILY_RECURRENT && RENAME(recurrent, name, before, out)) return out;
    if (f->family->flags & FAMILY_EXPERTS && RENAME(of_experts, name, before, out)) return out;
    if (f->family->flags & FAMILY_GPT_OSS && RENAME(of_gpt_oss, name, before, out)) return out;
    if (f->family->flags & FAMILY_GEMMA4 && RENAME(of_gemma4, name, before, out)) return out;
    if (f->family->flags & FAMILY_GRANITE4) {
        if (f->n_expert && RENAME(granite4_beside_experts, name, before, out)) return out;
        if (RENAME(of_granite4, name, before, out)) return out;
    }
    return f->family->flags & FAMILY_BEHIND ? RENAME(norms_behind, name, before, out)
                                            : RENAME(norms_before, name, before, out);
}

/* The same of MTP blocks', which lie behind the layers. */
static const char *draft_name(const struct folder *f, const char *name, char out[GGUF_MAX_NAME + 1])
{
    char before[32];
    unsigned layer;
    int skip = 0;
    if (sscanf(name, "layers.%4u.%n", &layer, &skip) == 1 && skip > 0 && layer < f->n_draft)
        return layer_name(f, f->n_layer + layer, name + skip, out);
    snprintf(before, sizeof before, "blk.%llu.", (unsigned long long)f->n_layer);
    return RENAME(of_draft, name, before, out);
}

/* The same of BERT's and Nomic's. */
static const char *words_name(const char *name, char out[GGUF_MAX_NAME + 1])
{
    char before[32];
    unsigned layer;
    int skip = 0;
    if (begins(name, "bert.")) name += strlen("bert.");
    if (RENAME(of_words, name, "", out)) return out;
    if (sscanf(name, "encoder.layer.%5u.%n", &layer, &skip) != 1 || !skip)
        if (sscanf(name, "encoder.layers.%5u.%n", &layer, &skip) != 1 || !skip) return NULL;
    snprintf(before, sizeof before, "blk.%u.", layer);
    return RENAME(inside_words, name + skip, before, out);
}

/* As GGUF names it; a name without a counterpart stays, and the architecture refuses it. */
static const char *gguf_name(const struct folder *f, const char *name, char out[GGUF_MAX_NAME + 1])
{
    char bare[GGUF_MAX_NAME + 1];
    const char *draft = folder_draft_name(f, name);
    int layer = -1, skip = 0;
    if (draft && draft_name(f, draft, out)) return out;
    if (f->family->flags & FAMILY_WORDS && words_name(name, out)) return out;
    if (begins(name, "language_model."))
        name += strlen("language_model.");
    else if (begins(name, "model.language_model.")) {
        snprintf(bare, sizeof bare, "model.%s", name + strlen("model.language_model."));
        name = bare;
    } else if (begins(name, "layers.") || begins(name, "embed_tokens.") || begins(name, "norm.")) {
        snprintf(bare, sizeof bare, "model.%s", name); /* of a class without a head */
        name = bare;
    }
    if (RENAME(outside, name, "", out)) return out;
    if (f->head != FAMILY_SPEAKS && RENAME(heads, name, "", out)) return out;
    if (sscanf(name, "model.layers.%5d.%n", &layer, &skip) == 1 && skip > 0 && layer >= 0 &&
        layer_name(f, (uint64_t)layer, name + skip, out))
        return out;
    snprintf(out, GGUF_MAX_NAME + 1, "%s", name);
    return out;
}

const struct safetensors_tensor *folder_embeddings(const struct folder *f)
{
    char name[GGUF_MAX_NAME + 1];
    for (size_t i = 0; i < f->list.n; i++) {
        const struct safetensors_tensor *t = &f->list.tensor[i];
        if (t->n_dim == 2 && t->dim[1] > 0 && strcmp(gguf_name(f, t->name, name), "token_embd.weight") == 0) return t;
    }
    return NULL;
}

/* ---- bytes ---- */

/* Of files whose headers leave data at odd addresses. */
static void fill_copy(const struct derived *d)
{
    memcpy(d->data, d->from, d->bytes);
}

/* GGUF's rows 2i and 2i + 1 of a head are the makers' i and i + half. */
static void fill_pairs(const struct derived *d)
{
    int n = d->n_row / d->n_head, half = n / 2;
    for (int h = 0; h < d->n_head; h++)
        for (int i = 0; i < n; i++) {
            int from = h * n + (i & 1) * half + i / 2;
            memcpy((uint8_t *)d->data + (size_t)(h * n + i) * d->row_bytes,
                (const uint8_t *)d->from + (size_t)from * d->row_bytes, d->row_bytes);
        }
}

/* How many heads the rows of this tensor are; 0: its rows stay where they are. */
static int heads_of(const struct folder *f, const char *name)
{
    if (!(f->family->flags & FAMILY_PAIRS)) return 0;
    if (strstr(name, ".attn_q.")) return (int)f->n_head;
    return strstr(name, ".attn_k.") ? (int)f->n_kv_head : 0;
}

static int check_heads(const struct folder *f, const char *name, uint64_t n_row, int n_head, struct lutra_error *err)
{
    if (n_row == (uint64_t)n_head * f->d_head) return 0;
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s' has %llu rows for %d heads of %llu", f->label,
        show_name(name).s, (unsigned long long)n_row, n_head, (unsigned long long)f->d_head);
}

/* Two dimensions or more: the file's bytes, or its rows in another order. */
static int take_matrix(
    struct folder *f, const struct safetensors_tensor *from, struct tensor *t, struct lutra_error *err)
{
    int n_head = from->n_dim == 2 ? heads_of(f, t->name) : 0;
    t->data = from->data;
    t->bytes = (size_t)from->bytes;
    if (n_head) TRY(check_heads(f, t->name, from->dim[0], n_head, err));
    if (!n_head && (uintptr_t)from->data % (uintptr_t)from->dtype->bytes == 0) return 0;
    struct derived *d;
    TRY(weights_derive(f->w, t->bytes, &d, err));
    t->data = d->data;
    d->from = from->data;
    d->fill = fill_copy;
    if (!n_head) return 0;
    d->n_row = (int)from->dim[0];
    d->n_head = n_head;
    d->row_bytes = t->bytes / (size_t)from->dim[0];
    d->fill = fill_pairs;
    return 0;
}

/* Floats in memory of their own, which are there from now on; NULL: no memory. */
static float *make_vector(struct folder *f, struct tensor *t, uint64_t n, struct lutra_error *err)
{
    *t = (struct tensor){.name = t->name, .type = QUANT_F32, .n_dim = 1, .ne = {(int64_t)n, 1, 1, 1}};
    t->bytes = (size_t)n * sizeof(float);
    struct derived *d;
    if (weights_derive(f->w, t->bytes, &d, err) < 0) return NULL;
    d->there = true;
    t->data = d->data;
    return d->data;
}

static int take_vector(
    struct folder *f, const struct safetensors_tensor *from, struct tensor *t, struct lutra_error *err)
{
    int n_head = heads_of(f, t->name);
    uint64_t n = from->bytes / (uint64_t)from->dtype->bytes;
    float *x = make_vector(f, t, n, err);
    if (!x) return LUTRA_E_NO_MEMORY;
    for (uint64_t i = 0; i < n; i++) x[i] = safetensors_f32(from, i);
    bool is_norm = strstr(t->name, "norm.weight") && !strstr(t->name, ".ssm_norm.");
    const char *tail = strrchr(t->name, '.') ? strrchr(t->name, '.') : "";
    bool is_log = f->family->flags & (FAMILY_RECURRENT | FAMILY_MAMBA) && strcmp(tail, ".ssm_a") == 0;
    for (uint64_t i = 0; is_log && i < n; i++) x[i] = -expf(x[i]);
    if (f->family->flags & FAMILY_MAMBA && (is_log || strcmp(tail, ".ssm_d") == 0)) /* as GGUF has them */
        t->n_dim = 2, t->ne[1] = t->ne[0], t->ne[0] = 1;
    for (uint64_t i = 0; is_norm && f->family->flags & FAMILY_NORM_PLUS_1 && i < n; i++) x[i] += 1;
    if (!n_head) return 0;
    TRY(check_heads(f, t->name, n, n_head, err));
    float *copy = malloc(t->bytes);
    if (!copy) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for tensors", f->label);
    memcpy(copy, x, t->bytes);
    fill_pairs(&(struct derived){.data = x, .from = copy, .n_row = (int)n, .n_head = n_head, .row_bytes = sizeof *x});
    free(copy);
    return 0;
}

static int take_tensor(
    struct folder *f, const struct safetensors_tensor *from, struct tensor *t, struct lutra_error *err)
{
    const struct quant_info *q = quant_info_of(from->dtype->type);
    if (!q)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' has type %s, which is not supported", f->label,
            show_name(from->name).s, from->dtype->name);
    t->type = q->type;
    t->n_dim = from->n_dim ? from->n_dim : 1;
    for (int i = 0; i < 4; i++) t->ne[i] = 1;
    for (int i = 0; i < from->n_dim; i++) {
        if (from->n_dim > 4 || from->dim[i] == 0)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s' has more than 4 dimensions, or one of 0", f->label,
                show_name(from->name).s);
        t->ne[from->n_dim - 1 - i] = (int64_t)from->dim[i];
    }
    bool taps = t->n_dim == 3 && t->ne[1] == 1 &&
                (strstr(t->name, ".ssm_conv1d.") || strstr(t->name, ".shortconv.conv.")); /* each channel has its own */
    if (taps) t->n_dim = 2, t->ne[1] = t->ne[2], t->ne[2] = 1;
    return t->n_dim == 1 ? take_vector(f, from, t, err) : take_matrix(f, from, t, err);
}

/* ---- factors of the rotation ---- */

static float *add_factors(struct folder *f, const char *name, struct lutra_error *err)
{
    struct model_file *header = &f->w->file[0];
    struct tensor *t = &header->tensor[header->n_tensor++];
    t->name = name;
    return make_vector(f, t, f->n_rot / 2, err);
}

float weights_llama3_rope_factor(uint32_t i, uint32_t n_rot, float base, const struct weights_llama3_rope *rope)
{
    float frequency = 1.0f / powf(base, (float)(2 * i) / (float)n_rot);
    float wave = (float)(2 * M_PI) / frequency, smooth = (rope->n_ctx / wave - rope->low) / (rope->high - rope->low);
    if (wave < rope->n_ctx / rope->high) return 1;
    if (wave > rope->n_ctx / rope->low) return rope->factor;
    return 1 / ((1 - smooth) / rope->factor + smooth);
}

static int add_llama3(struct folder *f, struct lutra_error *err)
{
    double base = 10000, factor = 8, low = 1, high = 4, original = 8192;
    TRY(config_number(f, f->config, "rope_theta", &base, err));
    TRY(config_number(f, f->rope, "rope_theta", &base, err));
    TRY(config_number(f, f->rope, "factor", &factor, err));
    TRY(config_number(f, f->rope, "low_freq_factor", &low, err));
    TRY(config_number(f, f->rope, "high_freq_factor", &high, err));
    TRY(config_number(f, f->rope, "original_max_position_embeddings", &original, err));
    if (!(base >= 1 && factor >= 1e-6 && low > 0 && high > low && original > 0))
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s/config.json: 'rope_scaling' of type 'llama3' out of range", f->label);
    float *x = add_factors(f, "rope_freqs.weight", err);
    if (!x) return LUTRA_E_NO_MEMORY;
    const struct weights_llama3_rope rope = {(float)factor, (float)low, (float)high, (float)original};
    for (uint64_t i = 0; i < f->n_rot / 2; i++)
        x[i] = weights_llama3_rope_factor((uint32_t)i, (uint32_t)f->n_rot, (float)base, &rope);
    return 0;
}

static int add_list(struct folder *f, const char *key, const char *name, struct lutra_error *err)
{
    const json_t *list = json_object_get(f->rope, key);
    if (json_array_size(list) != f->n_rot / 2)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s/config.json: '%s' has %zu factors for %llu pairs", f->label, key,
            json_array_size(list), (unsigned long long)f->n_rot / 2);
    float *x = add_factors(f, name, err);
    if (!x) return LUTRA_E_NO_MEMORY;
    for (size_t i = 0; i < json_array_size(list); i++) x[i] = (float)json_number_value(json_array_get(list, i));
    return 0;
}

/* Gemma 4: pairs of the first part of a head turn as they do in a whole one, the others do not. */
static int add_proportional(struct folder *f, struct lutra_error *err)
{
    double part = 1;
    TRY(config_number(f, f->rope, "partial_rotary_factor", &part, err));
    float *x = add_factors(f, "rope_freqs.weight", err);
    if (!x) return LUTRA_E_NO_MEMORY;
    for (uint64_t i = 0; i < f->n_rot / 2; i++) x[i] = (double)i < floor(part * (double)(f->n_rot / 2)) ? 1 : 1e30f;
    return 0;
}

static int add_rotation(struct folder *f, struct lutra_error *err)
{
    const char *type = json_string_value(json_object_get(f->rope, "rope_type"));
    if (!type) type = json_string_value(json_object_get(f->rope, "type"));
    if (f->family->flags & FAMILY_GEMMA4) return add_proportional(f, err);
    if (type && strcmp(type, "llama3") == 0) return add_llama3(f, err);
    if (strcmp(f->family->arch, "phi3") != 0 || !json_object_get(f->rope, "long_factor")) return 0;
    TRY(add_list(f, "long_factor", "rope_factors_long.weight", err));
    return add_list(f, "short_factor", "rope_factors_short.weight", err);
}

/* ---- all of them ---- */

/* A layer that others have quantized. */
static int refuse_halves(const struct folder *f, const struct safetensors_tensor *from, struct lutra_error *err)
{
    return lutra_fail(
        err, LUTRA_E_FORMAT, "%s: tensor '%s' is not the rows of two matrices", f->label, show_name(from->name).s);
}

/* half 0, 1: its first rows, its last ones; -1: all. */
static int take_packed(
    struct folder *f, const struct safetensors_tensor *codes, struct tensor *t, int half, struct lutra_error *err)
{
    struct derived as = {0};
    folder_describe_packed(f, codes, t, &as);
    if (half >= 0) {
        if (as.n_row % 2) return refuse_halves(f, codes, err);
        as.n_row /= 2;
        as.first_row = half * as.n_row;
        t->ne[1] /= 2;
        t->bytes /= 2;
    }
    as.n_head = heads_of(f, t->name);
    if (as.n_head) TRY(check_heads(f, t->name, (uint64_t)as.n_row, as.n_head, err));
    struct derived *d;
    TRY(weights_derive(f->w, t->bytes, &d, err));
    as.data = d->data;
    as.bytes = d->bytes;
    *d = as;
    t->data = d->data;
    return 0;
}

/* Of a model whose head is not its embeddings. */
static int check_head(const struct folder *f, struct lutra_error *err)
{
    const struct model_file *header = &f->w->file[0];
    for (size_t i = 0; i < header->n_tensor; i++)
        if (strcmp(header->tensor[i].name, "output.weight") == 0) return 0;
    return lutra_fail(
        err, LUTRA_E_FORMAT, "%s: tensor 'lm_head.weight' is missing, and config.json ties nothing", f->label);
}

/* `.ffn_gate_up` of a name; NULL: it has none. */
static char *joined(const struct folder *f, char *name)
{
    return f->family->flags & FAMILY_GRANITE4 ? strstr(name, ".ffn_gate_up") : NULL;
}

/* Its first rows are the gate's, its last ones up's: two tensors of the model from now on. */
static int take_halves(struct folder *f, const struct safetensors_tensor *from, bool is_codes, const char *name,
    const char *at, struct lutra_error *err)
{
    struct model_file *header = &f->w->file[0];
    struct safetensors_tensor half = *from;
    if (!is_codes && (from->n_dim != 2 || from->dim[0] % 2)) return refuse_halves(f, from, err);
    half.dim[0] /= 2;
    half.bytes /= 2;
    for (int i = 0; i < 2; i++, half.data += half.bytes) {
        struct tensor *t = &header->tensor[header->n_tensor];
        char one[GGUF_MAX_NAME + 1];
        int n = snprintf(
            one, sizeof one, "%.*s.ffn_%s%s", (int)(at - name), name, i ? "up" : "gate", at + strlen(".ffn_gate_up"));
        t->name = names_add(&header->names, one, (size_t)n);
        if (!t->name) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for names", f->label);
        header->n_tensor++;
        TRY(is_codes ? take_packed(f, from, t, i, err) : take_tensor(f, &half, t, err));
    }
    return 0;
}

int folder_take_tensors(struct folder *f, struct lutra_error *err)
{
    enum { OF_ROTATION = 2 };
    struct model_file *header = &f->w->file[0];
    char name[GGUF_MAX_NAME + 1], plain[GGUF_MAX_NAME + 1];
    free(header->tensor);
    size_t n = 2 * f->list.n + OF_ROTATION; /* one tensor of experts becomes two at most */
    header->tensor = calloc(n, sizeof *header->tensor);
    f->w->derived = calloc(n, sizeof *f->w->derived);
    if (!header->tensor || !f->w->derived)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for tensors", f->label);
    if (f->list.n) TRY(add_rotation(f, err));
    for (size_t i = 0; i < f->list.n; i++) {
        struct safetensors_tensor *from = &f->list.tensor[i];
        struct tensor *t = &header->tensor[header->n_tensor];
        if (folder_is_left_out(f, from->name) || folder_is_expert(f, from->name)) continue;
        bool is_codes, is_packed = folder_is_packed(f, from, &is_codes);
        if (is_packed && !is_codes) continue; /* read with its codes */
        gguf_name(f, is_codes ? folder_packed_name(f, from->name, plain) : from->name, name);
        char *both = joined(f, name);
        if (both) {
            TRY(take_halves(f, from, is_codes, name, both, err));
            continue;
        }
        t->name = names_add(&header->names, name, strlen(name));
        if (!t->name) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for names", f->label);
        header->n_tensor++;
        if (from->n_dim == 2) from->as = t; /* others are no layers that can be rounded */
        TRY(is_codes ? take_packed(f, from, t, -1, err) : take_tensor(f, from, t, err));
    }
    TRY(folder_take_experts(f, err));
    return f->list.n && !f->tied ? check_head(f, err) : 0;
}
