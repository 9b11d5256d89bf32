/* SPDX-License-Identifier: MIT
 *
 * The NPU of a phone.  A window of memory that both processors reach, and one long call that serves the ring in it [TTS
 * 6]: the call's return is how the NPU's end is noticed.  The NPU's end is dsp/silicon.  Never run on silicon by this
 * project: tested against libraries of its own, one of which runs that end under qemu-hexagon.
 *
 * Coherence is one-way: the NPU's accesses see the CPU's caches, but its own cache is maintained by its program
 * (NPU_FROM_HOST, NPU_TO_HOST, the ring's view there).  So publish and acquire have nothing to do on this side.
 *
 * TCM is not in the window: the NPU tells its address as an offset modulo 2^32.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "npu/host/fastrpc.h"
#include "npu/host/session.h"

#define MODULE "file:///liblutra_npu.so?lutra_npu_skel_handle_invoke&_modver=1.0"
#define SECOND_US UINT64_C(1000000)
enum { URI_BYTES = 256, SILENT_LOOKS = 600, END_S = 20 };

struct phone {
    struct npu_session session; /* first */
    struct fastrpc rpc;
    struct npu_serve serve;
    uint64_t handle;
    int domain, fd;
    bool mapped, opened, called;
    pthread_t caller;
    atomic_int ended; /* 0, or what the call returned, 1 for no error */
};

/* The long call, in a thread of its own. */
static void *call(void *arg)
{
    struct phone *p = arg;
    union npu_remote_arg a = {.buffer = {&p->serve, sizeof p->serve}};
    int rc = p->rpc.remote_handle64_invoke(p->handle, NPU_SCALARS_SERVE, &a);
    atomic_store(&p->ended, rc ? rc : 1);
    return NULL;
}

static bool has_ended(void *arg)
{
    return atomic_load(&((struct phone *)arg)->ended) != 0;
}

/* Asks the program to end, and ends its process where it does not. */
static void hang_up(struct phone *p)
{
    if (!p->called) return;
    npu_ring_quit(&p->session.ring);
    if (clock_wait(clock_real(), has_ended, p, 0, clock_now_us(clock_real()) + END_S * SECOND_US) < 0)
        p->rpc.remote_session_control(FASTRPC_KILL, &p->domain, sizeof p->domain);
    pthread_join(p->caller, NULL);
}

static void phone_close(struct npu_transport *self)
{
    struct phone *p = (struct phone *)self;
    hang_up(p);
    if (p->mapped) p->rpc.fastrpc_munmap(p->domain, p->fd, self->base, self->end);
    if (p->opened) p->rpc.remote_handle64_close(p->handle);
    if (self->base) p->rpc.rpcmem_free(self->base);
    fastrpc_unload(&p->rpc);
    free(p);
}

static int phone_poll(struct npu_session *session, struct lutra_error *err)
{
    int ended = atomic_load(&((struct phone *)session)->ended);
    if (!ended) return 0;
    const char *reason = fastrpc_reason(ended);
    return lutra_fail(err, LUTRA_E_DEVICE_LOST, "npu: the NPU's program ended, error %#x%s%s",
        ended == 1 ? 0 : (unsigned)ended, reason ? ": " : "", reason ? reason : "");
}

static void phone_end(struct npu_session *session)
{
    struct phone *p = (struct phone *)session;
    p->rpc.remote_session_control(FASTRPC_KILL, &p->domain, sizeof p->domain);
}

static const struct npu_transport_ops phone_ops = {
    .close = phone_close, .submit = npu_session_submit, .wait = npu_session_wait};

/* Where the program is loaded: the process's own session, or one reserved for it [TTS 8]. */
static int choose_session(struct phone *p, uint32_t session, char uri[URI_BYTES], struct lutra_error *err)
{
    char name[16];
    p->domain = FASTRPC_CDSP;
    snprintf(uri, URI_BYTES, "%s&_dom=cdsp", MODULE);
    if (session) {
        snprintf(name, sizeof name, "lutra%u", session);
        struct fastrpc_new_session s = {"cdsp", 4, name, (uint32_t)strlen(name), 0, 0};
        int rc = p->rpc.remote_session_control(FASTRPC_NEW_SESSION, &s, sizeof s);
        if (rc) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: no session %u, error %#x", session, (unsigned)rc);
        struct fastrpc_uri u = {"cdsp", 4, s.session, MODULE, sizeof MODULE - 1, uri, URI_BYTES};
        rc = p->rpc.remote_session_control(FASTRPC_URI, &u, sizeof u);
        if (rc)
            return lutra_fail(
                err, LUTRA_E_UNSUPPORTED, "npu: no address in session %u, error %#x", session, (unsigned)rc);
        p->domain = (int)s.effective_domain;
    }
    struct fastrpc_unsigned allow = {p->domain, 1};
    int rc = p->rpc.remote_session_control(FASTRPC_UNSIGNED, &allow, sizeof allow);
    return rc ? lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu: unsigned programs are not allowed, error %#x", (unsigned)rc)
              : 0;
}

static int share_window(struct phone *p, struct lutra_error *err)
{
    struct npu_transport *npu = &p->session.npu;
    if (npu->end > INT32_MAX) return lutra_fail(err, LUTRA_E_ARGUMENT, "npu: a window of %u bytes", npu->end);
    npu->base = p->rpc.rpcmem_alloc(FASTRPC_HEAP, FASTRPC_MEMORY, (int)npu->end);
    if (!npu->base) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: no shared memory of %u bytes", npu->end);
    p->fd = p->rpc.rpcmem_to_fd(npu->base);
    int rc = p->fd < 0 ? p->fd : p->rpc.fastrpc_mmap(p->domain, p->fd, npu->base, 0, npu->end, FASTRPC_MAP_FD);
    if (rc)
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: the NPU has no room for a window of %u bytes, error %#x",
            npu->end, (unsigned)rc);
    p->mapped = true;
    p->session.ring.view.ring = (struct npu_ring *)(void *)npu->base;
    return 0;
}

static int load_program(struct phone *p, const char *uri, struct lutra_error *err)
{
    int rc = p->rpc.remote_handle64_open(uri, &p->handle);
    if (rc)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "npu: the NPU did not load liblutra_npu.so, error %#x (its folder belongs into ADSP_LIBRARY_PATH)",
            (unsigned)rc);
    p->opened = true;
    struct fastrpc_latency l = {1, p->serve.power.latency_us};
    if (p->rpc.remote_handle64_control) p->rpc.remote_handle64_control(p->handle, FASTRPC_LATENCY, &l, sizeof l);
    return 0;
}

static int begin(struct phone *p, const struct npu_transport_settings *settings, struct lutra_error *err)
{
    struct npu_transport *npu = &p->session.npu;
    char uri[URI_BYTES];
    TRY(npu_session_plan(&p->session, settings, false, err));
    TRY(fastrpc_load(&p->rpc, settings->library, err));
    TRY(choose_session(p, settings->session, uri, err));
    TRY(load_program(p, uri, err));
    TRY(share_window(p, err));
    npu_ring_begin(&p->session.ring, npu->end, npu->machine.tcm_bytes, npu->machine.n_threads);
    p->serve.magic = NPU_RING_MAGIC, p->serve.fd = (uint32_t)p->fd;
    p->serve.window_bytes = npu->end, p->serve.n_threads = npu->machine.n_threads;
    if (thread_start(&p->caller, call, p)) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: no thread");
    p->called = true;
    return npu_session_meet(&p->session, clock_now_us(clock_real()) + 10 * SECOND_US, err);
}

int npu_fastrpc_open(struct npu_transport **out, const struct npu_transport_settings *settings, struct lutra_error *err)
{
    *out = NULL;
    struct phone *p = calloc(1, sizeof *p);
    if (!p) return lutra_fail(err, LUTRA_E_NO_MEMORY, "npu: out of memory");
    p->session.npu.ops = &phone_ops, p->session.npu.name = "npu";
    p->session.poll = phone_poll, p->session.end = phone_end, p->session.silent_looks = SILENT_LOOKS;
    p->serve.power = (struct npu_power){NPU_CORNER_NOMINAL, NPU_CORNER_TURBO_L3, 100, 1, 1};
    int rc = begin(p, settings, err);
    if (rc < 0)
        phone_close(&p->session.npu);
    else
        *out = &p->session.npu;
    return rc;
}
