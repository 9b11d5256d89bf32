/* SPDX-License-Identifier: MIT
 *
 * lutra_session_open(): a session, and the drafters beside it that run a model.
 */
#include "base/settings.h"
#include "draft/draft_impl.h"

static int check_draft_model(const lutra_model *model, const lutra_model *drafts, struct lutra_error *err)
{
    bool encoder = model->model && model_ops(model->model)->whole;
    if (drafts && (encoder || (drafts->model && model_ops(drafts->model)->whole)))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "draft_model: an encoder neither writes nor drafts");
    return 0;
}

/* The model's MTP block, where the settings name it; `auto` does without one that cannot run. */
static int join_mtp(lutra_session *s, const char *types, struct lutra_error *err)
{
    const lutra_model *m = session_model(s);
    enum spec_need need = spec_settings_need_mtp(&(struct spec_settings){.types = types});
    struct session_drafter drafter;
    struct lutra_error why;
    if (need == SPEC_WITHOUT || (need == SPEC_TAKES && model_hparams(m->model)->n_draft_layer == 0)) return 0;
    int rc = mtp_open(&drafter, s, &why);
    if (rc < 0 && need == SPEC_NEEDS) return lutra_fail(err, rc, "%s", why.what);
    if (rc < 0)
        log_line(&m->runtime->log, LUTRA_LOG_WARN, "drafts without the MTP block: %s", why.what);
    else
        session_join(s, DRAFTER_MTP, drafter);
    return 0;
}

static int join_all(lutra_session *s, const struct lutra_session_settings *set, struct lutra_error *err)
{
    bool writes = !model_ops(session_model(s)->model)->whole;
    if (set->draft_model) {
        struct session_drafter drafter;
        TRY(draft_model_open(&drafter, s, set->draft_model, err));
        session_join(s, DRAFTER_MODEL, drafter);
    }
    TRY(join_mtp(s, writes ? set->spec_type : NULL, err));
    return session_speculate(s, false, err);
}

int lutra_session_open(
    lutra_session **out, lutra_model *model, const struct lutra_session_settings *settings, struct lutra_error *err)
{
    struct lutra_session_settings set;
    lutra_session_settings_init(&set, sizeof set);
    *out = NULL;
    TRY(handle_check(model, "model", err));
    TRY(settings_copy(&set, sizeof set, settings, "session", err));
    TRY(check_draft_model(model, set.draft_model, err));
    turn_take(&model->runtime->turn, TURN_ALL);
    int rc = session_open(out, model, &set, err);
    if (rc == 0) rc = join_all(*out, &set, err);
    turn_give(&model->runtime->turn, TURN_ALL);
    if (rc < 0) lutra_session_close(out);
    return rc;
}
