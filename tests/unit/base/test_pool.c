/* SPDX-License-Identifier: MIT
 *
 * base/pool: each thread once, barriers that really separate, runs that take turns, more threads than processors, teams
 * that change, a busy machine, crashes that are reported.
 * Run under ThreadSanitizer too (scripts/test): the shared arrays below are plain memory on purpose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpuinfo.h"
#include "base/pool.h"

enum { MAX = 64 };

static struct pool *start(int n_thread, bool pin, int spin_us)
{
    struct pool *pool;
    struct lutra_error err;
    struct pool_settings settings = {.n_thread = n_thread, .pin = pin, .spin_us = spin_us, .all = true};
    assert_int_equal(pool_open(&pool, &settings, &err), LUTRA_OK);
    assert_non_null(pool);
    return pool;
}

struct count {
    int by[MAX]; /* written by its own thread only */
    int nth;
};

static void count_one(void *arg, int ith, int nth)
{
    struct count *c = arg;
    c->by[ith]++;
    if (ith == 0) c->nth = nth;
}

static void test_each_thread_once(void **state)
{
    static const int size[] = {1, 2, 3, 8, 33};
    (void)state;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct count c = {0};
        struct pool *pool = start(size[i], false, 0);
        assert_int_equal(pool_size(pool), size[i]);
        for (int run = 0; run < 200; run++) pool_run(pool, count_one, &c);
        assert_int_equal(c.nth, size[i]);
        for (int t = 0; t < MAX; t++) assert_int_equal(c.by[t], t < size[i] ? 200 : 0);
        pool_close(&pool);
        assert_null(pool);
    }
}

struct relay {
    struct pool *pool;
    int value[MAX]; /* plain: the barrier must order it */
    int n_wrong[MAX];
};

/* Between two barriers everyone writes its own slot; after each everyone reads a neighbour's. */
static void pass_on(void *arg, int ith, int nth)
{
    struct relay *r = arg;
    for (int round = 1; round <= 300; round++) {
        r->value[ith] = round;
        pool_barrier(r->pool);
        for (int t = 0; t < nth; t++) r->n_wrong[ith] += r->value[t] != round;
        pool_barrier(r->pool);
    }
}

static void test_barrier(void **state)
{
    static const int size[] = {1, 2, 7};
    (void)state;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct relay r = {.pool = start(size[i], false, 0)};
        for (int run = 0; run < 3; run++) pool_run(r.pool, pass_on, &r);
        for (int t = 0; t < MAX; t++) assert_int_equal(r.n_wrong[t], 0);
        pool_close(&r.pool);
    }
}

/* Workers must wake from their sleep, not only from their spin. */
static void test_sleeping_workers_wake(void **state)
{
    struct count c = {0};
    struct pool *pool = start(4, false, 1);
    (void)state;
    for (int run = 0; run < 20; run++) {
        pool_run(pool, count_one, &c);
        clock_sleep_us(clock_real(), 3000);
    }
    for (int t = 0; t < 4; t++) assert_int_equal(c.by[t], 20);
    pool_close(&pool);
}

/* How often the threads other than this one have gone to sleep, -1: nobody says (TSan has a thread of its own). */
static long n_slept(void)
{
#ifdef __SANITIZE_THREAD__
    return -1;
#endif
    DIR *dir = opendir("/proc/self/task");
    long sum = dir ? 0 : -1;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[300], line[200];
        if (e->d_name[0] == '.' || atoi(e->d_name) == getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f)) {
            long n;
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1) sum += n;
        }
        if (f) fclose(f);
    }
    if (dir) closedir(dir);
    return sum;
}

/* Who sleeps is left alone by pool_run_awake, however often, and is there again when pool_run asks. */
static void test_sleepers_are_left_alone(void **state)
{
    struct count c = {0};
    struct pool *pool;
    struct lutra_error err;
    struct pool_settings settings = {.spin_us = 50};
    (void)state;
    assert_int_equal(pool_open(&pool, &settings, &err), LUTRA_OK);
    long before = 0, now = -2;
    for (int i = 0; before != now || (now >= 0 && now < pool_size(pool) - 1);
         i++) { /* a worker without a processor is not yet asleep */
        assert_in_range(i, 0, 1000);
        before = n_slept();
        clock_sleep_us(clock_real(), 100000);
        now = n_slept();
    }
    for (int i = 0; i < 40; i++) {
        pool_run_awake(pool, count_one, &c);
        assert_int_equal(c.nth, 1);
        clock_sleep_us(clock_real(), 1000);
    }
    assert_int_equal(n_slept(), now);
    for (uint64_t start = clock_now_us(clock_real()); c.nth < pool_size(pool);) { /* on a busy machine not at once */
        assert_in_range(clock_now_us(clock_real()) - start, 0, 120000000);
        pool_run(pool, count_one, &c);
    }
    pool_close(&pool);
}

static void slow_last(void *arg, int ith, int nth)
{
    if (ith == nth - 1) {
        clock_sleep_us(clock_real(), 5000);
        ((int *)arg)[0]++;
    }
}

/* The caller must sleep past its spin and still see the slowest worker's result. */
static void test_caller_waits_for_slow_worker(void **state)
{
    int n_done = 0;
    struct pool *pool = start(3, false, 1);
    (void)state;
    for (int run = 1; run <= 10; run++) {
        pool_run(pool, slow_last, &n_done);
        assert_int_equal(n_done, run);
    }
    pool_close(&pool);
}

static void add_plain(void *arg, int ith, int nth)
{
    (void)nth;
    if (ith == 0) (*(int *)arg)++; /* plain: only serialised runs get this right */
}

struct caller {
    struct pool *pool;
    int *total;
};

static void *call_often(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < 300; i++) pool_run(c->pool, add_plain, c->total);
    return NULL;
}

static void test_runs_take_turns(void **state)
{
    int total = 0;
    pthread_t thread[3];
    struct caller c = {.pool = start(2, false, 0), .total = &total};
    (void)state;
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, call_often, &c), 0);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    assert_int_equal(total, 900);
    pool_close(&c.pool);
}

static void note_cpus(void *arg, int ith, int nth)
{
    cpu_set_t set;
    (void)nth;
    if (sched_getaffinity(0, sizeof set, &set) == 0) ((int *)arg)[ith] = CPU_COUNT(&set);
}

static void test_pinning(void **state)
{
    int n_cpu[MAX] = {0};
    int n_allowed = cpu_allowed(NULL, 0);
    struct pool *pool = start(3, true, 0);
    (void)state;
    pool_run(pool, note_cpus, n_cpu);
    assert_int_equal(n_cpu[0], n_allowed); /* the caller is left alone */
    assert_int_equal(n_cpu[1], 1);
    assert_int_equal(n_cpu[2], 1);
    pool_close(&pool);
}

/* ---- teams that change ---- */

enum { N_CELL = 64, N_ROUND = 60 };

struct shares {
    struct pool *pool;
    int cell[N_CELL]; /* plain: one owner per round */
    atomic_int n_left, n_entered;
};

/* Every round each cell is raised by the one who owns it then.  The caller is late in some: others leave. */
static void raise_cells(void *arg, int ith, int nth)
{
    struct shares *s = arg;
    int round = pool_entry(s->pool, ith);
    if (round > 0) atomic_fetch_add(&s->n_entered, 1);
    while (round < N_ROUND) {
        if (ith == 0 && round % 3 == 1) clock_sleep_us(clock_real(), 1000);
        for (int c = N_CELL * ith / nth; c < N_CELL * (ith + 1) / nth; c++) s->cell[c]++;
        if (round % 4 == 2) pool_barrier(s->pool);
        if (!pool_regroup(s->pool, &ith, &nth, ++round)) {
            atomic_fetch_add(&s->n_left, 1);
            return;
        }
    }
}

static void test_shares_of_teams_that_change(void **state)
{
    enum { N_RUN = 8 };
    struct shares s = {0};
    (void)state;
    for (int all = 0; all < 2; all++) {
        struct pool_settings settings = {.n_thread = all ? 3 : 0, .spin_us = 100, .all = all};
        memset(s.cell, 0, sizeof s.cell);
        assert_int_equal(pool_open(&s.pool, &settings, NULL), 0);
        for (int run = 0; run < N_RUN; run++) pool_run(s.pool, raise_cells, &s);
        for (int c = 0; c < N_CELL; c++) assert_int_equal(s.cell[c], N_RUN * N_ROUND);
        pool_close(&s.pool);
        print_message("%d left, %d entered\n", atomic_load(&s.n_left), atomic_load(&s.n_entered));
        if (all) assert_int_equal(atomic_load(&s.n_left), 0);
        atomic_store(&s.n_left, 0);
        atomic_store(&s.n_entered, 0);
    }
}

/* ---- a busy machine ---- */

enum { N_BUSY = 8, WORK_US = 40, N_MEET = 10, N_STEP = 400 };

/* Work, shared out, with a barrier after each bit of it. */
static void meet_often(void *arg, int ith, int nth)
{
    (void)ith;
    for (int i = 0; i < N_MEET; i++) {
        for (volatile int k = 0; k < WORK_US * 100 / nth; k++) continue;
        pool_barrier(*(struct pool **)arg);
    }
}

static double seconds_of(int n_thread)
{
    struct pool *pool;
    struct pool_settings settings = {.n_thread = n_thread};
    assert_int_equal(pool_open(&pool, &settings, NULL), 0);
    uint64_t start_us = clock_now_us(clock_real());
    for (int i = 0; i < N_STEP; i++) pool_run_measured(pool, meet_often, &pool, 0, 1);
    uint64_t us = clock_now_us(clock_real()) - start_us;
    pool_close(&pool);
    return (double)us * 1e-6;
}

/* Beside others all threads take about as long as one.  The bound is wide, since who runs when is the system's to say,
 * and one thread may be done before its first turn ends; 1000 that spin for one another took 76 s. */
static void test_busy_machine(void **state)
{
    pid_t child[N_BUSY];
    (void)state;
    for (int i = 0; i < N_BUSY; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        while (child[i] == 0) continue;
    }
    double one = seconds_of(1), all = seconds_of(0), too_many = seconds_of(1000);
    for (int i = 0; i < N_BUSY; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
    print_message(
        "beside %d others: one thread %.2f s, default %.2f s, 1000 asked for %.2f s\n", N_BUSY, one, all, too_many);
    assert_true(all < 5 * one + 1);
    assert_true(too_many < 5 * one + 1);
}

/* ---- signals ---- */

static const int own_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};

static void note_mask(void *arg, int ith, int nth)
{
    (void)nth;
    if (ith == 1) pthread_sigmask(SIG_SETMASK, NULL, arg);
}

/* A crash must reach the handler that reports it; what is sent to the process is for the application's threads. */
static void test_signals_of_workers(void **state)
{
    sigset_t mask;
    struct pool *pool = start(2, false, 0);
    (void)state;
    pool_run(pool, note_mask, &mask);
    for (size_t i = 0; i < sizeof own_signals / sizeof *own_signals; i++)
        assert_int_equal(sigismember(&mask, own_signals[i]), 0);
    assert_int_equal(sigismember(&mask, SIGINT), 1);
    assert_int_equal(sigismember(&mask, SIGTERM), 1);
    assert_int_equal(sigismember(&mask, SIGALRM), 1);
    pool_close(&pool);
}

static void report_crash(int signal)
{
    (void)signal;
    _exit(42);
}

static void crash(void *arg, int ith, int nth)
{
    (void)nth;
    if (ith == 1) mprotect(arg, 1, PROT_NONE), ((volatile char *)arg)[0] = 1;
}

static void test_crash_of_a_worker_is_reported(void **state)
{
    int status;
    pid_t child = fork();
    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        sigaction(SIGSEGV, &(struct sigaction){.sa_handler = report_crash}, NULL);
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct pool *pool = start(2, false, 0);
        pool_run(pool, crash, page);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
}

static void test_default_size_and_refusals(void **state)
{
    struct pool *pool = start(0, false, 0);
    struct lutra_error err = {0};
    (void)state;
    assert_int_equal(pool_size(pool), cpu_usable());
    pool_close(&pool);
    pool_close(&pool);
    assert_int_equal(pool_open(&pool, &(struct pool_settings){.n_thread = -1}, &err), LUTRA_E_ARGUMENT);
    assert_null(pool);
    assert_non_null(strstr(err.what, "-1 threads"));
    assert_int_equal(pool_open(&pool, &(struct pool_settings){.n_thread = 1 << 20}, NULL), LUTRA_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_thread_once),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_sleeping_workers_wake),
        cmocka_unit_test(test_sleepers_are_left_alone),
        cmocka_unit_test(test_caller_waits_for_slow_worker),
        cmocka_unit_test(test_runs_take_turns),
        cmocka_unit_test(test_pinning),
        cmocka_unit_test(test_shares_of_teams_that_change),
        cmocka_unit_test(test_busy_machine),
        cmocka_unit_test(test_signals_of_workers),
        cmocka_unit_test(test_crash_of_a_worker_is_reported),
        cmocka_unit_test(test_default_size_and_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
