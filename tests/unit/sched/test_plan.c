/* SPDX-License-Identifier: MIT
 *
 * Plans over fake devices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sched/plan.h"

/* A device that does some kinds of operations and writes down what is asked of it. */
struct fake {
    struct device device;
    unsigned kinds;
    char *log; /* shared by all fakes */
    int fail;
    int fail_at; /* from this operation on */
    atomic_bool *cancel_in_submit;
};

static int supports(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    (void)list;
    const struct fake *f = (const struct fake *)self;
    return f->kinds >> op->kind & 1 ? 0 : lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s cannot", self->name);
}

static int submit(struct device *self, const struct segment *seg, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    struct fake *f = (struct fake *)self;
    (void)after;
    char line[64];
    snprintf(line, sizeof line, "%s:%d+%d@%d ", self->name, (int)(seg->op - seg->list->op), seg->n_op, n_after);
    strcat(f->log, line);
    if (f->fail && seg->op - seg->list->op >= f->fail_at) return lutra_fail(err, f->fail, "lost");
    if (f->cancel_in_submit) atomic_store(f->cancel_in_submit, true);
    *out = (struct ticket){self, 1};
    return 0;
}

static int wait_for(struct device *self, const struct ticket *t, struct lutra_error *err)
{
    (void)err;
    assert_ptr_equal(t->device, self);
    strcat(((struct fake *)self)->log, "w ");
    return 0;
}

static int publish(struct device *self, struct buffer *b, struct area a, struct lutra_error *err)
{
    (void)b, (void)a, (void)err;
    strcat(((struct fake *)self)->log, "p ");
    return 0;
}

static void acquire(struct device *self, struct buffer *b, struct area a)
{
    (void)b, (void)a;
    strcat(((struct fake *)self)->log, "a ");
}

static const struct device_ops fake_ops = {.supports = supports, .submit = submit, .wait = wait_for};
static const struct device_memory fake_memory = {.publish = publish, .acquire = acquire};

struct bench {
    char log[512];
    struct fake npu, cpu;
    struct device *devices[2];
    struct op op[4];
    struct weight weight[2];
    struct op_layer layer[4];
    struct op_list list;
    struct buffer value[4];
    struct pass_args pass;
    struct plan plan;
};

static const struct batch one_row = {.n_row = 1};

static void prepare(struct bench *b)
{
    memset(b, 0, sizeof *b);
    b->npu =
        (struct fake){{&fake_ops, &fake_memory, NULL, "npu", NULL, {.max_rows = 32, .flat_rows = 32, .masks = true}},
            1u << OP_EMBED | 1u << OP_ADD, b->log, 0, 0, NULL};
    b->cpu =
        (struct fake){{&fake_ops, NULL, NULL, "cpu", NULL, {.max_rows = 512, .flat_rows = 4}}, ~0u, b->log, 0, 0, NULL};
    b->devices[0] = &b->npu.device;
    b->devices[1] = &b->cpu.device;
    b->op[0] = op_make(OP_EMBED, 0, -1, -1, 0);
    b->op[0].weight[0] = &b->weight[0];
    b->op[1] = op_make(OP_ADD, 1, 0, 0, 1);
    b->op[2] = op_make(OP_ROPE, 2, 1, -1, 2);
    b->op[3] = op_make(OP_ADD, 3, 2, 0, 3);
    for (int i = 0; i < 4; i++) b->layer[i] = (struct op_layer){.cache = i};
    b->list = (struct op_list){.op = b->op, .n_op = 4, .n_value = 4, .layer = b->layer, .n_layer = 4};
    b->pass.value = b->value;
    b->pass.batch = &one_row;
}

static void splits_by_device(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(b.plan.n_piece, 3);
    assert_int_equal(plan_run(&b.plan, &b.pass, NULL, NULL, NULL), 0);
    /* One value goes to the CPU, which works where it lies then, one comes back; the one that the CPU did not touch
     * stays. */
    assert_string_equal(b.log, "npu:0+2@0 w p cpu:2+1@0 w a npu:3+1@0 w ");
    struct device_caps caps = plan_caps(&b.plan);
    assert_int_equal(caps.max_rows, 32);
    assert_int_equal(caps.flat_rows, 4);
    assert_false(plan_knows_masks(&b.plan)); /* one does not */
    b.cpu.device.caps.masks = true;
    assert_true(plan_knows_masks(&b.plan));
}

/* A list that goes on where another has ended: what it reads is brought to shared memory once. */
static void another_plan_finds_what_one_has_left(void **state)
{
    (void)state;
    struct bench b;
    static struct plan next;
    prepare(&b);
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(plan_run(&b.plan, &b.pass, NULL, NULL, NULL), 0);
    b.log[0] = 0;
    for (int v = 0; v < 3; v++) assert_int_equal(plan_share(&b.plan, &b.pass, v, NULL), 0);
    assert_string_equal(b.log, "p "); /* value 0: 1 was handed over, 2 is the CPU's */
    b.log[0] = 0;
    struct op_list list = b.list;
    list.op = b.op + 2, list.n_op = 2, list.given = 1u << 0 | 1u << 1;
    assert_int_equal(plan_open(&next, &list, b.devices, 2, NULL), 0);
    assert_int_equal(plan_run(&next, &b.pass, NULL, NULL, NULL), 0);
    assert_string_equal(b.log, "cpu:0+1@0 w a a npu:1+1@0 w ");
}

static void keeps_a_layers_cache_on_one_device(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    b.op[1] = op_make(OP_KV_APPEND, 0, 0, 0, -1);
    b.op[2] = op_make(OP_ATTENTION, 0, 0, -1, 2);
    static const enum op_kind half[] = {OP_KV_APPEND, OP_ATTENTION};
    for (int i = 0; i < 2; i++) { /* a device that does half of it does none of it */
        b.npu.kinds = 1u << half[i] | 1u << OP_EMBED | 1u << OP_ADD;
        assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
        assert_int_equal(b.plan.n_piece, 3);
        assert_ptr_equal(b.plan.device[b.plan.piece[1].device], &b.cpu.device);
        assert_int_equal(b.plan.piece[1].first, 1);
        assert_int_equal(b.plan.piece[1].n, 2);
    }
    b.op[2].layer = 1; /* another layer's append decides nothing */
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(b.plan.n_piece, 3);
    assert_ptr_equal(b.plan.device[b.plan.piece[1].device], &b.cpu.device);
    assert_int_equal(b.plan.piece[1].n, 1);
    b.layer[1].cache = 0; /* but one that writes what it reads does */
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(b.plan.piece[1].n, 2);
    assert_true(plan_keeps_cache(&b.plan, &b.cpu.device) && !plan_keeps_cache(&b.plan, &b.npu.device));
}

static void keeps_users_of_a_weight_on_one_device(void **state)
{
    (void)state;
    struct bench b;
    prepare(&b);
    b.op[3] = op_make(OP_HEAD, -1, 2, 2, -1);
    b.op[3].weight[0] = &b.weight[1];
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(b.plan.piece[0].n, 2);
    b.op[3].weight[0] = &b.weight[0]; /* the NPU does no head */
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(b.plan.n_piece, 3);
    assert_ptr_equal(b.plan.device[b.plan.piece[0].device], &b.cpu.device);
    assert_int_equal(b.plan.piece[0].n, 1);
}

static void reports_who_runs_what_and_why(void **state)
{
    (void)state;
    struct bench b;
    char line[128];
    prepare(&b);
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_true(plan_report(&b.plan, b.devices[0], 0, line, sizeof line));
    assert_string_equal(line, "npu runs 1 embed, 2 add");
    assert_true(plan_report(&b.plan, b.devices[0], 1, line, sizeof line));
    assert_string_equal(line, "cpu runs 1 rope");
    assert_true(plan_report(&b.plan, b.devices[0], 2, line, sizeof line));
    assert_string_equal(line, "cpu runs rope of layer 2 because of npu cannot");
    assert_false(plan_report(&b.plan, b.devices[0], 3, line, sizeof line));
    assert_true(plan_report(&b.plan, b.devices[0], 0, line, 8)); /* cut, not overrun */
}

static void refuses_by_name(void **state)
{
    (void)state;
    struct bench b;
    struct lutra_error err;
    prepare(&b);
    b.cpu.kinds = 0;
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, &err), LUTRA_E_UNSUPPORTED);
    assert_string_equal(err.what, "operation rope of layer 2: cpu cannot");
    assert_int_equal(plan_run(&b.plan, &b.pass, NULL, NULL, &err), LUTRA_E_UNSUPPORTED);
    assert_string_equal(b.log, "");
}

static void stops_between_pieces(void **state)
{
    (void)state;
    struct bench b;
    atomic_bool cancel = false;
    prepare(&b);
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    b.pass.cancel = &cancel;
    b.npu.cancel_in_submit = &cancel;
    assert_int_equal(plan_run(&b.plan, &b.pass, NULL, NULL, NULL), LUTRA_E_CANCELLED);
    assert_string_equal(b.log, "npu:0+2@0 w "); /* nothing is under way any more */
    atomic_store(&cancel, false);
    b.npu.fail = LUTRA_E_DEVICE_LOST;
    assert_int_equal(plan_run(&b.plan, &b.pass, NULL, NULL, NULL), LUTRA_E_DEVICE_LOST);
}

/* The devices that are left. */
static int leave_out_npu(void *user, struct device *lost, struct lutra_error *err)
{
    struct bench *b = user;
    strcat(b->log, "! ");
    assert_ptr_equal(lost, &b->npu.device);
    return plan_open(&b->plan, &b->list, b->devices + 1, 1, err);
}

static int refuse(void *user, struct device *lost, struct lutra_error *err)
{
    (void)user, (void)lost;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "no room for its weights");
}

static int keep_it(void *user, struct device *lost, struct lutra_error *err)
{
    (void)user, (void)lost, (void)err;
    return 0;
}

/* In the third piece a device goes away: all of the pass is done again, and nothing of it is handed over. */
static void a_lost_device_is_replaced(void **state)
{
    (void)state;
    struct bench b;
    struct plan_rescue rescue = {.replace = leave_out_npu, .user = &b};
    struct lutra_error err;
    prepare(&b);
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    b.npu.fail = LUTRA_E_DEVICE_LOST, b.npu.fail_at = 3;
    assert_int_equal(plan_run(&b.plan, &b.pass, NULL, &rescue, NULL), 0);
    assert_string_equal(b.log, "npu:0+2@0 w p cpu:2+1@0 w a npu:3+1@0 ! cpu:0+4@0 w ");
    rescue.replace = refuse;
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(plan_run(&b.plan, &b.pass, NULL, &rescue, &err), LUTRA_E_NO_MEMORY);
    assert_string_equal(err.what, "no room for its weights");
    rescue.replace = keep_it;
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(plan_run(&b.plan, &b.pass, NULL, &rescue, &err), LUTRA_E_INTERNAL);
    assert_string_equal(err.what, "the plan keeps npu, which is lost");
}

/* ---- attention by heads ---- */

enum { Q, K, V, A, X, N_LAYER_VALUES };

struct layer_bench {
    char log[512];
    struct fake fake[2]; /* the second is asynchronous */
    struct device *devices[2];
    struct op op[6];
    struct weight weight[4];
    struct op_layer layer;
    struct op_list list;
    struct plan plan;
};

static void prepare_layer(struct layer_bench *b, int n_head, int n_kv_head)
{
    enum { D = 64 };
    const int dim[] = {n_head * D, n_kv_head * D, n_kv_head * D, n_head * D, 256};
    const uint32_t heads = SHARED_BY_OUTPUTS | 1u << OP_ROPE | 1u << OP_KV_APPEND | 1u << OP_ATTENTION;
    memset(b, 0, sizeof *b);
    for (int i = 0; i < 2; i++) {
        b->fake[i] = (struct fake){
            {&fake_ops, NULL, NULL, i ? "second" : "first", NULL, {.max_rows = 32, .flat_rows = 32, .masks = true}},
            ~0u, b->log, 0, 0, NULL};
        b->devices[i] = &b->fake[i].device;
        b->devices[i]->caps.async = i;
        b->devices[i]->caps.speed = 1;
        b->devices[i]->caps.shares = heads;
        b->devices[i]->store = i ? b->devices[0] : NULL;
    }
    b->layer = (struct op_layer){.cache = 0, .n_kv_head = n_kv_head, .d_head = D};
    b->op[0] = op_make(OP_MATMUL, 0, X, -1, -1);
    for (int i = 0; i < 3; i++) op_add_part(&b->op[0], &b->weight[i], NULL, Q + i);
    for (int i = 0; i < 2; i++) {
        b->op[1 + i] = op_make(OP_ROPE, 0, Q + i, -1, Q + i);
        b->op[1 + i].rope.d_head = D;
    }
    b->op[3] = op_make(OP_KV_APPEND, 0, K, V, -1);
    b->op[4] = op_make(OP_ATTENTION, 0, Q, -1, A);
    b->op[4].attention = (struct op_attention){.n_head = n_head, .n_kv_head = n_kv_head, .d_head = D};
    b->op[5] = op_make(OP_MATMUL, 0, A, -1, -1);
    op_add_part(&b->op[5], &b->weight[3], NULL, X);
    b->list = (struct op_list){
        .op = b->op, .n_op = 6, .n_value = N_LAYER_VALUES, .layer = &b->layer, .n_layer = 1, .given = 1u << X};
    for (int v = 0; v < N_LAYER_VALUES; v++) b->list.value[v] = (struct value){dim[v], ROWS_ALL};
}

static struct columns columns_of(const struct layer_bench *b, int piece, int value)
{
    return share_columns(b->plan.piece[piece].share, b->list.value[value].dim);
}

static void an_attention_is_cut_by_heads(void **state)
{
    (void)state;
    struct layer_bench b;
    prepare_layer(&b, 12, 3);
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(b.plan.n_piece, 6);
    for (int p = 0; p < 6; p++) {
        assert_ptr_equal(b.plan.device[b.plan.piece[p].device], b.devices[p % 2 == 0]);
        assert_int_equal(b.plan.piece[p].n, p / 2 == 1 ? 4 : 1);
    }
    /* Two heads and one, of queries, keys and values alike. */
    for (int v = Q; v <= A; v++) {
        int64_t n = b.list.value[v].dim / 3;
        assert_true(columns_of(&b, 2, v).first == 0 && columns_of(&b, 2, v).n == 2 * n);
        assert_true(columns_of(&b, 3, v).first == 2 * n && columns_of(&b, 3, v).n == n);
    }
    /* The second's heads reach into the half of the products that is the first's. */
    assert_int_equal(b.plan.piece[2].wait[b.plan.piece[1].device], 1);
    assert_int_equal(b.plan.piece[4].wait[b.plan.piece[3].device], 3);
    assert_int_equal(b.plan.piece[5].wait[b.plan.piece[2].device], 2);

    /* One head is not cut, nor is what others read of the cache, nor by a device that does not do heads. */
    prepare_layer(&b, 12, 1);
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(b.plan.n_piece, 5);
    prepare_layer(&b, 12, 3);
    b.devices[1]->caps.shares = SHARED_BY_OUTPUTS | 1u << OP_ROPE | 1u << OP_KV_APPEND;
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(b.plan.n_piece, 5);
    prepare_layer(&b, 12, 3);
    b.op[5] = b.op[4];
    assert_int_equal(plan_open(&b.plan, &b.list, b.devices, 2, NULL), 0);
    assert_int_equal(b.plan.n_piece, 3);

    /* As it is said: by whole heads, or all on one. */
    prepare_layer(&b, 8, 4);
    struct plan_cut cut[6] = {0};
    for (int i = 0; i < 6; i++)
        cut[i] = (struct plan_cut){.n = 2, .device = {b.devices[0], b.devices[1]}, .part = {3, 1}};
    assert_int_equal(plan_open_cut(&b.plan, &b.list, b.devices, 2, cut, NULL), 0);
    assert_true(columns_of(&b, 2, A).n == 2 * 64 && columns_of(&b, 3, A).n == 6 * 64);
    for (int i = 0; i < 6; i++) cut[i].part[0] = 0;
    assert_int_equal(plan_open_cut(&b.plan, &b.list, b.devices, 2, cut, NULL), 0);
    assert_int_equal(b.plan.n_piece, 1);
    assert_ptr_equal(b.plan.device[0], b.devices[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attention_is_cut_by_heads),
        cmocka_unit_test(splits_by_device),
        cmocka_unit_test(another_plan_finds_what_one_has_left),
        cmocka_unit_test(keeps_a_layers_cache_on_one_device),
        cmocka_unit_test(keeps_users_of_a_weight_on_one_device),
        cmocka_unit_test(reports_who_runs_what_and_why),
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(stops_between_pieces),
        cmocka_unit_test(a_lost_device_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
