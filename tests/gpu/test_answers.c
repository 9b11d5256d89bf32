/* SPDX-License-Identifier: MIT
 *
 * A trained model on the GPU against the CPU, in four weight types: greedy texts to the problems of the bundled set.
 *
 *     gpu_answers [PROBLEMS]        2 of each type, 100 with LUTRA_TEST_LONG=1, which the bar of 98 in 100 is meant for
 */
#include <jansson.h>

#include "model_fixture.h"

enum { MOST_PROBLEMS = 100, TEXT_BYTES = 2048, N_SEQ = 8 };

static int n_problem = 2;

struct text {
    char bytes[TEXT_BYTES];
    size_t n;
};

static int on_text(void *user, const struct lutra_piece *piece)
{
    struct text *t = user;
    size_t room = sizeof t->bytes - 1 - t->n, n = piece->n_bytes < room ? piece->n_bytes : room;
    memcpy(t->bytes + t->n, piece->text, n);
    t->n += n;
    return 0;
}

static void submit(lutra_session *s, const lutra_model *model, const char *line, struct text *out)
{
    json_t *j = json_loads(line, 0, NULL);
    struct lutra_message message = {.role = "user", .content = json_string_value(json_object_get(j, "question"))};
    struct lutra_request r;
    struct lutra_chat chat;
    struct lutra_sampling sampling;
    int32_t token[512], id;
    char *text;
    assert_non_null(message.content);
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &message, chat.n_message = 1;
    OK(lutra_chat_render(model, &chat, &text, NULL, err));
    lutra_request_init(&r, sizeof r);
    OK(lutra_tokenize(model, text, strlen(text), LUTRA_PARSE_SPECIAL, token, 512, &r.n_prompt, err));
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = 0;
    r.prompt = token, r.max_tokens = 160, r.sampling = &sampling, r.on_text = on_text, r.user = out;
    OK(lutra_submit(s, &r, &id, err));
    lutra_free(text);
    json_decref(j);
}

static void solve(const char *device, const char *path, struct text *out)
{
    lutra_runtime *rt;
    lutra_model *model;
    lutra_session *s;
    struct lutra_runtime_settings rs;
    struct lutra_session_settings ss;
    char *line = NULL;
    size_t room = 0;
    int n_active = 1;
    FILE *f = fopen(LUTRA_SOURCE_DIR "/models/abacus-test.jsonl", "r");
    assert_non_null(f);
    lutra_runtime_settings_init(&rs, sizeof rs);
    lutra_session_settings_init(&ss, sizeof ss);
    rs.device = device, rs.n_threads = 2;
    ss.n_seq = N_SEQ, ss.n_batch = 64;
    OK(lutra_runtime_open(&rt, &rs, err));
    OK(lutra_model_open(&model, rt, path, NULL, err));
    OK(lutra_session_open(&s, model, &ss, err));
    memset(out, 0, sizeof *out * MOST_PROBLEMS);
    for (int i = 0; i < n_problem; i++) {
        assert_true(getline(&line, &room, f) > 0);
        submit(s, model, line, &out[i]);
    }
    while (n_active) OK(lutra_step(s, &n_active, err));
    lutra_session_close(&s);
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
    free(line);
    fclose(f);
}

/* What stands behind the mark of the final answer. */
static const char *answer_of(const struct text *t)
{
    const char *mark = strstr(t->bytes, "####");
    return mark ? mark : "none";
}

static void answers_are_the_cpus(void **state)
{
    static const char *const types[] = {NULL, "Q4_0", "Q8_0", "Q4_K"}; /* NULL: F16, as it is bundled */
    static struct text cpu[MOST_PROBLEMS], gpu[MOST_PROBLEMS];
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const char *path = LUTRA_SOURCE_DIR "/models/abacus-3m-f16.gguf";
        char *own = NULL, name[] = "/tmp/lutra-gpu-XXXXXX";
        int same = 0, alike = 0;
        if (types[t]) {
            int fd = mkstemp(own = name);
            assert_true(fd >= 0);
            close(fd);
            quantize(own, path, types[t]);
        }
        solve("cpu", own ? own : path, cpu);
        solve("vulkan", own ? own : path, gpu);
        if (own) unlink(own);
        for (int i = 0; i < n_problem; i++) {
            same += strcmp(cpu[i].bytes, gpu[i].bytes) == 0;
            alike += strcmp(answer_of(&cpu[i]), answer_of(&gpu[i])) == 0;
        }
        print_message("%s: %d of %d answers are the CPU's, %d word for word\n", types[t] ? types[t] : "F16", alike,
            n_problem, same);
        if (alike * 100 < 98 * n_problem) fail_msg("only %d of %d answers are the CPU's", alike, n_problem);
    }
}

int main(int n, char **arg)
{
    if (getenv("LUTRA_TEST_LONG")) n_problem = MOST_PROBLEMS;
    if (n > 1) n_problem = atoi(arg[1]);
    if (n_problem < 1 || n_problem > MOST_PROBLEMS) return 2;
    gpu_need();
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_are_the_cpus)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
