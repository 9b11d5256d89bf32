/* SPDX-License-Identifier: MIT
 *
 * `lutra run`: its options, and the order in which model, prompt, template, judge and store are opened and closed.
 * chat.c holds the conversation, reply.c makes one reply.
 */
#include "run/run.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT(field) offsetof(struct run_options, field)

static const struct option run_table[] = {
    {"-p --prompt", "PROMPT", OPT_TEXT, AT(prompt), "TEXT", .help = "prompt, or first message of a chat",
        .common = true},
    {"-f --file -bf --binary-file", "FILE", OPT_TEXT, AT(file), "FILE",
        .help = "read the prompt from a file; - is standard input", .common = true},
    {"-sys --system-prompt", "SYSTEM_PROMPT", OPT_TEXT, AT(system), "TEXT", .help = "system message of a chat",
        .common = true, .excludes = "-sysf -no-cnv"},
    {"-sysf --system-prompt-file", "SYSTEM_PROMPT_FILE", OPT_TEXT, AT(system_file), "FILE",
        .help = "the same from a file", .excludes = "-no-cnv"},
    {"-cnv --conversation", NULL, OPT_ON, AT(chat), NULL,
        .help = "chat; the default when the model has a chat template", .excludes = "-no-cnv"},
    {"-no-cnv --no-conversation", NULL, OPT_ON, AT(no_chat), NULL, .help = "continue the prompt as plain text",
        .common = true},
    {"--context-shift", "CONTEXT_SHIFT", OPT_ON, AT(roll), NULL,
        .help = "a chat longer than the context loses its oldest turns; the system message stays (default)"},
    {"--no-context-shift", NULL, OPT_OFF, AT(roll), NULL, .help = "it ends with an error"},
    {"-st --single-turn", NULL, OPT_ON, AT(single_turn), NULL, .help = "answer once and leave", .common = true},
    {"-i --interactive", NULL, OPT_ON, AT(interactive), NULL,
        .help =
            "ask for more after each reply: in plain text, and where standard input is no terminal, whose lines are "
            "turns then (else all of it is one message, behind that of -p or -f)"},
    {"-n --predict --n-predict", "N_PREDICT", OPT_INT, AT(n_predict), "N",
        .help = "most tokens of a reply; -1 = until the context is full", .min = -2, .max = 1 << 24, .common = true},
    {"-r --reverse-prompt", NULL, OPT_LIST, AT(reverse), "TEXT",
        .help = "stop a reply before this text; may be repeated"},
    {"-e --escape", NULL, OPT_ON, AT(escape), NULL,
        .help = "\\n, \\t, \\xHH ... in -p and -sys mean characters (default)"},
    {"--no-escape", NULL, OPT_OFF, AT(escape), NULL, .help = "leave backslashes in -p and -sys alone"},
    {"--ignore-eos", NULL, OPT_ON, AT(ignore_eos), NULL, .help = "go on after end-of-generation tokens"},
    {"--chat-template", "CHAT_TEMPLATE", OPT_TEXT, AT(template_text), "TEXT",
        .help =
            "chat template instead of the model's: Jinja, or a name, of a family (chatml, llama3, gemma ...) or one "
            "that the file has (tool_use ...)",
        .common = true, .excludes = "--chat-template-file -no-cnv"},
    {"--chat-template-file", "CHAT_TEMPLATE_FILE", OPT_TEXT, AT(template_file), "FILE", .help = "the same from a file",
        .excludes = "-no-cnv"},
    {"--no-display-prompt", NULL, OPT_OFF, AT(echo), NULL, .help = "plain text: do not repeat the prompt"},
    {"-sp --special --show-special", NULL, OPT_ON, AT(show_special), NULL, .help = "show control tokens"},
    {"--rag", "RAG", OPT_TEXT, AT(rag), "FILE",
        .help = "answer from the documents of this store ('lutra rag add --db FILE'): passages before the question, "
                "a list of them after the answer, which joins the store's history",
        .common = true},
    {"--rag-passages", "RAG_PASSAGES", OPT_INT, AT(rag_passages), "N",
        .help = "passages for one question, at most; fewer where the context is short", .min = 1, .max = 100,
        .needs = "--rag"},
    {"--rag-anyway", NULL, OPT_ON, AT(rag_anyway), NULL,
        .help = "ask the model although nothing was found; such an answer does not join the history", .needs = "--rag"},
    {"--history", "HISTORY", OPT_TEXT, AT(history), "FILE",
        .help = "what was typed, for arrows and Ctrl-R; '' = keep none. Else $XDG_STATE_HOME/lutra/history or "
                "~/.local/state/lutra/history"},
    {"-co --color", NULL, OPT_ON, AT(color), NULL, .help = "colour what the user types", .choices = "on off auto"},
    {"--perf", "PERF", OPT_ON, AT(perf), NULL, .help = "figures on stderr at the end (default)"},
    {"--no-perf", NULL, OPT_OFF, AT(perf), NULL, .help = "no figures"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct run_options *o = opts;
    engine_options_init(&o->engine);
    sampling_options_init(&o->sampling);
    search_options_init(&o->search);
    thinking_options_init(&o->thinking);
    o->n_predict = -1;
    o->rag_passages = 5;
    o->escape = o->perf = o->echo = o->roll = true;
}

static int list_sets(void *opts, struct option_set *set)
{
    struct run_options *o = opts;
    set[0] = (struct option_set){"Text", run_table, OPTION_COUNT(run_table), o, NULL};
    set[1] = search_option_set(&o->search);
    set[2] = judge_option_set(&o->search.judge);
    set[3] = engine_option_set(&o->engine);
    set[4] = sampling_option_set(&o->sampling);
    set[5] = speculation_option_set(&o->engine);
    set[6] = thinking_option_set(&o->thinking);
    set[7] = constraint_option_set(&o->constraint);
    set[8] = output_option_set(&o->engine);
    return 9;
}

/* The prompt of -p or -f in `out`; 0, or an exit code. */
static int read_prompt(const struct run_options *o, struct buffer *out)
{
    if (o->prompt && o->file) {
        say("run: -p and -f: give one of them");
        return EXIT_USAGE;
    }
    if (o->file) return read_file(o->file, out) < 0 ? EXIT_FAILED : 0;
    if (!o->prompt) return 0;
    buffer_add(out, o->prompt, strlen(o->prompt));
    if (o->escape) unescape(out->text, &out->n_bytes);
    return 0;
}

/* --chat-template: Jinja itself, or a name: a family's, else one of the model's own (in *own, to be freed). */
static int find_template(struct talk *t, const char *text, char **own)
{
    char names[256];
    t->chat_template = text;
    if (!text || strchr(text, '{')) return 0;
    t->chat_template = template_named(text);
    if (t->chat_template) return 0;
    if (lutra_chat_template(t->engine.model, text, own, NULL) == 0) {
        t->chat_template = *own;
        return 0;
    }
    template_list(names, sizeof names);
    say("run: --chat-template: '%s' is no Jinja, not one of: %s, and %s has none of that name", text, names,
        t->opts->engine.model);
    return EXIT_USAGE;
}

/* The system message of -sys or -sysf, in `text` where it is not the option's own. */
static int read_system(struct run_options *o, struct buffer *text)
{
    if (o->system_file && read_file(o->system_file, text) < 0) return EXIT_FAILED;
    if (!o->system_file && o->system && o->escape) {
        buffer_add(text, o->system, strlen(o->system));
        unescape(text->text, &text->n_bytes);
    }
    if (text->text) o->system = text->text;
    return 0;
}

/* Adds the tokens of a text behind those of `all`. */
static int append(struct talk *t, struct tokens *all, const char *text, size_t n, int flags)
{
    struct lutra_error err = {0};
    struct tokens more = {0};
    int rc = tokenize(t->engine.model, text, n, flags, &more, &err);
    if (rc == 0 && more.n) {
        all->id = grow_memory(all->id, (size_t)(all->n + more.n) * sizeof *all->id);
        memcpy(all->id + all->n, more.id, (size_t)more.n * sizeof *all->id);
        all->n = all->room = all->n + more.n;
    }
    free(more.id);
    return rc < 0 ? fail_with(&err) : 0;
}

/* Where passages go in plain text: behind all that was said.  They are text: a control token spelt in them is none. */
struct text_end {
    struct talk *talk;
    struct tokens *all;
    int n_before, n_question, flags; /* tokens; what the question takes */
};

static int put_bare(void *user, const char *message)
{
    struct text_end *e = user;
    e->all->n = e->n_before;
    return append(e->talk, e->all, message, strlen(message), e->flags) ? -1 : 1;
}

static int put_passages(void *user, const char *message)
{
    struct text_end *e = user;
    int n_ctx, rc = put_bare(user, message);
    lutra_session_sizes_get(e->talk->engine.session, &n_ctx, NULL, NULL);
    if (rc < 0 || e->all->n + e->n_question + rag_reserve(e->talk->opts->n_predict, n_ctx) <= n_ctx) return rc;
    e->all->n = e->n_before;
    return 0;
}

/* The passages for a question, as many as leave room for it and an answer. */
static int append_passages(struct talk *t, struct tokens *all, const struct buffer *question, int flags)
{
    struct text_end end = {.talk = t, .all = all, .n_before = all->n, .flags = flags};
    int code = append(t, all, question->text, question->n_bytes, LUTRA_PARSE_SPECIAL);
    end.n_question = all->n - end.n_before;
    all->n = end.n_before;
    struct rag_place place = {put_passages, put_bare, &end, true};
    return code ? code : rag_ask(&t->rag, question->text, question->n_bytes, &place);
}

/* What is asked for next, behind all that was said: passages for it, where there is a store, and the words of the
 * user. */
static int append_prompt(struct talk *t, struct tokens *all, const struct buffer *prompt)
{
    int special = all->n ? 0 : LUTRA_ADD_SPECIAL;
    int code = t->rag.store ? append_passages(t, all, prompt, special) : 0;
    if (t->rag.store) special = 0;
    return code ? code
                : append(t, all, prompt->text ? prompt->text : "", prompt->n_bytes, special | LUTRA_PARSE_SPECIAL);
}

/* Plain text: everything said so far is the prompt of the next reply. */
static int continue_text(struct talk *t, const struct buffer *prompt)
{
    struct tokens all = {0};
    struct buffer line = {0};
    int code = append_prompt(t, &all, prompt);
    if (!code && all.n == 0) {
        say("run: the prompt is empty; give one with -p or -f");
        code = EXIT_USAGE;
    }
    if (!code && t->opts->echo && prompt->n_bytes) {
        fwrite(prompt->text, 1, prompt->n_bytes, stdout);
        t->at_line_start = false;
    }
    while (!code) {
        code = reply_stream(t, &all, line.n_bytes ? line.text : prompt->text);
        if (!code && t->rag.store && t->end.reason != LUTRA_STOP_CANCELLED) {
            reply_end_line(t);
            code = rag_finish(&t->rag, &t->reply);
        }
        if (!code && reply_lacks_answer(t)) code = EXIT_FAILED;
        if (code || !t->opts->interactive || t->opts->single_turn) break;
        interrupt_clear();
        reply_end_line(t);
        if (!read_user(t, &line)) break;
        all.id = grow_memory(all.id, (size_t)(all.n + t->reply_tokens.n + 1) * sizeof *all.id);
        memcpy(all.id + all.n, t->reply_tokens.id, (size_t)t->reply_tokens.n * sizeof *all.id);
        all.n = all.room = all.n + t->reply_tokens.n;
        code = append_prompt(t, &all, &line);
    }
    reply_end_line(t);
    free(all.id);
    buffer_free(&line);
    return interrupted() ? EXIT_INTERRUPTED : code;
}

/* Is there something to read on standard input?  With -st, which needs none, a pipe that stays silent is left alone: a
 * script may have inherited it. */
static bool has_input(const struct run_options *o)
{
    enum { PATIENCE_MS = 300 };
    struct stat st;
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    if (fstat(STDIN_FILENO, &st) < 0 || S_ISCHR(st.st_mode)) return false;
    if (!o->single_turn || (!o->prompt && !o->file) || S_ISREG(st.st_mode)) return true;
    int ready = poll(&in, 1, PATIENCE_MS);
    if (ready == 0 && !o->engine.quiet) say("run: standard input is open but silent, and left alone because of -st");
    return ready > 0;
}

/* All of standard input; Ctrl-C ends the wait for it. */
static int read_stdin(struct buffer *out)
{
    enum { LOOK_MS = 200 };
    char chunk[16384];
    while (!interrupted()) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&in, 1, LOOK_MS) <= 0) continue; /* a signal may have come just before */
        ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
        if (n == 0) return 0;
        if (n > 0) buffer_add(out, chunk, (size_t)n);
        if (n < 0 && errno != EINTR) {
            say("standard input: %s", strerror(errno));
            return EXIT_FAILED;
        }
    }
    return EXIT_INTERRUPTED;
}

/* Standard input that is no terminal, behind the prompt of -p or -f.  0, or an exit code. */
static int read_input(struct talk *t, struct buffer *prompt)
{
    const struct run_options *o = t->opts;
    struct buffer input = {0};
    if (isatty(STDIN_FILENO) || o->interactive) return 0;
    t->one_message = true;
    if ((o->file && strcmp(o->file, "-") == 0) || !has_input(o)) return 0;
    int code = read_stdin(&input);
    if (input.n_bytes && input.text[input.n_bytes - 1] == '\n') input.n_bytes--;
    if (input.n_bytes && prompt->n_bytes) buffer_add(prompt, "\n\n", 2);
    if (input.n_bytes && prompt->n_bytes && !o->engine.quiet)
        say("run: %zu bytes of standard input follow the prompt (</dev/null: none)", input.n_bytes);
    if (input.n_bytes) buffer_add(prompt, input.text, input.n_bytes);
    buffer_free(&input);
    return code;
}

/* `lutra run model.gguf`: instead of the environment's, not beside -m. */
static int set_model(struct run_options *o, const char *path)
{
    if (o->engine.model && o->engine.model != getenv("LUTRA_ARG_MODEL")) {
        say("run: '%s' and -m %s: one model, please (a prompt needs -p)", path, o->engine.model);
        return EXIT_USAGE;
    }
    o->engine.model = path;
    return 0;
}

/* The editor, for who sits at a terminal; the path of its history stays in *path. */
static void open_editor(struct talk *t, char **path)
{
    const char *wanted = t->opts->history;
    t->talks = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (!t->talks || t->opts->single_turn) return;
    if (!wanted) *path = history_default_path();
    t->editor = line_open(wanted ? (*wanted ? wanted : NULL) : *path, t->opts->color);
}

/* A session with the drafters that are its own, and beside it drafts from the store. */
static int open_session(struct talk *t)
{
    bool wants_store;
    struct engine_options opts = t->opts->engine;
    struct lutra_session_settings settings;
    char *types = rag_take_types(opts.spec_type, &wants_store);
    lutra_session_settings_init(&settings, sizeof settings);
    if (t->searcher.wanted) settings.n_seq = t->searcher.settings.width;
    if (types && !t->rag.store) {
        say("run: --spec-type store: drafts from which store? Name it with --rag FILE");
        free(types);
        return EXIT_USAGE;
    }
    if (types) opts.spec_type = types;
    int code = engine_open_session(&t->engine, &opts, settings);
    interrupt_watch(NULL); /* reply_stream() watches while it runs */
    free(types);
    return !code && wants_store && t->rag.store ? rag_start_drafts(&t->rag, t->engine.model, t->engine.session) : code;
}

static int talk_open(struct talk *t)
{
    int code = engine_open(&t->engine, &t->opts->engine, false);
    if (!code && t->engine.info.encoder) {
        say("run: %s is an encoder (%s): it makes vectors of texts ('lutra embed') and writes none",
            t->opts->engine.model, t->engine.info.arch);
        code = EXIT_FAILED;
    }
    if (!code) sampling_from_model(&t->opts->sampling, t->engine.model, &t->sampling);
    if (!code) code = open_session(t);
    return code ? code : searcher_open(&t->searcher, &t->opts->search, &t->engine, t->opts->engine.model);
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct run_options *o = opts;
    struct talk t = {.opts = o, .at_line_start = true};
    t.rag =
        (struct rag){.path = o->rag, .n_passages = o->rag_passages, .anyway = o->rag_anyway, .quiet = o->engine.quiet};
    struct buffer prompt = {0}, chat_template = {0}, system = {0};
    char *history_path = NULL, *own_template = NULL;
    o->engine.more_models = o->search.judge.prm;
    int code = n_arg > 0 ? set_model(o, arg[0]) : 0;
    if (!code) code = engine_find_model(&o->engine);
    if (!code) code = searcher_init(&t.searcher, &o->search);
    if (!code) code = sampling_from_options(&o->sampling, t.bias, &t.sampling);
    if (!code) code = thinking_variables(&o->thinking, &t.variables);
    if (!code) code = read_prompt(o, &prompt);
    if (!code && o->template_file) code = read_file(o->template_file, &chat_template) < 0 ? EXIT_FAILED : 0;
    if (!code) code = read_system(o, &system);
    if (!code) code = constraint_read(&o->constraint);
    if (!code) code = rag_start(&t.rag);
    if (!code) code = talk_open(&t);
    if (!code) code = find_template(&t, o->template_text, &own_template);
    if (!code) {
        open_editor(&t, &history_path);
        code = read_input(&t, &prompt);
    }
    if (!code) {
        if (o->template_file) t.chat_template = chat_template.text;
        bool has_template = t.chat_template || t.engine.info.chat_template;
        if ((o->chat || o->system) && !has_template) {
            say("%s has no chat template; give one with --chat-template or use -no-cnv", o->engine.model);
            code = EXIT_FAILED;
        } else if (has_template && !o->no_chat) {
            code = chat(&t, &prompt);
        } else {
            code = continue_text(&t, &prompt);
        }
        reply_figures(&t);
    }
    interrupt_watch(NULL);
    lutra_session_close(&t.engine.session);
    searcher_close(&t.searcher, &t.engine);
    engine_close(&t.engine);
    line_close(&t.editor);
    rag_stop(&t.rag);
    free(history_path);
    lutra_free(own_template);
    free(t.reply_tokens.id);
    free(t.variables);
    buffer_free(&t.reply);
    buffer_free(&t.thought);
    buffer_free(&prompt);
    buffer_free(&chat_template);
    buffer_free(&system);
    buffer_free(&o->constraint.text);
    sampling_options_free(&o->sampling);
    return code;
}

const struct command command_run = {
    .name = "run",
    .arguments = "[MODEL]",
    .max_args = 1,
    .summary = "Answer a prompt or hold a chat",
    .notes = "In a chat /help lists the commands (/system /save /load /read /context /regen /clear /exit). A line "
             "ending in\n"
             "\\ goes on in the next; at a terminal Alt-Enter begins a new line, arrows and Ctrl-R bring back what was "
             "typed,\n"
             "and a paste arrives whole. Ctrl-C stops a reply; at an empty prompt it leaves.\n"
             "\n'lutra run -m MODEL -p TEXT <FILE', or a pipe in its place, asks one message: TEXT, then what the file "
             "says.",
    .opts_bytes = sizeof(struct run_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
