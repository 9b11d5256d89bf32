/* SPDX-License-Identifier: MIT
 *
 * lutra models: what other programs have put on this machine, and whether it runs here.  lutra pull: one more.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "find.h"
#include "hub.h"
#include "server/server.h"

struct models_options {
    bool paths;
};

#define AT(field) offsetof(struct models_options, field)

static const struct option models_table[] = {
    {"--paths", NULL, OPT_ON, AT(paths), NULL, .help = "the path of each, too"},
};
#undef AT

static void set_defaults(void *opts)
{
    memset(opts, 0, sizeof(struct models_options));
}

static int list_sets(void *opts, struct option_set *set)
{
    set[0] = (struct option_set){"Options", models_table, OPTION_COUNT(models_table), opts, NULL};
    return 1;
}

/* What a table's line says. */
struct facts {
    char size[32], type[16], arch[32];
    char verdict[512];
    bool fits, verifies;
};

/* The type most bytes are in. */
static void name_type(const json_t *tensors, char *out, size_t n_out)
{
    struct {
        const char *name;
        double bytes;
    } sum[32] = {{NULL, 0}};
    int best = 0;
    size_t i;
    json_t *t;
    json_array_foreach((json_t *)tensors, i, t)
    {
        const char *name = json_string_value(json_object_get(t, "type"));
        int k = 0;
        while (name && k < 31 && sum[k].name && strcmp(sum[k].name, name) != 0) k++;
        sum[k].name = name;
        sum[k].bytes += json_number_value(json_object_get(t, "bytes"));
        if (sum[k].bytes > sum[best].bytes) best = k;
    }
    snprintf(out, n_out, "%s", sum[best].name ? sum[best].name : "?");
}

/* Weights, and a cache of 4096 tokens or as many as the model knows. */
static void judge_memory(const json_t *memory, struct facts *out)
{
    char need[32], have[32];
    double context = json_number_value(json_object_get(memory, "context_train"));
    double bytes =
        json_number_value(json_object_get(memory, "weights")) +
        json_number_value(json_object_get(memory, "cache_per_token_f16")) * (context < 4096 ? context : 4096);
    double available = json_number_value(json_object_get(memory, "available_now"));
    out->fits = bytes <= available;
    if (out->fits)
        snprintf(out->verdict, sizeof out->verdict, "fits");
    else
        snprintf(out->verdict, sizeof out->verdict, "needs %s, %s are free", bytes_text(bytes, need, sizeof need),
            bytes_text(available, have, sizeof have));
}

static void read_facts(struct found_model *m, struct facts *out)
{
    char *text = NULL;
    struct lutra_error err = {0};
    *out = (struct facts){"-", "-", "-", "", false, false};
    m->is_read = true;
    if (m->why || lutra_inspect(m->path, &text, &err) < 0) {
        snprintf(out->verdict, sizeof out->verdict, "%s", m->why ? m->why : err.what);
        return;
    }
    json_t *root = json_loads(text, 0, NULL);
    const json_t *metadata = json_object_get(root, "metadata");
    const char *arch = json_string_value(json_object_get(metadata, "general.architecture"));
    const json_t *unsupported = json_object_get(root, "unsupported");
    bytes_text(json_number_value(json_object_get(root, "bytes")), out->size, sizeof out->size);
    name_type(json_object_get(root, "tensors"), out->type, sizeof out->type);
    snprintf(out->arch, sizeof out->arch, "%s", arch ? arch : "?");
    const char *lack = json_string_value(json_array_get(unsupported, 0));
    if (lack)
        snprintf(out->verdict, sizeof out->verdict, "%s", lack);
    else
        judge_memory(json_object_get(root, "memory"), out);
    out->verifies = m->verifies = json_object_get(metadata, "lutra.prm.step_mark") != NULL;
    json_decref(root);
    lutra_free(text);
}

bool model_verifies(struct found_model *m)
{
    struct facts f;
    if (!m->is_read) read_facts(m, &f);
    return m->verifies;
}

/* A cell, blanks up to its width. */
static void print_cell(const char *text, int width)
{
    size_t n = strlen(text);
    print_plain(text, n);
    printf("%*s", n < (size_t)width ? width - (int)n : 2, n < (size_t)width ? "" : "  ");
}

/* Whether it runs here. */
static bool print_model(struct found_model *m, int width, bool path)
{
    struct facts f;
    read_facts(m, &f);
    print_cell(m->name, width);
    print_cell(f.size, 12);
    print_cell(f.type, 8);
    print_cell(f.arch, 12);
    print_cell(m->place, 14);
    print_plain(f.verdict, strlen(f.verdict));
    if (f.verifies) fputs(", a verifier: --prm", stdout);
    putchar('\n');
    if (!path) return f.fits && !f.verifies;
    fputs("  ", stdout);
    print_plain(m->path, strlen(m->path));
    putchar('\n');
    return f.fits && !f.verifies;
}

/* The one to begin with so far, or m where that is better: the user's first that runs, or else the best of ours at
 * sums. */
static const struct found_model *better(const struct found_model *first, const struct found_model *m, bool fits)
{
    bool ours = strcmp(m->place, "Lutra") == 0, is_own = first && strcmp(first->place, "Lutra") != 0;
    return is_own || !fits || (ours && strcmp(m->name, "abacus-3m-f16") != 0) ? first : m;
}

const struct found_model *models_first(struct model_list *list)
{
    const struct found_model *first = NULL;
    struct facts f;
    for (int i = 0; i < list->n && !interrupted(); i++) {
        read_facts(&list->model[i], &f);
        first = better(first, &list->model[i], f.fits && !f.verifies);
    }
    return first;
}

/* Those that `name` means, or all; returns how many.  *first: models_first() of them. */
static int print_models(struct model_list *list, const char *name, bool paths, const struct found_model **first)
{
    int width = 24, n = 0;
    *first = NULL;
    for (int i = 0; i < list->n; i++) {
        int length = (int)strlen(list->model[i].name) + 2;
        if (length > width) width = length < 60 ? length : 60;
    }
    for (int i = 0; i < list->n && !interrupted(); i++) {
        struct found_model *m = &list->model[i];
        if (name && !model_is_meant(m, name)) continue;
        if (n++ == 0) printf("%-*s%-12s%-8s%-12s%-14s%s\n", width, "NAME", "SIZE", "TYPE", "ARCH", "PLACE", "RUNS");
        *first = better(*first, m, print_model(m, width, paths));
    }
    return n;
}

void models_welcome(void)
{
    struct model_list list;
    models_list(&list);
    printf("lutra %s: an LLM inference engine\n\n", lutra_version());
    const struct found_model *first = NULL;
    if (list.n) {
        fputs("Models on this machine ('Lutra': small ones to try it with):\n\n", stdout);
        print_models(&list, NULL, false, &first);
    } else {
        puts("No models on this machine yet.");
    }
    const char *name = first ? first->name : "FILE.gguf";
    fputs("\nNext:\n", stdout);
    if (server_is_built() && first)
        fputs("  lutra serve\n      a page to chat with, at http://127.0.0.1:8080, and the APIs that programs speak\n",
            stdout);
    fputs("  lutra run ", stdout);
    print_plain(name, strlen(name));
    fputs("\n      a chat in this terminal\n"
          "  lutra pull Qwen/Qwen3-0.6B-GGUF\n      another model, of Hugging Face's hub\n"
          "  lutra --help\n      all commands\n",
        stdout);
    models_free(&list);
}

static int run(void *opts, const char **arg, int n_arg)
{
    const struct models_options *o = opts;
    struct model_list list;
    models_list(&list);
    const struct found_model *first;
    int n = print_models(&list, n_arg > 0 ? arg[0] : NULL, o->paths, &first);
    models_free(&list);
    if (n == 0) say("no models%s on this machine; 'lutra pull' gets one", n_arg > 0 ? " of that name" : "");
    return n > 0 || n_arg == 0 ? EXIT_OK : EXIT_FAILED;
}

/* ---- lutra pull ---- */

struct pull_options {
    const char *file, *token;
    bool quiet, progress;
};

#define AT(field) offsetof(struct pull_options, field)

static const struct option pull_table[] = {
    {"-hff --hf-file", "HF_FILE", OPT_TEXT, AT(file), "FILE", .help = "this file of the repository"},
    {"-hft --hf-token", NULL, OPT_TEXT, AT(token), "TOKEN", .help = "access token; else $HF_TOKEN"},
    {"-q --quiet", NULL, OPT_ON, AT(quiet), NULL, .help = "errors only"},
    {"--no-progress", "NO_PROGRESS", OPT_OFF, AT(progress), NULL,
        .help = "no progress line (there is none when stderr is not a terminal)"},
};
#undef AT

static void set_pull_defaults(void *opts)
{
    *(struct pull_options *)opts = (struct pull_options){.progress = true};
}

static int list_pull_sets(void *opts, struct option_set *set)
{
    set[0] = (struct option_set){"Options", pull_table, OPTION_COUNT(pull_table), opts, NULL};
    return 1;
}

static int pull(void *opts, const char **arg, int n_arg)
{
    const struct pull_options *o = opts;
    struct hub_wanted wanted = {.repo = arg[0], .file = o->file, .token = o->token};
    const char *path = NULL;
    (void)n_arg;
    progress_enable(o->progress && !o->quiet);
    int code = hub_find(&wanted, &path);
    if (!code && !o->quiet) puts(path);
    return code;
}

const struct command command_pull = {
    .name = "pull",
    .arguments = "USER/REPO[:QUANT]",
    .summary = "Download a model of Hugging Face's hub, or of the mirror that HF_ENDPOINT names",
    .notes = "A GGUF file (Q4_K_M, Q8_0 or Q4_0 where QUANT does not say which), else a folder of safetensors; into\n"
             "the hub's own cache. Prints its path; 'lutra run -hf USER/REPO' finds it there.",
    .opts_bytes = sizeof(struct pull_options),
    .defaults = set_pull_defaults,
    .sets = list_pull_sets,
    .min_args = 1,
    .max_args = 1,
    .run = pull,
};

const struct command command_models = {
    .name = "models",
    .arguments = "[NAME]",
    .summary = "List the models on this machine: other programs' and those that came with Lutra",
    .notes =
        "Looked for in the cache of Hugging Face's hub (HF_HUB_CACHE, HF_HOME, ~/.cache/huggingface/hub), llama.cpp's\n"
        "(LLAMA_CACHE, ~/.cache/llama.cpp), LM Studio's (~/.lmstudio/models, ~/.cache/lm-studio/models) and Ollama's\n"
        "(OLLAMA_MODELS, ~/.ollama/models, /usr/share/ollama/.ollama/models), and in LUTRA_MODELS, a folder of yours, "
        "or\n"
        "else the models that came with Lutra.  The names, in part, are what -m takes.\n"
        "'lutra pull USER/REPO' downloads one more.",
    .opts_bytes = sizeof(struct models_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .max_args = 1,
    .run = run,
};
