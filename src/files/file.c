/* SPDX-License-Identifier: MIT
 *
 * One file of a model, mapped.
 */
#include "files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void set_label(struct model_file *file, const char *path)
{
    size_t n = strlen(path), room = sizeof file->label - 4;
    int cut = n > room;
    snprintf(file->label, sizeof file->label, "%s%s", cut ? "..." : "", cut ? path + n - room : path);
}

int model_file_map(struct model_file *file, const char *path, struct lutra_error *err)
{
    struct stat st;
    set_label(file, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return lutra_fail(err, LUTRA_E_IO, "%s: cannot open: %s", file->label, strerror(errno));
    int rc = 0;
    if (fstat(fd, &st) != 0) {
        rc = lutra_fail(err, LUTRA_E_IO, "%s: cannot stat: %s", file->label, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        rc = lutra_fail(err, LUTRA_E_IO, "%s: a folder, not a file", file->label);
    } else if (!S_ISREG(st.st_mode)) {
        rc = lutra_fail(err, LUTRA_E_IO, "%s: not a regular file", file->label);
    } else if (st.st_size == 0) {
        rc = lutra_fail(err, LUTRA_E_FORMAT, "%s: the file is empty", file->label);
    } else if ((uint64_t)st.st_size > SIZE_MAX / 2) {
        rc = lutra_fail(err, LUTRA_E_IO, "%s: too large to map", file->label);
    } else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            int code = errno == ENOMEM ? LUTRA_E_NO_MEMORY : LUTRA_E_IO;
            rc = lutra_fail(err, code, "%s: cannot map: %s", file->label, strerror(errno));
        } else {
            file->base = p;
            file->bytes = (size_t)st.st_size;
            file->modified_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
        }
    }
    close(fd);
    return rc;
}

void model_file_fini(struct model_file *file)
{
    for (size_t i = 0; i < file->n_kv; i++) free((void *)file->kv[i].offset);
    free(file->kv);
    free(file->kv_by_name);
    free(file->tensor);
    names_fini(&file->names);
    file->kv = NULL;
    file->kv_by_name = NULL;
    file->tensor = NULL;
    file->n_kv = file->n_tensor = 0;
}

void model_file_close(struct model_file *file)
{
    model_file_fini(file);
    if (file->composed)
        free((void *)file->base);
    else if (file->base)
        munmap((void *)file->base, file->bytes);
    file->base = NULL;
}
