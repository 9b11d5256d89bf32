/* SPDX-License-Identifier: MIT
 *
 * lutra: one program, one command per task.  `lutra --help` lists them.
 */
#include "cli.h"
#include "describe.h"
#include "foreign.h"
#include "models/find.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {&command_run, &command_serve, &command_eval, &command_perplexity,
    &command_bench, &command_quantize, &command_imatrix, &command_import, &command_pack, &command_profile,
    &command_make_model, &command_inspect, &command_models, &command_pull, &command_tokenize, &command_embed,
    &command_check, &command_rag, &command_sim};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const char *command_name(const void *ctx, int i)
{
    (void)ctx;
    return i < N_COMMANDS ? commands[i]->name : NULL;
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

struct option_args command_args(const struct command *c, void *opts)
{
    struct option_args args = {.command = c->name};
    c->defaults(opts);
    args.n_set = c->sets(opts, args.set);
    return args;
}

static void print_command_help(const struct command *c, const struct option_args *args)
{
    printf("Usage: lutra %s [options]%s%s\n\n%s.\n", c->name, c->arguments[0] ? " " : "", c->arguments, c->summary);
    option_help(args, stdout);
    if (c->notes) printf("\n%s\n", c->notes);
}

static void print_help(void)
{
    printf("lutra %s: an LLM inference engine\n\nUsage: lutra COMMAND [options], or lutra MODEL for 'lutra run "
           "MODEL'\n\nCommands:\n",
        lutra_version());
    for (int i = 0; i < N_COMMANDS; i++) printf("  %-14s%s\n", commands[i]->name, commands[i]->summary);
    fputs("\nOther:\n"
          "  -h, --help          this text; 'lutra COMMAND --help' lists a command's options\n"
          "  --version           print the version\n"
          "  --completion-bash   print a completion script: source <(lutra --completion-bash); also -zsh, -fish\n"
          "  --man [COMMAND]     print a man page\n"
          "\nMost options can be given as environment variables, LUTRA_ARG_*; the command line wins.\n"
          "Exit codes: 0 success, 1 failure, 2 usage, 3 no reply passed the check, 130 interrupted.\n",
        stdout);
}

/* "lutra bench MODEL": the same as -m MODEL, where a command takes no arguments but has that option. */
static int take_model(const struct command *c, struct option_args *args)
{
    const struct option *o = NULL;
    int at_s = 0, at_i = 0;
    for (int s = 0; s < args->n_set && !o; s++)
        for (int i = 0; i < args->set[s].n && !o; i++)
            if (option_is_named(args->set[s].option[i].names, "-m", 2)) o = &args->set[at_s = s].option[at_i = i];
    if (!o || c->max_args > 0 || args->n_positional != 1) return 0;
    if (args->seen[at_s].typed >> at_i & 1) {
        say("%s: '%s' beside -m: one model, please", c->name, args->positional[0]);
        return EXIT_USAGE;
    }
    void *to = (char *)args->set[at_s].base + o->at;
    if (o->type == OPT_LIST)
        *(struct option_list *)to = (struct option_list){.item = {args->positional[0]}, .n = 1};
    else
        *(const char **)to = args->positional[0];
    args->n_positional = 0;
    return 0;
}

/* "lutra inspect -m MODEL": the same as MODEL, where a command takes that and has no such option. */
static int drop_model_option(const struct command *c, int argc, char **argv)
{
    if (strncmp(c->arguments, "MODEL", 5) != 0) return argc;
    for (int i = 0; i < argc; i++) {
        bool is_option = strcmp(argv[i], "-m") == 0 || strcmp(argv[i], "--model") == 0;
        if (strncmp(argv[i], "--model=", 8) == 0) argv[i] += 8;
        if (!is_option || i + 1 >= argc) continue;
        memmove(argv + i, argv + i + 1, (size_t)(argc - i - 1) * sizeof *argv);
        return argc - 1;
    }
    return argc;
}

/* --list-devices needs no model; NULL: it was not asked for. */
static const struct engine_options *lists_devices(const struct option_args *args)
{
    for (int s = 0; s < args->n_set; s++)
        for (int i = 0; i < args->set[s].n; i++)
            if (option_is_named(args->set[s].option[i].names, "--list-devices", 14))
                return ((const struct engine_options *)args->set[s].base)->list_devices ? args->set[s].base : NULL;
    return NULL;
}

static int start(const struct command *c, int argc, char **argv)
{
    void *opts = get_memory(c->opts_bytes);
    struct option_args args = command_args(c, opts);
    int code = EXIT_USAGE;
    if (option_parse(&args, drop_model_option(c, argc, argv), argv) < 0) goto done;
    const struct engine_options *listing = args.help ? NULL : lists_devices(&args);
    if (listing) {
        list_devices(listing);
        code = finish_stdout(EXIT_OK);
        goto done;
    }
    if (!args.help && (code = take_model(c, &args))) goto done;
    code = EXIT_USAGE;
    if (args.help) {
        print_command_help(c, &args);
        code = EXIT_OK;
    } else if (args.n_positional < c->min_args) {
        say("%s: %s: arguments are missing; see 'lutra %s --help'", c->name, c->arguments, c->name);
    } else if (args.n_positional > c->max_args) {
        say("%s: '%s' is one argument too many; see 'lutra %s --help'", c->name, args.positional[c->max_args], c->name);
    } else {
        code = c->run(opts, (const char **)args.positional, args.n_positional);
    }
    code = finish_stdout(code);
done:
    free(opts);
    return code;
}

/* Other names of commands. */
static const struct {
    const char *name, *means;
} aliases[] = {{"ls", "models"}, {"list", "models"}, {"show", "inspect"}, {"chat", "run"}, {"download", "pull"},
    {"server", "serve"}};

static const struct command *find_meant(const char *word)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].name, word) == 0) return find_command(aliases[i].means);
    return find_command(word);
}

/* "lutra MODEL ..." and "lutra -m MODEL ...": is a model meant, to be run? */
static bool means_model(const char *word)
{
    struct model_list list;
    bool found = word[0] == '-' || access(word, F_OK) == 0;
    if (found || option_nearest(word, command_name, NULL) || foreign_tool(word)) return found;
    models_list(&list);
    for (int i = 0; i < list.n; i++) found = found || model_is_meant(&list.model[i], word);
    models_free(&list);
    return found;
}

static int unknown_command(const char *word)
{
    const char *near = option_nearest(word, command_name, NULL);
    const char *tool = foreign_tool(strncmp(word, "llama-", 6) == 0 ? word + 6 : word);
    if (tool)
        say("%s: %s", word, tool);
    else if (near)
        say("unknown command '%s' (did you mean '%s'?)", word, near);
    else
        say("unknown command '%s'; 'lutra --help' lists them", word);
    return EXIT_USAGE;
}

/* Is this `lutra eval` under another name, for mpirun? */
static bool is_eval(const char *program)
{
    static const char name[] = "lutra-eval-mpi";
    size_t n = program ? strlen(program) : 0;
    return n >= sizeof name - 1 && strcmp(program + n - (sizeof name - 1), name) == 0;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    crash_watch();
    signal(SIGXFSZ, SIG_IGN); /* a file that may grow no further is an error of its write, like a full disk */
    if (is_eval(argv[0])) return start(&command_eval, argc - 1, argv + 1);
    if (!*word && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
        models_welcome();
        return finish_stdout(EXIT_OK);
    }
    if (!*word) {
        print_help();
        return finish_stdout(EXIT_USAGE);
    }
    if (strcmp(word, "help") == 0 && argc > 2) {
        const struct command *c = find_meant(argv[2]);
        return c ? start(c, 1, (char *[]){"--help", NULL}) : unknown_command(argv[2]);
    }
    if (strcmp(word, "help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        print_help();
        return finish_stdout(EXIT_OK);
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "version") == 0) {
        printf("lutra %s\n", lutra_version());
        return finish_stdout(EXIT_OK);
    }
    if (describe(word, argc > 2 ? argv[2] : NULL, commands, N_COMMANDS, stdout)) return finish_stdout(EXIT_OK);
    const struct command *c = find_meant(word);
    if (!c && means_model(word)) return start(&command_run, argc - 1, argv + 1);
    return c ? start(c, argc - 2, argv + 2) : unknown_command(word);
}
