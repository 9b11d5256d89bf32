/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

struct tokenize_options {
    struct engine_options engine;
    const char *prompt, *file;
    bool from_stdin, ids, no_bos, parse_special, count, escape;
};

#define AT(field) offsetof(struct tokenize_options, field)

static const struct option tokenize_table[] = {
    {"-m --model", "MODEL", OPT_TEXT, AT(engine.model), "FILE",
        .help = "GGUF file or Hugging Face folder; only its vocabulary is read"},
    {"-p --prompt", "PROMPT", OPT_TEXT, AT(prompt), "TEXT", .help = "text to tokenize"},
    {"-f --file", "FILE", OPT_TEXT, AT(file), "FILE", .help = "read the text from a file"},
    {"--stdin", NULL, OPT_ON, AT(from_stdin), NULL, .help = "read the text from standard input"},
    {"--ids", NULL, OPT_ON, AT(ids), NULL, .help = "only the ids, as a list that JSON and Python read"},
    {"--no-bos", NULL, OPT_ON, AT(no_bos), NULL, .help = "no beginning or end token even where the model adds one"},
    {"--no-parse-special", NULL, OPT_OFF, AT(parse_special), NULL,
        .help = "control tokens spelt in the text stay text"},
    {"--no-escape", NULL, OPT_OFF, AT(escape), NULL, .help = "leave backslashes in -p alone"},
    {"--show-count", NULL, OPT_ON, AT(count), NULL, .help = "print the number of tokens as well"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct tokenize_options *o = opts;
    engine_options_init(&o->engine);
    o->parse_special = o->escape = true;
    o->engine.n_threads = 1;
}

static int list_sets(void *opts, struct option_set *set)
{
    struct tokenize_options *o = opts;
    set[0] = (struct option_set){"Options", tokenize_table, OPTION_COUNT(tokenize_table), o, NULL};
    set[1] = output_option_set(&o->engine);
    return 2;
}

static void print_tokens(const lutra_model *model, const struct tokens *tokens, const struct tokenize_options *o)
{
    if (o->ids) putchar('[');
    for (int i = 0; i < tokens->n; i++) {
        if (o->ids) {
            printf("%s%d", i ? ", " : "", tokens->id[i]);
            continue;
        }
        char piece[1024];
        size_t n = 0;
        if (lutra_token_text(model, tokens->id[i], true, piece, sizeof piece, &n) < 0) n = 0;
        if (n > sizeof piece) n = sizeof piece;
        printf("%6d -> '", tokens->id[i]);
        fwrite(piece, 1, n, stdout);
        puts("'");
    }
    if (o->ids) puts("]");
    if (o->count) printf("Total number of tokens: %d\n", tokens->n);
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct tokenize_options *o = opts;
    (void)arg, (void)n_arg;
    if ((o->prompt != NULL) + (o->file != NULL) + o->from_stdin != 1) {
        say("tokenize: give the text with one of -p, -f or --stdin");
        return EXIT_USAGE;
    }
    struct engine e = {0};
    struct buffer text = {0};
    struct tokens tokens = {0};
    struct lutra_error err = {0};
    int code = 0;
    if (o->prompt) {
        buffer_add(&text, o->prompt, strlen(o->prompt));
        if (o->escape) unescape(text.text, &text.n_bytes);
    } else if (read_file(o->from_stdin ? "-" : o->file, &text) < 0) {
        code = EXIT_FAILED;
    }
    if (!code) code = engine_find_model(&o->engine);
    if (!code) code = engine_open(&e, &o->engine, true);
    if (!code) {
        int flags = (o->no_bos ? 0 : LUTRA_ADD_SPECIAL) | (o->parse_special ? LUTRA_PARSE_SPECIAL : 0);
        if (tokenize(e.model, text.text, text.n_bytes, flags, &tokens, &err) < 0)
            code = fail_with(&err);
        else
            print_tokens(e.model, &tokens, o);
    }
    engine_close(&e);
    buffer_free(&text);
    free(tokens.id);
    return code;
}

const struct command command_tokenize = {
    .name = "tokenize",
    .arguments = "",
    .summary = "Show the tokens of a text",
    .opts_bytes = sizeof(struct tokenize_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
