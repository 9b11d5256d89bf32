/* SPDX-License-Identifier: MIT
 *
 * Completions and man pages of the program, printed by itself: the build installs what these give.
 */
#ifndef LUTRA_CLI_DESCRIBE_H
#define LUTRA_CLI_DESCRIBE_H

#include "cli.h"

/* A command's tables, over opts [opts_bytes] with its defaults. */
struct option_args command_args(const struct command *c, void *opts);

/* What a command's man page says beside its options (pages.c). Lists end with an entry of NULL. */
enum { PAGE_ENTRIES = 5 };
struct page_entry {
    const char *name, *text; /* what is typed or named; what it does */
};
struct page {
    const char *command;
    struct page_entry example[PAGE_ENTRIES], file[PAGE_ENTRIES], variable[PAGE_ENTRIES];
};
const struct page *page_of(const char *command); /* or NULL */

/* what: --completion-bash, --completion-zsh, --completion-fish, or --man (of a command, or of the program where it is
 * NULL). False: nothing of these. */
bool describe(const char *what, const char *command, const struct command *const *list, int n, FILE *out);

#endif
