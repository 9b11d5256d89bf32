/* SPDX-License-Identifier: MIT
 *
 * The NPU device's insides: device.c (what it can do, the front door), weights.c, windows.c (NPU sessions and their
 * memory), buffers.c (values and caches over several windows), constants.c, program.c (operations to messages),
 * submit.c (messages on their way, what comes back).
 *
 * One NPU session sees one 32-bit window.  What exceeds it lies in several [TTS 8]: a product runs where its weight
 * lies, attention where its layer's cache lies, and a value goes by way of the host to the window that needs it.
 */
#ifndef LUTRA_NPU_HOST_DEVICE_IMPL_H
#define LUTRA_NPU_HOST_DEVICE_IMPL_H

#include "npu/host/device.h"
#include "npu/host/tables.h"
#include "npu/wire/layout.h"

enum { NPU_WINDOWS = 8, NPU_TABLES = 8, NPU_AREAS = 256, NPU_RAN = 64 };

/* A prepared weight. */
struct packed {
    struct npu_weights layout; /* k: a multiple of 64 */
    int window;
    uint32_t at, bytes;
    uint32_t first;       /* of the weight's outputs, a multiple of 32: where those of this begin */
    uint32_t lookup_rows; /* of a product by lookup, for rows not in bulk; 0: all rows go to tiles */
    const char *name;     /* the tensor's */
    uint32_t type;        /* and its quant_type */
    struct packed *next;
};

/* A constant vector of an op list, by the host's pointer. */
struct npu_constant {
    const struct op_list *list;
    const float *host;
    int window;
    uint32_t at;
};

struct npu_region {
    uint32_t at, bytes;
};

/* An NPU session, and what a pass needs in its window. */
struct npu_window {
    struct npu_transport *link;
    uint64_t weight_bytes;
    struct npu_region tables;  /* what a pass's messages refer to */
    struct npu_region factors; /* of massive rows */
    struct npu_region scratch; /* of the head, like the next two */
    struct npu_region results, logits;
};

/* Memory of the host that operations see.  A value has a place in every window; of a cache, each layer lies in one. */
struct npu_buffer {
    struct npu_buffer *next;
    uint8_t *host; /* in a window, or memory of its own */
    size_t bytes;
    bool own;
    uint32_t at[NPU_WINDOWS]; /* 0: none */

    /* A value: */
    bool host_fresh;             /* are the host's bytes current? */
    bool shared;                 /* has more than one window, or another device, had to do with it? */
    uint32_t fresh;              /* set of windows whose bytes are current */
    uint32_t dirty[NPU_WINDOWS]; /* the first bytes of each, which cache lines may hold that are not written back */
    struct area come[NPU_AREAS]; /* [n_come] columns that others wrote: in the host's memory alone, the rest is not */
    int n_come;                  /* more than NPU_AREAS: not all are there, and the value cannot be brought.  Prompts
                                    have 16 blocks in a pass; only rows given one by one take turns so often */

    /* A cache: */
    int n_layer; /* 0: a value */
    struct {
        int window;
        uint32_t index; /* among the layers in that window */
    } * layer;
    uint32_t n_in[NPU_WINDOWS]; /* layers in each */
};

struct pool;

struct npu_device {
    struct device base;
    npu_transport_open *open;
    struct npu_transport_settings settings;
    struct pool *pool;
    struct npu_window window[NPU_WINDOWS];
    int n_window;
    int filling; /* window that takes the next weight */
    struct packed *packed;
    struct npu_buffer *buffer;
    struct npu_constant *constant; /* [n_constant] */
    int n_constant, max_constant;

    struct npu_reserved {
        int max_rows, max_out, n_ctx;
        uint64_t value_bytes; /* of a pass, in each window */
    } most;
    struct {
        uint32_t bytes; /* of TCM, at most */
        enum op_kind kind;
        int layer; /* of the operation that takes them */
    } tcm;
    struct npu_op *op; /* [max_op] */
    int max_op;

    /* The run under way: operations of one window. */
    int at; /* that window */
    int n_op, n_sent;
    uint64_t flight[NPU_AHEAD]; /* tickets of what was sent and not answered */
    int n_flight;

    /* The segment it belongs to: */
    uint64_t ticket; /* 0: none yet */
    struct {
        uint64_t begin_us, end_us; /* end 0: it is under way */
    } ran[NPU_RAN];                /* of ticket n in [n % NPU_RAN] */
    const struct pass_args *pass;  /* whose results come back when it is waited for; NULL: none */
    const struct op *segment;      /* [n_seg] its operations */
    int n_seg;
    const struct npu_buffer *cache; /* NULL: it uses none */
    bool head;                      /* has it results? */
    int head_window, d_model;
    uint32_t hidden, hidden_bytes; /* the head's input where somebody wants it; 0 */
    uint32_t logits_stride, n_vocab;
};

/* What it has of a weight; NULL: nothing is prepared. */
static inline const struct packed *npu_packed_of(const struct npu_device *d, const struct weight *w)
{
    return weight_packed(w, &d->base);
}

/* ---- windows.c ---- */

/* The next NPU session.  LUTRA_E_NO_MEMORY: there are NPU_WINDOWS; else errors of the transport. */
int npu_window_add(struct npu_device *d, struct lutra_error *err);
void npu_window_remove(struct npu_device *d); /* the last one */

/* Room for a weight: weights fill three quarters of a window, then the next one; where there is no next one, any
 * room. */
int npu_window_place(struct npu_device *d, uint32_t bytes, int *window, uint32_t *at, struct lutra_error *err);

/* A pass's memory in every window, or in one. */
int npu_window_reserve(struct npu_device *d, int window, const struct op_list *list, struct lutra_error *err);
int npu_reserve_all(struct npu_device *d, const struct op_list *list, struct lutra_error *err);

/* One operation, waited for. */
int npu_window_do(
    struct npu_device *d, int window, uint32_t code, uint32_t at, uint32_t bytes, struct lutra_error *err);

uint32_t npu_window_bytes(const struct npu_device *d); /* of the first one */

/* What lies in a window, in words. */
void npu_window_describe(const struct npu_device *d, int window, char *text, size_t size);

/* ---- tcm.c ---- */

/* Notes how much TCM the list's operations take at most, for what is reserved. */
void npu_tcm_note(struct npu_device *d, const struct op_list *list);

/* ---- weights.c ---- */

int npu_weight_layout(struct npu_device *d, const struct weight *w, struct npu_weights *out, struct lutra_error *err);
int npu_weight_prepare(struct npu_device *d, struct weight *weight, struct lutra_error *err);
void npu_weight_release(struct npu_device *d, struct weight *weight);

/* Which types of the layers are bit planes and which tile32; false: no bit planes were asked for. */
bool npu_planes_describe(const struct npu_device *d, char *text, size_t size);

/* Where the next weight from operation i on lies, and the window of a layer's first weight; 0 where there is none. */
int npu_home(const struct npu_device *d, const struct op_list *list, int i);
int npu_layer_home(const struct npu_device *d, const struct op_list *list, int layer);

/* ---- buffers.c ---- */

/* host: NULL, or memory of somebody else's that they are places of. */
int npu_value_alloc(struct npu_device *d, void *host, size_t bytes, struct npu_buffer **out, struct lutra_error *err);
int npu_cache_place(struct npu_device *d, const struct op_list *list, void *host, size_t bytes, struct npu_buffer **out,
    struct lutra_error *err);
void npu_buffer_drop(struct npu_device *d, struct npu_buffer *b);
struct npu_buffer *npu_buffer_of(const struct npu_device *d, const void *host); /* that starts there; NULL: none */

/* The first `bytes` of a value, from where they are current to the host, or to a window, where it is to be invalidated
 * then. */
int npu_value_to_host(struct npu_device *d, struct npu_buffer *b, uint32_t bytes, struct lutra_error *err);
int npu_value_to_window(
    struct npu_device *d, struct npu_buffer *b, int window, uint32_t bytes, struct lutra_error *err);

/* Some columns of a value, from the window where they are to the host. */
int npu_value_area_to_host(
    struct npu_device *d, struct npu_buffer *b, const struct area *area, struct lutra_error *err);
/* Columns that others wrote are in the host's memory: they are brought when the value is needed. */
void npu_value_area_comes(struct npu_buffer *b, const struct area *area);

/* Where layer 0 of a window's part of the cache is: the pool, and the drafts. */
void npu_cache_offsets(
    const struct npu_buffer *b, const struct kv_view *kv, int window, uint32_t *pool, uint32_t *draft);

/* Bytes of one layer that the host wrote, or wants to read. */
void npu_cache_publish(struct npu_device *d, const struct npu_buffer *b, const struct kv_view *kv, int layer,
    uint8_t *host, uint32_t bytes);
void npu_cache_acquire(struct npu_device *d, const struct npu_buffer *b, const struct kv_view *kv, int layer,
    uint8_t *host, uint32_t bytes);

/* ---- constants.c ---- */

/* What operations with weights need beside them, where these lie; the sinks of a cache's layers, where those lie. */
int npu_constants_load(struct npu_device *d, const struct op_list *list, struct lutra_error *err);
int npu_constants_sinks(
    struct npu_device *d, const struct op_list *list, const struct npu_buffer *cache, struct lutra_error *err);
void npu_constants_unload(struct npu_device *d, const struct op_list *list);
uint32_t npu_constant_at(const struct npu_device *d, const struct op_list *list, const float *host, int window);

/* ---- program.c ---- */

size_t npu_program_tables(const struct npu_device *d, const struct op_list *list); /* bytes, at most */
int npu_program_ops(const struct npu_device *d, const struct op_list *list);       /* of one run, at most */

/* Sends a segment's operations off; all but the last run are done on return. */
int npu_program_submit(struct npu_device *d, const struct segment *segment, struct lutra_error *err);

/* ---- submit.c ---- */

/* Sends the next messages of the run. */
int npu_run_feed(struct npu_device *d, struct lutra_error *err);

/* Until the run is done; cancelling the pass stops it after the messages on their way. */
int npu_run_drain(struct npu_device *d, struct lutra_error *err);

/* Waits for what nobody waited for and forgets it. */
int npu_run_abandon(struct npu_device *d, struct lutra_error *err);

/* After the segment is done: results and new cache rows to the host. */
void npu_run_finish(struct npu_device *d);
/* The one token whose logit the head itself reports for result i; NULL: none, or more, which come out of all logits. */
const int32_t *npu_head_target(const struct pass_args *pass, int i);
bool npu_head_brings_logits(const struct pass_args *pass, int i);

#endif
