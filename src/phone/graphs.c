/* SPDX-License-Identifier: MIT */
#include "phone/graphs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int block_of(const struct graphs *g, int layer)
{
    return (int)((int64_t)layer * g->cost.n_block / g->list->n_layer);
}

static bool is_product(const struct op *op)
{
    return op->layer >= 0 && op_info_of(op->kind)->use & WEIGHT_MATMUL;
}

bool graphs_open(struct graphs *g, const struct op_list *list)
{
    bool any = false;
    memset(g, 0, sizeof *g);
    g->list = list;
    g->cost.n_block = list->n_layer < GRAPHS_BLOCKS ? list->n_layer : GRAPHS_BLOCKS;
    for (int b = 0; b < g->cost.n_block; b++) g->block[b].last = -1;
    for (int i = 0; i < list->n_op; i++)
        if (is_product(&list->op[i])) g->block[block_of(g, list->op[i].layer)].last = i, any = true;
    return any;
}

int graphs_block(const struct graphs *g, const struct op *op)
{
    return is_product(op) ? block_of(g, op->layer) : -1;
}

/* ---- a prompt ---- */

static bool all_few(const struct graphs *g)
{
    for (int b = 0; b < g->cost.n_block; b++)
        if (!g->block[b].few) return false;
    return true;
}

bool graphs_begin(struct graphs *g, int n_row, int n_ahead)
{
    const bool within = g->chunk < g->cost.n_chunk;
    if (within) g->chunk = n_ahead > 0 && g->chunk + 1 < g->cost.n_chunk ? g->chunk + 1 : g->cost.n_chunk;
    g->in_prompt = within || !all_few(g) || n_row + n_ahead > GRAPHS_FEW;
    if (within || !g->in_prompt) return false;
    const int n_chunk = 1 + (n_ahead + n_row - 1) / n_row;
    g->cost.n_chunk = n_chunk < BLOCKS_CHUNKS_MAX ? n_chunk : BLOCKS_CHUNKS_MAX;
    g->chunk = 1;
    return true;
}

static void load(struct graphs *g, int b, bool few, uint64_t from_us)
{
    const uint64_t begin = from_us > g->count.loaded_us ? from_us : g->count.loaded_us;
    g->block[b].few = few;
    g->block[b].ready_us = g->count.loaded_us = begin + (uint64_t)(g->cost.load_us[b] + 0.5);
    g->count.load_us += g->cost.load_us[b];
}

static double sum(const double *us, int n)
{
    double all = 0;
    for (int i = 0; i < n; i++) all += us[i];
    return all;
}

int graphs_prompt(struct graphs *g, uint64_t now_us, struct lutra_error *err)
{
    const struct blocks_problem *p = &g->cost;
    struct blocks_plan late;
    TRY(blocks_plan_by(p, BLOCKS_SYNCHRONOUS, &late, err));
    if (g->synchronous)
        g->plan = late;
    else
        TRY(blocks_best(p, &g->plan, err));
    double us = blocks_time(p, &g->plan).us, late_us = blocks_time(p, &late).us;
    g->count.n_prompt++;
    if (all_few(g)) { /* as it is, or back to the graphs for many rows */
        const double stay_us = p->n_chunk * sum(p->decode_us, p->n_block), back_us = sum(p->load_us, p->n_block);
        us += back_us, late_us += back_us;
        if (stay_us <= us) {
            memset(g->plan.before, 0, sizeof g->plan.before);
            us = stay_us, late_us = fmin(late_us, stay_us);
        } else {
            for (int b = 0; b < p->n_block; b++)
                if (g->plan.before[b] > 0) load(g, b, false, now_us);
        }
    }
    g->count.predicted_us += us, g->count.synchronous_us += late_us;
    for (int b = 0; b < p->n_block; b++)
        if (g->plan.before[b] == 0 && !g->block[b].few) load(g, b, true, now_us);
    return 0;
}

int graphs_rows(const struct graphs *g, int block, int n_row, int *runs)
{
    const int rows = g->block[block].few ? GRAPHS_FEW : GRAPHS_MANY;
    *runs = (n_row + rows - 1) / rows;
    return rows;
}

/* A block's pass is over. */
static void end_block(struct graphs *g, int b, int n_row, uint64_t end_us)
{
    struct graphs_block *x = &g->block[b];
    int runs;
    graphs_rows(g, b, n_row, &runs);
    if (!g->in_prompt)
        g->count.decoding++;
    else if (x->few)
        g->count.few++, g->count.runs += runs;
    else
        g->count.many++;
    if (!x->few && g->plan.policy != BLOCKS_SYNCHRONOUS && g->chunk >= g->plan.before[b]) load(g, b, true, end_us);
    if (b + 1 < g->cost.n_block || g->plan.policy != BLOCKS_SYNCHRONOUS || g->chunk < g->cost.n_chunk) return;
    for (int i = 0; i <= b; i++)
        if (!g->block[i].few) load(g, i, true, end_us);
}

void graphs_computed(struct graphs *g, int first, int n, int n_row, uint64_t end_us)
{
    for (int b = 0; b < g->cost.n_block; b++) {
        const int last = g->block[b].last;
        if (last < first || last >= first + n) continue;
        end_block(g, b, n_row, end_us);
    }
}

bool graphs_text(const struct graphs *g, int line, const char *name, char *text, size_t size)
{
    const struct graphs_count *c = &g->count;
    const int n = g->cost.n_block;
    char before[64] = "";
    if (line > 1 || c->n_prompt == 0) return false;
    for (int b = 0, at = 0; b < n; b++)
        at += snprintf(before + at, sizeof before - (size_t)at, " %d", g->plan.before[b]);
    if (line == 0)
        snprintf(text, size,
            "%s: %d blocks with graphs of %d or %d rows; %d prompt%s: %d passes of blocks by %d rows, %d by %d "
            "(%d runs), %d behind; of the last prompt's %d chunks the blocks computed%s before they switched",
            name, n, GRAPHS_MANY, GRAPHS_FEW, c->n_prompt, c->n_prompt == 1 ? "" : "s", c->many, GRAPHS_MANY, c->few,
            GRAPHS_FEW, c->runs, c->decoding, g->cost.n_chunk, before);
    else
        snprintf(text, size,
            "%s: graphs loaded for %.1f ms, waited for %.1f ms, modelled; products and loads of prompts: predicted "
            "%.1f ms, %.1f if loads came behind",
            name, c->load_us / 1e3, (double)c->wait_us / 1e3, c->predicted_us / 1e3, c->synchronous_us / 1e3);
    return true;
}
