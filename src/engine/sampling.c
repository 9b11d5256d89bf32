/* SPDX-License-Identifier: MIT
 *
 * How a request's tokens are chosen: the caller's settings, and a model file's own defaults.
 */
#include "engine/model_impl.h"
#include "engine/session_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model_impl.h"
#include "decode/sample/breakers.h"

/* ---- the caller's settings ---- */

/* Where a setting stands in a caller's struct and in a sampler's: four bytes in both, of one type. */
#define SAME(name) offsetof(struct lutra_sampling, name), offsetof(struct sample_settings, name)
static const struct {
    size_t public, own;
} shared[] = {
    {SAME(temperature)},
    {SAME(top_k)},
    {SAME(top_p)},
    {SAME(min_p)},
    {SAME(penalty_last_n)},
    {SAME(repeat_penalty)},
    {SAME(frequency_penalty)},
    {SAME(presence_penalty)},
    {SAME(dry_multiplier)},
    {SAME(dry_base)},
    {SAME(dry_allowed_length)},
    {offsetof(struct lutra_sampling, dry_penalty_last_n), offsetof(struct sample_settings, dry_last_n)},
    {SAME(top_n_sigma)},
    {SAME(typical_p)},
    {SAME(xtc_probability)},
    {SAME(xtc_threshold)},
    {SAME(dynatemp_range)},
    {SAME(dynatemp_exponent)},
    {SAME(mirostat)},
    {SAME(mirostat_tau)},
    {SAME(mirostat_eta)},
    {SAME(adaptive_target)},
    {SAME(adaptive_decay)},
};
enum { N_SHARED = sizeof shared / sizeof *shared, SHARED_BYTES = 4 };

void lutra_sampling_init(struct lutra_sampling *sampling, size_t size)
{
    struct sample_settings own = sample_settings_default();
    struct lutra_sampling d = {.size = sizeof d};
    for (int i = 0; i < N_SHARED; i++)
        memcpy((char *)&d + shared[i].public, (char *)&own + shared[i].own, SHARED_BYTES);
    settings_fill(sampling, size, &d);
}

static int settings_of(const struct lutra_sampling *p, struct sample_settings *out, struct lutra_error *err)
{
    *out = sample_settings_default();
    out->seed = p->seed;
    for (int i = 0; i < N_SHARED; i++) memcpy((char *)out + shared[i].own, (char *)p + shared[i].public, SHARED_BYTES);
    return p->samplers ? sample_stages_parse(out, p->samplers, err) : 0;
}

/* ---- a model file's defaults ---- */

enum setting_kind { IS_INT, IS_FLOAT };

static const struct {
    const char *key;
    enum setting_kind kind;
    size_t at;
} file_setting[] = {
    {"general.sampling.temp", IS_FLOAT, offsetof(struct lutra_sampling, temperature)},
    {"general.sampling.top_k", IS_INT, offsetof(struct lutra_sampling, top_k)},
    {"general.sampling.top_p", IS_FLOAT, offsetof(struct lutra_sampling, top_p)},
    {"general.sampling.min_p", IS_FLOAT, offsetof(struct lutra_sampling, min_p)},
    {"general.sampling.penalty_last_n", IS_INT, offsetof(struct lutra_sampling, penalty_last_n)},
    {"general.sampling.penalty_repeat", IS_FLOAT, offsetof(struct lutra_sampling, repeat_penalty)},
    {"general.sampling.xtc_probability", IS_FLOAT, offsetof(struct lutra_sampling, xtc_probability)},
    {"general.sampling.xtc_threshold", IS_FLOAT, offsetof(struct lutra_sampling, xtc_threshold)},
    {"general.sampling.mirostat", IS_INT, offsetof(struct lutra_sampling, mirostat)},
    {"general.sampling.mirostat_tau", IS_FLOAT, offsetof(struct lutra_sampling, mirostat_tau)},
    {"general.sampling.mirostat_eta", IS_FLOAT, offsetof(struct lutra_sampling, mirostat_eta)},
};

static bool read_setting(const struct gguf_kv *kv, enum setting_kind kind, void *out)
{
    double x;
    if (!gguf_kv_number(kv, &x) || !(fabs(x) <= 1e9) || (kind == IS_INT && x != floor(x))) return false;
    if (kind == IS_INT)
        *(int *)out = (int)x;
    else
        *(float *)out = (float)x;
    return true;
}

/* What the value of a key would make of the defaults, if that can be. */
static void take_setting(
    struct lutra_model *m, const struct gguf_kv *kv, const struct lutra_sampling *with, bool readable)
{
    struct sample_settings set;
    struct lutra_error why = {0};
    if (!readable)
        (void)lutra_fail(&why, LUTRA_E_FORMAT, "no such value");
    else if (settings_of(with, &set, &why) == 0 && sample_settings_check(&set, 1, &why) == 0)
        m->sampling = *with;
    if (why.code == 0)
        log_line(&m->runtime->log, LUTRA_LOG_INFO, "%s: key '%s' is a default", weights_path(m->weights), kv->key);
    else
        log_line(&m->runtime->log, LUTRA_LOG_WARN, "%s: key '%s' is left out of the defaults: %s",
            weights_path(m->weights), kv->key, why.what);
}

int model_read_sampling(struct lutra_model *m, struct lutra_error *err)
{
    lutra_sampling_init(&m->sampling, sizeof m->sampling);
    for (size_t i = 0; i < sizeof file_setting / sizeof *file_setting; i++) {
        const struct gguf_kv *kv = weights_kv_find(m->weights, file_setting[i].key);
        struct lutra_sampling with = m->sampling;
        if (kv) take_setting(m, kv, &with, read_setting(kv, file_setting[i].kind, (char *)&with + file_setting[i].at));
    }
    const struct gguf_kv *kv = weights_kv_find(m->weights, "general.sampling.sequence");
    if (!kv) return 0;
    struct lutra_sampling with = m->sampling;
    struct gguf_str s = kv->kind == GGUF_STRING ? gguf_kv_str(kv, 0) : (struct gguf_str){0};
    m->samplers = strndup(s.s ? s.s : "", s.n);
    if (!m->samplers) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", weights_path(m->weights));
    with.samplers = m->samplers;
    take_setting(m, kv, &with, s.n > 0);
    return 0;
}

void lutra_model_sampling_get(const lutra_model *m, struct lutra_sampling *sampling, size_t size)
{
    if (m)
        settings_fill(sampling, size, &m->sampling);
    else
        lutra_sampling_init(sampling, size);
}

/* ---- a request's settings ---- */

static int copy_biases(const lutra_session *s, struct request *r, const struct lutra_request *set,
    const struct lutra_sampling *p, struct lutra_error *err)
{
    size_t n_eog = set->ignore_end ? text_vocab_n_eog(s->model->vocab) : 0, n = (size_t)p->n_bias + n_eog;
    if (p->n_bias < 0 || n > SESSION_BIAS || (p->n_bias > 0 && !p->bias))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "request: %d logit biases, at most %zu, or no list", p->n_bias,
            SESSION_BIAS - n_eog);
    struct sample_bias *bias = malloc((n ? n : 1) * sizeof *bias);
    if (!bias) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    for (int i = 0; i < p->n_bias; i++) bias[i] = (struct sample_bias){p->bias[i].token, p->bias[i].bias};
    for (size_t i = 0; i < n_eog; i++)
        bias[(size_t)p->n_bias + i] = (struct sample_bias){text_vocab_eog(s->model->vocab)[i], -INFINITY};
    r->sampling.bias = bias;
    r->sampling.n_bias = (int)n;
    return 0;
}

int request_copy_sampling(
    const lutra_session *s, struct request *r, const struct lutra_request *set, struct lutra_error *err)
{
    struct lutra_sampling p = s->model->sampling;
    TRY(settings_copy(&p, sizeof p, set->sampling, "sampling", err));
    TRY(settings_of(&p, &r->sampling, err));
    TRY(copy_biases(s, r, set, &p, err));
    TRY(sample_settings_check(&r->sampling, model_ops(s->model->model)->n_vocab, err));
    int n = p.n_dry_sequence_breakers;
    if (p.dry_multiplier == 0 || n < 0) return sample_breakers_check(p.dry_sequence_breakers, n, err);
    return sample_breakers_find(s->model->vocab, p.dry_sequence_breakers, n, &r->sampling, &r->breaker_tail, err);
}
