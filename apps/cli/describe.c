/* SPDX-License-Identifier: MIT
 *
 * What describes the program elsewhere, from the tables that parse: completions for bash, zsh and fish, and man pages.
 */
#include "describe.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_BYTES = 64 };

static void put_names(const struct option_args *args, FILE *out)
{
    for (int s = 0; s < args->n_set; s++)
        for (int i = 0; i < args->set[s].n; i++) fprintf(out, "%s ", args->set[s].option[i].names);
    fputs("-h --help", out);
}

/* What follows an option that takes one of some words: a line of a `case`. */
static void put_bash_values(const struct command *c, const struct option_args *args, FILE *out)
{
    char name[WORD_BYTES];
    for (int s = 0; s < args->n_set; s++)
        for (int i = 0; i < args->set[s].n; i++) {
            const struct option *o = &args->set[s].option[i];
            if (!o->choices || !option_takes_value(o)) continue;
            fputs("        ", out);
            for (int w = 0; option_word(o->names, w, name, sizeof name); w++)
                fprintf(out, "%s%s:%s", w ? "|" : "", c->name, name);
            fprintf(out, ") words='%s' values=1 ;;\n", o->choices);
        }
}

/* "add|search [FILE]": the words that an argument is one of; 0: it is none. */
static size_t n_argument_words(const struct command *c)
{
    size_t n = strcspn(c->arguments, " ");
    return c->arguments[0] >= 'a' && c->arguments[0] <= 'z' && memchr(c->arguments, '|', n) ? n : 0;
}

static void put_bash(const struct command *const *list, int n, FILE *out)
{
    fputs("_lutra()\n{\n    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= values=\n"
          "    case ${COMP_WORDS[1]} in\n",
        out);
    for (int i = 0; i < n; i++) {
        void *opts = get_memory(list[i]->opts_bytes);
        struct option_args args = command_args(list[i], opts);
        size_t n_words = n_argument_words(list[i]);
        fprintf(out, "    %s) words='", list[i]->name);
        put_names(&args, out);
        fputs("'\n        case ${COMP_WORDS[1]}:$before in\n", out);
        put_bash_values(list[i], &args, out);
        fputs("        esac\n", out);
        if (n_words) {
            fputs("        if [ \"$COMP_CWORD\" -eq 2 ]; then values=1 words='", out);
            for (size_t k = 0; k < n_words; k++) fputc(list[i]->arguments[k] == '|' ? ' ' : list[i]->arguments[k], out);
            fputs("'; fi\n", out);
        }
        fputs("        ;;\n", out);
        free(opts);
    }
    fputs("    esac\n    if [ \"$COMP_CWORD\" -eq 1 ]; then words='", out);
    for (int i = 0; i < n; i++) fprintf(out, "%s ", list[i]->name);
    fputs("--help --version --completion-bash'\n    elif [[ -z $values && $word != -* ]]; then\n"
          "        COMPREPLY=($(compgen -f -- \"$word\"))\n        return\n    fi\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\ncomplete -o filenames -F _lutra lutra\n",
        out);
}

/* Text inside a shell's single quotes; zsh's brackets and colons are escaped on demand. */
static void put_quoted(const char *text, const char *escape, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, "%s%c", strchr(escape, *text) ? "\\" : "", *text);
    }
}

static void put_zsh(const struct command *const *list, int n, FILE *out)
{
    fputs("#compdef lutra\n_lutra() {\n  local -a commands=(", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "'%s:", list[i]->name);
        put_quoted(list[i]->summary, ":", out);
        fputs("' ", out);
    }
    fputs(")\n  if (( CURRENT == 2 )); then _describe command commands; return; fi\n  case ${words[2]} in\n", out);
    for (int c = 0; c < n; c++) {
        void *opts = get_memory(list[c]->opts_bytes);
        struct option_args args = command_args(list[c], opts);
        char name[WORD_BYTES];
        fprintf(out, "  %s) _arguments ", list[c]->name);
        for (int s = 0; s < args.n_set; s++)
            for (int i = 0; i < args.set[s].n; i++)
                for (int w = 0; option_word(args.set[s].option[i].names, w, name, sizeof name); w++) {
                    const struct option *o = &args.set[s].option[i];
                    fprintf(out, "'*%s[", name);
                    put_quoted(o->help, "[]", out);
                    fputc(']', out);
                    if (o->choices && option_takes_value(o))
                        fprintf(out, ":value:(%s)", o->choices);
                    else if (option_takes_value(o))
                        fputs(":value:_files", out);
                    fputs("' ", out);
                }
        fputs("'*:file:_files' ;;\n", out);
        free(opts);
    }
    fputs("  esac\n}\n_lutra \"$@\"\n", out);
}

static void put_fish(const struct command *const *list, int n, FILE *out)
{
    for (int c = 0; c < n; c++) {
        void *opts = get_memory(list[c]->opts_bytes);
        struct option_args args = command_args(list[c], opts);
        char name[WORD_BYTES];
        fprintf(out, "complete -c lutra -n __fish_use_subcommand -f -a %s -d '", list[c]->name);
        put_quoted(list[c]->summary, "", out);
        fputs("'\n", out);
        for (int s = 0; s < args.n_set; s++)
            for (int i = 0; i < args.set[s].n; i++) {
                const struct option *o = &args.set[s].option[i];
                fprintf(out, "complete -c lutra -n '__fish_seen_subcommand_from %s'", list[c]->name);
                for (int w = 0; option_word(o->names, w, name, sizeof name); w++) {
                    bool is_long = name[1] == '-';
                    fprintf(out, " -%c %s", is_long ? 'l' : name[2] ? 'o' : 's', name + 1 + is_long);
                }
                if (option_takes_value(o)) fputs(" -r", out);
                if (o->choices && option_takes_value(o)) fprintf(out, " -f -a '%s'", o->choices);
                fputs(" -d '", out);
                put_quoted(o->help, "", out);
                fputs("'\n", out);
            }
        free(opts);
    }
}

/* roff: hyphens of options are minus signs, and a line may not begin with a control character. */
static void put_roff(const char *text, FILE *out)
{
    bool begins = true;
    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", out);
        if (*text == '-' || *text == '\\')
            fputs(*text == '-' ? "\\-" : "\\e", out);
        else
            fputc(*text, out);
        begins = *text == '\n';
    }
}

static void put_page_head(const char *name, const char *summary, FILE *out)
{
    fprintf(out, ".TH \"%s\" 1 \"\" \"lutra %s\"\n.SH NAME\n%s \\- ", name, lutra_version(), name);
    put_roff(summary, out);
    fputc('\n', out);
}

static void put_entries(const char *heading, const struct page_entry *entry, FILE *out)
{
    if (!entry->name) return;
    fprintf(out, ".SH %s\n", heading);
    for (; entry->name; entry++) {
        fputs(".TP\n.B ", out);
        put_roff(entry->name, out);
        fputc('\n', out);
        put_roff(entry->text, out);
        fputc('\n', out);
    }
}

static void put_page(const struct command *c, FILE *out)
{
    const struct page *page = page_of(c->name);
    void *opts = get_memory(c->opts_bytes);
    struct option_args args = command_args(c, opts);
    char title[WORD_BYTES];
    snprintf(title, sizeof title, "lutra-%s", c->name);
    put_page_head(title, c->summary, out);
    fprintf(out, ".SH SYNOPSIS\n.B lutra %s\n[options] ", c->name);
    put_roff(c->arguments, out);
    fputc('\n', out);
    if (c->notes) fputs(".SH DESCRIPTION\n", out);
    if (c->notes) put_roff(c->notes, out);
    for (int s = 0; s < args.n_set; s++) {
        fprintf(out, "\n.SH \"%s\"\n", args.set[s].title);
        for (int i = 0; i < args.set[s].n; i++) {
            const struct option *o = &args.set[s].option[i];
            fputs(".TP\n.B ", out);
            put_roff(o->names, out);
            if (option_takes_value(o)) fprintf(out, " \\fI%s\\fR", o->arg ? o->arg : "N");
            fputc('\n', out);
            put_roff(o->help, out);
            if (o->env) fprintf(out, " (environment: LUTRA_ARG_%s)", o->env);
            fputc('\n', out);
        }
    }
    if (page) {
        put_entries("EXAMPLES", page->example, out);
        put_entries("FILES", page->file, out);
        put_entries("ENVIRONMENT", page->variable, out);
    }
    fputs(".SH SEE ALSO\n.BR lutra (1)\n", out);
    free(opts);
}

static void put_first_page(const struct command *const *list, int n, FILE *out)
{
    put_page_head("lutra", "run language models, alone and with several candidates", out);
    fputs(".SH SYNOPSIS\n.B lutra\nCOMMAND [options]\n.SH COMMANDS\n", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, ".TP\n.BR lutra\\-%s (1)\n", list[i]->name);
        put_roff(list[i]->summary, out);
        fputc('\n', out);
    }
    fputs(".SH \"EXIT STATUS\"\n0 success, 1 failure, 2 usage, 130 interrupted.\n"
          ".SH ENVIRONMENT\n.TP\n.B LUTRA_ARG_*\nmost options, as their help says; the command line wins\n.SH "
          "FILES\n.TP\n"
          "$XDG_STATE_HOME/lutra/history or ~/.local/state/lutra/history\nwhat was typed in chats\n",
        out);
}

bool describe(const char *what, const char *command, const struct command *const *list, int n, FILE *out)
{
    if (strcmp(what, "--completion-bash") == 0)
        put_bash(list, n, out);
    else if (strcmp(what, "--completion-zsh") == 0)
        put_zsh(list, n, out);
    else if (strcmp(what, "--completion-fish") == 0)
        put_fish(list, n, out);
    else if (strcmp(what, "--man") == 0 && !command)
        put_first_page(list, n, out);
    else if (strcmp(what, "--man") == 0)
        for (int i = 0; i < n; i++) {
            if (strcmp(list[i]->name, command) == 0) put_page(list[i], out);
        }
    else
        return false;
    return true;
}
