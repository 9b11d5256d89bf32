/* SPDX-License-Identifier: MIT
 *
 * The bundled models on the emulated NPU against the CPU: the same final answers, the same perplexity.
 *
 *     npu_device_answers [PROBLEMS [TEST]] 6 problems, 100 with LUTRA_TEST_LONG=1, which the bars of 98 in 100 and
 *                                          0.2 % are meant for
 */
#include "engine_fixture.h"

#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>

#include "hf/write_folder.h"

enum { MAX_PROBLEMS = 500, MAX_IDS = 512, ANSWER_BYTES = 32, MAX_SAID = 200 };

static int n_problem;

struct problem {
    char *question, *text; /* the worked solution */
    int32_t prompt[MAX_IDS], all[MAX_IDS];
    int n_prompt, n_all;
};

struct answers {
    char last[MAX_PROBLEMS][ANSWER_BYTES];
    int32_t said[MAX_PROBLEMS][MAX_SAID];
    double log_prob; /* of the solutions' tokens */
    long n_tok;
};

struct device {
    lutra_runtime *rt;
    lutra_model *model;
    lutra_session *s;
};

static void device_open(struct device *d, const char *path, const char *name)
{
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    rs.device = name;
    rs.n_threads = 2;
    ss.n_seq = 16;
    ss.n_batch = 128;
    ss.n_out = 128;
    OK(lutra_runtime_open(&d->rt, &rs, err));
    OK(lutra_model_open(&d->model, d->rt, path, NULL, err));
    OK(lutra_session_open(&d->s, d->model, &ss, err));
}

static void device_close(struct device *d)
{
    lutra_session_close(&d->s);
    lutra_model_close(&d->model);
    lutra_runtime_close(&d->rt);
}

/* A problem of the test set as the model was trained on it. */
static void read_problem(struct problem *p, const lutra_model *model, const char *line)
{
    json_t *j = json_loads(line, 0, NULL);
    assert_non_null(j);
    const char *question = json_string_value(json_object_get(j, "question"));
    struct lutra_message message = {.role = "user", .content = question};
    char *text, solution[1024] = "";
    size_t i, at = 0;
    json_t *step;
    json_array_foreach(json_object_get(j, "steps"), i, step) at +=
        (size_t)snprintf(solution + at, sizeof solution - at, "%s\n", json_string_value(step));
    snprintf(solution + at, sizeof solution - at, "#### %s", json_string_value(json_object_get(j, "answer")));
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &message;
    chat.n_message = 1;
    OK(lutra_chat_render(model, &chat, &text, NULL, err));
    OK(lutra_tokenize(model, text, strlen(text), LUTRA_PARSE_SPECIAL, p->prompt, MAX_IDS, &p->n_prompt, err));
    memcpy(p->all, p->prompt, sizeof p->all);
    OK(lutra_tokenize(
        model, solution, strlen(solution), 0, p->all + p->n_prompt, MAX_IDS - p->n_prompt, &p->n_all, err));
    p->n_all += p->n_prompt;
    lutra_free(text);
    json_decref(j);
}

struct writer {
    char text[2048];
    size_t n;
    char *last;
    int32_t *said;
    int n_said;
};

static int on_text(void *user, const struct lutra_piece *piece)
{
    struct writer *w = user;
    size_t n = piece->n_bytes < sizeof w->text - 1 - w->n ? piece->n_bytes : sizeof w->text - 1 - w->n;
    memcpy(w->text + w->n, piece->text, n);
    w->n += n;
    if (piece->token >= 0 && w->n_said < MAX_SAID) w->said[w->n_said++] = piece->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    struct writer *w = user;
    const char *mark;
    (void)end;
    w->text[w->n] = 0;
    mark = strstr(w->text, "####");
    snprintf(w->last, ANSWER_BYTES, "%.31s", mark ? mark : "none");
}

static void solve(struct device *d, const struct problem *problem, struct answers *out)
{
    struct writer *w = calloc((size_t)n_problem, sizeof *w);
    int n_active = 1;
    for (int i = 0; i < n_problem; i++) {
        struct lutra_request r;
        lutra_request_init(&r, sizeof r);
        w[i].last = out->last[i], w[i].said = out->said[i];
        r.prompt = problem[i].prompt, r.n_prompt = problem[i].n_prompt;
        r.max_tokens = MAX_SAID;
        struct lutra_sampling sampling;
        lutra_sampling_init(&sampling, sizeof sampling);
        sampling.temperature = 0;
        r.sampling = &sampling;
        r.on_text = on_text, r.on_end = on_end, r.user = &w[i];
        int32_t id;
        OK(lutra_submit(d->s, &r, &id, err));
    }
    while (n_active) OK(lutra_step(d->s, &n_active, err));
    free(w);
}

static void score(struct device *d, const struct problem *p, struct answers *out)
{
    struct lutra_row row[MAX_IDS];
    int32_t seq;
    OK(lutra_seq_open(d->s, 0, &seq, err));
    for (int from = 0; from < p->n_all; from += 128) {
        int n = p->n_all - from < 128 ? p->n_all - from : 128;
        for (int i = 0; i < n; i++) {
            int at = from + i;
            bool want = at >= p->n_prompt - 1 && at + 1 < p->n_all;
            row[i] = (struct lutra_row){
                p->all[at], at, seq, i - 1, want ? LUTRA_WANT_LOGPROB : 0, want ? p->all[at + 1] : 0};
        }
        OK(lutra_forward(d->s, row, n, sizeof *row, err));
        const struct lutra_row_result *r;
        for (int i = 0; (r = lutra_forward_result(d->s, i)); i++, out->n_tok++)
            out->log_prob += (double)r->target_logit - (double)r->log_sum_exp;
    }
    lutra_seq_close(d->s, seq);
}

static void run_on(const char *path, const char *device, struct answers *out)
{
    struct device d = {0};
    FILE *f = fopen(LUTRA_SOURCE_DIR "/models/abacus-test.jsonl", "r");
    struct problem *problem = calloc((size_t)n_problem, sizeof *problem);
    char *line = NULL;
    size_t cap = 0;
    assert_non_null(f);
    memset(out, 0, sizeof *out);
    device_open(&d, path, device);
    for (int i = 0; i < n_problem; i++) {
        assert_true(getline(&line, &cap, f) > 0);
        read_problem(&problem[i], d.model, line);
    }
    solve(&d, problem, out);
    for (int i = 0; i < n_problem; i++) score(&d, &problem[i], out);
    device_close(&d);
    free(problem), free(line);
    fclose(f);
}

/* Behind a prompt and n tokens of a reply: the logits of two tokens. */
static void logits_of(
    struct device *d, const struct problem *p, const int32_t *said, int n, const int32_t *token, double logit[2])
{
    struct lutra_row row;
    int32_t seq;
    OK(lutra_seq_open(d->s, 0, &seq, err));
    for (int i = 0; i < p->n_prompt + n; i++) {
        row = (struct lutra_row){i < p->n_prompt ? p->prompt[i] : said[i - p->n_prompt], i, seq, -1,
            i + 1 == p->n_prompt + n ? LUTRA_WANT_LOGITS : 0, 0};
        OK(lutra_forward(d->s, &row, 1, sizeof row, err));
    }
    for (int k = 0; k < 2; k++) logit[k] = (double)lutra_forward_result(d->s, 0)->logits[token[k]];
    lutra_seq_close(d->s, seq);
}

/* Where two replies part: what each device thinks of both tokens. */
static void say_where_they_part(
    const char *path, const char *device, int i, const struct answers *cpu, const struct answers *npu)
{
    FILE *f = fopen(LUTRA_SOURCE_DIR "/models/abacus-test.jsonl", "r");
    const char *names[2] = {"cpu", device};
    struct problem *p = calloc(1, sizeof *p);
    char *line = NULL;
    size_t cap = 0;
    double logit[2][2];
    int n = 0;
    while (n + 1 < MAX_SAID && cpu->said[i][n] == npu->said[i][n]) n++;
    const int32_t token[2] = {cpu->said[i][n], npu->said[i][n]};
    for (int k = 0; k <= i; k++) assert_true(getline(&line, &cap, f) > 0);
    for (int d = 0; d < 2; d++) {
        struct device on = {0};
        device_open(&on, path, names[d]);
        read_problem(p, on.model, line);
        logits_of(&on, p, cpu->said[i], n, token, logit[d]);
        device_close(&on);
    }
    printf("  problem %d parts at token %d: %s by %.4f, %s by %.4f\n", i, n, names[0], logit[0][0] - logit[0][1],
        device, logit[1][1] - logit[1][0]);
    free(p), free(line);
    fclose(f);
}

/* allowed: problems answered differently, per 100; most: relative difference of perplexity. */
static void compare(const char *path, const char *device, int allowed, double most)
{
    static struct answers cpu, npu;
    int differ = 0;
    run_on(path, "cpu", &cpu);
    run_on(path, device, &npu);
    for (int i = 0; i < n_problem; i++) differ += strcmp(cpu.last[i], npu.last[i]) != 0;
    for (int i = 0; i < n_problem && differ; i++)
        if (strcmp(cpu.last[i], npu.last[i])) say_where_they_part(path, device, i, &cpu, &npu);
    assert_int_equal(cpu.n_tok, npu.n_tok);
    double a = exp(-cpu.log_prob / (double)cpu.n_tok), b = exp(-npu.log_prob / (double)npu.n_tok);
    printf("%s: %d of %d answers differ; perplexity of %ld tokens: cpu %.5f, %s %.5f (%+.3f %%)\n", path, differ,
        n_problem, cpu.n_tok, a, device, b, 100 * (b / a - 1));
    assert_true(differ * 100 <= allowed * n_problem);
    assert_true(fabs(b / a - 1) <= most);
}

static void f16_models_answer_alike(void **state)
{
    (void)state;
    compare(LUTRA_SOURCE_DIR "/models/abacus-1m-f16.gguf", "npu-sim", 2, 0.002);
    if (n_problem >= 100) compare(LUTRA_SOURCE_DIR "/models/abacus-3m-f16.gguf", "npu-sim", 2, 0.002);
}

static void few_bit_models_answer_alike(void **state)
{
    (void)state;
    if (n_problem < 100) skip();
    compare(LUTRA_SOURCE_DIR "/models/abacus-w2", "npu-sim", 2, 0.02);
    compare(LUTRA_SOURCE_DIR "/models/abacus-w2", "npu-sim:lookup", 2, 0.02);
    compare(LUTRA_SOURCE_DIR "/models/abacus-b158", "npu-sim", 2, 0.02);
}

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    char name[512];
    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        remove(name); /* "." and ".." stay */
    }
    if (dir) closedir(dir);
    rmdir(path);
}

/* Questions and worked solutions as the models were trained on them, of problems that are not compared. */
static size_t calibration_text(char *out, size_t size)
{
    enum { FIRST = 300, LAST = 400 };
    FILE *f = fopen(LUTRA_SOURCE_DIR "/models/abacus-test.jsonl", "r");
    char *line = NULL;
    size_t cap = 0, n = 0;
    assert_non_null(f);
    for (int i = 0; i < LAST && getline(&line, &cap, f) > 0; i++) {
        json_t *j = i < FIRST ? NULL : json_loads(line, 0, NULL), *step;
        size_t k;
        if (!j) continue;
        n += (size_t)snprintf(out + n, size - n, "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n",
            json_string_value(json_object_get(j, "question")));
        json_array_foreach(json_object_get(j, "steps"), k, step) n +=
            (size_t)snprintf(out + n, size - n, "%s\n", json_string_value(step));
        n +=
            (size_t)snprintf(out + n, size - n, "#### %s<|im_end|>\n", json_string_value(json_object_get(j, "answer")));
        assert_true(n < size);
        json_decref(j);
    }
    free(line);
    fclose(f);
    return n;
}

/* A folder of GPTQ's layers with zeros, of a model's file. */
static void make_groups(const char *folder, const char *model, const char *type, int group)
{
    static char text[1 << 17];
    char floats[128];
    struct lutra_error what;
    struct weights *w;
    lutra_runtime *rt;
    struct lutra_quantize_settings qs;
    snprintf(floats, sizeof floats, "%s-floats", folder);
    remove_folder(floats), remove_folder(folder);
    assert_int_equal(mkdir(floats, 0700), 0);
    OK(weights_open(&w, model, &what));
    hf_write_folder(w, floats, &(struct hf_form){.n_shard = 1});
    weights_close(&w);
    lutra_quantize_settings_init(&qs, sizeof qs);
    qs.type = type, qs.group_size = group, qs.asymmetric = true;
    qs.calibration = text, qs.n_calibration_bytes = calibration_text(text, sizeof text);
    OK(lutra_runtime_open(&rt, NULL, err));
    OK(lutra_quantize(rt, floats, folder, &qs, err));
    lutra_runtime_close(&rt);
    remove_folder(floats);
}

/* [TMAN 6.1]'s formats: asymmetric groups of 64 and 128 of 2 and 4 bits; 2 bits in groups of 64 are abacus-w2. */
static void folders_with_zeros_answer_alike(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        int group;
        const char *model;
    } list[] = {{"W2", 128, "abacus-3m-f16.gguf"}, {"W4", 64, "abacus-1m-f16.gguf"}, {"W4", 128, "abacus-1m-f16.gguf"},
        {"W4", 128, "abacus-3m-f16.gguf"}};
    if (n_problem < 100) skip();
    for (int i = 0; i < 4; i++) {
        char model[256], folder[64];
        snprintf(model, sizeof model, "%s/models/%s", LUTRA_SOURCE_DIR, list[i].model);
        snprintf(folder, sizeof folder, "/tmp/lutra-npu-%s-g%d-%d", list[i].type, list[i].group, (int)getpid());
        make_groups(folder, model, list[i].type, list[i].group);
        compare(folder, "npu-sim:lookup", 2, 0.02);
        remove_folder(folder);
    }
}

/* The CPU's int8 activations and the NPU's halves differ more: a looser bound, and the figure printed. */
static void q4_0_answers_alike(void **state)
{
    (void)state;
    static const char *const names[] = {"abacus-1m", "abacus-3m"};
    for (int i = 0; i < (n_problem >= 100 ? 2 : 1); i++) {
        char from[256], to[64];
        snprintf(from, sizeof from, "%s/models/%s-f16.gguf", LUTRA_SOURCE_DIR, names[i]);
        snprintf(to, sizeof to, "/tmp/lutra-npu-q4-%d.gguf", (int)getpid());
        quantize(to, from, "Q4_0");
        compare(to, "npu-sim", 10, 0.02);
        compare(to, "npu-sim:supergroup", 25, 0.02); /* quantized anew: 2 of the first 12 */
        remove(to);
    }
}

int main(int argc, char **argv)
{
    n_problem = argc > 1 ? atoi(argv[1]) : getenv("LUTRA_TEST_LONG") ? 100 : 6;
    if (n_problem < 1 || n_problem > MAX_PROBLEMS) return 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(f16_models_answer_alike),
        cmocka_unit_test(few_bit_models_answer_alike), cmocka_unit_test(folders_with_zeros_answer_alike),
        cmocka_unit_test(q4_0_answers_alike)};
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
