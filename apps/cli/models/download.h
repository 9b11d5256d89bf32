/* SPDX-License-Identifier: MIT
 *
 * Files from a server, by libcurl: resumed where a part is there, and never taken for whole before their sum is right.
 */
#ifndef LUTRA_CLI_MODELS_DOWNLOAD_H
#define LUTRA_CLI_MODELS_DOWNLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "cli.h"

/* False: built without libcurl; the others then fail with a message. */
bool download_possible(void);

/* A small text.  token: of the server, or NULL.  0 or an exit code after a message. */
int download_text(const char *url, const char *token, struct buffer *out);

struct download {
    const char *url, *token;
    const char *name; /* for messages and progress */
    const char *path; /* where it lies when it is whole: PATH.incomplete until then */
    uint64_t n_bytes; /* announced */
    const char *sum;  /* announced, lower-case digits: 64 of SHA-256, or 40 of SHA-1 as git makes it of a file */
};

/* Returns with the file whole under d->path (at once, where it is there), or an exit code after a message: then what
 * has come lies in PATH.incomplete and the next call goes on from there. */
int download_file(const struct download *d);

#endif
