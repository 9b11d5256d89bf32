/* SPDX-License-Identifier: MIT
 *
 * lutra sim: what a phone would do with a model.  The answer is lutra_sim()'s; here it becomes text.
 */
#include "sim/sim.h"

#include <jansson.h>
#include <string.h>

#include "cli.h"
#include "models/find.h"

struct sim_options {
    struct engine_options engine; /* the model */
    struct lutra_sim_settings set;
    const char *format, *svg;
    bool compare, lengths, papers, plans;
    float memory, slice_ms;
    const char *game;
};

#define AT(field) offsetof(struct sim_options, field)
static const struct option table[] = {
    {"--soc", NULL, OPT_TEXT, AT(set.soc), "NAME", .help = "8gen2, 8gen3, 8elite, or the file of a profile"},
    {"-m --model", "MODEL", OPT_TEXT, AT(engine.model), "FILE", .help = "GGUF file or Hugging Face folder",
        .excludes = "--shape --quant"},
    {"--shape", NULL, OPT_TEXT, AT(set.shape), "NAME", .help = "a real model's sizes: Llama-8B, Qwen2.5-7B, ..."},
    {"--quant", NULL, OPT_CHOICE, AT(set.quant), "TYPE",
        .help = "what the shape's layers hold; w4: 4 bits, a scale per output", .choices = "w4 w8 q4_0 q8_0 f16 w2"},
    {"--law", NULL, OPT_CHOICE, AT(set.law), "LAW",
        .help = "how long the NPU takes: qnn, its vendor's graphs; lutra, this project's kernels as counted",
        .choices = "qnn lutra"},
    {"--plan", NULL, OPT_CHOICE, AT(set.plan), "PLAN",
        .help = "who computes what; free: the fastest of the others for these lengths; solved keeps prefixes: no row's "
                "values depend on the prompt's length; three: the CPU has a part of products, too; of the engine, on "
                "--device: one, class, hybrid",
        .choices =
            "free fine tensor solved activation weight pipe padding chunked prepare layer gpu three one class hybrid"},
    {"--device", NULL, OPT_TEXT, AT(set.device), "NAMES",
        .help = "of --plan one, class and hybrid, and of --lengths: processors in order of preference, npu,gpu; class: "
                "whole blocks of the prompt on the first, all other rows on the last; hybrid: blocks on all of them",
        .excludes = "--compare --papers --plans"},
    {"-c --ctx-size", NULL, OPT_INT, AT(set.n_ctx), "N", .help = "tokens of cache per sequence; 0 = those in use",
        .min = 0, .max = 4194304},
    {"-p --prompt", NULL, OPT_INT, AT(set.n_prompt), "N", .help = "tokens of the prompt", .min = 1, .max = 1048576},
    {"-n --decode", NULL, OPT_INT, AT(set.n_decode), "N", .help = "tokens of the reply", .min = 0, .max = 1048576},
    {"--beside", NULL, OPT_INT, AT(set.n_beside), "N",
        .help = "sequences that decode in the prompt's passes, each behind as many tokens as the prompt has", .min = 0,
        .max = 1024, .excludes = "--compare --papers --game"},
    {"-np --batch", NULL, OPT_INT, AT(set.n_batch), "N", .help = "sequences that reply at once", .min = 1, .max = 1024},
    {"--compare", NULL, OPT_ON, AT(compare), NULL,
        .help = "rank profiles, quantizations of a shape, 1, 4 and 16 sequences"},
    {"--memory", NULL, OPT_FLOAT, AT(memory), "GIB", .help = "what there is for the model; 0 = any", .min = 0,
        .max = 1024, .needs = "--compare"},
    {"--lengths", NULL, OPT_ON, AT(lengths), NULL, .help = "prompts of 32 to 1100 tokens by every plan",
        .excludes = "--compare"},
    {"--game", NULL, OPT_TEXT, AT(game), "FPS:SHARE",
        .help = "a game in the foreground: frames a second, and the share of the GPU that they take, 60:0.4",
        .excludes = "--compare --lengths --papers"},
    {"--gpu-slice-ms", NULL, OPT_FLOAT, AT(slice_ms), "MS",
        .help = "beside a game: how long the GPU works for the model at a time", .min = 0.1, .max = 1000,
        .needs = "--game"},
    {"--papers", NULL, OPT_ON, AT(papers), NULL,
        .help = "published figures of [HETERO], [SDNPU], [TTS] and [TMAN] beside modelled ones, with every table "
                "behind them",
        .excludes = "--compare --lengths"},
    {"--plans", NULL, OPT_ON, AT(plans), NULL,
        .help = "the prompt by every plan, those of the engine on every set of processors",
        .excludes = "--compare --lengths --papers --plan --game"},
    {"-o --output", NULL, OPT_CHOICE, AT(format), "FORMAT", .help = "text or json on stdout", .choices = "text json"},
    {"--svg", NULL, OPT_TEXT, AT(svg), "FILE",
        .help = "a layer's timeline as a picture; with --papers, accuracy against cost",
        .excludes = "--compare --lengths --plans"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct sim_options *o = opts;
    memset(o, 0, sizeof *o);
    engine_options_init(&o->engine);
    lutra_sim_settings_init(&o->set, sizeof o->set);
    o->set.soc = "8gen3", o->set.law = "qnn", o->set.plan = "free", o->format = "text";
    o->slice_ms = (float)o->set.gpu_slice_ms;
}

static int list_sets(void *opts, struct option_set *set)
{
    set[0] = (struct option_set){"Options", table, OPTION_COUNT(table), opts, NULL};
    return 1;
}

/* ---- text ---- */

double sim_number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* Texts from files. */
static void print_text(const json_t *o, const char *key)
{
    print_plain(text(o, key), strlen(text(o, key)));
}

/* "4.08 s (3.96 to 4.20)" */
static void print_span(const json_t *o, const char *key, double by, const char *unit)
{
    const json_t *s = json_object_get(o, key);
    printf("%.4g %s (%.4g to %.4g)", by * sim_number(s, "middle"), unit, by * sim_number(s, "low"),
        by * sim_number(s, "high"));
}

static void print_memory(const json_t *all)
{
    const json_t *m = json_object_get(all, "memory_bytes");
    static const char *const parts[] = {"all", "weights", "cache", "other"};
    static const char *const before[] = {"", ": weights ", ", cache ", ", between operations "};
    char out[32];
    printf("memory       ");
    for (int i = 0; i < 4; i++) printf("%s%s", before[i], bytes_text(sim_number(m, parts[i]), out, sizeof out));
    printf("\n");
}

/* "npu, blocks: 992 rows, 60 % of outputs" */
static void print_piece(const json_t *op, const char *device)
{
    char cell[64], key[16];
    int n = snprintf(cell, sizeof cell, "%.3s, %s: ", device, text(op, "of"));
    snprintf(key, sizeof key, "%.3s_rows", device);
    n += snprintf(cell + n, sizeof cell - (size_t)n, "%.0f rows", sim_number(op, key));
    snprintf(key, sizeof key, "%.3s_part", device);
    if (sim_number(op, key) < 1)
        snprintf(cell + n, sizeof cell - (size_t)n, ", %.0f %% of outputs", 100 * sim_number(op, key));
    printf(
        "  %-18s %-40s %9.0f us from %.0f on", text(op, "op"), cell, sim_number(op, "us"), sim_number(op, "start_us"));
}

/* "gpu 40 %, npu 60 % of outputs" */
static void print_placement(const json_t *op)
{
    for (int d = 0; d < SIM_PROCESSORS && *text(op, "of"); d++)
        if (sim_number(op, sim_processors[d]) > 0) print_piece(op, sim_processors[d]);
    if (*text(op, "of")) return;
    const bool rows = strcmp(text(op, "kind"), "rows") == 0;
    char cell[64] = "", key[16];
    int n = 0, used = 0;
    for (int d = 0; d < SIM_PROCESSORS; d++) used += sim_number(op, sim_processors[d]) > 0;
    for (int d = 0; d < SIM_PROCESSORS; d++) {
        if (sim_number(op, sim_processors[d]) <= 0) continue;
        n += snprintf(cell + n, sizeof cell - (size_t)n, "%s%.3s", n ? ", " : "", sim_processors[d]);
        if (used < 2) continue;
        snprintf(key, sizeof key, "%.3s_%s", sim_processors[d], rows ? "rows" : "part");
        n += snprintf(
            cell + n, sizeof cell - (size_t)n, rows ? " %.0f" : " %.0f %%", (rows ? 1 : 100) * sim_number(op, key));
    }
    if (used > 1) snprintf(cell + n, sizeof cell - (size_t)n, rows ? " rows" : " of outputs");
    printf("  %-10s %-36s %9.0f us", text(op, "op"), cell, sim_number(op, "us"));
}

enum { GANTT = 64 };

/* One device's share of the layer's time, a character for each 1 / GANTT of it. */
static void print_bar(const json_t *all, const json_t *ops, const char *device, double whole)
{
    char line[GANTT + 1];
    const json_t *op;
    size_t i;
    memset(line, ' ', GANTT);
    line[GANTT] = 0;
    json_array_foreach((json_t *)ops, i, op)
    {
        double us = sim_number(op, device), from = sim_number(op, "start_us") + sim_number(op, "hand_over_us");
        const char *name = text(op, "op");
        if (sim_is_beyond(all, op)) continue;
        for (int x = (int)(GANTT * from / whole); us > 0 && x < GANTT && x < GANTT * (from + us) / whole; x++)
            line[x] = name[0];
    }
    printf("  %.3s |%s|\n", device, line);
}

static void print_layer(const json_t *all, const char *key, const char *title)
{
    const json_t *ops = json_object_get(all, key), *op;
    double whole = 0;
    size_t i;
    if (!ops) return;
    printf("\n%s\n", title);
    json_array_foreach((json_t *)ops, i, op)
    {
        print_placement(op);
        printf("\n");
    }
    whole = sim_layer_us(all, ops);
    if (whole <= 0) return;
    printf("\n  one %s, %.0f us; by the first letter of what runs:\n", text(all, "timeline_of"), whole);
    for (int d = 0; d < sim_used(ops); d++) print_bar(all, ops, sim_processors[d], whole);
}

/* With slices of the GPU's time and without. */
static void print_game(const json_t *game)
{
    static const char *const keys[] = {
        "tokens_per_s", "tokens_percent", "frames_per_s", "frame_ms", "longest_frame_ms", "j"};
    const json_t *row;
    size_t i;
    printf("\nBeside a game of %g frames a second that take %g of the GPU: a frame's time is from its begin to its end "
           "on the GPU; energy is both's.\n\n| | GPU's time | tokens/s | %% | frames/s | frame, ms | longest, ms | J "
           "|\n|---|---|---|---|---|---|---|---|\n",
        sim_number(game, "fps"), sim_number(game, "share"));
    json_array_foreach(json_object_get(game, "beside"), i, row)
    {
        const double slice = sim_number(row, "slice_ms");
        printf("| %s | ", text(row, "phase"));
        if (slice > 0)
            printf("slices of %g ms |", slice);
        else
            printf("as submitted |");
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            printf(" ");
            print_span(row, keys[k], 1, "");
            printf(" |");
        }
        printf("\n");
    }
}

static void print_reply(const json_t *all)
{
    printf("\nprompt        %.0f tokens", sim_number(all, "prompt"));
    if (sim_number(all, "beside") > 0) printf(" beside %.0f sequences that decode", sim_number(all, "beside"));
    printf(", plan %s%s%s: first token after ", text(all, "plan"), *text(all, "device") ? " on " : "",
        text(all, "device"));
    print_span(all, "ttft_ms", 1e-3, "s");
    printf("\n              ");
    print_span(all, "prompt_tokens_per_s", 1, "tokens/s");
    printf(", ");
    print_span(all, "prompt_j", 1, "J");
    const json_t *solved = json_object_get(all, "solved");
    if (solved) {
        printf("\n              plan solved, which keeps prefixes: first token after ");
        print_span(solved, "ttft_ms", 1e-3, "s");
        printf(", %.2f times as late", sim_number(solved, "price"));
    }
    if (sim_number(all, "decode") > 0) {
        printf("\nreply         %.0f tokens of %.0f, plan %s: ", sim_number(all, "decode"), sim_number(all, "batch"),
            text(all, "decode_plan"));
        print_span(all, "decode_tokens_per_s", 1, "tokens/s");
        printf("\n              ");
        print_span(all, "decode_j_per_token", 1, "J per token");
    }
    printf("\n");
    print_memory(all);
    const json_t *graphs = json_object_get(all, "graph_switch");
    if (graphs)
        printf("graphs        the reply's are loaded %.0f ms after the first chunk began where all wait for the "
               "prompt, %.0f ms block by block (%s): %.0f passes of blocks by the prompt's graphs, %.0f by the reply's "
               "in %.0f runs [SDNPU 4.2]\n",
            sim_number(graphs, "synchronous_ms"), sim_number(graphs, "best_ms"), text(graphs, "policy"),
            sim_number(graphs, "passes_many"), sim_number(graphs, "passes_few"), sim_number(graphs, "runs_few"));
    if (json_object_get(all, "game")) print_game(json_object_get(all, "game"));
    print_layer(all, "prompt_layer", "Prompt");
    print_layer(all, "decode_layer", "Reply, its first pass");
}

static void print_lengths(const json_t *all)
{
    const json_t *rows = json_object_get(all, "lengths"), *row, *time;
    const char *plan;
    size_t i;
    printf("\nMilliseconds until the first token, the middle of each interval; solved keeps prefixes: no row "
           "depends on the length.\n\n| rows |");
    json_object_foreach(json_object_get(json_array_get(rows, 0), "us"), plan, time) printf(" %s |", plan);
    printf(" fastest |\n|---|");
    for (size_t n = json_object_size(json_object_get(json_array_get(rows, 0), "us")); n > 0; n--) printf("---|");
    printf("---|\n");
    json_array_foreach((json_t *)rows, i, row)
    {
        printf("| %.0f |", sim_number(row, "rows"));
        json_object_foreach(json_object_get(row, "us"), plan, time) printf(" %.0f |", sim_number(time, "middle") / 1e3);
        printf(" %s |\n", text(row, "fastest"));
    }
}

static void print_plans(const json_t *all)
{
    static const char *const keys[] = {"us", "mj", "gpu_us", "npu_us", "cpu_us"};
    static const double by[] = {1e-6, 1e-3, 1e-6, 1e-6, 1e-6};
    const json_t *row;
    size_t i;
    printf(
        "\nA prompt of %.0f tokens beside %.0f sequences that decode: time, energy, how long each processor works, how "
        "often one waits for another.\n\n"
        "| plan | device | first token, s | J | GPU, s | NPU, s | CPU, s | waits |\n"
        "|---|---|---|---|---|---|---|---|\n",
        sim_number(all, "prompt"), sim_number(all, "beside"));
    json_array_foreach(json_object_get(all, "plans"), i, row)
    {
        printf("| %s | %s |", text(row, "plan"), text(row, "device"));
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const json_t *x = json_object_get(row, keys[k]);
            printf(" %.4g", by[k] * sim_number(x, "middle"));
            if (k < 2) printf(" (%.4g to %.4g)", by[k] * sim_number(x, "low"), by[k] * sim_number(x, "high"));
            printf(" |");
        }
        printf(" %.0f |\n", sim_number(row, "hand_overs"));
    }
}

static void print_compared(const json_t *all)
{
    const json_t *rows = json_object_get(all, "compared"), *row;
    size_t i;
    printf(
        "\nA prompt of %.0f and replies of %.0f tokens; the most tokens per second first, what does not fit last.\n\n"
        "| profile | quantization | sequences | tokens/s of all | first token | energy | memory | fits |\n"
        "|---|---|---|---|---|---|---|---|\n",
        sim_number(all, "prompt"), sim_number(all, "decode"));
    json_array_foreach((json_t *)rows, i, row)
    {
        printf("| %s | %s | %.0f | ", text(row, "profile"), text(row, "quant"), sim_number(row, "batch"));
        print_span(row, "decode_tokens_per_s", 1, "tokens/s");
        printf(" | ");
        print_span(row, "ttft_ms", 1e-3, "s");
        printf(" | ");
        print_span(row, "decode_j_per_token", 1, "J per token");
        printf(" | %.2f GiB | %s |\n", sim_number(row, "memory_gib"),
            json_is_true(json_object_get(row, "fits")) ? "yes" : "no");
    }
}

/* A cell of a table: numbers, texts, times as their ends; nothing of what has other members. */
static void print_cell(const json_t *x)
{
    const json_t *low = json_object_get(x, "low_us");
    if (low)
        printf(" %.4g to %.4g |", json_number_value(low), sim_number(x, "high_us"));
    else if (json_is_string(x))
        printf(" %s |", json_string_value(x));
    else if (json_is_number(x))
        printf(" %.6g |", json_number_value(x));
    else if (json_is_boolean(x))
        printf(" %s |", json_is_true(x) ? "yes" : "no");
}

/* Every list of the object as a table; a row with other members begins a new one.  Times in us, energies in mJ. */
static void print_tables(const json_t *all)
{
    const char *title, *name;
    const json_t *rows, *row, *x;
    size_t i;
    json_object_foreach((json_t *)all, title, rows)
    {
        size_t width = 0;
        if (!json_is_array(rows)) continue;
        printf("\n## %s\n", title);
        json_array_foreach(rows, i, row)
        {
            if (json_object_size(row) != width) {
                width = json_object_size(row);
                printf("\n|");
                json_object_foreach((json_t *)row, name, x) if (!json_is_object(x) || json_object_get(x, "low_us"))
                    printf(" %s%s |", name, json_is_object(x) ? ", us" : "");
                printf("\n|");
                json_object_foreach((json_t *)row, name, x) if (!json_is_object(x) || json_object_get(x, "low_us"))
                    printf("---|");
                printf("\n");
            }
            printf("|");
            json_object_foreach((json_t *)row, name, x) print_cell(x);
            printf("\n");
        }
    }
}

static void print_figures(const json_t *of)
{
    const json_t *rows = json_object_get(of, "figures"), *row;
    size_t i;
    printf("Held out: %.0f, of which %.0f are within 20 %% in intervals no wider than 1.6, of percents 20 points.\n\n"
           "| source | what | model | published | modelled | use | | error |\n|---|---|---|---|---|---|---|---|\n",
        sim_number(of, "held_out"), sim_number(of, "held_out_within_20_percent"));
    json_array_foreach((json_t *)rows, i, row)
    {
        const json_t *modelled = json_object_get(row, "modelled");
        const char *instead = text(row, "instead");
        printf("| %s | %s%s%s%s%s | %s | %g %s | ", text(row, "source"), text(row, "what"),
            *text(row, "processor") ? ", " : "", text(row, "processor"), *instead ? "; in its place plan " : "",
            instead, text(row, "model"), sim_number(row, "published"), text(row, "unit"));
        if (modelled)
            printf("%.4g (%.4g to %.4g)", sim_number(modelled, "middle"), sim_number(modelled, "low"),
                sim_number(modelled, "high"));
        printf(" | %s | %s | ", text(row, "use"), text(row, "verdict"));
        if (modelled) printf("%+.0f %%", sim_number(row, "error_percent"));
        printf(" |\n");
    }
    printf("\n");
    const char *last = "";
    bool told = false; /* of the engine's plans, which have one note */
    json_array_foreach((json_t *)rows, i, row)
    {
        const bool ours = *text(row, "instead"), again = ours ? told : !strcmp(last, text(row, "note"));
        if (*text(row, "note") && !again)
            printf("- %s: %s.\n", ours ? "plans of the engine" : text(row, "what"), text(row, "note"));
        last = text(row, "note"), told |= ours;
    }
}

static void print_papers(const json_t *all)
{
    printf(
        "Modelled on %s beside published figures; fitted ones were used to make the profile.  ", text(all, "profile"));
    print_figures(all);
    printf(
        "\n# [SDNPU]\n\nNo profile stands behind these: three columns of Table 3 are fitted, sums of their parts and "
        "plans of graph switches are held out.  ");
    print_figures(json_object_get(all, "sdnpu"));
    const json_t *counted = json_object_get(all, "counted");
    printf("\n# Counted kernels and whole models [TTS], [TMAN]\n\nPackets are counted (%s, %s); times and energies are "
           "modelled; accuracies are measured.  Ratios are on %s.\n",
        text(counted, "compiler"), text(counted, "cpu"), text(counted, "ratios_on"));
    print_tables(counted);
}

static void print_answer(const json_t *all, const struct sim_options *o)
{
    if (o->papers) {
        print_papers(all);
        return;
    }
    const json_t *model = json_object_get(all, "model");
    print_text(model, "name");
    printf(" (");
    print_text(model, "quant");
    printf(", %.4g bits a weight) on %s, law %s: modelled, not measured; low to high is what is not known of the SoC\n",
        sim_number(model, "layer_bits"), text(all, "soc"), text(all, "law"));
    if (o->compare)
        print_compared(all);
    else if (o->lengths)
        print_lengths(all);
    else if (o->plans)
        print_plans(all);
    else
        print_reply(all);
}

/* "60:0.4" */
static int read_game(struct sim_options *o)
{
    char rest[2];
    if (o->game &&
        (sscanf(o->game, "%lf:%lf%1s", &o->set.game_fps, &o->set.game_share, rest) != 2 ||
            !(o->set.game_fps >= 1 && o->set.game_fps <= 1000) || !(o->set.game_share > 0 && o->set.game_share <= 1))) {
        say("--game %s: frames a second, 1 to 1000, and a share of the GPU up to 1: 60:0.4", o->game);
        return EXIT_USAGE;
    }
    o->set.gpu_slice_ms = (double)o->slice_ms;
    return EXIT_OK;
}

static int run_sim(void *opts, const char **arg, int n_arg)
{
    struct sim_options *o = opts;
    struct lutra_error err = {0};
    char *json = NULL;
    (void)arg, (void)n_arg;
    if (read_game(o)) return EXIT_USAGE;
    if (o->engine.model) {
        int code = engine_find_model(&o->engine);
        if (code) return code;
        o->set.model = o->engine.model;
    }
    o->set.memory_gib = (double)o->memory;
    o->set.what = o->papers    ? LUTRA_SIM_PAPERS
                  : o->compare ? LUTRA_SIM_COMPARE
                  : o->lengths ? LUTRA_SIM_LENGTHS
                  : o->plans   ? LUTRA_SIM_PLANS
                               : LUTRA_SIM_REPLY;
    if (lutra_sim(&o->set, &json, &err) < 0) return fail_with(&err);
    json_t *all = json_loads(json, 0, NULL);
    if (strcmp(o->format, "json") == 0)
        puts(json);
    else
        print_answer(all, o);
    int code = EXIT_OK;
    if (o->svg)
        code = o->papers ? sim_write_costs(json_object_get(all, "counted"), o->svg) : sim_write_svg(all, o->svg);
    json_decref(all);
    lutra_free(json);
    return code;
}

const struct command command_sim = {
    .name = "sim",
    .arguments = "",
    .summary = "What a phone would do with a model: time, energy, memory, modelled",
    .notes = "Nothing runs on a phone: times follow from a profile of its SoC (profiles/), whose figures are intervals "
             "with\n"
             "their sources, and from [HETERO]'s published products or this project's counted kernels.",
    .opts_bytes = sizeof(struct sim_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run_sim,
};
