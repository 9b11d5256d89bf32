/* SPDX-License-Identifier: MIT
 *
 * A small file, read whole.
 */
#ifndef LUTRA_BASE_FILE_H
#define LUTRA_BASE_FILE_H

#include <stddef.h>

#include "base/status.h"

/* *text: all its *n bytes and a NUL behind them, to be freed; NULL where it fails: LUTRA_E_IO (it cannot be opened or
 * read), LUTRA_E_FORMAT (more than `most` bytes, which are multiples of 1 KiB), LUTRA_E_NO_MEMORY.  A pipe is read to
 * its end.  Texts begin with the path. */
int file_read(const char *path, size_t most, char **text, size_t *n, struct lutra_error *err);

#endif
