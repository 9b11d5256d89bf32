/* SPDX-License-Identifier: MIT
 *
 * What the test tells the stand-in for libcdsprpc.so, and what that one saw; its symbol is `lutra_fake`.
 */
#ifndef LUTRA_TESTS_NPU_LINK_FAKE_H
#define LUTRA_TESTS_NPU_LINK_FAKE_H

#include <stdatomic.h>

#include "npu/host/fastrpc.h"

struct fake {
    /* errors to give; 0: none */
    int alloc_fails, map_error, open_error, unsigned_error, session_error;
    int die_after; /* operations, then the long call returns an error; 0: never */
    int hang;      /* the program never looks at the ring until it is killed */
    /* seen */
    int n_memory, n_mapped, n_open; /* alive */
    int n_killed, n_sessions, unsigned_domain;
    uint32_t latency_us;
    struct npu_serve serve;
    char uri[256];
    atomic_int killed;
};

#endif
