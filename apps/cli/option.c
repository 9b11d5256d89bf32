/* SPDX-License-Identifier: MIT */
#include "option.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "foreign.h"

enum { NAME_MAX_BYTES = 64, HELP_COLUMN = 34, HELP_WIDTH = 100 };

static int complain(const struct option_args *args, const char *what, const char *name, const char *rest)
{
    fprintf(stderr, "lutra %s: %s%s%s\n", args->command, what, name, rest);
    return -1;
}

/* Copies the i-th space-separated word; false at the end. */
bool option_word(const char *words, int i, char *out, size_t n_out)
{
    for (const char *p = words; p && *p;) {
        size_t n = strcspn(p, " ");
        if (i-- == 0) {
            if (n >= n_out) n = n_out - 1;
            memcpy(out, p, n);
            out[n] = 0;
            return true;
        }
        p += n;
        p += strspn(p, " ");
    }
    return false;
}

bool option_takes_value(const struct option *o)
{
    return o->type != OPT_ON && o->type != OPT_OFF;
}

/* llama.cpp accepts underscores for dashes in long names. */
static bool same_name(const char *given, size_t n, const char *name)
{
    if (strlen(name) != n) return false;
    bool is_long = n > 2 && given[0] == '-' && given[1] == '-';
    for (size_t i = 0; i < n; i++) {
        char c = is_long && given[i] == '_' ? '-' : given[i];
        if (c != name[i]) return false;
    }
    return true;
}

bool option_is_named(const char *names, const char *given, size_t n)
{
    char name[NAME_MAX_BYTES];
    for (int w = 0; option_word(names, w, name, sizeof name); w++)
        if (same_name(given, n, name)) return true;
    return false;
}

static const struct option *find(const struct option_args *args, const char *given, size_t n, int *set, int *at)
{
    for (int s = 0; s < args->n_set; s++)
        for (int i = 0; i < args->set[s].n; i++)
            if (option_is_named(args->set[s].option[i].names, given, n)) {
                *set = s, *at = i;
                return &args->set[s].option[i];
            }
    return NULL;
}

static void mark(struct option_args *args, int s, int i, bool typed)
{
    args->seen[s].given |= 1ull << i;
    if (typed) args->seen[s].typed |= 1ull << i;
    if (args->set[s].given) *args->set[s].given |= 1ull << i;
}

int option_number(const char *text, double min, double max, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno) return -1;
    if ((min != 0 || max != 0) && ((double)v < min || (double)v > max)) return -1;
    *out = v;
    return 0;
}

static int bad_value(const struct option_args *args, const struct option *o, const char *name, const char *text)
{
    if (o->type == OPT_CHOICE)
        fprintf(stderr, "lutra %s: %s: '%s' is not one of: %s\n", args->command, name, text, o->choices);
    else if (o->min != 0 || o->max != 0)
        fprintf(stderr, "lutra %s: %s: '%s' is not a number from %.10g to %.10g\n", args->command, name, text, o->min,
            o->max);
    else
        fprintf(stderr, "lutra %s: %s: '%s' is not a number\n", args->command, name, text);
    return -1;
}

bool option_is_choice(const char *choices, const char *text)
{
    char word[NAME_MAX_BYTES];
    for (int i = 0; option_word(choices, i, word, sizeof word); i++)
        if (strcmp(word, text) == 0) return true;
    return false;
}

static int set_number(
    const struct option_args *args, const struct option *o, void *to, const char *name, const char *text)
{
    int64_t v;
    if (o->type == OPT_FLOAT) {
        char *end;
        double x = strtod(text, &end);
        bool off = (o->min != 0 || o->max != 0) && !(x >= o->min && x <= o->max);
        if (end == text || *end || !isfinite(x) || off) return bad_value(args, o, name, text);
        *(float *)to = (float)x;
        return 0;
    }
    if (option_number(text, o->min, o->max, &v) < 0) return bad_value(args, o, name, text);
    if (o->type == OPT_I64) {
        *(int64_t *)to = v;
        return 0;
    }
    if (v < INT32_MIN || v > INT32_MAX) return bad_value(args, o, name, text);
    *(int *)to = (int)v;
    return 0;
}

static int set_value(
    const struct option_args *args, const struct option *o, void *base, const char *name, const char *text)
{
    void *to = (char *)base + o->at;
    switch (o->type) {
    case OPT_ON: *(bool *)to = true; return 0;
    case OPT_OFF: *(bool *)to = false; return 0;
    case OPT_INT:
    case OPT_I64:
    case OPT_FLOAT: return set_number(args, o, to, name, text);
    case OPT_TEXT: *(const char **)to = text; return 0;
    case OPT_CHOICE:
        if (!option_is_choice(o->choices, text)) return bad_value(args, o, name, text);
        *(const char **)to = text;
        return 0;
    case OPT_LIST: {
        struct option_list *list = to;
        if (list->from_environment) *list = (struct option_list){0};
        if (list->n == OPTION_LIST_MAX) return complain(args, "too many times: ", name, "");
        list->item[list->n++] = text;
        return 0;
    }
    }
    return -1;
}

static int set_flag_by_word(
    const struct option_args *args, const struct option *o, void *base, const char *name, const char *text)
{
    bool yes = option_is_choice("1 on true yes", text), no = option_is_choice("0 off false no", text);
    if (!yes && !no) return complain(args, "not on or off: ", name, "");
    *(bool *)((char *)base + o->at) = (o->type == OPT_ON) == yes;
    return 0;
}

static int apply_environment(struct option_args *args)
{
    char name[NAME_MAX_BYTES];
    for (int s = 0; s < args->n_set; s++)
        for (int i = 0; i < args->set[s].n; i++) {
            const struct option *o = &args->set[s].option[i];
            if (!o->env) continue;
            snprintf(name, sizeof name, "LUTRA_ARG_%s", o->env);
            const char *text = getenv(name);
            if (!text) continue;
            mark(args, s, i, false);
            int rc = option_takes_value(o) ? set_value(args, o, args->set[s].base, name, text)
                                           : set_flag_by_word(args, o, args->set[s].base, name, text);
            if (rc < 0) return rc;
            if (o->type == OPT_LIST)
                ((struct option_list *)((char *)args->set[s].base + o->at))->from_environment = true;
        }
    return 0;
}

/* How many letters were added, left out, changed or swapped between two short words. */
static int distance(const char *a, const char *b)
{
    int rows[3][NAME_MAX_BYTES + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    int n = (int)strnlen(b, NAME_MAX_BYTES);
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int *free_row = before;
        before = above, above = row, row = free_row;
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int change = above[j - 1] + (a[i - 1] != b[j - 1]),
                shift = (above[j] < row[j - 1] ? above[j] : row[j - 1]) + 1;
            row[j] = change < shift ? change : shift;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < row[j]) row[j] = before[j - 2] + 1;
        }
    }
    return row[n];
}

/* A hint is worth giving where it is hardly wrong: two letters have none, three to seven may differ in one. */
static int distance_allowed(const char *word)
{
    return ((int)strlen(word + strspn(word, "-/")) + 2) / 5;
}

const char *option_nearest(const char *word, const char *(*next)(const void *ctx, int i), const void *ctx)
{
    const char *best = NULL, *name;
    int least = distance_allowed(word);
    for (int i = 0; least > 0 && (name = next(ctx, i)); i++) {
        int d = distance(word, name);
        if (d <= least && (!best || d < least)) best = name, least = d;
    }
    return best;
}

static int unknown(const struct option_args *args, const char *given)
{
    char best[NAME_MAX_BYTES] = "", name[NAME_MAX_BYTES];
    int least = distance_allowed(given);
    for (int s = 0; least > 0 && s < args->n_set; s++)
        for (int i = 0; i < args->set[s].n; i++)
            for (int w = 0; option_word(args->set[s].option[i].names, w, name, sizeof name); w++) {
                int d = distance(given, name);
                if (d > least || (best[0] && d == least)) continue;
                least = d;
                memcpy(best, name, sizeof best);
            }
    fprintf(stderr, "lutra %s: unknown option %s", args->command, given);
    if (best[0]) fprintf(stderr, " (did you mean %s?)", best);
    fprintf(stderr, "\nsee 'lutra %s --help'\n", args->command);
    return -1;
}

static int skip_foreign(
    struct option_args *args, const struct foreign *f, const char *equals, int argc, char **argv, int *at)
{
    const char *given = argv[*at], *value = equals ? equals + 1 : NULL;
    int n_value = f->value == FOREIGN_TWO ? 2 : f->value == FOREIGN_ONE;
    if (f->value == FOREIGN_SWITCH && *at + 1 < argc) n_value = foreign_is_switch(argv[*at + 1]);
    if (value) n_value = 0;
    if (*at + n_value >= argc) return complain(args, "its value is missing: ", given, "");
    if (n_value) value = argv[*at + 1];
    *at += n_value;
    if (f->lacks && !(value && f->neutral && option_is_choice(f->neutral, value))) {
        fprintf(stderr, "lutra %s: %s: %s\n", args->command, given, f->lacks);
        return -1;
    }
    size_t n = strlen(args->without_effect);
    snprintf(args->without_effect + n, sizeof args->without_effect - n, "%s%s", n ? ", " : "", given);
    return 0;
}

static int parse_option(struct option_args *args, int argc, char **argv, int *at)
{
    const char *given = argv[*at];
    const char *equals = given[1] == '-' ? strchr(given, '=') : NULL;
    size_t n = equals ? (size_t)(equals - given) : strlen(given);
    int s, i;
    const struct option *o = find(args, given, n, &s, &i);
    const struct foreign *f = o ? NULL : foreign_find(args->command, given, n);
    if (f) return skip_foreign(args, f, equals, argc, argv, at);
    if (!o) return unknown(args, given);
    void *base = args->set[s].base;
    mark(args, s, i, true);
    if (!option_takes_value(o)) {
        if (equals) return complain(args, "takes no value: ", given, "");
        bool said = o->choices && *at + 1 < argc && option_is_choice(o->choices, argv[*at + 1]);
        if (said && strcmp(argv[++*at], "off") == 0) return set_flag_by_word(args, o, base, given, "off");
        return set_value(args, o, base, given, NULL);
    }
    if (!equals && *at + 1 >= argc) {
        fprintf(stderr, "lutra %s: %s: %s is missing\n", args->command, given, o->arg ? o->arg : "its value");
        return -1;
    }
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)n, given);
    return set_value(args, o, base, name, equals ? equals + 1 : argv[++*at]);
}

/* The first long name, or the only one. */
static int name_length(const struct option *o, const char **name)
{
    const char *from = strstr(o->names, "--");
    *name = from ? from : o->names;
    return (int)strcspn(*name, " ");
}

/* An option that would be ignored beside, or without, the others: what was typed is meant. */
static int check_pairs(const struct option_args *args, const struct option *o)
{
    char name[NAME_MAX_BYTES], needed[160] = "";
    const char *own;
    int s, i, n_own = name_length(o, &own);
    bool met = !o->needs;
    for (int w = 0; o->needs && option_word(o->needs, w, name, sizeof name); w++) {
        if (!find(args, name, strlen(name), &s, &i)) continue;
        size_t n = strlen(needed);
        snprintf(needed + n, sizeof needed - n, "%s%s", n ? " or " : "", name);
        met = met || args->seen[s].given >> i & 1;
    }
    if (!met && needed[0]) {
        fprintf(stderr, "lutra %s: %.*s has no effect without %s\n", args->command, n_own, own, needed);
        return -1;
    }
    for (int w = 0; o->excludes && option_word(o->excludes, w, name, sizeof name); w++) {
        if (!find(args, name, strlen(name), &s, &i) || !(args->seen[s].typed >> i & 1)) continue;
        fprintf(stderr, "lutra %s: %.*s and %s exclude each other\n", args->command, n_own, own, name);
        return -1;
    }
    return 0;
}

int option_parse(struct option_args *args, int argc, char **argv)
{
    bool only_words = false, quiet = false;
    args->positional = argv;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--usage") == 0) {
            args->help = true;
            args->help_all = i + 1 < argc && strcmp(argv[i + 1], "all") == 0;
        }
    if (args->help) return 0;
    if (apply_environment(args) < 0) return -1;
    for (int i = 0; i < argc; i++) {
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && argv[i][0] == '-' && argv[i][1]) {
            if (parse_option(args, argc, argv, &i) < 0) return -1;
        } else {
            argv[args->n_positional++] = argv[i];
        }
        quiet = quiet || strcmp(argv[i], "-q") == 0 || strcmp(argv[i], "--quiet") == 0;
    }
    for (int s = 0; s < args->n_set; s++)
        for (int i = 0; i < args->set[s].n; i++)
            if (args->seen[s].typed >> i & 1 && check_pairs(args, &args->set[s].option[i]) < 0) return -1;
    if (args->without_effect[0] && !quiet)
        fprintf(stderr, "lutra %s: without effect here: %s\n", args->command, args->without_effect);
    return 0;
}

static void print_default(const struct option *o, const void *base, char *out, size_t n_out)
{
    const void *at = (const char *)base + o->at;
    out[0] = 0;
    if (o->type == OPT_INT) snprintf(out, n_out, " (default %d)", *(const int *)at);
    if (o->type == OPT_I64) snprintf(out, n_out, " (default %lld)", (long long)*(const int64_t *)at);
    if (o->type == OPT_FLOAT) snprintf(out, n_out, " (default %g)", (double)*(const float *)at);
    if ((o->type == OPT_TEXT || o->type == OPT_CHOICE) && *(const char *const *)at)
        snprintf(out, n_out, " (default %s)", *(const char *const *)at);
}

/* Text from column HELP_COLUMN on, wrapped between words. */
static void print_wrapped(const char *text, FILE *out)
{
    int column = HELP_COLUMN;
    for (bool first = true; *text; first = false) {
        int n = (int)strcspn(text, " ");
        if (!first && column + 1 + n > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
            first = true;
        }
        column += fprintf(out, "%s%.*s", first ? "" : " ", n, text);
        text += n;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_option(const struct option *o, const void *base, bool with_env, FILE *out)
{
    char left[160] = "", name[NAME_MAX_BYTES], text[600], note[120];
    for (int i = 0; option_word(o->names, i, name, sizeof name); i++) {
        size_t n = strlen(left);
        snprintf(left + n, sizeof left - n, "%s%s", i ? ", " : "", name);
    }
    if (option_takes_value(o)) {
        size_t n = strlen(left);
        snprintf(left + n, sizeof left - n, " %s", o->arg ? o->arg : "N");
    }
    print_default(o, base, note, sizeof note);
    with_env = with_env && o->env;
    snprintf(text, sizeof text, "%s%s%s%s%s", o->help, note, with_env ? " [$LUTRA_ARG_" : "", with_env ? o->env : "",
        with_env ? "]" : "");
    int n = fprintf(out, "  %s", left);
    if (n >= HELP_COLUMN)
        fprintf(out, "\n%*s", HELP_COLUMN, "");
    else
        fprintf(out, "%*s", HELP_COLUMN - n, "");
    print_wrapped(text, out);
}

static int n_common(const struct option_set *set)
{
    int n = 0;
    for (int i = 0; i < set->n; i++) n += set->option[i].common;
    return n;
}

void option_help(const struct option_args *args, FILE *out)
{
    int n_left = 0;
    bool all = args->help_all || n_common(&args->set[0]) == 0; /* a command of few options marks none of its own */
    for (int s = 0; s < args->n_set; s++) {
        const struct option_set *set = &args->set[s];
        if (all || n_common(set)) fprintf(out, "\n%s:\n", set->title);
        for (int i = 0; i < set->n; i++) {
            bool show = all || set->option[i].common;
            if (show) print_option(&set->option[i], set->base, all, out);
            n_left += !show;
        }
    }
    if (n_left)
        fprintf(out, "\n%d more, and variables of the environment: lutra %s --help all\n", n_left, args->command);
}
