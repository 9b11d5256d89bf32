/* SPDX-License-Identifier: MIT
 *
 * Figures that [HETERO] publishes beside modelled ones (bench/npu/published_hetero.json, which divides those that the
 * profile of 8 Gen 3 was fitted to from those held out).  A modelled figure's interval: its value with every figure of
 * the profile in the middle, and the sum of how far it moves when one of them at a time goes to either end.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "phone/data.h"
#include "sim/figures.h"
#include "sim/tables.h"

/* Wider intervals decide nothing, nor do percents over more points; a figure so near is counted as reached. */
#define WIDTH_MOST 1.6
#define POINTS_MOST 20
#define NEAR 0.2
/* Of the GPU that the game takes: not published, assumed. */
#define GAME_SHARE 0.25
#define GAME_SHARE_LOW 0.1
#define GAME_SHARE_HIGH 0.4

enum { OP_O = 4, OP_UP = 6, OP_DOWN = 8 }; /* of a layer's operations (sim/phone.c) */
enum { DECODE_PAST = 256, ABLATION_ROWS = 320, MISALIGNED = 525 };

/* What figures are made of: one pass on a profile whose intervals are points. */
static bool run(const struct soc_profile *p, const char *name, enum sim_plan plan, int rows, bool slow, bool natural,
    struct sim_result *out)
{
    struct sim_shape shape;
    const bool decode = rows == 1;
    const struct sim_question q = {.profile = p,
        .shape = &shape,
        .plan = plan,
        .rows = rows,
        .past = decode ? DECODE_PAST : 0,
        .many = decode,
        .n_out = 1,
        .slow_sync = slow,
        .natural_order = natural,
        .device = {SIM_NPU, SIM_GPU},
        .n_device = 2};
    return !sim_shape_named(&shape, name, "w4", NULL) && !sim_pass(&q, out, NULL);
}

/* NAN: it failed. */
static double pass_us(
    const struct soc_profile *p, const char *name, enum sim_plan plan, int rows, bool slow, bool natural, double *mj)
{
    struct sim_result r;
    if (!run(p, name, plan, rows, slow, natural, &r)) return NAN;
    if (mj) *mj = r.mj.middle;
    return r.us.middle;
}

static double us_of(const struct soc_profile *p, const char *name, enum sim_plan plan, int rows)
{
    return pass_us(p, name, plan, rows, false, false, NULL);
}

static double middle(const struct soc_profile *p, enum soc_figure f)
{
    return sim_figure(p, f, SIM_MIDDLE);
}

static double rate_of(const struct soc_profile *p, const char *name, int rows)
{
    return rows * 1e6 / us_of(p, name, SIM_TENSOR, rows);
}

/* ---- one function for each kind of figure ---- */

static const char big[] = "Llama-8B";
static const char *const models[] = {"Llama-8B", "Llama-7B", "Llama-3B", "InternLM-1.8B"};
static const int fixed_rows[] = {64, 256, 1024}, above_rows[] = {135, 265, 525};
enum { N_MODELS = 4, N_FIXED = 3, N_ABOVE = 3 };

static double product(const struct figure *f, const struct soc_profile *p)
{
    return sim_product_us(p, false, SIM_MIDDLE, f->part[0] == 'g' ? SIM_GPU : SIM_NPU, f->k, f->n, 4, f->rows, 1);
}

/* A product in its natural order over the exchanged one, in time [HETERO Figure 4]. */
static double order(const struct figure *f, const struct soc_profile *p)
{
    return sim_product_us(p, true, SIM_MIDDLE, SIM_NPU, f->k, f->n, 4, f->rows, 1) /
           sim_product_us(p, false, SIM_MIDDLE, SIM_NPU, f->k, f->n, 4, f->rows, 1);
}

static double given(const struct figure *f, const struct soc_profile *p)
{
    return middle(p, f->figure);
}

static double rate(const struct figure *f, const struct soc_profile *p)
{
    return rate_of(p, f->model, f->rows);
}

static double slow_rate(const struct figure *f, const struct soc_profile *p)
{
    return f->rows * 1e6 / pass_us(p, f->model, SIM_TENSOR, f->rows, true, false, NULL);
}

static double prepare_ms(const struct figure *f, const struct soc_profile *p)
{
    struct sim_shape s;
    if (sim_shape_named(&s, big, "w4", NULL)) return NAN;
    return 1e-9 * (sim_weights_of_layer(&s) + sim_weights_of_down(&s)) *
           (middle(p, SOC_PREPARE_US) + f->rows * middle(p, SOC_PREPARE_ROW_US));
}

static double most_rate(const struct figure *f, const struct soc_profile *p)
{
    double most = 0;
    for (int i = 0; i < N_FIXED; i++) most = fmax(most, rate_of(p, f->model, fixed_rows[i]));
    return most;
}

static double prefill_gain(const struct figure *f, const struct soc_profile *p)
{
    double sum = 0;
    (void)f;
    for (int m = 0; m < N_MODELS; m++)
        for (int i = 0; i < N_FIXED; i++)
            sum += us_of(p, models[m], SIM_LAYER, fixed_rows[i]) / us_of(p, models[m], SIM_TENSOR, fixed_rows[i]);
    return sum / (N_MODELS * N_FIXED);
}

/* p: of 8 Elite; the other in the middle. */
static double elite_gain(const struct figure *f, const struct soc_profile *p)
{
    struct soc_profile before;
    if (soc_profile_open(&before, "8gen3", NULL)) return NAN;
    return rate_of(p, f->model, f->rows) / rate_of(&before, f->model, f->rows);
}

static enum sim_plan tensor(const struct figure *f)
{
    return f->instead != SIM_FREE ? f->instead : SIM_TENSOR;
}

/* Of a plan over Hetero-tensor, in time. */
static double over_tensor(const struct figure *f, const struct soc_profile *p)
{
    return us_of(p, f->model, f->plan, f->rows) / us_of(p, f->model, tensor(f), f->rows);
}

static double padding_above(const struct figure *f, const struct soc_profile *p)
{
    double sum = 0;
    for (int i = 0; i < N_ABOVE; i++) {
        struct figure one = *f;
        one.rows = above_rows[i];
        sum += over_tensor(&one, p);
    }
    return sum / N_ABOVE;
}

static double sync_gain(const char *model, const struct soc_profile *p)
{
    return pass_us(p, model, SIM_TENSOR, 1, true, false, NULL) / us_of(p, model, SIM_TENSOR, 1);
}

static double decode_sync(const struct figure *f, const struct soc_profile *p)
{
    if (f->model) return sync_gain(f->model, p);
    double sum = 0;
    for (int m = 1; m < N_MODELS; m++) sum += sync_gain(models[m], p);
    return sum / (N_MODELS - 1);
}

/* [HETERO 5.5], the average over three lengths. */
static double prefill_sync(const struct figure *f, const struct soc_profile *p)
{
    double sum = 0;
    for (int i = 0; i < N_FIXED; i++)
        sum += pass_us(p, f->model, f->plan, fixed_rows[i], true, false, NULL) /
               us_of(p, f->model, f->plan, fixed_rows[i]);
    return sum / N_FIXED;
}

/* Of Online-prepare's time, what its graphs take. */
static double prepare_part(const struct figure *f, const struct soc_profile *p)
{
    return 100 * 1e3 * prepare_ms(f, p) / us_of(p, big, SIM_PREPARE, f->rows);
}

/* [HETERO 5.3.2]: by how much Hetero-tensor is less than NPU-pipe, the least (k 0) and the most of a few lengths. */
static double pipe_gain(const struct figure *f, const struct soc_profile *p)
{
    static const int rows[] = {135, 300, 400, 525, 700, 1000};
    double found = NAN;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double gain = 100 * (us_of(p, big, tensor(f), rows[i]) / us_of(p, big, SIM_PIPE, rows[i]) - 1);
        found = f->k ? fmin(found, gain) : fmax(found, gain);
    }
    return found;
}

/* [HETERO Table 3]: the GPU's part of an operation as the solver cuts it in a layer; k: which operation. */
static double gpu_part(const struct figure *f, const struct soc_profile *p)
{
    struct sim_result r;
    if (!run(p, big, SIM_TENSOR, f->rows, false, false, &r)) return NAN;
    const struct solve_choice *c = &r.op[f->k].choice;
    const bool rows = c->kind == SOLVE_ROWS;
    const double gpu = rows ? c->rows[SIM_GPU] : c->part[SIM_GPU], npu = rows ? c->rows[SIM_NPU] : c->part[SIM_NPU];
    return 100 * gpu / (gpu + npu);
}

/* [HETERO Figure 12, Table 4]: a prompt of f->rows tokens and a reply of f->k, over MNN-OpenCL, which is as much slower
 * than Hetero-layer at 256 and than Hetero-tensor decoding as [5.3.1] and [5.4] say of Llama-8B. */
static double over_mnn(const struct figure *f, const struct soc_profile *p)
{
    enum { MNN_ROWS = 256 };
    const double prefill = 5.85, decode = 1.50, pass = us_of(p, f->model, SIM_TENSOR, 1);
    double mnn = prefill * us_of(p, f->model, SIM_LAYER, MNN_ROWS) / MNN_ROWS * f->rows + decode * f->k * pass;
    return mnn / (us_of(p, f->model, SIM_TENSOR, f->rows) + f->k * pass);
}

/* ---- beside a game [HETERO 5.7] ---- */

enum { GAME_FPS = 60, GAME_PASSES = 32 };

/* f->rows 1: decoding.  False: it failed. */
static bool beside(const struct figure *f, const struct soc_profile *p, double share, struct sim_beside *out)
{
    struct sim_shape shape;
    const bool decode = f->rows == 1;
    const struct sim_game game = {GAME_FPS, share, 0};
    const struct sim_question q = {.profile = p,
        .shape = &shape,
        .plan = f->plan,
        .rows = f->rows,
        .past = decode ? DECODE_PAST : 0,
        .n_out = 1,
        .many = decode};
    return !sim_shape_named(&shape, big, "w4", NULL) &&
           !sim_beside(&q, decode ? GAME_PASSES : 0, &game, SIM_MIDDLE, out, NULL);
}

/* What is lost of the rate of tokens, in percent. */
static double game_tokens(const struct figure *f, const struct soc_profile *p)
{
    struct sim_beside b, alone;
    return beside(f, p, f->share, &b) && beside(f, p, 0, &alone) ? 100 * (alone.us / b.us - 1) : NAN;
}

/* Frames a second that are shown. */
static double game_frames(const struct figure *f, const struct soc_profile *p)
{
    struct sim_beside b;
    return beside(f, p, f->share, &b) ? b.frames * 1e6 / b.us : NAN;
}

static double game_lost(const struct figure *f, const struct soc_profile *p)
{
    return 100 * fmax(0, 1 - game_frames(f, p) / GAME_FPS);
}

/* [HETERO Figure 18], the gain of step k: graphs made on the fly; cut by rows; order exchanged; cut by outputs, too;
 * hand-overs that are fast. */
static double ablation(const struct figure *f, const struct soc_profile *p)
{
    static const struct {
        enum sim_plan plan;
        bool natural, slow;
    } steps[] = {{SIM_PREPARE, true, true}, {SIM_ACTIVATION, true, true}, {SIM_ACTIVATION, false, true},
        {SIM_TENSOR, false, true}, {SIM_TENSOR, false, false}};
    double us[2];
    for (int i = 0; i < 2; i++)
        us[i] =
            pass_us(p, big, steps[f->k + i].plan, ABLATION_ROWS, steps[f->k + i].slow, steps[f->k + i].natural, NULL);
    return us[0] / us[1];
}

/* The first of these steps over the GPU alone, in time. */
static double naive(const struct figure *f, const struct soc_profile *p)
{
    return pass_us(p, big, SIM_PREPARE, f->rows, true, true, NULL) / us_of(p, big, SIM_GPU_ONLY, f->rows);
}

static double power(const struct figure *f, const struct soc_profile *p)
{
    double mj, us = pass_us(p, big, f->plan, f->rows, false, false, &mj);
    return 1e3 * mj / us;
}

/* A prompt of 256 and 32 tokens: percent of Hetero-tensor against another. */
static double energy(const struct figure *f, const struct soc_profile *p)
{
    enum { TOKENS = 32 };
    double mj[2][2];
    for (int i = 0; i < 2; i++)
        for (int rows = 0; rows < 2; rows++)
            pass_us(p, big, i ? f->plan : SIM_TENSOR, rows ? f->rows : 1, false, false, &mj[i][rows]);
    return 100 * ((mj[0][1] + TOKENS * mj[0][0]) / (mj[1][1] + TOKENS * mj[1][0]) - 1);
}

#define ON(name, on, n_row, inputs, outputs)                                                                           \
    {                                                                                                                  \
        .id = name, .part = on, .value = product, .rows = n_row, .k = inputs, .n = outputs                             \
    }
#define PRODUCT(id, rows, k, n) ON(id, "gpu", rows, k, n), ON(id, "npu", rows, k, n)
static const struct figure figures[] = {PRODUCT("gemv_square", 1, 4096, 4096), PRODUCT("gemv_tall", 1, 4096, 28672),
    PRODUCT("gemv_wide", 1, 14336, 4096), PRODUCT("gemm_square_128", 128, 4096, 4096),
    PRODUCT("gemm_square_256", 256, 4096, 4096), PRODUCT("gemm_wide_256", 256, 14336, 4096),
    {"order_gain", .value = order, .rows = 256, .k = 4096, .n = 14336},
    {"one_gbs", .value = given, .figure = SOC_ONE_GBS}, {"two_gbs", .value = given, .figure = SOC_TWO_GBS},
    {"most_gbs", .value = given, .figure = SOC_TWO_GBS}, {"sync_us", .value = given, .figure = SOC_SYNC_US},
    {"prefill_256", .value = rate, .model = big, .rows = 256},
    {"prefill_256_slow", .value = slow_rate, .model = big, .rows = 256},
    {"prepare_135", .value = prepare_ms, .rows = 135}, {"prepare_1000", .value = prepare_ms, .rows = 1000},
    {"prefill_most_8b", .value = most_rate, .model = big},
    {"prefill_256_internlm", .value = rate, .model = "InternLM-1.8B", .rows = 256},
    {"prefill_gain", .value = prefill_gain},
    {"prefill_gain_32", .value = over_tensor, .model = big, .rows = 32, .plan = SIM_LAYER},
    {"sync_layer", .value = prefill_sync, .model = big, .plan = SIM_LAYER},
    {"sync_tensor", .value = prefill_sync, .model = big, .plan = SIM_TENSOR},
    {"prepare_part_135", .value = prepare_part, .rows = 135}, {"pipe_least", .value = pipe_gain, .ragged = true},
    {"pipe_most", .value = pipe_gain, .k = 1, .ragged = true},
    {"part_square_1", .value = gpu_part, .rows = 1, .k = OP_O},
    {"part_tall_1", .value = gpu_part, .rows = 1, .k = OP_UP},
    {"part_wide_1", .value = gpu_part, .rows = 1, .k = OP_DOWN},
    {"part_square_128", .value = gpu_part, .rows = 128, .k = OP_O},
    {"part_square_224", .value = gpu_part, .rows = 224, .k = OP_O},
    {"part_square_264", .value = gpu_part, .rows = 264, .k = OP_O},
    {"part_wide_256", .value = gpu_part, .rows = 256, .k = OP_DOWN},
    {"part_wide_320", .value = gpu_part, .rows = 320, .k = OP_DOWN},
    {"mnn_long", .value = over_mnn, .model = big, .rows = 1787, .k = 5},
    {"mnn_chat", .value = over_mnn, .model = "Llama-7B", .rows = 54, .k = 374},
    {"naive_npu", .value = naive, .rows = ABLATION_ROWS}, {"gain_sync", .value = ablation, .k = 3},
    {"game_prefill", .value = game_tokens, .rows = 256, .plan = SIM_TENSOR, .share = GAME_SHARE},
    {"game_prefill_layer", .value = game_tokens, .rows = 256, .plan = SIM_LAYER, .share = GAME_SHARE},
    {"game_decode", .value = game_tokens, .rows = 1, .plan = SIM_TENSOR, .share = GAME_SHARE},
    {"game_lost_prefill_gpu", .value = game_lost, .rows = 256, .plan = SIM_GPU_ONLY, .share = GAME_SHARE},
    {"game_frames_decode_gpu", .value = game_frames, .rows = 1, .plan = SIM_GPU_ONLY, .share = GAME_SHARE},
    {"game_lost_prefill", .value = game_lost, .rows = 256, .plan = SIM_TENSOR, .share = GAME_SHARE},
    {"game_lost_decode", .value = game_lost, .rows = 1, .plan = SIM_TENSOR, .share = GAME_SHARE},
    {"elite_gain", .value = elite_gain, .model = big, .rows = 256, .elite = true},
    {"decode_8b", .value = rate, .model = big, .rows = 1}, {"decode_3b", .value = rate, .model = "Llama-3B", .rows = 1},
    {"decode_internlm", .value = rate, .model = "InternLM-1.8B", .rows = 1},
    {"decode_gain_8b", .value = over_tensor, .model = big, .rows = 1, .plan = SIM_LAYER},
    {"decode_sync_8b", .value = decode_sync, .model = big}, {"decode_sync_others", .value = decode_sync},
    {"prepare_525", .value = over_tensor, .model = big, .rows = MISALIGNED, .plan = SIM_PREPARE, .ragged = true},
    {"padding_525", .value = over_tensor, .model = big, .rows = MISALIGNED, .plan = SIM_PADDING, .ragged = true},
    {"pipe_525", .value = over_tensor, .model = big, .rows = MISALIGNED, .plan = SIM_PIPE, .ragged = true},
    {"padding_above", .value = padding_above, .model = big, .plan = SIM_PADDING, .ragged = true},
    {"gain_activation", .value = ablation, .k = 0}, {"gain_order", .value = ablation, .k = 1},
    {"gain_weight", .value = ablation, .k = 2}, {"power_layer", .value = power, .rows = 256, .plan = SIM_LAYER},
    {"energy_gpu", .value = energy, .rows = 256, .plan = SIM_GPU_ONLY},
    {"energy_layer", .value = energy, .rows = 256, .plan = SIM_LAYER}};
static const struct figure_list hetero = {figures, sizeof figures / sizeof *figures};

/* ---- intervals ---- */

static void widen(struct sim_span *s, const double moved[2])
{
    s->low += fmin(0, fmin(moved[0], moved[1])), s->high += fmax(0, fmax(moved[0], moved[1]));
}

static struct sim_span interval(const struct figure *f, const struct soc_profile *profile)
{
    struct soc_profile p = *profile;
    struct sim_span s;
    double moved[2];
    for (int i = 0; i < SOC_FIGURES; i++) p.figure[i].low = p.figure[i].high = middle(profile, (enum soc_figure)i);
    s.low = s.middle = s.high = f->value(f, &p);
    for (int i = 0; i < SOC_FIGURES; i++) {
        const struct npu_interval was = p.figure[i], *ends = &profile->figure[i];
        /* Of the counted kernels' figures only powers count here. */
        if (ends->low == ends->high || (i < NPU_BASE_MW)) continue;
        for (int end = 0; end < 2; end++) {
            p.figure[i].low = p.figure[i].high = end ? ends->high : ends->low;
            moved[end] = f->value(f, &p) - s.middle;
        }
        p.figure[i] = was;
        widen(&s, moved);
    }
    for (int end = 0; f->share > 0 && end < 2; end++) {
        struct figure other = *f;
        other.share = end ? GAME_SHARE_HIGH : GAME_SHARE_LOW;
        moved[end] = f->value(&other, &p) - s.middle;
        if (end) widen(&s, moved);
    }
    return s;
}

/* Percents are compared as factors. */
static double factor(double x, const char *unit)
{
    return strcmp(unit, "%") == 0 ? 1 + x / 100 : x;
}

static const char *judge(const struct sim_span *s, double published, const char *unit)
{
    double low = factor(s->low, unit), high = factor(s->high, unit),
           ratio = factor(s->middle, unit) / factor(published, unit);
    if (!(low > 0) || !(high / low <= WIDTH_MOST)) return "undecided";
    if (strcmp(unit, "%") == 0 && s->high - s->low > POINTS_MOST) return "undecided";
    return fabs(ratio - 1) <= NEAR ? "within 20 %" : "missed";
}

static void add_row(
    json_t *rows, const json_t *published, const struct figure *f, const struct soc_profile *p, double value, int *near)
{
    const char *unit = json_string_value(json_object_get(published, "unit"));
    json_t *row = json_object();
    static const char *const keys[] = {"what", "source", "use", "unit", "model", "note"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(published, keys[i])) json_object_set(row, keys[i], json_object_get(published, keys[i]));
    json_object_set_new(row, "published", json_real(value));
    if (f && f->part) json_object_set_new(row, "processor", json_string(f->part));
    if (f && f->instead) {
        json_object_set_new(row, "instead", json_string(sim_plan_name(f->instead)));
        json_object_set_new(row, "use", json_string("engine"));
        json_object_set_new(row, "note",
            json_string(
                "class leaves the GPU 31 rows at most where Hetero-tensor moves as many as balance both; hybrid "
                "cuts every length as 1,024 rows, so that no row's values depend on it"));
    }
    if (f) {
        struct sim_span s = interval(f, p);
        const char *verdict = judge(&s, value, unit);
        json_object_set_new(row, "modelled", sim_span_json(&s));
        json_object_set_new(row, "verdict", json_string(verdict));
        json_object_set_new(row, "error_percent", json_real(100 * (factor(s.middle, unit) / factor(value, unit) - 1)));
        *near += verdict[0] == 'w';
    } else {
        json_object_set_new(row, "verdict", json_string("not modelled"));
    }
    json_array_append_new(rows, row);
}

json_t *sim_compare_figures(const json_t *published, const struct figure_list *list, const struct soc_profile *gen3,
    const struct soc_profile *elite)
{
    json_t *rows = json_array();
    const json_t *item;
    int near = 0, near_held = 0, held = 0;
    size_t i;
    json_array_foreach((json_t *)json_object_get(published, "figures"), i, item)
    {
        const char *id = json_string_value(json_object_get(item, "id"));
        bool is_held = strcmp(json_string_value(json_object_get(item, "use")), "held out") == 0, found = false;
        int before = near, n = 0;
        for (size_t k = 0; k < list->n; k++) {
            struct figure f = list->figure[k];
            const json_t *value = json_object_get(item, "published");
            if (strcmp(f.id, id) != 0) continue;
            if (f.part) value = json_object_get(value, f.part);
            f.file = published;
            add_row(rows, item, &f, f.elite ? elite : gen3, json_number_value(value), &near);
            found = true, n++;
            for (int plan = SIM_CLASS; f.ragged && plan <= SIM_HYBRID; plan++) {
                int ours = 0; /* not counted: what is published is of another plan */
                f.instead = (enum sim_plan)plan;
                add_row(rows, item, &f, gen3, json_number_value(value), &ours);
            }
        }
        if (!found) add_row(rows, item, NULL, gen3, json_number_value(json_object_get(item, "published")), &near);
        held += is_held ? (n ? n : 1) : 0;
        if (is_held) near_held += near - before;
    }
    return json_pack("{s:i, s:i, s:o}", "held_out", held, "held_out_within_20_percent", near_held, "figures", rows);
}

/* What counted kernels say, on every profile of the library, or on a file's alone. */
static json_t *counted_json(const struct soc_profile *all, int n, struct lutra_error *err)
{
    const struct sim_data *d = &sim_data[SIM_DATA_COUNTS];
    struct npu_bench b = {.n_profile = n};
    for (int i = 0; i < n; i++) b.profile[i] = &all[i];
    if (npu_counts_read(&b.counts, d->bytes, d->n_bytes, d->name, err)) return NULL;
    json_t *tables = npu_json_tables(&b); /* its texts are copies */
    npu_counts_free(&b.counts);
    return tables;
}

static json_t *figures_json(int data, const struct figure_list *list, const struct soc_profile *p)
{
    json_t *published = json_loadb(sim_data[data].bytes, sim_data[data].n_bytes, 0, NULL);
    json_t *out = published ? sim_compare_figures(published, list, &p[1], &p[2]) : NULL;
    json_decref(published);
    return out;
}

json_t *sim_papers_json(const struct sim_case *c, struct lutra_error *err)
{
    static const char *const names[NPU_PROFILES_MAX] = {"8gen2", "8gen3", "8elite"};
    struct soc_profile *p = malloc(NPU_PROFILES_MAX * sizeof *p);
    json_t *out = NULL, *counted = NULL;
    if (!p) {
        lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for the papers' figures");
    } else {
        int rc = 0;
        for (int i = 0; i < NPU_PROFILES_MAX && !rc; i++) rc = soc_profile_open(&p[i], names[i], err);
        if (c->is_file) p[1] = *c->profile;
        if (!rc) counted = c->is_file ? counted_json(&p[1], 1, err) : counted_json(p, NPU_PROFILES_MAX, err);
        if (counted) out = figures_json(SIM_DATA_HETERO, &hetero, p);
    }
    if (out) {
        json_object_set_new(out, "times", json_string("modelled, not measured"));
        json_object_set_new(out, "profile", json_string(p[1].name));
        json_object_set_new(out, "sdnpu", figures_json(SIM_DATA_SDNPU, &sim_figures_sdnpu, p));
        json_object_set_new(out, "counted", counted);
    }
    free(p);
    return out;
}
