/* SPDX-License-Identifier: MIT
 *
 * Modelled time of counted work on a SoC: an interval, since a profile's figures are intervals.
 *
 *     struct npu_work w = {.packets = 388972, .dma_bytes = 7741440, .tile_pairs = 13440, .stages = 56};
 *     struct npu_time t = npu_cost_time(&profile, &w);       t.us.low .. t.us.high, never called measured
 *
 * Each resource is busy for its work over its rate: vector threads, the gather unit, DMA, the cache path, the tile
 * unit. Packets are in equal parts, of which the busiest thread has parts / threads, rounded up.  In a pipeline of
 * `stages` chunks DMA | vector | tiles [TMAN 4.2] the longest hides the others but for one chunk: longest + (sum -
 * longest) / stages; then the threads meet `meets` times.  Starting transfers is the vector threads' work, calls of the
 * tile unit are the unit's. Gathers and scatters run beside the packets that issue them at best and stall them at
 * worst: both ends are in the interval.
 */
#ifndef LUTRA_SIM_COST_H
#define LUTRA_SIM_COST_H

#include <stdint.h>

#include "phone/profile.h"

struct npu_work {
    double packets; /* of all threads together */
    double alone;   /* further packets, which overlap with nothing */
    double gathers, scatters;
    double tile_pairs;
    double dma_bytes; /* memory to TCM and back */
    double l2_bytes;  /* loads and stores of memory by vector instructions */
    uint32_t parts;   /* that threads share; 0: any number */
    uint32_t alone_parts;
    uint32_t stages;            /* chunks of a pipeline; 0 and 1: one thing after the other */
    double meets;               /* of all threads */
    double hands;               /* phases that vector threads and the tile unit hand to each other */
    double lead;                /* phases that vector threads may be before the tile unit */
    double starts, part_starts; /* transfers by DMA that each thread starts, and further ones for each part */
    double tile_calls;          /* of the tile unit: clear, multiply, store */
};

/* Of all packets, what the busiest of so many threads has. */
double npu_cost_share(uint32_t parts, double threads);

enum npu_resource { NPU_ON_VECTOR, NPU_ON_GATHER, NPU_ON_DMA, NPU_ON_L2, NPU_ON_TILES, NPU_RESOURCES };

struct npu_time {
    struct npu_interval us;
    struct npu_interval busy_us[NPU_RESOURCES];
    enum npu_resource longest[2]; /* at the low and at the high end */
};

struct npu_time npu_cost_time(const struct soc_profile *profile, const struct npu_work *work);

/* Energy, as modelled as the time: mJ.  Each busy resource takes its power for its own time (vector threads together as
 * long as one would need), memory its energy per byte, and the rest of the device its power for the whole time. */
struct npu_interval npu_cost_energy(const struct soc_profile *profile, const struct npu_work *work);

/* The same of n messages, during which one core waits and the NPU does nothing: time in us, energy in mJ. */
struct npu_interval npu_cost_message_us(const struct soc_profile *profile, double n);
struct npu_interval npu_cost_message_mj(const struct soc_profile *profile, double n);

/* Ratio of two modelled times under the same unknowns, for a comparison on one SoC: each figure at its low or at its
 * high end in both, the extremes over all such choices. */
struct npu_interval npu_cost_ratio(
    const struct soc_profile *profile, const struct npu_work *slow, const struct npu_work *fast);

#endif
