/* SPDX-License-Identifier: MIT */
#include "run/chat.h"

#include <stdlib.h>
#include <string.h>

/* What the template gets; *json is to be freed when it was used, NULL: LUTRA_E_ARGUMENT. */
static int chat_input(
    const struct chat *c, bool for_reply, struct lutra_chat *chat, char **json, struct lutra_error *err)
{
    const struct talk *t = c->talk;
    lutra_chat_init(chat, sizeof *chat);
    chat->json = *json = conversation_json(&c->past, 0);
    chat->chat_template = t->chat_template;
    chat->variables = t->variables;
    chat->flags = (for_reply ? LUTRA_CHAT_REPLY : 0) | thinking_flags(&t->opts->thinking);
    if (*json) return 0;
    *err = (struct lutra_error){.code = LUTRA_E_ARGUMENT, .what = "a message of the conversation is not UTF-8 text"};
    return LUTRA_E_ARGUMENT;
}

int chat_tokens(const struct chat *c, bool for_reply, struct tokens *out, struct lutra_error *err)
{
    struct lutra_chat chat;
    char *json;
    int rc = chat_input(c, for_reply, &chat, &json, err);
    if (rc == 0) rc = tokenize_chat(c->talk->engine.model, &chat, out, err);
    free(json);
    return rc;
}

/* Is there room for the conversation and a reply in n_most tokens?  1, 0, or -1 after a message. */
static int fits(const struct chat *c, int n_most)
{
    const struct talk *t = c->talk;
    struct lutra_error err = {0};
    struct tokens all = {0};
    int rc = chat_tokens(c, true, &all, &err);
    bool room = all.n + rag_reserve(t->opts->n_predict, n_most) <= n_most;
    free(all.id);
    if (rc < 0) fail_with(&err);
    return rc < 0 ? -1 : room;
}

/* Leaves out the oldest turns where the conversation, with room for a reply, takes more than a share of the context.
 * 0, or an exit code after a message. */
static int make_room(struct chat *c, double share)
{
    const struct talk *t = c->talk;
    struct lutra_error err = {0};
    struct lutra_chat chat;
    char *json;
    int n_ctx, first, n = 0;
    if (!t->opts->roll) return 0;
    lutra_session_sizes_get(t->engine.session, &n_ctx, NULL, NULL);
    int most = (int)(n_ctx * share), rc = chat_input(c, true, &chat, &json, &err);
    if (rc == 0)
        rc = lutra_chat_roll(t->engine.model, &chat, most - rag_reserve(t->opts->n_predict, most), &first, &n, &err);
    free(json);
    if (rc < 0) return fail_with(&err);
    for (int i = first; i < first + n; i++)
        if (strcmp(c->past.message[i].role, "user") == 0) rag_drop_turn(&c->talk->rag);
    if (n) conversation_drop(&c->past, first, n);
    if (n && !t->opts->engine.quiet)
        say("the context of %d tokens is full: the oldest %d messages were left out; -c N gives more", n_ctx, n);
    return 0;
}

/* rag_place.put: into the conversation. */
static int put_message(void *user, const char *message)
{
    struct chat *c = user;
    int n_past = c->past.n, n_ctx;
    lutra_session_sizes_get(c->talk->engine.session, &n_ctx, NULL, NULL);
    conversation_add(&c->past, "user", message, strlen(message));
    int room = fits(c, n_ctx);
    if (room <= 0) conversation_cut(&c->past, n_past);
    return room;
}

/* The same, whether it fits or not. */
static int put_question(void *user, const char *message)
{
    struct chat *c = user;
    conversation_add(&c->past, "user", message, strlen(message));
    return 1;
}

int chat_ask(struct chat *c, const char *text, size_t n)
{
    struct rag *r = &c->talk->rag;
    buffer_clear(&c->question);
    buffer_add(&c->question, text, n);
    if (!r->store) {
        conversation_add(&c->past, "user", text, n);
        return make_room(c, 1.0);
    }
    /* Half of the context for what was said, so that passages have room. */
    int code = make_room(c, 0.5);
    return code ? code : rag_ask(r, text, n, &(struct rag_place){put_message, put_question, c, false});
}

/* Under a reply, for who sits at the terminal. */
static void show_figures(const struct talk *t, int n_prompt)
{
    const struct lutra_end *end = &t->end;
    int n_ctx;
    if (!t->talks || t->opts->engine.quiet || !t->opts->perf) return;
    lutra_session_sizes_get(t->engine.session, &n_ctx, NULL, NULL);
    fprintf(stderr, "[%s, %d of %d tokens", t->engine.info.name, n_prompt + t->reply_tokens.n, n_ctx);
    if (end->n_tok > 1 && end->end_us > end->first_us)
        fprintf(stderr, ", %.1f t/s", (end->n_tok - 1) * 1e6 / (double)(end->end_us - end->first_us));
    fputs("]\n", stderr);
}

/* One turn: the whole conversation through the template; what the cache already holds is not computed again. */
static int answer(struct chat *c)
{
    struct talk *t = c->talk;
    struct lutra_error err = {0};
    struct tokens prompt = {0};
    const char *question = c->question.n_bytes ? c->question.text : c->past.message[c->past.n - 1].content;
    int code = chat_tokens(c, true, &prompt, &err) < 0 ? fail_with(&err) : reply_stream(t, &prompt, question);
    reply_end_line(t);
    if (code == 0 && reply_lacks_answer(t)) code = EXIT_FAILED;
    if (code == 0 && t->rag.found && t->end.reason != LUTRA_STOP_CANCELLED) code = rag_finish(&t->rag, &t->reply);
    if (code == 0) {
        conversation_add(&c->past, "assistant", t->reply.text, t->reply.n_bytes);
        if (t->thought.n_bytes) conversation_add_thought(&c->past, t->thought.text, t->thought.n_bytes);
        show_figures(t, prompt.n);
    }
    free(prompt.id);
    return code;
}

/* Asks until something is to be answered; false when the user leaves. */
static bool next_message(struct chat *c)
{
    for (;;) {
        if (!read_user(c->talk, &c->line)) return false;
        enum line_means what = chat_take_line(c);
        if (what != LINE_AGAIN) return what == LINE_ANSWER;
    }
}

int chat(struct talk *t, const struct buffer *first)
{
    struct chat c = {.talk = t};
    int code = 0;
    t->chats = true;
    if (t->opts->system) conversation_set_system(&c.past, t->opts->system);
    if (t->talks && !t->opts->engine.quiet && !t->opts->single_turn)
        fprintf(stderr, "%s (%s, %s); /help lists commands\n", t->engine.info.name, t->engine.info.arch,
            t->engine.info.file_type);
    if (first->n_bytes) code = chat_ask(&c, first->text, first->n_bytes);
    bool asks_again = t->talks && !t->opts->single_turn && t->rag.store; /* nothing was found for the first one */
    bool go_on = first->n_bytes && !code;
    if (!t->one_message && (!first->n_bytes || (code && asks_again))) go_on = next_message(&c);
    while (go_on) {
        code = answer(&c);
        if (t->opts->single_turn || t->one_message) break;
        if (interrupted() && t->end.reason != LUTRA_STOP_CANCELLED) break;
        interrupt_clear();
        /* An unanswered question does not stay in the conversation. */
        if (code) {
            conversation_cut(&c.past, c.past.n - 1);
            rag_take_back(&t->rag);
        }
        go_on = next_message(&c);
    }
    if (interrupted()) code = EXIT_INTERRUPTED;
    conversation_free(&c.past);
    buffer_free(&c.line);
    buffer_free(&c.attached);
    buffer_free(&c.question);
    return code;
}
