/* SPDX-License-Identifier: MIT
 *
 * For the tests of this room: temporary files, and GGUF files written byte by byte so that they can be wrong.
 */
#ifndef LUTRA_TESTS_WEIGHTS_BUILD_H
#define LUTRA_TESTS_WEIGHTS_BUILD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder of its own under TMPDIR; test_folder_remove deletes it with the files in it. */
static char test_folder[256];

static inline int test_folder_make(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(test_folder, sizeof test_folder, "%s/lutra-weights-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(test_folder) ? 0 : -1;
}

static inline int test_folder_remove(void **state)
{
    (void)state;
    char command[320];
    snprintf(command, sizeof command, "rm -rf '%s'", test_folder);
    return system(command);
}

/* FOLDER/name in one of a few rotating buffers. */
static inline const char *in_folder(const char *name)
{
    static char path[8][512];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", test_folder, name);
    return p;
}

static inline void save(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

struct build {
    uint8_t b[65536];
    size_t n;
};

static inline void add(struct build *f, const void *p, size_t n)
{
    if (n) memcpy(f->b + f->n, p, n);
    f->n += n;
}
static inline void add_u32(struct build *f, uint32_t v)
{
    add(f, &v, 4);
}
static inline void add_u64(struct build *f, uint64_t v)
{
    add(f, &v, 8);
}
static inline void add_str(struct build *f, const char *s)
{
    add_u64(f, strlen(s));
    add(f, s, strlen(s));
}
static inline void add_head(struct build *f, uint32_t version, uint64_t n_tensor, uint64_t n_kv)
{
    f->n = 0;
    add(f, "GGUF", 4);
    add_u32(f, version);
    add_u64(f, n_tensor);
    add_u64(f, n_kv);
}
static inline void add_kv_u32(struct build *f, const char *key, uint32_t v)
{
    add_str(f, key);
    add_u32(f, 4);
    add_u32(f, v);
}
static inline void add_tensor(
    struct build *f, const char *name, uint32_t n_dim, const uint64_t *ne, uint32_t type, uint64_t offset)
{
    add_str(f, name);
    add_u32(f, n_dim);
    for (uint32_t i = 0; i < n_dim; i++) add_u64(f, ne[i]);
    add_u32(f, type);
    add_u64(f, offset);
}
static inline void add_zeros(struct build *f, size_t n)
{
    memset(f->b + f->n, 0, n);
    f->n += n;
}
static inline void add_padding(struct build *f, size_t alignment)
{
    add_zeros(f, (alignment - f->n % alignment) % alignment);
}

#endif
