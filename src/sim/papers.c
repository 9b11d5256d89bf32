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

/* Intervals wider than this decide nothing; a figure so near is counted as reached. */
#define WIDTH_MOST 1.6
#define NEAR 0.2

enum { DECODE_PAST = 256, ABLATION_ROWS = 320, MISALIGNED = 525 };

/* What figures are made of: one pass on a profile whose intervals are points.  NAN: it failed. */
static double pass_us(
    const struct soc_profile *p, const char *name, enum sim_plan plan, int rows, bool slow, bool natural, double *mj)
{
    struct sim_shape shape;
    struct sim_result *r = malloc(sizeof *r);
    double us = NAN;
    struct sim_question q = {.profile = p,
        .shape = &shape,
        .plan = plan,
        .rows = rows,
        .n_out = 1,
        .slow_sync = slow,
        .natural_order = natural};
    if (rows == 1) q.many = true, q.past = DECODE_PAST;
    if (r && !sim_shape_named(&shape, name, "w4", NULL) && !sim_pass(&q, r, NULL)) {
        us = r->us.middle;
        if (mj) *mj = r->mj.middle;
    }
    free(r);
    return us;
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
    const struct sim_question q = {.profile = p};
    return sim_product_us(
        q.profile, false, SIM_MIDDLE, f->part[0] == 'g' ? SIM_GPU : SIM_NPU, f->k, f->n, 4, f->rows, 1);
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

/* Of a plan over Hetero-tensor, in time. */
static double over_tensor(const struct figure *f, const struct soc_profile *p)
{
    return us_of(p, f->model, f->plan, f->rows) / us_of(p, f->model, SIM_TENSOR, f->rows);
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

/* [HETERO Figure 18], the gain of step k: graphs made on the fly; cut by rows; order exchanged; cut by outputs, too. */
static double ablation(const struct figure *f, const struct soc_profile *p)
{
    static const struct {
        enum sim_plan plan;
        bool natural;
    } steps[] = {{SIM_PREPARE, true}, {SIM_ACTIVATION, true}, {SIM_ACTIVATION, false}, {SIM_TENSOR, false}};
    double us[2];
    for (int i = 0; i < 2; i++)
        us[i] = pass_us(p, big, steps[f->k + i].plan, ABLATION_ROWS, true, steps[f->k + i].natural, NULL);
    return us[0] / us[1];
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

#define ON(id, part, rows, k, n)                                                                                       \
    {                                                                                                                  \
        id, part, product, NULL, rows, k, n, 0, 0, 0, NULL                                                             \
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
    {"elite_gain", .value = elite_gain, .model = big, .rows = 256, .elite = true},
    {"decode_8b", .value = rate, .model = big, .rows = 1}, {"decode_3b", .value = rate, .model = "Llama-3B", .rows = 1},
    {"decode_internlm", .value = rate, .model = "InternLM-1.8B", .rows = 1},
    {"decode_gain_8b", .value = over_tensor, .model = big, .rows = 1, .plan = SIM_LAYER},
    {"decode_sync_8b", .value = decode_sync, .model = big}, {"decode_sync_others", .value = decode_sync},
    {"prepare_525", .value = over_tensor, .model = big, .rows = MISALIGNED, .plan = SIM_PREPARE},
    {"padding_525", .value = over_tensor, .model = big, .rows = MISALIGNED, .plan = SIM_PADDING},
    {"pipe_525", .value = over_tensor, .model = big, .rows = MISALIGNED, .plan = SIM_PIPE},
    {"padding_above", .value = padding_above, .model = big, .plan = SIM_PADDING},
    {"gain_activation", .value = ablation, .k = 0}, {"gain_order", .value = ablation, .k = 1},
    {"gain_weight", .value = ablation, .k = 2}, {"power_layer", .value = power, .rows = 256, .plan = SIM_LAYER},
    {"energy_gpu", .value = energy, .rows = 256, .plan = SIM_GPU_ONLY},
    {"energy_layer", .value = energy, .rows = 256, .plan = SIM_LAYER}};
static const struct figure_list hetero = {figures, sizeof figures / sizeof *figures};

/* ---- intervals ---- */

static struct sim_span interval(const struct figure *f, const struct soc_profile *profile)
{
    struct soc_profile p = *profile;
    struct sim_span s;
    for (int i = 0; i < SOC_FIGURES; i++) p.figure[i].low = p.figure[i].high = middle(profile, (enum soc_figure)i);
    s.low = s.middle = s.high = f->value(f, &p);
    for (int i = 0; i < SOC_FIGURES; i++) {
        const struct npu_interval was = p.figure[i], *ends = &profile->figure[i];
        double moved[2];
        /* Of the counted kernels' figures only powers count here. */
        if (ends->low == ends->high || (i < NPU_BASE_MW)) continue;
        for (int end = 0; end < 2; end++) {
            p.figure[i].low = p.figure[i].high = end ? ends->high : ends->low;
            moved[end] = f->value(f, &p) - s.middle;
        }
        p.figure[i] = was;
        s.low += fmin(0, fmin(moved[0], moved[1])), s.high += fmax(0, fmax(moved[0], moved[1]));
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
