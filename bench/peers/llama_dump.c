/* SPDX-License-Identifier: MIT */
/* llama_dump: what an installed libllama computes, as numbers to compare Lutra with.
 *
 *   llama_dump -m model.gguf -o out.lgts [options] < ids      f32 logits of every position, teacher-forced
 *   llama_dump -m model.gguf --greedy 200 [options] < ids     free-running argmax; one line of new ids per input line
 *   llama_dump -m model.gguf --tokenize < texts               texts ended by NUL bytes; one line of ids per text
 *
 * stdin: one sequence of token ids per line, blanks between ids.  Each sequence starts from an empty cache.
 * --greedy stops after n ids or after an end-of-generation token, which is printed too; among equal logits the
 * lowest id wins.  --tokenize parses special tokens and adds none of its own.
 *
 * Options (defaults): -t threads (2); --lora adapter.gguf; --kv f32|f16 cache type of K and V (f32);
 * -fa on|off flash attention (off);
 * --rows n rows per decode call (512; 1 walks the decode path, one token at a time); --no-repack keeps the file's
 * weight layout, so that libllama uses its plain kernels.
 *
 * The logits file, little-endian:  char magic[4] "LGT1"; u32 n_vocab; u32 n_seq; u32 n_tok[n_seq];
 * then per sequence f32 logits[n_tok][n_vocab], the row of token i being the prediction of token i+1.
 *
 * README.md beside this file says how to compile it.  A tool of the benchmarks, not part of the library: it prints
 * and exits as it likes.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-backend.h>
#include <llama.h>

enum dump_mode { MODE_LOGITS, MODE_GREEDY, MODE_TOKENIZE };

struct dump_args {
    const char *model;
    const char *out;
    const char *lora; /* an adapter, or NULL */
    enum dump_mode mode;
    int n_greedy;
    int n_threads;
    int n_rows;
    enum ggml_type kv;
    bool flash;
    bool repack;
};

/* All input sequences, ids back to back: sequence s is ids[start[s]] .. ids[start[s + 1] - 1]. */
struct seq_list {
    llama_token *ids;
    size_t n_id, cap_id;
    size_t *start; /* [n_seq + 1] */
    size_t n_seq, cap_seq;
    size_t n_longest;
};

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "llama_dump: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    exit(1);
}

static void *grow(void *p, size_t *cap, size_t need, size_t item_bytes)
{
    if (need <= *cap) return p;
    *cap = need < 64 ? 64 : need * 2;
    p = realloc(p, *cap * item_bytes);
    if (!p) die("out of memory", NULL);
    return p;
}

/* Reads up to and including the byte end; false at the end of input.  *text is NUL-terminated and reused. */
static bool next_record(int end, char **text, size_t *cap, size_t *n_bytes)
{
    size_t n = 0;
    int c;
    while ((c = getchar()) != EOF && c != end) {
        *text = grow(*text, cap, n + 2, 1);
        (*text)[n++] = (char)c;
    }
    *text = grow(*text, cap, n + 1, 1);
    (*text)[n] = '\0';
    *n_bytes = n;
    return c != EOF || n > 0;
}

static void add_line(struct seq_list *l, const char *line, int n_vocab)
{
    for (char *end;; line = end) {
        long id = strtol(line, &end, 10);
        if (end == line) break;
        if (id < 0 || id >= n_vocab) die("token id outside the vocabulary", line);
        l->ids = grow(l->ids, &l->cap_id, l->n_id + 1, sizeof *l->ids);
        l->ids[l->n_id++] = (llama_token)id;
    }
    if (line[strspn(line, " \t\r")] != '\0') die("not a token id", line);
    size_t n_tok = l->n_id - l->start[l->n_seq];
    if (n_tok == 0) die("a line without token ids", NULL);
    if (n_tok > l->n_longest) l->n_longest = n_tok;
    l->n_seq++;
    l->start = grow(l->start, &l->cap_seq, l->n_seq + 1, sizeof *l->start);
    l->start[l->n_seq] = l->n_id;
}

static void read_seqs(struct seq_list *l, int n_vocab)
{
    char *line = NULL;
    size_t cap = 0, n_bytes;
    l->start = grow(NULL, &l->cap_seq, 1, sizeof *l->start);
    l->start[0] = 0;
    while (next_record('\n', &line, &cap, &n_bytes)) add_line(l, line, n_vocab);
    free(line);
    if (l->n_seq == 0) die("no sequences on stdin", NULL);
}

/* Feeds ids[n_tok] at positions pos..; every row's logits are kept by libllama until the next call. */
static void decode(
    struct llama_context *ctx, struct llama_batch *batch, const llama_token *ids, size_t n_tok, size_t pos)
{
    batch->n_tokens = (int32_t)n_tok;
    for (size_t i = 0; i < n_tok; i++) {
        batch->token[i] = ids[i];
        batch->pos[i] = (llama_pos)(pos + i);
        batch->n_seq_id[i] = 1;
        batch->seq_id[i][0] = 0;
        batch->logits[i] = 1;
    }
    if (llama_decode(ctx, *batch) != 0) die("llama_decode failed", NULL);
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void put_u32(FILE *f, size_t value)
{
    unsigned char b[4] = {value & 255, value >> 8 & 255, value >> 16 & 255, value >> 24 & 255};
    fwrite(b, 1, sizeof b, f);
}

static void dump_logits(struct llama_context *ctx, struct llama_batch *batch, const struct dump_args *a,
    const struct seq_list *l, int n_vocab)
{
    FILE *f = fopen(a->out, "wb");
    if (!f) die("cannot write", a->out);
    fwrite("LGT1", 1, 4, f);
    put_u32(f, (size_t)n_vocab);
    put_u32(f, l->n_seq);
    for (size_t s = 0; s < l->n_seq; s++) put_u32(f, l->start[s + 1] - l->start[s]);
    for (size_t s = 0; s < l->n_seq; s++) {
        size_t n_tok = l->start[s + 1] - l->start[s];
        llama_memory_clear(llama_get_memory(ctx), true);
        for (size_t pos = 0; pos < n_tok; pos += (size_t)a->n_rows) {
            size_t n = min_size((size_t)a->n_rows, n_tok - pos);
            decode(ctx, batch, l->ids + l->start[s] + pos, n, pos);
            for (size_t i = 0; i < n; i++)
                fwrite(llama_get_logits_ith(ctx, (int32_t)i), sizeof(float), (size_t)n_vocab, f);
        }
    }
    if (ferror(f) || fclose(f) != 0) die("writing failed", a->out);
}

static llama_token argmax(const float *logits, int n_vocab)
{
    int best = 0;
    for (int i = 1; i < n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static void run_greedy(struct llama_context *ctx, struct llama_batch *batch, const struct dump_args *a,
    const struct seq_list *l, const struct llama_vocab *vocab)
{
    for (size_t s = 0; s < l->n_seq; s++) {
        const llama_token *ids = l->ids + l->start[s];
        size_t n_tok = l->start[s + 1] - l->start[s], last = 0;
        llama_memory_clear(llama_get_memory(ctx), true);
        for (size_t pos = 0; pos < n_tok; pos += (size_t)a->n_rows) {
            last = min_size((size_t)a->n_rows, n_tok - pos);
            decode(ctx, batch, ids + pos, last, pos);
        }
        for (int i = 0; i < a->n_greedy; i++) {
            llama_token id = argmax(llama_get_logits_ith(ctx, (int32_t)last - 1), llama_vocab_n_tokens(vocab));
            printf("%s%d", i ? " " : "", id);
            if (llama_vocab_is_eog(vocab, id) || i + 1 == a->n_greedy) break;
            decode(ctx, batch, &id, 1, n_tok + (size_t)i);
            last = 1;
        }
        printf("\n");
        fflush(stdout);
    }
}

static void run_tokenize(const struct llama_vocab *vocab)
{
    char *text = NULL;
    size_t cap = 0, n_bytes, cap_id = 0;
    llama_token *ids = NULL;
    while (next_record('\0', &text, &cap, &n_bytes)) {
        ids = grow(ids, &cap_id, n_bytes + 8, sizeof *ids);
        int n = llama_tokenize(vocab, text, (int32_t)n_bytes, ids, (int32_t)cap_id, false, true);
        if (n < 0) die("llama_tokenize failed", text);
        for (int i = 0; i < n; i++) printf("%s%d", i ? " " : "", ids[i]);
        printf("\n");
    }
    free(ids);
    free(text);
}

static int positive(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > 1 << 20) die("not a positive number", text);
    return (int)n;
}

static bool one_of(const char *text, const char *yes, const char *no)
{
    if (strcmp(text, yes) != 0 && strcmp(text, no) != 0) die("not understood", text);
    return strcmp(text, yes) == 0;
}

static void parse_args(struct dump_args *a, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        if (!strcmp(flag, "--no-repack")) {
            a->repack = false;
            continue;
        }
        if (!strcmp(flag, "--tokenize")) {
            a->mode = MODE_TOKENIZE;
            continue;
        }
        if (i + 1 == argc) die("unknown option, or its value is missing", flag);
        const char *value = argv[++i];
        if (!strcmp(flag, "-m"))
            a->model = value;
        else if (!strcmp(flag, "-o"))
            a->out = value;
        else if (!strcmp(flag, "-t"))
            a->n_threads = positive(value);
        else if (!strcmp(flag, "--rows"))
            a->n_rows = positive(value);
        else if (!strcmp(flag, "--kv"))
            a->kv = one_of(value, "f32", "f16") ? GGML_TYPE_F32 : GGML_TYPE_F16;
        else if (!strcmp(flag, "--lora"))
            a->lora = value;
        else if (!strcmp(flag, "-fa"))
            a->flash = one_of(value, "on", "off");
        else if (!strcmp(flag, "--greedy"))
            a->n_greedy = positive(value), a->mode = MODE_GREEDY;
        else
            die("unknown option", flag);
    }
    if (!a->model) die("-m model.gguf is needed", NULL);
    if (a->mode == MODE_LOGITS && !a->out) die("-o file is needed (or --greedy n, or --tokenize)", NULL);
}

/* Warnings and errors only; level CONT continues an earlier line, which was not printed. */
static void log_quietly(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static struct llama_model *open_model(const struct dump_args *a)
{
    struct llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = 0;
    mp.vocab_only = a->mode == MODE_TOKENIZE;
    mp.use_extra_bufts = a->repack;
    struct llama_model *model = llama_model_load_from_file(a->model, mp);
    if (!model) die("cannot load", a->model);
    return model;
}

static struct llama_context *open_context(struct llama_model *model, const struct dump_args *a, size_t n_longest)
{
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = (uint32_t)(n_longest + (size_t)a->n_greedy + 1);
    cp.n_batch = cp.n_ubatch = (uint32_t)a->n_rows;
    cp.n_seq_max = 1;
    cp.n_threads = cp.n_threads_batch = a->n_threads;
    cp.type_k = cp.type_v = a->kv;
    cp.flash_attn_type = a->flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context *ctx = llama_init_from_model(model, cp);
    if (!ctx) die("cannot make a context", NULL);
    float scale = 1;
    struct llama_adapter_lora *lora = a->lora ? llama_adapter_lora_init(model, a->lora) : NULL;
    if (a->lora && (!lora || llama_set_adapters_lora(ctx, &lora, 1, &scale) != 0)) die("cannot add", a->lora);
    return ctx;
}

static void evaluate(struct llama_model *model, const struct dump_args *a)
{
    const struct llama_vocab *vocab = llama_model_get_vocab(model);
    int n_vocab = llama_vocab_n_tokens(vocab);
    struct seq_list list = {0};
    read_seqs(&list, n_vocab);
    struct llama_context *ctx = open_context(model, a, list.n_longest);
    struct llama_batch batch = llama_batch_init(a->n_rows, 0, 1);
    if (a->mode == MODE_GREEDY)
        run_greedy(ctx, &batch, a, &list, vocab);
    else
        dump_logits(ctx, &batch, a, &list, n_vocab);
    llama_batch_free(batch);
    llama_free(ctx);
    free(list.ids);
    free(list.start);
}

int main(int argc, char **argv)
{
    struct dump_args a = {.n_threads = 2, .n_rows = 512, .kv = GGML_TYPE_F32, .repack = true};
    parse_args(&a, argc, argv);
    ggml_backend_load_all();
    llama_log_set(log_quietly, NULL);
    llama_backend_init();
    struct llama_model *model = open_model(&a);
    if (a.mode == MODE_TOKENIZE)
        run_tokenize(llama_model_get_vocab(model));
    else
        evaluate(model, &a);
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
