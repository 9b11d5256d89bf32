/* SPDX-License-Identifier: MIT
 *
 * The tile unit that QEMU lacks, played by the host over the shared window (wire/tile.h).
 */
#ifndef LUTRA_NPU_HOST_TILES_H
#define LUTRA_NPU_HOST_TILES_H

#include <stdint.h>

#include "npu/sim/tile.h"
#include "npu/wire/message.h"

/* Does what the program whose mailbox is at offset 0 of `base` asks for.  1: did; 0: nothing was asked; -1: it asked
 * for tiles outside of TCM. */
int npu_tiles_play(struct npu_tile_acc *acc, const struct npu_machine *machine, uint8_t *base);

#endif
