/* SPDX-License-Identifier: MIT */
#include "quantize/groups.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/formats.h"
#include "quant/quant.h"
#include "quantize/folder_out.h"
#include "weights/folder/folder.h"
#include "files/names.h"

enum { BLOCK = QUANT_BLOCK };

struct writer {
    const struct weights_quantize_settings *set;
    const struct weights *w;
    const struct safetensors *list;
    struct folder_out out;
    uint64_t done, total; /* bytes of tensors */
};

/* ---- which layers ---- */

static const struct safetensors_tensor *maker_of(const struct weights *w, const struct tensor *t)
{
    const struct safetensors *list = folder_tensors(w);
    for (size_t i = 0; list && i < list->n; i++)
        if (list->tensor[i].as == t) return &list->tensor[i];
    return NULL;
}

bool weights_is_grouped(const struct weights *w, const struct tensor *t)
{
    return t->n_dim == 2 && strncmp(t->name, "blk.", 4) == 0 && maker_of(w, t);
}

static struct quant_group group_of(const struct quant_group *group, const struct tensor *t)
{
    struct quant_group f = *group;
    if (f.size < 0) f.size = (int)t->ne[0];
    return f;
}

static int check_layer(
    const struct weights *w, const struct quant_group *group, const struct tensor *t, struct lutra_error *err)
{
    struct quant_group f = group_of(group, t);
    const char *name = maker_of(w, t)->name;
    size_t n = strlen(name);
    if (n < 8 || strcmp(name + n - 7, ".weight") != 0)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: layer '%s' has no name that ends in '.weight'",
            folder_label(w), show_name(name).s);
    if (t->ne[0] % f.size || f.size % BLOCK)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: layer '%s': rows of %lld are no whole groups of %d",
            folder_label(w), show_name(name).s, (long long)t->ne[0], f.size % BLOCK ? BLOCK : f.size);
    if (t->ne[1] % BLOCK)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: layer '%s': zeros of %lld outputs fill no whole words",
            folder_label(w), show_name(name).s, (long long)t->ne[1]);
    return 0;
}

int weights_groups_target(const char *out, struct lutra_error *err)
{
    return folder_out_target(out, err);
}

int weights_groups_check(const struct weights *w, const struct quant_group *group, struct lutra_error *err)
{
    size_t n = 0;
    if (!folder_tensors(w))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "%s: groups are written from a Hugging Face folder, whose names and tokenizer they need", folder_label(w));
    if (folder_has_packed(w))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: its layers are quantized already", folder_label(w));
    for (size_t i = 0; i < weights_tensor_count(w); i++) {
        const struct tensor *t = weights_tensor_at(w, i);
        if (!weights_is_grouped(w, t)) continue;
        TRY(check_layer(w, group, t, err));
        n++;
    }
    return n ? 0 : lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: no layers", folder_label(w));
}

/* ---- one layer, in its maker's order ---- */

struct layer {
    struct quant_group f;
    uint32_t k, n, n_group;
    uint8_t *code;   /* [n][k] */
    uint8_t *zero;   /* [n_group][n] */
    uint16_t *scale; /* [n_group][n] */
};

/* Codes less their zero, of a block of Q4_0 or Q5_0; its scale. */
static uint16_t read_block(enum quant_type type, const uint8_t *block, int8_t x[BLOCK])
{
    uint16_t d;
    uint32_t high = 0;
    const uint8_t *low = block + (type == QUANT_Q5_0 ? 6 : 2);
    memcpy(&d, block, 2);
    if (type == QUANT_Q5_0) memcpy(&high, block + 2, 4);
    for (int i = 0; i < BLOCK; i++) {
        int nibble = i < 16 ? low[i] & 15 : low[i - 16] >> 4;
        x[i] = (int8_t)(type == QUANT_Q5_0 ? (nibble | (int)(high >> i & 1) << 4) - 16 : nibble - 8);
    }
    return d;
}

/* Any zero does that leaves all codes in their range: the one nearest to the middle. */
static int zero_for(const struct quant_group *f, const int8_t *x)
{
    int half = 1 << (f->bits - 1), zero = half;
    for (int i = 0; i < f->size; i++) {
        if (x[i] + zero < 0) zero = -x[i];
        if (x[i] + zero > 2 * half - 1) zero = 2 * half - 1 - x[i];
    }
    return zero;
}

static void take_row(struct layer *l, enum quant_type type, const uint8_t *row, uint32_t n, int8_t *x)
{
    size_t block_bytes = quant_info_of(type)->block_bytes;
    for (uint32_t k = 0; k < l->k; k += BLOCK) {
        uint16_t d = read_block(type, row + k / BLOCK * block_bytes, x + k);
        l->scale[(size_t)(k / (uint32_t)l->f.size) * l->n + n] = d;
    }
    for (uint32_t g = 0; g < l->n_group; g++) {
        const int8_t *of = x + g * (uint32_t)l->f.size;
        int zero = zero_for(&l->f, of);
        l->zero[(size_t)g * l->n + n] = (uint8_t)zero;
        for (int i = 0; i < l->f.size; i++)
            l->code[(size_t)n * l->k + g * (uint32_t)l->f.size + (uint32_t)i] = (uint8_t)(of[i] + zero);
    }
}

static void layer_close(struct layer *l)
{
    free(l->code);
    free(l->zero);
    free(l->scale);
}

static int layer_open(struct layer *l, const struct writer *o, const struct tensor *t, struct lutra_error *err)
{
    enum quant_type type = quant_group_type(o->set->group);
    const void *ready = NULL;
    if (o->set->ready) TRY(o->set->ready(o->set->ready_user, t, type, &ready, err));
    const uint8_t *blocks = ready;
    size_t row_bytes = (size_t)t->ne[0] / BLOCK * quant_info_of(type)->block_bytes;
    *l = (struct layer){.f = group_of(o->set->group, t), .k = (uint32_t)t->ne[0], .n = (uint32_t)t->ne[1]};
    l->n_group = l->k / (uint32_t)l->f.size;
    if (!blocks)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "tensor '%s': no text was run through it", show_name(t->name).s);
    int8_t *x = malloc(l->k);
    l->code = malloc((size_t)l->n * l->k);
    l->zero = malloc((size_t)l->n * l->n_group);
    l->scale = malloc((size_t)l->n * l->n_group * sizeof *l->scale);
    bool there = x && l->code && l->zero && l->scale;
    for (uint32_t n = 0; n < l->n && there; n++) take_row(l, type, blocks + folder_row(o->w, t, n) * row_bytes, n, x);
    free(x);
    if (there) return 0;
    layer_close(l);
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for tensor '%s'", show_name(t->name).s);
}

/* ---- its four tensors ---- */

static void put_code(uint32_t *to, size_t stride, uint64_t i, int bits, uint32_t code)
{
    uint64_t at = i * (uint64_t)bits, w = at / 32, shift = at % 32;
    to[w * stride] |= code << shift;
    if (shift + (uint64_t)bits > 32) to[(w + 1) * stride] |= code >> (32 - shift);
}

static void fill_codes(const struct layer *l, uint32_t *to)
{
    for (uint32_t n = 0; n < l->n; n++)
        for (uint32_t k = 0; k < l->k; k++) put_code(to + n, l->n, k, l->f.bits, l->code[(size_t)n * l->k + k]);
}

static void fill_zeros(const struct layer *l, uint32_t *to)
{
    for (uint32_t g = 0; g < l->n_group; g++)
        for (uint32_t n = 0; n < l->n; n++)
            put_code(to + (size_t)g * l->n * (size_t)l->f.bits / 32, 1, n, l->f.bits, l->zero[(size_t)g * l->n + n]);
}

static void fill_order(const struct layer *l, uint32_t *to)
{
    for (uint32_t k = 0; k < l->k; k++) to[k] = k / (uint32_t)l->f.size;
}

static void fill_scales(const struct layer *l, uint32_t *to)
{
    memcpy(to, l->scale, (size_t)l->n_group * l->n * sizeof *l->scale);
}

static const struct part {
    const char *suffix, *dtype;
    void (*fill)(const struct layer *l, uint32_t *to);
} parts[] = {{"qweight", "I32", fill_codes}, {"qzeros", "I32", fill_zeros}, {"g_idx", "I32", fill_order},
    {"scales", "F16", fill_scales}};
enum { N_PART = sizeof parts / sizeof *parts };

static int part_shape(const struct quant_group *group, const struct tensor *t, int part, uint64_t dim[2])
{
    struct quant_group f = group_of(group, t);
    uint64_t k = (uint64_t)t->ne[0], n = (uint64_t)t->ne[1], bits = (uint64_t)f.bits, groups = k / (uint64_t)f.size;
    const uint64_t shape[N_PART][2] = {{k * bits / 32, n}, {groups, n * bits / 32}, {k, 1}, {groups, n}};
    memcpy(dim, shape[part], sizeof shape[part]);
    return part == 2 ? 1 : 2;
}

static uint64_t part_bytes(const struct quant_group *group, const struct tensor *t, int part)
{
    uint64_t dim[2];
    part_shape(group, t, part, dim);
    return dim[0] * dim[1] * (part == 3 ? 2 : 4);
}

/* ---- model.safetensors: the layers, then what is copied, the widest elements first so that all lie aligned ---- */

typedef int (*visit_fn)(
    struct writer *o, const struct safetensors_tensor *from, bool grouped, void *user, struct lutra_error *err);

static int visit(struct writer *o, visit_fn fn, void *user, struct lutra_error *err)
{
    for (int width = 16; width > 0; width /= 2)
        for (size_t i = 0; i < o->list->n; i++) {
            const struct safetensors_tensor *t = &o->list->tensor[i];
            bool grouped = t->as && weights_is_grouped(o->w, t->as);
            if (grouped ? width == 16 : t->dtype->bytes == width) TRY(fn(o, t, grouped, user, err));
        }
    return 0;
}

static int describe(
    struct writer *o, const struct safetensors_tensor *from, bool grouped, void *header, struct lutra_error *err)
{
    char name[GGUF_MAX_NAME + 16];
    uint64_t dim[2];
    (void)err;
    if (!grouped) {
        folder_out_describe(header, from->name, from->dtype->name, from->n_dim, from->dim, from->bytes, &o->total);
        return 0;
    }
    for (int i = 0; i < N_PART; i++) {
        snprintf(name, sizeof name, "%.*s%s", (int)strlen(from->name) - 6, from->name, parts[i].suffix);
        int n_dim = part_shape(o->set->group, from->as, i, dim);
        uint64_t n = part_bytes(o->set->group, from->as, i);
        folder_out_describe(header, name, parts[i].dtype, n_dim, dim, n, &o->total);
    }
    return 0;
}

static int write_data(
    struct writer *o, const struct safetensors_tensor *from, bool grouped, void *user, struct lutra_error *err)
{
    struct layer l;
    int rc = 0;
    (void)user;
    if (!grouped) {
        TRY(folder_out_put(&o->out, from->data, (size_t)from->bytes, err));
        o->done += from->bytes;
    } else {
        TRY(layer_open(&l, o, from->as, err));
        for (int i = 0; i < N_PART && rc == 0; i++) {
            size_t n = (size_t)part_bytes(o->set->group, from->as, i);
            uint32_t *to = calloc(1, n);
            if (to) parts[i].fill(&l, to);
            rc = to ? folder_out_put(&o->out, to, n, err)
                    : lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", o->out.path);
            free(to);
            o->done += n;
        }
        layer_close(&l);
    }
    if (rc == 0 && o->set->progress && o->set->progress(o->set->progress_user, o->done, o->total))
        return lutra_fail(err, LUTRA_E_CANCELLED, "%s: cancelled", o->out.path);
    return rc;
}

static int write_tensors(struct writer *o, struct lutra_error *err)
{
    TRY(folder_out_begin(&o->out, "model.safetensors", err));
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    visit(o, describe, header, err);
    int rc = folder_out_header(&o->out, header, err);
    json_decref(header);
    TRY(rc);
    TRY(visit(o, write_data, NULL, err));
    return folder_out_end(&o->out, err);
}

/* ---- the other files ---- */

static int write_config(struct writer *o, struct lutra_error *err)
{
    const struct quant_group *f = o->set->group;
    char path[4096];
    json_t *as = json_pack("{s:s, s:i, s:i, s:b, s:b, s:b, s:s, s:s}", "quant_method", "gptq", "bits", f->bits,
        "group_size", f->size, "sym", f->symmetric, "desc_act", 0, "lm_head", 0, "checkpoint_format", "gptq_v2",
        "lutra_zeros", "v2");
    snprintf(path, sizeof path, "%s/config.json", weights_path(o->w));
    json_t *config = json_load_file(path, 0, NULL);
    bool good = config && json_object_set(config, "quantization_config", as) == 0;
    json_decref(as);
    if (good) return folder_out_json(&o->out, "config.json", config, err);
    json_decref(config);
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: cannot be read again", path);
}

static int copy_open(struct writer *o, FILE *from, const char *name, struct lutra_error *err)
{
    char piece[65536];
    size_t n;
    TRY(folder_out_begin(&o->out, name, err));
    while ((n = fread(piece, 1, sizeof piece, from)) > 0) TRY(folder_out_put(&o->out, piece, n, err));
    return folder_out_end(&o->out, err);
}

/* What of a folder is text; a description of the model it was made of would be another's. */
static int copy_files(struct writer *o, struct lutra_error *err)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "tokenizer.model",
        "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja",
        "chat_template.json", "generation_config.json", "LICENSE", "LICENSE.txt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", weights_path(o->w), names[i]);
        FILE *from = fopen(path, "rbe");
        if (!from && errno != ENOENT) return lutra_fail(err, LUTRA_E_IO, "%s: cannot open: %s", path, strerror(errno));
        if (!from) continue;
        int rc = copy_open(o, from, names[i], err);
        if (rc == 0 && ferror(from))
            rc = lutra_fail(err, LUTRA_E_IO, "%s/%s: cannot read", weights_path(o->w), names[i]);
        fclose(from);
        TRY(rc);
    }
    return 0;
}

static int write_folder(struct writer *o, const char *out, struct lutra_error *err)
{
    TRY(weights_groups_check(o->w, o->set->group, err));
    TRY(folder_out_open(&o->out, out, err));
    TRY(write_tensors(o, err));
    TRY(write_config(o, err));
    TRY(copy_files(o, err));
    return folder_out_commit(&o->out, err);
}

int weights_write_groups(
    const char *in, const char *out, const struct weights_quantize_settings *settings, struct lutra_error *err)
{
    struct weights *w;
    TRY(weights_open_as(&w, in, (struct weights_how){settings->zeros, false}, err));
    struct writer o = {.set = settings, .w = w, .list = folder_tensors(w)};
    int rc = write_folder(&o, out, err);
    folder_out_close(&o.out);
    weights_close(&w);
    return rc;
}
