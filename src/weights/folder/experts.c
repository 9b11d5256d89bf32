/* SPDX-License-Identifier: MIT
 *
 * Experts' weights as GGUF has them: one tensor [n_expert][n_out][n_in] each for gate, up and down.  Folders have,
 * below `model.layers.N.mlp.` (LFM2: `feed_forward.`):
 *
 *     experts.E.gate_proj.weight, up_proj, down_proj (LFM2: w1, w3, w2)    [n_out][n_in] of expert E
 *     experts.gate_up_proj    [n_expert][2 n_ff][d_model], gate's rows before up's
 *     experts.down_proj       [n_expert][d_model][n_ff]
 *                             (Granite 4: block_sparse_moe.input_linear.weight, output_linear.weight)
 * and gpt-oss
 *     experts.gate_up_proj_blocks, _scales    [n_expert][2 n_ff][d_model / 32][16] and [...][d_model / 32] bytes:
 *                                             MXFP4, rows of gate and up in turn; down_proj_ likewise
 *     experts.gate_up_proj, down_proj         or floats, [n_expert][n_in][n_out]
 *     experts.gate_up_proj_bias, down_proj_bias    [n_expert][n_out]
 *
 * A byte of an MXFP4 block holds elements 2i and 2i + 1, low bits first; GGUF's holds i and i + 16.
 * Sources: transformers (models/qwen3_moe, qwen3_5_moe, lfm2_moe, gpt_oss, integrations/mxfp4.py).
 */
#include "base/pages.h"
#include "quant/formats.h"
#include "quant/quant.h"
#include "weights/folder/folder_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXPERTS = 4096, MXFP4_BYTES = 16 };

/* What a tensor of the model is put together from: rows first, first + step, ... of `n_all` of each expert. */
struct expert_stack {
    const struct safetensors_tensor *all;    /* of all experts; or NULL, and */
    const struct safetensors_tensor **each;  /* [n_expert] one's */
    const struct safetensors_tensor *scales; /* of MXFP4 */
    uint64_t n_expert, n_row, n_all, n_in, first, step;
    size_t element; /* bytes */
};

/* gate, up, down */
struct part {
    const char *to, *one, *one_lfm2, *all, *all_granite4;
    int half; /* which of two that lie in one tensor; -1: it is alone */
};
static const struct part parts[] = {{"ffn_gate_exps", "gate_proj", "w1", "gate_up_proj", "input_linear", 0},
    {"ffn_up_exps", "up_proj", "w3", "gate_up_proj", "input_linear", 1},
    {"ffn_down_exps", "down_proj", "w2", "down_proj", "output_linear", -1}};

/* ---- values ---- */

static const uint8_t *expert_data(const struct expert_stack *s, uint64_t expert, size_t bytes)
{
    return s->each ? s->each[expert]->data : s->all->data + expert * bytes;
}

static void fill_rows(const struct derived *d)
{
    const struct expert_stack *s = d->from;
    size_t row = s->n_in * s->element;
    uint8_t *to = d->data;
    for (uint64_t e = 0; e < s->n_expert; e++) {
        const uint8_t *from = expert_data(s, e, s->n_all * row);
        for (uint64_t r = 0; r < s->n_row; r++, to += row) memcpy(to, from + (s->first + r * s->step) * row, row);
        pages_drop(from, s->n_all * row);
    }
}

/* Of [n_in][n_all]. */
static void fill_turned(const struct derived *d)
{
    const struct expert_stack *s = d->from;
    uint8_t *to = d->data;
    for (uint64_t e = 0; e < s->n_expert; e++) {
        const uint8_t *from = expert_data(s, e, s->n_all * s->n_in * s->element);
        for (uint64_t r = 0; r < s->n_row; r++)
            for (uint64_t k = 0; k < s->n_in; k++, to += s->element)
                memcpy(to, from + (k * s->n_all + s->first + r * s->step) * s->element, s->element);
        pages_drop(from, s->n_all * s->n_in * s->element);
    }
}

/* Elements i and i + 16 of each byte from those of 2i and 2i + 1. */
static void write_mxfp4(struct quant_mxfp4 *to, uint8_t scale, const uint8_t *from)
{
    to->e = scale;
    for (int i = 0; i < MXFP4_BYTES; i++) {
        int low = from[i / 2] >> (i % 2 * 4) & 15, high = from[i / 2 + MXFP4_BYTES / 2] >> (i % 2 * 4) & 15;
        to->qs[i] = (uint8_t)(low | high << 4);
    }
}

static void fill_mxfp4(const struct derived *d)
{
    const struct expert_stack *s = d->from;
    struct quant_mxfp4 *to = d->data;
    uint64_t n_block = s->n_in / QUANT_BLOCK;
    for (uint64_t e = 0; e < s->n_expert; e++) {
        for (uint64_t r = 0; r < s->n_row; r++) {
            uint64_t at = (e * s->n_all + s->first + r * s->step) * n_block;
            for (uint64_t b = at; b < at + n_block; b++)
                write_mxfp4(to++, s->scales->data[b], s->all->data + b * MXFP4_BYTES);
        }
        size_t bytes = s->n_all * n_block * MXFP4_BYTES; /* the file's, read */
        pages_drop(s->all->data + e * bytes, bytes);
    }
}

/* ---- which tensors ---- */

struct taker {
    struct folder *f;
    struct lutra_error *err;
    char base[GGUF_MAX_NAME + 1]; /* of a layer's tensors: up to `experts.` */
    int layer;
    bool *taken; /* [f->list.n] */
};

bool folder_is_expert(const struct folder *f, const char *name)
{
    if (f->n_expert && f->family->flags & FAMILY_GRANITE4)
        return strstr(name, "moe.input_linear.") || strstr(name, "moe.output_linear.");
    return f->n_expert && strstr(name, ".experts.");
}

/* `base` and the rest; NULL: there is no such tensor. */
static const struct safetensors_tensor *find(struct taker *k, char name[GGUF_MAX_NAME + 1], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static const struct safetensors_tensor *find(struct taker *k, char name[GGUF_MAX_NAME + 1], const char *format, ...)
{
    char rest[64];
    va_list args;
    va_start(args, format);
    vsnprintf(rest, sizeof rest, format, args);
    va_end(args);
    snprintf(name, GGUF_MAX_NAME + 1, "%.*s%s", (int)(GGUF_MAX_NAME - strlen(rest)), k->base, rest);
    const struct safetensors_tensor *t = safetensors_find(&k->f->list, name);
    if (t) k->taken[t - k->f->list.tensor] = true;
    return t;
}

static int is_missing(struct taker *k, const char *name)
{
    return lutra_fail(k->err, LUTRA_E_FORMAT, "%s: tensor '%s' is missing", k->f->label, show_name(name).s);
}

/* Dimensions with 0 for those that it does not have; `bytes`: of an element, or 0 for a type of GGUF's. */
static int check(struct taker *k, const struct safetensors_tensor *t, int bytes, const uint64_t dim[4])
{
    bool same = true;
    int n_dim = 0;
    char want[96] = "";
    for (; n_dim < 4 && dim[n_dim]; n_dim++) {
        same = same && n_dim < t->n_dim && t->dim[n_dim] == dim[n_dim];
        size_t n = strlen(want);
        snprintf(want + n, sizeof want - n, "%s%llu", n ? " x " : "", (unsigned long long)dim[n_dim]);
    }
    if (!same || t->n_dim != n_dim)
        return lutra_fail(k->err, LUTRA_E_FORMAT, "%s: tensor '%s' is not %s", k->f->label, show_name(t->name).s, want);
    if (bytes ? t->dtype->bytes == bytes && t->dtype->type == QUANT_TYPE_END : quant_info_of(t->dtype->type) != NULL)
        return 0;
    return lutra_fail(k->err, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' has type %s, which experts cannot have",
        k->f->label, show_name(t->name).s, t->dtype->name);
}

/* Another tensor of the model, [n_expert][n_row][n_in] (n_in 0: [n_expert][n_row]), which `fill` makes. */
static int add(struct taker *k, const struct part *part, const char *suffix, enum quant_type type,
    const struct expert_stack *from, void (*fill)(const struct derived *))
{
    struct folder *f = k->f;
    struct model_file *header = &f->w->file[0];
    struct tensor *t = &header->tensor[header->n_tensor];
    struct expert_stack *stack = malloc(sizeof *stack);
    char name[64];
    struct derived *d;
    size_t row_bytes;
    bool matrix = strcmp(suffix, "weight") == 0;
    if (!stack) return lutra_fail(k->err, LUTRA_E_NO_MEMORY, "%s: no memory for experts", f->label);
    *stack = *from;
    snprintf(name, sizeof name, "blk.%d.%s.%s", k->layer, part->to, suffix);
    *t = (struct tensor){.name = names_add(&header->names, name, strlen(name)), .type = type, .n_dim = matrix ? 3 : 2};
    t->ne[0] = (int64_t)(matrix ? from->n_in : from->n_row);
    t->ne[1] = (int64_t)(matrix ? from->n_row : from->n_expert);
    t->ne[2] = (int64_t)(matrix ? from->n_expert : 1);
    t->ne[3] = 1;
    int rc = t->name ? quant_row_bytes(type, (uint64_t)t->ne[0], &row_bytes) : LUTRA_E_NO_MEMORY;
    if (rc == 0) t->bytes = row_bytes * (size_t)(t->ne[1] * t->ne[2]);
    if (rc == 0) rc = weights_derive(f->w, t->bytes, &d, k->err);
    if (rc < 0) {
        free(stack);
        return lutra_fail(k->err, rc, "%s: no memory for tensors", f->label);
    }
    header->n_tensor++;
    t->data = d->data;
    d->from = stack;
    d->fill = fill;
    d->owns_from = true;
    return 0;
}

/* One tensor of each expert. */
static int take_each(struct taker *k, const struct part *part, struct expert_stack s)
{
    const struct folder *f = k->f;
    char name[GGUF_MAX_NAME + 1];
    const char *one = f->family->flags & FAMILY_CONV ? part->one_lfm2 : part->one;
    s.each = calloc(s.n_expert, sizeof *s.each);
    if (!s.each) return lutra_fail(k->err, LUTRA_E_NO_MEMORY, "%s: no memory for experts", f->label);
    int rc = 0;
    for (uint64_t e = 0; e < s.n_expert && rc == 0; e++) {
        s.each[e] = find(k, name, "experts.%llu.%s.weight", (unsigned long long)e, one);
        rc = s.each[e] ? check(k, s.each[e], 0, (const uint64_t[4]){s.n_row, s.n_in}) : is_missing(k, name);
        if (rc == 0 && s.each[e]->dtype != s.each[0]->dtype)
            rc = lutra_fail(k->err, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' has another type than that of expert 0",
                f->label, show_name(name).s);
    }
    s.n_all = s.n_row;
    s.element = rc < 0 ? 0 : (size_t)s.each[0]->dtype->bytes;
    if (rc == 0) rc = add(k, part, "weight", s.each[0]->dtype->type, &s, fill_rows);
    if (rc < 0) free(s.each);
    return rc;
}

/* gpt-oss's rows of gate and up lie in turn, the others' behind each other. */
static void place(const struct folder *f, const struct part *part, struct expert_stack *s)
{
    bool in_turn = f->family->flags & FAMILY_GPT_OSS && part->half >= 0;
    s->n_all = part->half < 0 ? s->n_row : 2 * s->n_row;
    s->step = in_turn ? 2 : 1;
    s->first = part->half <= 0 ? 0 : in_turn ? 1 : s->n_row;
}

static int take_all(struct taker *k, const struct part *part, struct expert_stack s)
{
    bool turned = k->f->family->flags & FAMILY_GPT_OSS;
    const uint64_t dim[4] = {s.n_expert, turned ? s.n_in : s.n_all, turned ? s.n_all : s.n_in};
    TRY(check(k, s.all, 0, dim));
    s.element = (size_t)s.all->dtype->bytes;
    return add(k, part, "weight", s.all->dtype->type, &s, turned ? fill_turned : fill_rows);
}

static int take_mxfp4(struct taker *k, const struct part *part, struct expert_stack s)
{
    char name[GGUF_MAX_NAME + 1];
    if (s.n_in % QUANT_BLOCK)
        return lutra_fail(k->err, LUTRA_E_FORMAT, "%s: tensor '%s' is of rows of %llu, no whole blocks", k->f->label,
            show_name(s.all->name).s, (unsigned long long)s.n_in);
    s.scales = find(k, name, "experts.%s_scales", part->all);
    if (!s.scales) return is_missing(k, name);
    TRY(check(k, s.all, 1, (const uint64_t[4]){s.n_expert, s.n_all, s.n_in / QUANT_BLOCK, MXFP4_BYTES}));
    TRY(check(k, s.scales, 1, (const uint64_t[4]){s.n_expert, s.n_all, s.n_in / QUANT_BLOCK}));
    return add(k, part, "weight", QUANT_MXFP4, &s, fill_mxfp4);
}

static int take_bias(struct taker *k, const struct part *part, struct expert_stack s)
{
    char name[GGUF_MAX_NAME + 1];
    s.all = find(k, name, "experts.%s_bias", part->all);
    if (!s.all) return is_missing(k, name);
    TRY(check(k, s.all, 0, (const uint64_t[4]){s.n_expert, s.n_all}));
    s.n_in = 1;
    s.element = (size_t)s.all->dtype->bytes;
    return add(k, part, "bias", s.all->dtype->type, &s, fill_rows);
}

static int take_part(struct taker *k, const struct part *part)
{
    const struct folder *f = k->f;
    struct expert_stack s = {.n_expert = f->n_expert,
        .n_row = part->half < 0 ? f->d_model : f->d_ff_expert,
        .n_in = part->half < 0 ? f->d_ff_expert : f->d_model,
        .step = 1};
    char name[GGUF_MAX_NAME + 1];
    bool gpt_oss = f->family->flags & FAMILY_GPT_OSS;
    s.all = gpt_oss ? find(k, name, "experts.%s_blocks", part->all) : NULL;
    bool mxfp4 = s.all != NULL;
    bool granite4 = f->family->flags & FAMILY_GRANITE4;
    if (granite4)
        s.all = find(k, name, "%s.weight", part->all_granite4);
    else if (!mxfp4)
        s.all = find(k, name, "experts.%s", part->all);
    if (!s.all) return gpt_oss || granite4 ? is_missing(k, name) : take_each(k, part, s);
    place(f, part, &s);
    TRY(mxfp4 ? take_mxfp4(k, part, s) : take_all(k, part, s));
    return gpt_oss ? take_bias(k, part, s) : 0;
}

/* Tensors of experts that are none of these: scales of a quantization, a layer or an expert too many. */
static int refuse_others(const struct taker *k)
{
    const struct folder *f = k->f;
    for (size_t i = 0; i < f->list.n; i++) {
        const char *name = f->list.tensor[i].name;
        if (!k->taken[i] && folder_is_expert(f, name) && !folder_is_left_out(f, name))
            return lutra_fail(k->err, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' is not part of %s's experts as implemented",
                f->label, show_name(name).s, f->family->name);
    }
    return 0;
}

int folder_take_experts(struct folder *f, struct lutra_error *err)
{
    struct taker k = {.f = f, .err = err};
    const struct safetensors_tensor *embd = folder_embeddings(f);
    const char *tail = embd ? strstr(embd->name, "embed_tokens") : NULL;
    int rc = 0;
    if (!f->n_expert || !tail) return 0; /* without embeddings: a vocabulary, or refused later */
    if (f->n_expert > MOST_EXPERTS)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s/config.json: %llu experts, more than %d", f->label,
            (unsigned long long)f->n_expert, MOST_EXPERTS);
    k.taken = calloc(f->list.n, sizeof *k.taken);
    if (!k.taken) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for experts", f->label);
    for (uint64_t i = f->n_dense_lead; i < f->n_layer + f->n_draft && rc == 0; i++) {
        bool drafts = i >= f->n_layer; /* an MTP block */
        const char *name = drafts ? f->draft : embd->name;
        size_t before = drafts ? f->n_prefix : (size_t)(tail - name);
        k.layer = (int)i;
        unsigned flags = f->family->flags;
        snprintf(k.base, sizeof k.base, "%.*slayers.%llu.%s", (int)(before < 128 ? before : 128), name,
            (unsigned long long)(drafts ? i - f->n_layer : i),
            flags & FAMILY_CONV       ? "feed_forward."
            : flags & FAMILY_GRANITE4 ? "block_sparse_moe."
                                      : "mlp.");
        for (size_t p = 0; p < sizeof parts / sizeof *parts && rc == 0; p++) rc = take_part(&k, &parts[p]);
    }
    if (rc == 0) rc = refuse_others(&k);
    free(k.taken);
    return rc;
}

void folder_free_stack(const void *from)
{
    const struct expert_stack *s = from;
    free(s->each);
    free((void *)(uintptr_t)s);
}
