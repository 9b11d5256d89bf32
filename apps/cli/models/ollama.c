/* SPDX-License-Identifier: MIT */
#include "ollama.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "find.h"

enum { MANIFEST_BYTES = 1 << 20, LEVELS = 4, ENTRIES = 10000 };

const char *ollama_read_manifest(const char *json, size_t n, char digest[OLLAMA_DIGEST + 1])
{
    static const char kind[] = "application/vnd.ollama.image.model", before[] = "sha256:";
    const char *why = "its manifest names no model";
    json_t *root = json_loadb(json, n, JSON_REJECT_DUPLICATES, NULL);
    if (!root) return "its manifest is no JSON";
    size_t i;
    json_t *layer;
    json_array_foreach(json_object_get(root, "layers"), i, layer)
    {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *name = json_string_value(json_object_get(layer, "digest"));
        if (!type || strcmp(type, kind) != 0) continue;
        bool good = name && strncmp(name, before, sizeof before - 1) == 0 &&
                    strlen(name) == sizeof before - 1 + OLLAMA_DIGEST &&
                    strspn(name + sizeof before - 1, "0123456789abcdef") == OLLAMA_DIGEST;
        why = good ? NULL : "its manifest names a blob that is no SHA-256";
        if (good) memcpy(digest, name + sizeof before - 1, OLLAMA_DIGEST + 1);
        break;
    }
    json_decref(root);
    return why;
}

/* A whole small file; NULL: it cannot be read, or is no manifest by its size. */
static char *read_small(const char *path, size_t *n)
{
    struct stat st;
    FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= MANIFEST_BYTES ? fopen(path, "rb") : NULL;
    if (!f) return NULL;
    char *text = get_memory((size_t)st.st_size + 1);
    *n = fread(text, 1, (size_t)st.st_size, f);
    fclose(f);
    return text;
}

static void add_manifest(struct model_list *list, const char *store, const char *path, const char *name)
{
    char digest[OLLAMA_DIGEST + 1] = "", blob[32 + OLLAMA_DIGEST];
    size_t n;
    char *text = read_small(path, &n);
    const char *why = text ? ollama_read_manifest(text, n, digest) : "its manifest cannot be read";
    free(text);
    snprintf(blob, sizeof blob, "blobs/sha256-%s", digest);
    char *file = join_path(store, blob);
    struct stat st;
    if (!why && (stat(file, &st) < 0 || !S_ISREG(st.st_mode))) why = "its blob is not there";
    models_add(list, name, why && !*digest ? path : file, "Ollama", why);
    free(file);
}

/* part: the names of the levels so far: host, namespace, model, tag. */
static void walk(struct model_list *list, const char *store, const char *folder, const char *part[LEVELS], int level)
{
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (const struct dirent *e; (e = readdir(dir)) && list->n_seen < ENTRIES;) {
        if (e->d_name[0] == '.') continue;
        list->n_seen++;
        char *path = join_path(folder, e->d_name);
        struct stat st;
        part[level] = e->d_name;
        if (level < LEVELS - 1) {
            if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) walk(list, store, path, part, level + 1);
        } else {
            char name[512];
            bool own = strcmp(part[1], "library") == 0;
            snprintf(name, sizeof name, "%s%s%s:%s", own ? "" : part[1], own ? "" : "/", part[2], part[3]);
            add_manifest(list, store, path, name);
        }
        free(path);
    }
    closedir(dir);
}

void ollama_list(struct model_list *list, const char *store)
{
    const char *part[LEVELS];
    if (!store) return;
    char *manifests = join_path(store, "manifests");
    int before = list->n_seen;
    list->n_seen = 0; /* a bound of its own */
    walk(list, store, manifests, part, 0);
    list->n_seen = before;
    free(manifests);
}
