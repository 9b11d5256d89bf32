/* SPDX-License-Identifier: MIT
 *
 * A stand-in for libcdsprpc.so whose NPU is a Hexagon program under qemu-hexagon with the objects of liblutra_npu.so:
 * handles and calls reach lutra_npu_skel_handle_invoke as they would on a phone, in the encoding of wire/serve.h.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cdsprpc.h"
#include "npu/host/fastrpc.h"

#define EXPORT __attribute__((visibility("default")))
enum { FD = 100, DIED = 0x27, POLL_US = 200 };

static struct {
    struct box *box;
    int file;
    pid_t child;
    const char *qemu, *program;
    pthread_mutex_t one; /* call at a time */
} npu = {.file = -1, .one = PTHREAD_MUTEX_INITIALIZER};

EXPORT silicon_box lutra_silicon_box;
EXPORT silicon_begin lutra_silicon_begin;
EXPORT void *rpcmem_alloc(int heap, uint32_t flags, int bytes);
EXPORT void rpcmem_free(void *p);
EXPORT int rpcmem_to_fd(void *p);
EXPORT int fastrpc_mmap(int domain, int fd, void *p, int offset, size_t bytes, int flags);
EXPORT int fastrpc_munmap(int domain, int fd, void *p, size_t bytes);
EXPORT int remote_handle64_open(const char *uri, uint64_t *handle);
EXPORT int remote_handle64_invoke(uint64_t handle, uint32_t scalars, union npu_remote_arg *arg);
EXPORT int remote_handle64_close(uint64_t handle);
EXPORT int remote_session_control(uint32_t request, void *data, uint32_t bytes);

struct box *lutra_silicon_box(void)
{
    return npu.box;
}

void lutra_silicon_begin(const char *qemu, const char *program)
{
    if (npu.box) munmap(npu.box, BOX_FILE_BYTES), close(npu.file);
    npu.file = memfd_create("lutra-silicon", 0);
    npu.box = NULL;
    if (npu.file < 0 || ftruncate(npu.file, BOX_FILE_BYTES)) return;
    npu.box = mmap(NULL, BOX_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, npu.file, 0);
    npu.qemu = qemu, npu.program = program;
}

/* A program that is no test of ours: what plays the NPU is named by the environment. */
static void begin_alone(void)
{
    const char *qemu = getenv("LUTRA_QEMU"), *program = getenv("LUTRA_SILICON_PROGRAM");
    if (!npu.box && program) lutra_silicon_begin(qemu ? qemu : "qemu-hexagon", program);
}

/* One buffer, behind the box. */
void *rpcmem_alloc(int heap, uint32_t flags, int bytes)
{
    if (heap != FASTRPC_HEAP || flags != FASTRPC_MEMORY || bytes > BOX_FILE_BYTES - BOX_BYTES) return NULL;
    npu.box->fd = FD, npu.box->window_bytes = (uint32_t)bytes;
    return (uint8_t *)npu.box + BOX_BYTES;
}

void rpcmem_free(void *p)
{
    if (p == (uint8_t *)npu.box + BOX_BYTES) npu.box->fd = 0;
}

int rpcmem_to_fd(void *p)
{
    return p == (uint8_t *)npu.box + BOX_BYTES ? FD : -1;
}

int fastrpc_mmap(int domain, int fd, void *p, int offset, size_t bytes, int flags)
{
    (void)domain;
    if (rpcmem_to_fd(p) != fd || offset || bytes != npu.box->window_bytes || flags != FASTRPC_MAP_FD) return 1;
    npu.box->mapped = 1;
    return 0;
}

int fastrpc_munmap(int domain, int fd, void *p, size_t bytes)
{
    (void)domain;
    npu.box->mapped = 0;
    return rpcmem_to_fd(p) != fd || bytes != npu.box->window_bytes;
}

static void start(void)
{
    char file[16];
    snprintf(file, sizeof file, "%d", npu.file);
    npu.box->quit = 0, npu.box->answered = npu.box->asked = 0;
    npu.child = fork();
    if (npu.child) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp(npu.qemu, "qemu-hexagon", npu.program, file, (char *)NULL);
    _exit(127);
}

static int alive(void)
{
    if (npu.child > 0 && waitpid(npu.child, NULL, WNOHANG) == npu.child) npu.child = 0;
    return npu.child > 0;
}

/* Arguments as they travel: buffers by value, handles as words. */
static int call(uint64_t handle, uint32_t scalars, union npu_remote_arg *arg)
{
    struct box *b = npu.box;
    uint32_t buffers = (scalars >> 16 & 255) + (scalars >> 8 & 255), out = scalars & 15, at = 0;
    uint32_t n = buffers + (scalars >> 4 & 15) + out;
    if (scalars == BOX_RINGS) buffers = out = n = 0;
    if (n > BOX_ARGS) return DIED;
    b->handle = handle, b->scalars = scalars, b->n_args = n, b->null_args = arg == NULL;
    for (uint32_t i = 0; arg && i < n; i++) {
        if (i >= buffers) {
            b->arg[i].handle = arg[i].handle;
            continue;
        }
        b->arg[i].at = arg[i].buffer.data ? at : UINT32_MAX, b->arg[i].bytes = (uint32_t)arg[i].buffer.bytes;
        if (!arg[i].buffer.data) continue;
        if (at + arg[i].buffer.bytes > BOX_DATA) return DIED;
        memcpy(b->data + at, arg[i].buffer.data, arg[i].buffer.bytes);
        at += ((uint32_t)arg[i].buffer.bytes + 7) / 8 * 8;
    }
    uint32_t asked = __atomic_add_fetch(&b->asked, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&b->answered, __ATOMIC_ACQUIRE) != asked) {
        if (!alive()) return DIED;
        usleep(POLL_US);
    }
    for (uint32_t i = n - out; arg && i < n; i++) arg[i].handle = b->arg[i].handle;
    return b->rc;
}

int remote_handle64_open(const char *uri, uint64_t *handle)
{
    uint32_t length = (uint32_t)strlen(uri) + 1;
    union npu_remote_arg arg[3] = {
        {.buffer = {&length, 4}}, {.buffer = {(void *)(uintptr_t)uri, length}}, {.handle = 0}};
    if (!strstr(uri, "liblutra_npu.so?lutra_npu_skel_handle_invoke&_modver=1.0")) return 1;
    begin_alone();
    if (!npu.box) return 1;
    start();
    int rc = call(0, NPU_SCALARS_OPEN, arg);
    *handle = arg[2].handle;
    return rc;
}

int remote_handle64_invoke(uint64_t handle, uint32_t scalars, union npu_remote_arg *arg)
{
    pthread_mutex_lock(&npu.one);
    int rc = call(handle, scalars, arg);
    pthread_mutex_unlock(&npu.one);
    return rc;
}

int remote_handle64_close(uint64_t handle)
{
    union npu_remote_arg arg = {.handle = handle};
    int rc = call(0, NPU_SCALARS_CLOSE, &arg);
    if (getenv("LUTRA_SILICON_PROGRAM"))
        fprintf(stderr, "silicon: %u + %u descriptors, %u tiles, faults %u %u, %u contexts left\n",
            npu.box->dma_descriptors, npu.box->dma_2d, npu.box->tile_stores, npu.box->dma_fault, npu.box->tile_fault,
            npu.box->n_contexts + npu.box->n_maps + npu.box->n_threads);
    __atomic_store_n(&npu.box->quit, 1, __ATOMIC_RELEASE);
    if (npu.child > 0) waitpid(npu.child, NULL, 0);
    npu.child = 0;
    return rc;
}

int remote_session_control(uint32_t request, void *data, uint32_t bytes)
{
    if (request == FASTRPC_UNSIGNED) return bytes != sizeof(struct fastrpc_unsigned) || !data;
    if (request == FASTRPC_KILL && npu.child > 0) return kill(npu.child, SIGKILL);
    return 1;
}
