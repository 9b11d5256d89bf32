/* SPDX-License-Identifier: MIT
 *
 * The parts of lutra_sim(): each gives the members of the answer.  NULL: failed, err says why.
 */
#ifndef LUTRA_SIM_REPORT_H
#define LUTRA_SIM_REPORT_H

#include <jansson.h>

#include "lutra/sim.h"
#include "sim/phone.h"

enum sim_law { SIM_QNN, SIM_LUTRA };

/* What settings mean. */
struct sim_case {
    struct lutra_sim_settings set;
    const struct soc_profile *profile;
    bool is_file; /* the profile is none of the library */
    struct sim_shape shape;
    enum sim_law law;
    enum sim_plan plan;
    enum sim_device device[SIM_UNITS]; /* [n_device] */
    int n_device;
};

/* A pass over the case's prompt, with those beside it. */
struct sim_question sim_prompt_of(const struct sim_case *c);
/* The first pass of its replies. */
struct sim_question sim_decode_of(const struct sim_case *c);

/* A prompt, then a reply of every sequence. */
struct sim_reply {
    struct sim_result prompt, decode; /* decode: the first pass; its placement is that of all */
    struct sim_span prompt_us, prompt_mj, decode_us, decode_mj; /* of all of it */
    double weight_bytes, cache_bytes, other_bytes;
};
int sim_reply(const struct sim_case *c, struct sim_reply *out, struct lutra_error *err);

/* A game in the foreground beside the reply's prompt and tokens (game.c). */
struct sim_beside {
    double us, frames, frame_us, worst_us; /* of the model's work; frames shown meanwhile, on average and at worst */
};
/* At one end of the profile's figures: a prompt, or at most SIM_GAME_PASSES of a reply (n_pass of them, behind
 * q->past keys).  slice_us 0: the GPU is not left before what was submitted is done. */
enum { SIM_GAME_PASSES = 512 };
struct sim_game {
    double per_second, share, slice_us;
};
int sim_beside(const struct sim_question *q, int n_pass, const struct sim_game *game, enum sim_end end,
    struct sim_beside *out, struct lutra_error *err);

json_t *sim_game_json(const struct sim_case *c, struct sim_reply *alone, struct lutra_error *err);
json_t *sim_reply_json(const struct sim_case *c, struct lutra_error *err);
json_t *sim_lengths_json(const struct sim_case *c, struct lutra_error *err);
json_t *sim_compare_json(const struct sim_case *c, struct lutra_error *err);
json_t *sim_papers_json(const struct sim_case *c, struct lutra_error *err);
json_t *sim_plans_json(const struct sim_case *c, struct lutra_error *err);

json_t *sim_span_json(const struct sim_span *s);
/* n per second of us. */
struct sim_span sim_rate(double n, const struct sim_span *us);

#endif
