/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <jansson.h>

struct profile_options {
    struct engine_options engine;
    const char *out;
    bool characterize, json;
};

#define AT(field) offsetof(struct profile_options, field)

static const struct option profile_table[] = {
    {"-o --output", NULL, OPT_TEXT, AT(out), "FILE", .help = "the new file; beside the model without it"},
    {"--characterize", NULL, OPT_ON, AT(characterize), NULL,
        .help = "what the devices are like, without a model: rates by size, stages, order, shape, bandwidth"},
    {"--json", NULL, OPT_ON, AT(json), NULL, .help = "what was measured as JSON on stdout"},
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

static const char *const classes[] = {"few", "many"}, *const plans[] = {"one", "even", "solved", "class"};

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
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const json_t *t = json_object_get(measured, plans[i]), *said = json_object_get(predicted, plans[i]);
        double uneven = json_number_value(json_object_get(json_object_get(pass, "uneven"), plans[i]));
        if (!t) continue;
        printf("%s %s %.0f +- %.0f", i ? "," : "", plans[i], us_of(t), json_number_value(json_array_get(t, 1)));
        if (said) printf(" (%.0f predicted", json_number_value(said));
        if (said && uneven > 0) printf("; parts end within %.1f %%", uneven * 100);
        if (said) putchar(')');
    }
    printf(".  Kept: %s.\n", json_string_value(json_object_get(pass, "best")));
}

static int print_profile(const char *text)
{
    json_error_t why;
    json_t *all = json_loads(text, 0, &why), *kinds = json_object_get(all, "kinds");
    printf("Microseconds (mean of the fastest third +- its range) on");
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

/* ---- what devices are like ---- */

static void print_time(const json_t *t)
{
    const json_t *us = json_object_get(t, "us");
    if (json_is_number(us))
        printf(" %9.0f", json_number_value(us));
    else
        printf(" %9s", "-");
}

static double rate_of(const json_t *t)
{
    double mac = 1;
    for (const char *const *key = (const char *const[]){"rows", "in", "out", NULL}; *key; key++)
        mac *= json_number_value(json_object_get(t, *key));
    double us = json_number_value(json_object_get(t, "us"));
    return us > 0 ? mac / us / 1e3 : 0;
}

/* "512 x 1024 by 64 in 812 us, 64 x 1024 by 512 in 2030: 2.50 times as long" */
static void print_pair(const char *what, const json_t *pair)
{
    double us[2];
    printf("  %-10s", what);
    for (size_t i = 0; i < 2; i++) {
        const json_t *t = json_array_get(pair, i);
        us[i] = json_number_value(json_object_get(t, "us"));
        printf("%s %lld x %lld by %lld", i ? "," : "", (long long)json_integer_value(json_object_get(t, "rows")),
            (long long)json_integer_value(json_object_get(t, "in")),
            (long long)json_integer_value(json_object_get(t, "out")));
        if (us[i] > 0) printf(" in %.0f us", us[i]);
    }
    if (us[0] > 0 && us[1] > 0) printf(": %.2f times as long", us[1] / us[0]);
    putchar('\n');
}

/* A line of numbers under a line of what they belong to. */
static void print_series(const json_t *times, const char *key, const char *what, const char *unit, bool as_rate)
{
    printf("  %-10s", what);
    for (size_t i = 0; i < json_array_size(times); i++)
        printf(" %9lld", (long long)json_integer_value(json_object_get(json_array_get(times, i), key)));
    printf("\n  %-10s", unit);
    for (size_t i = 0; i < json_array_size(times); i++) {
        const json_t *t = json_array_get(times, i);
        if (as_rate && rate_of(t) > 0)
            printf(" %9.1f", rate_of(t));
        else
            print_time(t);
    }
    putchar('\n');
}

static int print_traits(const char *text)
{
    json_error_t why;
    json_t *all = json_loads(text, 0, &why), *devices = json_object_get(all, "devices");
    puts("Products [rows x inputs] by [inputs x outputs], weights Q4_0; - would take too long.");
    for (size_t d = 0; d < json_array_size(devices); d++) {
        const json_t *one = json_array_get(devices, d), *stage = json_object_get(one, "stage");
        printf("%s\n", json_string_value(json_object_get(one, "name")));
        print_series(json_object_get(one, "square"), "rows", "square", "GMAC/s", true);
        print_series(json_object_get(one, "rows"), "rows", "rows", "us", false);
        if (json_integer_value(stage) > 1)
            printf("  stages of %lld rows\n", (long long)json_integer_value(stage));
        else
            puts(json_is_integer(stage) ? "  no stages" : "  stages: not known");
        print_pair("order", json_object_get(one, "order"));
        print_pair("shape", json_object_get(one, "shape"));
        if (!json_is_number(json_object_get(one, "gbs"))) continue;
        printf("  reads      %.2f GB/s", json_number_value(json_object_get(one, "gbs")));
        if (json_is_number(json_object_get(one, "together_gbs")))
            printf(" alone, %.2f beside the others", json_number_value(json_object_get(one, "together_gbs")));
        putchar('\n');
    }
    if (json_is_number(json_object_get(all, "gbs")))
        printf("All at once read %.2f GB/s.\n", json_number_value(json_object_get(all, "gbs")));
    json_decref(all);
    return all ? 0 : EXIT_FAILED;
}

/* ---- running ---- */

static int print(const struct profile_options *o, const char *text)
{
    if (o->json) return puts(text) < 0 ? EXIT_FAILED : 0;
    if (o->characterize) return print_traits(text);
    return o->engine.quiet ? 0 : print_profile(text);
}

static int characterize(struct engine *e, const struct profile_options *o, char **text)
{
    struct lutra_error err = {0};
    int code = engine_open_runtime(e, &o->engine);
    if (!code && lutra_characterize(e->runtime, progress_callback, NULL, text, &err) < 0) code = fail_with(&err);
    return code;
}

static int profile(struct engine *e, struct profile_options *o, char **text)
{
    struct lutra_error err = {0};
    struct model_options model;
    int code = engine_find_model(&o->engine);
    if (!code) code = engine_check_options(&o->engine);
    if (!code) code = engine_model_settings(&o->engine, &model);
    if (code) return code;
    code = engine_open_runtime(e, &o->engine);
    if (!code && lutra_profile(e->runtime, o->engine.model, o->out, &model.set, text, &err) < 0) code = fail_with(&err);
    model_options_free(&model);
    return code;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct profile_options *o = opts;
    struct engine e = {0};
    char *text = NULL;
    (void)arg, (void)n_arg;
    int code = o->characterize ? characterize(&e, o, &text) : profile(&e, o, &text);
    progress_clear();
    if (!code) code = print(o, text);
    lutra_free(text);
    engine_close(&e);
    return code;
}

const struct command command_profile = {
    .name = "profile",
    .arguments = "",
    .summary = "Measure how devices best share a model, and keep that",
    .notes =
        "Each kind of operation is timed on each device of --device (clusters of CPUs, an NPU beside the CPU) and on "
        "all of\nthem at once, in whole passes of one row and of 256; then passes of whole plans: all on the first "
        "device, shared\nby speed, as solved from the times, and beside an NPU or GPU by class of rows.  The fastest "
        "is "
        "kept in a file\nbeside the model, and used from then on with this --device (--plan says otherwise).  Between "
        "clusters text does not "
        "depend on the plan.  Let\nnothing else run meanwhile.",
    .opts_bytes = sizeof(struct profile_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
