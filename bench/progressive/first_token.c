/* SPDX-License-Identifier: MIT
 *
 * lutra-bench-progressive -m MODEL [-p TOKENS] [-n TOKENS] [-r ROUNDS] [-t THREADS] [-w] MB/s...: how soon
 * `--progressive` says its first token when a disk reads so slowly, against the longer of loading alone and of the
 * prompt alone.
 *
 *     load      the file is read at that rate and packed, and nothing is evaluated
 *     prefill   the prompt, with all weights in place
 *     first     from opening the model to the first token, reading at that rate
 *
 * The three take turns; medians of ROUNDS, the quotient of each round's own three, and whether the text is that of the
 * loaded model.  The disk is this program's madvise(), through which the reader (weights/reader.h) takes its pages: it
 * sleeps until the rate allows what was read.  Have the file in the page cache.  Measured.
 *
 * -w: large pieces of memory come out of what the program has touched before, and are zeroed again.  That is what
 * memory costs on a machine that has it; a virtual machine may give free memory back to its host, and pays for each
 * page again.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine/model.h"
#include "../median.h"
#include "lutra.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

enum { TOKENS_MOST = 4096, ROUNDS_MOST = 99 };
enum { LOAD, PREFILL, FIRST, KINDS }; /* what is timed */

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Of all threads. */
static uint64_t processor_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- the disk ---- */

static struct {
    double bytes_per_us; /* 0: as fast as it is */
    double free_us;      /* what was asked for is read then */
} disk;

int madvise(void *at, size_t n, int advice)
{
    int rc = (int)syscall(SYS_madvise, at, n, advice);
    if (rc || advice != MADV_POPULATE_READ || disk.bytes_per_us <= 0) return rc;
    disk.free_us += (double)n / disk.bytes_per_us;
    struct timespec until = {
        (time_t)(disk.free_us / 1e6), (long)(1e3 * (disk.free_us - 1e6 * (double)(time_t)(disk.free_us / 1e6)))};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
    return 0;
}

static void disk_begins(double mbs)
{
    disk.bytes_per_us = mbs;
    disk.free_us = (double)now_us();
}

/* ---- memory that is there ---- */

enum { HUGE_PAGE = 2 << 20, PIECE = 32 << 20, PIECES = 256 };

static struct {
    char *start; /* NULL: memory is the system's */
    size_t bytes;
    int n;
    struct piece {
        size_t from, end;
    } piece[PIECES]; /* [n] that are taken, ascending */
} memory;

/* The first gap of n bytes. */
static char *take(size_t n)
{
    size_t from = 0;
    int i = 0;
    if (memory.n == PIECES) return NULL;
    for (; i < memory.n && memory.piece[i].from - from < n; i++)
        from = (memory.piece[i].end + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (from > memory.bytes || memory.bytes - from < n) return NULL;
    memmove(&memory.piece[i + 1], &memory.piece[i], (size_t)(memory.n++ - i) * sizeof *memory.piece);
    memory.piece[i] = (struct piece){from, from + n};
    return memset(memory.start + from, 0, n);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    void *out = memory.start && flags & MAP_ANONYMOUS && n >= PIECE ? take(n) : NULL;
    return out ? out : (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

/* A piece, or its end. */
int munmap(void *at, size_t n)
{
    const size_t from = (size_t)((uintptr_t)at - (uintptr_t)memory.start);
    if (!memory.start || from >= memory.bytes) return (int)syscall(SYS_munmap, at, n);
    int i = 0;
    while (i < memory.n - 1 && memory.piece[i].end <= from) i++;
    memory.piece[i].end = from;
    if (memory.piece[i].from == from)
        memmove(&memory.piece[i], &memory.piece[i + 1], (size_t)(--memory.n - i) * sizeof *memory.piece);
    return 0;
}

static void hold_memory(size_t n)
{
    n = n / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE;
    char *p = mmap(NULL, n + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    p += (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    syscall(SYS_madvise, p, n, MADV_HUGEPAGE);
    memset(p, 1, n);
    memory.start = p, memory.bytes = n;
}

/* ---- what is timed ---- */

static struct bench {
    const char *path;
    int n_prompt, n_said, n_thread;
    int32_t prompt[TOKENS_MOST];
    lutra_runtime *early, *whole; /* reads progressively, or not */
    lutra_model *model;           /* of `whole` */
    struct lutra_error err;
} bench = {.n_prompt = 512, .n_said = 16};

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, bench.err.what);
    exit(1);
}

#define OK(call) ((call) < 0 ? fail(#call) : (void)0)

struct said {
    int32_t token[TOKENS_MOST];
    int n;
    uint64_t first_us, processor_us; /* of the first token */
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct said *s = user;
    if (p->token < 0) return 0;
    if (s->n == 0) s->first_us = now_us(), s->processor_us = processor_us();
    s->token[s->n++] = p->token;
    return 0;
}

static lutra_runtime *open_runtime(bool progressive)
{
    lutra_runtime *rt;
    struct lutra_runtime_settings set;
    lutra_runtime_settings_init(&set, sizeof set);
    set.progressive = progressive, set.n_threads = bench.n_thread;
    OK(lutra_runtime_open(&rt, &set, &bench.err));
    return rt;
}

static lutra_session *open_session(lutra_model *m)
{
    lutra_session *s;
    struct lutra_session_settings set;
    lutra_session_settings_init(&set, sizeof set);
    set.n_ctx = bench.n_prompt + bench.n_said;
    OK(lutra_session_open(&s, m, &set, &bench.err));
    return s;
}

/* A time and what it took of the processors. */
struct cost {
    double us, processor_us;
};

static struct cost since(uint64_t from, uint64_t processor_from)
{
    return (struct cost){(double)(now_us() - from), (double)(processor_us() - processor_from)};
}

/* Costs until the first token, since `from`; NULL: since the request. */
static struct cost say(lutra_model *m, const uint64_t *from, struct said *said)
{
    struct lutra_request r;
    lutra_session *s = open_session(m);
    said->n = 0;
    lutra_request_init(&r, sizeof r);
    r.prompt = bench.prompt, r.n_prompt = (size_t)bench.n_prompt, r.max_tokens = bench.n_said, r.ignore_end = true;
    r.on_text = on_text, r.user = said;
    const uint64_t now[2] = {now_us(), processor_us()};
    if (!from) from = now;
    OK(lutra_generate(s, &r, &bench.err));
    lutra_session_close(&s);
    return (struct cost){(double)(said->first_us - from[0]), (double)(said->processor_us - from[1])};
}

static struct cost load(double mbs)
{
    lutra_model *m;
    disk_begins(mbs);
    const uint64_t from = now_us(), processor_from = processor_us();
    OK(lutra_model_open(&m, bench.early, bench.path, NULL, &bench.err));
    turn_take(&bench.early->turn, TURN_ALL);
    OK(model_read_rest(m, &bench.err));
    turn_give(&bench.early->turn, TURN_ALL);
    const struct cost c = since(from, processor_from);
    lutra_model_close(&m);
    return c;
}

static struct cost first(double mbs, struct said *said)
{
    lutra_model *m;
    disk_begins(mbs);
    const uint64_t from[2] = {now_us(), processor_us()};
    OK(lutra_model_open(&m, bench.early, bench.path, NULL, &bench.err));
    const struct cost c = say(m, from, said);
    lutra_model_close(&m);
    return c;
}

/* ---- figures ---- */

static bool run(double mbs, int rounds)
{
    static struct said whole, early;
    double time[KINDS][ROUNDS_MOST], processor[KINDS][ROUNDS_MOST], over[ROUNDS_MOST];
    bool same = true;
    for (int i = 0; i < rounds; i++) {
        struct cost c[KINDS];
        c[LOAD] = load(mbs);
        c[PREFILL] = say(bench.model, NULL, &whole);
        c[FIRST] = first(mbs, &early);
        for (int k = 0; k < KINDS; k++) time[k][i] = c[k].us, processor[k][i] = c[k].processor_us;
        over[i] = c[FIRST].us / (c[LOAD].us > c[PREFILL].us ? c[LOAD].us : c[PREFILL].us);
        same &= early.n == whole.n && memcmp(early.token, whole.token, (size_t)whole.n * sizeof *whole.token) == 0;
    }
    const double l = median(time[LOAD], rounds), p = median(time[PREFILL], rounds), f = median(time[FIRST], rounds);
    printf("%7.0f MB/s: load %6.0f ms, prefill %6.0f ms, first token %6.0f ms: %.3f of the longer, %.3f of the sum; "
           "rounds %.3f to %.3f; %s text\n",
        mbs, l / 1e3, p / 1e3, f / 1e3, median(over, rounds), f / (l + p), over[0], over[rounds - 1],
        same ? "the same" : "ANOTHER");
    printf("             processors: load %6.0f ms, prefill %6.0f ms, first token %6.0f ms\n",
        median(processor[LOAD], rounds) / 1e3, median(processor[PREFILL], rounds) / 1e3,
        median(processor[FIRST], rounds) / 1e3);
    fflush(stdout);
    return same;
}

int main(int argc, char **argv)
{
    int opt, rounds = 5;
    bool held = false;
    struct stat file;
    while ((opt = getopt(argc, argv, "m:p:n:r:t:w")) != -1) {
        if (opt == 'm') bench.path = optarg;
        if (opt == 'p') bench.n_prompt = atoi(optarg);
        if (opt == 'n') bench.n_said = atoi(optarg);
        if (opt == 'r') rounds = atoi(optarg);
        if (opt == 't') bench.n_thread = atoi(optarg);
        if (opt == 'w') held = true;
        if (opt == '?') return 2;
    }
    if (!bench.path || optind == argc || bench.n_prompt < 1 || bench.n_said < 1 || rounds < 1 || rounds > ROUNDS_MOST ||
        bench.n_prompt > TOKENS_MOST || bench.n_said > TOKENS_MOST) {
        fprintf(stderr, "usage: %s -m MODEL [-p TOKENS] [-n TOKENS] [-r ROUNDS] [-t THREADS] [-w] MB/s...\n", argv[0]);
        return 2;
    }
    bench.early = open_runtime(true), bench.whole = open_runtime(false);
    OK(lutra_model_open(&bench.model, bench.whole, bench.path, NULL, &bench.err));
    struct lutra_model_info info;
    lutra_model_info_get(bench.model, &info, sizeof info);
    for (int i = 0; i < bench.n_prompt; i++) bench.prompt[i] = (int32_t)((i * 7919 + 13) % (info.n_vocab - 1000));
    if (held && stat(bench.path, &file) == 0) hold_memory((size_t)file.st_size * 2);
    bool same = true;
    for (int i = optind; i < argc; i++) same &= run(atof(argv[i]), rounds);
    lutra_model_close(&bench.model);
    lutra_runtime_close(&bench.early);
    lutra_runtime_close(&bench.whole);
    return !same;
}
