/* SPDX-License-Identifier: MIT
 *
 * Types of a cache, for keys and values apart: bytes, places, alignment, and what a commit copies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kv/kv.h"

static const struct kv_settings settings = {
    .type = {QUANT_F32, QUANT_F32}, .n_ctx = 128, .n_block = 4, .n_seq = 2, .n_row = 8, .n_draft = 3};

static void set_types(struct kv_settings *s, enum quant_type k, enum quant_type v)
{
    s->type[KV_K] = k;
    s->type[KV_V] = v;
}

static void q8_0_takes_34_bytes_where_f16_takes_64(void **state)
{
    (void)state;
    struct op_layer one = {.n_kv_head = 2, .d_head = 64};
    struct kv_settings s = settings;
    s.layer = &one, s.n_layer = 1;
    size_t half = (set_types(&s, QUANT_F16, QUANT_F16), kv_bytes(&s));
    set_types(&s, QUANT_Q8_0, QUANT_Q8_0);
    assert_int_equal(kv_bytes(&s) * 64, half * 34);
    assert_int_equal(kv_token_bytes(s.type, &one, 1), 2 * 2 * 68);
    set_types(&s, QUANT_F16, QUANT_Q4_0); /* 64 + 18 */
    assert_int_equal(kv_bytes(&s) * 128, half * 82);
    assert_int_equal(kv_token_bytes(s.type, &one, 1), 2 * (128 + 36));
    set_types(&s, QUANT_Q5_0, QUANT_Q4_1);
    assert_int_equal(kv_token_bytes(s.type, &one, 1), 2 * (44 + 40));
    one.d_head = 40;
    assert_int_equal(kv_bytes(&s), 0);
    assert_int_equal(kv_token_bytes(s.type, &one, 1), 0);
    set_types(&s, QUANT_F16, QUANT_Q4_0);
    assert_int_equal(kv_bytes(&s), 0);
    set_types(&s, QUANT_F16, QUANT_Q4_K);
    one.d_head = 256;
    assert_int_equal(kv_bytes(&s), 0);
}

/* K of one type and V of another: every vector has a place of its own, aligned for its type, and copies carry both. */
static void keys_and_values_of_two_types(void **state)
{
    (void)state;
    static const enum quant_type types[][2] = {
        {QUANT_F32, QUANT_Q4_0}, {QUANT_Q5_0, QUANT_F32}, {QUANT_Q4_1, QUANT_F16}, {QUANT_Q8_0, QUANT_Q4_0}};
    struct op_layer two[] = {{.n_kv_head = 1, .d_head = 32}, {.cache = 1, .n_kv_head = 3, .d_head = 96}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct kv_settings s = settings;
        s.layer = two, s.n_layer = 2, s.n_block = 4, s.n_draft = 3, s.by_block = t & 1;
        set_types(&s, types[t][0], types[t][1]);
        size_t bytes = kv_bytes(&s);
        struct buffer memory = {.host = aligned_alloc(64, (bytes + 63) / 64 * 64), .bytes = bytes};
        memset(memory.host, 0, bytes);
        struct kv_cache *kv;
        assert_int_equal(kv_open(&kv, &s, &memory, NULL), 0);
        int32_t seq;
        assert_int_equal(kv_seq_open(kv, 64, &seq, NULL), 0);
        struct row row[5];
        for (int i = 0; i < 5; i++)
            row[i] =
                (struct row){1, i < 2 ? i : 2, seq, i - 1 < 1 ? i - 1 : 1, i < 2 ? 0 : ROW_DRAFT, 0, NULL, NULL, NULL};
        struct batch batch = {.row = row, .n_row = 5};
        struct kv_view v;
        assert_int_equal(kv_pass_begin(kv, &batch, &v, NULL), 0);
        for (int r = 0; r < 5; r++)
            for (int layer = 0; layer < 2; layer++)
                for (int head = 0; head < two[layer].n_kv_head; head++)
                    for (int side = KV_K; side <= KV_V; side++) {
                        uint8_t *at = kv_slot_at(&v, layer, side, head, r);
                        size_t n = v.layer[layer].vec_bytes[side], align = types[t][side] == QUANT_F32 ? 4 : 2;
                        assert_int_equal((uintptr_t)at % align, 0);
                        assert_true(at >= (uint8_t *)memory.host && at + n <= (uint8_t *)memory.host + bytes);
                        for (size_t i = 0; i < n; i++) assert_int_equal(at[i], 0); /* nobody else's */
                        memset(at, 1 + r, n);
                    }
        kv_pass_end(kv, &batch, true);
        assert_int_equal(kv_commit(kv, &batch, 4, NULL), 0);
        for (int layer = 0; layer < 2; layer++)
            for (int side = KV_K; side <= KV_V; side++) {
                size_t n = v.layer[layer].vec_bytes[side];
                const uint8_t *at = kv_block_at(&v, layer, side, kv_seq_block(kv, seq, 0)) + 2 * n;
                for (size_t i = 0; i < n; i++) assert_int_equal(at[i], 5);
            }
        kv_close(&kv);
        free(memory.host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q8_0_takes_34_bytes_where_f16_takes_64),
        cmocka_unit_test(keys_and_values_of_two_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
