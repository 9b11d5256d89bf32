/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <sys/stat.h>

static const struct option import_table[] = {
    ZEROS_OPTION(offsetof(struct engine_options, zeros)),
};

static void set_defaults(void *opts)
{
    engine_options_init(opts);
}

static int list_sets(void *opts, struct option_set *set)
{
    set[0] = (struct option_set){"Options", import_table, OPTION_COUNT(import_table), opts, NULL};
    set[1] = output_option_set(opts);
    return 2;
}

static void log_warning(void *user, enum lutra_log_level level, const char *line)
{
    const struct engine_options *o = user;
    if (level > LUTRA_LOG_WARN || o->quiet) return;
    progress_clear();
    say("warning: %s", line);
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct engine_options *o = opts;
    struct engine e = {0};
    struct lutra_error err = {0};
    struct stat st;
    char size[32];
    (void)n_arg;
    if (stat(arg[0], &st) == 0 && !S_ISDIR(st.st_mode)) {
        say("import: '%s' is not a folder", arg[0]);
        return EXIT_USAGE;
    }
    int code = engine_open_runtime(&e, o);
    if (!code) {
        struct lutra_quantize_settings settings;
        lutra_quantize_settings_init(&settings, sizeof settings);
        settings.type = "COPY";
        settings.exact = true;
        settings.zeros = o->zeros;
        settings.progress = progress_callback;
        settings.log = log_warning;
        settings.log_user = o;
        if (lutra_quantize(e.runtime, arg[0], arg[1], &settings, &err) < 0) code = fail_with(&err);
    }
    engine_close(&e);
    if (!code && !o->quiet && stat(arg[1], &st) == 0)
        printf("%s: %s\n", arg[1], bytes_text((double)st.st_size, size, sizeof size));
    return code;
}

const struct command command_import = {
    .name = "import",
    .arguments = "FOLDER OUT.gguf",
    .summary = "Write a Hugging Face folder as a GGUF file of the same values",
    .notes =
        "Weights stay as they are.  GPTQ, AWQ, compressed-tensors and BitNet become the blocks that hold their values\n"
        "exactly (Q4_0 if symmetric with 4 bits, Q5_0, Q8_0, Q2_0, TQ2_0); a layer that none of them holds is "
        "refused,\n"
        "with the reason.\n"
        "OUT.gguf appears whole or not at all.",
    .opts_bytes = sizeof(struct engine_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
