/* SPDX-License-Identifier: MIT
 *
 * Op lists: random ones pass op_list_check, each rule refuses the operation that breaks it by name, the walks see every
 * operand, and demand counts what a pass reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/ops/random_list.h"
#include "unit/ops/ref_run.h"

enum { LISTS = 450 };

static void random_lists_pass_and_run(void **state)
{
    static struct random_list r;
    int kinds[OP_COUNT] = {0}, shared = 0, without = 0;
    (void)state;
    for (uint32_t seed = 0; seed < LISTS; seed++) {
        struct lutra_error err = {0};
        random_list_open(&r, seed);
        if (op_list_check(&r.list, &err) < 0) fail_msg("list %u: %s", seed, err.what);
        ref_run(&r.list, 0, r.list.n_op, &r.pass);
        for (int i = 0; i < r.list.n_op; i++) {
            kinds[r.op[i].kind]++;
            if (r.op[i].kind == OP_ATTENTION) shared += r.layer[r.op[i].layer].cache != r.op[i].layer;
        }
        for (int i = 0; i < r.list.n_layer; i++) without += r.layer[i].cache < 0;
        random_list_close(&r);
    }
    for (int kind = 0; kind < OP_COUNT; kind++) assert_true(kinds[kind] > 20);
    assert_true(shared > 20 && without > 20);
}

/* ---- refusals ---- */

/* embed 0 -> 1; matmul 1 -> 2, 3; append 2, 3 and attention 1 -> 4 in layer 1; take 4 -> 5; head 5. */
struct model {
    struct weight weight[4];
    struct op op[6];
    struct op_layer layer[3];
    struct op_list list;
};

static void make(struct model *m)
{
    *m = (struct model){.layer = {{-1, 0, 0, 0}, {1, 2, 16, 0}, {1, 2, 16, 0}}};
    for (int i = 0; i < 4; i++) {
        m->weight[i].tensor = (struct tensor){"w", QUANT_F32, 2, {64, i % 3 ? 32 : 40, 1, 1}, NULL, 0};
        m->weight[i].use = i ? WEIGHT_MATMUL : WEIGHT_GATHER;
    }
    m->op[0] = op_make(OP_EMBED, -1, -1, -1, 1);
    m->op[0].weight[0] = &m->weight[0];
    m->op[1] = op_make(OP_MATMUL, 1, 1, -1, -1);
    op_add_part(&m->op[1], &m->weight[1], NULL, 2);
    op_add_part(&m->op[1], &m->weight[2], NULL, 3);
    m->op[2] = op_make(OP_KV_APPEND, 1, 2, 3, -1);
    m->op[3] = op_make(OP_ATTENTION, 2, 1, -1, 4);
    m->op[3].attention = (struct op_attention){.n_head = 4, .n_kv_head = 2, .d_head = 16, .scale = 1};
    m->op[4] = op_make(OP_TAKE, -1, 4, -1, 5);
    m->op[5] = op_make(OP_HEAD, -1, 5, 5, -1);
    m->op[5].weight[0] = &m->weight[3];
    m->list = (struct op_list){.op = m->op, .n_op = 6, .n_value = 6, .layer = m->layer, .n_layer = 3, .n_vocab = 40};
    for (int v = 0; v < 6; v++)
        m->list.value[v] = (struct value){v == 2 || v == 3 ? 32 : 64, v == 5 ? ROWS_OUT : ROWS_ALL};
}

#define REFUSES(change, says)                                                                                          \
    do {                                                                                                               \
        struct model m;                                                                                                \
        struct lutra_error err = {0};                                                                                  \
        make(&m);                                                                                                      \
        assert_int_equal(op_list_check(&m.list, &err), 0);                                                             \
        change;                                                                                                        \
        assert_true(op_list_check(&m.list, &err) < 0);                                                                 \
        if (!strstr(err.what, says)) fail_msg("%s: says %s", #change, err.what);                                       \
    } while (0)

static struct op permute(int out, const int32_t *order)
{
    struct op op = op_make(OP_PERMUTE, 1, 1, -1, out);
    op.permute.order = order;
    return op;
}

/* A convolution of layer 1, which gets room for one. */
static struct op conv(struct model *m, int in, int out)
{
    static const float weight[4 * 64];
    struct op op = op_make(OP_CONV, 1, in, -1, out);
    op.conv = (struct op_conv){.n_tap = 4, .weight = weight};
    m->layer[1].state_bytes = 3 * 64 * sizeof(float);
    m->layer[1].draft_bytes = 64 * sizeof(float);
    return op;
}

static void broken_lists_are_named(void **state)
{
    int32_t order[64];
    (void)state;
    for (int i = 0; i < 64; i++) order[i] = 63 - i;
    REFUSES(m.list.n_value = VALUE_MAX + 1, "49 values");
    REFUSES(m.list.value[3].dim = 0, "value 3 has 0 elements");
    REFUSES(m.op[3].kind = OP_COUNT, "there is no kind 26");
    REFUSES(m.op[0].embed.by = EMBED_POSITION, "its table has 0 rows");
    REFUSES((m.op[0].embed.by = EMBED_SEGMENT, m.list.n_segment = 2), "40 outputs, not 64 and 2");
    REFUSES((m.list.whole = true, m.layer[2].state_bytes = 64), "in an encoder");
    REFUSES(m.op[3].kind = (enum op_kind) - 1, "there is no kind -1");
    REFUSES(m.op[3].layer = 3, "there is no such layer");
    REFUSES(m.op[2].n_in = 1, "operation 2, kv_append of layer 1: 1 inputs");
    REFUSES(m.op[1].n_weight = 4, "4 weights");
    REFUSES(m.op[1].n_out = 1, "1 outputs");
    REFUSES(m.op[1].n_weight = m.op[1].n_out = 0, "0 weights");
    REFUSES(m.op[2].in[1] = 6, "there is no value 6");
    REFUSES(m.op[0].out[0] = -1, "there is no value -1");
    REFUSES(m.op[2].in[1] = 5, "value 5 has the wrong rows");
    REFUSES(m.op[2].in[0] = 0, "reads value 0, which nothing has written");
    REFUSES(m.op[1].out[1] = 1, "it writes its input");
    REFUSES(m.op[1].weight[1] = NULL, "weight 1 is not there");
    REFUSES(m.weight[1].tensor.ne[1] = 31, "tensor 'w' has 64 inputs and 31 outputs, not 64 and 32");
    REFUSES(m.weight[0].use = WEIGHT_MATMUL, "is not meant for it");
    REFUSES(m.weight[1].i8row = true, "tensor 'w' is of floats, whose inputs are not rounded");
    REFUSES(m.list.n_vocab = 41, "not 64 and 41");
    REFUSES(m.list.value[4].dim = 32, "value 4 has 32 elements, not 64");
    REFUSES(m.op[2].layer = 2, "the cache is that of layer 1");
    REFUSES(m.op[3].layer = 0, "the layer has no cache");
    REFUSES(m.op[3].layer = -1, "it needs a layer");
    REFUSES(m.op[3].attention.n_head = 3, "3 query heads over 2 key heads");
    REFUSES(m.op[3].attention.d_head = 8, "2 heads of 8 over a cache of 2 heads of 16");
    REFUSES(m.op[2] = op_make(OP_ADD, 1, 2, 3, 2), "nothing has been appended to the cache of layer 1");
    REFUSES(m.op[3] = op_make(OP_PERMUTE, 1, 1, -1, 4), "permute of layer 1: no order");
    REFUSES(m.op[3] = permute(1, order), "it writes its input");
    REFUSES((order[5] = 64, m.op[3] = permute(4, order)), "element 64 of 64");
    REFUSES((order[5] = -1, m.op[3] = permute(4, order)), "element -1 of 64");
    REFUSES(m.op[5].in[1] = 6, "there is no value 6");
    REFUSES(m.layer[1].cache = 2, "layer 1 reads the cache of layer 2");
    REFUSES(m.layer[2].cache = 0, "layer 2 reads the cache of layer 0, which has none");
    REFUSES(m.layer[2].d_head = 8, "layer 2: a cache of 2 heads of 8, in that of layer 1");
    REFUSES(m.layer[0].n_kv_head = 1, "layer 0: a cache of 1 heads");
    REFUSES(m.layer[2].state_bytes = 65, "layer 2: a state of 65");
    REFUSES((m.op[3] = conv(&m, 1, 4), m.layer[1].state_bytes -= 64), "a state of 768 bytes at 0");
    REFUSES((m.op[3] = conv(&m, 1, 4), m.layer[1].draft_bytes = 0), "drafts of 256 at 0");
    REFUSES((m.op[3] = conv(&m, 1, 4), m.op[3].conv.n_tap = 9), "9 taps, outside 2..8");
    REFUSES((m.op[3] = conv(&m, 1, 4), m.op[4] = conv(&m, 4, 1)), "its state is that of operation 3");
    REFUSES(m.op[3] = conv(&m, 1, 1), "it writes its input");
    struct model m;
    make(&m);
    m.op[3] = conv(&m, 1, 4);
    assert_int_equal(op_list_check(&m.list, NULL), 0);
    make(&m);
    m.op[3] = op_make(OP_RMS_NORM, 1, 1, -1, 4);
    assert_int_equal(op_list_check(&m.list, NULL), LUTRA_E_ARGUMENT); /* it has no weight */
}

/* ---- walks ---- */

static void operands_are_seen(void **state)
{
    struct model m;
    struct op_constant c;
    float bias[32], sinks[4];
    (void)state;
    make(&m);
    m.op[1].matmul.bias[1] = bias;
    m.op[3].attention.sinks = sinks;
    for (int v = 0; v < 6; v++) {
        assert_int_equal(op_reads(&m.op[1], v), v == 1);
        assert_int_equal(op_writes(&m.op[1], v), v == 2 || v == 3);
        assert_int_equal(op_reads(&m.op[2], v), v == 2 || v == 3);
        assert_false(op_writes(&m.op[2], v));
        assert_false(op_reads(&m.op[0], v));
    }
    assert_true(op_constant(&m.op[1], 0, &c) && !c.x && c.weight == 0);
    assert_true(op_constant(&m.op[1], 1, &c) && c.x == bias && c.n == 32 && c.weight == 1);
    assert_false(op_constant(&m.op[1], 2, &c));
    assert_true(op_constant(&m.op[3], 0, &c) && c.x == sinks && c.n == 4 && c.weight == -1);
    assert_false(op_constant(&m.op[3], 1, &c) || op_constant(&m.op[4], 0, &c));
    assert_false(op_list_is_dead(&m.list, 1, 1)); /* the product reads it */
    assert_false(op_list_is_dead(&m.list, 2, 1)); /* attention does */
    assert_true(op_list_is_dead(&m.list, 4, 1));
    assert_true(op_list_is_dead(&m.list, 1, 4)); /* written before it is read */
    assert_true(op_uses_cache(&m.list, &m.op[3], 1) && op_uses_cache(&m.list, &m.op[2], 1));
    assert_false(op_uses_cache(&m.list, &m.op[3], 2) || op_uses_cache(&m.list, &m.op[1], 1));
    assert_string_equal(op_name(OP_COUNT), "unknown");
}

static struct demand demand_of_op(struct model *m, int i, const struct pass_args *pass)
{
    struct demand_rates rates = {0};
    struct demand out;
    demand_add(&rates, &m->list, &m->op[i]);
    demand_of(&rates, pass, &out);
    return out;
}

static void demand_counts_rows_and_positions(void **state)
{
    static struct kv_fixture kv;
    struct model m;
    struct demand d;
    struct row row[3] = {{.pos = 70}, {.pos = 71}, {.pos = 72}};
    struct batch batch = {.row = row, .n_row = 3};
    (void)state;
    make(&m);
    fixture_open_layers(&kv, QUANT_F16, m.layer, 3, 8);
    int s = fixture_sequence(&kv, 70, -1, 0);
    kv.n_row = 0;
    for (int i = 0; i < 3; i++) fixture_row(&kv, s, -1, false);
    fixture_finish(&kv);
    struct pass_args pass = {.batch = &batch, .kv = &kv.view, .n_out = 1};
    m.weight[1].held[0].bytes = 1000, m.weight[2].tensor.bytes = 64 * 32 * 4, m.weight[3].held[0].bytes = 9;
    d = demand_of_op(&m, 0, &pass);
    assert_true(!d.mac && !d.weight_bytes);
    d = demand_of_op(&m, 1, &pass);
    assert_true(d.weight_bytes == 1000 + 64 * 32 * 4 && d.mac == 3 * 64 * 64);
    d = demand_of_op(&m, 3, &pass);
    assert_true(!d.weight_bytes && d.mac == (71 + 72 + 73) * 2 * 4 * 16);
    d = demand_of_op(&m, 5, &pass);
    assert_true(d.weight_bytes == 9 && d.mac == 64 * 40);
    struct demand_rates all = {0};
    for (int i = 0; i < m.list.n_op; i++) demand_add(&all, &m.list, &m.op[i]);
    demand_of(&all, &pass, &d);
    assert_true(d.weight_bytes == 1000 + 64 * 32 * 4 + 9);
    assert_true(d.mac == 3 * 64 * 64 + (71 + 72 + 73) * 2 * 4 * 16 + 64 * 40);
    pass.n_out = 0; /* nobody wants anything: the head is not read */
    d = demand_of_op(&m, 5, &pass);
    assert_true(!d.mac && !d.weight_bytes);
    fixture_close(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_lists_pass_and_run),
        cmocka_unit_test(broken_lists_are_named), cmocka_unit_test(operands_are_seen),
        cmocka_unit_test(demand_counts_rows_and_positions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
