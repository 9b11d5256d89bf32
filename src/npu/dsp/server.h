/* SPDX-License-Identifier: MIT
 *
 * The NPU's end of the ring: takes messages, judges every field, executes, answers.
 *
 *     struct npu_server server = {.view = {ring}, .execute = f, .user = x};
 *     npu_server_start(&server, &machine);
 *     while (npu_server_step(&server) >= 0) { }     sleeping when it returns 0
 *
 * What the host wrote is copied once and judged as copied.  Allocates nothing; one thread per server.
 */
#ifndef LUTRA_NPU_DSP_SERVER_H
#define LUTRA_NPU_DSP_SERVER_H

#include "npu/wire/ring.h"

struct isa;

struct npu_server {
    struct npu_ring_view view;
    uint32_t (*execute)(void *user, const struct npu_op *op); /* returns a status */
    void *user;
    uint32_t taken, answered, failed;
    struct npu_op op[NPU_MESSAGE_OPS]; /* the message at work */
};

/* Says hello: from now on the host may write.  `machine` is shown to the host. */
void npu_server_start(struct npu_server *server, const struct npu_machine *machine);

/* At most one message.  1: there was one; 0: there was none; -1: the end, as npu.state tells. */
int npu_server_step(struct npu_server *server);

/* Shared memory that operations may name. */
struct npu_memory {
    uint32_t first, end; /* window offsets; the last 128 bytes are a gap that may be read */
};

/* Whether an operation, with the tables it names, stays inside of memory: NPU_OK or NPU_OUT_OF_WINDOW.  Tables are
 * invalidated first where the host wrote them (NPU_FROM_HOST).  Shapes and kinds are npu_execute's to judge; those it
 * would refuse may pass. */
uint32_t npu_op_check(struct isa *isa, const struct npu_memory *memory, const struct npu_op *op);

#endif
