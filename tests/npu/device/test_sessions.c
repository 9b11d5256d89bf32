/* SPDX-License-Identifier: MIT
 *
 * A model that exceeds one window: weights and cache over several NPU sessions, values handed from one to the next.
 * The bits are those of one large window, whichever session is lost the CPU goes on, and what fits nowhere is said by
 * name.
 */
#include "device_fixture.h"
#include "loss_fixture.h"

#include <signal.h>

#include "npu/host/session.h"

/* Windows that hold this model with a small context in one, two and three sessions. */
static const struct {
    int kib, sessions;
} windows[] = {{16384, 1}, {1600, 2}, {1100, 3}};

/* Devices, and how they share products, by class where there is a '/'; NULL: they do not. */
struct shared {
    const char *device, *split;
};

static bool is_by_class(struct shared on)
{
    return on.split && strchr(on.split, '/');
}

static void hear(void *user, enum lutra_log_level level, const char *line)
{
    loss_hear(line);
    keep_line(user, level, line);
}

static void open_model(
    struct fixture *f, const char *path, struct shared on, int window_kib, int n_ctx, struct lines *log)
{
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    memset(f, 0, sizeof *f);
    rs.device = on.device, rs.split = on.split;
    rs.n_threads = 2;
    rs.log = log ? hear : NULL, rs.log_user = log;
    ss.n_seq = 2, ss.n_ctx = n_ctx, ss.n_batch = is_by_class(on) ? 64 : 8, ss.n_out = 2;
    rs.npu_window_bytes = (uint64_t)window_kib << 10;
    rs.npu_program = NPU_PROGRAM;
    OK(lutra_runtime_open(&f->rt, &rs, err));
    OK(lutra_model_open(&f->model, f->rt, path, NULL, err));
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

static void open_with(struct fixture *f, const char *device, int window_kib, int n_ctx, struct lines *log)
{
    open_model(f, MODEL, (struct shared){device, NULL}, window_kib, n_ctx, log);
}

static void open_in(struct fixture *f, const char *device, int window_kib)
{
    open_with(f, device, window_kib, 128, NULL);
}

/* Everything that moves a cache: a prompt in chunks, single rows, a fork, drafts and their commit over a block's
 * end. */
struct trace {
    float logits[40][N_VOCAB];
    int n;
};

static void keep(struct trace *t, const float *logits)
{
    memcpy(t->logits[t->n++], logits, sizeof t->logits[0]);
}

static void play(lutra_session *s, struct trace *t)
{
    int32_t a, b;
    t->n = 0;
    OK(lutra_seq_open(s, 0, &a, err));
    for (int i = 0; i < 56; i += 8) keep(t, feed(s, a, i, 8, 0));
    OK(lutra_seq_fork(s, a, -1, 0, &b, err));
    for (int i = 56; i < 60; i++) keep(t, feed(s, a, i, 1, 0));
    keep(t, feed(s, b, 56, 3, 0));
    keep(t, feed(s, b, 59, 7, LUTRA_ROW_DRAFT));
    OK(lutra_commit(s, 6, err));
    for (int i = 66; i < 70; i++) keep(t, feed(s, b, i, 1, 0));
    struct lutra_row both[] = {{5, 60, a, -1, LUTRA_WANT_LOGITS, 0}, {6, 70, b, -1, LUTRA_WANT_LOGITS, 0}};
    OK(lutra_forward(s, both, 2, sizeof *both, err));
    for (int i = 0; i < 2; i++) keep(t, lutra_forward_result(s, i)->logits);
    lutra_seq_close(s, a);
    lutra_seq_close(s, b);
}

static void bits_of_one_window(void **state)
{
    (void)state;
    static struct trace one, many;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        struct fixture f;
        open_in(&f, "npu-sim", windows[i].kib);
        assert_int_equal(npu_of(&f)->n_window, windows[i].sessions);
        play(f.s, i ? &many : &one);
        if (i) assert_memory_equal(&one, &many, sizeof one);
        play(f.s, &many); /* again, over a used cache */
        assert_memory_equal(&one, &many, sizeof one);
        shut(&f);
    }
}

/* Passes of a whole block and rows around it: bulk rows on the NPU, the others on the CPU. */
static void play_classes(lutra_session *s, struct trace *t)
{
    enum { N = 60 };
    int32_t seq;
    OK(lutra_seq_open(s, 0, &seq, err));
    for (t->n = 0; t->n < 3;) keep(t, feed(s, seq, t->n * N, N, LUTRA_ROW_BULK));
    lutra_seq_close(s, seq);
}

/* A value goes from session to session while the CPU writes its rows of it. */
static void classes_of_one_window(void **state)
{
    (void)state;
    static const int kib[] = {16384, 6400};
    static struct trace one, many;
    for (size_t i = 0; i < sizeof kib / sizeof *kib; i++) {
        struct trace *t = i ? &many : &one;
        struct fixture f;
        open_model(&f, LUTRA_SOURCE_DIR "/models/abacus-3m-f16.gguf", (struct shared){"npu-sim,cpu", "1,0/0,1"}, kib[i],
            192, NULL);
        assert_int_equal(npu_of(&f)->window[1].weight_bytes > 0, i);
        play_classes(f.s, t);
        if (i) assert_memory_equal(&one, &many, sizeof one);
        shut(&f);
    }
}

/* Products by lookup, weights in two sessions, some with one input in both: tables stand where they are read. */
static void lookups_of_one_window(void **state)
{
    (void)state;
    static struct trace one, many;
    char path[64];
    snprintf(path, sizeof path, "/tmp/lutra-npu-windows-%d.gguf", (int)getpid());
    quantize(path, LUTRA_SOURCE_DIR "/models/abacus-3m-f16.gguf", "TQ2_0");
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        open_model(&f, path, (struct shared){"npu-sim:lookup", NULL}, i ? 1040 : 16384, 128, NULL);
        const struct npu_device *d = npu_of(&f);
        assert_int_equal(d->n_window, i ? 3 : 1);
        assert_int_equal(d->window[1].weight_bytes > 0, i); /* the third one has caches alone */
        play(f.s, i ? &many : &one);
        assert_ptr_equal(runtime_first(f.rt), &d->base); /* not lost on the way */
        shut(&f);
    }
    remove(path);
    assert_memory_equal(&one, &many, sizeof one);
}

struct text {
    char bytes[2][1024];
};

/* A process that gets a signal in the middle of an answer; 0: none. */
static struct {
    pid_t pid;
    int signal;
} victim;

static int on_text(void *user, const struct lutra_piece *piece)
{
    struct text *t = user;
    if (victim.pid && strlen(t->bytes[0]) > 8) {
        kill(victim.pid, victim.signal);
        victim.pid = 0;
    }
    strncat(t->bytes[piece->sample], piece->text, piece->n_bytes);
    return 0;
}

#define SHORT "Tom has 3 apples and buys 5 more. How many apples does he have?"
/* Its prompt has a whole block and more. */
#define LONG                                                                                                           \
    "Tom has 3 apples and buys 5 more. Then he gives 2 apples to Ann and buys 4 more. Ann gives 1 apple back. How "    \
    "many apples does Tom have in the end?"
static const char *question = SHORT;

/* Two samples of a chat, token for token. */
static void answer_at(const struct fixture *f, float temperature, int max_tokens, struct text *out)
{
    struct lutra_request r;
    lutra_request_init(&r, sizeof r);
    struct lutra_message m = {.role = "user", .content = question};
    int32_t id[128];
    char *text;
    memset(out, 0, sizeof *out);
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = &m;
    chat.n_message = 1;
    OK(lutra_chat_render(f->model, &chat, &text, NULL, err));
    OK(lutra_tokenize(f->model, text, strlen(text), LUTRA_PARSE_SPECIAL, id, 128, &r.n_prompt, err));
    assert_in_range(r.n_prompt, strcmp(question, SHORT) ? 40 : 1, 128);
    lutra_free(text);
    r.prompt = id, r.n_samples = 2, r.max_tokens = max_tokens;
    struct lutra_sampling sampling;
    lutra_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = temperature, sampling.seed = 7;
    r.sampling = &sampling;
    r.on_text = on_text, r.user = out;
    OK(lutra_generate(f->s, &r, err));
    assert_true(strlen(out->bytes[0]) > 4);
}

static void answer(const struct fixture *f, int max_tokens, struct text *out)
{
    answer_at(f, 1, max_tokens, out);
}

static void answers_of_one_window(void **state)
{
    (void)state;
    struct text one, many;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        struct fixture f;
        open_in(&f, "npu-sim", windows[i].kib);
        answer(&f, 60, i ? &many : &one);
        if (i) assert_memory_equal(&one, &many, sizeof one);
        shut(&f);
    }
}

/* Weights that leave no room for the cache: it lies in a session of its own. */
static void a_cache_may_lie_elsewhere(void **state)
{
    (void)state;
    static struct trace one, many;
    struct lines log = {""};
    struct fixture f;
    open_with(&f, "npu-sim", 16384, 512, NULL);
    play(f.s, &one);
    shut(&f);
    open_with(&f, "npu-sim", 2400, 512, &log);
    const struct npu_device *d = npu_of(&f);
    assert_int_equal(d->n_window, 2);
    assert_int_equal(d->window[1].weight_bytes, 0);
    assert_non_null(strstr(log.text, "session 1 of 2: 29 weights (token_embd.weight .. blk.3.ffn_down.weight)"));
    assert_non_null(strstr(log.text, "session 2 of 2: no weights, caches of "));
    assert_non_null(strstr(log.text, "npu-sim TCM: "));
    play(f.s, &many);
    assert_memory_equal(&one, &many, sizeof one);
    shut(&f);
}

/* Whichever session goes away after eight tokens, the CPU goes on from there. */
static void loss_of_any_session(void **state)
{
    (void)state;
    for (int lost = 0; lost < 3; lost++) {
        struct fixture f, cpu;
        int32_t a, b;
        open_in(&f, "npu-sim", windows[2].kib);
        open_in(&cpu, "cpu", 0);
        OK(lutra_seq_open(f.s, 0, &a, err));
        OK(lutra_seq_open(cpu.s, 0, &b, err));
        feed(f.s, a, 0, 8, 0), feed(cpu.s, b, 0, 8, 0);
        npu_of(&f)->window[lost].link->lost = true;
        const float *x = feed(f.s, a, 8, 4, 0), *y = feed(cpu.s, b, 8, 4, 0);
        for (int i = 0; i < N_VOCAB; i++) assert_true(fabsf(x[i] - y[i]) < 0.1f);
        assert_ptr_equal(runtime_first(f.rt), f.rt->devices.cpu);
        shut(&f);
        shut(&cpu);
    }
}

/* ---- lost in the middle of an answer ---- */

enum { LOST_TOKENS = 24, LOST_PLACES = SANITIZED ? 2 : 6, ENDS = 2 };
enum { LOST_TOKENS_LONG = 64, LOST_PLACES_LONG = 200 / 6, KILLED_PLACES_LONG = 20 };

static int n_tokens(void)
{
    return getenv("LUTRA_TEST_LONG") ? LOST_TOKENS_LONG : LOST_TOKENS;
}

/* How an NPU goes. */
enum way { ENDED, SILENT, KILLED };
static const char *const says[] = {"switched off", "the NPU answers no more", "the NPU's program ended: signal 9"};

/* The NPU's end of the rings of one device or two: looked after so many more times, then it goes. */
static struct {
    int (*poll)(struct npu_session *, struct lutra_error *);
    long left, n;
    enum way way;
    pid_t pid; /* of its program, where it has one */
} end[ENDS];

static int poll_end(int which, struct npu_session *s, struct lutra_error *err)
{
    end[which].n++;
    if (end[which].left > 0 && !--end[which].left) loss_begins();
    if (!end[which].left && end[which].way == ENDED)
        return lutra_fail(err, LUTRA_E_DEVICE_LOST, "npu-sim: switched off");
    if (!end[which].left && end[which].way == SILENT) return 0;
    if (!end[which].left && end[which].pid) kill(end[which].pid, SIGKILL);
    return end[which].poll(s, err);
}

static int poll_first(struct npu_session *s, struct lutra_error *err)
{
    return poll_end(0, s, err);
}

static int poll_second(struct npu_session *s, struct lutra_error *err)
{
    return poll_end(1, s, err);
}

/* The NPUs among the devices, each of which goes after `calls` looks; -1: never. */
static int set_ends(const struct fixture *f, const long *calls, enum way way)
{
    int n = 0;
    for (int i = 0; i < f->rt->devices.n_device; i++) {
        struct npu_device *d = (struct npu_device *)f->rt->devices.device[i];
        if (&d->base == f->rt->devices.cpu) continue;
        assert_true(n < ENDS);
        end[n].left = calls[n], end[n].n = 0, end[n].way = way;
        for (int w = 0; w < d->n_window; w++) {
            struct npu_session *s = (struct npu_session *)d->window[w].link;
            end[n].poll = s->poll, s->poll = n ? poll_second : poll_first;
            if (way == SILENT) s->silent_looks = 1;
        }
        n++;
    }
    return n;
}

/* An answer of devices that go: those that have gone are in no plan any more. */
static void answer_until(
    struct shared on, const long *calls, enum way way, int max_tokens, struct lines *log, struct text *out)
{
    struct fixture f;
    bool lost = false;
    open_model(&f, MODEL, on, windows[on.split ? 0 : 1].kib, is_by_class(on) ? 256 : 128, log);
    log->text[0] = 0; /* of opening */
    const int n = set_ends(&f, calls, way);
    assert_int_equal(plan_mixes(&f.model->plan), on.split != NULL);
    assert_int_equal(f.model->plan.by_class, is_by_class(on));
    loss.gone_ms = 0;
    const double start_ms = loss_clock_ms();
    answer_at(&f, 0, max_tokens, out);
    const double took_ms = loss_clock_ms() - start_ms;
    for (int i = 0, k = 0; i < f.rt->devices.n_device; i++) {
        if (f.rt->devices.device[i] == f.rt->devices.cpu) continue;
        assert_int_equal(model_uses(f.model, f.rt->devices.device[i]), end[k++].left != 0);
    }
    for (int k = 0; k < n; k++) {
        lost |= !end[k].left;
        if (!end[k].left && !strstr(log->text, says[way])) fail_msg("the log: %s", log->text);
    }
    if (!lost) loss.calm_ms = took_ms;
    loss_check_log(log->text, NULL, lost);
    shut(&f);
}

static void text_of_cpu(struct text *out)
{
    struct fixture f;
    open_with(&f, "cpu", 0, 256, NULL);
    answer_at(&f, 0, n_tokens(), out);
    shut(&f);
}

static uint32_t below(uint32_t *seed, long n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*seed * (uint64_t)n) >> 32);
}

/* At every look of two passes. */
static void lose_in_two_passes(struct shared on)
{
    struct text want, got;
    struct lines log = {""};
    answer_until(on, (const long[]){-1, -1}, ENDED, 2, &log, &want);
    const long n = end[0].n;
    for (long at = 1; at <= n; at++) {
        answer_until(on, (const long[]){at, -1}, at % 2 ? SILENT : ENDED, 2, &log, &got);
        if (memcmp(&want, &got, sizeof got)) fail_msg("%s lost at %ld of %ld: '%s'", on.device, at, n, got.bytes[0]);
    }
    print_message("%s %s: lost at %ld looks of two passes\n", on.device, on.split, n);
}

/* At random places an NPU ends, or answers no more, alone or where it shares products: the others go on, and the text
 * is that of any alone.  Of two that share with the CPU one goes, and then the other. */
static void an_answer_outlives_its_npu(void **state)
{
    static const struct shared lists[] = {{"npu-sim", NULL}, {"npu-sim,cpu", "1,1"}, {"cpu,npu-sim", "2,1"},
        {"npu-sim,npu-sim,cpu", "1,1,2"}, {"npu-sim,cpu", "1,0/0,1"}, {"npu-sim,cpu", "1,1/1,2"}};
    (void)state;
    struct text want, got;
    struct lines log = {""};
    uint32_t seed = 5;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        question = is_by_class(lists[l]) ? LONG : SHORT;
        text_of_cpu(&want);
        answer_until(lists[l], (const long[]){-1, -1}, ENDED, n_tokens(), &log, &got);
        assert_memory_equal(&want, &got, sizeof got);
        const long n[] = {end[0].n, end[1].n};
        int n_place = getenv("LUTRA_TEST_LONG") ? LOST_PLACES_LONG : lists[l].split ? LOST_PLACES / 2 : LOST_PLACES;
        struct loss_held held = {0};
        for (int i = 0; i < n_place; i++) {
            const long at[] = {1 + below(&seed, n[0]), 1 + below(&seed, n[1])};
            answer_until(lists[l], at, i % 2 ? SILENT : ENDED, n_tokens(), &log, &got);
            if (memcmp(&want, &got, sizeof got))
                fail_msg("%s lost at %ld of %ld: '%s'", lists[l].device, at[0], n[0], got.bytes[0]);
            if (i == 0) held = loss_held_now();
        }
        print_message("%s %s: lost %d times; the next token took %.0f ms at most\n", lists[l].device,
            lists[l].split ? lists[l].split : "", n_place, loss.slowest_ms);
        loss_check_time(lists[l].device);
        loss_check_held(lists[l].device, held);
        if (getenv("LUTRA_TEST_LONG") && is_by_class(lists[l])) lose_in_two_passes(lists[l]);
    }
    question = SHORT;
}

/* A matrix that no window holds runs on the CPU, and the log says which and how large; the device itself refuses it. */
static void a_tensor_larger_than_a_window(void **state)
{
    (void)state;
    static const char reason[] = "tensor 'token_embd.weight' of 256 KiB exceeds a session's window of 256 KiB";
    struct lines log = {""};
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    struct lutra_error why = {0};
    lutra_runtime *rt;
    lutra_model *model;
    bool keeps;
    rs.device = "npu-sim";
    rs.log = keep_line, rs.log_user = &log;
    rs.npu_window_bytes = 256 << 10;
    OK(lutra_runtime_open(&rt, &rs, err));
    OK(lutra_model_open(&model, rt, MODEL, NULL, err));
    assert_non_null(strstr(log.text, reason));
    struct weight w = *model_weight(model->model, 0);
    memset(w.held, 0, sizeof w.held);
    assert_int_equal(rt->devices.device[0]->ops->prepare(rt->devices.device[0], &w, &keeps, &why), LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(why.what, reason));
    lutra_model_close(&model);
    lutra_runtime_close(&rt);
}

/* Nothing has room for a long context: an error with sizes, no sessions left open, and a small one still fits. */
static void a_cache_larger_than_all_windows(void **state)
{
    (void)state;
    struct fixture f;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    struct lutra_error why = {0};
    lutra_session *other = NULL;
    open_in(&f, "npu-sim", windows[1].kib);
    ss.n_ctx = 4096, ss.n_seq = 2, ss.n_batch = 8, ss.n_out = 2; /* its tables do not fit already */
    assert_int_equal(lutra_session_open(&other, f.model, &ss, &why), LUTRA_E_NO_MEMORY);
    ss.n_ctx = 128, ss.n_cache = 1 << 16;
    assert_int_equal(lutra_session_open(&other, f.model, &ss, &why), LUTRA_E_NO_MEMORY);
    assert_null(other);
    assert_non_null(strstr(why.what, "npu-sim: a cache of "));
    assert_int_equal(npu_of(&f)->n_window, 2);
    int32_t a;
    OK(lutra_seq_open(f.s, 0, &a, err));
    feed(f.s, a, 0, 8, 0);
    shut(&f);
}

/* The newest child of this process. */
static pid_t newest_child(void)
{
    char path[64];
    int pid, last = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%d", &pid) == 1) last = pid;
    if (f) fclose(f);
    return last;
}

/* Its program is killed at random looks, while it computes its shares and the CPU has computed its own. */
static void lost_while_it_shares(struct shared on)
{
    const int n_place = getenv("LUTRA_TEST_LONG") ? KILLED_PLACES_LONG : 2;
    struct lines log = {""};
    struct text want, got;
    uint32_t seed = 9;
    question = is_by_class(on) ? LONG : SHORT;
    text_of_cpu(&want);
    for (int i = 0; i < n_place; i++) {
        struct fixture f;
        const long at = 1 + below(&seed, 200);
        open_model(&f, MODEL, on, windows[0].kib, is_by_class(on) ? 256 : 128, &log);
        log.text[0] = 0;
        end[0].pid = newest_child();
        set_ends(&f, &at, KILLED);
        answer_at(&f, 0, n_tokens(), &got);
        end[0].pid = 0;
        assert_int_equal(end[0].left, 0);
        assert_memory_equal(&want, &got, sizeof got);
        assert_false(model_uses(f.model, &npu_of(&f)->base));
        if (!strstr(log.text, says[KILLED])) fail_msg("the log: %s", log.text);
        loss_check_log(log.text, NULL, true);
        shut(&f);
        assert_int_equal(newest_child(), 0);
    }
    print_message(
        "%s %s: killed %d times; the next token took %.0f ms at most\n", on.device, on.split, n_place, loss.slowest_ms);
    loss_check_time(on.device);
    question = SHORT;
}

/* Two Hexagon programs under QEMU, each with its window; one is killed and the CPU goes on. */
static void under_qemu(void **state)
{
    (void)state;
    struct npu_transport *probe;
    struct lutra_error why;
    struct text one, many;
    struct fixture f;
    struct npu_transport_settings small = {.memory_bytes = 1 << 20, .program = NPU_PROGRAM};
    if (npu_child_open(&probe, &small, &why)) {
        print_message("%s\n", why.what);
        skip();
    }
    npu_transport_close(&probe);
    open_in(&f, "npu-sim", windows[1].kib);
    answer(&f, 10, &one);
    shut(&f);
    open_in(&f, "npu-qemu", windows[1].kib);
    assert_int_equal(npu_of(&f)->n_window, 2);
    answer(&f, 10, &many);
    assert_memory_equal(&one, &many, sizeof one);
    struct fixture cpu;
    int32_t a, b;
    open_in(&cpu, "cpu", 0);
    OK(lutra_seq_open(f.s, 0, &a, err));
    OK(lutra_seq_open(cpu.s, 0, &b, err));
    feed(f.s, a, 0, 2, 0), feed(cpu.s, b, 0, 2, 0);
    assert_true(newest_child() > 0);
    kill(newest_child(), SIGKILL);
    const float *x = feed(f.s, a, 2, 4, 0), *y = feed(cpu.s, b, 2, 4, 0);
    for (int i = 0; i < N_VOCAB; i++) assert_true(fabsf(x[i] - y[i]) < 0.1f);
    assert_ptr_equal(runtime_first(f.rt), f.rt->devices.cpu);
    shut(&cpu);
    shut(&f);
    lost_while_it_shares((struct shared){"npu-qemu,cpu", "1,1"});
    lost_while_it_shares((struct shared){"npu-qemu,cpu", "1,1/0,1"});
    text_of_cpu(&one);
    for (int i = 0; i < 2; i++) { /* in the middle of an answer, killed and stopped */
        open_in(&f, "npu-qemu", windows[0].kib);
        victim.pid = newest_child(), victim.signal = i ? SIGSTOP : SIGKILL;
        answer_at(&f, 0, n_tokens(), &many);
        assert_int_equal(victim.pid, 0);
        assert_memory_equal(&one, &many, sizeof one);
        assert_ptr_equal(runtime_first(f.rt), f.rt->devices.cpu);
        assert_int_equal(newest_child(), 0);
        shut(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_one_window),
        cmocka_unit_test(classes_of_one_window),
        cmocka_unit_test(lookups_of_one_window),
        cmocka_unit_test(answers_of_one_window),
        cmocka_unit_test(a_cache_may_lie_elsewhere),
        cmocka_unit_test(loss_of_any_session),
        cmocka_unit_test(an_answer_outlives_its_npu),
        cmocka_unit_test(a_tensor_larger_than_a_window),
        cmocka_unit_test(a_cache_larger_than_all_windows),
        cmocka_unit_test(under_qemu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
