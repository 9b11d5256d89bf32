/* SPDX-License-Identifier: MIT */
#include "rag/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

enum { SEGMENT_VERSION = 1, SYMBOLS_MOST = INT32_MAX - 1 };
static const char segment_magic[8] = "LUTRASEG";

static uint64_t sum_of(const struct segment_head *head, size_t n_bytes)
{
    struct segment_head bare = *head;
    bare.sum = 0;
    return hash_bytes(hash_bytes(0, &bare, sizeof bare), head + 1, n_bytes - sizeof bare);
}

static void find_parts(struct segment *s, void *bytes, size_t n_bytes)
{
    s->head = bytes;
    s->n_bytes = n_bytes;
    s->text = (const struct segment_text *)(s->head + 1);
    const int32_t *symbol = (const int32_t *)(s->text + s->head->n_text);
    s->tokens = (struct suffixes){symbol, symbol + s->head->n, (int32_t)s->head->n};
}

const int32_t *segment_text_symbols(const struct segment *s, int64_t i, int64_t *n)
{
    int64_t end = i + 1 < s->head->n_text ? s->text[i + 1].begin : s->head->n;
    *n = end - s->text[i].begin;
    return s->tokens.symbol + s->text[i].begin;
}

/* ---- gathering ---- */

static int grow(void **at, size_t size, size_t n, size_t *room)
{
    if (n <= *room) return 0;
    size_t more = n + n / 2 + 1024;
    void *grown = realloc(*at, more * size);
    if (!grown) return -1;
    *at = grown;
    *room = more;
    return 0;
}

static int grow_symbols(struct gathered *g, size_t n)
{
    void *at = g->symbol;
    if (n > SYMBOLS_MOST - g->n || grow(&at, sizeof *g->symbol, g->n + n, &g->room) < 0) return -1;
    g->symbol = at;
    return 0;
}

int gathered_begin(struct gathered *g, struct text_key key)
{
    void *at = g->text;
    if (grow(&at, sizeof *g->text, g->n_text + 1, &g->text_room) < 0) return -1;
    g->text = at;
    g->text[g->n_text++] = (struct segment_text){key, (int64_t)g->n};
    return 0;
}

int gathered_add(struct gathered *g, const int32_t *token, size_t n)
{
    if (grow_symbols(g, n) < 0) return -1;
    for (size_t i = 0; i < n; i++) g->symbol[g->n++] = token[i] + 1;
    return 0;
}

int gathered_end(struct gathered *g)
{
    if (grow_symbols(g, 1) < 0) return -1;
    g->symbol[g->n++] = 0;
    return 0;
}

int gathered_copy(struct gathered *g, const struct segment *s, int64_t i)
{
    int64_t n;
    const int32_t *symbol = segment_text_symbols(s, i, &n);
    if (gathered_begin(g, s->text[i].key) < 0 || grow_symbols(g, (size_t)n) < 0) return -1;
    memcpy(g->symbol + g->n, symbol, (size_t)n * sizeof *symbol);
    g->n += (size_t)n;
    return 0;
}

void gathered_fini(struct gathered *g)
{
    free(g->text);
    free(g->symbol);
    *g = (struct gathered){0};
}

/* ---- making, opening ---- */

int segment_make(struct segment *s, const struct gathered *g, uint64_t vocab, int32_t n_vocab)
{
    size_t n_bytes = sizeof *s->head + g->n_text * sizeof *g->text + g->n * 2 * sizeof *g->symbol;
    struct segment_head *head = malloc(n_bytes);
    *s = (struct segment){0};
    if (!head) return -1;
    *head = (struct segment_head){.version = SEGMENT_VERSION,
        .n_symbol = n_vocab + 1,
        .vocab = vocab,
        .n_text = (int64_t)g->n_text,
        .n = (int64_t)g->n};
    memcpy(head->magic, segment_magic, sizeof head->magic);
    find_parts(s, head, n_bytes);
    if (g->n_text) memcpy((void *)s->text, g->text, g->n_text * sizeof *g->text);
    if (g->n) memcpy((void *)s->tokens.symbol, g->symbol, g->n * sizeof *g->symbol);
    if (suffixes_sort(s->tokens.symbol, s->tokens.n, n_vocab + 1, (int32_t *)s->tokens.order) < 0) {
        segment_close(s);
        return -1;
    }
    head->sum = sum_of(head, n_bytes);
    return 0;
}

static bool is_head(const struct segment_head *h, size_t n_bytes)
{
    if (memcmp(h->magic, segment_magic, sizeof h->magic) != 0 || h->version != SEGMENT_VERSION) return false;
    if (h->n_symbol < 1 || h->n < 0 || h->n > SYMBOLS_MOST || h->n_text < 0 || h->n_text > h->n) return false;
    return n_bytes == sizeof *h + (size_t)h->n_text * sizeof(struct segment_text) + (size_t)h->n * 2 * sizeof(int32_t);
}

/* Texts fill the symbols, each with its end, and no number leads out.  The loops become vectors. */
static bool is_sound(const struct segment *s)
{
    uint32_t most_symbol = 0, most_place = 0, n = (uint32_t)s->tokens.n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t a = (uint32_t)s->tokens.symbol[i], b = (uint32_t)s->tokens.order[i];
        most_symbol = a > most_symbol ? a : most_symbol;
        most_place = b > most_place ? b : most_place;
    }
    if (n && (most_symbol >= (uint32_t)s->head->n_symbol || most_place >= n)) return false;
    int64_t at = 0, n_text = s->head->n_text;
    for (int64_t i = 0; i < n_text; i++) {
        int64_t end = i + 1 < n_text ? s->text[i + 1].begin : s->head->n;
        if (s->text[i].begin != at || end <= at || end > s->head->n || s->tokens.symbol[end - 1] != 0) return false;
        at = end;
    }
    return at == s->head->n;
}

int segment_open(struct segment *s, int folder, const char *name)
{
    struct stat st;
    void *map = MAP_FAILED;
    *s = (struct segment){0};
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size >= sizeof *s->head)
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) return -1;
    s->head = map;
    s->n_bytes = (size_t)st.st_size;
    s->is_mapped = true;
    if (is_head(map, s->n_bytes) && s->head->sum == sum_of(map, s->n_bytes)) {
        find_parts(s, map, s->n_bytes);
        if (is_sound(s)) return 0;
    }
    segment_close(s);
    return -1;
}

int segment_save(const struct segment *s, int folder, const char *name)
{
    char other[80];
    snprintf(other, sizeof other, "%s.tmp", name);
    int fd = openat(folder, other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), why = 0;
    if (fd < 0) return -1;
    for (size_t at = 0; at < s->n_bytes && !why;) {
        ssize_t n = write(fd, (const char *)s->head + at, s->n_bytes - at);
        if (n > 0) at += (size_t)n;
        if (n < 0 && errno != EINTR) why = errno;
    }
    if (close(fd) != 0 && !why) why = errno;
    if (!why && renameat(folder, other, folder, name) == 0) return 0;
    if (!why) why = errno;
    unlinkat(folder, other, 0);
    errno = why;
    return -1;
}

void segment_close(struct segment *s)
{
    if (s->is_mapped)
        munmap((void *)s->head, s->n_bytes);
    else
        free((void *)s->head);
    *s = (struct segment){0};
}
