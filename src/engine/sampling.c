/* SPDX-License-Identifier: MIT
 *
 * How a request's tokens are chosen: the caller's settings, a model file's own defaults, and what a text means for DRY.
 */
#include "engine/model_impl.h"
#include "engine/session_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model_impl.h"
#include "text/encode.h"

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

/* A number of either kind, or one written as text: files have all three. */
static bool read_number(const struct weights_kv *kv, double *out)
{
    int64_t whole;
    char text[32], *end;
    if (kv->kind == WEIGHTS_ARRAY) return false;
    if (kv->kind != WEIGHTS_STRING) {
        if (weights_kv_f64(kv, 0, out)) return true;
        if (!weights_kv_i64(kv, 0, &whole)) return false;
        *out = (double)whole;
        return true;
    }
    struct weights_str s = weights_kv_str(kv, 0);
    if (s.n == 0 || s.n >= sizeof text) return false;
    memcpy(text, s.s, s.n);
    text[s.n] = 0;
    *out = strtod(text, &end);
    return *end == 0;
}

static bool read_setting(const struct weights_kv *kv, enum setting_kind kind, void *out)
{
    double x;
    if (!read_number(kv, &x) || !(fabs(x) <= 1e9) || (kind == IS_INT && x != floor(x))) return false;
    if (kind == IS_INT)
        *(int *)out = (int)x;
    else
        *(float *)out = (float)x;
    return true;
}

/* What the value of a key would make of the defaults, if that can be. */
static void take_setting(
    struct lutra_model *m, const struct weights_kv *kv, const struct lutra_sampling *with, bool readable)
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
        const struct weights_kv *kv = weights_kv_find(m->weights, file_setting[i].key);
        struct lutra_sampling with = m->sampling;
        if (kv) take_setting(m, kv, &with, read_setting(kv, file_setting[i].kind, (char *)&with + file_setting[i].at));
    }
    const struct weights_kv *kv = weights_kv_find(m->weights, "general.sampling.sequence");
    if (!kv) return 0;
    struct lutra_sampling with = m->sampling;
    struct weights_str s = kv->kind == WEIGHTS_STRING ? weights_kv_str(kv, 0) : (struct weights_str){0};
    m->samplers = strndup(s.s ? s.s : "", s.n);
    if (!m->samplers) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", weights_path(m->weights));
    with.samplers = m->samplers;
    take_setting(m, kv, &with, s.n > 0);
    return 0;
}

void lutra_model_sampling(const lutra_model *m, struct lutra_sampling *sampling, size_t size)
{
    if (m)
        settings_fill(sampling, size, &m->sampling);
    else
        lutra_sampling_init(sampling, size);
}

/* ---- DRY's sequence breakers ---- */

static const char *const default_breakers[] = {"\n", ":", "\"", "*"};
enum { BREAKER_BYTES = 40, BREAKER_TOKENS = 20, BREAKERS = 1 << 20 }; /* llama.cpp's limits; and of all entries */

struct breakers {
    struct sample_breaker *entry;
    size_t n, room;
    int32_t *tail; /* of the entries, one behind another; their `tail` is an index until the end */
    size_t n_tail, tail_room;
};

static int add_breaker(
    struct breakers *b, int32_t head, const int32_t *tail, size_t n_tail, size_t first, struct lutra_error *err)
{
    if (n_tail > BREAKER_TOKENS) n_tail = BREAKER_TOKENS;
    for (size_t i = first; i < b->n; i++) {
        const struct sample_breaker *is = &b->entry[i];
        if ((size_t)is->n_tail == n_tail &&
            (n_tail == 0 || memcmp(b->tail + (uintptr_t)is->tail, tail, n_tail * sizeof *tail) == 0))
            return 0;
    }
    if (b->n == BREAKERS) return lutra_fail(err, LUTRA_E_ARGUMENT, "dry_sequence_breakers: in too many tokens");
    if (b->n == b->room) {
        void *more = realloc(b->entry, (b->room = b->room * 2 + 64) * sizeof *b->entry);
        if (!more) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
        b->entry = more;
    }
    if (b->n_tail + n_tail > b->tail_room) {
        void *more = realloc(b->tail, (b->tail_room = b->tail_room * 2 + 256) * sizeof *b->tail);
        if (!more) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
        b->tail = more;
    }
    b->entry[b->n++] = (struct sample_breaker){head, (int)n_tail, (const int32_t *)(uintptr_t)b->n_tail};
    if (n_tail) memcpy(b->tail + b->n_tail, tail, n_tail * sizeof *tail);
    b->n_tail += n_tail;
    return 0;
}

/* The ways in which the text of token `head` can hold a breaker, or begin one that the tokens of the rest go on
 * with. */
static int break_at_token(const struct text_vocab *vocab, int32_t head, const char *text, struct breakers *b,
    const struct text_tokens *rest, struct lutra_error *err)
{
    struct text_bytes piece = text_token_piece(vocab, head, TEXT_PIECE_SPECIAL);
    size_t n = strlen(text), first = b->n;
    while (first > 0 && b->entry[first - 1].head == head) first--;
    if (piece.n >= n && memmem(piece.p, piece.n, text, n)) return add_breaker(b, head, NULL, 0, first, err);
    for (size_t at = 0; at < piece.n; at++) {
        size_t same = piece.n - at;
        if (same >= n || memcmp(piece.p + at, text, same) != 0) continue;
        TRY(add_breaker(b, head, rest[same].ids, rest[same].n, first, err));
    }
    return 0;
}

static int check_breaker(const char *text, struct lutra_error *err)
{
    if (text && *text && strlen(text) <= BREAKER_BYTES) return 0;
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "dry_sequence_breakers: one is empty, or longer than %d bytes", BREAKER_BYTES);
}

/* rest[text][k]: the tokens of text from byte k on. */
static int tokenize_rests(const struct text_vocab *vocab, const char *const *text, int n_text,
    struct text_tokens (*rest)[BREAKER_BYTES], struct lutra_error *err)
{
    for (int i = 0; i < n_text; i++) {
        TRY(check_breaker(text[i], err));
        for (size_t k = 1; text[i][k]; k++)
            TRY(text_encode(vocab, text[i] + k, strlen(text[i] + k), 0, &rest[i][k], err));
    }
    return 0;
}

static int find_breakers(
    const struct text_vocab *vocab, const char *const *text, int n_text, struct breakers *b, struct lutra_error *err)
{
    struct text_tokens(*rest)[BREAKER_BYTES] = calloc((size_t)n_text, sizeof *rest);
    if (!rest) return lutra_fail(err, LUTRA_E_NO_MEMORY, "request: out of memory");
    int rc = tokenize_rests(vocab, text, n_text, rest, err);
    for (size_t t = 0; rc == 0 && t < text_vocab_n_tok(vocab); t++)
        for (int i = 0; rc == 0 && i < n_text; i++) rc = break_at_token(vocab, (int32_t)t, text[i], b, rest[i], err);
    for (int i = 0; i < n_text; i++)
        for (int k = 0; k < BREAKER_BYTES; k++) text_tokens_fini(&rest[i][k]);
    free(rest);
    return rc;
}

static int copy_breakers(
    const lutra_session *s, struct request *r, const struct lutra_sampling *p, struct lutra_error *err)
{
    const char *const *text = p->dry_sequence_breakers;
    int n_text = p->n_dry_sequence_breakers;
    if (n_text < -1 || n_text > 64 || (n_text > 0 && !text))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "dry_sequence_breakers: %d, at most 64, or no list", n_text);
    if (p->dry_multiplier == 0 || n_text < 0) return 0;
    if (n_text == 0) text = default_breakers, n_text = sizeof default_breakers / sizeof *default_breakers;
    struct breakers b = {0};
    int rc = find_breakers(s->model->vocab, text, n_text, &b, err);
    for (size_t i = 0; i < b.n; i++) b.entry[i].tail = b.tail + (uintptr_t)b.entry[i].tail;
    r->sampling.breaker = b.entry;
    r->sampling.n_breaker = (int)b.n;
    r->breaker_tail = b.tail;
    return rc;
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
    return copy_breakers(s, r, &p, err);
}
