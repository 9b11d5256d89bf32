/* SPDX-License-Identifier: MIT
 *
 * What folders of encoders have beside others: BERT's and Nomic's names, and sentence-transformers' files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hf/write_folder_impl.h"
#include "quant/quant.h"

static bool is_of(const struct weights *w, const char *name)
{
    struct gguf_str s = {"", 0};
    weights_opt_str(w, "general.architecture", &s, NULL);
    return s.n == strlen(name) && memcmp(s.s, name, s.n) == 0;
}

bool hf_is_words(const struct weights *w)
{
    return is_of(w, "bert") || is_of(w, "nomic-bert");
}

const char *hf_words_name(const struct weights *w, const char *gguf, char *out)
{
    static const char *const bert[][2] = {{"attn_q", "attention.self.query"}, {"attn_k", "attention.self.key"},
        {"attn_v", "attention.self.value"}, {"attn_output", "attention.output.dense"},
        {"attn_output_norm", "attention.output.LayerNorm"}, {"ffn_up", "intermediate.dense"},
        {"ffn_down", "output.dense"}, {"layer_output_norm", "output.LayerNorm"}};
    static const char *const nomic[][2] = {{"attn_qkv", "attn.Wqkv"}, {"attn_output", "attn.out_proj"},
        {"attn_output_norm", "norm1"}, {"ffn_up", "mlp.fc11"}, {"ffn_gate", "mlp.fc12"}, {"ffn_down", "mlp.fc2"},
        {"layer_output_norm", "norm2"}};
    static const char *const words[][2] = {{"token_embd.", "embeddings.word_embeddings"},
        {"position_embd.", "embeddings.position_embeddings"}, {"token_types.", "embeddings.token_type_embeddings"}};
    char part[64];
    int layer, n = 0;
    const char *tail = strrchr(gguf, '.');
    bool is_nomic = is_of(w, "nomic-bert");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncmp(gguf, words[i][0], strlen(words[i][0])))
            return snprintf(out, 128, "%s%s%s", is_nomic ? "" : "bert.", words[i][1], tail), out;
    if (!strncmp(gguf, "token_embd_norm", 15))
        return snprintf(out, 128, "%s%s", is_nomic ? "emb_ln" : "bert.embeddings.LayerNorm", tail), out;
    const char *to_words = NULL;
    if (sscanf(gguf, "blk.%d.%n", &layer, &n) != 1) hf_give_up(gguf);
    snprintf(part, sizeof part, "%.*s", (int)(tail - gguf - n), gguf + n);
    for (size_t i = 0; !is_nomic && i < sizeof bert / sizeof *bert; i++)
        if (!strcmp(part, bert[i][0])) to_words = bert[i][1];
    for (size_t i = 0; is_nomic && i < sizeof nomic / sizeof *nomic; i++)
        if (!strcmp(part, nomic[i][0])) to_words = nomic[i][1];
    if (!to_words) hf_give_up(gguf);
    snprintf(out, 128, is_nomic ? "encoder.layers.%d.%s%s" : "bert.encoder.layer.%d.%s%s", layer, to_words, tail);
    return out;
}

void hf_gpt2_names(json_t *o)
{
    static const char *const names[][2] = {{"hidden_size", "n_embd"}, {"num_hidden_layers", "n_layer"},
        {"num_attention_heads", "n_head"}, {"intermediate_size", "n_inner"}, {"rope_theta", "rotary_emb_base"},
        {"hidden_act", "activation_function"}, {"max_position_embeddings", "max_trained_positions"},
        {"num_key_value_heads", "unused"}, {"head_dim", "unused"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_object_set(o, names[i][1], json_object_get(o, names[i][0]));
        json_object_del(o, names[i][0]);
    }
    json_object_del(o, "unused");
    json_object_set_new(o, "n_positions", json_integer(8192));
    json_object_set_new(o, "rotary_emb_fraction", json_real(1));
}

void hf_write_dense(const struct tensor *t, const char *folder)
{
    char path[600];
    struct hf_shard one = {.header = json_object()};
    const int64_t dim[2] = {t->ne[1], t->ne[0]};
    snprintf(path, sizeof path, "%s/%c_Dense", folder, t->name[6]);
    if (mkdir(path, 0777) < 0) hf_give_up(path);
    json_t *config = json_pack("{s:i, s:i, s:b, s:s}", "in_features", (int)dim[1], "out_features", (int)dim[0], "bias",
        0, "activation_function", "torch.nn.modules.linear.Identity");
    hf_save_json(config, path, "config.json");
    json_decref(config);
    hf_add_tensor(&one, "linear.weight", quant_info_of(t->type)->name, 2, dim, t->data, t->bytes);
    strcat(path, "/model.safetensors");
    hf_save_shard(&one, path);
    json_decref(one.header);
    free(one.data);
}

void hf_write_pooling(const struct weights *w, const char *folder)
{
    static const char *const mode[] = {"max_tokens", "mean_tokens", "cls_token", "lasttoken"};
    char path[600], key[64];
    json_t *config = json_pack("{s:i}", "word_embedding_dimension", (int)hf_number(w, "embedding_length", 0));
    for (int i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "pooling_mode_%s", mode[i]);
        json_object_set_new(config, key, json_boolean(i == (int)hf_number(w, "pooling_type", 0)));
    }
    snprintf(path, sizeof path, "%s/1_Pooling", folder);
    if (mkdir(path, 0777) < 0) hf_give_up(path);
    hf_save_json(config, path, "config.json");
    json_decref(config);
}
