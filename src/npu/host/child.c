/* SPDX-License-Identifier: MIT */
#include "npu/host/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { QEMU_LEAST = 10 };

/* Starts argv; its output goes to `out` unless that is -1.  Between fork and exec only what a signal handler may do. */
static pid_t spawn(char *const argv[], int keep, int out)
{
    pid_t parent = getpid(), pid = fork();
    if (pid) return pid;
    if (!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == parent) {
        setpgid(0, 0); /* a Ctrl-C is for the parent */
        if (keep >= 0) fcntl(keep, F_SETFD, 0);
        if (out >= 0) dup2(out, 1);
        execv(argv[0], argv);
    }
    for (;;) kill(getpid(), SIGKILL);
}

/* The version that QEMU prints of itself, -1 where it cannot be run. */
static int version_of(char *qemu)
{
    char text[256] = {0}, *argv[] = {qemu, "--version", NULL}, *at;
    int fd[2], status;
    size_t n = 0;
    ssize_t got = 0;
    if (pipe2(fd, O_CLOEXEC)) return -1;
    pid_t pid = spawn(argv, -1, fd[1]);
    close(fd[1]);
    while (pid > 0 && n < sizeof text - 1 && ((got = read(fd[0], text + n, sizeof text - 1 - n)) > 0 || errno == EINTR))
        if (got > 0)
            n += (size_t)got;
        else if (got == 0)
            break;
    close(fd[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    at = strstr(text, "version ");
    return at ? atoi(at + 8) : -1;
}

/* An executable of PATH. */
static bool search(const char *name, char path[NPU_PATH_BYTES])
{
    const char *at = getenv("PATH");
    for (const char *end; at && *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, ':');
        int n = snprintf(path, NPU_PATH_BYTES, "%.*s/%s", (int)(end - at), at, name);
        if (n < NPU_PATH_BYTES && !access(path, X_OK)) return true;
    }
    return false;
}

int npu_find_qemu(const char *given, char path[NPU_PATH_BYTES], struct lutra_error *err)
{
    if (given)
        snprintf(path, NPU_PATH_BYTES, "%s", given);
    else if (!search("qemu-hexagon", path))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "npu-qemu: qemu-hexagon is not in PATH (Debian: package qemu-user, version 10 or later)");
    int version = version_of(path);
    if (version < 0) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu-qemu: %s does not tell its version", path);
    if (version < QEMU_LEAST)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "npu-qemu: %s is version %d, too old: HVX v73 needs %d or later (Debian 12: bookworm-backports)", path,
            version, QEMU_LEAST);
    return 0;
}

int npu_find_program(const char *given, char path[NPU_PATH_BYTES], struct lutra_error *err)
{
    static const char *const places[] = {"", "../", "../lib/lutra/"};
    char self[NPU_PATH_BYTES / 2];
    if (given) {
        snprintf(path, NPU_PATH_BYTES, "%s", given);
        if (!access(path, R_OK)) return 0;
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu-qemu: cannot read the program %s", path);
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash) slash[1] = 0;
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, NPU_PATH_BYTES, "%s%slutra-npu-qemu.elf", self, places[i]);
        if (!access(path, R_OK)) return 0;
    }
    return lutra_fail(err, LUTRA_E_UNSUPPORTED,
        "npu-qemu: lutra-npu-qemu.elf is not beside the program; it is built where clang-19 and ld.lld-19 are "
        "installed (packages clang-19, lld-19), and the setting npu_program (LUTRA_NPU_PROGRAM) may name it");
}

int npu_child_start(pid_t *pid, const char *qemu, const char *program, int fd, struct lutra_error *err)
{
    char number[16], *argv[] = {(char *)qemu, (char *)program, number, NULL};
    snprintf(number, sizeof number, "%d", fd);
    *pid = spawn(argv, fd, -1);
    if (*pid > 0) return 0;
    *pid = 0;
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "npu-qemu: cannot start a process: %s", strerror(errno));
}

int npu_child_alive(pid_t *pid, struct lutra_error *err)
{
    int status = 0;
    pid_t got = *pid ? waitpid(*pid, &status, WNOHANG) : -1;
    if (got == 0 || (got < 0 && errno == EINTR)) return 0;
    *pid = 0;
    return lutra_fail(err, LUTRA_E_DEVICE_LOST, "npu-qemu: the NPU's program ended: %s %d",
        WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

bool npu_child_runs(pid_t pid, unsigned long *ticks)
{
    char path[32], text[512], state = 0;
    unsigned long user = 0, system = 0, before = *ticks;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char *rest = strrchr(text, ')'); /* behind the program's name, which may be anything */
    if (!rest || sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user, &system) < 3)
        return false;
    *ticks = user + system;
    return state == 'R' || *ticks != before;
}

void npu_child_kill(pid_t *pid)
{
    if (!*pid) return;
    kill(*pid, SIGKILL);
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR) {
    }
    *pid = 0;
}
