/* SPDX-License-Identifier: MIT */
#include "rag/rag.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct file {
    char *path;
    uint64_t n_bytes;
    bool named; /* on the command line: refused aloud */
};

struct adder {
    lutra_store *store;
    const struct rag_options *opts;
    struct file *file; /* [n] */
    int n, room;
    uint64_t done, total;               /* bytes */
    uint64_t now;                       /* of the file that is being added */
    int n_what[3], n_refused, n_failed; /* [enum lutra_added] */
};

static void note_file(struct adder *a, const char *path, uint64_t n_bytes, bool named)
{
    if (a->n == a->room) {
        a->room = a->room * 2 + 64;
        a->file = grow_memory(a->file, (size_t)a->room * sizeof *a->file);
    }
    a->file[a->n++] = (struct file){copy_text(path), n_bytes, named};
    a->total += n_bytes;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* The files of a path; below a folder neither hidden ones nor what links lead to. */
static void walk(struct adder *a, const char *path)
{
    char *real = realpath(path, NULL);
    if (!real) {
        say("%s: %s", path, strerror(errno));
        a->n_failed++;
        return;
    }
    char *roots[] = {real, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    for (FTSENT *e; tree && (e = fts_read(tree)) && !interrupted();) {
        bool root = e->fts_level == FTS_ROOTLEVEL;
        if (!root && e->fts_name[0] == '.') {
            fts_set(tree, e, FTS_SKIP);
        } else if (e->fts_info == FTS_F) {
            note_file(a, e->fts_path, (uint64_t)e->fts_statp->st_size, root);
        } else if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS) {
            say("%s: %s", e->fts_path, strerror(e->fts_errno));
            a->n_failed++;
        } else if (e->fts_info == FTS_DEFAULT && root) {
            say("%s: not a regular file", e->fts_path);
            a->n_failed++;
        }
    }
    if (tree) fts_close(tree);
    free(real);
}

static int on_progress(void *user, const char *name, uint64_t done, uint64_t total)
{
    const struct adder *a = user;
    (void)name;
    double share = total ? (double)done / (double)total : 1;
    progress_show("adding", a->done + (uint64_t)(share * (double)a->now), a->total);
    return interrupted();
}

/* A file that the library takes as it is, or what a converter makes of it. */
static int add_document(struct adder *a, const struct file *f, const struct buffer *bytes, struct lutra_error *err)
{
    struct lutra_document d;
    struct buffer text = {0};
    enum lutra_added what = LUTRA_UNCHANGED;
    bool holds;
    lutra_document_init(&d, sizeof d);
    d.name = f->path;
    d.bytes = bytes->text;
    d.n_bytes = bytes->n_bytes;
    d.progress = on_progress;
    d.progress_user = a;
    int rc = lutra_store_holds(a->store, &d, &holds, err);
    bool by_end; /* a command for such names converts all of them, one for any name only what is no text */
    const char *command = converter_for(&a->opts->convert, f->path, &by_end);
    bool as_it_is = rc == 0 && !holds && !by_end;
    if (as_it_is) rc = lutra_store_add(a->store, &d, &what, err);
    if (command && !holds && (as_it_is ? rc == LUTRA_E_UNSUPPORTED : rc == 0)) {
        struct lutra_store_settings set;
        lutra_store_settings_init(&set, sizeof set);
        if (convert(command, f->path, set.max_bytes, &text) < 0) {
            a->n_failed++;
            buffer_free(&text);
            return interrupted() ? LUTRA_E_CANCELLED : 0;
        }
        d.text = text.text;
        d.n_text = text.n_bytes;
        rc = lutra_store_add(a->store, &d, &what, err);
    }
    buffer_free(&text);
    if (rc == 0) a->n_what[what]++;
    return rc;
}

/* 0, or an error that concerns more than this file. */
static int add_file(struct adder *a, const struct file *f, struct lutra_error *err)
{
    struct buffer bytes = {0};
    if (read_file(f->path, &bytes) < 0) {
        a->n_failed++;
        buffer_free(&bytes);
        return 0;
    }
    int rc = add_document(a, f, &bytes, err);
    buffer_free(&bytes);
    if (rc != LUTRA_E_UNSUPPORTED && rc != LUTRA_E_ARGUMENT) return rc;
    if (f->named || a->opts->verbose) say("%s", err->what);
    if (f->named)
        a->n_failed++;
    else
        a->n_refused++;
    return 0;
}

int rag_add(lutra_store *store, const struct rag_options *o, const char *const *path, int n)
{
    struct adder a = {.store = store, .opts = o};
    struct lutra_error err = {0};
    int rc = 0;
    for (int i = 0; i < n; i++) walk(&a, path[i]);
    for (int i = 0; i < a.n && rc == 0 && !interrupted(); i++) {
        a.now = a.file[i].n_bytes;
        progress_show("adding", a.done, a.total);
        rc = add_file(&a, &a.file[i], &err);
        a.done += a.now;
    }
    for (int i = 0; i < a.n; i++) free(a.file[i].path);
    free(a.file);
    progress_clear();
    if (!o->quiet) {
        printf("%d added, %d replaced, %d unchanged", a.n_what[LUTRA_ADDED], a.n_what[LUTRA_REPLACED],
            a.n_what[LUTRA_UNCHANGED]);
        if (a.n_refused) printf(", %d no text (-v names them)", a.n_refused);
        if (a.n_failed) printf(", %d failed", a.n_failed);
        putchar('\n');
    }
    if (interrupted()) return EXIT_INTERRUPTED;
    if (rc < 0) return fail_with(&err);
    return a.n_failed ? EXIT_FAILED : EXIT_OK;
}
