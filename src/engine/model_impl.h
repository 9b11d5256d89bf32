/* SPDX-License-Identifier: MIT
 *
 * Opening a model, in parts: its tokens (vocab.c), its sampling (sampling.c), its weights (model.c).
 */
#ifndef LUTRA_ENGINE_MODEL_IMPL_H
#define LUTRA_ENGINE_MODEL_IMPL_H

#include "engine/model.h"

/* After LUTRA_E_DEVICE_LOST, the model on the devices that are left: a new plan, and what was on the lost one
 * is prepared again from the file.  With the turn. */
int model_leave_device(struct lutra_model *m, struct device *lost, struct lutra_error *err);

/* override.c: sets weight.only of the tensors that "PATTERN=DEVICE,..." names; before the plan is opened. */
int model_override(struct lutra_model *m, const char *list, struct lutra_error *err);

/* Prepares what n operations read and is not prepared yet; with another model nothing.  What was held when it fails
 * goes with the model. */
int model_hold(struct lutra_model *m, const struct op *op, int n, struct lutra_error *err);
void model_let_go(struct lutra_model *m, const struct op *op, int n);

/* The vocabulary of a file.  The caller closes *out, NULL on failure. */
int vocab_read(struct text_vocab **out, const struct weights *w, struct lutra_error *err);

/* sampling.c: what a model file says of sampling. */
int model_read_sampling(struct lutra_model *model, struct lutra_error *err);

/* text.c: whether the text of tokens ends with the tag that opens reasoning; tags may be NULL. */
bool text_opens_reasoning(
    const struct text_vocab *vocab, const struct text_tags *tags, const int32_t *token, int n_tok);

#endif
