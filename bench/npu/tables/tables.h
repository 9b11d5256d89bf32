/* SPDX-License-Identifier: MIT
 *
 * `lutra-npu-tables`: counted packets of the NPU's kernels, the times SoC profiles model from them, and the papers'
 * tables. Nothing here runs on an NPU, and no time may be called measured.
 *
 *     main.c      options; counts and profiles: where they come from, looking rows up
 *     models.c    whole models: throughput, energy, memory, accuracy against cost; as md or JSON
 *     kernels.c   kernels and ratios, as md or JSON
 *     tman.c      what [TMAN] compares: kernels, modes of whole models, memory
 *     step.c      work of whole steps of a model from counted operations
 *     ops.c       a step's operations, as the device sends them
 *     division.c  how the executor divides an operation among threads, chunks and phases
 *     svg.c       accuracy against cost as a picture
 *     profile.c   figures of one SoC, from JSON
 *     cost.c      time and energy of counted work on it
 *     modelled.c  time and energy of counted work (cost.h)
 */
#ifndef LUTRA_NPU_TABLES_H
#define LUTRA_NPU_TABLES_H

#include <jansson.h>

#include "cli.h"
#include "division.h"

/* Files inside the program: bench/npu/counts.json, bench/npu/scaling.json, then the profiles; ends with a NULL name. */
struct npu_data {
    const char *name;
    const unsigned char *bytes;
    size_t n_bytes;
};
extern const struct npu_data npu_data[];
enum { NPU_DATA_COUNTS, NPU_DATA_SCALING, NPU_DATA_PROFILES };

enum { NPU_PROFILES_MAX = 8, NPU_ROWS_MAX = 1024 };

/* Time and energy of the whole device in that time, between two ends; longest: the busiest resource, "vector" "gather"
 * "dma" "l2" "tiles" or "host". */
struct modelled {
    double low_us, high_us;
    double low_mj, high_mj; /* 10^-3 J */
    const char *longest_low, *longest_high;
};
struct modelled model_work(const struct npu_profile *profile, const struct npu_work *work);
/* n messages from the host and back, while the NPU does nothing. */
struct modelled model_messages(const struct npu_profile *profile, double n);

/* One counted operation. */
struct npu_count {
    const char *kernel, *kind; /* of the JSON document */
    int m, k, n;
    struct npu_work work;
    double bound; /* the emulator's lower bound of packets; 0: not emulated */
};

struct npu_bench {
    json_t *document;
    const char *compiler, *cpu, *origin; /* "recorded" or the program that counted */
    struct npu_count row[NPU_ROWS_MAX];
    int n_row;
    struct npu_profile *profile[NPU_PROFILES_MAX];
    int n_profile;
};

void npu_divide_count(struct npu_count *c); /* npu_divide of its work */

/* NULL: not counted. */
const struct npu_count *npu_count_of(
    const struct npu_bench *b, const char *kernel, const char *kind, int m, int k, int n);

/* Modelled time and energy of one step, and of its parts, which follow one another: their sum. */
enum npu_part { NPU_PRODUCTS, NPU_ATTENTION, NPU_ROWS, NPU_HEAD, NPU_MESSAGE, NPU_PARTS };
struct npu_step {
    struct modelled part[NPU_PARTS], whole;
};
extern const char *const npu_part_names[NPU_PARTS];

/* One token of each of `batch` sequences that share `context` keys.  0, or -1: something was not counted. */
int npu_decode_step(const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m, int batch,
    double context, struct npu_step *out);

/* A prompt of n tokens, in steps of up to NPU_CHUNK; logits of the last. */
enum { NPU_CHUNK = 128 };
int npu_prefill(
    const struct npu_bench *b, const struct npu_profile *p, const struct npu_model *m, int n, struct npu_step *out);

/* Bytes of what a model keeps in memory for n_ctx tokens of cache: layers, head and embedding, cache. */
void npu_memory(const struct npu_model *m, int n_ctx, double bytes[3]);

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
int npu_read_choices(const struct npu_bench *b, const struct npu_profile *p, json_t *document, struct npu_choice *out);

/* The same as an SVG picture: accuracy against latency and against energy [TTS Figures 10, 12]. */
void npu_print_svg(const struct npu_bench *b, const struct npu_profile *p, FILE *out);

/* The sections of models; JSON: members of `all`. */
void npu_print_models(const struct npu_bench *b, const struct npu_profile *p);
void npu_json_models(const struct npu_bench *b, json_t *all);

/* Ratios of modelled times beside published ones.  low 0: "up to", the most of all rows of the table with the same
 * ratio. */
struct comparisons;
void npu_compare(struct comparisons *c, const char *table, const char *what, const struct npu_work *slow,
    const struct npu_work *fast, double low, double high);
void npu_tman_ratios(const struct npu_bench *b, struct comparisons *out);
void npu_print_tman(const struct npu_bench *b, const struct npu_profile *p);
void npu_json_tman(const struct npu_bench *b, const struct npu_profile *p, json_t *all);

/* The profile of the papers' figures, or what there is; NULL: none. */
const struct npu_profile *npu_published_on(const struct npu_bench *b);

/* The tables as text on stdout, or all of it as one JSON object. */
void npu_print_tables(const struct npu_bench *b);
json_t *npu_json_tables(const struct npu_bench *b);

#endif
