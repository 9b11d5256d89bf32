/* SPDX-License-Identifier: MIT
 *
 * lutra_imatrix on a made model: the first layer's sums against the embedding and its norm, worked out here.
 */
#include "unit/engine/engine_fixture.h"
#include "quantize/imatrix.h"
#include "weights/weights.h"

enum { N = 70, CHUNK = 32 }; /* the third chunk is not whole */

static void first_layer_and_counts(void **state)
{
    (void)state;
    struct fixture f;
    struct imatrix *m;
    struct weights *w;
    int32_t ids[N];
    char out[80];
    fixture_open_on(&f, &(struct where){"cpu", NULL}, "tiny-qwen2", "F32", 2);
    snprintf(out, sizeof out, "%s.imatrix", f.path);
    for (int i = 0; i < N; i++) ids[i] = 7 * i % 200;
    struct lutra_imatrix_settings set;
    lutra_imatrix_settings_init(&set, sizeof set);
    set.n_ctx = CHUNK;
    OK(lutra_imatrix(f.model, ids, N, out, &set, err));
    OK(imatrix_open(&m, out, err));
    OK(weights_open(&w, f.path, err));
    assert_int_equal(m->n_entry, 2 * 7);
    const float *table = weights_tensor_find(w, "token_embd.weight")->data;
    const float *gain = weights_tensor_find(w, "blk.0.attn_norm.weight")->data;
    const struct imatrix_entry *q = imatrix_find(m, "blk.0.attn_q.weight"), *v = imatrix_find(m, "blk.0.attn_v.weight");
    double want[256] = {0};
    for (int i = 0; i < 2 * CHUNK; i++) {
        const float *x = table + 256 * ids[i];
        double sum = 0;
        for (int k = 0; k < 256; k++) sum += (double)x[k] * (double)x[k];
        for (int k = 0; k < 256; k++) {
            double y = (double)x[k] * (double)gain[k];
            want[k] += y * y / (sum / 256 + 1e-6);
        }
    }
    for (int k = 0; k < 256; k++) {
        assert_true(fabs(q->sum2[k] - want[k]) < 1e-4 * want[k]);
        assert_true(q->sum2[k] == v->sum2[k]);
    }
    for (size_t i = 0; i < m->n_entry; i++) assert_true(m->entry[i].count == 2 * CHUNK);
    assert_int_equal(imatrix_find(m, "blk.1.ffn_down.weight")->n, 512);
    set.n_ctx = N + 1;
    struct lutra_error why;
    assert_int_equal(lutra_imatrix(f.model, ids, N, out, &set, &why), LUTRA_E_ARGUMENT);
    weights_close(&w);
    imatrix_close(&m);
    unlink(out);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_layer_and_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
