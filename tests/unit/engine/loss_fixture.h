/* SPDX-License-Identifier: MIT
 *
 * What the loss of a device may cost: time until its pass is done without it, and nothing that is kept for good.
 */
#ifndef LUTRA_TESTS_LOSS_FIXTURE_H
#define LUTRA_TESTS_LOSS_FIXTURE_H

#include <dirent.h>
#include <malloc.h>

#include "base/clock.h"
#include "engine_fixture.h"

/* ---- time ---- */

/* Since a device went, 0: none has, or the pass that lost it is done; the longest such time, and of an answer that lost
 * none. */
static struct {
    double gone_ms, slowest_ms, calm_ms;
} loss;

static inline double loss_clock_ms(void)
{
    return (double)clock_now_us(clock_real()) / 1000;
}

/* A device goes, or has gone. */
static inline void loss_begins(void)
{
    if (!loss.gone_ms) loss.gone_ms = loss_clock_ms();
}

/* A line of the log. */
static inline void loss_hear(const char *line)
{
    if (!loss.gone_ms || !strstr(line, "the pass that lost ")) return;
    const double ms = loss_clock_ms() - loss.gone_ms;
    if (ms > loss.slowest_ms) loss.slowest_ms = ms;
    loss.gone_ms = 0;
}

/* The log tells of the pass that lost a device (NULL: any) if and only if one is lost. */
static inline void loss_check_log(const char *log, const char *device, bool lost)
{
    static const char begins[] = "the pass that lost ", ends[] = " is done, ";
    const char *line = strstr(log, begins), *at = line ? strstr(line, ends) : NULL;
    assert_int_equal(at != NULL, lost);
    if (!at || !device) return;
    const char *name = line + strlen(begins);
    if (strncmp(name, device, strlen(device)) != 0 || name + strlen(device) != at)
        fail_msg("%s is lost.  The log says: %s", device, line);
}

/* A device has 2 s to answer.  Then the pass is done again: that takes no longer than a whole answer does here and now,
 * on a machine that may be busy with other things. */
static inline void loss_check_time(const char *what)
{
    assert_true(loss.calm_ms > 0 && loss.slowest_ms > 0);
    if (loss.slowest_ms > 2000 + loss.calm_ms)
        fail_msg("%s: %.0f ms from a loss to the end of its pass, where an answer takes %.0f", what, loss.slowest_ms,
            loss.calm_ms);
    loss.slowest_ms = 0;
}

/* ---- what is held ---- */

struct loss_held {
    int n_file, n_thread;
    size_t bytes; /* of the heap; a sanitizer's, which finds leaks itself, does not say */
};

static inline int loss_count(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static inline struct loss_held loss_held_now(void)
{
    const struct mallinfo2 m = mallinfo2();
    return (struct loss_held){loss_count("/proc/self/fd"), loss_count("/proc/self/task"), m.uordblks + m.hblkhd};
}

/* Runtimes that have lost a device and closed leave nothing.  `before`: behind some of them, when allocators and
 * drivers keep what they keep. */
static inline void loss_check_held(const char *what, struct loss_held before)
{
    enum { ROOM = 64 << 10 };
    const struct loss_held now = loss_held_now();
    if (now.n_file > before.n_file || now.n_thread > before.n_thread || now.bytes > before.bytes + ROOM)
        fail_msg("%s: losses left %d files, %d threads, %ld bytes", what, now.n_file - before.n_file,
            now.n_thread - before.n_thread, (long)(now.bytes - before.bytes));
}

#endif
