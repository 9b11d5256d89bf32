/* SPDX-License-Identifier: MIT
 *
 * Opens a model beside mutated packed copies of it and runs a forward pass.  A packed copy only saves time: whatever it
 * holds, the model opens and runs, and where its sums are compared, or only its header was touched, the logits are
 * those without it.  (The container's parser has its own test, tests/fuzz/gguf.)
 *
 *     fuzz_packed                300 inputs from number 1
 *     fuzz_packed --long         the 5,000 behind them
 *     fuzz_packed N [FIRST]      inputs FIRST .. FIRST + N - 1; input numbers name inputs for good
 */
#include "fuzz/fuzz.h"
#include "lutra.h"

enum { N_TOK = 3, MAX_VOCAB = 4096, SECONDS_PER_INPUT = 20 };

static struct {
    char model[96], packed[128];
    uint8_t *bytes; /* of the good packed copy */
    size_t n, header;
    lutra_runtime *rt;
    bool left_out, damaged; /* the last open said so: of the file, of a copy */
    float want[MAX_VOCAB];
    int n_vocab;
} run;

static void on_log(void *user, enum lutra_log_level level, const char *line)
{
    (void)user;
    if (level != LUTRA_LOG_WARN || !strstr(line, run.packed)) return;
    run.damaged |= strstr(line, "is damaged; packed from the model") != NULL;
    run.left_out |= strstr(line, "; left out") || strstr(line, ": 0 of "); /* a copy used in part warns, too */
}

static void save(const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(run.packed, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) fuzz_fail("cannot write: %s", run.packed);
}

/* Logits behind N_TOK tokens of the model, opened beside whatever lies at run.packed. */
static void forward(float logits[MAX_VOCAB], bool check)
{
    struct lutra_error err = {0};
    lutra_model *m;
    lutra_session *s;
    struct lutra_session_settings set;
    lutra_session_settings_init(&set, sizeof set);
    struct lutra_row row[N_TOK] = {{0}};
    int32_t seq;
    struct lutra_model_settings open;
    lutra_model_settings_init(&open, sizeof open);
    set.n_ctx = 64;
    open.check_packed = check;
    run.left_out = run.damaged = false;
    if (lutra_model_open(&m, run.rt, run.model, &open, &err) < 0) fuzz_fail("the model does not open: %s", err.what);
    struct lutra_model_info info;
    lutra_model_info_get(m, &info, sizeof info);
    run.n_vocab = info.n_vocab < MAX_VOCAB ? info.n_vocab : MAX_VOCAB;
    if (lutra_session_open(&s, m, &set, &err) < 0) fuzz_fail("session: %s", err.what);
    if (lutra_seq_open(s, N_TOK, &seq, &err) < 0) fuzz_fail("sequence: %s", err.what);
    for (int i = 0; i < N_TOK; i++)
        row[i] = (struct lutra_row){.token = 7 + i, .pos = i, .seq = seq, .parent = i - 1, .want = LUTRA_WANT_LOGITS};
    if (lutra_forward(s, row, N_TOK, sizeof *row, &err) < 0) fuzz_fail("forward pass: %s", err.what);
    memcpy(logits, lutra_forward_result(s, N_TOK - 1)->logits, (size_t)run.n_vocab * sizeof *logits);
    lutra_session_close(&s);
    lutra_model_close(&m);
}

/* The model, its logits, and the good packed copy; header: the bytes before the first copy. */
static void prepare(const char *folder)
{
    struct lutra_error err = {0};
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    struct lutra_make_model_settings ms;
    lutra_make_model_settings_init(&ms, sizeof ms);
    rs.n_threads = 2;
    rs.log = on_log;
    ms.shape = "tiny-qwen3-40";
    ms.n_layer = 1;
    snprintf(run.model, sizeof run.model, "%s/m.gguf", folder);
    snprintf(run.packed, sizeof run.packed, "%s%s", run.model, LUTRA_PACKED_SUFFIX);
    if (lutra_runtime_open(&run.rt, &rs, &err) < 0) fuzz_fail("runtime: %s", err.what);
    if (lutra_make_model(run.rt, run.model, &ms, &err) < 0) fuzz_fail("model: %s", err.what);
    forward(run.want, true);
    if (lutra_pack(run.rt, run.model, run.packed, NULL, &err) < 0) fuzz_fail("pack: %s", err.what);
    FILE *f = fopen(run.packed, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) fuzz_fail("cannot read: %s", run.packed);
    run.n = (size_t)ftell(f);
    run.bytes = malloc(run.n);
    rewind(f);
    if (!run.bytes || fread(run.bytes, 1, run.n, f) != run.n) fuzz_fail("cannot read: %s", run.packed);
    fclose(f);
    run.header = 4096; /* copies begin at a page */
}

static void hit(uint64_t *dice, uint8_t *b, size_t n)
{
    static const uint64_t EXTREME[] = {0, 1, 2, 4, 32, 4096, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 4095};
    size_t at = fuzz_roll(dice) % n, page = at / 4096 * 4096;
    switch (fuzz_roll(dice) % 5) {
    case 0: b[at] ^= (uint8_t)(1u << fuzz_roll(dice) % 8); break;
    case 1: b[at] = (uint8_t)fuzz_roll(dice); break;
    case 2: memset(b + page, 0, n - page < 4096 ? n - page : 4096); break; /* what a disk may do */
    default: {
        uint64_t v = fuzz_roll(dice) % 3 ? EXTREME[fuzz_roll(dice) % (sizeof EXTREME / sizeof *EXTREME)]
                                         : fuzz_roll(dice) % (2 * n);
        size_t width = fuzz_roll(dice) % 2 ? 4 : 8;
        if (at + width <= n) memcpy(b + at, &v, width);
    }
    }
}

/* False: nothing but the header was changed. */
static bool mutate(uint64_t *dice, uint8_t *b, size_t *n)
{
    bool data = fuzz_roll(dice) % 3 == 0;
    size_t room = data ? run.n : run.header;
    memcpy(b, run.bytes, run.n);
    *n = fuzz_roll(dice) % 8 ? run.n : fuzz_roll(dice) % run.n; /* cut short */
    if (room > *n) room = *n;
    for (uint64_t i = fuzz_roll(dice) % 4; i + 1 > 0 && room > 0; i--) hit(dice, b, room);
    return data;
}

int main(int argc, char **argv)
{
    struct fuzz_inputs in = fuzz_begin(argc, argv, 300, 5000);
    static float logits[MAX_VOCAB];
    char folder[] = "/tmp/lutra-fuzz-packed-XXXXXX";
    uint64_t n_left_out = 0, n_used = 0, n_damaged = 0;
    if (!mkdtemp(folder)) fuzz_fail("folder: %s", folder);
    prepare(folder);
    size_t bytes = (size_t)run.n_vocab * sizeof *logits;
    forward(logits, true);
    if (run.left_out || run.damaged || memcmp(logits, run.want, bytes))
        fuzz_fail("the good copy: %s", "is not used, or gives other logits");
    uint8_t *b = malloc(run.n);
    if (!b) fuzz_fail("out of memory");
    for (fuzz_input = in.first; fuzz_input < in.first + in.n; fuzz_input++) {
        uint64_t dice = fuzz_input * 0x2545f4914f6cdd1du;
        size_t size;
        bool data = mutate(&dice, b, &size);
        save(b, size);
        fuzz_watch(SECONDS_PER_INPUT);
        forward(logits, data);
        fuzz_watch(0);
        if (memcmp(logits, run.want, bytes))
            fuzz_fail("other logits: %s", data ? "in spite of the sums" : "from the header");
        n_left_out += run.left_out;
        n_used += !run.left_out;
        n_damaged += run.damaged;
    }
    free(b);
    free(run.bytes);
    lutra_runtime_close(&run.rt);
    unlink(run.packed);
    unlink(run.model);
    rmdir(folder);
    printf("%llu inputs: %llu left out, %llu used, %llu of these in part\n", (unsigned long long)in.n,
        (unsigned long long)n_left_out, (unsigned long long)n_used, (unsigned long long)n_damaged);
    return fuzz_end(in, n_left_out && n_used && n_damaged);
}
