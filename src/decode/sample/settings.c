/* SPDX-License-Identifier: MIT
 *
 * Sampler settings: defaults, what may be, and the chain they amount to.
 */
#include <stdbool.h>
#include <string.h>

#include "decode/sample/sampler_impl.h"

struct sample_settings sample_settings_default(void)
{
    struct sample_settings set = {.temperature = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .penalty_last_n = 64,
        .repeat_penalty = 1.0f,
        .dry_base = 1.75f,
        .dry_allowed_length = 2,
        .dry_last_n = 64,
        .top_n_sigma = -1,
        .typical_p = 1,
        .xtc_threshold = 0.1f,
        .dynatemp_exponent = 1,
        .mirostat_tau = 5,
        .mirostat_eta = 0.1f,
        .adaptive_target = -1,
        .adaptive_decay = 0.9f};
    for (uint8_t i = STAGE_PENALTIES; i <= STAGE_TEMPERATURE; i++) set.stage[set.n_stage++] = i;
    return set;
}

/* ---- lists of stages ---- */

/* llama.cpp's names; the first is the one it prints. */
static const struct {
    const char *names;
    enum sample_stage stage;
} stage_name[] = {
    {"penalties", STAGE_PENALTIES},
    {"dry", STAGE_DRY},
    {"top_n_sigma top-n-sigma", STAGE_TOP_N_SIGMA},
    {"top_k top-k", STAGE_TOP_K},
    {"typ_p typical-p typical typ-p typ", STAGE_TYPICAL},
    {"top_p top-p nucleus", STAGE_TOP_P},
    {"min_p min-p", STAGE_MIN_P},
    {"xtc", STAGE_XTC},
    {"temperature temp", STAGE_TEMPERATURE},
    {"adaptive_p adaptive-p", STAGE_ADAPTIVE_P},
};
enum { N_NAMED = sizeof stage_name / sizeof *stage_name };

static bool is_named(const char *names, const char *word, size_t n)
{
    for (const char *p = names; *p; p += strspn(p, " ")) {
        size_t m = strcspn(p, " ");
        if (m == n && memcmp(p, word, n) == 0) return true;
        p += m;
    }
    return false;
}

int sample_stages_parse(struct sample_settings *set, const char *list, struct lutra_error *err)
{
    set->n_stage = 0;
    for (const char *p = list; *p; p += strspn(p, ";")) {
        size_t n = strcspn(p, ";");
        int i = 0;
        while (i < N_NAMED && !is_named(stage_name[i].names, p, n)) i++;
        if (i == N_NAMED)
            return lutra_fail(err, LUTRA_E_ARGUMENT,
                "samplers: '%.*s' is not one of penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, "
                "temperature, "
                "adaptive_p%s",
                n > 40 ? 40 : (int)n, p, n == 6 && memcmp(p, "infill", 6) == 0 ? " (infill is not implemented)" : "");
        if (set->n_stage == SAMPLE_STAGES)
            return lutra_fail(err, LUTRA_E_ARGUMENT, "samplers: more than %d", SAMPLE_STAGES);
        set->stage[set->n_stage++] = (uint8_t)stage_name[i].stage;
        p += n;
    }
    return 0;
}

/* ---- checks ---- */

static bool has_stage(const struct sample_settings *set, enum sample_stage stage)
{
    for (int i = 0; i < set->n_stage; i++)
        if (set->stage[i] == stage) return true;
    return false;
}

static int check_range(const char *name, float x, float low, float high, struct lutra_error *err)
{
    if (x >= low && x <= high) return 0;
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "%s: %g is not between %g and %g", name, (double)x, (double)low, (double)high);
}

static int check_length(const char *name, int n, struct lutra_error *err)
{
    return n >= -1 ? 0 : lutra_fail(err, LUTRA_E_ARGUMENT, "%s: %d is not -1, 0 or a length", name, n);
}

static int check_ranges(const struct sample_settings *s, struct lutra_error *err)
{
    const struct {
        const char *name;
        float x, low, high;
    } range[] = {
        {"temperature", s->temperature, -1e6f, 1e6f},
        {"top_p", s->top_p, 0, 1e6f},
        {"min_p", s->min_p, -1e6f, 1},
        {"repeat_penalty", s->repeat_penalty, 1e-3f, 1e3f},
        {"frequency_penalty", s->frequency_penalty, -1e3f, 1e3f},
        {"presence_penalty", s->presence_penalty, -1e3f, 1e3f},
        {"dry_multiplier", s->dry_multiplier, -1e3f, 1e3f},
        {"dry_base", s->dry_base, -1e3f, 1e3f},
        {"top_n_sigma", s->top_n_sigma, -1e6f, 1e6f},
        {"typical_p", s->typical_p, 0, 1e6f},
        {"xtc_probability", s->xtc_probability, 0, 1},
        {"xtc_threshold", s->xtc_threshold, 0, 1},
        {"dynatemp_range", s->dynatemp_range, 0, 1e6f},
        {"dynatemp_exponent", s->dynatemp_exponent, 0, 1e3f},
        {"mirostat_tau", s->mirostat_tau, 0, 1e3f},
        {"mirostat_eta", s->mirostat_eta, 0, 1e3f},
        {"adaptive_target", s->adaptive_target, -1e6f, 1},
        {"adaptive_decay", s->adaptive_decay, 0, 0.99f},
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        TRY(check_range(range[i].name, range[i].x, range[i].low, range[i].high, err));
    return 0;
}

static int check_bias(const struct sample_settings *s, int n_vocab, struct lutra_error *err)
{
    if (s->n_bias < 0 || (s->n_bias > 0 && !s->bias))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "logit bias: %d entries, list missing", s->n_bias);
    for (int i = 0; i < s->n_bias; i++) {
        if (s->bias[i].token < 0 || s->bias[i].token >= n_vocab)
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
                "logit bias: token %d is not in the vocabulary of %d", s->bias[i].token, n_vocab);
        if (!(s->bias[i].bias <= 1e6f))
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
                "logit bias: %g for token %d is not -infinity to 1e6", (double)s->bias[i].bias, s->bias[i].token);
    }
    return 0;
}

/* Settings of which one could have no effect beside the other. */
static int check_together(const struct sample_settings *s, struct lutra_error *err)
{
    if (s->mirostat < 0 || s->mirostat > 2)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "mirostat: %d is not 0, 1 or 2", s->mirostat);
    if (s->adaptive_target >= 0 && s->mirostat)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "adaptive_target: mirostat %d picks the token", s->mirostat);
    if (s->adaptive_target >= 0 && !has_stage(s, STAGE_ADAPTIVE_P))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "adaptive_target: adaptive_p is not among the samplers");
    if (s->dynatemp_range > 0 && s->mirostat)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "dynatemp_range: mirostat %d takes the temperature as it is", s->mirostat);
    return 0;
}

int sample_settings_check(const struct sample_settings *s, int n_vocab, struct lutra_error *err)
{
    TRY(check_ranges(s, err));
    TRY(check_length("penalty_last_n", s->penalty_last_n, err));
    TRY(check_length("dry_penalty_last_n", s->dry_last_n, err));
    if (s->dry_allowed_length < 0)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "dry_allowed_length: %d is below 0", s->dry_allowed_length);
    if (s->n_stage < 0 || s->n_stage > SAMPLE_STAGES)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "samplers: %d, not 0 to %d", s->n_stage, SAMPLE_STAGES);
    TRY(check_bias(s, n_vocab, err));
    return check_together(s, err);
}

/* ---- the chain ---- */

static bool is_active(const struct sample_settings *set, enum sample_stage stage)
{
    switch (stage) {
    case STAGE_PENALTIES:
        return set->penalty_last_n != 0 &&
               (set->repeat_penalty != 1 || set->frequency_penalty != 0 || set->presence_penalty != 0);
    case STAGE_DRY: return set->dry_multiplier != 0 && set->dry_base >= 1 && set->dry_last_n != 0;
    case STAGE_TOP_N_SIGMA: return set->top_n_sigma > 0;
    case STAGE_TOP_K: return set->top_k > 0;
    case STAGE_TYPICAL: return set->typical_p < 1;
    case STAGE_TOP_P: return set->top_p < 1;
    case STAGE_MIN_P: return set->min_p > 0;
    case STAGE_XTC: return set->xtc_probability > 0 && set->xtc_threshold <= 0.5f;
    case STAGE_TEMPERATURE: return set->temperature != 1 || set->dynatemp_range > 0;
    case STAGE_ADAPTIVE_P: return set->adaptive_target >= 0;
    case STAGE_MIROSTAT: return set->mirostat == 1;
    case STAGE_MIROSTAT_2: return set->mirostat == 2;
    }
    return false;
}

/* Penalties, top-k, top-p, min-p, temperature, each at most once and in this order: what pick.c has short ways for. */
static bool is_plain(const struct sample_settings *set)
{
    const unsigned known =
        1u << STAGE_PENALTIES | 1u << STAGE_TOP_K | 1u << STAGE_TOP_P | 1u << STAGE_MIN_P | 1u << STAGE_TEMPERATURE;
    for (int i = 0; i < set->n_stage; i++)
        if (!(known >> set->stage[i] & 1) || (i > 0 && set->stage[i] <= set->stage[i - 1])) return false;
    return set->dynatemp_range <= 0;
}

/* A stage that the list leaves out is off. */
static void neutralise(struct sample_settings *set)
{
    if (!has_stage(set, STAGE_PENALTIES)) set->penalty_last_n = 0;
    if (!has_stage(set, STAGE_DRY)) set->dry_last_n = 0;
    if (!has_stage(set, STAGE_TOP_K)) set->top_k = 0;
    if (!has_stage(set, STAGE_TOP_P)) set->top_p = 1;
    if (!has_stage(set, STAGE_MIN_P)) set->min_p = 0;
    if (!has_stage(set, STAGE_TEMPERATURE)) set->temperature = 1, set->dynatemp_range = 0;
}

/* How many of the best a draw can come to, whatever the rest of the row is; 0: it depends on the row. */
static int count_best(const struct sample_settings *set)
{
    for (int i = 0; i < set->n_stage; i++) {
        if (set->stage[i] == STAGE_PENALTIES || set->stage[i] == STAGE_DRY) continue;
        if (set->stage[i] == STAGE_TOP_K) return set->top_k;
        return set->stage[i] == STAGE_TEMPERATURE && set->temperature <= 0 && set->dynatemp_range <= 0;
    }
    return 0;
}

bool sample_settings_compile(struct sample_settings *set, int *best)
{
    static const uint8_t mirostat[] = {STAGE_TEMPERATURE, STAGE_MIROSTAT, STAGE_MIROSTAT_2};
    struct sample_settings from = *set;
    if (set->mirostat) {
        memcpy(from.stage, mirostat, sizeof mirostat);
        from.n_stage = sizeof mirostat;
    }
    set->n_stage = 0;
    for (int i = 0; i < from.n_stage; i++)
        if (from.stage[i] != STAGE_ADAPTIVE_P && is_active(&from, from.stage[i]))
            set->stage[set->n_stage++] = from.stage[i];
    if (has_stage(&from, STAGE_ADAPTIVE_P) && is_active(&from, STAGE_ADAPTIVE_P))
        set->stage[set->n_stage++] = STAGE_ADAPTIVE_P;
    neutralise(set);
    bool plain = is_plain(set);
    *best = plain && set->temperature <= 0 ? 1 : count_best(set);
    return plain;
}
