/* SPDX-License-Identifier: MIT
 *
 * FastRPC's way in: it looks up this name in the library and calls it for every method of wire/serve.h.
 */
#if defined(__hexagon__)

#include "npu/dsp/silicon/silicon.h"

int lutra_npu_skel_handle_invoke(uint64_t handle, uint32_t scalars, union npu_remote_arg *arg);

enum { ATTRIBUTES = 29 }; /* the first bit of what the library itself reads of the scalars */

/* One window per process: FastRPC gives each session of the host a process of its own. */
static struct npu_silicon session;

static uint64_t name_of(struct npu_silicon *s)
{
    return (uintptr_t)s;
}

static int open_handle(union npu_remote_arg *arg)
{
    const uint32_t *length = arg[0].buffer.data;
    if (arg[0].buffer.bytes < 4 || !length || *length > arg[1].buffer.bytes)
        return npu_serve_error(NPU_SERVE_CALL, NPU_METHOD_OPEN);
    arg[2].handle = name_of(&session);
    return 0;
}

__attribute__((visibility("default"))) int lutra_npu_skel_handle_invoke(
    uint64_t handle, uint32_t scalars, union npu_remote_arg *arg)
{
    uint32_t call = scalars & ((1u << ATTRIBUTES) - 1), method = call >> 24;
    struct npu_serve ask;
    if (arg && call == NPU_SCALARS_OPEN) return open_handle(arg);
    if (arg && call == NPU_SCALARS_CLOSE && arg[0].handle == name_of(&session)) return 0;
    if (!arg || call != NPU_SCALARS_SERVE || handle != name_of(&session) || !arg[0].buffer.data ||
        arg[0].buffer.bytes != sizeof ask)
        return npu_serve_error(NPU_SERVE_CALL, method);
    __builtin_memcpy(&ask, arg[0].buffer.data, sizeof ask);
    return npu_serve(&session, &ask);
}

#endif
