/* SPDX-License-Identifier: MIT
 *
 * Products that the NPU and the CPU share by outputs (unit/sched/shared_products.h), whoever stands first.
 */
#include "unit/sched/shared_products.h"

#include "npu/host/device_impl.h"
#include "npu/host/session.h"

static bool has_qemu(void)
{
    struct npu_transport *npu;
    struct npu_transport_settings set = {.program = NPU_PROGRAM, .memory_bytes = 1 << 20};
    int rc = npu_child_open(&npu, &set, &err);
    npu_transport_close(&npu);
    return rc == 0;
}

static void any_cut_has_the_bits_of_its_devices(void **state)
{
    static struct bench b;
    static const char *const devices[] = {"npu-sim,cpu", "cpu,npu-sim", "npu-sim:bitplane,cpu", "cpu,npu-sim:lookup",
        "npu-sim:lookup,cpu,npu-sim", "npu-sim,npu-sim:bitplane,cpu"};
    static const enum quant_type types[] = {QUANT_Q4_0, QUANT_Q8_0, QUANT_F16, QUANT_Q4_1, QUANT_Q4_K, QUANT_TQ2_0};
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        check_cuts(&b, devices[d], (uint32_t)d, types, sizeof types / sizeof *types,
            SANITIZED ? 1
            : d < 4   ? CUTS
                      : CUTS / 3,
            NULL);
}

/* The NPU's program has answered all that was sent, and nobody has waited for it. */
static void await_answers(struct device *npu)
{
    struct npu_session *s = (struct npu_session *)((struct npu_device *)npu)->window[0].link;
    struct npu_ring *ring = s->ring.view.ring;
    uint64_t give_up_us = clock_now_us(clock_real()) + 120 * 1000000ull;
    while (__atomic_load_n(&ring->npu.answered, __ATOMIC_ACQUIRE) != (uint32_t)s->ring.sent) {
        if (clock_now_us(clock_real()) > give_up_us) fail_msg("the NPU stands still while nobody waits for it");
        clock_sleep_until(clock_real(), clock_now_us(clock_real()) + 1000);
    }
}

/* Products by tiles on the NPU end while the host computes: QEMU's tile unit is the host's. */
static void an_npu_goes_on_while_nobody_waits(void **state)
{
    static struct bench b;
    struct ticket ticket;
    (void)state;
    if (!has_qemu()) {
        print_message("skipped: %s\n", err.what);
        skip();
    }
    open_bench(&b, "npu-qemu,cpu");
    do {
        open_case(&b, QUANT_Q4_0);
        if (b.batch.n_row < 32) close_case(&b); /* no tiles */
    } while (b.batch.n_row < 32);
    b.kv = (struct kv_view){.type = {QUANT_F16, QUANT_F16}};
    b.pass = (struct pass_args){.batch = &b.batch, .kv = &b.kv, .value = b.value};
    fill(&b);
    memcpy(b.value[V_IN].host, b.want[V_IN], bytes_of(&b, V_IN));
    const struct plan_piece *piece = &b.plan.piece[0];
    struct device *npu = b.plan.device[piece->device];
    struct segment s = {.op = b.op, .n_op = 1, .list = &b.list, .pass = &b.pass, .share = piece->share};
    assert_string_equal(npu->name, "npu-qemu");
    const int dim = b.list.value[V_IN].dim;
    npu->memory->acquire(npu, &b.value[V_IN], area_of_all(dim, b.batch.n_row));
    OK(npu->ops->submit(npu, &s, NULL, 0, &ticket, &err));
    await_answers(npu);
    OK(npu->ops->wait(npu, &ticket, &err));
    close_case(&b);
    close_bench(&b);
}

static void a_cpu_that_nobody_named_shares_nothing(void **state)
{
    static struct bench b;
    (void)state;
    for (int named = 0; named < 2; named++) {
        open_bench(&b, named ? "npu-sim,cpu" : "npu-sim");
        assert_ptr_equal(b.device[1], b.set.cpu);
        assert_int_equal(plan_devices_differ(b.device, 2), named);
        assert_int_equal(plan_cut_evenly(b.device, 2).n, 1 + named);
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_npu_goes_on_while_nobody_waits),
        cmocka_unit_test(any_cut_has_the_bits_of_its_devices),
        cmocka_unit_test(a_cpu_that_nobody_named_shares_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
