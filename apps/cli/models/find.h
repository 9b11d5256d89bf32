/* SPDX-License-Identifier: MIT
 *
 * Models on this machine: those that other programs have put there (the caches of Hugging Face's hub, llama.cpp and LM
 * Studio, and Ollama's store), and those of LUTRA_MODELS, or that came with Lutra.
 *
 *     model_find("qwen3-8b", &path)     a path as it is, or the one model of that name
 *
 * Nothing is written, folders that are links are not followed, and a store of any content is read within bounds.
 */
#ifndef LUTRA_CLI_MODELS_FIND_H
#define LUTRA_CLI_MODELS_FIND_H

#include <stdbool.h>
#include <stddef.h>

struct found_model {
    char *name;        /* "org/name:Q4_K_M", "name:tag": what -m takes */
    char *path;        /* a GGUF file, the first of several, or a folder */
    const char *place; /* whose it is */
    const char *why;   /* it cannot be opened; NULL: nothing is known against it */
    bool is_read;      /* its file's header has been: */
    bool verifies;     /* model_verifies() */
};

struct model_list {
    struct found_model *model; /* by name */
    int n, room;
    int n_seen; /* entries of folders: there is an end to them */
};

void models_list(struct model_list *out);
void models_free(struct model_list *list);
/* One to begin with; NULL: none runs here. */
const struct found_model *models_first(struct model_list *list);

/* A verifier, by its file's key lutra.prm.step_mark: it scores steps and answers nobody. */
bool model_verifies(struct found_model *m);
/* A name of its content, 64 hexadecimal digits: SHA-256 of the size and the first and last 64 KiB of its file (of a
 * folder, of its config.json and its weights' index or file).  Not of the whole: that takes a second a gigabyte. */
void model_digest(const char *path, char hex[65]);

/* Those in a folder, and two deep in its folders. */
void models_in(struct model_list *out, const char *folder);

/* Whether a query means a model: its name, without the maker, without the tag, or its file's name; any case. */
bool model_is_meant(const struct found_model *m, const char *query);

/* What to do next, for who starts the program without a word: the models there are, and commands. */
void models_welcome(void);

/* The path of the model that `name` means: itself, where there is such a file, or where it must be one.  0 and *path
 * (the program's until it ends), or an exit code after a message that lists the candidates. */
int model_find(const char *name, const char **path);

/* The folder of Hugging Face's hub cache, the first of those the environment names; the caller frees it; NULL without a
 * home. */
char *hub_folder(void);

/* "Q4_K_M" of ".../name-Q4_K_M-00001-of-00002.gguf"; "" where there is none. */
void model_label(const char *path, char *out, size_t n_out);

/* Part i of n of a model in several files, from its name; false: it is no part. */
bool model_part(const char *path, int *i, int *n);

void models_add(struct model_list *list, const char *name, const char *path, const char *place, const char *why);

/* Appends a path's next part: "a" + "/" + "b"; the caller frees it. */
char *join_path(const char *folder, const char *name);

#endif
