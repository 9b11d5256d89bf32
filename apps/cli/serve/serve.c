/* SPDX-License-Identifier: MIT
 *
 * lutra serve: options and models of the server in apps/server.
 */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/find.h"
#include "run/run.h"
#include "server/server.h"
#include "thinking.h"

struct serve_options {
    struct engine_options engine;
    struct sampling_options sampling;
    struct server_settings set;
    struct option_list models, alias, key, origin, host, prm, check, rag;
    int n_parallel, prompt_ms;
    const char *template_text, *template_file, *pooling, *models_folder;
    struct thinking_options thinking;
};

#define AT(field) offsetof(struct serve_options, field)

static const struct option serve_table[] = {
    {"-m --model", "MODEL", OPT_LIST, AT(models), "FILE",
        .help = "GGUF file or Hugging Face folder, or the name of one that another program has ('lutra models'); may "
                "be repeated",
        .common = true},
    {"-a --alias", "ALIAS", OPT_LIST, AT(alias), "NAME",
        .help = "a name of the model in requests and lists, instead of its file's; may be repeated, the first is shown",
        .common = true},
    {"--models-dir", "MODELS_DIR", OPT_TEXT, AT(models_folder), "FOLDER",
        .help = "instead of -m: requests may name any GGUF file in it, which is opened when it is asked for; without "
                "both, LUTRA_MODELS names the folder"},
    {"--models-max", "MODELS_MAX", OPT_INT, AT(set.most_models), "N",
        .help = "most models open at once; the one that was asked for longest ago makes room", .min = 1, .max = 1024},
    {"--sleep-idle-seconds", "SLEEP_IDLE_SECONDS", OPT_INT, AT(set.idle_s), "N",
        .help = "a model that nobody has asked for so long is closed until it is asked for again; 0 = never", .min = 0,
        .max = 1 << 30},
    {"--host", "HOST", OPT_TEXT, AT(set.host), "ADDRESS",
        .help = "address to listen on, or the path of a Unix socket, which is this user's", .common = true},
    {"--port", "PORT", OPT_INT, AT(set.port), "N", .help = "port; 0 = a free one", .min = 0, .max = 65535,
        .common = true},
    {"-np --parallel", "N_PARALLEL", OPT_INT, AT(n_parallel), "N",
        .help = "replies that are decoded together; others wait", .min = 1, .max = 1024, .common = true},
    {"--prompt-ms", "PROMPT_MS", OPT_INT, AT(prompt_ms), "N",
        .help =
            "while replies run, new prompts get so much of a pass that it takes about so many milliseconds; 0 = all "
            "that it has room for",
        .min = 0, .max = 3600000},
    {"-n --predict --n-predict", "N_PREDICT", OPT_INT, AT(set.max_tokens), "N",
        .help = "most tokens of a reply where a request names none; -1 = until the context is full", .min = -1,
        .max = 1 << 24},
    {"--api-key", "API_KEY", OPT_LIST, AT(key), "KEY",
        .help = "a key that requests must have (Authorization: Bearer KEY); may be repeated. Other users of this "
                "machine see it in the list of processes"},
    {"--api-key-file", "API_KEY_FILE", OPT_TEXT, AT(set.key_file), "FILE",
        .help =
            "keys, one in a line; behind a blank the name that the log shows, then what it may use: models=, stores=, "
            "judges= (names with commas), tokens=N of a reply, requests=N at once",
        .common = true},
    {"--no-auth", "NO_AUTH", OPT_ON, AT(set.no_auth), NULL,
        .help = "serve an address that other machines reach although there are no keys"},
    {"--allow-origin", "ALLOW_ORIGIN", OPT_LIST, AT(origin), "ORIGIN",
        .help = "pages of this origin may ask (https://app.example); '*' = all; may be repeated"},
    {"--allow-host", "ALLOW_HOST", OPT_LIST, AT(host), "NAME",
        .help = "without keys: another name of this server in the Host header; '*' = any; may be repeated"},
    {"--pooling", "POOLING", OPT_CHOICE, AT(pooling), "HOW",
        .help = "/v1/embeddings: which tokens' states make the vector: their mean, the first (cls) or the last one's; "
                "model: as the file says",
        .choices = "model mean cls last"},
    {"--prm", NULL, OPT_LIST, AT(prm), "[NAME=]FILE",
        .help =
            "verifier (reward model) for searches, by the name that requests give; may be repeated. Where a request "
            "names none, the first of these and of --check judges"},
    {"--check", NULL, OPT_LIST, AT(check), "[NAME=]CMD",
        .help = "verifier that is no model: countdown, equation, json-schema:FILE or a program (lutra run --help); may "
                "be repeated"},
    {"--rag", NULL, OPT_LIST, AT(rag), "[NAME=]STORE",
        .help = "documents (lutra rag) that requests may ask about, by the name that they give; may be repeated"},
    {"-to --timeout", "TIMEOUT", OPT_INT, AT(set.time_out_s), "N",
        .help = "seconds that a request's headers, and its body, may take", .min = 1, .max = 86400},
    {"--queue", "QUEUE", OPT_INT, AT(set.n_queue), "N",
        .help = "most requests at work or waiting; others are told to come back", .min = 1, .max = 65536},
    {"--connections", "CONNECTIONS", OPT_INT, AT(set.n_connection), "N", .help = "most open connections", .min = 1,
        .max = 65536},
    {"--sse-ping-interval", "SSE_PING_INTERVAL", OPT_INT, AT(set.ping_s), "N",
        .help = "seconds until a silent stream gets a comment, so that proxies keep it; 0 = never", .min = 0,
        .max = 86400},
    {"--context-shift", "CONTEXT_SHIFT", OPT_ON, AT(set.context_shift), NULL,
        .help = "a conversation longer than the context loses its oldest turns; system messages stay"},
    {"--no-context-shift", NULL, OPT_OFF, AT(set.context_shift), NULL,
        .help = "it is an error, where the request does not ask for it (default)"},
    {"--strict-model", "STRICT_MODEL", OPT_ON, AT(set.strict_model), NULL,
        .help = "a request that names another model is refused; else a single model answers to any name"},
    {"--chat-template", "CHAT_TEMPLATE", OPT_TEXT, AT(template_text), "TEXT",
        .help = "chat template instead of the model's: Jinja, or a family's name (chatml, llama3, gemma ...)",
        .excludes = "--chat-template-file"},
    {"--chat-template-file", "CHAT_TEMPLATE_FILE", OPT_TEXT, AT(template_file), "FILE", .help = "the same from a file"},
    {"--no-access-log", "NO_ACCESS_LOG", OPT_OFF, AT(set.access_log), NULL,
        .help = "no line on stderr for each request"},
    {"--log-jsonl", "LOG_JSONL", OPT_ON, AT(set.log_json), NULL,
        .help = "these lines are JSON, as they are where stderr is no terminal"},
    {"--no-log-jsonl", NULL, OPT_OFF, AT(set.log_json), NULL,
        .help = "they are for people, as on a terminal: requests that ask or fail, with --verbose all"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct serve_options *o = opts;
    *o = (struct serve_options){.n_parallel = 8, .prompt_ms = 100, .pooling = "model"};
    thinking_options_init(&o->thinking);
    engine_options_init(&o->engine);
    sampling_options_init(&o->sampling);
    server_settings_init(&o->set);
    o->set.log_json = !isatty(STDERR_FILENO);
}

static int list_sets(void *opts, struct option_set *set)
{
    struct serve_options *o = opts;
    set[0] = (struct option_set){"Server", serve_table, OPTION_COUNT(serve_table), o, NULL};
    set[1] = engine_option_set(&o->engine);
    set[1].option++; /* -m, which may be repeated here */
    set[1].n--;
    set[2] = speculation_option_set(&o->engine);
    set[3] = sampling_option_set(&o->sampling);
    set[4] = thinking_option_set(&o->thinking);
    set[5] = output_option_set(&o->engine);
    return 6;
}

enum { JUDGES_MOST = 2 * OPTION_LIST_MAX + 1, JUDGE_SEQ = 16, STEPS_MOST = 64 };

struct service {
    struct serve_options *opts;
    struct engine engine;
    struct server_model *model;
    struct model_list found; /* of --models-dir */
    struct model_options model_options;
    struct lutra_sampling sampling; /* of the options; biases borrow from here */
    struct lutra_logit_bias bias[OPTION_LIST_MAX];
    struct server_judge judge[JUDGES_MOST]; /* "likelihood" of the model itself, then --prm, then --check */
    const char *judge_value[JUDGES_MOST];   /* path or command */
    lutra_model *prm[OPTION_LIST_MAX];
    struct server_store store[OPTION_LIST_MAX];
};

/* Tokens of the mark that a verifier wants behind each step. */
static int count_mark(const lutra_model *model)
{
    struct lutra_model_info info;
    int n = 0;
    lutra_model_info_get(model, &info, sizeof info);
    if (info.step_mark &&
        lutra_tokenize(model, info.step_mark, strlen(info.step_mark), LUTRA_PARSE_SPECIAL, NULL, 0, &n, NULL) < 0)
        return 0;
    return n;
}

static int open_judge(struct service *v, int i, struct server_loaded *loaded, struct lutra_error *err)
{
    struct lutra_verifier_settings set;
    int n_prm = v->opts->prm.n, n_ctx, rc = 0;
    lutra_verifier_settings_init(&set, sizeof set);
    set.command = v->judge_value[i];
    if (i > n_prm) return lutra_verifier_open(&loaded->judge[i], "program", &set, err);
    set.n_seq = v->judge[i].n_seq;
    lutra_model **prm = i == 0 ? NULL : &v->prm[i - 1];
    if (prm && !*prm) {
        struct lutra_model_settings model;
        lutra_model_settings_init(&model, sizeof model);
        model.device = v->engine.second_device;
        rc = engine_open_model(&v->engine, prm, v->judge_value[i], &model, true, err);
    }
    if (rc < 0) return rc;
    lutra_session_sizes_get(loaded->session, &n_ctx, NULL, NULL);
    set.n_ctx = prm ? n_ctx + 1 + count_mark(*prm) * STEPS_MOST : 0;
    set.model = prm ? *prm : loaded->model;
    return lutra_verifier_open(&loaded->judge[i], prm ? NULL : "likelihood", &set, err);
}

static int open_judges(struct service *v, struct server_loaded *loaded, struct lutra_error *err)
{
    struct lutra_model_info info;
    int n = v->opts->set.n_judge, rc = 0;
    lutra_model_info_get(loaded->model, &info, sizeof info);
    loaded->judge = get_memory((size_t)n * sizeof(lutra_verifier *));
    for (int i = 0; i < n; i++) loaded->judge[i] = NULL;
    for (int i = 0; i < n && rc == 0 && !info.encoder; i++) rc = open_judge(v, i, loaded, err);
    return rc;
}

static void close_model(void *user, int i, struct server_loaded *loaded)
{
    const struct service *v = user;
    (void)i;
    lutra_session_close(&loaded->session);
    for (int k = 0; loaded->judge && k < v->opts->set.n_judge; k++) lutra_verifier_close(&loaded->judge[k]);
    free(loaded->judge);
    loaded->judge = NULL;
    lutra_model_close(&loaded->model);
}

static int open_model(void *user, int i, struct server_loaded *out, struct lutra_error *err)
{
    struct service *v = user;
    struct serve_options *o = v->opts;
    struct lutra_model_settings model = v->model_options.set;
    struct lutra_session_settings session;
    lutra_session_settings_init(&session, sizeof session);
    *out = (struct server_loaded){.n_seq = o->n_parallel, .sampling = v->sampling, .pooling = pooling_of(o->pooling)};
    session.n_seq = o->n_parallel;
    session.prompt_us = (uint64_t)o->prompt_ms * 1000;
    engine_session_settings(&v->engine, &o->engine, &session);
    int rc = engine_open_model(&v->engine, &out->model, v->model[i].path, &model, o->set.n_model > 1, err);
    if (rc == 0) rc = engine_open_draft_model(&v->engine, &o->engine, err);
    session.draft_model = v->engine.draft_model;
    if (rc == 0) rc = lutra_session_open(&out->session, out->model, &session, err);
    if (rc == 0) sampling_from_model(&o->sampling, out->model, &out->sampling);
    if (rc == 0) rc = open_judges(v, out, err);
    if (rc < 0) close_model(v, i, out);
    progress_clear();
    if (rc == 0 && session.timeline && o->set.n_model > 1) {
        const struct timeline_file *file = &v->engine.timeline[v->engine.n_timeline - 1];
        say("timeline of %s: %s", v->model[i].name[0], file->svg ? file->svg : file->trace);
    }
    return rc;
}

static void digest_model(void *user, int i, char out[SERVER_DIGEST_BYTES])
{
    const struct service *v = user;
    model_digest(v->model[i].path, out);
}

/* "models/name-f16.gguf" is "name-f16". */
static char *short_name(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && path[from - 1] != '/') from--;
    char *name = copy_text(path + from);
    name[n - from] = 0;
    if (n - from > 5 && strcmp(name + n - from - 5, ".gguf") == 0) name[n - from - 5] = 0;
    return name;
}

/* A model by n names, which are copied. */
static void add_model(struct service *v, const char *const *name, int n, const char *path)
{
    int i = v->opts->set.n_model++;
    v->model = grow_memory(v->model, (size_t)(i + 1) * sizeof *v->model);
    const char **names = get_memory((size_t)n * sizeof *names);
    for (int k = 0; k < n; k++) names[k] = copy_text(name[k]);
    v->model[i] = (struct server_model){names, n, path};
    v->opts->set.model = v->model;
}

/* Those of a folder, by their files' names; 0 or an exit code. */
static int name_folder(struct service *v)
{
    const char *folder = v->opts->models_folder;
    models_in(&v->found, folder);
    for (int i = 0; i < v->found.n; i++)
        if (!v->found.model[i].why && !model_verifies(&v->found.model[i]))
            add_model(v, (const char *const *)&v->found.model[i].name, 1, v->found.model[i].path);
    v->opts->set.open_when_asked = true;
    if (v->opts->set.n_model > 0) return 0;
    say("serve: %s: no GGUF files in it", folder);
    return EXIT_FAILED;
}

/* All that are on this machine, the one to begin with first; 0 or an exit code. */
static int name_found(struct service *v)
{
    models_list(&v->found);
    const struct found_model *first = models_first(&v->found);
    if (!first) {
        say("serve: no model that runs here is on this machine: 'lutra pull USER/REPO' gets one, -m FILE names one");
        return EXIT_FAILED;
    }
    add_model(v, (const char *const *)&first->name, 1, first->path);
    for (int i = 0; i < v->found.n; i++)
        if (!v->found.model[i].why && &v->found.model[i] != first && !model_verifies(&v->found.model[i]))
            add_model(v, (const char *const *)&v->found.model[i].name, 1, v->found.model[i].path);
    if (!v->opts->engine.quiet)
        say("no model is named: of those on this machine (lutra models) %s answers; requests and the page may name "
            "another",
            first->name);
    return 0;
}

/* Names and paths of the models; 0 or an exit code. */
static int name_models(struct service *v)
{
    struct serve_options *o = v->opts;
    int n = o->models.n, code;
    if (!o->models_folder && n == 0 && !o->engine.hf_repo) o->models_folder = getenv("LUTRA_MODELS");
    if (o->models_folder && !*o->models_folder) o->models_folder = NULL;
    if ((o->engine.hf_repo != NULL) + (n > 0) + (o->models_folder != NULL) > 1) {
        say("serve: -m, -hf and --models-dir: one of them, please");
        return EXIT_USAGE;
    }
    if (o->engine.hf_repo) o->models.item[n++] = o->engine.hf_repo;
    bool single = o->alias.n || o->engine.draft_model || o->engine.packed || v->model_options.set.n_adapter;
    if ((n > 1 || o->models_folder) && single) {
        say("serve: --alias, --model-draft, --packed and --lora are for a single model");
        return EXIT_USAGE;
    }
    for (int i = 0; i < n; i++) {
        if (!o->engine.hf_repo) o->engine.model = o->models.item[i];
        if ((code = engine_find_model(&o->engine)) || (code = engine_check_options(&o->engine))) return code;
        if (access(o->engine.model, R_OK) < 0) { /* others than the first are opened when they are asked for */
            say("%s: %s", o->engine.model, strerror(errno));
            return EXIT_FAILED;
        }
        char *file = short_name(o->models.item[i]);
        const char *names[] = {file, o->models.item[i]};
        add_model(v, o->alias.n ? o->alias.item : names, o->alias.n ? o->alias.n : 2, o->engine.model);
        free(file);
    }
    if (o->models_folder) return name_folder(v);
    return n > 0 ? 0 : single ? engine_check_options(&o->engine) : name_found(v);
}

static void free_models(struct service *v)
{
    for (int i = 0; i < v->opts->set.n_model; i++) {
        for (int k = 0; k < v->model[i].n_name; k++) free((void *)v->model[i].name[k]);
        free((void *)v->model[i].name);
    }
    free(v->model);
    models_free(&v->found);
}

/* "NAME=VALUE", or a value and its own name: a file's, or the command.  Returns the name, the caller's. */
static char *read_name(const char *text, bool is_file, const char **value)
{
    size_t n = strcspn(text, "=/ ");
    bool is_named = n > 0 && text[n] == '=';
    char *name = is_file && !is_named ? short_name(text) : copy_text(text);
    if (is_named) name[n] = 0;
    *value = is_named ? text + n + 1 : text;
    return name;
}

static void add_judge(struct service *v, const char *text, bool is_file, int n_seq)
{
    int i = v->opts->set.n_judge++;
    v->judge[i] = (struct server_judge){read_name(text, is_file, &v->judge_value[i]), n_seq, false};
}

/* Documents, and the names that requests give them; 0 or an exit code. */
static int name_stores(struct service *v)
{
    struct serve_options *o = v->opts;
    o->set.store = v->store;
    for (int i = 0; i < o->rag.n; i++) {
        v->store[i].name = read_name(o->rag.item[i], true, &v->store[i].path);
        o->set.n_store = i + 1;
        for (int k = 0; k < i; k++)
            if (strcmp(v->store[i].name, v->store[k].name) == 0) {
                say("serve: two stores are named '%s': NAME=STORE gives one another name", v->store[i].name);
                return EXIT_USAGE;
            }
    }
    return 0;
}

/* Who may judge, and by which names; 0 or an exit code. */
static int name_judges(struct service *v)
{
    const struct serve_options *o = v->opts;
    int n_seq = o->n_parallel > JUDGE_SEQ ? o->n_parallel : JUDGE_SEQ;
    v->judge[0] = (struct server_judge){"likelihood", 0, true};
    v->opts->set.n_judge = 1;
    v->opts->set.judge = v->judge;
    for (int i = 0; i < o->prm.n; i++) add_judge(v, o->prm.item[i], true, n_seq);
    for (int i = 0; i < o->check.n; i++) add_judge(v, o->check.item[i], false, 0);
    for (int i = 0; i < o->set.n_judge; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(v->judge[i].name, v->judge[k].name) == 0) {
                say("serve: two verifiers are named '%s': NAME=FILE gives one another name", v->judge[i].name);
                return EXIT_USAGE;
            }
    return 0;
}

/* --chat-template: Jinja, or a family's name. */
static int find_template(struct serve_options *o, struct buffer *file)
{
    char names[256];
    if (o->template_file && read_file(o->template_file, file) < 0) return EXIT_FAILED;
    o->set.chat_template = o->template_file ? file->text : o->template_text;
    if (!o->set.chat_template || strchr(o->set.chat_template, '{')) return 0;
    const char *known = template_named(o->set.chat_template);
    template_list(names, sizeof names);
    if (!known) say("serve: --chat-template: '%s' is no Jinja and not one of: %s", o->set.chat_template, names);
    o->set.chat_template = known;
    return known ? 0 : EXIT_USAGE;
}

static int serve(void *opts, const char **arg, int n_arg)
{
    struct serve_options *o = opts;
    struct service v = {.opts = o};
    struct buffer file = {0};
    (void)arg;
    (void)n_arg;
    o->set.say = say;
    o->set.line = message_line;
    if (!server_is_built()) return server_run(&o->set) < 0 ? EXIT_FAILED : EXIT_OK;
    o->set.key = o->key.item;
    o->set.n_key = o->key.n;
    o->set.allow_origin = o->origin.item;
    o->set.n_allow_origin = o->origin.n;
    o->set.allow_host = o->host.item;
    o->set.n_allow_host = o->host.n;
    o->set.reasoning_in_text = thinking_in_answer(&o->thinking);
    o->set.reasoning_budget = o->thinking.budget > 0 ? o->thinking.budget : -1;
    o->set.chat_flags = thinking_flags(&o->thinking);
    o->set.access_log = o->set.access_log && !o->engine.quiet;
    o->set.log_all = o->engine.verbose;
    o->set.open = open_model;
    o->set.close = close_model;
    o->set.digest = digest_model;
    o->set.user = &v;
    char *variables = NULL;
    int code = thinking_variables(&o->thinking, &variables);
    o->set.chat_variables = variables;
    if (!code) code = sampling_from_options(&o->sampling, v.bias, &v.sampling);
    if (!code) code = find_template(o, &file);
    if (!code) code = engine_model_settings(&o->engine, &v.model_options);
    if (!code) code = name_models(&v);
    if (!code) code = name_judges(&v);
    if (!code) code = name_stores(&v);
    v.engine.zeros = o->engine.zeros;
    if (!code) code = engine_open_runtime(&v.engine, &o->engine);
    o->set.runtime = v.engine.runtime;
    if (!code) messages_may_be_lost();
    if (!code) code = server_run(&o->set) < 0 ? EXIT_FAILED : EXIT_OK;
    if (code == EXIT_FAILED && interrupted()) code = EXIT_INTERRUPTED;
    for (int i = 0; i < o->prm.n; i++) lutra_model_close(&v.prm[i]);
    engine_close(&v.engine);
    for (int i = 0; i < o->set.n_store; i++) free((void *)v.store[i].name);
    for (int i = 1; i < o->set.n_judge; i++) free((void *)v.judge[i].name);
    free_models(&v);
    model_options_free(&v.model_options);
    free(variables);
    buffer_free(&file);
    sampling_options_free(&o->sampling);
    return code;
}

const struct command command_serve = {
    .name = "serve",
    .arguments = "",
    .summary = "Answer programs over HTTP: the APIs of OpenAI, Anthropic, Ollama and llama.cpp's server",
    .notes =
        "Only this machine is answered unless --host names another address, and that needs keys (--api-key-file).\n"
        "SIGTERM answers what was taken in, then ends; docs/SERVER.md lists endpoints and fields.",
    .opts_bytes = sizeof(struct serve_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = serve,
};
