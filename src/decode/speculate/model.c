/* SPDX-License-Identifier: MIT
 *
 * draft, mtp: the guesses of a second model, or of the model's own MTP block (struct spec_model), which has drawn one
 * token behind the other.
 */
#include <stdlib.h>

#include "decode/speculate/drafter_impl.h"

struct model_drafter {
    const struct spec_model *model;
    const struct row_tip *first; /* of the pass */
};

int spec_model_kind(float p, int depth)
{
    static const float bound[] = {0.3f, 0.5f, 0.7f, 0.85f, 0.95f};
    int k = 0, d = depth < 2 ? depth : depth < 4 ? 2 : 3;
    while (k < 5 && p >= bound[k]) k++;
    return 4 * k + d;
}

static int open_as(void **self, const struct spec_model *model, struct lutra_error *err)
{
    struct model_drafter *m = calloc(1, sizeof *m);
    if (!m) return lutra_fail(err, LUTRA_E_NO_MEMORY, "spec_type: draft: out of memory");
    m->model = model;
    *self = m;
    return 0;
}

static int open_model(void **self, const struct spec_limits *lim, struct lutra_error *err)
{
    if (lim->model) return open_as(self, lim->model, err);
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "spec_type: 'draft' is not built without a draft model (-md)");
}

static int open_mtp(void **self, const struct spec_limits *lim, struct lutra_error *err)
{
    if (lim->mtp) return open_as(self, lim->mtp, err);
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "spec_type: 'mtp' needs a model with an MTP block");
}

static void begin(void *self, const struct pass *pass, const struct spec_wish *wish)
{
    struct model_drafter *m = self;
    m->first = pass->tip;
    m->model->begin(m->model->self, pass, wish);
}

static int draft(const struct draft_ask *ask, struct draft_node *node)
{
    const struct model_drafter *m = ask->self;
    const struct draft_guess *guess;
    int n = m->model->guesses(m->model->self, (int)(ask->tip - m->first), &guess);
    float p = 1;
    if (n > ask->most) n = ask->most;
    for (int i = 0; i < n; i++) {
        int kind = spec_model_kind(guess[i].p, i);
        p *= ask->rate[kind];
        node[i] = (struct draft_node){guess[i].token, i - 1, 1, p, kind, 0, -1, 0, 0};
    }
    return n;
}

const struct drafter drafter_model = {.prior = 0.7f, .open = open_model, .close = free, .begin = begin, .draft = draft};
const struct drafter drafter_mtp = {.prior = 0.7f, .open = open_mtp, .close = free, .begin = begin, .draft = draft};
