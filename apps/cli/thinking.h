/* SPDX-License-Identifier: MIT
 *
 * Options about what a model thinks before it answers: `lutra run` and `lutra serve` have them.
 */
#ifndef LUTRA_CLI_THINKING_H
#define LUTRA_CLI_THINKING_H

#include "cli.h"

struct thinking_options {
    const char *mode, *format, *kwargs;
    bool keep;
    int budget; /* tokens; -1 = no limit */
};

void thinking_options_init(struct thinking_options *o);
struct option_set thinking_option_set(struct thinking_options *o);

bool thinking_is_off(const struct thinking_options *o);
bool thinking_in_answer(const struct thinking_options *o); /* not told apart */
/* Of lutra_chat_flags, without LUTRA_CHAT_REPLY. */
int thinking_flags(const struct thinking_options *o);
/* lutra_chat.variables, freed with free(); NULL: none.  0, or an exit code after a message. */
int thinking_variables(const struct thinking_options *o, char **out);

#endif
