/* SPDX-License-Identifier: MIT
 *
 * A model's file with an MTP block behind its layers, for tests.
 */
#ifndef LUTRA_TESTS_MTP_BLOCK_H
#define LUTRA_TESTS_MTP_BLOCK_H

#include "engine_fixture.h"

#include "quant/quant.h"
#include "files/gguf_write.h"
#include "weights/weights.h"

/* repeats: a block that always says the token which it has read; else one of random weights.  without, narrow: suffixes
 * of a tensor that is missing, and of one that is too short; or NULL. */
struct mtp_form {
    bool repeats;
    const char *without, *narrow;
};

struct mtp_maker {
    const struct mtp_form *form;
    struct weights *from;
    struct gguf_writer *to;
    int n_layer, source; /* whose tensors the block's are copies of: the last that attends */
    int64_t d;
    bool writing;
    uint32_t seed;
};

static inline float mtp_random(struct mtp_maker *m)
{
    float sum = -6;
    for (int i = 0; i < 12; i++) sum += (float)((m->seed = m->seed * 1664525u + 1013904223u) >> 8) / (1 << 24);
    return sum;
}

/* Declares or writes a tensor of floats: around 1, or a matrix. */
static inline void mtp_floats(struct mtp_maker *m, const char *suffix, int64_t n_in, int64_t n_out)
{
    char name[64];
    if (m->form->narrow && !strcmp(suffix, m->form->narrow)) n_in -= 32;
    if (m->form->without && !strcmp(suffix, m->form->without)) return;
    int64_t ne[2] = {n_in, n_out}, n = n_in * (n_out ? n_out : 1);
    snprintf(name, sizeof name, "blk.%d.nextn.%s.weight", m->n_layer, suffix);
    if (!m->writing) {
        gguf_writer_add_tensor(m->to, name, QUANT_F32, n_out ? 2 : 1, ne);
        return;
    }
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = n_out ? mtp_random(m) / sqrtf((float)n_in) : 1 + 0.1f * mtp_random(m);
        if (m->form->repeats) x[i] = !n_out || i % n_in == i / n_in; /* the token's embedding comes out as it goes in */
    }
    gguf_writer_data(m->to, x, (size_t)n * sizeof *x);
    free(x);
}

static inline void mtp_copy(struct mtp_maker *m, const struct tensor *t)
{
    char name[96], source[16];
    snprintf(source, sizeof source, "blk.%d.", m->source);
    if (strncmp(t->name, source, strlen(source)) != 0) return;
    if (m->form->without && strstr(t->name, m->form->without)) return;
    snprintf(name, sizeof name, "blk.%d.%s", m->n_layer, t->name + strlen(source));
    if (!m->writing) {
        gguf_writer_add_tensor(m->to, name, t->type, t->n_dim, t->ne);
        return;
    }
    void *zero = calloc(1, t->bytes);
    bool last = strstr(name, "attn_output") || strstr(name, "ffn_down");
    gguf_writer_data(m->to, m->form->repeats && last ? zero : t->data, t->bytes);
    free(zero);
}

static inline void mtp_tensors(struct mtp_maker *m)
{
    for (size_t i = 0; i < weights_tensor_count(m->from); i++) {
        const struct tensor *t = weights_tensor_at(m->from, i);
        if (m->writing)
            gguf_writer_data(m->to, t->data, t->bytes);
        else
            gguf_writer_add_tensor(m->to, t->name, t->type, t->n_dim, t->ne);
    }
    for (size_t i = 0; i < weights_tensor_count(m->from); i++) mtp_copy(m, weights_tensor_at(m->from, i));
    mtp_floats(m, "enorm", m->d, 0);
    mtp_floats(m, "hnorm", m->d, 0);
    mtp_floats(m, "shared_head_norm", m->d, 0);
    mtp_floats(m, "eh_proj", 2 * m->d, m->d);
}

static inline void add_mtp_block(const char *path, const struct mtp_form *form)
{
    char made[192], key[96], arch[64], name[64];
    struct gguf_str s = {"", 0};
    uint32_t n = 0;
    struct mtp_maker m = {.form = form, .seed = 7};
    snprintf(made, sizeof made, "%s.mtp", path);
    OK(weights_open(&m.from, path, err));
    OK(gguf_writer_open(&m.to, made, err));
    OK(weights_get_str(m.from, "general.architecture", &s, err));
    snprintf(arch, sizeof arch, "%.*s", (int)s.n, s.s);
    snprintf(key, sizeof key, "%s.block_count", arch);
    OK(weights_get_u32(m.from, key, &n, err));
    m.n_layer = (int)n;
    for (int i = 0; i < m.n_layer; i++) {
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", i);
        if (weights_tensor_find(m.from, name)) m.source = i;
    }
    m.d = weights_tensor_find(m.from, "token_embd.weight")->ne[0];
    for (size_t i = 0; i < weights_kv_count(m.from); i++)
        if (strcmp(weights_kv_at(m.from, i)->key, key) != 0) gguf_writer_copy(m.to, weights_kv_at(m.from, i));
    gguf_writer_put_u32(m.to, key, n + 1);
    snprintf(key, sizeof key, "%s.nextn_predict_layers", arch);
    gguf_writer_put_u32(m.to, key, 1);
    mtp_tensors(&m);
    m.writing = true;
    mtp_tensors(&m);
    OK(gguf_writer_commit(&m.to, err));
    weights_close(&m.from);
    assert_int_equal(rename(made, path), 0);
}

#endif
