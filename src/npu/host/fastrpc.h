/* SPDX-License-Identifier: MIT
 *
 * What Lutra needs of libcdsprpc.so, the library through which a Snapdragon's processors call each other, declared here
 * from what is public about it; loaded at run time, so that nothing has to be there to build.
 */
#ifndef LUTRA_NPU_HOST_FASTRPC_H
#define LUTRA_NPU_HOST_FASTRPC_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "npu/wire/serve.h"

enum {
    FASTRPC_CDSP = 3,     /* the domain of the NPU */
    FASTRPC_HEAP = 25,    /* of memory all processors reach */
    FASTRPC_MEMORY = 1,   /* flags: cached by the CPU */
    FASTRPC_MAP_FD = 2,   /* mapped for good; caches are the user's business */
    FASTRPC_UNSIGNED = 2, /* requests of a session: programs without a vendor's signature */
    FASTRPC_KILL = 6,     /* end the NPU's process of a domain */
    FASTRPC_NEW_SESSION = 13,
    FASTRPC_URI = 15,
    FASTRPC_LATENCY = 1, /* request of a handle: keep the CPU awake for answers */
};

struct fastrpc_unsigned {
    int domain, enable;
};

struct fastrpc_new_session {
    const char *domain;
    uint32_t domain_bytes;
    const char *name;
    uint32_t name_bytes;
    uint32_t effective_domain, session; /* out */
};

struct fastrpc_uri {
    const char *domain;
    uint32_t domain_bytes, session;
    const char *module;
    uint32_t module_bytes;
    char *uri; /* out */
    uint32_t uri_bytes;
};

struct fastrpc_latency {
    uint32_t enable, latency_us;
};

/* Functions return 0, or an error of theirs. */
struct fastrpc {
    void *library;
    void *(*rpcmem_alloc)(int heap, uint32_t flags, int bytes);
    void (*rpcmem_free)(void *p);
    int (*rpcmem_to_fd)(void *p);
    int (*fastrpc_mmap)(int domain, int fd, void *p, int offset, size_t bytes, int flags);
    int (*fastrpc_munmap)(int domain, int fd, void *p, size_t bytes);
    int (*remote_handle64_open)(const char *uri, uint64_t *handle);
    int (*remote_handle64_invoke)(uint64_t handle, uint32_t scalars, union npu_remote_arg *arg);
    int (*remote_handle64_close)(uint64_t handle);
    int (*remote_session_control)(uint32_t request, void *data, uint32_t bytes);
    int (*remote_handle64_control)(uint64_t handle, uint32_t request, void *data, uint32_t bytes); /* may be NULL */
};

/* The given library, or libcdsprpc.so.  LUTRA_E_UNSUPPORTED where it is not, or lacks a function. */
int fastrpc_load(struct fastrpc *rpc, const char *given, struct lutra_error *err);
void fastrpc_unload(struct fastrpc *rpc);

/* What a result of NPU_METHOD_SERVE says, in words: "no TCM ...", or NULL where it is not the program's
 * (wire/serve.h). */
const char *fastrpc_reason(int rc);

#endif
