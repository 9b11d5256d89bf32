/* SPDX-License-Identifier: MIT
 *
 * How every room reports failure.
 *
 *     if (n > limit) return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' is too long", path, key);
 *     TRY(gguf_read_header(...));
 *
 * A function that owns things on failure uses one `fail:` label:  if ((rc = step(...)) < 0) goto fail;
 */
#ifndef LUTRA_BASE_STATUS_H
#define LUTRA_BASE_STATUS_H

#include "base/compiler.h"
#include "lutra/status.h"

/* Returns the status of `expr` to the caller if it is an error. */
#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        int try_status_ = (expr);                                                                                      \
        if (try_status_ < 0) return try_status_;                                                                       \
    } while (0)

/* Fills *err (when not NULL) and returns `code`, so that a failure is one statement.  Long texts are cut. */
int lutra_fail(struct lutra_error *err, int code, const char *fmt, ...) LUTRA_PRINTF(3, 4);

/* The same with the byte offset, line or index that the text speaks of. */
int lutra_fail_at(struct lutra_error *err, int code, uint64_t where, const char *fmt, ...) LUTRA_PRINTF(4, 5);

#endif
