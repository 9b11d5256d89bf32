/* SPDX-License-Identifier: MIT
 *
 * -hf user/repo[:quant]: a model of Hugging Face's hub, from the folders of this machine (find.h), else from
 * huggingface.co or the server that $HF_ENDPOINT names, into the hub's cache as its own tools lay it out.
 */
#ifndef LUTRA_CLI_MODELS_HUB_H
#define LUTRA_CLI_MODELS_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hub_wanted {
    const char *repo;  /* "user/name", "user/name:Q4_K_M" */
    const char *file;  /* a file's path in it, or NULL */
    const char *token; /* NULL: $HF_TOKEN */
    bool offline;
};

/* 0 and the path of a GGUF file, or of a folder of safetensors where the repository has no GGUF file (the program's
 * until it ends), or an exit code after a message. */
int hub_find(const struct hub_wanted *wanted, const char **path);

/* ---- for the tests of what servers say ---- */

struct hub_file {
    char *path;   /* in the repository; relative, without "..", at most HUB_PATH bytes */
    char sum[65]; /* of SHA-256 (large files), or git's of SHA-1 */
    uint64_t n_bytes;
};
enum { HUB_PATH = 240, HUB_FILES = 10000 };

/* The files of a listing that have a sum; the caller frees each path and the array.  Their number, or -1: no
 * listing. */
int hub_read_tree(const char *json, size_t n, struct hub_file **out);
/* The commit of a revision: 40 hexadecimal digits; false: it has none. */
bool hub_read_commit(const char *json, size_t n, char commit[41]);

#endif
