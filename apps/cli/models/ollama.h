/* SPDX-License-Identifier: MIT
 *
 * Ollama's store: manifests/HOST/NAMESPACE/MODEL/TAG are JSON that name blobs/sha256-HEX, one of which is the GGUF
 * file.
 */
#ifndef LUTRA_CLI_MODELS_OLLAMA_H
#define LUTRA_CLI_MODELS_OLLAMA_H

#include <stddef.h>

struct model_list;

enum { OLLAMA_DIGEST = 64 };

/* Reads a manifest: the hexadecimal digits of the model layer's SHA-256 into digest, NUL-terminated.  NULL, or why it
 * names none. */
const char *ollama_read_manifest(const char *json, size_t n, char digest[OLLAMA_DIGEST + 1]);

/* Adds the models of a store; NULL is none. */
void ollama_list(struct model_list *list, const char *store);

#endif
