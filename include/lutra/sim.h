/* SPDX-License-Identifier: MIT
 *
 * What a phone would do: times, energy and memory of a model on a SoC, modelled from the SoC's profile, never measured.
 *
 *     struct lutra_sim_settings s;
 *     char *json = NULL;
 *     lutra_sim_settings_init(&s, sizeof s);
 *     s.soc = "8gen3";  s.shape = "Llama-8B";
 *     lutra_sim(&s, &json, &err);
 *     lutra_free(json);
 *
 * Everything is an interval, {"low", "middle", "high"}, between the ends of what the profile leaves open; for "middle"
 * every figure has its middle.  The answer is text in JSON, the same bytes for the same settings.  Any thread.
 */
#ifndef LUTRA_SIM_H
#define LUTRA_SIM_H

#include "lutra/core.h"

#ifdef __cplusplus
extern "C" {
#endif

enum lutra_sim_what {
    LUTRA_SIM_REPLY,   /* a prompt and a reply: rates, energy, memory, who computes what, a layer's timeline; a game */
    LUTRA_SIM_LENGTHS, /* the prompt's time by plan, for lengths 32 .. 1100 [HETERO 5.3.2] */
    LUTRA_SIM_COMPARE, /* one model on every profile, in every quantization, as so many sequences: what fits, ranked */
    LUTRA_SIM_PAPERS,  /* published figures of [HETERO] beside modelled ones, fitted and held out */
    LUTRA_SIM_PLANS,   /* the prompt by every plan, the engine's on every set of processors that can run it */
};

struct lutra_sim_settings {
    size_t size;
    enum lutra_sim_what what;
    const char *soc;   /* "8gen2", "8gen3" (NULL), "8elite", or the path of a profile (profiles/README.md) */
    const char *model; /* a file or folder; NULL = a shape */
    const char *shape; /* "Llama-8B" (NULL), ...: lutra_sim_shape() */
    const char *quant; /* of a shape: "w4" (NULL), "w8", "q4_0", "q8_0", "f16", "w2" */
    /* How long the NPU takes: "qnn" (NULL), QNN's graphs as [HETERO Table 3] has them; "lutra", this project's kernels
     * as they were counted, which use the NPU alone. */
    const char *law;
    /* With "qnn": "free" (NULL), the fastest of "fine", "tensor", ... (sim/phone.h); "solved", which keeps prefixes: no
     * row's values depend on the prompt's length; "three", in which the CPU has a part of products, too.  The engine's
     * own, on `device`: "one", all on the first that can; "class", whole blocks of a prompt on the first, tails, wanted
     * rows and decoding on the last, at the same time; "hybrid", the blocks cut by outputs among all of them. */
    const char *plan;
    int n_prompt, n_decode, n_batch, n_ctx; /* 1024, 128, 1, 0 = what they need: tokens; sequences */
    double memory_gib;                      /* of COMPARE: what there is for the model; 0 = any */
    /* Of REPLY and "qnn": a game in the foreground [HETERO 5.7].  So many frames a second, 0 = there is none; the share
     * of the GPU that they take, 0 to 1; how long the GPU works for the model at a time, 0 = as it is submitted. */
    double game_fps, game_share, gpu_slice_ms; /* 0, 0, 10 */
    const char *device; /* of the engine's plans: processors in order of preference, "npu,gpu" (NULL), "npu,cpu", ... */
    int n_beside; /* 0; sequences that decode in the passes of the prompt, each behind as many keys as it has tokens */
};
LUTRA_API void lutra_sim_settings_init(struct lutra_sim_settings *settings, size_t size);

/* *json is freed with lutra_free().  LUTRA_E_FORMAT: a profile that is not one, by key; LUTRA_E_NOT_FOUND lists the
 * names there are; LUTRA_E_UNSUPPORTED: a model that is not modelled, or sizes whose kernels were not counted. */
LUTRA_API int lutra_sim(const struct lutra_sim_settings *settings, char **json, struct lutra_error *err);

/* i = 0, 1, ... until NULL. */
LUTRA_API const char *lutra_sim_shape(int i);

#ifdef __cplusplus
}
#endif
#endif
