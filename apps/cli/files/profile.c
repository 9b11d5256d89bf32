/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <jansson.h>

struct profile_options {
    struct engine_options engine;
    const char *out;
};

#define AT(field) offsetof(struct profile_options, field)

static const struct option profile_table[] = {
    {"-o --output", NULL, OPT_TEXT, AT(out), "FILE", .help = "the new file; beside the model without it"},
};
#undef AT

static void set_defaults(void *opts)
{
    engine_options_init(&((struct profile_options *)opts)->engine);
}

static int list_sets(void *opts, struct option_set *set)
{
    struct profile_options *o = opts;
    set[0] = (struct option_set){"Options", profile_table, OPTION_COUNT(profile_table), o, NULL};
    set[1] = engine_option_set(&o->engine);
    set[2] = output_option_set(&o->engine);
    return 3;
}

/* ---- what was measured, for people ---- */

static const char *const classes[] = {"few", "many"}, *const plans[] = {"one", "even", "solved"};

static double us_of(const json_t *time)
{
    return json_number_value(json_array_get(time, 0));
}

/* "812 +- 9" of each device with a part. */
static void print_times(const json_t *times, const json_t *part)
{
    for (size_t d = 0; d < json_array_size(times); d++) {
        const json_t *t = json_array_get(times, d);
        if (part && !json_integer_value(json_array_get(part, d))) continue;
        printf("%s%.0f +- %.0f", d ? ", " : "", us_of(t), json_number_value(json_array_get(t, 1)));
    }
}

static void print_part(const json_t *part)
{
    for (size_t d = 0; d < json_array_size(part); d++)
        printf("%s%lld", d ? ":" : "", (long long)json_integer_value(json_array_get(part, d)));
}

static void print_kind(const json_t *kind, const char *class)
{
    const json_t *shape = json_object_get(kind, class), *together = json_object_get(shape, "together");
    printf("  %-4s alone ", class);
    print_times(json_object_get(shape, "alone"), NULL);
    for (size_t i = 0; i < json_array_size(together); i++) {
        const json_t *one = json_array_get(together, i);
        fputs("; ", stdout);
        print_part(json_object_get(one, "part"));
        fputs(" at once ", stdout);
        print_times(json_object_get(one, "us"), json_object_get(one, "part"));
    }
    fputs(" -> ", stdout);
    print_part(json_object_get(shape, "part"));
    putchar('\n');
}

static void print_pass(const json_t *pass, const char *class)
{
    const json_t *measured = json_object_get(pass, "measured_us"), *predicted = json_object_get(pass, "predicted_us");
    printf("A pass of %s rows (%lld), us:", class, (long long)json_integer_value(json_object_get(pass, "rows")));
    for (int i = 0; i < 3; i++) {
        const json_t *t = json_object_get(measured, plans[i]);
        printf("%s %s %.0f +- %.0f (%.0f predicted)", i ? "," : "", plans[i], us_of(t),
            json_number_value(json_array_get(t, 1)), json_number_value(json_object_get(predicted, plans[i])));
    }
    printf(".  Kept: %s.\n", json_string_value(json_object_get(pass, "best")));
}

static int print_profile(const char *text)
{
    json_error_t why;
    json_t *all = json_loads(text, 0, &why), *kinds = json_object_get(all, "kinds");
    printf("Microseconds (median +- distance of the quartiles) on");
    for (size_t d = 0; d < json_array_size(json_object_get(all, "devices")); d++)
        printf("%s %s", d ? "," : "", json_string_value(json_array_get(json_object_get(all, "devices"), d)));
    puts("; cuts in sixteenths of the outputs.");
    for (size_t k = 0; k < json_array_size(kinds); k++) {
        const json_t *kind = json_array_get(kinds, k);
        if (!json_is_true(json_object_get(kind, "cut"))) continue;
        printf("%s, %lld in a pass\n", json_string_value(json_object_get(kind, "name")),
            (long long)json_integer_value(json_object_get(kind, "count")));
        for (int c = 0; c < 2; c++) print_kind(kind, classes[c]);
    }
    for (int c = 0; c < 2; c++) print_pass(json_object_get(json_object_get(all, "passes"), classes[c]), classes[c]);
    json_decref(all);
    return all ? 0 : EXIT_FAILED;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct profile_options *o = opts;
    struct engine e = {0};
    struct lutra_error err = {0};
    struct model_options model;
    char *text = NULL;
    (void)arg, (void)n_arg;
    int code = engine_find_model(&o->engine);
    if (!code) code = engine_check_options(&o->engine);
    if (!code) code = engine_model_settings(&o->engine, &model);
    if (code) return code;
    code = engine_open_runtime(&e, &o->engine);
    if (!code && lutra_profile(e.runtime, o->engine.model, o->out, &model.set, &text, &err) < 0) code = fail_with(&err);
    model_options_free(&model);
    progress_clear();
    if (!code && !o->engine.quiet) code = print_profile(text);
    lutra_free(text);
    engine_close(&e);
    return code;
}

const struct command command_profile = {
    .name = "profile",
    .arguments = "",
    .summary = "Measure how clusters of CPUs best share a model, and keep that",
    .notes = "Each kind of operation is timed on each cluster of --device and on all of them at once, for one row and "
             "for\n256; then whole passes, for three plans: all on the first cluster, shared by speed, and shared as "
             "solved from\nthe times.  The fastest is kept in a file beside the model, and used from then on with this "
             "--device\n(--plan says otherwise).  Text does not depend on the plan.  Let nothing else run meanwhile.",
    .opts_bytes = sizeof(struct profile_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
