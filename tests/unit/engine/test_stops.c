/* SPDX-License-Identifier: MIT
 *
 * A cancel, or the end of a time limit, at every piece of every pass (at some, unless LUTRA_TEST_LONG is set), with
 * drafts of each kind, on every device: the pass ends, the session goes on, what runs next or beside says what it says
 * alone, and no memory stays taken.
 */
#include "engine/session_impl.h"
#include "mtp_block.h"

enum { N_PROMPT = 40, N_TOK = 4, N_LAYER = 6, N_DEVICE = 8, LIMIT_US = 1000000000 };

enum way { CANCEL_ALL, CANCEL_ONE, TIME_LIMIT, N_WAY };

/* Devices whose submits and waits are counted; at a number of them something happens. */
static struct {
    const struct device *device[N_DEVICE];
    const struct device_ops *inner[N_DEVICE];
    struct device_ops ops[N_DEVICE];
    int n_device, n_point, at; /* at: 0 = never */
    enum way way;
    lutra_session *s;
    int32_t id;
    struct virtual_time own, *time; /* a modelled phone has one already */
} hook;

static void point(void)
{
    if (++hook.n_point != hook.at) return;
    switch (hook.way) {
    case CANCEL_ALL: lutra_cancel(hook.s); break;
    case CANCEL_ONE: lutra_request_cancel(hook.s, hook.id); break;
    case TIME_LIMIT: clock_virtual_advance(hook.time, 2 * LIMIT_US); break;
    case N_WAY: break;
    }
}

static const struct device_ops *inner_of(const struct device *d)
{
    for (int i = 0; i < hook.n_device; i++)
        if (hook.device[i] == d) return hook.inner[i];
    fail();
    return NULL;
}

static int submit(struct device *d, const struct segment *segment, const struct ticket *after, int n_after,
    struct ticket *out, struct lutra_error *err)
{
    point();
    int rc = inner_of(d)->submit(d, segment, after, n_after, out, err);
    point();
    return rc;
}

static int wait_for(struct device *d, const struct ticket *ticket, struct lutra_error *err)
{
    point();
    int rc = inner_of(d)->wait(d, ticket, err);
    point();
    return rc;
}

static void hook_devices(lutra_runtime *rt)
{
    memset(&hook, 0, sizeof hook);
    for (int i = 0; i < rt->devices.n_device && i < N_DEVICE; i++) {
        struct device *d = rt->devices.device[i];
        hook.device[i] = d;
        hook.inner[i] = d->ops;
        hook.ops[i] = *d->ops;
        hook.ops[i].submit = submit;
        hook.ops[i].wait = wait_for;
        d->ops = &hook.ops[i];
        hook.n_device++;
    }
    bool is_virtual = rt->clock.now_us == clock_virtual(&hook.own).now_us;
    hook.time = is_virtual ? rt->clock.state : &hook.own;
    rt->clock = clock_virtual(hook.time);
}

struct heard {
    int32_t token[2][N_TOK + 1];
    int n[2];
    enum lutra_stop reason[2];
    int n_accepted;
    const struct heard *guess; /* drafts say what this one says, now and then something else */
};

static int on_text(void *user, const struct lutra_piece *piece)
{
    struct heard *h = user;
    if (piece->token >= 0 && h->n[piece->sample] < N_TOK) h->token[piece->sample][h->n[piece->sample]++] = piece->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    struct heard *h = user;
    h->reason[end->sample] = end->reason;
    h->n_accepted += end->n_accepted;
}

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    const struct heard *guess = ((struct heard *)user)->guess;
    int at = tip->n_token - N_PROMPT, n = 0;
    for (; guess && n < 4 && n < n_max && at + n < guess->n[tip->sample]; n++)
        draft[n] =
            (struct lutra_draft){.token = n == 3 ? 7 : guess->token[tip->sample][at + n], .parent = n - 1, .p = .9f};
    return n;
}

static int32_t prompt[2][N_PROMPT];

static int32_t send(struct heard *h, int which, const struct heard *guess)
{
    struct lutra_request r;
    struct lutra_sampling sampling;
    int32_t id;
    memset(h, 0, sizeof *h);
    h->guess = guess;
    lutra_request_init(&r, sizeof r);
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.seed = 3;
    for (int i = 0; i < N_PROMPT; i++) prompt[which][i] = token_at(i + (which && i > 30 ? 100 : 0));
    r.prompt = prompt[which];
    r.n_prompt = N_PROMPT;
    r.n_samples = 2;
    r.max_tokens = N_TOK;
    r.sampling = &sampling;
    r.ignore_end = true;
    r.timeout_us = hook.way == TIME_LIMIT && which == 0 ? LIMIT_US : 0;
    r.on_text = on_text;
    r.on_end = on_end;
    if (guess) r.on_draft = on_draft;
    r.user = h;
    OK(lutra_submit(hook.s, &r, &id, err));
    return id;
}

static void go(void)
{
    int active = 1;
    while (active) {
        struct lutra_error why;
        int rc = lutra_step(hook.s, &active, &why);
        if (rc < 0 && rc != LUTRA_E_CANCELLED) fail_msg("point %d, way %d: %s", hook.at, (int)hook.way, why.what);
    }
}

static void same(const struct heard *got, const struct heard *want, const char *what)
{
    for (int k = 0; k < 2; k++)
        if (got->n[k] != want->n[k] || memcmp(got->token[k], want->token[k], (size_t)want->n[k] * sizeof(int32_t)))
            fail_msg(
                "%s, sample %d, after a stop of kind %d at point %d: another text", what, k, (int)hook.way, hook.at);
}

/* Nothing runs: no slot is taken, and all blocks of the cache are free or only found. */
static void nothing_is_left(lutra_session *s)
{
    struct kv_usage u;
    kv_usage(s->kv, &u);
    assert_null(s->first);
    assert_int_equal(u.n_promised, 0);
    assert_int_equal(u.n_free + u.n_kept, u.n_block);
    for (int i = 0; i < s->n_seq; i++) assert_null(s->sample[i].request);
}

/* What drafts: the caller (NULL), or the session's own. */
struct place {
    const char *device, *shape, *spec;
};

static void open_session(const struct fixture *f, const char *spec)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = 4;
    ss.n_ctx = 128;
    ss.n_batch = 32;
    ss.spec_type = spec;
    ss.draft_model = spec && !strcmp(spec, "draft") ? f->model : NULL;
    ss.draft_p_min = 0;
    ss.experiment = fixture_row_cost(0.001f);
    OK(lutra_session_open(&hook.s, f->model, &ss, err));
}

static bool is_there(const char *device)
{
    struct lutra_runtime_settings rs;
    struct lutra_error why;
    lutra_runtime *rt;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.device = device;
    if (lutra_runtime_open(&rt, &rs, &why) < 0) {
        print_message("%s: %s\n", device, why.what);
        return false;
    }
    lutra_runtime_close(&rt);
    return true;
}

static void check(const struct place *p)
{
    struct fixture f;
    struct heard alone[2], first, beside, next;
    fixture_make(
        &f, &(struct where){p->device, NULL}, p->shape, "F16", N_LAYER, !strncmp(p->device, "cpu:", 4) ? 0 : 1);
    if (p->spec && strstr(p->spec, "mtp")) add_mtp_block(f.path, &(struct mtp_form){0});
    OK(lutra_model_open(&f.model, f.rt, f.path, NULL, err));
    hook_devices(f.rt);
    for (int which = 0; which < 2; which++) {
        open_session(&f, NULL);
        send(&alone[which], which, NULL);
        go();
        assert_int_equal(alone[which].n[0], N_TOK);
        lutra_session_close(&hook.s);
    }
    int n_stopped = 0, n_accepted = 0;
    const struct heard *guess[2] = {p->spec ? NULL : &alone[0], p->spec ? NULL : &alone[1]};
    open_session(&f, p->spec);
    hook.n_point = hook.at = 0;
    send(&first, 0, guess[0]);
    send(&beside, 1, guess[1]);
    go();
    bool slow = SANITIZED || !strcmp(p->device, "npu-qemu") || !strcmp(p->device, "vulkan");
    int n_point = hook.n_point, n_try = slow ? 1 : p->spec ? 2 : 3; /* of each way */
    int step = getenv("LUTRA_TEST_LONG") ? 1 : (n_point + n_try - 1) / n_try;
    for (int way = 0; way < N_WAY; way++) {
        for (int at = 1 + (1 + way) * step / 4; at <= n_point; at += step) {
            hook.way = (enum way)way, hook.at = 0;
            hook.id = send(&first, 0, guess[0]);
            send(&beside, 1, guess[1]);
            hook.n_point = 0, hook.at = at;
            go();
            hook.at = 0;
            nothing_is_left(hook.s);
            n_stopped += first.reason[0] == LUTRA_STOP_CANCELLED || first.reason[0] == LUTRA_STOP_DEADLINE;
            if (way != CANCEL_ALL) same(&beside, &alone[1], "beside");
            send(&next, 0, guess[0]);
            go();
            hook.at = at;
            same(&next, &alone[0], "the next");
            n_accepted += next.n_accepted;
        }
    }
    print_message("%s %s, drafts %s: %d pieces begin or end, %d stops, %d drafts accepted\n", p->device, p->shape,
        p->spec ? p->spec : "of the caller", n_point, n_stopped, n_accepted);
    assert_true(n_stopped > 0 && (p->spec || n_accepted > 0));
    lutra_session_close(&hook.s);
    for (int i = 0; i < hook.n_device; i++) ((struct device *)(uintptr_t)hook.device[i])->ops = hook.inner[i];
    fixture_close(&f);
}

static void at_every_piece(void **state)
{
    const struct place *p = *state;
    if (!getenv("LUTRA_TEST_LONG") && p->spec && strcmp(p->device, "cpu") != 0) skip(); /* each is tried apart */
    if (SANITIZED && (!strcmp(p->device, "vulkan") || !strcmp(p->device, "npu-sim,cpu"))) skip(); /* half the time */
    if (!is_there(p->device)) skip();
    check(p);
}

int main(void)
{
    static struct place places[] = {{"cpu", "tiny-llama", NULL}, {"cpu:0,cpu:1", "tiny-llama", NULL},
        {"cpu-ref", "tiny-llama", NULL}, {"npu-sim", "tiny-llama", NULL}, {"npu-sim,cpu", "tiny-llama", NULL},
        {"npu-qemu", "tiny-llama", NULL}, {"vulkan", "tiny-llama", NULL}, {"sim:8gen3", "tiny-llama", NULL},
        {"cpu", "tiny-qwen2", "mtp"}, {"cpu", "tiny-qwen2", "draft"}, {"cpu", "tiny-qwen2", "calibrated"},
        {"cpu", "tiny-qwen35", "auto"}, {"cpu:0,cpu:1", "tiny-qwen2", "mtp"}, {"npu-sim", "tiny-qwen2", "mtp"},
        {"npu-sim,cpu", "tiny-qwen2", "draft"}, {"sim:8gen3", "tiny-qwen2", "calibrated,mtp"},
        {"vulkan", "tiny-qwen2", "draft"}};
    struct CMUnitTest tests[sizeof places / sizeof *places];
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(at_every_piece, &places[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
