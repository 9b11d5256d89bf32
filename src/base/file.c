/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int file_read(const char *path, size_t most, char **text, size_t *n, struct lutra_error *err)
{
    FILE *f = fopen(path, "rbe");
    *text = NULL;
    *n = 0;
    if (!f) return lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(errno));
    char *all = malloc(most + 1);
    if (all) *n = fread(all, 1, most + 1, f);
    int failed = ferror(f) ? errno : 0;
    fclose(f);
    int rc = 0;
    if (!all)
        rc = lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    else if (failed)
        rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", path, strerror(failed));
    else if (*n > most)
        rc = lutra_fail(err, LUTRA_E_FORMAT, "%s: more than %zu KiB", path, most >> 10);
    if (rc < 0) {
        free(all);
        return rc;
    }
    all[*n] = 0;
    *text = all;
    return 0;
}
