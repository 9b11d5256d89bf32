/* SPDX-License-Identifier: MIT
 *
 * `lutra run`: its options and the one thing both of its modes do, streaming a reply.
 *
 *     run.c     options, opening, text mode (continue a prompt)
 *     chat.h    chat mode: messages through the model's template, /commands
 *     line.h    a message typed at a terminal
 *     templates.c  chat templates by name
 *     search.h  several candidates for one reply
 *     rag.h     passages of a store before the question
 *     constraint.c  the grammar or JSON Schema that a reply must be
 *     reply.c   one generation: stream to stdout, stop on Ctrl-C, say why it ended; figures at the end
 */
#ifndef LUTRA_CLI_RUN_H
#define LUTRA_CLI_RUN_H

#include "cli.h"
#include "run/line.h"
#include "run/rag.h"
#include "run/search.h"
#include "thinking.h"

struct constraint_options {
    const char *grammar, *grammar_file, *schema, *schema_file;
    struct buffer text; /* of the file */
};
struct option_set constraint_option_set(struct constraint_options *o);
/* Reads the file, if one is named; 0, or an exit code after a message.  constraint_put() names it in a request. */
int constraint_read(struct constraint_options *o);
void constraint_put(const struct constraint_options *o, struct lutra_request *r);
/* Puts the file's name before what is wrong in it. */
void constraint_name(const struct constraint_options *o, struct lutra_error *err);

struct run_options {
    struct engine_options engine;
    struct sampling_options sampling;
    const char *prompt, *file, *system, *system_file, *template_text, *template_file, *history, *rag;
    bool chat, no_chat, single_turn, interactive, escape, ignore_eos, perf, color, show_special, echo, rag_anyway, roll;
    int n_predict, rag_passages;
    struct option_list reverse;
    struct search_options search;
    struct thinking_options thinking;
    struct constraint_options constraint;
};

struct talk {
    const struct run_options *opts;
    struct engine engine;
    struct lutra_sampling sampling;
    struct lutra_logit_bias bias[OPTION_LIST_MAX];
    const char *chat_template; /* instead of the model's, or NULL */
    char *variables;           /* of the chat template, or NULL */
    bool chats;                /* reasoning is told apart */
    struct buffer reply;       /* text of the last reply; without reasoning that was told apart */
    struct buffer thought;     /* what was told apart */
    struct tokens reply_tokens;
    struct lutra_end end;
    struct searcher searcher;
    struct rag rag;
    bool at_line_start;
    bool thinks;                /* the last text shown was reasoning */
    bool cut_thinking;          /* the last reply ended there */
    bool talks;                 /* stdin and stdout are a terminal */
    bool one_message;           /* stdin is a file or a pipe: all of it is one message, behind that of -p or -f */
    struct line_editor *editor; /* NULL: lines as they come */
};

/* Streams the continuation of prompt to stdout.  0, or an exit code after a message; a reply stopped by Ctrl-C is 0
 * with end.reason LUTRA_STOP_CANCELLED.  question: what a checker is told, or NULL. */
int reply_stream(struct talk *t, const struct tokens *prompt, const char *question);

/* A chat template by llama.cpp's name for it ("chatml"), or NULL; all names, separated by spaces. */
const char *template_named(const char *name);
void template_list(char *out, size_t n_out);

/* Tokens per second and rows, to stderr. */
void reply_figures(const struct talk *t);

/* Did the last reply end before it came to an answer?  Says so. */
bool reply_lacks_answer(const struct talk *t);

/* Ends the line that a reply left open. */
void reply_end_line(struct talk *t);

/* A message from the user (a trailing backslash continues it on the next line): false at the end of input or Ctrl-C. */
bool read_user(struct talk *t, struct buffer *line);

/* The whole of chat mode; first: the opening message, empty if there is none. */
int chat(struct talk *t, const struct buffer *first);

#endif
