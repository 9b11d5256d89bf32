/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

enum { HISTORY_FIRST = 16 };

/* Messages own their contents. */
struct history {
    struct lutra_message *message;
    int n, room, n_system;
};

static void remember(struct history *h, const char *role, const char *content)
{
    if (h->n == h->room) {
        h->room = h->room ? h->room * 2 : HISTORY_FIRST;
        h->message = grow_memory(h->message, (size_t)h->room * sizeof *h->message);
    }
    h->message[h->n++] = (struct lutra_message){role, copy_text(content)};
}

static void forget(struct history *h, int keep)
{
    while (h->n > keep) free((void *)h->message[--h->n].content);
}

/* One turn: the whole conversation through the template; what the cache already holds is not computed again. */
static int answer(struct talk *t, struct history *h)
{
    struct lutra_error err = {0};
    struct tokens prompt = {0};
    char *text = NULL;
    if (lutra_chat_render(t->engine.model, t->chat_template, h->message, h->n, true, &text, &err) < 0 ||
        tokenize_chat(t->engine.model, text, &prompt, &err) < 0) {
        lutra_free(text);
        free(prompt.id);
        return fail_with(&err);
    }
    lutra_free(text);
    int code = reply_stream(t, &prompt);
    free(prompt.id);
    reply_end_line(t);
    if (code == 0) remember(h, "assistant", t->reply.text);
    return code;
}

static bool is_word(const char *line, const char *word)
{
    size_t n = strlen(word);
    return strncmp(line, word, n) == 0 && strspn(line + n, " \t\r") == strlen(line + n);
}

enum { LINE_ANSWER, LINE_AGAIN, LINE_LEAVE };

/* Acts on one line of the user. */
static int take_line(const char *line, struct history *h)
{
    if (is_word(line, "/exit") || is_word(line, "/quit")) return LINE_LEAVE;
    if (is_word(line, "/clear")) {
        forget(h, h->n_system);
        return LINE_AGAIN;
    }
    if (is_word(line, "/regen")) {
        if (h->n - h->n_system < 2) return LINE_AGAIN;
        forget(h, h->n - 1);
        return LINE_ANSWER;
    }
    if (line[0] == '/' && line[1] >= 'a' && line[1] <= 'z' && !strchr(line, ' ') && !strchr(line + 1, '/')) {
        fprintf(stderr, "%s: not a command; there are /clear, /regen and /exit\n", line);
        return LINE_AGAIN;
    }
    if (!line[strspn(line, " \t\r\n")]) return LINE_AGAIN;
    remember(h, "user", line);
    return LINE_ANSWER;
}

/* Asks until something is to be answered; false when the user leaves. */
static bool next_message(struct talk *t, struct history *h, struct buffer *line)
{
    for (;;) {
        if (!read_user(t, line)) return false;
        int what = take_line(line->text, h);
        if (what != LINE_AGAIN) return what == LINE_ANSWER;
    }
}

int chat(struct talk *t, const char *first)
{
    struct history h = {0};
    struct buffer line = {0};
    int code = 0;
    if (t->opts->system) remember(&h, "system", t->opts->system);
    h.n_system = h.n;
    if (first) remember(&h, "user", first);
    bool go_on = first || next_message(t, &h, &line);
    while (go_on) {
        code = answer(t, &h);
        if (t->opts->single_turn) break;
        if (code == EXIT_FAILED && !t->opts->engine.quiet) say("/clear starts a new conversation");
        if (interrupted() && t->end.reason != LUTRA_STOP_CANCELLED) break;
        interrupt_clear();
        /* An unanswered question does not stay in the history. */
        if (code) forget(&h, h.n - 1);
        go_on = next_message(t, &h, &line);
    }
    if (interrupted()) code = EXIT_INTERRUPTED;
    forget(&h, 0);
    free(h.message);
    buffer_free(&line);
    return code;
}
