/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <jansson.h>
#include <string.h>

#include "models/find.h"

struct inspect_options {
    const char *key;
    bool json, tensors;
};

#define AT(field) offsetof(struct inspect_options, field)

static const struct option inspect_table[] = {
    {"--json", NULL, OPT_ON, AT(json), NULL, .help = "everything as JSON"},
    {"--tensors", NULL, OPT_ON, AT(tensors), NULL, .help = "list the tensors"},
    {"--kv", NULL, OPT_TEXT, AT(key), "KEY", .help = "print the value of one metadata key"},
};
#undef AT

enum { CELL = 72 };

static void set_defaults(void *opts)
{
    memset(opts, 0, sizeof(struct inspect_options));
}

static int list_sets(void *opts, struct option_set *set)
{
    set[0] = (struct option_set){"Options", inspect_table, OPTION_COUNT(inspect_table), opts, NULL};
    return 1;
}

static void print_raw(const json_t *value)
{
    if (json_is_string(value)) {
        fwrite(json_string_value(value), 1, json_string_length(value), stdout);
        putchar('\n');
        return;
    }
    json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
}

/* At most so many characters on one line, control characters escaped. */
static void print_cell(const json_t *value, size_t most)
{
    const json_t *of = json_object_get(value, "of");
    if (of) {
        printf("[%lld x %s]", (long long)json_integer_value(json_object_get(value, "n")), json_string_value(of));
        value = json_object_get(value, "head");
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(7));
    if (!text) return;
    size_t n = strlen(text);
    bool is_text = n > 1 && text[0] == '"';
    if (n > most) {
        n = most;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
        printf(" %.*s...\n", (int)n, text);
    } else if (is_text && !of) {
        printf(" %.*s\n", (int)n - 2, text + 1);
    } else {
        printf(" %s\n", text);
    }
    free(text);
}

static void print_metadata(const json_t *metadata)
{
    const char *key;
    json_t *value;
    printf("\nmetadata (%zu)\n", json_object_size(metadata));
    json_object_foreach((json_t *)metadata, key, value)
    {
        printf("  %-42s", key);
        print_cell(value, strncmp(key, "lutra.", 6) == 0 ? SIZE_MAX : CELL); /* ours are made to be read */
    }
}

static void print_shape(const json_t *shape)
{
    char text[64] = "";
    size_t i;
    json_t *dim;
    json_array_foreach((json_t *)shape, i, dim)
    {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%lld", i ? " x " : "", (long long)json_integer_value(dim));
    }
    printf("%22s", text);
}

/* Of a layer of GPTQ: the one that is nearer to 0 is likely the right reading. */
static void print_zeros(const json_t *zeros)
{
    const double v1 = json_number_value(json_object_get(zeros, "v1")),
                 v2 = json_number_value(json_object_get(zeros, "v2"));
    if (zeros) printf("   mean code as v1 %.3f, as v2 %.3f", v1, v2);
}

struct type_sum {
    char name[16];
    int n;
    double bytes;
};

static void add_type(struct type_sum *sum, int n_max, const char *name, double bytes)
{
    for (int i = 0; i < n_max; i++) {
        if (!sum[i].n) snprintf(sum[i].name, sizeof sum[i].name, "%s", name);
        if (strcmp(sum[i].name, name) != 0) continue;
        sum[i].n++;
        sum[i].bytes += bytes;
        return;
    }
}

static void print_tensors(const json_t *tensors, bool list)
{
    struct type_sum sum[32] = {0};
    char text[32];
    size_t i;
    json_t *t;
    printf("\ntensors (%zu)\n", json_array_size(tensors));
    json_array_foreach((json_t *)tensors, i, t)
    {
        const char *name = json_string_value(json_object_get(t, "name"));
        const char *type = json_string_value(json_object_get(t, "type"));
        double bytes = json_number_value(json_object_get(t, "bytes"));
        add_type(sum, 32, type ? type : "?", bytes);
        if (!list) continue;
        printf("  %-32s %-6s", name ? name : "?", type ? type : "?");
        print_shape(json_object_get(t, "shape"));
        printf("  %12s", bytes_text(bytes, text, sizeof text));
        print_zeros(json_object_get(t, "zeros"));
        putchar('\n');
    }
    for (i = 0; i < 32 && sum[i].n; i++)
        printf("  %-6s %5d tensors, %s\n", sum[i].name, sum[i].n, bytes_text(sum[i].bytes, text, sizeof text));
}

/* The library's words for sizes; everything else in the group is a count. */
static bool is_bytes(const char *key)
{
    return strncmp(key, "parameters", 10) != 0 && strcmp(key, "context_train") != 0;
}

static void print_memory(const json_t *memory)
{
    const char *key;
    json_t *value;
    char text[32];
    if (json_object_size(memory)) puts("\nmemory");
    json_object_foreach((json_t *)memory, key, value)
    {
        char words[48];
        snprintf(words, sizeof words, "%s", key);
        for (char *p = words; *p; p++)
            if (*p == '_') *p = ' ';
        printf("  %-42s ", words);
        if (json_is_number(value) && is_bytes(key))
            puts(bytes_text(json_number_value(value), text, sizeof text));
        else
            print_raw(value);
    }
}

static void print_sentences(const char *title, const json_t *list)
{
    size_t i;
    json_t *sentence;
    if (json_array_size(list)) printf("\n%s\n", title);
    json_array_foreach((json_t *)list, i, sentence) printf("  %s\n", json_string_value(sentence));
}

static int print_key(const json_t *metadata, const char *path, const char *key)
{
    const json_t *value = json_object_get(metadata, key);
    if (!value) {
        say("%s: no key '%s'", path, key);
        return EXIT_FAILED;
    }
    print_raw(value);
    return EXIT_OK;
}

static int run(void *opts, const char **arg, int n_arg)
{
    const struct inspect_options *o = opts;
    struct lutra_error err = {0};
    json_error_t where;
    char *text = NULL, size[32];
    int code = EXIT_OK;
    const char *path;
    (void)n_arg;
    code = model_find(arg[0], &path);
    if (code) return code;
    if (lutra_inspect(path, &text, &err) < 0) return fail_with(&err);
    json_t *root = json_loads(text, 0, &where);
    if (!root) {
        say("%s: the library's description is not JSON: %s", arg[0], where.text);
        code = EXIT_FAILED;
    } else if (o->key) {
        code = print_key(json_object_get(root, "metadata"), arg[0], o->key);
    } else if (o->json) {
        print_raw(root);
    } else {
        printf("%s: %s\n", arg[0], bytes_text(json_number_value(json_object_get(root, "bytes")), size, sizeof size));
        print_metadata(json_object_get(root, "metadata"));
        print_tensors(json_object_get(root, "tensors"), o->tensors);
        print_memory(json_object_get(root, "memory"));
        print_sentences("cannot run", json_object_get(root, "unsupported"));
        print_sentences("warnings", json_object_get(root, "warnings"));
    }
    json_decref(root);
    lutra_free(text);
    return code;
}

const struct command command_inspect = {
    .name = "inspect",
    .arguments = "MODEL",
    .summary = "Show a model file's metadata, tensors and the memory it needs",
    .opts_bytes = sizeof(struct inspect_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
