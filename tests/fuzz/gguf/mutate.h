/* SPDX-License-Identifier: MIT
 *
 * Valid GGUF files to start from, and changes to them that a parser must survive.
 */
#ifndef LUTRA_TESTS_FUZZ_GGUF_MUTATE_H
#define LUTRA_TESTS_FUZZ_GGUF_MUTATE_H

#include <stddef.h>
#include <stdint.h>

enum { MAX_INPUT = 1 << 18, MAX_FIELDS = 4096, N_SEEDS = 4 };

/* Where a valid file keeps its lengths, counts, types and offsets. */
struct field {
    uint32_t at;
    uint32_t bytes; /* 4 or 8 */
};

struct seed {
    uint8_t *bytes;
    size_t n;
    struct field *field; /* [n_field] */
    size_t n_field;
};

/* Writes the seed files into `folder` with the library's writer and reads them back; 0 on success. */
int seeds_make(struct seed seed[N_SEEDS], const char *folder);
void seeds_free(struct seed seed[N_SEEDS]);

/* A mutated seed into out[MAX_INPUT]; returns its length. */
size_t mutate(const struct seed seed[N_SEEDS], uint64_t *dice, uint8_t *out);

#endif
