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
};

/* A prompt, then a reply of every sequence. */
struct sim_reply {
    struct sim_result prompt, decode; /* decode: the first step; its placement is that of all */
    struct sim_span prompt_us, prompt_mj, decode_us, decode_mj; /* of all of it */
    double weight_bytes, cache_bytes, other_bytes;
};
int sim_reply(const struct sim_case *c, struct sim_reply *out, struct lutra_error *err);

json_t *sim_reply_json(const struct sim_case *c, struct lutra_error *err);
json_t *sim_lengths_json(const struct sim_case *c, struct lutra_error *err);
json_t *sim_compare_json(const struct sim_case *c, struct lutra_error *err);
json_t *sim_papers_json(const struct sim_case *c, struct lutra_error *err);

json_t *sim_span_json(const struct sim_span *s);
/* n per second of us. */
struct sim_span sim_rate(double n, const struct sim_span *us);

#endif
