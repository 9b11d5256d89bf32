/* SPDX-License-Identifier: MIT
 *
 * A chat: its messages, and what lines beginning with '/' do.
 *
 *     chat.c           the turns
 *     conversation.c   messages, saved as and loaded from JSON
 *     chat_commands.c  /help and the others
 */
#ifndef LUTRA_CLI_CHAT_H
#define LUTRA_CLI_CHAT_H

#include "run/run.h"

/* Messages own their contents and thoughts; roles are literals.  A system message, if any, is the first. */
struct message {
    const char *role;
    char *content, *thought; /* thought: before the content, told apart; or NULL */
    size_t n_content, n_thought;
};
struct conversation {
    struct message *message; /* [n] */
    int n, room;
};

void conversation_add(struct conversation *c, const char *role, const char *content, size_t n_content);
/* To the last message. */
void conversation_add_thought(struct conversation *c, const char *thought, size_t n);
void conversation_cut(struct conversation *c, int n); /* to the first n messages */
void conversation_drop(struct conversation *c, int first, int n);
int conversation_n_system(const struct conversation *c); /* 0 or 1 */
/* content: "" = none */
void conversation_set_system(struct conversation *c, const char *content);
void conversation_free(struct conversation *c);

/* {"messages": [{"role": ..., "content": ..., "reasoning_content": ...}]}; freed with free().  NULL: a message is not
 * UTF-8 text.  flags: jansson's. */
char *conversation_json(const struct conversation *c, size_t flags);

/* The same as a file.  0, or -1 after a message; what could not be loaded changes
 * nothing. */
int conversation_save(const struct conversation *c, const char *path);
int conversation_load(struct conversation *c, const char *path);

struct chat {
    struct talk *talk;
    struct conversation past;
    struct buffer line;     /* of the user */
    struct buffer attached; /* files read, to go before the next message */
    struct buffer question; /* the last message as it was typed, without passages; empty after /load */
};

/* Adds a message of the user, behind passages of the store that is open; 0, or an exit code after a message. */
int chat_ask(struct chat *c, const char *text, size_t n);

enum line_means { LINE_ANSWER, LINE_AGAIN, LINE_LEAVE };

/* Acts on one line of the user: a command, or a message that joins the past. */
enum line_means chat_take_line(struct chat *c);

/* Tokens of the conversation through the template; 0 or an error status. */
int chat_tokens(const struct chat *c, bool for_reply, struct tokens *out, struct lutra_error *err);

#endif
