/* SPDX-License-Identifier: MIT
 *
 * OLMo 2 and 3: norms behind the sub-layers only, and norms of q and k over the whole row.  OLMo 3 has windows in three
 * layers of four, which turn without scaling.
 */
#include "model/model_impl.h"

static int read(const struct reader *r, struct lutra_error *err)
{
    r->hp->window_rope.freq_scale = r->hp->window_rope.magnitude = 1;
    TRY(model_opt_float(r, "rope.freq_base_swa", 1.0f, 1e12f, &r->hp->window_rope.freq_base, err));
    return model_read_windows(r, 0, 4, err);
}

const struct arch model_olmo2 = {.name = "olmo2",
    .rope = ROPE_NEOX,
    .norms = NORM_BEHIND,
    .qk_norm = QK_NORM_ROW,
    .gate = OP_SWIGLU,
    .two_ropes = true,
    .keys = {WINDOW_KEY},
    .read = read};
