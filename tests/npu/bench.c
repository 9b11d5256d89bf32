/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "bench_box.h"
#include "npu/dsp/kernels.h"
#include "npu/host/tiles.h"

const char *bench_missing(void)
{
    return NPU_MISSING[0] ? NPU_MISSING : NULL;
}

int bench_skip(void)
{
    if (!bench_missing()) return 0;
    printf("skipped: %s\n", bench_missing());
    return 77;
}

static void start(struct bench *b, struct guest *g, const char *program)
{
    const char *folder = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
    snprintf(g->path, sizeof g->path, "%s/lutra-npu-XXXXXX", folder);
    int fd = mkstemp(g->path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, b->bytes), 0);
    g->box = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(g->box != MAP_FAILED);
    close(fd);
    g->bytes = b->bytes;
    g->box[BOX_BYTES] = b->bytes;
    g->pid = fork();
    assert_true(g->pid >= 0);
    if (!g->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no guest behind */
        execl(NPU_QEMU, "qemu-hexagon", program, g->path, (char *)NULL);
        _exit(127);
    }
}

void bench_open(struct bench *b, uint32_t ddr_bytes)
{
    memset(b, 0, sizeof *b);
    struct npu_sim_settings s = {.tcm_bytes = BENCH_TCM_BYTES, .ddr_bytes = ddr_bytes, .seed = 1};
    assert_int_equal(npu_sim_open(&b->sim, &s, NULL), 0);
    b->bytes = NPU_SIM_BOX_BYTES + BENCH_TCM_BYTES + ddr_bytes;
    b->machine = (struct npu_machine){NPU_SIM_BOX_BYTES, BENCH_TCM_BYTES, 0, 1, 0, 0};
}

static void stop(struct guest *g)
{
    if (!g->pid) return;
    g->box[BOX_COMMAND] = BOX_QUIT;
    __atomic_add_fetch(&g->box[BOX_ASKED], 1, __ATOMIC_RELEASE);
    waitpid(g->pid, NULL, 0);
    munmap(g->box, g->bytes);
    unlink(g->path);
    g->pid = 0;
}

void bench_close(struct bench *b)
{
    stop(&b->values);
    stop(&b->count);
    npu_sim_close(&b->sim);
}

uint32_t bench_put(struct bench *b, const void *data, uint32_t bytes)
{
    uint32_t off = npu_sim_buffer(b->sim, bytes);
    assert_true(off != 0);
    if (data) memcpy(npu_sim_host(b->sim, off), data, bytes);
    npu_sim_host_wrote(b->sim, off, bytes);
    return off;
}

static void ask(struct bench *b, struct guest *g, uint32_t command, const struct npu_op *op)
{
    struct npu_tile_acc *acc = calloc(1, sizeof *acc);
    int status;
    uint32_t polls = 0;
    assert_non_null(acc);
    memcpy(g->box + BOX_MACHINE, &b->machine, sizeof b->machine);
    memcpy(g->box + BOX_OP, op, sizeof *op);
    g->box[BOX_COMMAND] = command;
    uint32_t asked = __atomic_add_fetch(&g->box[BOX_ASKED], 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&g->box[BOX_ANSWERED], __ATOMIC_ACQUIRE) != asked) {
        int played = npu_tiles_play(acc, &b->machine, (uint8_t *)g->box);
        assert_true(played >= 0);
        if (!played && ++polls % 1024 == 0 && !sched_yield() && waitpid(g->pid, &status, WNOHANG) == g->pid) {
            g->pid = 0;
            unlink(g->path);
            fail_msg("the Hexagon program ended: %s %d", WIFSIGNALED(status) ? "signal" : "exit",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
    unlink(g->path); /* the guest has it open: nothing stays behind when a test fails */
    free(acc);
    memcpy(&b->machine, g->box + BOX_MACHINE, sizeof b->machine);
    b->packets = g->box[BOX_PACKETS], b->hvx = g->box[BOX_HVX];
}

static uint32_t memory_start(void)
{
    return NPU_SIM_BOX_BYTES + BENCH_TCM_BYTES;
}

/* The host's view of shared memory before an operation, to a guest. */
static void copy_memory(struct bench *b, struct guest *g)
{
    uint32_t from = memory_start();
    memcpy((uint8_t *)g->box + from, npu_sim_host(b->sim, from), b->bytes - from);
}

/* Returns whether there was something that threads share. */
static int run_sim(struct bench *b, const struct npu_op *op, uint32_t n_threads, uint32_t out, uint32_t bytes)
{
    size_t n;
    struct npu_machine machine = b->machine;
    struct npu_sim_span span;
    struct npu_sim_watch watch = {&span, 0, 1};
    machine.n_threads = n_threads;
    npu_sim_set_watch(b->sim, &watch);
    assert_int_equal(npu_execute(npu_sim_isa(b->sim), &machine, op), NPU_OK);
    npu_sim_set_watch(b->sim, NULL);
    npu_sim_host_reads(b->sim, out, bytes);
    b->machine.tables_m = machine.tables_m, b->machine.tables_k = machine.tables_k;
    npu_sim_end(b->sim, npu_tcm_keeps(&b->machine));
    const struct npu_sim_fault *f = npu_sim_faults(b->sim, &n);
    if (n)
        fail_msg("%s in %s line %d, offset %#x, %u threads: %s", npu_sim_fault_name(f->kind), f->kernel, f->line,
            f->offset, n_threads, npu_sim_fault_text(f->kind));
    return watch.n > 0;
}

static uint8_t *copy_of(const void *p, uint32_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    assert_non_null(copy);
    return memcpy(copy, p, bytes);
}

void bench_sim(struct bench *b, const struct npu_op *op, uint32_t out, uint32_t bytes)
{
    uint8_t *at = npu_sim_host(b->sim, out), *before = copy_of(at, bytes);
    if (run_sim(b, op, b->n_threads ? b->n_threads : 4, out, bytes) && !b->n_threads) {
        uint8_t *four = copy_of(at, bytes);
        memcpy(at, before, bytes);
        npu_sim_host_wrote(b->sim, out, bytes);
        run_sim(b, op, 1, out, bytes);
        for (uint32_t i = 0; i < bytes; i++)
            if (at[i] != four[i]) fail_msg("1 thread and 4 differ at byte %u: %02x %02x", i, at[i], four[i]);
        free(four);
    }
    free(before);
}

void bench_run(struct bench *b, const struct npu_op *op, uint32_t out, uint32_t bytes)
{
    if (!bench_missing()) {
        if (!b->values.pid) start(b, &b->values, NPU_GUEST_VALUES);
        copy_memory(b, &b->values);
        ask(b, &b->values, BOX_EXECUTE, op);
        assert_int_equal(b->values.box[BOX_STATUS], NPU_OK);
    }
    bench_sim(b, op, out, bytes);
    if (bench_missing()) return;
    const uint8_t *x = npu_sim_host(b->sim, out), *y = (const uint8_t *)b->values.box + out;
    for (uint32_t i = 0; i < bytes; i++)
        if (x[i] != y[i]) fail_msg("emulator and Hexagon binary differ at byte %u: %02x %02x", i, x[i], y[i]);
}

void bench_isa_ops(struct bench *b, uint32_t dst, uint32_t src)
{
    struct npu_op op = {.dst = dst, .src = src};
    if (!b->values.pid) start(b, &b->values, NPU_GUEST_VALUES);
    copy_memory(b, &b->values);
    ask(b, &b->values, BOX_ISA_OPS, &op);
}

uint32_t bench_count(struct bench *b, const struct npu_op *op)
{
    if (!b->count.pid) start(b, &b->count, NPU_GUEST_COUNT);
    if (op->rows) copy_memory(b, &b->count); /* addresses in memory steer it; elsewhere its bytes do not matter */
    ask(b, &b->count, BOX_EXECUTE, op);
    assert_int_equal(b->count.box[BOX_STATUS], NPU_OK);
    return b->packets;
}
