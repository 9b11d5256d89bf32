/* SPDX-License-Identifier: MIT
 *
 * Steps of encoders, whose rows see what lies behind them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kv/kv.h"

/* Rows of two texts take turns; each sees all of its own, and nothing is kept for reuse. */
static void rows_of_encoders_see_the_whole_text(void **state)
{
    static struct row row[96];
    static const struct op_layer layer[] = {{.cache = 0, .n_kv_head = 2, .d_head = 8}};
    struct kv_settings s = {
        .type = {QUANT_F32, QUANT_F32}, .layer = layer, .n_layer = 1, .n_ctx = 128, .n_block = 8, .n_seq = 4};
    struct batch batch = {.row = row};
    struct kv_cache *kv;
    struct kv_view v;
    struct buffer memory = {0};
    (void)state;
    const int n_tok[2] = {70, 5};
    int32_t seq[2], last[2] = {-1, -1}, token[70], first, end;
    int n = 0;
    s.n_row = 96;
    s.whole = true;
    memory.bytes = kv_bytes(&s);
    memory.host = aligned_alloc(64, (memory.bytes + 63) / 64 * 64);
    assert_int_equal(kv_open(&kv, &s, &memory, NULL), 0);
    for (int k = 0; k < 2; k++) assert_int_equal(kv_seq_open(kv, n_tok[k], &seq[k], NULL), 0);
    for (int pos = 0; pos < 70; pos++)
        for (int k = 0; k < 2; k++) {
            if (pos >= n_tok[k]) continue;
            row[n] = (struct row){token[pos] = 7 + pos, pos, seq[k], last[k], 0, 0, NULL, NULL, NULL};
            last[k] = n++;
        }
    batch.n_row = n;
    assert_int_equal(kv_pass_begin(kv, &batch, &v, NULL), 0);
    for (int r = 0; r < n; r++) {
        int pos = row[r].pos, all = n_tok[row[r].seq == seq[1]];
        assert_int_equal(v.row[r].n_paged, all);
        assert_int_equal(v.row[r].ahead, all - 1 - pos);
        kv_row_sees(&v.row[r], 0, &first, &end);
        assert_true(first == 0 && end == all);
        kv_row_sees(&v.row[r], 21, &first, &end); /* 20 to each side */
        assert_int_equal(first, pos > 20 ? pos - 20 : 0);
        assert_int_equal(end, pos + 21 < all ? pos + 21 : all);
    }
    assert_int_equal(v.n_item, 3);
    assert_int_equal(
        v.item[0].n + v.item[1].n + v.item[2].n, 2 * 70 + 5); /* every row of a text reads all its blocks */
    kv_pass_end(kv, &batch, true);
    assert_int_equal(kv_seq_length(kv, seq[0]), 70);
    assert_int_equal(kv_find(kv, &(struct kv_past){.token = token, .n_token = 70, .n_prompt = 70}), 0);
    for (int k = 0; k < 2; k++) kv_seq_close(kv, seq[k]);
    kv_close(&kv);
    free(memory.host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_encoders_see_the_whole_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
