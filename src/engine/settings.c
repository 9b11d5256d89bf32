/* SPDX-License-Identifier: MIT
 *
 * Settings: defaults, and the copy that lets the ABI grow.
 */
#include "engine/engine_impl.h"

#include <string.h>

int settings_copy(void *dst, size_t dst_size, const void *src, const char *what, struct lutra_error *err)
{
    if (!src) return 0;
    size_t size;
    memcpy(&size, src, sizeof size);
    if (size < sizeof size || size > (1u << 20))
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "%s settings: size is %zu; begin with the _default() function", what, size);
    memcpy(dst, src, size < dst_size ? size : dst_size);
    memcpy(dst, &dst_size, sizeof dst_size);
    return 0;
}

struct lutra_runtime_settings lutra_runtime_settings_default(void)
{
    return (struct lutra_runtime_settings){.size = sizeof(struct lutra_runtime_settings)};
}

struct lutra_model_settings lutra_model_settings_default(void)
{
    return (struct lutra_model_settings){.size = sizeof(struct lutra_model_settings)};
}

struct lutra_session_settings lutra_session_settings_default(void)
{
    return (struct lutra_session_settings){.size = sizeof(struct lutra_session_settings), .n_seq = 1, .n_batch = 512};
}

struct lutra_sampling lutra_sampling_default(void)
{
    return (struct lutra_sampling){.size = sizeof(struct lutra_sampling),
        .temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .penalty_last_n = 64,
        .repeat_penalty = 1.0f};
}

struct lutra_request lutra_request_default(void)
{
    return (struct lutra_request){
        .size = sizeof(struct lutra_request), .n_samples = 1, .max_tokens = -1, .sampling = lutra_sampling_default()};
}

struct lutra_quantize_settings lutra_quantize_settings_default(void)
{
    return (struct lutra_quantize_settings){.size = sizeof(struct lutra_quantize_settings)};
}

struct lutra_make_model_settings lutra_make_model_settings_default(void)
{
    return (struct lutra_make_model_settings){.size = sizeof(struct lutra_make_model_settings), .type = "Q4_0"};
}
