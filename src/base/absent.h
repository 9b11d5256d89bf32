/* SPDX-License-Identifier: MIT
 *
 * What a build without an optional part has in its place: functions that refuse, one line for each.
 *
 *     #define WITHOUT "documents: lutra was built without SQLite"
 *     ABSENT(lutra_store_check(lutra_store *store, struct lutra_error *err))
 *
 * Such a file is compiled without warnings of unused parameters.
 */
#ifndef LUTRA_BASE_ABSENT_H
#define LUTRA_BASE_ABSENT_H

#include <stddef.h>

#include "base/status.h"

/* Returns a status, and says why in `err`. */
#define ABSENT(...)                                                                                                    \
    int __VA_ARGS__                                                                                                    \
    {                                                                                                                  \
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, WITHOUT);                                                          \
    }

/* The same where *handle would be something. */
#define ABSENT_OPEN(handle, ...)                                                                                       \
    int __VA_ARGS__                                                                                                    \
    {                                                                                                                  \
        *handle = NULL;                                                                                                \
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, WITHOUT);                                                          \
    }

/* Returns no status, but this; closes a handle that nobody could open; a struct's _init, without defaults. */
#define ABSENT_VALUE(value, ...)                                                                                       \
    __VA_ARGS__                                                                                                        \
    {                                                                                                                  \
        return value;                                                                                                  \
    }
#define ABSENT_CLOSE(handle, ...)                                                                                      \
    void __VA_ARGS__                                                                                                   \
    {                                                                                                                  \
        *handle = NULL;                                                                                                \
    }
#define ABSENT_INIT(name)                                                                                              \
    void name##_init(struct name *it, size_t size)                                                                     \
    {                                                                                                                  \
        settings_fill(it, size, &(struct name){.size = sizeof *it});                                                   \
    }

#endif
