/* SPDX-License-Identifier: MIT
 *
 * Passes on a phone's GPU and NPU: the laws against [HETERO Table 3], plans against each other and against exhaustive
 * search, and lutra_sim() as a program sees it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "lutra/sim.h"
#include "sim/report.h"

static struct soc_profile gen3;
static struct sim_shape llama;

static int open_case(void **state)
{
    struct lutra_error err;
    (void)state;
    if (soc_profile_open(&gen3, "8gen3", &err) || sim_shape_named(&llama, "Llama-8B", "w4", &err))
        fail_msg("%s", err.what);
    return 0;
}

static struct sim_result pass(enum sim_plan plan, int rows, int past, bool many)
{
    const struct sim_question q = {.profile = &gen3,
        .shape = &llama,
        .plan = plan,
        .rows = rows,
        .past = past,
        .n_out = many ? rows : 1,
        .many = many};
    struct sim_result r;
    struct lutra_error err;
    if (sim_pass(&q, &r, &err)) fail_msg("%s", err.what);
    return r;
}

static void laws_are_those_of_table_3(void **state)
{
    static const struct {
        int k, n, rows;
        double us[SIM_DEVICES];
    } table[] = {{4096, 4096, 128, {7306, 912}}, {4096, 4096, 256, {10841, 1884}}, {14336, 4096, 256, {35231, 23445}}};
    const struct sim_question q = {.profile = &gen3};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < SIM_DEVICES; d++) {
            double us[SIM_ENDS];
            for (int e = 0; e < SIM_ENDS; e++)
                us[e] = sim_product_us(
                    q.profile, false, (enum sim_end)e, (enum sim_device)d, table[i].k, table[i].n, 4, table[i].rows, 1);
            if (fabs(us[SIM_MIDDLE] / table[i].us[d] - 1) > 0.05)
                fail_msg("%g instead of %g", us[SIM_MIDDLE], table[i].us[d]);
            assert_true(us[SIM_BETTER] <= us[SIM_MIDDLE] && us[SIM_MIDDLE] <= us[SIM_WORSE]);
        }
    /* stages of 32 rows on the NPU; few rows are as slow as memory, or [Table 3]'s ratio says */
    double a = sim_product_us(q.profile, false, SIM_MIDDLE, SIM_NPU, 4096, 4096, 4, 129, 1);
    assert_true(a == sim_product_us(q.profile, false, SIM_MIDDLE, SIM_NPU, 4096, 4096, 4, 160, 1));
    double gpu = sim_product_us(q.profile, false, SIM_MIDDLE, SIM_GPU, 14336, 4096, 4, 1, 1);
    assert_true(fabs(gpu - 4096. * 14336 / 2 / 42.5e3) < 1e-6 * gpu);
    double ratio = sim_product_us(q.profile, false, SIM_MIDDLE, SIM_NPU, 14336, 4096, 4, 1, 1) / gpu;
    assert_true(ratio > 1.27 * 3.5 && ratio < 2.04 * 3.5);
    assert_true(
        fabs(sim_product_us(q.profile, false, SIM_MIDDLE, SIM_GPU, 14336, 4096, 4, 1, 0.25) - gpu / 4) < 1e-9 * gpu);
}

static double npu_product(bool natural_order, int k, int n, int rows)
{
    return sim_product_us(&gen3, natural_order, SIM_MIDDLE, SIM_NPU, k, n, 4, rows, 1);
}

/* [HETERO Figure 4]: of both operands the longer goes through the arrays, the smaller stays in them. */
static void the_longer_operand_goes_through(void **state)
{
    (void)state;
    /* [K, 4096] x [4096, 14336] against [14336, 4096] x [4096, K]: 6 times, as far as the GPU's speed */
    double natural = npu_product(true, 4096, 14336, 256), exchanged = npu_product(false, 4096, 14336, 256);
    assert_true(natural / exchanged > 5 && natural / exchanged < 7);
    assert_true(natural == sim_product_us(&gen3, false, SIM_MIDDLE, SIM_GPU, 4096, 14336, 4, 256, 1));
    /* The engine exchanges where that is better: a tall input and a small weight, or the other way round. */
    assert_true(npu_product(false, 1024, 64, 512) == npu_product(false, 1024, 512, 64));
    assert_true(npu_product(true, 1024, 64, 512) == npu_product(false, 1024, 512, 64));
    assert_true(npu_product(true, 1024, 512, 64) > 2 * npu_product(false, 1024, 512, 64));
    /* Nothing is lost where what goes through has as many rows as columns. */
    assert_true(fabs(npu_product(true, 1024, 64, 1024) - 2 * npu_product(true, 1024, 32, 1024)) < 1e-9);
    assert_true(npu_product(true, 1024, 64, 2048) == 2 * npu_product(true, 1024, 64, 1024));
    /* A pass knows, too. */
    struct sim_question q = {.profile = &gen3, .shape = &llama, .plan = SIM_LAYER, .rows = 256, .n_out = 1};
    struct sim_result r[2];
    for (int i = 0; i < 2; i++) {
        q.natural_order = i;
        assert_int_equal(sim_pass(&q, &r[i], NULL), 0);
    }
    assert_true(r[1].us.middle > 2 * r[0].us.middle);
}

static void free_is_never_later(void **state)
{
    (void)state;
    for (int rows = 32; rows <= 1100; rows++) {
        struct sim_result best = pass(SIM_FREE, rows, 0, false);
        for (int plan = SIM_FREE + 1; plan < SIM_THREE; plan++) {
            double us = pass((enum sim_plan)plan, rows, 0, false).us.middle;
            if (best.us.middle > us)
                fail_msg("%d rows: %s, %g later", rows, sim_plan_name((enum sim_plan)plan), best.us.middle - us);
        }
        assert_true(best.us.low <= best.us.middle && best.us.middle <= best.us.high && best.us.low > 0);
    }
}

/* ---- exhaustive search ---- */

enum { PRODUCTS = 4, MOST = 64, PARTS = 20 };

struct way {
    double us;
    bool gpu, npu;
};

/* Every way that phone.h names, by its own formulas. */
static int list_ways(const struct sim_question *q, const struct sim_op *s, struct way *out)
{
    double whole = (double)s->n * s->k * 4 / 8e3 / sim_figure(q->profile, SOC_TWO_GBS, SIM_MIDDLE);
    int n = 0;
    for (int part = 0; part <= PARTS; part++) { /* of the GPU */
        double g = sim_product_us(q->profile, false, SIM_MIDDLE, SIM_GPU, s->k, s->n, 4, q->rows, part / (double)PARTS);
        double x =
            sim_product_us(q->profile, false, SIM_MIDDLE, SIM_NPU, s->k, s->n, 4, q->rows, 1 - part / (double)PARTS);
        bool both = part > 0 && part < PARTS;
        out[n++] = (struct way){fmax(fmax(g, x), both ? whole : 0), part > 0, part < PARTS};
    }
    for (int at = 32; at < q->rows; at += 32) {
        double g = sim_product_us(q->profile, false, SIM_MIDDLE, SIM_GPU, s->k, s->n, 4, q->rows - at, 1);
        double x = sim_product_us(q->profile, false, SIM_MIDDLE, SIM_NPU, s->k, s->n, 4, at, 1);
        out[n++] = (struct way){fmax(fmax(g, x), 2 * whole), true, true};
    }
    return n;
}

/* us of a layer that begins on the GPU. */
static double time_of(const struct sim_result *gpu, const struct way *const chosen[PRODUCTS], double sync)
{
    double us = 0;
    bool on_gpu = true;
    for (int i = 0, p = 0; i < SIM_OPS - 1; i++) {
        if (!gpu->op[i].product) {
            us += gpu->op[i].us.middle + (on_gpu ? 0 : sync);
            on_gpu = true;
            continue;
        }
        const struct way *w = chosen[p++];
        us += w->us + (w->npu ? sync : 0); /* behind a GPU's operation: only the GPU alone has nothing to hand over */
        on_gpu = w->gpu;
    }
    return us;
}

static void equals_exhaustive_search_of_a_layer(void **state)
{
    static const int lengths[] = {64, 135, 300, 525};
    (void)state;
    for (int l = 0; l < 4; l++) {
        static struct way way[PRODUCTS][MOST];
        int n[PRODUCTS], p = 0;
        const struct sim_question q = {.profile = &gen3, .shape = &llama, .rows = lengths[l]};
        struct sim_result gpu = pass(SIM_GPU_ONLY, lengths[l], 0, false), best = pass(SIM_FREE, lengths[l], 0, false);
        for (int i = 0; i < SIM_OPS - 1; i++)
            if (gpu.op[i].product) n[p] = list_ways(&q, &gpu.op[i], way[p]), p++;
        assert_int_equal(p, PRODUCTS);
        double least = INFINITY, sync = sim_figure(&gen3, SOC_FAST_SYNC_US, SIM_MIDDLE), ours = 0;
        for (int a = 0; a < n[0]; a++)
            for (int b = 0; b < n[1]; b++)
                for (int c = 0; c < n[2]; c++)
                    for (int d = 0; d < n[3]; d++) {
                        const struct way *const chosen[] = {&way[0][a], &way[1][b], &way[2][c], &way[3][d]};
                        least = fmin(least, time_of(&gpu, chosen, sync));
                    }
        for (int i = 0; i < SIM_OPS - 1; i++) ours += best.op[i].us.middle;
        if (fabs(ours / least - 1) > 1e-9) fail_msg("%d rows: %g, exhaustive search %g", lengths[l], ours, least);
    }
}

/* ---- three processors ---- */

/* Of one product, every cut of its outputs in twentieths. */
static double best_of_three(const struct sim_op *s, int rows)
{
    const double whole = (double)s->n * s->k * 4 / 8e3 / sim_figure(&gen3, SOC_TWO_GBS, SIM_MIDDLE),
                 sync = sim_figure(&gen3, SOC_FAST_SYNC_US, SIM_MIDDLE);
    double least = INFINITY;
    for (int g = 0; g <= PARTS; g++)
        for (int c = 0; c <= PARTS - g; c++) {
            const double part[SIM_UNITS] = {g / 20., (PARTS - g - c) / 20., c / 20.};
            double us = 0;
            int used = 0;
            for (int d = 0; d < SIM_UNITS; d++) {
                if (part[d] <= 0) continue;
                us = fmax(
                    us, sim_product_us(&gen3, false, SIM_MIDDLE, (enum sim_device)d, s->k, s->n, 4, rows, part[d]));
                used++;
            }
            if (used > 1) us = fmax(us, whole);
            least = fmin(least, us + (used == 1 && g ? 0 : sync)); /* the GPU holds the values */
        }
    return least;
}

static void the_cpu_has_a_part_of_prompts(void **state)
{
    (void)state;
    for (int rows = 64; rows <= 1100; rows += 148) {
        struct sim_result two = pass(SIM_FINE, rows, 0, false), three = pass(SIM_THREE, rows, 0, false);
        assert_true(three.us.middle < two.us.middle && three.us.middle > 0.8 * two.us.middle);
        assert_true(three.busy_us[SIM_CPU].middle > 0 && two.busy_us[SIM_CPU].middle == 0);
        for (int i = 0; i < SIM_OPS - 1; i++) {
            if (!three.op[i].product) continue;
            const double best = best_of_three(&three.op[i], rows), us = three.op[i].us.middle;
            if (us > best * (1 + 1e-9)) fail_msg("%d rows, %s: %g, every cut %g", rows, three.op[i].name, us, best);
        }
    }
    /* Its power is counted; one row waits for the memory that all share. */
    struct soc_profile thirsty = gen3;
    thirsty.figure[SOC_BIG_CORES_MW] = (struct npu_interval){50000, 50000};
    struct sim_question q = {.profile = &thirsty, .shape = &llama, .plan = SIM_THREE, .rows = 300, .n_out = 1};
    struct sim_result more, less = pass(SIM_THREE, 300, 0, false);
    assert_int_equal(sim_pass(&q, &more, NULL), 0);
    const double mw = 50000 - sim_figure(&gen3, SOC_BIG_CORES_MW, SIM_MIDDLE);
    assert_float_equal(
        more.mj.middle - less.mj.middle, 1e-6 * mw * less.busy_us[SIM_CPU].middle, 1e-6 * more.mj.middle);
    double one[2] = {pass(SIM_FINE, 1, 512, true).us.middle, pass(SIM_THREE, 1, 512, true).us.middle};
    assert_true(one[1] <= one[0] && one[1] > 0.9 * one[0]); /* more than memory is the NPU's product of few outputs */
}

/* ---- passes ---- */

static void decoding_reads_weights_once(void **state)
{
    (void)state;
    double bytes = sim_weight_bytes(&llama) - sim_weights_of_head(&llama) / 2; /* without the embedding */
    struct sim_result gpu = pass(SIM_GPU_ONLY, 1, 256, true), both = pass(SIM_TENSOR, 1, 256, true);
    assert_true(gpu.us.middle > bytes / 42.5e3 && gpu.us.middle < 1.03 * bytes / 42.5e3);
    assert_true(both.us.middle > bytes / 60.7e3 && both.us.middle < gpu.us.middle / 1.15);
    /* Rows of several sequences are nearly free; their keys are not. */
    struct sim_result four = pass(SIM_TENSOR, 4, 256, true), far = pass(SIM_TENSOR, 4, 4096, true);
    assert_true(four.us.middle < 3 * both.us.middle);
    double keys = 3840. * 4 * 32 * 1024 * 4; /* tokens, sequences, layers, K/V values; bytes */
    assert_true(fabs((far.us.middle - four.us.middle) / (keys / 42.5e3) - 1) < 0.05);
    assert_true(gpu.busy_us[SIM_NPU].middle == 0 && both.busy_us[SIM_NPU].middle > 0);
}

static void long_prompts_are_passes(void **state)
{
    (void)state;
    struct sim_result r = pass(SIM_FREE, 5000, 0, false), chunked = pass(SIM_CHUNKED, 1000, 0, false);
    assert_int_equal(r.n_pass, 4); /* 1024, 1024, 1024, 1928 */
    assert_int_equal(chunked.n_pass, 4);
    double sum = pass(SIM_FREE, 1024, 0, false).us.middle;
    assert_true(r.us.middle > 4.8 * sum && r.us.middle < 9 * sum);
    const struct sim_question bad[] = {{.profile = &gen3, .shape = &llama, .rows = 0},
        {.profile = &gen3, .shape = &llama, .rows = 4, .past = -1},
        {.profile = &gen3, .shape = &llama, .rows = 4, .n_out = 5}};
    for (int i = 0; i < 3; i++) assert_int_equal(sim_pass(&bad[i], &r, NULL), LUTRA_E_ARGUMENT);
}

static void slow_hand_overs_cost_what_they_cost(void **state)
{
    (void)state;
    struct sim_question q = {
        .profile = &gen3, .shape = &llama, .plan = SIM_TENSOR, .rows = 1, .past = 256, .n_out = 1, .many = true};
    struct sim_result fast, slow;
    assert_int_equal(sim_pass(&q, &fast, NULL), 0);
    q.slow_sync = true;
    assert_int_equal(sim_pass(&q, &slow, NULL), 0);
    assert_true(fast.hand_overs == slow.hand_overs && fast.hand_overs >= llama.n_layer); /* one plan */
    double each = (slow.us.middle - fast.us.middle) / fast.hand_overs;
    assert_true(each > 400 - 25 && each < 400 - 5 + 10); /* beside a few bytes that are copied */
}

/* ---- lutra_sim ---- */

static json_t *run(const struct lutra_sim_settings *s)
{
    char *text[2];
    struct lutra_error err;
    for (int i = 0; i < 2; i++)
        if (lutra_sim(s, &text[i], &err)) fail_msg("%s", err.what);
    assert_string_equal(text[0], text[1]); /* the same bytes */
    json_t *all = json_loads(text[0], 0, NULL);
    assert_non_null(all);
    lutra_free(text[0]), lutra_free(text[1]);
    return all;
}

static double number(const json_t *o, const char *key, const char *key2)
{
    return json_number_value(json_object_get(json_object_get(o, key), key2));
}

static void a_reply_adds_up(void **state)
{
    struct lutra_sim_settings s;
    (void)state;
    lutra_sim_settings_init(&s, sizeof s);
    s.n_decode = 1;
    json_t *one = run(&s);
    assert_string_equal(json_string_value(json_object_get(one, "times")), "modelled, not measured");
    struct sim_result decoded = pass(SIM_FREE, 1, 1024, true);
    double rate = number(one, "decode_tokens_per_s", "middle");
    assert_true(fabs(rate * decoded.us.middle / 1e6 - 1) < 1e-4);
    assert_true(fabs(number(one, "ttft_ms", "middle") / (pass(SIM_FREE, 1024, 0, false).us.middle / 1e3) - 1) < 1e-4);
    assert_true(fabs(number(one, "memory_bytes", "weights") - sim_weight_bytes(&llama)) < 1e4);
    s.n_decode = 1000;
    json_t *many = run(&s);
    assert_true(number(many, "decode_tokens_per_s", "middle") < rate); /* keys add up */
    assert_true(number(many, "decode_tokens_per_s", "low") < number(many, "decode_tokens_per_s", "middle"));
    const json_t *graphs = json_object_get(many, "graph_switch");
    assert_true(json_number_value(json_object_get(graphs, "best_ms")) <=
                json_number_value(json_object_get(graphs, "synchronous_ms")));
    json_decref(one), json_decref(many);
}

static void counted_kernels_are_a_law_of_their_own(void **state)
{
    struct lutra_sim_settings s;
    struct lutra_error err;
    char *text;
    (void)state;
    lutra_sim_settings_init(&s, sizeof s);
    s.law = "lutra";
    assert_int_equal(lutra_sim(&s, &text, &err), LUTRA_E_UNSUPPORTED); /* w4 is no type of theirs */
    assert_null(text);
    s.shape = "Qwen2.5-1.5B", s.quant = "q4_0";
    json_t *all = run(&s);
    const json_t *op;
    size_t i;
    json_array_foreach(json_object_get(all, "prompt_layer"), i, op)
        assert_true(json_number_value(json_object_get(op, "gpu_us")) == 0);
    assert_true(number(all, "decode_tokens_per_s", "low") > 20 && number(all, "decode_tokens_per_s", "high") < 100);
    json_decref(all);
    s.plan = "tensor";
    assert_int_equal(lutra_sim(&s, &text, &err), LUTRA_E_ARGUMENT);
}

static void comparison_ranks_what_fits(void **state)
{
    struct lutra_sim_settings s;
    double before = INFINITY;
    bool fits = true;
    (void)state;
    lutra_sim_settings_init(&s, sizeof s);
    s.what = LUTRA_SIM_COMPARE, s.memory_gib = 6;
    json_t *all = run(&s), *row;
    size_t i, n = json_array_size(json_object_get(all, "compared"));
    assert_int_equal(n, 3 * 3 * 6);
    json_array_foreach(json_object_get(all, "compared"), i, row)
    {
        bool now = json_is_true(json_object_get(row, "fits"));
        double rate = number(row, "decode_tokens_per_s", "middle");
        assert_true(now == (json_number_value(json_object_get(row, "memory_gib")) <= 6));
        assert_true(now <= fits && (now != fits || rate <= before));
        fits = now, before = rate;
    }
    assert_false(fits);
    json_decref(all);
}

static double ttft_of(const json_t *of)
{
    return json_number_value(json_object_get(json_object_get(of, "ttft_ms"), "middle"));
}

/* Beside the fastest plan stands the one whose rows do not depend on the prompt's length, and what that costs. */
static void keeping_prefixes_has_a_price(void **state)
{
    static const int lengths[] = {33, 300, 1024};
    double most = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct lutra_sim_settings s;
        lutra_sim_settings_init(&s, sizeof s);
        s.n_prompt = lengths[i];
        json_t *all = run(&s);
        s.plan = "solved";
        json_t *solved = run(&s), *beside = json_object_get(all, "solved");
        const double price = json_number_value(json_object_get(beside, "price"));
        assert_float_equal(ttft_of(beside), ttft_of(solved), 1e-6);
        assert_float_equal(price, ttft_of(solved) / ttft_of(all), 1e-6);
        assert_true(price >= 1);
        if (price > most) most = price;
        assert_null(json_object_get(solved, "solved"));
        json_decref(all);
        json_decref(solved);
    }
    assert_true(most > 1.05);
}

static void held_out_figures_are_met(void **state)
{
    struct lutra_sim_settings s;
    (void)state;
    lutra_sim_settings_init(&s, sizeof s);
    s.what = LUTRA_SIM_PAPERS;
    json_t *all = run(&s), *row;
    size_t i;
    json_int_t near = json_integer_value(json_object_get(all, "held_out_within_20_percent"));
    printf("%d of %d held-out figures of [HETERO] are within 20 %%\n", (int)near,
        (int)json_integer_value(json_object_get(all, "held_out")));
    assert_true(near >= 30 && json_integer_value(json_object_get(all, "held_out")) == 46);
    json_array_foreach(json_object_get(all, "figures"), i, row)
    {
        const char *verdict = json_string_value(json_object_get(row, "verdict"));
        const json_t *m = json_object_get(row, "modelled");
        double low = json_number_value(json_object_get(m, "low")), high = json_number_value(json_object_get(m, "high"));
        double middle = json_number_value(json_object_get(m, "middle")),
               want = json_number_value(json_object_get(row, "published"));
        bool percent = strcmp(json_string_value(json_object_get(row, "unit")), "%") == 0;
        if (!m) {
            assert_string_equal(verdict, "not modelled");
            continue;
        }
        assert_true(low <= middle && middle <= high);
        bool spread = percent && high - low > 20;
        if (percent) low = 1 + low / 100, middle = 1 + middle / 100, high = 1 + high / 100, want = 1 + want / 100;
        bool is_near = fabs(middle / want - 1) <= 0.2, wide = spread || high > 1.6 * low;
        assert_string_equal(verdict, wide ? "undecided" : is_near ? "within 20 %" : "missed");
        if (strcmp(verdict, "missed") == 0)
            assert_true(json_object_get(row, "note") || json_object_get(row, "processor"));
    }
    json_decref(all);
}

static void wrong_settings_are_refused(void **state)
{
    static const struct {
        size_t at;
        const char *value, *says;
        int code;
    } texts[] = {{offsetof(struct lutra_sim_settings, soc), "9gen9", "8elite", LUTRA_E_NOT_FOUND},
        {offsetof(struct lutra_sim_settings, soc), "/no/such.json", "/no/such.json", LUTRA_E_IO},
        {offsetof(struct lutra_sim_settings, soc), LUTRA_SOURCE_DIR "/bench/npu/counts.json", "more than 64 KiB",
            LUTRA_E_FORMAT},
        {offsetof(struct lutra_sim_settings, shape), "GPT-9", "Llama-8B", LUTRA_E_NOT_FOUND},
        {offsetof(struct lutra_sim_settings, quant), "q9", "w4", LUTRA_E_NOT_FOUND},
        {offsetof(struct lutra_sim_settings, law), "ohm", "qnn, lutra", LUTRA_E_NOT_FOUND},
        {offsetof(struct lutra_sim_settings, plan), "b", "chunked", LUTRA_E_NOT_FOUND},
        {offsetof(struct lutra_sim_settings, model), "/no/such.gguf", "/no/such.gguf", LUTRA_E_IO}};
    static const struct {
        size_t at;
        int value;
    } numbers[] = {{offsetof(struct lutra_sim_settings, n_prompt), 0},
        {offsetof(struct lutra_sim_settings, n_decode), -1}, {offsetof(struct lutra_sim_settings, n_batch), 0},
        {offsetof(struct lutra_sim_settings, n_ctx), 1000}, {offsetof(struct lutra_sim_settings, n_prompt), INT32_MAX},
        {offsetof(struct lutra_sim_settings, what), 9}};
    struct lutra_sim_settings s;
    struct lutra_error err;
    char *text;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lutra_sim_settings_init(&s, sizeof s);
        memcpy((char *)&s + texts[i].at, &texts[i].value, sizeof texts[i].value);
        assert_int_equal(lutra_sim(&s, &text, NULL), texts[i].code);
        assert_int_equal(lutra_sim(&s, &text, &err), texts[i].code);
        if (!strstr(err.what, texts[i].says)) fail_msg("'%s' does not say '%s'", err.what, texts[i].says);
        assert_null(text);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        lutra_sim_settings_init(&s, sizeof s);
        memcpy((char *)&s + numbers[i].at, &numbers[i].value, sizeof numbers[i].value);
        assert_int_equal(lutra_sim(&s, &text, NULL), LUTRA_E_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(laws_are_those_of_table_3),
        cmocka_unit_test(the_longer_operand_goes_through), cmocka_unit_test(free_is_never_later),
        cmocka_unit_test(equals_exhaustive_search_of_a_layer), cmocka_unit_test(the_cpu_has_a_part_of_prompts),
        cmocka_unit_test(decoding_reads_weights_once), cmocka_unit_test(long_prompts_are_passes),
        cmocka_unit_test(slow_hand_overs_cost_what_they_cost), cmocka_unit_test(a_reply_adds_up),
        cmocka_unit_test(counted_kernels_are_a_law_of_their_own), cmocka_unit_test(comparison_ranks_what_fits),
        cmocka_unit_test(keeping_prefixes_has_a_price), cmocka_unit_test(held_out_figures_are_met),
        cmocka_unit_test(wrong_settings_are_refused)};
    return cmocka_run_group_tests(tests, open_case, NULL);
}
