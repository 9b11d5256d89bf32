/* SPDX-License-Identifier: MIT
 *
 * The bundled model on an NPU device, and chains of tokens through it.
 */
#ifndef LUTRA_TESTS_NPU_DEVICE_FIXTURE_H
#define LUTRA_TESTS_NPU_DEVICE_FIXTURE_H

#include "engine_fixture.h"

#include "engine/model.h"
#include "npu/host/device_impl.h"

#define MODEL LUTRA_SOURCE_DIR "/models/abacus-1m-f16.gguf"

enum { N_VOCAB = 1024 };

struct lines {
    char text[4096];
};

static inline void keep_line(void *user, enum lutra_log_level level, const char *line)
{
    struct lines *l = user;
    size_t n = strlen(l->text);
    (void)level;
    snprintf(l->text + n, sizeof l->text - n, "%s\n", line);
}

static inline void shut(struct fixture *f)
{
    lutra_session_close(&f->s);
    lutra_model_close(&f->model);
    lutra_runtime_close(&f->rt);
}

static inline struct npu_device *npu_of(const struct fixture *f)
{
    return (struct npu_device *)f->rt->devices.device[0];
}

static inline int32_t id_at(int i)
{
    return (int32_t)((i * 37 + 11) % 900);
}

/* Positions from .. from + n - 1 of a sequence as one chain; a result of the last. */
static inline int feed_rows(lutra_session *s, int32_t seq, int from, int n, uint32_t flags, struct lutra_error *err)
{
    struct lutra_row row[64];
    for (int i = 0; i < n; i++)
        row[i] =
            (struct lutra_row){id_at(from + i), from + i, seq, i - 1, flags | (i == n - 1 ? LUTRA_WANT_LOGITS : 0), 0};
    return lutra_forward(s, row, n, sizeof *row, err);
}

/* Its logits. */
static inline const float *feed(lutra_session *s, int32_t seq, int from, int n, uint32_t flags)
{
    OK(feed_rows(s, seq, from, n, flags, err));
    return lutra_forward_result(s, 0)->logits;
}

#endif
