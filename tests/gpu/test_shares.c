/* SPDX-License-Identifier: MIT
 *
 * Products that the GPU and the CPU share by outputs (unit/sched/shared_products.h), whoever stands first, in memory
 * that both see and in memory of the GPU's own.
 */
#include "unit/gpu/gpu_fixture.h"

#include "gpu/device_impl.h"
#include "unit/sched/shared_products.h"

static void any_cut_has_the_bits_of_its_devices(void **state)
{
    static struct bench b;
    static const enum quant_type types[] = {QUANT_Q4_0, QUANT_Q8_0, QUANT_F16, QUANT_Q4_1, QUANT_Q4_K, QUANT_Q6_K};
    const int cuts = getenv("LUTRA_TEST_LONG") ? CUTS_LONG : SANITIZED ? 1 : CUTS / 3;
    int n_shared = 0;
    (void)state;
    for (int d = 0; d < 4; d++) {
        open_bench(&b, d % 2 ? "cpu,vulkan" : "vulkan,cpu");
        b.seed = (uint32_t)d;
        if (d > 1) ((struct gpu_device *)b.device[d % 2])->import_align = 0; /* it copies */
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int i = 0; i < cuts; i++) {
                check_case(&b, types[t]);
                n_shared += plan_mixes(&b.plan);
            }
        close_bench(&b);
    }
    assert_true(n_shared > 3 * 6 * cuts); /* of 4 x 6 x cuts: some have too few outputs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_cut_has_the_bits_of_its_devices)};
    gpu_need();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
