/* SPDX-License-Identifier: MIT
 *
 * In process: the emulator, one submission at a time.
 *
 * The host has a window of its own.  Only publish brings its bytes to the emulator's memory and only acquire brings
 * them back, so that a forgotten one is seen even where a coherent machine would forgive it.
 */
#include "npu/host/transport.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "npu/dsp/kernels.h"
#include "npu/sim/sim.h"

struct local {
    struct npu_transport npu; /* first */
    struct npu_sim *sim;
    uint64_t submitted;
    int failed; /* status of the submission in flight, LUTRA_E_INTERNAL; sticky until waited for */
    struct lutra_error why;
};

static void local_close(struct npu_transport *self)
{
    struct local *l = (struct local *)self;
    if (self->base) munmap(self->base, self->end);
    npu_sim_close(&l->sim);
    free(l);
}

/* Rules of the machine that kernels, or the host, broke. */
static int faults(struct local *l, struct lutra_error *err)
{
    size_t n;
    const struct npu_sim_fault *f = npu_sim_faults(l->sim, &n);
    if (!n) return 0;
    struct npu_sim_fault first = *f;
    npu_sim_clear_faults(l->sim);
    return lutra_fail(err, LUTRA_E_INTERNAL, "npu-sim: %s (%s) in %s line %d, offset %#x",
        npu_sim_fault_name(first.kind), npu_sim_fault_text(first.kind), first.kernel, first.line, first.offset);
}

static int run(struct local *l, const struct npu_op *op, uint32_t n_op, struct lutra_error *err)
{
    for (uint32_t i = 0; i < n_op; i++) {
        uint32_t status = npu_execute(npu_sim_isa(l->sim), &l->npu.machine, &op[i]);
        npu_sim_end(l->sim, l->npu.machine.tcm_kept);
        if (status != NPU_OK)
            return lutra_fail(err, LUTRA_E_INTERNAL, "npu-sim: operation %u of %u, code %u, refused with status %u", i,
                n_op, op[i].code, status);
        TRY(faults(l, err));
    }
    return 0;
}

static int local_submit(
    struct npu_transport *self, const struct npu_op *op, uint32_t n_op, uint64_t *ticket, struct lutra_error *err)
{
    struct local *l = (struct local *)self;
    (void)err;
    *ticket = ++l->submitted;
    int rc = run(l, op, n_op, l->failed ? NULL : &l->why);
    if (!l->failed) l->failed = rc;
    return 0;
}

static int local_wait(struct npu_transport *self, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err)
{
    struct local *l = (struct local *)self;
    (void)ticket, (void)deadline_us;
    if (!l->failed) return faults(l, err);
    l->failed = 0;
    return lutra_fail(err, LUTRA_E_INTERNAL, "%s", l->why.what);
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
    local_close, local_submit, local_wait, local_publish, local_acquire, local_own};

int npu_local_open(struct npu_transport **out, const struct npu_transport_settings *settings, struct lutra_error *err)
{
    uint32_t tcm = settings->tcm_bytes ? settings->tcm_bytes : 8u << 20;
    uint64_t memory = settings->memory_bytes ? settings->memory_bytes : 256u << 20;
    struct npu_sim_settings sim = {.tcm_bytes = tcm, .seed = settings->seed};
    *out = NULL;
    memory = (memory + 65535) / 65536 * 65536;
    sim.ddr_bytes = memory > UINT32_MAX ? UINT32_MAX / 65536 * 65536 : (uint32_t)memory;
    struct local *l = calloc(1, sizeof *l);
    if (!l) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu-sim: out of memory");
    l->npu = (struct npu_transport){.ops = &local_ops, .name = "npu-sim", .first = NPU_SIM_BOX_BYTES + tcm};
    l->npu.machine = (struct npu_machine){NPU_SIM_BOX_BYTES, tcm, 65536, settings->n_threads ? settings->n_threads : 1};
    int rc = npu_sim_open(&l->sim, &sim, err);
    if (rc < 0) {
        free(l);
        return rc;
    }
    l->npu.end = l->npu.first + sim.ddr_bytes;
    void *base = mmap(NULL, l->npu.end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        local_close(&l->npu);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu-sim: out of memory");
    }
    l->npu.base = base;
    *out = &l->npu;
    return 0;
}
