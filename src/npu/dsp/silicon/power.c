/* SPDX-License-Identifier: MIT
 *
 * Votes for power and clocks.  The tile unit has a clock of its own from v75 on, lowest unless voted for; before, the
 * request for it is refused and power alone is asked for.
 */
#if defined(__hexagon__)

#include "npu/dsp/silicon/silicon.h"

static int ask(void *client, struct hap_power r)
{
    return HAP_power_set(client, &r);
}

static struct hap_power clocks(const struct npu_power *p)
{
    struct hap_power r = {.kind = HAP_POWER_CLOCKS};
    struct hap_corners c = {
        .target = (uint8_t)p->most_corner, .least = (uint8_t)p->least_corner, .most = (uint8_t)p->most_corner};
    r.as.clocks.set_policy = r.as.clocks.policy_on = 1;
    r.as.clocks.policy = p->steady ? HAP_CLOCKS_PERFORMANCE : HAP_CLOCKS_UP_DOWN;
    r.as.clocks.set_latency = 1, r.as.clocks.latency_us = p->latency_us;
    r.as.clocks.set_core = 1, r.as.clocks.core = c;
    r.as.clocks.set_bus = 1, r.as.clocks.bus = c;
    r.as.clocks.set_no_sleep = 1, r.as.clocks.no_sleep = p->steady != 0;
    return r;
}

static int tiles(void *client)
{
    struct hap_power r = {.kind = HAP_POWER_TILES_CLOCK};
    r.as.tiles.set_power = r.as.tiles.up = r.as.tiles.set_clock = 1;
    r.as.tiles.target = r.as.tiles.least = r.as.tiles.most = HAP_TILES_CORNER_MOST;
    if (!HAP_power_set(client, &r)) return 0;
    return ask(client, (struct hap_power){.kind = HAP_POWER_TILES, .as.up = 1});
}

int npu_power_up(void *client, const struct npu_power *power)
{
    int error = ask(client, (struct hap_power){.kind = HAP_POWER_CLASS, .as.client_class = HAP_CLASS_COMPUTE});
    if (!error) error = ask(client, clocks(power));
    if (!error) error = ask(client, (struct hap_power){.kind = HAP_POWER_VECTORS, .as.up = 1});
    if (!error && power->tiles) error = tiles(client);
    return error ? npu_serve_error(NPU_SERVE_POWER, (uint32_t)error) : 0;
}

void npu_power_down(void *client)
{
    if (HAP_power_destroy_client) {
        HAP_power_destroy_client(client);
        return;
    }
    struct hap_power nothing = {.kind = HAP_POWER_CLOCKS}; /* corners 0: no vote */
    nothing.as.clocks.set_core = nothing.as.clocks.set_bus = nothing.as.clocks.set_no_sleep = 1;
    ask(client, (struct hap_power){.kind = HAP_POWER_TILES});
    ask(client, (struct hap_power){.kind = HAP_POWER_VECTORS});
    ask(client, nothing);
}

#endif
