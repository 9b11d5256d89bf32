/* SPDX-License-Identifier: MIT
 *
 * Command-line options as data: the table that parses is the table that prints --help, fills completions and man pages
 * (describe.c) and names the LUTRA_ARG_* environment variables.
 *
 * An option writes into a field of an options struct (`at` = offsetof); the values found there before parsing are the
 * defaults that the help shows.  Spellings follow llama.cpp: "-ngl 3", "--ctx-size 4096"; "--ctx-size=4096" and
 * "--ctx_size" work as well.
 */
#ifndef LUTRA_CLI_OPTION_H
#define LUTRA_CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
    OPT_ON,     /* bool field becomes true; with `choices`, one of "on off auto" may follow */
    OPT_OFF,    /* bool field becomes false */
    OPT_INT,    /* int */
    OPT_I64,    /* int64_t */
    OPT_FLOAT,  /* float */
    OPT_TEXT,   /* const char * */
    OPT_CHOICE, /* const char *, one of the words in `choices` */
    OPT_LIST,   /* struct option_list: may be given several times */
};

enum { OPTION_LIST_MAX = 64 };

struct option_list {
    const char *item[OPTION_LIST_MAX];
    int n;
    bool from_environment; /* the command line replaces what came from there */
};

struct option {
    const char *names; /* "-m --model"; messages say the first long one, or what was typed */
    const char *env;   /* "MODEL": the variable LUTRA_ARG_MODEL; NULL = none */
    enum option_type type;
    size_t at;
    const char *arg; /* placeholder in the help: "FILE" */
    const char *help;
    double min, max;     /* of numbers; both 0 = no limits */
    const char *choices; /* "f16 f32" */
    bool common;         /* in the short help, where a command marks any */
    const char *needs;   /* "--beam --dvts": no effect unless one of them is given, where the command has any of them */
    const char *excludes; /* "-no-cnv": of no meaning beside any of them */
};

struct option_set {
    const char *title; /* heading in the help */
    const struct option *option;
    int n;
    void *base;      /* the struct that `at` is relative to */
    uint64_t *given; /* bit i: option i was given; NULL: nobody asks */
};

enum { OPTION_SETS_MAX = 9 };

struct option_args {
    const char *command; /* for messages */
    struct option_set set[OPTION_SETS_MAX];
    int n_set;
    char **positional; /* [n_positional] words that are no options: the front of argv, reordered */
    int n_positional;
    bool help, help_all; /* -h or --help was given; "all" behind it */
    struct {
        uint64_t typed, given; /* bit i: option i on the command line; there or in the environment */
    } seen[OPTION_SETS_MAX];
    char without_effect[256]; /* options of llama.cpp that change nothing here, as given */
};

/* Applies the environment, then argv.  Returns 0, or -1 after writing a message to stderr. */
int option_parse(struct option_args *args, int argc, char **argv);

/* Options with defaults, wrapped to 100 columns: the common ones, or all. */
void option_help(const struct option_args *args, FILE *out);

/* Is given[n] one of the space-separated names? */
bool option_is_named(const char *names, const char *given, size_t n);

/* Copies the i-th space-separated word of a list (names, choices); false at the end. */
bool option_word(const char *words, int i, char *out, size_t n_out);
bool option_is_choice(const char *choices, const char *text); /* one of such words */

bool option_takes_value(const struct option *o);

/* The word of a list nearest to `word` when it is near enough to be meant, else NULL.  next(ctx, i) returns the i-th
 * word or NULL at the end. */
const char *option_nearest(const char *word, const char *(*next)(const void *ctx, int i), const void *ctx);

/* The whole of `text` as a number between min and max; -1 if it is not one. */
int option_number(const char *text, double min, double max, int64_t *out);

#define OPTION_COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

#endif
