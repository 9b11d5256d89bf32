/* SPDX-License-Identifier: MIT
 *
 * The qemu-hexagon child: same bits as the emulator, and every way to lose it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link.h"
#include "npu/host/session.h"

static const struct npu_transport_settings small = {.tcm_bytes = 1 << 20, .memory_bytes = 1 << 20, .seed = 1};

/* Why there is no child here, in *err; NULL otherwise. */
static struct npu_transport *open_child(struct lutra_error *err)
{
    setenv("LUTRA_NPU_PROGRAM", NPU_PROGRAM, 1);
    unsetenv("LUTRA_QEMU");
    return open_by(npu_child_open, &small, err);
}

static struct npu_transport *need_child(void)
{
    struct lutra_error err;
    struct npu_transport *npu = open_child(&err);
    if (npu) return npu;
    print_message("skipped: %s\n", err.what);
    skip();
    return NULL;
}

static pid_t only_child(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%d", &pid) != 1) pid = 0;
    if (f) fclose(f);
    return pid;
}

static int open_files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static void same_bits_as_the_emulator(void **state)
{
    struct lutra_error err;
    (void)state;
    int files = open_files();
    struct npu_transport *child = need_child(), *local = open_by(npu_local_open, &small, &err), *other;
    assert_non_null(local);
    assert_int_equal(child->machine.tcm_start, local->machine.tcm_start);
    other = open_child(&err); /* a second session beside the first */
    assert_non_null(other);
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct work c, l, o;
        put_work(&c, child, seed), put_work(&l, local, seed), put_work(&o, other, seed + 1);
        if (run_work(child, &c, CLOCK_NEVER_US, &err) || run_work(local, &l, CLOCK_NEVER_US, &err))
            fail_msg("%s", err.what);
        assert_int_equal(run_work(other, &o, CLOCK_NEVER_US, &err), 0);
        assert_true(same_results(child, &c, local, &l));
        assert_false(same_results(child, &c, other, &o));
    }
    npu_transport_close(&child), npu_transport_close(&local), npu_transport_close(&other);
    assert_int_equal(open_files(), files);
    assert_true(waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
}

static void a_submission_may_exceed_the_ring(void **state)
{
    struct lutra_error err;
    struct npu_op op[2000];
    uint64_t ticket;
    struct work w;
    (void)state;
    struct npu_transport *child = need_child();
    put_work(&w, child, 1);
    assert_int_equal(run_work(child, &w, CLOCK_NEVER_US, &err), 0);
    float before, after;
    memcpy(&before, child->base + w.y, 4);
    for (int i = 0; i < 2000; i++) op[i] = w.op[4], op[i].src = w.y, op[i].weights = w.x, op[i].dst = w.y;
    assert_int_equal(npu_transport_submit(child, op, 2000, &ticket, &err), 0);
    assert_int_equal(npu_transport_wait(child, ticket, CLOCK_NEVER_US, &err), 0);
    float x;
    memcpy(&x, child->base + w.x, 4);
    for (int i = 0; i < 2000; i++) before += x;
    memcpy(&after, child->base + w.y, 4);
    assert_true(before == after);
    npu_transport_close(&child);
}

static void a_refusal_is_told_and_forgotten(void **state)
{
    struct lutra_error err;
    uint64_t ticket;
    struct work w;
    (void)state;
    struct npu_transport *child = need_child();
    put_work(&w, child, 1);
    struct npu_op bad = w.op[4];
    bad.dst = child->end - 128;
    assert_int_equal(npu_transport_submit(child, &bad, 1, &ticket, &err), 0);
    assert_int_equal(npu_transport_wait(child, ticket, CLOCK_NEVER_US, &err), LUTRA_E_INTERNAL);
    assert_non_null(strstr(err.what, "leaves the window"));
    bad = w.op[4], bad.n = 33;
    assert_int_equal(npu_transport_submit(child, &bad, 1, &ticket, &err), 0);
    assert_int_equal(npu_transport_wait(child, ticket, CLOCK_NEVER_US, &err), LUTRA_E_INTERNAL);
    assert_non_null(strstr(err.what, "shape"));
    assert_int_equal(run_work(child, &w, CLOCK_NEVER_US, &err), 0);
    npu_transport_close(&child);
}

static void a_stopped_child_is_late_and_a_killed_one_lost(void **state)
{
    struct lutra_error err;
    struct work w;
    uint64_t ticket;
    (void)state;
    struct npu_transport *child = need_child();
    pid_t pid = only_child();
    assert_true(pid > 0);
    put_work(&w, child, 1);
    kill(pid, SIGSTOP);
    uint64_t start = clock_now_us(clock_real());
    assert_int_equal(run_work(child, &w, start + 50000, &err), LUTRA_E_DEADLINE);
    assert_true(clock_now_us(clock_real()) - start >= 50000);
    kill(pid, SIGCONT);
    assert_int_equal(run_work(child, &w, CLOCK_NEVER_US, &err), 0);
    kill(pid, SIGSTOP);
    assert_int_equal(npu_transport_submit(child, w.op, WORK_OPS, &ticket, &err), 0);
    kill(pid, SIGKILL);
    assert_int_equal(npu_transport_wait(child, ticket, CLOCK_NEVER_US, &err), LUTRA_E_DEVICE_LOST);
    assert_non_null(strstr(err.what, "signal 9"));
    assert_true(child->lost);
    assert_int_equal(npu_transport_submit(child, w.op, WORK_OPS, &ticket, &err), LUTRA_E_DEVICE_LOST);
    assert_int_equal(npu_transport_wait(child, ticket, CLOCK_NEVER_US, &err), LUTRA_E_DEVICE_LOST);
    assert_true(waitpid(-1, NULL, 0) < 0 && errno == ECHILD); /* no zombie */
    npu_transport_close(&child);
}

/* An NPU that neither answers nor runs is not waited for for ever, and may not go on writing later. */
static void a_silent_child_is_lost(void **state)
{
    struct lutra_error err;
    struct work w;
    (void)state;
    struct npu_transport *child = need_child();
    pid_t pid = only_child();
    put_work(&w, child, 1);
    kill(pid, SIGSTOP);
    assert_int_equal(run_work(child, &w, CLOCK_NEVER_US, &err), LUTRA_E_DEVICE_LOST);
    assert_non_null(strstr(err.what, "answers no more"));
    assert_true(child->lost);
    assert_true(waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
    npu_transport_close(&child);
}

static bool (*child_lives)(struct npu_session *);
static int n_look;

static bool count_look(struct npu_session *s)
{
    n_look++;
    return child_lives(s);
}

/* One that computes for longer than it may be silent is not lost. */
static void a_busy_child_is_not_lost(void **state)
{
    struct lutra_error err;
    struct npu_op op[NPU_MESSAGE_OPS];
    struct work w;
    uint64_t ticket;
    (void)state;
    struct npu_transport *child = need_child();
    struct npu_session *s = (struct npu_session *)child;
    child_lives = s->lives, s->lives = count_look, s->silent_looks = 1;
    put_work(&w, child, 1);
    for (int i = 0; i < NPU_MESSAGE_OPS; i++) op[i] = w.op[i % WORK_OPS];
    for (n_look = 0; n_look < 3;) {
        if (npu_transport_submit(child, op, NPU_MESSAGE_OPS, &ticket, &err)) fail_msg("%s", err.what);
        if (npu_transport_wait(child, ticket, CLOCK_NEVER_US, &err)) fail_msg("%s", err.what);
    }
    npu_transport_close(&child);
}

static void a_dead_parent_takes_the_child_along(void **state)
{
    int fd[2];
    pid_t grandchild = 0;
    (void)state;
    struct npu_transport *probe = need_child();
    npu_transport_close(&probe);
    assert_int_equal(pipe(fd), 0);
    pid_t parent = fork();
    if (!parent) {
        struct lutra_error err;
        if (!open_child(&err)) _exit(1);
        grandchild = only_child();
        if (write(fd[1], &grandchild, sizeof grandchild) < 0) _exit(1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(read(fd[0], &grandchild, sizeof grandchild), sizeof grandchild);
    close(fd[0]), close(fd[1]);
    waitpid(parent, NULL, 0);
    assert_true(grandchild > 0);
    for (int i = 0; i < 500 && !kill(grandchild, 0); i++) {
        char path[64], text[256] = {0}; /* init may not have waited for it yet */
        snprintf(path, sizeof path, "/proc/%d/stat", (int)grandchild);
        FILE *f = fopen(path, "r");
        if (f && fgets(text, sizeof text, f) && strstr(text, ") Z ")) i = 1000;
        if (f) fclose(f);
        if (i < 500)
            usleep(10000);
        else
            return;
    }
    assert_true(kill(grandchild, 0) < 0);
}

/* A stand-in for qemu-hexagon that says it is of a version and then runs `otherwise`. */
static void fake_qemu(char path[64], const char *version, const char *otherwise)
{
    strcpy(path, "/tmp/lutra-qemu-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    dprintf(fd, "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '%s'; exit 0; fi\n%s\n", version, otherwise);
    fchmod(fd, 0700);
    close(fd);
    setenv("LUTRA_QEMU", path, 1);
}

static void expect(int code, const char *text)
{
    struct lutra_error err;
    struct npu_transport *npu;
    int files = open_files();
    assert_int_equal(open_as_told(npu_child_open, &small, &npu, &err), code);
    assert_null(npu);
    if (!strstr(err.what, text)) fail_msg("'%s' does not say '%s'", err.what, text);
    assert_int_equal(open_files(), files);
    assert_true(waitpid(-1, NULL, 0) < 0 && errno == ECHILD);
}

static void what_is_missing_is_told(void **state)
{
    char path[64];
    (void)state;
    setenv("LUTRA_NPU_PROGRAM", "/proc/self/exe", 1); /* any file will do */
    fake_qemu(path, "qemu-hexagon version 7.2.19 (Debian)", "exit 1");
    expect(LUTRA_E_UNSUPPORTED, "version 7, too old");
    unlink(path);
    fake_qemu(path, "hello", "exit 1");
    expect(LUTRA_E_UNSUPPORTED, "does not tell its version");
    unlink(path);
    fake_qemu(path, "qemu-hexagon version 10.0.2", "exit 3");
    expect(LUTRA_E_DEVICE_LOST, "exit 3");
    setenv("LUTRA_NPU_PROGRAM", "/nowhere", 1);
    expect(LUTRA_E_UNSUPPORTED, "/nowhere");
    unsetenv("LUTRA_NPU_PROGRAM");
    expect(LUTRA_E_UNSUPPORTED, "clang-19");
    unlink(path);
    setenv("LUTRA_NPU_PROGRAM", "/proc/self/exe", 1);
    unsetenv("LUTRA_QEMU");
    char *saved = strdup(getenv("PATH"));
    setenv("PATH", "/nowhere:", 1);
    expect(LUTRA_E_UNSUPPORTED, "qemu-user");
    setenv("PATH", saved, 1);
    free(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_the_emulator),
        cmocka_unit_test(a_submission_may_exceed_the_ring),
        cmocka_unit_test(a_refusal_is_told_and_forgotten),
        cmocka_unit_test(a_stopped_child_is_late_and_a_killed_one_lost),
        cmocka_unit_test(a_silent_child_is_lost),
        cmocka_unit_test(a_busy_child_is_not_lost),
        cmocka_unit_test(a_dead_parent_takes_the_child_along),
        cmocka_unit_test(what_is_missing_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
