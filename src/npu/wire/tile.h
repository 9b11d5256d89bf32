/* SPDX-License-Identifier: MIT
 *
 * Tile operations that a program under QEMU asks its host for: words of the mailbox from NPU_BOX_TILE on.
 *
 *     [0] lists asked  [1] lists answered  [2] operations of the list  [3] the program sleeps on [1]: wake it
 *     [4] the host sleeps on [0]: wake it
 *     from NPU_TILE_FIRST on, per operation: code, two window offsets (a store: one), pairs of tiles
 */
#ifndef LUTRA_NPU_WIRE_TILE_H
#define LUTRA_NPU_WIRE_TILE_H

enum {
    NPU_BOX_TILE = 64,
    NPU_TILE_FIRST = 8,
    NPU_TILE_LIST = 64, /* operations in a list */
    NPU_TILE_CLEAR = 0,
    NPU_TILE_MAC,
    NPU_TILE_STORE,
};

#endif
