/* SPDX-License-Identifier: MIT
 *
 * A build without LUTRA_QUANTIZE: the rooms quantize and make are not in it, and their public functions say so.
 */
#include "base/absent.h"
#include "base/settings.h"
#include "lutra/files.h"

#define WITHOUT "lutra was built without quantizing and models of random weights (cmake -DLUTRA_QUANTIZE=ON)"

/* clang-format off */
ABSENT_INIT(lutra_quantize_settings)
ABSENT_INIT(lutra_imatrix_settings)
ABSENT_INIT(lutra_make_model_settings)
ABSENT(lutra_quantize(lutra_runtime *runtime, const char *in_path, const char *out_path,
    const struct lutra_quantize_settings *settings, struct lutra_error *err))
ABSENT(lutra_imatrix(lutra_model *model, const int32_t *tokens, int n_token, const char *out_path,
    const struct lutra_imatrix_settings *settings, struct lutra_error *err))
ABSENT(lutra_make_model(lutra_runtime *runtime, const char *path, const struct lutra_make_model_settings *settings,
    struct lutra_error *err))
ABSENT_VALUE(NULL, const char *lutra_quantize_type(int i))
ABSENT_VALUE(NULL, const char *lutra_make_model_shape(int i))
/* clang-format on */
