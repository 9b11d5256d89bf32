/* SPDX-License-Identifier: MIT
 *
 * A program of the user's as a judge: starting it, asking it in JSON lines, and surviving whatever it does (checker.h).
 */
#include "search/checker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/status.h"
#include "text/utf8.h"

extern char **environ;

enum {
    LINE_BYTES = 4096,
    REPLY_BYTES = 65536,
    TRIES = 3,
    CHUNK_BYTES = 4096,
    WORDS_MAX = 64,
    END_MS = 100,
    ENVIRON_MAX = 32,
    LOOK_MS = 50 /* whether it is given up */
};

struct checker {
    char *text;                /* of the words, a NUL behind each */
    char *word[WORDS_MAX + 1]; /* argv */
    struct clock clock;
    uint64_t timeout_us;
    int64_t memory_bytes;
    int restarts; /* fresh processes that may still be started */
    int max_restarts;
    pid_t pid;   /* 0 = none runs */
    int in, out; /* it reads, it writes */
    bool fresh;  /* it has not answered yet */
    int64_t id;  /* of the last request: not to be guessed, so that nobody answers for the next one */
    struct rng_key ids;
    uint32_t n_id;
    uint64_t deadline_us;
    atomic_bool gives_up;
    char chunk[CHUNK_BYTES]; /* of the request, not yet sent */
    size_t n_chunk;
    char line[LINE_BYTES]; /* read, not yet taken */
    size_t n_line;
};

/* What became of a request. */
enum outcome { ANSWERED, DIED, FAULT };

/* ---- words ---- */

/* Cuts a command: blanks part words; '...' and "..." keep them together, a backslash takes the next character as it is
 * (not within '...').  Nothing else is special.  text becomes the words, each with a NUL. */
static const char *cut_words(char *text, char **word)
{
    int n = 0;
    char quote = 0, *to = text;
    bool open = false;
    for (const char *p = text; *p; p++) {
        bool blank = *p == ' ' || *p == '\t' || *p == '\n';
        if (!quote && blank) {
            if (open) *to++ = 0;
            open = false;
            continue;
        }
        if (!open) {
            if (n == WORDS_MAX) return "too many words";
            word[n++] = to;
            open = true;
        }
        if (*p == quote) {
            quote = 0;
        } else if (!quote && (*p == '\'' || *p == '"')) {
            quote = *p;
        } else {
            if (*p == '\\' && quote != '\'' && !*++p) return "it ends in a backslash";
            *to++ = *p;
        }
    }
    if (quote) return "a quote is not closed";
    *to = 0;
    word[n] = NULL;
    return n > 0 && *word[0] ? NULL : "it is empty";
}

/* ---- the process ---- */

/* What a checker sees of this process's environment: who holds tokens and keys there does not hand them to it. */
static void clean_environment(char *out[ENVIRON_MAX + 1])
{
    static const char *const kept[] = {
        "PATH=", "HOME=", "USER=", "LOGNAME=", "SHELL=", "TMPDIR=", "TZ=", "LANG=", "LANGUAGE=", "LC_ALL=", "LC_CTYPE=",
        "LC_NUMERIC=", "LC_COLLATE=", "LC_MESSAGES=", "PYTHONPATH=", "PYTHONHOME=", "VIRTUAL_ENV=", "LD_LIBRARY_PATH="};
    int n = 0;
    for (char **e = environ; e && *e && n < ENVIRON_MAX; e++)
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (!strncmp(*e, kept[i], strlen(kept[i])) && n < ENVIRON_MAX) out[n++] = *e;
    out[n] = NULL;
}

static int spawn(struct checker *c, int in, int out)
{
    char *env[ENVIRON_MAX + 1];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, pipe;
    clean_environment(env);
    sigemptyset(&none);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (posix_spawn_file_actions_init(&files)) return ENOMEM;
    if (posix_spawnattr_init(&attr)) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    int rc = posix_spawn_file_actions_adddup2(&files, in, 0);
    if (!rc) rc = posix_spawn_file_actions_adddup2(&files, out, 1);
    if (!rc)
        rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!rc) rc = posix_spawnattr_setsigmask(&attr, &none);
    if (!rc) rc = posix_spawnattr_setsigdefault(&attr, &pipe);
    if (!rc) rc = posix_spawnp(&c->pid, c->word[0], &files, &attr, c->word, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    if (rc) c->pid = 0;
    return rc;
}

/* A fresh process; 0 or an errno. */
static int start(struct checker *c)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, rc = 0;
    c->n_line = c->n_chunk = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) < 0 || pipe2(out, O_CLOEXEC) < 0) rc = errno;
    if (!rc && fcntl(out[0], F_SETFL, O_NONBLOCK) < 0) rc = errno;
    if (!rc) rc = spawn(c, in[1], out[1]);
    if (in[1] >= 0) close(in[1]);
    if (out[1] >= 0) close(out[1]);
    if (rc) {
        if (in[0] >= 0) close(in[0]);
        if (out[0] >= 0) close(out[0]);
        return rc;
    }
    if (c->memory_bytes > 0) {
        struct rlimit limit = {(rlim_t)c->memory_bytes, (rlim_t)c->memory_bytes};
        prlimit(c->pid, RLIMIT_AS, &limit, NULL); /* fails only for a process that has ended already */
    }
    c->in = in[0];
    c->out = out[0];
    c->fresh = true;
    return 0;
}

/* Ends it with its group; its wait status, -1 = not known. */
static int end(struct checker *c)
{
    int status = -1;
    if (!c->pid) return -1;
    close(c->in);
    close(c->out);
    kill(-c->pid, SIGKILL);
    kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) continue;
    c->pid = 0;
    return status;
}

/* Its end in words, when it ended by itself: read before it is killed. */
static void tell_end(struct checker *c, char *why, size_t n_why)
{
    siginfo_t info = {0};
    for (int i = 0; i < END_MS && info.si_pid == 0; i++) { /* its output closes a moment before it has ended */
        if (i > 0) clock_sleep_us(c->clock, 1000);
        if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0) break;
    }
    if (info.si_pid == 0)
        snprintf(why, n_why, "it has closed its output");
    else if (info.si_code == CLD_EXITED)
        snprintf(why, n_why, "it ended with code %d", info.si_status);
    else
        snprintf(why, n_why, "it was ended by signal %d", info.si_status);
}

/* ---- the request ---- */

/* Waits for an event until the deadline; false when it has passed. */
static bool wait_for(struct checker *c, int fd, short event)
{
    for (;;) {
        uint64_t now = clock_now_us(c->clock);
        if (now >= c->deadline_us) return false;
        uint64_t ms = (c->deadline_us - now + 999) / 1000;
        struct pollfd p = {.fd = fd, .events = event};
        if (atomic_load(&c->gives_up)) return false;
        int n = poll(&p, 1, ms < LOOK_MS ? (int)ms : LOOK_MS);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
}

static enum outcome flush(struct checker *c, char *why, size_t n_why)
{
    for (size_t at = 0; at < c->n_chunk;) {
        ssize_t n = send(c->in, c->chunk + at, c->n_chunk - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            at += (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (wait_for(c, c->in, POLLOUT)) continue;
            snprintf(why, n_why, "it does not read: over the time limit");
            return FAULT;
        } else if (errno != EINTR) {
            tell_end(c, why, n_why);
            return DIED;
        }
    }
    c->n_chunk = 0;
    return ANSWERED;
}

static enum outcome put(struct checker *c, const char *p, size_t n, char *why, size_t n_why)
{
    while (n > 0) {
        size_t room = sizeof c->chunk - c->n_chunk, k = n < room ? n : room;
        memcpy(c->chunk + c->n_chunk, p, k);
        c->n_chunk += k;
        p += k;
        n -= k;
        if (c->n_chunk < sizeof c->chunk) continue;
        enum outcome done = flush(c, why, n_why);
        if (done != ANSWERED) return done;
    }
    return ANSWERED;
}

/* A JSON string; ill-formed bytes become U+FFFD. */
static enum outcome put_string(struct checker *c, const char *text, char *why, size_t n_why)
{
    size_t left = text ? strlen(text) : 0;
    enum outcome done = put(c, "\"", 1, why, n_why);
    for (const char *p = text; left > 0 && done == ANSWERED;) {
        char escaped[8];
        int k = text_utf8_scan(p, left);
        size_t took = k > 0 ? (size_t)k : k < 0 ? (size_t)-k : left, n = took;
        const char *out = p;
        if (k <= 0) {
            out = TEXT_UTF8_REPLACEMENT;
            n = 3;
        } else if (*p == '"' || *p == '\\' || (unsigned char)*p < 0x20 || *p == 0x7f) {
            n = (size_t)snprintf(escaped, sizeof escaped, *p == '"' || *p == '\\' ? "\\%c" : "\\u%04x", *p);
            out = escaped;
        }
        done = put(c, out, n, why, n_why);
        p += took;
        left -= took;
    }
    return done == ANSWERED ? put(c, "\"", 1, why, n_why) : done;
}

static enum outcome send_request(struct checker *c, const struct lutra_check *check, char *why, size_t n_why)
{
    char head[48];
    const struct {
        const char *key, *text;
    } part[] = {{",\"question\":", check->question}, {",\"text\":", check->text}, {",\"step\":", check->step}};
    snprintf(head, sizeof head, "{\"id\":%" PRId64, c->id);
    enum outcome done = put(c, head, strlen(head), why, n_why);
    for (int i = 0; i < 3 && done == ANSWERED; i++) {
        done = put(c, part[i].key, strlen(part[i].key), why, n_why);
        if (done == ANSWERED) done = put_string(c, part[i].text, why, n_why);
    }
    const char *tail = check->whole ? ",\"whole\":true}\n" : ",\"whole\":false}\n";
    if (done == ANSWERED) done = put(c, tail, strlen(tail), why, n_why);
    return done == ANSWERED ? flush(c, why, n_why) : done;
}

/* ---- the reply ---- */

static void skip_blanks(const char **p)
{
    *p += strspn(*p, " \t\r");
}

/* A JSON number, without the locale's help; false if it is none. */
static bool read_number(const char **p, double *out)
{
    static const double tens[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    double x = 0, sign = 1;
    int n = 0, n_digit = 0, behind = 0, power = 0, power_sign = 1;
    bool point = false;
    if (**p == '-') {
        sign = -1;
        ++*p;
    }
    for (; (**p >= '0' && **p <= '9') || (**p == '.' && !point && n > 0); ++*p) {
        if (**p == '.') {
            point = true;
            continue;
        }
        n++;
        if (n_digit < 15) { /* exact so far */
            x = x * 10 + (**p - '0');
            behind += point;
        } else if (!point) {
            behind--;
        }
        n_digit += x > 0;
    }
    if (n == 0) return false;
    if (**p == 'e' || **p == 'E') {
        ++*p;
        if (**p == '-') power_sign = -1;
        if (**p == '-' || **p == '+') ++*p;
        if (**p < '0' || **p > '9') return false;
        for (; **p >= '0' && **p <= '9'; ++*p) power = power < 999 ? power * 10 + (**p - '0') : power;
    }
    power = power_sign * power - behind;
    for (; power < 0 && x > 0; power += power < -15 ? 15 : -power) x /= tens[power < -15 ? 15 : -power];
    for (; power > 0 && x > 0 && x<1e300; power -= power> 15 ? 15 : power) x *= tens[power > 15 ? 15 : power];
    *out = sign * x;
    return true;
}

/* A string's end; its contents do not matter. */
static bool skip_string(const char **p)
{
    if (**p != '"') return false;
    for (++*p; **p && **p != '"'; ++*p)
        if (**p == '\\' && (*p)[1]) ++*p;
    if (!**p) return false;
    ++*p;
    return true;
}

static bool skip_value(const char **p)
{
    static const char *const words[] = {"true", "false", "null"};
    double x;
    for (int i = 0; i < 3; i++) {
        if (strncmp(*p, words[i], strlen(words[i]))) continue;
        *p += strlen(words[i]);
        return true;
    }
    return **p == '"' ? skip_string(p) : read_number(p, &x);
}

/* A flat object with numbers `id` and `reward`; other members are passed over. */
static bool read_reply(const char *line, double *id, double *reward)
{
    const char *p = line;
    bool has_id = false, has_reward = false;
    skip_blanks(&p);
    if (*p != '{') return false;
    do {
        p++;
        skip_blanks(&p);
        const char *key = p;
        if (!skip_string(&p)) return false;
        size_t n_key = (size_t)(p - key);
        skip_blanks(&p);
        if (*p++ != ':') return false;
        skip_blanks(&p);
        bool is_id = n_key == 4 && !memcmp(key, "\"id\"", 4), is_reward = n_key == 8 && !memcmp(key, "\"reward\"", 8);
        if (is_id || is_reward ? !read_number(&p, is_id ? id : reward) : !skip_value(&p)) return false;
        has_id |= is_id;
        has_reward |= is_reward;
        skip_blanks(&p);
    } while (*p == ',');
    if (*p++ != '}') return false;
    skip_blanks(&p);
    return !*p && has_id && has_reward;
}

/* The next line into c->line with a NUL for its line feed; *n its bytes with that. */
static enum outcome read_line(struct checker *c, size_t *n, char *why, size_t n_why)
{
    for (size_t seen = 0;;) {
        char *stop = memchr(c->line + seen, '\n', c->n_line - seen);
        if (stop) {
            *stop = 0;
            *n = (size_t)(stop - c->line) + 1;
            return ANSWERED;
        }
        seen = c->n_line;
        if (c->n_line == sizeof c->line) {
            snprintf(why, n_why, "it has written %d bytes without a line feed", LINE_BYTES);
            return FAULT;
        }
        ssize_t got = read(c->out, c->line + c->n_line, sizeof c->line - c->n_line);
        if (got > 0) {
            c->n_line += (size_t)got;
        } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (wait_for(c, c->out, POLLIN)) continue;
            snprintf(why, n_why, "over the time limit of %.3g s", (double)c->timeout_us * 1e-6);
            return FAULT;
        } else if (got == 0 || errno != EINTR) {
            tell_end(c, why, n_why);
            return DIED;
        }
    }
}

static enum outcome receive(struct checker *c, double *reward, char *why, size_t n_why)
{
    for (size_t total = 0; total < REPLY_BYTES;) {
        size_t n;
        double id = -1;
        enum outcome done = read_line(c, &n, why, n_why);
        if (done != ANSWERED) return done;
        bool reads = read_reply(c->line, &id, reward);
        if (!reads) snprintf(why, n_why, "no reply: '%.120s'", c->line);
        memmove(c->line, c->line + n, c->n_line - n);
        c->n_line -= n;
        total += n;
        if (!reads) return FAULT;
        if (id == (double)c->id) return ANSWERED;
    }
    snprintf(why, n_why, "%d bytes, none of them about this candidate", REPLY_BYTES);
    return FAULT;
}

/* Forgets what it has written unasked; false when that does not end. */
static bool drain(struct checker *c)
{
    size_t total = 0;
    c->n_line = c->n_chunk = 0;
    for (ssize_t n; total < REPLY_BYTES; total += (size_t)n)
        if ((n = read(c->out, c->line, sizeof c->line)) <= 0) return true;
    return false;
}

static enum outcome try_once(
    struct checker *c, const struct lutra_check *check, double *reward, char *why, size_t n_why)
{
    if (!drain(c)) {
        snprintf(why, n_why, "it writes without being asked");
        return FAULT;
    }
    c->n_id++;
    c->id = ((int64_t)rng_u32(c->ids, c->n_id) << 16) + (c->n_id & 0xffff); /* 15 digits: a double keeps them */
    c->deadline_us = clock_now_us(c->clock) + c->timeout_us;
    enum outcome done = send_request(c, check, why, n_why);
    return done == ANSWERED ? receive(c, reward, why, n_why) : done;
}

static bool revive(struct checker *c, char *why, size_t n_why)
{
    if (c->pid) return true;
    if (c->restarts == 0) {
        snprintf(why, n_why, "the checker has been started again %d times: no more", c->max_restarts);
        return false;
    }
    c->restarts--;
    int rc = start(c);
    if (rc) snprintf(why, n_why, "'%.60s' cannot be run: %s", c->word[0], strerror(rc));
    return rc == 0;
}

void checker_give_up(struct checker *c)
{
    atomic_store(&c->gives_up, true);
}

double checker_ask(void *self, const struct lutra_check *check, char *why, size_t n_why)
{
    struct checker *c = self;
    for (int i = 0; i < TRIES && !atomic_load(&c->gives_up) && revive(c, why, n_why); i++) {
        double reward = -1;
        bool fresh = c->fresh;
        enum outcome done = try_once(c, check, &reward, why, n_why);
        if (done == ANSWERED) {
            c->fresh = false;
            if (reward >= 0 && reward <= 1) return reward;
            snprintf(why, n_why, "a reward of %g is outside 0..1", reward);
            return -1;
        }
        end(c);
        if (done == FAULT && fresh) break;
    }
    return -1;
}

/* ---- open and close ---- */

int checker_open(struct checker **out, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    struct checker *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c || !(c->text = strdup(set->command))) {
        free(c);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "checker: out of memory");
    }
    c->clock = clock_real();
    c->ids.seed = clock_now_us(c->clock);
    c->timeout_us = set->timeout_us;
    c->memory_bytes = set->memory_bytes;
    c->restarts = c->max_restarts = set->restarts;
    const char *why = cut_words(c->text, c->word);
    int rc = why ? lutra_fail(err, LUTRA_E_ARGUMENT, "checker: the command '%.80s': %s", set->command, why) : 0;
    int no = rc ? 0 : start(c);
    if (no) rc = lutra_fail(err, LUTRA_E_IO, "checker: '%.80s' cannot be run: %s", c->word[0], strerror(no));
    if (rc) {
        checker_close(&c);
        return rc;
    }
    *out = c;
    return 0;
}

void checker_close(struct checker **checker)
{
    struct checker *c = *checker;
    if (!c) return;
    end(c);
    free(c->text);
    free(c);
    *checker = NULL;
}
