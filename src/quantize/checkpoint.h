/* SPDX-License-Identifier: MIT
 *
 * A checkpoint of a calibration: rounded matrices in a file until the model is written, for a run that goes on where
 * another was killed.
 *
 *     TRY(checkpoint_open(&k, "out.gguf", &key, err));
 *     if (!checkpoint_read(k, tensor, row, bytes, n)) TRY(checkpoint_add(k, tensor, row, bytes, n, err));
 *     checkpoint_close(&k, true);
 *
 * The file, out.gguf.calibrated: 8 bytes "LUTRAca" and its version, the key, then records of (tensor, row, n,
 * hash_parts) and n bytes, numbers of 8 bytes in the machine's order.  What a killed writer left half written ends the
 * file.
 */
#ifndef LUTRA_QUANTIZE_CHECKPOINT_H
#define LUTRA_QUANTIZE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct checkpoint;

/* A new file beside `model`, or what is left of one.  key: of everything that the matrices depend on; NULL: the run
 * will not be resumed, and the file has no name.  LUTRA_E_ARGUMENT: the file has another key, or another process writes
 * it; LUTRA_E_IO. */
int checkpoint_open(struct checkpoint **out, const char *model, const uint64_t *key, struct lutra_error *err);
void checkpoint_close(struct checkpoint **k, bool remove); /* sets *k to NULL; NULL is allowed */

int checkpoint_count(const struct checkpoint *k);
bool checkpoint_has(const struct checkpoint *k, uint64_t tensor, uint64_t row);
/* False: it is not there with n bytes. */
bool checkpoint_read(const struct checkpoint *k, uint64_t tensor, uint64_t row, void *bytes, size_t n);
int checkpoint_add(
    struct checkpoint *k, uint64_t tensor, uint64_t row, const void *bytes, size_t n, struct lutra_error *err);

#endif
