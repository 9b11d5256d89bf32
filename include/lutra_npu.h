/* SPDX-License-Identifier: MIT
 *
 * Modelled time of counted NPU work on a SoC.  Nothing here runs on an NPU, and no result may be called measured.
 *
 *     lutra_npu_profile *p;
 *     if (lutra_npu_profile_open(&p, "profiles/snapdragon-8gen3.json", &err) < 0) ...
 *     struct lutra_npu_work w = {.packets = 388972, .dma_bytes = 7741440, .tile_pairs = 13440, .stages = 56};
 *     struct lutra_npu_time t = lutra_npu_model(p, &w);        between t.low_us and t.high_us
 *     lutra_npu_profile_close(&p);
 *
 * A profile is a JSON file of intervals with sources (profiles/README.md); docs/NPU.md says how a time follows from it.
 * Thread-safe on different profiles; a profile is constant once open.
 */
#ifndef LUTRA_NPU_H
#define LUTRA_NPU_H

#include <stddef.h>

#include "lutra/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lutra_npu_profile lutra_npu_profile;

/* Work of one operation; packets are of all threads together. */
struct lutra_npu_work {
    double packets, gathers, scatters, tile_pairs;
    double dma_bytes, l2_bytes; /* between memory and TCM, and between memory and vector registers */
    int threads;                /* that can share the packets; 0: any number */
    int stages;                 /* chunks of a pipeline DMA | vector | tiles; 0 or 1: one after the other */
};

struct lutra_npu_time {
    double low_us, high_us;
    double low_mj, high_mj;                 /* energy of the whole device in that time, 10^-3 J */
    const char *longest_low, *longest_high; /* the busiest resource: "vector" "gather" "dma" "l2" "tiles" */
};

/* LUTRA_E_IO, LUTRA_E_FORMAT (the text names the file and the figure), LUTRA_E_NO_MEMORY; *out is NULL then. */
int lutra_npu_profile_open(lutra_npu_profile **out, const char *path, struct lutra_error *err);
int lutra_npu_profile_parse(
    lutra_npu_profile **out, const char *text, size_t n_bytes, const char *name, struct lutra_error *err);
void lutra_npu_profile_close(lutra_npu_profile **profile); /* sets *profile to NULL */

const char *lutra_npu_profile_name(const lutra_npu_profile *profile);     /* "snapdragon-8gen3" */
const char *lutra_npu_profile_schedule(const lutra_npu_profile *profile); /* which NPU the counted packets are of */

struct lutra_npu_time lutra_npu_model(const lutra_npu_profile *profile, const struct lutra_npu_work *work);

/* n messages from the host and back, while the NPU does nothing; longest: "host". */
struct lutra_npu_time lutra_npu_messages(const lutra_npu_profile *profile, double n);

/* Time of `slow` over that of `fast` on the same SoC: extremes over everything the profile leaves open. */
void lutra_npu_ratio(const lutra_npu_profile *profile, const struct lutra_npu_work *slow,
    const struct lutra_npu_work *fast, double *low, double *high);

#ifdef __cplusplus
}
#endif

#endif
