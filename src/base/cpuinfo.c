/* SPDX-License-Identifier: MIT */
#include "base/cpuinfo.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"

enum { MAX_CPU = 1 << 16 };

int cpu_allowed(int *cpu, int max)
{
    int count = 0;
    /* The kernel refuses a set smaller than its own; 1024 is the usual size. */
    for (int n = 1024; n <= MAX_CPU; n *= 2) {
        cpu_set_t *set = CPU_ALLOC(n);
        if (!set) return 0;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE(n), set) == 0) {
            for (int i = 0; i < n; i++) {
                if (!CPU_ISSET_S(i, CPU_ALLOC_SIZE(n), set)) continue;
                if (count < max) cpu[count] = i;
                count++;
            }
            n = MAX_CPU;
        }
        CPU_FREE(set);
    }
    return count;
}

/* A number of up to five digits; *at moves behind it.  -1: there is none. */
static int parse_number(const char *text, size_t n, size_t *at)
{
    int x = 0, digits = 0;
    for (; *at < n && text[*at] >= '0' && text[*at] <= '9' && digits < 5; ++*at, digits++) x = 10 * x + text[*at] - '0';
    return digits ? x : -1;
}

int cpu_list_parse(const char *text, size_t n, int *cpu, int max)
{
    int count = 0;
    for (size_t at = 0;; at++) {
        int first = parse_number(text, n, &at), last = first;
        if (at < n && text[at] == '-') {
            at++;
            last = parse_number(text, n, &at);
        }
        if (first < 0 || last < first || last - first >= max - count) return 0;
        for (int i = first; i <= last; i++) cpu[count++] = i;
        if (at == n) return count;
        if (text[at] != '+') return 0;
    }
}

int cpu_usable(void)
{
    struct cgroup_limits limits;
    int n = cpu_allowed(NULL, 0);
    if (n < 1) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    cgroup_read("", &limits);
    if (n > limits.n_cpu) n = limits.n_cpu;
    return n < 1 ? 1 : n;
}

/* The value of `key` in a file of "key : value" or "key: value" lines; empty when there is none. */
static void read_key(const char *path, const char *key, char *value, size_t size)
{
    char line[512];
    value[0] = 0;
    FILE *file = fopen(path, "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0) continue;
        char *at = strchr(line, ':');
        if (!at) continue;
        at += 1 + strspn(at + 1, " \t");
        at[strcspn(at, "\n")] = 0;
        snprintf(value, size, "%s", at);
        break;
    }
    fclose(file);
}

uint64_t cpu_memory_available(void)
{
    char text[64];
    struct cgroup_limits limits;
    read_key("/proc/meminfo", "MemAvailable", text, sizeof text);
    uint64_t free_bytes = text[0] ? strtoull(text, NULL, 10) * 1024u : UINT64_MAX;
    cgroup_read("", &limits);
    return free_bytes < limits.memory_free_bytes ? free_bytes : limits.memory_free_bytes;
}

/* One line of /sys/devices/system/cpu/cpu0/cache/index<i>/<name>. */
static bool read_cache_file(int index, const char *name, char *text, int size)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool ok = fgets(text, size, file) != NULL;
    fclose(file);
    return ok;
}

static size_t second_level_bytes(void)
{
    char level[16], type[32], size[32];
    for (int i = 0; i < 16 && read_cache_file(i, "level", level, sizeof level); i++) {
        if (level[0] != '2' || !read_cache_file(i, "type", type, sizeof type) || type[0] == 'I') continue;
        if (!read_cache_file(i, "size", size, sizeof size)) continue;
        return (size_t)strtoull(size, NULL, 10) * (strchr(size, 'M') ? 1024u * 1024u : 1024u);
    }
    return 0;
}

void cpu_info_read(struct cpu_info *out)
{
    *out = (struct cpu_info){.isa = cpu_isa(), .l2_bytes = second_level_bytes()};
    read_key("/proc/cpuinfo", "model name", out->model, sizeof out->model);
    if (!out->model[0]) read_key("/proc/cpuinfo", "Hardware", out->model, sizeof out->model);
    if (!out->model[0]) snprintf(out->model, sizeof out->model, "unknown");
}
