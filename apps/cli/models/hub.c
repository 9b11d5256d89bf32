/* SPDX-License-Identifier: MIT */
#include "hub.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli.h"
#include "download.h"
#include "find.h"
#include "sha.h"

enum { REPO_BYTES = 200, LABEL_BYTES = 80, URL_BYTES = 2048 };

/* Where models are published, unless $HF_ENDPOINT names another hub or a mirror. */
static const char PUBLIC_HUB[] = "https://huggingface.co";

struct repo {
    char name[REPO_BYTES]; /* "user/name" */
    char label[LABEL_BYTES];
};

/* ---- names ---- */

/* What the hub allows, and no more: it becomes folders here. */
static bool is_part_of_name(const char *text, size_t n)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    if (n == 0 || text[0] == '.' || text[0] == '-') return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr(allowed, text[i]) || (i > 0 && text[i] == '.' && text[i - 1] == '.')) return false;
    for (size_t i = 1; i < n; i++)
        if (text[i] == '-' && text[i - 1] == '-') return false; /* divides the folder's name */
    return true;
}

static int parse_repo(const char *text, struct repo *out)
{
    size_t user = strcspn(text, "/"), name = text[user] ? strcspn(text + user + 1, ":") : 0, n = user + 1 + name;
    const char *label = text[user] && text[n] ? text + n + 1 : "";
    bool good = is_part_of_name(text, user) && is_part_of_name(text + user + 1, name) && n < REPO_BYTES &&
                strlen(label) < LABEL_BYTES && (!text[n] || is_part_of_name(label, strlen(label)));
    if (!good) {
        say("-hf: '%s' is not USER/REPO or USER/REPO:QUANT", text);
        return EXIT_USAGE;
    }
    snprintf(out->name, sizeof out->name, "%.*s", (int)n, text);
    snprintf(out->label, sizeof out->label, "%s", label);
    return 0;
}

/* ---- which file: the one named, the quantization named, or the usual ones ---- */

static const char *const usual[] = {"Q4_K_M", "Q8_0", "Q4_0", NULL};

static bool is_model(const char *path)
{
    size_t n = strlen(path);
    const char *slash = strrchr(path, '/');
    return n > 5 && strcasecmp(path + n - 5, ".gguf") == 0 && strncasecmp(slash ? slash + 1 : path, "mmproj", 6) != 0;
}

static bool has_label(const char *path, const char *label)
{
    char own[LABEL_BYTES];
    model_label(path, own, sizeof own);
    return strcasecmp(own, label) == 0;
}

/* path(arg, i): the i-th path, NULL behind the last, "" for one that does not count.  -1: none is meant. */
static int choose_file(
    const char *(*path)(const void *arg, int i), const void *arg, const char *file, const char *label)
{
    const char *p;
    int part, n_part;
    for (int i = 0; file && (p = path(arg, i)); i++) {
        size_t n = strlen(p), m = strlen(file);
        if (n >= m && strcmp(p + n - m, file) == 0 && (n == m || p[n - m - 1] == '/')) return i;
    }
    if (file) return -1;
    for (int u = 0; *label || usual[u]; u++) {
        for (int i = 0; (p = path(arg, i)); i++)
            if (is_model(p) && (!model_part(p, &part, &n_part) || part == 1) && has_label(p, *label ? label : usual[u]))
                return i;
        if (*label) return -1;
    }
    for (int i = 0; (p = path(arg, i)); i++)
        if (is_model(p) && (!model_part(p, &part, &n_part) || part == 1)) return i;
    return -1;
}

/* ---- on this machine ---- */

struct here {
    const struct model_list *list;
    const char *repo;
};

static const char *path_here(const void *arg, int i)
{
    const struct here *h = arg;
    size_t n = strlen(h->repo);
    if (i == h->list->n) return NULL;
    const struct found_model *m = &h->list->model[i];
    bool of_repo = strncasecmp(m->name, h->repo, n) == 0 && (m->name[n] == ':' || m->name[n] == 0);
    return of_repo && !m->why ? m->path : "";
}

static bool all_parts(const char *first)
{
    int part, n_part;
    char *path = copy_text(first), digits[16];
    bool all = true;
    if (model_part(first, &part, &n_part))
        for (int i = part; i <= n_part && all; i++) {
            snprintf(digits, sizeof digits, "%05d", i);
            memcpy(path + strlen(path) - strlen("00001-of-00001.gguf"), digits, 5);
            all = access(path, R_OK) == 0;
        }
    free(path);
    return all;
}

static bool find_here(const struct repo *repo, const char *file, const char **path)
{
    struct model_list list;
    models_list(&list);
    struct here h = {&list, repo->name};
    int at = choose_file(path_here, &h, file, repo->label);
    for (int i = 0; at < 0 && !file && !*repo->label && i < list.n; i++)
        if (strcasecmp(list.model[i].name, repo->name) == 0 && !list.model[i].why) at = i; /* a folder */
    bool found = at >= 0 && all_parts(list.model[at].path);
    if (found) *path = copy_text(list.model[at].path);
    models_free(&list);
    return found;
}

/* ---- what the server says ---- */

static bool is_hex(const char *text, size_t n)
{
    return text && strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

bool hub_read_commit(const char *json, size_t n, char commit[41])
{
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, NULL);
    const char *sha = json_string_value(json_object_get(root, "sha"));
    bool good = is_hex(sha, 40);
    if (good) memcpy(commit, sha, 41);
    json_decref(root);
    return good;
}

/* A path below the snapshot's folder, and nowhere else. */
static bool is_safe(const char *path)
{
    if (!path || !*path || strlen(path) > HUB_PATH) return false;
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))) return false;
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f || p[i] == '\\') return false;
        p += n;
        if (*p == '/' && !*++p) return false;
    }
    return true;
}

int hub_read_tree(const char *json, size_t n, struct hub_file **out)
{
    *out = NULL;
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, NULL), *entry;
    if (!json_is_array(root) || json_array_size(root) > HUB_FILES) {
        json_decref(root);
        return -1;
    }
    struct hub_file *file = get_memory((json_array_size(root) + 1) * sizeof *file);
    int n_file = 0;
    size_t i;
    json_array_foreach(root, i, entry)
    {
        const char *path = json_string_value(json_object_get(entry, "path"));
        const json_t *lfs = json_object_get(entry, "lfs"), *from = json_is_object(lfs) ? lfs : entry;
        const char *sum = json_string_value(json_object_get(from, "oid"));
        json_int_t size = json_integer_value(json_object_get(from, "size"));
        if (!is_safe(path) || !is_hex(sum, from == lfs ? SHA_256 : SHA_1) || size <= 0) continue;
        struct hub_file *f = &file[n_file++];
        f->path = copy_text(path);
        f->n_bytes = (uint64_t)size;
        snprintf(f->sum, sizeof f->sum, "%s", sum);
    }
    json_decref(root);
    *out = file;
    return n_file;
}

/* ---- from the server ---- */

struct hub {
    const struct repo *repo;
    const char *endpoint, *token;
    char commit[41];
    struct hub_file *file;
    int n_file;
    char *folder; /* models--user--name */
};

static const char *path_there(const void *arg, int i)
{
    const struct hub *h = arg;
    return i < h->n_file ? h->file[i].path : NULL;
}

static int ask(const struct hub *h, const char *what, struct buffer *out)
{
    char url[URL_BYTES];
    snprintf(url, sizeof url, "%s/api/models/%s/%s", h->endpoint, h->repo->name, what);
    return download_text(url, h->token, out);
}

static int read_listing(struct hub *h)
{
    char what[80];
    struct buffer text = {0};
    int code = ask(h, "revision/main", &text);
    if (!code && !hub_read_commit(text.text ? text.text : "", text.n_bytes, h->commit)) {
        say("%s: the server's answer names no commit", h->repo->name);
        code = EXIT_FAILED;
    }
    snprintf(what, sizeof what, "tree/%s?recursive=true", h->commit);
    if (!code) code = ask(h, what, &text);
    if (!code && (h->n_file = hub_read_tree(text.text ? text.text : "", text.n_bytes, &h->file)) < 0) {
        say("%s: the server's answer is no list of files", h->repo->name);
        code = EXIT_FAILED;
        h->n_file = 0;
    }
    buffer_free(&text);
    return code;
}

/* Characters that a URL's path may not have as they are. */
static void url_of(const struct hub *h, const char *path, char *out, size_t n_out)
{
    size_t n = (size_t)snprintf(out, n_out, "%s/%s/resolve/%s/", h->endpoint, h->repo->name, h->commit);
    for (; *path && n + 4 < n_out; path++) {
        bool plain = strchr("/._-~", *path) || (*path >= '0' && *path <= '9') || (*path >= 'a' && *path <= 'z') ||
                     (*path >= 'A' && *path <= 'Z');
        n += (size_t)snprintf(out + n, n_out - n, plain ? "%c" : "%%%02X", (unsigned char)*path);
    }
}

/* snapshots/COMMIT/a/b -> ../../../blobs/SHA, under its name at once. */
static int link_blob(const char *blob_name, const char *link)
{
    char *temporary = get_memory(strlen(link) + 16);
    snprintf(temporary, strlen(link) + 16, "%s.%d.link", link, (int)getpid());
    unlink(temporary);
    int rc = symlink(blob_name, temporary) == 0 && rename(temporary, link) == 0 ? 0 : -1;
    if (rc < 0) {
        say("%s: %s", link, strerror(errno));
        unlink(temporary);
    }
    free(temporary);
    return rc < 0 ? EXIT_FAILED : 0;
}

/* Downloads one file and links it; *path: the link. */
static int fetch(const struct hub *h, const struct hub_file *f, char **path)
{
    char url[URL_BYTES], blob_name[128], up[3 * HUB_PATH + 160] = "../..";
    snprintf(blob_name, sizeof blob_name, "blobs/%s", f->sum);
    char *blob = join_path(h->folder, blob_name), *snapshots = join_path(h->folder, "snapshots");
    char *snapshot = join_path(snapshots, h->commit);
    *path = join_path(snapshot, f->path);
    url_of(h, f->path, url, sizeof url);
    for (const char *p = f->path; (p = strchr(p, '/')); p++) strcat(up, "/..");
    snprintf(up + strlen(up), sizeof up - strlen(up), "/%s", blob_name);
    make_folders(blob);
    make_folders(*path);
    struct download d = {url, h->token, f->path, blob, f->n_bytes, f->sum};
    int code = download_file(&d);
    if (!code) code = link_blob(up, *path);
    free(blob);
    free(snapshots);
    free(snapshot);
    return code;
}

static int find_file(const struct hub *h, const char *path)
{
    for (int i = 0; i < h->n_file; i++)
        if (strcmp(h->file[i].path, path) == 0) return i;
    return -1;
}

/* The i-th part of a model in several files, by the name of the first. */
static int find_part(const struct hub *h, int first, int i)
{
    char name[HUB_PATH + 1], digits[16];
    snprintf(name, sizeof name, "%s", h->file[first].path);
    snprintf(digits, sizeof digits, "%05d", i);
    memcpy(name + strlen(name) - strlen("00001-of-00001.gguf"), digits, 5);
    int at = find_file(h, name);
    if (at < 0) say("%s: the repository has no '%s'", h->repo->name, name);
    return at;
}

/* All files of a model; *path: the first. */
static int fetch_all(const struct hub *h, int first, const char **path)
{
    int part, n_part, code;
    char *link;
    bool parts = model_part(h->file[first].path, &part, &n_part);
    for (int i = 2; parts && i <= n_part; i++)
        if (find_part(h, first, i) < 0) return EXIT_FAILED;
    if ((code = fetch(h, &h->file[first], &link))) {
        free(link);
        return code;
    }
    *path = link;
    for (int i = 2; parts && i <= n_part && !code; i++) {
        code = fetch(h, &h->file[find_part(h, first, i)], &link);
        free(link);
    }
    return code;
}

static int write_ref(const struct hub *h)
{
    char *ref = join_path(h->folder, "refs/main");
    make_folders(ref);
    int rc = write_file_whole(ref, h->commit, 40);
    free(ref);
    return rc < 0 ? EXIT_FAILED : 0;
}

/* Of a folder of safetensors: its place in the order of downloads, config.json last, so that a part of a folder is no
 * model; 0: none of it.  Weights are model.safetensors or its shards: other files hold them in other forms. */
static int rank_in_folder(const char *path)
{
    static const char *const small[] = {"tokenizer.json", "tokenizer_config.json", "generation_config.json",
        "chat_template.jinja", "model.safetensors.index.json"};
    size_t n = strlen(path), m = strlen(".safetensors");
    if (strcmp(path, "config.json") == 0) return 3;
    if (n > m && strcmp(path + n - m, ".safetensors") == 0)
        return strncmp(path, "model", 5) == 0 && !strchr(path, '/') ? 2 : 0;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (strcmp(path, small[i]) == 0) return 1;
    return 0;
}

static bool is_folder_model(const struct hub *h)
{
    bool weights = false;
    for (int i = 0; i < h->n_file; i++) weights = weights || rank_in_folder(h->file[i].path) == 2;
    return weights && find_file(h, "config.json") >= 0 && find_file(h, "tokenizer.json") >= 0;
}

/* *path: the snapshot. */
static int fetch_folder(const struct hub *h, const char **path)
{
    char *link = NULL;
    for (int rank = 1; rank <= 3; rank++)
        for (int i = 0; i < h->n_file; i++) {
            if (rank_in_folder(h->file[i].path) != rank) continue;
            free(link);
            int code = fetch(h, &h->file[i], &link);
            if (code) {
                free(link);
                return code;
            }
        }
    *strrchr(link, '/') = 0; /* config.json's */
    *path = link;
    return 0;
}

static int report_none(const struct hub *h, const char *file)
{
    say("%s: %s%s among the large files of the repository:", h->repo->name,
        file              ? file
        : *h->repo->label ? h->repo->label
                          : "no GGUF file and no folder of safetensors is",
        file || *h->repo->label ? " is not" : "");
    for (int i = 0, shown = 0; i < h->n_file && shown < 40; i++) {
        if (strlen(h->file[i].sum) != SHA_256) continue;
        shown++;
        fputs("  ", stderr);
        for (const char *p = h->file[i].path; *p; p++) fputc(*p, stderr);
        fputc('\n', stderr);
    }
    return EXIT_FAILED;
}

static int find_there(struct hub *h, const char *file, const char **path)
{
    int code = read_listing(h);
    if (code) return code;
    int at = choose_file(path_there, h, file, h->repo->label);
    if (at < 0 && !file && !*h->repo->label && is_folder_model(h))
        code = fetch_folder(h, path);
    else if (at < 0 || !is_model(h->file[at].path))
        return report_none(h, file);
    else
        code = fetch_all(h, at, path);
    return code ? code : write_ref(h);
}

/* The cache's folder of a repository. */
static char *repo_folder(const struct repo *repo)
{
    char name[REPO_BYTES + 16];
    size_t user = strcspn(repo->name, "/");
    snprintf(name, sizeof name, "models--%.*s--%s", (int)user, repo->name, repo->name + user + 1);
    char *hub = hub_folder(), *path = hub ? join_path(hub, name) : NULL;
    free(hub);
    return path;
}

static int say_how(const struct repo *repo, const char *folder, const char *why)
{
    say("-hf %s: it is in none of the folders of models, and %s", repo->name, why);
    fprintf(stderr,
        "  Set HF_ENDPOINT to the address of the hub or of a mirror of it (https://HOST) to download it,\n"
        "  or put its GGUF file (or its folder) into %s/snapshots/main/, or give it with -m.\n",
        folder);
    return EXIT_FAILED;
}

int hub_find(const struct hub_wanted *wanted, const char **path)
{
    struct repo repo;
    int code = parse_repo(wanted->repo, &repo);
    if (code) return code;
    if (find_here(&repo, wanted->file, path)) return 0;
    struct hub h = {.repo = &repo, .endpoint = getenv("HF_ENDPOINT"), .token = wanted->token};
    char endpoint[512];
    h.folder = repo_folder(&repo);
    if (!h.token) h.token = getenv("HF_TOKEN");
    if (h.token && !*h.token) h.token = NULL;
    if (!h.folder) {
        say("-hf: there is no home folder for a cache; set HF_HOME");
        code = EXIT_FAILED;
    } else if (wanted->offline) {
        code = say_how(&repo, h.folder, "--offline was given");
    } else if (!download_possible()) {
        code = say_how(&repo, h.folder, "this lutra was built without libcurl");
    } else {
        snprintf(endpoint, sizeof endpoint, "%s", h.endpoint && *h.endpoint ? h.endpoint : PUBLIC_HUB);
        size_t n = strlen(endpoint);
        while (n > 0 && endpoint[n - 1] == '/') endpoint[--n] = 0;
        h.endpoint = endpoint;
        interrupt_watch(NULL);
        code = find_there(&h, wanted->file, path);
        if (code == EXIT_FAILED && h.n_file == 0) /* no listing came */
            say("-hf %s: not downloaded from %s; HF_ENDPOINT=https://HOST names a mirror, -m a file that is here",
                repo.name, endpoint);
    }
    for (int i = 0; i < h.n_file; i++) free(h.file[i].path);
    free(h.file);
    free(h.folder);
    return code;
}
