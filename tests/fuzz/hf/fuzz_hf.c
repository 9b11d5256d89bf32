/* SPDX-License-Identifier: MIT
 *
 * Opens folders of which one file was mutated, and touches everything in those that open.  Success or an error each
 * time: no crash, no hang (an alarm per input), no leak, and a heap bounded by the files' size.
 *
 *     fuzz_hf                2,000 inputs from seed 1
 *     fuzz_hf --long         100,000 other inputs
 *     fuzz_hf N [FIRST]      inputs FIRST .. FIRST + N - 1; input numbers name inputs for good
 */
#include <ctype.h>
#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"
#include "fuzz/heap.h"
#include "hf/write_folder.h"
#include "lutra.h"
#include "weights/mix.h"
#include "weights/make_model.h"

enum { SECONDS_PER_INPUT = 10, MAX_FILES = 8, MAX_FILE = 2 << 20, N_SEEDS = 5 };

/* Measured: at most 46 bytes for each of a file's, of JSON that is nothing but empty arrays. */
enum { HEAP_FIXED = 256 << 10, HEAP_PER_BYTE = 64 };

struct file {
    char name[64];
    uint8_t *bytes;
    size_t n;
};

struct seed {
    char folder[128];
    struct file file[MAX_FILES];
    int n_file;
    size_t bytes;
};

static struct {
    uint64_t n_open, n_format, n_unsupported, n_other, n_converted;
    size_t worst_heap;
    char folder[64];
} run;

/* ---- dice ---- */

static uint64_t state;

static size_t below(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)((state >> 33) % n) : 0;
}

/* ---- seeds ---- */

static void save(const char *folder, const char *name, const uint8_t *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(bytes, n, 1, f) != 1) || fclose(f) != 0) fuzz_fail("cannot write a file");
}

static void save_text(const char *folder, const char *name, const char *text)
{
    save(folder, name, (const uint8_t *)text, strlen(text));
}

static void read_back(struct seed *s)
{
    DIR *d = opendir(s->folder);
    if (!d) fuzz_fail("cannot read a seed");
    for (struct dirent *e; (e = readdir(d));) {
        char path[512];
        struct file *f = &s->file[s->n_file];
        if (e->d_name[0] == '.' || s->n_file == MAX_FILES) continue;
        snprintf(f->name, sizeof f->name, "%.60s", e->d_name);
        snprintf(path, sizeof path, "%s/%s", s->folder, f->name);
        FILE *in = fopen(path, "rb");
        f->bytes = malloc(MAX_FILE);
        if (!in || !f->bytes) fuzz_fail("cannot read a seed");
        f->n = fread(f->bytes, 1, MAX_FILE, in);
        fclose(in);
        s->bytes += f->n;
        s->n_file++;
    }
    closedir(d);
}

static void make_seed(struct seed *s, int i)
{
    static const char *const shapes[] = {"tiny-llama-24", "tiny-qwen3-40", "tiny-qwen2-16"};
    static const struct hf_form forms[] = {{2, false, true, false}, {1, true, false, false}, {1, false, false, true}};
    struct weights_make_settings set = weights_make_default();
    struct lutra_error err;
    struct weights *w;
    char made[128];
    set.shape = shapes[i];
    set.n_layer = 1;
    snprintf(made, sizeof made, "%s/made.gguf", run.folder);
    if (weights_make_model(made, &set, &err) < 0 || weights_open(&w, made, &err) < 0) fuzz_fail("%s", err.what);
    hf_write_folder(w, s->folder, &forms[i]);
    save_text(s->folder, "generation_config.json", "{\"eos_token_id\": [510, 509, 1], \"temperature\": 0.5}");
    if (i == 1) save_text(s->folder, "chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
    weights_close(&w);
    unlink(made);
}

/* SentencePiece's kind, without weights. */
static void make_vocabulary(const char *folder)
{
    save_text(folder, "config.json",
        "{\"architectures\":[\"GemmaForCausalLM\"],\"hidden_size\":64,\"num_attention_heads\":2,\"num_hidden_layers\":"
        "1,"
        "\"intermediate_size\":64,\"max_position_embeddings\":64,\"rms_norm_eps\":1e-6,\"head_dim\":32}");
    save_text(folder, "tokenizer_config.json",
        "{\"bos_token\":\"<s>\",\"unk_token\":{\"content\":\"<unk>\"},\"add_prefix_space\":true,"
        "\"chat_template\":[{\"name\":\"default\",\"template\":\"x\"},{\"name\":\"tool\",\"template\":\"y\"}]}");
    save_text(folder, "tokenizer.json",
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true},{\"id\":1,\"content\":\"<s>\","
        "\"special\":"
        "true},{\"id\":9,\"content\":\"▁▁\",\"special\":false}],\"normalizer\":{\"type\":\"Replace\",\"pattern\":{"
        "\"String\":\" \"},\"content\":\"▁\"},\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"}},"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{"
        "\"Sequence\":{\"id\":\"A\"}}]},\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\","
        "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"<0x0A>\":2,\"a\":3,\"b\":4,\"▁\":5,\"ab\":6,\"▁a\":7,\"▁ab\":8},"
        "\"merges\":[[\"a\",\"b\"],[\"▁\",\"a\"],[\"▁\",\"ab\"],[\"▁a\",\"b\"]]}}");
}

/* A layer that GPTQ has quantized, and embeddings: not a whole model, but weights_open does not ask for one. */
static void make_packed(const char *folder)
{
    static const char header[] =
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F16\",\"shape\":[8,32],\"data_offsets\":[0,512]},"
        "\"model.layers.0.mlp.up_proj.g_idx\":{\"dtype\":\"I32\",\"shape\":[32],\"data_offsets\":[512,640]},"
        "\"model.layers.0.mlp.up_proj.qweight\":{\"dtype\":\"I32\",\"shape\":[4,32],\"data_offsets\":[640,1152]},"
        "\"model.layers.0.mlp.up_proj.qzeros\":{\"dtype\":\"I32\",\"shape\":[1,4],\"data_offsets\":[1152,1168]},"
        "\"model.layers.0.mlp.up_proj.scales\":{\"dtype\":\"F16\",\"shape\":[1,32],\"data_offsets\":[1168,1232]}}";
    uint8_t file[sizeof header + 8 + 1232];
    uint64_t n = sizeof header - 1;
    uint8_t *data = file + 8 + n;
    memcpy(file, &n, 8);
    memcpy(file + 8, header, n);
    memset(data, 0x2c, 512);
    memset(data + 512, 0, 128);
    for (int i = 640; i < 1152; i++) data[i] = (uint8_t)(i * 37);
    memset(data + 1152, 0x77, 16);
    memset(data + 1168, 0x2c, 64);
    save(folder, "model.safetensors", file, 8 + n + 1232);
    make_vocabulary(folder);
    save_text(folder, "config.json",
        "{\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":32,\"num_attention_heads\":2,\"num_hidden_layers\":"
        "1,"
        "\"intermediate_size\":32,\"max_position_embeddings\":64,\"rms_norm_eps\":1e-6,\"tie_word_embeddings\":true,"
        "\"quantization_config\":{\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\"}}");
    save_text(folder, "tokenizer.json",
        "{\"added_tokens\":[],\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a "
        "b\"]}}");
}

static void make_seeds(struct seed seed[N_SEEDS])
{
    for (int i = 0; i < N_SEEDS; i++) {
        snprintf(seed[i].folder, sizeof seed[i].folder, "%s/%d", run.folder, i);
        if (mkdir(seed[i].folder, 0700) < 0) fuzz_fail("cannot make a folder");
        if (i == N_SEEDS - 1)
            make_vocabulary(seed[i].folder);
        else if (i == N_SEEDS - 2)
            make_packed(seed[i].folder);
        else
            make_seed(&seed[i], i);
        read_back(&seed[i]);
    }
}

/* ---- mutations ---- */

/* The span of a number, word or string that lies at or behind `at`, inside n bytes. */
static size_t value_at(const uint8_t *p, size_t n, size_t at, size_t *length)
{
    while (at < n && !isalnum(p[at]) && p[at] != '"') at++;
    size_t end = at + 1;
    if (at >= n) return n;
    if (p[at] == '"')
        while (end < n && p[end++] != '"') {
        }
    else
        while (end < n && (isalnum(p[end]) || p[end] == '.')) end++;
    *length = end - at;
    return at;
}

static size_t splice(uint8_t *p, size_t n, size_t at, size_t gone, const void *with, size_t come)
{
    if (n - gone + come > MAX_FILE - 8) return n; /* p may be behind a length */
    memmove(p + at + come, p + at + gone, n - at - gone);
    memcpy(p + at, with, come);
    return n - gone + come;
}

/* One change of the first `head` bytes, or of all where head is 0. */
static size_t mutate_once(uint8_t *p, size_t n, size_t head)
{
    static const char *const values[] = {"0", "-1", "1", "2147483648", "4294967296", "18446744073709551615", "1e39",
        "null", "true", "false", "[]", "{}", "\"\"", "\"x\"", "[[[[", "[[],[],[],[],[],[],[]]", "\"\\u0000\"",
        "\"\\ud800\"", "0.5", "9007199254740993"};
    uint8_t other[256];
    size_t end = head && head < n ? head : n, at = below(end), length = 0, n_other, from;
    const char *value = values[below(sizeof values / sizeof *values)];
    if (n == 0) return n;
    switch (below(12)) { /* values most of all: the other changes mostly end at JSON's grammar */
    case 0: p[at] ^= (uint8_t)(1 << below(8)); return n;
    case 1: p[at] = (uint8_t)below(256); return n;
    case 2: return splice(p, n, at, below(end - at < 40 ? end - at : 40), "", 0);
    case 3:
        n_other = end - at < sizeof other ? end - at : sizeof other;
        memcpy(other, p + at, n_other);
        return splice(p, n, below(end), 0, other, n_other);
    case 4: return below(4) ? n : at; /* cut short */
    case 5:                           /* a value by another one of this file */
    case 6:
    case 7:
        from = value_at(p, end, below(end), &n_other);
        if (from >= end || n_other > sizeof other) return n;
        memcpy(other, p + from, n_other);
        at = value_at(p, end, at, &length);
        return at < end ? splice(p, n, at, length, other, n_other) : n;
    default: /* or by one of the list */
        at = value_at(p, end, at, &length);
        return at < end ? splice(p, n, at, length, value, strlen(value)) : n;
    }
}

/* A safetensors file's header is mutated more than its data, and its length is set right again, mostly. */
static size_t mutate_tensors(uint8_t *p, size_t n)
{
    uint64_t length;
    memcpy(&length, p, 8);
    if (below(8) == 0) {
        p[below(8)] = (uint8_t)below(256);
        return n;
    }
    size_t after = 8 + mutate_once(p + 8, n - 8, (size_t)length);
    length += after - n;
    if (below(8)) memcpy(p, &length, 8);
    return after;
}

static size_t mutate(const struct file *f, uint8_t *p)
{
    size_t n = f->n;
    memcpy(p, f->bytes, n);
    bool is_tensors = strstr(f->name, ".safetensors") && !strstr(f->name, ".json");
    for (size_t k = 1 + below(3); k > 0; k--) n = is_tensors && n > 16 ? mutate_tensors(p, n) : mutate_once(p, n, 0);
    return n;
}

/* ---- one input ---- */

static volatile uint64_t sink; /* keeps the reads */

static void touch(const struct weights *w)
{
    for (size_t i = 0; i < weights_kv_count(w); i++) {
        const struct weights_kv *kv = weights_kv_at(w, i);
        for (uint64_t k = 0; kv->elem == WEIGHTS_STRING && k < kv->n; k++) {
            struct weights_str s = weights_kv_str(kv, k);
            for (size_t c = 0; c < s.n; c++) sink += (uint8_t)s.s[c];
        }
    }
    for (size_t i = 0; i < weights_tensor_count(w); i++) {
        const struct tensor *t = weights_tensor_at(w, i);
        weights_prefetch(w, t);
        weights_fetch(w, t);
        for (size_t k = 0; k < t->bytes; k++) sink += ((const uint8_t *)t->data)[k];
        weights_drop_pages(w, t);
    }
}

/* Now and then what opens is also described and quantized. */
static void use(const char *folder)
{
    char out[96], *text;
    struct lutra_error err;
    struct weights_quantize_settings q = weights_quantize_default();
    if (fuzz_input % 4 == 0 && lutra_inspect(folder, &text, &err) == 0) lutra_free(text);
    if (fuzz_input % 16) return;
    q.mix = weights_mix_of(QUANT_Q8_0);
    snprintf(out, sizeof out, "%s/out.gguf", run.folder);
    if (weights_quantize_file(folder, out, &q, &err) < 0) return;
    run.n_converted++;
    unlink(out);
}

static void try_folder(const char *folder, size_t bytes)
{
    struct weights *w;
    struct lutra_error err = {0};
    size_t before = heap_now();
    heap_reset_peak();
    alarm(SECONDS_PER_INPUT);
    int rc = weights_open(&w, folder, &err);
    size_t used = heap_peak() - before;
    if (used > run.worst_heap) run.worst_heap = used;
    if (used > HEAP_FIXED + HEAP_PER_BYTE * bytes) fuzz_fail("too much heap");
    if (rc == 0) {
        run.n_open++;
        touch(w);
        weights_close(&w);
        use(folder);
    } else {
        if (err.code != rc || strncmp(err.what, folder, strlen(folder)) != 0)
            fuzz_fail("an error without its description");
        run.n_format += rc == LUTRA_E_FORMAT;
        run.n_unsupported += rc == LUTRA_E_UNSUPPORTED;
        run.n_other += rc != LUTRA_E_FORMAT && rc != LUTRA_E_UNSUPPORTED;
    }
    alarm(0);
    if (heap_now() != before) fuzz_fail("a leak");
}

static void remove_all(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", run.folder);
    if (system(command) != 0) fuzz_fail("cannot tidy up");
}

int main(int argc, char **argv)
{
    static uint8_t bytes[MAX_FILE];
    static struct seed seed[N_SEEDS];
    struct fuzz_inputs in = fuzz_begin(argc, argv, 2000, 100000);
    json_set_alloc_funcs(malloc, free); /* these are the counted ones */
    snprintf(run.folder, sizeof run.folder, "%s/lutra-fuzz-hf-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(run.folder)) fuzz_fail("cannot make a folder");
    make_seeds(seed);
    for (int i = 0; i < N_SEEDS; i++) try_folder(seed[i].folder, seed[i].bytes);
    if (run.n_open != N_SEEDS) fuzz_fail("a seed does not open");
    for (fuzz_input = in.first; fuzz_input < in.first + in.n; fuzz_input++) {
        struct seed *s = &seed[fuzz_input % N_SEEDS];
        state = fuzz_input * 0x2545f4914f6cdd1du;
        const struct file *f = &s->file[below((size_t)s->n_file)];
        size_t size = mutate(f, bytes);
        save(s->folder, f->name, bytes, size);
        try_folder(s->folder, s->bytes - f->n + size);
        save(s->folder, f->name, f->bytes, f->n);
    }
    for (int i = 0; i < N_SEEDS; i++)
        for (int k = 0; k < seed[i].n_file; k++) free(seed[i].file[k].bytes);
    remove_all();
    printf("%llu inputs: %llu opened (%llu also quantized), %llu malformed, %llu unsupported, %llu other; "
           "largest heap %zu KiB\n",
        (unsigned long long)in.n, (unsigned long long)run.n_open - N_SEEDS, (unsigned long long)run.n_converted,
        (unsigned long long)run.n_format, (unsigned long long)run.n_unsupported, (unsigned long long)run.n_other,
        run.worst_heap / 1024);
    return run.n_open > N_SEEDS && run.n_format && run.n_unsupported ? 0 : 1;
}
