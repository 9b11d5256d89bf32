/* SPDX-License-Identifier: MIT
 *
 * What tables of bytes (bench/npu/vlut32.c) cost a whole model: logits of the emulated NPU by lookup with tables of
 * 16 bits and of 8, and of the CPU's int8 activations, against cpu-ref's, position by position.
 */
#include "device_fixture.h"

#include "two_lookups.h"

enum { N = 50 }; /* positions */

static void logits(const char *path, const char *device, float *to)
{
    struct lutra_runtime_settings rs;
    struct fixture f = {0};
    int32_t id;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.device = device;
    rs.n_threads = 2;
    OK(lutra_runtime_open(&f.rt, &rs, err));
    OK(lutra_model_open(&f.model, f.rt, path, NULL, err));
    fixture_session(&f, 2, 128);
    OK(lutra_seq_open(f.s, 0, &id, err));
    for (int at = 0; at < N; at++, to += N_VOCAB) memcpy(to, feed(f.s, id, at, 1, 0), N_VOCAB * sizeof *to);
    shut(&f);
}

/* Of the logits of all positions, in the deviations of y's. */
static double rms(const float *x, const float *y)
{
    double error = 0, size = 0;
    for (int at = 0; at < N; at++, x += N_VOCAB, y += N_VOCAB) {
        double mean = 0;
        for (int i = 0; i < N_VOCAB; i++) mean += y[i] / (double)N_VOCAB;
        for (int i = 0; i < N_VOCAB; i++)
            error += (x[i] - y[i]) * (double)(x[i] - y[i]), size += (y[i] - mean) * (y[i] - mean);
    }
    return sqrt(error / size);
}

static void bytes_cost_little_more_than_int8(void **state)
{
    (void)state;
    static const char *const list[][2] = {
        {"Q1_0", MODEL}, {"Q2_0", MODEL}, {"TQ2_0", LUTRA_SOURCE_DIR "/models/abacus-3m-f16.gguf"}};
    static float got[4][N * N_VOCAB];
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/lutra-npu-bytes-%d.gguf", (int)getpid());
        quantize(path, list[i][1], list[i][0]);
        for (two_lookups_bytes = 0; two_lookups_bytes < 2; two_lookups_bytes++)
            logits(path, "npu-sim:lookup", got[two_lookups_bytes]);
        logits(path, "cpu", got[2]), logits(path, "cpu-ref", got[3]);
        remove(path);
        double halves = rms(got[0], got[3]), bytes = rms(got[1], got[3]), int8 = rms(got[2], got[3]);
        print_message("%s, RMS of logits: tables of 16 bits %.2g, of 8 bits %.2g, the CPU's int8 %.2g\n", list[i][0],
            halves, bytes, int8);
        assert_true(halves < int8 && halves < bytes && bytes < (i ? 4 : 2) * int8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_cost_little_more_than_int8)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
