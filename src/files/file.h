/* SPDX-License-Identifier: MIT
 *
 * One file of a model: mapped, never read whole, and what its header says (gguf.h, safetensors.h).
 */
#ifndef LUTRA_FILES_FILE_H
#define LUTRA_FILES_FILE_H

#include "base/status.h"
#include "files/gguf.h"
#include "files/names.h"
#include "ops/tensor.h"

/* Everything points into the file or into `names`, and lives until it is closed. */
struct model_file {
    char label[160]; /* the path for messages, its tail if long */
    const uint8_t *base;
    size_t bytes;
    size_t header_bytes;  /* what comes before tensors' data */
    bool composed;        /* base is from malloc(): what a folder says, as a GGUF header; else it is mapped */
    uint64_t modified_ns; /* since 1970 */
    struct names names;
    struct gguf_kv *kv; /* [n_kv] in file order */
    size_t n_kv;
    struct tensor *tensor; /* [n_tensor] in file order */
    size_t n_tensor;
    const struct gguf_kv **kv_by_name; /* [n_kv] sorted by key */
};

/* Maps a file and sets its label.  LUTRA_E_IO, LUTRA_E_FORMAT (empty), LUTRA_E_NO_MEMORY. */
int model_file_map(struct model_file *file, const char *path, struct lutra_error *err);
/* Frees what was parsed, but not the mapping; and all. */
void model_file_fini(struct model_file *file);
void model_file_close(struct model_file *file);

#endif
