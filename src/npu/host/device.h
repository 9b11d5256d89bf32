/* SPDX-License-Identifier: MIT
 *
 * An NPU as a device (ops/device.h), over any transport.
 *
 *     struct device *npu;
 *     TRY(npu_device_open(&npu, npu_local_open, &(struct npu_transport_settings){0}, pool, err));
 *
 * Weights, values and the cache live in the windows of as many NPU sessions as they need [TTS 8], the first opened
 * here, others when a weight or a cache finds no room.  A segment becomes one run of messages per change of session:
 * products go to tiles at every row count; attention stacks the heads of a group and rows that share blocks.  What the
 * host must see comes back when the segment is waited for: results, and the cache's new rows.
 *
 * One segment at a time, from one thread.  After LUTRA_E_DEVICE_LOST the host's side of every buffer stays readable.
 */
#ifndef LUTRA_NPU_HOST_DEVICE_H
#define LUTRA_NPU_HOST_DEVICE_H

#include "npu/host/transport.h"
#include "ops/device.h"

struct pool;

/* settings are those of each session.  pool, borrowed, packs weights.  Errors are those of opening the transport. */
int npu_device_open(struct device **out, npu_transport_open *open, const struct npu_transport_settings *settings,
    struct pool *pool, struct lutra_error *err);

#endif
