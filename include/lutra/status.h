/* SPDX-License-Identifier: MIT
 *
 * Status codes, the error out-struct and log levels: the part of the public API that every room shares.
 *
 * Functions return 0 or a negative LUTRA_E_*.  Those that take a `struct lutra_error *` also describe the
 * failure there (file, key, field or option by name); the pointer may be NULL.  Nothing is global, nothing is
 * to be freed, and the library never prints or aborts.
 */
#ifndef LUTRA_STATUS_H
#define LUTRA_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the library exports; everything else in it is hidden. */
#if defined(__GNUC__)
#define LUTRA_API __attribute__((visibility("default")))
#else
#define LUTRA_API
#endif

/* One line per code: name, value, text. */
#define LUTRA_STATUS_LIST(X)                                                                                           \
    X(LUTRA_OK, 0, "success")                                                                                          \
    X(LUTRA_E_NO_MEMORY, -1, "out of memory")                                                                          \
    X(LUTRA_E_IO, -2, "cannot read or write a file")                                                                   \
    X(LUTRA_E_FORMAT, -3, "malformed input")                                                                           \
    X(LUTRA_E_UNSUPPORTED, -4, "not supported")                                                                        \
    X(LUTRA_E_ARGUMENT, -5, "invalid argument")                                                                        \
    X(LUTRA_E_NOT_FOUND, -6, "not found")                                                                              \
    X(LUTRA_E_CTX_FULL, -7, "the context is full")                                                                     \
    X(LUTRA_E_CANCELLED, -8, "cancelled")                                                                              \
    X(LUTRA_E_DEADLINE, -9, "deadline passed")                                                                         \
    X(LUTRA_E_DEVICE_LOST, -10, "device lost")                                                                         \
    X(LUTRA_E_BUSY, -11, "busy")                                                                                       \
    X(LUTRA_E_INTERNAL, -12, "internal error")

enum lutra_status {
#define LUTRA_STATUS_ENUM(name, value, text) name = value,
    LUTRA_STATUS_LIST(LUTRA_STATUS_ENUM)
#undef LUTRA_STATUS_ENUM
};

struct lutra_error {
    int code;       /* LUTRA_E_*, or 0 */
    uint64_t where; /* byte offset, line, token or index the text speaks of; 0 where there is none */
    char what[480]; /* one sentence, NUL-terminated, no newline */
};

/* Short constant text of a status code; never NULL. */
LUTRA_API const char *lutra_status_text(int code);

enum lutra_log_level { LUTRA_LOG_ERROR, LUTRA_LOG_WARN, LUTRA_LOG_INFO, LUTRA_LOG_DEBUG };

/* Receives one line without a newline.  May be called from any thread, one call at a time per runtime. */
typedef void (*lutra_log_fn)(void *user, enum lutra_log_level level, const char *line);

#ifdef __cplusplus
}
#endif
#endif
