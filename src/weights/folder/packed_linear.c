/* SPDX-License-Identifier: MIT
 *
 * Linear layers that others have quantized, as tensors of GGUF types that hold their values exactly.
 *
 *     GPTQ   qweight [K b/32][N], codes along K; qzeros [G][N b/32], along N; scales [G][N]; g_idx [K]
 *     AWQ    qweight [K][N/8], eight columns in the order 0 2 4 6 1 3 5 7; qzeros [G][N/8] likewise; scales [G][N]
 *     CT     (compressed-tensors, pack-quantized) weight_packed [N][K b/32], along K; weight_scale [N][G];
 *            weight_zero_point [N b/32][G], along N; weight_g_idx [K]
 *     BitNet weight [N/4][K], bytes: two bits each of rows r, r + N/4, r + N/2, r + 3N/4, low bits first, values
 *            -1, 0, 1 as 0, 1, 2; weight_scale, one number that multiplies (linear_class `autobitlinear`) or divides
 *
 * K inputs, N outputs, G groups of K, codes of b bits in words of 32, the first in the low bits; a code of 3 bits may
 * lie in two words, but EfficientQAT and compressed-tensors put ten into a word and leave two bits.  The weight is
 * (code - zero) x scale.
 * In groups of whole 64, two bits fit Q2_0, whose values are -1 to 2, where zeros are 1, or 2 with all signs turned;
 * else 2 and 3 bits become W2 and W3, and 4 bits that Q4_0 does not hold W4 (quant/zero_point.h).  In groups of whole
 * 32, differences of codes fit Q4_0, Q5_0 or Q8_0.  The scale is as it is, if a float of 16 bits holds it; else, and in
 * other groups, the weights become F32.  BitNet's become TQ2_0 or Q2_0, with the scale to the nearest of 16 bits: what
 * divides is seldom exact.
 *
 * Groups whose inputs are no neighbours (desc_act, actorder) become F32, too, unless the matrix is wanted sorted
 * (weights_how): then its columns are, by group, and it is as if they were neighbours.
 *
 * GPTQ's zeros are stored less one, modulo 2^b (v1), or as they are (v2), and files say the one and hold the other: the
 * data decide, and where they do not, a label that says v2: programs that do not know of it write v1.  Sources:
 * AutoGPTQ and GPTQModel (qlinear, pack), EfficientQAT (int_linear_real), AutoAWQ (packing_utils), compressed-tensors
 * (pack_quantized), transformers (integrations/bitnet.py).
 */
#include "base/f16.h"
#include "quant/formats.h"
#include "quant/quant.h"
#include "quant/zero_point.h"
#include "weights/folder/folder_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, SAMPLED_BLOCKS = 8, WORD = 32 };

struct linear {
    struct safetensors_tensor codes, zeros, scales;
    bool has_zeros;
    enum packing packing;
    int bits;
    bool tens;                     /* of 3 bits, ten to a word */
    uint32_t k, n, n_group, group; /* sizes; group: inputs in one */
    const uint8_t *g_idx;          /* [k] i32, NULL: groups lie one after the other */
    int32_t *order;                /* [k] inputs by group, which columns follow then; NULL: they lie as they are */
    int zero_add;                  /* to what is stored */
    double mean_1, mean_2;         /* of code - zero, with zeros read as v1 and as v2 (GPTQ) */
    float scale;                   /* of all weights (BitNet) */
    enum quant_type type;
    const char *f32_reason; /* weights_f32_reason */
};

struct suffixes {
    const char *codes, *zeros, *scales, *order, *shape;
};
static const struct suffixes names[] = {
    [PACKING_GPTQ] = {".qweight", ".qzeros", ".scales", ".g_idx", ".g_idx"},
    [PACKING_AWQ] = {".qweight", ".qzeros", ".scales", ".g_idx", ".g_idx"},
    [PACKING_CT] = {".weight_packed", ".weight_zero_point", ".weight_scale", ".weight_g_idx", ".weight_shape"},
    [PACKING_BITNET] = {".weight", ".weight_scale", ".weight_scale", ".weight_scale", ".weight_scale"},
};

/* ---- codes ---- */

static uint32_t word(const struct safetensors_tensor *t, uint64_t i)
{
    uint32_t v;
    memcpy(&v, t->data + 4 * i, 4);
    return v;
}

/* Code i of a run of words that lie `stride` apart from word `first` on. */
static int code_at(
    const struct linear *m, const struct safetensors_tensor *t, uint64_t first, uint64_t stride, uint64_t i)
{
    uint64_t bits = (uint64_t)m->bits, at = m->tens ? i / 10 * WORD + i % 10 * bits : i * bits;
    uint64_t w = first + at / WORD * stride, shift = at % WORD;
    uint32_t v = word(t, w) >> shift;
    if (shift + bits > WORD) v |= word(t, w + stride) << (WORD - shift);
    return (int)(v & ((1u << bits) - 1));
}

/* Whether n codes fill so many words. */
static bool fills(const struct linear *m, uint64_t n, uint64_t n_word)
{
    return m->tens ? (n + 9) / 10 == n_word : n * (uint64_t)m->bits == WORD * n_word;
}

/* AWQ's place of a column in its word. */
static uint64_t awq_place(uint64_t column)
{
    return column % 8 % 2 * 4 + column % 8 / 2;
}

/* Row n: four to a byte, N/4 apart. */
static int bitnet_code(const struct linear *m, uint64_t n, uint64_t k)
{
    uint64_t chunk = m->n / 4;
    return m->codes.data[n % chunk * m->k + k] >> (2 * (n / chunk)) & 3;
}

static int code_of(const struct linear *m, uint64_t n, uint64_t k)
{
    switch (m->packing) {
    case PACKING_BITNET: return bitnet_code(m, n, k);
    case PACKING_AWQ: return code_at(m, &m->codes, k * m->n / 8 + n / 8, 1, awq_place(n));
    case PACKING_CT: return code_at(m, &m->codes, n * m->codes.dim[1], 1, k);
    default: return code_at(m, &m->codes, n, m->n, k);
    }
}

/* As it is stored. */
static int stored_zero(const struct linear *m, uint64_t n, uint64_t group)
{
    if (!m->has_zeros) return 1 << (m->bits - 1);
    switch (m->packing) {
    case PACKING_AWQ: return code_at(m, &m->zeros, group * m->n / 8 + n / 8, 1, awq_place(n));
    case PACKING_CT: return code_at(m, &m->zeros, group, m->n_group, n);
    default: return code_at(m, &m->zeros, group * m->zeros.dim[1], 1, n);
    }
}

static int zero_of(const struct linear *m, uint64_t n, uint64_t group)
{
    return (stored_zero(m, n, group) + m->zero_add) & ((1 << m->bits) - 1);
}

static float scale_of(const struct linear *m, uint64_t n, uint64_t group)
{
    if (m->packing == PACKING_BITNET) return m->scale;
    return safetensors_f32(&m->scales, m->packing == PACKING_CT ? n * m->n_group + group : group * m->n + n);
}

static uint64_t group_of(const struct linear *m, uint64_t k)
{
    uint32_t v;
    if (!m->g_idx) return k / m->group;
    memcpy(&v, m->g_idx + 4 * k, 4);
    return v;
}

/* ---- sizes ---- */

static bool ends(const char *s, const char *with)
{
    size_t n = strlen(s), m = strlen(with);
    return n > m && strcmp(s + n - m, with) == 0;
}

static int bad(const struct folder *f, const char *base, const char *what, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: quantized layer '%s': %s", f->label, show_name(base).s, what);
}

static const struct safetensors_tensor *part_of(const struct folder *f, const char *base, const char *suffix)
{
    char name[GGUF_MAX_NAME + 1];
    snprintf(name, sizeof name, "%.*s%s", GGUF_MAX_NAME - 32, base, suffix);
    return safetensors_find(&f->list, name);
}

static bool is_words(const struct safetensors_tensor *t, int n_dim)
{
    return t->n_dim == n_dim && (strcmp(t->dtype->name, "I32") == 0 || strcmp(t->dtype->name, "U32") == 0);
}

static bool is_shape(const struct safetensors_tensor *t, uint64_t d0, uint64_t d1)
{
    return t->n_dim == 2 && t->dim[0] == d0 && t->dim[1] == d1;
}

/* As EfficientQAT packs 3 bits, of k inputs; few codes may fill as many words with 4. */
static bool is_tens(const struct linear *m, uint64_t k)
{
    const struct safetensors_tensor *c = &m->codes, *z = &m->zeros;
    return c->dim[0] == k / 10 + (k % 10 > 0) && z->dim[1] == (c->dim[1] + 9) / 10 && c->dim[0] * 8 != k;
}

/* Bits, inputs and outputs from the shapes: configurations leave them out or give them per layer. */
static int read_sizes(struct folder *f, struct linear *m, const char *base, struct lutra_error *err)
{
    const struct safetensors_tensor *c = &m->codes, *s = &m->scales, *shape;
    uint64_t k = 0, n = 0, bits = 4;
    if (!is_words(c, 2) || (m->has_zeros && !is_words(&m->zeros, 2)))
        return bad(f, base, "codes that are no words", err);
    if (s->n_dim != 2 || !quant_info_of(s->dtype->type)) return bad(f, base, "scales that are no floats", err);
    for (int i = 0; i < 2; i++)
        if (c->dim[i] < 1 || c->dim[i] > 1 << 24 || s->dim[i] < 1 || s->dim[i] > 1 << 24)
            return bad(f, base, "sizes out of range", err);
    if (m->packing == PACKING_CT) {
        shape = part_of(f, base, names[PACKING_CT].shape);
        if (!shape || shape->n_dim != 1 || shape->dim[0] != 2 || strcmp(shape->dtype->name, "I64") != 0)
            return bad(f, base, "no 'weight_shape'", err);
        n = c->dim[0];
        memcpy(&k, shape->data + 8, 8);
        m->n_group = (uint32_t)s->dim[1];
        bits = k ? 32 * c->dim[1] / k : 0;
        m->tens = bits == 3;
    } else if (m->packing == PACKING_AWQ) {
        n = 8 * c->dim[1];
        k = c->dim[0];
        m->n_group = (uint32_t)s->dim[0];
    } else {
        const struct safetensors_tensor *order = part_of(f, base, names[PACKING_GPTQ].order);
        n = c->dim[1];
        bits = WORD * m->zeros.dim[1] / n;
        k = bits ? WORD * c->dim[0] / bits : 0;
        m->n_group = (uint32_t)s->dim[0];
        if (order && is_tens(m, order->dim[0])) {
            bits = 3;
            k = order->dim[0];
            m->tens = true;
        }
    }
    if ((bits != 2 && bits != 3 && bits != 4 && bits != 8) || k == 0 || k > 1 << 24 || n > 1 << 24) {
        char what[80];
        snprintf(
            what, sizeof what, "codes of %llu bits, where 2, 3, 4 and 8 are implemented", (unsigned long long)bits);
        return bad(f, base, what, err);
    }
    if (k % m->n_group) return bad(f, base, "groups that do not divide its inputs", err);
    m->bits = (int)bits;
    m->k = (uint32_t)k;
    m->n = (uint32_t)n;
    m->group = (uint32_t)k / m->n_group;
    return 0;
}

static int check_sizes(struct folder *f, const struct linear *m, const char *base, struct lutra_error *err)
{
    bool fits = true;
    if (m->packing == PACKING_CT)
        fits = fills(m, m->k, m->codes.dim[1]) && is_shape(&m->scales, m->n, m->n_group) &&
               (!m->has_zeros || (fills(m, m->n, m->zeros.dim[0]) && m->zeros.dim[1] == m->n_group));
    else if (m->packing == PACKING_AWQ)
        fits = m->has_zeros && is_shape(&m->scales, m->n_group, m->n) && is_shape(&m->zeros, m->n_group, m->n / 8);
    else
        fits = fills(m, m->k, m->codes.dim[0]) && is_shape(&m->scales, m->n_group, m->n) &&
               fills(m, m->n, m->zeros.dim[1]) && m->zeros.dim[0] == m->n_group;
    return fits ? 0 : bad(f, base, "shapes that do not fit together", err);
}

/* An order of groups that is not the usual one is kept.  compressed-tensors writes -1 where there is none. */
static int read_order(struct folder *f, struct linear *m, const char *base, struct lutra_error *err)
{
    const struct safetensors_tensor *order = part_of(f, base, names[m->packing].order);
    bool usual = true;
    if (!order || m->packing == PACKING_AWQ) return 0;
    if (!is_words(order, 1) || order->dim[0] != m->k) return bad(f, base, "an order of groups of another size", err);
    for (uint64_t k = 0; k < m->k; k++) {
        if (m->packing == PACKING_CT && word(order, k) == UINT32_MAX) return 0;
        if (word(order, k) >= m->n_group) return bad(f, base, "an order of groups beyond their number", err);
        usual = usual && word(order, k) == k / m->group;
    }
    if (!usual) m->g_idx = order->data;
    return 0;
}

/* Inputs by group, as far as groups of one size can be had so.  Embeddings are looked up, not multiplied. */
static int sort_inputs(struct folder *f, struct linear *m, const char *base, struct lutra_error *err)
{
    if (!f->how.sorted || ends(base, "embed_tokens")) return 0;
    uint32_t *n = calloc(m->n_group, sizeof *n);
    int32_t *order = malloc(m->k * sizeof *order);
    bool even = n && order;
    for (uint32_t k = 0; k < m->k && even; k++) {
        uint64_t g = group_of(m, k);
        even = n[g] < m->group;
        if (even) order[g * m->group + n[g]++] = (int32_t)k;
    }
    bool no_memory = !n || !order;
    free(n);
    m->order = even ? order : NULL;
    if (!even) free(order);
    return no_memory ? lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for the order of '%s'", f->label, base) : 0;
}

/* ---- the type that holds it ---- */

static int check_scales(
    struct folder *f, const struct linear *m, const char *base, bool *exact, struct lutra_error *err)
{
    *exact = true;
    for (uint64_t n = 0; n < m->n; n++)
        for (uint64_t g = 0; g < m->n_group; g++) {
            float s = scale_of(m, n, g);
            if (!isfinite(s)) return bad(f, base, "a scale that is NaN or infinite", err);
            *exact = *exact && f16_to_f32(f32_to_f16(s)) == s;
        }
    return 0;
}

/* Blocks that are whole in its rows; a scale that is not exact is rounded: F32 would be sixteen times the bytes. */
static void choose_ternary(struct linear *m, bool exact)
{
    bool near = weights_near_f16(m->scale);
    if (near && m->k % QUANT_SUPER == 0)
        m->type = QUANT_TQ2_0;
    else if (near && m->k % QUANT_GROUP64 == 0)
        m->type = QUANT_Q2_0;
    if (!exact)
        m->f32_reason = "a scale that floats of 16 bits do not hold";
    else if (m->type == QUANT_F32)
        m->f32_reason = "rows that are not whole blocks of 64";
}

static int choose_type(struct folder *f, struct linear *m, const char *base, struct lutra_error *err)
{
    int least = 1 << m->bits, most = 0, last = (1 << m->bits) - 1;
    bool exact, whole = m->group % QUANT_GROUP64 == 0;
    if (m->g_idx) TRY(sort_inputs(f, m, base, err));
    TRY(check_scales(f, m, base, &exact, err));
    for (uint64_t n = 0; n < m->n; n++)
        for (uint64_t g = 0; g < m->n_group; g++) {
            int z = zero_of(m, n, g);
            least = z < least ? z : least;
            most = z > most ? z : most;
        }
    m->type = QUANT_F32;
    if (m->packing == PACKING_BITNET)
        choose_ternary(m, exact);
    else if (!exact)
        m->f32_reason = "a scale that floats of 16 bits do not hold";
    else if (m->g_idx && !m->order)
        m->f32_reason = "groups whose inputs are not neighbours (desc_act)";
    else if (m->group % BLOCK)
        m->f32_reason = "groups that are not whole blocks of 32";
    else if (whole && m->bits <= 3)
        m->type = m->bits == 3 ? QUANT_W3 : least >= 1 && most <= 2 ? QUANT_Q2_0 : QUANT_W2;
    else if (most <= 8 && last - least <= 7)
        m->type = QUANT_Q4_0;
    else if (whole && m->bits == 4)
        m->type = QUANT_W4;
    else if (most <= 16 && last - least <= 15)
        m->type = QUANT_Q5_0;
    else if (most <= 128 && last - least <= 127)
        m->type = QUANT_Q8_0;
    else
        m->f32_reason = "differences of codes and zeros beyond -128 to 127";
    return 0;
}

/* ---- zeros ---- */

/* How GPTQ's zeros are stored, by one layer's codes: 1, 2; 0: undecided.  Weights are spread around 0; read the other
 * way, they are off by a code. */
static int judge(struct linear *m)
{
    uint64_t blocks = m->k / BLOCK, step = blocks > SAMPLED_BLOCKS ? blocks / SAMPLED_BLOCKS : 1, count = 0;
    int first = stored_zero(m, 0, 0), half = 1 << (m->bits - 1), mask = 2 * half - 1;
    bool constant = true;
    for (uint64_t n = 0; n < m->n && constant; n++)
        for (uint64_t g = 0; g < m->n_group; g++) constant = constant && stored_zero(m, n, g) == first;
    for (uint64_t n = 0; n < m->n; n++)
        for (uint64_t k = 0; k < m->k; k++) {
            if (k % BLOCK == 0 && k / BLOCK % step) k += BLOCK * (step - k / BLOCK % step);
            if (k >= m->k) break;
            int z = stored_zero(m, n, group_of(m, k)), q = code_of(m, n, k);
            m->mean_1 += q - ((z + 1) & mask);
            m->mean_2 += q - z;
            count++;
        }
    m->mean_1 /= (double)count;
    m->mean_2 /= (double)count;
    if (constant && (first == half - 1 || first == half)) return first == half ? 2 : 1;
    if (m->bits > 4 || fabs(fabs(m->mean_1) - fabs(m->mean_2)) <= 0.25) return 0;
    return fabs(m->mean_1) < fabs(m->mean_2) ? 1 : 2;
}

/* One program wrote all layers: they must agree.  The statistic becomes a key, for `inspect`. */
static int decide_zeros(struct folder *f, struct linear *list, size_t n, struct lutra_error *err)
{
    size_t votes[3] = {0};
    double mean_1 = 0, mean_2 = 0;
    bool insists, narrow = false;
    int label = folder_zeros_label(f, &insists), way = label ? label : 1;
    const bool says_v2 = folder_says_v2(f);
    char text[160];
    for (size_t i = 0; i < n; i++) {
        votes[judge(&list[i])]++;
        mean_1 += list[i].mean_1 / (double)n;
        mean_2 += list[i].mean_2 / (double)n;
        narrow = narrow || list[i].bits <= 4;
    }
    bool decided = insists || votes[1] > 9 * votes[2] || votes[2] > 9 * votes[1];
    if (!insists && decided) way = votes[1] > votes[2] ? 1 : 2;
    decided = decided || (says_v2 && votes[2] >= votes[1]); /* way is 2 then */
    if (!decided && narrow && f->how.zeros != WEIGHTS_ZEROS_ANY)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "%s: whether zeros are stored less one (v1) or not (v2) cannot be told: %zu layers say v1, %zu v2, mean "
            "codes %.2f and %.2f; --zeros v1 or v2 says it",
            f->label, votes[1], votes[2], mean_1, mean_2);
    for (size_t i = 0; i < n; i++) list[i].zero_add = way == 1;
    snprintf(text, sizeof text,
        "v%d; layers for v1 %zu, v2 %zu, undecided %zu; mean code as v1 %.3f, as v2 %.3f; label %s", way, votes[1],
        votes[2], votes[0], mean_1, mean_2, label ? label == 1 ? "v1" : "v2" : "none");
    gguf_writer_put_str(f->keys, "lutra.zeros", text);
    if (label && way != label) gguf_writer_put_bool(f->keys, "lutra.zeros.label_is_wrong", true);
    if (!decided && narrow) gguf_writer_put_bool(f->keys, "lutra.zeros.undecided", true);
    return 0;
}

/* ---- layers ---- */

/* BitNet's codes are called as matrices of floats are; a scale of floats stays, and the architecture refuses it. */
static bool is_packed_bitnet(const struct folder *f, const struct safetensors_tensor *t, bool *is_codes)
{
    const struct suffixes *s = &names[PACKING_BITNET];
    char base[GGUF_MAX_NAME + 1];
    *is_codes = ends(t->name, s->codes) && strcmp(t->dtype->name, "U8") == 0;
    if (*is_codes || !ends(t->name, s->scales)) return *is_codes;
    snprintf(base, sizeof base, "%.*s", (int)(strlen(t->name) - strlen(s->scales)), t->name);
    const struct safetensors_tensor *of = part_of(f, base, s->codes);
    return of && strcmp(of->dtype->name, "U8") == 0;
}

bool folder_is_packed(const struct folder *f, const struct safetensors_tensor *t, bool *is_codes)
{
    const struct suffixes *s = &names[f->packing];
    const char *name = t->name;
    if (f->packing == PACKING_BITNET) return is_packed_bitnet(f, t, is_codes);
    *is_codes = f->packing && ends(name, s->codes);
    return *is_codes || (f->packing && (ends(name, s->zeros) || ends(name, s->scales) || ends(name, s->order) ||
                                           ends(name, s->shape)));
}

static const char *base_of(const struct folder *f, const char *codes, char out[GGUF_MAX_NAME + 1])
{
    snprintf(out, GGUF_MAX_NAME + 1, "%.*s", (int)(strlen(codes) - strlen(names[f->packing].codes)), codes);
    return out;
}

const char *folder_packed_name(const struct folder *f, const char *codes, char out[GGUF_MAX_NAME + 1])
{
    snprintf(out, GGUF_MAX_NAME + 1, "%.*s.weight", (int)(strlen(codes) - strlen(names[f->packing].codes)), codes);
    return out;
}

static int open_bitnet(
    struct folder *f, const struct safetensors_tensor *codes, struct linear *m, struct lutra_error *err)
{
    char base[GGUF_MAX_NAME + 1];
    base_of(f, codes->name, base);
    const struct safetensors_tensor *scale = part_of(f, base, names[PACKING_BITNET].scales);
    const json_t *class = json_object_get(config_get(f, "quantization_config"), "linear_class");
    if (!scale || !quant_info_of(scale->dtype->type) || scale->bytes != (uint64_t)scale->dtype->bytes)
        return bad(f, base, "no 'weight_scale', or not one number", err);
    if (codes->n_dim != 2) return bad(f, base, "codes that are no matrix", err);
    for (int i = 0; i < 2; i++)
        if (codes->dim[i] < 1 || codes->dim[i] > 1 << 22) return bad(f, base, "sizes out of range", err);
    float s = safetensors_f32(scale, 0);
    *m = (struct linear){.codes = *codes, .scales = *scale, .packing = PACKING_BITNET, .bits = 2, .n_group = 1};
    m->zero_add = -1; /* to 2, the middle of two bits */
    bool multiplies = json_is_string(class) && strcmp(json_string_value(class), "autobitlinear") == 0;
    m->scale = multiplies ? s : 1 / s;
    m->n = (uint32_t)(4 * codes->dim[0]);
    m->k = m->group = (uint32_t)codes->dim[1];
    return 0;
}

static int open_layer(
    struct folder *f, const struct safetensors_tensor *codes, struct linear *m, struct lutra_error *err)
{
    char base[GGUF_MAX_NAME + 1];
    if (f->packing == PACKING_BITNET) return open_bitnet(f, codes, m, err);
    base_of(f, codes->name, base);
    const struct safetensors_tensor *zeros = part_of(f, base, names[f->packing].zeros),
                                    *scales = part_of(f, base, names[f->packing].scales);
    if (!scales || (!zeros && f->packing != PACKING_CT)) return bad(f, base, "no scales or no zeros", err);
    *m = (struct linear){.codes = *codes, .scales = *scales, .has_zeros = zeros != NULL, .packing = f->packing};
    if (zeros) m->zeros = *zeros;
    TRY(read_sizes(f, m, base, err));
    TRY(check_sizes(f, m, base, err));
    return read_order(f, m, base, err);
}

/* EfficientQAT's folders and AutoGPTQ's first ones have no quantization_config. */
static bool says_by_names(const struct folder *f)
{
    for (size_t i = 0; i < f->list.n; i++)
        if (ends(f->list.tensor[i].name, names[PACKING_GPTQ].codes)) return true;
    return false;
}

/* Before the header is composed, which tells of the zeros. */
int folder_open_packed(struct folder *f, struct lutra_error *err)
{
    char base[GGUF_MAX_NAME + 1];
    bool is_codes;
    size_t n = 0;
    if (!config_get(f, "quantization_config") && says_by_names(f)) f->packing = PACKING_GPTQ;
    if (!f->packing || !f->list.n) return 0;
    for (size_t i = 0; i < f->list.n; i++) n += folder_is_packed(f, &f->list.tensor[i], &is_codes) && is_codes;
    struct linear *list = calloc(n + 1, sizeof *list);
    f->w->packed_layers = list;
    if (!list) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for layers", f->label);
    f->layers = list;
    for (size_t i = 0; i < f->list.n; i++)
        if (folder_is_packed(f, &f->list.tensor[i], &is_codes) && is_codes)
            TRY(open_layer(f, &f->list.tensor[i], &list[f->n_layers++], err));
    if (n && f->packing == PACKING_GPTQ) TRY(decide_zeros(f, list, n, err));
    for (size_t i = 0; i < n; i++) TRY(choose_type(f, &list[i], base_of(f, list[i].codes.name, base), err));
    return 0;
}

void folder_close_packed(struct weights *w)
{
    struct linear *m = w->packed_layers;
    for (; m && m->codes.data; m++) free(m->order);
    free(w->packed_layers);
}

/* ---- values ---- */

/* Pairs of a head are neighbours in GGUF (tensors.c). */
uint64_t folder_row_of(const struct derived *d, uint64_t n)
{
    if (!d->n_head) return n - (uint64_t)d->first_row;
    uint64_t size = (uint64_t)(d->n_row / d->n_head), head = n / size, i = n % size, half = size / 2;
    return head * size + 2 * (i % half) + i / half;
}

/* Code of code - zero: -1 to 2, or, under the negative scale, -2 to 1. */
static void write_q2_0(uint8_t *to, float scale, int zero, const uint8_t *code)
{
    uint16_t d = f32_to_f16(zero == 1 ? scale : -scale);
    memcpy(to, &d, 2);
    for (int i = 0; i < QUANT_GROUP64 / 4; i++, code += 4) {
        int four = code[0] | code[1] << 2 | code[2] << 4 | code[3] << 6;
        to[2 + i] = (uint8_t)(zero == 1 ? four : ~four);
    }
}

static void write_block(uint8_t *to, enum quant_type type, float scale, int zero, const uint8_t *code)
{
    uint16_t d = f32_to_f16(scale);
    if (type == QUANT_Q2_0) {
        write_q2_0(to, scale, zero, code);
    } else if (!quant_in_gguf(type)) {
        quant_zero_point_pack(type, d, zero, code, to);
    } else if (type == QUANT_Q8_0) {
        memcpy(to, &d, 2);
        for (int i = 0; i < BLOCK; i++) to[2 + i] = (uint8_t)(code[i] - zero);
    } else {
        quant_zero_point_pack_wide(type, d, zero, code, to);
    }
}

/* Inputs outside, outputs inside: as the codes of GPTQ and AWQ lie. */
static void fill_blocks(const struct derived *d, const struct linear *m)
{
    const struct quant_info *q = quant_info_of(m->type);
    const uint64_t first = (uint64_t)d->first_row, end = first + (uint64_t)d->n_row;
    uint8_t code[QUANT_GROUP64];
    for (uint64_t k = 0; k < m->k; k += q->block_elems)
        for (uint64_t n = first; n < end; n++) {
            uint8_t *row = (uint8_t *)d->data + folder_row_of(d, n) * d->row_bytes;
            uint64_t g = k / m->group;
            for (uint64_t i = 0; i < q->block_elems; i++)
                code[i] = (uint8_t)code_of(m, n, m->order ? (uint64_t)m->order[k + i] : k + i);
            write_block(row + k / q->block_elems * q->block_bytes, m->type, scale_of(m, n, g), zero_of(m, n, g), code);
        }
}

/* Two bits of 256 (TQ2_0) or 64 (Q2_0) bytes into a block. */
static void write_ternary(uint8_t *to, enum quant_type type, uint16_t d, const uint8_t *from, uint64_t shift)
{
    if (type == QUANT_TQ2_0) {
        for (int i = 0; i < 64; i++) {
            const uint8_t *x = from + i / 32 * 128 + i % 32;
            to[i] = (uint8_t)((x[0] >> shift & 3) | (x[32] >> shift & 3) << 2 | (x[64] >> shift & 3) << 4 |
                              (x[96] >> shift & 3) << 6);
        }
        memcpy(to + 64, &d, 2);
        return;
    }
    memcpy(to, &d, 2);
    for (int i = 0; i < 16; i++) {
        const uint8_t *x = from + 4 * i;
        to[2 + i] = (uint8_t)((x[0] >> shift & 3) | (x[1] >> shift & 3) << 2 | (x[2] >> shift & 3) << 4 |
                              (x[3] >> shift & 3) << 6);
    }
}

static void fill_ternary(const struct derived *d, const struct linear *m)
{
    const struct quant_info *q = quant_info_of(m->type);
    uint16_t scale = f32_to_f16(m->scale);
    const uint64_t chunk = m->n / 4, first = (uint64_t)d->first_row, end = first + (uint64_t)d->n_row;
    for (uint64_t n = first; n < end; n++) {
        uint8_t *to = (uint8_t *)d->data + folder_row_of(d, n) * d->row_bytes;
        const uint8_t *from = m->codes.data + n % chunk * m->k;
        for (uint64_t k = 0; k < m->k; k += q->block_elems, to += q->block_bytes)
            write_ternary(to, m->type, scale, from + k, 2 * (n / chunk));
    }
}

static void fill_packed(const struct derived *d)
{
    const struct linear *m = d->from;
    if (m->packing == PACKING_BITNET && m->type != QUANT_F32) {
        fill_ternary(d, m);
        return;
    }
    if (m->type != QUANT_F32) {
        fill_blocks(d, m);
        return;
    }
    const uint64_t first = (uint64_t)d->first_row, end = first + (uint64_t)d->n_row;
    for (uint64_t n = first; n < end; n++) {
        float *row = (float *)d->data + folder_row_of(d, n) * m->k;
        for (uint64_t k = 0; k < m->k; k++) {
            uint64_t g = group_of(m, k);
            row[k] = (float)(code_of(m, n, k) - zero_of(m, n, g)) * scale_of(m, n, g);
        }
    }
}

void folder_describe_packed(
    const struct folder *f, const struct safetensors_tensor *codes, struct tensor *t, struct derived *d)
{
    const struct linear *m = f->layers;
    while (m->codes.data != codes->data) m++;
    *t = (struct tensor){.name = t->name, .type = m->type, .n_dim = 2, .ne = {m->k, m->n, 1, 1}};
    quant_row_bytes(m->type, m->k, &d->row_bytes);
    t->bytes = d->row_bytes * m->n;
    d->from = m;
    d->n_row = (int)m->n;
    d->f32_reason = m->f32_reason;
    d->order = m->type == QUANT_F32 ? NULL : m->order;
    d->fill = fill_packed;
}

bool folder_zeros_means(const struct derived *d, double mean[2])
{
    const struct linear *m = d->from;
    if (d->fill != fill_packed || m->packing != PACKING_GPTQ) return false;
    mean[0] = m->mean_1;
    mean[1] = m->mean_2;
    return true;
}
