/* SPDX-License-Identifier: MIT
 *
 * `lutra-npu-tables`: counted packets of the NPU's kernels, the times SoC profiles model from them, and the papers'
 * tables. Nothing here runs on an NPU, and no time may be called measured.
 *
 *     main.c      options; counts and profiles: where they come from, looking rows up
 *     models.c    whole models: throughput, energy, memory, accuracy against cost; as md or JSON
 *     kernels.c   kernels and ratios, as md or JSON
 *     tman.c      what [TMAN] compares: kernels, modes of whole models, memory
 *     svg.c       accuracy against cost as a picture
 *
 * What counted work takes on a SoC, and the operations of whole steps, is the room src/sim.
 */
#ifndef LUTRA_NPU_TABLES_H
#define LUTRA_NPU_TABLES_H

#include <jansson.h>

#include "cli.h"
#include "sim/counts.h"

/* Files inside the program: bench/npu/counts.json, bench/npu/scaling.json, then the profiles; ends with a NULL name. */
struct npu_data {
    const char *name;
    const unsigned char *bytes;
    size_t n_bytes;
};
extern const struct npu_data npu_data[];
enum { NPU_DATA_COUNTS, NPU_DATA_SCALING, NPU_DATA_PROFILES };

enum { NPU_PROFILES_MAX = 8 };

struct npu_bench {
    struct npu_counts *counts;
    const char *origin; /* "recorded" or the program that counted */
    struct soc_profile *profile[NPU_PROFILES_MAX];
    int n_profile;
};

/* Accuracy of a method (measured) and what it costs per problem (modelled). */
struct npu_choice {
    const char *task, *method, *model, *prm; /* prm: the model that judges, "" = none does */
    double accuracy, low, high;              /* 95 % */
    double us[2], mj[2];
    int front[2]; /* nothing faster, nothing cheaper in energy is more accurate at the task, beyond the intervals */
};
enum { NPU_CHOICES_MAX = 64 };

/* Every method of the recorded accuracies once, out [NPU_CHOICES_MAX], those of a task together; texts are the
 * document's. How many. */
json_t *npu_open_accuracies(void);
int npu_read_choices(const struct npu_bench *b, const struct soc_profile *p, json_t *document, struct npu_choice *out);

/* The same as an SVG picture: accuracy against latency and against energy [TTS Figures 10, 12]. */
void npu_print_svg(const struct npu_bench *b, const struct soc_profile *p, FILE *out);

/* The sections of models; JSON: members of `all`. */
void npu_print_models(const struct npu_bench *b, const struct soc_profile *p);
void npu_json_models(const struct npu_bench *b, json_t *all);

/* Ratios of modelled times beside published ones.  low 0: "up to", the most of all rows of the table with the same
 * ratio. */
struct comparisons;
void npu_compare(struct comparisons *c, const char *table, const char *what, const struct npu_work *slow,
    const struct npu_work *fast, double low, double high);
void npu_tman_ratios(const struct npu_bench *b, struct comparisons *out);
void npu_print_tman(const struct npu_bench *b, const struct soc_profile *p);
void npu_json_tman(const struct npu_bench *b, const struct soc_profile *p, json_t *all);

/* The profile of the papers' figures, or what there is; NULL: none. */
const struct soc_profile *npu_published_on(const struct npu_bench *b);

/* The tables as text on stdout, or all of it as one JSON object. */
void npu_print_tables(const struct npu_bench *b);
json_t *npu_json_tables(const struct npu_bench *b);

#endif
