/* SPDX-License-Identifier: MIT
 *
 * What an NPU's weight layout costs in accuracy: perplexity and greedy answers of a model whose matrices are replaced
 * by what a scheme makes of them [TTS Tables 1, 4], on any devices [TTS Table 5: --device cpu,npu-sim].
 *
 *     lutra-npu-accuracy [--device LIST] [--only attention|products] [--answers N] [--problems N] \
 *         MODEL PROBLEMS SCHEME...
 *     lutra-npu-accuracy [--device LIST] [--only attention|products] [--problems N] --chunk N MODEL TEXT SCHEME...
 *     lutra-npu-accuracy --write OUT.gguf MODEL SCHEME        for `lutra perplexity --winogrande` and its like
 *
 * --only: just attention (halves, exp by table), or just matrices (tiles of halves) and the head, on the device; the
 * CPU does the rest.
 * PROBLEMS: JSON lines of question, steps, answer (models/abacus-test.jsonl).  Perplexity is over the tokens of the
 * worked solutions under the model's chat template; answers are decoded greedily.
 * TEXT: any, in pieces of --chunk tokens, each from an empty cache; the second half of a piece counts.
 * Matrices of the layers only: embedding and head stay.  Behind the first line, what a line adds to the first one's
 * loss, in 1/1000 nats a token, with a 95 % interval over the problems or pieces.
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/f16.h"
#include "engine/model.h"
#include "lutra.h"
#include "base/status.h"
#include "npu/host/pack.h"
#include "ops/device.h"
#include "quant/quant.h"
#include "files/gguf_write.h"
#include "weights/weights.h"

static const struct {
    const char *name, *what;
} schemes[] = {{"f16", "the file as it is"}, {"groups", "Q4_0: groups of 32 along k"},
    {"tiles", "supergroups: 2 k x 16 outputs"}, {"groups-down8", "Q4_0, ffn_down Q8_0"},
    {"tiles-down8", "supergroups, ffn_down in 8-bit supergroups"}, {"channel", "one 4-bit scale per output"}};
enum { F16, GROUPS, TILES, GROUPS_DOWN8, TILES_DOWN8, CHANNEL, N_SCHEMES, TOKENS_MAX = 1024, PIECES_MAX = 4096 };

static void stop(const char *what)
{
    fprintf(stderr, "lutra-npu-accuracy: %s\n", what);
    exit(1);
}

static void *memory(size_t n)
{
    void *p = malloc(n);
    if (!p) stop("out of memory");
    return p;
}

static void check(int rc, const struct lutra_error *err)
{
    if (rc < 0) stop(err->what);
}

/* Through a GGUF type and back. */
static void by_type(float *x, uint32_t k, uint32_t n, enum quant_type type)
{
    size_t bytes;
    if (quant_row_bytes(type, k, &bytes)) stop("a row is not whole blocks");
    uint8_t *row = memory(bytes);
    for (uint32_t r = 0; r < n; r++) {
        quant_info_of(type)->quantize(x + (size_t)r * k, row, k);
        quant_info_of(type)->dequantize(row, x + (size_t)r * k, k);
    }
    free(row);
}

static void by_tiles(float *x, uint32_t k, uint32_t n, uint32_t kind)
{
    struct npu_weights w;
    if (npu_weights_layout(kind, k, n, &w)) stop("a matrix has no supergroups");
    uint8_t *packed = memory((size_t)w.n_blocks * w.block_bytes);
    npu_pack_supergroup(&w, x, k, packed, 0, w.n_blocks);
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < k; i++) {
            uint32_t shift, at = npu_code_offset(&w, i, r, &shift);
            uint16_t d;
            memcpy(&d, packed + npu_scale_offset(&w, i, r), 2);
            int q = kind == NPU_W_SUPER8 ? packed[at] - 128 : (packed[at] >> shift & 15) - 8;
            x[(size_t)r * k + i] = (float)q * f16_to_f32(d);
        }
    free(packed);
}

/* Symmetric, the better of 32 clipping points by squared error: as good as one scale per output gets without data. */
static void by_channel(float *x, uint32_t k, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++, x += k) {
        float most = 0, best = 0;
        double least = INFINITY;
        for (uint32_t i = 0; i < k; i++) most = fmaxf(most, fabsf(x[i]));
        for (int c = 0; c < 32; c++) {
            float d = most * (1 - 0.02f * (float)c) / 7;
            double error = 0;
            for (uint32_t i = 0; i < k && d > 0; i++) {
                float q = fminf(fmaxf(roundf(x[i] / d), -8), 7) * d - x[i];
                error += (double)q * q;
            }
            if (error < least) least = error, best = d;
        }
        for (uint32_t i = 0; i < k && best > 0; i++) x[i] = fminf(fmaxf(roundf(x[i] / best), -8), 7) * best;
    }
}

static void replace(float *x, uint32_t k, uint32_t n, int scheme, bool down)
{
    bool eight = down && (scheme == GROUPS_DOWN8 || scheme == TILES_DOWN8);
    if (scheme == GROUPS || scheme == GROUPS_DOWN8)
        by_type(x, k, n, eight ? QUANT_Q8_0 : QUANT_Q4_0);
    else if (scheme == TILES || scheme == TILES_DOWN8)
        by_tiles(x, k, n, eight ? NPU_W_SUPER8 : NPU_W_SUPER4);
    else if (scheme == CHANNEL)
        by_channel(x, k, n);
}

static int scheme_of(const char *name)
{
    for (int s = 0; s < N_SCHEMES; s++)
        if (strcmp(name, schemes[s].name) == 0) return s;
    stop("unknown scheme");
    return 0;
}

/* The model with its layers' matrices replaced, values as halves: what tiles hold. */
static void write_model(const char *in, const char *out, int scheme)
{
    struct weights *w;
    struct gguf_writer *to;
    struct lutra_error err = {0};
    check(weights_open(&w, in, &err), &err);
    check(gguf_writer_open(&to, out, &err), &err);
    for (size_t i = 0; i < weights_kv_count(w); i++) gguf_writer_copy(to, weights_kv_at(w, i));
    for (size_t i = 0; i < weights_tensor_count(w); i++) {
        const struct tensor *t = weights_tensor_at(w, i);
        gguf_writer_add_tensor(to, t->name, t->type, t->n_dim, t->ne);
    }
    for (size_t i = 0; i < weights_tensor_count(w); i++) {
        const struct tensor *t = weights_tensor_at(w, i);
        size_t n = 1, bytes;
        for (int d = 0; d < t->n_dim; d++) n *= (size_t)t->ne[d];
        if (quant_row_bytes(t->type, (int64_t)n, &bytes)) stop("a tensor of an odd size");
        if (scheme == F16 || t->n_dim != 2 || strncmp(t->name, "blk.", 4) != 0) {
            gguf_writer_data(to, t->data, bytes);
            continue;
        }
        if (t->type != QUANT_F16) stop("the model is not F16");
        float *x = memory(n * sizeof *x);
        uint16_t *h = memory(n * sizeof *h);
        quant_info_of(t->type)->dequantize(t->data, x, n);
        replace(x, (uint32_t)t->ne[0], (uint32_t)t->ne[1], scheme, strstr(t->name, "ffn_down") != NULL);
        for (size_t j = 0; j < n; j++) h[j] = f32_to_f16(x[j]);
        gguf_writer_data(to, h, bytes);
        free(x), free(h);
    }
    check(gguf_writer_commit(&to, &err), &err);
    weights_close(&w);
}

/* Of each problem or piece of text. */
struct losses {
    double nll[PIECES_MAX];
    int n_tok[PIECES_MAX];
    int n;
};

struct bench {
    lutra_runtime *runtime;
    lutra_model *model;
    lutra_session *session;
    struct losses loss;
    int n_answer, n_right;
    char text[8192];
    size_t n_text;
};

/* Tokens of the prompt and of the worked solution. */
static int tokens_of(struct bench *b, json_t *problem, int32_t *tok, int *n_prompt)
{
    struct lutra_error err = {0};
    const struct lutra_message m = {.role = "user", .content = json_string_value(json_object_get(problem, "question"))};
    char *prompt, solution[4096] = "";
    int n, n_more;
    size_t i;
    json_t *step;
    if (!m.content) stop("a problem without a question");
    json_array_foreach(json_object_get(problem, "steps"), i, step)
    {
        strncat(solution, json_string_value(step), sizeof solution - strlen(solution) - 1);
        strncat(solution, "\n", sizeof solution - strlen(solution) - 1);
    }
    snprintf(solution + strlen(solution), sizeof solution - strlen(solution), "#### %s<|im_end|>",
        json_string_value(json_object_get(problem, "answer")));
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &m;
    chat.n_message = 1;
    check(lutra_chat_render(b->model, &chat, &prompt, NULL, &err), &err);
    check(lutra_tokenize(b->model, prompt, strlen(prompt), LUTRA_ADD_SPECIAL | LUTRA_PARSE_SPECIAL, tok, TOKENS_MAX / 2,
              n_prompt, &err),
        &err);
    lutra_free(prompt);
    n = *n_prompt;
    check(lutra_tokenize(
              b->model, solution, strlen(solution), LUTRA_PARSE_SPECIAL, tok + n, TOKENS_MAX / 2, &n_more, &err),
        &err);
    return n <= TOKENS_MAX / 2 && n_more <= TOKENS_MAX / 2 ? n + n_more : 0;
}

static void add_perplexity(struct bench *b, const int32_t *tok, int n, int n_prompt)
{
    double *nll = &b->loss.nll[b->loss.n];
    int *n_tok = &b->loss.n_tok[b->loss.n++];
    static struct lutra_row row[TOKENS_MAX];
    struct lutra_error err = {0};
    int32_t seq;
    check(lutra_seq_open(b->session, n, &seq, &err), &err);
    for (int i = 0; i + 1 < n; i++)
        row[i] = (struct lutra_row){.token = tok[i],
            .pos = i,
            .seq = seq,
            .parent = i - 1,
            .want = i + 1 >= n_prompt ? LUTRA_WANT_LOGPROB : 0,
            .target = tok[i + 1]};
    check(lutra_forward(b->session, row, n - 1, sizeof *row, &err), &err);
    const struct lutra_row_result *r;
    for (int i = 0; (r = lutra_forward_result(b->session, i)); i++) *nll += r->log_sum_exp - r->target_logit, ++*n_tok;
    lutra_seq_close(b->session, seq);
}

static int keep_text(void *user, const struct lutra_piece *piece)
{
    struct bench *b = user;
    if (b->n_text + piece->n_bytes < sizeof b->text) {
        memcpy(b->text + b->n_text, piece->text, piece->n_bytes);
        b->n_text += piece->n_bytes;
    }
    return 0;
}

static void add_answer(struct bench *b, json_t *problem, const int32_t *tok, int n_prompt)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    struct lutra_error err = {0};
    char answer[64];
    r.prompt = tok, r.n_prompt = n_prompt, r.max_tokens = 400;
    struct lutra_sampling sampling;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 0;
    r.sampling = &sampling;
    r.on_text = keep_text, r.user = b;
    b->n_text = 0;
    check(lutra_generate(b->session, &r, &err), &err);
    b->text[b->n_text] = 0;
    lutra_answer(b->text, answer, sizeof answer);
    b->n_right += strcmp(answer, json_string_value(json_object_get(problem, "answer"))) == 0;
    b->n_answer++;
}

/* A device whose operations are those of another, but for the kinds it leaves to the CPU. */
static struct {
    struct device_ops ops;
    int (*supports)(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err);
    const char *only; /* NULL: all */
} narrow;

static int supports_only(struct device *self, const struct op_list *list, const struct op *op, struct lutra_error *err)
{
    const struct op_info *info = op_info_of(op->kind);
    bool attention = info->reads_cache || info->writes_cache;
    if (!strcmp(narrow.only, "attention") ? !attention : !op->n_weight)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "left to the CPU");
    return narrow.supports(self, list, op, err);
}

static void keep_only(struct device *device, const char *only)
{
    narrow.ops = *device->ops;
    narrow.supports = device->ops->supports;
    narrow.only = only;
    narrow.ops.supports = supports_only;
    device->ops = &narrow.ops;
}

struct task {
    const char *only, *path; /* problems, or text where chunk > 0 */
    int n_problems, n_answers, chunk;
};

static void add_problems(struct bench *b, const struct task *t)
{
    char line[16384];
    static int32_t tok[TOKENS_MAX];
    FILE *f = fopen(t->path, "r");
    if (!f) stop("the problems cannot be read");
    while (b->loss.n < t->n_problems && fgets(line, sizeof line, f)) {
        json_t *problem = json_loads(line, 0, NULL);
        int n_prompt, n = problem ? tokens_of(b, problem, tok, &n_prompt) : 0;
        if (!n) stop("a line that is no problem, or too long");
        add_perplexity(b, tok, n, n_prompt);
        if (b->n_answer < t->n_answers) add_answer(b, problem, tok, n_prompt);
        json_decref(problem);
    }
    fclose(f);
}

static void add_text(struct bench *b, const struct task *t)
{
    struct lutra_error err = {0};
    FILE *f = fopen(t->path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) stop("the text cannot be read");
    long n_bytes = ftell(f);
    rewind(f);
    char *text = memory((size_t)n_bytes + 1);
    int32_t *tok = memory((size_t)(n_bytes + 16) * sizeof *tok);
    int n;
    if (fread(text, 1, (size_t)n_bytes, f) != (size_t)n_bytes) stop("the text cannot be read");
    check(lutra_tokenize(b->model, text, (size_t)n_bytes, 0, tok, (int)n_bytes + 16, &n, &err), &err);
    for (int i = 0; i + t->chunk <= n && b->loss.n < t->n_problems; i += t->chunk)
        add_perplexity(b, tok + i, t->chunk, t->chunk / 2);
    if (!b->loss.n) stop("the text is shorter than a piece");
    fclose(f), free(text), free(tok);
}

/* What b adds to a per token, and half of its 95 % interval: of a ratio of sums, over the pieces. */
static double added(const struct losses *a, const struct losses *b, double *half)
{
    double sum = 0, n_tok = 0, square = 0;
    for (int i = 0; i < b->n; i++) sum += b->nll[i] - a->nll[i], n_tok += b->n_tok[i];
    double mean = sum / n_tok;
    for (int i = 0; i < b->n; i++) square += pow(b->nll[i] - a->nll[i] - mean * b->n_tok[i], 2);
    *half = b->n > 1 ? 1.96 * sqrt(square * b->n / (b->n - 1)) / n_tok : INFINITY;
    return mean;
}

static void judge(const char *path, const char *device, const struct task *t, int scheme, struct losses *first)
{
    static struct bench b;
    struct lutra_error err = {0};
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    struct lutra_model_settings ms;
    lutra_model_settings_init(&ms, sizeof ms);
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    rs.device = device;
    ms.packed = "";
    ss.n_ctx = ss.n_batch = ss.n_out = TOKENS_MAX;
    memset(&b, 0, sizeof b);
    check(lutra_runtime_open(&b.runtime, &rs, &err), &err);
    const char *only = strcmp(device, "cpu") ? t->only : NULL;
    if (only) keep_only(b.runtime->devices.device[0], only);
    check(lutra_model_open(&b.model, b.runtime, path, &ms, &err), &err);
    check(lutra_session_open(&b.session, b.model, &ss, &err), &err);
    if (t->chunk)
        add_text(&b, t);
    else
        add_problems(&b, t);
    double sum = 0, n_tok = 0;
    for (int i = 0; i < b.loss.n; i++) sum += b.loss.nll[i], n_tok += b.loss.n_tok[i];
    printf("| %s | %s | %s%s%s | %.6f | ", schemes[scheme].name, schemes[scheme].what, device, only ? ", only " : "",
        only ? only : "", exp(sum / n_tok));
    if (first->n) {
        double half, mean = added(first, &b.loss, &half);
        printf("%.2f +- %.2f", 1000 * mean, 1000 * half);
    } else
        *first = b.loss;
    printf(" | %.0f | %d / %d |\n", n_tok, b.n_right, b.n_answer);
    fflush(stdout);
    lutra_session_close(&b.session);
    lutra_model_close(&b.model);
    lutra_runtime_close(&b.runtime);
}

int main(int argc, char **argv)
{
    static struct losses first;
    char *devices = NULL, *out = NULL;
    struct task t = {.n_problems = PIECES_MAX};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (!strcmp(argv[i], "--device"))
            devices = argv[i + 1];
        else if (!strcmp(argv[i], "--only") && (!strcmp(argv[i + 1], "attention") || !strcmp(argv[i + 1], "products")))
            t.only = argv[i + 1];
        else if (!strcmp(argv[i], "--write"))
            out = argv[i + 1];
        else if (!strcmp(argv[i], "--answers"))
            t.n_answers = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--problems") && atoi(argv[i + 1]) > 0 && atoi(argv[i + 1]) <= PIECES_MAX)
            t.n_problems = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--chunk") && atoi(argv[i + 1]) > 1 && atoi(argv[i + 1]) <= TOKENS_MAX)
            t.chunk = atoi(argv[i + 1]);
        else
            stop("options: --device LIST, --only attention|products, --answers N, --problems N (up to 4096), "
                 "--chunk N (2 to 1024), --write OUT");
    }
    if (out && argc - i == 2) {
        write_model(argv[i], out, scheme_of(argv[i + 1]));
        return 0;
    }
    if (argc - i < 3)
        stop("usage: [options] MODEL PROBLEMS SCHEME...  (f16 groups tiles groups-down8 tiles-down8 channel)");
    if (t.chunk && t.n_answers) stop("a text has no answers: --chunk and --answers exclude each other");
    t.path = argv[i + 1];
    printf("| scheme | | device | perplexity | added, 10^-3 nats | tokens | greedy answers |\n"
           "|---|---|---|---|---|---|---|\n");
    for (int a = i + 2; a < argc; a++) {
        char path[] = "/tmp/lutra-accuracy-XXXXXX", cpu[] = "cpu";
        int s = scheme_of(argv[a]), fd;
        if ((fd = mkstemp(path)) < 0) stop("no temporary file");
        close(fd);
        write_model(argv[i], path, s);
        char *list = strdup(devices ? devices : cpu);
        for (char *d = strtok(list, ","); d; d = strtok(NULL, ",")) judge(path, d, &t, s, &first);
        free(list);
        unlink(path);
    }
    return 0;
}
