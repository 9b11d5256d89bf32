/* SPDX-License-Identifier: MIT
 *
 * What the public functions that write files share: types and groups by their names, and how far they are.
 */
#ifndef LUTRA_QUANTIZE_FILES_H
#define LUTRA_QUANTIZE_FILES_H

#include "lutra.h"
#include "quantize/weighted.h"

/* lutra_progress_fn with its stage name; files_report is a weights_progress_fn of it. */
struct files_progress {
    lutra_progress_fn fn;
    void *user;
    const char *stage;
};
int files_report(void *user, uint64_t done, uint64_t total);

/* A type by its name, in any case.  LUTRA_E_ARGUMENT begins with `what` and lists the types. */
int files_type_named(const char *what, const char *name, enum quant_type *type, struct lutra_error *err);

/* W2, W3, W4, W8: the first n_known are meant.  bits 0: the type is none of them. */
enum { FILES_GROUPS = 4 };
int files_group(const char *who, const char *type, int n_known, int size, bool asymmetric, struct quant_group *group,
    struct lutra_error *err);

#endif
