/* SPDX-License-Identifier: MIT
 *
 * Words of the mailbox at the start of the shared file; from word 64 on they are those of wire/tile.h.
 */
#ifndef LUTRA_TESTS_NPU_BENCH_BOX_H
#define LUTRA_TESTS_NPU_BENCH_BOX_H

enum {
    BOX_ASKED = 0, /* request number, written by the host */
    BOX_ANSWERED,
    BOX_BYTES, /* of the whole file */
    BOX_COMMAND,
    BOX_MACHINE = 8, /* struct npu_machine */
    BOX_OP = 16,     /* struct npu_op */
    BOX_STATUS = 32,
    BOX_PACKETS,
    BOX_INSTRUCTIONS,
    BOX_HVX,
    BOX_QUIT = 0, /* commands */
    BOX_EXECUTE,
    BOX_ISA_OPS
};

#endif
