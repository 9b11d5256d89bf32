/* SPDX-License-Identifier: MIT
 *
 * The cgroup limits (v1 or v2) that this process lives under.
 *
 * Reads /proc/self/cgroup and the limit files from the process's own group up to the root, and keeps the tightest of
 * each.  `root` is put before every path: "" for this machine, a folder with such a tree for a test.  Any thread.
 */
#ifndef LUTRA_BASE_CGROUP_H
#define LUTRA_BASE_CGROUP_H

#include <stdint.h>

struct cgroup_limits {
    int n_cpu;                  /* quota / period rounded up, at least 1; INT_MAX = no limit */
    uint64_t memory_free_bytes; /* limit - (used - droppable page cache); UINT64_MAX = no limit */
};

void cgroup_read(const char *root, struct cgroup_limits *out);

#endif
