/* SPDX-License-Identifier: MIT */
#include "files/names.h"

#include <stdlib.h>
#include <string.h>

struct names_chunk {
    struct names_chunk *before;
    size_t used, size;
    char bytes[];
};

enum { CHUNK_BYTES = 16384 };

const char *names_add(struct names *names, const char *s, size_t n)
{
    struct names_chunk *c = names->last;
    if (!c || c->size - c->used < n + 1) {
        size_t size = n + 1 > CHUNK_BYTES ? n + 1 : CHUNK_BYTES;
        c = malloc(sizeof *c + size);
        if (!c) return NULL;
        c->before = names->last;
        c->used = 0;
        c->size = size;
        names->last = c;
    }
    char *out = c->bytes + c->used;
    memcpy(out, s, n);
    out[n] = 0;
    c->used += n + 1;
    return out;
}

void names_fini(struct names *names)
{
    while (names->last) {
        struct names_chunk *c = names->last;
        names->last = c->before;
        free(c);
    }
}

struct shown show_bytes(const char *s, size_t n)
{
    struct shown out;
    size_t room = sizeof out.s - 1, cut = n > room ? room - 3 : n;
    for (size_t i = 0; i < cut; i++) out.s[i] = s[i] > 31 && s[i] < 127 ? s[i] : '?';
    if (cut < n) {
        memcpy(out.s + cut, "...", 3);
        cut += 3;
    }
    out.s[cut] = 0;
    return out;
}

struct shown show_name(const char *s)
{
    return show_bytes(s, strlen(s));
}
