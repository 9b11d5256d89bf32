/* SPDX-License-Identifier: MIT */
#include "rag/rag.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MISSING_MAX = 16 };

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
    char **root;                        /* [n_root] real paths that were given, and such as are gone */
    int n_root;
    struct missing {
        const char *end, *package;
        int n;
    } missing[MISSING_MAX]; /* kinds of files that nothing here converts */
    int n_missing;
    char **gone; /* [n_gone] documents without a file */
    int n_gone, room_gone;
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

static void note_root(struct adder *a, const char *name)
{
    a->root = grow_memory(a->root, (size_t)(a->n_root + 1) * sizeof *a->root);
    a->root[a->n_root++] = copy_text(name);
}

struct search {
    const char *name;
    bool found;
};

static bool is_below(const char *name, const char *root)
{
    size_t n = strlen(root);
    return strncmp(name, root, n) == 0 && (name[n] == 0 || name[n] == '/' || (n == 1 && root[0] == '/'));
}

static int look_below(void *user, const struct lutra_stored *d)
{
    struct search *s = user;
    s->found = s->found || is_below(d->name, s->name);
    return 0;
}

/* A path that is not there: a fault, or a document whose file is gone. */
static void note_unreadable(struct adder *a, const char *path)
{
    int why = errno;
    struct lutra_error err = {0};
    char *name = rag_stored_name(path);
    struct search s = {name, false};
    if (why == ENOENT) lutra_store_list(a->store, look_below, &s, &err);
    if (s.found) {
        note_root(a, name);
    } else {
        say("%s: %s", path, strerror(why));
        a->n_failed++;
    }
    free(name);
}

/* The files of a path; below a folder neither hidden ones nor what links lead to. */
static void walk(struct adder *a, const char *path)
{
    char *real = realpath(path, NULL);
    if (!real) {
        note_unreadable(a, path);
        return;
    }
    note_root(a, real);
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

/* Text that is read as something that it may not be. */
static void warn_of_charset(const struct file *f, const struct buffer *bytes)
{
    const char *charset = lutra_text_charset(bytes->text, bytes->n_bytes);
    bool html = bytes->n_bytes && bytes->text[strspn(bytes->text, " \t\r\n")] == '<';
    if (charset && !html && strcmp(charset, "windows-1252") == 0) say("%s: not UTF-8: read as Windows-1252", f->path);
}

static bool ends_with(const char *path, const char *end)
{
    size_t n = strlen(path), n_end = strlen(end);
    return n > n_end && strcasecmp(path + n - n_end, end) == 0;
}

static void note_missing(struct adder *a, const struct converter *c)
{
    int i = 0;
    while (i < a->n_missing && strcmp(a->missing[i].end, c->end) != 0) i++;
    if (i == MISSING_MAX) return;
    if (i == a->n_missing) a->missing[a->n_missing++] = (struct missing){c->end, c->missing, 0};
    a->missing[i].n++;
}

/* The text that a converter makes of a file.  1: it failed, after a message. */
static int add_converted(struct adder *a, const struct converter *c, const struct file *f, struct lutra_document *d,
    enum lutra_added *what, struct lutra_error *err)
{
    struct buffer text = {0};
    struct lutra_store_settings set;
    int rc = LUTRA_E_UNSUPPORTED;
    lutra_store_settings_init(&set, sizeof set);
    char *inner = copy_text(f->path); /* "notes.html" of "notes.html.gz" */
    if (c->unpacks) *strrchr(inner, '.') = 0;
    if (convert(c->command, f->path, set.max_bytes, a->opts->convert_seconds, &text) < 0) {
        a->n_failed++;
        rc = interrupted() ? LUTRA_E_CANCELLED : 1;
    } else if (strspn(text.text, " \t\r\n\f\v") == text.n_bytes) {
        err->code = LUTRA_E_UNSUPPORTED;
        snprintf(err->what, sizeof err->what, "%s: not added: %.40s found no text in it", f->path, c->command);
    } else {
        bool html = c->unpacks && (ends_with(inner, ".html") || ends_with(inner, ".htm") || ends_with(inner, ".xhtml"));
        bool markdown = c->unpacks && (ends_with(inner, ".md") || ends_with(inner, ".markdown"));
        d->kind = html ? "html" : markdown ? "markdown" : NULL;
        d->text = text.text;
        d->n_text = text.n_bytes;
        rc = lutra_store_add(a->store, d, what, err);
    }
    free(inner);
    buffer_free(&text);
    return rc;
}

/* A file that the library takes as it is, or what a converter makes of it. */
static int add_document(struct adder *a, const struct file *f, const struct buffer *bytes, struct lutra_error *err)
{
    struct lutra_document d;
    enum lutra_added what = LUTRA_UNCHANGED;
    bool holds;
    lutra_document_init(&d, sizeof d);
    d.name = f->path;
    d.bytes = bytes->text;
    d.n_bytes = bytes->n_bytes;
    d.progress = on_progress;
    d.progress_user = a;
    int rc = lutra_store_holds(a->store, &d, &holds, err);
    struct converter c = converter_for(&a->opts->convert, f->path);
    if (rc == 0 && !holds && c.missing) {
        note_missing(a, &c);
        a->n_failed += f->named;
        a->n_refused += !f->named;
        return 0;
    }
    bool as_it_is = rc == 0 && !holds && !c.by_end;
    if (as_it_is) rc = lutra_store_add(a->store, &d, &what, err);
    if (as_it_is && rc == 0) warn_of_charset(f, bytes);
    if (c.command && !holds && (as_it_is ? rc == LUTRA_E_UNSUPPORTED : rc == 0))
        rc = add_converted(a, &c, f, &d, &what, err);
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
    if (rc > 0) rc = 0;
    bool is_text = !memchr(bytes.text, 0, bytes.n_bytes); /* of an unknown charset: worth a word */
    buffer_free(&bytes);
    if (rc != LUTRA_E_UNSUPPORTED && rc != LUTRA_E_ARGUMENT) return rc;
    if (f->named || a->opts->verbose || is_text) say("%s", err->what);
    if (f->named)
        a->n_failed++;
    else
        a->n_refused++;
    return 0;
}

/* ---- files that are gone ---- */

static int note_gone(void *user, const struct lutra_stored *d)
{
    struct adder *a = user;
    struct stat st;
    bool below = false;
    for (int i = 0; i < a->n_root; i++) below = below || is_below(d->name, a->root[i]);
    if (!below || lstat(d->name, &st) == 0 || (errno != ENOENT && errno != ENOTDIR)) return interrupted();
    if (a->n_gone == a->room_gone) {
        a->room_gone = a->room_gone * 2 + 16;
        a->gone = grow_memory(a->gone, (size_t)a->room_gone * sizeof *a->gone);
    }
    a->gone[a->n_gone++] = copy_text(d->name);
    return interrupted();
}

/* Documents below what was given whose files are not there any more: said, or with --sync removed. */
static int settle_gone(struct adder *a, int64_t *n_removed, struct lutra_error *err)
{
    enum { NAMED_MAX = 5 };
    int rc = lutra_store_list(a->store, note_gone, a, err);
    for (int i = 0; i < a->n_gone && rc == 0 && a->opts->sync; i++) {
        int64_t n = 0;
        rc = lutra_store_remove(a->store, a->gone[i], &n, err);
        *n_removed += n;
    }
    bool says = rc == 0 && a->n_gone && !a->opts->sync && !a->opts->quiet;
    for (int i = 0; says && i < a->n_gone && i < NAMED_MAX; i++) say("%s: gone, but still in the store", a->gone[i]);
    if (says && a->n_gone > NAMED_MAX) say("and %d more", a->n_gone - NAMED_MAX);
    if (says) say("'lutra rag add --sync' with the same arguments removes them");
    return rc;
}

static void print_counts(const struct adder *a, int64_t n_removed)
{
    for (int i = 0; i < a->n_missing; i++)
        say("%d %s %s not added: nothing here makes text of such files (Debian: %s; or --convert '%s=CMD')",
            a->missing[i].n, a->missing[i].end, a->missing[i].n == 1 ? "file was" : "files were", a->missing[i].package,
            a->missing[i].end);
    if (a->opts->quiet) return;
    printf("%d added, %d replaced, %d unchanged", a->n_what[LUTRA_ADDED], a->n_what[LUTRA_REPLACED],
        a->n_what[LUTRA_UNCHANGED]);
    if (n_removed) printf(", %lld removed", (long long)n_removed);
    if (a->n_refused) printf(", %d no text (-v names them)", a->n_refused);
    if (a->n_failed) printf(", %d failed", a->n_failed);
    putchar('\n');
}

static void adder_free(struct adder *a)
{
    for (int i = 0; i < a->n; i++) free(a->file[i].path);
    for (int i = 0; i < a->n_root; i++) free(a->root[i]);
    for (int i = 0; i < a->n_gone; i++) free(a->gone[i]);
    free(a->file);
    free(a->root);
    free(a->gone);
}

int rag_add(lutra_store *store, const struct rag_options *o, const char *const *path, int n)
{
    struct adder a = {.store = store, .opts = o};
    struct lutra_error err = {0};
    int rc = 0;
    int64_t n_removed = 0;
    for (int i = 0; i < n; i++) walk(&a, path[i]);
    for (int i = 0; i < a.n && rc == 0 && !interrupted(); i++) {
        a.now = a.file[i].n_bytes;
        progress_show("adding", a.done, a.total);
        rc = add_file(&a, &a.file[i], &err);
        a.done += a.now;
    }
    progress_clear();
    if (rc == 0 && !interrupted()) rc = settle_gone(&a, &n_removed, &err);
    print_counts(&a, n_removed);
    adder_free(&a);
    if (interrupted()) return EXIT_INTERRUPTED;
    if (rc < 0) return fail_with(&err);
    return a.n_failed ? EXIT_FAILED : EXIT_OK;
}
