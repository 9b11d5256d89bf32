/* SPDX-License-Identifier: MIT
 *
 * qemu-hexagon: a real Hexagon program in its own 32-bit address space, in a child process that maps the same memory.
 * Both see it coherently, so publish and acquire have nothing to do.  The tile unit, which QEMU lacks, is played by the
 * host while it waits (dsp/isa_qemu_impl.h).
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "npu/host/child.h"
#include "npu/host/session.h"
#include "npu/sim/tile.h"

enum { START_US = 10 * 1000 * 1000, LOOK_EVERY = 256, TILE = 2048, PAIRS = 32 };

struct child {
    struct npu_session session; /* first */
    pid_t pid;
    uint32_t polls;
    struct npu_tile_acc acc;
};

static void child_close(struct npu_transport *self)
{
    struct child *c = (struct child *)self;
    npu_child_kill(&c->pid);
    if (self->base) munmap(self->base, self->end);
    free(c);
}

/* n tiles of TCM. */
static bool tiles(const struct child *c, uint32_t at, uint32_t n)
{
    const struct npu_machine *m = &c->session.npu.machine;
    uint32_t from = at - m->tcm_start;
    return n <= PAIRS && from % TILE == 0 && from <= m->tcm_bytes && n * TILE <= m->tcm_bytes - from;
}

/* The tile operation that the program waits for: words asked, answered, operation, addresses, pairs. */
static int play_tile(struct child *c, struct lutra_error *err)
{
    uint32_t *word = c->session.ring.view.ring->tile, asked = __atomic_load_n(&word[0], __ATOMIC_ACQUIRE);
    uint8_t *base = c->session.npu.base;
    uint32_t a = word[3], b = word[4], n = word[5];
    if (asked == word[1]) return 0;
    if (word[2] == 0)
        npu_tile_clear(&c->acc);
    else if (word[2] == 1 && n && tiles(c, a, n) && tiles(c, b, n))
        npu_tile_mac(&c->acc, base + a, base + b, n);
    else if (word[2] == 2 && tiles(c, a, 1))
        npu_tile_store(&c->acc, base + a);
    else
        return lutra_fail(
            err, LUTRA_E_DEVICE_LOST, "npu-qemu: tile operation %u on %#x, %#x, %u: not in TCM", word[2], a, b, n);
    __atomic_store_n(&word[1], asked, __ATOMIC_RELEASE);
    return 1;
}

static int child_poll(struct npu_session *session, struct lutra_error *err)
{
    struct child *c = (struct child *)session;
    int moved = play_tile(c, err);
    if (!moved && c->polls++ % LOOK_EVERY == 0) TRY(npu_child_alive(&c->pid, err));
    return moved;
}

static const struct npu_transport_ops child_ops = {
    .close = child_close, .submit = npu_session_submit, .wait = npu_session_wait};

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
    TRY(npu_find_program(program, err));
    TRY(npu_find_qemu(qemu, err));
    TRY(map_window(c, fd, err));
    npu_ring_begin(&c->session.ring, npu->end, npu->machine.tcm_bytes, npu->machine.n_threads);
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
    c->session.poll = child_poll;
    int rc = begin(c, settings, &fd, err);
    if (fd >= 0) close(fd);
    if (rc < 0)
        child_close(&c->session.npu);
    else
        *out = &c->session.npu;
    return rc;
}
