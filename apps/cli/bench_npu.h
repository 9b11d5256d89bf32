/* SPDX-License-Identifier: MIT
 *
 * `lutra bench --npu`: counted packets of the NPU's kernels, the times SoC profiles model from them, and the papers' tables.
 *
 *     bench_npu.c          counts and profiles: where they come from, looking rows up
 *     bench_npu_tables.c   the tables, as md or JSON
 */
#ifndef LUTRA_CLI_BENCH_NPU_H
#define LUTRA_CLI_BENCH_NPU_H

#include <jansson.h>

#include "cli.h"
#include "lutra_npu.h"

/* Files inside the program: bench/npu/counts.json, then the profiles; ends with a NULL name. */
struct npu_data {
    const char *name;
    const unsigned char *bytes;
    size_t n_bytes;
};
extern const struct npu_data npu_data[];

enum { NPU_PROFILES_MAX = 8, NPU_ROWS_MAX = 1024 };

/* One counted operation. */
struct npu_count {
    const char *kernel, *kind; /* of the JSON document */
    int m, k, n;
    struct lutra_npu_work work;
    double bound; /* the emulator's lower bound of packets; 0: not emulated */
};

struct npu_bench {
    json_t *document;
    const char *compiler, *cpu, *origin; /* "recorded" or the program that counted */
    struct npu_count row[NPU_ROWS_MAX];
    int n_row;
    lutra_npu_profile *profile[NPU_PROFILES_MAX];
    int n_profile;
};

/* NULL: not counted. */
const struct npu_count *npu_count_of(
    const struct npu_bench *b, const char *kernel, const char *kind, int m, int k, int n);

/* The tables as text on stdout, or all of it as one JSON object. */
void npu_print_tables(const struct npu_bench *b);
json_t *npu_json_tables(const struct npu_bench *b);

/* profiles: files, or none for those inside the program; counter: a program that counts, or NULL for the recorded counts. */
int bench_npu(const struct option_list *profiles, const char *counter, const char *format);

#endif
