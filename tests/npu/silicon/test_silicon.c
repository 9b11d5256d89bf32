/* SPDX-License-Identifier: MIT
 *
 * The host's transport and the objects of liblutra_npu.so speak to each other (cdsprpc.c): results bit for bit those of
 * the emulator, by several vector threads; what is asked of the firmware and given back; each step that fails; calls
 * that are not the host's.  QEMU plays the processor: its DMA engine, tile unit and firmware are stand-ins (units.c,
 * firmware.c).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>

#include "cdsprpc.h"
#include "link.h"
#include "npu/host/fastrpc.h"
#include "npu/wire/ring.h"

enum { THREADS = 4 };
static const struct npu_transport_settings small = {.memory_bytes = 1 << 20, .n_threads = THREADS};

static void *library;

static struct box *begin_with(const char *program)
{
    setenv("LUTRA_CDSPRPC", NPU_CDSPRPC, 1);
    if (!library) library = dlopen(NPU_CDSPRPC, RTLD_NOW); /* stays while the test looks at it */
    if (!library) fail_msg("%s", dlerror());
    ((silicon_begin *)dlsym(library, "lutra_silicon_begin"))(NPU_QEMU, program);
    struct box *b = ((silicon_box *)dlsym(library, "lutra_silicon_box"))();
    assert_non_null(b);
    return b;
}

static struct box *begin(void)
{
    return begin_with(NPU_PROGRAM);
}

static void nothing_left(const struct box *b)
{
    assert_int_equal(b->n_maps, 0);
    assert_int_equal(b->n_contexts, 0);
    assert_int_equal(b->n_vectors, 0);
    assert_int_equal(b->n_tiles, 0);
    assert_int_equal(b->n_clients, 0);
    assert_int_equal(b->n_threads, 0);
    assert_int_equal(b->mapped, 0);
    assert_int_equal(b->fd, 0);
    if (b->lines_lost)
        fail_msg("the line at %#x of the window was written by host and NPU at a time", b->lines_lost - 1);
    if (b->left_asleep) fail_msg("%u threads were left asleep when what they wait for came", b->left_asleep);
    if (b->dma_fault || b->tile_fault) fail_msg("a rule of units.c:%u", b->dma_fault ? b->dma_fault : b->tile_fault);
}

static struct npu_transport *open_npu(struct npu_transport_settings settings)
{
    struct lutra_error err;
    struct npu_transport *npu = open_by(npu_fastrpc_open, &settings, &err);
    if (!npu) fail_msg("%s", err.what);
    return npu;
}

static struct npu_ring *npu_ring_of(const struct npu_transport *npu)
{
    return (struct npu_ring *)(void *)npu->base;
}

/* ---- work ---- */

static void work_comes_back(void **state)
{
    struct lutra_error err;
    struct work p, l;
    struct box *b = begin();
    (void)state;
    struct npu_transport *npu = open_npu(small);
    struct npu_transport *local = open_by(npu_local_open, &small, &err);
    assert_int_equal(npu->machine.n_threads, THREADS);
    if (npu->machine.tcm_bytes != (1 << 20) - 2048)
        fail_msg("kernels are given %u bytes of TCM, the tile unit's scales in them", npu->machine.tcm_bytes);
    for (uint64_t seed = 0; seed < 3; seed++) {
        put_work(&p, npu, seed), put_work(&l, local, seed);
        if (run_work(npu, &p, CLOCK_NEVER_US, &err)) fail_msg("%s", err.what);
        assert_int_equal(run_work(local, &l, CLOCK_NEVER_US, &err), 0);
        if (!b->lines_dropped) fail_msg("no stale line of the host's buffers was dropped (cache_invalidate)");
        if (!same_results(npu, &p, local, &l)) {
            uint8_t *late = npu->base + p.z;
            uint32_t before, after; /* what its lines held when the window went */
            memcpy(&before, late, 4);
            __atomic_store_n(&npu_ring_of(npu)->host.quit, 1, __ATOMIC_RELEASE);
            for (int i = 0; i < 100 && b->n_maps; i++) clock_sleep_us(clock_real(), 10000);
            memcpy(&after, late, 4);
            fail_msg("results differ%s", before != after ? ": they were not written back in time (cache_flush)" : "");
        }
    }
    assert_int_equal(b->most_vectors, THREADS);
    assert_int_equal(b->most_tiles, THREADS + 1); /* and the thread that has no vectors */
    npu_transport_close(&npu), npu_transport_close(&local);
    assert_true(b->tile_macs > 0 && b->tile_stores > 0 && b->dma_descriptors > 0);
    nothing_left(b);
}

/* A product large enough for every thread's ring and for TCM's two banks. */
static uint32_t put_product(struct npu_transport *npu, struct npu_op *op, uint32_t m, uint32_t k, uint32_t n)
{
    struct npu_weights w;
    npu_weights_layout(NPU_W_Q4_0, k, n, &w);
    uint32_t bytes = w.n_blocks * w.block_bytes, y = npu_transport_alloc(npu, 4 * n * m);
    *op = (struct npu_op){.code = NPU_OP_GEMM,
        .flags = NPU_FROM_HOST | NPU_TO_HOST,
        .m = m,
        .n = n,
        .k = k,
        .kind = NPU_W_Q4_0,
        .src = put_random(npu, 4 * k * m, 1, 1),
        .weights = put_random(npu, bytes, 2, 0),
        .dst = y,
        .src_stride = 4 * k,
        .dst_stride = 4 * n};
    for (uint32_t u = 0; u < w.n_blocks * w.n_units; u++)
        for (uint32_t i = w.code_bytes; i < w.unit_bytes; i += 2)
            npu->base[op->weights + u * w.unit_bytes + i + 1] = 0x24; /* scales: halves of about 2^-6 */
    npu_transport_publish(npu, op->weights, bytes);
    return y;
}

static void run_op(struct npu_transport *npu, const struct npu_op *op, uint32_t y, uint32_t bytes)
{
    struct lutra_error err;
    uint64_t ticket;
    assert_int_equal(npu_transport_submit(npu, op, 1, &ticket, &err), 0);
    if (npu_transport_wait(npu, ticket, CLOCK_NEVER_US, &err)) fail_msg("%s", err.what);
    npu_transport_acquire(npu, y, bytes);
}

static void products_are_shared_by_threads(void **state)
{
    enum { M = 72, K = 448, N = 512 };
    struct lutra_error err;
    struct npu_op a, c;
    struct box *b = begin();
    (void)state;
    struct npu_transport *local = open_by(npu_local_open, &small, &err);
    uint32_t want = put_product(local, &c, M, K, N);
    run_op(local, &c, want, 4 * N * M);
    for (uint32_t n = 1; n <= 6; n += n == 1 ? 3 : 2) { /* 1, 4, 6 */
        struct npu_transport_settings s = small;
        s.n_threads = n;
        begin();
        b = ((silicon_box *)dlsym(library, "lutra_silicon_box"))();
        struct npu_transport *npu = open_npu(s);
        assert_int_equal(npu->machine.n_threads, n);
        uint32_t y = put_product(npu, &a, M, K, N);
        run_op(npu, &a, y, 4 * N * M);
        assert_memory_equal(npu->base + y, local->base + want, 4 * N * M);
        npu_transport_close(&npu);
        assert_int_equal(b->most_vectors, n);
        assert_true(b->dma_flight >= 2);
        assert_true(b->tile_macs > b->tile_stores); /* 14 tiles are one word, but for those across banks */
        nothing_left(b);
    }
    npu_transport_close(&local);
}

static void an_idle_npu_sleeps_and_serves_one_window(void **state)
{
    struct lutra_error err;
    struct work w;
    struct box *b = begin();
    (void)state;
    struct npu_transport *npu = open_npu(small);
    put_work(&w, npu, 1);
    for (int i = 0; i < 1000 && !b->sleeps; i++) clock_sleep_us(clock_real(), 10000);
    assert_true(b->sleeps > 0);
    __atomic_store_n(&b->again, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 1000 && __atomic_load_n(&b->again, __ATOMIC_ACQUIRE); i++) clock_sleep_us(clock_real(), 10000);
    assert_int_equal(b->again_rc, npu_serve_error(NPU_SERVE_BUSY, 0)); /* one window at a time */
    assert_int_equal(run_work(npu, &w, CLOCK_NEVER_US, &err), 0);      /* and wakes */
    npu_transport_close(&npu);
    nothing_left(b);
}

/* ---- what is asked of the firmware ---- */

static void votes_are_placed(void **state)
{
    struct box *b = begin();
    uint32_t latency;
    (void)state;
    struct npu_transport *npu = open_npu(small);
    npu_transport_close(&npu);
    assert_int_equal(b->n_power, 4);
    assert_int_equal(b->power[0][0], 3); /* the class: compute */
    assert_int_equal(b->power[0][8], 4);
    const uint8_t *clocks = b->power[1] + 8; /* offsets of the binary interface */
    assert_int_equal(b->power[1][0], 12);
    assert_memory_equal(clocks, ((uint8_t[]){1, 1, 0x10, 1}), 4);
    memcpy(&latency, clocks + 4, 4);
    assert_int_equal(latency, 100);
    for (int at = 8; at <= 28; at += 20) { /* core, bus */
        assert_int_equal(clocks[at], 1);
        assert_memory_equal(
            clocks + at + 4, ((uint8_t[]){NPU_CORNER_TURBO_L3, NPU_CORNER_NOMINAL, NPU_CORNER_TURBO_L3}), 3);
    }
    assert_memory_equal(clocks + 76, ((uint8_t[]){1, 1}), 2);
    assert_memory_equal(b->power[2], ((uint8_t[]){2, 0, 0, 0, 0, 0, 0, 0, 1}), 9);
    assert_int_equal(b->power[3][0], 14);
    assert_memory_equal(b->power[3] + 8, ((uint8_t[]){1, 1, 1, 0, 255, 255, 255, 255, 255, 255, 0}), 11);
    nothing_left(b);
}

static void an_older_firmware_has_less(void **state)
{
    struct lutra_error err;
    struct work w;
    struct box *b = begin_with(NPU_PROGRAM_OLD);
    (void)state;
    b->fail[BOX_POWER_TILES_CLOCK] = 14; /* v73 */
    struct npu_transport *npu = open_npu(small);
    assert_int_equal(npu->machine.n_threads, 1); /* threads may not share the tile unit */
    put_work(&w, npu, 1);
    assert_int_equal(run_work(npu, &w, CLOCK_NEVER_US, &err), 0);
    npu_transport_close(&npu);
    assert_int_equal(b->power[3][0], 13);
    assert_int_equal(b->power[4][0], 13); /* votes are withdrawn one by one */
    assert_int_equal(b->power[4][8], 0);
    assert_int_equal(b->power[5][0], 2);
    assert_int_equal(b->power[6][0], 12);
    b->n_clients = 0; /* there is no way to forget the client */
    nothing_left(b);
}

static void lines_are_written_back(void **state)
{
    struct box *b = begin();
    (void)state;
    struct npu_transport *npu = open_npu(small);
    uint32_t bytes = npu->end;
    npu_transport_close(&npu);
    assert_int_equal(b->lines_end - b->lines_first, bytes); /* the whole window, before it goes */
    if (!b->head_lines) fail_msg("the window's head is read without dropping what the cache has of it");
    if (b->ring_lines < 2) fail_msg("the ring's lines are not written back and dropped");
    nothing_left(b);
}

/* Judged before it runs: it would read the ring, which is no operation's. */
static void a_damaged_operation_is_refused(void **state)
{
    struct lutra_error err;
    struct work w;
    struct box *b = begin();
    (void)state;
    struct npu_transport *npu = open_npu(small);
    put_work(&w, npu, 1);
    w.op[0].src = 0;
    if (!run_work(npu, &w, CLOCK_NEVER_US, &err)) fail_msg("a damaged operation was not judged");
    npu_transport_close(&npu);
    nothing_left(b);
}

/* ---- failures ---- */

struct failure {
    uint32_t function, after;
    int32_t error;
    const char *text;
    uint32_t step, told;
};

static void each_failing_step_is_told(void **state)
{
    static const struct failure failure[] = {
        {BOX_POWER_CLASS, 0, 20, "the power manager refused", NPU_SERVE_POWER, 20},
        {BOX_POWER_CLOCKS, 0, 21, "the power manager refused", NPU_SERVE_POWER, 21},
        {BOX_POWER_VECTORS, 0, -2, "the power manager refused", NPU_SERVE_POWER, 0xfffe},
        {BOX_MMAP, 0, 0x49, "the window is not mapped", NPU_SERVE_MAP, 0x49},
        {BOX_TCM_ATTRIBUTES, 0, 7, "there is no TCM", NPU_SERVE_TCM, 7},
        {BOX_TCM_ACQUIRE, 0, 1, "there is no TCM", NPU_SERVE_TCM, 0},
        {BOX_TCM_POINTER, 0, 8, "there is no TCM", NPU_SERVE_TCM, 8},
        {BOX_THREAD_CREATE, 0, 5, "it got no threads", NPU_SERVE_THREADS, 5},
        {BOX_THREAD_CREATE, 2, 6, "it got no threads", NPU_SERVE_THREADS, 6},
        {BOX_VECTORS_LOCK, 0, 9, "it got no vector context", NPU_SERVE_VECTORS, 9},
        {BOX_VECTORS_LOCK, 3, 9, "it got no vector context", NPU_SERVE_VECTORS, 9},
        {BOX_TILES_LOCK, 1, 0x12, "may not use the tile unit", NPU_SERVE_TILES, 0x12},
    };
    char code[16];
    (void)state;
    for (size_t i = 0; i < sizeof failure / sizeof *failure; i++) {
        const struct failure *f = &failure[i];
        struct lutra_error err;
        struct box *b = begin();
        b->fail[f->function] = f->error, b->fail_after[f->function] = f->after;
        if (open_by(npu_fastrpc_open, &small, &err)) fail_msg("%zu: opened", i);
        snprintf(code, sizeof code, "%#x", (unsigned)npu_serve_error(f->step, f->told));
        assert_int_equal(err.code, LUTRA_E_DEVICE_LOST);
        if (!strstr(err.what, f->text) || !strstr(err.what, code))
            fail_msg("%zu: '%s' does not say '%s', %s", i, err.what, f->text, code);
        nothing_left(b);
    }
    /* Both requests for the tile unit refused. */
    struct lutra_error err;
    struct box *b = begin();
    b->fail[BOX_POWER_TILES] = 3, b->fail[BOX_POWER_TILES_CLOCK] = 14;
    assert_null(open_by(npu_fastrpc_open, &small, &err));
    assert_non_null(strstr(err.what, "the power manager refused"));
    nothing_left(b);
}

static void too_little_tcm_is_refused(void **state)
{
    struct lutra_error err;
    struct box *b = begin();
    (void)state;
    b->tcm_bytes = 128 << 10;
    assert_null(open_by(npu_fastrpc_open, &small, &err));
    assert_non_null(strstr(err.what, "there is no TCM"));
    nothing_left(b);
}

static void a_stopped_dma_engine_is_told(void **state)
{
    struct lutra_error err;
    (void)state;
    for (uint32_t thread = 0; thread <= THREADS; thread += THREADS) { /* any's, the last one's */
        struct npu_op op;
        uint64_t ticket;
        struct box *b = begin();
        struct npu_transport *npu = open_npu(small);
        put_product(npu, &op, 40, 256, 512);
        b->fail_thread = thread;
        b->fail[BOX_DMA] = 1, b->fail_after[BOX_DMA] = b->call[BOX_DMA] + 1;
        int rc = LUTRA_E_INTERNAL;
        for (int i = 0; i < 2 && rc == LUTRA_E_INTERNAL; i++) { /* its last answer may come first */
            rc = npu_transport_submit(npu, &op, 1, &ticket, &err);
            if (rc == 0) rc = npu_transport_wait(npu, ticket, CLOCK_NEVER_US, &err);
        }
        if (rc != LUTRA_E_DEVICE_LOST || !strstr(err.what, "the DMA engine stopped"))
            fail_msg("a stopped engine of thread %u is not told: %d", thread, rc);
        npu_transport_close(&npu);
        nothing_left(b);
    }
}

static void a_damaged_message_ends_it(void **state)
{
    struct lutra_error err;
    struct work w;
    struct box *b = begin();
    (void)state;
    struct npu_transport *npu = open_npu(small);
    put_work(&w, npu, 1);
    struct npu_ring *ring = npu_ring_of(npu);
    ring->host.written = NPU_RING_CELLS + 7;
    for (int i = 0; i < 1000 && ring->npu.state == NPU_RING_SERVING; i++) clock_sleep_us(clock_real(), 10000);
    int rc = run_work(npu, &w, CLOCK_NEVER_US, &err);
    assert_int_equal(rc, LUTRA_E_DEVICE_LOST);
    npu_transport_close(&npu);
    nothing_left(b);
}

/* ---- calls that are not the host's ---- */

struct api {
    int (*open)(const char *uri, uint64_t *handle);
    int (*invoke)(uint64_t handle, uint32_t scalars, union npu_remote_arg *arg);
    int (*close)(uint64_t handle);
};

static const char uri[] = "file:///liblutra_npu.so?lutra_npu_skel_handle_invoke&_modver=1.0&_dom=cdsp";

static uint64_t open_handle(struct api *a)
{
    uint64_t handle = 0;
    *(void **)&a->open = dlsym(library, "remote_handle64_open");
    *(void **)&a->invoke = dlsym(library, "remote_handle64_invoke");
    *(void **)&a->close = dlsym(library, "remote_handle64_close");
    assert_int_equal(a->open(uri, &handle), 0);
    assert_true(handle != 0);
    return handle;
}

static void rings_carry_what_fields_allow(void **state)
{
    struct api a;
    struct box *b = begin();
    (void)state;
    uint64_t handle = open_handle(&a);
    int rc = a.invoke(handle, BOX_RINGS, NULL);
    if (rc) fail_msg("rings.c:%d", rc);
    assert_int_equal(b->dma_flight, 64);
    assert_true(b->dma_2d >= 5);
    assert_int_equal(a.close(handle), 0);
    nothing_left(b);
}

static void strange_calls_are_refused(void **state)
{
    struct api a;
    struct box *b = begin();
    (void)state;
    uint64_t handle = open_handle(&a);
    struct npu_serve serve = {NPU_RING_MAGIC, 100, 1 << 20, 4, {4, 9, 100, 1, 1}};
    union npu_remote_arg arg[BOX_ARGS] = {{.buffer = {&serve, sizeof serve}}};
    for (int i = 1; i < BOX_ARGS; i++) arg[i] = arg[0];
    static const uint32_t scalars[] = {0, NPU_SCALARS(0, 2, 0, 0, 0), NPU_SCALARS(0, 1, 0, 0, 1),
        NPU_SCALARS(1, 0, 0, 0, 0), NPU_SCALARS(1, 0, 0, 1, 1), NPU_SCALARS(2, 0, 0, 0, 0), NPU_SCALARS(2, 2, 0, 0, 0),
        NPU_SCALARS(2, 1, 1, 0, 0), NPU_SCALARS(2, 0, 1, 0, 0), NPU_SCALARS(2, 1, 0, 1, 0), NPU_SCALARS(2, 1, 0, 0, 1),
        NPU_SCALARS(3, 1, 0, 0, 0), NPU_SCALARS(31, 1, 0, 0, 0)};
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        int rc = a.invoke(handle, scalars[i], arg);
        if ((uint32_t)rc >> 16 != (NPU_SERVE_ERROR << 8 | NPU_SERVE_CALL)) fail_msg("scalars %#x: %#x", scalars[i], rc);
    }
    const int call = npu_serve_error(NPU_SERVE_CALL, NPU_METHOD_SERVE);
    assert_int_equal(a.invoke(handle + 4, NPU_SCALARS_SERVE, arg), call);
    assert_int_equal(a.invoke(handle, NPU_SCALARS_SERVE, NULL), call);
    for (size_t bytes = 0; bytes <= sizeof serve + 4; bytes += 4) {
        if (bytes == sizeof serve) continue;
        uint8_t more[sizeof serve + 4] = {0};
        arg[0].buffer.data = more, arg[0].buffer.bytes = bytes;
        assert_int_equal(a.invoke(handle, NPU_SCALARS_SERVE, arg), call);
    }
    arg[0].buffer.data = NULL, arg[0].buffer.bytes = sizeof serve;
    assert_int_equal(a.invoke(handle, NPU_SCALARS_SERVE, arg), call);
    assert_int_equal(b->n_power, 0); /* nothing was begun */
    assert_int_equal(a.close(handle), 0);
    nothing_left(b);
}

static void strange_arguments_are_refused(void **state)
{
    struct api a;
    struct box *b = begin();
    (void)state;
    uint64_t handle = open_handle(&a);
    const struct npu_serve good = {NPU_RING_MAGIC, 100, 1 << 20, 4, {4, 9, 100, 1, 1}};
    for (int i = 0; i < 7; i++) {
        struct npu_serve s = good;
        union npu_remote_arg arg = {.buffer = {&s, sizeof s}};
        switch (i) {
        case 0: s.magic++; break;
        case 1: s.window_bytes = NPU_RING_BYTES; break;
        case 2: s.window_bytes = 0x80000000; break;
        case 3: s.n_threads = 0; break;
        case 4: s.fd = 0xffffffff; break;
        case 5: s.power.least_corner = 10; break;
        default: s.power.most_corner = 256; break;
        }
        assert_int_equal(a.invoke(handle, NPU_SCALARS_SERVE, &arg), npu_serve_error(NPU_SERVE_CALL, 0));
    }
    assert_int_equal(b->n_power, 0);
    /* A descriptor of something else, then of memory that is no window. */
    struct npu_serve s = good;
    union npu_remote_arg arg = {.buffer = {&s, sizeof s}};
    assert_int_equal(a.invoke(handle, NPU_SCALARS_SERVE, &arg), npu_serve_error(NPU_SERVE_MAP, 0x49));
    b->fd = 100, b->window_bytes = 1 << 20, b->mapped = 1;
    assert_int_equal(a.invoke(handle, NPU_SCALARS_SERVE, &arg), npu_serve_error(NPU_SERVE_WINDOW, 0));
    b->fd = b->mapped = 0;
    /* The framework's own calls: a name that is longer than its buffer, a handle that was never given. */
    uint32_t length = 100;
    union npu_remote_arg open[3] = {{.buffer = {&length, 4}}, {.buffer = {(void *)(uintptr_t)uri, 8}}, {.handle = 0}};
    assert_int_equal(a.invoke(0, NPU_SCALARS_OPEN, open), npu_serve_error(NPU_SERVE_CALL, NPU_METHOD_OPEN));
    open[0].buffer.bytes = 3;
    assert_int_equal(a.invoke(0, NPU_SCALARS_OPEN, open), npu_serve_error(NPU_SERVE_CALL, NPU_METHOD_OPEN));
    open[0].handle = handle + 1;
    assert_int_equal(a.invoke(0, NPU_SCALARS_CLOSE, open), npu_serve_error(NPU_SERVE_CALL, NPU_METHOD_CLOSE));
    assert_int_equal(a.close(handle), 0);
    nothing_left(b);
}

/* Kernels have whole tiles, and the scales lie behind them. */
static void tcm_may_end_within_a_tile(void **state)
{
    struct lutra_error err;
    struct work w;
    struct box *b = begin();
    (void)state;
    b->tcm_bytes = (1 << 20) + 1984;
    struct npu_transport *npu = open_npu(small);
    if (npu->machine.tcm_bytes % 2048) fail_msg("kernels are given TCM that ends within a tile");
    put_work(&w, npu, 1);
    assert_int_equal(run_work(npu, &w, CLOCK_NEVER_US, &err), 0);
    npu_transport_close(&npu);
    nothing_left(b);
}

static void sessions_follow_each_other(void **state)
{
    struct box *b = begin();
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct lutra_error err;
        struct work w;
        struct npu_transport *npu = open_npu(small);
        put_work(&w, npu, (uint64_t)i);
        assert_int_equal(run_work(npu, &w, CLOCK_NEVER_US, &err), 0);
        npu_transport_close(&npu);
        nothing_left(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_carry_what_fields_allow), /* first: it says which thread waits for whom */
        cmocka_unit_test(work_comes_back),
        cmocka_unit_test(products_are_shared_by_threads),
        cmocka_unit_test(an_idle_npu_sleeps_and_serves_one_window),
        cmocka_unit_test(votes_are_placed),
        cmocka_unit_test(an_older_firmware_has_less),
        cmocka_unit_test(lines_are_written_back),
        cmocka_unit_test(a_damaged_operation_is_refused),
        cmocka_unit_test(each_failing_step_is_told),
        cmocka_unit_test(too_little_tcm_is_refused),
        cmocka_unit_test(a_stopped_dma_engine_is_told),
        cmocka_unit_test(a_damaged_message_ends_it),
        cmocka_unit_test(strange_calls_are_refused),
        cmocka_unit_test(strange_arguments_are_refused),
        cmocka_unit_test(tcm_may_end_within_a_tile),
        cmocka_unit_test(sessions_follow_each_other),
    };
    if (NPU_MISSING[0]) {
        print_message("skipped: %s\n", NPU_MISSING);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
