/* SPDX-License-Identifier: MIT
 *
 * The GPU on random op lists, over layers whose caches differ in heads and head size, are shared or missing: each
 * operation that it supports, given the reference's inputs, leaves what the reference leaves; and what it does not
 * support it refuses by name.
 */
#include "gpu_fixture.h"

#include "unit/ops/near.h"
#include "unit/ops/ref_run.h"

enum { LISTS = 24 };

static void assert_head(const struct random_list *r, const struct row_result *want, uint32_t seed)
{
    for (int i = 0; i < r->pass.n_out; i++) {
        const struct row_result *got = &r->result[i];
        uint32_t asked = r->row[got->row].want;
        if (asked & WANT_LOGITS) assert_near(got->logits, want[i].logits, RL_VOCAB, 1e-4, "logits", seed);
        if (asked & WANT_HIDDEN) assert_near(got->hidden, want[i].hidden, RL_DIM, 0, "hidden", seed);
        if (!(asked & WANT_TOPK)) continue;
        assert_int_equal(got->n_top, want[i].n_top);
        assert_near(got->top_logit, want[i].top_logit, (size_t)got->n_top, 1e-4, "best logits", seed);
        assert_near(&got->log_sum_exp, &want[i].log_sum_exp, 1, 1e-4, "log-sum-exp", seed);
    }
}

/* The reference's results beside the list's own, filled by a run of the head. */
static void want_head(struct random_list *r, int i, struct row_result *want)
{
    static float logits[RL_ROWS][RL_VOCAB], hidden[RL_ROWS][RL_DIM], top_logit[RL_ROWS][ROW_TOPK];
    static int32_t top_id[RL_ROWS][ROW_TOPK];
    struct pass_args pass = r->pass;
    for (int k = 0; k < pass.n_out; k++)
        want[k] = (struct row_result){.row = r->result[k].row,
            .logits = logits[k],
            .hidden = hidden[k],
            .top_id = top_id[k],
            .top_logit = top_logit[k]};
    pass.result = want;
    ref_run(&r->list, i, 1, &pass);
}

/* Runs operation i both ways from the same values and cache. */
static void compare(struct device *d, struct random_list *r, int i, uint32_t seed)
{
    static float before[RL_VALUES][RL_ROWS * RL_MOST_DIM], want[RL_VALUES][RL_ROWS * RL_MOST_DIM];
    const struct op *op = &r->op[i];
    struct lutra_error err = {0};
    struct segment segment = {.op = op, .n_op = 1, .list = &r->list, .pass = &r->pass};
    struct row_result head[RL_ROWS];
    struct ticket ticket;
    bool tame = is_tame(r, op);
    for (int v = 0; v < RL_VALUES; v++) memcpy(before[v], r->value[v].host, r->value[v].bytes);
    if (op->kind == OP_HEAD)
        want_head(r, i, head);
    else
        ref_run(&r->list, i, 1, &r->pass);
    for (int v = 0; v < RL_VALUES; v++) {
        memcpy(want[v], r->value[v].host, r->value[v].bytes);
        memcpy(r->value[v].host, before[v], r->value[v].bytes);
        const int dim = r->list.value[v].dim;
        d->memory->acquire(d, &r->value[v], area_of_all(dim, r->batch.n_row));
    }
    if (d->ops->supports(d, &r->list, op, &err) == 0) {
        if (d->ops->submit(d, &segment, NULL, 0, &ticket, &err) < 0) fail_msg("list %u: %s", seed, err.what);
        if (d->ops->wait(d, &ticket, &err) < 0) fail_msg("list %u: %s", seed, err.what);
        for (int v = 0; v < RL_VALUES; v++) {
            const struct value *value = &r->list.value[v];
            size_t rows = (size_t)(value->rows == ROWS_OUT ? r->pass.n_out : r->batch.n_row);
            if (!op_writes(op, v)) continue;
            d->memory->publish(d, &r->value[v], area_of_all(value->dim, (int)rows), &err);
            if (tame) assert_near(r->value[v].host, want[v], rows * (size_t)value->dim, 1e-4, op_name(op->kind), seed);
        }
        if (op->kind == OP_HEAD && tame) assert_head(r, head, seed);
    } else {
        assert_true(strstr(err.what, "vulkan: ") && strstr(err.what, op_name(op->kind)));
    }
    for (int v = 0; v < RL_VALUES; v++) memcpy(r->value[v].host, want[v], r->value[v].bytes);
}

/* The list's values and cache as the GPU reaches them. */
static void join(struct device *d, struct random_list *r, struct buffer cache[2])
{
    struct lutra_error err = {0};
    cache[0] = (struct buffer){.host = r->kv.view.pool, .bytes = r->kv.pool_bytes};
    cache[1] = (struct buffer){.host = r->kv.view.draft, .bytes = r->kv.draft_bytes};
    for (int i = 0; i < 2; i++) assert_int_equal(d->memory->join(d, &r->list, &cache[i], &err), 0);
    for (int v = 0; v < RL_VALUES; v++) assert_int_equal(d->memory->join(d, NULL, &r->value[v], &err), 0);
}

static void operations_agree_with_the_reference(void **state)
{
    static struct random_list r;
    struct lutra_error err = {0};
    struct device *d = gpu_open();
    int n_run[OP_COUNT] = {0};
    (void)state;
    for (uint32_t seed = 0; seed < LISTS; seed++) {
        struct buffer cache[2];
        bool keeps;
        random_list_open(&r, seed);
        assert_int_equal(op_list_check(&r.list, &err), 0);
        for (int i = 0; i < r.n_weight; i++) assert_int_equal(d->ops->prepare(d, &r.weight[i], &keeps, &err), 0);
        assert_int_equal(d->ops->reserve(d, &r.list, RL_ROWS, RL_ROWS, FIX_TABLE * KV_BLOCK, &err), 0);
        assert_int_equal(d->memory->load(d, &r.list, &err), 0);
        join(d, &r, cache);
        for (int i = 0; i < r.list.n_op; i++) compare(d, &r, i, seed), n_run[r.op[i].kind]++;
        for (int v = 0; v < RL_VALUES; v++) d->memory->leave(d, &r.value[v]);
        for (int i = 0; i < 2; i++) d->memory->leave(d, &cache[i]);
        for (int i = 0; i < r.n_weight; i++) d->ops->release(d, &r.weight[i]);
        d->memory->unload(d, &r.list);
        random_list_close(&r);
    }
    for (int kind = 0; kind < OP_COUNT; kind++)
        if (!n_run[kind]) fail_msg("no list has %s", op_name((enum op_kind)kind));
    d->ops->close(d);
}

int main(void)
{
    gpu_need();
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_agree_with_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
