/* SPDX-License-Identifier: MIT
 *
 * Products that the GPU and the CPU share by outputs (unit/sched/shared_products.h), whoever stands first, in memory
 * that both see and in memory of the GPU's own.
 */
#include "unit/gpu/gpu_fixture.h"

#include "gpu/device_impl.h"
#include "unit/sched/shared_products.h"

/* The GPU copies what it reads. */
static void make_copy(struct bench *b)
{
    for (int d = 0; d < b->n_device; d++)
        if (!strcmp(b->device[d]->name, "vulkan")) ((struct gpu_device *)b->device[d])->import_align = 0;
}

static void any_cut_has_the_bits_of_its_devices(void **state)
{
    static struct bench b;
    static const char *const devices[] = {"vulkan,cpu", "cpu,vulkan", "vulkan,npu-sim,cpu"};
    static const enum quant_type types[] = {QUANT_Q4_0, QUANT_Q8_0, QUANT_F16, QUANT_Q4_1, QUANT_Q4_K, QUANT_Q6_K};
    (void)state;
    for (int copies = 0; copies < 2; copies++)
        for (size_t d = 0; d < sizeof devices / sizeof *devices - (size_t)copies; d++)
            check_cuts(&b, devices[d], 2 * (uint32_t)copies + (uint32_t)d, types, sizeof types / sizeof *types,
                SANITIZED ? 1
                : d < 2   ? CUTS / 3
                          : 1,
                copies ? make_copy : NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_cut_has_the_bits_of_its_devices)};
    gpu_need();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
