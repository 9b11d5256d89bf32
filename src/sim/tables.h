/* SPDX-License-Identifier: MIT
 *
 * What [TTS] and [TMAN] compare, from counted kernels and the times that profiles model from them.  The members of one
 * JSON object:
 *
 *     ratios.c    kernels, ratios of their times beside published ones
 *     models.c    whole models: throughput, energy, memory; accuracy (measured) against cost
 *     tman.c      what [TMAN 6] compares: kernels, modes of whole models
 */
#ifndef LUTRA_SIM_TABLES_H
#define LUTRA_SIM_TABLES_H

#include "base/compiler.h"
#include "sim/counts.h"

enum { NPU_PROFILES_MAX = 3 };

struct npu_bench {
    struct npu_counts *counts;
    const struct soc_profile *profile[NPU_PROFILES_MAX];
    int n_profile;
};

/* Ratios of modelled times beside published ones.  low 0: "up to", the most of all rows of the table with the same
 * ratio. */
struct comparisons;
void npu_compare(struct comparisons *c, const char *table, double low, double high, const struct npu_work *slow,
    const struct npu_work *fast, const char *what, ...) LUTRA_PRINTF(7, 8);
void npu_tman_ratios(const struct npu_bench *b, struct comparisons *out);

/* Everything; NULL: no memory. */
json_t *npu_json_time(const struct modelled *t);
json_t *npu_json_tables(const struct npu_bench *b);
void npu_json_models(const struct npu_bench *b, json_t *all);
void npu_json_tman(const struct npu_bench *b, const struct soc_profile *p, json_t *all);

#endif
