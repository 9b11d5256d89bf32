/* SPDX-License-Identifier: MIT
 *
 * A Hexagon program in a child process under qemu-hexagon.
 *
 * The child gets one open file, dies with the thread that started it (PR_SET_PDEATHSIG: keep that thread), stands in a
 * process group of its own, and is always waited for.
 */
#ifndef LUTRA_NPU_HOST_CHILD_H
#define LUTRA_NPU_HOST_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/status.h"

enum { NPU_PATH_BYTES = 4096 };

/* The emulator: the given one, or qemu-hexagon of PATH.  LUTRA_E_UNSUPPORTED: there is none, or it is older than
 * version 10, the first that runs HVX v73; the text says what to install. */
int npu_find_qemu(const char *given, char path[NPU_PATH_BYTES], struct lutra_error *err);

/* The program: the given one, or lutra-npu-qemu.elf beside the running program, one folder up, or in ../lib/lutra.
 * LUTRA_E_UNSUPPORTED where there is none. */
int npu_find_program(const char *given, char path[NPU_PATH_BYTES], struct lutra_error *err);

/* Starts `qemu program FD`; the child's copy of fd stays open. */
int npu_child_start(pid_t *pid, const char *qemu, const char *program, int fd, struct lutra_error *err);

/* 0, or LUTRA_E_DEVICE_LOST with how it ended; then *pid is 0. */
int npu_child_alive(pid_t *pid, struct lutra_error *err);

/* Whether the child has run since the last call, which left *ticks, or waits for a processor. */
bool npu_child_runs(pid_t pid, unsigned long *ticks);

/* Ends the child at once and waits for it; *pid may be 0. */
void npu_child_kill(pid_t *pid);

#endif
