/* SPDX-License-Identifier: MIT
 *
 * A Hugging Face folder that is written: file by file into a folder beside its place, renamed when all is there.
 *
 *     struct folder_out o = {0};
 *     rc = folder_out_open(&o, "model", err);
 *     if (rc == 0) rc = folder_out_begin(&o, "config.json", err);
 *     ... folder_out_put, folder_out_end, further files ...
 *     if (rc == 0) rc = folder_out_commit(&o, err);
 *     folder_out_close(&o);                            without a commit nothing is left
 */
#ifndef LUTRA_QUANTIZE_FOLDER_OUT_H
#define LUTRA_QUANTIZE_FOLDER_OUT_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct folder_out {
    char *target; /* without slashes at its end */
    char *folder; /* what is written */
    int lock;     /* of it, once folder is set */
    bool done;
    FILE *file; /* of it, open now */
    char path[4096];
};

/* LUTRA_E_ARGUMENT: `path` exists and is no empty folder. */
int folder_out_target(const char *path, struct lutra_error *err);

int folder_out_open(struct folder_out *o, const char *path, struct lutra_error *err);
int folder_out_begin(struct folder_out *o, const char *name, struct lutra_error *err);
int folder_out_put(struct folder_out *o, const void *bytes, size_t n, struct lutra_error *err);
int folder_out_end(struct folder_out *o, struct lutra_error *err);
int folder_out_commit(struct folder_out *o, struct lutra_error *err);
void folder_out_close(struct folder_out *o);

/* A file that is JSON.  NULL, and what cannot be written as text: no memory.  Takes the reference. */
int folder_out_json(struct folder_out *o, const char *name, json_t *value, struct lutra_error *err);

/* Adds a tensor to a header of safetensors that folder_out_header writes; *at: where its n bytes begin, raised by n. */
void folder_out_describe(
    json_t *header, const char *name, const char *dtype, int n_dim, const uint64_t *dim, uint64_t n, uint64_t *at);
int folder_out_header(struct folder_out *o, json_t *header, struct lutra_error *err);

#endif
