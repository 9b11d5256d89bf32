/* SPDX-License-Identifier: MIT
 *
 * Models that are read while their first prompt is evaluated: the same bits, and what cannot be read fails the request
 * by the tensor's name.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "engine/session_impl.h"
#include "engine_fixture.h"

enum { N_PROMPT = 150, N_SAID = 12 };

static lutra_runtime *open_runtime(const char *device, bool progressive)
{
    lutra_runtime *rt;
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.device = device, rs.progressive = progressive;
    OK(lutra_runtime_open(&rt, &rs, err));
    return rt;
}

struct heard {
    int32_t token[N_SAID];
    float logprob[N_SAID];
    int n, bulk; /* bulk: positions of a prompt's block, which decide on classes of rows */
};

static int on_text(void *user, const struct lutra_piece *p)
{
    struct heard *h = user;
    if (p->token >= 0) h->logprob[h->n] = p->log_prob, h->token[h->n++] = p->token;
    return 0;
}

static int generate(lutra_session *s, struct heard *h, struct lutra_error *err)
{
    struct lutra_request r;
    int32_t prompt[N_PROMPT];
    lutra_request_init(&r, sizeof r);
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = token_at(i);
    r.prompt = prompt, r.n_prompt = N_PROMPT, r.max_tokens = N_SAID, r.ignore_end = true;
    r.on_text = on_text, r.user = h;
    memset(h, 0, sizeof *h);
    h->bulk = s->batch.bulk;
    return lutra_generate(s, &r, err);
}

static lutra_session *open_session(lutra_model *m)
{
    lutra_session *s;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_ctx = 256;
    OK(lutra_session_open(&s, m, &ss, err));
    return s;
}

static void say(const char *path, const char *device, bool progressive, struct heard *h)
{
    lutra_runtime *rt = open_runtime(device, progressive);
    lutra_model *m;
    OK(lutra_model_open(&m, rt, path, NULL, err));
    assert_int_equal(atomic_load(&m->reading), progressive);
    lutra_session *s = open_session(m), *other = open_session(m);
    OK(generate(s, h, err));
    assert_int_equal(h->n, N_SAID);
    assert_false(atomic_load(&m->reading));
    assert_null(m->reader);
    for (int i = 0; i < model_n_weight(m->model); i++) assert_true(weight_is_ready(model_weight(m->model, i), NULL));
    struct heard again;
    OK(generate(other, &again, err));
    assert_memory_equal(&again, h, sizeof again);
    lutra_session_close(&s);
    lutra_session_close(&other);
    lutra_model_close(&m);
    lutra_runtime_close(&rt);
}

static bool have_two(void)
{
    int cpu[4] = {0};
    return cpu_allowed(cpu, 4) >= 2 && cpu[0] == 0 && cpu[1] == 1;
}

/* KiB of a file that this process maps and has touched. */
static long resident(const char *path)
{
    char line[512];
    long kib = 0, n;
    bool inside = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' ')) inside = strstr(line, path) != NULL;
        if (inside && sscanf(line, "Rss: %ld kB", &n) == 1) kib += n;
    }
    fclose(f);
    return kib;
}

/* Behind the first answer all is packed: what the vocabulary was read from goes back as what the weights were does. */
static void keeps_no_page_more(void **state)
{
    long kib[2];
    struct fixture f;
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-qwen2", "Q4_0", 0, 0);
    for (int progressive = 0; progressive < 2; progressive++) {
        struct heard h;
        lutra_runtime *rt = open_runtime("cpu", progressive);
        lutra_model *m;
        OK(lutra_model_open(&m, rt, f.path, NULL, err));
        lutra_session *s = open_session(m);
        OK(generate(s, &h, err));
        kib[progressive] = resident(f.path);
        lutra_session_close(&s);
        lutra_model_close(&m);
        lutra_runtime_close(&rt);
    }
    print_message("resident behind an answer: %ld KiB, progressive %ld\n", kib[0], kib[1]);
    assert_in_range(kib[1], 0, kib[0] + 4);
    fixture_close(&f);
}

static void says_the_same(void **state)
{
    static const char *const types[] = {"Q4_0", "F16", "Q4_K"}, *const shapes[] = {"tiny-qwen2", "tiny-gemma2"};
    static const char *const devices[] = {"cpu", "cpu-ref", "sim:8gen3", "sim:8gen3.npu", "cpu:0,cpu:1"};
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct fixture f;
        fixture_make(&f, &(struct where){0}, shapes[i / 3], types[i % 3], 0, 0);
        for (int d = 0; d < (have_two() ? 5 : 4); d++) {
            struct heard all, early;
            say(f.path, devices[d], false, &all);
            say(f.path, devices[d], true, &early);
            if (memcmp(&all, &early, sizeof all)) fail_msg("%s %s on %s", shapes[i / 3], types[i % 3], devices[d]);
        }
        fixture_close(&f);
    }
}

/* The copy of `lutra pack` is what is read. */
static void reads_a_packed_copy(void **state)
{
    struct fixture f;
    char packed[96];
    struct heard all, early;
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-qwen2", "Q4_0", 0, 0);
    snprintf(packed, sizeof packed, "%s" LUTRA_PACKED_SUFFIX, f.path);
    OK(lutra_pack(f.rt, f.path, packed, NULL, err));
    say(f.path, "cpu", false, &all);
    say(f.path, "cpu", true, &early);
    assert_memory_equal(&all, &early, sizeof all);
    unlink(packed);
    fixture_close(&f);
}

/* ---- a file that comes late, or does not ---- */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/* The disk: the library's madvise() is this one.  It reads so many tensors and keeps the next waiting; -1: all. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int left, n_asked;
} disk = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, -1, 0};

static void disk_reads(int n)
{
    pthread_mutex_lock(&disk.lock);
    disk.left = n;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
}

int madvise(void *at, size_t n, int advice)
{
    if (advice == MADV_POPULATE_READ) {
        pthread_mutex_lock(&disk.lock);
        disk.n_asked++;
        while (disk.left == 0) pthread_cond_wait(&disk.changed, &disk.lock);
        if (disk.left > 0) disk.left--;
        pthread_mutex_unlock(&disk.lock);
    }
    return (int)syscall(SYS_madvise, at, n, advice);
}

static void *read_on_soon(void *unused)
{
    usleep(20000);
    disk_reads(-1);
    return unused;
}

struct job {
    lutra_session *s;
    struct heard heard;
    struct lutra_error err;
    int rc;
    atomic_bool over;
};

static void *run_job(void *arg)
{
    struct job *j = arg;
    j->rc = generate(j->s, &j->heard, &j->err);
    atomic_store(&j->over, true);
    return NULL;
}

static void the_pass_waits_for_its_weights(void **state)
{
    struct fixture f;
    struct heard all;
    struct job job = {0};
    pthread_t thread;
    lutra_model *m;
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-qwen2", "Q4_0", 0, 0);
    say(f.path, "cpu", false, &all);
    lutra_runtime *rt = open_runtime("cpu", true);
    disk_reads(9); /* within the layers */
    OK(lutra_model_open(&m, rt, f.path, NULL, err));
    job.s = open_session(m);
    assert_int_equal(pthread_create(&thread, NULL, run_job, &job), 0);
    usleep(50000);
    assert_false(atomic_load(&job.over)); /* however long it takes: its weights are not there */
    disk_reads(-1);
    pthread_join(thread, NULL);
    assert_int_equal(job.rc, 0);
    assert_memory_equal(&job.heard, &all, sizeof all);
    lutra_session_close(&job.s);
    /* Closed while it is read. */
    lutra_model_close(&m);
    disk_reads(2);
    OK(lutra_model_open(&m, rt, f.path, NULL, err));
    assert_int_equal(pthread_create(&thread, NULL, read_on_soon, NULL), 0);
    lutra_model_close(&m);
    pthread_join(thread, NULL);
    lutra_runtime_close(&rt);
    fixture_close(&f);
}

static void what_cannot_be_read_fails_the_request(void **state)
{
    struct fixture f;
    struct lutra_error why = {.what = ""};
    struct heard h;
    struct stat st;
    lutra_model *m;
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-qwen2", "F16", 0, 0);
    lutra_runtime *rt = open_runtime("cpu", true);
    disk_reads(0);
    OK(lutra_model_open(&m, rt, f.path, NULL, err));
    lutra_session *s = open_session(m);
    assert_int_equal(stat(f.path, &st), 0);
    assert_int_equal(truncate(f.path, st.st_size / 2), 0);
    disk_reads(-1);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(generate(s, &h, &why), LUTRA_E_IO);
        if (!strstr(why.what, "tensor '") || !strstr(why.what, "' cannot be read")) fail_msg("%s", why.what);
        assert_int_equal(h.n, 0);
    }
    lutra_session_close(&s);
    lutra_model_close(&m);
    lutra_runtime_close(&rt);
    fixture_close(&f);
}

static void memories_of_devices_are_refused(void **state)
{
    struct fixture f;
    struct lutra_error why = {.what = ""};
    lutra_model *m;
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-qwen2", "Q4_0", 0, 0);
    lutra_runtime *rt = open_runtime("npu-sim", true);
    assert_int_equal(lutra_model_open(&m, rt, f.path, NULL, &why), LUTRA_E_UNSUPPORTED);
    if (!strstr(why.what, "progressive: npu")) fail_msg("%s", why.what);
    assert_null(m);
    lutra_runtime_close(&rt);
    fixture_close(&f);
}

/* The key of the tokens is called something else. */
static void spoil_vocabulary(const char *path)
{
    static const char key[] = "tokenizer.ggml.tokens";
    struct stat st;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    char *data = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(data, MAP_FAILED);
    char *at = memmem(data, (size_t)st.st_size, key, sizeof key - 1);
    assert_non_null(at);
    at[sizeof key - 2] = 'z';
    munmap(data, (size_t)st.st_size);
    close(fd);
}

/* The disk is busy with weights while the vocabulary is read; one that is bad is told as ever. */
static void reads_before_the_vocabulary(void **state)
{
    enum { TRIES = 1000 }; /* the reader may be told to stop before its first page */
    struct fixture f;
    struct lutra_error whole = {.what = ""}, early = {.what = ""};
    lutra_model *m;
    (void)state;
    fixture_make(&f, &(struct where){0}, "tiny-qwen2", "Q4_0", 0, 0);
    spoil_vocabulary(f.path);
    lutra_runtime *all = open_runtime("cpu", false), *rt = open_runtime("cpu", true);
    assert_int_equal(lutra_model_open(&m, all, f.path, NULL, &whole), LUTRA_E_NOT_FOUND);
    disk.n_asked = 0;
    for (int i = 0; i < TRIES && disk.n_asked == 0; i++) {
        assert_int_equal(lutra_model_open(&m, rt, f.path, NULL, &early), LUTRA_E_NOT_FOUND);
        assert_null(m);
        assert_string_equal(early.what, whole.what);
    }
    assert_true(disk.n_asked > 0);
    lutra_runtime_close(&all);
    lutra_runtime_close(&rt);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_the_same), cmocka_unit_test(keeps_no_page_more),
        cmocka_unit_test(reads_a_packed_copy), cmocka_unit_test(the_pass_waits_for_its_weights),
        cmocka_unit_test(what_cannot_be_read_fails_the_request), cmocka_unit_test(memories_of_devices_are_refused),
        cmocka_unit_test(reads_before_the_vocabulary)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
