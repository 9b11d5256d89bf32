/* SPDX-License-Identifier: MIT */
#include "tables.h"

#include <stdlib.h>
#include <string.h>

static int read_counts(struct npu_bench *b, const char *text, size_t n_bytes, const char *name)
{
    struct lutra_error err = {0};
    return npu_counts_read(&b->counts, text, n_bytes, name, &err) ? fail_with(&err) : 0;
}

/* Counts afresh with a program, through its stdout. */
static int count_now(struct npu_bench *b, const char *program)
{
    struct buffer text = {0};
    char *command = get_memory(strlen(program) + 3), part[4096];
    size_t n;
    sprintf(command, "'%s'", program);
    FILE *p = strchr(program, '\'') ? NULL : popen(command, "r");
    free(command);
    while (p && (n = fread(part, 1, sizeof part, p)) > 0) buffer_add(&text, part, n);
    int rc = p ? pclose(p) : -1;
    if (rc) say("%s did not count%s", program, text.n_bytes ? "" : " (see its message above)");
    int code = rc ? EXIT_FAILED : read_counts(b, text.text ? text.text : "", text.n_bytes, program);
    buffer_free(&text);
    return code;
}

static struct soc_profile *new_profile(struct npu_bench *b)
{
    return b->profile[b->n_profile++] = get_memory(sizeof **b->profile);
}

static int open_profiles(struct npu_bench *b, const struct option_list *files)
{
    struct lutra_error err = {0};
    int rc = 0;
    for (int i = 0; !rc && i < files->n && i < NPU_PROFILES_MAX; i++)
        rc = soc_profile_load(new_profile(b), files->item[i], &err);
    for (const struct npu_data *d = npu_data + NPU_DATA_PROFILES; !rc && !files->n && d->name; d++)
        rc = soc_profile_parse(new_profile(b), (const char *)d->bytes, d->n_bytes, d->name, &err);
    return rc < 0 ? fail_with(&err) : 0;
}

static int write_svg(const struct npu_bench *b, const char *path)
{
    FILE *f = fopen(path, "w");
    if (f) npu_print_svg(b, npu_published_on(b), f);
    int bad = !f || ferror(f);
    if (f && fclose(f)) bad = 1;
    if (bad) say("%s cannot be written", path);
    return bad ? EXIT_FAILED : 0;
}

struct table_options {
    struct option_list profiles;
    const char *svg, *counter, *format;
};

#define AT(field) offsetof(struct table_options, field)
static const struct option table[] = {
    {"-o --output", NULL, OPT_CHOICE, AT(format), "FORMAT", .help = "md or json on stdout", .choices = "md json"},
    {"--profile", NULL, OPT_LIST, AT(profiles), "FILE",
        .help = "SoC profile (JSON) instead of those inside the program; may be repeated"},
    {"--svg", NULL, OPT_TEXT, AT(svg), "FILE", .help = "accuracy against modelled latency and energy, as a picture"},
    {"--counter", NULL, OPT_TEXT, AT(counter), "PROGRAM",
        .help = "count now, with lutra-npu-count of a build folder, instead of showing the recorded counts"},
};
#undef AT

static void print_json(const struct npu_bench *b)
{
    json_t *all = npu_json_tables(b);
    json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(all);
}

static int show(struct npu_bench *b, const struct table_options *o)
{
    const struct npu_data *recorded = &npu_data[NPU_DATA_COUNTS];
    b->origin = o->counter ? o->counter : "recorded";
    int code = o->counter ? count_now(b, o->counter)
                          : read_counts(b, (const char *)recorded->bytes, recorded->n_bytes, recorded->name);
    if (!code) code = open_profiles(b, &o->profiles);
    if (code) return code;
    if (strcmp(o->format, "json") == 0)
        print_json(b);
    else
        npu_print_tables(b);
    return o->svg && npu_published_on(b) ? write_svg(b, o->svg) : 0;
}

int main(int argc, char **argv)
{
    struct table_options o = {.format = "md"};
    struct option_args args = {.command = "npu-tables", .n_set = 1};
    args.set[0] = (struct option_set){"Options", table, OPTION_COUNT(table), &o, NULL};
    if (option_parse(&args, argc - 1, argv + 1) < 0) return EXIT_USAGE;
    if (args.help || args.n_positional) {
        printf("Usage: lutra-npu-tables [options]\n\nThe NPU's kernels and whole models: counted, modelled, never "
               "timed.\n");
        option_help(&args, stdout);
        return finish_stdout(args.help ? EXIT_OK : EXIT_USAGE);
    }
    struct npu_bench *b = get_memory(sizeof *b);
    int code = show(b, &o);
    for (int i = 0; i < b->n_profile; i++) free(b->profile[i]);
    npu_counts_free(&b->counts);
    free(b);
    return finish_stdout(code);
}
