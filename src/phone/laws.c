/* SPDX-License-Identifier: MIT */
#include "phone/laws.h"

#include <math.h>

enum { STAGE = 32 };

/* More of it is faster. */
static bool is_rate(enum soc_figure f)
{
    return f == SOC_QNN_TFLOPS || f == SOC_ONE_GBS || f == SOC_TWO_GBS || f == SOC_COPY_GBS || f == SOC_STORAGE_MBS ||
           f == NPU_CLOCK_MHZ || f == NPU_VECTOR_THREADS || f == NPU_DMA_GBS || f == NPU_L2_GBS || f == NPU_TCM_MIB;
}

double sim_figure(const struct soc_profile *profile, enum soc_figure figure, enum sim_end end)
{
    const struct npu_interval *f = &profile->figure[figure];
    if (end == SIM_MIDDLE) return (f->low + f->high) / 2;
    return (end == SIM_BETTER) == is_rate(figure) ? f->high : f->low;
}

static double gpu_us(const struct soc_profile *p, enum sim_end end, double weights, double bits, int rows)
{
    double memory = weights * bits / 8e3 / sim_figure(p, SOC_ONE_GBS, end);
    const double at[3] = {1, 128, 256}, us[3] = {memory, weights * 1e-6 * sim_figure(p, SOC_GPU_US_128, end),
                                            weights * 1e-6 * sim_figure(p, SOC_GPU_US_256, end)};
    int i = rows > 128 ? 2 : 1;
    return fmax(memory, us[i - 1] + (us[i] - us[i - 1]) * (rows - at[i - 1]) / (at[i] - at[i - 1]));
}

/* Of both operands one stays in the arrays and the other, of k columns, goes through them: the longer that is, the more
 * each load of the one that stays is worth [HETERO 3.2].  In a product's natural order its rows go through, exchanged
 * the weight's outputs do [HETERO 4.1]; the engine takes the better order, unless it is told to take the natural. */
static double npu_us(
    const struct soc_profile *p, bool natural_order, enum sim_end end, int k, int n, double bits, int rows)
{
    const double weights = (double)k * n, memory = weights * bits / 8e3 / sim_figure(p, SOC_ONE_GBS, end);
    const double through = natural_order ? rows : fmax(n, rows), shape = fmax(1, k / through);
    double us = 2e-6 * weights * rows / sim_figure(p, SOC_QNN_TFLOPS, end) * shape;
    if (rows <= STAGE) us = fmax(us, memory * sim_figure(p, SOC_QNN_ROW, end) * shape);
    if (natural_order) us = fmin(us, gpu_us(p, end, weights, bits, rows)); /* the worst case of [HETERO 3.2] */
    return fmax(us, memory);
}

static double cpu_us(const struct soc_profile *p, enum sim_end end, double weights, double bits, int rows)
{
    double memory = weights * bits / 8e3 / sim_figure(p, SOC_ONE_GBS, end);
    return fmax(memory, weights * 1e-6 * sim_figure(p, SOC_CPU_US_128, end) * rows / 128);
}

double sim_product_us(const struct soc_profile *p, bool natural_order, enum sim_end end, enum sim_device device, int k,
    int n, double bits, int rows, double part)
{
    if (device == SIM_GPU) return part * gpu_us(p, end, (double)k * n, bits, rows);
    if (device == SIM_CPU) return part * cpu_us(p, end, (double)k * n, bits, rows);
    return part * npu_us(p, natural_order, end, k, n, bits, (rows + STAGE - 1) / STAGE * STAGE);
}
