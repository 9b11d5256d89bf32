/* SPDX-License-Identifier: MIT
 *
 * The profiles and cost model: the profiles of the repository load, broken ones are refused by field and file, and
 * modelled times are what the formula of cost.h says.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "npu/wire/message.h"
#include "phone/data.h"
#include "sim/counts.h"

static const char *const names[] = {"snapdragon-8gen2", "snapdragon-8gen3", "snapdragon-8elite"};

static char *read_profile(const char *name)
{
    char path[512], *text = calloc(1, 65536);
    snprintf(path, sizeof path, LUTRA_SOURCE_DIR "/profiles/%s.json", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_true(fread(text, 1, 65535, f) > 0);
    fclose(f);
    return text;
}

static void profiles_of_the_repository_load(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        char path[512];
        struct soc_profile p;
        struct lutra_error err = {0};
        snprintf(path, sizeof path, LUTRA_SOURCE_DIR "/profiles/%s.json", names[i]);
        if (soc_profile_load(&p, path, &err)) fail_msg("%s", err.what);
        assert_string_equal(p.name, names[i]);
        assert_non_null(strstr(p.schedule, "v73"));
        for (int f = 0; f < SOC_FIGURES; f++) assert_true(strlen(p.source[f]) > 5);
        assert_true(p.figure[NPU_TCM_MIB].low == 8 && p.figure[NPU_TCM_MIB].high == 8); /* as sim/division.c plans */
    }
}

/* The profile with the first `from` replaced by `to`; expects an error that says `what`. */
static void refuse(const char *from, const char *to, const char *what)
{
    struct soc_profile p;
    struct lutra_error err = {0};
    char *text = read_profile(names[1]), *at = strstr(text, from), *changed = calloc(1, 70000);
    assert_non_null(at);
    snprintf(changed, 70000, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_int_equal(soc_profile_parse(&p, changed, strlen(changed), "some.json", &err), LUTRA_E_FORMAT);
    if (!strstr(err.what, what) || !strstr(err.what, "some.json")) fail_msg("'%s' does not say '%s'", err.what, what);
    free(text), free(changed);
}

static void broken_profiles_are_refused_by_field_and_file(void **state)
{
    (void)state;
    refuse("\"clock_mhz\"", "\"clock\"", "unknown figure 'clock'");
    refuse("\"dma_gbs\"", "\"l2_gbs\"", "duplicate object key");
    refuse("{\"low\": 1460, ", "{", "figure 'clock_mhz' needs low and high (numbers) and a source");
    refuse("1460", "1e999", "overflow");
    refuse("1460", "0x10", "line ");
    refuse("1460", "-5", "figure 'clock_mhz': -5 to 1470");
    refuse("1460", "1480", "1480 to 1470");
    refuse("\"high\": 1470", "\"high\": true", "figure 'clock_mhz' needs low and high");
    refuse("\"soc\"", "\"chip\"", "field 'chip'");
    refuse("\"npu\": \"v75\",", "", "field 'npu' is missing");
    refuse("\"v75\"", "\"v75v75v75v75v75v75v75\"", "field 'npu': text too long");
    refuse("\"memory_pj\"", "\"memory_nj\"", "unknown figure 'memory_nj'");
    refuse("\"base_mw\": {\"low\": 500", "\"base_mw\": {\"low\": -500", "figure 'base_mw': -500 to 3000");
    refuse("\"vector_mw\": {\"low\": 30, ", "\"vector_mw\": {",
        "figure 'vector_mw' needs low and high (numbers) and a source");
    refuse("\"gpu_us_256\": {\"low\": 600", "\"gpu_us_256\": {\"low\": 434",
        "'gpu_us_128' (435 to 436) is above 'gpu_us_256'");
    refuse("\"two_gbs\": {\"low\": 59.5, \"high\": 61.9", "\"two_gbs\": {\"low\": 41, \"high\": 44",
        "'one_gbs' (40 to 45)");
    refuse("\"sync_us\": {\"low\": 400", "\"sync_us\": {\"low\": 4", "'fast_sync_us' (5 to 25) is above 'sync_us'");
    refuse("\"copy_gbs\": {\"low\": 8.7", "\"copy_gbs\": {\"low\": \"8.7\"", "figure 'copy_gbs' needs low and high");
    refuse("}\n}\n", "}\n}\n]", "end of file expected");
    refuse("}\n}\n", "}\n", "line ");
    struct soc_profile p;
    struct lutra_error err = {0};
    assert_int_equal(soc_profile_load(&p, "/no/such/file.json", &err), LUTRA_E_IO);
    assert_non_null(strstr(err.what, "/no/such/file.json"));
    assert_int_equal(soc_profile_parse(&p, "{\0}", 3, "z", &err), LUTRA_E_FORMAT);
    assert_int_equal(soc_profile_parse(&p, "", 0, "z", &err), LUTRA_E_FORMAT);
}

/* Random damage never does more than fail; what still loads is within the limits. */
static void damaged_profiles_do_no_harm(void **state)
{
    (void)state;
    uint64_t seed = 5;
    char *text = read_profile(names[2]);
    size_t n = strlen(text), accepted = 0;
    for (int i = 0; i < 20000; i++) {
        char *copy = malloc(n); /* exactly as large: a read past the end is seen */
        struct soc_profile p;
        memcpy(copy, text, n);
        size_t length = n;
        for (int j = 0; j < 3; j++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            size_t at = (size_t)(seed >> 8) % n;
            if (seed % 16 == 0)
                length = at;
            else
                copy[at] = (char)(seed % 3 ? "{}[],:\"\\0919.e-"[(seed >> 40) % 15] : (int)(seed >> 48));
        }
        if (!soc_profile_parse(&p, copy, length, "damaged", NULL)) {
            accepted++;
            for (int f = 0; f < SOC_FIGURES; f++)
                assert_true(p.figure[f].low >= 1 && p.figure[f].low <= p.figure[f].high);
        }
        free(copy);
    }
    assert_true(accepted > 100 && accepted < 19000);
    free(text);
}

static struct soc_profile exact(void)
{
    struct soc_profile p = {.name = "exact"};
    const double f[SOC_FIGURES] = {[NPU_CLOCK_MHZ] = 1000,
        [NPU_VECTOR_THREADS] = 4,
        [NPU_CYCLES_PER_PACKET] = 2,
        [NPU_TILE_CYCLES] = 8,
        [NPU_GATHER_CYCLES] = 10,
        [NPU_SCATTER_CYCLES] = 20,
        [NPU_DMA_GBS] = 50,
        [NPU_L2_GBS] = 25,
        [NPU_TCM_MIB] = 8,
        [NPU_MEET_CYCLES] = 500,
        [NPU_DMA_START_CYCLES] = 200,
        [NPU_TILE_CALL_CYCLES] = 50,
        [NPU_MESSAGE_US] = 50,
        [NPU_BASE_MW] = 1000,
        [NPU_VECTOR_MW] = 100,
        [NPU_TILES_MW] = 500,
        [NPU_MEMORY_PJ] = 40,
        [NPU_CPU_MW] = 600};
    for (int i = 0; i < SOC_FIGURES; i++) p.figure[i] = (struct npu_interval){f[i], f[i]};
    return p;
}

static void near(double got, double want)
{
    if (!(got > want * 0.999999 && got < want * 1.000001)) fail_msg("%g instead of %g", got, want);
}

static void times_follow_the_formula(void **state)
{
    (void)state;
    struct soc_profile p = exact();
    /* 100 us of packets, 200 of DMA, 40 of tiles. */
    struct npu_work w = {.packets = 200e3, .dma_bytes = 10e6, .tile_pairs = 5000};
    struct npu_time t = npu_cost_time(&p, &w);
    near(t.us.low, 340), near(t.us.high, 340);
    near(t.busy_us[NPU_ON_VECTOR].low, 100), near(t.busy_us[NPU_ON_DMA].high, 200),
        near(t.busy_us[NPU_ON_TILES].low, 40);
    assert_int_equal(t.longest[0], NPU_ON_DMA);
    w.stages = 10;
    t = npu_cost_time(&p, &w);
    near(t.us.low, 214);
    w = (struct npu_work){.packets = 200e3, .gathers = 6000, .scatters = 1000, .l2_bytes = 1e6, .parts = 2};
    t = npu_cost_time(&p, &w); /* 200 of packets on two threads, 80 of gathers and scatters, 40 of loads */
    near(t.us.low, 200), near(t.us.high, 320);
    assert_int_equal(t.longest[1], NPU_ON_VECTOR);
    /* The busiest of 4 threads has 2 of 5 parts; 25 us that nothing hides; ten meetings of half a microsecond. */
    w = (struct npu_work){.packets = 200e3, .parts = 5, .dma_bytes = 1e6, .stages = 10, .alone = 50e3, .meets = 10};
    near(npu_cost_time(&p, &w).us.low, 160 + 20 / 10. + 25 + 5);
    /* Each thread starts 50 transfers, each part 5 more, of which the busiest has 2: 12 us of vectors; 20 of tiles. */
    w = (struct npu_work){.packets = 0, .parts = 5, .starts = 50, .part_starts = 5, .tile_calls = 400};
    t = npu_cost_time(&p, &w);
    near(t.busy_us[NPU_ON_VECTOR].low, 12), near(t.busy_us[NPU_ON_TILES].low, 20), near(t.us.low, 32);
}

static void energies_follow_the_formula(void **state)
{
    (void)state;
    struct soc_profile p = exact();
    /* 340 us of the device, 400 us of one vector thread, 40 of tiles, 10^7 bytes. */
    struct npu_work w = {.packets = 200e3, .dma_bytes = 10e6, .tile_pairs = 5000};
    struct npu_interval mj = npu_cost_energy(&p, &w), us;
    near(mj.low, 0.34 + 0.04 + 0.02 + 0.4), near(mj.high, mj.low);
    /* 50 us of packets of four threads, half of the 20 us of DMA behind them, 100 us of what one thread does alone; 300
     * us of one thread's power; 1.5 x 10^6 bytes. */
    w = (struct npu_work){
        .packets = 100e3, .alone = 50e3, .alone_parts = 1, .stages = 2, .dma_bytes = 1e6, .l2_bytes = 0.5e6};
    near(npu_cost_time(&p, &w).us.low, 50 + 20 / 2. + 100);
    mj = npu_cost_energy(&p, &w);
    near(mj.low, 0.16 + 0.03 + 0.06);
    /* Calls of the tile unit and its products: 20 + 8 us of it, which take nothing else with them. */
    w = (struct npu_work){.tile_calls = 400, .tile_pairs = 1000};
    near(npu_cost_time(&p, &w).us.low, 28);
    near(npu_cost_energy(&p, &w).low, 0.028 + 0.014);
    /* 200 us of packets of two threads, which 60 of gathers stall at worst; 400 us of one thread's power. */
    w = (struct npu_work){.packets = 200e3, .gathers = 6000, .parts = 2};
    mj = npu_cost_energy(&p, &w);
    near(mj.low, 0.2 + 0.04), near(mj.high, 0.26 + 0.04);
    mj = npu_cost_message_mj(&p, 3), us = npu_cost_message_us(&p, 3);
    near(us.low, 150), near(mj.high, 0.15 * 1.6);
}

/* A pass of abacus-1m: 18 operations in each of 4 layers, 5 around them, 2 for tables and results; 79 operations are 5
 * messages of 16, of which two are on their way.  So the host waits for one way, and for two more where the way takes
 * longer than the NPU has to do meanwhile. */
static void round_trips_by_hand(void **state)
{
    const struct sim_data *d = &sim_data[SIM_DATA_COUNTS];
    const struct npu_model *m = npu_models;
    struct npu_counts *counts;
    struct npu_pass s;
    struct soc_profile p = exact();
    (void)state;
    while (strcmp(m->name, "abacus-1m") != 0) m++;
    assert_int_equal(npu_counts_read(&counts, d->bytes, d->n_bytes, d->name, NULL), 0);
    assert_int_equal(npu_pass_messages(m), 5);
    p.figure[NPU_MESSAGE_US] = (struct npu_interval){1, 1};
    assert_int_equal(npu_decode_pass(counts, &p, m, 1, 64, &s), 0);
    near(s.part[NPU_MESSAGE].low_us, 1), near(s.part[NPU_MESSAGE].high_us, 1);
    near(s.part[NPU_MESSAGE].low_mj, 1e-3 * 1.6);
    const double low_us = s.whole.low_us - 1, high_us = s.whole.high_us - 1;
    p.figure[NPU_MESSAGE_US] = (struct npu_interval){1e6, 1e6};
    assert_int_equal(npu_decode_pass(counts, &p, m, 1, 64, &s), 0);
    near(s.part[NPU_MESSAGE].low_us, 3e6 - 2 * low_us / 5), near(s.part[NPU_MESSAGE].high_us, 3e6 - 2 * high_us / 5);
    near(s.whole.low_us, low_us + 3e6 - 2 * low_us / 5);
    npu_counts_free(&counts);
}

/* Norms of heads are operations of a pass, on as many rows as there are heads. */
static void head_norms_by_hand(void **state)
{
    const struct sim_data *d = &sim_data[SIM_DATA_COUNTS];
    struct npu_model m = npu_models[0];
    struct npu_counts *counts;
    struct npu_work without, with;
    (void)state;
    assert_int_equal(npu_counts_read(&counts, d->bytes, d->n_bytes, d->name, NULL), 0);
    assert_int_equal(npu_pass_work(counts, &m, 2, 1024, &without), 0);
    m.head_norm = 1;
    assert_int_equal(npu_pass_work(counts, &m, 2, 1024, &with), 0);
    const struct npu_count *norm = npu_count_of(counts, "rms_norm", "f32", 1, 8192, 8192);
    assert_non_null(norm);
    /* Qwen2.5-1.5B: 28 layers, 12 + 2 heads of 128, two rows. */
    near(with.packets - without.packets, 28 * 2 * 14 * 128 / 8192. * norm->work.packets);
    near(with.l2_bytes - without.l2_bytes, 28 * 2 * 14 * 128 * 12.);
    assert_true(with.dma_bytes == without.dma_bytes && with.tile_pairs == without.tile_pairs);
    npu_counts_free(&counts);
}

static double normed(const struct npu_model *m, int rows)
{
    struct npu_pass_op op[NPU_PASS_OPS_MAX];
    double n = 0;
    for (int i = npu_pass_ops(m, rows, 1, op) - 1; i >= 0; i--)
        if (op[i].code == NPU_OP_RMS_NORM) n += (double)op[i].times * op[i].m * op[i].n;
    return n;
}

/* A BitNet layer has a norm before each of its last products: of the heads' outputs and of what is between. */
static void bitnet_norms_by_hand(void **state)
{
    struct npu_model m = npu_models[0];
    (void)state;
    const double without = normed(&m, 2);
    near(without, 28 * 2 * 2 * 1536 + 1536);
    m.bitnet = 1;
    near(normed(&m, 2) - without, 28 * 2 * (1536 + 8960));
}

/* Of each segment of 64 keys attention's threads start two transfers, its keys and its values, and wait for both. */
static void attention_transfers_by_hand(void **state)
{
    const struct npu_op op = {.code = NPU_OP_ATTENTION, .m = 2, .n = 128};
    struct npu_work w = {0};
    (void)state;
    npu_divide(&op, 1024, 2, 6, &w);
    near(w.stages, 1024 / 64);
    near(w.part_starts, 2 * 1024 / 64);
    near(w.parts, 2);
}

/* More power, more energy, and no other time; a longer message, no longer operation. */
static void power_is_not_time(void **state)
{
    (void)state;
    struct soc_profile p = exact();
    struct npu_work w = {.packets = 200e3, .dma_bytes = 10e6, .tile_pairs = 5000, .gathers = 10, .stages = 4};
    struct npu_time t = npu_cost_time(&p, &w);
    double mj = npu_cost_energy(&p, &w).low;
    for (int i = NPU_MESSAGE_US; i <= NPU_CPU_MW; i++) {
        struct soc_profile q = p;
        q.figure[i].low *= 2, q.figure[i].high *= 2;
        near(npu_cost_time(&q, &w).us.high, t.us.high);
        near(npu_cost_ratio(&q, &w, &w).low, 1);
        int of_operations = i != NPU_MESSAGE_US && i != NPU_CPU_MW;
        assert_int_equal(npu_cost_energy(&q, &w).low > mj * 1.0001, of_operations);
        assert_true(npu_cost_message_mj(&q, 1).low > npu_cost_message_mj(&p, 1).low * 1.0001 ||
                    (i != NPU_MESSAGE_US && i != NPU_BASE_MW && i != NPU_CPU_MW));
    }
    for (double f = 2; f < 100; f *= 3) { /* more work, more of both */
        struct npu_work more = w;
        more.packets *= f, more.dma_bytes *= f, more.tile_pairs *= f;
        assert_true(npu_cost_time(&p, &more).us.low > t.us.low && npu_cost_energy(&p, &more).low > mj);
    }
}

static void intervals_contain_what_is_between(void **state)
{
    (void)state;
    char *text = read_profile(names[0]);
    struct soc_profile p, q;
    struct npu_work w = {
        .packets = 1e6, .gathers = 1e4, .dma_bytes = 1e7, .tile_pairs = 1e4, .l2_bytes = 1e5, .stages = 8};
    struct npu_work v = {.packets = 3e6, .scatters = 1e5, .dma_bytes = 1e7, .tile_pairs = 1e4, .stages = 8};
    assert_int_equal(soc_profile_parse(&p, text, strlen(text), "p", NULL), 0);
    struct npu_time t = npu_cost_time(&p, &w);
    struct npu_interval r = npu_cost_ratio(&p, &v, &w);
    assert_true(t.us.low < t.us.high && r.low < r.high && r.low > 0);
    for (int i = 0; i < SOC_FIGURES; i++)
        for (int end = 0; end < 2; end++) {
            q = p;
            q.figure[i] = end ? (struct npu_interval){p.figure[i].high, p.figure[i].high}
                              : (struct npu_interval){p.figure[i].low, p.figure[i].low};
            struct npu_time u = npu_cost_time(&q, &w);
            assert_true(u.us.low >= t.us.low && u.us.high <= t.us.high);
            struct npu_interval e = npu_cost_energy(&p, &w), d = npu_cost_energy(&q, &w);
            assert_true(d.low >= e.low && d.high <= e.high);
            struct npu_interval s = npu_cost_ratio(&q, &v, &w);
            assert_true(s.low >= r.low && s.high <= r.high);
        }
    r = npu_cost_ratio(&p, &w, &w);
    near(r.low, 1), near(r.high, 1);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(profiles_of_the_repository_load),
        cmocka_unit_test(broken_profiles_are_refused_by_field_and_file), cmocka_unit_test(damaged_profiles_do_no_harm),
        cmocka_unit_test(times_follow_the_formula), cmocka_unit_test(energies_follow_the_formula),
        cmocka_unit_test(round_trips_by_hand), cmocka_unit_test(head_norms_by_hand),
        cmocka_unit_test(bitnet_norms_by_hand), cmocka_unit_test(attention_transfers_by_hand),
        cmocka_unit_test(power_is_not_time), cmocka_unit_test(intervals_contain_what_is_between)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
