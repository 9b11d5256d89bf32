/* SPDX-License-Identifier: MIT
 *
 * One entry a line; a line end inside an entry is written \n, a backslash \\.
 */
#include "run/line.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEEP = 1000, TRIM_AT = 2 * KEEP, ENTRY_MAX_BYTES = 16384 };

char *history_default_path(void)
{
    return user_path("XDG_STATE_HOME", ".local/state", "history");
}

/* In place: an entry only becomes shorter. */
static void decode(char *line)
{
    char *out = line;
    for (const char *p = line; *p; p++) {
        bool escaped = p[0] == '\\' && (p[1] == 'n' || p[1] == '\\');
        if (escaped) p++;
        *out++ = escaped && *p == 'n' ? '\n' : *p;
    }
    *out = 0;
}

static char *next_line(char **at)
{
    char *line = *at, *end = line ? strchr(line, '\n') : NULL;
    if (!end) return NULL; /* a line cut short by a crash is no entry */
    *end = 0;
    *at = end + 1;
    return line;
}

void history_load(const char *path, void (*add)(void *ctx, const char *entry), void *ctx)
{
    struct buffer all = {0};
    if (access(path, R_OK) < 0 || read_file(path, &all) < 0) return;
    int n = 0;
    for (const char *p = all.text; (p = strchr(p, '\n')); p++) n++;
    char *at = all.text;
    int skip = n > KEEP ? n - KEEP : 0;
    while (skip-- > 0) at = strchr(at, '\n') + 1;
    if (n > TRIM_AT) {
        mode_t mask = umask(077);
        write_file_whole(path, at, all.n_bytes - (size_t)(at - all.text));
        umask(mask);
    }
    for (char *line; (line = next_line(&at));) {
        decode(line);
        add(ctx, line);
    }
    buffer_free(&all);
}

void history_append(const char *path, const char *entry)
{
    struct buffer line = {0};
    for (const char *p = entry; *p; p++) {
        if (*p == '\n')
            buffer_add(&line, "\\n", 2);
        else if (*p == '\\')
            buffer_add(&line, "\\\\", 2);
        else
            buffer_add(&line, p, 1);
    }
    buffer_add(&line, "\n", 1);
    if (line.n_bytes <= ENTRY_MAX_BYTES) {
        make_folders(path);
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd >= 0) {
            fchmod(fd, 0600);                                     /* one that was there may have been open to others */
            ssize_t written = write(fd, line.text, line.n_bytes); /* in one piece: entries of two programs do not mix */
            (void)written;
            close(fd);
        }
    }
    buffer_free(&line);
}
