/* SPDX-License-Identifier: MIT
 *
 * A prompt's time by plan and length [HETERO 4.2.2, 5.3.2], and one model over profiles, quantizations and widths.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/report.h"

/* Standard lengths, just above them, and between. */
static const int lengths[] = {32, 64, 100, 128, 129, 135, 192, 256, 257, 300, 320, 400, 512, 513, 525, 600, 700, 768,
    800, 900, 1000, 1024, 1025, 1100};

static json_t *length_json(const struct sim_case *c, int rows, struct lutra_error *err)
{
    struct sim_question q = sim_prompt_of(c);
    struct sim_result r;
    double us[SIM_PLANS];
    const char *fastest = "";
    json_t *times = json_object();
    q.rows = rows;
    for (int plan = 0; plan < SIM_PLANS; plan++) {
        q.plan = (enum sim_plan)plan;
        if (sim_pass(&q, &r, err)) {
            json_decref(times);
            return NULL;
        }
        us[plan] = r.us.middle;
        if (plan == SIM_FREE) fastest = sim_plan_name(r.plan);
        json_object_set_new(times, sim_plan_name(q.plan), sim_span_json(&r.us));
    }
    return json_pack("{s:i, s:s, s:f, s:o}", "rows", rows, "fastest", fastest, "solved_price",
        us[SIM_SOLVED] / us[SIM_FREE], "us", times);
}

json_t *sim_lengths_json(const struct sim_case *c, struct lutra_error *err)
{
    json_t *all = json_array();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        json_t *one = length_json(c, lengths[i], err);
        if (!one) {
            json_decref(all);
            return NULL;
        }
        json_array_append_new(all, one);
    }
    return json_pack("{s:o}", "lengths", all);
}

/* ---- plans ---- */

static json_t *plan_json(const struct sim_question *q, struct lutra_error *err)
{
    struct sim_result r;
    char devices[32] = ""; /* of the engine's plans alone */
    if (sim_pass(q, &r, err)) return NULL;
    for (int i = 0; i < q->n_device; i++) strcat(strcat(devices, i ? ", " : ""), sim_processor_name(q->device[i]));
    return json_pack("{s:s, s:s, s:o, s:o, s:f, s:o, s:o, s:o}", "plan", sim_plan_name(q->plan), "device", devices,
        "us", sim_span_json(&r.us), "mj", sim_span_json(&r.mj), "hand_overs", r.hand_overs, "gpu_us",
        sim_span_json(&r.busy_us[SIM_GPU]), "npu_us", sim_span_json(&r.busy_us[SIM_NPU]), "cpu_us",
        sim_span_json(&r.busy_us[SIM_CPU]));
}

json_t *sim_plans_json(const struct sim_case *c, struct lutra_error *err)
{
    static const struct {
        enum sim_device device[SIM_UNITS];
        int n;
    } sets[] = {{{SIM_GPU}, 1}, {{SIM_CPU}, 1}, {{SIM_NPU, SIM_GPU}, 2}, {{SIM_NPU, SIM_CPU}, 2},
        {{SIM_GPU, SIM_CPU}, 2}, {{SIM_NPU, SIM_GPU, SIM_CPU}, 3}};
    json_t *all = json_array(), *row = all;
    struct sim_question q = sim_prompt_of(c);
    for (int plan = SIM_FREE + 1; row && plan < SIM_PLANS; plan++)
        for (size_t i = 0; row && i < (plan < SIM_ONE ? 1 : sizeof sets / sizeof *sets); i++) {
            q.plan = (enum sim_plan)plan, q.n_device = 0;
            if (plan >= SIM_ONE) q.n_device = sets[i].n, memcpy(q.device, sets[i].device, sizeof q.device);
            if (plan > SIM_ONE && q.n_device < 2) continue;
            row = plan_json(&q, err);
            if (row) json_array_append_new(all, row);
        }
    if (!row) json_decref(all);
    return row ? json_pack("{s:i, s:i, s:o}", "prompt", q.rows, "beside", q.beside, "plans", all) : NULL;
}

/* ---- compare ---- */

static const char *const profiles[] = {"8gen2", "8gen3", "8elite"};
static const int widths[] = {1, 4, 16};
enum { N_PROFILES = 3, N_WIDTHS = 3, CANDIDATES_MAX = N_PROFILES * N_WIDTHS * 8 };

struct candidate {
    const char *profile;
    char quant[16];
    int width, place;
    struct sim_span rate, ttft_ms, j_per_token;
    double gib;
    bool fits;
};

/* What fits before what does not, then the most tokens per second in the middle, then as listed. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->fits != y->fits) return x->fits ? -1 : 1;
    if (x->rate.middle != y->rate.middle) return x->rate.middle > y->rate.middle ? -1 : 1;
    return x->place - y->place;
}

static int try_candidate(const struct sim_case *c, const struct sim_shape *shape, const char *profile, int width,
    struct candidate *out, struct lutra_error *err)
{
    struct soc_profile p;
    struct sim_case one = *c;
    struct sim_reply r;
    TRY(soc_profile_open(&p, profile, err));
    one.profile = &p, one.shape = *shape, one.set.n_batch = width;
    TRY(sim_reply(&one, &r, err));
    const double tokens = (double)one.set.n_decode * width, gib = 1 << 30;
    *out = (struct candidate){.profile = profile,
        .width = width,
        .rate = sim_rate(tokens, &r.decode_us),
        .gib = (r.weight_bytes + r.cache_bytes + r.other_bytes) / gib};
    memcpy(out->quant, shape->quant, sizeof out->quant);
    sim_add(&out->ttft_ms, &r.prompt_us, 1e-3);
    sim_add(&out->j_per_token, &r.decode_mj, 1e-3 / tokens);
    out->fits = c->set.memory_gib == 0 || out->gib <= c->set.memory_gib;
    return 0;
}

/* The case's own model, or its shape in every quantization.  Those that a law does not know are left out. */
static int list_candidates(const struct sim_case *c, struct candidate *out, struct lutra_error *err)
{
    int n = 0, rc = 0;
    for (int i = 0; sim_quant_name(i) && (i == 0 || !c->set.model); i++) {
        struct sim_shape shape = c->shape;
        if (!c->set.model && (rc = sim_shape_named(&shape, c->shape.name, sim_quant_name(i), err)) < 0) return rc;
        for (int p = 0; p < N_PROFILES; p++)
            for (int w = 0; w < N_WIDTHS; w++) {
                rc = try_candidate(c, &shape, profiles[p], widths[w], &out[n], err);
                if (rc < 0 && rc != LUTRA_E_UNSUPPORTED) return rc;
                out[n].place = n;
                n += rc == 0;
            }
    }
    return n > 0 ? n : rc;
}

json_t *sim_compare_json(const struct sim_case *c, struct lutra_error *err)
{
    struct candidate *list = calloc(CANDIDATES_MAX, sizeof *list);
    json_t *all = NULL;
    if (!list) {
        lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory to compare");
        return NULL;
    }
    int n = c->set.n_decode > 0 ? list_candidates(c, list, err)
                                : lutra_fail(err, LUTRA_E_ARGUMENT, "to compare, n_decode must be above 0");
    if (n > 0) {
        qsort(list, (size_t)n, sizeof *list, compare_candidates);
        all = json_array();
    }
    for (int i = 0; i < n; i++)
        json_array_append_new(
            all, json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:f, s:b}", "profile", list[i].profile, "quant",
                     list[i].quant, "batch", list[i].width, "decode_tokens_per_s", sim_span_json(&list[i].rate),
                     "ttft_ms", sim_span_json(&list[i].ttft_ms), "decode_j_per_token",
                     sim_span_json(&list[i].j_per_token), "memory_gib", list[i].gib, "fits", list[i].fits));
    free(list);
    return all ? json_pack("{s:i, s:i, s:f, s:o}", "prompt", c->set.n_prompt, "decode", c->set.n_decode,
                     "memory_limit_gib", c->set.memory_gib, "compared", all)
               : NULL;
}
