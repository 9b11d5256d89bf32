/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "models/find.h"
#include "models/hub.h"

enum { THREADS_PER_CPU = 4 }; /* more only wait */

#define AT(field) offsetof(struct engine_options, field)

static const struct option engine_table[] = {
    {"-m --model", "MODEL", OPT_TEXT, AT(model), "FILE",
        .help = "GGUF file or Hugging Face folder, or the name of one that another program has ('lutra models')",
        .common = true},
    {"-hf -hfr --hf-repo", "HF_REPO", OPT_TEXT, AT(hf_repo), "USER/REPO[:QUANT]",
        .help = "model of Hugging Face's hub: from this machine's folders, else from the server HF_ENDPOINT; Q4_K_M if "
                "there is one"},
    {"-hff --hf-file", "HF_FILE", OPT_TEXT, AT(hf_file), "FILE", .help = "that file of -hf's repository",
        .needs = "-hf"},
    {"-hft --hf-token", NULL, OPT_TEXT, AT(hf_token), "TOKEN", .help = "access token for -hf; HF_TOKEN, if not given",
        .needs = "-hf"},
    {"--offline", "OFFLINE", OPT_ON, AT(offline), NULL, .help = "nothing is downloaded"},
    {"-t --threads", "THREADS", OPT_INT, AT(n_threads), "N", .help = "threads; 0 = the CPUs this process may use",
        .min = 0, .max = 4096, .common = true},
    {"-c --ctx-size", "CTX_SIZE", OPT_INT, AT(n_ctx), "N",
        .help = "context length in tokens; 0 = the model's, or what memory allows", .min = 0, .max = 1 << 24,
        .common = true},
    {"-b --batch-size", "BATCH", OPT_INT, AT(n_batch), "N", .help = "most rows of one forward pass", .min = 1,
        .max = 1 << 16},
    {"-ctk --cache-type-k", "CACHE_TYPE_K", OPT_CHOICE, AT(type_k), "TYPE",
        .help = "type of the cached keys: f16, f32, q8_0, q5_0, q4_1, q4_0", .choices = CACHE_TYPES},
    {"-ctv --cache-type-v", "CACHE_TYPE_V", OPT_CHOICE, AT(type_v), "TYPE",
        .help = "type of the cached values; that of the keys, if not given", .choices = CACHE_TYPES},
    {"--swa-full", "SWA_FULL", OPT_ON, AT(swa_full), NULL,
        .help = "layers with a sliding window keep their whole past (default)"},
    {"--no-swa-full", NULL, OPT_OFF, AT(swa_full), NULL,
        .help = "they keep their window only: less memory; a changed past is evaluated again"},
    {"-dev --device", "DEVICE", OPT_TEXT, AT(device), "NAME",
        .help = "cpu, cpu-ref (scalar reference), npu-sim (emulated NPU), npu-qemu (Hexagon program under QEMU), npu, "
                "vulkan (a GPU), or a list "
                "in order of preference; cpu:0-3,cpu:4-7: clusters of CPUs that share every product; npu:supergroup, "
                "npu:bitplane, npu:lookup: other layouts of weights (docs/NPU.md)",
        .common = true},
    {"--list-devices", NULL, OPT_ON, AT(list_devices), NULL, .help = "print the devices of this machine and exit"},
    {"-ts --tensor-split", "TENSOR_SPLIT", OPT_TEXT, AT(split), "N0,N1,...",
        .help = "what each device of --device gets of every product, in proportion; else CPU clusters by their CPUs. "
                "1,1/0,1: of whole blocks of prompts, and of all other rows"},
    {"-ot --override-tensor", "OVERRIDE_TENSOR", OPT_TEXT, AT(override_tensor), "PATTERN=DEVICE,...",
        .help = "tensors whose name a pattern matches are computed by that device of --device"},
    {"--plan", "PLAN", OPT_TEXT, AT(plan), "PLAN",
        .help =
            "how devices share a pass: auto (default: as 'lutra profile' found fastest, else CPU clusters even), even, "
            "one, class (whole blocks of prompts on the NPU or GPU, other rows on the CPU), solved, free (solved for "
            "few rows and for many by itself: text may depend on load), or a FILE of 'lutra profile'"},
    {"--expert-ram", "EXPERT_RAM", OPT_TEXT, AT(expert_ram), "SIZE",
        .help =
            "memory for packed experts, such as 8G: each layer keeps those used most, and reads the others from the "
            "file; the text is the same"},
    {"--lora", "LORA", OPT_LIST, AT(lora), "FILE,...",
        .help = "add a LoRA adapter (GGUF) to the model; may be repeated"},
    {"--lora-scaled", "LORA_SCALED", OPT_LIST, AT(lora_scaled), "FILE:SCALE,...",
        .help = "the same, times a number (1 = as it was trained, 0 = nothing)"},
    {"--sync", "SYNC", OPT_CHOICE, AT(sync), "HOW",
        .help = "how a pass waits for its devices: predict (default), poll, block; the text is the same",
        .choices = "predict poll block"},
    {"--timeline", "TIMELINE", OPT_TEXT, AT(timeline), "FILE",
        .help =
            "what each device computed, copied and was waited for: FILE.svg is a picture of the longest pass and of "
            "the last, another FILE has every pass as JSON for chrome://tracing or ui.perfetto.dev; the second of "
            "several models or sessions gets FILE-2"},
    {"--gpu-slice-ms", "GPU_SLICE_MS", OPT_FLOAT, AT(gpu_slice_ms), "MS",
        .help = "longest submission to a GPU, as predicted: shorter ones leave a desktop usable", .min = 0.01,
        .max = 10000},
    {"--isa", "ISA", OPT_TEXT, AT(isa), "NAME", .help = "highest instruction set to use: avx2, avx512, amx"},
    {"--pin", "PIN", OPT_ON, AT(pin), NULL, .help = "pin worker threads to CPUs"},
    {"--progressive", "PROGRESSIVE", OPT_ON, AT(progressive), NULL,
        .help = "read the model while its first prompt is evaluated, layer by layer; on a modelled phone, switch the "
                "NPU's graphs during prompts"},
    {"--packed", "PACKED", OPT_TEXT, AT(packed), "FILE",
        .help = "packed weights ('lutra pack'); else MODEL.lutra-packed where there is one; '' = none"},
    ZEROS_OPTION(AT(zeros)),
};

#define DRAFTS "--spec-type --model-draft --spec"

static const struct option speculation_table[] = {
    {"--spec-type", "SPEC_TYPE", OPT_TEXT, AT(spec_type), "LIST",
        .help =
            "drafts, which change the speed only: ngram-simple, suffix, calibrated, recycle, mtp (the model's own MTP "
            "block), with --rag store, several with commas, or auto for suffix, recycle, mtp and store; none "
            "(default)"},
    {"-md --model-draft --spec-draft-model", "MODEL_DRAFT", OPT_TEXT, AT(draft_model), "FILE",
        .help = "a second, smaller GGUF model of the same vocabulary that drafts"},
    {"-devd --device-draft --spec-draft-device", "DEVICE_DRAFT", OPT_TEXT, AT(draft_device), "NAME",
        .help = "devices of the draft model and of a verifier's, as --device; the other model uses those of --device "
                "alone, and passes of both run at the same time",
        .needs = "--model-draft --prm"},
    {"--draft-max --draft --draft-n --spec-draft-n-max", "DRAFT_MAX", OPT_INT, AT(draft_max), "N",
        .help = "most drafts of one sequence in a pass", .min = 1, .max = 64, .needs = DRAFTS},
    {"--draft-min --draft-n-min --spec-draft-n-min", "DRAFT_MIN", OPT_INT, AT(draft_min), "N",
        .help = "fewer drafts are not tried", .min = 0, .max = 64, .needs = DRAFTS},
    {"--draft-p-min --spec-draft-p-min", "DRAFT_P_MIN", OPT_FLOAT, AT(draft_p_min), "X",
        .help = "least estimate that a draft and all before it are right", .min = 0, .max = 1, .needs = DRAFTS},
    {"--spec-ngram-size-n", "SPEC_NGRAM_SIZE_N", OPT_INT, AT(spec_ngram_n), "N",
        .help = "tokens that ngram-simple looks up, at most", .min = 2, .max = 64, .needs = "--spec-type --spec"},
    {"--spec-shortlist", "SPEC_SHORTLIST", OPT_INT, AT(spec_shortlist), "N",
        .help = "calibrated: tokens that a prompt's hints are chosen from; 0 = the whole vocabulary", .min = 0,
        .max = SHORTLIST_MOST, .needs = "--spec-type --spec"},
    {"--spec-row-cost", "SPEC_ROW_COST", OPT_FLOAT, AT(experiment.draft_row_cost), "X",
        .help = "what a further row costs, in passes of one row: how much is drafted is then the same everywhere; "
                "0 = as measured",
        .min = 0, .max = 1, .needs = DRAFTS},
};

static const struct option output_table[] = {
    {"-v --verbose", NULL, OPT_ON, AT(verbose), NULL, .help = "log what the library does to stderr"},
    {"-q --quiet", NULL, OPT_ON, AT(quiet), NULL, .help = "errors only: no progress, no figures on stderr",
        .common = true},
    {"--no-progress", "NO_PROGRESS", OPT_OFF, AT(progress), NULL,
        .help = "no progress line (there is none when stderr is not a terminal)"},
};
#undef DRAFTS
#undef AT

void engine_options_init(struct engine_options *opts)
{
    struct lutra_session_settings s;
    lutra_session_settings_init(&s, sizeof s);
    *opts = (struct engine_options){.n_batch = s.n_batch,
        .type_k = "f16",
        .device = "cpu",
        .gpu_slice_ms = 10,
        .progress = true,
        .swa_full = true,
        .draft_max = s.draft_max,
        .draft_min = s.draft_min,
        .draft_p_min = s.draft_p_min,
        .experiment.size = sizeof opts->experiment,
        .spec_ngram_n = s.spec_ngram_size_n,
        .spec_shortlist = s.spec_shortlist};
}

struct option_set engine_option_set(struct engine_options *opts)
{
    return (struct option_set){"Model and machine", engine_table, OPTION_COUNT(engine_table), opts, NULL};
}

struct option_set speculation_option_set(struct engine_options *opts)
{
    return (struct option_set){"Speculation", speculation_table, OPTION_COUNT(speculation_table), opts, NULL};
}

struct option_set output_option_set(struct engine_options *opts)
{
    return (struct option_set){"Messages", output_table, OPTION_COUNT(output_table), opts, NULL};
}

static void log_line(void *user, enum lutra_log_level level, const char *line)
{
    const struct engine_options *opts = user;
    static const char *const word[] = {"error: ", "warning: ", "", ""};
    if (!opts->verbose && (level > LUTRA_LOG_WARN || opts->quiet)) return;
    say_plain("%s%s", word[level & 3], line);
}

static void set_npu_paths(struct lutra_runtime_settings *settings)
{
    settings->npu_qemu = getenv("LUTRA_QEMU");
    settings->npu_program = getenv("LUTRA_NPU_PROGRAM");
    settings->npu_library = getenv("LUTRA_CDSPRPC");
}

/* "cpu: AMD EPYC, ..." of a device, and nothing of the CPU behind it. */
static void print_device(const char *name, struct lutra_runtime *runtime)
{
    const char *text = lutra_runtime_device_text(runtime);
    size_t n = strcspn(text, ";"), own = strlen(name);
    if (n > own && strncmp(text, name, own) == 0) n -= own, text += own;
    printf("  %s: %.*s\n", name, (int)(n - strspn(text, ":, ")), text + strspn(text, ":, "));
}

/* Files of 'lutra profile' beside the model, each for the devices in its name. */
static void list_profiles(const char *model)
{
    struct buffer pattern = {0};
    glob_t found;
    for (const char *c = model; *c; c++) {
        if (strchr("*?[\\", *c)) buffer_add(&pattern, "\\", 1);
        buffer_add(&pattern, c, 1);
    }
    buffer_add(&pattern, ".*" LUTRA_PROFILE_SUFFIX, sizeof ".*" LUTRA_PROFILE_SUFFIX - 1);
    if (glob(pattern.text, 0, NULL, &found) == 0) {
        puts("Profiles of the model:");
        for (size_t i = 0; i < found.gl_pathc; i++) printf("  %s\n", found.gl_pathv[i]);
        globfree(&found);
    } else {
        printf("No profile of %s: 'lutra profile -m MODEL --device cpu:0-3,cpu:4-7' makes one.\n", model);
    }
    buffer_free(&pattern);
}

void list_devices(const struct engine_options *opts)
{
    struct lutra_error err = {0};
    const char *name;
    puts("Available devices:");
    for (int refused = 0; refused < 2; refused++)
        for (int i = 0; (name = lutra_device_name(i)); i++) {
            struct lutra_runtime_settings settings;
            lutra_runtime *runtime;
            lutra_runtime_settings_init(&settings, sizeof settings);
            settings.device = name;
            set_npu_paths(&settings);
            int rc = lutra_runtime_open(&runtime, &settings, &err);
            if (rc < 0 && refused) printf("  %s: not available: %s\n", name, err.what);
            if (rc < 0) continue;
            if (!refused) print_device(name, runtime);
            lutra_runtime_close(&runtime);
        }
    if (opts->model) list_profiles(opts->model);
}

/* Devices of --device and those of -devd that are not among them, with commas. */
static void list_names(const struct engine_options *opts, struct buffer *out)
{
    buffer_print(out, "%s", opts->device);
    for (const char *name = opts->draft_device; name; name = strchr(name, ',') ? strchr(name, ',') + 1 : NULL) {
        size_t n = strcspn(name, ",");
        bool known = false;
        for (const char *at = opts->device; at && !known; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
            known = strcspn(at, ",") == n && strncasecmp(at, name, n) == 0;
        if (!known) buffer_print(out, ",%.*s", (int)n, name);
    }
}

int engine_open_runtime(struct engine *e, const struct engine_options *opts)
{
    struct lutra_error err = {0};
    struct buffer names = {0};
    struct lutra_runtime_settings settings;
    list_names(opts, &names);
    e->second_device = opts->draft_device;
    lutra_runtime_settings_init(&settings, sizeof settings);
    settings.n_threads = opts->n_threads;
    settings.pin = opts->pin;
    settings.device = names.text;
    settings.split = opts->split;
    settings.sync = opts->sync;
    settings.gpu_slice_ms = opts->gpu_slice_ms;
    settings.isa = opts->isa;
    settings.progressive = opts->progressive;
    settings.log = log_line;
    settings.log_user = (void *)opts;
    const char *window = getenv("LUTRA_NPU_WINDOW_KIB");
    if (window) settings.npu_window_bytes = strtoull(window, NULL, 10) << 10;
    set_npu_paths(&settings);
    progress_enable(opts->progress && !opts->quiet);
    interrupt_watch(NULL);
    long n_cpu = sysconf(_SC_NPROCESSORS_ONLN);
    if (n_cpu > 0 && opts->n_threads > THREADS_PER_CPU * n_cpu && !opts->quiet)
        say("warning: %d threads on %ld CPUs wait for each other; -t 0 takes what there is", opts->n_threads, n_cpu);
    int rc = lutra_runtime_open(&e->runtime, &settings, &err);
    buffer_free(&names);
    return rc < 0 ? fail_with(&err) : 0;
}

int engine_find_model(struct engine_options *opts)
{
    if (!opts->hf_repo) return opts->model ? model_find(opts->model, &opts->model) : 0;
    if (opts->model && opts->model != getenv("LUTRA_ARG_MODEL")) {
        say("-m %s and -hf %s: one model, please", opts->model, opts->hf_repo);
        return EXIT_USAGE;
    }
    progress_enable(opts->progress && !opts->quiet);
    return hub_find(&(struct hub_wanted){opts->hf_repo, opts->hf_file, opts->hf_token, opts->offline}, &opts->model);
}

int engine_open_model(struct engine *e, lutra_model **out, const char *path, struct lutra_model_settings *settings,
    bool more, struct lutra_error *err)
{
    settings->progress = progress_callback;
    settings->zeros = e->zeros;
    int rc = lutra_model_open(out, e->runtime, path, settings, err);
    if (rc == LUTRA_E_ARGUMENT && e->zeros && (more || e->zeros_taken)) {
        settings->zeros = NULL;
        rc = lutra_model_open(out, e->runtime, path, settings, err);
    }
    e->zeros_taken = e->zeros_taken || (rc == 0 && settings->zeros);
    progress_clear();
    return rc;
}

int engine_check_options(const struct engine_options *opts)
{
    if (!opts->model) {
        say("no model: -m FILE, -hf USER/REPO or LUTRA_ARG_MODEL names one; 'lutra models' lists those that are here");
        return EXIT_USAGE;
    }
    if (strstr(opts->model, "://")) {
        say("%s: a URL, not a file", opts->model);
        return EXIT_FAILED;
    }
    return 0;
}

/* Appends files of --lora or --lora-scaled to out [LUTRA_ADAPTERS_MOST]; the paths are out's.  0, or an exit code. */
static int list_adapters(const struct option_list *list, bool scaled, struct lutra_adapter *out, int *n)
{
    for (int i = 0; i < list->n; i++) {
        char *all = copy_text(list->item[i]), *rest = all;
        for (char *one; (one = strsep(&rest, ",")) != NULL;) {
            char *colon = scaled ? strrchr(one, ':') : NULL, *end = NULL;
            float scale = colon ? strtof(colon + 1, &end) : 1;
            const char *wrong = *n == LUTRA_ADAPTERS_MOST ? "too many adapters"
                                : scaled && (!colon || *end || end == colon + 1)
                                    ? "needs FILE:SCALE, such as a.gguf:0.5"
                                    : NULL;
            if (wrong) {
                say("--lora%s %s: %s", scaled ? "-scaled" : "", one, wrong);
                free(all);
                return EXIT_USAGE;
            }
            if (colon) *colon = 0;
            out[(*n)++] = (struct lutra_adapter){copy_text(one), scale};
        }
        free(all);
    }
    return 0;
}

int engine_model_settings(const struct engine_options *opts, struct model_options *out)
{
    struct lutra_model_settings *set = &out->set;
    lutra_model_settings_init(set, sizeof *set);
    set->progress = progress_callback;
    set->packed = opts->packed;
    set->override_tensor = opts->override_tensor;
    set->plan = opts->plan;
    set->zeros = opts->zeros;
    set->device = opts->draft_device ? opts->device : NULL;
    set->adapter = out->adapter;
    if (opts->expert_ram && !bytes_parse(opts->expert_ram, &set->expert_ram)) {
        say("--expert-ram %s: no size; such as 800M or 8G", opts->expert_ram);
        return EXIT_USAGE;
    }
    int code = list_adapters(&opts->lora, false, out->adapter, &set->n_adapter);
    if (!code) code = list_adapters(&opts->lora_scaled, true, out->adapter, &set->n_adapter);
    if (code) model_options_free(out);
    return code;
}

void model_options_free(struct model_options *o)
{
    while (o->set.n_adapter > 0) free((void *)o->adapter[--o->set.n_adapter].path);
}

int engine_open(struct engine *e, const struct engine_options *opts, bool vocab_only)
{
    struct lutra_error err = {0};
    int code = engine_check_options(opts);
    if (!code) code = engine_open_runtime(e, opts);
    if (code) return code;
    uint64_t start = now_us();
    struct model_options model;
    code = engine_model_settings(opts, &model);
    if (code) return code;
    model.set.vocab_only = vocab_only;
    e->zeros = opts->zeros;
    bool more = opts->draft_model || opts->more_models;
    int rc = engine_open_model(e, &e->model, opts->model, &model.set, more, &err);
    model_options_free(&model);
    if (rc < 0) return fail_with(&err);
    e->load_us = now_us() - start;
    lutra_model_info_get(e->model, &e->info, sizeof e->info);
    return 0;
}

int engine_open_draft_model(struct engine *e, const struct engine_options *opts, struct lutra_error *err)
{
    struct lutra_model_settings settings;
    if (!opts->draft_model || e->draft_model) return 0;
    lutra_model_settings_init(&settings, sizeof settings);
    settings.device = opts->draft_device;
    return engine_open_model(e, &e->draft_model, opts->draft_model, &settings, opts->more_models, err);
}

/* "trace.json" is "trace-2.json" of the second session. */
static char *numbered(const char *path, int k, const char *behind)
{
    struct buffer name = {0};
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    int n = dot ? (int)(dot - path) : (int)strlen(path);
    if (k > 1)
        buffer_print(&name, "%.*s-%d%s%s", n, path, k, path + n, behind);
    else
        buffer_print(&name, "%s%s", path, behind);
    return name.text;
}

/* Where a session writes its timeline: a picture is drawn from that by engine_close(). */
static const char *trace_of(struct engine *e, const struct engine_options *opts)
{
    if (!opts->timeline) return NULL;
    bool svg = timeline_is_svg(opts->timeline);
    int k = e->n_timeline_before + e->n_timeline + 1;
    e->timeline = grow_memory(e->timeline, (size_t)(e->n_timeline + 1) * sizeof *e->timeline);
    struct timeline_file *file = &e->timeline[e->n_timeline++];
    file->trace = numbered(opts->timeline, k, svg ? ".json" : "");
    file->svg = svg ? numbered(opts->timeline, k, "") : NULL;
    return file->trace;
}

void engine_session_settings(
    struct engine *e, const struct engine_options *opts, struct lutra_session_settings *settings)
{
    settings->timeline = trace_of(e, opts);
    if (settings->n_ctx == 0) settings->n_ctx = opts->n_ctx;
    settings->n_batch = opts->n_batch;
    settings->cache_type = opts->type_k;
    settings->cache_type_v = opts->type_v;
    settings->swa_trim = !opts->swa_full;
    settings->spec_type = opts->spec_type;
    settings->draft_max = opts->draft_max;
    settings->draft_min = opts->draft_min;
    settings->draft_p_min = opts->draft_p_min;
    settings->spec_ngram_size_n = opts->spec_ngram_n;
    settings->spec_shortlist = opts->spec_shortlist;
    settings->experiment = &opts->experiment;
}

int engine_open_session(struct engine *e, const struct engine_options *opts, struct lutra_session_settings settings)
{
    struct lutra_error err = {0};
    engine_session_settings(e, opts, &settings);
    if (engine_open_draft_model(e, opts, &err) < 0) return fail_with(&err);
    settings.draft_model = e->draft_model;
    if (lutra_session_open(&e->session, e->model, &settings, &err) < 0) return fail_with(&err);
    interrupt_watch(e->session);
    int n_ctx;
    lutra_session_sizes_get(e->session, &n_ctx, NULL, NULL);
    if (n_ctx > e->info.n_ctx_train && e->info.n_ctx_train > 0 && !opts->quiet)
        say("warning: a context of %d tokens; %s was trained with %d, and may lose the thread beyond them", n_ctx,
            e->info.name, e->info.n_ctx_train);
    return 0;
}

void engine_close(struct engine *e)
{
    progress_clear();
    interrupt_watch(NULL);
    lutra_session_close(&e->session);
    for (int i = 0; i < e->n_timeline; i++) {
        const struct timeline_file *file = &e->timeline[i];
        if (file->svg && access(file->trace, R_OK) == 0) {
            timeline_draw(file->trace, file->svg);
            unlink(file->trace);
        }
        free(file->trace);
        free(file->svg);
    }
    free(e->timeline);
    e->timeline = NULL;
    e->n_timeline_before += e->n_timeline;
    e->n_timeline = 0;
    lutra_model_close(&e->draft_model);
    lutra_model_close(&e->model);
    lutra_runtime_close(&e->runtime);
}
