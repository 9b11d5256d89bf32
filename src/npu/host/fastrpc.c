/* SPDX-License-Identifier: MIT */
#include "npu/host/fastrpc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    const char *name;
    void **to;
    int optional;
};

int fastrpc_load(struct fastrpc *rpc, const char *given, struct lutra_error *err)
{
    const char *path = given ? given : "libcdsprpc.so";
    memset(rpc, 0, sizeof *rpc);
    const struct entry entries[] = {
        {"rpcmem_alloc", (void **)&rpc->rpcmem_alloc, 0},
        {"rpcmem_free", (void **)&rpc->rpcmem_free, 0},
        {"rpcmem_to_fd", (void **)&rpc->rpcmem_to_fd, 0},
        {"fastrpc_mmap", (void **)&rpc->fastrpc_mmap, 0},
        {"fastrpc_munmap", (void **)&rpc->fastrpc_munmap, 0},
        {"remote_handle64_open", (void **)&rpc->remote_handle64_open, 0},
        {"remote_handle64_invoke", (void **)&rpc->remote_handle64_invoke, 0},
        {"remote_handle64_close", (void **)&rpc->remote_handle64_close, 0},
        {"remote_session_control", (void **)&rpc->remote_session_control, 0},
        {"remote_handle64_control", (void **)&rpc->remote_handle64_control, 1},
    };
    rpc->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!rpc->library)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "npu: there is no NPU here: %s (it comes with Snapdragon devices: Android, or Linux with FastRPC)",
            dlerror());
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        *entries[i].to = dlsym(rpc->library, entries[i].name);
        if (*entries[i].to || entries[i].optional) continue;
        fastrpc_unload(rpc);
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: %s has no %s: too old", path, entries[i].name);
    }
    return 0;
}

void fastrpc_unload(struct fastrpc *rpc)
{
    if (rpc->library) dlclose(rpc->library);
    rpc->library = NULL;
}

const char *fastrpc_reason(int rc)
{
    static const char *const reason[NPU_SERVE_STEPS] = {
        [NPU_SERVE_CALL] = "its library is of another build",
        [NPU_SERVE_BUSY] = "it serves another session of this process",
        [NPU_SERVE_POWER] = "the power manager refused",
        [NPU_SERVE_MAP] = "the window is not mapped",
        [NPU_SERVE_WINDOW] = "what is mapped is no window",
        [NPU_SERVE_TCM] = "there is no TCM for it, or no tile unit: another program may hold it",
        [NPU_SERVE_THREADS] = "it got no threads",
        [NPU_SERVE_VECTORS] = "it got no vector context",
        [NPU_SERVE_TILES] = "its threads may not use the tile unit",
        [NPU_SERVE_RING] = "a message was damaged",
        [NPU_SERVE_DMA] = "the DMA engine stopped",
    };
    uint32_t step = (uint32_t)rc >> 16 & 0xff;
    return (uint32_t)rc >> 24 == NPU_SERVE_ERROR && step < NPU_SERVE_STEPS ? reason[step] : NULL;
}
