/* SPDX-License-Identifier: MIT
 *
 * Options of `lutra run` for what a reply must be: a grammar or a JSON Schema, by llama.cpp's names.
 */
#include "run/run.h"

#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct constraint_options, field)

static const struct option table[] = {
    {"--grammar", NULL, OPT_TEXT, AT(grammar), "TEXT",
        .help = "replies are texts of this grammar (GBNF, llama.cpp's notation; 'root' is the whole reply)",
        .excludes = "--grammar-file -j -jf"},
    {"--grammar-file", NULL, OPT_TEXT, AT(grammar_file), "FILE", .help = "the same from a file", .excludes = "-j -jf"},
    {"-j --json-schema", NULL, OPT_TEXT, AT(schema), "SCHEMA",
        .help = "replies are JSON by this schema; '{}' is any JSON", .excludes = "-jf"},
    {"-jf --json-schema-file", NULL, OPT_TEXT, AT(schema_file), "FILE", .help = "the same from a file"},
};
#undef AT

struct option_set constraint_option_set(struct constraint_options *o)
{
    return (struct option_set){"Constraint", table, OPTION_COUNT(table), o, NULL};
}

static const char *path_of(const struct constraint_options *o)
{
    return o->grammar_file ? o->grammar_file : o->schema_file;
}

int constraint_read(struct constraint_options *o)
{
    const char *path = path_of(o);
    if (!path) return 0;
    if (read_file(path, &o->text) < 0) return EXIT_FAILED;
    if (o->text.n_bytes && !memchr(o->text.text, 0, o->text.n_bytes)) return 0;
    say("%s: %s", path, o->text.n_bytes ? "it is no text: there is a NUL in it" : "the file is empty");
    return EXIT_FAILED;
}

void constraint_put(const struct constraint_options *o, struct lutra_request *r)
{
    r->grammar = o->grammar_file ? o->text.text : o->grammar;
    r->json_schema = o->schema_file ? o->text.text : o->schema;
}

void constraint_name(const struct constraint_options *o, struct lutra_error *err)
{
    char what[sizeof err->what];
    if (!path_of(o) || (strncmp(err->what, "grammar", 7) != 0 && strncmp(err->what, "JSON schema", 11) != 0)) return;
    snprintf(what, sizeof what, "%s", err->what);
    snprintf(err->what, sizeof err->what, "%.120s: %.*s", path_of(o), (int)(sizeof what - 130), what);
}
