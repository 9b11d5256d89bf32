/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

struct embed_options {
    struct engine_options engine;
    const char *prompt, *file;
    bool from_stdin;
    const char *pooling;
};

#define AT(field) offsetof(struct embed_options, field)

static const struct option embed_table[] = {
    {"-p --prompt", "PROMPT", OPT_TEXT, AT(prompt), "TEXT", .help = "one text"},
    {"-f --file", "FILE", OPT_TEXT, AT(file), "FILE", .help = "a text on each line of a file"},
    {"--stdin", NULL, OPT_ON, AT(from_stdin), NULL, .help = "a text on each line of standard input"},
    {"--pooling", "POOLING", OPT_CHOICE, AT(pooling), "HOW", .choices = "model mean cls last",
        .help = "which tokens' states make the vector: their mean, the first (cls) or the last one's; model: as the "
                "file says"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct embed_options *o = opts;
    engine_options_init(&o->engine);
    o->pooling = "model";
}

static int list_sets(void *opts, struct option_set *set)
{
    struct embed_options *o = opts;
    set[0] = (struct option_set){"Text", embed_table, OPTION_COUNT(embed_table), o, NULL};
    set[1] = engine_option_set(&o->engine);
    set[2] = output_option_set(&o->engine);
    return 3;
}

/* Cuts the text into its lines, each a text of tokens; 0 or an exit code. */
static int read_texts(
    const struct engine *e, const struct embed_options *o, struct buffer *all, struct tokens **list, int *n)
{
    struct lutra_error err = {0};
    if (o->prompt)
        buffer_add(all, o->prompt, strlen(o->prompt));
    else if (read_file(o->from_stdin ? "-" : o->file, all) < 0)
        return EXIT_FAILED;
    for (size_t at = 0; at < all->n_bytes;) {
        const char *end = o->prompt ? NULL : memchr(all->text + at, '\n', all->n_bytes - at);
        size_t bytes = end ? (size_t)(end - all->text) - at : all->n_bytes - at;
        *list = grow_memory(*list, ((size_t)*n + 1) * sizeof **list);
        struct tokens *t = &(*list)[(*n)++];
        *t = (struct tokens){0};
        if (tokenize(e->model, all->text + at, bytes, LUTRA_ADD_SPECIAL, t, &err) < 0) return fail_with(&err);
        at += bytes + 1;
    }
    return 0;
}

enum lutra_pooling pooling_of(const char *name)
{
    static const char *const names[] = {"model", "mean", "cls", "last"};
    int i = LUTRA_POOL_LAST;
    while (i > 0 && strcmp(name, names[i]) != 0) i--;
    return (enum lutra_pooling)i;
}

/* One vector a line, as a list that JSON and Python read. */
static int print_vectors(struct engine *e, const struct embed_options *o, const struct tokens *list, int n)
{
    struct lutra_model_info info;
    struct lutra_error err = {0};
    lutra_model_info_get(e->model, &info, sizeof info);
    struct lutra_embed_text *text = get_memory((size_t)n * sizeof *text);
    float *out = get_memory((size_t)n * (size_t)info.d_model * sizeof *out);
    for (int i = 0; i < n; i++) text[i] = (struct lutra_embed_text){list[i].id, list[i].n};
    int code = lutra_embed(e->session, text, n, pooling_of(o->pooling), out, &err) < 0 ? fail_with(&err) : 0;
    for (int i = 0; i < n && !code; i++) {
        for (int d = 0; d < info.d_model; d++)
            printf("%s%.9g", d ? ", " : "[", (double)out[(size_t)i * (size_t)info.d_model + (size_t)d]);
        puts("]");
    }
    free(text);
    free(out);
    return code;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct embed_options *o = opts;
    (void)arg, (void)n_arg;
    if ((o->prompt != NULL) + (o->file != NULL) + o->from_stdin != 1) {
        say("embed: give the text with one of -p, -f or --stdin");
        return EXIT_USAGE;
    }
    struct engine e = {0};
    struct buffer all = {0};
    struct tokens *list = NULL;
    struct lutra_session_settings set;
    int n = 0, code = engine_find_model(&o->engine);
    lutra_session_settings_init(&set, sizeof set);
    set.n_seq = 16;
    set.n_out = 512;
    if (!code) code = engine_open(&e, &o->engine, false);
    if (!code) code = read_texts(&e, o, &all, &list, &n);
    if (!code) code = engine_open_session(&e, &o->engine, set);
    if (!code && n > 0) code = print_vectors(&e, o, list, n);
    engine_close(&e);
    for (int i = 0; i < n; i++) free(list[i].id);
    free(list);
    buffer_free(&all);
    return code;
}

const struct command command_embed = {
    .name = "embed",
    .arguments = "",
    .summary = "Print the vector of a text",
    .opts_bytes = sizeof(struct embed_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
