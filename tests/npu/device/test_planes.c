/* SPDX-License-Identifier: MIT
 *
 * Whole models whose weights are bit planes on the emulated NPU: the bits of the same model packed as tile32, from
 * fewer bytes.  And packings other than tile32 under QEMU: the emulator's bits.
 */
#include "device_fixture.h"

#include <dirent.h>

#include "npu/wire/planes.h"

static void open_logged(struct fixture *f, const char *path, const char *device, struct lines *log)
{
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    memset(f, 0, sizeof *f);
    rs.device = device;
    rs.npu_program = NPU_PROGRAM;
    rs.n_threads = 2;
    rs.log = log ? keep_line : NULL, rs.log_user = log;
    OK(lutra_runtime_open(&f->rt, &rs, err));
    OK(lutra_model_open(&f->model, f->rt, path, NULL, err));
    fixture_session(f, 2, 128);
}

static void open_planes(struct fixture *f, const char *path, const char *device)
{
    open_logged(f, path, device, NULL);
}

/* Matrices packed as bit planes, and the bytes of all. */
static int planes_of(const struct fixture *f, uint64_t *bytes)
{
    int n = 0;
    *bytes = 0;
    for (const struct packed *p = npu_of(f)->packed; p; p = p->next) {
        n += npu_is_planes(p->layout.kind);
        *bytes += p->bytes;
    }
    return n;
}

/* A prompt and two tokens behind it. */
static void planes_have_the_bits_of_tiles(void **state)
{
    (void)state;
    static const struct {
        const char *type, *model;
        int n_layer;
    } list[] = {{"Q1_0", MODEL, 4}, {"Q2_0", MODEL, 4}, {"TQ2_0", LUTRA_SOURCE_DIR "/models/abacus-3m-f16.gguf", 4},
        {"Q4_0", MODEL, 4}, {"Q4_1", MODEL, 4}};
    for (int i = 0; i < 5; i++) {
        struct fixture tiles, planes;
        char path[64];
        int32_t a, b;
        uint64_t few, many;
        snprintf(path, sizeof path, "/tmp/lutra-npu-planes-%d.gguf", (int)getpid());
        quantize(path, list[i].model, list[i].type);
        open_planes(&tiles, path, "npu-sim");
        open_planes(&planes, path, "npu-sim:bitplane");
        remove(path);
        assert_int_equal(planes_of(&tiles, &many), 0);
        assert_int_equal(planes_of(&planes, &few), 7 * list[i].n_layer);
        assert_true(few < many || (i >= 3 && few < many + many / 10)); /* outputs are rounded up to 128 */
        OK(lutra_seq_open(tiles.s, 0, &a, err));
        OK(lutra_seq_open(planes.s, 0, &b, err));
        for (int at = 0; at < 34; at += at ? 1 : 33) {
            int n = at ? 1 : 33;
            float want[N_VOCAB];
            memcpy(want, feed(tiles.s, a, at, n, 0), sizeof want);
            assert_memory_equal(feed(planes.s, b, at, n, 0), want, sizeof want);
        }
        shut(&tiles);
        shut(&planes);
    }
}

/* Which types of the layers are bit planes, and which stay. */
static void the_log_says_what_stays(void **state)
{
    (void)state;
    static const char *const list[][3] = {{"Q2_0", "npu-sim:bitplane", "layers: as bit planes Q2_0; as tile32 none\n"},
        {"Q8_0", "npu-sim:lookup", "layers: as bit planes none; as tile32 Q8_0\n"}, {"Q2_0", "npu-sim", NULL}};
    for (int i = 0; i < 3; i++) {
        struct fixture f;
        struct lines log = {""};
        char path[64];
        snprintf(path, sizeof path, "/tmp/lutra-npu-stays-%d.gguf", (int)getpid());
        quantize(path, MODEL, list[i][0]);
        open_logged(&f, path, list[i][1], &log);
        remove(path);
        if (list[i][2])
            assert_non_null(strstr(log.text, list[i][2]));
        else
            assert_null(strstr(log.text, "bit planes"));
        assert_non_null(strstr(log.text, "npu-sim TCM: "));
        shut(&f);
    }
}

/* Operations of the last run by code; with `weights`, of that weight alone. */
static int sent(const struct fixture *f, uint32_t code, uint32_t weights)
{
    const struct npu_device *d = npu_of(f);
    int n = 0;
    for (int i = 0; i < d->n_op; i++) n += d->op[i].code == code && (!weights || d->op[i].weights == weights);
    return n;
}

/* All messages that read planes hold the tiling that the host found. */
static void check_tilings(const struct fixture *f)
{
    const struct npu_device *d = npu_of(f);
    for (int i = 0; i < d->n_op; i++) {
        const struct npu_op *op = &d->op[i];
        if ((op->code != NPU_OP_GEMM && op->code != NPU_OP_LOOKUP) || !npu_is_planes(op->kind)) continue;
        assert_true(npu_planes_panel(op->kind) && npu_planes_chunk(op->kind));
        assert_true(op->code == NPU_OP_LOOKUP || op->param);
    }
}

/* A prompt's whole block goes to tiles and its rest to lookups, of the same bytes at the same address; matrices with
 * one input share its tables. */
static void one_copy_serves_tiles_and_lookups(void **state)
{
    (void)state;
    struct fixture f;
    char path[64];
    int32_t a;
    uint64_t bytes;
    snprintf(path, sizeof path, "/tmp/lutra-npu-lookup-%d.gguf", (int)getpid());
    quantize(path, MODEL, "Q2_0");
    open_planes(&f, path, "npu-sim:lookup");
    remove(path);
    assert_int_equal(planes_of(&f, &bytes), 28);
    OK(lutra_seq_open(f.s, 0, &a, err));
    feed(f.s, a, 0, 35, LUTRA_ROW_BULK);
    check_tilings(&f);
    int both = 0;
    for (const struct packed *p = npu_of(&f)->packed; p; p = p->next)
        both += sent(&f, NPU_OP_GEMM, p->at) == 1 && sent(&f, NPU_OP_LOOKUP, p->at) == 1;
    assert_true(both >= 24); /* the last layer's outputs are of one row */
    assert_int_equal(sent(&f, NPU_OP_LOOKUP, 0), 28);
    assert_int_equal(sent(&f, NPU_OP_TABLES, 0), 16);
    feed(f.s, a, 35, 1, 0);
    assert_int_equal(sent(&f, NPU_OP_GEMM, 0), 0);
    assert_int_equal(sent(&f, NPU_OP_LOOKUP, 0), 28);
    shut(&f);
}

/* A prompt in one pass, in two that leave its whole block whole, and beside another sequence's rows: the same bits. */
static void a_class_depends_on_the_prompt_alone(void **state)
{
    (void)state;
    enum { N = 37, WHOLE = 32 };
    struct fixture f;
    struct lutra_row row[WHOLE + 3];
    float want[N_VOCAB];
    char path[64];
    int32_t a, b, c;
    snprintf(path, sizeof path, "/tmp/lutra-npu-bulk-%d.gguf", (int)getpid());
    quantize(path, MODEL, "Q1_0");
    open_planes(&f, path, "npu-sim:lookup");
    remove(path);
    OK(lutra_seq_open(f.s, 0, &a, err));
    OK(lutra_seq_open(f.s, 0, &b, err));
    memcpy(want, feed(f.s, a, 0, N, LUTRA_ROW_BULK), sizeof want);
    for (int i = 0; i < WHOLE + 3; i++) {
        int of_b = i < WHOLE, pos = of_b ? i : N + i - WHOLE;
        row[i] = (struct lutra_row){id_at(pos), pos, of_b ? b : a, of_b || i > WHOLE ? i - 1 : -1, 0, 0};
        if (i == 0) row[i].parent = -1;
        if (of_b) row[i].want = LUTRA_ROW_BULK;
    }
    row[WHOLE + 2].want = LUTRA_WANT_LOGITS;
    OK(lutra_forward(f.s, row, WHOLE + 3, sizeof *row, err));
    assert_memory_equal(feed(f.s, b, WHOLE, N - WHOLE, LUTRA_ROW_BULK), want, sizeof want);
    lutra_seq_close(f.s, a);
    OK(lutra_seq_open(f.s, 0, &c, err));
    assert_memory_not_equal(feed(f.s, c, 0, N, 0), want, sizeof want); /* all by lookup: another class */
    shut(&f);
}

static int lookups(const struct fixture *f)
{
    return sent(f, NPU_OP_LOOKUP, 0);
}

static int supergroups(const struct fixture *f)
{
    int n = 0;
    for (const struct packed *p = npu_of(f)->packed; p; p = p->next) n += p->layout.kind == NPU_W_SUPER4;
    return n;
}

/* n rows together and one behind them as a Hexagon binary: the emulator's bits.  All matrices of layers count. */
static void same_under_qemu(const char *type, const char *packing, int n, int (*count)(const struct fixture *f))
{
    static const char *const devices[] = {"npu-sim", "npu-qemu"};
    static float got[2][2][N_VOCAB];
    struct npu_transport *probe;
    struct npu_transport_settings small = {.memory_bytes = 1 << 20, .program = NPU_PROGRAM};
    struct lutra_error why;
    char path[64], device[64];
    if (SANITIZED || npu_child_open(&probe, &small, &why)) skip(); /* QEMU's program is not sanitized */
    npu_transport_close(&probe);
    snprintf(path, sizeof path, "/tmp/lutra-npu-qemu-%d.gguf", (int)getpid());
    quantize(path, MODEL, type);
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        int32_t a;
        snprintf(device, sizeof device, "%s:%s", devices[i], packing);
        open_planes(&f, path, device);
        OK(lutra_seq_open(f.s, 0, &a, err));
        memcpy(got[i][0], feed(f.s, a, 0, n, 0), sizeof got[i][0]);
        assert_int_equal(count(&f), 28);
        memcpy(got[i][1], feed(f.s, a, n, 1, 0), sizeof got[i][1]);
        assert_ptr_equal(runtime_first(f.rt), f.rt->devices.device[0]); /* not lost on the way */
        shut(&f);
    }
    remove(path);
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

static void lookups_have_the_emulators_bits(void **state)
{
    (void)state;
    same_under_qemu("Q1_0", "lookup", 3, lookups);
}

static void supergroups_have_the_emulators_bits(void **state)
{
    (void)state;
    same_under_qemu("Q4_0", "supergroup", 1, supergroups);
}

static double rms_of(const float *x, const float *y, int n)
{
    double sum = 0, mean = 0, square = 0;
    for (int i = 0; i < n; i++) {
        sum += (x[i] - y[i]) * (double)(x[i] - y[i]);
        mean += y[i] / (double)n, square += y[i] * (double)y[i] / n;
    }
    return sqrt(sum / n / (square - mean * mean));
}

static double rms(const float *x, const float *y)
{
    return rms_of(x, y, N_VOCAB);
}

/* ---- GPTQ's folders with zeros [TMAN 6.1] ---- */

enum { TINY_VOCAB = 512, TINY_ROWS = 33 };

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    char name[512];
    for (struct dirent *e; (e = readdir(dir));) {
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        remove(name); /* "." and ".." stay */
    }
    closedir(dir);
    rmdir(path);
}

/* TINY_ROWS rows at once, and one behind them. */
static void feed_tiny(struct fixture *f, float got[2][TINY_VOCAB])
{
    struct lutra_row row[TINY_ROWS + 1];
    int32_t seq;
    OK(lutra_seq_open(f->s, 0, &seq, err));
    for (int i = 0; i <= TINY_ROWS; i++)
        row[i] = (struct lutra_row){
            token_at(i), i, seq, i && i < TINY_ROWS ? i - 1 : -1, i >= TINY_ROWS - 1 ? LUTRA_WANT_LOGITS : 0, 0};
    OK(lutra_forward(f->s, row, TINY_ROWS, sizeof *row, err));
    memcpy(got[0], lutra_forward_result(f->s, 0)->logits, sizeof got[0]);
    OK(lutra_forward(f->s, row + TINY_ROWS, 1, sizeof *row, err));
    memcpy(got[1], lutra_forward_result(f->s, 0)->logits, sizeof got[1]);
}

static void make_folder(const char *path, const char *type, int group)
{
    struct lutra_make_model_settings set;
    lutra_runtime *rt;
    lutra_make_model_settings_init(&set, sizeof set);
    set.shape = "tiny-llama", set.type = type, set.group_size = group, set.asymmetric = true, set.seed = 9;
    OK(lutra_runtime_open(&rt, NULL, err));
    OK(lutra_make_model(rt, path, &set, err));
    lutra_runtime_close(&rt);
}

/* Every matrix of the layers in planes of its own bits and groups, at most 0.6 bits a weight more in memory. */
static void check_kinds(const struct fixture *f, uint32_t bits, uint32_t group)
{
    int n = 0;
    for (const struct packed *p = npu_of(f)->packed; p; p = p->next) {
        const struct npu_weights *w = &p->layout;
        if (!npu_is_planes(w->kind)) continue;
        assert_int_equal(npu_planes_untiled(w->kind), NPU_PLANES(bits, group, NPU_PLANES_ZEROS));
        assert_true(8.0 * w->bytes / w->k / npu_weights_outputs(w) <= bits + 0.6);
        n++;
    }
    assert_int_equal(n, 14);
}

/* One copy, and the bits of tile32 on tiles; by lookup the emulator's bits as a Hexagon binary, near the CPU's. */
static void folders_with_zeros_are_planes(void **state)
{
    (void)state;
    static const char *const devices[] = {
        "npu-sim", "npu-sim:bitplane", "npu-sim:lookup", "cpu-ref", "npu-qemu:lookup"};
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t bits = 2 + i / 2, group = i % 2 ? 128 : 64;
        static float got[5][2][TINY_VOCAB];
        char path[64], type[4];
        snprintf(path, sizeof path, "/tmp/lutra-npu-folder-%d", (int)getpid());
        snprintf(type, sizeof type, "W%u", bits);
        make_folder(path, type, (int)group);
        int n_device = i == 0 || i == 5 ? 5 : 4; /* QEMU: groups of 64 at 2 bits, of 128 at 4 */
        for (int k = 0; k < n_device; k++) {
            struct fixture f;
            struct npu_transport *probe;
            struct npu_transport_settings small = {.memory_bytes = 1 << 20, .program = NPU_PROGRAM};
            struct lutra_error why;
            if (k == 4 && (SANITIZED || npu_child_open(&probe, &small, &why))) {
                print_message("no npu-qemu here\n");
                memcpy(got[4], got[2], sizeof got[4]);
                break;
            }
            if (k == 4) npu_transport_close(&probe);
            open_planes(&f, path, devices[k]);
            feed_tiny(&f, got[k]);
            if (k == 1 || k == 2) check_kinds(&f, bits, group);
            if (k == 2) assert_int_equal(sent(&f, NPU_OP_LOOKUP, 0), 14);
            shut(&f);
        }
        remove_folder(path);
        assert_memory_equal(got[1], got[0], sizeof got[0]);
        if (n_device > 4) assert_memory_equal(got[4], got[2], sizeof got[4]);
        for (int r = 0; r < 2; r++) {
            double lookup = rms_of(got[2][r], got[3][r], TINY_VOCAB), tiles = rms_of(got[0][r], got[3][r], TINY_VOCAB);
            if (!(lookup < 0.01 && tiles < 0.01)) fail_msg("%s g%u: lookup %g, tiles %g", type, group, lookup, tiles);
        }
    }
}

/* A row's bits are the same alone and beside others, and its logits nearer to exact ones than with int8 activations. */
static void lookups_are_a_class(void **state)
{
    (void)state;
    enum { N = 20 };
    static const char *const devices[] = {"npu-sim:lookup", "npu-sim", "cpu", "cpu-ref"};
    static float got[4][N_VOCAB];
    char path[64];
    snprintf(path, sizeof path, "/tmp/lutra-npu-class-%d.gguf", (int)getpid());
    quantize(path, MODEL, "Q1_0");
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        int32_t a, b;
        open_planes(&f, path, devices[i]);
        OK(lutra_seq_open(f.s, 0, &a, err));
        memcpy(got[i], feed(f.s, a, 0, N, 0), sizeof got[i]);
        OK(lutra_seq_open(f.s, 0, &b, err));
        const float *one = NULL;
        for (int at = 0; i == 0 && at < N; at++) one = feed(f.s, b, at, 1, 0);
        if (one) assert_memory_equal(one, got[0], sizeof got[0]);
        shut(&f);
    }
    remove(path);
    double lookup = rms(got[0], got[3]), tiles = rms(got[1], got[3]), int8 = rms(got[2], got[3]);
    print_message("RMS of logits: lookups %.2g, tiles %.2g, the CPU's int8 %.2g\n", lookup, tiles, int8);
    assert_true(lookup < int8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(planes_have_the_bits_of_tiles),
        cmocka_unit_test(the_log_says_what_stays), cmocka_unit_test(one_copy_serves_tiles_and_lookups),
        cmocka_unit_test(a_class_depends_on_the_prompt_alone), cmocka_unit_test(lookups_have_the_emulators_bits),
        cmocka_unit_test(supergroups_have_the_emulators_bits), cmocka_unit_test(lookups_are_a_class),
        cmocka_unit_test(folders_with_zeros_are_planes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
