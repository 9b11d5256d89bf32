/* SPDX-License-Identifier: MIT */
#include "rag/rag.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS_MAX = 64, CHUNK_BYTES = 65536 };

extern char **environ;

/* What is looked for on the machine, the better one first. */
static const struct {
    const char *end, *tool, *command, *package; /* Debian's */
    bool unpacks;
} known[] = {
    {".pdf", "pdftotext", "pdftotext -q -enc UTF-8 {} -", "poppler-utils", false},
    {".pdf", "mutool", "mutool draw -q -F text {}", "mupdf-tools", false},
    {".docx", "pandoc", "pandoc --sandbox -f docx -t plain --wrap=none {}", "pandoc", false},
    {".docx", "docx2txt", "docx2txt {} -", "docx2txt", false},
    {".odt", "pandoc", "pandoc --sandbox -f odt -t plain --wrap=none {}", "pandoc", false},
    {".odt", "odt2txt", "odt2txt --encoding=UTF-8 {}", "odt2txt", false},
    {".epub", "pandoc", "pandoc --sandbox -f epub -t plain --wrap=none {}", "pandoc", false},
    {".rtf", "pandoc", "pandoc --sandbox -f rtf -t plain --wrap=none {}", "pandoc", false},
    {".gz", "gzip", "gzip -dc {}", "gzip", true},
    {".bz2", "bzip2", "bzip2 -dc {}", "bzip2", true},
    {".xz", "xz", "xz -dc {}", "xz-utils", true},
    {".zst", "zstd", "zstd -dcq {}", "zstd", true},
};

/* Is there such a program in $PATH? */
static bool is_installed(const char *tool)
{
    const char *path = getenv("PATH");
    bool found = false;
    while (path && *path && !found) {
        size_t n = strcspn(path, ":");
        struct buffer name = {0};
        buffer_add(&name, n ? path : ".", n ? n : 1);
        buffer_add(&name, "/", 1);
        buffer_add(&name, tool, strlen(tool));
        found = access(name.text, X_OK) == 0;
        buffer_free(&name);
        path += n + (path[n] == ':');
    }
    return found;
}

static bool ends_so(const char *path, const char *end, size_t n_end)
{
    size_t n = strlen(path);
    return n > n_end && strncasecmp(path + n - n_end, end, n_end) == 0;
}

struct converter converter_for(const struct option_list *list, const char *path)
{
    struct converter c = {0};
    const char *any = NULL;
    for (int i = 0; i < list->n; i++) {
        const char *item = list->item[i], *equals = item[0] == '.' ? strchr(item, '=') : NULL;
        if (!equals)
            any = item;
        else if (ends_so(path, item, (size_t)(equals - item)))
            return (struct converter){.command = equals + 1, .by_end = true};
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!ends_so(path, known[i].end, strlen(known[i].end))) continue;
        if (is_installed(known[i].tool))
            return (struct converter){.command = known[i].command, .by_end = true, .unpacks = known[i].unpacks};
        if (!c.end) {
            c.end = known[i].end;
            c.missing = known[i].package;
        }
    }
    c.command = any;
    if (any) c.end = c.missing = NULL;
    return c;
}

/* The words of a command in copy (which is cut up); false: none, or too many. */
static bool cut_words(char *copy, const char *path, char *word[WORDS_MAX + 1])
{
    int n = 0;
    bool has_path = false;
    char *at = NULL;
    for (char *w = strtok_r(copy, " \t", &at); w; w = strtok_r(NULL, " \t", &at)) {
        bool is_path = strcmp(w, "{}") == 0;
        has_path = has_path || is_path;
        if (n == WORDS_MAX - 1) return false;
        word[n++] = is_path ? (char *)path : w;
    }
    if (n > 0 && !has_path) word[n++] = (char *)path;
    word[n] = NULL;
    return n > 0;
}

/* In a process group of its own: it can be ended with all that it started. */
static pid_t start(char *const *word, int *from)
{
    pid_t child = -1;
    int ends[2];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t usual;
    if (pipe2(ends, O_CLOEXEC) < 0) return -1;
    sigemptyset(&usual);
    sigaddset(&usual, SIGXFSZ); /* ignored here */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int why = posix_spawnp(&child, word[0], &actions, &attributes, word, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (why) {
        close(ends[0]);
        errno = why;
        return -1;
    }
    *from = ends[0];
    return child;
}

static int ms_left(uint64_t end_us)
{
    uint64_t now = now_us();
    return now < end_us ? (int)((end_us - now) / 1000 + 1) : 0;
}

/* All of the child's output; false: too much, too late, or Ctrl-C. */
static bool read_output(int from, size_t n_max, uint64_t end_us, struct buffer *out)
{
    char chunk[CHUNK_BYTES];
    for (;;) {
        struct pollfd in = {.fd = from, .events = POLLIN};
        if (interrupted() || out->n_bytes > n_max) return false;
        int ready = poll(&in, 1, ms_left(end_us));
        if (ready == 0) return false;
        ssize_t n = ready > 0 ? read(from, chunk, sizeof chunk) : -1;
        if (n < 0 && errno != EINTR) return false;
        if (n == 0) return true;
        if (n > 0) buffer_add(out, chunk, (size_t)n);
    }
}

/* Its exit status; it is ended when it is not wanted any more, or does not end by itself.  *late: it did not. */
static int end_child(pid_t child, bool wanted, uint64_t end_us, bool *late)
{
    enum { LOOK_MS = 5, GRACE_MS = 1000 };
    int status = 0, waited = 0;
    *late = false;
    if (!wanted) kill(-child, SIGTERM);
    for (pid_t got; (got = waitpid(child, &status, WNOHANG)) != child && !(got < 0 && errno == ECHILD);) {
        bool over = wanted && !*late && (ms_left(end_us) == 0 || interrupted());
        if (over) kill(-child, SIGTERM);
        *late |= over;
        if ((!wanted || *late) && (waited += LOOK_MS) > GRACE_MS) kill(-child, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
    kill(-child, SIGKILL); /* what it left running */
    return status;
}

int convert(const char *command, const char *path, size_t n_max, int seconds, struct buffer *out)
{
    char *copy = copy_text(command), *word[WORDS_MAX + 1];
    int from = -1, status = -1;
    pid_t child = -1;
    uint64_t end_us = now_us() + (uint64_t)seconds * 1000000;
    bool whole = false, late = false;
    buffer_clear(out);
    if (!cut_words(copy, path, word))
        say("--convert: '%s' is no command of 1 to %d words", command, WORDS_MAX - 1);
    else if ((child = start(word, &from)) < 0)
        say("%s: --convert %s: %s", path, word[0], strerror(errno));
    if (child > 0) {
        whole = read_output(from, n_max, end_us, out);
        close(from);
        status = end_child(child, whole, end_us, &late);
        late |= !whole && ms_left(end_us) == 0;
    }
    if (child < 0 || interrupted())
        ;
    else if (out->n_bytes > n_max)
        say("%s: --convert %s: more than %zu bytes of text", path, word[0], n_max);
    else if (late)
        say("%s: --convert %s: not done after %d s; --convert-seconds N gives more", path, word[0], seconds);
    else if (WIFSIGNALED(status))
        say("%s: --convert %s: ended by signal %d", path, word[0], WTERMSIG(status));
    else if (status != 0)
        say("%s: --convert %s: exit code %d", path, word[0], WEXITSTATUS(status));
    free(copy);
    return child < 0 || interrupted() || !whole || late || status != 0 ? -1 : 0;
}
