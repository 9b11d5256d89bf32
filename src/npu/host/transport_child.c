/* SPDX-License-Identifier: MIT
 *
 * qemu-hexagon: a real Hexagon program in its own 32-bit address space, in a child process that maps the same memory.
 * Both see it coherently, so publish and acquire have nothing to do.  The tile unit, which QEMU lacks, is played by the
 * host (host/tiles.h).
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "npu/host/child.h"
#include "npu/host/session.h"
#include "npu/host/tiles.h"

enum { START_US = 10 * 1000 * 1000, LOOK_EVERY = 256 };

struct child {
    struct npu_session session; /* first */
    pid_t pid;
    uint32_t polls;
    unsigned long ticks; /* that it has run */
    struct npu_player player;
};

static void child_close(struct npu_transport *self)
{
    struct child *c = (struct child *)self;
    npu_child_kill(&c->pid);
    npu_player_stop(&c->player);
    if (self->base) munmap(self->base, self->end);
    free(c);
}

static int child_poll(struct npu_session *session, struct lutra_error *err)
{
    struct child *c = (struct child *)session;
    int moved = npu_player_play(&c->player);
    if (moved < 0) return lutra_fail(err, LUTRA_E_DEVICE_LOST, "npu-qemu: a tile operation outside of TCM");
    if (!moved && c->polls++ % LOOK_EVERY == 0) TRY(npu_child_alive(&c->pid, err));
    return moved;
}

static bool child_lives(struct npu_session *session)
{
    struct child *c = (struct child *)session;
    return c->pid && npu_child_runs(c->pid, &c->ticks);
}

static void child_end(struct npu_session *session)
{
    npu_child_kill(&((struct child *)session)->pid);
}

static int child_wait(struct npu_transport *self, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err)
{
    struct child *c = (struct child *)self;
    npu_player_take(&c->player);
    int rc = npu_session_wait(self, ticket, deadline_us, err);
    npu_player_leave(&c->player);
    return rc;
}

static const struct npu_transport_ops child_ops = {
    .close = child_close, .submit = npu_session_submit, .wait = child_wait};

/* The window as a file without a name: it is gone when both processes are. */
static int map_window(struct child *c, int *fd, struct lutra_error *err)
{
    struct npu_transport *npu = &c->session.npu;
    *fd = memfd_create("lutra-npu", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, npu->end))
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu-qemu: no shared memory of %u bytes", npu->end);
    void *base = mmap(NULL, npu->end, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (base == MAP_FAILED) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu-qemu: cannot map %u bytes", npu->end);
    npu->base = base;
    c->session.ring.view.ring = base;
    return 0;
}

static int begin(struct child *c, const struct npu_transport_settings *settings, int *fd, struct lutra_error *err)
{
    char qemu[NPU_PATH_BYTES], program[NPU_PATH_BYTES];
    struct npu_transport *npu = &c->session.npu;
    TRY(npu_session_plan(&c->session, settings, true, err));
    TRY(npu_find_program(settings->program, program, err));
    TRY(npu_find_qemu(settings->qemu, qemu, err));
    TRY(map_window(c, fd, err));
    npu_ring_begin(&c->session.ring, npu->end, npu->machine.tcm_bytes, npu->machine.n_threads);
    TRY(npu_player_start(&c->player, &npu->machine, npu->base, err));
    TRY(npu_child_start(&c->pid, qemu, program, *fd, err));
    return npu_session_meet(&c->session, clock_now_us(clock_real()) + START_US, err);
}

int npu_child_open(struct npu_transport **out, const struct npu_transport_settings *settings, struct lutra_error *err)
{
    int fd = -1;
    *out = NULL;
    struct child *c = calloc(1, sizeof *c);
    if (!c) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu-qemu: out of memory");
    c->session.npu.ops = &child_ops, c->session.npu.name = "npu-qemu";
    c->session.poll = child_poll, c->session.lives = child_lives, c->session.end = child_end;
    int rc = begin(c, settings, &fd, err);
    if (fd >= 0) close(fd);
    if (rc < 0)
        child_close(&c->session.npu);
    else
        *out = &c->session.npu;
    return rc;
}
