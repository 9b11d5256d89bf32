/* SPDX-License-Identifier: MIT
 *
 * Latency and energy of each method alone, one problem at a time.  The methods take turns on each problem, so that a
 * machine that grows hot or busy on the way does it to all of them; reported are medians and quartiles, and how much of
 * the processors other programs used meanwhile.
 */
#include "eval/eval.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const double BUSY = 0.05; /* share of all processors that others may use without a word */

/* Seconds of processor time since the start of the machine: of all programs, and of this one. */
struct use {
    bool known;
    double all, own;
};

/* The first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks; guests' time is within
 * user's. */
static struct use read_use(void)
{
    struct use out = {0};
    unsigned long long t[8];
    FILE *f = fopen("/proc/stat", "r");
    if (!f) return out;
    int n = fscanf(
        f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);
    fclose(f);
    struct rusage own;
    out.known = n == 8 && getrusage(RUSAGE_SELF, &own) == 0;
    if (!out.known) return out;
    unsigned long long ticks = t[0] + t[1] + t[2] + t[5] + t[6] + t[7];
    out.all = (double)ticks / (double)sysconf(_SC_CLK_TCK);
    out.own = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) +
              1e-6 * (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec);
    return out;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between neighbours, in proportion. */
static double quantile(const double *sorted, int n, double share)
{
    double at = share * (n - 1);
    int i = (int)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

static int time_one(
    struct eval_run *run, struct eval_method *m, const struct eval_source *alone, int problem, double *s)
{
    struct eval_source source = *alone;
    struct eval_outcome out = {0}, *one = &out;
    double before, after;
    snprintf(source.name, sizeof source.name, "timing %.15s", m->name);
    bool energy = energy_read(&before);
    int code = eval_run_source(run, &source, -1, &problem, 1, 1, &one, false);
    *s = (double)out.us * 1e-6;
    eval_outcome_free(&out);
    energy = energy && energy_read(&after) && after >= before && m->joules >= 0;
    m->joules = energy ? m->joules + (after - before) : -1;
    return code;
}

static void summarise(struct eval_method *m, double *seconds, int n)
{
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    m->latency_s = quantile(seconds, n, 0.5);
    m->latency_low_s = quantile(seconds, n, 0.25);
    m->latency_high_s = quantile(seconds, n, 0.75);
    if (m->joules > 0) m->joules /= n;
}

static void tell_use(struct eval_run *run, struct use before, double seconds)
{
    struct use after = read_use();
    long n_cpu = sysconf(_SC_NPROCESSORS_ONLN);
    run->others_cpus = -1;
    if (!before.known || !after.known || seconds <= 0) return;
    double others = (after.all - before.all - (after.own - before.own)) / seconds;
    run->others_cpus = others > 0 ? others : 0;
    if (run->others_cpus > BUSY * (double)n_cpu)
        say("the machine is busy: other programs used %.2g of its %ld processors while latencies were measured",
            run->others_cpus, n_cpu);
}

int eval_time(struct eval_run *run)
{
    struct eval_set *set = run->set;
    int n = run->opts->timed < set->n ? run->opts->timed : set->n, code = 0;
    if (n <= 0) return 0;
    double *seconds = get_memory((size_t)n * EVAL_METHODS_MAX * sizeof *seconds);
    struct eval_source alone[EVAL_METHODS_MAX];
    bool timed[EVAL_METHODS_MAX];
    for (int j = 0; j < set->n_method; j++) {
        timed[j] = eval_alone(set, &set->method[j], &alone[j]);
        if (timed[j]) set->method[j].joules = 0;
    }
    struct use before = read_use();
    uint64_t start = now_us();
    for (int i = 0; !code && i < n; i++)
        for (int j = 0; !code && j < set->n_method; j++)
            if (timed[j]) code = time_one(run, &set->method[j], &alone[j], i, &seconds[j * n + i]);
    tell_use(run, before, (double)(now_us() - start) * 1e-6);
    for (int j = 0; !code && j < set->n_method; j++)
        if (timed[j]) summarise(&set->method[j], seconds + j * n, n);
    free(seconds);
    return code;
}
