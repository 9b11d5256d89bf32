/* SPDX-License-Identifier: MIT */
#include "quantize/mix.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "quant/zero_point.h"
#include "quantize/groups.h"
#include "files/names.h"
#include "weights/weights.h"
#include "base/status.h"

/* Sets of mixes. */
enum {
    Q4_0 = 1 << 0,
    Q5_0 = 1 << 1,
    Q2_K = 1 << 2,
    Q2_K_S = 1 << 3,
    Q3_K_S = 1 << 4,
    Q3_K_M = 1 << 5,
    Q3_K_L = 1 << 6,
    Q4_K_S = 1 << 7,
    Q4_K_M = 1 << 8,
    Q5_K_M = 1 << 9,
    IQ4_NL = 1 << 10,
    IQ4_XS = 1 << 11,
    TERNARY = 1 << 12, /* and Q2_0 */
    OTHERS = 1 << 13,  /* quantized types without rules of their own */
    IQ2_M = 1 << 14,
    IQ3_XXS = 1 << 15,
    IQ3_S = 1 << 16,
    IQ3_M = 1 << 17,
    IQ2_XXS = 1 << 18,
    IQ2_XS = 1 << 19,
    IQ2_S = 1 << 20,
    IQ3_XS = 1 << 21,
    ALL = (1 << 22) - 1,
    IQ2_LOW = IQ2_XXS | IQ2_XS,
    IQ2_HIGH = IQ2_S | IQ2_M,
    IQ2 = IQ2_LOW | IQ2_HIGH
};

static const struct weights_mix mixes[] = {
    {"F32", QUANT_F32, 0, 0},
    {"F16", QUANT_F16, 1, 0},
    {"BF16", QUANT_BF16, 32, 0},
    {"Q4_0", QUANT_Q4_0, 2, Q4_0},
    {"Q4_1", QUANT_Q4_1, 3, OTHERS},
    {"Q5_0", QUANT_Q5_0, 8, Q5_0},
    {"Q5_1", QUANT_Q5_1, 9, OTHERS},
    {"Q8_0", QUANT_Q8_0, 7, OTHERS},
    {"Q2_K", QUANT_Q2_K, 10, Q2_K},
    {"Q2_K_S", QUANT_Q2_K, 21, Q2_K_S},
    {"Q3_K_S", QUANT_Q3_K, 11, Q3_K_S},
    {"Q3_K_M", QUANT_Q3_K, 12, Q3_K_M},
    {"Q3_K_L", QUANT_Q3_K, 13, Q3_K_L},
    {"Q4_K_S", QUANT_Q4_K, 14, Q4_K_S},
    {"Q4_K_M", QUANT_Q4_K, 15, Q4_K_M},
    {"Q5_K_S", QUANT_Q5_K, 16, OTHERS},
    {"Q5_K_M", QUANT_Q5_K, 17, Q5_K_M},
    {"Q6_K", QUANT_Q6_K, 18, OTHERS},
    {"IQ2_XXS", QUANT_IQ2_XXS, 19, IQ2_XXS},
    {"IQ2_XS", QUANT_IQ2_XS, 20, IQ2_XS},
    {"IQ2_S", QUANT_IQ2_XS, 28, IQ2_S}, /* so it is */
    {"IQ2_M", QUANT_IQ2_S, 29, IQ2_M},
    {"IQ3_XXS", QUANT_IQ3_XXS, 23, IQ3_XXS},
    {"IQ3_S", QUANT_IQ3_S, 26, IQ3_S},
    {"IQ3_XS", QUANT_IQ3_S, 22, IQ3_XS},
    {"IQ3_M", QUANT_IQ3_S, 27, IQ3_M},
    {"IQ4_NL", QUANT_IQ4_NL, 25, IQ4_NL},
    {"IQ4_XS", QUANT_IQ4_XS, 30, IQ4_XS},
    {"TQ1_0", QUANT_TQ1_0, 36, TERNARY},
    {"TQ2_0", QUANT_TQ2_0, 37, TERNARY},
    {"MXFP4", QUANT_MXFP4, 38, 0},
    {"Q1_0", QUANT_Q1_0, 40, OTHERS},
    {"Q2_0", QUANT_Q2_0, 41, TERNARY},
};
enum { N_MIXES = sizeof mixes / sizeof *mixes };

const struct weights_mix *weights_mix_named(const char *name)
{
    static const char *const alias[][2] = {{"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};
    for (size_t i = 0; i < sizeof alias / sizeof *alias; i++)
        if (strcasecmp(name, alias[i][0]) == 0) name = alias[i][1];
    for (int i = 0; i < N_MIXES; i++)
        if (strcasecmp(name, mixes[i].name) == 0) return &mixes[i];
    return NULL;
}

const struct weights_mix *weights_mix_at(size_t i)
{
    return i < N_MIXES ? &mixes[i] : NULL;
}

const struct weights_mix *weights_mix_of(enum quant_type type)
{
    for (int i = 0; i < N_MIXES; i++)
        if (mixes[i].type == type) return &mixes[i];
    return NULL;
}

bool weights_is_quantized(enum quant_type type)
{
    return type != QUANT_F32 && type != QUANT_F16 && type != QUANT_BF16;
}

/* The mixes' types that are not implemented have blocks of 256. */
static bool divides(enum quant_type type, int64_t n)
{
    const struct quant_info *q = quant_info_of(type);
    return n % (q ? q->block_elems : QUANT_SUPER) == 0;
}

enum quant_type weights_legal_type(enum quant_type type, int64_t n_elems)
{
    if (divides(type, n_elems)) return type;
    switch (type) {
    case QUANT_Q4_K: type = QUANT_Q5_0; break;
    case QUANT_Q5_K: type = QUANT_Q5_1; break;
    case QUANT_Q6_K: type = QUANT_Q8_0; break;
    case QUANT_IQ2_XXS:
    case QUANT_IQ2_XS:
    case QUANT_IQ2_S:
    case QUANT_IQ3_XXS:
    case QUANT_IQ3_S:
    case QUANT_IQ4_XS: type = QUANT_IQ4_NL; break;
    case QUANT_Q2_0:
    case QUANT_Q2_K:
    case QUANT_Q3_K:
    case QUANT_TQ1_0:
    case QUANT_TQ2_0: type = QUANT_Q4_0; break;
    default: break;
    }
    return divides(type, n_elems) ? type : QUANT_F16;
}

/* ---- which tensors, and what they are ---- */

static bool is_matrix(const struct tensor *t)
{
    static const char *const kept[] = {"_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup",
        "laurel", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight",
        "indexer.q_proj.weight", "time_mix_first.weight", "time_mix_w", "time_mix_v", "time_mix_a", "time_mix_g",
        "time_mix_decay_w", "time_mix_lerp_fused.weight", "attn_rel_b.weight", "position_embd", "token_types",
        ".rel_pos", ".patch_embd"};
    size_t n = strlen(t->name);
    if (n < 6 || strcmp(t->name + n - 6, "weight") != 0) return false;
    if (t->ne[1] * t->ne[2] * t->ne[3] == 1) return false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strstr(t->name, kept[i])) return false;
    return true;
}

enum part { EMBD, OUTPUT, ATTN_V, ATTN_K, ATTN_Q, ATTN_OUTPUT, FFN_UP, FFN_GATE, FFN_DOWN, OTHER, N_PARTS };

static enum part part_of(const char *name)
{
    static const struct {
        const char *text;
        enum part part;
    } parts[] = {{"attn_qkv.weight", ATTN_V}, {"attn_kv_b.weight", ATTN_V}, {"attn_v.weight", ATTN_V},
        {"attn_k.weight", ATTN_K}, {"attn_q.weight", ATTN_Q}, {"attn_output.weight", ATTN_OUTPUT}, {"ffn_up", FFN_UP},
        {"ffn_gate", FFN_GATE}, {"ffn_down", FFN_DOWN}};
    if (strcmp(name, "output.weight") == 0) return OUTPUT;
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "per_layer_token_embd.weight") == 0) return EMBD;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i].text)) return parts[i].part;
    return OTHER;
}

/* Of "blk.7.attn_v.weight" 7; -1 outside the layers. */
static int layer_of(const char *name)
{
    int layer;
    return sscanf(name, "blk.%d.", &layer) == 1 ? layer : -1;
}

/* ---- a mix's rules ---- */

/* What they look at. */
struct place {
    int i, n; /* the i-th of n of its part */
    int gqa;  /* query heads per key head */
    uint32_t experts;
    bool imatrix;
    bool wide; /* the 80 layers of a 70B model */
};

static bool always(const struct place *p)
{
    return p != NULL;
}
static bool eight_experts(const struct place *p)
{
    return p->experts == 8;
}
static bool not_eight_experts(const struct place *p)
{
    return p->experts != 8;
}
static bool four_share_a_key(const struct place *p)
{
    return p->gqa >= 4;
}
static bool four_share_a_key_or_experts(const struct place *p)
{
    return four_share_a_key(p) || p->experts >= 4;
}
static bool without_imatrix(const struct place *p)
{
    return !p->imatrix;
}
static bool first_2(const struct place *p)
{
    return p->i < 2;
}
static bool first_4(const struct place *p)
{
    return p->i < 4;
}
static bool first_16th(const struct place *p)
{
    return p->i < p->n / 16;
}
static bool first_8th(const struct place *p)
{
    return p->i < p->n / 8;
}
static bool first_8th_with_imatrix(const struct place *p)
{
    return first_8th(p) && p->imatrix;
}
static bool first_8th_without(const struct place *p)
{
    return first_8th(p) && !p->imatrix;
}
static bool middle(const struct place *p)
{
    return !first_8th(p) && p->i < 7 * p->n / 8;
}
/* The first and last eighth, and every third between. */
static bool more_bits(const struct place *p)
{
    return first_8th(p) || p->i >= 7 * p->n / 8 || (p->i - p->n / 8) % 3 == 2;
}

static bool first_8th_or_more_bits_of_eight(const struct place *p)
{
    return first_8th(p) || (eight_experts(p) && more_bits(p));
}

/* The first that applies. */
static const struct rule {
    enum part part;
    uint32_t mixes;
    bool (*when)(const struct place *);
    enum quant_type type;
} rules[] = {
    {ATTN_V, IQ2, four_share_a_key_or_experts, QUANT_Q4_K},
    {ATTN_V, IQ2_LOW, always, QUANT_Q2_K},
    {ATTN_V, IQ2_HIGH, always, QUANT_IQ3_S},
    {ATTN_V, ALL, eight_experts, QUANT_Q8_0},
    {ATTN_V, IQ3_XXS | IQ3_XS | IQ3_S, four_share_a_key, QUANT_Q4_K},
    {ATTN_V, IQ3_XXS, without_imatrix, QUANT_IQ3_S},
    {ATTN_V, IQ3_M, always, QUANT_Q4_K},
    {ATTN_V, Q2_K | Q2_K_S, four_share_a_key, QUANT_Q4_K},
    {ATTN_V, Q2_K, always, QUANT_Q3_K},
    {ATTN_V, Q3_K_M, first_2, QUANT_Q5_K},
    {ATTN_V, Q3_K_M, always, QUANT_Q4_K},
    {ATTN_V, Q3_K_L, always, QUANT_Q5_K},
    {ATTN_V, IQ4_NL | IQ4_XS, four_share_a_key, QUANT_Q5_K},
    {ATTN_V, Q4_K_M | Q5_K_M, more_bits, QUANT_Q6_K},
    {ATTN_V, Q4_K_S, first_4, QUANT_Q5_K},
    {ATTN_K, IQ2, eight_experts, QUANT_Q4_K},
    {ATTN_K, ALL, eight_experts, QUANT_Q8_0},
    {ATTN_K, IQ3_XXS, always, QUANT_IQ2_S},
    {ATTN_K, IQ3_XS, always, QUANT_IQ3_XXS},
    {ATTN_Q, IQ3_XXS, always, QUANT_IQ2_S},
    {ATTN_Q, IQ3_XS, always, QUANT_IQ3_XXS},
    {FFN_UP, IQ3_XS, middle, QUANT_IQ3_XXS},
    {FFN_GATE, IQ3_XS, middle, QUANT_IQ3_XXS},
    {FFN_DOWN, IQ2_LOW, first_8th, QUANT_Q2_K},
    {FFN_DOWN, IQ2_HIGH, first_8th, QUANT_IQ3_S},
    {FFN_DOWN, IQ3_XXS, first_8th_without, QUANT_Q4_K},
    {FFN_DOWN, IQ3_XXS, without_imatrix, QUANT_Q3_K},
    {FFN_DOWN, IQ3_M, first_8th_or_more_bits_of_eight, QUANT_Q4_K},
    {FFN_DOWN, Q2_K, always, QUANT_Q3_K},
    {FFN_DOWN, Q2_K_S, first_8th, QUANT_Q4_K},
    {FFN_DOWN, Q3_K_M, first_16th, QUANT_Q5_K},
    {FFN_DOWN, Q3_K_M, always, QUANT_Q4_K},
    {FFN_DOWN, Q3_K_L, always, QUANT_Q5_K},
    {FFN_DOWN, Q4_K_M | Q5_K_M, more_bits, QUANT_Q6_K},
    {FFN_DOWN, Q4_K_S, first_8th, QUANT_Q5_K},
    {FFN_DOWN, IQ4_NL | IQ4_XS, first_8th_without, QUANT_Q5_K},
    {FFN_DOWN, Q4_0, first_8th_with_imatrix, QUANT_Q4_1},
    {FFN_DOWN, Q5_0, first_8th_with_imatrix, QUANT_Q5_1},
    {ATTN_OUTPUT, Q2_K | Q3_K_S | Q3_K_M | Q4_K_S | Q4_K_M | IQ2 | IQ3_XXS | IQ3_XS | IQ3_S | IQ3_M | IQ4_NL | IQ4_XS,
        eight_experts, QUANT_Q5_K},
    {ATTN_OUTPUT, IQ2_HIGH | IQ3_XXS, always, QUANT_IQ3_S},
    {ATTN_OUTPUT, Q2_K, not_eight_experts, QUANT_Q3_K},
    {ATTN_OUTPUT, Q3_K_M | IQ3_M, not_eight_experts, QUANT_Q4_K},
    {ATTN_OUTPUT, Q3_K_L, not_eight_experts, QUANT_Q5_K},
    {EMBD, TERNARY, always, QUANT_Q4_K},
    {EMBD, IQ2_LOW, always, QUANT_Q2_K},
    {EMBD, IQ2_HIGH | IQ3_XXS, always, QUANT_IQ3_S},
};

static enum quant_type by_rules(const struct weights_mix *mix, enum part part, const struct place *at)
{
    enum quant_type type = mix->type;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].part != part || !(rules[i].mixes & mix->bit) || !rules[i].when(at)) continue;
        type = rules[i].type;
        break;
    }
    /* Eight heads of a 70B model share one attn_v: it is small. */
    return part == ATTN_V && at->wide && !(mix->bit & IQ2) && (type == QUANT_Q3_K || type == QUANT_Q4_K) ? QUANT_Q5_K
                                                                                                         : type;
}

/* ---- all tensors ---- */

struct chooser {
    const struct weights *w;
    const struct weights_quantize_settings *s;
    pcre2_code **pattern; /* [s->n_rule] */
    pcre2_match_data *match;
    bool tied; /* no output.weight */
    uint32_t n_layer;
    int seen[N_PARTS], n_attn_v;
    struct place place; /* all but i and n */
};

static int compile_rules(struct chooser *c, struct lutra_error *err)
{
    c->pattern = calloc(c->s->n_rule + 1, sizeof *c->pattern);
    c->match = pcre2_match_data_create(1, NULL);
    if (!c->pattern || !c->match) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", weights_path(c->w));
    for (size_t i = 0; i < c->s->n_rule; i++) {
        const char *text = c->s->rule[i].pattern;
        int code;
        PCRE2_SIZE at;
        PCRE2_UCHAR why[128];
        c->pattern[i] = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);
        if (c->pattern[i]) continue;
        pcre2_get_error_message(code, why, sizeof why);
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "tensor type: '%s' is no regular expression: %s at %zu", text, (char *)why, at);
    }
    return 0;
}

/* Metadata that a file lacks, or that makes no sense, counts as 0. */
static uint32_t number(const struct weights *w, struct gguf_str arch, const char *suffix)
{
    char key[128];
    uint32_t value = 0;
    snprintf(key, sizeof key, "%.*s.%s", (int)arch.n, arch.s, suffix);
    return weights_opt_layer_u32(w, key, 0, &value, NULL) < 0 ? 0 : value;
}

static void read_model(struct chooser *c)
{
    struct gguf_str arch = {"", 0};
    weights_opt_str(c->w, "general.architecture", &arch, NULL);
    uint32_t heads = number(c->w, arch, "attention.head_count"), keys = number(c->w, arch, "attention.head_count_kv");
    c->n_layer = number(c->w, arch, "block_count") & 0xffff;
    c->place.gqa = keys ? (int)(heads / keys) : 1;
    c->place.imatrix = c->s->imatrix != NULL;
    c->place.experts = number(c->w, arch, "expert_count");
    bool llama = arch.n == 5 && memcmp(arch.s, "llama", 5) == 0, qwen2 = arch.n == 5 && memcmp(arch.s, "qwen2", 5) == 0;
    c->place.wide = c->n_layer == 80 && (qwen2 || (llama && heads != keys)); /* Llama 65B has no shared keys */
    c->tied = !weights_tensor_find(c->w, "output.weight");
    for (size_t i = 0; i < weights_tensor_count(c->w); i++)
        c->n_attn_v += part_of(weights_tensor_at(c->w, i)->name) == ATTN_V;
}

static const struct weights_type_rule *rule_for(const struct chooser *c, const char *name)
{
    for (size_t i = 0; i < c->s->n_rule; i++)
        if (pcre2_match(c->pattern[i], (PCRE2_SPTR)name, strlen(name), 0, 0, c->match, NULL) >= 0)
            return &c->s->rule[i];
    return NULL;
}

static enum quant_type output_type(const struct weights_mix *mix, int64_t n_in)
{
    bool eight = mix->type == QUANT_Q8_0 || mix->type == QUANT_MXFP4 || !divides(mix->type, n_in);
    if (eight || !divides(QUANT_Q6_K, n_in)) return QUANT_Q8_0;
    return mix->bit & (IQ2 | IQ3_XXS) ? QUANT_Q5_K : QUANT_Q6_K;
}

/* Before fallback; *decided: the rule that decided, or as it was. */
static enum quant_type choose_one(struct chooser *c, const struct tensor *t, const struct weights_type_rule **decided)
{
    const struct weights_quantize_settings *s = c->s;
    enum part part = part_of(t->name);
    bool output = part == OUTPUT || (part == EMBD && c->tied);
    if (part == OUTPUT && s->leave_output) return quant_gguf_type(t->type);
    if (part == EMBD && s->token_embd_type >= 0) return (enum quant_type)s->token_embd_type;
    if (output && s->output_type >= 0) return (enum quant_type)s->output_type;
    const struct weights_type_rule *rule = rule_for(c, t->name);
    if (rule) *decided = rule;
    if (rule) return rule->type;
    if (s->pure || !weights_is_quantized(s->mix->type)) return s->mix->type;
    if (output) return output_type(s->mix, t->ne[0]);
    struct place at = c->place;
    at.i = at.experts > 1 && part >= FFN_UP && part <= FFN_DOWN ? layer_of(t->name) : c->seen[part];
    at.n = part == ATTN_V ? c->n_attn_v : (int)c->n_layer;
    c->seen[part]++;
    return by_rules(s->mix, part, &at);
}

struct numbered {
    const struct tensor *t;
    size_t i;
};

/* By layer, then by name: the order in which rules count. */
static int by_layer(const void *a, const void *b)
{
    const struct tensor *x = ((const struct numbered *)a)->t, *y = ((const struct numbered *)b)->t;
    int lx = layer_of(x->name), ly = layer_of(y->name);
    return lx != ly ? (lx < ly ? -1 : 1) : strcmp(x->name, y->name);
}

static int choose_all(struct chooser *c, struct weights_choice *choice, struct lutra_error *err)
{
    size_t n = weights_tensor_count(c->w);
    struct numbered *order = malloc((n + 1) * sizeof *order);
    if (!order) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", weights_path(c->w));
    for (size_t i = 0; i < n; i++) order[i] = (struct numbered){weights_tensor_at(c->w, i), i};
    qsort(order, n, sizeof *order, by_layer);
    for (size_t k = 0; k < n; k++) {
        const struct tensor *t = order[k].t;
        bool changes = !c->s->copy && is_matrix(t);
        const struct weights_type_rule *rule = NULL;
        enum quant_type kept = quant_gguf_type(t->type), wanted = changes ? choose_one(c, t, &rule) : kept;
        choice[order[k].i] =
            (struct weights_choice){wanted == kept ? wanted : weights_legal_type(wanted, t->ne[0]), wanted, rule};
    }
    free(order);
    return 0;
}

static int check(
    const struct chooser *c, const struct tensor *t, const struct weights_choice *choice, struct lutra_error *err)
{
    const struct quant_info *wanted = quant_info_of(choice->wanted);
    const enum quant_type kept = quant_gguf_type(t->type);
    const char *reason = weights_f32_reason(c->w, t);
    if (reason && c->s->exact)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: no GGUF type of blocks holds tensor '%s' exactly: %s",
            weights_path(c->w), show_name(t->name).s, reason);
    if (choice->wanted != kept && (!wanted || !quant_plain(wanted->type)))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "quantize: tensor '%s' would become %s, which can be read, not written", show_name(t->name).s,
            quant_type_name(choice->wanted));
    if (!quant_in_gguf(choice->type))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "%s: tensor '%s' is NVFP4 with a scale beside it, which is not written as it is", weights_path(c->w),
            show_name(t->name).s);
    if (choice->type == kept) return 0;
    if ((weights_is_quantized(t->type) || reason) && !c->s->allow_requantize)
        return lutra_fail(err, LUTRA_E_ARGUMENT,
            "%s: tensor '%s' is %s already; quantizing it again needs allow-requantize", weights_path(c->w),
            show_name(t->name).s, weights_is_quantized(t->type) ? quant_info_of(t->type)->name : "quantized");
    return 0;
}

static int choose_groups(
    const struct weights *w, const struct quant_group *group, struct weights_choice *choice, struct lutra_error *err)
{
    TRY(weights_groups_check(w, group, err));
    for (size_t i = 0; i < weights_tensor_count(w); i++) {
        const struct tensor *t = weights_tensor_at(w, i);
        enum quant_type type = weights_is_grouped(w, t) ? quant_group_type(group) : t->type;
        choice[i] = (struct weights_choice){.type = type, .wanted = type};
    }
    return 0;
}

int weights_mix_choose(const struct weights *w, const struct weights_quantize_settings *settings,
    struct weights_choice *choice, struct lutra_error *err)
{
    struct chooser c = {.w = w, .s = settings};
    if (settings->group) return choose_groups(w, settings->group, choice, err);
    int rc = compile_rules(&c, err);
    read_model(&c);
    if (rc == 0) rc = choose_all(&c, choice, err);
    for (size_t i = 0; i < weights_tensor_count(w) && rc == 0; i++)
        rc = check(&c, weights_tensor_at(w, i), &choice[i], err);
    for (size_t i = 0; c.pattern && i < settings->n_rule; i++) pcre2_code_free(c.pattern[i]);
    free(c.pattern);
    pcre2_match_data_free(c.match);
    return rc;
}
