/* SPDX-License-Identifier: MIT
 *
 * The sampling options: llama.cpp's names, written straight into a struct lutra_sampling.  What was not given comes
 * from the model's file (general.sampling.*), where that says something.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define AT(field) offsetof(struct sampling_options, field)

static const struct option sampling_table[] = {
    {"--samplers", "SAMPLERS", OPT_TEXT, AT(set.samplers), "LIST",
        .help = "the samplers in their order, with ';' between: penalties dry top_n_sigma top_k typ_p top_p min_p xtc "
                "temperature adaptive_p; one left out is off"},
    {"--sampler-seq --sampling-seq", "SAMPLING_SEQ", OPT_TEXT, AT(letters), "LETTERS",
        .help = "the same by letters: e d s k y p m x t, a"},
    {"-s --seed", "SEED", OPT_I64, AT(seed), "N", .help = "random seed; -1 = another one each time", .min = -1,
        .max = 9e15, .common = true},
    {"--temp --temperature", "TEMP", OPT_FLOAT, AT(set.temperature), "X", .help = "temperature; 0 = greedy", .min = 0,
        .max = 1000, .common = true},
    {"--top-k", "TOP_K", OPT_INT, AT(set.top_k), "N", .help = "only the N most likely tokens; 0 = all", .min = 0,
        .max = 1 << 24, .common = true},
    {"--top-p", "TOP_P", OPT_FLOAT, AT(set.top_p), "X",
        .help = "only the likeliest tokens that hold X of the probability; 1 = all", .min = 0, .max = 1,
        .common = true},
    {"--min-p", "MIN_P", OPT_FLOAT, AT(set.min_p), "X",
        .help = "only tokens at least X times as likely as the likeliest; 0 = all", .min = 0, .max = 1, .common = true},
    {"--top-nsigma --top-n-sigma", "TOP_N_SIGMA", OPT_FLOAT, AT(set.top_n_sigma), "X",
        .help = "only logits at most X standard deviations below the largest; -1 = all", .min = -1, .max = 1000},
    {"--typical --typical-p", "TYPICAL_P", OPT_FLOAT, AT(set.typical_p), "X",
        .help = "only the tokens of most typical surprise that hold X of the probability; 1 = all", .min = 0, .max = 1},
    {"--xtc-probability", "XTC_PROBABILITY", OPT_FLOAT, AT(set.xtc_probability), "X",
        .help = "how often XTC takes the likeliest tokens away; 0 = never", .min = 0, .max = 1},
    {"--xtc-threshold", "XTC_THRESHOLD", OPT_FLOAT, AT(set.xtc_threshold), "X",
        .help = "those: all of at least this probability but the last of them; above 0.5 = off", .min = 0, .max = 1},
    {"--repeat-last-n", "REPEAT_LAST_N", OPT_INT, AT(set.penalty_last_n), "N",
        .help = "tokens that the penalties look back; 0 = off, -1 = the whole context", .min = -1, .max = 1 << 24},
    {"--repeat-penalty", "REPEAT_PENALTY", OPT_FLOAT, AT(set.repeat_penalty), "X",
        .help = "penalty of repeated tokens; 1 = off", .min = 0.001, .max = 1000},
    {"--frequency-penalty", "FREQUENCY_PENALTY", OPT_FLOAT, AT(set.frequency_penalty), "X",
        .help = "taken off per occurrence; 0 = off", .min = -1000, .max = 1000},
    {"--presence-penalty", "PRESENCE_PENALTY", OPT_FLOAT, AT(set.presence_penalty), "X",
        .help = "taken off once a token has occurred; 0 = off", .min = -1000, .max = 1000},
    {"--dry-multiplier", "DRY_MULTIPLIER", OPT_FLOAT, AT(set.dry_multiplier), "X",
        .help = "DRY: going on with a repeated text costs X times base to the power of its length; 0 = off",
        .min = -1000, .max = 1000},
    {"--dry-base", "DRY_BASE", OPT_FLOAT, AT(set.dry_base), "X", .help = "that base; below 1 = off", .min = 0,
        .max = 1000},
    {"--dry-allowed-length", "DRY_ALLOWED_LENGTH", OPT_INT, AT(set.dry_allowed_length), "N",
        .help = "that length is counted from N tokens on", .min = 0, .max = 1 << 24},
    {"--dry-penalty-last-n", "DRY_PENALTY_LAST_N", OPT_INT, AT(set.dry_penalty_last_n), "N",
        .help = "tokens that DRY looks back; 0 = off, -1 = the whole context", .min = -1, .max = 1 << 24},
    {"--dry-sequence-breaker", NULL, OPT_LIST, AT(breakers), "TEXT",
        .help = "no repeat goes across this text, instead of across a line end, ':', '\"' and '*'; may be repeated; "
                "none: across any"},
    {"--dynatemp-range", "DYNATEMP_RANGE", OPT_FLOAT, AT(set.dynatemp_range), "X",
        .help = "temperature from temp - X to temp + X, by the entropy; 0 = off", .min = 0, .max = 1000},
    {"--dynatemp-exp", "DYNATEMP_EXP", OPT_FLOAT, AT(set.dynatemp_exponent), "X",
        .help = "to the power of which the entropy counts there", .min = 0, .max = 1000},
    {"--mirostat", "MIROSTAT", OPT_INT, AT(set.mirostat), "N",
        .help = "Mirostat 1 or 2 cuts, and of the others only temperature acts; 0 = off", .min = 0, .max = 2},
    {"--mirostat-lr", "MIROSTAT_LR", OPT_FLOAT, AT(set.mirostat_eta), "X", .help = "its learning rate, eta", .min = 0,
        .max = 1000},
    {"--mirostat-ent", "MIROSTAT_ENT", OPT_FLOAT, AT(set.mirostat_tau), "X", .help = "its target surprise in bits, tau",
        .min = 0, .max = 1000},
    {"--adaptive-target", "ADAPTIVE_TARGET", OPT_FLOAT, AT(set.adaptive_target), "X",
        .help = "adaptive-p: tokens near this probability; -1 = off", .min = -1, .max = 1},
    {"--adaptive-decay", "ADAPTIVE_DECAY", OPT_FLOAT, AT(set.adaptive_decay), "X",
        .help = "how slowly that follows what was picked", .min = 0, .max = 0.99},
    {"-l --logit-bias", NULL, OPT_LIST, AT(bias), "TOKEN+BIAS",
        .help = "change the likelihood of a token: 15043+1, 15043-1 or 15043-inf; may be repeated"},
};
#undef AT

void sampling_options_init(struct sampling_options *opts)
{
    *opts = (struct sampling_options){.seed = -1};
    lutra_sampling_init(&opts->set, sizeof opts->set);
}

struct option_set sampling_option_set(struct sampling_options *opts)
{
    return (struct option_set){
        "Sampling, in this order: bias, penalties, dry, top-n-sigma, top-k, typical, top-p, min-p, "
        "xtc, temperature",
        sampling_table, OPTION_COUNT(sampling_table), opts, &opts->given};
}

static int parse_bias(const char *text, struct lutra_logit_bias *bias)
{
    char *end, *tail;
    long token = strtol(text, &end, 10);
    if (end == text || (*end != '+' && *end != '-') || token < 0 || token > INT32_MAX) return -1;
    double value = strtod(end, &tail);
    if (tail == end || *tail || isnan(value) || value > 1e6) return -1;
    *bias = (struct lutra_logit_bias){(int32_t)token, (float)value};
    return 0;
}

/* "edskypmxt" as names; NULL after a message. */
static char *spell_letters(const char *given)
{
    static const char letters[] = "edskypmxta";
    static const char *const name[] = {
        "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature", "adaptive_p"};
    struct buffer names = {0};
    buffer_add(&names, "", 0);
    for (const char *p = given; *p; p++) {
        const char *at = strchr(letters, *p);
        if (!at) {
            say("--sampling-seq: '%s' is not of the letters %s%s", given, letters,
                *p == 'i' ? " (infill is not implemented)" : "");
            buffer_free(&names);
            return NULL;
        }
        buffer_add(&names, name[at - letters], strlen(name[at - letters]));
        buffer_add(&names, ";", 1);
    }
    return names.text;
}

static void take_breakers(struct sampling_options *opts, struct lutra_sampling *out)
{
    const struct option_list *list = &opts->breakers;
    if (list->n == 0) return;
    opts->unescaped = get_memory((size_t)list->n * sizeof *opts->unescaped);
    for (int i = 0; i < list->n; i++) {
        char *own = opts->unescaped[i] = copy_text(list->item[i]);
        size_t n = strlen(own);
        unescape(own, &n);
    }
    out->dry_sequence_breakers = (const char *const *)opts->unescaped;
    out->n_dry_sequence_breakers = list->n == 1 && strcmp(opts->unescaped[0], "none") == 0 ? -1 : list->n;
}

void sampling_options_free(struct sampling_options *opts)
{
    for (int i = 0; opts->unescaped && i < opts->breakers.n; i++) free(opts->unescaped[i]);
    free(opts->unescaped);
    free(opts->spelled);
    opts->unescaped = NULL;
    opts->spelled = NULL;
}

int sampling_from_options(struct sampling_options *opts, struct lutra_logit_bias *bias, struct lutra_sampling *out)
{
    sampling_options_free(opts);
    *out = opts->set;
    if (opts->letters && !(out->samplers = opts->spelled = spell_letters(opts->letters))) return EXIT_USAGE;
    for (int i = 0; i < opts->bias.n; i++)
        if (parse_bias(opts->bias.item[i], &bias[i]) < 0) {
            say("--logit-bias: '%s' is not TOKEN+BIAS or TOKEN-BIAS", opts->bias.item[i]);
            return EXIT_USAGE;
        }
    out->seed =
        opts->seed >= 0 ? (uint64_t)opts->seed : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid() + now_us();
    out->bias = bias;
    out->n_bias = opts->bias.n;
    take_breakers(opts, out);
    return 0;
}

/* The value of an option in a struct lutra_sampling; NULL: it is not there. */
static void *value_in(const struct option *o, struct lutra_sampling *set, size_t *n_bytes)
{
    size_t from = offsetof(struct sampling_options, set);
    if (o->at < from || o->at >= from + sizeof *set) return NULL;
    *n_bytes = o->type == OPT_TEXT ? sizeof(char *) : o->type == OPT_INT ? sizeof(int) : sizeof(float);
    return (char *)set + (o->at - from);
}

void sampling_from_model(const struct sampling_options *opts, const lutra_model *model, struct lutra_sampling *set)
{
    struct lutra_sampling file;
    lutra_model_sampling_get(model, &file, sizeof file);
    for (int i = 0; i < OPTION_COUNT(sampling_table); i++) {
        const struct option *o = &sampling_table[i];
        size_t n;
        void *to = value_in(o, set, &n);
        bool given = opts->given >> i & 1 || (o->type == OPT_TEXT && opts->letters);
        if (to && !given) memcpy(to, value_in(o, &file, &n), n);
    }
}

void sampling_text(const struct lutra_sampling *set, struct buffer *out)
{
    struct lutra_sampling s = *set;
    for (int i = 0; i < OPTION_COUNT(sampling_table); i++) {
        const struct option *o = &sampling_table[i];
        char text[256], name[64];
        size_t n;
        const void *at = value_in(o, &s, &n);
        if (!at) continue;
        option_word(o->names, 0, name, sizeof name);
        if (o->type == OPT_TEXT)
            snprintf(text, sizeof text, "%s %s ", name, *(const char *const *)at ? *(const char *const *)at : "-");
        else if (o->type == OPT_INT)
            snprintf(text, sizeof text, "%s %d ", name, *(const int *)at);
        else
            snprintf(text, sizeof text, "%s %.9g ", name, (double)*(const float *)at);
        buffer_add(out, text, strlen(text));
    }
    char n_text[16];
    snprintf(n_text, sizeof n_text, "%d", set->n_dry_sequence_breakers);
    buffer_add(out, n_text, strlen(n_text));
    for (int i = 0; i < set->n_dry_sequence_breakers; i++)
        buffer_add(out, set->dry_sequence_breakers[i], strlen(set->dry_sequence_breakers[i]) + 1);
}
