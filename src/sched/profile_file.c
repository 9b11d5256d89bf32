/* SPDX-License-Identifier: MIT
 *
 * A profile's file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/temporary.h"
#include "sched/profile.h"

enum { FILE_MOST = 4 << 20 };

int profile_read(struct profile **out, const char *path, const struct profile_key *key, struct lutra_error *err)
{
    char *text = NULL;
    struct lutra_error why;
    struct stat st;
    size_t n = 0;
    *out = NULL;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) /* who finds a pipe beside a model does not wait for it */
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: no plain file", path);
    int rc = file_read(path, FILE_MOST, &text, &n, err);
    if (rc == 0 && !(*out = malloc(sizeof **out))) rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    if (rc == 0 && (rc = profile_parse(*out, text, n, key, &why)) < 0) {
        lutra_fail(err, rc, "%s: %s", path, why.what);
        free(*out);
        *out = NULL;
    }
    free(text);
    return rc;
}

/* The descriptor of a file that is to replace `path`; *name is to be freed in any case. */
static int create(const char *path, char **name, struct lutra_error *err)
{
    const int fd = temporary_create(path, name);
    if (!*name) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    return fd < 0 ? lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno)) : fd;
}

int profile_can_write(const char *path, struct lutra_error *err)
{
    char *name;
    const int fd = create(path, &name, err);
    if (fd >= 0) unlink(name), close(fd);
    free(name);
    return fd < 0 ? fd : 0;
}

int profile_write(const char *path, const char *text, struct lutra_error *err)
{
    char *name;
    const int fd = create(path, &name, err);
    int rc = fd < 0 ? fd : 0;
    if (fd >= 0 && (!temporary_write(fd, text, strlen(text)) || fsync(fd) < 0 || rename(name, path) < 0)) {
        rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
        unlink(name);
    }
    if (fd >= 0) close(fd);
    free(name);
    return rc;
}
