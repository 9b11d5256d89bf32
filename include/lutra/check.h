/* SPDX-License-Identifier: MIT
 *
 * Does a model's file, on this machine, with these kernels, give what it should?
 *
 *     struct lutra_check_settings set;
 *     lutra_check_settings_init(&set, sizeof set);
 *     set.found = print_what_is_wrong;
 *     lutra_check_file("model.gguf", &set, &n_found, &err);
 *     lutra_check_model(model, session, &set, &n_found, &err);
 */
#ifndef LUTRA_CHECK_H
#define LUTRA_CHECK_H

#include "lutra/session.h"

#ifdef __cplusplus
extern "C" {
#endif

struct lutra_check_settings {
    size_t size;
    bool quick; /* an eighth of each tensor; products of 1, 8 and 32 rows */
    /* What is wrong, a sentence; part: "file", "products", "texts", "shadow".  Borrowed for the call.  May be NULL. */
    void (*found)(void *user, const char *part, const char *what);
    /* What was looked at, a sentence for each part.  May be NULL. */
    void (*passed)(void *user, const char *part, const char *what);
    void *user;
    lutra_progress_fn progress;
    void *progress_user;
    /* lutra_check_model: of 64 passes of one row every shadow-th is computed by the reference kernels, too, from the
     * same cache, and its logits are compared (part "shadow").  They pack all weights once more.  0: none. */
    int shadow;
};
LUTRA_API void lutra_check_settings_init(struct lutra_check_settings *settings, size_t size);

/* The values of every tensor: numbers, none absurdly large, no tensor or page of zeros where there should be values.
 * *n_found: findings.  Returns an error only where it could not look: the file cannot be opened, LUTRA_E_CANCELLED. */
LUTRA_API int lutra_check_file(
    const char *path, const struct lutra_check_settings *settings, int *n_found, struct lutra_error *err);

/* An open model and a session on it, with n_seq of 4 or more and a context of 128 or more, which nothing else uses
 * meanwhile.  Every kind of product (weight type, sizes) for 1 to 512 rows: the same bits whatever rows are beside, and
 * near the scalar reference.  Then texts: one prompt alone, again from the cache, beside others, behind a fork and with
 * right and wrong drafts gives one text; text becomes tokens and the same text; the chat template renders. */
LUTRA_API int lutra_check_model(lutra_model *model, lutra_session *session, const struct lutra_check_settings *settings,
    int *n_found, struct lutra_error *err);

#ifdef __cplusplus
}
#endif

#endif
