/* SPDX-License-Identifier: MIT */
#include "sim/counts.h"

struct modelled model_work(const struct soc_profile *profile, const struct npu_work *work)
{
    static const char *const names[NPU_RESOURCES] = {"vector", "gather", "dma", "l2", "tiles"};
    struct npu_time t = npu_cost_time(profile, work);
    struct npu_interval mj = npu_cost_energy(profile, work);
    return (struct modelled){t.us.low, t.us.high, mj.low, mj.high, names[t.longest[0]], names[t.longest[1]]};
}

struct modelled model_messages(const struct soc_profile *profile, double n)
{
    struct npu_interval us = npu_cost_message_us(profile, n), mj = npu_cost_message_mj(profile, n);
    return (struct modelled){us.low, us.high, mj.low, mj.high, "host", "host"};
}
