/* SPDX-License-Identifier: MIT */
#include "rag/rag.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AT(field) offsetof(struct rag_options, field)

static const struct option rag_table[] = {
    {"--db", "RAG_DB", OPT_TEXT, AT(db), "FILE",
        .help = "the store; else $XDG_DATA_HOME/lutra/rag.db or ~/.local/share/lutra/rag.db"},
    {"-n --top", NULL, OPT_INT, AT(top), "N", .help = "search: passages at most", .min = 1, .max = 1000},
    {"--json", NULL, OPT_ON, AT(json), NULL, .help = "search, list, stats: one JSON object per line"},
    {"--history", NULL, OPT_ON, AT(history), NULL,
        .help = "list, remove: the exchanges of 'lutra run --rag' instead of documents"},
    {"--check", NULL, OPT_ON, AT(check), NULL, .help = "stats: read everything and compare index and text"},
    {"--convert", NULL, OPT_LIST, AT(convert), "CMD",
        .help =
            "add: a program whose output is the text of files that are none, or with .END=CMD of those whose names end "
            "so ('.pdf=pdftotext {} -'); words between blanks, {} is the file, no shell; may be repeated. Without it "
            "pdftotext, mutool, pandoc, docx2txt, odt2txt, gzip, bzip2, xz and zstd are used where they are installed"},
    {"--convert-seconds", NULL, OPT_INT, AT(convert_seconds), "N",
        .help = "add: how long a converter may take for one file", .min = 1, .max = 86400},
    {"--sync", NULL, OPT_ON, AT(sync), NULL,
        .help = "add: remove documents whose files are gone from below the folders that are given"},
    {"--chunk-size", "RAG_CHUNK_SIZE", OPT_INT, AT(chunk_size), "N", .help = "add: bytes of the longest passage",
        .min = 200, .max = 100000},
    {"-v --verbose", NULL, OPT_ON, AT(verbose), NULL, .help = "add: name the files of folders that are no text"},
    {"-q --quiet", NULL, OPT_ON, AT(quiet), NULL, .help = "errors only"},
    {"--no-progress", "NO_PROGRESS", OPT_OFF, AT(progress), NULL,
        .help = "no progress line (there is none when stderr is not a terminal)"},
};
#undef AT

static void set_defaults(void *opts)
{
    struct rag_options *o = opts;
    struct lutra_store_settings set;
    lutra_store_settings_init(&set, sizeof set);
    *o = (struct rag_options){.top = 5, .chunk_size = set.chunk_bytes, .convert_seconds = 120, .progress = true};
}

static int list_sets(void *opts, struct option_set *set)
{
    set[0] = (struct option_set){"Options", rag_table, OPTION_COUNT(rag_table), opts, NULL};
    return 1;
}

lutra_store *rag_open(const struct rag_options *o, bool must_exist, int *code)
{
    struct lutra_error err = {0};
    struct lutra_store_settings set;
    lutra_store *store = NULL;
    char *own = o->db ? NULL : user_path("XDG_DATA_HOME", ".local/share", "rag.db");
    const char *path = o->db ? o->db : own;
    *code = EXIT_FAILED;
    lutra_store_settings_init(&set, sizeof set);
    set.must_exist = must_exist;
    set.chunk_bytes = o->chunk_size;
    if (!path) {
        say("rag: no home folder; give the store with --db FILE");
        *code = EXIT_USAGE;
    } else {
        if (own && !must_exist) make_folders(own);
        if (lutra_store_open(&store, path, &set, &err) < 0) *code = fail_with(&err);
    }
    free(own);
    return store;
}

/* One object as a line; a text that is not UTF-8 cannot be in a store. */
static void print_json(json_t *object)
{
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(object);
}

/* ---- the commands ---- */

static int add(lutra_store *store, const struct rag_options *o, const char *const *arg, int n)
{
    return rag_add(store, o, arg, n);
}

static void print_passage(const struct lutra_passage *p, int i, bool json)
{
    if (json) {
        print_json(json_pack("{s:i, s:s, s:I, s:I, s:f, s:s}", "rank", i + 1, "name", p->name, "begin",
            (json_int_t)p->begin, "end", (json_int_t)p->end, "score", p->score, "text", p->text));
        return;
    }
    printf("%s[%d] ", i ? "\n" : "", i + 1);
    print_plain(p->name, strlen(p->name));
    printf(", bytes %llu to %llu, score %.2f\n", (unsigned long long)p->begin, (unsigned long long)p->end, p->score);
    print_plain(p->text, p->n_bytes);
    if (p->n_bytes == 0 || p->text[p->n_bytes - 1] != '\n') putchar('\n');
}

static int search(lutra_store *store, const struct rag_options *o, const char *const *arg, int n)
{
    struct lutra_error err = {0};
    struct buffer query = {0};
    lutra_passages *found = NULL;
    for (int i = 0; i < n; i++) {
        if (i) buffer_add(&query, " ", 1);
        buffer_add(&query, arg[i], strlen(arg[i]));
    }
    int rc = lutra_store_find(store, query.text, query.n_bytes, o->top, &found, &err);
    buffer_free(&query);
    if (rc < 0) return fail_with(&err);
    int n_found = lutra_passages_count(found);
    for (int i = 0; i < n_found; i++) print_passage(lutra_passages_at(found, i), i, o->json);
    lutra_passages_close(&found);
    if (n_found == 0 && !o->quiet) say("nothing found");
    return n_found ? EXIT_OK : EXIT_FAILED;
}

static void date_text(int64_t seconds, char out[32])
{
    struct tm tm;
    time_t t = (time_t)seconds;
    if (!localtime_r(&t, &tm) || strftime(out, 32, "%Y-%m-%d %H:%M", &tm) == 0) out[0] = 0;
}

static int print_document(void *user, const struct lutra_stored *d)
{
    const struct rag_options *o = user;
    char date[32], bytes[32];
    if (o->json) {
        print_json(json_pack("{s:s, s:s, s:I, s:I, s:I}", "name", d->name, "kind", d->kind, "bytes",
            (json_int_t)d->n_bytes, "chunks", (json_int_t)d->n_chunk, "added", (json_int_t)d->added));
        return interrupted();
    }
    date_text(d->added, date);
    printf("%s  %-8s  %10s  %6lld chunks  ", date, d->kind, bytes_text((double)d->n_bytes, bytes, sizeof bytes),
        (long long)d->n_chunk);
    print_plain(d->name, strlen(d->name));
    putchar('\n');
    return interrupted();
}

static int print_exchange(void *user, const struct lutra_stored_exchange *e)
{
    const struct rag_options *o = user;
    char date[32];
    if (o->json) {
        print_json(json_pack("{s:I, s:I, s:s, s:s}", "id", (json_int_t)e->id, "added", (json_int_t)e->added, "question",
            e->question, "answer", e->answer));
        return interrupted();
    }
    date_text(e->added, date);
    printf("%s%s\n> ", e->id > 1 ? "\n" : "", date);
    print_plain(e->question, e->n_question);
    putchar('\n');
    print_plain(e->answer, e->n_answer);
    putchar('\n');
    return interrupted();
}

static int list(lutra_store *store, const struct rag_options *o, const char *const *arg, int n)
{
    struct lutra_error err = {0};
    (void)arg, (void)n;
    int rc = o->history ? lutra_store_history(store, print_exchange, (void *)o, &err)
                        : lutra_store_list(store, print_document, (void *)o, &err);
    return rc < 0 ? fail_with(&err) : EXIT_OK;
}

char *rag_stored_name(const char *path)
{
    char *real = realpath(path, NULL), *copy, *slash;
    if (real) return real;
    copy = copy_text(path);
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--) copy[n - 1] = 0;
    slash = strrchr(copy, '/');
    if (slash) *slash = 0;
    char *folder = realpath(slash ? (slash == copy ? "/" : copy) : ".", NULL);
    struct buffer name = {0};
    const char *last = slash ? slash + 1 : copy;
    if (folder) {
        buffer_add(&name, folder, strlen(folder));
        if (strcmp(folder, "/") != 0) buffer_add(&name, "/", 1);
        buffer_add(&name, last, strlen(last));
    } else {
        buffer_add(&name, path, strlen(path));
    }
    free(folder);
    free(copy);
    return name.text;
}

static int forget(lutra_store *store)
{
    struct lutra_error err = {0};
    return lutra_store_forget(store, &err) < 0 ? fail_with(&err) : EXIT_OK;
}

static int remove_documents(lutra_store *store, const struct rag_options *o, const char *const *arg, int n)
{
    struct lutra_error err = {0};
    int64_t n_all = 0;
    int code = EXIT_OK;
    if (o->history) return forget(store);
    for (int i = 0; i < n; i++) {
        int64_t n_removed = 0;
        char *name = rag_stored_name(arg[i]);
        int rc = lutra_store_remove(store, name, &n_removed, &err);
        if (rc == 0 && n_removed == 0)
            rc = lutra_store_remove(store, arg[i], &n_removed, &err); /* as `list` shows it */
        free(name);
        if (rc < 0) return fail_with(&err);
        if (n_removed == 0) {
            say("%s: no document of that name, and none below it", arg[i]);
            code = EXIT_FAILED;
        }
        n_all += n_removed;
    }
    if (!o->quiet)
        printf(
            "%lld removed%s\n", (long long)n_all, n_all ? "; 'lutra rag compact' wipes their text from the file" : "");
    return code;
}

static int stats(lutra_store *store, const struct rag_options *o, const char *const *arg, int n)
{
    struct lutra_error err = {0};
    struct lutra_store_stats s;
    char text[32], file[32], tokens[32], hints[32];
    (void)arg, (void)n;
    if (lutra_store_stats_get(store, &s, sizeof s, &err) < 0) return fail_with(&err);
    if (o->check && lutra_store_check(store, &err) < 0) return fail_with(&err);
    if (o->json) {
        print_json(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "documents", (json_int_t)s.n_document, "chunks",
            (json_int_t)s.n_chunk, "exchanges", (json_int_t)s.n_exchange, "text_bytes", (json_int_t)s.text_bytes,
            "file_bytes", (json_int_t)s.file_bytes, "token_bytes", (json_int_t)s.token_bytes, "hint_bytes",
            (json_int_t)s.hint_bytes));
        return EXIT_OK;
    }
    printf("documents  %lld\nchunks     %lld\nexchanges  %lld\ntext       %s\nfile       %s\ntokens     %s\n"
           "hints      %s\n",
        (long long)s.n_document, (long long)s.n_chunk, (long long)s.n_exchange,
        bytes_text((double)s.text_bytes, text, sizeof text), bytes_text((double)s.file_bytes, file, sizeof file),
        bytes_text((double)s.token_bytes, tokens, sizeof tokens),
        bytes_text((double)s.hint_bytes, hints, sizeof hints));
    if (o->check) puts("check      index and text agree");
    return EXIT_OK;
}

static int compact(lutra_store *store, const struct rag_options *o, const char *const *arg, int n)
{
    struct lutra_error err = {0};
    (void)o, (void)arg, (void)n;
    int rc = lutra_store_compact(store, progress_callback, NULL, &err);
    progress_clear();
    return rc < 0 ? fail_with(&err) : EXIT_OK;
}

static const struct {
    const char *name, *arguments;
    int min_args, max_args;
    bool makes; /* the store, where there is none */
    int (*run)(lutra_store *store, const struct rag_options *o, const char *const *arg, int n);
} verbs[] = {
    {"add", "FILE|FOLDER...", 1, INT_MAX, true, add},
    {"search", "WORDS...", 1, INT_MAX, false, search},
    {"list", "", 0, 0, false, list},
    {"remove", "FILE|FOLDER...", 1, INT_MAX, false, remove_documents},
    {"stats", "", 0, 0, false, stats},
    {"compact", "", 0, 0, false, compact},
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

static const char *verb_name(const void *ctx, int i)
{
    (void)ctx;
    return i < N_VERBS ? verbs[i].name : NULL;
}

static int check_arguments(int v, const struct rag_options *o, int n)
{
    bool removes_history = o->history && verbs[v].run == remove_documents;
    int least = removes_history ? 0 : verbs[v].min_args;
    if (n >= least && n <= (removes_history ? 0 : verbs[v].max_args)) return 0;
    if (n < least)
        say("rag %s: %s: arguments are missing", verbs[v].name, verbs[v].arguments);
    else
        say("rag %s takes no arguments", verbs[v].name);
    return EXIT_USAGE;
}

static int run(void *opts, const char **arg, int n_arg)
{
    const struct rag_options *o = opts;
    int v = 0, code;
    while (v < N_VERBS && strcmp(arg[0], verbs[v].name) != 0) v++;
    if (v == N_VERBS) {
        const char *near = option_nearest(arg[0], verb_name, NULL);
        say("rag: no such command: '%s'%s%s; there are add, search, list, remove, stats, compact", arg[0],
            near ? ", did you mean " : "", near ? near : "");
        return EXIT_USAGE;
    }
    if ((code = check_arguments(v, o, n_arg - 1))) return code;
    progress_enable(o->progress && !o->quiet);
    interrupt_watch(NULL);
    lutra_store *store = rag_open(o, !verbs[v].makes, &code);
    if (!store) return code;
    code = verbs[v].run(store, o, arg + 1, n_arg - 1);
    lutra_store_close(&store);
    return code;
}

const struct command command_rag = {
    .name = "rag",
    .arguments = "add|search|list|remove|stats|compact [FILE...]",
    .min_args = 1,
    .max_args = INT_MAX,
    .summary = "Keep documents to answer from ('lutra run --rag')",
    .notes = "add FILE|FOLDER...      text, Markdown, HTML and what converters make text of; unchanged files are left, "
             "changed ones\n"
             "                        replaced, and --sync removes those that are gone\n"
             "search WORDS...         the best passages for any text; nothing in it is syntax\n"
             "list                    the documents\n"
             "remove FILE|FOLDER...   documents, and the exchanges that were answered from them\n"
             "stats                   how much there is\n"
             "compact                 build the index anew and wipe what was removed from the file\n"
             "\nThe store is one file on this machine; nothing leaves it. docs/RAG.md says what it promises.",
    .opts_bytes = sizeof(struct rag_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
