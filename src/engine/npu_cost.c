/* SPDX-License-Identifier: MIT
 *
 * include/lutra_npu.h over npu/host: profiles and modelled times.
 */
#include "lutra_npu.h"

#include <stdlib.h>

#include "base/status.h"
#include "npu/host/cost.h"

struct lutra_npu_profile {
    struct npu_profile p;
};

static int allocate(lutra_npu_profile **out, struct lutra_error *err)
{
    *out = malloc(sizeof **out);
    return *out ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a profile");
}

static int keep(lutra_npu_profile **out, int rc)
{
    if (rc < 0) lutra_npu_profile_close(out);
    return rc;
}

int lutra_npu_profile_open(lutra_npu_profile **out, const char *path, struct lutra_error *err)
{
    TRY(allocate(out, err));
    return keep(out, npu_profile_load(&(*out)->p, path, err));
}

int lutra_npu_profile_parse(
    lutra_npu_profile **out, const char *text, size_t n_bytes, const char *name, struct lutra_error *err)
{
    TRY(allocate(out, err));
    return keep(out, npu_profile_parse(&(*out)->p, text, n_bytes, name, err));
}

void lutra_npu_profile_close(lutra_npu_profile **profile)
{
    free(*profile);
    *profile = NULL;
}

const char *lutra_npu_profile_name(const lutra_npu_profile *profile)
{
    return profile->p.name;
}

const char *lutra_npu_profile_schedule(const lutra_npu_profile *profile)
{
    return profile->p.schedule;
}

static struct npu_work work_of(const struct lutra_npu_work *w)
{
    return (struct npu_work){.packets = w->packets,
        .gathers = w->gathers,
        .scatters = w->scatters,
        .tile_pairs = w->tile_pairs,
        .dma_bytes = w->dma_bytes,
        .l2_bytes = w->l2_bytes,
        .threads = w->threads > 0 ? (uint32_t)w->threads : 0,
        .stages = w->stages > 0 ? (uint32_t)w->stages : 0};
}

struct lutra_npu_time lutra_npu_model(const lutra_npu_profile *profile, const struct lutra_npu_work *work)
{
    static const char *const names[NPU_RESOURCES] = {"vector", "gather", "dma", "l2", "tiles"};
    struct npu_work w = work_of(work);
    struct npu_time t = npu_cost_time(&profile->p, &w);
    struct npu_interval mj = npu_cost_energy(&profile->p, &w);
    return (struct lutra_npu_time){t.us.low, t.us.high, mj.low, mj.high, names[t.longest[0]], names[t.longest[1]]};
}

struct lutra_npu_time lutra_npu_messages(const lutra_npu_profile *profile, double n)
{
    struct npu_interval us = npu_cost_message_us(&profile->p, n), mj = npu_cost_message_mj(&profile->p, n);
    return (struct lutra_npu_time){us.low, us.high, mj.low, mj.high, "host", "host"};
}

void lutra_npu_ratio(const lutra_npu_profile *profile, const struct lutra_npu_work *slow,
    const struct lutra_npu_work *fast, double *low, double *high)
{
    struct npu_work s = work_of(slow), f = work_of(fast);
    struct npu_interval r = npu_cost_ratio(&profile->p, &s, &f);
    *low = r.low, *high = r.high;
}
