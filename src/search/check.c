/* SPDX-License-Identifier: MIT
 *
 * Verifiers that are no model: a function of the program's, a built-in rule, a program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "search/answer.h"
#include "search/rule.h"
#include "search/checker.h"
#include "search/json_schema.h"
#include "search/search_impl.h"

void lutra_check_init(struct lutra_check *check, size_t size)
{
    struct lutra_check d = {.size = sizeof d, .question = "", .expected = "", .text = "", .step = "", .whole = true};
    settings_fill(check, size, &d);
}

/* ---- by name ---- */

static double check_countdown(void *user, const struct lutra_check *c, char *why, size_t n_why)
{
    (void)user, (void)why, (void)n_why;
    return search_rule_countdown(c->question, c->text, c->whole);
}

static double check_equation(void *user, const struct lutra_check *c, char *why, size_t n_why)
{
    (void)user, (void)why, (void)n_why;
    return search_rule_equation(c->text, c->whole);
}

static double check_answer(void *user, const struct lutra_check *c, char *why, size_t n_why)
{
    (void)user;
    char given[1024], expected[1024];
    if (!*c->expected) {
        snprintf(why, n_why, "no answer is expected");
        return -1;
    }
    if (!c->whole) return 1; /* nothing is known yet */
    if (!search_answer(c->expected, expected, sizeof expected)) snprintf(expected, sizeof expected, "%s", c->expected);
    return search_answer(c->text, given, sizeof given) && !strcmp(given, expected);
}

static const struct {
    const char *name;
    lutra_check_fn check;
} known[] = {{"countdown", check_countdown}, {"equation", check_equation}, {"answer", check_answer}};
enum { N_KNOWN = sizeof known / sizeof *known };

/* ---- verifiers ---- */

enum { MAX_SCHEMA_BYTES = 1 << 20 };

#define TIMEOUT_MOST_US (UINT64_C(1) << 52)

int verifier_open_function(lutra_verifier **out, lutra_check_fn check, void *user, struct lutra_error *err)
{
    *out = NULL;
    if (!check) return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: no function to ask");
    lutra_verifier *v = calloc(1, sizeof *v);
    if (!v) return lutra_fail(err, LUTRA_E_NO_MEMORY, "verifier: out of memory");
    v->kind = VERIFIER_CHECK;
    v->check = check;
    v->check_user = user;
    *out = v;
    return 0;
}

static int open_program(lutra_verifier **out, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    struct checker *program;
    TRY(checker_open(&program, set, err));
    int rc = verifier_open_function(out, checker_ask, program, err);
    if (rc == 0)
        (*out)->program = program;
    else
        checker_close(&program);
    return rc;
}

static int read_schema(struct json_schema **out, const char *path, struct lutra_error *err)
{
    char *text = NULL;
    size_t n = 0;
    struct lutra_error why;
    int rc = file_read(path, MAX_SCHEMA_BYTES, &text, &n, &why);
    if (rc < 0) return lutra_fail(err, rc, "checker: %s", why.what);
    rc = json_schema_open(out, path, text, n, err);
    free(text);
    return rc;
}

static int open_schema(lutra_verifier **out, const char *path, struct lutra_error *err)
{
    struct json_schema *schema = NULL;
    if (!*path) return lutra_fail(err, LUTRA_E_ARGUMENT, "checker: which schema?  json-schema:FILE");
    TRY(read_schema(&schema, path, err));
    int rc = verifier_open_function(out, json_schema_ask, schema, err);
    if (rc == 0)
        (*out)->schema = schema;
    else
        json_schema_close(&schema);
    return rc;
}

int verifier_open_program(lutra_verifier **out, const struct lutra_verifier_settings *set, struct lutra_error *err)
{
    static const char schema[] = "json-schema";
    if (!set->command) return lutra_fail(err, LUTRA_E_ARGUMENT, "checker: no command");
    if (set->timeout_us < 1 || set->timeout_us > TIMEOUT_MOST_US)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "checker: timeout_us is %llu, outside 1..%llu",
            (unsigned long long)set->timeout_us, (unsigned long long)TIMEOUT_MOST_US);
    if (set->memory_bytes < 0 || set->restarts < 0)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "checker: memory_bytes or restarts is negative");
    for (int i = 0; i < N_KNOWN; i++)
        if (!strcmp(known[i].name, set->command)) return verifier_open_function(out, known[i].check, NULL, err);
    size_t n = strlen(schema);
    if (!strncmp(set->command, schema, n) && (!set->command[n] || set->command[n] == ':'))
        return open_schema(out, set->command + n + (set->command[n] == ':'), err);
    return open_program(out, set, err);
}

double verifier_reward(double said, char *why, size_t n_why)
{
    bool valid = said >= 0 && said <= 1;
    if (!valid && !*why) snprintf(why, n_why, "%g is no reward", said);
    if (valid) *why = 0; /* of tries before the last */
    return valid ? said : 0;
}

double verifier_ask(const lutra_verifier *v, const struct lutra_check *check, char *why, size_t n_why)
{
    *why = 0;
    return verifier_reward(v->check(v->check_user, check, why, n_why), why, n_why);
}

int lutra_verifier_check(
    lutra_verifier *verifier, const struct lutra_check *check, double *reward, struct lutra_error *err)
{
    struct lutra_check set;
    char why[VERIFIER_WHY_BYTES];
    lutra_check_init(&set, sizeof set);
    TRY(handle_check(verifier, "verifier", err));
    TRY(settings_copy(&set, sizeof set, check, "check", err));
    if (verifier->kind != VERIFIER_CHECK)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "verifier: a model judges tokens (lutra_verifier_score)");
    *reward = verifier_ask(verifier, &set, why, sizeof why);
    return *why ? lutra_fail(err, LUTRA_E_NOT_FOUND, "checker: no reward: %s", why) : 0;
}
