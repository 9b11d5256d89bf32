/* SPDX-License-Identifier: MIT
 *
 * base/cpuinfo and base/cgroup: limits read from made-up cgroup trees, names of instruction sets, sane answers here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/cpuinfo.h"

/* Writes a file below root, making its folders. */
static void put(const char *root, const char *name, const char *text)
{
    char path[512];
    int at = snprintf(path, sizeof path, "%s", root);
    snprintf(path + at, sizeof path - (size_t)at, "/%s", name);
    for (char *slash = path + at + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info, (void)type, (void)ftw;
    return remove(path);
}

static int make_root(void **state)
{
    char *root = strdup("/tmp/lutra-cgroup-XXXXXX");
    if (!root || !mkdtemp(root)) return -1;
    *state = root;
    return 0;
}

static int drop_root(void **state)
{
    nftw(*state, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return 0;
}

static void test_cgroup_v2(void **state)
{
    const char *root = *state;
    struct cgroup_limits limits;
    put(root, "proc/self/cgroup", "0::/a/b\n");
    put(root, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put(root, "sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    put(root, "sys/fs/cgroup/a/b/memory.max", "1000000\n");
    put(root, "sys/fs/cgroup/a/b/memory.current", "700000\n");
    put(root, "sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file 200000\nactive_file 5\n");
    put(root, "sys/fs/cgroup/a/memory.max", "max\n");
    put(root, "sys/fs/cgroup/a/memory.current", "700000\n");
    cgroup_read(root, &limits);
    assert_int_equal(limits.n_cpu, 2); /* one and a half, rounded up; from the parent */
    assert_int_equal(limits.memory_free_bytes, 500000);
}

static void test_cgroup_v1(void **state)
{
    const char *root = *state;
    struct cgroup_limits limits;
    put(root, "proc/self/cgroup", "5:memory:/x\n4:cpuset:/x\n2:cpu,cpuacct:/docker/123\n0::/\n");
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n"); /* the container's own mount: no /docker/123 here */
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put(root, "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "5000\n");
    put(root, "sys/fs/cgroup/memory/x/memory.usage_in_bytes", "9000\n");
    cgroup_read(root, &limits);
    assert_int_equal(limits.n_cpu, 3);
    assert_int_equal(limits.memory_free_bytes, 0);
}

static void test_cgroup_without_limits(void **state)
{
    const char *root = *state;
    struct cgroup_limits limits;
    cgroup_read(root, &limits); /* nothing there at all */
    assert_int_equal(limits.n_cpu, INT_MAX);
    assert_true(limits.memory_free_bytes == UINT64_MAX);
    put(root, "proc/self/cgroup", "nonsense\n7:cpu\n2:cpu:/\n");
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put(root, "sys/fs/cgroup/cpu.max", "100000 0\n");
    cgroup_read(root, &limits);
    assert_int_equal(limits.n_cpu, INT_MAX);
}

static void test_affinity(void **state)
{
    cpu_set_t old, one;
    int cpu[4] = {-1, -1, -1, -1};
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof old, &old), 0);
    int n = cpu_allowed(cpu, 4);
    assert_int_equal(n, CPU_COUNT(&old));
    assert_true(CPU_ISSET(cpu[0], &old));
    assert_in_range(cpu_usable(), 1, n);
    CPU_ZERO(&one);
    CPU_SET(cpu[0], &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cpu_usable(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof old, &old), 0);
}

static void test_isa_names(void **state)
{
    uint32_t set;
    struct lutra_error err = {0};
    (void)state;
    assert_int_equal(cpu_isa_up_to("avx2", &set, NULL), LUTRA_OK);
    assert_int_equal(set, CPU_AVX2);
    assert_int_equal(cpu_isa_up_to("avx512", &set, NULL), LUTRA_OK);
    assert_int_equal(set, CPU_AVX2 | CPU_AVXVNNI | CPU_AVX512);
    assert_int_equal(cpu_isa_up_to("amx", &set, NULL), LUTRA_OK);
    assert_int_equal(set, CPU_AVX2 | CPU_AVXVNNI | CPU_AVX512 | CPU_AVX512BF16 | CPU_AMX);
    assert_int_equal(cpu_isa_up_to("i8mm", &set, NULL), LUTRA_OK);
    assert_int_equal(set, CPU_ISA_ALL);
    assert_int_equal(cpu_isa_up_to("none", &set, NULL), LUTRA_OK);
    assert_int_equal(set, 0);
    assert_int_equal(cpu_isa_up_to("sse9", &set, &err), LUTRA_E_ARGUMENT);
    assert_int_equal(set, 0);
    assert_non_null(strstr(err.what, "sse9"));
    assert_null(cpu_isa_name(CPU_AVX2 | CPU_AVX512));
    assert_null(cpu_isa_name(1u << 31));
}

/* The kernel's list of flags, which has done the same operating-system checks, must agree with ours. */
static void test_isa_agrees_with_kernel(void **state)
{
    static const struct {
        uint32_t isa;
        const char *flag;
    } known[] = {{CPU_AVX2, " avx2 "}, {CPU_AVX512, " avx512_vnni "}, {CPU_AVX512BF16, " avx512_bf16 "},
        {CPU_AMX, " amx_tile "}, {CPU_DOTPROD, " asimddp "}, {CPU_I8MM, " i8mm "}};
    char line[8192];
    bool found = false;
    (void)state;
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) skip();
    while (!found && fgets(line, sizeof line, file)) {
        found = strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0;
    }
    fclose(file);
    if (!found) skip();
    line[strcspn(line, "\n")] = ' ';
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strstr(line, known[i].flag)) assert_false(cpu_isa() & known[i].isa);
    }
    bool bmi = strstr(line, " bmi1 ") && strstr(line, " bmi2 ");
    if (strstr(line, " avx2 ") && bmi && strstr(line, " fma ")) assert_true(cpu_isa() & CPU_AVX2);
    if (strstr(line, " avx512_vnni ") && strstr(line, " avx512vbmi ")) assert_true(cpu_isa() & CPU_AVX512);
}

static void test_info(void **state)
{
    struct cpu_info info;
    (void)state;
    cpu_info_read(&info);
    assert_int_equal(info.isa, cpu_isa());
    assert_true(info.model[0] != 0);
    assert_true(info.l2_bytes == 0 || info.l2_bytes >= 65536);
    assert_true(cpu_memory_available() > 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cgroup_v2, make_root, drop_root),
        cmocka_unit_test_setup_teardown(test_cgroup_v1, make_root, drop_root),
        cmocka_unit_test_setup_teardown(test_cgroup_without_limits, make_root, drop_root),
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_isa_names),
        cmocka_unit_test(test_isa_agrees_with_kernel),
        cmocka_unit_test(test_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
