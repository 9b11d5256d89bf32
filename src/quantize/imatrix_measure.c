/* SPDX-License-Identifier: MIT
 *
 * lutra_imatrix: sums of squares of every matrix's inputs over a text.
 */
#include <stdio.h>
#include <string.h>

#include "quantize/observe.h"
#include "base/settings.h"
#include "quantize/imatrix_measure.h"
#include "quantize/imatrix.h"

static int add_inputs(void *user, const struct op *op, const float *x, int n_row, struct lutra_error *err)
{
    struct imatrix *m = user;
    size_t n_in = (size_t)op->weight[0]->tensor.ne[0];
    for (int k = 0; k < op->n_weight; k++) {
        char name[128];
        struct imatrix_entry *e;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(op->weight[k]->tensor.name, "["), op->weight[k]->tensor.name);
        if (k > 0 && strncmp(name, op->weight[k - 1]->tensor.name, strlen(name)) == 0) continue; /* slices of one */
        e = imatrix_find(m, name);
        if (!e) TRY(imatrix_add(m, name, strlen(name), n_in, &e, err));
        for (int r = 0; r < n_row; r++) {
            for (size_t i = 0; i < n_in; i++) {
                double v = (double)x[(size_t)r * n_in + i];
                e->sum2[i] += v * v;
                e->sum[i] += v;
            }
        }
        e->count += n_row;
    }
    return 0;
}

static int collect(struct imatrix *m, lutra_session *s, const int32_t *ids, const struct lutra_imatrix_settings *set,
    struct lutra_error *err)
{
    const struct observer o = {.inputs = add_inputs, .user = m};
    for (uint32_t c = 0; c < m->n_chunk; c++) {
        if (set->progress && set->progress(set->progress_user, "chunks", c, m->n_chunk))
            return lutra_fail(err, LUTRA_E_CANCELLED, "imatrix: cancelled");
        TRY(observe_run(s, ids + (size_t)c * m->chunk_tokens, 1, &o, err));
    }
    return 0;
}

int observe_importance(struct imatrix **out, lutra_model *model, const int32_t *tokens, int n_token,
    const struct lutra_imatrix_settings *set, struct lutra_error *err)
{
    lutra_session *s = NULL;
    int n_chunk;
    *out = NULL;
    TRY(observe_chunks(n_token, set->n_ctx, set->n_chunk, &n_chunk, err));
    int rc = imatrix_new(out, err);
    if (rc == 0) rc = observe_open(&s, model, set->n_ctx, err);
    if (rc == 0) {
        (*out)->n_chunk = (uint32_t)n_chunk;
        (*out)->chunk_tokens = (uint32_t)set->n_ctx;
        (*out)->dataset = set->dataset ? strdup(set->dataset) : NULL;
        rc = collect(*out, s, tokens, set, err);
    }
    lutra_session_close(&s);
    if (rc < 0) imatrix_close(out);
    return rc;
}

int lutra_imatrix(lutra_model *model, const int32_t *tokens, int n_token, const char *out_path,
    const struct lutra_imatrix_settings *settings, struct lutra_error *err)
{
    struct lutra_imatrix_settings set;
    struct imatrix *m;
    lutra_imatrix_settings_init(&set, sizeof set);
    TRY(handle_check(model, "model", err));
    TRY(settings_copy(&set, sizeof set, settings, "imatrix", err));
    TRY(observe_importance(&m, model, tokens, n_token, &set, err));
    int rc = imatrix_write(m, out_path, set.dat, err);
    imatrix_close(&m);
    return rc;
}
