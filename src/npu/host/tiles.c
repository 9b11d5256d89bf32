/* SPDX-License-Identifier: MIT */
#include "npu/host/tiles.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"
#include "npu/wire/tile.h"

enum { TILE = 2048, PAIRS = 32 };

/* Are n tiles at this offset tiles of TCM? */
static int in_tcm(const struct npu_machine *m, uint32_t at, uint32_t n)
{
    uint32_t from = at - m->tcm_start;
    return n <= PAIRS && from % TILE == 0 && from <= m->tcm_bytes && n * TILE <= m->tcm_bytes - from;
}

static int play(struct npu_tile_acc *acc, const struct npu_machine *m, uint8_t *base, const uint32_t *op)
{
    uint32_t code = op[0], a = op[1], b = op[2], n = op[3];
    if (code == NPU_TILE_CLEAR)
        npu_tile_clear(acc);
    else if (code == NPU_TILE_MAC && n && in_tcm(m, a, n) && in_tcm(m, b, n))
        npu_tile_mac(acc, base + a, base + b, n);
    else if (code == NPU_TILE_STORE && in_tcm(m, a, 1))
        npu_tile_store(acc, base + a);
    else
        return -1;
    return 0;
}

static uint32_t *box_of(uint8_t *base)
{
    return (uint32_t *)(void *)base + NPU_BOX_TILE;
}

int npu_tiles_play(struct npu_tile_acc *acc, const struct npu_machine *machine, uint8_t *base)
{
    uint32_t *box = box_of(base), asked = __atomic_load_n(&box[0], __ATOMIC_ACQUIRE);
    uint32_t n = box[2];
    if (asked == box[1]) return 0;
    if (n > NPU_TILE_LIST) return -1;
    for (uint32_t i = 0; i < n; i++)
        if (play(acc, machine, base, box + NPU_TILE_FIRST + 4 * i)) return -1;
    __atomic_store_n(&box[1], asked, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&box[3], __ATOMIC_SEQ_CST)) syscall(SYS_futex, &box[1], FUTEX_WAKE, 1, NULL, NULL, 0);
    return 1;
}

/* ---- a thread for it ---- */

static void *play_on(void *user)
{
    struct npu_player *p = user;
    uint32_t *box = box_of(p->base);
    for (;;) {
        uint32_t asked = __atomic_load_n(&box[0], __ATOMIC_SEQ_CST);
        if (atomic_load(&p->stop)) return NULL;
        /* A list that cannot be played is left for the waiting thread, which reports it. */
        if (npu_player_play(p) <= 0) syscall(SYS_futex, &box[0], FUTEX_WAIT, asked, NULL, NULL, 0);
    }
}

int npu_player_start(struct npu_player *p, const struct npu_machine *machine, uint8_t *base, struct lutra_error *err)
{
    p->machine = machine, p->base = base;
    pthread_mutex_init(&p->lock, NULL);
    p->started = thread_start(&p->thread, play_on, p) == 0;
    if (!p->started) {
        pthread_mutex_destroy(&p->lock);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu-qemu: no thread");
    }
    npu_player_leave(p);
    return 0;
}

void npu_player_stop(struct npu_player *p)
{
    if (!p->started) return;
    uint32_t *box = box_of(p->base);
    atomic_store(&p->stop, true);
    __atomic_add_fetch(&box[0], 1, __ATOMIC_SEQ_CST); /* nobody else asks any more */
    syscall(SYS_futex, &box[0], FUTEX_WAKE, 1, NULL, NULL, 0);
    pthread_join(p->thread, NULL);
    pthread_mutex_destroy(&p->lock);
    p->started = false;
}

void npu_player_take(struct npu_player *p)
{
    __atomic_store_n(&box_of(p->base)[4], 0, __ATOMIC_SEQ_CST);
}

void npu_player_leave(struct npu_player *p)
{
    uint32_t *box = box_of(p->base);
    __atomic_store_n(&box[4], 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&box[0], __ATOMIC_SEQ_CST) != __atomic_load_n(&box[1], __ATOMIC_SEQ_CST)) /* asked meanwhile */
        syscall(SYS_futex, &box[0], FUTEX_WAKE, 1, NULL, NULL, 0);
}

int npu_player_play(struct npu_player *p)
{
    pthread_mutex_lock(&p->lock);
    int moved = npu_tiles_play(&p->acc, p->machine, p->base);
    pthread_mutex_unlock(&p->lock);
    return moved;
}
