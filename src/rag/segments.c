/* SPDX-License-Identifier: MIT */
#include "rag/segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

enum {
    NAME_BYTES = 64,
    FILE_LEAST = 16384, /* symbols that are worth a file: fewer are tokenized and sorted again in milliseconds */
    MERGE_RATIO = 2,    /* a file is made anew with a new one that has at least half as much: sizes at least double */
    LOCK_RETRY_US = 10000,
};

/* ---- what the store has ---- */

struct live {
    struct text_key key;
    bool is_covered; /* some segment has it */
};

struct lives {
    struct live *at; /* [n] by id */
    size_t n, room;
};

static int no_memory(const lutra_store *s, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", s->path);
}

static int list_live(lutra_store *s, struct lives *l, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sql_prepare(
        s, &stmt, "SELECT -id, added FROM exchange UNION ALL SELECT id, hash FROM document ORDER BY 1", err);
    while (rc == 0 && (rc = sql_step(s, stmt, err)) > 0) {
        if (l->n == l->room) {
            size_t room = l->room * 2 + 256;
            struct live *more = realloc(l->at, room * sizeof *more);
            if (!more) {
                rc = no_memory(s, err);
                break;
            }
            l->at = more;
            l->room = room;
        }
        l->at[l->n++] =
            (struct live){.key = {sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1)}, .is_covered = false};
        rc = 0;
    }
    sqlite3_finalize(stmt);
    return rc;
}

static struct live *find_live(const struct lives *l, struct text_key key)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->at[middle].key.id < key.id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l->n && l->at[low].key.id == key.id && l->at[low].key.hash == key.hash ? &l->at[low] : NULL;
}

/* ---- the folder ---- */

struct entry {
    char name[NAME_BYTES];
    uint64_t vocab, generation;
};

struct folder {
    int fd;      /* -1: there is none, and none can be made */
    bool is_own; /* we hold its lock */
    struct entry *entry;
    int n;
};

static void entry_name(struct entry *e, uint64_t vocab, uint64_t generation)
{
    e->vocab = vocab;
    e->generation = generation;
    snprintf(e->name, sizeof e->name, "%016" PRIx64 "-%" PRIu64 ".seg", vocab, generation);
}

static bool read_name(struct entry *e, const char *name)
{
    uint64_t vocab, generation;
    if (sscanf(name, "%16" SCNx64 "-%" SCNu64, &vocab, &generation) != 2) return false;
    entry_name(e, vocab, generation);
    return strcmp(e->name, name) == 0;
}

static bool is_left_over(const char *name)
{
    struct entry e;
    char base[NAME_BYTES];
    size_t n = strlen(name);
    if (n < 5 || n >= sizeof base + 4 || strcmp(name + n - 4, ".tmp") != 0) return false;
    snprintf(base, sizeof base, "%.*s", (int)(n - 4), name);
    return read_name(&e, base);
}

static int by_generation(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return (x->generation < y->generation) - (x->generation > y->generation);
}

/* The newest first; what a killed program left over goes. */
static int list_entries(const lutra_store *s, struct folder *f, struct lutra_error *err)
{
    int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) close(fd);
        return lutra_fail(err, LUTRA_E_IO, "%s-tokens: %s", s->path, strerror(errno));
    }
    for (struct dirent *d; rc == 0 && (d = readdir(dir));) {
        struct entry e;
        if (f->is_own && is_left_over(d->d_name)) unlinkat(f->fd, d->d_name, 0);
        if (!read_name(&e, d->d_name)) continue;
        struct entry *more = realloc(f->entry, (size_t)(f->n + 1) * sizeof *more);
        if (!more) {
            rc = no_memory(s, err);
            break;
        }
        f->entry = more;
        f->entry[f->n++] = e;
    }
    closedir(dir);
    if (f->n) qsort(f->entry, (size_t)f->n, sizeof *f->entry, by_generation);
    return rc;
}

/* or_make: else nothing is wanted where there is none.  Waits for the lock up to wait_us. */
static int open_folder(const lutra_store *s, struct folder *f, bool or_make, uint64_t wait_us, struct lutra_error *err)
{
    struct text path = {0};
    *f = (struct folder){.fd = -1};
    text_add(&path, s->path, strlen(s->path));
    text_add(&path, "-tokens", 7);
    if (!path.failed && or_make) mkdir(path.bytes, 0700);
    if (!path.failed) f->fd = open(path.bytes, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool failed = path.failed;
    text_fini(&path);
    if (failed) return no_memory(s, err);
    if (f->fd < 0) return 0;
    for (uint64_t waited = 0;; waited += LOCK_RETRY_US) {
        f->is_own = flock(f->fd, LOCK_EX | LOCK_NB) == 0;
        if (f->is_own || waited >= wait_us) break;
        usleep(LOCK_RETRY_US);
    }
    return list_entries(s, f, err);
}

static void close_folder(struct folder *f)
{
    free(f->entry);
    if (f->fd >= 0) close(f->fd);
    *f = (struct folder){.fd = -1};
}

static int save(const lutra_store *s, const struct folder *f, const struct segment *made, uint64_t generation,
    struct lutra_error *err)
{
    struct entry e;
    entry_name(&e, made->head->vocab, generation);
    if (segment_save(made, f->fd, e.name) == 0) return 0;
    return lutra_fail(err, LUTRA_E_IO, "%s-tokens/%s: %s", s->path, e.name, strerror(errno));
}

/* ---- bringing them up to date ---- */

struct sync {
    lutra_store *store;
    const lutra_model *model;
    uint64_t vocab, generation; /* the next one's */
    int32_t n_vocab;
    lutra_progress_fn progress;
    void *progress_user;
    struct folder folder;
    struct lives lives;
    struct segments *out;
    struct entry from[SEGMENTS_MOST]; /* [out->n] their files */
    struct gathered fresh;            /* texts of the segment to be made */
    int32_t *token;                   /* of one chunk */
    int room;
};

/* Tokens with the same texts are the same vocabulary. */
static uint64_t hash_vocabulary(const lutra_model *model, int32_t n_vocab)
{
    char text[512];
    uint64_t h = (uint64_t)n_vocab;
    for (int32_t t = 0; t < n_vocab; t++) {
        size_t n = 0;
        if (lutra_token_text(model, t, true, text, sizeof text, &n) < 0) n = 0;
        h = hash_bytes(h, text, n < sizeof text ? n : sizeof text);
    }
    return h;
}

/* Copies those texts of a segment that are wanted and not there yet. */
static int copy_wanted(struct gathered *g, const struct segment *s, const struct lives *lives)
{
    for (int64_t i = 0; i < s->head->n_text; i++) {
        struct live *l = find_live(lives, s->text[i].key);
        if (!l || l->is_covered) continue;
        if (gathered_copy(g, s, i) < 0) return -1;
        l->is_covered = true;
    }
    return 0;
}

static int64_t count_wanted(const struct segment *s, const struct lives *lives)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->head->n_text; i++) {
        const struct live *l = find_live(lives, s->text[i].key);
        n += l && !l->is_covered;
    }
    return n;
}

/* A file joins the others, or what is wanted of it joins the texts of the next one.  *is_done: it is not needed any
 * more. */
static int take_file(struct sync *y, const struct entry *e, bool *is_done)
{
    struct segment s;
    *is_done = true;
    if (segment_open(&s, y->folder.fd, e->name) < 0) return 0;
    bool is_ours = s.head->vocab == y->vocab && s.head->n_symbol == y->n_vocab + 1;
    int64_t n_wanted = is_ours ? count_wanted(&s, &y->lives) : 0;
    int rc = 0;
    if (n_wanted > 0 && n_wanted == s.head->n_text && y->out->n < SEGMENTS_MOST - 1) {
        for (int64_t i = 0; i < s.head->n_text; i++) find_live(&y->lives, s.text[i].key)->is_covered = true;
        y->from[y->out->n] = *e;
        y->out->at[y->out->n++] = s;
        *is_done = false;
        return 0;
    }
    if (n_wanted > 0) rc = copy_wanted(&y->fresh, &s, &y->lives);
    segment_close(&s);
    return rc;
}

static int tokenize_text(struct sync *y, const char *text, size_t n, struct lutra_error *err)
{
    for (int n_tok = 0;;) {
        TRY(lutra_tokenize(y->model, text, n, 0, y->token, y->room, &n_tok, err));
        if (n_tok <= y->room)
            return gathered_add(&y->fresh, y->token, (size_t)n_tok) < 0 ? no_memory(y->store, err) : 0;
        int32_t *more = realloc(y->token, (size_t)n_tok * sizeof *more);
        if (!more) return no_memory(y->store, err);
        y->token = more;
        y->room = n_tok;
    }
}

/* stmt: the rows of the text's pieces by its id. */
static int tokenize_live(struct sync *y, sqlite3_stmt *stmt, struct live *l, struct lutra_error *err)
{
    int rc = gathered_begin(&y->fresh, l->key) < 0 ? no_memory(y->store, err) : 0;
    sqlite3_bind_int64(stmt, 1, l->key.id);
    while (rc == 0 && (rc = sql_step(y->store, stmt, err)) > 0) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        rc = tokenize_text(y, text ? text : "", text ? (size_t)sqlite3_column_bytes(stmt, 0) : 0, err);
    }
    sqlite3_reset(stmt);
    if (rc == 0 && gathered_end(&y->fresh) < 0) rc = no_memory(y->store, err);
    l->is_covered = true;
    return rc;
}

static int tokenize_uncovered(struct sync *y, struct lutra_error *err)
{
    sqlite3_stmt *document = NULL, *exchange = NULL;
    int rc = sql_prepare(y->store, &document, "SELECT text FROM chunk WHERE document=?1 ORDER BY begin", err);
    if (rc == 0) rc = sql_prepare(y->store, &exchange, "SELECT answer FROM exchange WHERE id=-?1", err);
    for (size_t i = 0; rc == 0 && i < y->lives.n; i++) {
        struct live *l = &y->lives.at[i];
        if (l->is_covered) continue;
        if (y->progress && y->progress(y->progress_user, "tokenizing the store", i, y->lives.n))
            rc = lutra_fail(err, LUTRA_E_CANCELLED, "%s: cancelled", y->store->path);
        else
            rc = tokenize_live(y, l->key.id < 0 ? exchange : document, l, err);
    }
    sqlite3_finalize(document);
    sqlite3_finalize(exchange);
    return rc;
}

/* The smallest segment, where it is to be made anew with what is fresh; else -1. */
static int choose_merged(const struct sync *y)
{
    const struct segments *s = y->out;
    int best = -1;
    for (int i = 0; i < s->n; i++)
        if (best < 0 || s->at[i].tokens.n < s->at[best].tokens.n) best = i;
    if (best >= 0 && s->n < SEGMENTS_MOST - 1 && s->at[best].tokens.n / MERGE_RATIO >= (int64_t)y->fresh.n) return -1;
    return best;
}

static int merge(struct sync *y, struct entry *old, int *n_old)
{
    struct segments *s = y->out;
    for (int k; (k = choose_merged(y)) >= 0;) {
        for (int64_t i = 0; i < s->at[k].head->n_text; i++)
            if (gathered_copy(&y->fresh, &s->at[k], i) < 0) return -1;
        old[(*n_old)++] = y->from[k];
        segment_close(&s->at[k]);
        s->at[k] = s->at[--s->n];
        y->from[k] = y->from[s->n];
    }
    return 0;
}

/* The segment of what is fresh: a file where it is worth one. */
static int make_fresh(struct sync *y, struct lutra_error *err)
{
    struct entry old[SEGMENTS_MOST];
    int n_old = 0;
    bool is_file = y->folder.is_own && y->fresh.n >= FILE_LEAST;
    if (y->fresh.n_text == 0) return 0;
    if (is_file && merge(y, old, &n_old) < 0) return no_memory(y->store, err);
    struct segment *made = &y->out->at[y->out->n];
    if (y->progress) y->progress(y->progress_user, "sorting the store's tokens", 0, 0);
    if (segment_make(made, &y->fresh, y->vocab, y->n_vocab) < 0) return no_memory(y->store, err);
    y->out->n++;
    if (!is_file) return 0;
    TRY(save(y->store, &y->folder, made, y->generation, err));
    for (int i = 0; i < n_old; i++) unlinkat(y->folder.fd, old[i].name, 0);
    return 0;
}

static int bring_up_to_date(struct sync *y, struct lutra_error *err)
{
    bool *is_done = calloc((size_t)y->folder.n + 1, sizeof *is_done);
    int rc = is_done ? list_live(y->store, &y->lives, err) : no_memory(y->store, err);
    for (int i = 0; rc == 0 && i < y->folder.n; i++) {
        const struct entry *e = &y->folder.entry[i];
        if (e->vocab != y->vocab) continue;
        if (e->generation >= y->generation) y->generation = e->generation + 1;
        if (take_file(y, e, &is_done[i]) < 0) rc = no_memory(y->store, err);
    }
    if (rc == 0) rc = tokenize_uncovered(y, err);
    if (rc == 0) rc = make_fresh(y, err);
    for (int i = 0; rc == 0 && y->folder.is_own && i < y->folder.n; i++)
        if (is_done[i]) unlinkat(y->folder.fd, y->folder.entry[i].name, 0);
    free(is_done);
    return rc;
}

int segments_open(struct segments *s, lutra_store *store, const lutra_model *model, lutra_progress_fn progress,
    void *progress_user, struct lutra_error *err)
{
    struct sync *y = calloc(1, sizeof *y);
    struct lutra_model_info info;
    *s = (struct segments){0};
    if (!y) return no_memory(store, err);
    lutra_model_info_get(model, &info, sizeof info);
    *y = (struct sync){.store = store,
        .model = model,
        .n_vocab = info.n_vocab,
        .generation = 1,
        .progress = progress,
        .progress_user = progress_user,
        .out = s};
    y->vocab = hash_vocabulary(model, y->n_vocab);
    int rc = open_folder(store, &y->folder, true, 0, err);
    if (rc == 0) rc = sql_run(store, "BEGIN", err); /* one state of the store */
    if (rc == 0) rc = sql_end(store, bring_up_to_date(y, err), err);
    close_folder(&y->folder);
    gathered_fini(&y->fresh);
    free(y->lives.at);
    free(y->token);
    free(y);
    for (int i = 0; i < s->n; i++) {
        s->n_text += s->at[i].head->n_text;
        s->n_symbol += s->at[i].head->n;
    }
    if (rc < 0) segments_close(s);
    return rc;
}

void segments_close(struct segments *s)
{
    for (int i = 0; i < s->n; i++) segment_close(&s->at[i]);
    *s = (struct segments){0};
}

/* ---- compact ---- */

static int compact_file(
    lutra_store *store, struct folder *f, const struct entry *e, const struct lives *lives, struct lutra_error *err)
{
    struct segment s, made;
    struct gathered g = {0};
    int rc = 0;
    if (segment_open(&s, f->fd, e->name) == 0) {
        bool is_whole = count_wanted(&s, lives) == s.head->n_text;
        if (!is_whole && copy_wanted(&g, &s, lives) < 0) rc = no_memory(store, err);
        if (rc == 0 && g.n_text) {
            rc = segment_make(&made, &g, s.head->vocab, s.head->n_symbol - 1) < 0 ? no_memory(store, err) : 0;
            if (rc == 0) rc = save(store, f, &made, f->entry[0].generation + 1, err);
            if (rc == 0) f->entry[0].generation++; /* the highest of all */
            segment_close(&made);
        }
        segment_close(&s);
        gathered_fini(&g);
        if (rc < 0 || is_whole) return rc;
    }
    unlinkat(f->fd, e->name, 0);
    return 0;
}

int segments_compact(lutra_store *store, struct lutra_error *err)
{
    struct folder f;
    struct lives lives = {0};
    int rc = open_folder(store, &f, false, store->set.busy_us, err);
    if (rc == 0 && f.fd >= 0 && !f.is_own)
        rc = lutra_fail(err, LUTRA_E_BUSY, "%s-tokens: another program is changing it; try again", store->path);
    if (rc == 0 && f.n) rc = list_live(store, &lives, err);
    for (int i = 0; rc == 0 && i < f.n; i++) {
        struct entry e = f.entry[i];
        for (size_t k = 0; k < lives.n; k++) lives.at[k].is_covered = false; /* each vocabulary has its own */
        rc = compact_file(store, &f, &e, &lives, err);
    }
    free(lives.at);
    close_folder(&f);
    return rc;
}

uint64_t segments_bytes(const lutra_store *store)
{
    struct folder f;
    struct stat st;
    uint64_t bytes = 0;
    if (open_folder(store, &f, false, 0, NULL) == 0)
        for (int i = 0; i < f.n; i++)
            if (fstatat(f.fd, f.entry[i].name, &st, AT_SYMLINK_NOFOLLOW) == 0) bytes += (uint64_t)st.st_size;
    close_folder(&f);
    return bytes;
}
