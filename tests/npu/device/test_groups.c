/* SPDX-License-Identifier: MIT
 *
 * Folders whose layers are codes with a zero per group, on the emulated NPU: in their own widths, and with the bits of
 * the same values as halves.
 */
#include "device_fixture.h"

#include "npu/wire/layout.h"

enum { N_IDS = 512 }; /* of the shape's vocabulary */

static void open_at(struct fixture *f, const char *path)
{
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    memset(f, 0, sizeof *f);
    rs.device = "npu-sim";
    rs.n_threads = 2;
    OK(lutra_runtime_open(&f->rt, &rs, err));
    OK(lutra_model_open(&f->model, f->rt, path, NULL, err));
    fixture_session(f, 2, 128);
}

/* Matrices that are packed as a kind. */
static int packed_as(const struct fixture *f, uint32_t kind)
{
    int n = 0;
    for (const struct packed *p = npu_of(f)->packed; p; p = p->next) n += p->layout.kind == kind;
    return n;
}

/* A folder of groups, and a file of the same values as halves. */
static void make_both(const char *folder, const char *file, const char *type, int group_size)
{
    lutra_runtime *rt;
    struct lutra_make_model_settings ms;
    struct lutra_quantize_settings qs;
    lutra_make_model_settings_init(&ms, sizeof ms);
    lutra_quantize_settings_init(&qs, sizeof qs);
    ms.shape = "tiny-qwen2", ms.type = type, ms.group_size = group_size, ms.asymmetric = true, ms.seed = 5;
    qs.type = "F16", qs.allow_requantize = true;
    OK(lutra_runtime_open(&rt, NULL, err));
    OK(lutra_make_model(rt, folder, &ms, err));
    OK(lutra_quantize(rt, folder, file, &qs, err));
    lutra_runtime_close(&rt);
}

static void remove_folder(const char *path)
{
    char line[128];
    snprintf(line, sizeof line, "rm -rf '%s'", path);
    assert_int_equal(system(line), 0);
}

/* Logits of the last of n positions. */
static const float *next_of(struct fixture *f, int32_t seq, int from, int n)
{
    struct lutra_row row[64];
    for (int i = 0; i < n; i++)
        row[i] =
            (struct lutra_row){id_at(from + i) % N_IDS, from + i, seq, i - 1, i == n - 1 ? LUTRA_WANT_LOGITS : 0, 0};
    OK(lutra_forward(f->s, row, n, sizeof *row, err));
    return lutra_forward_result(f->s, 0)->logits;
}

/* A prompt and two tokens behind it. */
static void groups_have_the_bits_of_halves(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int group_size;
        uint32_t kind;
    } list[] = {{"W2", 64, NPU_W_W2}, {"W3", 64, NPU_W_W3}, {"W4", 64, NPU_W_W4}, {"W4", 128, NPU_W_W4}};
    for (int i = 0; i < 4; i++) {
        struct fixture groups, halves;
        char folder[64], file[64];
        int32_t a, b;
        snprintf(folder, sizeof folder, "/tmp/lutra-npu-groups-%d", (int)getpid());
        snprintf(file, sizeof file, "/tmp/lutra-npu-groups-%d.gguf", (int)getpid());
        make_both(folder, file, list[i].type, list[i].group_size);
        open_at(&groups, folder);
        open_at(&halves, file);
        remove_folder(folder);
        remove(file);
        struct lutra_model_info info;
        lutra_model_info_get(groups.model, &info, sizeof info);
        assert_int_equal(packed_as(&groups, list[i].kind), 7 * info.n_layer);
        assert_int_equal(packed_as(&halves, list[i].kind), 0);
        OK(lutra_seq_open(groups.s, 0, &a, err));
        OK(lutra_seq_open(halves.s, 0, &b, err));
        for (int at = 0; at < 34; at += at ? 1 : 33) {
            const int n = at ? 1 : 33;
            const size_t bytes = (size_t)info.n_vocab * sizeof(float);
            float *want = malloc(bytes);
            memcpy(want, next_of(&halves, b, at, n), bytes);
            assert_memory_equal(next_of(&groups, a, at, n), want, bytes);
            free(want);
        }
        shut(&groups);
        shut(&halves);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups_have_the_bits_of_halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
