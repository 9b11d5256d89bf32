/* SPDX-License-Identifier: MIT
 *
 * Published figures beside modelled ones: a file of the first, divided into fitted and held out, and for each a
 * function that models it on a profile whose intervals are points.
 */
#ifndef LUTRA_SIM_FIGURES_H
#define LUTRA_SIM_FIGURES_H

#include "sim/report.h"

/* Of the file's figure `id`; of a figure with several published values that of `part`. */
struct figure {
    const char *id, *part;
    double (*value)(const struct figure *f, const struct soc_profile *p);
    const char *model;
    int rows, k, n;
    enum sim_plan plan;
    bool
        ragged; /* of Hetero-tensor at lengths that fit no graph: shown with the engine's plans in its place, too ... */
    enum sim_plan instead; /* ... which is this one; SIM_FREE: Hetero-tensor itself */
    enum soc_figure figure;
    bool elite;         /* on 8 Elite, not on 8 Gen 3 */
    double share;       /* of the GPU that a game takes; 0: there is none */
    const json_t *file; /* what was published: set for the call */
};

struct figure_list {
    const struct figure *figure;
    size_t n;
};

extern const struct figure_list sim_figures_sdnpu;

/* {"held_out", "held_out_within_20_percent", "figures": [..]}; figures that no function models are listed as such. */
json_t *sim_compare_figures(const json_t *published, const struct figure_list *list, const struct soc_profile *gen3,
    const struct soc_profile *elite);

#endif
