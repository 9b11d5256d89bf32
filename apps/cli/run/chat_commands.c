/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "run/chat.h"

static enum line_means show_help(struct chat *c, const char *argument);

static enum line_means set_system(struct chat *c, const char *argument)
{
    conversation_set_system(&c->past, argument);
    return LINE_AGAIN;
}

static enum line_means save(struct chat *c, const char *argument)
{
    if (conversation_save(&c->past, argument) == 0) fprintf(stderr, "%d messages in %s\n", c->past.n, argument);
    return LINE_AGAIN;
}

static int count_turns(const struct chat *c)
{
    int n = 0;
    for (int i = 0; i < c->past.n; i++) n += strcmp(c->past.message[i].role, "user") == 0;
    return n;
}

static enum line_means load(struct chat *c, const char *argument)
{
    if (conversation_load(&c->past, argument) < 0) return LINE_AGAIN;
    fprintf(stderr, "%d messages\n", c->past.n);
    rag_forget(&c->talk->rag, count_turns(c));
    buffer_clear(&c->question);
    return LINE_AGAIN;
}

static enum line_means attach(struct chat *c, const char *argument)
{
    struct buffer text = {0};
    if (read_file(argument, &text) == 0) {
        fprintf(stderr, "%zu bytes go before your next message\n", text.n_bytes);
        buffer_add(&c->attached, text.text, text.n_bytes);
        buffer_add(&c->attached, "\n", 1);
    }
    buffer_free(&text);
    return LINE_AGAIN;
}

static enum line_means show_context(struct chat *c, const char *argument)
{
    struct lutra_error err = {0};
    struct tokens all = {0};
    int n_ctx;
    (void)argument;
    lutra_session_sizes_get(c->talk->engine.session, &n_ctx, NULL, NULL);
    if (c->past.n > 0 && chat_tokens(c, false, &all, &err) < 0)
        fail_with(&err);
    else
        fprintf(stderr, "%d messages, %d of %d tokens\n", c->past.n, all.n, n_ctx);
    free(all.id);
    return LINE_AGAIN;
}

static enum line_means clear(struct chat *c, const char *argument)
{
    (void)argument;
    conversation_cut(&c->past, conversation_n_system(&c->past));
    buffer_clear(&c->attached);
    rag_forget(&c->talk->rag, 0);
    return LINE_AGAIN;
}

static enum line_means regenerate(struct chat *c, const char *argument)
{
    (void)argument;
    if (c->past.n - conversation_n_system(&c->past) < 2) return LINE_AGAIN;
    conversation_cut(&c->past, c->past.n - 1);
    return LINE_ANSWER;
}

static enum line_means leave(struct chat *c, const char *argument)
{
    (void)c, (void)argument;
    return LINE_LEAVE;
}

static const struct {
    const char *name, *argument; /* argument: NULL = none */
    bool optional;
    const char *help;
    enum line_means (*act)(struct chat *c, const char *argument);
} commands[] = {
    {"/help", NULL, false, "this list", show_help},
    {"/system", "TEXT", true, "another system message; none without TEXT", set_system},
    {"/save", "FILE", false, "the conversation as JSON", save},
    {"/load", "FILE", false, "a saved conversation instead of this one", load},
    {"/read", "FILE", false, "put a file's text before the next message", attach},
    {"/context", NULL, false, "how much of the context is used", show_context},
    {"/regen", NULL, false, "answer the last message again", regenerate},
    {"/clear", NULL, false, "forget all but the system message", clear},
    {"/exit", NULL, false, "leave (/quit as well, or Ctrl-D)", leave},
    {"/quit", NULL, false, NULL, leave},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static enum line_means show_help(struct chat *c, const char *argument)
{
    (void)argument;
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].help)
            fprintf(stderr, "%-9s%-6s%s\n", commands[i].name, commands[i].argument ? commands[i].argument : "",
                commands[i].help);
    fprintf(stderr, "A line ending in \\ goes on in the next%s.  Ctrl-C stops a reply.\n",
        c->talk->editor ? "; Alt-Enter begins a line, a paste may have many; Ctrl-R searches what was typed" : "");
    return LINE_AGAIN;
}

static const char *command_name(const void *ctx, int i)
{
    (void)ctx;
    return i < N_COMMANDS ? commands[i].name : NULL;
}

/* "/word": a command.  "/usr/bin is ..." is a message. */
static bool looks_like_command(const char *line, size_t n_word)
{
    for (size_t i = 1; i < n_word; i++)
        if (line[i] < 'a' || line[i] > 'z') return false;
    return line[0] == '/' && n_word > 1;
}

static enum line_means run_command(struct chat *c, char *line, size_t n_word)
{
    char *argument = line + n_word + strspn(line + n_word, " \t");
    for (size_t n = strlen(argument); n > 0 && strchr(" \t\r\n", argument[n - 1]); n--) argument[n - 1] = 0;
    line[n_word] = 0;
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(line, commands[i].name) != 0) continue;
        bool takes = commands[i].argument, given = *argument;
        if (given == takes || (takes && commands[i].optional)) return commands[i].act(c, argument);
        say("%s %s", line, takes ? "needs a FILE" : "takes no argument");
        return LINE_AGAIN;
    }
    const char *near = option_nearest(line, command_name, NULL);
    say("%s: no such command%s%s; /help lists them", line, near ? ", did you mean " : "", near ? near : "");
    return LINE_AGAIN;
}

enum line_means chat_take_line(struct chat *c)
{
    char *line = c->line.text;
    size_t n_word = strcspn(line, " \t\r\n");
    if (looks_like_command(line, n_word)) return run_command(c, line, n_word);
    if (!line[strspn(line, " \t\r\n")]) return LINE_AGAIN;
    buffer_add(&c->attached, line, c->line.n_bytes);
    int code = chat_ask(c, c->attached.text, c->attached.n_bytes);
    buffer_clear(&c->attached);
    return code ? LINE_AGAIN : LINE_ANSWER;
}
