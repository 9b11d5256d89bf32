/* SPDX-License-Identifier: MIT */
#include "sim/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/status.h"
#include "lutra/core.h"
#include "lutra/files.h"

static const struct size {
    const char *name;
    int n_layer, d_model, d_ff, n_head, n_kv_head, d_head, n_vocab;
    bool tied;
} sizes[] = {
    {"Llama-8B", 32, 4096, 14336, 32, 8, 128, 128256, false},
    {"Llama-7B", 32, 4096, 11008, 32, 32, 128, 32000, false},
    {"Llama-3B", 28, 3072, 8192, 24, 8, 128, 128256, true},
    {"Llama-1B", 16, 2048, 8192, 32, 8, 64, 128256, true},
    {"InternLM-1.8B", 24, 2048, 8192, 16, 8, 128, 92544, false},
    {"Qwen2.5-0.5B", 24, 896, 4864, 14, 2, 64, 151936, true},
    {"Qwen2.5-1.5B", 28, 1536, 8960, 12, 2, 128, 151936, true},
    {"Qwen2.5-3B", 36, 2048, 11008, 16, 2, 128, 151936, true},
    {"Qwen2.5-7B", 28, 3584, 18944, 28, 4, 128, 152064, false},
    {"Qwen3-8B", 36, 4096, 12288, 32, 8, 128, 151936, false},
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* Bits and types of layers, ffn_down and head. */
static const struct quant {
    const char *name;
    double bits[3];
    const char *kind[3];
} quants[] = {{"w4", {4, 4, 4}, {"", "", ""}}, {"w8", {8, 8, 8}, {"", "", ""}},
    {"q4_0", {4.5, 8.5, 8.5}, {"Q4_0", "Q8_0", "Q8_0"}}, {"q8_0", {8.5, 8.5, 8.5}, {"Q8_0", "Q8_0", "Q8_0"}},
    {"f16", {16, 16, 16}, {"F16", "F16", "F16"}}, {"w2", {2.5, 2.5, 8.5}, {"W2 planes", "W2 planes", "Q8_0"}}};
enum { N_QUANTS = sizeof quants / sizeof *quants };

const char *sim_shape_name(int i)
{
    return i < N_SIZES ? sizes[i].name : NULL;
}

const char *sim_quant_name(int i)
{
    return i < N_QUANTS ? quants[i].name : NULL;
}

int sim_place_of(const char *(*name)(int), const char *wanted, const char *what, struct lutra_error *err)
{
    char names[256] = "";
    for (int i = 0; name(i); i++) {
        const size_t n = strlen(names);
        if (strcmp(name(i), wanted) == 0) return i;
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", name(i));
    }
    return lutra_fail(err, LUTRA_E_NOT_FOUND, "no %s '%s'; there are %s", what, wanted, names);
}

int sim_shape_named(struct sim_shape *out, const char *name, const char *quant, struct lutra_error *err)
{
    int i = sim_place_of(sim_shape_name, name, "shape", err);
    if (i < 0) return i;
    int q = sim_place_of(sim_quant_name, quant, "quantization", err);
    if (q < 0) return q;
    const struct size *s = &sizes[i];
    *out = (struct sim_shape){.n_layer = s->n_layer,
        .d_model = s->d_model,
        .d_ff = s->d_ff,
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .d_head = s->d_head,
        .n_vocab = s->n_vocab,
        .tied = s->tied,
        .layer_bits = quants[q].bits[0],
        .down_bits = quants[q].bits[1],
        .head_bits = quants[q].bits[2]};
    snprintf(out->name, sizeof out->name, "%s", s->name);
    snprintf(out->quant, sizeof out->quant, "%s", quants[q].name);
    for (int k = 0; k < 3; k++) snprintf(out->kind[k], sizeof out->kind[k], "%s", quants[q].kind[k]);
    return 0;
}

/* ---- of a file ---- */

enum { SIZE_MOST = 1 << 20 };

/* The number of KEY behind the architecture's name; 0: there is none, or it is out of range. */
static int number(const json_t *metadata, const char *arch, const char *key)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", arch, key);
    json_int_t n = json_integer_value(json_object_get(metadata, name));
    return n > 0 && n < SIZE_MOST ? (int)n : 0;
}

struct sums {
    double bytes[3], weights[3]; /* of layers, of their down matrices, of the head */
    int n_vocab;
    bool head, experts, recurrent;
};

static void add_tensor(struct sums *s, const json_t *tensor)
{
    const char *name = json_string_value(json_object_get(tensor, "name"));
    const json_t *shape = json_object_get(tensor, "shape");
    double bytes = (double)json_integer_value(json_object_get(tensor, "bytes")), n = 1;
    if (!name || json_array_size(shape) < 2) return;
    for (size_t i = 0; i < json_array_size(shape); i++) n *= (double)json_integer_value(json_array_get(shape, i));
    if (strstr(name, "_exps")) s->experts = true;
    if (strstr(name, ".ssm_") || strstr(name, ".shortconv")) s->recurrent = true;
    bool layer = strncmp(name, "blk.", 4) == 0, output = strcmp(name, "output.weight") == 0;
    json_int_t rows = json_integer_value(json_array_get(shape, 1));
    if (strcmp(name, "token_embd.weight") == 0) s->n_vocab = rows > 0 && rows < SIZE_MOST ? (int)rows : 0;
    if (strcmp(name, "token_embd.weight") == 0 && !s->head) s->bytes[2] = bytes, s->weights[2] = n;
    if (output) s->head = true, s->bytes[2] = bytes, s->weights[2] = n;
    int part = strstr(name, "ffn_down") ? 1 : 0;
    if (layer) s->bytes[part] += bytes, s->weights[part] += n;
}

static int read_shape(struct sim_shape *out, const json_t *file, const char *path, struct lutra_error *err)
{
    const json_t *metadata = json_object_get(file, "metadata"), *tensors = json_object_get(file, "tensors"), *item;
    const char *arch = json_string_value(json_object_get(metadata, "general.architecture"));
    struct sums s = {0};
    size_t i;
    if (!arch) return lutra_fail(err, LUTRA_E_FORMAT, "%s: no general.architecture", path);
    json_array_foreach((json_t *)tensors, i, item) add_tensor(&s, item);
    if (s.experts || s.recurrent)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: layers of %s are not modelled: only dense transformers are",
            path, s.experts ? "experts" : "recurrent state");
    const struct {
        const char *key;
        int *to, otherwise;
    } fields[] = {{"block_count", &out->n_layer, 0}, {"embedding_length", &out->d_model, 0},
        {"feed_forward_length", &out->d_ff, 0}, {"attention.head_count", &out->n_head, 0},
        {"attention.head_count_kv", &out->n_kv_head, 1}, {"attention.key_length", &out->d_head, 2}};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        *fields[f].to = number(metadata, arch, fields[f].key);
        if (!*fields[f].to && fields[f].otherwise)
            *fields[f].to = fields[f].otherwise == 1 ? out->n_head : out->d_model / out->n_head;
        if (!*fields[f].to)
            return lutra_fail(
                err, LUTRA_E_UNSUPPORTED, "%s: %s.%s is not one number: not modelled", path, arch, fields[f].key);
    }
    const double width = (double)out->n_head * out->d_head;
    if (width > SIZE_MOST || out->n_kv_head > out->n_head || s.n_vocab < 1)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: %d heads of %d, %d of keys, a vocabulary of %d: not modelled",
            path, out->n_head, out->d_head, out->n_kv_head, s.n_vocab);
    if (s.weights[0] <= 0 || s.weights[1] <= 0 || s.weights[2] <= 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: no matrices of a dense transformer", path);
    out->n_vocab = s.n_vocab, out->tied = !s.head;
    out->layer_bits = 8 * s.bytes[0] / s.weights[0], out->down_bits = 8 * s.bytes[1] / s.weights[1];
    out->head_bits = 8 * s.bytes[2] / s.weights[2];
    return 0;
}

/* The types that decide how this project's kernels compute a layer: of the first layer's queries and ffn_down, of the
 * head. */
static void name_kinds(struct sim_shape *out, const json_t *file)
{
    static const char *const names[] = {
        "blk.0.attn_q.weight", "blk.0.ffn_down.weight", "token_embd.weight", "output.weight", "blk.0.attn_qkv.weight"};
    static const int places[] = {0, 1, 2, 2, 0}; /* a later name overrides */
    const json_t *tensors = json_object_get(file, "tensors"), *item;
    size_t i;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) json_array_foreach((json_t *)tensors, i, item)
        {
            const char *name = json_string_value(json_object_get(item, "name"));
            const char *type = json_string_value(json_object_get(item, "type"));
            if (name && type && strcmp(name, names[n]) == 0)
                snprintf(out->kind[places[n]], sizeof out->kind[0], "%s", type);
        }
    snprintf(out->quant, sizeof out->quant, "%s", out->kind[0]);
}

int sim_shape_of_file(struct sim_shape *out, const char *path, struct lutra_error *err)
{
    char *text;
    *out = (struct sim_shape){0};
    TRY(lutra_inspect(path, &text, err));
    json_t *file = json_loads(text, 0, NULL);
    lutra_free(text);
    if (!file) return lutra_fail(err, LUTRA_E_FORMAT, "%s: cannot be described", path);
    const char *name = json_string_value(json_object_get(json_object_get(file, "metadata"), "general.name"));
    const char *base = strrchr(path, '/');
    snprintf(out->name, sizeof out->name, "%s", name && *name ? name : base && base[1] ? base + 1 : path);
    int rc = read_shape(out, file, path, err);
    if (!rc) name_kinds(out, file);
    json_decref(file);
    return rc;
}

/* ---- sums ---- */

double sim_weights_of_layer(const struct sim_shape *s)
{
    double d = s->d_model, q = (double)s->n_head * s->d_head, kv = (double)s->n_kv_head * s->d_head;
    return 2 * d * q + 2 * d * kv + 2 * d * s->d_ff;
}

double sim_weights_of_down(const struct sim_shape *s)
{
    return (double)s->d_model * s->d_ff;
}

double sim_weights_of_head(const struct sim_shape *s)
{
    return (double)s->d_model * s->n_vocab;
}

double sim_weight_bytes(const struct sim_shape *s)
{
    return (s->n_layer * (sim_weights_of_layer(s) * s->layer_bits + sim_weights_of_down(s) * s->down_bits) +
               (s->tied ? 1 : 2) * sim_weights_of_head(s) * s->head_bits) /
           8;
}

double sim_cache_bytes(const struct sim_shape *s, double n_tokens)
{
    return 4.0 * n_tokens * s->n_layer * s->n_kv_head * s->d_head;
}
