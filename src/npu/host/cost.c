/* SPDX-License-Identifier: MIT */
#include "npu/host/cost.h"

/* One choice of every figure, and whether gathers stall the packets beside them. */
struct choice {
    double f[NPU_FIGURES];
    int stalls;
};

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* Microseconds; busy [NPU_RESOURCES]. */
static double time_of(const struct choice *c, const struct npu_work *w, double *busy)
{
    double threads = c->f[NPU_VECTOR_THREADS], clock = c->f[NPU_CLOCK_MHZ], sum = 0, longest = 0;
    if (w->threads && w->threads < threads) threads = w->threads;
    busy[NPU_ON_VECTOR] = w->packets * c->f[NPU_CYCLES_PER_PACKET] / clock / threads;
    busy[NPU_ON_GATHER] = (w->gathers * c->f[NPU_GATHER_CYCLES] + w->scatters * c->f[NPU_SCATTER_CYCLES]) / clock;
    busy[NPU_ON_DMA] = w->dma_bytes / c->f[NPU_DMA_GBS] * 1e-3;
    busy[NPU_ON_L2] = w->l2_bytes / c->f[NPU_L2_GBS] * 1e-3;
    busy[NPU_ON_TILES] = w->tile_pairs * c->f[NPU_TILE_CYCLES] / clock;
    /* What the vector threads do, with what they wait for, is one stage. */
    double vector = c->stalls ? busy[NPU_ON_VECTOR] + busy[NPU_ON_GATHER] + busy[NPU_ON_L2]
                              : longer(longer(busy[NPU_ON_VECTOR], busy[NPU_ON_GATHER]), busy[NPU_ON_L2]);
    const double stage[3] = {vector, busy[NPU_ON_DMA], busy[NPU_ON_TILES]};
    for (int i = 0; i < 3; i++) sum += stage[i], longest = longer(longest, stage[i]);
    return longest + (sum - longest) / (w->stages ? w->stages : 1);
}

/* Figures of which more is faster. */
static int is_rate(int i)
{
    return i == NPU_CLOCK_MHZ || i == NPU_VECTOR_THREADS || i == NPU_DMA_GBS || i == NPU_L2_GBS || i == NPU_TCM_MIB;
}

struct npu_time npu_cost_time(const struct npu_profile *profile, const struct npu_work *work)
{
    struct npu_time t;
    for (int worst = 0; worst < 2; worst++) {
        struct choice c = {.stalls = worst};
        double busy[NPU_RESOURCES], us;
        for (int i = 0; i < NPU_FIGURES; i++)
            c.f[i] = is_rate(i) != worst ? profile->figure[i].high : profile->figure[i].low;
        us = time_of(&c, work, busy);
        *(worst ? &t.us.high : &t.us.low) = us;
        t.longest[worst] = NPU_ON_VECTOR;
        for (int i = 0; i < NPU_RESOURCES; i++) {
            *(worst ? &t.busy_us[i].high : &t.busy_us[i].low) = busy[i];
            if (busy[i] > busy[t.longest[worst]]) t.longest[worst] = (enum npu_resource)i;
        }
    }
    return t;
}

struct npu_interval npu_cost_ratio(
    const struct npu_profile *profile, const struct npu_work *slow, const struct npu_work *fast)
{
    struct npu_interval r = {0, 0};
    for (unsigned choice = 0; choice < 2u << NPU_FIGURES; choice++) {
        struct choice c = {.stalls = (int)(choice >> NPU_FIGURES)};
        double busy[NPU_RESOURCES];
        for (int i = 0; i < NPU_FIGURES; i++)
            c.f[i] = choice >> i & 1 ? profile->figure[i].high : profile->figure[i].low;
        double b = time_of(&c, fast, busy), ratio = b > 0 ? time_of(&c, slow, busy) / b : 0;
        if (!choice || ratio < r.low) r.low = ratio;
        if (!choice || ratio > r.high) r.high = ratio;
    }
    return r;
}
