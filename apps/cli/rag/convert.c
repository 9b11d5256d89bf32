/* SPDX-License-Identifier: MIT */
#include "rag/rag.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 64, CHUNK_BYTES = 65536 };

extern char **environ;

const char *converter_for(const struct option_list *list, const char *path, bool *by_end)
{
    const char *any = NULL;
    *by_end = true;
    for (int i = 0; i < list->n; i++) {
        const char *item = list->item[i], *equals = item[0] == '.' ? strchr(item, '=') : NULL;
        size_t n_end = equals ? (size_t)(equals - item) : 0, n = strlen(path);
        if (!equals)
            any = item;
        else if (n > n_end && strncasecmp(path + n - n_end, item, n_end) == 0)
            return equals + 1;
    }
    *by_end = false;
    return any;
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

static pid_t start(char *const *word, int *from)
{
    pid_t child = -1;
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) < 0) return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int why = posix_spawnp(&child, word[0], &actions, NULL, word, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (why) {
        close(ends[0]);
        errno = why;
        return -1;
    }
    *from = ends[0];
    return child;
}

int convert(const char *command, const char *path, size_t n_max, struct buffer *out)
{
    char *copy = copy_text(command), *word[WORDS_MAX + 1];
    int from = -1, status = 0;
    pid_t child = -1;
    buffer_clear(out);
    if (!cut_words(copy, path, word))
        say("--convert: '%s' is no command of 1 to %d words", command, WORDS_MAX - 1);
    else if ((child = start(word, &from)) < 0)
        say("%s: --convert %s: %s", path, word[0], strerror(errno));
    bool too_long = false;
    char chunk[CHUNK_BYTES];
    for (ssize_t n = 1; child > 0 && n != 0 && !too_long && !interrupted();) {
        n = read(from, chunk, sizeof chunk);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) buffer_add(out, chunk, (size_t)n);
        too_long = out->n_bytes > n_max;
    }
    if (child > 0) close(from); /* who still writes gets SIGPIPE */
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    bool failed = child < 0 || too_long || status != 0 || interrupted();
    if (child > 0 && too_long)
        say("%s: --convert %s: more than %zu bytes of text", path, word[0], n_max);
    else if (child > 0 && WIFSIGNALED(status))
        say("%s: --convert %s: ended by signal %d", path, word[0], WTERMSIG(status));
    else if (child > 0 && status != 0)
        say("%s: --convert %s: exit code %d", path, word[0], WEXITSTATUS(status));
    free(copy);
    return failed ? -1 : 0;
}
