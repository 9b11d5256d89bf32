/* SPDX-License-Identifier: MIT
 *
 * checkkern's front door: options, levels, canaries, faults.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cpuinfo.h"
#include "checkkern.h"

static sigjmp_buf on_fault;
static volatile sig_atomic_t armed;

double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t random_u64(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double random_unit(uint64_t *state)
{
    return (double)(random_u64(state) >> 11) * 0x1p-53;
}

float random_normal(uint64_t *state)
{
    const double deviation = 37836.8; /* of the sum of four uniform numbers 0 .. 65535 */
    uint64_t z = random_u64(state);
    int sum = 0;
    for (int i = 0; i < 4; i++, z >>= 16) sum += (int)(z & 0xffff);
    return (float)((sum - 2 * 0xffff) / deviation);
}

/* [ canary | data | to 64 bytes | no access ] */
struct guarded guard(size_t bytes, int fill)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + 63) / 64 * 64;
    const size_t whole = (room + CANARY_BYTES + page - 1) / page * page;
    struct guarded g = {.bytes = bytes, .room = room, .mapped = whole + page};
    g.base = mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.base == MAP_FAILED || mprotect(g.base + whole, page, PROT_NONE)) {
        fprintf(stderr, "checkkern: out of memory\n");
        exit(2);
    }
    if (whole > (4u << 20)) madvise(g.base, whole, MADV_HUGEPAGE); /* as the device's arenas ask for */
    g.data = g.base + whole - room;
    memset(g.data - CANARY_BYTES, 0xc5, CANARY_BYTES);
    memset(g.data, fill, bytes);
    memset(g.data + bytes, 0xc5, room - bytes);
    return g;
}

bool unguard(struct guarded *g)
{
    bool whole = true;
    for (size_t i = 1; i <= CANARY_BYTES; i++) whole &= *(g->data - i) == 0xc5;
    for (size_t i = g->bytes; i < g->room; i++) whole &= g->data[i] == 0xc5;
    munmap(g->base, g->mapped);
    g->base = NULL;
    return whole;
}

void expect(struct tally *t, const char *kernel, bool ok, const char *fmt, ...)
{
    t->checks++;
    if (ok) return;
    t->failed++;
    va_list args;
    va_start(args, fmt);
    printf("FAIL %s: ", kernel);
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
}

static void fault(int number)
{
    if (armed) siglongjmp(on_fault, number);
    signal(number, SIG_DFL);
    raise(number);
}

bool survive(struct tally *t, const char *kernel, void (*fn)(void *arg), void *arg)
{
    int number = sigsetjmp(on_fault, 1);
    if (number == 0) {
        armed = 1;
        fn(arg);
        armed = 0;
        return true;
    }
    armed = 0;
    expect(t, kernel, false, "%s", strsignal(number));
    return false;
}

static bool parse(int n, char **arg, struct options *o)
{
    for (int i = 1; i < n; i++) {
        if (strncmp(arg[i], "--seed=", 7) == 0) {
            o->seed = strtoull(arg[i] + 7, NULL, 0);
        } else if (strncmp(arg[i], "--only=", 7) == 0) {
            o->only = arg[i] + 7;
        } else if (strncmp(arg[i], "--threads=", 10) == 0) {
            o->threads = atoi(arg[i] + 10);
        } else if (strcmp(arg[i], "--bench") == 0) {
            o->bench = true;
        } else if (strcmp(arg[i], "--quick") == 0) {
            o->quick = true;
        } else if (strcmp(arg[i], "--json") == 0) {
            o->json = true;
        } else if (strcmp(arg[i], "--digest") == 0) {
            o->digest = true;
        } else {
            fprintf(stderr, "checkkern: option '%s' is not known\n", arg[i]);
            return false;
        }
    }
    return o->threads >= 1;
}

struct gemm_job {
    struct tally *tally;
    const struct cpu_gemm *gemm, *lower;
    const struct options *options;
};

static void check_one_gemm(void *arg)
{
    struct gemm_job *j = arg;
    check_gemm(j->tally, j->gemm, j->lower, j->options);
}

static void check_one_gemm_bulk(void *arg)
{
    struct gemm_job *j = arg;
    check_gemm_bulk(j->tally, j->gemm, j->lower, j->options);
}

static void check_level(
    struct tally *t, const struct cpu_kernels *k, const struct cpu_kernels *lower, const struct options *o)
{
    for (int i = 0; i < QUANT_TYPE_END; i++) {
        struct gemm_job job = {t, &k->gemm[i], &lower->gemm[i], o};
        if (!k->gemm[i].run || k->gemm[i].run == lower->gemm[i].run) continue;
        if (o->only && !strstr(k->gemm[i].name, o->only)) continue;
        t->kernels++;
        survive(t, k->gemm[i].name, check_one_gemm, &job);
    }
    for (int i = 0; i < QUANT_TYPE_END; i++) {
        struct gemm_job job = {t, &k->bulk[i], &k->gemm[i], o};
        if (!k->bulk[i].run || k->bulk[i].run == lower->bulk[i].run) continue;
        if (o->only && !strstr(k->bulk[i].name, o->only)) continue;
        t->kernels++;
        survive(t, k->bulk[i].name, check_one_gemm_bulk, &job);
    }
    check_small(t, k, lower, o);
    check_attention(t, k, lower, o);
}

int main(int n, char **arg)
{
    struct options o = {.seed = 1, .threads = 1};
    struct tally t = {0};
    if (!parse(n, arg, &o)) return 2;
    signal(SIGILL, fault);
    signal(SIGSEGV, fault);
    signal(SIGBUS, fault);
    signal(SIGFPE, fault);
    uint32_t isa = 0, have = cpu_isa();
    struct cpu_kernels lower, level;
    if (o.digest) {
        cpu_kernels_init(&level, have);
        print_digests(&level);
        return 0;
    }
    cpu_kernels_init(&lower, 0);
    for (uint32_t bit = 1; bit <= CPU_ISA_ALL; bit <<= 1) {
        if (!(have & bit)) continue;
        isa |= bit;
        cpu_kernels_init(&level, isa);
        if (o.bench) {
            bench_gemm(&level, &lower, &o);
            bench_attention(&level, &lower, &o);
        } else {
            check_level(&t, &level, &lower, &o);
        }
        lower = level;
    }
    if (o.bench) return 0;
    printf("checkkern: %d kernels, %d checks, %d failed (seed %llu, highest level %s)\n", t.kernels, t.checks, t.failed,
        (unsigned long long)o.seed, lower.name);
    return t.failed ? 1 : 0;
}
