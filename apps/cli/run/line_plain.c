/* SPDX-License-Identifier: MIT
 *
 * Built where libedit is missing: the terminal's own line editing.
 */
#include "run/line.h"

struct line_editor *line_open(const char *history, bool color)
{
    (void)history, (void)color;
    return NULL;
}

void line_close(struct line_editor **editor)
{
    *editor = NULL;
}

bool line_read(struct line_editor *editor, struct buffer *message)
{
    (void)editor, (void)message;
    return false;
}
