/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <ctype.h>
#include <strings.h>
#include <unistd.h>

#include <string.h>
#include <sys/stat.h>

struct quantize_options {
    struct engine_options engine;
    const char *token_embedding_type, *output_type, *imatrix, *calibrate, *budget_text, *budget_types;
    float budget;
    int calibrate_ctx, calibrate_chunks, group_size;
    struct option_list tensor_type;
    bool allow_requantize, pure, leave_output, dry_run, resume, asymmetric;
};

#define AT(field) offsetof(struct quantize_options, field)

static const struct option quantize_table[] = {
    {"--allow-requantize", NULL, OPT_ON, AT(allow_requantize), NULL,
        .help = "accept tensors that are quantized already (costs accuracy)"},
    {"--pure", NULL, OPT_ON, AT(pure), NULL, .help = "every matrix of one type, no mix"},
    {"--tensor-type", NULL, OPT_LIST, AT(tensor_type), "REGEX=TYPE",
        .help = "type of the tensors in whose names the expression (PCRE2) is found; the first that fits decides"},
    {"--imatrix", NULL, OPT_TEXT, AT(imatrix), "FILE",
        .help = "weigh errors by the importance of inputs: a file of 'lutra imatrix' or llama-imatrix"},
    {"--calibrate", NULL, OPT_TEXT, AT(calibrate), "FILE",
        .help = "a text: round layer by layer so that outputs over it change least (GPTQ)"},
    {"--calibrate-ctx", NULL, OPT_INT, AT(calibrate_ctx), "N", .help = "tokens of its chunks", .min = 16, .max = 4096},
    {"--calibrate-chunks", NULL, OPT_INT, AT(calibrate_chunks), "N", .help = "at most so many chunks; 0 = all",
        .min = 0, .max = 1 << 20},
    {"--resume", NULL, OPT_ON, AT(resume), NULL,
        .help = "with --calibrate: keep finished matrices in OUT.gguf.calibrated, and go on with those after a kill"},
    {"--group-size", NULL, OPT_INT, AT(group_size), "N",
        .help = "of W2, W3 and W4: inputs of a group, 32, 64 or 128 (the default); -1 = whole rows", .min = -1,
        .max = 128},
    {"--asymmetric", NULL, OPT_ON, AT(asymmetric), NULL, .help = "of W2, W3 and W4: each group has a zero of its own"},
    {"--budget", NULL, OPT_FLOAT, AT(budget), "BPW",
        .help = "bits per weight, in place of TYPE: matrix by matrix the type that costs least, measured over a text",
        .min = 1, .max = 16},
    {"--budget-text", NULL, OPT_TEXT, AT(budget_text), "FILE",
        .help = "that text, where there is no --calibrate; errors are then weighed by the importance of its inputs"},
    {"--budget-types", NULL, OPT_TEXT, AT(budget_types), "LIST",
        .help = "types that a budget chooses from, with commas; default TQ2_0,Q2_K,Q3_K,IQ4_XS,Q4_K,Q5_K,Q6_K,Q8_0"},
    {"--token-embedding-type", NULL, OPT_TEXT, AT(token_embedding_type), "TYPE", .help = "type of token_embd.weight"},
    {"--output-tensor-type", NULL, OPT_TEXT, AT(output_type), "TYPE",
        .help = "type of output.weight, or of token_embd.weight where that is both"},
    {"--leave-output-tensor", NULL, OPT_ON, AT(leave_output), NULL, .help = "output.weight stays as it is"},
    ZEROS_OPTION(AT(engine.zeros)),
    {"--dry-run", NULL, OPT_ON, AT(dry_run), NULL, .help = "print each tensor's type, write nothing"},
    {"-t --threads", "THREADS", OPT_INT, AT(engine.n_threads), "N",
        .help = "threads; 0 = the CPUs this process may use", .min = 0, .max = 4096},
};
#undef AT

static void set_defaults(void *opts)
{
    struct quantize_options *o = opts;
    engine_options_init(&o->engine);
    o->calibrate_ctx = 512;
    o->calibrate_chunks = 64;
}

static int list_sets(void *opts, struct option_set *set)
{
    struct quantize_options *o = opts;
    set[0] = (struct option_set){"Options", quantize_table, OPTION_COUNT(quantize_table), o, NULL};
    set[1] = output_option_set(&o->engine);
    return 2;
}

static void log_tensor(void *user, enum lutra_log_level level, const char *line)
{
    const struct quantize_options *o = user;
    if (!o->dry_run && (o->engine.quiet || (level == LUTRA_LOG_DEBUG && !o->engine.verbose))) return;
    progress_clear();
    if (o->dry_run)
        puts(line);
    else
        fprintf(stderr, "%s%s\n", level == LUTRA_LOG_WARN ? "warning: " : "", line);
}

static void print_sizes(const char *in, const char *out)
{
    struct stat a, b;
    char from[32], to[32];
    if (stat(in, &a) < 0 || stat(out, &b) < 0 || S_ISDIR(b.st_mode)) return;
    if (S_ISDIR(a.st_mode)) {
        printf("%s: %s\n", out, bytes_text((double)b.st_size, to, sizeof to));
        return;
    }
    printf("%s: %s -> %s\n", out, bytes_text((double)a.st_size, from, sizeof from),
        bytes_text((double)b.st_size, to, sizeof to));
}

static struct lutra_quantize_settings settings_of(
    struct quantize_options *o, const char *type, const struct buffer *text)
{
    struct lutra_quantize_settings settings;
    lutra_quantize_settings_init(&settings, sizeof settings);
    settings.type = type;
    settings.token_embedding_type = o->token_embedding_type;
    settings.output_type = o->output_type;
    settings.tensor_type = o->tensor_type.item;
    settings.n_tensor_type = o->tensor_type.n;
    settings.allow_requantize = o->allow_requantize;
    settings.pure = o->pure;
    settings.leave_output_tensor = o->leave_output;
    settings.dry_run = o->dry_run;
    settings.imatrix = o->imatrix;
    bool any = o->calibrate || o->budget_text;
    settings.calibration = !any ? NULL : text->text ? text->text : "";
    settings.only_measure = !o->calibrate;
    settings.budget = o->budget;
    settings.budget_types = o->budget_types;
    settings.n_calibration_bytes = text->n_bytes;
    settings.calibration_ctx = o->calibrate_ctx;
    settings.calibration_chunks = o->calibrate_chunks;
    settings.resume = o->resume;
    settings.group_size = o->group_size;
    settings.asymmetric = o->asymmetric;
    settings.zeros = o->engine.zeros;
    settings.progress = progress_callback;
    settings.log = log_tensor;
    settings.log_user = o;
    return settings;
}

/* llama.cpp's numbers of file types (enum llama_ftype), which llama-quantize takes in place of names. */
static const struct {
    int number;
    const char *type;
} numbers[] = {{0, "F32"}, {1, "F16"}, {2, "Q4_0"}, {3, "Q4_1"}, {7, "Q8_0"}, {8, "Q5_0"}, {9, "Q5_1"}, {10, "Q2_K"},
    {11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
    {18, "Q6_K"}, {19, "IQ2_XXS"}, {20, "IQ2_XS"}, {21, "Q2_K_S"}, {22, "IQ3_XS"}, {23, "IQ3_XXS"}, {25, "IQ4_NL"},
    {26, "IQ3_S"}, {27, "IQ3_M"}, {28, "IQ2_S"}, {29, "IQ2_M"}, {30, "IQ4_XS"}, {32, "BF16"}, {36, "TQ1_0"},
    {37, "TQ2_0"}, {38, "MXFP4"}};

/* The type that a word names by its number, else the word. */
static const char *type_of(const char *word)
{
    int64_t number;
    if (option_number(word, 0, 1000, &number) < 0) return word;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].number == number) return numbers[i].type;
    return word;
}

/* Is it the name of a type, or its number, rather than of a file? */
static bool looks_like_type(const char *word)
{
    static const char *const others[] = {"COPY", "W2", "W3", "W4", "Q2_0", "Q1_0"};
    bool found = false;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        found = found || strcasecmp(type_of(word), numbers[i].type) == 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) found = found || strcasecmp(word, others[i]) == 0;
    return found;
}

/* "model-Q8_0.gguf" beside "model-f16.gguf"; until the program ends.  NULL after a message: it is there. */
static const char *name_out(const char *in, const char *type)
{
    static const char *const ends[] = {".gguf", "-f32", "-f16", "-bf16"};
    struct buffer out = {0};
    size_t n = strlen(in);
    while (n > 1 && in[n - 1] == '/') n--;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n_end = strlen(ends[i]);
        if (n > n_end && strncasecmp(in + n - n_end, ends[i], n_end) == 0) n -= n_end;
    }
    buffer_add(&out, in, n);
    buffer_add(&out, "-", 1);
    for (const char *p = type; *p; p++) buffer_add(&out, (char[]){(char)toupper((unsigned char)*p)}, 1);
    buffer_add(&out, ".gguf", 5);
    if (access(out.text, F_OK) < 0) return out.text;
    say("quantize: %s exists: name the file to write: IN OUT TYPE [THREADS]", out.text);
    buffer_free(&out);
    return NULL;
}

/* IN [OUT] TYPE [THREADS]; a budget needs OUT and no TYPE. */
static int read_words(struct quantize_options *o, const char **arg, int n_arg, const char *word[3])
{
    int64_t n_threads = o->engine.n_threads;
    int n_type = o->budget == 0, n = n_arg;
    bool last_is_number = n > 1 + n_type && option_number(arg[n - 1], 1, 4096, &n_threads) == 0;
    /* "IN OUT 15": a type; "IN Q8_0 4": threads. */
    if (last_is_number && !(n_type && n == 3 && !looks_like_type(arg[1]))) n--;
    bool has_out = n == 2 + n_type, names_out = n == 1 + n_type && n_type && looks_like_type(arg[1]);
    if (!has_out && !names_out && !(o->dry_run && n == 1 + n_type)) {
        if (n == 3 && !n_type)
            say("quantize: --budget chooses the types, so '%s' cannot", arg[2]);
        else if (n == 3 + n_type)
            say("quantize: '%s' is not a number of threads", arg[n - 1]);
        else if (n == 2)
            say("quantize: TYPE is missing, or '%s' is none: IN [OUT] TYPE [THREADS]", arg[1]);
        else
            say("quantize: %s is missing: IN [OUT] TYPE [THREADS]", n_type ? "TYPE" : "OUT");
        return EXIT_USAGE;
    }
    word[0] = arg[0];
    word[2] = n_type ? type_of(arg[n - 1]) : NULL;
    word[1] = has_out ? arg[1] : o->dry_run ? NULL : name_out(arg[0], word[2]);
    o->engine.n_threads = last_is_number && n < n_arg ? (int)n_threads : o->engine.n_threads;
    return word[1] || o->dry_run ? 0 : EXIT_USAGE;
}

static int run(void *opts, const char **arg, int n_arg)
{
    struct quantize_options *o = opts;
    struct engine e = {0};
    struct lutra_error err = {0};
    struct buffer text = {0};
    const char *word[3];
    int code = read_words(o, arg, n_arg, word);
    const char *path = o->calibrate ? o->calibrate : o->budget_text;
    if (!code && o->calibrate && o->budget_text) {
        say("quantize: --calibrate has the text of --budget already");
        code = EXIT_USAGE;
    }
    if (!code && path && read_file(path, &text) < 0) code = EXIT_FAILED;
    if (!code) code = engine_open_runtime(&e, &o->engine);
    if (!code) {
        struct lutra_quantize_settings settings = settings_of(o, word[2], &text);
        if (lutra_quantize(e.runtime, word[0], word[1], &settings, &err) < 0) code = fail_with(&err);
    }
    engine_close(&e);
    buffer_free(&text);
    if (!code && !o->engine.quiet && !o->dry_run) print_sizes(word[0], word[1]);
    return code;
}

const struct command command_quantize = {
    .name = "quantize",
    .arguments = "IN [OUT] TYPE [THREADS]",
    .summary = "Write a model file with another weight type",
    .notes = "IN is a GGUF file or a Hugging Face folder, OUT a GGUF file; without it IN's name with TYPE.\n"
             "TYPE, in any case: F32 F16 BF16 Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S Q4_1 Q4_0 IQ4_NL\n"
             "IQ4_XS Q3_K_L Q3_K_M Q3_K_S IQ3_M IQ3_S IQ3_XS IQ3_XXS Q2_K Q2_K_S IQ2_M IQ2_S IQ2_XS IQ2_XXS MXFP4\n"
             "TQ1_0 TQ2_0 Q2_0 Q1_0, or COPY. A mix gives some tensors better types, as llama-quantize does.\n"
             "W2 W3 W4, of a folder of floats and with --calibrate: OUT is a folder, too, of GPTQ's layers.\n"
             "OUT appears whole or not at all.",
    .opts_bytes = sizeof(struct quantize_options),
    .defaults = set_defaults,
    .sets = list_sets,
    .min_args = 1,
    .max_args = 4,
    .run = run,
};
