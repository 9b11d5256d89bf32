/* SPDX-License-Identifier: MIT
 *
 * A message typed at a terminal: editing keys, history (arrows, Ctrl-R), pastes of any size, several lines.
 *
 *     struct line_editor *e = line_open(path, color);       // NULL: no editor here, use getline()
 *     while (line_read(e, &message)) ...
 *     line_close(&e);
 *
 *     line_edit.c     with libedit
 *     line_plain.c    without: line_open() returns NULL
 *     history.c       the file that history is kept in
 *
 * What is returned is text: no escape sequence of a key, a paste or the terminal itself is ever part of it.
 */
#ifndef LUTRA_CLI_LINE_H
#define LUTRA_CLI_LINE_H

#include "cli.h"

struct line_editor;

/* For stdin and stdout, when both are terminals that can be edited on.  history: path of the file, borrowed while open;
 * NULL = none is kept.  color: what is typed is coloured. */
struct line_editor *line_open(const char *history, bool color);
void line_close(struct line_editor **editor);

/* The next message, without the line end that sent it; false at the end of input, or when Ctrl-C is pressed on an empty
 * line.  On any other line Ctrl-C drops what was typed and asks again. */
bool line_read(struct line_editor *editor, struct buffer *message);

/* ---- history (history.c) ---------------------------------------------------------------------------------------- */

/* $XDG_STATE_HOME/lutra/history, or ~/.local/state/lutra/history; NULL without a home.  The caller frees it. */
char *history_default_path(void);

/* Calls add for each entry, oldest first.  A file that is not there has none; one that has grown too long is cut to its
 * latest entries.  Nobody else may read the file. */
void history_load(const char *path, void (*add)(void *ctx, const char *entry), void *ctx);

/* Appends one entry; several programs may do so at once.  Long ones are left out.  Failing is silent: a history is a
 * comfort. */
void history_append(const char *path, const char *entry);

#endif
