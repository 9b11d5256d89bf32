/* SPDX-License-Identifier: MIT */
#include "npu/host/fastrpc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"

int fastrpc_load(struct fastrpc *rpc, const char *given, struct lutra_error *err)
{
    const char *path = given ? given : "libcdsprpc.so";
    static const struct library_call calls[] = {
        {"rpcmem_alloc", offsetof(struct fastrpc, rpcmem_alloc), false},
        {"rpcmem_free", offsetof(struct fastrpc, rpcmem_free), false},
        {"rpcmem_to_fd", offsetof(struct fastrpc, rpcmem_to_fd), false},
        {"fastrpc_mmap", offsetof(struct fastrpc, fastrpc_mmap), false},
        {"fastrpc_munmap", offsetof(struct fastrpc, fastrpc_munmap), false},
        {"remote_handle64_open", offsetof(struct fastrpc, remote_handle64_open), false},
        {"remote_handle64_invoke", offsetof(struct fastrpc, remote_handle64_invoke), false},
        {"remote_handle64_close", offsetof(struct fastrpc, remote_handle64_close), false},
        {"remote_session_control", offsetof(struct fastrpc, remote_session_control), false},
        {"remote_handle64_control", offsetof(struct fastrpc, remote_handle64_control), true},
    };
    const char *lacks;
    memset(rpc, 0, sizeof *rpc);
    rpc->library = library_open(path, calls, sizeof calls / sizeof *calls, rpc, &lacks);
    if (rpc->library) return 0;
    if (lacks) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: %s has no %s: too old", path, lacks);
    return lutra_fail(err, LUTRA_E_UNSUPPORTED,
        "npu: there is no NPU here: %s (it comes with Snapdragon devices: Android, or Linux with FastRPC)", dlerror());
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
