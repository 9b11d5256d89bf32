/* SPDX-License-Identifier: MIT
 *
 * Operations that reach the NPU with damaged fields and damaged tables: what npu_op_check lets pass never leaves shared
 * memory.  The emulator is the judge: every access outside of it is a fault.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "npu/dsp/kernels.h"
#include "npu/dsp/server.h"
#include "npu/sim/sim.h"

enum { TCM = 2 << 20, MEMORY = 512 << 10, ROUNDS = 12000 };

struct box {
    struct npu_sim *sim;
    struct npu_machine machine;
    struct npu_memory memory;
    struct rng_key key;
    uint32_t drawn;
};

static uint32_t draw(struct box *b, uint32_t below)
{
    return rng_u32(b->key, b->drawn++) % below;
}

static void open_box(struct box *b)
{
    struct npu_sim_settings s = {.tcm_bytes = TCM, .ddr_bytes = MEMORY, .seed = 1};
    memset(b, 0, sizeof *b);
    b->key.seed = 11;
    assert_int_equal(npu_sim_open(&b->sim, &s, NULL), 0);
    b->machine = (struct npu_machine){NPU_SIM_BOX_BYTES, TCM, 65536, 1, 0, 0};
    b->memory = (struct npu_memory){NPU_SIM_BOX_BYTES + TCM, NPU_SIM_BOX_BYTES + TCM + MEMORY};
    npu_exp_table(npu_sim_isa(b->sim), npu_sim_isa(b->sim)->base + NPU_SIM_BOX_BYTES);
    npu_sim_end(b->sim, 65536);
}

/* A place for a buffer, often the last there is. */
static uint32_t place(struct box *b, uint64_t bytes)
{
    uint64_t whole = (bytes + 127) / 128 * 128, room = MEMORY - 128;
    if (whole > room) return b->memory.first;
    uint32_t lines = (uint32_t)((room - whole) / 128);
    return b->memory.first + 128 * (draw(b, 3) ? draw(b, lines + 1) : lines);
}

static uint32_t *word_at(struct box *b, uint32_t offset)
{
    return npu_sim_host(b->sim, offset);
}

/* A table of two groups over three segments, four KV heads of two query heads of 32. */
static uint32_t put_attention(struct box *b)
{
    struct {
        struct npu_attention a;
        struct npu_group group[2];
        struct npu_segment segment[3];
        struct npu_run run[4];
        uint64_t mask[8];
    } t;
    memset(&t, 0xff, sizeof t);
    t.a = (struct npu_attention){sizeof t, 2, 32, 64, 100, (uint32_t)((uint8_t *)t.mask - (uint8_t *)&t), 4, 2};
    t.group[0] = (struct npu_group){0, 3, 0, 2}, t.group[1] = (struct npu_group){3, 2, 2, 1};
    t.segment[0] = (struct npu_segment){0, 1, 0}, t.segment[1] = (struct npu_segment){1, 2, 3};
    t.segment[2] = (struct npu_segment){3, 1, 6};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t n = i == 1 || i == 2 ? 32 : 64, bytes = 3 * 64 * 64 + n * 64;
        t.run[i] = (struct npu_run){{place(b, bytes + 8192), place(b, bytes + 8192), 8192, 64 * 64}, n};
    }
    uint32_t at = place(b, sizeof t);
    memcpy(word_at(b, at), &t, sizeof t);
    return at;
}

/* An operation as a host would send it. */
static struct npu_op make(struct box *b, uint32_t *table, uint32_t *table_words)
{
    uint32_t m = 1 + draw(b, 5), n = 32 * (1 + draw(b, 8)), k = 64 * (1 + draw(b, 5)), code = 1 + draw(b, NPU_OPS - 1);
    uint32_t kind = 1 + draw(b, NPU_W_END), wide = 4 * (n > k ? n : k) + 128 * draw(b, 3);
    struct npu_op op = {.code = code, .m = m, .n = n, .k = k, .kind = kind, .src_stride = wide, .dst_stride = wide};
    struct npu_weights w;
    if (code == NPU_OP_LOOKUP || ((code == NPU_OP_GEMM || code == NPU_OP_DEQUANT) && draw(b, 2)))
        op.kind = kind = NPU_PLANES(1 + draw(b, 2), 64 << draw(b, 2), 0);
    if (code == NPU_OP_LOOKUP) b->machine.tables_m = m, b->machine.tables_k = k;
    uint64_t packed = npu_weights_layout(kind, k, n, &w) ? 4096 : w.bytes;
    op.param = code == NPU_OP_ROPE ? 32 : code != NPU_OP_GEMM ? 0x3f800000 : draw(b, 2) * npu_gemm_tiling(2, 1, 4);
    op.flags = draw(b, 4) ? 0 : draw(b, 4);
    *table_words = 0;
    if (code == NPU_OP_ATTENTION) {
        op.m = 5, op.n = 32, op.k = draw(b, 2), op.kind = draw(b, 3);
        op.src_stride = op.dst_stride = 1024;
        *table = op.rows = put_attention(b), *table_words = 60;
        packed = 1024;
    } else if (code == NPU_OP_EMBED || code == NPU_OP_TAKE || code == NPU_OP_KV_APPEND || code == NPU_OP_HEAD) {
        if (code == NPU_OP_KV_APPEND) op.n = 32, op.k = 2, op.param = draw(b, 2), packed = m * wide;
        *table = op.rows = place(b, 16 * m), *table_words = 4 * m;
        for (uint32_t i = 0; i < m; i++) {
            uint32_t *row = word_at(b, op.rows);
            if (code == NPU_OP_EMBED || code == NPU_OP_TAKE) row[i] = draw(b, 4);
            if (code == NPU_OP_HEAD)
                row[3 * i] = 3, row[3 * i + 1] = 0, row[3 * i + 2] = draw(b, 2) ? place(b, 4 * n) : 0;
            if (code == NPU_OP_KV_APPEND)
                row[4 * i] = place(b, 8192), row[4 * i + 1] = place(b, 8192), row[4 * i + 2] = 4096,
                        row[4 * i + 3] = 2048;
        }
    } else if (code == NPU_OP_ROPE) {
        op.rows = draw(b, 3), packed = 4096;
    } else if (code == NPU_OP_READ) {
        op.k = NPU_READ_PIECE, op.kind = draw(b, 3);
    } else if (code == NPU_OP_DEQUANT) {
        op.dst_stride = 64 * k;
    } else if (code == NPU_OP_ADD || code == NPU_OP_SWIGLU || code == NPU_OP_GEGLU || code == NPU_OP_RELU2) {
        packed = m * wide;
    }
    uint64_t rows = (uint64_t)m * wide + 4 * NPU_HEAD_SCRATCH;
    op.src = place(b, rows), op.weights = place(b, packed);
    op.dst = place(b, code == NPU_OP_DEQUANT ? 64 * (uint64_t)k * (n / 32) : rows);
    op.scratch = place(b, 8 * NPU_HEAD_SCRATCH);
    op.bias = (code <= NPU_OP_GEMM || code == NPU_OP_LOOKUP) && draw(b, 2) ? place(b, 4 * n) : 0;
    return op;
}

static uint32_t odd_value(struct box *b, uint32_t x)
{
    switch (draw(b, 8)) {
    case 0: return x + 128;
    case 1: return x - 128;
    case 2: return x ^ 1u << draw(b, 32);
    case 3: return rng_u32(b->key, b->drawn++);
    case 4: return b->memory.end - draw(b, 512);
    case 5: return b->memory.first - draw(b, 512);
    case 6: return x + draw(b, 64);
    default: return draw(b, 2) ? UINT32_MAX - draw(b, 256) : 0;
    }
}

/* m is kept small: it only makes rounds long. */
static void damage(struct box *b, struct npu_op *op, uint32_t table, uint32_t table_words)
{
    uint32_t *field = (uint32_t *)op;
    for (uint32_t n = draw(b, 4); n; n--) {
        uint32_t i = draw(b, 16);
        if (i == 2) field[i] = draw(b, 8) ? field[i] + draw(b, 40) : odd_value(b, field[i]) | 1 << 20;
        if (i != 2 && i != 0) field[i] = odd_value(b, field[i]);
    }
    if (!table_words || !draw(b, 2)) return;
    uint32_t *word = word_at(b, table) + draw(b, table_words);
    *word = odd_value(b, *word);
}

static void nothing_leaves_memory(void **state)
{
    struct box b;
    uint32_t passed = 0, done[NPU_OPS] = {0};
    (void)state;
    open_box(&b);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t table = 0, table_words;
        size_t n;
        memset(word_at(&b, b.memory.first), 0, MEMORY);
        npu_sim_own(b.sim, b.memory.first, MEMORY, 1);
        struct npu_op op = make(&b, &table, &table_words);
        if (op.code == NPU_OP_EXP_TABLE) continue;
        damage(&b, &op, table, table_words);
        uint32_t status = npu_op_check(npu_sim_isa(b.sim), &b.memory, &op);
        if (status == NPU_OK) {
            passed++;
            if (npu_execute(npu_sim_isa(b.sim), &b.machine, &op) == NPU_OK) done[op.code]++;
        }
        npu_sim_end(b.sim, 65536);
        const struct npu_sim_fault *f = npu_sim_faults(b.sim, &n);
        for (size_t i = 0; i < n; i++)
            if (f[i].kind == NPU_SIM_OUT_OF_BOUNDS)
                fail_msg("round %u, code %u: %s line %d at %#x", round, op.code, f[i].kernel, f[i].line, f[i].offset);
        npu_sim_clear_faults(b.sim);
    }
    assert_true(passed > ROUNDS / 4 && passed < ROUNDS * 3 / 4);
    for (uint32_t i = 1; i < NPU_OPS; i++)
        if (i != NPU_OP_EXP_TABLE && !done[i]) fail_msg("no operation of code %u was ever executed", i);
    npu_sim_close(&b.sim);
}

/* Rows far apart whose last one ends where memory ends: nothing behind it is maintained. */
static void rows_may_end_where_memory_ends(void **state)
{
    struct box b;
    size_t n;
    (void)state;
    open_box(&b);
    npu_sim_own(b.sim, b.memory.first, MEMORY, 1);
    uint32_t stride = 8192, last = b.memory.end - 128 - 4 * stride - 1024;
    struct npu_op op = {.code = NPU_OP_ATTENTION,
        .flags = NPU_FROM_HOST | NPU_TO_HOST,
        .m = 5,
        .n = 32,
        .kind = NPU_EXP_TABLE,
        .src = last,
        .dst = last - 1024,
        .src_stride = stride,
        .dst_stride = stride,
        .rows = put_attention(&b)};
    for (int side = 0; side < 2; side++) {
        assert_int_equal(npu_op_check(npu_sim_isa(b.sim), &b.memory, &op), NPU_OK);
        assert_int_equal(npu_execute(npu_sim_isa(b.sim), &b.machine, &op), NPU_OK);
        const struct npu_sim_fault *f = npu_sim_faults(b.sim, &n);
        for (size_t i = 0; i < n; i++)
            if (f[i].kind == NPU_SIM_OUT_OF_BOUNDS) fail_msg("side %d: line %d at %#x", side, f[i].line, f[i].offset);
        npu_sim_clear_faults(b.sim);
        op.src = last - 1024, op.dst = last;
    }
    npu_sim_close(&b.sim);
}

/* Each buffer may end where memory does, and not four bytes later. */
static void buffers_are_judged_to_their_ends(void **state)
{
    enum { M = 3, N = 256, K = 320, ROW = 4 * K, BLOCKS = N / 32, FIRST = 2 };
    static const struct {
        uint32_t code, bytes, field; /* of the operation, in words; code 0: the end */
    } buffer[] = {{NPU_OP_ADD, 2 * ROW + 4 * N, 6}, {NPU_OP_ADD, 2 * ROW + 4 * N, 7}, {NPU_OP_ADD, 2 * ROW + 4 * N, 8},
        {NPU_OP_RMS_NORM, 4 * N, 7}, {NPU_OP_FIT, M * 128, 7}, {NPU_OP_FIT, 2 * ROW + 4 * N, 8},
        {NPU_OP_ROPE, 4 * 64 + (FIRST + M) * 8 * 64, 7}, {NPU_OP_GEMM, 2 * ROW + 4 * K, 6},
        {NPU_OP_GEMM, BLOCKS * K / 64 * 1152, 7}, {NPU_OP_GEMM, 2 * ROW + 128 * BLOCKS, 8},
        {NPU_OP_GEMM, 128 * BLOCKS, 13}, {NPU_OP_EXP16, 2 * N, 6}, {NPU_OP_EXP16, 2 * N, 8},
        {NPU_OP_HEAD, M * NPU_HEAD_SCRATCH, 15}, {NPU_OP_HEAD, M * sizeof(struct npu_head_result), 8},
        {NPU_OP_HEAD, 2 * ROW + 4 * K, 6}, {0, 0, 0}};
    struct box b;
    (void)state;
    open_box(&b);
    npu_sim_own(b.sim, b.memory.first, MEMORY, 1);
    for (int i = 0; buffer[i].code; i++) {
        const uint32_t at = b.memory.first;
        struct npu_op op = {.code = buffer[i].code, .m = M, .n = N, .k = K, .kind = NPU_W_Q4_0, .param = 64};
        op.src = at, op.weights = at + 8192, op.dst = at + 131072, op.rows = at + 196608, op.scratch = at + 262144;
        op.src_stride = op.dst_stride = ROW;
        if (op.code == NPU_OP_ROPE) op.rows = FIRST;
        uint32_t *field = (uint32_t *)&op + buffer[i].field, last = b.memory.end - 128 - buffer[i].bytes;
        for (*field = last; *field <= last + 4; *field += 4)
            if ((npu_op_check(npu_sim_isa(b.sim), &b.memory, &op) == NPU_OK) != (*field == last))
                fail_msg("code %u, field %u, %u bytes: %s", op.code, buffer[i].field, buffer[i].bytes,
                    *field == last ? "refused at memory's end" : "not refused behind it");
    }
    npu_sim_close(&b.sim);
}

/* The last row's mask of the last segment ends the table: a table that is 8 bytes shorter is none. */
static void masks_are_judged_for_every_row(void **state)
{
    struct box b;
    (void)state;
    open_box(&b);
    npu_sim_own(b.sim, b.memory.first, MEMORY, 1);
    struct npu_op op = {.code = NPU_OP_ATTENTION, .flags = NPU_FROM_HOST, .m = 5, .n = 32, .src = b.memory.first};
    op.dst = b.memory.first + 8192;
    op.src_stride = op.dst_stride = 1024, op.rows = put_attention(&b);
    struct npu_attention *t = (struct npu_attention *)(void *)word_at(&b, op.rows);
    assert_int_equal(npu_op_check(npu_sim_isa(b.sim), &b.memory, &op), NPU_OK);
    t->bytes -= 8;
    npu_sim_own(b.sim, b.memory.first, MEMORY, 1);
    if (npu_op_check(npu_sim_isa(b.sim), &b.memory, &op) == NPU_OK) fail_msg("a row's mask lies behind its table");
    npu_sim_close(&b.sim);
}

/* What was judged may not be written by what it allowed: keys, then values. */
static void a_table_is_not_written(void **state)
{
    struct box b;
    (void)state;
    open_box(&b);
    npu_sim_own(b.sim, b.memory.first, MEMORY, 1);
    uint32_t at = b.memory.first, table = at + 16384;
    struct npu_op op = {.code = NPU_OP_KV_APPEND, .flags = NPU_FROM_HOST, .m = 1, .n = 32, .k = 2, .src = at};
    op.weights = at + 4096, op.src_stride = 256, op.rows = table;
    for (uint32_t over = 0; over < 3; over++) {
        npu_sim_own(b.sim, table, 128, 1);
        uint32_t *slot = word_at(&b, table);
        slot[0] = slot[1] = at + 8192, slot[2] = 4096, slot[3] = 1024;
        if (over < 2) slot[over] = table - 1024; /* its second head */
        if ((npu_op_check(npu_sim_isa(b.sim), &b.memory, &op) == NPU_OK) != (over == 2))
            fail_msg("%s over the table", over == 2 ? "nothing" : over ? "values" : "keys");
    }
    npu_sim_close(&b.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_may_end_where_memory_ends),
        cmocka_unit_test(buffers_are_judged_to_their_ends),
        cmocka_unit_test(masks_are_judged_for_every_row),
        cmocka_unit_test(a_table_is_not_written),
        cmocka_unit_test(nothing_leaves_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
