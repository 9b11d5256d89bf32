/* SPDX-License-Identifier: MIT
 *
 * A GPU that is lost at any call of a request, where it computes all or shares products with the CPU: the CPU goes on
 * from the last commit, and the answer is that of an undisturbed one, no token twice, none missing.
 */
#include "loss_fixture.h"
#include "model_fixture.h"

#include "engine/model.h"
#include "engine/runtime.h"
#include "gpu/device_impl.h"

enum { MOST_TOKENS = 64, N_TOKENS = 10, N_ASKED = 40, RANDOM_LONG = 200, FIRST_LOST = 8 };

/* Devices, and how they share products; NULL: they do not. */
static const struct way {
    const char *device, *split;
} ways[] = {{"vulkan", NULL}, {"vulkan,cpu", "1,1"}, {"vulkan,cpu", "1,1/0,1"}};
static const struct way *way = ways;
static int n_tokens = N_TOKENS;

/* Which call fails, counted from the first of a request; 0: none. */
static struct {
    PFN_vkQueueSubmit submit;
    PFN_vkWaitSemaphores wait;
    PFN_vkEndCommandBuffer end;
    PFN_vkGetSemaphoreCounterValue counter;
    uint64_t patience_ns; /* of the last wait */
    bool stands;          /* the counter of what is over stays at 0 behind the wait that failed */
    int n_submit, n_wait, n_end, fail_submit, fail_wait, fail_end;
    VkResult with; /* of a wait */
} calls;

static int first; /* token of the prompt: of some prompts the answer is short */

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    if (++calls.n_submit != calls.fail_submit) return calls.submit(queue, n, info, fence);
    loss_begins();
    return VK_ERROR_DEVICE_LOST;
}

/* A real GPU does not reach into this process's memory once it is gone; Mesa's threads do until they have ended. */
static VKAPI_ATTR VkResult VKAPI_CALL wait_for(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t ns)
{
    VkResult rc = calls.wait(device, info, ns);
    calls.patience_ns = ns;
    if (++calls.n_wait != calls.fail_wait) return rc;
    loss_begins();
    return calls.with;
}

static VKAPI_ATTR VkResult VKAPI_CALL counter(VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
    VkResult rc = calls.counter(device, semaphore, value);
    if (calls.stands && calls.n_wait >= calls.fail_wait) *value = 0;
    return rc;
}

static VKAPI_ATTR VkResult VKAPI_CALL end(VkCommandBuffer commands)
{
    if (++calls.n_end != calls.fail_end) return calls.end(commands);
    loss_begins();
    return VK_ERROR_DEVICE_LOST;
}

struct lines {
    char text[8192];
};

static void keep_line(void *user, enum lutra_log_level level, const char *line)
{
    struct lines *l = user;
    size_t n = strlen(l->text);
    (void)level;
    loss_hear(line);
    snprintf(l->text + n, sizeof l->text - n, "%s\n", line);
}

struct answer {
    int32_t id[MOST_TOKENS];
    int n, n_end;
};

static int on_piece(void *user, const struct lutra_piece *piece)
{
    struct answer *a = user;
    if (piece->token < 0) return 0;
    if (a->n < MOST_TOKENS) a->id[a->n] = piece->token;
    a->n++;
    return 0;
}

static void on_end(void *user, const struct lutra_end *end_)
{
    (void)end_;
    ((struct answer *)user)->n_end++;
}

static void ask(lutra_session *s, struct answer *out)
{
    int32_t prompt[N_ASKED], id;
    int n_active = 1;
    struct lutra_request r;
    struct lutra_sampling sampling;
    lutra_request_init(&r, sizeof r);
    lutra_sampling_init(&sampling, sizeof sampling);
    memset(out, 0, sizeof *out);
    for (int i = 0; i < N_ASKED; i++) prompt[i] = token_at(first + i);
    sampling.temperature = 0;
    r.sampling = &sampling;
    r.prompt = prompt, r.n_prompt = N_ASKED, r.max_tokens = n_tokens;
    r.on_text = on_piece, r.on_end = on_end, r.user = out;
    OK(lutra_submit(s, &r, &id, err));
    while (n_active) OK(lutra_step(s, &n_active, err));
}

/* A request on a GPU of its own, some call of which fails; the log. */
static void ask_once(
    const char *path, int fail_submit, int fail_wait, int fail_end, struct answer *out, struct lines *log)
{
    lutra_runtime *rt;
    lutra_model *model;
    lutra_session *s;
    struct lutra_runtime_settings rs;
    struct lutra_session_settings ss;
    lutra_runtime_settings_init(&rs, sizeof rs);
    lutra_session_settings_init(&ss, sizeof ss);
    log->text[0] = 0;
    rs.gpu_slice_ms = 1e5; /* how many submissions there are does not depend on the time */
    rs.device = way->device, rs.split = way->split, rs.n_threads = 1, rs.log = keep_line, rs.log_user = log;
    ss.n_ctx = 128, ss.n_batch = N_ASKED;
    OK(lutra_runtime_open(&rt, &rs, err));
    OK(lutra_model_open(&model, rt, path, NULL, err));
    OK(lutra_session_open(&s, model, &ss, err));
    assert_int_equal(plan_mixes(model_plan(model, 1)), way->split != NULL);
    assert_int_equal(model_plan(model, 1)->by_class, way->split && strchr(way->split, '/'));
    struct gpu_functions *vk = &((struct gpu_device *)rt->devices.device[0])->vk;
    VkResult with = calls.with;
    bool stands = calls.stands;
    memset(&calls, 0, sizeof calls);
    calls.submit = vk->QueueSubmit, vk->QueueSubmit = submit;
    calls.wait = vk->WaitSemaphores, vk->WaitSemaphores = wait_for;
    calls.stands = stands;
    calls.counter = vk->GetSemaphoreCounterValue, vk->GetSemaphoreCounterValue = counter;
    calls.end = vk->EndCommandBuffer, vk->EndCommandBuffer = end;
    calls.fail_submit = fail_submit, calls.fail_wait = fail_wait, calls.fail_end = fail_end, calls.with = with;
    loss.gone_ms = 0;
    const double start_ms = loss_clock_ms();
    ask(s, out);
    if (!fail_submit && !fail_wait && !fail_end) loss.calm_ms = loss_clock_ms() - start_ms;
    lutra_session_close(&s);
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
}

static int n_lost;
static struct loss_held held; /* behind the first few */

static void check(const char *path, int fail_submit, int fail_wait, int fail_end, const struct answer *want)
{
    static struct lines log;
    struct answer got;
    ask_once(path, fail_submit, fail_wait, fail_end, &got, &log);
    if (got.n != want->n || got.n_end != 1 || memcmp(got.id, want->id, sizeof got.id))
        fail_msg("lost at submit %d, wait %d, end %d: another answer, of %d tokens", fail_submit, fail_wait, fail_end,
            got.n);
    bool lost = strstr(log.text, "vulkan is lost") != NULL;
    if (lost != (calls.with != VK_TIMEOUT || calls.stands)) fail_msg("is it lost?  The log says: %s", log.text);
    loss_check_log(log.text, "vulkan", lost);
    n_lost += lost;
    if (lost && n_lost == FIRST_LOST) held = loss_held_now();
}

static void report(const char *where)
{
    print_message("%s %s: lost %d times, %s; the next token took %.0f ms at most\n", way->device,
        way->split ? way->split : "", n_lost, where, loss.slowest_ms);
    assert_true(n_lost > FIRST_LOST);
    loss_check_time(way->device);
    loss_check_held(way->device, held);
    n_lost = 0;
}

/* A prompt whose answer has so many tokens: to `want`. */
static void find_prompt(const char *path, struct answer *want)
{
    static struct lines log;
    calls.with = VK_ERROR_DEVICE_LOST, calls.stands = false;
    for (first = 0, want->n = 0; first < 20 && want->n < n_tokens; first++) ask_once(path, 0, 0, 0, want, &log);
    first--;
    assert_int_equal(want->n, n_tokens);
    assert_null(strstr(log.text, "is lost"));
}

static void lose_at_calls(const char *path)
{
    struct answer want;
    const int step = way->split && !getenv("LUTRA_TEST_LONG") ? 7 : 1;
    char where[64];
    find_prompt(path, &want);
    int n_submit = calls.n_submit, n_wait = calls.n_wait, n_end = calls.n_end;
    assert_true(n_submit >= n_tokens && n_wait >= n_tokens);
    for (int i = 1; i <= n_submit; i += step) check(path, i, 0, 0, &want);
    for (int i = 1; i <= n_wait; i += step) check(path, 0, i, 0, &want);
    check(path, 0, 0, n_end, &want);
    snprintf(where, sizeof where, "at %d submits and %d waits", n_submit, n_wait);
    report(where);
}

static void lose_in_a_long_answer(const char *path)
{
    struct answer want;
    uint32_t seed = 3;
    n_tokens = MOST_TOKENS;
    find_prompt(path, &want);
    const int n_submit = calls.n_submit, n_wait = calls.n_wait;
    for (int i = 0; i < RANDOM_LONG; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int at = (int)((seed >> 8) % (uint32_t)(n_submit + n_wait)) + 1;
        check(path, at <= n_submit ? at : 0, at <= n_submit ? 0 : at - n_submit, 0, &want);
    }
    report("in 64 tokens");
    n_tokens = N_TOKENS;
}

static void answers_go_on_when_the_gpu_is_lost(void **state)
{
    struct fixture f;
    struct answer want;
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-llama", "F32", 1, 1);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        way = &ways[i];
        lose_at_calls(f.path);
        if (getenv("LUTRA_TEST_LONG")) lose_in_a_long_answer(f.path);
    }
    way = ways;
    find_prompt(f.path, &want);
    calls.with = VK_TIMEOUT; /* it takes long, and ends something meanwhile */
    check(f.path, 0, 2, 0, &want);
    calls.stands = true; /* it does not answer */
    check(f.path, 0, 2, 0, &want);
    assert_true(calls.patience_ns >= 60000000000ull); /* Mesa's CPU driver; a GPU is given 1.5 s */
    fixture_close(&f);
}

int main(void)
{
    gpu_need();
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers_go_on_when_the_gpu_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
