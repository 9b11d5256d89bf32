/* SPDX-License-Identifier: MIT
 *
 * The NPU device's insides: device.c (what it can do, weights, buffers), program.c (segments to messages), constants.c.
 */
#ifndef LUTRA_NPU_HOST_DEVICE_IMPL_H
#define LUTRA_NPU_HOST_DEVICE_IMPL_H

#include "npu/host/device.h"
#include "npu/host/tables.h"
#include "npu/wire/layout.h"

/* A prepared weight. */
struct packed {
    struct npu_weights layout; /* k: a multiple of 64 */
    uint32_t at;               /* window offset */
    uint32_t bytes;
};

/* A constant vector of an op list, by the host's pointer. */
struct npu_constant {
    const struct op_list *list;
    const float *host;
    uint32_t at;
};

enum { NPU_TABLES = 8 };

struct npu_device {
    struct device base;
    struct npu_transport *link;
    struct npu_constant *constant; /* [n_constant] */
    int n_constant, max_constant;

    /* Reserved: */
    int max_rows, max_out, n_ctx;
    uint32_t tables, tables_bytes;                     /* what a step's messages refer to */
    uint32_t acts, scratch, results, logits;           /* act8 rows, the head's memory */
    uint32_t acts_bytes, scratch_bytes, results_bytes; /* act8 of NPU_GEMV_ROWS rows */
    uint32_t logits_stride, logits_bytes, n_vocab;
    struct npu_op *op; /* [max_op] */
    int max_op;

    /* Of the segment under way: */
    uint64_t ticket;               /* 0: none */
    const struct step *step;       /* whose results come back when it is waited for; NULL: none */
    bool head, append;             /* has it results, new rows of the cache? */
    uint32_t hidden, hidden_bytes; /* the head's input where somebody wants it; 0 */
    int d_model;
    struct {
        uint32_t offset, bytes;
    } written[2 * VALUE_MAX]; /* by the host: to be invalidated on the NPU */
    int n_written;
};

/* ---- constants.c ---- */

int npu_constants_load(struct npu_device *d, const struct op_list *list, struct lutra_error *err);
void npu_constants_unload(struct npu_device *d, const struct op_list *list);
uint32_t npu_constant_at(const struct npu_device *d, const struct op_list *list, const float *host); /* 0: NULL */

/* ---- program.c ---- */

/* The window offset of host memory; 0: it is not in the window. */
uint32_t npu_window_offset(const struct npu_device *d, const void *host);

int npu_program_reserve(struct npu_device *d, const struct op_list *list, struct lutra_error *err);
void npu_program_fini(struct npu_device *d);
int npu_program_submit(struct npu_device *d, const struct segment *segment, struct lutra_error *err);

/* After the segment is done: results and new cache rows to the host. */
void npu_program_finish(struct npu_device *d);

#endif
