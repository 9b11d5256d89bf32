/* SPDX-License-Identifier: MIT */
#include "quantize/folder_out.h"

#include "base/temporary.h"
#include "files/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Takes no folder in place of another. */
int folder_out_target(const char *path, struct lutra_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0 || (S_ISDIR(st.st_mode) && temporary_is_empty(path))) return 0;
    return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: exists already; a folder takes no other's place", path);
}

int folder_out_open(struct folder_out *o, const char *path, struct lutra_error *err)
{
    *o = (struct folder_out){.target = strdup(path)};
    if (!o->target) return lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for a path");
    for (size_t n = strlen(o->target); n > 1 && o->target[n - 1] == '/'; n--) o->target[n - 1] = 0;
    TRY(folder_out_target(o->target, err));
    o->lock = temporary_folder(o->target, &o->folder);
    if (o->lock >= 0) return 0;
    free(o->folder);
    o->folder = NULL;
    return lutra_fail(err, LUTRA_E_IO, "%s: cannot create a folder beside it: %s", o->target, strerror(errno));
}

static int failed(const struct folder_out *o, const char *what, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_IO, "%s: cannot %s: %s", o->path, what, strerror(errno));
}

int folder_out_begin(struct folder_out *o, const char *name, struct lutra_error *err)
{
    snprintf(o->path, sizeof o->path, "%s/%s", o->folder, name);
    o->file = fopen(o->path, "wbxe");
    return o->file ? 0 : failed(o, "create", err);
}

int folder_out_put(struct folder_out *o, const void *bytes, size_t n, struct lutra_error *err)
{
    return fwrite(bytes, 1, n, o->file) == n ? 0 : failed(o, "write", err);
}

int folder_out_end(struct folder_out *o, struct lutra_error *err)
{
    bool good = fflush(o->file) == 0 && fsync(fileno(o->file)) == 0;
    int rc = good ? 0 : failed(o, "write", err);
    fclose(o->file);
    o->file = NULL;
    return rc;
}

int folder_out_json(struct folder_out *o, const char *name, json_t *value, struct lutra_error *err)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    json_decref(value);
    if (!text) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s/%s: no memory", o->target, name);
    int rc = folder_out_begin(o, name, err);
    if (rc == 0) rc = folder_out_put(o, text, strlen(text), err);
    if (rc == 0) rc = folder_out_put(o, "\n", 1, err);
    free(text);
    return rc < 0 ? rc : folder_out_end(o, err);
}

int folder_out_commit(struct folder_out *o, struct lutra_error *err)
{
    if (rename(o->folder, o->target) != 0)
        return lutra_fail(err, LUTRA_E_IO, "%s: cannot rename to it: %s", o->target, strerror(errno));
    temporary_settle(o->target);
    o->done = true;
    return 0;
}

void folder_out_close(struct folder_out *o)
{
    if (o->file) fclose(o->file);
    if (o->folder && !o->done) temporary_remove(o->lock, o->folder);
    if (o->folder) close(o->lock);
    free(o->folder);
    free(o->target);
    *o = (struct folder_out){0};
}

/* ---- safetensors ---- */

void folder_out_describe(
    json_t *header, const char *name, const char *dtype, int n_dim, const uint64_t *dim, uint64_t n, uint64_t *at)
{
    json_t *shape = json_array();
    for (int i = 0; i < n_dim; i++) json_array_append_new(shape, json_integer((json_int_t)dim[i]));
    json_object_set_new(header, name,
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets", (json_int_t)*at,
            (json_int_t)(*at + n)));
    *at += n;
}

int folder_out_header(struct folder_out *o, json_t *header, struct lutra_error *err)
{
    char *text = json_dumps(header, JSON_COMPACT);
    if (!text) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory for its header", o->path);
    uint64_t n = strlen(text), padded = (n + 7) / 8 * 8;
    int rc = folder_out_put(o, &padded, sizeof padded, err);
    if (rc == 0) rc = folder_out_put(o, text, n, err);
    if (rc == 0) rc = folder_out_put(o, "       ", padded - n, err);
    free(text);
    return rc;
}
