/* SPDX-License-Identifier: MIT
 *
 * What the cost model takes for granted is what the code does: threads' shares, meetings and the pipeline of a product
 * by the emulator's timeline, a pass's operations and messages by those of a device.
 */
#include "device_fixture.h"

#include <math.h>

#include "phone/data.h"
#include "sim/counts.h"
#include "npu/dsp/kernels.h"
#include "npu/wire/planes.h"
#include "npu/sim/sim.h"

enum { TCM = 8 << 20, KEPT = 65536, DDR = 96 << 20, SPANS = 1 << 16 };

struct rig {
    struct npu_sim *sim;
    struct npu_sim_watch watch;
};

static void open_rig(struct rig *r)
{
    struct npu_sim_settings s = {.tcm_bytes = TCM, .ddr_bytes = DDR, .seed = 7};
    assert_int_equal(npu_sim_open(&r->sim, &s, NULL), 0);
    r->watch = (struct npu_sim_watch){calloc(SPANS, sizeof(struct npu_sim_span)), 0, SPANS};
    assert_non_null(r->watch.span);
}

static void close_rig(struct rig *r)
{
    free(r->watch.span);
    npu_sim_close(&r->sim);
}

/* The timeline of one operation on n threads, over zeros; of a lookup, behind its tables. */
static void run(struct rig *r, struct npu_op *op, uint32_t n)
{
    size_t n_faults;
    struct npu_machine machine = {NPU_SIM_BOX_BYTES, TCM, KEPT, n, 0, 0};
    struct npu_op tables = *op;
    tables.code = NPU_OP_TABLES;
    if (op->code == NPU_OP_LOOKUP) assert_int_equal(npu_execute(npu_sim_isa(r->sim), &machine, &tables), NPU_OK);
    npu_sim_set_watch(r->sim, &r->watch);
    r->watch.n = 0;
    assert_int_equal(npu_execute(npu_sim_isa(r->sim), &machine, op), NPU_OK);
    npu_sim_end(r->sim, KEPT);
    const struct npu_sim_fault *f = npu_sim_faults(r->sim, &n_faults);
    if (n_faults) fail_msg("%s in %s line %d", npu_sim_fault_name(f->kind), f->kernel, f->line);
    assert_true(r->watch.n < SPANS);
}

/* Sections of the timeline, apart by whether they are phases of a product: packets of all threads and of the
 * busiest. */
struct sums {
    double all[2], busiest[2];
    int meets;
};

static struct sums sum_up(const struct npu_sim_watch *w)
{
    struct sums s = {{0}, {0}, 0};
    for (size_t i = 0, end; i < w->n; i = end) {
        const struct npu_sim_span *span = &w->span[i];
        double all = 0, most = 0;
        for (end = i; end < w->n && w->span[end].section == span->section; end++) {
            all += (double)w->span[end].packets;
            most = fmax(most, (double)w->span[end].packets);
        }
        int phase = end - i > span->n;
        s.all[phase] += all, s.busiest[phase] += most;
        s.meets += span->n > 1;
    }
    return s;
}

static void near_share(const char *what, uint32_t n, double busiest, double all, double share, double slack)
{
    if (fabs(busiest / all / share - 1) > slack)
        fail_msg("%s on %u threads: the busiest has %.3f of the packets, the model says %.3f", what, n, busiest / all,
            share);
}

/* Buffers for any of the operations below. */
static struct npu_op prepared(struct rig *r, struct npu_op op)
{
    op.src = npu_sim_buffer(r->sim, 8 << 20), op.dst = npu_sim_buffer(r->sim, 8 << 20);
    op.weights = npu_sim_buffer(r->sim, 20 << 20), op.scratch = npu_sim_buffer(r->sim, 1 << 20);
    op.rows = op.code == NPU_OP_ROPE ? 0 : npu_sim_buffer(r->sim, 1 << 16);
    assert_true((op.rows || op.code == NPU_OP_ROPE) && op.scratch);
    struct npu_head_row *row = npu_sim_host(r->sim, op.rows);
    for (int i = 0; op.code == NPU_OP_HEAD && i < 16; i++) row[i].want = NPU_HEAD_TOPK | NPU_HEAD_SUM;
    return op;
}

/* Of an equal share, what the busiest thread of a large lookup may have. */
#define BAR 1.1

static void threads_share_what_the_model_says(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct npu_op op;
        double slack;
    } cases[] = {
        {"add", {.code = NPU_OP_ADD, .m = 1, .n = 1536}, .1},
        {"swiglu", {.code = NPU_OP_SWIGLU, .m = 1, .n = 4 * 8960}, .1},
        {"relu2", {.code = NPU_OP_RELU2, .m = 1, .n = 6912}, .1},
        {"rms_norm, 1 row", {.code = NPU_OP_RMS_NORM, .m = 1, .n = 1536}, .01},
        {"rms_norm, 5 rows", {.code = NPU_OP_RMS_NORM, .m = 5, .n = 1536}, .01},
        {"fit", {.code = NPU_OP_FIT, .m = 8, .n = 8960}, .01},
        {"unfit", {.code = NPU_OP_UNFIT, .m = 2, .n = 1536}, .01},
        {"rope of queries", {.code = NPU_OP_ROPE, .m = 1, .n = 1536, .k = 64, .param = 128}, .1},
        {"rope of keys", {.code = NPU_OP_ROPE, .m = 3, .n = 256, .k = 64, .param = 128}, .25},
        {"tables", {.code = NPU_OP_TABLES, .m = 1, .k = 1536}, .05},
        {"tables of BitNet's rows", {.code = NPU_OP_TABLES, .m = 1, .k = 6912}, .05},
        {"lookup", {.code = NPU_OP_LOOKUP, .m = 1, .k = 1536, .n = 8960, .kind = NPU_PLANES(1, 128, 0)}, .02},
        {"lookup, 2 bits", {.code = NPU_OP_LOOKUP, .m = 1, .k = 1536, .n = 8960, .kind = NPU_PLANES(2, 64, 0)}, .02},
        {"lookup, BitNet", {.code = NPU_OP_LOOKUP, .m = 1, .k = 2560, .n = 640, .kind = NPU_PLANES(2, 128, 2)}, .02},
        {"gemm, 1 row", {.code = NPU_OP_GEMM, .m = 1, .k = 1536, .n = 1536, .kind = NPU_W_Q4_0}, .1},
        {"gemm, keys", {.code = NPU_OP_GEMM, .m = 4, .k = 1536, .n = 256, .kind = NPU_W_Q4_0}, .1},
        {"gemm, 40 rows", {.code = NPU_OP_GEMM, .m = 40, .k = 512, .n = 1536, .kind = NPU_W_Q8_0}, .15},
        {"gemm, F16", {.code = NPU_OP_GEMM, .m = 1, .k = 128, .n = 384, .kind = NPU_W_F16}, .5},
        {"head, 1 row", {.code = NPU_OP_HEAD, .m = 1, .k = 256, .n = 16384, .kind = NPU_W_Q8_0}, .35},
        {"head, 4 rows", {.code = NPU_OP_HEAD, .m = 4, .k = 256, .n = 16384, .kind = NPU_W_Q8_0}, .2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t n = 4; n <= 6; n += 2) {
            struct rig r;
            struct npu_work w = {0};
            open_rig(&r);
            struct npu_op op = prepared(&r, cases[i].op);
            op.src_stride = op.dst_stride = op.code == NPU_OP_ADD || op.code == NPU_OP_SWIGLU ? 0 : 65536;
            npu_divide(&op, 0, 1, 1, &w);
            run(&r, &op, n);
            struct sums s = sum_up(&r.watch);
            int phases = op.code == NPU_OP_GEMM || op.code == NPU_OP_HEAD;
            near_share(cases[i].name, n, s.busiest[phases], s.all[phases], npu_cost_share(w.parts, n), cases[i].slack);
            if (op.code == NPU_OP_LOOKUP && op.n > 1024 && s.busiest[phases] * n > BAR * s.all[phases])
                fail_msg("%s: the busiest of %u has %.3f of an equal share", cases[i].name, n,
                    s.busiest[phases] * n / s.all[phases]);
            if (w.alone_parts)
                near_share(cases[i].name, n, s.busiest[0], s.all[0], npu_cost_share(w.alone_parts, n), cases[i].slack);
            if (s.meets != (int)(w.meets + w.hands))
                fail_msg("%s: %d meetings, the model says %g", cases[i].name, s.meets, w.meets + w.hands);
            const struct npu_sim_counters *c = npu_sim_counts(r.sim);
            if ((double)c->tile_calls != w.tile_calls)
                fail_msg("%s: %d calls of the tile unit, the model says %g", cases[i].name, (int)c->tile_calls,
                    w.tile_calls);
            double starts = w.starts * (n < w.parts ? n : w.parts);
            if (op.code == NPU_OP_LOOKUP && n < 6)
                starts = (double)c->dma_descriptors; /* chunks are those of 6 threads */
            if ((double)c->dma_descriptors > starts || (double)c->dma_descriptors < .8 * starts)
                fail_msg("%s: %d transfers, the model says %g", cases[i].name, (int)c->dma_descriptors, starts);
            close_rig(&r);
        }
}

/* ---- the pipeline ---- */

/* Microseconds of a product's phases at one end of a profile: all of it, its slowest stage, one stage after the
 * other. */
struct stages {
    double whole, slowest, sequential;
};

/* Microseconds of a packet of each thread, a tile product, a byte by DMA, a meeting, a transfer's start, a call of the
 * tile unit. */
struct rates {
    double packet, pair, byte, meet, start, call;
};

enum { THREADS = 16, CHUNKS = 1024 };

/* When each was done with its last phase, the tile thread with the one before, too, and when chunks landed. */
struct progress {
    double vectors[THREADS], tiles, tiles_before, engine, landed[CHUNKS];
    int n_landed;
};

/* DMA goes on across phases, one chunk after another: two are started in phase 0, and phase p needs chunk p - 1.  The
 * tile thread begins when all vector threads have ended the phase before, a vector thread when it has ended that `lead`
 * before. */
static void time_phase(
    struct progress *c, const struct npu_sim_span *s, size_t n, int phase, uint32_t lead, double dma, struct rates rate)
{
    double all = 0, begin = phase ? (lead == 1 ? c->tiles : c->tiles_before) + rate.meet : 0;
    double ready = phase && phase <= c->n_landed ? c->landed[phase - 1] : 0;
    for (uint32_t t = 0; t < s->n; t++) all = fmax(all, c->vectors[t]);
    for (int i = 0, chunks = phase ? 1 : 2; dma > 0 && i < chunks; i++)
        c->landed[c->n_landed++] = c->engine = fmax(c->engine, fmax(begin, all)) + dma / chunks;
    c->tiles_before = c->tiles;
    for (size_t i = 0; i < n; i++, s++) {
        if (s->thread == s->n)
            c->tiles = fmax(c->tiles, phase ? all + rate.meet : 0) + (double)s->tile_pairs * rate.pair +
                       (double)s->tile_calls * rate.call;
        else
            c->vectors[s->thread] = fmax(fmax(c->vectors[s->thread], begin), ready) + (double)s->packets * rate.packet +
                                    (double)s->dma_starts * rate.start;
    }
}

static struct stages time_stages(const struct npu_sim_watch *w, uint32_t lead, struct rates rate)
{
    static struct progress c;
    double sum[3] = {0}, now = 0;
    memset(&c, 0, sizeof c);
    for (size_t i = 0, end, phase = 0; i < w->n; i = end, phase++) {
        double vector = 0, dma = 0;
        for (end = i; end < w->n && w->span[end].section == w->span[i].section; end++) {
            const struct npu_sim_span *s = &w->span[end];
            vector = fmax(vector, (double)s->packets * rate.packet + (double)s->dma_starts * rate.start);
            sum[1] += (double)s->tile_pairs * rate.pair + (double)s->tile_calls * rate.call;
            dma += (double)s->dma_bytes * rate.byte;
        }
        sum[0] += vector, sum[2] += dma;
        time_phase(&c, &w->span[i], end - i, (int)phase, lead, dma, rate);
    }
    for (int t = 0; t < THREADS; t++) now = fmax(now, c.vectors[t]);
    return (struct stages){now + rate.meet, fmax(sum[0], fmax(sum[1], sum[2])), sum[0] + sum[1] + sum[2]};
}

/* 8 Gen 3 at both ends of its profile (profiles/snapdragon-8gen3.json). */
static void stages_of_a_product_overlap(void **state)
{
    (void)state;
    static const uint32_t shapes[][4] = {{1, 1536, 1536, NPU_W_Q4_0}, {1, 1536, 8960, NPU_W_Q4_0},
        {1, 8960, 1536, NPU_W_Q8_0}, {128, 1536, 1536, NPU_W_Q4_0}, {128, 1536, 8960, NPU_W_Q4_0},
        {128, 8960, 1536, NPU_W_Q8_0}, {128, 4096, 4096, NPU_W_Q4_0}, {1, 1536, 256, NPU_W_Q4_0},
        {128, 1536, 256, NPU_W_Q4_0}};
    enum { SHORT = 1, ALL = 9 };
    int all = getenv("LUTRA_TEST_LONG") != NULL;
    for (int i = 0; i < (all ? ALL : SHORT); i++)
        for (int worst = 0; worst < 2; worst++) {
            struct rig r;
            open_rig(&r);
            struct npu_op op = {.code = NPU_OP_GEMM, .m = shapes[i][0], .k = shapes[i][1], .n = shapes[i][2]};
            op.kind = shapes[i][3];
            op = prepared(&r, op);
            op.src_stride = 4 * op.k, op.dst_stride = 4 * op.n;
            run(&r, &op, worst ? 4 : 6);
            double clock = worst ? 1460 : 1470;
            struct npu_weights weights;
            struct npu_gemm_plan plan;
            assert_int_equal(npu_weights_layout(op.kind, op.k, op.n, &weights), 0);
            assert_int_equal(npu_gemm_plan(&weights, op.m, KEPT, TCM, &plan), 0);
            struct stages s = time_stages(&r.watch, plan.lead,
                (struct rates){(worst ? 2.04 : 1) / clock, 8 / clock, 1e-3 / (worst ? 59 : 60),
                    (worst ? 400 : 100) / clock, (worst ? 230 : 30) / clock, (worst ? 48 : 10) / clock});
            printf("%ux%ux%u, %s end: %.1f us, slowest stage %.1f (%.2f), sequential %.1f (%.2f)\n", op.k, op.n, op.m,
                worst ? "worse" : "better", s.whole, s.slowest, s.whole / s.slowest, s.sequential,
                s.sequential / s.whole);
            /* behind the last of few weights a phase of tiles, one of rows and three meetings are seen */
            assert_true(s.whole <= (op.n > 1000 ? 1.15 : op.m == 1 ? 1.27 : 1.42) * s.slowest);
            assert_true(s.sequential >= 1.4 * s.whole);
            close_rig(&r);
        }
}

/* ---- a device's messages ---- */

static struct {
    const struct npu_transport_ops *ops;
    struct npu_op op[1024];
    int n_op, n_messages;
    struct npu_sim_counters done; /* by the emulator */
} seen;

static int submit(
    struct npu_transport *self, const struct npu_op *op, uint32_t n_op, uint64_t *ticket, struct lutra_error *err)
{
    seen.n_messages++;
    for (uint32_t i = 0; i < n_op && seen.n_op < 1024; i++) seen.op[seen.n_op++] = op[i];
    return seen.ops->submit(self, op, n_op, ticket, err);
}

/* The messages of one row, behind four keys. */
static void watch_a_pass(const char *path, const char *device)
{
    struct npu_transport_ops watched;
    struct fixture f = {0};
    struct lutra_runtime_settings rs;
    struct lutra_session_settings ss;
    int32_t seq;
    lutra_runtime_settings_init(&rs, sizeof rs), lutra_session_settings_init(&ss, sizeof ss);
    rs.device = device, rs.n_threads = 2, ss.n_seq = 2, ss.n_ctx = 128, ss.n_batch = 16;
    OK(lutra_runtime_open(&f.rt, &rs, err));
    OK(lutra_model_open(&f.model, f.rt, path, NULL, err));
    OK(lutra_session_open(&f.s, f.model, &ss, err));
    OK(lutra_seq_open(f.s, 0, &seq, err));
    feed(f.s, seq, 0, 4, 0);
    struct npu_transport *link = npu_of(&f)->window[0].link;
    seen.n_op = seen.n_messages = 0;
    seen.ops = link->ops, watched = *link->ops, watched.submit = submit, link->ops = &watched;
    struct npu_sim_counters *counters = npu_sim_counts(npu_local_sim(link));
    memset(counters, 0, sizeof *counters);
    feed(f.s, seq, 4, 1, 0);
    seen.done = *counters;
    shut(&f);
}

static void compare_ops(const struct npu_model *m)
{
    struct npu_pass_op want[NPU_PASS_OPS_MAX];
    int n = npu_pass_ops(m, 1, 1, want), total = 0;
    for (int i = 0; i < n; i++) {
        int times = 0;
        for (int j = 0; j < seen.n_op; j++) {
            const struct npu_op *op = &seen.op[j];
            int k = op->code == NPU_OP_GEMM || op->code == NPU_OP_LOOKUP || op->code == NPU_OP_TABLES ||
                    op->code == NPU_OP_HEAD || op->code == NPU_OP_EMBED || op->code == NPU_OP_ROPE;
            times += op->code == want[i].code && op->m == (uint32_t)want[i].m && op->n == (uint32_t)want[i].n &&
                     (!k || op->k == (uint32_t)want[i].k) &&
                     (!want[i].kind || npu_planes_untiled(op->kind) == want[i].kind) &&
                     (!want[i].param || op->param == (uint32_t)want[i].param);
        }
        int expected = 0;
        for (int j = 0; j < n; j++) /* shapes that are alike are listed more than once */
            if (want[j].code == want[i].code && want[j].m == want[i].m && want[j].n == want[i].n &&
                want[j].k == want[i].k)
                expected += want[j].times;
        if (times != expected)
            fail_msg(
                "operation %u, %dx%d: %d sent, the model says %d", want[i].code, want[i].k, want[i].n, times, expected);
        total += want[i].times;
    }
    for (int j = 0; j < seen.n_op; j++)
        total -= seen.op[j].code != NPU_OP_INVALIDATE && seen.op[j].code != NPU_OP_FLUSH;
    assert_int_equal(total, 0);
    assert_int_equal(seen.n_messages, npu_pass_messages(m));
}

static void a_pass_is_made_of_what_the_model_says(void **state)
{
    (void)state;
    const struct npu_model *m = npu_models;
    while (strcmp(m->name, "abacus-1m") != 0) m++;
    watch_a_pass(MODEL, "npu-sim");
    compare_ops(m);
}

/* Tables before the products that share them, and no rows made to fit halves. */
static void a_pass_of_lookups_is_made_of_what_the_model_says(void **state)
{
    (void)state;
    const struct npu_model *m = npu_models;
    char path[64];
    while (strcmp(m->name, "abacus-1m") != 0) m++;
    struct npu_model lookups = *m;
    lookups.weights = lookups.down = "Q1_0 planes", lookups.head = "Q8_0", lookups.way = NPU_WAY_LOOKUP;
    snprintf(path, sizeof path, "/tmp/lutra-npu-pass-of-%d.gguf", (int)getpid());
    quantize(path, MODEL, "Q1_0");
    watch_a_pass(path, "npu-sim:lookup");
    remove(path);
    compare_ops(&lookups);
}

/* ---- a pass, by the emulator's counters ---- */

static void same(const char *model, const char *what, double counted, double modelled)
{
    if (fabs(counted - modelled) > 1e-6 * counted + 1e-6)
        fail_msg("%s: %.0f %s in the emulator, %.1f in the model", model, counted, what, modelled);
}

/* Bytes, gathers and tiles are those that the emulator counted, packets no fewer than its bound; round trips are
 * messages of the device. */
static void compare_pass(const struct npu_counts *counts, const struct npu_model *m)
{
    struct npu_work w;
    const struct npu_sim_counters *c = &seen.done;
    assert_int_equal(npu_pass_work(counts, m, 1, NPU_SEGMENT, &w), 0);
    same(m->name, "gathers", (double)c->issued[NPU_SIM_GATHER], w.gathers);
    same(m->name, "scatters", (double)c->issued[NPU_SIM_SCATTER], w.scatters);
    same(m->name, "bytes by DMA", (double)c->dma_read_bytes, w.dma_bytes);
    same(m->name, "tile products", (double)c->tile_pairs, w.tile_pairs);
    same(m->name, "calls of the tile unit", (double)c->tile_calls, w.tile_calls);
    double packets = w.packets + w.alone, bound = (double)npu_sim_packet_bound(c);
    printf("%s: %.0f packets of a pass, the emulator's bound %.0f\n", m->name, packets, bound);
    assert_true(bound > 0 && bound <= packets);
    compare_ops(m);
}

/* A model of the sizes of m in a file of F16. */
static void watch_a_shape(const char *shape)
{
    char path[64];
    lutra_runtime *rt;
    struct lutra_make_model_settings ms;
    lutra_make_model_settings_init(&ms, sizeof ms);
    ms.shape = shape, ms.type = "F16", ms.seed = 3;
    snprintf(path, sizeof path, "/tmp/lutra-npu-pass-%d.gguf", (int)getpid());
    OK(lutra_runtime_open(&rt, NULL, err));
    OK(lutra_make_model(rt, path, &ms, err));
    lutra_runtime_close(&rt);
    watch_a_pass(path, "npu-sim");
    remove(path);
}

static void a_pass_does_what_the_model_says(void **state)
{
    static const struct npu_model models[] = {
        {"counted-32", "F16", "F16", "F16", 4, 128, 384, 4, 2, 32, 1024, .tied = 1, .head_norm = 1},
        {"counted-64", "F16", "F16", "F16", 2, 256, 768, 4, 2, 64, 512, .tied = 1, .head_norm = 1},
        {"counted-64-untied", "F16", "F16", "F16", 3, 256, 768, 4, 2, 64, 2048, .head_norm = 1}};
    const struct sim_data *d = &sim_data[SIM_DATA_COUNTS];
    struct npu_counts *counts;
    (void)state;
    OK(npu_counts_read(&counts, d->bytes, d->n_bytes, d->name, err));
    for (int i = 0; i < 3; i++) {
        watch_a_shape(models[i].name);
        compare_pass(counts, &models[i]);
    }
    npu_counts_free(&counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_share_what_the_model_says),
        cmocka_unit_test(stages_of_a_product_overlap), cmocka_unit_test(a_pass_is_made_of_what_the_model_says),
        cmocka_unit_test(a_pass_of_lookups_is_made_of_what_the_model_says),
        cmocka_unit_test(a_pass_does_what_the_model_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
