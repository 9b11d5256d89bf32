/* SPDX-License-Identifier: MIT
 *
 * The public functions, and how findings are told.
 */
#include "check/check_impl.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/settings.h"

void lutra_check_settings_init(struct lutra_check_settings *settings, size_t size)
{
    settings_fill(settings, size, &(struct lutra_check_settings){.size = sizeof *settings});
}

void check_found(struct checker *c, const char *format, ...)
{
    char text[400];
    va_list args;
    c->n_found++;
    if (!c->set.found) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->set.found(c->set.user, c->part, text);
}

void check_passed(struct checker *c, const char *format, ...)
{
    char text[400];
    va_list args;
    if (!c->set.passed) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->set.passed(c->set.user, c->part, text);
}

int check_progress(const struct checker *c, uint64_t done, uint64_t total, struct lutra_error *err)
{
    if (!c->set.progress || c->set.progress(c->set.progress_user, c->part, done, total) == 0) return 0;
    return lutra_fail(err, LUTRA_E_CANCELLED, "cancelled");
}

int lutra_check_file(
    const char *path, const struct lutra_check_settings *settings, int *n_found, struct lutra_error *err)
{
    struct checker c = {.set.size = sizeof c.set, .part = "file"};
    struct weights *w;
    *n_found = 0;
    TRY(settings_copy(&c.set, sizeof c.set, settings, "struct lutra_check_settings", err));
    TRY(weights_open_as(&w, path, (struct weights_how){WEIGHTS_ZEROS_ANY, true}, err));
    int rc = check_tensors(&c, w, err);
    weights_close(&w);
    *n_found = c.n_found;
    return rc;
}

int lutra_check_model(lutra_model *model, lutra_session *session, const struct lutra_check_settings *settings,
    int *n_found, struct lutra_error *err)
{
    struct checker c = {.set.size = sizeof c.set, .part = "products"};
    *n_found = 0;
    TRY(handle_check(model, "model", err));
    TRY(handle_check(session, "session", err));
    TRY(settings_copy(&c.set, sizeof c.set, settings, "struct lutra_check_settings", err));
    int rc = check_products(&c, model, err);
    c.part = "texts";
    if (rc == 0) rc = check_texts(&c, model, session, err);
    c.part = "shadow";
    if (rc == 0) rc = check_shadow(&c, model, session, err);
    *n_found = c.n_found;
    return rc;
}
