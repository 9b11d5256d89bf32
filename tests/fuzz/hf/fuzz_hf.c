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
#include "quantize/mix.h"
#include "make/make.h"

enum { SECONDS_PER_INPUT = 60, MAX_FILES = 12, MAX_FILE = 8 << 20, STRIDE = 64 };

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
    uint64_t n_open, n_format, n_unsupported, n_other, n_converted, n_sorted;
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

/* The files of the seed's folder `inner`; "": itself. */
static void read_back(struct seed *s, const char *inner)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", s->folder, inner);
    DIR *d = opendir(path);
    if (!d) fuzz_fail("cannot read a seed");
    for (struct dirent *e; (e = readdir(d));) {
        struct file *f = &s->file[s->n_file];
        if (e->d_name[0] == '.') continue;
        if (s->n_file == MAX_FILES) fuzz_fail("a seed of more files than expected");
        snprintf(f->name, sizeof f->name, "%.20s%.40s", inner, e->d_name);
        if (e->d_type == DT_DIR) {
            strcat(f->name, "/");
            read_back(s, strcpy(path, f->name));
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", s->folder, f->name);
        FILE *in = fopen(path, "rb");
        f->bytes = malloc(MAX_FILE);
        if (!in || !f->bytes) fuzz_fail("cannot read a seed");
        f->n = fread(f->bytes, 1, MAX_FILE, in);
        if (f->n == MAX_FILE) fuzz_fail("a seed of a larger file than expected");
        f->bytes = realloc(f->bytes, f->n + 1);
        fclose(in);
        s->bytes += f->n;
        s->n_file++;
    }
    closedir(d);
}

/* One or two layers of every kind of folder. */
static const struct {
    const char *shape;
    int n_layer;
    struct hf_form form;
} floats[] = {
    {"tiny-llama-24", 1, {.n_shard = 2, .merge_pairs = true}},
    {"tiny-qwen3-40", 1, {.n_shard = 1, .rope_v5 = true}},
    {"tiny-qwen2-16", 1, {.n_shard = 1, .text_config = true}},
    {"tiny-qwen35", 1, {.n_shard = 1, .text_config = true}},
    {"tiny-qwen35moe", 1, {.n_shard = 1, .together = true}},
    {"tiny-qwen3moe", 1, {.n_shard = 1}},
    {"tiny-gemma4", 2, {.n_shard = 1, .text_config = true}},
    {"tiny-gemma4-moe", 1, {.n_shard = 1}},
    {"tiny-gpt-oss", 1, {.n_shard = 1, .rope_v5 = true}},
    {"tiny-lfm2", 2, {.n_shard = 1}},
    {"tiny-lfm2moe", 2, {.n_shard = 1}},
    {"tiny-granitehybrid", 2, {.n_shard = 1, .rope_v5 = true}},
    {"tiny-granitehybrid-moe", 1, {.n_shard = 1}},
    {"tiny-granite", 1, {.n_shard = 1, .granite4 = true}},
    {"tiny-granitemoe-shared", 1, {.n_shard = 1}},
    {"tiny-bert", 1, {.n_shard = 1}},
    {"tiny-nomic-bert", 1, {.n_shard = 1}},
    {"tiny-gemma-embedding", 1, {.n_shard = 1}},
    {"tiny-qwen3-embedding", 1, {.n_shard = 1}},
};

static void make_seed(struct seed *s, int i)
{
    struct weights_make_settings set = weights_make_default();
    struct lutra_error err;
    struct weights *w;
    char made[128];
    set.shape = floats[i].shape;
    set.n_layer = floats[i].n_layer;
    set.type = i % 3 ? QUANT_BF16 : QUANT_F16;
    snprintf(made, sizeof made, "%s/made.gguf", run.folder);
    if (weights_make_model(made, &set, &err) < 0 || weights_open(&w, made, &err) < 0) fuzz_fail("%s", err.what);
    hf_write_folder(w, s->folder, &floats[i].form);
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

/* A tensor of a quantized layer, `fill` in every byte or number of 64 bits; 1: codes; 2: the numbers 0 and 1 in
 * turn. */
struct part {
    const char *suffix, *dtype;
    int rows, columns; /* columns 0: one dimension */
    uint8_t fill;
};

/* Layers that others have quantized, one each, of `k` inputs. */
static const struct packed {
    const char *says;
    int k;
    struct part part[5];
} packed[] = {
    {"\"quant_method\":\"gptq\",\"checkpoint_format\":\"gptq_v2\"", 32,
        {{"g_idx", "I32", 32, 0, 0}, {"qweight", "I32", 4, 32, 1}, {"qzeros", "I32", 1, 4, 0x77},
            {"scales", "F16", 1, 32, 0x2c}}},
    {"\"quant_method\":\"gptq\",\"desc_act\":true,\"lutra_zeros\":\"v2\"", 64,
        {{"g_idx", "I32", 64, 0, 2}, {"qweight", "I32", 8, 32, 1}, {"qzeros", "I32", 2, 4, 0x77},
            {"scales", "F16", 2, 32, 0x2c}}},
    {"\"quant_method\":\"gptq\",\"bits\":3,\"lutra_zeros\":\"v2\"", 64,
        {{"qweight", "I32", 6, 32, 1}, {"qzeros", "I32", 2, 3, 0xdb}, {"scales", "F16", 2, 32, 0x2c}}},
    {"\"quant_method\":\"gptq\",\"lutra_zeros\":\"v2\"", 64, /* EfficientQAT's 3 bits */
        {{"g_idx", "I32", 64, 0, 0}, {"qweight", "I32", 7, 32, 1}, {"qzeros", "I32", 1, 4, 0x24},
            {"scales", "F16", 1, 32, 0x2c}}},
    {"\"quant_method\":\"awq\",\"version\":\"gemm\"", 32,
        {{"qweight", "I32", 32, 4, 1}, {"qzeros", "I32", 1, 4, 0x77}, {"scales", "F16", 1, 32, 0x2c}}},
    {"\"quant_method\":\"auto-round\",\"packing_format\":\"auto_round:auto_awq\"", 64,
        {{"qweight", "I32", 64, 4, 1}, {"qzeros", "I32", 2, 4, 0x77}, {"scales", "BF16", 2, 32, 0x3c}}},
    {"\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"", 32,
        {{"weight_g_idx", "I32", 32, 0, 0}, {"weight_packed", "I32", 32, 4, 1}, {"weight_scale", "BF16", 32, 1, 0x3c},
            {"weight_shape", "I64", 2, 0, 32}, {"weight_zero_point", "I32", 4, 1, 0x77}}},
    {"\"quant_method\":\"bitnet\",\"linear_class\":\"autobitlinear\"", 64,
        {{"weight", "U8", 8, 64, 1}, {"weight_scale", "BF16", 1, 0, 0x3c}}},
};
enum { N_PACKED = sizeof packed / sizeof *packed };

/* Codes are any bytes, or pairs of bits, 0 or 1 (BitNet's, of which 3 would be none). */
static void fill_part(uint8_t *to, size_t n, const struct part *p)
{
    for (size_t i = 0; i < n; i++)
        to[i] = p->fill == 1 ? (uint8_t)(i * 37 & (p->dtype[0] == 'U' ? 0x55 : 0xff)) : p->fill;
    for (size_t i = 0; p->dtype[1] == '6' && i < n; i++) to[i] = i % 8 ? 0 : p->fill;
    for (size_t i = 0; p->fill == 2 && i < n; i++) to[i] = i % 8 == 4;
}

/* A layer, and embeddings: not a whole model, but weights_open does not ask for one. */
static void make_packed(const char *folder, const struct packed *as)
{
    static uint8_t data[4096], file[8192];
    char header[2048], text[1024];
    size_t at = (size_t)as->k * 16;
    memset(data, 0x2c, at);
    int n = snprintf(header, sizeof header,
        "{\"model.embed_tokens.weight\":{\"dtype\":\"F16\",\"shape\":[8,%d],\"data_offsets\":[0,%zu]}", as->k, at);
    for (const struct part *p = as->part; p < as->part + 5 && p->suffix; p++) {
        static const struct {
            const char *dtype;
            size_t bytes;
        } size[] = {{"I32", 4}, {"I64", 8}, {"F16", 2}, {"BF16", 2}, {"U8", 1}};
        size_t bytes = (size_t)p->rows * (size_t)(p->columns ? p->columns : 1), i = 0;
        while (strcmp(size[i].dtype, p->dtype) != 0) i++;
        bytes *= size[i].bytes;
        fill_part(data + at, bytes, p);
        n += snprintf(header + n, sizeof header - (size_t)n,
            ",\"model.layers.0.mlp.up_proj.%s\":{\"dtype\":\"%s\",\"shape\":[%d%s%.0d],\"data_offsets\":[%zu,%zu]}",
            p->suffix, p->dtype, p->rows, p->columns ? "," : "", p->columns, at, at + bytes);
        at += bytes;
    }
    header[n++] = '}';
    memcpy(file, &(uint64_t){(uint64_t)n}, 8);
    memcpy(file + 8, header, (size_t)n);
    memcpy(file + 8 + n, data, at);
    save(folder, "model.safetensors", file, 8 + (size_t)n + at);
    make_vocabulary(folder);
    snprintf(text, sizeof text,
        "{\"architectures\":[\"Qwen2ForCausalLM\"],\"hidden_size\":%d,\"num_attention_heads\":2,"
        "\"num_hidden_layers\":1,\"intermediate_size\":32,\"max_position_embeddings\":64,\"rms_norm_eps\":1e-6,"
        "\"tie_word_embeddings\":true,\"quantization_config\":{%s}}",
        as->k, as->says);
    save_text(folder, "config.json", text);
    save_text(folder, "tokenizer.json",
        "{\"added_tokens\":[],\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a "
        "b\"]}}");
}

enum { N_FLOAT = sizeof floats / sizeof *floats, N_SEEDS = N_FLOAT + N_PACKED + 1 };

static void make_seeds(struct seed seed[N_SEEDS])
{
    for (int i = 0; i < N_SEEDS; i++) {
        snprintf(seed[i].folder, sizeof seed[i].folder, "%s/%d", run.folder, i);
        if (mkdir(seed[i].folder, 0700) < 0) fuzz_fail("cannot make a folder");
        if (i < N_FLOAT)
            make_seed(&seed[i], i);
        else if (i < N_FLOAT + N_PACKED)
            make_packed(seed[i].folder, &packed[i - N_FLOAT]);
        else
            make_vocabulary(seed[i].folder);
        read_back(&seed[i], "");
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
        const struct gguf_kv *kv = weights_kv_at(w, i);
        for (uint64_t k = 0; kv->elem == GGUF_STRING && k < kv->n; k++) {
            struct gguf_str s = gguf_kv_str(kv, k);
            for (size_t c = 0; c < s.n; c++) sink += (uint8_t)s.s[c];
        }
    }
    for (size_t i = 0; i < weights_tensor_count(w); i++) {
        const struct tensor *t = weights_tensor_at(w, i);
        weights_prefetch(w, t);
        weights_fetch(w, t);
        for (size_t k = 0; k < t->bytes; k += STRIDE) sink += ((const uint8_t *)t->data)[k];
        if (t->bytes) sink += ((const uint8_t *)t->data)[t->bytes - 1];
        weights_drop_pages(w, t);
        const int32_t *order = weights_order(w, t);
        for (int64_t k = 0; order && k < t->ne[0]; k++)
            if (order[k] < 0 || order[k] >= t->ne[0]) fuzz_fail("an order beyond the inputs");
        run.n_sorted += order != NULL;
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
    fuzz_watch(SECONDS_PER_INPUT);
    int rc = weights_open_as(&w, folder, (struct weights_how){.sorted = fuzz_input / N_SEEDS % 2}, &err);
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
    fuzz_watch(0);
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
    return fuzz_end(in, run.n_open > N_SEEDS && run.n_format && run.n_unsupported && run.n_sorted);
}
