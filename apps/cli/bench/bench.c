/* SPDX-License-Identifier: MIT */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field) offsetof(struct bench_options, field)

static const struct option bench_table[] = {
    {"-m --model", "MODEL", OPT_LIST, AT(models), "FILE", .help = "GGUF file or Hugging Face folder; may be repeated"},
    {"-p --n-prompt", NULL, OPT_TEXT, AT(n_prompt), "LIST", .help = "prompt lengths to time, 0 = none"},
    {"-n --n-gen", NULL, OPT_TEXT, AT(n_gen), "LIST", .help = "numbers of tokens to decode one by one, 0 = none"},
    {"-pg", NULL, OPT_LIST, AT(pg), "PP,TG", .help = "a prompt, then decoding, timed together; may be repeated"},
    {"-d --n-depth", NULL, OPT_TEXT, AT(depth), "LIST", .help = "tokens in the cache before a test"},
    {"-t --threads", "THREADS", OPT_TEXT, AT(threads), "LIST", .help = "threads; 0 = the CPUs this process may use"},
    {"-b --batch-size -ub --ubatch-size", NULL, OPT_TEXT, AT(batch), "LIST", .help = "most rows of one forward pass"},
    {"-ctk --cache-type-k", NULL, OPT_TEXT, AT(cache_k), "LIST",
        .help = "types of cached keys: f16, f32, q8_0, q5_0, q4_1, q4_0"},
    {"-ctv --cache-type-v", NULL, OPT_TEXT, AT(cache_v), "LIST",
        .help = "types of cached values, each with each of -ctk; those of the keys, if not given"},
    {"-r --repetitions", NULL, OPT_INT, AT(reps), "N", .help = "repetitions of each test", .min = 1,
        .max = BENCH_REPS_MAX},
    {"--delay", NULL, OPT_INT, AT(delay_s), "N", .help = "seconds between tests", .min = 0, .max = 3600},
    {"--no-warmup", NULL, OPT_OFF, AT(warmup), NULL, .help = "no run before the timed ones"},
    {"--no-peaks", NULL, OPT_OFF, AT(peaks), NULL, .help = "do not measure the machine's peaks: no shares of them"},
    {"-o --output --output-format", NULL, OPT_CHOICE, AT(format), "FORMAT", .help = "md, csv, json or jsonl on stdout",
        .choices = "md csv json jsonl"},
    {"-oe --output-err", NULL, OPT_CHOICE, AT(format_err), "FORMAT", .help = "the same on stderr as well",
        .choices = "md csv json jsonl"},
    {"-dev --device", "DEVICE", OPT_TEXT, AT(engine.device), "NAME",
        .help = "cpu, cpu-ref, npu-sim, npu-qemu, npu or a list"},
    {"-ts --tensor-split", "TENSOR_SPLIT", OPT_TEXT, AT(engine.split), "N0,N1,...",
        .help = "what each device of --device gets of every product, in proportion; 1,1/0,1: of whole blocks of "
                "prompts, and of all other rows"},
    {"--plan", "PLAN", OPT_TEXT, AT(engine.plan), "PLAN",
        .help = "how devices share a pass: auto, even, one, class, solved, free, or a FILE of 'lutra profile'"},
    {"--expert-ram", "EXPERT_RAM", OPT_TEXT, AT(engine.expert_ram), "SIZE",
        .help = "memory for packed experts, such as 8G; the others are read from the file"},
    {"--timeline", "TIMELINE", OPT_TEXT, AT(engine.timeline), "FILE",
        .help = "what each device did in every pass of the last session, as JSON for chrome://tracing"},
    {"--isa", "ISA", OPT_TEXT, AT(engine.isa), "NAME", .help = "highest instruction set to use: avx2, avx512, amx"},
    {"--pin", "PIN", OPT_ON, AT(engine.pin), NULL, .help = "pin worker threads to CPUs"},
    {"--packed", "PACKED", OPT_TEXT, AT(engine.packed), "FILE", .help = "packed weights; '' = none"},
    ZEROS_OPTION(AT(engine.zeros)),
};

static const struct option batched_table[] = {
    {"-npl", NULL, OPT_TEXT, AT(npl), "LIST", .help = "numbers of sequences; turns this mode on"},
    {"-npp", NULL, OPT_TEXT, AT(npp), "LIST", .help = "prompt lengths", .needs = "-npl"},
    {"-ntg", NULL, OPT_TEXT, AT(ntg), "LIST", .help = "tokens decoded per sequence", .needs = "-npl"},
    {"-pps", NULL, OPT_ON, AT(shared_prompt), NULL, .help = "all sequences share one prompt (and its cache)",
        .needs = "-npl"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct bench_options *o = opts;
    engine_options_init(&o->engine);
    o->n_prompt = "512";
    o->n_gen = "128";
    o->depth = "0";
    o->threads = "0";
    o->batch = "512";
    o->cache_k = "f16";
    o->npp = "512";
    o->ntg = "128";
    o->format = "md";
    o->reps = 5;
    o->warmup = o->peaks = true;
}

static int list_sets(void *opts, struct option_set *set)
{
    struct bench_options *o = opts;
    set[0] = (struct option_set){
        "Options (LIST: 16,32 or 128-512+128 or 1-64*2)", bench_table, OPTION_COUNT(bench_table), o, NULL};
    set[1] = (struct option_set){
        "Batched mode, as llama-batched-bench", batched_table, OPTION_COUNT(batched_table), o, NULL};
    set[2] = output_option_set(&o->engine);
    return 3;
}

/* One item: "a", "a-b", "a-b+step" or "a-b*factor". */
static int add_range(const char *item, int64_t min, struct bench_values *out)
{
    char *end;
    int64_t first = strtoll(item, &end, 10), last = first, step = 1;
    char how = '+';
    if (end == item) return -1;
    if (*end == '-') {
        const char *p = end + 1;
        last = strtoll(p, &end, 10);
        if (end == p) return -1;
        if (*end == '+' || *end == '*') {
            how = *end;
            p = end + 1;
            step = strtoll(p, &end, 10);
            if (end == p) return -1;
        }
    }
    if (*end || first < min || last < first || last > 1 << 24 || step < 1 || (how == '*' && (step < 2 || first < 1)))
        return -1;
    for (int64_t v = first; v <= last; v = how == '+' ? v + step : v * step) {
        if (out->n == BENCH_VALUES_MAX) return -1;
        out->v[out->n++] = v;
    }
    return 0;
}

int bench_parse_values(const char *option, const char *text, int64_t min, struct bench_values *out)
{
    char *copy = copy_text(text), *rest = copy, *item;
    int rc = 0;
    out->n = 0;
    while (rc == 0 && (item = strsep(&rest, ","))) rc = add_range(item, min, out);
    free(copy);
    if (rc < 0)
        say("bench: %s: '%s' is not a list like 16,32 or 128-512+128 or 1-64*2 of at most %d numbers from %lld", option,
            text, BENCH_VALUES_MAX, (long long)min);
    return rc;
}

struct cache_types {
    char name[BENCH_CACHE_TYPES][16];
    int n;
};

struct grid {
    struct bench_values pp, tg, depth, threads, batch;
    int pg[OPTION_LIST_MAX][2];
    int n_pg;
    struct cache_types k, v; /* v.n 0: each with itself */
};

static int parse_types(const char *option, const char *list, struct cache_types *out)
{
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        bool room = out->n < BENCH_CACHE_TYPES;
        if (room) snprintf(out->name[out->n], sizeof *out->name, "%.*s", (int)strcspn(at, ","), at);
        if (!room || !option_is_choice(CACHE_TYPES, out->name[out->n])) {
            say("bench: %s: '%s' is not a list of %s", option, list, CACHE_TYPES);
            return -1;
        }
        out->n++;
    }
    return 0;
}

static int parse_grid(const struct bench_options *o, struct grid *g)
{
    if (bench_parse_values("-p", o->n_prompt, 0, &g->pp) < 0 || bench_parse_values("-n", o->n_gen, 0, &g->tg) < 0 ||
        bench_parse_values("-d", o->depth, 0, &g->depth) < 0 ||
        bench_parse_values("-t", o->threads, 0, &g->threads) < 0 ||
        bench_parse_values("-b", o->batch, 1, &g->batch) < 0 || parse_types("-ctk", o->cache_k, &g->k) < 0 ||
        parse_types("-ctv", o->cache_v, &g->v) < 0)
        return -1;
    for (int i = 0; i < o->pg.n; i++) {
        struct bench_values pair;
        if (bench_parse_values("-pg", o->pg.item[i], 0, &pair) < 0) return -1;
        if (pair.n != 2 || pair.v[0] + pair.v[1] == 0) {
            say("bench: -pg: '%s' is not PP,TG", o->pg.item[i]);
            return -1;
        }
        g->pg[g->n_pg][0] = (int)pair.v[0];
        g->pg[g->n_pg++][1] = (int)pair.v[1];
    }
    return 0;
}

struct bench_state {
    const struct bench_options *o;
    const struct grid *grid;
    struct bench_test *test;
    int n_done, n_timeline;
};

static int one_test(struct bench_state *b, struct bench_pass *pass, int n_prompt, int n_gen, int depth)
{
    struct bench_test *t = b->test;
    struct lutra_error err = {0};
    if (n_prompt + n_gen == 0) return 0;
    if (b->n_done && b->o->delay_s) sleep((unsigned)b->o->delay_s);
    if (interrupted()) return EXIT_INTERRUPTED;
    t->n_prompt = n_prompt;
    t->n_gen = n_gen;
    t->n_depth = depth;
    if (bench_measure(pass, t, b->o, &err) < 0) return fail_with(&err);
    bench_print_test(stdout, b->o->format, t, b->n_done);
    if (b->o->format_err) bench_print_test(stderr, b->o->format_err, t, b->n_done);
    b->n_done++;
    return 0;
}

/* All tests of one model, thread count, cache type and batch size. */
static int tests_of_session(struct bench_state *b, struct engine *e, const struct engine_options *eo)
{
    const struct grid *g = b->grid;
    struct bench_pass pass;
    struct lutra_session_settings settings;
    lutra_session_settings_init(&settings, sizeof settings);
    int64_t most = 0, deepest = 0;
    for (int i = 0; i < g->pp.n; i++) most = g->pp.v[i] > most ? g->pp.v[i] : most;
    for (int i = 0; i < g->tg.n; i++) most = g->tg.v[i] > most ? g->tg.v[i] : most;
    for (int i = 0; i < g->n_pg; i++) most = g->pg[i][0] + g->pg[i][1] > most ? g->pg[i][0] + g->pg[i][1] : most;
    for (int i = 0; i < g->depth.n; i++) deepest = g->depth.v[i] > deepest ? g->depth.v[i] : deepest;
    settings.n_ctx = (int)(most + deepest + 1);
    settings.n_seq = 2;
    int code = engine_open_session(e, eo, settings);
    bench_pass_init(&pass, e, eo->n_batch);
    b->test->type_k = eo->type_k;
    b->test->type_v = eo->type_v;
    b->test->n_batch = eo->n_batch;
    for (int d = 0; d < g->depth.n; d++) {
        int depth = (int)g->depth.v[d];
        for (int i = 0; !code && i < g->pp.n; i++) code = one_test(b, &pass, (int)g->pp.v[i], 0, depth);
        for (int i = 0; !code && i < g->tg.n; i++) code = one_test(b, &pass, 0, (int)g->tg.v[i], depth);
        for (int i = 0; !code && i < g->n_pg; i++) code = one_test(b, &pass, g->pg[i][0], g->pg[i][1], depth);
    }
    bench_pass_free(&pass);
    interrupt_watch(NULL);
    lutra_session_close(&e->session);
    return code;
}

static int tests_of_model(struct bench_state *b, const char *model, int n_threads)
{
    struct engine e = {.n_timeline_before = b->n_timeline};
    struct engine_options eo = b->o->engine;
    eo.model = model;
    eo.more_models = b->o->models.n > 1;
    eo.n_threads = n_threads;
    int code = engine_find_model(&eo);
    if (!code) code = engine_open(&e, &eo, false);
    if (!code) {
        b->test->model = model;
        b->test->info = e.info;
        b->test->device = lutra_runtime_device_text(e.runtime);
        if (*e.info.plan && !eo.quiet) say("plan: %s", e.info.plan);
        b->test->n_threads = lutra_runtime_n_threads(e.runtime);
        b->test->peaks = bench_peaks(&e, b->o);
    }
    const struct cache_types *k = &b->grid->k, *v = &b->grid->v;
    for (int t = 0; !code && t < k->n * (v->n ? v->n : 1); t++)
        for (int i = 0; !code && i < b->grid->batch.n; i++) {
            eo.type_k = k->name[v->n ? t / v->n : t];
            eo.type_v = v->n ? v->name[t % v->n] : eo.type_k;
            eo.n_batch = (int)b->grid->batch.v[i];
            code = tests_of_session(b, &e, &eo);
        }
    engine_close(&e);
    b->n_timeline = e.n_timeline_before;
    return code;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct bench_options *o = opts;
    struct grid g = {0};
    (void)arg, (void)n_arg;
    if (o->models.n == 0) {
        say("no model: -m FILE or LUTRA_ARG_MODEL names one; 'lutra models' lists those that are here");
        return EXIT_USAGE;
    }
    if (parse_grid(o, &g) < 0) return EXIT_USAGE;
    if (o->npl) {
        if (o->models.n > 1 || g.threads.n > 1 || g.batch.n > 1 || g.k.n > 1 || g.v.n > 1) {
            say("bench: batched mode takes one model, -t, -b and cache type");
            return EXIT_USAGE;
        }
        o->engine.model = o->models.item[0];
        int code = engine_find_model(&o->engine);
        if (code) return code;
        o->engine.n_threads = (int)g.threads.v[0];
        o->engine.n_batch = (int)g.batch.v[0];
        o->engine.type_k = g.k.name[0];
        o->engine.type_v = g.v.n ? g.v.name[0] : NULL;
        return bench_batched(o);
    }
    struct bench_state b = {.o = o, .grid = &g, .test = get_memory(sizeof *b.test)};
    int code = 0;
    bench_print_begin(stdout, o->format);
    if (o->format_err) bench_print_begin(stderr, o->format_err);
    for (int m = 0; !code && m < o->models.n; m++)
        for (int t = 0; !code && t < g.threads.n; t++)
            code = tests_of_model(&b, o->models.item[m], (int)g.threads.v[t]);
    bench_print_end(stdout, o->format, b.test);
    if (o->format_err) bench_print_end(stderr, o->format_err, b.test);
    free(b.test);
    return code;
}

const struct command command_bench = {
    .name = "bench",
    .arguments = "",
    .summary = "Measure prompt processing and decoding speed",
    .notes = "Forward passes over random tokens, wall clock; tokenising and sampling are excluded.  t/s: mean and\n"
             "standard deviation over the repetitions.  \"pp512 @ d4096\": with 4096 tokens in the cache.\n"
             "What an NPU would take, counted and modelled, shows lutra sim --papers.",
    .opts_bytes = sizeof(struct bench_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
