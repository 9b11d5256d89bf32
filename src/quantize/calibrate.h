/* SPDX-License-Identifier: MIT
 *
 * Matrices rounded layer by layer on the inputs that already rounded layers give (GPTQ): what lutra_quantize writes
 * where a text is given.
 */
#ifndef LUTRA_QUANTIZE_CALIBRATE_H
#define LUTRA_QUANTIZE_CALIBRATE_H

#include "lutra.h"
#include "quantize/convert.h"

struct calibration; /* the rounded matrices */

/* The text of `set` through the model at `path`, its matrices of the types that `q` chooses, for the file out_path. */
int calibration_open(struct calibration **out, lutra_runtime *rt, const char *path, const char *out_path,
    const struct lutra_quantize_settings *set, const struct weights_quantize_settings *q, struct lutra_error *err);
/* written: the matrices are in out_path, and need not be kept beside it any more. */
void calibration_close(struct calibration **c, bool written);

/* weights_quantize_settings.ready */
int calibration_ready(
    void *c, const struct tensor *t, enum quant_type type, const void **bytes, struct lutra_error *err);

#endif
