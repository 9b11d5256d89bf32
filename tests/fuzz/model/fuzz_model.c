/* SPDX-License-Identifier: MIT
 *
 * Files of every architecture, with MTP blocks, and LoRA adapters, with values of their metadata and headers of their
 * tensors changed in place: the model and its vocabulary open, or an error names the file.  Some of those that open are
 * run.  No crash, no hang (an alarm per input), and everything it lacks is told.
 *
 *     fuzz_model                2,000 inputs from number 1
 *     fuzz_model --long         100,000 other inputs
 *     fuzz_model N [FIRST]      inputs FIRST .. FIRST + N - 1; input numbers name inputs for good
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "engine/model_impl.h"
#include "fuzz/fuzz.h"
#include "lutra.h"
#include "make/make.h"
#include "model/vocab.h"
#include "mtp_block.h"

enum {
    SECONDS_PER_INPUT = 60,
    MAX_SEEDS = 72,
    RUN_EVERY = 2,
    N_ROW = 5,
    RANK = 4,
    MAX_PLACES = 20000,
    MAX_CHANGES = 4
};

/* Where a file keeps a value, a length, a shape or a letter of a name. */
struct place {
    uint32_t at;
    uint8_t bytes; /* 1, 4 or 8 */
    bool value;    /* of a key, rather than of the file's structure */
};

/* A model's file, kept in memory under a path. */
struct seed {
    char path[64], name[40];
    int fd;
    uint8_t *bytes;
    size_t n;
    struct place *place; /* [n_place] */
    int n_place, n_value;
    const struct seed *base; /* of an adapter: the model that it is for; or NULL */
    struct weights *weights; /* of such a model, unchanged */
};

static struct {
    uint64_t n_model, n_vocab, n_refused, n_ran, n_not_run;
    lutra_runtime *runtime;
} run;

/* ---- the places of a file ---- */

static uint64_t peek(const struct seed *s, size_t at)
{
    uint64_t v;
    memcpy(&v, s->bytes + at, sizeof v);
    return v;
}

static uint64_t note(struct seed *s, size_t *at, int bytes, bool value)
{
    uint64_t v = 0;
    memcpy(&v, s->bytes + *at, (size_t)bytes);
    if (s->n_place < MAX_PLACES) s->place[s->n_place++] = (struct place){(uint32_t)*at, (uint8_t)bytes, value};
    s->n_value += value;
    *at += (size_t)bytes;
    return v;
}

/* A length and a text, of which the first letter is a place, too. */
static void note_text(struct seed *s, size_t *at, bool value)
{
    uint64_t n = note(s, at, 8, false);
    size_t letter = *at;
    if (n > 0) note(s, &letter, 1, value);
    *at += n;
}

static void note_values(struct seed *s, size_t *at, uint64_t kind, uint64_t n)
{
    static const uint8_t width[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (uint64_t i = 0; i < n; i++) {
        bool noted = n <= 16 || i % 64 == 0;
        if (kind == GGUF_STRING && noted)
            note_text(s, at, true);
        else if (kind == GGUF_STRING)
            *at += 8 + peek(s, *at);
        else if (noted && width[kind] != 2)
            note(s, at, width[kind], true);
        else
            *at += width[kind];
    }
}

static void walk(struct seed *s)
{
    size_t at = 8;
    uint64_t n_tensor = note(s, &at, 8, false), n_kv = note(s, &at, 8, false);
    for (uint64_t i = 0; i < n_kv; i++) {
        uint64_t n = 1;
        note_text(s, &at, false);
        uint64_t kind = note(s, &at, 4, false);
        if (kind == GGUF_ARRAY) {
            kind = note(s, &at, 4, false);
            n = note(s, &at, 8, false);
        }
        note_values(s, &at, kind, n);
    }
    for (uint64_t i = 0; i < n_tensor; i++) {
        note_text(s, &at, false);
        uint64_t n_dim = note(s, &at, 4, false);
        for (uint64_t k = 0; k < n_dim; k++) note(s, &at, 8, true);
        note(s, &at, 4, true);
        note(s, &at, 8, false);
    }
}

/* The file's bytes into memory; it is unlinked. */
static void keep(struct seed *s, const char *made)
{
    FILE *f = fopen(made, "rb");
    fseek(f, 0, SEEK_END);
    s->n = (size_t)ftell(f);
    rewind(f);
    s->fd = memfd_create(s->name, MFD_CLOEXEC);
    if (s->fd < 0 || ftruncate(s->fd, (off_t)s->n) < 0) fuzz_fail("no memory for a seed");
    s->bytes = mmap(NULL, s->n, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (s->bytes == MAP_FAILED || fread(s->bytes, 1, s->n, f) != s->n) fuzz_fail("cannot read a seed");
    fclose(f);
    unlink(made);
    snprintf(s->path, sizeof s->path, "/proc/self/fd/%d", s->fd);
    s->place = calloc(MAX_PLACES, sizeof *s->place);
    walk(s);
}

static void open_seed(struct seed *s, const char *shape, const char *folder, bool mtp)
{
    struct lutra_error err;
    struct weights_make_settings set = weights_make_default();
    char made[160];
    set.shape = shape;
    set.type = QUANT_F16;
    set.n_layer = mtp ? 4 : 2;
    snprintf(s->name, sizeof s->name, "%s%s", shape, mtp ? "+mtp" : "");
    snprintf(made, sizeof made, "%s/%s.gguf", folder, shape);
    if (weights_make_model(made, &set, &err) < 0) fuzz_fail("%s", err.what);
    if (mtp) add_mtp_block(made, &(struct mtp_form){0});
    keep(s, made);
}

/* For every matrix of the base's first layer, of zeros. */
static void open_adapter(struct seed *s, struct seed *base, const char *folder)
{
    static const uint8_t zero[1 << 20];
    struct lutra_error err;
    struct gguf_writer *w;
    struct gguf_str arch = {"", 0};
    char made[160], name[128], text[64];
    if (weights_open(&base->weights, base->path, &err) < 0) fuzz_fail("%s", err.what);
    weights_opt_str(base->weights, "general.architecture", &arch, &err);
    snprintf(text, sizeof text, "%.*s", (int)arch.n, arch.s);
    snprintf(s->name, sizeof s->name, "adapter of %.24s", base->name);
    snprintf(made, sizeof made, "%s/adapter.gguf", folder);
    if (gguf_writer_open(&w, made, &err) < 0) fuzz_fail("%s", err.what);
    gguf_writer_put_str(w, "general.type", "adapter");
    gguf_writer_put_str(w, "adapter.type", "lora");
    gguf_writer_put_str(w, "general.architecture", text);
    gguf_writer_put_f32(w, "adapter.lora.alpha", 8);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < weights_tensor_count(base->weights); i++) {
            const struct tensor *t = weights_tensor_at(base->weights, i);
            if (t->n_dim < 2 || (!strstr(t->name, ".attn_q.") && !strstr(t->name, ".ffn_up"))) continue;
            for (int b = 0; b < 2; b++) {
                int64_t ne[3] = {b ? RANK : t->ne[0], b ? t->ne[1] : RANK, t->ne[2]};
                snprintf(name, sizeof name, "%s.lora_%c", t->name, b ? 'b' : 'a');
                if (pass == 0)
                    gguf_writer_add_tensor(w, name, QUANT_F16, t->n_dim, ne);
                else
                    gguf_writer_data(w, zero, (size_t)(ne[0] * ne[1] * ne[2]) * 2);
            }
        }
    if (gguf_writer_commit(&w, &err) < 0) fuzz_fail("%s", err.what);
    keep(s, made);
    s->base = base;
}

/* ---- one input ---- */

static uint64_t other_value(uint64_t *dice, uint64_t old)
{
    static const uint64_t odd[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 33, 63, 64, 65, 100, 127, 128, 255, 256, 257,
        511, 513, 1000, 4096, 65535, 65536, 1u << 20, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fc00000, 0xff800000,
        0x7f800000, 0xbf800000, 0x3f800000, 0x00800000, 0x7f7fffff, UINT64_MAX, (uint64_t)1 << 62, (uint64_t)1 << 40};
    uint64_t how = fuzz_roll(dice) % 6;
    if (how < 3) return odd[fuzz_roll(dice) % (sizeof odd / sizeof *odd)];
    return how == 3   ? old ^ (uint64_t)1 << fuzz_roll(dice) % 32
           : how == 4 ? old + fuzz_roll(dice) % 9 - 4
                      : fuzz_roll(dice);
}

static void told(void *user, const char *sentence)
{
    *(int *)user += sentence && *sentence;
}

static void check_error(const struct seed *s, const struct lutra_error *err, int rc)
{
    if (err->code != rc || strncmp(err->what, s->path, strlen(s->path)) != 0) {
        fprintf(stderr, "%s: '%s'\n", s->name, err->what);
        fuzz_fail("an error that does not name the file");
    }
    run.n_refused++;
}

/* A pass over a few rows of a file that opens, whatever comes of it. */
static void run_file(const struct seed *s)
{
    struct lutra_model_settings ms;
    struct lutra_session_settings ss;
    const struct lutra_adapter adapter = {.path = s->path, .scale = 1};
    struct lutra_row row[N_ROW];
    lutra_model *m = NULL;
    lutra_session *session = NULL;
    int32_t seq;
    lutra_model_settings_init(&ms, sizeof ms);
    lutra_session_settings_init(&ss, sizeof ss);
    if (s->base) ms.adapter = &adapter, ms.n_adapter = 1;
    ms.expert_ram = fuzz_input % 3 ? -1 : 100000;
    ss.n_ctx = 64;
    ss.n_batch = 8;
    int rc = lutra_model_open(&m, run.runtime, s->base ? s->base->path : s->path, &ms, NULL);
    if (rc == 0) rc = lutra_session_open(&session, m, &ss, NULL);
    if (rc == 0) rc = lutra_seq_open(session, 0, &seq, NULL);
    for (int i = 0; i < N_ROW; i++)
        row[i] = (struct lutra_row){i + 5, i, seq, i - 1, i == N_ROW - 1 ? LUTRA_WANT_HIDDEN : 0, 0};
    if (rc == 0) rc = lutra_forward(session, row, N_ROW, sizeof *row, NULL);
    *(rc == 0 ? &run.n_ran : &run.n_not_run) += 1;
    lutra_session_close(&session);
    lutra_model_close(&m);
}

/* Of a model that has one. */
static void try_block(const struct seed *s, struct model *m)
{
    struct model *block;
    struct lutra_error err = {0};
    if (!model_hparams(m)->n_draft_layer) return;
    int rc = model_open_nextn(&block, m, &err);
    if (rc < 0) check_error(s, &err, rc);
    model_close(&block);
}

/* A model with the adapter of a file that opens. */
static void try_adapter(const struct seed *s)
{
    struct weights *w;
    struct model *m;
    struct lutra_error err = {0};
    int rc = weights_open(&w, s->path, &err);
    if (rc == 0) rc = model_open_adapted(&m, s->base->weights, &(struct model_adapter){w, 1}, 1, &err);
    if (rc < 0) check_error(s, &err, rc);
    run.n_model += rc == 0;
    run.n_vocab += rc == 0;
    if (w) model_close(&m);
    weights_close(&w);
    if (rc == 0 && fuzz_input % RUN_EVERY == 0) run_file(s);
}

/* The model and the vocabulary of a file that opens. */
static void try_file(const struct seed *s)
{
    if (s->base) {
        try_adapter(s);
        return;
    }
    struct weights *w;
    struct model *m;
    struct text_vocab *vocab;
    struct lutra_error err = {0};
    int n_told = 0, rc = weights_open(&w, s->path, &err);
    if (rc < 0) {
        check_error(s, &err, rc);
        return;
    }
    rc = model_open(&m, w, &err);
    if (rc < 0) check_error(s, &err, rc);
    run.n_model += rc == 0;
    if (rc == 0) try_block(s, m);
    const bool opens = rc == 0;
    model_close(&m);
    model_tell_unsupported(w, told, &n_told);
    if ((rc < 0) != (n_told > 0)) fuzz_fail("refused in silence, or told without a reason");
    rc = vocab_read(&vocab, w, &err);
    if (rc < 0) check_error(s, &err, rc);
    run.n_vocab += rc == 0;
    text_vocab_close(&vocab);
    weights_close(&w);
    if (opens && fuzz_input % RUN_EVERY == 0) run_file(s);
}

static void try_input(struct seed *seed, int n_seed)
{
    uint64_t dice = fuzz_input * 0x2545f4914f6cdd1du;
    struct seed *s = &seed[fuzz_roll(&dice) % (uint64_t)n_seed];
    struct place changed[MAX_CHANGES];
    uint8_t old[MAX_CHANGES][8];
    int n = fuzz_roll(&dice) % 2 ? 1 : 1 + (int)(fuzz_roll(&dice) % MAX_CHANGES);
    bool values = fuzz_roll(&dice) % 4 != 0; /* mostly files whose structure is sound */
    for (int i = 0; i < n; i++) {
        do changed[i] = s->place[fuzz_roll(&dice) % (uint64_t)s->n_place];
        while (values && !changed[i].value);
        uint64_t v = 0;
        memcpy(old[i], s->bytes + changed[i].at, changed[i].bytes);
        memcpy(&v, old[i], changed[i].bytes);
        v = other_value(&dice, v);
        memcpy(s->bytes + changed[i].at, &v, changed[i].bytes);
    }
    fuzz_watch(SECONDS_PER_INPUT);
    try_file(s);
    fuzz_watch(0);
    while (n-- > 0) memcpy(s->bytes + changed[n].at, old[n], changed[n].bytes);
}

int main(int argc, char **argv)
{
    static struct seed seed[MAX_SEEDS];
    struct fuzz_inputs in = fuzz_begin(argc, argv, 2000, 100000);
    char folder[] = "/tmp/lutra-fuzz-model-XXXXXX";
    const char *shape;
    int n_seed = 0;
    static const char *const drafts[] = {"tiny-qwen35", "tiny-qwen35moe", "tiny-qwen3"}, *const adapted[] = {
                                                                                             "tiny-llama",
                                                                                             "tiny-qwen35",
                                                                                             "tiny-gemma4", "tiny-lfm2",
                                                                                             "tiny-qwen3moe"};
    struct lutra_runtime_settings rs;
    struct lutra_error err;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = 1;
    if (lutra_runtime_open(&run.runtime, &rs, &err) < 0) fuzz_fail("%s", err.what);
    if (!mkdtemp(folder)) fuzz_fail("no folder");
    for (int i = 0; (shape = lutra_make_model_shape(i)) && n_seed < MAX_SEEDS; i++)
        if (!strncmp(shape, "tiny-", 5)) open_seed(&seed[n_seed++], shape, folder, false);
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) open_seed(&seed[n_seed++], drafts[i], folder, true);
    for (size_t i = 0, n = (size_t)n_seed; i < n; i++)
        for (size_t k = 0; k < sizeof adapted / sizeof *adapted; k++)
            if (!strcmp(seed[i].name, adapted[k])) open_adapter(&seed[n_seed++], &seed[i], folder);
    rmdir(folder);
    for (int i = 0; i < n_seed; i++) try_file(&seed[i]);
    if (run.n_model != (uint64_t)n_seed || run.n_vocab != (uint64_t)n_seed) fuzz_fail("a seed does not open");
    for (fuzz_input = in.first; fuzz_input < in.first + in.n; fuzz_input++) try_input(seed, n_seed);
    printf("%llu inputs of %d files: %llu models and %llu vocabularies opened, %llu refusals; %llu run, %llu not\n",
        (unsigned long long)in.n, n_seed, (unsigned long long)run.n_model - (uint64_t)n_seed,
        (unsigned long long)run.n_vocab - (uint64_t)n_seed, (unsigned long long)run.n_refused,
        (unsigned long long)run.n_ran, (unsigned long long)run.n_not_run);
    lutra_runtime_close(&run.runtime);
    for (int i = 0; i < n_seed; i++) {
        weights_close(&seed[i].weights);
        munmap(seed[i].bytes, seed[i].n);
        close(seed[i].fd);
        free(seed[i].place);
    }
    return fuzz_end(in, run.n_model > (uint64_t)n_seed && run.n_refused);
}
