/* SPDX-License-Identifier: MIT
 *
 * A prompt and a reply on a phone: rates, energy, memory, who computes what, the timeline of a layer.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sched/blocks.h"
#include "sim/counts.h"
#include "phone/data.h"
#include "phone/graphs.h"
#include "sim/report.h"

enum { POINTS = 64 };
_Static_assert((int)SIM_CHUNK == (int)GRAPHS_MANY, "chunks are as the graphs of a device");

/* ---- QNN's graphs ---- */

/* n passes that decode a token of every sequence; between the points that are summed a pass's time is a line. */
static int add_passes(const struct sim_question *q, int n, struct sim_reply *out, struct lutra_error *err)
{
    struct sim_question one = *q;
    for (int i = 0, at = 0; i < POINTS && at < n; i++) {
        int next = (int)((double)n * (i + 1) / POINTS), points = next - at;
        struct sim_result r;
        if (points <= 0) continue;
        one.past = q->past + at + points / 2;
        TRY(sim_pass(&one, &r, err));
        if (at == 0) out->decode = r, one.plan = r.plan;
        sim_add(&out->decode_us, &r.us, points), sim_add(&out->decode_mj, &r.mj, points);
        at = next;
    }
    return 0;
}

static int reply_by_graphs(const struct sim_case *c, struct sim_reply *out, struct lutra_error *err)
{
    const struct lutra_sim_settings *s = &c->set;
    struct sim_question q = sim_prompt_of(c);
    TRY(sim_pass(&q, &out->prompt, err));
    out->prompt_us = out->prompt.us, out->prompt_mj = out->prompt.mj;
    q = sim_decode_of(c);
    if (c->plan == SIM_CHUNKED || c->plan == SIM_PADDING || c->plan == SIM_PIPE || c->plan == SIM_PREPARE)
        q.plan = SIM_LAYER; /* plans of prompts: one row is nobody's graph */
    return add_passes(&q, s->n_decode, out, err);
}

/* ---- counted kernels ---- */

static struct sim_span span_of(double low, double high)
{
    return (struct sim_span){low, sqrt(low * high), high};
}

/* A pass's parts as operations of the NPU, one after another. */
static void fill_result(const struct npu_pass *s, struct sim_result *r)
{
    struct sim_span at = {0};
    r->us = span_of(s->whole.low_us, s->whole.high_us), r->mj = span_of(s->whole.low_mj, s->whole.high_mj);
    for (int i = 0; i < NPU_PARTS; i++) {
        struct sim_op *op = &r->op[i];
        *op = (struct sim_op){.start_us = at};
        snprintf(op->name, sizeof op->name, "%s", npu_part_names[i]);
        op->us = span_of(s->part[i].low_us, s->part[i].high_us);
        op->choice.part[SIM_NPU] = SIM_GRID, op->choice.us[SIM_NPU] = op->us.middle;
        sim_add(&at, &op->us, 1);
    }
}

static int not_counted(const struct sim_shape *s, struct lutra_error *err)
{
    if (!s->kind[0][0])
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "law lutra: '%s' is no type of this project's kernels; q4_0, q8_0, f16, w2 are", s->quant);
    return lutra_fail(err, LUTRA_E_UNSUPPORTED,
        "%s (%s, down %s, head %s): kernels of these sizes and types were not counted (bench/npu/counts.json)", s->name,
        s->kind[0], s->kind[1], s->kind[2]);
}

static int run_counted(
    const struct sim_case *c, const struct npu_counts *counts, struct sim_reply *out, struct lutra_error *err)
{
    const struct sim_shape *s = &c->shape;
    const struct lutra_sim_settings *set = &c->set;
    const struct npu_model m = {.name = s->name,
        .weights = s->kind[0],
        .down = s->kind[1],
        .head = s->kind[2],
        .n_layer = s->n_layer,
        .d_model = s->d_model,
        .d_ff = s->d_ff,
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .d_head = s->d_head,
        .n_vocab = s->n_vocab,
        .tied = s->tied};
    struct npu_pass pass;
    if (!npu_kind_of(m.weights) || !npu_kind_of(m.down) || !npu_kind_of(m.head) || s->n_head % s->n_kv_head ||
        npu_prefill(counts, c->profile, &m, set->n_prompt, &pass))
        return not_counted(s, err);
    fill_result(&pass, &out->prompt);
    out->prompt_us = out->prompt.us, out->prompt_mj = out->prompt.mj;
    /* Attention is a line in its keys: the middle of the reply stands for all of it. */
    if (npu_decode_pass(counts, c->profile, &m, set->n_batch, set->n_prompt + set->n_decode / 2.0, &pass))
        return not_counted(s, err);
    fill_result(&pass, &out->decode);
    sim_add(&out->decode_us, &out->decode.us, set->n_decode), sim_add(&out->decode_mj, &out->decode.mj, set->n_decode);
    return 0;
}

static int reply_by_counts(const struct sim_case *c, struct sim_reply *out, struct lutra_error *err)
{
    const struct sim_data *d = &sim_data[SIM_DATA_COUNTS];
    struct npu_counts *counts;
    TRY(npu_counts_read(&counts, d->bytes, d->n_bytes, d->name, err));
    int rc = run_counted(c, counts, out, err);
    npu_counts_free(&counts);
    return rc;
}

int sim_reply(const struct sim_case *c, struct sim_reply *out, struct lutra_error *err)
{
    const struct lutra_sim_settings *s = &c->set;
    const int rows = s->n_beside + (s->n_prompt < SIM_LAST_ROWS ? s->n_prompt : SIM_LAST_ROWS);
    const double ctx = s->n_ctx ? s->n_ctx : s->n_prompt + s->n_decode;
    *out = (struct sim_reply){.weight_bytes = sim_weight_bytes(&c->shape)};
    out->cache_bytes = sim_cache_bytes(&c->shape, s->n_batch * ctx + s->n_beside * (s->n_prompt + 1.0));
    /* Rows of halves between operations, and logits. */
    out->other_bytes =
        2.0 * rows * (3.0 * c->shape.d_ff + 6.0 * c->shape.d_model) + 4.0 * s->n_batch * c->shape.n_vocab;
    return c->law == SIM_QNN ? reply_by_graphs(c, out, err) : reply_by_counts(c, out, err);
}

/* ---- JSON ---- */

static json_t *op_json(const struct sim_op *s)
{
    const struct solve_choice *c = &s->choice;
    const double *us = c->us, whole = SIM_GRID;
    json_t *out = json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:f, s:f, s:f}", "op", s->name,
        "kind", solve_kind_name(c->kind), "start_us", s->start_us.middle, "us", s->us.middle, "hand_over_us",
        s->hand_over_us[SIM_MIDDLE], "gpu_us", us[SIM_GPU], "npu_us", us[SIM_NPU], "cpu_us", us[SIM_CPU], "gpu_rows",
        c->rows[SIM_GPU], "npu_rows", c->rows[SIM_NPU], "cpu_rows", c->rows[SIM_CPU], "gpu_part",
        c->part[SIM_GPU] / whole, "npu_part", c->part[SIM_NPU] / whole, "cpu_part", c->part[SIM_CPU] / whole);
    if (s->of) json_object_set_new(out, "of", json_string(s->of));
    return out;
}

static json_t *ops_json(const struct sim_result *r)
{
    json_t *all = json_array();
    for (int i = 0; i < SIM_ENTRIES; i++)
        if (r->op[i].us.high > 0) json_array_append_new(all, op_json(&r->op[i]));
    return all;
}

static json_t *rate_json(double n, const struct sim_span *us)
{
    struct sim_span rate = sim_rate(n, us);
    return sim_span_json(&rate);
}

static json_t *scaled_json(const struct sim_span *s, double by)
{
    struct sim_span x = {0};
    sim_add(&x, s, by);
    return sim_span_json(&x);
}

/* Switching to the graphs of decoding, in blocks of layers beside the chunks of the prompt [SDNPU 4.2]. */
static json_t *graphs_json(const struct sim_case *c, struct lutra_error *err)
{
    struct blocks_problem p = {.n_block = GRAPHS_BLOCKS, .n_chunk = (c->set.n_prompt + SIM_CHUNK - 1) / SIM_CHUNK};
    struct sim_question q = {.profile = c->profile, .shape = &c->shape, .plan = SIM_LAYER, .rows = SIM_CHUNK};
    struct sim_result chunk, few;
    struct blocks_plan plan, late;
    if (p.n_chunk > BLOCKS_CHUNKS_MAX) p.n_chunk = BLOCKS_CHUNKS_MAX;
    if (sim_pass(&q, &chunk, err)) return NULL;
    q.rows = GRAPHS_FEW;
    if (sim_pass(&q, &few, err)) return NULL;
    for (int b = 0; b < GRAPHS_BLOCKS; b++) {
        p.prefill_us[b] = chunk.us.middle / GRAPHS_BLOCKS;
        p.decode_us[b] = few.us.middle / GRAPHS_BLOCKS * (SIM_CHUNK / GRAPHS_FEW);
        p.load_us[b] =
            sim_weight_bytes(&c->shape) / GRAPHS_BLOCKS / sim_figure(c->profile, SOC_STORAGE_MBS, SIM_MIDDLE);
    }
    if (blocks_best(&p, &plan, err) || blocks_plan_by(&p, BLOCKS_SYNCHRONOUS, &late, err)) return NULL;
    json_t *before = json_array();
    int many = 0;
    for (int b = 0; b < GRAPHS_BLOCKS; b++) {
        json_array_append_new(before, json_integer(plan.before[b]));
        many += plan.before[b];
    }
    const int late_passes = p.n_block * p.n_chunk - many;
    return json_pack("{s:i, s:i, s:f, s:f, s:s, s:o, s:i, s:i, s:i}", "blocks", p.n_block, "chunks", p.n_chunk,
        "synchronous_ms", blocks_time(&p, &late).us / 1e3, "best_ms", blocks_time(&p, &plan).us / 1e3, "policy",
        blocks_policy_name(plan.policy), "chunks_before_switch", before, "passes_many", many, "passes_few", late_passes,
        "runs_few", late_passes * (SIM_CHUNK / GRAPHS_FEW));
}

/* The prompt by the plan whose rows do not depend on its length, and how much later its first token is. */
static json_t *solved_json(const struct sim_case *c, const struct sim_reply *r, struct lutra_error *err)
{
    struct sim_question q = sim_prompt_of(c);
    struct sim_result solved;
    q.plan = SIM_SOLVED;
    if (sim_pass(&q, &solved, err) < 0) return NULL;
    return json_pack(
        "{s:o, s:f}", "ttft_ms", scaled_json(&solved.us, 1e-3), "price", solved.us.middle / r->prompt_us.middle);
}

json_t *sim_reply_json(const struct sim_case *c, struct lutra_error *err)
{
    struct sim_reply *r = malloc(sizeof *r);
    const struct lutra_sim_settings *s = &c->set;
    const double tokens = (double)s->n_decode * s->n_batch;
    json_t *out = NULL;
    if (!r) lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a reply");
    if (r && sim_reply(c, r, err) == 0) {
        out = json_pack("{s:i, s:i, s:i, s:s, s:s, s:o, s:o, s:o, s:o}", "prompt", s->n_prompt, "decode", s->n_decode,
            "batch", s->n_batch, "plan", c->law == SIM_QNN ? sim_plan_name(r->prompt.plan) : "npu", "decode_plan",
            c->law == SIM_QNN ? sim_plan_name(r->decode.plan) : "npu", "ttft_ms", scaled_json(&r->prompt_us, 1e-3),
            "prompt_tokens_per_s", rate_json(s->n_prompt, &r->prompt_us), "prompt_j", scaled_json(&r->prompt_mj, 1e-3),
            "prompt_passes", json_integer(r->prompt.n_pass));
        if (tokens > 0) {
            json_object_set_new(out, "decode_tokens_per_s", rate_json(tokens, &r->decode_us));
            json_object_set_new(out, "decode_j_per_token", scaled_json(&r->decode_mj, 1e-3 / tokens));
            json_object_set_new(out, "decode_layer", ops_json(&r->decode));
        }
        if (s->n_beside) json_object_set_new(out, "beside", json_integer(s->n_beside));
        if (c->plan >= SIM_ONE) json_object_set_new(out, "device", json_string(s->device));
        json_object_set_new(out, "prompt_layer", ops_json(&r->prompt));
        json_object_set_new(out, "timeline_of", json_string(c->law == SIM_QNN ? "layer" : "pass"));
        json_object_set_new(out, "memory_bytes",
            json_pack("{s:f, s:f, s:f, s:f}", "weights", r->weight_bytes, "cache", r->cache_bytes, "other",
                r->other_bytes, "all", r->weight_bytes + r->cache_bytes + r->other_bytes));
        json_t *graphs = c->law == SIM_QNN ? graphs_json(c, err) : NULL;
        if (graphs) json_object_set_new(out, "graph_switch", graphs);
        json_t *solved = c->law == SIM_QNN && c->plan == SIM_FREE ? solved_json(c, r, err) : NULL;
        if (solved) json_object_set_new(out, "solved", solved);
        if (s->game_fps > 0) {
            json_t *game = sim_game_json(c, r, err);
            if (game) {
                json_object_set_new(out, "game", game);
            } else {
                json_decref(out);
                out = NULL;
            }
        }
    }
    free(r);
    return out;
}
