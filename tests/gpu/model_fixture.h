/* SPDX-License-Identifier: MIT
 *
 * Small models on a GPU or beside it, and chains of tokens through them.
 */
#ifndef LUTRA_TESTS_GPU_MODEL_FIXTURE_H
#define LUTRA_TESTS_GPU_MODEL_FIXTURE_H

#include "engine_fixture.h"
#include "unit/gpu/gpu_fixture.h"

enum { N_PROMPT = 70, N_FORK = 6 };

struct model {
    struct fixture f;
    int n_vocab;
};

static inline void open_model(
    struct model *m, const char *device, const char *shape, const char *type, const char *cache)
{
    struct lutra_model_info info;
    struct lutra_session_settings ss;
    fixture_open_on(&m->f, &(struct where){.device = device}, shape, type, 2);
    lutra_model_info_get(m->f.model, &info, sizeof info);
    m->n_vocab = info.n_vocab;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = N_FORK + 2, ss.n_ctx = 128, ss.n_batch = 96;
    ss.cache_type = cache;
    OK(lutra_session_open(&m->f.s, m->f.model, &ss, err));
}

/* One chain of tokens from position `from` on; the last row's logits. */
static inline const float *feed(struct model *m, int32_t seq, int from, const int32_t *token, int n)
{
    struct lutra_row row[N_PROMPT];
    for (int i = 0; i < n; i++)
        row[i] = (struct lutra_row){token[i], from + i, seq, i - 1, i == n - 1 ? LUTRA_WANT_LOGITS : 0, 0};
    OK(lutra_forward(m->f.s, row, n, sizeof *row, err));
    return lutra_forward_result(m->f.s, 0)->logits;
}

#endif
