/* SPDX-License-Identifier: MIT
 *
 * llama.cpp's options that no table of ours has: command lines are pasted from its documentation.  What changes nothing
 * here is accepted with one line; what would change the result is refused by name.
 */
#ifndef LUTRA_CLI_FOREIGN_H
#define LUTRA_CLI_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

enum foreign_value {
    FOREIGN_NONE,   /* a flag */
    FOREIGN_ONE,    /* a value follows */
    FOREIGN_SWITCH, /* on, off, auto, 0, 1 or a list of them may follow */
    FOREIGN_TWO,
};

struct foreign {
    const char *names; /* "-fa --flash-attn" */
    enum foreign_value value;
    const char *lacks;   /* what it asks for that is not here; NULL = it changes nothing */
    const char *neutral; /* values that ask for nothing: "0 0.0 none" */
};

/* As a command answers; NULL: not llama.cpp's, either. */
const struct foreign *foreign_find(const char *command, const char *given, size_t n);

/* A word that may follow a switch. */
bool foreign_is_switch(const char *word);

/* What is said of llama.cpp's tools that have no command here, by their name without "llama-"; NULL: no such tool. */
const char *foreign_tool(const char *name);

#endif
