/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli.h"
#include "find.h"
#include "sha.h"

enum { END_BYTES = 64 << 10 };

static void add_part(struct sha *h, FILE *f, long from)
{
    char part[END_BYTES];
    if (fseek(f, from, SEEK_SET) == 0) sha_add(h, part, fread(part, 1, sizeof part, f));
}

/* false: there is no such file. */
static bool add_file(struct sha *h, const char *path)
{
    char size[32];
    struct stat st;
    FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    if (!f) return false;
    int n = snprintf(size, sizeof size, "%lld ", (long long)st.st_size);
    sha_add(h, size, (size_t)n);
    add_part(h, f, 0);
    if (st.st_size > END_BYTES) add_part(h, f, (long)st.st_size - END_BYTES);
    fclose(f);
    return true;
}

void model_digest(const char *path, char hex[65])
{
    static const char *const inside[] = {"config.json", "model.safetensors.index.json", "model.safetensors"};
    struct sha h;
    sha_begin(&h, SHA_256);
    if (!add_file(&h, path)) {
        for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
            char *file = join_path(path, inside[i]);
            add_file(&h, file);
            free(file);
        }
    }
    sha_end(&h, hex);
}
