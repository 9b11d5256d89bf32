/* SPDX-License-Identifier: MIT
 *
 * lutra-bench-progressive -m MODEL [-p TOKENS] [-n TOKENS] [-r ROUNDS] [-t THREADS] MB/s...: how soon `--progressive`
 * says its first token when a disk reads so slowly, against the longer of loading alone and of the prompt alone.
 *
 *     load      the file is read at that rate and packed, and nothing is evaluated
 *     prefill   the prompt, with all weights in place
 *     first     from opening the model to the first token, reading at that rate
 *
 * The three take turns; medians of ROUNDS, the quotient of each round's own three, and whether the text is that of the
 * loaded model.  The disk is this program's madvise(), through which the reader (weights/reader.h) takes its pages: it
 * sleeps until the rate allows what was read.  Have the file in the page cache.  Measured.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
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
    uint64_t first_us;
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct said *s = user;
    if (p->token < 0) return 0;
    if (s->n == 0) s->first_us = now_us();
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

/* Returns us from `from_us` to the first token. */
static double say(lutra_model *m, uint64_t from_us, struct said *said)
{
    struct lutra_request r;
    lutra_session *s = open_session(m);
    said->n = 0;
    lutra_request_init(&r, sizeof r);
    r.prompt = bench.prompt, r.n_prompt = (size_t)bench.n_prompt, r.max_tokens = bench.n_said, r.ignore_end = true;
    r.on_text = on_text, r.user = said;
    if (!from_us) from_us = now_us();
    OK(lutra_generate(s, &r, &bench.err));
    lutra_session_close(&s);
    return (double)(said->first_us - from_us);
}

static double load_us(double mbs)
{
    lutra_model *m;
    disk_begins(mbs);
    const uint64_t from = now_us();
    OK(lutra_model_open(&m, bench.early, bench.path, NULL, &bench.err));
    turn_take(&bench.early->turn, TURN_ALL);
    OK(model_read_rest(m, &bench.err));
    turn_give(&bench.early->turn, TURN_ALL);
    const double us = (double)(now_us() - from);
    lutra_model_close(&m);
    return us;
}

static double first_us(double mbs, struct said *said)
{
    lutra_model *m;
    disk_begins(mbs);
    const uint64_t from = now_us();
    OK(lutra_model_open(&m, bench.early, bench.path, NULL, &bench.err));
    const double us = say(m, from, said);
    lutra_model_close(&m);
    return us;
}

/* ---- figures ---- */

static bool run(double mbs, int rounds)
{
    static struct said whole, early;
    double load[ROUNDS_MOST], prefill[ROUNDS_MOST], first[ROUNDS_MOST], over[ROUNDS_MOST];
    bool same = true;
    for (int i = 0; i < rounds; i++) {
        load[i] = load_us(mbs);
        prefill[i] = say(bench.model, 0, &whole);
        first[i] = first_us(mbs, &early);
        over[i] = first[i] / (load[i] > prefill[i] ? load[i] : prefill[i]);
        same &= early.n == whole.n && memcmp(early.token, whole.token, (size_t)whole.n * sizeof *whole.token) == 0;
    }
    const double l = median(load, rounds), p = median(prefill, rounds), f = median(first, rounds);
    printf("%7.0f MB/s: load %6.0f ms, prefill %6.0f ms, first token %6.0f ms: %.3f of the longer, %.3f of the sum; "
           "rounds %.3f to %.3f; %s text\n",
        mbs, l / 1e3, p / 1e3, f / 1e3, median(over, rounds), f / (l + p), over[0], over[rounds - 1],
        same ? "the same" : "ANOTHER");
    fflush(stdout);
    return same;
}

int main(int argc, char **argv)
{
    int opt, rounds = 5;
    while ((opt = getopt(argc, argv, "m:p:n:r:t:")) != -1) {
        if (opt == 'm') bench.path = optarg;
        if (opt == 'p') bench.n_prompt = atoi(optarg);
        if (opt == 'n') bench.n_said = atoi(optarg);
        if (opt == 'r') rounds = atoi(optarg);
        if (opt == 't') bench.n_thread = atoi(optarg);
        if (opt == '?') return 2;
    }
    if (!bench.path || optind == argc || bench.n_prompt < 1 || bench.n_said < 1 || rounds < 1 || rounds > ROUNDS_MOST ||
        bench.n_prompt > TOKENS_MOST || bench.n_said > TOKENS_MOST) {
        fprintf(stderr, "usage: %s -m MODEL [-p TOKENS] [-n TOKENS] [-r ROUNDS] [-t THREADS] MB/s...\n", argv[0]);
        return 2;
    }
    bench.early = open_runtime(true), bench.whole = open_runtime(false);
    OK(lutra_model_open(&bench.model, bench.whole, bench.path, NULL, &bench.err));
    struct lutra_model_info info;
    lutra_model_info_get(bench.model, &info, sizeof info);
    for (int i = 0; i < bench.n_prompt; i++) bench.prompt[i] = (int32_t)((i * 7919 + 13) % (info.n_vocab - 1000));
    bool same = true;
    for (int i = optind; i < argc; i++) same &= run(atof(argv[i]), rounds);
    lutra_model_close(&bench.model);
    lutra_runtime_close(&bench.early);
    lutra_runtime_close(&bench.whole);
    return !same;
}
