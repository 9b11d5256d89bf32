/* SPDX-License-Identifier: MIT
 *
 * In process: the emulator behind the same ring and server as everywhere, run by the thread that waits.
 *
 * The host has a window of its own.  Only publish brings its bytes to the emulator's memory and only acquire brings
 * them back, so that a forgotten one is seen even where a coherent machine would forgive it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "npu/dsp/kernels.h"
#include "npu/dsp/server.h"
#include "npu/host/session.h"
#include "npu/sim/sim.h"

struct local {
    struct npu_session session; /* first */
    struct npu_sim *sim;
    struct npu_server server;
    struct npu_memory memory;
};

static void local_close(struct npu_transport *self)
{
    struct local *l = (struct local *)self;
    if (self->base) munmap(self->base, self->end);
    npu_sim_close(&l->sim);
    free(l);
}

struct npu_sim *npu_local_sim(struct npu_transport *transport)
{
    return ((struct local *)transport)->sim;
}

/* Rules of the machine that kernels, or the host, broke: the first is kept as the reason. */
static int faults(struct local *l)
{
    size_t n;
    const struct npu_sim_fault *f = npu_sim_faults(l->sim, &n);
    if (!n) return 0;
    if (!l->session.why.code)
        lutra_fail(&l->session.why, LUTRA_E_INTERNAL, "npu-sim: %s (%s) in %s line %d, offset %#x",
            npu_sim_fault_name(f->kind), npu_sim_fault_text(f->kind), f->kernel, f->line, f->offset);
    npu_sim_clear_faults(l->sim);
    return 1;
}

static uint32_t execute(void *user, const struct npu_op *op)
{
    struct local *l = user;
    struct isa *isa = npu_sim_isa(l->sim);
    uint32_t status = npu_op_check(isa, &l->memory, op);
    if (status == NPU_OK) status = npu_execute(isa, &l->session.npu.machine, op);
    npu_sim_end(l->sim, npu_tcm_keeps(&l->session.npu.machine));
    return faults(l) ? NPU_STOPPED : status;
}

static int local_poll(struct npu_session *session, struct lutra_error *err)
{
    struct local *l = (struct local *)session;
    int moved = npu_server_step(&l->server);
    if (moved < 0) return lutra_fail(err, LUTRA_E_DEVICE_LOST, "npu-sim: the ring is broken");
    return moved;
}

static int local_wait(struct npu_transport *self, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err)
{
    struct local *l = (struct local *)self;
    if (faults(l)) l->session.failed = LUTRA_E_INTERNAL; /* by an acquire */
    return npu_session_wait(self, ticket, deadline_us, err);
}

static void local_publish(struct npu_transport *self, uint32_t offset, uint32_t bytes)
{
    struct local *l = (struct local *)self;
    memcpy(npu_sim_host(l->sim, offset), self->base + offset, bytes);
    npu_sim_host_wrote(l->sim, offset, bytes);
}

static void local_acquire(struct npu_transport *self, uint32_t offset, uint32_t bytes)
{
    struct local *l = (struct local *)self;
    npu_sim_host_reads(l->sim, offset, bytes);
    memcpy(self->base + offset, npu_sim_host(l->sim, offset), bytes);
}

static void local_own(struct npu_transport *self, uint32_t offset, uint32_t bytes, bool owned)
{
    struct local *l = (struct local *)self;
    npu_sim_own(l->sim, offset, bytes, owned);
}

static const struct npu_transport_ops local_ops = {
    local_close, npu_session_submit, local_wait, local_publish, local_acquire, local_own};

static int begin(struct local *l, const struct npu_transport_settings *settings, struct lutra_error *err)
{
    struct npu_transport *npu = &l->session.npu;
    TRY(npu_session_plan(&l->session, settings, true, err));
    struct npu_sim_settings sim = {
        .tcm_bytes = npu->machine.tcm_bytes, .ddr_bytes = npu->end - npu->first, .seed = settings->seed};
    TRY(npu_sim_open(&l->sim, &sim, err));
    void *base = mmap(NULL, npu->end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu-sim: out of memory");
    npu->base = base;
    l->memory = (struct npu_memory){npu->first, npu->end};
    l->session.poll = local_poll;
    l->session.ring.view.ring = npu_sim_host(l->sim, 0);
    l->server = (struct npu_server){.view = l->session.ring.view, .execute = execute, .user = l};
    npu_ring_begin(&l->session.ring, npu->end, npu->machine.tcm_bytes, npu->machine.n_threads);
    npu_server_start(&l->server, &npu->machine);
    return 0;
}

int npu_local_open(struct npu_transport **out, const struct npu_transport_settings *settings, struct lutra_error *err)
{
    *out = NULL;
    struct local *l = calloc(1, sizeof *l);
    if (!l) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu-sim: out of memory");
    l->session.npu.ops = &local_ops, l->session.npu.name = "npu-sim";
    int rc = begin(l, settings, err);
    if (rc < 0)
        local_close(&l->session.npu);
    else
        *out = &l->session.npu;
    return rc;
}
