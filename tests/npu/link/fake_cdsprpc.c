/* SPDX-License-Identifier: MIT
 *
 * A stand-in for libcdsprpc.so: the long call is served by the emulator.  TCM is not in the window, so offsets are
 * moved by its size on the way to the emulator, where it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fake.h"
#include "npu/dsp/kernels.h"
#include "npu/dsp/server.h"
#include "npu/sim/sim.h"

#define EXPORT __attribute__((visibility("default")))
enum { TCM = 1 << 20, FD = 100, DIED = 0x4e, DOMAIN = 7 };

EXPORT struct fake lutra_fake;
static void *memory[4];
static size_t memory_bytes[4];

struct npu {
    struct npu_sim *sim;
    struct npu_server server;
    uint8_t *window;
    uint32_t bytes, n_done;
};

EXPORT void *rpcmem_alloc(int heap, uint32_t flags, int bytes);
EXPORT void rpcmem_free(void *p);
EXPORT int rpcmem_to_fd(void *p);
EXPORT int fastrpc_mmap(int domain, int fd, void *p, int offset, size_t bytes, int flags);
EXPORT int fastrpc_munmap(int domain, int fd, void *p, size_t bytes);
EXPORT int remote_handle64_open(const char *uri, uint64_t *handle);
EXPORT int remote_handle64_invoke(uint64_t handle, uint32_t scalars, union npu_remote_arg *arg);
EXPORT int remote_handle64_close(uint64_t handle);
EXPORT int remote_session_control(uint32_t request, void *data, uint32_t bytes);
EXPORT int remote_handle64_control(uint64_t handle, uint32_t request, void *data, uint32_t bytes);

void *rpcmem_alloc(int heap, uint32_t flags, int bytes)
{
    if (lutra_fake.alloc_fails || heap != FASTRPC_HEAP || flags != FASTRPC_MEMORY) return NULL;
    for (int i = 0; i < 4; i++)
        if (!memory[i]) {
            lutra_fake.n_memory++;
            memory_bytes[i] = (size_t)bytes;
            return memory[i] = aligned_alloc(4096, (size_t)bytes);
        }
    return NULL;
}

void rpcmem_free(void *p)
{
    for (int i = 0; i < 4; i++)
        if (memory[i] == p) memory[i] = NULL;
    lutra_fake.n_memory--;
    free(p);
}

int rpcmem_to_fd(void *p)
{
    for (int i = 0; i < 4; i++)
        if (memory[i] == p) return FD + i;
    return -1;
}

int fastrpc_mmap(int domain, int fd, void *p, int offset, size_t bytes, int flags)
{
    if (lutra_fake.map_error) return lutra_fake.map_error;
    if (domain != lutra_fake.unsigned_domain || memory[fd - FD] != p || offset || bytes != memory_bytes[fd - FD])
        return 1;
    lutra_fake.n_mapped++;
    return flags != FASTRPC_MAP_FD;
}

int fastrpc_munmap(int domain, int fd, void *p, size_t bytes)
{
    lutra_fake.n_mapped--;
    return domain != lutra_fake.unsigned_domain || memory[fd - FD] != p || bytes != memory_bytes[fd - FD];
}

int remote_handle64_open(const char *uri, uint64_t *handle)
{
    snprintf(lutra_fake.uri, sizeof lutra_fake.uri, "%s", uri);
    if (lutra_fake.open_error) return lutra_fake.open_error;
    lutra_fake.n_open++;
    *handle = 42;
    return 0;
}

int remote_handle64_close(uint64_t handle)
{
    lutra_fake.n_open--;
    return handle != 42;
}

int remote_handle64_control(uint64_t handle, uint32_t request, void *data, uint32_t bytes)
{
    const struct fastrpc_latency *l = data;
    if (handle != 42 || request != FASTRPC_LATENCY || bytes != sizeof *l || !l->enable) return 1;
    lutra_fake.latency_us = l->latency_us;
    return 0;
}

int remote_session_control(uint32_t request, void *data, uint32_t bytes)
{
    if (request == FASTRPC_UNSIGNED && bytes == sizeof(struct fastrpc_unsigned)) {
        const struct fastrpc_unsigned *u = data;
        lutra_fake.unsigned_domain = u->domain;
        return u->enable ? lutra_fake.unsigned_error : 1;
    }
    if (request == FASTRPC_NEW_SESSION && bytes == sizeof(struct fastrpc_new_session)) {
        struct fastrpc_new_session *s = data;
        s->session = (uint32_t)++lutra_fake.n_sessions, s->effective_domain = DOMAIN;
        return lutra_fake.session_error;
    }
    if (request == FASTRPC_URI && bytes == sizeof(struct fastrpc_uri)) {
        const struct fastrpc_uri *u = data;
        snprintf(u->uri, u->uri_bytes, "%.*s&_dom=%.*s&_session=%u", (int)u->module_bytes, u->module,
            (int)u->domain_bytes, u->domain, u->session);
        return 0;
    }
    if (request == FASTRPC_KILL) {
        lutra_fake.n_killed++;
        atomic_store(&lutra_fake.killed, 1);
        return 0;
    }
    return 1;
}

static uint32_t execute(void *user, const struct npu_op *given)
{
    struct npu *n = user;
    struct npu_op op = *given;
    uint32_t *field[] = {&op.src, &op.weights, &op.dst, &op.bias}, size = n->bytes - NPU_RING_BYTES;
    uint32_t first = NPU_RING_BYTES + TCM;
    struct npu_machine machine = {NPU_RING_BYTES, TCM, 65536, 1, 0, 0};
    const struct npu_memory all = {first, first + size};
    if (lutra_fake.die_after && n->n_done++ >= (uint32_t)lutra_fake.die_after) return NPU_STOPPED;
    for (int i = 0; i < 4; i++) *field[i] += *field[i] ? TCM : 0;
    npu_sim_own(n->sim, first, size, 1);
    memcpy(npu_sim_host(n->sim, first), n->window + NPU_RING_BYTES, size);
    op.flags = 0;
    struct isa *isa = npu_sim_isa(n->sim);
    uint32_t status = npu_op_check(isa, &all, &op);
    if (status == NPU_OK) status = npu_execute(isa, &machine, &op);
    cache_flush(isa_ptr(first), size);
    memcpy(n->window + NPU_RING_BYTES, npu_sim_host(n->sim, first), size);
    npu_sim_end(n->sim, 65536);
    return status;
}

int remote_handle64_invoke(uint64_t handle, uint32_t scalars, union npu_remote_arg *arg)
{
    static struct npu npu;
    struct npu *n = calloc(1, sizeof npu);
    int rc = 0;
    if (!n || handle != 42 || scalars != NPU_SCALARS_SERVE) return 1;
    memcpy(&lutra_fake.serve, arg->buffer.data, sizeof lutra_fake.serve);
    n->window = memory[lutra_fake.serve.fd - FD], n->bytes = lutra_fake.serve.window_bytes;
    struct npu_sim_settings s = {.tcm_bytes = TCM, .ddr_bytes = n->bytes - NPU_RING_BYTES, .seed = 1};
    if (npu_sim_open(&n->sim, &s, NULL)) return 1;
    n->server = (struct npu_server){.view = {.ring = (void *)n->window}, .execute = execute, .user = n};
    npu_server_start(&n->server, &(struct npu_machine){0x12340000, TCM, 65536, 1, 0, 0});
    while (!atomic_load(&lutra_fake.killed)) {
        rc = lutra_fake.hang ? 0 : npu_server_step(&n->server);
        if (rc < 0 || (lutra_fake.die_after && n->n_done > (uint32_t)lutra_fake.die_after)) break;
        if (!rc) clock_sleep_us(clock_real(), 50);
    }
    npu_sim_close(&n->sim);
    int died = rc >= 0;
    free(n);
    return died ? DIED : 0;
}
