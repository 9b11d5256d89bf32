/* SPDX-License-Identifier: MIT
 *
 * What fuzz programs have in common: which inputs to try, the number of the input that ends the program, dice.
 *
 *     struct fuzz_inputs in = fuzz_begin(argc, argv, 2000, 100000);
 *     for (fuzz_input = in.first; fuzz_input < in.first + in.n; fuzz_input++) {
 *         uint64_t dice = fuzz_input;                all that an input depends on: its number names it for good
 *         fuzz_watch(10);                            a hang is a signal, too: 10 s of processor time
 *         if (...) fuzz_fail("%s", err.what);
 *         fuzz_watch(0);
 *     }
 *     return fuzz_end(in, n_taken && n_refused);
 *
 * Run them in an ASan + UBSan build, too (cmake --preset asan).
 */
#ifndef LUTRA_TESTS_FUZZ_H
#define LUTRA_TESTS_FUZZ_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/compiler.h"

static uint64_t fuzz_input; /* the number of the one at work */

struct fuzz_inputs {
    uint64_t first, n;
    bool chosen; /* by the caller: they need not meet all that the program's own inputs do */
};

static inline void fuzz_signal(int number)
{
    char text[96];
    int n = snprintf(text, sizeof text, "input %llu: signal %d\n", (unsigned long long)fuzz_input, number);
    if (write(2, text, (size_t)n) < 0) _exit(3);
    _exit(2);
}

/* A signal after `seconds` of processor time, which a busy machine does not shorten, or of 30 times as much waiting for
 * nothing; 0: no more. */
static inline void fuzz_watch(int seconds)
{
    struct itimerval limit = {.it_value.tv_sec = seconds};
    setitimer(ITIMER_PROF, &limit, NULL);
    alarm((unsigned)seconds * 30);
}

LUTRA_PRINTF(1, 2) static inline void fuzz_fail(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "input %llu: ", (unsigned long long)fuzz_input);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

/* PROGRAM [N [FIRST]]: without arguments `n` inputs from number 1; --long: the n_long behind these. */
static inline struct fuzz_inputs fuzz_begin(int argc, char **argv, uint64_t n, uint64_t n_long)
{
    static const int fatal[] = {SIGPROF, SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) signal(fatal[i], fuzz_signal);
    if (argc > 1 && strcmp(argv[1], "--long") == 0) return (struct fuzz_inputs){n + 1, n_long, false};
    return (struct fuzz_inputs){
        argc > 2 ? strtoull(argv[2], NULL, 10) : 1, argc > 1 ? strtoull(argv[1], NULL, 10) : n, argc > 1};
}

/* The program's status; met_all: some inputs were taken, some refused, and so on. */
static inline int fuzz_end(struct fuzz_inputs in, bool met_all)
{
    if (!met_all && !in.chosen) fprintf(stderr, "the inputs have not met all that they should\n");
    return met_all || in.chosen ? 0 : 1;
}

/* AddressSanitizer's: freed memory is kept from use for 16 MiB, not 256, which were most of an input's page faults. */
#ifndef FUZZ_SECOND_FILE /* of a program: defined before this is included */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=16";
}
#endif

/* splitmix64 */
static inline uint64_t fuzz_roll(uint64_t *dice)
{
    uint64_t z = *dice += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#endif
