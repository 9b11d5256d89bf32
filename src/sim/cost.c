/* SPDX-License-Identifier: MIT */
#include "sim/cost.h"

#include <math.h>

#include "phone/laws.h"

/* One choice of every figure, and whether gathers stall the packets beside them. */
struct choice {
    double f[SOC_FIGURES];
    int stalls;
};

double npu_cost_share(uint32_t parts, double threads)
{
    uint32_t n = (uint32_t)threads;
    return parts ? (double)((parts + n - 1) / n) / parts : 1 / threads;
}

/* Microseconds; busy [NPU_RESOURCES]. */
static double time_of(const struct choice *c, const struct npu_work *w, double *busy)
{
    double clock = c->f[NPU_CLOCK_MHZ], sum = 0, longest = 0;
    double packet_us = c->f[NPU_CYCLES_PER_PACKET] / clock, threads = c->f[NPU_VECTOR_THREADS];
    double alone = w->alone * packet_us * npu_cost_share(w->alone_parts, threads);
    double share = npu_cost_share(w->parts, threads);
    busy[NPU_ON_VECTOR] = w->packets * packet_us * share +
                          (w->starts + w->part_starts * w->parts * share) * c->f[NPU_DMA_START_CYCLES] / clock;
    busy[NPU_ON_GATHER] = (w->gathers * c->f[NPU_GATHER_CYCLES] + w->scatters * c->f[NPU_SCATTER_CYCLES]) / clock;
    busy[NPU_ON_DMA] = w->dma_bytes / c->f[NPU_DMA_GBS] * 1e-3;
    busy[NPU_ON_L2] = w->l2_bytes / c->f[NPU_L2_GBS] * 1e-3;
    busy[NPU_ON_TILES] = (w->tile_pairs * c->f[NPU_TILE_CYCLES] + w->tile_calls * c->f[NPU_TILE_CALL_CYCLES]) / clock;
    /* What the vector threads do, with what they wait for, is one stage. */
    double vector = c->stalls ? busy[NPU_ON_VECTOR] + busy[NPU_ON_GATHER] + busy[NPU_ON_L2]
                              : fmax(fmax(busy[NPU_ON_VECTOR], busy[NPU_ON_GATHER]), busy[NPU_ON_L2]);
    const double stage[3] = {vector, busy[NPU_ON_DMA], busy[NPU_ON_TILES]}, meet = c->f[NPU_MEET_CYCLES] / clock;
    for (int i = 0; i < 3; i++) sum += stage[i], longest = fmax(longest, stage[i]);
    /* What vector threads do in a phase is the tile thread's in the next, and makes room `lead` phases after that. */
    if (w->hands > 0) longest = fmax(longest, (vector + busy[NPU_ON_TILES] + 2 * w->hands * meet) / (1 + w->lead));
    busy[NPU_ON_VECTOR] += alone;
    return longest + fmax(sum - longest, 0) / (w->stages ? w->stages : 1) + alone + w->meets * meet;
}

/* Everything at its better or at its worse end. */
static struct choice end_of(const struct soc_profile *profile, int worst)
{
    struct choice c = {.stalls = worst};
    for (int i = 0; i < SOC_FIGURES; i++)
        c.f[i] = sim_figure(profile, (enum soc_figure)i, worst ? SIM_WORSE : SIM_BETTER);
    return c;
}

struct npu_time npu_cost_time(const struct soc_profile *profile, const struct npu_work *work)
{
    struct npu_time t;
    for (int worst = 0; worst < 2; worst++) {
        struct choice c = end_of(profile, worst);
        double busy[NPU_RESOURCES], us = time_of(&c, work, busy);
        *(worst ? &t.us.high : &t.us.low) = us;
        t.longest[worst] = NPU_ON_VECTOR;
        for (int i = 0; i < NPU_RESOURCES; i++) {
            *(worst ? &t.busy_us[i].high : &t.busy_us[i].low) = busy[i];
            if (busy[i] > busy[t.longest[worst]]) t.longest[worst] = (enum npu_resource)i;
        }
    }
    return t;
}

struct npu_interval npu_cost_energy(const struct soc_profile *profile, const struct npu_work *work)
{
    double mj[2];
    for (int worst = 0; worst < 2; worst++) {
        struct choice c = end_of(profile, worst);
        double busy[NPU_RESOURCES], us = time_of(&c, work, busy);
        double vector_us = (work->packets + work->alone) * c.f[NPU_CYCLES_PER_PACKET] / c.f[NPU_CLOCK_MHZ];
        mj[worst] = (c.f[NPU_BASE_MW] * us + c.f[NPU_VECTOR_MW] * vector_us + c.f[NPU_TILES_MW] * busy[NPU_ON_TILES] +
                        c.f[NPU_MEMORY_PJ] * 1e-3 * (work->dma_bytes + work->l2_bytes)) *
                    1e-6;
    }
    return (struct npu_interval){mj[0], mj[1]};
}

struct npu_interval npu_cost_message_us(const struct soc_profile *profile, double n)
{
    const struct npu_interval *f = &profile->figure[NPU_MESSAGE_US];
    return (struct npu_interval){n * f->low, n * f->high};
}

struct npu_interval npu_cost_message_mj(const struct soc_profile *profile, double n)
{
    const struct npu_interval *f = profile->figure, us = npu_cost_message_us(profile, n);
    return (struct npu_interval){us.low * (f[NPU_BASE_MW].low + f[NPU_CPU_MW].low) * 1e-6,
        us.high * (f[NPU_BASE_MW].high + f[NPU_CPU_MW].high) * 1e-6};
}

struct npu_interval npu_cost_ratio(
    const struct soc_profile *profile, const struct npu_work *slow, const struct npu_work *fast)
{
    struct npu_interval r = {0, 0};
    /* Figures from NPU_MESSAGE_US on are not of an operation's time. */
    for (unsigned choice = 0; choice < 2u << NPU_MESSAGE_US; choice++) {
        struct choice c = {.stalls = (int)(choice >> NPU_MESSAGE_US)};
        double busy[NPU_RESOURCES];
        for (int i = 0; i < NPU_MESSAGE_US; i++)
            c.f[i] = choice >> i & 1 ? profile->figure[i].high : profile->figure[i].low;
        double b = time_of(&c, fast, busy), ratio = b > 0 ? time_of(&c, slow, busy) / b : 0;
        if (!choice || ratio < r.low) r.low = ratio;
        if (!choice || ratio > r.high) r.high = ratio;
    }
    return r;
}
