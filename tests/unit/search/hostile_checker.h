/* SPDX-License-Identifier: MIT
 *
 * A program that judges (checker.c), and what it does when it is hostile: it answers a hash of the text, unless the
 * text asks it to misbehave; as `hostile` it misbehaves at every fourth text, by its hash, and as `polite` it answers
 * there what a hostile one's candidate gets.
 */
#ifndef LUTRA_TESTS_HOSTILE_CHECKER_H
#define LUTRA_TESTS_HOSTILE_CHECKER_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static inline unsigned hash(const char *text, size_t n)
{
    unsigned h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h;
}

static inline double reward_of(const char *text)
{
    return (double)(hash(text, strlen(text)) % 1000) / 1000;
}

static inline void flood(const char *what, long long n_bytes)
{
    static char block[1 << 16];
    for (size_t i = 0; i < sizeof block; i++) block[i] = what[i % strlen(what)];
    for (; n_bytes > 0; n_bytes -= (long long)sizeof block)
        if (write(1, block, sizeof block) < 0) break;
}

static inline void answer(long id, double reward)
{
    char line[80];
    int n = snprintf(line, sizeof line, "{\"id\": %ld, \"reward\": %.3f}\n", id, reward);
    if (write(1, line, (size_t)n) != n) _exit(9);
}

static inline void wait_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

static const char *const deeds[] = {"exit", "signal", "nonsense", "no-number", "high", "other-id", "flood",
    "flood-lines", "answer-flood", "answer-exit", "next-id", "late-nonsense", "fork-both", "children", "close",
    "memory", "assassin", "long-line", "nested", "session-flood", "session-exit", "fork-exit", "session-reads", "hang",
    "stop", "no-read"};
enum { N_DEED = sizeof deeds / sizeof *deeds, N_SLOW = 6 }; /* the last ones take their time limit */

/* Those that answer first, 0.25. */
static inline bool deed_answers(const char *deed)
{
    return !strncmp(deed, "answer", 6) || !strcmp(deed, "next-id") || !strcmp(deed, "late-nonsense") ||
           !strcmp(deed, "assassin") || !strcmp(deed, "session-flood");
}

static inline void misbehave(const char *deed, long id)
{
    if (!strcmp(deed, "exit")) _exit(3);
    if (!strcmp(deed, "signal")) raise(SIGSEGV);
    if (!strcmp(deed, "nonsense")) printf("I think it is fine\n");
    if (!strcmp(deed, "no-number")) printf("{\"id\": %ld, \"reward\": \"1\"}\n", id);
    if (!strcmp(deed, "high")) printf("{\"id\": %ld, \"reward\": 1.5}\n", id);
    if (!strcmp(deed, "nested")) printf("{\"id\": %ld, \"a\": {\"reward\": 1}, \"reward\": 1}\n", id);
    if (!strcmp(deed, "other-id")) {
        for (int i = 0; i < 10000; i++) printf("{\"id\": %ld, \"reward\": 1}\n", id - 1);
    }
    if (!strcmp(deed, "flood")) flood("x", 10LL << 30);
    if (!strcmp(deed, "flood-lines")) flood("{}\n", 10LL << 30);
    if (!strcmp(deed, "long-line")) flood(" ", 1 << 17);
    if (deed_answers(deed)) answer(id, 0.25);
    if (!strcmp(deed, "answer-flood")) flood("y\n", 10LL << 30);
    if (!strcmp(deed, "answer-exit")) _exit(0);
    if (!strcmp(deed, "next-id")) answer(id + 1, 1);
    if (!strcmp(deed, "late-nonsense")) printf("that was %ld\n", id);
    if (!strcmp(deed, "fork-exit")) {
        if (fork() == 0) wait_ms(60000); /* keeps the pipe open */
        _exit(4);
    }
    if (!strcmp(deed, "fork-both")) {
        fork();
        printf("both\n");
    }
    if (!strcmp(deed, "children")) {
        for (int i = 0; i < 8; i++)
            if (fork() == 0) wait_ms(60000), _exit(0);
        printf("?\n");
    }
    if (!strcmp(deed, "close")) close(1);
    if (!strcmp(deed, "memory")) {
        for (;;) {
            char *p = malloc(1 << 26);
            if (!p) _exit(5);
            memset(p, 1, 1 << 26);
        }
    }
    if (!strcmp(deed, "assassin")) { /* kills later, whoever is asked about then; is not of the group */
        pid_t victim = getpid();
        if (fork() == 0) {
            setsid();
            close(0), close(1);
            wait_ms((int)(id % 7) * 3);
            kill(victim, SIGKILL);
            _exit(0);
        }
    }
    if (!strncmp(deed, "session", 7)) { /* a child that nobody's end ends: it holds the pipes until they break */
        pid_t child = fork();
        if (child == 0) {
            setsid();
            signal(SIGPIPE, SIG_DFL);
            if (!strcmp(deed, "session-flood")) flood("{}\n", 10LL << 30);
            for (char c; read(0, &c, 1) > 0;) continue; /* takes requests away from its parent */
            _exit(0);
        }
        if (!strcmp(deed, "session-exit")) _exit(4);
    }
    if (!strcmp(deed, "hang") || !strcmp(deed, "no-read")) wait_ms(600000);
    if (!strcmp(deed, "stop")) raise(SIGSTOP);
    fflush(stdout);
}

/* What a text does to a hostile checker; NULL: nothing.  slow: now and then, also what takes the time limit. */
static inline const char *deed_of(unsigned h, bool slow)
{
    const char *deed = deeds[h / 4000 % (unsigned)(slow && h / 200000 % 4 == 0 ? N_DEED : N_DEED - N_SLOW)];
    return h / 1000 % 4 || !strcmp(deed, "memory") ? NULL : deed; /* without a limit memory would be the machine's */
}

static inline int checker_main(const char *mode)
{
    static char line[1 << 22];
    bool hostile = mode && !strncmp(mode, "hostile", 7), polite = mode && !strncmp(mode, "polite", 6),
         slow = mode && strstr(mode, "slow");
    while (fgets(line, sizeof line, stdin)) {
        long id = strtol(strstr(line, "\"id\":") + 5, NULL, 10);
        char *text = strstr(line, "\"text\":\"") + 8, *end = strstr(text, "\",\"step\":"),
             *asked = strstr(text, "DEED ");
        unsigned h = hash(text, (size_t)(end - text));
        const char *deed = hostile || polite ? deed_of(h, slow) : asked && asked < end ? asked + 5 : NULL;
        *end = 0;
        if (deed && !polite)
            misbehave(deed, id);
        else
            answer(id, !deed ? (double)(h % 1000) / 1000 : deed_answers(deed) ? 0.25 : 0);
    }
    return 0;
}

static inline bool is_long(void)
{
    const char *text = getenv("LUTRA_TEST_LONG");
    return text && !strcmp(text, "1");
}

#endif
