/* SPDX-License-Identifier: MIT
 *
 * The way to an NPU: memory both sides see, messages of operations, tickets.
 *
 *     struct npu_transport *npu;
 *     TRY(npu_local_open(&npu, &(struct npu_transport_settings){.memory_bytes = 64 << 20}, err));
 *     uint32_t x = npu_transport_alloc(npu, bytes);            0: no room
 *     memcpy(npu->base + x, data, bytes);
 *     npu_transport_publish(npu, x, bytes);                    after the host's last write
 *     TRY(npu_transport_submit(npu, ops, n_ops, &ticket, err));
 *     TRY(npu_transport_wait(npu, ticket, deadline_us, err));
 *     npu_transport_acquire(npu, y, y_bytes);                  before the host's first read
 *     npu_transport_close(&npu);
 *
 * A transport is one NPU session with its own 32-bit window.  What exceeds a window is spread over several sessions,
 * each opened by itself [TTS 8]: weights lie where their operations run, values are copied by the host from window to
 * window.
 *
 * Publish and acquire are the host's half of coherence; the NPU's half is NPU_FROM_HOST, NPU_TO_HOST, NPU_OP_INVALIDATE
 * and NPU_OP_FLUSH (wire/message.h).  In process both matter: without them the other side sees old bytes.
 *
 * The first 64 KiB of TCM stay between operations (the exp table): machine.tcm_kept on the NPU's side.
 *
 * One thread at a time per transport.  Only open and alloc allocate.
 */
#ifndef LUTRA_NPU_HOST_TRANSPORT_H
#define LUTRA_NPU_HOST_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "npu/wire/message.h"

struct npu_transport;

/* How a device packs weights of the layers, of which the setting has another kind (wire/layout.h, wire/planes.h). */
enum npu_packing {
    NPU_PACK_TILES,       /* all as tile32 */
    NPU_PACK_SUPERGROUPS, /* Q4_0 and Q8_0 in supergroups, quantized anew */
    NPU_PACK_PLANES,      /* as bit planes what has a kind of them (npu_pack_planes_kind): the same values */
    NPU_PACK_LOOKUP,      /* the same; rows that are not in bulk (ROW_BULK) are multiplied by table lookup */
};

/* Zeros are defaults. */
struct npu_transport_settings {
    uint32_t tcm_bytes;    /* 8 MiB; a multiple of 64 KiB.  Silicon has what it has */
    uint32_t memory_bytes; /* shared memory, 256 MiB; rounded up to 64 KiB */
    uint32_t n_threads;    /* vector threads the executor may use, 1 */
    uint32_t session;      /* FastRPC: 0 the process's own, others are reserved (a device may have no more than two) */
    uint64_t seed;         /* in process: of the emulator's hazards */
    enum npu_packing packing;
    /* Paths, borrowed while a transport or device opened with them is open; NULL: where they usually are */
    const char *qemu;    /* qemu-hexagon: of PATH */
    const char *program; /* lutra-npu-qemu.elf: beside the running program, one folder up, or in ../lib/lutra */
    const char *library; /* libcdsprpc.so: the system's */
};

struct npu_transport_ops {
    void (*close)(struct npu_transport *self);
    int (*submit)(
        struct npu_transport *self, const struct npu_op *op, uint32_t n_op, uint64_t *ticket, struct lutra_error *err);
    int (*wait)(struct npu_transport *self, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err);
    /* NULL = nothing to do */
    void (*publish)(struct npu_transport *self, uint32_t offset, uint32_t bytes);
    void (*acquire)(struct npu_transport *self, uint32_t offset, uint32_t bytes);
    void (*own)(struct npu_transport *self, uint32_t offset, uint32_t bytes, bool owned); /* alloc and free tell it */
};

struct npu_transport {
    const struct npu_transport_ops *ops;
    const char *name;           /* "npu-sim", "npu-qemu", "npu" */
    uint8_t *base;              /* the host's pointer to offset 0; buffers lie in [first, end) */
    uint32_t first, end;        /* window offsets */
    struct npu_machine machine; /* what the NPU said of itself */
    bool lost;                  /* set once, for good */
    struct npu_range *used;     /* [n_used], ascending */
    uint32_t n_used, max_used;
};

/* The ways there are, all with one signature.  *out is NULL on failure: LUTRA_E_UNSUPPORTED (no NPU, no program, QEMU
 * too old: the text says what to do), LUTRA_E_ARGUMENT, LUTRA_E_NO_MEMORY, LUTRA_E_DEVICE_LOST. */
typedef int npu_transport_open(
    struct npu_transport **out, const struct npu_transport_settings *settings, struct lutra_error *err);
npu_transport_open npu_local_open; /* the emulator, in this process */
/* Its emulator, for tests that read what it counts; of a transport that npu_local_open has opened. */
struct npu_sim;
struct npu_sim *npu_local_sim(struct npu_transport *transport);
npu_transport_open npu_child_open;   /* a Hexagon program under qemu-hexagon */
npu_transport_open npu_fastrpc_open; /* a phone's NPU */

void npu_transport_close(struct npu_transport **npu);

/* A buffer at a multiple of 128 bytes, followed by a gap that nobody may touch; 0: no room.  Contents undefined. */
uint32_t npu_transport_alloc(struct npu_transport *npu, uint32_t bytes);
void npu_transport_free(struct npu_transport *npu, uint32_t offset); /* 0 is allowed */
uint64_t npu_transport_free_bytes(const struct npu_transport *npu);

/* Runs operations in order after all earlier ones; op is copied.  After a failed operation the rest of the submission
 * is skipped.  May wait for room.  LUTRA_E_DEVICE_LOST: and from then on always. */
int npu_transport_submit(
    struct npu_transport *npu, const struct npu_op *op, uint32_t n_op, uint64_t *ticket, struct lutra_error *err);

/* 0: done.  LUTRA_E_DEADLINE: not yet (absolute, clock_real; CLOCK_NEVER_US: none); LUTRA_E_DEVICE_LOST;
 * LUTRA_E_INTERNAL: an operation was refused, or broke a rule of the emulator (by name, kernel and line). */
int npu_transport_wait(struct npu_transport *npu, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err);

void npu_transport_publish(struct npu_transport *npu, uint32_t offset, uint32_t bytes);
void npu_transport_acquire(struct npu_transport *npu, uint32_t offset, uint32_t bytes);

#endif
