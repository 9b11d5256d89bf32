/* SPDX-License-Identifier: MIT */
#include "find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "ollama.h"

enum { SEEN_MOST = 200000, NAME_BYTES = 512 };

/* ---- lists ---- */

char *join_path(const char *folder, const char *name)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = get_memory(n);
    snprintf(path, n, "%s/%s", folder, name);
    return path;
}

void models_add(struct model_list *list, const char *name, const char *path, const char *place, const char *why)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->model[i].path, path) == 0 && strcmp(list->model[i].name, name) == 0) return;
    if (list->n == list->room) {
        list->room = list->room * 2 + 16;
        list->model = grow_memory(list->model, (size_t)list->room * sizeof *list->model);
    }
    list->model[list->n++] =
        (struct found_model){.name = copy_text(name), .path = copy_text(path), .place = place, .why = why};
}

void models_free(struct model_list *list)
{
    for (int i = 0; i < list->n; i++) {
        free(list->model[i].name);
        free(list->model[i].path);
    }
    free(list->model);
    *list = (struct model_list){0};
}

static int by_name(const void *a, const void *b)
{
    const struct found_model *x = a, *y = b;
    int order = strcasecmp(x->name, y->name);
    return order ? order : strcmp(x->path, y->path);
}

/* ---- names of files ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

/* The length of a GGUF file's name without "-00001-of-00002.gguf". */
static size_t stem_length(const char *path, int *part, int *n_part)
{
    size_t n = strlen(path);
    const char of[] = "-00000-of-00000";
    *part = *n_part = 1;
    if (!ends_with(path, ".gguf")) return n;
    n -= 5;
    if (n < sizeof of) return n;
    const char *at = path + n - (sizeof of - 1);
    for (size_t i = 0; i < sizeof of - 1; i++)
        if (of[i] == '0' ? !isdigit((unsigned char)at[i]) : at[i] != of[i]) return n;
    *part = atoi(at + 1);
    *n_part = atoi(at + 10);
    return n - (sizeof of - 1);
}

bool model_part(const char *path, int *i, int *n)
{
    size_t stem = stem_length(path, i, n);
    return path[stem] == '-';
}

void model_label(const char *path, char *out, size_t n_out)
{
    const char *name = base_name(path);
    int part, n_part;
    size_t end = stem_length(name, &part, &n_part), from = end;
    while (from > 0 && (isalnum((unsigned char)name[from - 1]) || name[from - 1] == '_')) from--;
    bool found = from > 0 && from < end && (name[from - 1] == '-' || name[from - 1] == '.');
    snprintf(out, n_out, "%.*s", found ? (int)(end - from) : 0, name + from);
}

/* ---- walks ---- */

static bool is_folder(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* A GGUF file of "maker/name", or of no known one (""). */
static void add_file(struct model_list *list, const char *path, const char *repo, const char *place)
{
    char name[NAME_BYTES], label[80];
    int part, n_part;
    const char *file = base_name(path);
    size_t stem = stem_length(file, &part, &n_part);
    if (part != 1 || strncasecmp(file, "mmproj", 6) == 0) return;
    model_label(file, label, sizeof label);
    if (*repo)
        snprintf(name, sizeof name, "%s:%s", repo, *label ? label : "gguf");
    else
        snprintf(name, sizeof name, "%.*s", (int)stem, file);
    models_add(list, name, path, place, is_file(path) ? NULL : "a link to a file that is not there");
}

typedef void visit(struct model_list *list, const char *path, void *arg);

/* Calls for each entry of a folder, in no order. */
static void each_entry(struct model_list *list, const char *folder, visit *fn, void *arg)
{
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir)) && list->n_seen < SEEN_MOST;) {
        if (e->d_name[0] == '.') continue;
        list->n_seen++;
        char *path = join_path(folder, e->d_name);
        fn(list, path, arg);
        free(path);
    }
    closedir(dir);
}

/* The GGUF files below a folder. */
struct below {
    const char *repo, *place;
    int depth;
};

static void visit_below(struct model_list *list, const char *path, void *arg)
{
    struct below *b = arg, deeper = {b->repo, b->place, b->depth - 1};
    if (is_folder(path)) {
        if (deeper.depth > 0) each_entry(list, path, visit_below, &deeper);
    } else if (ends_with(path, ".gguf")) {
        add_file(list, path, b->repo, b->place);
    }
}

/* ---- Hugging Face: models--org--name/{refs/main, snapshots/REVISION/..., blobs/...} ---- */

struct newest {
    char *path;
    time_t when;
};

static void visit_snapshot(struct model_list *list, const char *path, void *arg)
{
    (void)list;
    struct newest *best = arg;
    struct stat st;
    if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || (best->path && st.st_mtime <= best->when)) return;
    free(best->path);
    *best = (struct newest){copy_text(path), st.st_mtime};
}

/* That of refs/main, or the newest; the caller frees it. */
static char *snapshot_of(struct model_list *list, const char *repo_folder)
{
    char revision[65] = "";
    char *ref = join_path(repo_folder, "refs/main"), *all = join_path(repo_folder, "snapshots");
    FILE *f = fopen(ref, "r");
    struct newest best = {0};
    if (f) {
        if (fscanf(f, "%64[0-9a-zA-Z]", revision) == 1) best.path = join_path(all, revision);
        fclose(f);
    }
    if (best.path && !is_folder(best.path)) {
        free(best.path);
        best.path = NULL;
    }
    if (!best.path) each_entry(list, all, visit_snapshot, &best);
    free(ref);
    free(all);
    return best.path;
}

static void visit_repo(struct model_list *list, const char *path, void *arg)
{
    const char *place = arg, *name = base_name(path);
    char repo[NAME_BYTES];
    if (strncmp(name, "models--", 8) != 0 || !is_folder(path)) return;
    snprintf(repo, sizeof repo, "%s", name + 8);
    char *dashes = strstr(repo, "--");
    if (dashes) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    char *snapshot = snapshot_of(list, path);
    if (!snapshot) return;
    int before = list->n;
    each_entry(list, snapshot, visit_below, &(struct below){repo, place, 4});
    char *config = join_path(snapshot, "config.json"), *tokenizer = join_path(snapshot, "tokenizer.json");
    if (list->n == before && is_file(config) && is_file(tokenizer)) models_add(list, repo, snapshot, place, NULL);
    free(config);
    free(tokenizer);
    free(snapshot);
}

/* ---- llama.cpp: the hub's layout, or before that ORG_NAME_FILE.gguf beside manifest=ORG=NAME=TAG.json ---- */

struct manifests {
    struct buffer prefix; /* "ORG_NAME_\nORG/NAME\n" and so on */
};

static void visit_manifest(struct model_list *list, const char *path, void *arg)
{
    (void)list;
    struct manifests *m = arg;
    const char *at = base_name(path);
    if (strncmp(at, "manifest=", 9) != 0) return;
    at += 9;
    size_t org = strcspn(at, "=");
    if (!at[org]) return;
    size_t name = strcspn(at + org + 1, "=");
    char line[NAME_BYTES];
    snprintf(line, sizeof line, "%.*s_%.*s_\n%.*s/%.*s\n", (int)org, at, (int)name, at + org + 1, (int)org, at,
        (int)name, at + org + 1);
    buffer_add(&m->prefix, line, strlen(line));
}

static void visit_flat(struct model_list *list, const char *path, void *arg)
{
    const struct manifests *m = arg;
    char repo[NAME_BYTES] = "";
    if (!ends_with(path, ".gguf") || is_folder(path)) return;
    for (const char *p = m->prefix.text; p && *p;) {
        size_t prefix = strcspn(p, "\n"), name = strcspn(p + prefix + 1, "\n");
        if (strncmp(base_name(path), p, prefix) == 0) snprintf(repo, sizeof repo, "%.*s", (int)name, p + prefix + 1);
        p += prefix + name + 2;
    }
    add_file(list, path, repo, "llama.cpp");
}

/* ---- LM Studio: PUBLISHER/NAME/FILE.gguf ---- */

static void visit_named(struct model_list *list, const char *path, void *arg)
{
    const char *publisher = arg;
    char repo[NAME_BYTES];
    if (!is_folder(path)) return;
    snprintf(repo, sizeof repo, "%s/%s", publisher, base_name(path));
    each_entry(list, path, visit_below, &(struct below){repo, "LM Studio", 2});
}

static void visit_publisher(struct model_list *list, const char *path, void *arg)
{
    (void)arg;
    if (is_folder(path)) each_entry(list, path, visit_named, (void *)base_name(path));
}

/* ---- where they are ---- */

/* $VARIABLE/below, or NULL. */
static char *from_environment(const char *variable, const char *below)
{
    const char *value = getenv(variable);
    if (!value || !*value) return NULL;
    return *below ? join_path(value, below) : copy_text(value);
}

static char *cache_folder(const char *below)
{
    char *path = from_environment("XDG_CACHE_HOME", below), *home = path ? NULL : from_environment("HOME", ".cache");
    if (home) path = join_path(home, below);
    free(home);
    return path;
}

char *hub_folder(void)
{
    char *path = from_environment("HF_HUB_CACHE", "");
    if (!path) path = from_environment("HUGGINGFACE_HUB_CACHE", "");
    if (!path) path = from_environment("HF_HOME", "hub");
    return path ? path : cache_folder("huggingface/hub");
}

/* LUTRA_MODELS, or the models that came with the program: installed, or in its source folder. */
static char *own_folder(void)
{
    static const char *const places[] = {"share/lutra/models", "../models"};
    char exe[NAME_BYTES * 8];
    char *named = from_environment("LUTRA_MODELS", "");
    ssize_t n = named ? -1 : readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n < 0) return named;
    exe[n] = '\0';
    for (int up = 0; up < 2 && strrchr(exe, '/'); up++) *strrchr(exe, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = join_path(exe, places[i]);
        if (is_folder(path)) return path;
        free(path);
    }
    return NULL;
}

static void look_in(struct model_list *list, char *folder, visit *fn, void *arg)
{
    if (folder) each_entry(list, folder, fn, arg);
    free(folder);
}

void models_list(struct model_list *out)
{
    *out = (struct model_list){0};
    look_in(out, hub_folder(), visit_repo, "Hugging Face");
    char *llama = from_environment("LLAMA_CACHE", "");
    if (!llama) llama = cache_folder("llama.cpp");
    if (llama) {
        struct manifests m = {0};
        each_entry(out, llama, visit_repo, "llama.cpp");
        each_entry(out, llama, visit_manifest, &m);
        each_entry(out, llama, visit_flat, &m);
        buffer_free(&m.prefix);
        free(llama);
    }
    look_in(out, from_environment("HOME", ".lmstudio/models"), visit_publisher, NULL);
    look_in(out, cache_folder("lm-studio/models"), visit_publisher, NULL);
    char *ollama = from_environment("OLLAMA_MODELS", "");
    ollama_list(out, ollama);
    free(ollama);
    ollama = from_environment("HOME", ".ollama/models");
    ollama_list(out, ollama);
    free(ollama);
    ollama_list(out, "/usr/share/ollama/.ollama/models");
    look_in(out, own_folder(), visit_below, &(struct below){"", "Lutra", 1});
    if (out->n) qsort(out->model, (size_t)out->n, sizeof *out->model, by_name);
}

void models_in(struct model_list *out, const char *folder)
{
    *out = (struct model_list){0};
    each_entry(out, folder, visit_below, &(struct below){"", folder, 2});
    if (out->n) qsort(out->model, (size_t)out->n, sizeof *out->model, by_name);
}

/* ---- which is meant ---- */

static bool same(const char *a, size_t n, const char *b)
{
    return strlen(b) == n && strncasecmp(a, b, n) == 0;
}

bool model_is_meant(const struct found_model *m, const char *query)
{
    const char *name = m->name, *short_name = base_name(name), *tag = strchr(short_name, ':'),
               *file = base_name(m->path);
    int part, n_part;
    if (same(name, strlen(name), query) || same(short_name, strlen(short_name), query)) return true;
    if (tag && (same(name, (size_t)(tag - name), query) || same(short_name, (size_t)(tag - short_name), query)))
        return true;
    return ends_with(file, ".gguf") &&
           (same(file, strlen(file), query) || same(file, stem_length(file, &part, &n_part), query));
}

static bool is_named(const struct found_model *m, const char *query)
{
    size_t n = strlen(query);
    return strcasecmp(m->name, query) == 0 ||
           (strncasecmp(m->name, query, n) == 0 && strcmp(m->name + n, ":latest") == 0);
}

/* The one that is meant, -1: none, -2: several. */
static int choose(const struct model_list *list, const char *query)
{
    int found = -1;
    for (int i = 0; i < list->n; i++)
        if (is_named(&list->model[i], query) && !list->model[i].why) return i;
    for (int i = 0; i < list->n; i++) {
        if (!model_is_meant(&list->model[i], query)) continue;
        if (found >= 0 && strcmp(list->model[found].path, list->model[i].path) != 0) return -2;
        found = i;
    }
    return found;
}

static int report_several(const struct model_list *list, const char *query)
{
    say("'%s' is the name of several models:", query);
    for (int i = 0; i < list->n; i++)
        if (model_is_meant(&list->model[i], query))
            fprintf(stderr, "  %s  (%s)\n", list->model[i].name, list->model[i].place);
    return EXIT_USAGE;
}

int model_find(const char *name, const char **path)
{
    struct model_list list;
    *path = name;
    if (access(name, F_OK) == 0 || !*name) return 0;
    models_list(&list);
    int at = choose(&list, name), code = 0;
    if (at == -2) {
        code = report_several(&list, name);
    } else if (at >= 0 && list.model[at].why) {
        say("%s: %s: %s", list.model[at].name, list.model[at].path, list.model[at].why);
        code = EXIT_FAILED;
    } else if (at >= 0) {
        *path = copy_text(list.model[at].path);
    } else if (!strchr(name, '/') && !ends_with(name, ".gguf")) { /* else the file is missed by its name */
        say("%s: no such file, and no model of that name in the folders of other programs ('lutra models' lists them)",
            name);
        code = EXIT_FAILED;
    }
    models_free(&list);
    return code;
}
