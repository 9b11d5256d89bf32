/* SPDX-License-Identifier: MIT
 *
 * Whole models on the GPU: a row's bits depend on its own past and on nothing else.
 */
#include "model_fixture.h"

/* The prompt at once and in pieces, and one token in several forks and as a draft: always the same bits. */
static void check_rows(struct model *m, const char *what)
{
    int32_t token[N_PROMPT], whole, pieces, fork[N_FORK];
    struct lutra_row row[N_FORK];
    float *want = malloc(sizeof *want * (size_t)m->n_vocab);
    size_t bytes = sizeof *want * (size_t)m->n_vocab;
    for (int i = 0; i < N_PROMPT; i++) token[i] = token_at(i);
    OK(lutra_seq_open(m->f.s, 128, &whole, err));
    OK(lutra_seq_open(m->f.s, 128, &pieces, err));
    memcpy(want, feed(m, whole, 0, token, N_PROMPT), bytes);
    for (int at = 0, n = 1; at < N_PROMPT; at += n, n = n < N_PROMPT - at - 3 ? n + 3 : N_PROMPT - at)
        if (memcmp(feed(m, pieces, at, token + at, n), want, bytes) && at + n == N_PROMPT)
            fail_msg("%s: a prompt in pieces has other bits", what);
    memcpy(want, feed(m, whole, N_PROMPT, token, 1), bytes);
    for (int i = 0; i < N_FORK; i++) {
        OK(lutra_seq_fork(m->f.s, pieces, N_PROMPT, 128, &fork[i], err));
        uint32_t draft = i % 2 ? LUTRA_ROW_DRAFT : 0;
        row[i] = (struct lutra_row){i == 2 ? 3 : token[0], N_PROMPT, fork[i], -1, LUTRA_WANT_LOGITS | draft, 0};
    }
    OK(lutra_forward(m->f.s, row, N_FORK, sizeof *row, err));
    for (int i = 0; i < N_FORK; i++)
        if (i != 2 && memcmp(lutra_forward_result(m->f.s, i)->logits, want, bytes))
            fail_msg("%s: row %d of %d has other bits than alone", what, i, N_FORK);
    for (int i = 0; i < N_FORK; i++) lutra_seq_close(m->f.s, fork[i]);
    lutra_seq_close(m->f.s, whole);
    lutra_seq_close(m->f.s, pieces);
    free(want);
}

static void rows_have_the_same_bits_among_others(void **state)
{
    static const char *const places[][3] = {{"tiny-llama", "F16", "f16"}, {"tiny-gemma2", "F32", "q8_0"},
        {"tiny-qwen2", "Q4_0", "f32"}, {"tiny-phi", "Q4_K", "f16"}};
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct model m;
        open_model(&m, "vulkan", places[i][0], places[i][1], places[i][2]);
        check_rows(&m, places[i][0]);
        fixture_close(&m.f);
    }
}

int main(void)
{
    gpu_need();
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_have_the_same_bits_among_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
