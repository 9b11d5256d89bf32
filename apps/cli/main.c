/* SPDX-License-Identifier: MIT
 *
 * lutra: one program, one command per task.  `lutra --help` lists them.
 */
#include "cli.h"
#include "describe.h"
#include "foreign.h"

#include <stdlib.h>
#include <string.h>

static const struct command *const commands[] = {&command_run, &command_eval, &command_perplexity, &command_bench,
    &command_quantize, &command_imatrix, &command_import, &command_pack, &command_make_model, &command_inspect,
    &command_models, &command_tokenize, &command_rag};
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
    printf("lutra %s: an LLM inference engine\n\nUsage: lutra COMMAND [options]\n\nCommands:\n", lutra_version());
    for (int i = 0; i < N_COMMANDS; i++) printf("  %-14s%s\n", commands[i]->name, commands[i]->summary);
    fputs("\nOther:\n"
          "  -h, --help          this text; 'lutra COMMAND --help' lists a command's options\n"
          "  --version           print the version\n"
          "  --completion-bash   print a completion script: source <(lutra --completion-bash); also -zsh, -fish\n"
          "  --man [COMMAND]     print a man page\n"
          "\nMost options can be given as environment variables, LUTRA_ARG_*; the command line wins.\n"
          "Exit codes: 0 success, 1 failure, 2 usage, 130 interrupted.\n",
        stdout);
}

static int start(const struct command *c, int argc, char **argv)
{
    void *opts = get_memory(c->opts_bytes);
    struct option_args args = command_args(c, opts);
    int code = EXIT_USAGE;
    if (option_parse(&args, argc, argv) < 0) goto done;
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
    if (is_eval(argv[0])) return start(&command_eval, argc - 1, argv + 1);
    if (!*word) {
        print_help();
        return finish_stdout(EXIT_USAGE);
    }
    if (strcmp(word, "help") == 0 && argc > 2) {
        const struct command *c = find_command(argv[2]);
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
    const struct command *c = find_command(word);
    return c ? start(c, argc - 2, argv + 2) : unknown_command(word);
}
