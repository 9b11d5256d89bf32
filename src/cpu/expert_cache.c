/* SPDX-License-Identifier: MIT */
#include "cpu/expert_cache.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

enum {
    SCRATCH_BYTES = 192 << 10, /* packed panels that stay in L2 until they are used */
    AGE_PASSES = 1024,         /* between two halvings of the counts */
    FOLLOWS_MOST = 255,
};

/* ---- packing ---- */

static void pack(const struct expert_cache *s, int expert, size_t panel, size_t n_panel, int place)
{
    s->gemm->pack(s->gemm, s->source + (size_t)expert * s->source_bytes, s->n_out, s->n_in, panel, n_panel,
        s->data + (size_t)place * s->place_bytes);
}

struct pack_job {
    struct expert_cache *cache;
    atomic_int next;
};

static void pack_places(void *arg, int ith, int nth)
{
    struct pack_job *j = arg;
    (void)ith, (void)nth;
    for (int place; (place = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->cache->n_place;) {
        pack(j->cache, place, 0, j->cache->panels, place);
        pages_drop(j->cache->source + (size_t)place * j->cache->source_bytes, j->cache->source_bytes);
    }
}

size_t expert_cache_panels(const struct cpu_gemm *gemm, size_t n_in)
{
    size_t bytes = gemm->packed_bytes(gemm, (size_t)gemm->mr, n_in), n = bytes ? SCRATCH_BYTES / bytes : 1;
    return n ? n : 1;
}

size_t expert_cache_scratch(const struct cpu_gemm *gemm, size_t n_in)
{
    return gemm->packed_bytes(gemm, expert_cache_panels(gemm, n_in) * (size_t)gemm->mr, n_in);
}

void expert_cache_at(
    const struct expert_cache *s, int expert, size_t panel, size_t n_panel, void *scratch, struct cpu_gemm_args *a)
{
    size_t mr = (size_t)s->gemm->mr, row = panel * mr;
    int place = s->place_of[expert];
    if (a->bias) a->bias += (size_t)expert * s->n_out;
    a->n_out = s->n_out;
    a->panel = panel;
    if (place >= 0) {
        if (s->fresh[place]) pack(s, expert, panel, n_panel, place);
        a->packed = s->data + (size_t)place * s->place_bytes;
        return;
    }
    size_t row_bytes = s->source_bytes / s->n_out;
    a->n_out = n_panel * mr;
    s->gemm->pack(s->gemm, s->source + (size_t)expert * s->source_bytes + row * row_bytes, a->n_out, s->n_in, 0,
        n_panel, scratch);
    a->packed = scratch;
    a->panel = 0;
    if (a->bias) a->bias += row;
}

/* ---- opening ---- */

static int reserve(struct expert_cache *s, const char *what, struct lutra_error *err)
{
    size_t n = (size_t)s->n_expert, n_place = (size_t)s->n_place;
    struct {
        void **at;
        size_t bytes;
    } part[] = {{(void **)&s->place_of, n * sizeof *s->place_of},
        {(void **)&s->expert_in, n_place * sizeof *s->expert_in}, {(void **)&s->count, n * sizeof *s->count},
        {(void **)&s->fresh, n_place * sizeof *s->fresh}, {(void **)&s->follows, n * n},
        {(void **)&s->score, n * sizeof *s->score}, {(void **)&s->likely, n * sizeof *s->likely},
        {(void **)&s->data, n_place * s->place_bytes}};
    size_t total = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) total += arena_cost(part[i].bytes);
    TRY(arena_open(&s->memory, "packed experts", total, ARENA_HUGE_PAGES, err));
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        TRY(arena_take(&s->memory, part[i].bytes, what, part[i].at, err));
    return 0;
}

static int fill(struct expert_cache *s, const struct weight *w, struct pool *pool, struct lutra_error *err)
{
    struct pack_job job = {.cache = s};
    TRY(reserve(s, w->tensor.name, err));
    for (int e = 0; e < s->n_expert; e++) s->place_of[e] = e < s->n_place ? e : -1;
    for (int i = 0; i < s->n_place; i++) s->expert_in[i] = i;
    if (!s->n_place) return 0;
    pages_want(s->source, (size_t)s->n_place * s->source_bytes);
    pool_run(pool, pack_places, &job);
    return 0;
}

int expert_cache_open(struct expert_cache **out, const struct cpu_gemm *gemm, const struct weight *w,
    const void *stored, struct pool *pool, struct lutra_error *err)
{
    struct expert_cache *s = *out = calloc(1, sizeof *s);
    if (!s) return lutra_fail(err, LUTRA_E_NO_MEMORY, "cpu: no memory for tensor '%s'", w->tensor.name);
    *s = (struct expert_cache){.gemm = gemm,
        .n_expert = w->n_expert,
        .n_place = stored ? 0 : w->n_packed,
        .n_out = (size_t)(w->tensor.ne[1] / w->n_expert),
        .n_in = (size_t)w->tensor.ne[0],
        .source = stored ? stored : w->tensor.data,
        .source_bytes = w->tensor.bytes / (size_t)w->n_expert,
        .in_place = stored != NULL};
    s->place_bytes = gemm->packed_bytes(gemm, s->n_out, s->n_in);
    s->panels = s->n_out / (size_t)gemm->mr;
    if (stored) s->source_bytes = s->place_bytes;
    int rc = s->place_bytes && s->n_out % (size_t)gemm->mr == 0
                 ? fill(s, w, pool, err)
                 : lutra_fail(err, LUTRA_E_UNSUPPORTED, "cpu: tensor '%s': experts of %zu x %zu cannot be packed",
                       w->tensor.name, s->n_out, s->n_in);
    if (rc < 0) expert_cache_close(out);
    return rc;
}

void expert_cache_close(struct expert_cache **cache)
{
    if (!*cache) return;
    arena_close(&(*cache)->memory);
    free(*cache);
    *cache = NULL;
}

/* ---- who is packed ---- */

static bool is_used(const int32_t *used, int expert)
{
    return used[expert] < used[expert + 1];
}

/* What the last pass packed stays, and its source may go; but for a pass that was cancelled. */
static void settle(struct expert_cache *s)
{
    for (int i = 0; i < s->n_place; i++) {
        if (!s->fresh[i]) continue;
        int e = s->expert_in[i];
        s->fresh[i] = false;
        if (s->under_way)
            s->place_of[e] = s->expert_in[i] = -1;
        else
            pages_drop(s->source + (size_t)e * s->source_bytes, s->source_bytes);
    }
}

/* The place whose expert was used least, and is not now; an empty one before all; -1: there is none. */
static int least_used(const struct expert_cache *s, const int32_t *used)
{
    int best = -1;
    for (int i = 0; i < s->n_place; i++) {
        int e = s->expert_in[i];
        if (e < 0) return i;
        if (!is_used(used, e) && (best < 0 || s->count[e] < s->count[s->expert_in[best]])) best = i;
    }
    return best;
}

static void admit(struct expert_cache *s, const int32_t *used, int expert)
{
    int place = least_used(s, used), old = place < 0 ? -1 : s->expert_in[place];
    if (place < 0) return;
    if (old >= 0) {
        uint32_t least = s->count[old];
        if (s->count[expert] <= least + (least > 0) + least / 8) return; /* so that equals do not take turns */
        s->place_of[old] = -1;
    }
    s->place_of[expert] = place;
    s->expert_in[place] = expert;
    s->fresh[place] = true;
    s->n_pack++;
}

void expert_cache_begin(struct expert_cache *s, const int32_t *used)
{
    settle(s);
    s->under_way = true;
    if (++s->n_begun % AGE_PASSES == 0)
        for (int e = 0; e < s->n_expert; e++) s->count[e] /= 2;
    for (int e = 0; e < s->n_expert; e++) {
        if (!is_used(used, e)) continue;
        bool hit = s->in_place || s->place_of[e] >= 0;
        s->count[e]++;
        s->n_use++;
        s->n_hit += hit;
        s->n_ahead_used += s->likely[e];
        if (!hit) admit(s, used, e);
    }
    memset(s->likely, 0, (size_t)s->n_expert * sizeof *s->likely);
}

void expert_cache_end(struct expert_cache *s)
{
    s->under_way = false;
}

/* ---- reading ahead ---- */

void expert_cache_learn(
    struct expert_cache *s, const int32_t *before, int n_before, const int32_t *now, int n_now, int n_row)
{
    for (int r = 0; r < n_row; r++)
        for (int i = 0; i < n_before; i++) {
            uint8_t *follows = s->follows + (size_t)before[r * n_before + i] * (size_t)s->n_expert;
            bool full = false;
            for (int k = 0; k < n_now; k++) full |= ++follows[now[r * n_now + k]] == FOLLOWS_MOST;
            for (int e = 0; full && e < s->n_expert; e++) follows[e] /= 2;
        }
}

void expert_cache_likely(struct expert_cache *s, const int32_t *before, int n, int most)
{
    memset(s->score, 0, (size_t)s->n_expert * sizeof *s->score);
    for (int i = 0; i < n; i++) {
        const uint8_t *follows = s->follows + (size_t)before[i] * (size_t)s->n_expert;
        for (int e = 0; e < s->n_expert; e++) s->score[e] += follows[e];
    }
    for (int e = 0; n == 0 && e < s->n_expert; e++) s->score[e] = 1;
    for (most = n ? most : s->n_expert; most > 0; most--) {
        int best = 0;
        for (int e = 1; e < s->n_expert; e++)
            if (s->score[e] > s->score[best]) best = e;
        if (s->score[best] == 0) return;
        s->score[best] = 0;
        if (s->place_of[best] >= 0) continue;
        s->likely[best] = true;
        s->n_ahead++;
    }
}

void expert_cache_want(const struct expert_cache *s, int expert)
{
    if (s->place_of[expert] < 0) pages_want(s->source + (size_t)expert * s->source_bytes, s->source_bytes);
}
