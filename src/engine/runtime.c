/* SPDX-License-Identifier: MIT
 *
 * The runtime: one thread pool, one log and the devices, shared by all models loaded into it.
 */
#include "engine/runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"

const char *lutra_version(void)
{
    return LUTRA_VERSION;
}

void lutra_free(void *text)
{
    free(text);
}

_Static_assert((int)TURN_DEVICES >= (int)PLAN_DEVICES, "every device has a bit in a turn's set");

/* ---- devices ---- */

struct device *runtime_first(const lutra_runtime *rt)
{
    for (int i = 0; i < rt->devices.n_device; i++)
        if (!atomic_load(&rt->lost[i])) return rt->devices.device[i];
    return rt->devices.cpu;
}

/* ---- a runtime ---- */

int lutra_runtime_open(lutra_runtime **out, const struct lutra_runtime_settings *settings, struct lutra_error *err)
{
    struct lutra_runtime_settings set;
    lutra_runtime_settings_init(&set, sizeof set);
    *out = NULL;
    TRY(settings_copy(&set, sizeof set, settings, "runtime", err));
    if (set.n_threads < 0 || set.n_threads > 1024)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "n_threads is %d, outside 0..1024", set.n_threads);
    lutra_runtime *rt = calloc(1, sizeof *rt);
    if (!rt) return lutra_fail(err, LUTRA_E_NO_MEMORY, "runtime: out of memory");
    log_init(&rt->log, set.log, set.log_user, LUTRA_LOG_DEBUG);
    rt->clock = clock_real();
    rt->progressive = set.progressive;
    turn_init(&rt->turn);
    bell_init(&rt->inbox);
    int rc = set.sync ? waits_mode_named(set.sync, &rt->sync, err) : 0;
    if (rc == 0) rc = device_set_open(&rt->devices, &set, &rt->clock, err);
    if (rc < 0) {
        lutra_runtime_close(&rt);
        return rc;
    }
    *out = rt;
    return 0;
}

int lutra_runtime_close(lutra_runtime **runtime)
{
    lutra_runtime *rt = runtime ? *runtime : NULL;
    if (!rt) return 0;
    if (atomic_load(&rt->n_model) > 0) return LUTRA_E_BUSY;
    device_set_close(&rt->devices);
    bell_fini(&rt->inbox);
    turn_fini(&rt->turn);
    log_fini(&rt->log);
    free(rt);
    *runtime = NULL;
    return 0;
}

const char *lutra_runtime_device_text(const lutra_runtime *runtime)
{
    return runtime ? runtime->devices.text : "";
}

int lutra_runtime_n_threads(const lutra_runtime *runtime)
{
    return runtime ? pool_size(runtime->devices.pool) : 0;
}

void lutra_runtime_peaks_get(lutra_runtime *rt, struct lutra_peaks *peaks, size_t size)
{
    struct device_peaks p = {0};
    if (rt) {
        turn_take(&rt->turn, TURN_ALL);
        struct device *d = runtime_first(rt);
        if (d->extras && d->extras->peaks) d->extras->peaks(d, &p);
        turn_give(&rt->turn, TURN_ALL);
    }
    struct lutra_peaks all = {sizeof all, p.int8_name, p.int8_gmac, p.f32_gmac, p.stream_gbs, p.bf16_name, p.bf16_gmac};
    settings_fill(peaks, size, &all);
}
