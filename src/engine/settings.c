/* SPDX-License-Identifier: MIT
 *
 * Public structs: their defaults, and the two copies that let programs and libraries of different age fit
 * (lutra/core.h has the rules).
 */
#include "engine/settings.h"

#include <string.h>

#include "base/status.h"
#include "lutra.h"
enum { SIZE_MAX_BYTES = 1 << 20 }; /* no struct of a program that was compiled against any of our headers is larger */

void settings_fill(void *dst, size_t size, const void *src)
{
    size_t known;
    if (size < sizeof size) return;
    memcpy(&known, src, sizeof known);
    memset(dst, 0, size);
    memcpy(dst, src, size < known ? size : known);
    memcpy(dst, &size, sizeof size);
}

/* The tail of a newer program's struct must say nothing. */
static int check_tail(const char *src, size_t size, size_t known, const char *what, struct lutra_error *err)
{
    for (size_t i = known; i < size; i++)
        if (src[i])
            return lutra_fail_at(err, LUTRA_E_UNSUPPORTED, i,
                "%s: the field at byte %zu is set, but lutra %s knows only %zu bytes: it is older than the program",
                what, i, lutra_version(), known);
    return 0;
}

int settings_copy(void *dst, size_t dst_size, const void *src, const char *what, struct lutra_error *err)
{
    if (!src) return 0;
    size_t size;
    memcpy(&size, src, sizeof size);
    if (size < sizeof size || size % sizeof size || size > SIZE_MAX_BYTES)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "%s: size is %zu, of no struct's version; begin with its _init()", what, size);
    TRY(check_tail(src, size, dst_size, what, err));
    memcpy(dst, src, size < dst_size ? size : dst_size);
    memcpy(dst, &dst_size, sizeof dst_size);
    return 0;
}

int handle_check(const void *handle, const char *what, struct lutra_error *err)
{
    return handle ? 0 : lutra_fail(err, LUTRA_E_ARGUMENT, "no %s: the handle is NULL", what);
}

int element_copy(
    const struct element_kind *kind, void *dst, const void *array, int i, size_t size, struct lutra_error *err)
{
    if (!array || size < kind->first || size > SIZE_MAX_BYTES)
        return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
            "%s %d: %zu bytes each, less than any version has; pass the size of an element", kind->what, i, size);
    const char *src = (const char *)array + (size_t)i * size;
    TRY(check_tail(src, size, kind->known, kind->what, err));
    memset(dst, 0, kind->known);
    memcpy(dst, src, size < kind->known ? size : kind->known);
    return 0;
}

/* ---- defaults ---- */

void lutra_runtime_settings_init(struct lutra_runtime_settings *settings, size_t size)
{
    settings_fill(settings, size, &(struct lutra_runtime_settings){.size = sizeof *settings});
}

void lutra_model_settings_init(struct lutra_model_settings *settings, size_t size)
{
    settings_fill(settings, size, &(struct lutra_model_settings){.size = sizeof *settings});
}

void lutra_session_settings_init(struct lutra_session_settings *settings, size_t size)
{
    struct lutra_session_settings d = {.size = sizeof d,
        .n_seq = 1,
        .n_batch = 512,
        .draft_max = 16,
        .draft_p_min = 0.01f,
        .spec_ngram_size_n = 12,
        .spec_shortlist = 2048,
        .prompt_us = 100000,
        .n_queue = 4096};
    settings_fill(settings, size, &d);
}

void lutra_request_init(struct lutra_request *request, size_t size)
{
    struct lutra_request d = {.size = sizeof d, .n_samples = 1, .max_tokens = -1, .reasoning_budget = -1};
    settings_fill(request, size, &d);
}

void lutra_session_experiment_init(struct lutra_session_experiment *experiment, size_t size)
{
    settings_fill(experiment, size, &(struct lutra_session_experiment){.size = sizeof *experiment});
}

void lutra_request_experiment_init(struct lutra_request_experiment *experiment, size_t size)
{
    settings_fill(experiment, size, &(struct lutra_request_experiment){.size = sizeof *experiment});
}

void lutra_chat_init(struct lutra_chat *chat, size_t size)
{
    settings_fill(chat, size, &(struct lutra_chat){.size = sizeof *chat, .flags = LUTRA_CHAT_REPLY});
}

void lutra_verifier_settings_init(struct lutra_verifier_settings *settings, size_t size)
{
    struct lutra_verifier_settings d = {.size = sizeof d,
        .n_seq = 16,
        .n_batch = 512,
        .timeout_us = 5000000,
        .memory_bytes = (int64_t)4 << 30,
        .restarts = 10000};
    settings_fill(settings, size, &d);
}

void lutra_search_init(struct lutra_search *search, size_t size)
{
    struct lutra_search d = {.size = sizeof d,
        .method = LUTRA_SEARCH_VOTE,
        .width = 16,
        .expand = 1,
        .score = LUTRA_SCORE_AUTO,
        .step = "\n",
        .max_steps = 64,
        .early_stop = true,
        .prune_below = 0.1f,
        .temperature = 0.1f};
    settings_fill(search, size, &d);
}

void lutra_quantize_settings_init(struct lutra_quantize_settings *settings, size_t size)
{
    struct lutra_quantize_settings d = {.size = sizeof d, .calibration_ctx = 512, .calibration_chunks = 64};
    settings_fill(settings, size, &d);
}

void lutra_imatrix_settings_init(struct lutra_imatrix_settings *settings, size_t size)
{
    settings_fill(settings, size, &(struct lutra_imatrix_settings){.size = sizeof *settings, .n_ctx = 512});
}

void lutra_make_model_settings_init(struct lutra_make_model_settings *settings, size_t size)
{
    struct lutra_make_model_settings d = {.size = sizeof d, .type = "Q4_0"};
    settings_fill(settings, size, &d);
}
