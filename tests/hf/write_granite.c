/* SPDX-License-Identifier: MIT
 *
 * What folders of Granite 4 (GraniteMoeHybridForCausalLM), and of Granite 3 with experts, have beside others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/write_folder_impl.h"
#include "quant/quant.h"

static void put(json_t *o, const char *to, double value)
{
    json_object_set_new(o, to, json_integer((json_int_t)value));
}

void hf_put_granite4(const struct weights *w, json_t *o, int n_layer)
{
    static const char *const counts[][2] = {{"mamba_d_conv", "ssm.conv_kernel"}, {"mamba_d_state", "ssm.state_size"},
        {"mamba_n_groups", "ssm.group_count"}, {"mamba_n_heads", "ssm.time_step_rank"}};
    double inner = hf_number(w, "ssm.inner_size", 0), n_expert = hf_number(w, "expert_count", 0);
    json_t *list = json_array();
    for (int i = 0; i < n_layer; i++) {
        bool attends = inner == 0 || hf_by_layer(w, "attention.head_count_kv", i) > 0;
        json_array_append_new(list, json_string(attends ? "attention" : "mamba"));
    }
    json_object_set_new(o, "layer_types", list);
    if (inner > 0) put(o, "num_key_value_heads", 2); /* which files have by layer */
    put(o, "num_local_experts", n_expert);
    put(o, "shared_intermediate_size",
        hf_number(w, n_expert > 0 ? "expert_shared_feed_forward_length" : "feed_forward_length", 0));
    json_object_set_new(o, "position_embedding_type", json_string(inner > 0 ? "nope" : "rope"));
    json_object_set_new(o, "time_step_limit", json_pack("[f, {s:s}]", 0.0, "__float__", "Infinity"));
    if (inner == 0) return;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) put(o, counts[i][0], hf_number(w, counts[i][1], 0));
    json_object_set_new(o, "mamba_expand", json_real(inner / hf_number(w, "embedding_length", 1)));
    if (n_expert > 0) put(o, "mamba_d_head", inner / hf_number(w, "ssm.time_step_rank", 1)); /* else "auto" */
}

const char *hf_granite4_name(const struct weights *w, const char *gguf, char *out)
{
    static const char *const names[][2] = {{"ssm_in.weight", "mamba.in_proj.weight"},
        {"ssm_conv1d.weight", "mamba.conv1d.weight"}, {"ssm_conv1d.bias", "mamba.conv1d.bias"},
        {"ssm_dt.bias", "mamba.dt_bias"}, {"ssm_a", "mamba.A_log"}, {"ssm_d", "mamba.D"},
        {"ssm_norm.weight", "mamba.norm.weight"}, {"ssm_out.weight", "mamba.out_proj.weight"},
        {"ffn_gate_inp.weight", "block_sparse_moe.router.layer.weight"},
        {"ffn_down_shexp.weight", "shared_mlp.output_linear.weight"},
        {"ffn_down.weight", "shared_mlp.output_linear.weight"}};
    int layer, n = 0;
    (void)w;
    if (sscanf(gguf, "blk.%d.%n", &layer, &n) != 1) return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(gguf + n, names[i][0])) return snprintf(out, 128, "model.layers.%d.%s", layer, names[i][1]), out;
    return NULL;
}

bool hf_write_granite4(const struct weights *w, const struct tensor *t, const struct hf_form *form, struct hf_shard *s)
{
    char other[128], name[160];
    int layer, n = 0;
    bool experts = strstr(t->name, "_exps.") != NULL, gate = strstr(t->name, ".ffn_gate") != NULL;
    if (sscanf(t->name, "blk.%d.%n", &layer, &n) != 1 || strstr(t->name, "ffn_gate_inp")) return false;
    if (strstr(t->name, ".ffn_up")) return true; /* with gate */
    if (!gate && !experts) return false;
    snprintf(other, sizeof other, "blk.%d.ffn_up%s", layer, t->name + n + strlen("ffn_gate"));
    const struct tensor *up = gate ? weights_tensor_find(w, other) : NULL;
    if (gate && !up) hf_give_up(other);
    size_t each = t->bytes / (size_t)t->ne[2], half = gate ? each : 0;
    uint8_t *x = malloc(2 * t->bytes), *to = x;
    for (size_t e = 0; e < (size_t)t->ne[2]; e++, to += each + half) {
        memcpy(to, (const uint8_t *)t->data + e * each, each);
        if (gate) memcpy(to + each, (const uint8_t *)up->data + e * each, each);
    }
    const int64_t dim[3] = {t->ne[2], gate ? 2 * t->ne[1] : t->ne[1], t->ne[0]};
    snprintf(name, sizeof name, "%smodel.layers.%d.%s.%s_linear.weight", form->text_config ? "language_model." : "",
        layer, experts ? "block_sparse_moe" : "shared_mlp", gate ? "input" : "output");
    hf_add_tensor(s, name, quant_info_of(t->type)->name, experts ? 3 : 2, experts ? dim : dim + 1, x, (size_t)(to - x));
    free(x);
    return true;
}
