/* SPDX-License-Identifier: MIT
 *
 * A small model of random weights, opened: what the engine's tests stand on.
 */
#ifndef LUTRA_TESTS_ENGINE_FIXTURE_H
#define LUTRA_TESTS_ENGINE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <math.h>

#include "base/cpuinfo.h"
#include "lutra.h"
#include "../../sanitized.h"

struct fixture {
    lutra_runtime *rt;
    lutra_model *model;
    lutra_session *s;
    char path[64];
};

/* Aborts the test with the library's own words. */
#define OK(call)                                                                                                       \
    do {                                                                                                               \
        struct lutra_error err_ = {.what = "(no text)"};                                                               \
        struct lutra_error *err = &err_;                                                                               \
        int rc_ = (call);                                                                                              \
        if (rc_ < 0) fail_msg("%s: %s: %s", #call, lutra_status_text(rc_), err_.what);                                 \
        (void)err;                                                                                                     \
    } while (0)

/* Where tests run beside the default: every instruction set of this machine, and the devices that anyone has. */
struct where {
    const char *device, *isa; /* NULL: the default, the best */
};

/* What is drafted does not depend on the machine: a further row costs x passes.  Read when a session opens. */
static inline const struct lutra_session_experiment *fixture_row_cost(float x)
{
    static struct lutra_session_experiment cost;
    lutra_session_experiment_init(&cost, sizeof cost);
    cost.draft_row_cost = x;
    return &cost;
}

/* A model's file in another type of weights. */
static inline void quantize(const char *path, const char *model, const char *type)
{
    lutra_runtime *rt;
    struct lutra_quantize_settings qs;
    lutra_quantize_settings_init(&qs, sizeof qs);
    qs.type = type;
    OK(lutra_runtime_open(&rt, NULL, err));
    OK(lutra_quantize(rt, model, path, &qs, err));
    lutra_runtime_close(&rt);
}

enum { FIXTURE_KEPT = 64 };

/* Models this program has made, in files without a name: most are asked for again. */
struct fixture_kept {
    char shape[48], type[16];
    int n_layer;
    FILE *file;
};

static inline void fixture_copy(FILE *from, FILE *to)
{
    static char bytes[1 << 16];
    assert_true(from && to);
    rewind(from);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, from));) assert_int_equal(fwrite(bytes, 1, n, to), n);
    assert_int_equal(fflush(to), 0);
}

/* At f->path, a file of its own. */
static inline void fixture_make_file(struct fixture *f, const char *shape, const char *type, int n_layer)
{
    static struct fixture_kept kept[FIXTURE_KEPT];
    struct fixture_kept *k = kept, *end = kept + FIXTURE_KEPT;
    while (k < end && k->file && (strcmp(k->shape, shape) || strcmp(k->type, type) || k->n_layer != n_layer)) k++;
    if (k < end && k->file) {
        FILE *to = fopen(f->path, "wb");
        fixture_copy(k->file, to);
        fclose(to);
        return;
    }
    struct lutra_make_model_settings ms;
    lutra_make_model_settings_init(&ms, sizeof ms);
    ms.shape = shape;
    ms.type = type;
    ms.seed = 5;
    ms.n_layer = n_layer;
    OK(lutra_make_model(f->rt, f->path, &ms, err));
    if (k == end || strlen(shape) >= sizeof k->shape || strlen(type) >= sizeof k->type) return;
    *k = (struct fixture_kept){.n_layer = n_layer, .file = tmpfile()};
    strcpy(k->shape, shape);
    strcpy(k->type, type);
    FILE *from = fopen(f->path, "rb");
    fixture_copy(from, k->file);
    fclose(from);
}

/* The model is there, and not open. */
static inline void fixture_make_split(struct fixture *f, const struct where *where, const char *split,
    const char *shape, const char *type, int n_layer, int n_threads)
{
    memset(f, 0, sizeof *f);
    snprintf(f->path, sizeof f->path, "/tmp/lutra-test-XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    close(fd);
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = n_threads;
    rs.device = where->device;
    rs.isa = where->isa;
    rs.split = split;
    OK(lutra_runtime_open(&f->rt, &rs, err));
    fixture_make_file(f, shape, type, n_layer);
}

/* Of the models that tests open without saying one. */
static const char *fixture_split;

static inline void fixture_make(
    struct fixture *f, const struct where *where, const char *shape, const char *type, int n_layer, int n_threads)
{
    fixture_make_split(f, where, fixture_split, shape, type, n_layer, n_threads);
}

/* split: of CPU clusters. */
static inline void fixture_open_split(
    struct fixture *f, const struct where *where, const char *split, const char *shape, const char *type, int n_threads)
{
    fixture_make_split(f, where, split, shape, type, 0, n_threads);
    OK(lutra_model_open(&f->model, f->rt, f->path, NULL, err));
}

static inline void fixture_open_on(
    struct fixture *f, const struct where *where, const char *shape, const char *type, int n_threads)
{
    fixture_make(f, where, shape, type, 0, n_threads);
    OK(lutra_model_open(&f->model, f->rt, f->path, NULL, err));
}

static inline void fixture_open(struct fixture *f, const char *shape, const char *type, int n_threads)
{
    fixture_open_on(f, &(struct where){0}, shape, type, n_threads);
}

/* Calls check for each place; npu-qemu only where its program and QEMU are. */
static inline void fixture_everywhere(void (*check)(const struct where *where))
{
    static const char *const devices[] = {"cpu-ref", "npu-sim", "npu-qemu"};
    /* Of the instruction sets sanitizers see the oldest here, the newest elsewhere, and all in the kernels' tests. */
    for (uint32_t bit = 1; bit & (SANITIZED ? 1 : CPU_ISA_ALL); bit <<= 1)
        if (cpu_isa() & bit) check(&(struct where){"cpu", cpu_isa_name(bit)});
    size_t n_device = sizeof devices / sizeof *devices - (SANITIZED ? 1 : 0); /* QEMU's program is not sanitized */
    for (size_t i = 0; i < n_device; i++) {
        struct lutra_runtime_settings rs;
        lutra_runtime *rt;
        lutra_runtime_settings_init(&rs, sizeof rs);
        rs.device = devices[i];
        if (lutra_runtime_open(&rt, &rs, NULL) < 0) {
            assert_string_equal(devices[i], "npu-qemu");
            print_message("no npu-qemu here\n");
            continue;
        }
        lutra_runtime_close(&rt);
        print_message("%s\n", devices[i]);
        check(&(struct where){devices[i], NULL});
    }
}

/* Calls check for plans that cut by class of rows: bulk rows on one device, the others on another; bulk rows cut, the
 * others on one; the others cut. */
static inline void fixture_by_class(void (*check)(const struct where *where))
{
    static const struct {
        const char *device, *split;
    } plans[] = {{"cpu,npu-sim", "0,1/1,0"}, {"npu-sim,cpu", "1,2/0,1"}, {"npu-sim:lookup,cpu", "1,0/1,1"}};
    for (size_t i = 0; i < (SANITIZED ? 2 : sizeof plans / sizeof *plans); i++) {
        print_message("%s, %s\n", plans[i].device, plans[i].split);
        fixture_split = plans[i].split;
        check(&(struct where){.device = plans[i].device});
    }
    fixture_split = NULL;
}

/* A tiny shape with logits: encoders and rankers have none. */
static inline bool is_tiny_generator(const char *shape)
{
    return !strncmp(shape, "tiny-", 5) && !strstr(shape, "bert") && !strstr(shape, "embedding") &&
           !strstr(shape, "rank");
}

static inline void fixture_session(struct fixture *f, int n_seq, int n_ctx)
{
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    ss.n_seq = n_seq;
    ss.n_ctx = n_ctx;
    lutra_session_close(&f->s);
    OK(lutra_session_open(&f->s, f->model, &ss, err));
}

static inline void fixture_close(struct fixture *f)
{
    lutra_session_close(&f->s);
    lutra_model_close(&f->model);
    lutra_runtime_close(&f->rt);
    unlink(f->path);
}

/* A fixed, varied token sequence below 500 (the tiny shapes have 512 or more). */
static inline int32_t token_at(int i)
{
    return (int32_t)((i * 7919 + 13) % 251);
}

#endif
