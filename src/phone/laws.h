/* SPDX-License-Identifier: MIT
 *
 * How long a product takes a phone's GPU, its CPU, and its NPU by the graphs of its vendor [HETERO 3, Table 3], at
 * either end of what the SoC's profile leaves open, and in the middle.
 *
 *     product of r rows on the GPU    a line through one row, which takes as long as its weights through memory, and
 *                                     128 and 256 rows, and beyond
 *     on the NPU                      rows rounded up to 32, 2 k n rows / qnn_tflops, as many times as k is more than
 *                                     what goes through the arrays: the larger of n and rows; few rows no less than
 *                                     qnn_row times what the GPU takes for one
 *     on the CPU                      rows in proportion to 128, and no less than its weights through memory
 *     on both                         each its part, and no less than all of it through both's memory.  A part of the
 *                                     outputs takes its part of the whole's time: were the NPU's slower for having
 *                                     fewer outputs than inputs, the best cut of 4096 x 14336 at 256 rows would leave
 *                                     the GPU 25 % and not the published 40, and one row would not be cut at all
 *
 * Pure functions; any thread.
 */
#ifndef LUTRA_PHONE_LAWS_H
#define LUTRA_PHONE_LAWS_H

#include <stdbool.h>

#include "phone/profile.h"

enum sim_device { SIM_GPU, SIM_NPU, SIM_DEVICES, SIM_CPU = SIM_DEVICES, SIM_UNITS };

/* Every profile figure at its better end, in the middle, at its worse end. */
enum sim_end { SIM_BETTER, SIM_MIDDLE, SIM_WORSE, SIM_ENDS };

/* One figure of a profile. */
double sim_figure(const struct soc_profile *profile, enum soc_figure figure, enum sim_end end);

/* us of a product of k inputs and n outputs with weights of so many bits; part of its outputs.  natural_order: the
 * NPU's without order exchange [HETERO 4.1], where the rows go through, however few, and no slower than the GPU. */
double sim_product_us(const struct soc_profile *profile, bool natural_order, enum sim_end end, enum sim_device device,
    int k, int n, double bits, int rows, double part);

#endif
