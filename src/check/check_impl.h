/* SPDX-License-Identifier: MIT
 *
 * What the parts of a check share.
 */
#ifndef LUTRA_CHECK_IMPL_H
#define LUTRA_CHECK_IMPL_H

#include "base/status.h"
#include "lutra.h"
#include "weights/weights.h"

struct checker {
    struct lutra_check_settings set;
    const char *part;
    int n_found, n_looked; /* of the part; things looked at */
};

void check_found(struct checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_passed(struct checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* LUTRA_E_CANCELLED where the caller has had enough. */
int check_progress(const struct checker *c, uint64_t done, uint64_t total, struct lutra_error *err);

int check_tensors(struct checker *c, const struct weights *w, struct lutra_error *err); /* files.c */
int check_products(struct checker *c, lutra_model *model, struct lutra_error *err);     /* products.c */
int check_texts(struct checker *c, lutra_model *model, lutra_session *session, struct lutra_error *err); /* texts.c */
/* shadow.c: nothing where settings do not ask for it. */
int check_shadow(struct checker *c, lutra_model *model, lutra_session *session, struct lutra_error *err);

#endif
