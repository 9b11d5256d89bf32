/* SPDX-License-Identifier: MIT
 *
 * What the commands of `lutra` share.  stdout carries results; progress, logs and errors go to stderr.
 */
#ifndef LUTRA_CLI_CLI_H
#define LUTRA_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lutra.h"
#include "option.h"

/* EXIT_NOT_PASSED: a reply was given, but the checker passed no candidate. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NOT_PASSED = 3, EXIT_INTERRUPTED = 130 };

struct command {
    const char *name;
    const char *arguments; /* after the options in the usage line */
    const char *summary;   /* one line */
    const char *notes;     /* paragraphs under the options, or NULL */
    size_t opts_bytes;
    void (*defaults)(void *opts);
    int (*sets)(void *opts, struct option_set *set); /* fills, returns how many */
    int min_args, max_args;
    int (*run)(void *opts, const char **arg, int n_arg); /* returns an exit code */
};

extern const struct command command_run, command_bench, command_eval, command_quantize, command_imatrix, command_import,
    command_profile, command_tokenize, command_inspect, command_models, command_make_model, command_pack,
    command_perplexity, command_rag, command_pull, command_serve, command_embed, command_sim, command_check;

/* ---- terminal (term.c) ------------------------------------------------------------------------------------------ */

/* Prints "lutra: ..." to stderr, the progress line cleared first. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_plain(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* without the program's name */
/* Such a line, its line feed included, of at most 4096 bytes. */
void message_line(const char *text, size_t n);
/* From now on no line is waited for: those that nobody reads are counted, which is told where they are missing. */
void messages_may_be_lost(void);

/* Says what failed; returns the exit code for it (EXIT_INTERRUPTED after Ctrl-C). */
int fail_with(const struct lutra_error *err);

/* Ctrl-C: sets a flag and cancels the watched session (may be NULL).  A second one within the same wait kills. */
void interrupt_watch(lutra_session *session);
bool interrupted(void);
void interrupt_clear(void);

/* A model file that is cut short while it is mapped ends the program with its name, not with a bare "Bus error". */
void crash_watch(void);

/* A line on stderr that rewrites itself, when stderr is a terminal and progress is wanted. */
void progress_enable(bool wanted);
void progress_show(const char *stage, uint64_t done, uint64_t total); /* with rate-limited redraw and ETA */
void progress_clear(void);
int progress_callback(void *user, const char *stage, uint64_t done, uint64_t total); /* lutra_progress_fn */

/* Flushes stdout; EXIT_FAILED and a message if anything written there was lost. */
int finish_stdout(int code);

uint64_t now_us(void);

/* ---- memory and text (text.c): these end the program when memory runs out --------------------------------------- */

void *get_memory(size_t bytes);
void *grow_memory(void *p, size_t bytes);
char *copy_text(const char *text);

struct buffer {
    char *text; /* NUL-terminated when not NULL */
    size_t n_bytes, room;
};
void buffer_add(struct buffer *b, const char *text, size_t n);
/* A piece of at most 511 bytes; what is longer is cut. */
__attribute__((format(printf, 2, 3))) void buffer_print(struct buffer *b, const char *fmt, ...);
void buffer_clear(struct buffer *b); /* empties, keeps the memory */
void buffer_free(struct buffer *b);

/* A whole file ("-" = stdin); 0 or -1 with a message. */
int read_file(const char *path, struct buffer *b);

/* Appears under `path` whole or not at all; 0 or -1 with a message. */
int write_file_whole(const char *path, const char *text, size_t n_bytes);

/* A file of this user's, after the XDG standard: $VARIABLE/lutra/NAME, else ~/BELOW_HOME/lutra/NAME; NULL without a
 * home. The caller frees it. */
char *user_path(const char *variable, const char *below_home, const char *name);
/* The folders above a path, for this user only. */
void make_folders(const char *path);

/* Text of strangers to stdout: what a terminal would act on is blanked, line ends and tabs stay. */
void print_plain(const char *text, size_t n);

/* \n \t \" \' \\ \r \xHH become what they mean, in place. */
void unescape(char *text, size_t *n_bytes);

/* Bytes of "512", "1.5G", "8 GiB": units of 1024.  False: it is no such size. */
bool bytes_parse(const char *text, int64_t *out);

/* "1.20 GiB", "3.41 M": into out, which is returned. */
char *bytes_text(double bytes, char *out, size_t n_out);
char *count_text(double count, char *out, size_t n_out);

/* Tokens of a text, growing as needed; 0 or an error status. */
struct tokens {
    int32_t *id;
    int n, room;
};
int tokenize(
    const lutra_model *model, const char *text, size_t n, int flags, struct tokens *out, struct lutra_error *err);

/* Tokens of a conversation through a chat template. */
int tokenize_chat(const lutra_model *model, const struct lutra_chat *chat, struct tokens *out, struct lutra_error *err);

/* ---- opening a model (setup.c) ---------------------------------------------------------------------------------- */

struct engine_options {
    const char *hf_repo, *hf_file, *hf_token;
    bool offline;
    const char *model, *device, *split, *sync, *override_tensor, *timeline, *isa, *type_k, *type_v, *packed, *zeros,
        *plan, *expert_ram;
    int n_threads, n_ctx, n_batch;
    bool pin, quiet, progress, verbose, swa_full, list_devices, progressive;
    bool more_models; /* beside this one and its drafter: zeros may be meant for them */
    const char *spec_type, *draft_model, *draft_device;
    struct option_list lora, lora_scaled;
    int draft_max, draft_min, spec_ngram_n, spec_shortlist;
    float draft_p_min, gpu_slice_ms;
    struct lutra_session_experiment experiment;
};

/* Types of a cache, as OPT_CHOICE takes them. */
#define CACHE_TYPES "f16 f32 q8_0 q5_0 q4_1 q4_0"

enum { SHORTLIST_MOST = 4096 }; /* of --spec-shortlist */

/* --zeros, of every command that reads a folder's weights. */
#define ZEROS_OPTION(field)                                                                                            \
    {                                                                                                                  \
        "--zeros", NULL, OPT_CHOICE, field, "v1|v2",                                                                   \
            .help = "how a folder's GPTQ layers store their zeros, less one (v1) or as they are (v2), where the data " \
                    "do not say",                                                                                      \
            .choices = "v1 v2"                                                                                         \
    }

struct timeline_file {
    char *trace, *svg; /* the picture is drawn from what the session writes to `trace`; NULL: none is asked for */
};

struct engine {
    lutra_runtime *runtime;
    lutra_model *model, *draft_model;
    const char *second_device; /* of models beside the first; NULL: as that */
    lutra_session *session;
    struct lutra_model_info info;
    uint64_t load_us;
    struct timeline_file *timeline;    /* [n_timeline] of --timeline, one of each session that was opened */
    int n_timeline, n_timeline_before; /* before: of engines that were open earlier */
    const char *zeros;                 /* as asked for */
    bool zeros_taken;                  /* by a model that is open */
};

void engine_options_init(struct engine_options *opts);
struct option_set engine_option_set(struct engine_options *opts);      /* -m -t --device -c -b ... */
struct option_set speculation_option_set(struct engine_options *opts); /* --spec-type --draft-max ... */
struct option_set output_option_set(struct engine_options *opts);      /* -v --quiet --no-progress */

/* Prints the devices that a runtime can be opened with here, and the reasons of the others. */
void list_devices(const struct engine_options *opts); /* and the profiles that lie beside its model */

/* The model's path in place of its name, or of -hf's: found on this machine or downloaded.  0, or an exit code after a
 * message. */
int engine_find_model(struct engine_options *opts);
/* Opens runtime and model; returns 0 or an exit code after a message. */
int engine_open(struct engine *e, const struct engine_options *opts, bool vocab_only);
int engine_open_runtime(struct engine *e, const struct engine_options *opts);
/* Is there a model, and is the rest of a piece?  0, or an exit code after a message. */
int engine_check_options(const struct engine_options *opts);
/* Opens one of its models.  --zeros counts for those with layers of GPTQ, and must for one of them; more: others may
 * follow. */
int engine_open_model(struct engine *e, lutra_model **out, const char *path, struct lutra_model_settings *settings,
    bool more, struct lutra_error *err);
/* The drafter (-md), once; 0 where there is none. */
int engine_open_draft_model(struct engine *e, const struct engine_options *opts, struct lutra_error *err);
/* What the options say of a session; settings that were not asked for keep their values. */
void engine_session_settings(
    struct engine *e, const struct engine_options *opts, struct lutra_session_settings *settings);
/* What the options say of the model that -m names; set.adapter points into it.  0, or an exit code after a message, and
 * then there is nothing to free. */
struct model_options {
    struct lutra_model_settings set;
    struct lutra_adapter adapter[LUTRA_ADAPTERS_MOST];
};
int engine_model_settings(const struct engine_options *opts, struct model_options *out);
void model_options_free(struct model_options *o);
/* settings: n_seq, n_out, n_cache and where nonzero n_ctx; the rest comes from the options. */
int engine_open_session(struct engine *e, const struct engine_options *opts, struct lutra_session_settings settings);
void engine_close(struct engine *e);

/* "model", "mean", "cls", "last". */
enum lutra_pooling pooling_of(const char *name);

/* ---- a picture of a pass (timeline.c) ---------------------------------------------------------------------------- */

bool timeline_is_svg(const char *path);
/* Draws the longest pass and the last one of a file of lutra_session_settings.timeline.  0, or -1 after a message. */
int timeline_draw(const char *trace, const char *svg);

/* ---- sampling (sampling.c) --------------------------------------------------------------------------------------- */

struct sampling_options {
    struct lutra_sampling set;
    int64_t seed;                      /* -1 = another one each time */
    const char *letters;               /* set.samplers by letters, or NULL */
    struct option_list bias, breakers; /* "15043+1.5", "15043-inf"; texts */
    char *spelled;                     /* the letters as names */
    char **unescaped;                  /* [breakers.n] */
    uint64_t given;
};

void sampling_options_init(struct sampling_options *opts);
struct option_set sampling_option_set(struct sampling_options *opts);
/* bias: room for OPTION_LIST_MAX; *out borrows from opts.  0 or EXIT_USAGE after a message. */
int sampling_from_options(struct sampling_options *opts, struct lutra_logit_bias *bias, struct lutra_sampling *out);
void sampling_options_free(struct sampling_options *opts);
/* What was not given becomes what the model's file recommends. */
void sampling_from_model(const struct sampling_options *opts, const lutra_model *model, struct lutra_sampling *set);
/* All of it but seed and biases, for comparing. */
void sampling_text(const struct lutra_sampling *set, struct buffer *out);

#endif
