/* SPDX-License-Identifier: MIT
 *
 * One key of a made model changed at a time: what is read, and what is refused by name.  The expected values are
 * llama.cpp's (build 11669) on the same files: its logits there equal those of the plain file, of half and of a
 * quarter of its frequencies; what it refuses or aborts on is refused here.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"
#include "files/gguf_write.h"
#include "weights/weights.h"
#include "make/make.h"

enum { MAX_CHANGE = 3 };

struct change {
    const char *key;
    enum gguf_kind kind; /* of value; GGUF_STRING: text */
    const void *value;
};

static const float zero = 0, two = 2, four = 4;
static const uint32_t part = 16, inside = 255, as_long = 256, experts = 8;
static const uint8_t no = 0, yes = 1;

static char plain[64], changed[64];

static int make(void **state)
{
    (void)state;
    struct weights_make_settings set = weights_make_default();
    struct lutra_error err;
    snprintf(plain, sizeof plain, "/tmp/lutra-hparams-%d.gguf", (int)getpid());
    snprintf(changed, sizeof changed, "/tmp/lutra-hparams-%d-changed.gguf", (int)getpid());
    set.shape = "tiny-llama";
    set.n_layer = 1;
    if (weights_make_model(plain, &set, &err) == 0) return 0;
    fprintf(stderr, "%s\n", err.what);
    return -1;
}

static int clean(void **state)
{
    (void)state;
    unlink(plain);
    unlink(changed);
    return 0;
}

static void put(struct gguf_writer *w, const struct change *c)
{
    if (c->kind == GGUF_STRING)
        gguf_writer_put_str(w, c->key, c->value);
    else
        gguf_writer_put_scalar(w, c->key, c->kind, c->value);
}

static const char *source = plain;

/* The source with other values of some keys, and the name of one tensor spelt otherwise. */
static struct weights *change(const struct change *list, const char *extra_tensor)
{
    struct weights *from, *to;
    struct gguf_writer *w;
    struct lutra_error err;
    if (weights_open(&from, source, &err) < 0 || gguf_writer_open(&w, changed, &err) < 0) fail_msg("%s", err.what);
    for (size_t i = 0; i < weights_kv_count(from); i++) {
        const struct gguf_kv *kv = weights_kv_at(from, i);
        bool kept = true;
        for (int k = 0; k < MAX_CHANGE && list[k].key; k++) kept &= strcmp(kv->key, list[k].key) != 0;
        if (kept) gguf_writer_copy(w, kv);
    }
    for (int k = 0; k < MAX_CHANGE && list[k].key; k++) put(w, &list[k]);
    for (size_t i = 0; i < weights_tensor_count(from); i++) {
        const struct tensor *t = weights_tensor_at(from, i);
        gguf_writer_add_tensor(w, t->name, t->type, t->n_dim, t->ne);
    }
    const int64_t ne = 8;
    const float values[8] = {0};
    if (extra_tensor) gguf_writer_add_tensor(w, extra_tensor, QUANT_F32, 1, &ne);
    for (size_t i = 0; i < weights_tensor_count(from); i++)
        gguf_writer_data(w, weights_tensor_at(from, i)->data, weights_tensor_at(from, i)->bytes);
    if (extra_tensor) gguf_writer_data(w, values, sizeof values);
    if (gguf_writer_commit(&w, &err) < 0) fail_msg("%s", err.what);
    weights_close(&from);
    if (weights_open(&to, changed, &err) < 0) fail_msg("%s", err.what);
    return to;
}

#define SCALING "llama.rope.scaling."

static void rope_scaling_is_read_as_llama_cpp_does(void **state)
{
    (void)state;
    static const struct {
        struct change change[MAX_CHANGE];
        float scale;
    } cases[] = {
        {{{SCALING "factor", GGUF_F32, &four}}, 0.25f},
        {{{SCALING "type", GGUF_STRING, "linear"}, {SCALING "factor", GGUF_F32, &four}}, 0.25f},
        {{{SCALING "type", GGUF_STRING, "none"}, {SCALING "factor", GGUF_F32, &four}}, 1},
        {{{SCALING "type", GGUF_STRING, "linear"}, {SCALING "factor", GGUF_F32, &zero}}, 1},
        {{{"llama.rope.scale_linear", GGUF_F32, &two}}, 0.5f},
        {{{"llama.rope.scale_linear", GGUF_F32, &two}, {SCALING "factor", GGUF_F32, &four}}, 0.25f},
        {{{"llama.rope.scale_linear", GGUF_F32, &two}, {SCALING "type", GGUF_STRING, "none"}}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights *w = change(cases[i].change, NULL);
        struct model *m;
        struct lutra_error err;
        if (model_open(&m, w, &err) < 0) fail_msg("case %zu: %s", i, err.what);
        float scale = model_hparams(m)->rope.freq_scale;
        if (scale != cases[i].scale) fail_msg("case %zu: %g", i, (double)scale);
        model_close(&m);
        weights_close(&w);
    }
}

static void what_would_run_wrong_is_refused_by_its_key(void **state)
{
    (void)state;
    static const struct {
        struct change change;
        const char *tensor, *word; /* word NULL: it opens */
    } cases[] = {
        {{"llama.rope.dimension_count", GGUF_U32, &part}, NULL, "rope.dimension_count"},
        {{"llama.attention.causal", GGUF_BOOL, &no}, NULL, "attention.causal"},
        {{"llama.attention.causal", GGUF_BOOL, &yes}, NULL, NULL},
        {{"llama.attention.sliding_window", GGUF_U32, &inside}, NULL, NULL}, /* Mistral 7B's */
        {{"llama.attention.sliding_window", GGUF_U32, &as_long}, NULL, NULL},
        {{SCALING "type", GGUF_STRING, "su"}, NULL, "'su'"},
        {{"llama.attention.temperature_scale", GGUF_F32, &two}, NULL, "temperature_scale"},
        {{"llama.logit_scale", GGUF_F32, &two}, NULL, "logit_scale"},
        {{SCALING "type", GGUF_STRING, "yarn"}, NULL, NULL},
        {{"llama.expert_count", GGUF_U32, &experts}, NULL, "experts"},
        {{"general.architecture", GGUF_STRING, "mamba"}, NULL, "'mamba'"},
        {{"general.architecture", GGUF_STRING, "clip"}, NULL, "part of a model (mmproj)"},
        {{"general.name", GGUF_STRING, "x"}, "blk.0.attn_sub_norm.weight", "attn_sub_norm"},
    };
    static const uint32_t n_ctx = 256;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct change list[MAX_CHANGE] = {cases[i].change, {"llama.context_length", GGUF_U32, &n_ctx}};
        struct weights *w = change(list, cases[i].tensor);
        struct model *m;
        struct lutra_error err = {.what = ""};
        int rc = model_open(&m, w, &err);
        assert_int_equal(rc, cases[i].word ? LUTRA_E_UNSUPPORTED : 0);
        if (cases[i].word && !strstr(err.what, cases[i].word)) fail_msg("case %zu: %s", i, err.what);
        model_close(&m);
        weights_close(&w);
    }
}

/* Of an architecture without windows, shorter than the context: refused; as long: it hides nothing. */
static void windows_are_refused_where_nobody_has_them(void **state)
{
    (void)state;
    struct weights_make_settings set = weights_make_default();
    char path[64];
    set.shape = "tiny-qwen3";
    snprintf(path, sizeof path, "/tmp/lutra-hparams-%d-qwen3.gguf", (int)getpid());
    assert_int_equal(weights_make_model(path, &set, NULL), 0);
    source = path;
    for (int k = 0; k < 2; k++) {
        static const uint32_t all = 1024;
        struct change list[MAX_CHANGE] = {{"qwen3.attention.sliding_window", GGUF_U32, k ? &all : &inside}};
        struct weights *w = change(list, NULL);
        struct model *m;
        struct lutra_error err = {.what = ""};
        assert_int_equal(model_open(&m, w, &err), k ? 0 : LUTRA_E_UNSUPPORTED);
        if (!k && !strstr(err.what, "sliding_window")) fail_msg("%s", err.what);
        model_close(&m);
        weights_close(&w);
    }
    source = plain;
    unlink(path);
}

/* Keys of models with recurrent layers: what they ask for that is not there, and what does not fit. */
static void recurrent_sizes_are_checked(void **state)
{
    (void)state;
    static const uint32_t none = 0, three = 3, five = 5, ten = 10, two_layers = 2, odd = 24, many = 4096;
    static const struct {
        const char *shape;
        struct change change;
        int code;
        const char *word;
    } cases[] = {
        {"tiny-qwen35", {"general.name", GGUF_STRING, "x"}, 0, NULL},
        {"tiny-qwen35", {"qwen35.ssm.state_size", GGUF_U32, &odd}, LUTRA_E_FORMAT, "value heads of 24"},
        {"tiny-qwen35", {"qwen35.ssm.state_size", GGUF_U32, &many}, LUTRA_E_FORMAT, "ssm.state_size"},
        {"tiny-qwen35", {"qwen35.ssm.group_count", GGUF_U32, &three}, LUTRA_E_FORMAT, "3 key heads"},
        {"tiny-qwen35", {"qwen35.ssm.conv_kernel", GGUF_U32, &ten}, LUTRA_E_FORMAT, "ssm.conv_kernel"},
        {"tiny-qwen35", {"qwen35.ssm.conv_kernel", GGUF_U32, &five}, LUTRA_E_FORMAT, "ssm_conv1d"},
        {"tiny-qwen35", {"qwen35.full_attention_interval", GGUF_U32, &two_layers}, LUTRA_E_NOT_FOUND, "blk.1.attn_q"},
        {"tiny-qwen35", {"qwen35.full_attention_interval", GGUF_U32, &none}, LUTRA_E_FORMAT, "full_attention"},
        {"tiny-qwen35", {"qwen35.nextn_predict_layers", GGUF_U32, &many}, LUTRA_E_FORMAT, "nextn_predict"},
        {"tiny-lfm2", {"general.name", GGUF_STRING, "x"}, 0, NULL},
        {"tiny-lfm2", {"lfm2.shortconv.l_cache", GGUF_U32, &none}, LUTRA_E_FORMAT, "shortconv.l_cache"},
        {"tiny-lfm2", {"lfm2.shortconv.l_cache", GGUF_U32, &five}, LUTRA_E_FORMAT, "shortconv.conv"},
        {"tiny-lfm2", {"lfm2.attention.head_count_kv", GGUF_U32, &none}, LUTRA_E_NOT_FOUND, "shortconv.in_proj"},
        {"tiny-lfm2moe", {"lfm2moe.expert_gating_func", GGUF_U32, &three}, LUTRA_E_UNSUPPORTED, "gating_func"},
        {"tiny-lfm2moe", {"lfm2moe.leading_dense_block_count", GGUF_U32, &ten}, LUTRA_E_FORMAT, "leading_dense"},
    };
    struct weights_make_settings set = weights_make_default();
    char path[64];
    snprintf(path, sizeof path, "/tmp/lutra-hparams-%d-recurrent.gguf", (int)getpid());
    source = path;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set.shape = cases[i].shape;
        assert_int_equal(weights_make_model(path, &set, NULL), 0);
        struct change list[MAX_CHANGE] = {cases[i].change};
        struct weights *w = change(list, NULL);
        struct model *m;
        struct lutra_error err = {.what = ""};
        int rc = model_open(&m, w, &err);
        if (rc != cases[i].code) fail_msg("case %zu: %d, %s", i, rc, err.what);
        if (cases[i].word && !strstr(err.what, cases[i].word)) fail_msg("case %zu: %s", i, err.what);
        model_close(&m);
        weights_close(&w);
    }
    source = plain;
    unlink(path);
}

/* Keys of gemma2: read, defaults where they are absent, refused where they are damaged, and refused elsewhere. */
static void gemma2_has_caps_and_windows(void **state)
{
    (void)state;
    static const float below = -1;
    static const uint32_t none = 0, three = 3;
    static const struct {
        struct change change;
        int window;
        float attention_cap, logit_cap; /* 0 with window 0: refused */
    } cases[] = {
        {{"general.name", GGUF_STRING, "x"}, 64, 50, 30},
        {{"gemma2.attention.sliding_window", GGUF_U32, &three}, 3, 50, 30},
        {{"gemma2.attn_logit_softcapping", GGUF_F32, &zero}, 64, 0, 30},
        {{"gemma2.final_logit_softcapping", GGUF_F32, &two}, 64, 50, 2},
        {{"gemma2.attention.sliding_window", GGUF_U32, &none}, 0, 0, 0},
        {{"gemma2.attn_logit_softcapping", GGUF_F32, &below}, 0, 0, 0},
        {{"gemma2.final_logit_softcapping", GGUF_F32, &below}, 0, 0, 0},
        {{"gemma2.logit_scale", GGUF_F32, &two}, 0, 0, 0},
    };
    struct weights_make_settings set = weights_make_default();
    char path[64];
    set.shape = "tiny-gemma2";
    snprintf(path, sizeof path, "/tmp/lutra-hparams-%d-gemma2.gguf", (int)getpid());
    assert_int_equal(weights_make_model(path, &set, NULL), 0);
    source = path;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct change list[MAX_CHANGE] = {cases[i].change};
        struct weights *w = change(list, NULL);
        struct model *m;
        struct lutra_error err = {.what = ""};
        int rc = model_open(&m, w, &err);
        if (!cases[i].window) {
            assert_true(rc < 0);
            if (!strstr(err.what, cases[i].change.key)) fail_msg("case %zu: %s", i, err.what);
        } else {
            if (rc < 0) fail_msg("case %zu: %s", i, err.what);
            const struct op_list *list_of = model_ops(m);
            for (int k = 0; k < list_of->n_op; k++) {
                const struct op *op = &list_of->op[k];
                if (op->kind == OP_EMBED) assert_true(op->embed.scale == 16);
                if (op->kind == OP_HEAD) assert_true(op->head.softcap == cases[i].logit_cap);
                if (op->kind != OP_ATTENTION) continue;
                assert_int_equal(op->attention.window, op->layer % 2 ? 0 : cases[i].window);
                assert_true(op->attention.softcap == cases[i].attention_cap && op->attention.scale == 0.125f);
            }
        }
        model_close(&m);
        weights_close(&w);
    }
    source = plain;
    unlink(path);
}

/* The first operation of a kind in a layer, or NULL. */
static const struct op *find(const struct model *m, enum op_kind kind, int layer)
{
    const struct op_list *list = model_ops(m);
    for (int i = 0; i < list->n_op; i++)
        if (list->op[i].kind == kind && list->op[i].layer == layer) return &list->op[i];
    return NULL;
}

/* What layers of one model differ in; hand-made values of YaRN's ends. */
static void layers_differ_in_windows_and_rotation(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        int window[4];   /* of layers 0, 1 and the last two */
        bool turns_last; /* the last layer rotates */
        float base_last, growth;
    } cases[] = {{"tiny-gemma3", {64, 64, 64, 0}, true, 1e6f, 0}, {"tiny-olmo3", {128, 128, 128, 0}, true, 5e5f, 0},
        {"tiny-smollm3", {0, 0, 0, 0}, false, 0, 0}, {"tiny-mistral3", {0, 0, 0, 0}, true, 1e6f, 0.1f}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights_make_settings set = weights_make_default();
        struct weights *w;
        struct model *m;
        struct lutra_error err;
        set.shape = cases[i].shape;
        if (weights_make_model(changed, &set, &err) < 0 || weights_open(&w, changed, &err) < 0)
            fail_msg("%s", err.what);
        if (model_open(&m, w, &err) < 0) fail_msg("%s", err.what);
        int n = model_hparams(m)->n_layer, layer[4] = {0, 1, n - 2, n - 1};
        for (int k = 0; k < 4; k++)
            assert_int_equal(find(m, OP_ATTENTION, layer[k])->attention.window, cases[i].window[k]);
        const struct op *first = find(m, OP_ROPE, 0), *last = find(m, OP_ROPE, n - 1);
        assert_int_equal(last != NULL, cases[i].turns_last);
        assert_true(!last || last->rope.freq_base == cases[i].base_last);
        assert_true(first->rope.growth == cases[i].growth && first[1].rope.growth == 0);
        bool local = cases[i].window[0] != 0;
        assert_true(!local || (first->rope.magnitude == 1 && !first->rope.factors));
        /* The fastest pair keeps its frequency, the slowest is divided by the factor of 16 or 8. */
        if (last && last->rope.factors) {
            float factor = local ? 8 : 16;
            assert_true(last->rope.factors[0] == 1 && last->rope.factors[31] == factor);
            double magnitude = local ? 1.2079442 * (0.1 * log(8) + 1) : 1;
            assert_true(fabs(last->rope.magnitude - magnitude) < 1e-6);
        }
        model_close(&m);
        weights_close(&w);
    }
}

/* 100 is open_llama_3b's. */
static void heads_have_any_even_size_from_8_to_512(void **state)
{
    (void)state;
    struct weights_make_settings set = weights_make_default();
    struct weights *w;
    struct model *m;
    struct lutra_error err;
    set.shape = "tiny-llama-100";
    if (weights_make_model(changed, &set, &err) < 0 || weights_open(&w, changed, &err) < 0) fail_msg("%s", err.what);
    if (model_open(&m, w, &err) < 0) fail_msg("%s", err.what);
    assert_int_equal(model_hparams(m)->d_head, 100);
    model_close(&m);
    weights_close(&w);
    static const uint32_t refused[] = {6, 65, 514};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const struct change list[MAX_CHANGE] = {{"llama.attention.key_length", GGUF_U32, &refused[i]},
            {"llama.attention.value_length", GGUF_U32, &refused[i]}};
        w = change(list, NULL);
        assert_int_equal(model_open(&m, w, &err), LUTRA_E_UNSUPPORTED);
        assert_non_null(strstr(err.what, "only even numbers from 8 to 512"));
        weights_close(&w);
    }
}

/* What encoders' lists say, and what of their files is refused. */
static void encoders_see_the_whole_text(void **state)
{
    (void)state;
    static const uint32_t window = 100;
    static const struct {
        const char *shape;
        struct change change[MAX_CHANGE];
        const char *word; /* NULL: it opens */
    } cases[] = {{"tiny-bert", {{0}}, NULL}, {"tiny-nomic-bert", {{0}}, NULL},
        {"tiny-gemma-embedding", {{"gemma-embedding.attention.sliding_window", GGUF_U32, &window}}, NULL},
        {"tiny-bert", {{"bert.attention.causal", GGUF_BOOL, &yes}}, "causal"},
        {"tiny-bert", {{"bert.context_length", GGUF_U32, &inside}}, "position_embd.weight"},
        {"tiny-bert", {{"bert.attention.max_alibi_bias", GGUF_F32, &four}}, "ALiBi"},
        {"tiny-nomic-bert", {{"nomic-bert.expert_count", GGUF_U32, &experts}}, "experts"}};
    char other[sizeof plain + 16];
    snprintf(other, sizeof other, "%s.encoder", plain);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights_make_settings set = weights_make_default();
        struct model *m;
        struct lutra_error err;
        set.shape = cases[i].shape;
        if (weights_make_model(other, &set, &err) < 0) fail_msg("%s", err.what);
        source = other;
        struct weights *w = change(cases[i].change, NULL);
        source = plain;
        int rc = model_open(&m, w, &err);
        if (cases[i].word) {
            assert_true(rc < 0);
            if (!strstr(err.what, cases[i].word)) fail_msg("no '%s' in: %s", cases[i].word, err.what);
        } else {
            if (rc < 0) fail_msg("%s", err.what);
            const struct op_list *list = model_ops(m);
            bool bert = strstr(cases[i].shape, "bert"), plain_bert = !strcmp(cases[i].shape, "tiny-bert");
            assert_true(list->whole && list->op[list->n_op - 1].n_weight == 0);
            assert_int_equal(list->n_position, plain_bert ? 512 : 0);
            assert_int_equal(list->n_segment, bert ? 2 : 0);
            assert_int_equal(find(m, OP_ROPE, 0) == NULL, plain_bert);
            assert_int_equal(find(m, OP_GELU_ERF, 1) != NULL, plain_bert);
            assert_int_equal(find(m, OP_ATTENTION, 0)->attention.window, bert ? 0 : 51); /* 50 to each side */
            if (!bert) assert_int_equal(find(m, OP_ATTENTION, 5)->attention.window, 0);
            assert_int_equal(model_dense(m)->n_mid, bert ? 0 : 512);
            model_close(&m);
        }
        weights_close(&w);
    }
    unlink(other);
}

/* Scales of Granite, a part of each head rotated, and matrices cut out of one (Phi). */
static void scales_and_slices(void **state)
{
    (void)state;
    struct weights_make_settings set = weights_make_default();
    struct weights *w;
    struct model *m;
    struct lutra_error err;
    set.shape = "tiny-granite";
    if (weights_make_model(changed, &set, &err) < 0 || weights_open(&w, changed, &err) < 0) fail_msg("%s", err.what);
    if (model_open(&m, w, &err) < 0) fail_msg("%s", err.what);
    const struct op_list *list = model_ops(m);
    assert_true(find(m, OP_EMBED, -1)->embed.scale == 12 && find(m, OP_HEAD, -1)->head.scale == 0.125f);
    assert_true(find(m, OP_ADD_SCALED, 1)->add.scale == 0.22f && !find(m, OP_ADD, 1));
    assert_true(find(m, OP_ATTENTION, 0)->attention.scale == 0.015625f);
    model_close(&m);
    weights_close(&w);
    set.shape = "tiny-phi";
    if (weights_make_model(changed, &set, &err) < 0 || weights_open(&w, changed, &err) < 0) fail_msg("%s", err.what);
    if (model_open(&m, w, &err) < 0) fail_msg("%s", err.what);
    list = model_ops(m);
    const struct op *qkv = find(m, OP_MATMUL, 0), *rope = find(m, OP_ROPE, 0);
    const struct tensor *whole = weights_tensor_find(w, "blk.0.attn_qkv.weight");
    assert_true(qkv->n_weight == 3 && rope->rope.n_rot == 48 && rope->rope.d_head == 64);
    assert_true(rope->rope.long_factors && rope->rope.factors && rope->rope.short_ctx == 256);
    const uint8_t *at = whole->data;
    for (int i = 0; i < 3; i++) { /* one behind the other, under names of their own */
        assert_ptr_equal(qkv->weight[i]->tensor.data, at);
        assert_true(!i || strcmp(qkv->weight[i]->tensor.name, qkv->weight[i - 1]->tensor.name) != 0);
        at += qkv->weight[i]->tensor.bytes;
    }
    assert_ptr_equal(at, (const uint8_t *)whole->data + whole->bytes);
    assert_int_equal(list->op[list->n_op - 1].kind, OP_HEAD);
    model_close(&m);
    weights_close(&w);
}

/* A key, or grouped heads where there is none; the norms before the last matrix of each sub-layer. */
static void bitnet_is_told_its_activation(void **state)
{
    (void)state;
    static const uint32_t one = 1;
    static const struct {
        const char *shape, *key;
        enum gguf_kind kind;
        const void *value;
        enum op_kind gate; /* OP_COUNT: refused */
    } cases[] = {
        {"tiny-bitnet", "general.name", GGUF_STRING, "x", OP_SWIGLU},
        {"tiny-bitnet", "bitnet.hidden_activation", GGUF_STRING, "relu2", OP_RELU2},
        {"tiny-bitnet", "bitnet.hidden_activation", GGUF_STRING, "gelu", OP_COUNT},
        {"tiny-bitnet", "bitnet.hidden_activation", GGUF_U32, &one, OP_COUNT},
        {"tiny-bitnet-b1.58", "general.name", GGUF_STRING, "x", OP_RELU2},
        {"tiny-bitnet-b1.58", "bitnet-b1.58.hidden_activation", GGUF_STRING, "silu", OP_SWIGLU},
    };
    char path[64];
    snprintf(path, sizeof path, "/tmp/lutra-hparams-%d-bitnet.gguf", (int)getpid());
    source = path;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights_make_settings set = weights_make_default();
        struct change list[MAX_CHANGE] = {{cases[i].key, cases[i].kind, cases[i].value}};
        struct lutra_error err = {.what = ""};
        struct model *m;
        set.shape = cases[i].shape;
        assert_int_equal(weights_make_model(path, &set, NULL), 0);
        struct weights *w = change(list, NULL);
        int rc = model_open(&m, w, &err);
        if (cases[i].gate == OP_COUNT) {
            assert_true(rc < 0);
            if (!strstr(err.what, cases[i].key)) fail_msg("case %zu: %s", i, err.what);
        } else {
            if (rc < 0) fail_msg("case %zu: %s", i, err.what);
            assert_int_equal(find(m, OP_SWIGLU, 1) != NULL, cases[i].gate == OP_SWIGLU);
            assert_int_equal(find(m, OP_RELU2, 1) != NULL, cases[i].gate == OP_RELU2);
            const struct op *of_attention = find(m, OP_ATTENTION, 0) + 1, *of_gate = find(m, cases[i].gate, 0) + 1;
            assert_true(of_attention->kind == OP_RMS_NORM && of_attention->norm.n_norm == 256);
            assert_true(of_gate->kind == OP_RMS_NORM && of_gate->norm.n_norm == 512);
        }
        model_close(&m);
        weights_close(&w);
    }
    source = plain;
    unlink(path);
}

static void join(void *user, const char *sentence)
{
    char *all = user;
    snprintf(all + strlen(all), 2000 - strlen(all), "%s\n", sentence);
}

static void everything_a_file_lacks_is_told(void **state)
{
    (void)state;
    static const struct change known[MAX_CHANGE] = {{"llama.attention.causal", GGUF_BOOL, &no},
        {SCALING "type", GGUF_STRING, "su"}, {"llama.rope.dimension_count", GGUF_U32, &part}};
    static const struct change unknown[MAX_CHANGE] = {{"general.architecture", GGUF_STRING, "mamba"},
        {"mamba.attention.sliding_window", GGUF_U32, &inside}, {"mamba.final_logit_softcapping", GGUF_F32, &four}};
    static const char *const words[][4] = {{"causal", "'su'", "dimension_count", "blk.0.extra"},
        {"'mamba'", "sliding_window", "final_logit_softcapping", " are)"}};
    for (int i = 0; i < 3; i++) {
        static const struct change none[MAX_CHANGE];
        struct weights *w = change(i == 0 ? known : i == 1 ? unknown : none, i == 0 ? "blk.0.extra" : NULL);
        char told[2000] = "";
        model_tell_unsupported(w, join, told);
        for (int k = 0; k < 4 && i < 2; k++)
            if (!strstr(told, words[i][k])) fail_msg("no '%s' in: %s", words[i][k], told);
        if (i == 2) assert_string_equal(told, "");
        weights_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_scaling_is_read_as_llama_cpp_does),
        cmocka_unit_test(what_would_run_wrong_is_refused_by_its_key),
        cmocka_unit_test(windows_are_refused_where_nobody_has_them),
        cmocka_unit_test(recurrent_sizes_are_checked),
        cmocka_unit_test(gemma2_has_caps_and_windows),
        cmocka_unit_test(layers_differ_in_windows_and_rotation),
        cmocka_unit_test(heads_have_any_even_size_from_8_to_512),
        cmocka_unit_test(encoders_see_the_whole_text),
        cmocka_unit_test(scales_and_slices),
        cmocka_unit_test(bitnet_is_told_its_activation),
        cmocka_unit_test(everything_a_file_lacks_is_told),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
