/* SPDX-License-Identifier: MIT
 *
 * One reply of `lutra run`: the request, pieces of text as they come, candidates of a search, and the figures below.
 */
#include "run/run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reasoning begins or ends: at a terminal it is dim or between marks, else it goes to stderr. */
static void change_part(struct talk *t, bool thinks)
{
    bool dim = t->talks && t->opts->color;
    if (t->thinks == thinks) return;
    t->thinks = thinks;
    if (dim) fputs(thinks ? "\033[2m" : "\033[0m", stdout);
    if (!dim && t->talks) fputs(thinks ? "[thinking]\n" : "\n[answer]", stdout);
    if (!thinks && t->talks) fputs("\n\n", stdout);
    if (!thinks && !t->talks && !t->opts->engine.quiet) fputs("\n", stderr);
    t->at_line_start = true;
}

/* Shows text of a reply; what is told apart is no part of it.  Nonzero: stdout refuses it. */
static int show(struct talk *t, const char *text, size_t n, enum lutra_part part)
{
    bool apart = t->chats && part != LUTRA_PART_ANSWER && !thinking_in_answer(&t->opts->thinking);
    progress_clear();
    t->cut_thinking = apart && (part != LUTRA_PART_MARK || !t->cut_thinking); /* a mark begins or ends it */
    if (apart && part == LUTRA_PART_MARK) return 0;
    change_part(t, apart);
    buffer_add(apart ? &t->thought : &t->reply, text, n);
    FILE *out = apart && !t->talks ? stderr : stdout;
    if (out == stderr && t->opts->engine.quiet) return 0;
    if (out == stdout) t->at_line_start = text[n - 1] == '\n';
    size_t written = fwrite(text, 1, n, out);
    return written < n || fflush(out) != 0;
}

static int on_text(void *user, const struct lutra_piece *piece)
{
    struct talk *t = user;
    if (piece->token >= 0) {
        struct tokens *out = &t->reply_tokens;
        if (out->n == out->room) {
            out->room = out->room * 2 + 64;
            out->id = grow_memory(out->id, (size_t)out->room * sizeof *out->id);
        }
        out->id[out->n++] = piece->token;
    }
    return piece->n_bytes ? show(t, piece->text, piece->n_bytes, piece->part) : 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    ((struct talk *)user)->end = *end;
}

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    return lutra_drafts_guess(((struct talk *)user)->rag.drafts, tip, draft, n_max);
}

static void on_hints(void *user, int32_t request, int first, const struct lutra_hints *hints, int n)
{
    (void)request;
    lutra_recall_take(((struct talk *)user)->rag.recall, first, hints, n);
}

bool reply_lacks_answer(const struct talk *t)
{
    if (!t->cut_thinking || t->end.reason == LUTRA_STOP_CANCELLED) return false;
    say("the reply ended inside its thinking, after %d tokens, without an answer%s", t->reply_tokens.n,
        t->end.reason == LUTRA_STOP_END ? "" : ": -n N gives more, --reasoning-budget N ends the thinking earlier");
    return true;
}

static uint64_t prompt_tokens(const struct talk *t)
{
    struct lutra_stats s;
    lutra_session_stats_get(t->engine.session, &s, sizeof s);
    return s.prompt_tokens + s.cached_tokens;
}

/* A long prompt is read in several passes: how far, for who waits at a terminal. */
static void show_prompt(const struct talk *t, uint64_t n_before, int n_prompt)
{
    enum { WORTH_SHOWING = 512 };
    if (n_prompt < WORTH_SHOWING || t->reply_tokens.n > 0) return;
    uint64_t done = prompt_tokens(t) - n_before;
    if (done < (uint64_t)n_prompt) progress_show("reading the prompt", done, (uint64_t)n_prompt);
}

void reply_end_line(struct talk *t)
{
    change_part(t, false);
    if (!t->at_line_start) putchar('\n');
    fflush(stdout);
    t->at_line_start = true;
}

static int explain_end(struct talk *t)
{
    int n_ctx;
    switch (t->end.reason) {
    case LUTRA_STOP_CTX_FULL:
        reply_end_line(t);
        lutra_session_sizes_get(t->engine.session, &n_ctx, NULL, NULL);
        say("the context of %d tokens is full; -c N gives more", n_ctx);
        return 0;
    case LUTRA_STOP_ERROR:
        reply_end_line(t);
        say("the reply ended in an error: the model's logits leave no token to sample");
        return EXIT_FAILED;
    case LUTRA_STOP_CALLER: return finish_stdout(EXIT_FAILED); /* stdout refused the text */
    default: return 0;
    }
}

/* A search's winner, written at once. */
static int search_reply(struct talk *t, const struct lutra_request *r, const char *question)
{
    struct lutra_error err = {0};
    struct buffer all = {0};
    size_t n_before = 0;
    bool cancelled;
    int code = searcher_run(&t->searcher, &t->engine, r, question, t->opts->engine.quiet, &all, &n_before, &cancelled);
    t->end.reason = cancelled ? LUTRA_STOP_CANCELLED : LUTRA_STOP_END;
    if ((!code || code == EXIT_NOT_PASSED) && !cancelled && all.n_bytes) {
        if (tokenize(t->engine.model, all.text, all.n_bytes, LUTRA_PARSE_SPECIAL, &t->reply_tokens, &err) < 0)
            code = fail_with(&err);
        else if ((n_before && show(t, all.text, n_before, LUTRA_PART_REASONING)) ||
                 (n_before < all.n_bytes && show(t, all.text + n_before, all.n_bytes - n_before, LUTRA_PART_ANSWER)))
            code = finish_stdout(EXIT_FAILED);
    }
    buffer_free(&all);
    return code;
}

static int stream(struct talk *t, const struct tokens *prompt, const char *question)
{
    struct lutra_error err = {0};
    struct lutra_request r;
    struct lutra_request_experiment x;
    lutra_request_init(&r, sizeof r);
    r.prompt = prompt->id;
    r.n_prompt = prompt->n;
    r.max_tokens = t->opts->n_predict < 0 ? -1 : t->opts->n_predict;
    r.sampling = &t->sampling;
    r.stop = t->opts->reverse.item;
    r.n_stop = t->opts->reverse.n;
    constraint_put(&t->opts->constraint, &r);
    r.ignore_end = t->opts->ignore_eos;
    r.show_special = t->opts->show_special;
    r.chat_template = t->chat_template;
    if (t->opts->thinking.budget > 0) r.reasoning_budget = t->opts->thinking.budget; /* 0 is the template's business */
    r.on_text = on_text;
    r.on_end = on_end;
    if (t->rag.drafts) r.on_draft = on_draft;
    lutra_request_experiment_init(&x, sizeof x);
    x.likely = t->rag.likely;
    x.n_likely = t->rag.n_likely;
    int code = rag_recall(&t->rag, t->engine.model, t->engine.session, prompt);
    if (code) return code;
    x.known_hints = lutra_recall_known(t->rag.recall);
    if (t->rag.recall) x.on_hints = on_hints;
    r.experiment = &x;
    r.user = t;
    buffer_clear(&t->reply);
    buffer_clear(&t->thought);
    t->reply_tokens.n = 0;
    t->end = (struct lutra_end){0};
    t->cut_thinking = false;
    if (t->searcher.wanted) return search_reply(t, &r, question);
    int32_t id;
    int n_active = 1;
    uint64_t n_before = prompt_tokens(t);
    if (lutra_submit(t->engine.session, &r, &id, &err) < 0) {
        constraint_name(&t->opts->constraint, &err);
        return fail_with(&err);
    }
    while (n_active > 0) {
        if (interrupted()) lutra_request_cancel(t->engine.session, id);
        show_prompt(t, n_before, prompt->n);
        if (lutra_step(t->engine.session, &n_active, &err) < 0 && err.code != LUTRA_E_CANCELLED) return fail_with(&err);
    }
    progress_clear();
    return explain_end(t);
}

int reply_stream(struct talk *t, const struct tokens *prompt, const char *question)
{
    interrupt_watch(t->engine.session); /* at a prompt Ctrl-C cancels no reply: none of it may be left for the next */
    int code = stream(t, prompt, question);
    interrupt_watch(NULL);
    return code;
}

/* A terminal hands over at most this much of one line, and drops the rest. */
enum { TERMINAL_LINE_BYTES = 4095 };

/* A line as it comes, without an editor. */
static bool read_line(struct talk *t, struct buffer *line)
{
    char *text = NULL;
    size_t room = 0;
    buffer_clear(line);
    if (t->talks) fputs(t->opts->color ? "\033[1;32m> " : "> ", stdout);
    fflush(stdout);
    ssize_t n = getline(&text, &room, stdin);
    if (t->talks && t->opts->color) fputs("\033[0m", stdout);
    if (t->talks && n < 0) putchar('\n');
    if (t->talks && n >= TERMINAL_LINE_BYTES)
        say("the terminal may have cut this line at %d bytes; /read FILE has no limit", TERMINAL_LINE_BYTES);
    if (n > 0 && text[n - 1] == '\n') n--;
    if (n > 0) buffer_add(line, text, (size_t)n);
    free(text);
    return n >= 0;
}

bool read_user(struct talk *t, struct buffer *message)
{
    struct buffer line = {0};
    bool more = true;
    buffer_clear(message);
    while (more && (t->editor ? line_read(t->editor, &line) : read_line(t, &line))) {
        more = line.n_bytes > 0 && line.text[line.n_bytes - 1] == '\\';
        if (more) line.text[line.n_bytes - 1] = '\n';
        buffer_add(message, line.text, line.n_bytes);
    }
    buffer_free(&line);
    return !more || (message->n_bytes > 0 && !interrupted());
}

static double per_second(uint64_t n, uint64_t us)
{
    return us ? (double)n * 1e6 / (double)us : 0;
}

void reply_figures(const struct talk *t)
{
    struct lutra_stats s;
    if (!t->opts->perf || t->opts->engine.quiet || !t->engine.session) return;
    lutra_session_stats_get(t->engine.session, &s, sizeof s);
    if (s.rows_valid == 0) return;
    progress_clear();
    fprintf(stderr, "\n%s\n", lutra_runtime_device_text(t->engine.runtime));
    fprintf(stderr, "load:    %10.2f ms\n", (double)t->engine.load_us * 1e-3);
    fprintf(stderr, "prompt:  %10.2f ms / %5llu tokens (%.2f tokens per second), %llu more from the cache\n",
        (double)s.prompt_us * 1e-3, (unsigned long long)s.prompt_tokens, per_second(s.prompt_tokens, s.prompt_us),
        (unsigned long long)s.cached_tokens);
    fprintf(stderr, "decode:  %10.2f ms / %5llu tokens (%.2f tokens per second)\n", (double)s.decode_us * 1e-3,
        (unsigned long long)s.generated_tokens, per_second(s.generated_tokens, s.decode_us));
    fprintf(stderr, "sample:  %10.2f ms\n", (double)s.sample_us * 1e-3);
    fprintf(stderr, "rows:    %llu valid, %llu wasted, %llu underutilized in %llu passes\n",
        (unsigned long long)s.rows_valid, (unsigned long long)s.rows_wasted, (unsigned long long)s.rows_underutilized,
        (unsigned long long)s.n_pass);
    if (s.rows_drafted > 0)
        fprintf(stderr,
            "drafts:  %llu drafted, %llu accepted, %.2f tokens per pass, %.2f ms to find them: %.0f %% of the tokens "
            "took no pass of their own\n",
            (unsigned long long)s.rows_drafted, (unsigned long long)s.rows_accepted,
            (double)s.generated_tokens / (double)s.n_pass, (double)s.draft_us * 1e-3,
            100 * (double)s.rows_accepted / (double)(s.generated_tokens ? s.generated_tokens : 1));
    if (s.hint_rows + s.known_hint_rows > 0)
        fprintf(stderr, "hints:   %10.2f ms beside the prompt's / %5llu rows, %llu more known from the store\n",
            (double)s.hints_us * 1e-3, (unsigned long long)s.hint_rows, (unsigned long long)s.known_hint_rows);
}
