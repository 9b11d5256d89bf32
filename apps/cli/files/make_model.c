/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <string.h>
#include <sys/stat.h>

struct make_options {
    struct engine_options engine;
    const char *out, *shape, *type;
    int64_t seed;
    bool outliers, list, asymmetric;
    int n_layer, group_size;
};

#define AT(field) offsetof(struct make_options, field)

static const struct option make_table[] = {
    {"-o --output", NULL, OPT_TEXT, AT(out), "FILE", .help = "file or, of groups, folder to write"},
    {"--shape", NULL, OPT_TEXT, AT(shape), "NAME", .help = "a real model's shape, see --list"},
    {"--type", NULL, OPT_TEXT, AT(type), "TYPE",
        .help = "type of the matrices; W2, W3, W4 or W8: a Hugging Face folder of layers quantized by GPTQ"},
    {"--group-size", NULL, OPT_INT, AT(group_size), "N",
        .help = "of W2 to W8: inputs of a group, 32, 64 or 128 (the default); -1 = whole rows", .min = -1, .max = 128},
    {"--asymmetric", NULL, OPT_ON, AT(asymmetric), NULL, .help = "of W2 to W8: each group has a zero of its own"},
    {"-s --seed", NULL, OPT_I64, AT(seed), "N", .help = "random seed", .min = 0, .max = 9e15},
    {"--outliers", NULL, OPT_ON, AT(outliers), NULL,
        .help = "massive activations at the input of ffn_down, as real models have"},
    {"--layers", NULL, OPT_INT, AT(n_layer), "N", .help = "number of layers; 0 = the shape's", .min = 0, .max = 1000},
    {"--list", NULL, OPT_ON, AT(list), NULL, .help = "list the shapes"},
    {"-t --threads", "THREADS", OPT_INT, AT(engine.n_threads), "N",
        .help = "threads; 0 = the CPUs this process may use", .min = 0, .max = 4096},
};
#undef AT

static void set_defaults(void *opts)
{
    struct make_options *o = opts;
    engine_options_init(&o->engine);
    o->type = "Q4_0";
    o->seed = 1;
}

static int list_sets(void *opts, struct option_set *set)
{
    struct make_options *o = opts;
    set[0] = (struct option_set){"Options", make_table, OPTION_COUNT(make_table), o, NULL};
    set[1] = output_option_set(&o->engine);
    return 2;
}

static void print_shapes(void)
{
    const char *name;
    for (int i = 0; (name = lutra_make_model_shape(i)); i++) puts(name);
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct make_options *o = opts;
    struct engine e = {0};
    struct lutra_error err = {0};
    struct stat st;
    char size[32];
    (void)arg, (void)n_arg;
    if (o->list) {
        print_shapes();
        return EXIT_OK;
    }
    if (!o->out || !o->shape) {
        say("make-model: -o FILE and --shape NAME are needed; --list lists the shapes");
        return EXIT_USAGE;
    }
    int code = engine_open_runtime(&e, &o->engine);
    if (!code) {
        struct lutra_make_model_settings settings;
        lutra_make_model_settings_init(&settings, sizeof settings);
        settings.shape = o->shape;
        settings.type = o->type;
        settings.seed = (uint64_t)o->seed;
        settings.outliers = o->outliers;
        settings.n_layer = o->n_layer;
        settings.group_size = o->group_size;
        settings.asymmetric = o->asymmetric;
        settings.progress = progress_callback;
        if (lutra_make_model(e.runtime, o->out, &settings, &err) < 0) code = fail_with(&err);
    }
    engine_close(&e);
    char weights[4096];
    snprintf(weights, sizeof weights, "%s/model.safetensors", o->out);
    if (!code && !o->engine.quiet && (stat(weights, &st) == 0 || stat(o->out, &st) == 0))
        printf("%s: %s, %s\n", o->out, o->shape, bytes_text((double)st.st_size, size, sizeof size));
    return code;
}

const struct command command_make_model = {
    .name = "make-model",
    .arguments = "",
    .summary = "Write a file of random weights of a real shape, for measuring",
    .opts_bytes = sizeof(struct make_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
