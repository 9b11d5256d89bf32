/* SPDX-License-Identifier: MIT
 *
 * Defaults of what a runtime, a model, a session and a request are opened with.
 */
#include "base/settings.h"

#include "lutra.h"

void lutra_runtime_settings_init(struct lutra_runtime_settings *settings, size_t size)
{
    settings_fill(settings, size, &(struct lutra_runtime_settings){.size = sizeof *settings});
}

void lutra_model_settings_init(struct lutra_model_settings *settings, size_t size)
{
    settings_fill(settings, size, &(struct lutra_model_settings){.size = sizeof *settings, .expert_ram = -1});
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
