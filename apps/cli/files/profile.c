/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "files/traits.h"

#include <jansson.h>

struct profile_options {
    struct engine_options engine;
    const char *out;
    bool characterize, json;
};

#define AT(field) offsetof(struct profile_options, field)

static const struct option profile_table[] = {
    {"-o --output", NULL, OPT_TEXT, AT(out), "FILE",
        .help = "the new file; beside the model without it; with --characterize a picture (SVG)"},
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
        if (!said) continue;
        printf(" (%.0f predicted", json_number_value(said));
        if (uneven > 0) printf("; parts end within %.1f %%", uneven * 100);
        putchar(')');
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

/* ---- running ---- */

static int print(const struct profile_options *o, const char *text)
{
    if (o->json) return puts(text) < 0 ? EXIT_FAILED : 0;
    if (o->characterize) return o->out ? traits_draw(text, o->out) : traits_print(text);
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
        "is kept in a file\nbeside the model, and used from then on with this --device (--plan says otherwise).  "
        "Between clusters text does not depend on the plan.  Let\nnothing else run meanwhile.",
    .opts_bytes = sizeof(struct profile_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .run = run,
};
