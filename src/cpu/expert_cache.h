/* SPDX-License-Identifier: MIT
 *
 * A matrix of experts of which only some are packed at a time (weight.n_packed).  The others stay in the mapping of the
 * model's file, and who needs one packs its panels into a scratch, panel by panel: the same bytes for the kernels, so
 * the same bits.
 *
 * A place holds a packed expert.  An expert that has been used clearly more often than the one in some place takes its
 * place, and the pass that uses it packs it there; counts are halved now and then.  Policy and bookkeeping are one
 * thread's, before the pass's threads meet; they then read what it decided.
 *
 * Reading ahead: which experts of a layer follow which of the layer before is counted, and those that follow most often
 * are asked of the kernel before they are needed (MoE-Infinity, arXiv 2401.14361, traces experts like that).
 */
#ifndef LUTRA_CPU_EXPERT_CACHE_H
#define LUTRA_CPU_EXPERT_CACHE_H

#include "base/arena.h"
#include "base/pool.h"
#include "cpu/kernels.h"
#include "ops/op.h"

enum {
    AHEAD_IDS = 64,   /* experts of a pass that teaches what follows what, at most */
    AHEAD_OPS = 4096, /* that read ahead after the process has waited for a file */
};

struct expert_cache {
    const struct cpu_gemm *gemm;
    struct arena memory;
    int n_expert, n_place;
    size_t n_out, n_in, panels; /* of an expert */
    const uint8_t *source;      /* in the file: [n_expert][source_bytes] */
    size_t source_bytes;
    bool in_place;      /* the source is packed already (weight.stored): there are no places */
    uint8_t *data;      /* [n_place][place_bytes] */
    size_t place_bytes; /* of a packed expert */
    int32_t *place_of;  /* [n_expert] -1: it is in none */
    int32_t *expert_in; /* [n_place] -1: none */
    uint32_t *count;    /* [n_expert] passes that used it, halved every so often */
    bool *fresh;        /* [n_place] packed by the pass under way */
    uint8_t *follows;   /* [n_expert][n_expert] how often the second followed the first, one of the layer before */
    uint32_t *score;    /* [n_expert] of expert_cache_likely */
    bool *likely;       /* [n_expert] found by it for the next pass */
    bool under_way;     /* a pass was begun and not ended: what is fresh may be packed in part */
    uint64_t n_begun;   /* passes */
    uint64_t n_use, n_hit, n_pack;  /* experts that passes used; in a place already; packed into one since opened */
    uint64_t n_ahead, n_ahead_used; /* asked of the kernel as likely; used by the next pass */
};

/* For a weight with n_expert experts.  The first n_place experts are packed by `pool`; stored: its packed copy, which
 * is used in place, or NULL.  LUTRA_E_NO_MEMORY, LUTRA_E_UNSUPPORTED: experts that cannot be packed. */
int expert_cache_open(struct expert_cache **out, const struct cpu_gemm *gemm, const struct weight *w,
    const void *stored, struct pool *pool, struct lutra_error *err);
void expert_cache_close(struct expert_cache **cache);

/* Before a pass uses the experts e with used[e] < used[e + 1] (used: [n_expert + 1]); decides who is packed. */
void expert_cache_begin(struct expert_cache *s, const int32_t *used);
/* The pass is certain to pack what is fresh. */
void expert_cache_end(struct expert_cache *s);

/* What expert_cache_at needs of a thread's scratch, and the panels that fit it. */
size_t expert_cache_scratch(const struct cpu_gemm *gemm, size_t n_in);
size_t expert_cache_panels(const struct cpu_gemm *gemm, size_t n_in);

/* Panels panel .. panel + n_panel - 1 of an expert, packed now unless they are: sets packed, panel and n_out of *a, and
 * moves its bias, which is that of all experts. */
void expert_cache_at(
    const struct expert_cache *s, int expert, size_t panel, size_t n_panel, void *scratch, struct cpu_gemm_args *a);

/* Row r of n_row used before[r * n_before + i] in the layer before, and now[r * n_now + i] in this one. */
void expert_cache_learn(
    struct expert_cache *s, const int32_t *before, int n_before, const int32_t *now, int n_now, int n_row);
/* Marks up to `most` experts that are likely to follow `before`, which are used in the layer before; n == 0: all. */
void expert_cache_likely(struct expert_cache *s, const int32_t *before, int n, int most);
/* Asks the kernel for an expert's source, if it is in no place. */
void expert_cache_want(const struct expert_cache *s, int expert);

#endif
