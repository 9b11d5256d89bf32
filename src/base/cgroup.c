/* SPDX-License-Identifier: MIT
 *
 * File formats: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the Linux sources.
 */
#include "base/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct walk {
    const char *root;
    char dir[1024]; /* folder below root whose limits are being read */
    struct cgroup_limits *out;
};

/* The start of a file of the current folder; false if there is none. */
static bool read_file(const struct walk *w, const char *name, char *text, size_t size)
{
    char path[1400];
    if (snprintf(path, sizeof path, "%s%s/%s", w->root, w->dir, name) >= (int)sizeof path) return false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t n = fread(text, 1, size - 1, file);
    fclose(file);
    text[n] = 0;
    return n > 0;
}

/* False also for "max" and for v1's -1, which both mean no limit. */
static bool read_number(const struct walk *w, const char *name, uint64_t *out)
{
    char text[64];
    if (!read_file(w, name, text, sizeof text) || text[0] < '0' || text[0] > '9') return false;
    *out = strtoull(text, NULL, 10);
    return true;
}

static void limit_cpu(struct walk *w, uint64_t quota_us, uint64_t period_us)
{
    if (!quota_us || !period_us || quota_us / period_us >= INT_MAX) return;
    int n = (int)(quota_us / period_us) + (quota_us % period_us != 0);
    if (n < w->out->n_cpu) w->out->n_cpu = n;
}

static void cpu_v1(struct walk *w)
{
    uint64_t quota, period;
    if (read_number(w, "cpu.cfs_quota_us", &quota) && read_number(w, "cpu.cfs_period_us", &period)) {
        limit_cpu(w, quota, period);
    }
}

static void cpu_v2(struct walk *w)
{
    char text[64];
    uint64_t quota, period;
    if (read_file(w, "cpu.max", text, sizeof text) && sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) == 2) {
        limit_cpu(w, quota, period);
    }
}

/* Page cache that the kernel drops under pressure is counted as used by the group; it is free for our purpose. */
static void limit_memory(struct walk *w, const char *limit_file, const char *used_file, const char *cache_key)
{
    char text[4096];
    uint64_t limit, used, cache = 0;
    if (!read_number(w, limit_file, &limit) || !read_number(w, used_file, &used)) return;
    if (read_file(w, "memory.stat", text, sizeof text)) {
        const char *at = strstr(text, cache_key);
        if (at) cache = strtoull(at + strlen(cache_key), NULL, 10);
    }
    used = used > cache ? used - cache : 0;
    uint64_t free_bytes = limit > used ? limit - used : 0;
    if (free_bytes < w->out->memory_free_bytes) w->out->memory_free_bytes = free_bytes;
}

static void memory_v1(struct walk *w)
{
    limit_memory(w, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ");
}

static void memory_v2(struct walk *w)
{
    limit_memory(w, "memory.max", "memory.current", "inactive_file ");
}

/* From mount/group up to mount itself.  In a container the group's path may be the host's and not exist under the
 * mount: those folders are passed over. */
static void climb(struct walk *w, const char *mount, const char *group, void (*look)(struct walk *w))
{
    int at = snprintf(w->dir, sizeof w->dir, "/sys/fs/cgroup%s", mount);
    if (snprintf(w->dir + at, sizeof w->dir - (size_t)at, "%s", group) >= (int)sizeof w->dir - at) w->dir[at] = 0;
    for (;;) {
        char *slash = strrchr(w->dir + at, '/');
        look(w);
        if (!slash) return;
        *slash = 0;
    }
}

static bool in_list(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n) {
        if ((at == list || at[-1] == ',') && (at[n] == 0 || at[n] == ',')) return true;
    }
    return false;
}

/* One line of /proc/self/cgroup: hierarchy:controllers:group. */
static void read_line(struct walk *w, char *line)
{
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return;
    *controllers++ = 0;
    *group++ = 0;
    group[strcspn(group, "\n")] = 0;
    if (!*controllers) {
        for (int i = 0; i < 2; i++) {
            climb(w, i ? "/unified" : "", group, cpu_v2);
            climb(w, i ? "/unified" : "", group, memory_v2);
        }
    }
    if (in_list(controllers, "cpu")) climb(w, "/cpu", group, cpu_v1);
    if (in_list(controllers, "memory")) climb(w, "/memory", group, memory_v1);
}

void cgroup_read(const char *root, struct cgroup_limits *out)
{
    char path[1024], line[1024];
    struct walk w = {.root = root, .out = out};
    *out = (struct cgroup_limits){.n_cpu = INT_MAX, .memory_free_bytes = UINT64_MAX};
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path) return;
    FILE *file = fopen(path, "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) read_line(&w, line);
    fclose(file);
}
