/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <string.h>
#include <sys/stat.h>

struct quantize_options {
    struct engine_options engine;
    const char *token_embedding_type, *output_type;
    bool allow_requantize, pure;
};

#define AT(field) offsetof(struct quantize_options, field)

static const struct option quantize_table[] = {
    {"--allow-requantize", NULL, OPT_ON, AT(allow_requantize), NULL,
        .help = "accept tensors that are quantized already (costs accuracy)"},
    {"--pure", NULL, OPT_ON, AT(pure), NULL, .help = "no better type for the output matrix than for the rest"},
    {"--token-embedding-type", NULL, OPT_TEXT, AT(token_embedding_type), "TYPE", .help = "type of token_embd.weight"},
    {"--output-tensor-type", NULL, OPT_TEXT, AT(output_type), "TYPE", .help = "type of output.weight"},
    {"-t --threads", "THREADS", OPT_INT, AT(engine.n_threads), "N",
        .help = "threads; 0 = the CPUs this process may use", .min = 0, .max = 4096},
};
#undef AT

static void set_defaults(void *opts)
{
    engine_options_init(&((struct quantize_options *)opts)->engine);
}

static int list_sets(void *opts, struct option_set *set)
{
    struct quantize_options *o = opts;
    set[0] = (struct option_set){"Options", quantize_table, OPTION_COUNT(quantize_table), o, NULL};
    set[1] = output_option_set(&o->engine);
    return 2;
}

static void log_tensor(void *user, enum lutra_log_level level, const char *line)
{
    const struct engine_options *o = user;
    if (o->quiet || (level == LUTRA_LOG_DEBUG && !o->verbose)) return;
    progress_clear();
    fprintf(stderr, "%s\n", line);
}

static void print_sizes(const char *in, const char *out)
{
    struct stat a, b;
    char from[32], to[32];
    if (stat(in, &a) < 0 || stat(out, &b) < 0) return;
    if (S_ISDIR(a.st_mode)) {
        printf("%s: %s\n", out, bytes_text((double)b.st_size, to, sizeof to));
        return;
    }
    printf("%s: %s -> %s\n", out, bytes_text((double)a.st_size, from, sizeof from),
        bytes_text((double)b.st_size, to, sizeof to));
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct quantize_options *o = opts;
    struct engine e = {0};
    struct lutra_error err = {0};
    int64_t n_threads = o->engine.n_threads;
    if (n_arg == 3 && option_number(arg[2], 1, 4096, &n_threads) == 0) {
        say("quantize: OUT.gguf is missing: IN.gguf OUT.gguf TYPE [THREADS]");
        return EXIT_USAGE;
    }
    if (n_arg == 4 && option_number(arg[3], 1, 4096, &n_threads) < 0) {
        say("quantize: '%s' is not a number of threads", arg[3]);
        return EXIT_USAGE;
    }
    o->engine.n_threads = (int)n_threads;
    int code = engine_open_runtime(&e, &o->engine);
    if (!code) {
        struct lutra_quantize_settings settings;
        lutra_quantize_settings_init(&settings, sizeof settings);
        settings.type = arg[2];
        settings.token_embedding_type = o->token_embedding_type;
        settings.output_type = o->output_type;
        settings.allow_requantize = o->allow_requantize;
        settings.pure = o->pure;
        settings.progress = progress_callback;
        settings.log = log_tensor;
        settings.log_user = &o->engine;
        if (lutra_quantize(e.runtime, arg[0], arg[1], &settings, &err) < 0) code = fail_with(&err);
    }
    engine_close(&e);
    if (!code && !o->engine.quiet) print_sizes(arg[0], arg[1]);
    return code;
}

const struct command command_quantize = {
    .name = "quantize",
    .arguments = "IN OUT.gguf TYPE [THREADS]",
    .summary = "Write a model file with another weight type",
    .notes =
        "IN is a GGUF file or a Hugging Face folder.\n"
        "TYPE, in any case: F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K IQ4_NL TQ1_0 TQ2_0 MXFP4, or COPY.\n"
        "OUT.gguf appears whole or not at all.",
    .opts_bytes = sizeof(struct quantize_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .min_args = 3,
    .max_args = 4,
    .run = run,
};
