/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <string.h>
#include <sys/stat.h>

struct pack_options {
    struct engine_options engine;
    const char *out;
    bool check;
};

#define AT(field) offsetof(struct pack_options, field)

static const struct option pack_table[] = {
    {"-o --output", NULL, OPT_TEXT, AT(out), "FILE", .help = "the new file; MODEL.lutra-packed without it"},
    {"--check", NULL, OPT_ON, AT(check), NULL, .help = "say whether the packed FILE is whole, and do nothing else"},
    ZEROS_OPTION(AT(engine.zeros)),
    {"-t --threads", "THREADS", OPT_INT, AT(engine.n_threads), "N",
        .help = "threads; 0 = the CPUs this process may use", .min = 0, .max = 4096},
    {"-dev --device", "DEVICE", OPT_TEXT, AT(engine.device), "NAME", .help = "device to pack for: cpu, or cpu-ref"},
    {"--isa", "ISA", OPT_TEXT, AT(engine.isa), "NAME", .help = "highest instruction set to use: avx2, avx512, ..."},
};
#undef AT

static void set_defaults(void *opts)
{
    engine_options_init(&((struct pack_options *)opts)->engine);
}

static int list_sets(void *opts, struct option_set *set)
{
    struct pack_options *o = opts;
    set[0] = (struct option_set){"Options", pack_table, OPTION_COUNT(pack_table), o, NULL};
    set[1] = output_option_set(&o->engine);
    return 2;
}

static void print_size(const char *path)
{
    struct stat st;
    char size[32];
    if (stat(path, &st) == 0) printf("%s: %s\n", path, bytes_text((double)st.st_size, size, sizeof size));
}

static int check(const char *path, bool quiet)
{
    struct lutra_error err = {0};
    if (lutra_pack_check(path, &err) < 0) return fail_with(&err);
    if (!quiet) printf("%s: undamaged\n", path);
    return EXIT_OK;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct pack_options *o = opts;
    if (o->check) return check(arg[0], o->engine.quiet);
    struct engine e = {0};
    struct lutra_error err = {0};
    struct buffer beside = {0};
    (void)n_arg;
    size_t n = strlen(arg[0]);
    while (n > 1 && arg[0][n - 1] == '/') n--; /* of a folder: beside it */
    buffer_add(&beside, arg[0], n);
    buffer_add(&beside, LUTRA_PACKED_SUFFIX, strlen(LUTRA_PACKED_SUFFIX));
    const char *out = o->out ? o->out : beside.text;
    int code = engine_open_runtime(&e, &o->engine);
    struct lutra_model_settings settings;
    lutra_model_settings_init(&settings, sizeof settings);
    settings.progress = progress_callback;
    settings.zeros = o->engine.zeros;
    if (!code && lutra_pack(e.runtime, arg[0], out, &settings, &err) < 0) code = fail_with(&err);
    engine_close(&e);
    if (!code && !o->engine.quiet) print_size(out);
    buffer_free(&beside);
    return code;
}

const struct command command_pack = {
    .name = "pack",
    .arguments = "MODEL | --check FILE",
    .summary = "Keep a model's packed weights in a file, so that it starts faster",
    .notes =
        "The file is as large as the model's matrices and belongs to this model file and this kind of processor; "
        "where\n"
        "it does not fit, commands go on without it and say so.  It is used when it lies beside the model under its\n"
        "own name, or by --packed FILE.",
    .opts_bytes = sizeof(struct pack_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
