/* SPDX-License-Identifier: MIT */
#include "eval/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of `all`. */
static const char *const part[] = {"suffix", "ngram-simple", "calibrated", "recycle", "store"};
enum { N_PART = sizeof part / sizeof *part };

/* ---- methods ---- */

static void add_drafter(struct spec_method *m, const char *name)
{
    m->uses_model |= !strcmp(name, "draft");
    m->uses_store |= !strcmp(name, "store") || !strcmp(name, "auto");
    if (!strcmp(name, "none") || !strcmp(name, "store")) return; /* the store's are no session's */
    size_t at = strlen(m->types);
    snprintf(m->types + at, sizeof m->types - at, "%s%s", at ? "," : "", name);
}

/* "none", "auto" (the session's, and the store), "all", "all-X", or drafters joined by "+". */
static void add_drafters(struct spec_method *m)
{
    char words[sizeof m->name];
    bool all = !strncmp(m->name, "all", 3) && (m->name[3] == 0 || m->name[3] == '-');
    for (int i = 0; all && i < N_PART; i++)
        if (m->name[3] == 0 || strcmp(m->name + 4, part[i]) != 0) add_drafter(m, part[i]);
    if (all) return;
    snprintf(words, sizeof words, "%s", m->name);
    char *rest = words;
    for (char *word; (word = strsep(&rest, "+"));)
        if (*word) add_drafter(m, word);
}

static int add_method(struct spec_run *run, const char *name, size_t n)
{
    struct spec_method *m = &run->method[run->n_method];
    if (run->n_method == SPEC_METHODS_MAX || n >= sizeof m->name) {
        say("eval: --spec-methods: more than %d methods, or '%.*s' is too long", SPEC_METHODS_MAX, (int)n, name);
        return EXIT_USAGE;
    }
    *m = (struct spec_method){.right = -1, .joules = -1};
    snprintf(m->name, sizeof m->name, "%.*s", (int)n, name);
    char *end = m->name;
    if (run->mode == SPEC_REPLAY && strcmp(m->name, "none") != 0) {
        m->right = strtod(m->name, &end);
        if (end == m->name || *end || !(m->right >= 0 && m->right <= 1)) {
            say("eval: --spec-methods: '%s' is no probability (replay)", m->name);
            return EXIT_USAGE;
        }
    } else {
        add_drafters(m);
    }
    if (m->uses_store && run->set.no_store) {
        say("eval: %s is left out: %s", m->name, run->set.no_store);
        return 0;
    }
    m->outcome = get_memory((size_t)run->set.n * sizeof *m->outcome);
    run->n_method++;
    return 0;
}

static int add_methods(struct spec_run *run)
{
    const char *list = run->opts->spec_methods;
    char rest[32];
    if (!list && run->mode == SPEC_REPLAY) list = "none,0,0.41,0.76,0.82,0.95";
    const char *at = list ? list : "none,ngram-simple," SPEC_OURS_OF_PLD ",suffix,suffix+store,recycle,auto,all";
    int code = 0;
    if (strncmp(at, "none", 4) != 0) code = add_method(run, "none", 4); /* its texts are what the others must say */
    for (; !code && *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        code = add_method(run, at, n);
        at += n;
    }
    static const char *const with_model[] = {"draft", "auto+draft"};
    for (int i = 0; !code && !list && run->opts->engine.draft_model && i < 2; i++)
        code = add_method(run, with_model[i], strlen(with_model[i]));
    for (int i = 0; !code && !list && i < N_PART; i++)
        code = add_method(run, rest, (size_t)snprintf(rest, sizeof rest, "all-%s", part[i]));
    return code;
}

/* ---- one text ---- */

struct path {
    int at, n; /* of the text's tokens */
    int32_t token[SPEC_PATH_MOST];
};

struct telling {
    const struct spec_run *run;
    struct spec_item *item;
    struct spec_method *m;
    struct spec_outcome *out;
    struct path *path; /* [n_path] the store's likeliest, at each question */
    int n_path, room, n_said;
    bool is_first, differs; /* is_first: nobody has said it yet */
};

/* Whether a text ends with the same tokens three times over. */
static bool repeats(const struct tokens *text)
{
    for (int n = 1; 3 * n <= text->n; n++) {
        const int32_t *last = text->id + text->n - n;
        if (!memcmp(last, last - n, (size_t)n * sizeof *last) && !memcmp(last, last - 2 * n, (size_t)n * sizeof *last))
            return true;
    }
    return false;
}

static int on_text(void *user, const struct lutra_piece *piece)
{
    struct telling *t = user;
    struct tokens *said = &t->item->target;
    if (piece->token < 0) return 0;
    int at = t->n_said++;
    if (t->is_first) {
        if (said->n == said->room) {
            said->room = said->room * 2 + 64;
            said->id = grow_memory(said->id, (size_t)said->room * sizeof *said->id);
        }
        said->id[said->n++] = piece->token;
    }
    t->differs |= at >= said->n || said->id[at] != piece->token;
    return 0;
}

static void on_end(void *user, const struct lutra_end *end)
{
    struct telling *t = user;
    t->out->n_tok = end->n_tok + (end->reason == LUTRA_STOP_END);
    t->out->n_pass = end->n_pass;
    t->out->first_us = end->first_us;
    t->out->end_us = end->end_us;
    if (t->is_first && end->reason == LUTRA_STOP_LENGTH) t->item->loops = repeats(&t->item->target);
}

static uint64_t hash(uint64_t x)
{
    x = (x ^ x >> 31) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

/* The text's own tokens, each right with a probability. */
static int replay(const struct telling *t, int at, struct lutra_draft *draft, int n_max)
{
    const struct tokens *said = &t->item->target;
    int n = 0;
    for (; n < n_max && at + n < said->n; n++) {
        bool is_right = (double)(hash((uint64_t)(at + n) + 977) >> 11) * 0x1p-53 < t->m->right;
        int32_t token = said->id[at + n];
        draft[n] = (struct lutra_draft){.token = is_right    ? token
                                                 : token > 0 ? token - 1
                                                             : 1,
            .parent = n - 1,
            .p = (float)t->m->right};
    }
    return n;
}

static void keep_path(struct telling *t, int at, const struct lutra_draft *draft, int n)
{
    if (t->n_path == t->room) {
        t->room = t->room * 2 + 64;
        t->path = grow_memory(t->path, (size_t)t->room * sizeof *t->path);
    }
    struct path *p = &t->path[t->n_path++];
    *p = (struct path){.at = at};
    for (int i = 0, end = -1; i < n && p->n < SPEC_PATH_MOST; i++)
        if (draft[i].parent == end) p->token[p->n++] = draft[i].token, end = i;
}

static int on_draft(void *user, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    struct telling *t = user;
    int at = tip->n_token - t->item->prompt.n;
    if (t->run->mode == SPEC_REPLAY) return replay(t, at, draft, n_max);
    int n = lutra_drafts_guess(t->m->drafts, tip, draft, n_max);
    if (n > 0) keep_path(t, at, draft, n);
    return n;
}

/* Does path[i ..] go on as the text does from `at` on, for two tokens? */
static bool goes_on(const struct path *p, int i, const struct tokens *text, int at)
{
    return i + 1 < p->n && at + 1 < text->n && p->token[i] == text->id[at] && p->token[i + 1] == text->id[at + 1];
}

/* Behind a path's first wrong token: the text has tokens more (missing), others instead or less than the path
 * (synonym), or goes another way within 4 tokens (redundant). */
static void classify(struct telling *t, const struct path *p)
{
    const struct tokens *text = &t->item->target;
    int i = 0, kind = REJECT_REDUNDANT;
    while (i < p->n && p->at + i < text->n && p->token[i] == text->id[p->at + i]) i++;
    if (i == p->n || p->at + i >= text->n) return; /* none was wrong */
    for (int skip = 4; skip >= 0; skip--)          /* tokens of the path that are passed over, tokens of the text */
        for (int more = 4; more >= 0; more--)
            if (skip + more > 0 && goes_on(p, i + skip, text, p->at + i + more))
                kind = skip == 0 ? REJECT_MISSING : REJECT_SYNONYM;
    t->out->rejected[kind]++;
}

static int tell(struct spec_run *run, struct spec_method *m, int i)
{
    double before = 0, after = 0;
    struct lutra_error err = {0};
    struct spec_item *item = &run->set.item[i];
    struct telling t = {.run = run,
        .item = item,
        .m = m,
        .out = &m->outcome[i],
        .is_first = m == run->method && run->mode != SPEC_FORCED};
    struct lutra_request r;
    struct lutra_request_experiment x;
    lutra_request_init(&r, sizeof r);
    lutra_request_experiment_init(&x, sizeof x);
    r.prompt = item->prompt.id;
    r.n_prompt = item->prompt.n;
    r.max_tokens = run->opts->max_tokens;
    r.sampling = &run->sampling;
    if (run->mode == SPEC_FORCED) {
        x.forced = item->target.id;
        x.n_forced = item->target.n;
        r.ignore_end = true;
    }
    r.on_text = on_text;
    r.on_end = on_end;
    if (m->drafts || m->right >= 0) r.on_draft = on_draft;
    x.likely = m->likely;
    x.n_likely = m->n_likely;
    r.experiment = &x;
    r.user = &t;
    interrupt_watch(m->session);
    bool counts = energy_read(&before);
    int rc = lutra_generate(m->session, &r, &err);
    if (counts && energy_read(&after) && after >= before) m->joules = fmax(m->joules, 0) + after - before;
    m->n_other += t.differs;
    for (int k = 0; k < t.n_path; k++) classify(&t, &t.path[k]);
    free(t.path);
    return rc < 0 ? fail_with(&err) : interrupted() ? EXIT_INTERRUPTED : 0;
}

/* ---- all texts with all methods ---- */

static int open_session(struct spec_run *run, struct spec_method *m)
{
    struct engine_options opts = run->opts->engine;
    struct lutra_session_settings settings;
    lutra_session_settings_init(&settings, sizeof settings);
    settings.n_ctx =
        opts.n_ctx ? opts.n_ctx : run->set.longest + (run->mode == SPEC_FORCED ? 1 : run->opts->max_tokens);
    opts.spec_type = *m->types ? m->types : "none";
    opts.quiet = true;
    lutra_model *draft_model = run->engine.draft_model;
    if (!m->uses_model) opts.draft_model = NULL, run->engine.draft_model = NULL;
    int code = engine_open_session(&run->engine, &opts, settings);
    if (!m->uses_model) run->engine.draft_model = draft_model;
    m->session = run->engine.session;
    run->engine.session = NULL;
    if (!code) lutra_session_sizes_get(m->session, NULL, NULL, &m->session_bytes);
    return code;
}

static int open_method(struct spec_run *run, struct spec_method *m)
{
    struct lutra_error err = {0};
    struct lutra_drafts_stats st;
    int code = open_session(run, m);
    if (code || !m->uses_store) return code;
    if (lutra_drafts_open(&m->drafts, run->set.store, run->engine.model, progress_callback, NULL, &err) < 0)
        return fail_with(&err);
    lutra_drafts_stats_get(m->drafts, &st, sizeof st);
    m->store_bytes = st.segment_bytes;
    m->n_likely = lutra_drafts_likely(m->drafts, m->likely, SHORTLIST_MOST, &err);
    return m->n_likely < 0 ? fail_with(&err) : 0;
}

static int run_methods(struct spec_run *run)
{
    int code = 0;
    for (int k = 0; !code && k < run->n_method; k++) code = open_method(run, &run->method[k]);
    for (int i = 0; !code && i < run->set.n; i++) {
        progress_show("questions", (uint64_t)i, (uint64_t)run->set.n);
        for (int k = 0; !code && k < run->n_method; k++) code = tell(run, &run->method[k], i);
    }
    interrupt_watch(NULL);
    for (int k = 0; k < run->n_method; k++) {
        struct spec_method *m = &run->method[k];
        if (m->session) lutra_session_stats_get(m->session, &m->stats, sizeof m->stats);
        lutra_drafts_close(&m->drafts);
        lutra_session_close(&m->session);
    }
    return code;
}

static int check_texts(const struct spec_run *run)
{
    int code = 0;
    for (int i = 0; i < run->n_method; i++) {
        if (run->method[i].n_other == 0) continue;
        say("eval: %s: %d texts are not those without drafts", run->method[i].name, run->method[i].n_other);
        code = EXIT_FAILED;
    }
    return code;
}

static int evaluate(struct spec_run *run)
{
    struct buffer chat_template = {0};
    const struct eval_options *o = run->opts;
    int code = spec_read(&run->set, o);
    if (!code) code = add_methods(run);
    if (!code) code = engine_open(&run->engine, &o->engine, false);
    if (!code && o->template_file) code = read_file(o->template_file, &chat_template) < 0 ? EXIT_FAILED : 0;
    if (!code) code = spec_tokenize(&run->set, &run->engine, chat_template.text, run->mode == SPEC_FORCED);
    if (!code) code = run_methods(run);
    progress_clear();
    if (!code) spec_print(run);
    if (!code && o->report) code = spec_report(run);
    buffer_free(&chat_template);
    return code ? code : check_texts(run);
}

int spec_evaluate(struct eval_options *o)
{
    static const char *const modes[] = {"free", "forced", "replay"};
    struct spec_run *run = get_memory(sizeof *run);
    *run = (struct spec_run){.opts = o};
    for (int i = 0; i < 3; i++)
        if (!strcmp(o->spec_mode, modes[i])) run->mode = (enum spec_mode)i;
    int code = sampling_from_options(&o->sampling, run->bias, &run->sampling);
    if (!code) code = evaluate(run);
    sampling_options_free(&o->sampling);
    for (int i = 0; i < run->n_method; i++) free(run->method[i].outcome);
    spec_free(&run->set);
    engine_close(&run->engine);
    free(run);
    return code;
}
