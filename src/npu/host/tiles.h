/* SPDX-License-Identifier: MIT
 *
 * The tile unit that QEMU lacks, played by the host over the shared window (wire/tile.h).
 */
#ifndef LUTRA_NPU_HOST_TILES_H
#define LUTRA_NPU_HOST_TILES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "npu/sim/tile.h"
#include "npu/wire/message.h"

/* Does what the program whose mailbox is at offset 0 of `base` asks for.  1: did; 0: nothing was asked; -1: it asked
 * for tiles outside of TCM. */
int npu_tiles_play(struct npu_tile_acc *acc, const struct npu_machine *machine, uint8_t *base);

/* The waiting thread plays it; otherwise a thread of its own does, so that the program goes on while the host
 * computes.  That thread sleeps unless it is asked. */
struct npu_player {
    const struct npu_machine *machine;
    uint8_t *base;
    pthread_mutex_t lock; /* of acc, and of answering */
    struct npu_tile_acc acc;
    pthread_t thread;
    bool started;
    atomic_bool stop;
};

/* machine and base are borrowed.  LUTRA_E_NO_MEMORY: there is no thread. */
int npu_player_start(struct npu_player *p, const struct npu_machine *machine, uint8_t *base, struct lutra_error *err);
void npu_player_stop(struct npu_player *p); /* the program has ended; p may be zeros */

/* Between these two the caller plays, by npu_player_play, and the thread is not woken. */
void npu_player_take(struct npu_player *p);
void npu_player_leave(struct npu_player *p);
int npu_player_play(struct npu_player *p); /* as npu_tiles_play */

#endif
