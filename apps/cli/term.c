/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REDRAW_US = 100000, BAR_CELLS = 24 };

/* A signal handler reaches its data only through globals; nothing else of the program is global but the terminal. */
static volatile sig_atomic_t stop_asked;
static lutra_session *volatile watched;

static struct {
    bool wanted, shown;
    char stage[64];
    uint64_t start_us, drawn_us;
} progress;

uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    /* Asked twice without anybody having looked: something hangs, so leave the hard way. */
    if (stop_asked) _exit(EXIT_INTERRUPTED);
    stop_asked = 1;
    lutra_session *session = watched;
    if (session) lutra_cancel(session);
}

void interrupt_watch(lutra_session *session)
{
    watched = session;
    /* Without SA_RESTART: a read at the prompt returns. */
    struct sigaction action = {.sa_handler = on_interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupted(void)
{
    return stop_asked != 0;
}

void interrupt_clear(void)
{
    stop_asked = 0;
}

void progress_enable(bool wanted)
{
    progress.wanted = wanted && isatty(STDERR_FILENO);
}

void progress_clear(void)
{
    if (progress.shown) fputs("\r\033[K", stderr);
    progress.shown = false;
    progress.stage[0] = 0;
}

static void draw_bar(double share)
{
    int full = (int)(share * BAR_CELLS);
    fputs(" [", stderr);
    for (int i = 0; i < BAR_CELLS; i++) fputc(i < full ? '#' : '.', stderr);
    fprintf(stderr, "] %3.0f%%", share * 100);
}

void progress_show(const char *stage, uint64_t done, uint64_t total)
{
    if (!progress.wanted) return;
    uint64_t now = now_us();
    if (strncmp(stage, progress.stage, sizeof progress.stage - 1) != 0) {
        snprintf(progress.stage, sizeof progress.stage, "%s", stage);
        progress.start_us = now;
        progress.drawn_us = 0;
    }
    if (now - progress.drawn_us < REDRAW_US && done < total) return;
    progress.drawn_us = now;
    progress.shown = true;
    fprintf(stderr, "\r\033[K%s", stage);
    if (total > 0) {
        double share = done < total ? (double)done / (double)total : 1,
               spent = (double)(now - progress.start_us) * 1e-6;
        draw_bar(share);
        if (share > 0.01 && share < 1) fprintf(stderr, "  %.0f s left", spent / share - spent);
    }
    fflush(stderr);
}

int progress_callback(void *user, const char *stage, uint64_t done, uint64_t total)
{
    (void)user;
    progress_show(stage, done, total);
    return interrupted();
}

/* ---- lines of messages ---- */

static struct {
    pthread_mutex_t lock;
    bool lossy;
    unsigned long long n_lost; /* since the last one that was written */
} lines = {.lock = PTHREAD_MUTEX_INITIALIZER};

void messages_may_be_lost(void)
{
    lines.lossy = true;
}

/* A pipe that can be written to takes PIPE_BUF bytes at once. */
static bool write_now(const char *text, size_t n)
{
    struct pollfd p = {STDERR_FILENO, POLLOUT, 0};
    if (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT)) return false;
    return write(STDERR_FILENO, text, n < PIPE_BUF ? n : PIPE_BUF) >= 0;
}

void message_line(const char *text, size_t n)
{
    char lost[80];
    if (!lines.lossy) {
        fwrite(text, 1, n, stderr);
        return;
    }
    pthread_mutex_lock(&lines.lock);
    int n_told = snprintf(lost, sizeof lost, "lutra: %llu lines are missing here: nobody read them\n", lines.n_lost);
    if (lines.n_lost && write_now(lost, (size_t)n_told)) lines.n_lost = 0;
    if (lines.n_lost || !write_now(text, n)) lines.n_lost++;
    pthread_mutex_unlock(&lines.lock);
}

static void print_line(const char *before, const char *fmt, va_list ap)
{
    char line[PIPE_BUF];
    int n = snprintf(line, sizeof line, "%s", before), more = vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    size_t end = more < 0 ? (size_t)n : (size_t)n + (size_t)more;
    if (end > sizeof line - 1) end = sizeof line - 1;
    line[end] = '\n';
    message_line(line, end + 1);
}

void say(const char *fmt, ...)
{
    progress_clear();
    va_list ap;
    va_start(ap, fmt);
    print_line("lutra: ", fmt, ap);
    va_end(ap);
}

void say_plain(const char *fmt, ...)
{
    progress_clear();
    va_list ap;
    va_start(ap, fmt);
    print_line("", fmt, ap);
    va_end(ap);
}

int fail_with(const struct lutra_error *err)
{
    if (err->code == LUTRA_E_CANCELLED && interrupted()) {
        progress_clear();
        return EXIT_INTERRUPTED;
    }
    say("%s", err->what[0] ? err->what : lutra_status_text(err->code));
    return EXIT_FAILED;
}

int finish_stdout(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    say("cannot write to standard output: %s",
        errno ? strerror(errno) : "a part of it was lost"); /* by an earlier write */
    return code == EXIT_OK ? EXIT_FAILED : code;
}
