/* SPDX-License-Identifier: MIT
 *
 * lutra check: does a model, on this machine, give what it should?
 */
#include "cli.h"

#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/find.h"
#include "models/sha.h"

struct check_options {
    struct engine_options engine;
    bool quick, json;
    int shadow;
};

#define AT(field) offsetof(struct check_options, field)

static const struct option check_table[] = {
    {"--quick", NULL, OPT_ON, AT(quick), NULL,
        .help = "a part of each tensor, products of few rows, no hashes of files", .common = true},
    {"--shadow", NULL, OPT_INT, AT(shadow), "N", .min = 0, .max = 64,
        .help = "of 64 passes recompute every N-th by the reference kernels (slow; weights twice in memory)",
        .common = true},
    {"--json", NULL, OPT_ON, AT(json), NULL, .help = "what was found as JSON on stdout", .common = true},
};
#undef AT

static void set_defaults(void *opts)
{
    struct check_options *o = opts;
    *o = (struct check_options){.quick = false};
    engine_options_init(&o->engine);
}

static int list_sets(void *opts, struct option_set *set)
{
    struct check_options *o = opts;
    set[0] = (struct option_set){"Check", check_table, OPTION_COUNT(check_table), o, NULL};
    set[1] = engine_option_set(&o->engine);
    set[2] = output_option_set(&o->engine);
    return 3;
}

struct report {
    const struct check_options *opts;
    json_t *found, *passed; /* [{"part", "what"}] */
};

static void add(const struct report *r, json_t *list, const char *mark, const char *part, const char *what)
{
    json_array_append_new(list, json_pack("{s:s, s:s}", "part", part, "what", what));
    progress_clear();
    if (!r->opts->json) printf("%-4s %-9s %s\n", mark, part, what);
    fflush(stdout);
}

static void on_found(void *user, const char *part, const char *what)
{
    struct report *r = user;
    add(r, r->found, "BAD", part, what);
}

static void on_passed(void *user, const char *part, const char *what)
{
    struct report *r = user;
    add(r, r->passed, "", part, what);
}

static int on_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    progress_show(what, done, total);
    return interrupted();
}

/* ---- hashes that a cache's names promise ---- */

/* The SHA-256 in a file's name: the hub's "HEX", Ollama's "sha256-HEX". */
static bool named_sum(const char *path, char hex[SHA_256 + 1])
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (strncmp(name, "sha256-", 7) == 0) name += 7;
    if (strlen(name) != SHA_256 || strspn(name, "0123456789abcdef") != SHA_256) return false;
    memcpy(hex, name, SHA_256 + 1);
    return true;
}

static void check_sum(struct report *r, const char *path, int *n)
{
    char real[PATH_MAX], want[SHA_256 + 1], got[SHA_256 + 1], text[PATH_MAX + 200];
    uint8_t block[1 << 16];
    struct sha h;
    size_t k;
    if (!realpath(path, real) || !named_sum(real, want)) return;
    FILE *f = fopen(real, "rb");
    if (!f) return;
    sha_begin(&h, SHA_256);
    while ((k = fread(block, 1, sizeof block, f)) > 0 && !interrupted()) sha_add(&h, block, k);
    bool failed = ferror(f);
    fclose(f);
    sha_end(&h, got);
    ++*n;
    if (interrupted() || (!failed && strcmp(got, want) == 0)) return;
    snprintf(text, sizeof text,
        failed ? "%s: cannot be read to its end" : "%s: its SHA-256 is %s, not that of its name", path, got);
    on_found(r, "file", text);
}

static void check_sums(struct report *r, const char *path)
{
    struct stat st;
    char text[64];
    int n = 0, part, n_part;
    DIR *folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    if (folder) {
        for (struct dirent *e; (e = readdir(folder));) {
            char *file = join_path(path, e->d_name);
            check_sum(r, file, &n);
            free(file);
        }
        closedir(folder);
    } else if (model_part(path, &part, &n_part)) {
        for (part = 1; part <= n_part; part++) {
            char *file = get_memory(strlen(path) + 1);
            strcpy(file, path);
            snprintf(text, sizeof text, "%05d", part);
            memcpy(file + strlen(file) - strlen("00001-of-00001.gguf"), text, 5);
            check_sum(r, file, &n);
            free(file);
        }
    } else {
        check_sum(r, path, &n);
    }
    snprintf(text, sizeof text, "%d files have the SHA-256 of their names", n);
    if (n > 0 && json_array_size(r->found) == 0) on_passed(r, "file", text);
}

/* ---- what fits ---- */

static void tell_context(struct report *r, const char *path)
{
    struct lutra_error err = {0};
    char *text = NULL, line[160], weights[32], free_now[32];
    if (lutra_inspect(path, &text, &err) < 0) return;
    json_t *all = json_loads(text, 0, NULL), *memory = json_object_get(all, "memory");
    double need = json_number_value(json_object_get(memory, "weights"));
    double have = json_number_value(json_object_get(memory, "available_now"));
    double each = json_number_value(json_object_get(memory, "cache_per_token_f16"));
    double train = json_number_value(json_object_get(memory, "context_train"));
    double fits = each > 0 && have > need ? (have - need) / each : 0;
    snprintf(line, sizeof line, "weights of %s, %s free: %s of %.0f tokens fits",
        bytes_text(need, weights, sizeof weights), bytes_text(have, free_now, sizeof free_now),
        fits < train ? "a context" : "the whole context", fits < train ? fits : train);
    if (train > 0) on_passed(r, "memory", line);
    json_decref(all);
    lutra_free(text);
}

/* ---- the command ---- */

static int look(struct report *r, struct check_options *o, struct engine *e, struct lutra_error *err)
{
    struct lutra_check_settings set;
    struct lutra_session_settings session;
    int n = 0;
    lutra_check_settings_init(&set, sizeof set);
    set.quick = o->quick;
    set.shadow = o->shadow;
    set.found = on_found;
    set.passed = on_passed;
    set.user = r;
    if (!o->engine.quiet) set.progress = on_progress;
    if (!o->quick) check_sums(r, o->engine.model);
    if (lutra_check_file(o->engine.model, &set, &n, err) < 0) return fail_with(err);
    tell_context(r, o->engine.model);
    int code = engine_open(e, &o->engine, false);
    if (code) return code;
    lutra_session_settings_init(&session, sizeof session);
    session.n_seq = 6;
    int most = e->info.n_ctx_train > 0 && e->info.n_ctx_train < 512 ? e->info.n_ctx_train : 512;
    if (o->engine.n_ctx <= 0) o->engine.n_ctx = most;
    code = engine_open_session(e, &o->engine, session);
    if (code) return code;
    return lutra_check_model(e->model, e->session, &set, &n, err) < 0 ? fail_with(err) : 0;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct check_options *o = opts;
    struct engine e = {0};
    struct lutra_error err = {0};
    struct report r = {o, json_array(), json_array()};
    const char *path;
    int code = 0;
    if (n_arg > 0 && !(code = model_find(arg[0], &path))) o->engine.model = path;
    if (!code) code = engine_find_model(&o->engine);
    if (!code) code = look(&r, o, &e, &err);
    progress_clear();
    size_t n = json_array_size(r.found);
    if (interrupted()) code = EXIT_INTERRUPTED;
    if (!code && n > 0) code = EXIT_FAILED;
    if (o->json) {
        json_t *all = json_pack(
            "{s:s?, s:b, s:O, s:O}", "model", o->engine.model, "ok", code == 0, "found", r.found, "passed", r.passed);
        if (all) json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(all);
    } else if (code == 0) {
        puts("nothing wrong was found");
    } else if (n > 0) {
        printf("%zu found\n", n);
    }
    json_decref(r.found);
    json_decref(r.passed);
    engine_close(&e);
    return code;
}

const struct command command_check = {
    .name = "check",
    .arguments = "[MODEL]",
    .max_args = 1,
    .summary = "Check a model's file and what this machine makes of it",
    .notes =
        "Looks at the values of all tensors, at SHA-256 where a cache's names have it, at every kind of product on "
        "this\n"
        "machine against the scalar reference, and at one prompt answered in several ways. Exit code 1: something is "
        "wrong.",
    .opts_bytes = sizeof(struct check_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
