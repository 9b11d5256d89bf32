/* SPDX-License-Identifier: MIT
 *
 * Counted packets of this project's NPU kernels, and whole passes of models as the sum of operations that were counted.
 *
 *     struct npu_counts *c = NULL;
 *     TRY(npu_counts_read(&c, text, n_bytes, "counts.json", err));
 *     npu_decode_pass(c, &profile, &npu_models[0], 1, 1024, &pass);       pass.whole.low_us .. high_us, modelled
 *     npu_counts_free(&c);
 *
 * Nothing here runs on an NPU, and no time may be called measured.
 */
#ifndef LUTRA_SIM_COUNTS_H
#define LUTRA_SIM_COUNTS_H

#include <jansson.h>

#include "sim/division.h"

enum { NPU_COUNTS_MAX = 1024 };

/* Time and energy of the whole device in that time, between two ends; longest: the busiest resource, "vector" "gather"
 * "dma" "l2" "tiles" or "host". */
struct modelled {
    double low_us, high_us;
    double low_mj, high_mj; /* 10^-3 J */
    const char *longest_low, *longest_high;
};
struct modelled model_work(const struct soc_profile *profile, const struct npu_work *work);
/* n messages from the host and back, while the NPU does nothing. */
struct modelled model_messages(const struct soc_profile *profile, double n);

/* One counted operation. */
struct npu_count {
    const char *kernel, *kind; /* of the JSON document */
    int m, k, n;
    struct npu_work work;
    double bound; /* the emulator's lower bound of packets; 0: not emulated */
};

struct npu_counts {
    json_t *document; /* which texts of rows borrow from */
    const char *compiler, *cpu;
    struct npu_count row[NPU_COUNTS_MAX];
    int n_row;
};

/* Of a document as lutra-npu-count writes it; `name` names it in errors: LUTRA_E_FORMAT. */
int npu_counts_read(
    struct npu_counts **out, const char *text, size_t n_bytes, const char *name, struct lutra_error *err);
void npu_counts_free(struct npu_counts **counts);

void npu_divide_count(struct npu_count *c); /* npu_divide of its work */

/* NULL: not counted. */
const struct npu_count *npu_count_of(
    const struct npu_counts *b, const char *kernel, const char *kind, int m, int k, int n);

/* Modelled time and energy of one pass, and of its parts, which follow one another: their sum. */
enum npu_part { NPU_PRODUCTS, NPU_ATTENTION, NPU_ROWS, NPU_HEAD, NPU_MESSAGE, NPU_PARTS };
struct npu_pass {
    struct modelled part[NPU_PARTS], whole;
};
extern const char *const npu_part_names[NPU_PARTS];

/* One token of each of `batch` sequences that share `context` keys.  0, or -1: something was not counted. */
int npu_decode_pass(const struct npu_counts *b, const struct soc_profile *p, const struct npu_model *m, int batch,
    double context, struct npu_pass *out);

/* What such a pass does: packets, bytes, products and calls of tiles of all its operations together. */
int npu_pass_work(
    const struct npu_counts *b, const struct npu_model *m, int batch, double context, struct npu_work *out);

/* A prompt of n tokens, in passes of up to NPU_CHUNK; logits of the last. */
enum { NPU_CHUNK = 128 };
int npu_prefill(
    const struct npu_counts *b, const struct soc_profile *p, const struct npu_model *m, int n, struct npu_pass *out);

/* Bytes of what a model keeps in memory for n_ctx tokens of cache: layers, head and embedding, cache. */
void npu_memory(const struct npu_model *m, int n_ctx, double bytes[3]);

#endif
