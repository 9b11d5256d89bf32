/* SPDX-License-Identifier: MIT
 *
 * Rounded matrices kept in a file until the model is written, and for a run that goes on where another was killed.
 *
 *     TRY(kept_open(&k, "out.gguf", &key, err));
 *     if (!kept_read(k, tensor, row, bytes, n)) TRY(kept_add(k, tensor, row, bytes, n, err));
 *     kept_close(&k, true);
 *
 * The file, out.gguf.calibrated: 8 bytes "LUTRAca" and its version, the key, then records of (tensor, row, n,
 * hash_parts) and n bytes, numbers of 8 bytes in the machine's order.  What a killed writer left half written ends the
 * file.
 */
#ifndef LUTRA_QUANTIZE_KEPT_H
#define LUTRA_QUANTIZE_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct kept;

/* A new file beside `model`, or what is left of one.  key: of everything that the matrices depend on; NULL: the run
 * will not be resumed, and the file has no name.  LUTRA_E_ARGUMENT: the file has another key, or another process writes
 * it; LUTRA_E_IO. */
int kept_open(struct kept **out, const char *model, const uint64_t *key, struct lutra_error *err);
void kept_close(struct kept **k, bool remove); /* sets *k to NULL; NULL is allowed */

int kept_count(const struct kept *k);
bool kept_has(const struct kept *k, uint64_t tensor, uint64_t row);
/* False: it is not there with n bytes. */
bool kept_read(const struct kept *k, uint64_t tensor, uint64_t row, void *bytes, size_t n);
int kept_add(struct kept *k, uint64_t tensor, uint64_t row, const void *bytes, size_t n, struct lutra_error *err);

#endif
