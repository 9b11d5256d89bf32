/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

struct imatrix_options {
    struct engine_options engine;
    const char *file, *prompt, *out, *format;
    int n_chunk;
    bool parse_special;
};

#define AT(field) offsetof(struct imatrix_options, field)

static const struct option imatrix_table[] = {
    {"-f --file", "FILE", OPT_TEXT, AT(file), "FILE", .help = "the text; - = standard input"},
    {"-p --prompt", "PROMPT", OPT_TEXT, AT(prompt), "TEXT", .help = "the text itself"},
    {"-o --output --output-file", NULL, OPT_TEXT, AT(out), "FILE", .help = "file to write"},
    {"--output-format", NULL, OPT_CHOICE, AT(format), "FORMAT", .help = "gguf, or the older dat",
        .choices = "gguf dat"},
    {"--chunks", "CHUNKS", OPT_INT, AT(n_chunk), "N", .help = "at most so many chunks of -c tokens; 0 = all", .min = 0,
        .max = 1 << 30},
    {"--parse-special", NULL, OPT_ON, AT(parse_special), NULL, .help = "control tokens spelt in the text are those"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct imatrix_options *o = opts;
    engine_options_init(&o->engine);
    o->engine.n_ctx = 512;
    o->out = "imatrix.gguf";
    o->format = "gguf";
}

static int list_sets(void *opts, struct option_set *set)
{
    struct imatrix_options *o = opts;
    set[0] = (struct option_set){"Options", imatrix_table, OPTION_COUNT(imatrix_table), o, NULL};
    set[1] = engine_option_set(&o->engine);
    set[2] = output_option_set(&o->engine);
    return 3;
}

static int collect(struct engine *e, const struct imatrix_options *o, const struct tokens *tokens)
{
    struct lutra_error err = {0};
    struct lutra_imatrix_settings set;
    lutra_imatrix_settings_init(&set, sizeof set);
    set.n_ctx = o->engine.n_ctx;
    set.n_chunk = o->n_chunk;
    set.dat = strcmp(o->format, "dat") == 0;
    set.dataset = o->file;
    set.progress = progress_callback;
    int rc = lutra_imatrix(e->model, tokens->id, tokens->n, o->out, &set, &err);
    progress_clear();
    return rc < 0 ? fail_with(&err) : EXIT_OK;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct imatrix_options *o = opts;
    struct engine e = {0};
    struct buffer text = {0};
    struct tokens tokens = {0};
    struct lutra_error err = {0};
    (void)arg, (void)n_arg;
    if (!o->file == !o->prompt) {
        say("imatrix: give the text with one of -f or -p");
        return EXIT_USAGE;
    }
    int code = engine_find_model(&o->engine);
    if (!code && o->prompt) buffer_add(&text, o->prompt, strlen(o->prompt));
    if (!code && o->file && read_file(o->file, &text) < 0) code = EXIT_FAILED;
    if (!code) code = engine_open(&e, &o->engine, false);
    int flags = LUTRA_ADD_SPECIAL | (o->parse_special ? LUTRA_PARSE_SPECIAL : 0);
    if (!code && tokenize(e.model, text.text, text.n_bytes, flags, &tokens, &err) < 0) code = fail_with(&err);
    if (!code) code = collect(&e, o, &tokens);
    engine_close(&e);
    buffer_free(&text);
    free(tokens.id);
    return code;
}

const struct command command_imatrix = {
    .name = "imatrix",
    .arguments = "",
    .summary = "Which inputs of a model's matrices matter, over a text: for quantize --imatrix",
    .notes = "llama-imatrix's files: sums of squares of each matrix's inputs, column by column.\n"
             "The file appears whole or not at all.",
    .opts_bytes = sizeof(struct imatrix_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
