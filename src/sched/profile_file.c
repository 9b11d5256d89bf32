/* SPDX-License-Identifier: MIT
 *
 * A profile's file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/temporary.h"
#include "sched/profile.h"

enum { FILE_MOST = 4 << 20 };

/* A plain file, whole; *text is freed by the caller. */
static int read_whole(const char *path, char **text, size_t *n, struct lutra_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *text = NULL;
    *n = 0;
    if (fd < 0) return lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
    int rc = 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MOST)
        rc = lutra_fail(err, LUTRA_E_FORMAT, "%s: no file of at most %d bytes", path, FILE_MOST);
    else if (!(*text = malloc((size_t)st.st_size + 1)))
        rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    for (ssize_t got = 1; rc == 0 && got && *n < (size_t)st.st_size; *n += (size_t)got)
        if ((got = read(fd, *text + *n, (size_t)st.st_size - *n)) < 0) {
            rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
            break;
        }
    close(fd);
    return rc;
}

int profile_read(struct profile **out, const char *path, const struct profile_key *key, struct lutra_error *err)
{
    char *text;
    struct lutra_error why;
    size_t n;
    int rc = read_whole(path, &text, &n, err);
    *out = rc == 0 ? malloc(sizeof **out) : NULL;
    if (rc == 0 && !*out) rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    if (rc == 0 && (rc = profile_parse(*out, text, n, key, &why)) < 0) {
        lutra_fail(err, rc, "%s: %s", path, why.what);
        free(*out);
        *out = NULL;
    }
    free(text);
    return rc;
}

int profile_write(const char *path, const char *text, struct lutra_error *err)
{
    char *name;
    int fd = temporary_create(path, &name), rc = 0;
    if (!name) rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    if (rc == 0 && (fd < 0 || !temporary_write(fd, text, strlen(text)) || fsync(fd) < 0 || rename(name, path) < 0))
        rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
    if (rc < 0 && fd >= 0) unlink(name);
    if (fd >= 0) close(fd);
    free(name);
    return rc;
}
