/* SPDX-License-Identifier: MIT
 *
 * Hugging Face folders of random weights whose layers are GPTQ's codes in groups (groups.h has the format).  Codes are
 * random bits, so their differences to the zeros are not normal; scales make up for their deviation.
 */
#include "make/make_impl.h"

#include "base/f16.h"
#include "base/rng.h"
#include "quantize/weighted.h"
#include "quantize/folder_out.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20 }; /* bytes made at a time */

enum fill { CODES, ZEROS, SCALES, ORDER, MATRIX, NORM, BIAS };

struct item {
    const char *name;
    enum fill fill;
    uint32_t dim[2]; /* of a matrix and of what belongs to a layer: inputs, outputs; else dim[0] */
};

struct folder_make {
    const struct weights_make_settings *s;
    struct weights_shape shape; /* with the overrides applied */
    const struct make_arch *arch;
    struct folder_out out;
    json_t *header;
    bool writing;       /* second walk; the first describes */
    uint32_t n_tensors; /* walked so far: which random numbers are a tensor's */
    uint64_t done, total;
    struct make_pool pool; /* of the embeddings' width */
    uint8_t *piece;        /* [PIECE] */
};

/* ---- numbers ---- */

static uint32_t groups_of(const struct folder_make *m, const struct item *t)
{
    const struct quant_group *f = m->s->group;
    return f->size < 0 ? 1 : t->dim[0] / (uint32_t)f->size;
}

/* Of codes less their zero, which is half a code from their mean. */
static float code_deviation(const struct quant_group *f)
{
    return sqrtf((ldexpf(1, 2 * f->bits) - 1) / 12 + 0.25f);
}

static void fill_words(const struct folder_make *m, uint64_t first, uint32_t *w, size_t n)
{
    uint32_t key[2] = {(uint32_t)m->s->seed, (uint32_t)(m->s->seed >> 32)};
    for (size_t i = 0; i < n; i += 4) {
        uint64_t at = first + i;
        uint32_t four[4];
        rng_philox((uint32_t[4]){(uint32_t)at, (uint32_t)(at >> 32), m->n_tensors, 7}, key, four);
        for (size_t k = 0; k < 4 && i + k < n; k++) w[i + k] = four[k];
    }
}

/* 2^(bits - 1) or, where groups have zeros of their own, that or one less, but for one in 16, which is anything: so
 * that it can be told how they are stored. */
static uint32_t zero_at(const struct folder_make *m, uint64_t i)
{
    const struct quant_group *f = m->s->group;
    uint32_t key[2] = {(uint32_t)m->s->seed, (uint32_t)(m->s->seed >> 32)}, r[4], middle = 1u << (f->bits - 1);
    if (f->symmetric) return middle;
    rng_philox((uint32_t[4]){(uint32_t)i, (uint32_t)(i >> 32), m->n_tensors, 8}, key, r);
    return r[0] % 16 ? middle - r[1] % 2 : r[1] & (2 * middle - 1);
}

/* Words from word `first` on, which a code may begin before. */
static void fill_zeros(const struct folder_make *m, uint64_t first, uint32_t *w, size_t n)
{
    uint64_t bits = (uint64_t)m->s->group->bits;
    memset(w, 0, n * sizeof *w);
    for (uint64_t i = 32 * first / bits; i * bits < 32 * (first + n); i++) {
        uint32_t zero = zero_at(m, i);
        for (uint64_t b = 0; b < bits; b++) {
            uint64_t at = i * bits + b - 32 * first; /* wraps for bits of the word before */
            if (at < 32 * n) w[at / 32] |= (zero >> b & 1) << at % 32;
        }
    }
}

/* n elements of 16 bits from element `first` on. */
static void fill_halves(struct folder_make *m, const struct item *t, uint64_t first, uint16_t *h, size_t n)
{
    float scale = 1 / sqrtf((float)t->dim[0]) / code_deviation(m->s->group), x[256];
    if (t->fill == MATRIX) { /* runs of the pool, which whole pieces are made of */
        const uint16_t *pool = (const uint16_t *)m->pool.raw;
        for (size_t i = 0; i < n; i += POOL_RUN) {
            uint32_t run = make_pool_pick(m->s->seed, m->n_tensors, (first + i) / POOL_RUN);
            memcpy(h + i, pool + (size_t)run * POOL_RUN, (n - i < POOL_RUN ? n - i : POOL_RUN) * sizeof *h);
        }
        return;
    }
    for (size_t i = 0; i < n; i += 256) {
        size_t k = n - i < 256 ? n - i : 256;
        make_normals(m->s->seed, m->n_tensors, first + i, x, k);
        for (size_t j = 0; j < k; j++) {
            float middle = t->fill == BIAS ? 0.0f : 1.0f;
            h[i + j] = f32_to_f16((middle + 0.1f * x[j]) * (t->fill == SCALES ? scale : 1));
        }
    }
}

/* ---- one tensor ---- */

static const struct {
    const char *suffix, *dtype;
    int width; /* of an element */
} fills[] = {[CODES] = {".qweight", "I32", 4},
    [ZEROS] = {".qzeros", "I32", 4},
    [SCALES] = {".scales", "F16", 2},
    [ORDER] = {".g_idx", "I32", 4},
    [MATRIX] = {".weight", "F16", 2},
    [NORM] = {".weight", "F16", 2},
    [BIAS] = {".bias", "F16", 2}};

static int shape_of(const struct folder_make *m, const struct item *t, uint64_t dim[2])
{
    uint64_t bits = (uint64_t)m->s->group->bits, k = t->dim[0], n = t->dim[1];
    const uint64_t shape[][2] = {[CODES] = {k * bits / 32, n},
        [ZEROS] = {groups_of(m, t), n * bits / 32},
        [SCALES] = {groups_of(m, t), n},
        [ORDER] = {k, 1},
        [MATRIX] = {n, k},
        [NORM] = {k, 1},
        [BIAS] = {k, 1}};
    memcpy(dim, shape[t->fill], sizeof shape[0]);
    return t->fill == ORDER || t->fill == NORM || t->fill == BIAS ? 1 : 2;
}

static void fill_piece(struct folder_make *m, const struct item *t, uint64_t first, size_t n)
{
    uint32_t *w = (uint32_t *)m->piece;
    if (t->fill == CODES)
        fill_words(m, first, w, n);
    else if (t->fill == ZEROS)
        fill_zeros(m, first, w, n);
    else if (t->fill == ORDER)
        for (size_t i = 0; i < n; i++) w[i] = (uint32_t)(first + i) / (t->dim[0] / groups_of(m, t));
    else
        fill_halves(m, t, first, (uint16_t *)m->piece, n);
}

static int write_item(struct folder_make *m, const struct item *t, uint64_t n, struct lutra_error *err)
{
    size_t width = (size_t)fills[t->fill].width, at_once = PIECE / width;
    for (uint64_t i = 0; i < n; i += at_once) {
        size_t k = n - i < at_once ? (size_t)(n - i) : at_once;
        fill_piece(m, t, i, k);
        TRY(folder_out_put(&m->out, m->piece, k * width, err));
        m->done += k * width;
        if (m->s->progress && m->s->progress(m->s->progress_user, m->done, m->total))
            return lutra_fail(err, LUTRA_E_CANCELLED, "make-model: cancelled");
    }
    return 0;
}

/* Elements of 32 bits come first, so that all lie aligned: width says which of the two is walked. */
static int item(struct folder_make *m, int width, struct item t, struct lutra_error *err)
{
    char name[128];
    uint64_t dim[2];
    int n_dim = shape_of(m, &t, dim);
    m->n_tensors++;
    if (fills[t.fill].width != width) return 0;
    if (m->writing) return write_item(m, &t, dim[0] * dim[1], err);
    snprintf(name, sizeof name, "%s%s", t.name, fills[t.fill].suffix);
    folder_out_describe(m->header, name, fills[t.fill].dtype, n_dim, dim, dim[0] * dim[1] * (uint64_t)width, &m->total);
    return 0;
}

/* ---- all of them ---- */

static int linear(
    struct folder_make *m, int width, const char *name, uint32_t k, uint32_t n, bool bias, struct lutra_error *err)
{
    for (int fill = CODES; fill <= ORDER; fill++) TRY(item(m, width, (struct item){name, fill, {k, n}}, err));
    return bias ? item(m, width, (struct item){name, BIAS, {n, 1}}, err) : 0;
}

static int layer(struct folder_make *m, int width, uint32_t i, struct lutra_error *err)
{
    const struct weights_shape *s = &m->shape;
    uint32_t d = s->d_model, d_q = s->n_head * s->d_head, d_kv = s->n_kv_head * s->d_head;
    bool bias = m->arch->has & MAKE_QKV_BIAS;
    const struct {
        const char *name;
        uint32_t k, n; /* n 0: a norm */
        bool has, bias;
    } parts[] = {{"input_layernorm", d, 0, true, false}, {"self_attn.q_proj", d, d_q, true, bias},
        {"self_attn.k_proj", d, d_kv, true, bias}, {"self_attn.v_proj", d, d_kv, true, bias},
        {"self_attn.q_norm", s->d_head, 0, m->arch->has & MAKE_QK_NORM, false},
        {"self_attn.k_norm", s->d_head, 0, m->arch->has & MAKE_QK_NORM, false},
        {"self_attn.o_proj", d_q, d, true, false}, {"post_attention_layernorm", d, 0, true, false},
        {"mlp.gate_proj", d, s->d_ff, true, false}, {"mlp.up_proj", d, s->d_ff, true, false},
        {"mlp.down_proj", s->d_ff, d, true, false}};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%u.%s", (unsigned)i, parts[p].name);
        if (parts[p].has && parts[p].n) TRY(linear(m, width, name, parts[p].k, parts[p].n, parts[p].bias, err));
        if (parts[p].has && !parts[p].n) TRY(item(m, width, (struct item){name, NORM, {parts[p].k, 1}}, err));
    }
    return 0;
}

static int walk(struct folder_make *m, struct lutra_error *err)
{
    const struct weights_shape *s = &m->shape;
    for (int width = 4; width > 0; width -= 2) {
        m->n_tensors = 0;
        TRY(item(m, width, (struct item){"model.embed_tokens", MATRIX, {s->d_model, s->n_vocab}}, err));
        for (uint32_t i = 0; i < s->n_layer; i++) TRY(layer(m, width, i, err));
        TRY(item(m, width, (struct item){"model.norm", NORM, {s->d_model, 1}}, err));
        if (!s->tied) TRY(item(m, width, (struct item){"lm_head", MATRIX, {s->d_model, s->n_vocab}}, err));
    }
    return 0;
}

/* ---- the other files ---- */

static const struct {
    const char *arch, *class;
} classes[] = {{"qwen2", "Qwen2ForCausalLM"}, {"qwen3", "Qwen3ForCausalLM"}, {"llama", "LlamaForCausalLM"}};

static const char *class_of(const char *arch)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(arch, classes[i].arch) == 0) return classes[i].class;
    return NULL;
}

static json_t *config_of(const struct folder_make *m)
{
    const struct weights_shape *s = &m->shape;
    const struct quant_group *f = m->s->group;
    json_t *config = json_pack("{s:[s], s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:s}",
        "architectures", class_of(s->arch), "model_type", s->arch, "hidden_act", "silu", "hidden_size", (int)s->d_model,
        "num_hidden_layers", (int)s->n_layer, "num_attention_heads", (int)s->n_head, "num_key_value_heads",
        (int)s->n_kv_head, "head_dim", (int)s->d_head, "intermediate_size", (int)s->d_ff, "vocab_size", (int)s->n_vocab,
        "max_position_embeddings", (int)s->n_ctx, "rope_theta", (double)s->rope_base, "rms_norm_eps",
        (double)s->rms_eps, "tie_word_embeddings", s->tied, "torch_dtype", "float16");
    if (config && s->rope_factor > 0)
        json_object_set_new(config, "rope_scaling",
            json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", (double)s->rope_factor,
                "low_freq_factor", 1.0, "high_freq_factor", 4.0, "original_max_position_embeddings", 8192));
    if (config)
        json_object_set_new(config, "quantization_config",
            json_pack("{s:s, s:s, s:i, s:i, s:b, s:b}", "quant_method", "gptq", "checkpoint_format", "gptq_v2", "bits",
                f->bits, "group_size", f->size, "sym", f->symmetric, "desc_act", 0));
    return config;
}

static int write_files(struct folder_make *m, struct lutra_error *err)
{
    json_t *tokenizer = NULL, *text = NULL;
    TRY(folder_out_json(&m->out, "config.json", config_of(m), err));
    TRY(make_vocab_json(m->shape.arch, m->shape.n_vocab, &tokenizer, &text, err));
    int rc = folder_out_json(&m->out, "tokenizer.json", tokenizer, err);
    if (rc == 0) return folder_out_json(&m->out, "tokenizer_config.json", text, err);
    json_decref(text);
    return rc;
}

static int check(const struct folder_make *m, struct lutra_error *err)
{
    const struct weights_shape *s = &m->shape;
    const struct quant_group *f = m->s->group;
    const uint32_t rows[] = {s->d_model, s->n_head * s->d_head, s->n_kv_head * s->d_head, s->d_ff};
    if (!class_of(s->arch))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "make-model: groups are made of the architectures llama, qwen2 and qwen3, not of %s", s->arch);
    if (m->s->tokenizer || m->s->outliers)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "make-model: groups with %s are not made",
            m->s->outliers ? "outliers" : "another file's tokenizer");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i] % 32 || (f->size > 0 && i != 2 && rows[i] % (uint32_t)f->size))
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "make-model: rows of %u are no whole groups of %d",
                (unsigned)rows[i], f->size < 0 ? 32 : f->size);
    return 0;
}

static int make(struct folder_make *m, const char *path, struct lutra_error *err)
{
    TRY(check(m, err));
    TRY(folder_out_open(&m->out, path, err));
    TRY(write_files(m, err));
    m->piece = malloc(PIECE);
    m->header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    if (!m->piece || !m->header ||
        make_pool_open(&m->pool, m->s->seed, 1 / sqrtf((float)m->shape.d_model), QUANT_F16) < 0)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "make-model: no memory for random numbers");
    TRY(walk(m, err));
    TRY(folder_out_begin(&m->out, "model.safetensors", err));
    TRY(folder_out_header(&m->out, m->header, err));
    m->writing = true;
    TRY(walk(m, err));
    TRY(folder_out_end(&m->out, err));
    return folder_out_commit(&m->out, err);
}

int make_folder(
    const char *path, const struct weights_make_settings *s, const struct weights_shape *shape, struct lutra_error *err)
{
    struct folder_make m = {.s = s, .shape = *shape, .arch = make_arch_find(shape->arch)};
    int rc = make(&m, path, err);
    folder_out_close(&m.out);
    make_pool_close(&m.pool);
    json_decref(m.header);
    free(m.piece);
    return rc;
}
