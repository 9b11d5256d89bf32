/* SPDX-License-Identifier: MIT
 *
 * Reads mapped tensors ahead, in order, in a thread of its own.
 *
 *     TRY(weights_reader_open(&r, item, n, err));
 *     TRY(weights_reader_wait(r, tensor->data, err));       its pages are in memory, or the error names it
 *     weights_reader_close(&r);
 *
 * A page that cannot be read (a file that became shorter, a disk that fails) is an error of the tensor it is in, and
 * ends the reading; without this thread it would be a signal.  Wait from any thread.
 */
#ifndef LUTRA_WEIGHTS_READER_H
#define LUTRA_WEIGHTS_READER_H

#include <stddef.h>

#include "base/status.h"

struct weights_reader;

struct reader_item {
    const char *name; /* borrowed, like what it is of */
    const void *data; /* mapped */
    size_t bytes;
};

/* The list is copied. */
int weights_reader_open(struct weights_reader **out, const struct reader_item *item, int n, struct lutra_error *err);

/* LUTRA_E_IO: it could not be read.  0 at once for what is not on the list. */
int weights_reader_wait(struct weights_reader *r, const void *data, struct lutra_error *err);

void weights_reader_close(struct weights_reader **r);

#endif
