/* SPDX-License-Identifier: MIT
 *
 * A few numbers that were measured, kept in a file: 8-byte words, little-endian,
 *
 *     "LUTRAFIG"   1 (version)   key   n   n doubles   hash of all before it (hash_bytes, seed 0)
 *
 * The key says whose they are.  A file of another key, version or length, or a damaged one, is as none: figures are
 * measured again.
 */
#ifndef LUTRA_WEIGHTS_FIGURES_H
#define LUTRA_WEIGHTS_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { FIGURES_MOST = 64 };

/* Whether there were n of that key; all are finite then, and out is as it was otherwise. */
bool figures_read(const char *path, uint64_t key, double *out, int n);

/* In place of whatever is there; the file appears whole or not at all.  LUTRA_E_IO, LUTRA_E_NO_MEMORY. */
int figures_write(const char *path, uint64_t key, const double *x, int n, struct lutra_error *err);

#endif
