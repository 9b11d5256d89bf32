/* SPDX-License-Identifier: MIT */
#include "weights/figures.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/temporary.h"

enum { VERSION = 1, HEAD = 4, WORDS = HEAD + FIGURES_MOST + 1 };

static const char magic[9] = "LUTRAFIG";

/* Bytes of the file. */
static size_t lay_out(uint64_t word[WORDS], uint64_t key, const double *x, int n)
{
    memcpy(word, magic, sizeof *word);
    word[1] = VERSION;
    word[2] = key;
    word[3] = (uint64_t)n;
    memcpy(word + HEAD, x, (size_t)n * sizeof *x);
    size_t bytes = (HEAD + (size_t)n) * sizeof *word;
    word[HEAD + n] = hash_bytes(0, word, bytes);
    return bytes + sizeof *word;
}

bool figures_read(const char *path, uint64_t key, double *out, int n)
{
    uint64_t got[WORDS + 1], want[WORDS];
    double x[FIGURES_MOST];
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    size_t bytes = fread(got, 1, sizeof got, f);
    fclose(f);
    if (bytes != (HEAD + (size_t)n + 1) * sizeof *got) return false;
    memcpy(x, got + HEAD, (size_t)n * sizeof *x);
    lay_out(want, key, x, n);
    if (memcmp(got, want, bytes) != 0) return false;
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    memcpy(out, x, (size_t)n * sizeof *out);
    return true;
}

int figures_write(const char *path, uint64_t key, const double *x, int n, struct lutra_error *err)
{
    uint64_t word[WORDS];
    char *name;
    size_t bytes = lay_out(word, key, x, n);
    int fd = temporary_create(path, &name), rc = 0;
    if (!name) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    if (fd < 0 || !temporary_write(fd, word, bytes) || rename(name, path) != 0) {
        rc = lutra_fail(err, LUTRA_E_IO, "%s: %s", name, strerror(errno));
        if (fd >= 0) unlink(name);
    }
    if (fd >= 0) close(fd);
    free(name);
    return rc;
}
