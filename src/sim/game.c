/* SPDX-License-Identifier: MIT
 *
 * A game in the foreground [HETERO 5.7]: the passes of a prompt and a reply, operation by operation, on a GPU that
 * draws frames, too (phone/frames.h).  What the GPU gets at once is what the engine submits before it must wait for
 * another processor: without slices a game waits for all of it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "phone/frames.h"
#include "sim/report.h"

enum { OP_HEAD = SIM_OPS - 1 };

/* A pass that runs: its time, and the GPU's work that nobody waits for yet. */
struct replay {
    struct frames *frames;
    enum sim_end end;
    double at, queued_us;
};

static void flush(struct replay *r)
{
    r->at = frames_take(r->frames, r->at, r->queued_us);
    r->queued_us = 0;
}

static void run_op(struct replay *r, const struct sim_op *s)
{
    const double *us = s->device_us[r->end], gpu = us[SIM_GPU], beside = fmax(us[SIM_NPU], us[SIM_CPU]);
    if (beside > 0 || s->hand_over_us[r->end] > 0) flush(r);
    r->at += s->hand_over_us[r->end];
    r->queued_us += gpu;
    if (beside <= 0) return;
    const double begin = r->at;
    flush(r);
    r->at = fmax(r->at, begin + beside);
}

static void run_pass(struct replay *r, struct sim_result *pass, int n_layer)
{
    r->at += *sim_at(&pass->prepare_us, r->end);
    for (int layer = 0; layer < n_layer; layer++)
        for (int i = 0; i < OP_HEAD; i++) run_op(r, &pass->op[i]);
    run_op(r, &pass->op[OP_HEAD]);
    flush(r);
}

/* Passes over one sequence's rows, or n_pass of decoding, each behind one key more. */
static int run_passes(
    const struct sim_question *q, int n_pass, struct replay *r, struct sim_result *pass, struct lutra_error *err)
{
    struct sim_question one = *q;
    const int every = n_pass / 64 + 1; /* so many passes count as equally long */
    for (int i = 0; i < n_pass; i++) {
        one.past = q->past + i;
        if (i % every == 0) TRY(sim_pass(&one, pass, err));
        run_pass(r, pass, q->shape->n_layer);
    }
    for (int at = 0; n_pass == 0 && at < q->rows; at += one.rows) {
        one.rows = sim_pass_rows(q, q->rows - at);
        one.past = q->past + at, one.n_out = at + one.rows == q->rows ? q->n_out : 0;
        TRY(sim_pass(&one, pass, err));
        run_pass(r, pass, q->shape->n_layer);
    }
    return 0;
}

int sim_beside(const struct sim_question *q, int n_pass, const struct sim_game *game, enum sim_end end,
    struct sim_beside *out, struct lutra_error *err)
{
    struct frames f;
    struct replay r = {.frames = &f, .end = end};
    struct sim_result *pass = malloc(sizeof *pass);
    if (!pass) return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a pass");
    frames_open(&f, game->per_second, game->share, game->slice_us, sim_figure(q->profile, SOC_FAST_SYNC_US, end));
    int rc = run_passes(q, n_pass, &r, pass, err);
    free(pass);
    if (rc < 0) return rc;
    frames_until(&f, r.at);
    *out = (struct sim_beside){r.at, f.n_shown, f.n_shown ? f.sum_us / f.n_shown : f.worst_us, f.worst_us};
    return 0;
}

/* ---- JSON ---- */

enum { FIGURES = 6 };
static const char *const keys[FIGURES] = {
    "tokens_per_s", "tokens_percent", "frames_per_s", "frame_ms", "longest_frame_ms", "j"};

/* The prompt, or the reply's first passes.  us, mj: of the whole phase without a game. */
struct phase {
    const struct sim_question *q;
    int n_pass; /* 0: the prompt */
    struct sim_span *us, *mj;
    double alone_us[SIM_ENDS]; /* of what is run, on a GPU without frames */
};

static int run_alone(struct phase *p, double per_second, struct lutra_error *err)
{
    const struct sim_game none = {per_second, 0, 0};
    struct sim_beside b;
    for (int e = 0; e < SIM_ENDS; e++) {
        TRY(sim_beside(p->q, p->n_pass, &none, (enum sim_end)e, &b, err));
        p->alone_us[e] = b.us;
    }
    return 0;
}

static int phase_figures(
    const struct phase *p, const struct sim_game *game, double figure[FIGURES][SIM_ENDS], struct lutra_error *err)
{
    const struct sim_question *q = p->q;
    const double tokens = p->n_pass ? (double)p->n_pass * q->rows : q->rows;
    for (int e = 0; e < SIM_ENDS; e++) {
        const enum sim_end end = (enum sim_end)e;
        const double alone = p->alone_us[e];
        struct sim_beside b;
        TRY(sim_beside(q, p->n_pass, game, end, &b, err));
        const double base = 1e-6 * sim_figure(q->profile, NPU_BASE_MW, end),
                     frame = 1e-6 * sim_figure(q->profile, SOC_GPU_MW, end) * game->share * 1e6 / game->per_second,
                     power = *sim_at(p->mj, end) / *sim_at(p->us, end);
        const double all[FIGURES] = {1e6 * tokens / b.us, 100 * (alone / b.us - 1), 1e6 * b.frames / b.us,
            b.frame_us / 1e3, b.worst_us / 1e3, 1e-3 * (power * alone + base * (b.us - alone) + frame * b.frames)};
        for (int i = 0; i < FIGURES; i++) figure[i][e] = all[i];
    }
    return 0;
}

static json_t *phase_json(const struct phase *p, const struct sim_game *game, struct lutra_error *err)
{
    double figure[FIGURES][SIM_ENDS];
    if (phase_figures(p, game, figure, err) < 0) return NULL;
    json_t *out = json_pack("{s:s, s:f}", "phase", p->n_pass ? "reply" : "prompt", "slice_ms", game->slice_us / 1e3);
    for (int i = 0; i < FIGURES; i++) {
        const double *x = figure[i];
        const struct sim_span s = {fmin(fmin(x[0], x[1]), x[2]), x[1], fmax(fmax(x[0], x[1]), x[2])};
        json_object_set_new(out, keys[i], sim_span_json(&s));
    }
    return out;
}

json_t *sim_game_json(const struct sim_case *c, struct sim_reply *r, struct lutra_error *err)
{
    const struct lutra_sim_settings *s = &c->set;
    const int n_pass = s->n_decode < SIM_GAME_PASSES ? s->n_decode : SIM_GAME_PASSES;
    struct sim_question prompt = sim_prompt_of(c), reply = sim_decode_of(c);
    prompt.plan = r->prompt.plan, reply.plan = r->decode.plan;
    struct phase phase[] = {
        {&prompt, 0, &r->prompt_us, &r->prompt_mj, {0}}, {&reply, n_pass, &r->decode_us, &r->decode_mj, {0}}};
    json_t *rows = json_array();
    for (int i = 0; i < (n_pass ? 2 : 1); i++) {
        int rc = run_alone(&phase[i], s->game_fps, err);
        for (int sliced = s->gpu_slice_ms > 0; sliced >= 0; sliced--) {
            const struct sim_game game = {s->game_fps, s->game_share, sliced ? 1e3 * s->gpu_slice_ms : 0};
            json_t *row = rc < 0 ? NULL : phase_json(&phase[i], &game, err);
            if (!row) {
                json_decref(rows);
                return NULL;
            }
            json_array_append_new(rows, row);
        }
    }
    return json_pack("{s:f, s:f, s:o}", "fps", s->game_fps, "share", s->game_share, "beside", rows);
}
