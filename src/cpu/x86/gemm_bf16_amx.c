/* SPDX-License-Identifier: MIT
 *
 * The bf16 matmul on AMX tiles (gemm_bf16_amx_impl.h): its loops and its activations.
 *
 *     for up to PASS_BLOCKS blocks of 16 rows, up to MAX_PAIRS pairs of panels:
 *         for each slice of 512 inputs, each pair:
 *             for each two row blocks: 32 x 32 sums from the work memory, 16 groups of 32 inputs, back
 *
 * So a pair's weights (32 KiB) stay in L1 for all rows, and a slice of the activations in L2 for all the panels of a
 * call. What passes L1 once (activations, sums) is loaded as a stream, which leaves the weights where they are.  The
 * next pair's weights are unpacked meanwhile, a group at a time between products.
 *
 * The order of additions of an output: bias, then inputs ascending, whatever the rows, panels and passes.
 *
 * With a gate, a pair is the same panel of two weights.  Its sums stay in the work memory, from where they are gated a
 * row at a time between the next products.
 *
 * Activations: [slice][row block][group][16 rows][32 inputs] bf16; rows that the last block lacks are never used.
 */
#include <string.h>

#include "cpu/x86/amx_impl.h"
#include "cpu/x86/gemm_bf16_amx_impl.h"

enum { GROUPS = TILE_K / 32, SLICE = 16, ROWS = 16, PASS_BLOCKS = 32, MAX_PAIRS = 8, TILE = BF16_TILE_BYTES };

struct work {
    LUTRA_ALIGNED(64) uint8_t b[2][2][SLICE][TILE]; /* slices of pairs: in use, and to come */
    float sums[MAX_PAIRS][PASS_BLOCKS][2][ROWS * LANES];
    uint8_t kept[BF16_KEPT_BYTES];
    float bias[MAX_PAIRS][2][LANES];
};

/* What does not change during a pass. */
struct pass {
    const struct cpu_gemm_args *a;
    struct work *w;
    bf16_unpack *unpack;
    const uint8_t *packed[2];               /* the first and the second panel of a pair, of panel 0 */
    size_t pair_panels;                     /* from pair to pair: 2; with a gate 1 */
    size_t groups, panel_bytes, tile_bytes; /* groups of 32 inputs; bytes of a packed tile of 256 inputs */
    size_t blocks;                          /* of 16 rows, in the whole call */
    size_t first, last;                     /* row blocks first .. last - 1 */
    size_t panel, end;                      /* panels panel .. end - 1, of each weight */
};

/* A slice of a pair of panels. */
struct piece {
    size_t pair, n_panel; /* in the pass; 2, or 1 */
    size_t group, groups; /* the first; up to SLICE of them, 0: there is no such piece */
};

static struct piece next_piece(const struct pass *c, struct piece p)
{
    if (c->panel + c->pair_panels * ++p.pair >= c->end) p = (struct piece){.group = p.group + SLICE};
    size_t left = p.group < c->groups ? c->groups - p.group : 0;
    p.groups = left < SLICE ? left : SLICE;
    p.n_panel = c->pair_panels == 2 && c->end - c->panel - 2 * p.pair < 2 ? 1 : 2;
    return p;
}

/* ---- weights ---- */

/* A piece on its way to bf16. */
struct unpacking {
    struct {
        const uint8_t *w, *ahead; /* packed tile of its next group; of the piece to come, to prefetch */
    } panel[2];
    uint8_t *to;
    size_t i, g, groups, left; /* panel; its next group, of how many; groups left, of both panels */
    size_t rest;               /* groups of the panel from the piece on */
};

static const uint8_t *packed_at(const struct pass *c, const struct piece *p, size_t i)
{
    size_t panel = c->panel + c->pair_panels * p->pair;
    return c->packed[i] + panel * c->panel_bytes + p->group / GROUPS * c->tile_bytes;
}

/* The unpacking of p, if there is such a piece, while what comes after it is fetched. */
static struct unpacking begin_unpacking(const struct pass *c, struct piece p, uint8_t *to)
{
    struct piece after = next_piece(c, p);
    if (p.groups == 0) return (struct unpacking){.left = 0};
    struct unpacking u = {.to = to, .groups = p.groups, .left = p.groups * p.n_panel, .rest = c->groups - p.group};
    for (size_t i = 0; i < p.n_panel; i++) {
        u.panel[i].w = packed_at(c, &p, i);
        u.panel[i].ahead = packed_at(c, after.groups ? &after : &p, i);
    }
    return u;
}

static void unpack_group(const struct pass *c, struct unpacking *u)
{
    size_t bytes = c->tile_bytes / GROUPS, tile = u->g / GROUPS, rest = u->rest - tile * GROUPS;
    const uint8_t *w = u->panel[u->i].w + tile * c->tile_bytes, *ahead = u->panel[u->i].ahead + u->g * bytes;
    for (size_t i = 0; i < bytes; i += 64) LUTRA_PREFETCH(ahead + i);
    c->unpack(w, rest < GROUPS ? rest : GROUPS, u->g % GROUPS, c->w->kept, u->to + u->g * TILE);
    u->left--;
    if (++u->g < u->groups) return;
    u->g = 0;
    u->i++;
    u->to += SLICE * TILE;
}

/* ---- products ---- */

/* Of a group of `rows` row blocks, a_bytes apart, and `panels` panels. */
LUTRA_INLINE void multiply(const uint8_t *a, size_t a_bytes, const uint8_t *b, const int rows, const int panels)
{
    compiler_fence(a);
    _tile_stream_loadd(4, a, 64);
    if (rows == 2) _tile_stream_loadd(5, a + a_bytes, 64);
    _tile_loadd(6, b, 64);
    if (panels == 2) _tile_loadd(7, b + SLICE * TILE, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (panels == 2) _tile_dpbf16ps(1, 4, 7);
    if (rows == 2) _tile_dpbf16ps(2, 5, 6);
    if (rows == 2 && panels == 2) _tile_dpbf16ps(3, 5, 7);
}

/* 2 x 2 tiles of sums: where, and how far apart are rows, panels, row blocks. */
struct sums {
    uint8_t *at;
    size_t row, panel, block;
};

LUTRA_INLINE void load_sums(struct sums s, const int rows, const int panels)
{
    compiler_fence(s.at);
    _tile_stream_loadd(0, s.at, s.row);
    if (panels == 2) _tile_stream_loadd(1, s.at + s.panel, s.row);
    if (rows == 2) _tile_stream_loadd(2, s.at + s.block, s.row);
    if (rows == 2 && panels == 2) _tile_stream_loadd(3, s.at + s.block + s.panel, s.row);
}

LUTRA_INLINE void store_sums(struct sums s, const int rows, const int panels)
{
    _tile_stored(0, s.at, s.row);
    if (panels == 2) _tile_stored(1, s.at + s.panel, s.row);
    if (rows == 2) _tile_stored(2, s.at + s.block, s.row);
    if (rows == 2 && panels == 2) _tile_stored(3, s.at + s.block + s.panel, s.row);
}

/* From the work memory to the outputs that exist, for `rows` row blocks from `block` on. */
static void store_part(const struct pass *c, const struct piece *p, struct sums from, size_t block, size_t rows)
{
    const struct cpu_gemm_args *a = c->a;
    size_t first = block * ROWS, last = (block + rows) * ROWS < a->n_row ? (block + rows) * ROWS : a->n_row;
    for (size_t i = 0; i < p->n_panel; i++) {
        size_t o = (c->panel + 2 * p->pair + i) * LANES, left = a->n_out - o;
        __mmask16 mask = left < LANES ? (__mmask16)((1u << left) - 1) : 0xffff;
        float *out = a->out + o - a->panel * LANES;
        for (size_t r = first; r < last; r++) {
            const uint8_t *sum = from.at + (r - first) / ROWS * from.block + i * from.panel + r % ROWS * from.row;
            _mm512_mask_storeu_ps(out + r * a->out_stride, mask, _mm512_loadu_ps(sum));
        }
    }
}

/* ---- gates ---- */

/* Where 32 inputs of rows lie in activations, in bytes. */
struct place {
    size_t first, block; /* of row 0; from row block to row block */
};

/* Group g of `groups`, in the activations of `blocks` row blocks. */
static struct place place_of(size_t groups, size_t g, size_t blocks)
{
    size_t slice = g / SLICE * SLICE, n = groups - slice < SLICE ? groups - slice : SLICE;
    return (struct place){(slice * blocks + g % SLICE) * TILE, n * TILE};
}

/* Sums of up to two row blocks on their way through the gate. */
struct gating {
    const float *sums; /* [row block][weight][16 rows][16 outputs] */
    uint8_t *to;       /* the first row's 16 inputs */
    size_t block;      /* bytes from row block to row block */
    size_t row, n_row; /* the next, of how many */
};

static struct gating begin_gating(const struct pass *c, const struct piece *p, size_t block, size_t rows)
{
    const struct cpu_gemm_args *a = c->a;
    size_t panel = c->panel + p->pair, left = a->n_row - block * ROWS;
    struct place at = place_of(a->n_out / 32, panel / 2, c->blocks);
    return (struct gating){.sums = c->w->sums[p->pair][block - c->first][0],
        .to = (uint8_t *)a->gate->act + at.first + block * at.block + panel % 2 * 32,
        .block = at.block,
        .n_row = left < rows * ROWS ? left : rows * ROWS};
}

static void gate_row(const struct pass *c, struct gating *g)
{
    const float *sum = g->sums + (g->row / ROWS * 2 * ROWS + g->row % ROWS) * LANES;
    uint8_t *to = g->to + g->row / ROWS * g->block + g->row % ROWS * 64;
    float out[LANES];
    LUTRA_PREFETCH_WRITE(to + 2 * g->block);
    c->a->gate->f(sum, sum + ROWS * LANES, LANES, out);
    __m256bh h = _mm512_cvtneps_pbh(_mm512_loadu_ps(out));
    memcpy(to, &h, sizeof h);
    g->row++;
}

static void finish_gating(const struct pass *c, struct gating *g)
{
    while (g->row < g->n_row) gate_row(c, g);
}

/* A row block or two of a piece, and the unpacking of another. */
struct block {
    const struct piece *p;
    const uint8_t *act, *b;
    size_t row; /* block */
    struct unpacking *next;
    struct gating *gating;      /* of the block before */
    size_t jobs, steps, credit; /* groups to unpack while so many groups are multiplied: jobs / steps per group */
};

/* Where a block's sums go in the end. */
struct output {
    bool whole; /* all of them are outputs */
    struct sums sums;
    uint8_t *line; /* what comes behind, to be fetched before it is stored */
    size_t lines;
};

LUTRA_INLINE struct output output_at(
    const struct pass *c, const struct piece *p, size_t block, const int rows, const int panels)
{
    const struct cpu_gemm_args *a = c->a;
    size_t o = (c->panel + 2 * p->pair) * LANES, row = block * ROWS, end = row + (size_t)rows * ROWS;
    size_t stride = 4 * a->out_stride;
    uint8_t *out = (uint8_t *)(a->out + o - a->panel * LANES) + row * stride;
    return (struct output){.whole = end <= a->n_row && o + (size_t)panels * LANES <= a->n_out,
        .sums = {out, stride, 64, stride * ROWS},
        .line = out + (end - row) * stride,
        .lines = end < a->n_row ? a->n_row - end : 0};
}

LUTRA_INLINE void run_block(const struct pass *c, struct block *s, const int rows, const int panels)
{
    const struct cpu_gemm_args *a = c->a;
    const struct piece *p = s->p;
    struct sums kept = {(uint8_t *)c->w->sums[p->pair][s->row - c->first], 64, TILE, 2 * TILE}, to = kept;
    struct sums bias = {(uint8_t *)c->w->bias[p->pair], 0, 64, 0};
    struct output out = {0};
    bool last = p->group + p->groups == c->groups;
    if (last && !a->gate) out = output_at(c, p, s->row, rows, panels);
    if (out.whole) to = out.sums;
    load_sums(p->group == 0 ? bias : kept, rows, panels);
    for (size_t g = 0; g < p->groups; g++) {
        multiply(s->act + g * TILE, p->groups * TILE, s->b + g * TILE, rows, panels);
        for (s->credit += s->jobs; s->credit >= s->steps; s->credit -= s->steps) {
            if (s->next->left) unpack_group(c, s->next);
        }
        for (int i = 0; i < rows && out.lines > 0; i++, out.lines--, out.line += out.sums.row) {
            LUTRA_PREFETCH_WRITE(out.line);
            if (panels == 2) LUTRA_PREFETCH_WRITE(out.line + 64);
        }
        for (int i = 0; i < 2 && s->gating->row < s->gating->n_row; i++) gate_row(c, s->gating);
    }
    store_sums(to, rows, panels);
    if (last && a->gate) {
        finish_gating(c, s->gating);
        *s->gating = begin_gating(c, p, s->row, (size_t)rows);
    } else if (last && !out.whole) {
        store_part(c, p, kept, s->row, (size_t)rows);
    }
}

LUTRA_INLINE void run_rows(const struct pass *c, struct block *s, const int panels)
{
    for (; s->row + 2 <= c->last; s->row += 2, s->act += 2 * s->p->groups * TILE) run_block(c, s, 2, panels);
    if (s->row < c->last) run_block(c, s, 1, panels);
}

static void run_piece(
    const struct pass *c, const struct piece *p, const uint8_t *b, struct unpacking *next, struct gating *gating)
{
    struct block s = {.p = p,
        .act = (const uint8_t *)c->a->act + (p->group * c->blocks + c->first * p->groups) * TILE,
        .b = b,
        .row = c->first,
        .next = next,
        .gating = gating,
        .jobs = next->left,
        .steps = (c->last - c->first + 1) / 2 * p->groups};
    if (p->n_panel == 2) {
        run_rows(c, &s, 2);
    } else {
        run_rows(c, &s, 1);
    }
    while (next->left) unpack_group(c, next);
}

static void set_bias(const struct pass *c)
{
    const struct cpu_gemm_args *a = c->a;
    memset(c->w->bias, 0, sizeof c->w->bias);
    for (size_t panel = c->panel, at = 0; panel < c->end; panel++, at += c->pair_panels == 2 ? 1 : 2) {
        size_t left = a->n_out - panel * LANES, n = left < LANES ? left : LANES;
        float *to = c->w->bias[0][0] + at * LANES;
        if (a->bias) memcpy(to, a->bias + panel * LANES, n * sizeof *to);
        if (a->gate && a->gate->bias) memcpy(to + LANES, a->gate->bias + panel * LANES, n * sizeof *to);
    }
}

static void run_pass(const struct pass *c)
{
    struct piece p = next_piece(c, (struct piece){.pair = c->end, .group = (size_t)-SLICE}), next;
    struct unpacking u = begin_unpacking(c, p, c->w->b[0][0][0]);
    struct gating gating = {0};
    set_bias(c);
    while (u.left) unpack_group(c, &u);
    for (size_t turn = 0; p.groups; turn ^= 1, p = next) {
        next = next_piece(c, p);
        u = begin_unpacking(c, next, c->w->b[!turn][0][0]);
        run_piece(c, &p, c->w->b[turn][0][0], &u, &gating);
    }
    finish_gating(c, &gating);
}

static const struct bf16_format *format_of(enum quant_type type)
{
    const struct bf16_format *const all[] = {BF16_I8_FORMATS, BF16_SUPER_FORMATS, BF16_BOOK_FORMATS};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i][type].unpack) return &all[i][type];
    }
    return NULL;
}

static void run(const struct cpu_gemm_args *a)
{
    size_t blocks = (a->n_row + ROWS - 1) / ROWS, n_pass = (blocks + PASS_BLOCKS - 1) / PASS_BLOCKS;
    size_t rows = (blocks + n_pass - 1) / n_pass, end = a->panel + a->n_panel;
    size_t panel_bytes = cpu_panel_bytes(a->gemm->type, a->n_in);
    const uint8_t *packed = a->packed;
    struct pass c = {.a = a,
        .w = a->work,
        .unpack = format_of(a->gemm->type)->unpack,
        .packed = {packed, a->gate ? a->gate->packed : packed + panel_bytes},
        .pair_panels = a->gate ? 1 : 2,
        .groups = a->n_in / 32,
        .panel_bytes = panel_bytes,
        .tile_bytes = cpu_tile_bytes(a->gemm->type),
        .blocks = blocks};
    size_t most = MAX_PAIRS * c.pair_panels;
    struct amx_shapes shapes = {0};
    for (int i = 0; i < 8; i++) amx_shape(&shapes, i, ROWS, 64);
    cpu_bf16_make_tables(a->gemm->type, c.w->kept);
    amx_begin(&shapes);
    for (c.first = 0; c.first < blocks; c.first = c.last) {
        c.last = c.first + rows < blocks ? c.first + rows : blocks;
        for (c.panel = a->panel; c.panel < end; c.panel = c.end) {
            c.end = c.panel + most < end ? c.panel + most : end;
            run_pass(&c);
        }
    }
    amx_end();
}

/* ---- activations ---- */

static size_t act_bytes(size_t n_in, size_t n_row)
{
    return (n_row + ROWS - 1) / ROWS * (n_in / 32) * TILE;
}

static void act_row(const float *x, size_t n_in, size_t row, size_t n_row, float row_max, void *act)
{
    size_t blocks = (n_row + ROWS - 1) / ROWS, groups = n_in / 32;
    (void)row_max; /* int8 classes alone are asked for a scale of the row */
    for (size_t g = 0; g < groups; g++, x += 32) {
        struct place at = place_of(groups, g, blocks);
        __m512bh h = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x));
        memcpy((uint8_t *)act + at.first + row / ROWS * at.block + row % ROWS * 64, &h, sizeof h);
    }
}

void cpu_gemm_init_bf16_amx(struct cpu_kernels *k)
{
    for (int type = 0; type < QUANT_TYPE_END; type++) {
        const struct bf16_format *format = format_of((enum quant_type)type);
        struct cpu_gemm *g = &k->bulk[type];
        if (!format) continue;
        *g = k->gemm[type];
        g->name = format->name;
        g->numerics = "bf16";
        g->act_group = 0;
        g->act_bytes = act_bytes;
        g->act_row = act_row;
        g->work_bytes = sizeof(struct work);
        g->unit_panels = 2 * MAX_PAIRS;
        g->takes_gate = true;
        g->run = run;
        g->run_few = NULL;
    }
}
