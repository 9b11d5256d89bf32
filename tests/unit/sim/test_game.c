/* SPDX-License-Identifier: MIT
 *
 * A game in the foreground: turns on the GPU by hand, and passes of a model beside it.
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
#include "phone/frames.h"
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

static void equal(double x, double want)
{
    if (fabs(x - want) > 1e-6) fail_msg("%.9g instead of %.9g", x, want);
}

/* 100 frames a second of 3 ms each; 20 ms of a model that come at 1 ms. */
static void turns_by_hand(void **state)
{
    struct frames f;
    (void)state;
    frames_open(&f, 100, 0.3, 0, 500);
    equal(frames_take(&f, 1e3, 20e3), 23e3); /* behind the frame of 0 to 3 ms, and all at once */
    assert_int_equal(f.n_shown, 1);
    equal(f.worst_us, 3e3);
    frames_until(&f, 60e3); /* that of 10 ms at 23 to 26; then 30, 40, 50 */
    assert_int_equal(f.n_shown, 5);
    equal(f.worst_us, 16e3), equal(f.sum_us, 3e3 + 16e3 + 3 * 3e3), equal(f.next_us, 60e3);

    frames_open(&f, 100, 0.3, 4e3, 500);
    /* 3 to 7, 7.5 to 11.5; the frame of 10 ms at 12 to 15; 15 to 19, 19.5 to 23.5; the next at 24 to 27; 27 to 31 */
    equal(frames_take(&f, 1e3, 20e3), 31e3);
    assert_int_equal(f.n_shown, 3);
    equal(f.worst_us, 7e3), equal(f.next_us, 30e3);
    equal(frames_take(&f, 31e3, 1e3), 35e3); /* the frame of 30 ms is first: 31 to 34 */
    equal(f.worst_us, 7e3);
    /* One that waits is not done yet, and counts as what it waited at least. */
    frames_open(&f, 100, 0.3, 0, 0);
    equal(frames_take(&f, 5e3, 95e3), 100e3);
    frames_until(&f, 100e3);
    assert_int_equal(f.n_shown, 1);
    equal(f.worst_us, 90e3);
}

/* Nobody starves: a game that wants all of the GPU leaves a slice behind each frame, and the time until the display's
 * next beat where that slice made the frame late: 20, slice, 20 until 45, three slices until 60, and again. */
static void both_go_on(void **state)
{
    struct frames f;
    (void)state;
    frames_open(&f, 50, 1, 5e3, 0);
    equal(frames_take(&f, 0, 50e3), 170e3); /* ten slices */
    assert_int_equal(f.n_shown, 6);
    frames_open(&f, 50, 0, 5e3, 0); /* frames of no work cost nothing */
    equal(frames_take(&f, 7e3, 50e3), 57e3);
    equal(frames_take(&f, 60e3, 0), 60e3);
}

static struct sim_beside beside(enum sim_plan plan, int rows, double share, double slice_us)
{
    const struct sim_game game = {60, share, slice_us};
    const struct sim_question q = {.profile = &gen3,
        .shape = &llama,
        .plan = plan,
        .rows = rows,
        .past = rows == 1 ? 256 : 0,
        .n_out = 1,
        .many = rows == 1};
    struct sim_beside b;
    struct lutra_error err;
    if (sim_beside(&q, rows == 1 ? 8 : 0, &game, SIM_MIDDLE, &b, &err)) fail_msg("%s", err.what);
    return b;
}

/* Operation by operation as long as sim_pass() adds up, of one pass and of several. */
static void without_frames_a_pass_is_itself(void **state)
{
    static const int rows[] = {64, 300, 1024, 5000};
    (void)state;
    for (int plan = SIM_FINE; plan < SIM_ONE; plan++)
        for (int i = 0; i < 4; i++) {
            const struct sim_question q = {
                .profile = &gen3, .shape = &llama, .plan = (enum sim_plan)plan, .rows = rows[i], .n_out = 1};
            struct sim_result r;
            assert_int_equal(sim_pass(&q, &r, NULL), 0);
            double us = beside((enum sim_plan)plan, rows[i], 0, 0).us;
            if (fabs(us / r.us.middle - 1) > 1e-9)
                fail_msg("%s, %d rows: %g instead of %g", sim_plan_name((enum sim_plan)plan), rows[i], us, r.us.middle);
        }
}

/* What [HETERO 5.7] saw: a GPU alone leaves no frame while it evaluates a prompt, unless it is sliced. */
static void slices_keep_frames(void **state)
{
    (void)state;
    for (int rows = 1; rows <= 256; rows += 255)
        for (double share = 0.1; share < 0.45; share += 0.1) {
            const double alone = beside(SIM_GPU_ONLY, rows, 0, 0).us;
            struct sim_beside whole = beside(SIM_GPU_ONLY, rows, share, 0),
                              sliced = beside(SIM_GPU_ONLY, rows, share, 10e3);
            assert_true(whole.frames * 1e6 / whole.us < (rows == 1 ? 12 : 1));
            assert_true(fabs(sliced.frames * 1e6 / sliced.us / 60 - 1) < 0.02);
            assert_true(sliced.worst_us <= 10e3 + share * 1e6 / 60 + 25 + 1);
            /* The model loses what the frames take, and a little for its cuts. */
            double lost = 1 - alone / sliced.us;
            if (fabs(lost - share) > 0.01) fail_msg("%d rows: %g lost beside %g", rows, lost, share);
            assert_true(alone <= whole.us && whole.us < sliced.us);
        }
    /* The NPU's work goes on beside frames. */
    struct sim_beside layer = beside(SIM_LAYER, 256, 0.2, 0), layer_alone = beside(SIM_LAYER, 256, 0, 0);
    assert_true(layer.us / layer_alone.us < 1.06 && layer.frames * 1e6 / layer.us > 59);
}

static const json_t *span(const json_t *row, const char *key, const char *end)
{
    return json_object_get(json_object_get(row, key), end);
}

static void the_answer_has_both(void **state)
{
    struct lutra_sim_settings s;
    struct lutra_error err;
    char *text[2];
    (void)state;
    lutra_sim_settings_init(&s, sizeof s);
    s.plan = "gpu", s.n_prompt = 256, s.n_decode = 16, s.game_fps = 60, s.game_share = 0.3;
    for (int i = 0; i < 2; i++)
        if (lutra_sim(&s, &text[i], &err)) fail_msg("%s", err.what);
    assert_string_equal(text[0], text[1]);
    json_t *all = json_loads(text[0], 0, NULL), *rows = json_object_get(json_object_get(all, "game"), "beside"), *row;
    static const char *const keys[] = {
        "tokens_per_s", "tokens_percent", "frames_per_s", "frame_ms", "longest_frame_ms", "j"};
    size_t i;
    assert_int_equal(json_array_size(rows), 4);
    json_array_foreach(rows, i, row)
    {
        assert_string_equal(json_string_value(json_object_get(row, "phase")), i < 2 ? "prompt" : "reply");
        equal(json_number_value(json_object_get(row, "slice_ms")), i % 2 ? 0 : 10);
        for (int k = 0; k < 6; k++) {
            double low = json_number_value(span(row, keys[k], "low")),
                   high = json_number_value(span(row, keys[k], "high")),
                   middle = json_number_value(span(row, keys[k], "middle"));
            assert_true(low <= middle && middle <= high);
        }
    }
    /* By hand: 256 tokens in so many us; the GPU's power for its work and the frames', the device's for all of it. */
    struct sim_beside b = beside(SIM_GPU_ONLY, 256, 0.3, 10e3), alone = beside(SIM_GPU_ONLY, 256, 0, 0);
    row = json_array_get(rows, 0);
    equal(json_number_value(span(row, "tokens_per_s", "middle")) * b.us / 256e6, 1);
    double gpu_w = 1e-3 * sim_figure(&gen3, SOC_GPU_MW, SIM_MIDDLE),
           base_w = 1e-3 * sim_figure(&gen3, NPU_BASE_MW, SIM_MIDDLE);
    double j = json_number_value(json_object_get(json_object_get(all, "prompt_j"), "middle"));
    double want = j + base_w * (b.us - alone.us) / 1e6 + gpu_w * b.frames * 0.3 / 60;
    if (fabs(json_number_value(span(row, "j", "middle")) / want - 1) > 1e-6)
        fail_msg("%g J instead of %g", json_number_value(span(row, "j", "middle")), want);
    json_decref(all);
    lutra_free(text[0]), lutra_free(text[1]);
    s.gpu_slice_ms = 0;
    assert_int_equal(lutra_sim(&s, &text[0], &err), 0);
    all = json_loads(text[0], 0, NULL);
    assert_int_equal(json_array_size(json_object_get(json_object_get(all, "game"), "beside")), 2);
    json_decref(all);
    lutra_free(text[0]);
}

static void wrong_games_are_refused(void **state)
{
    static const double bad[][3] = {{-1, 0.3, 10}, {0.5, 0.3, 10}, {1e4, 0.3, 10}, {60, -0.1, 10}, {60, 1.1, 10},
        {60, 0.3, -1}, {NAN, 0.3, 10}, {60, NAN, 10}, {60, 0.3, NAN}};
    struct lutra_sim_settings s;
    struct lutra_error err;
    char *text;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lutra_sim_settings_init(&s, sizeof s);
        s.game_fps = bad[i][0], s.game_share = bad[i][1], s.gpu_slice_ms = bad[i][2];
        assert_int_equal(lutra_sim(&s, &text, &err), LUTRA_E_ARGUMENT);
        assert_non_null(strstr(err.what, "g"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(turns_by_hand), cmocka_unit_test(both_go_on),
        cmocka_unit_test(without_frames_a_pass_is_itself), cmocka_unit_test(slices_keep_frames),
        cmocka_unit_test(the_answer_has_both), cmocka_unit_test(wrong_games_are_refused)};
    return cmocka_run_group_tests(tests, open_case, NULL);
}
