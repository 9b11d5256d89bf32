/* SPDX-License-Identifier: MIT
 *
 * Public structs: their defaults, and the two copies that let programs and libraries of different age fit
 * (lutra/core.h has the rules).
 */
#include "base/settings.h"

#include <string.h>

#include "base/status.h"

enum { SIZE_MAX_BYTES = 1 << 20 }; /* no struct of a program that was compiled against any of our headers is larger */

void settings_fill(void *dst, size_t size, const void *src)
{
    size_t known;
    if (size < sizeof size) return;
    memcpy(&known, src, sizeof known);
    memset(dst, 0, size);
    memcpy(dst, src, size < known ? size : known);
    memcpy(dst, &size, sizeof size);
}

/* The tail of a newer program's struct must say nothing. */
static int check_tail(const char *src, size_t size, size_t known, const char *what, struct lutra_error *err)
{
    for (size_t i = known; i < size; i++)
        if (src[i])
            return lutra_fail_at(err, LUTRA_E_UNSUPPORTED, i,
                "%s: the field at byte %zu is set, but lutra %s knows only %zu bytes: it is older than the program",
                what, i, LUTRA_VERSION, known);
    return 0;
}

int settings_copy(void *dst, size_t dst_size, const void *src, const char *what, struct lutra_error *err)
{
    if (!src) return 0;
    size_t size;
    memcpy(&size, src, sizeof size);
    if (size < sizeof size || size % sizeof size || size > SIZE_MAX_BYTES)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "%s: size is %zu, of no struct's version; begin with its _init()", what, size);
    TRY(check_tail(src, size, dst_size, what, err));
    memcpy(dst, src, size < dst_size ? size : dst_size);
    memcpy(dst, &dst_size, sizeof dst_size);
    return 0;
}

int handle_check(const void *handle, const char *what, struct lutra_error *err)
{
    return handle ? 0 : lutra_fail(err, LUTRA_E_ARGUMENT, "no %s: the handle is NULL", what);
}

int element_copy(
    const struct element_kind *kind, void *dst, const void *array, int i, size_t size, struct lutra_error *err)
{
    if (!array || size < kind->first || size > SIZE_MAX_BYTES)
        return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
            "%s %d: %zu bytes each, less than any version has; pass the size of an element", kind->what, i, size);
    const char *src = (const char *)array + (size_t)i * size;
    TRY(check_tail(src, size, kind->known, kind->what, err));
    memset(dst, 0, kind->known);
    memcpy(dst, src, size < kind->known ? size : kind->known);
    return 0;
}
