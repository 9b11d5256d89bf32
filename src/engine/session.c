/* SPDX-License-Identifier: MIT
 *
 * A session: its memory, forward passes over rows, commits, accounting.
 */
#include "engine/session_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/affinity.h"
#include "base/cpuinfo.h"
#include "engine/model_impl.h"
#include "engine/packed_impl.h"
#include "quant/quant.h"
#include "sched/timeline.h"

/* ---- sizes ---- */

/* Tokens whose blocks, and those that forks copy, can be numbered. */
#define CACHE_MOST ((int64_t)1 << 36)

enum { ROWS_MOST = 8192 /* of a pass */ };

/* What the caller left open follows from the model and from the memory there is. */
static int choose_sizes(
    lutra_session *s, const struct lutra_session_settings *set, const enum quant_type *type, struct lutra_error *err)
{
    const struct hparams *hp = model_hparams(s->model->model);
    const struct op_list *list = model_ops(s->model->model);
    struct kv_settings kv =
        kv_settings_for(list, type, KV_BLOCK, INT32_MAX / KV_BLOCK, s->n_seq, set->n_batch, 0, s->swa_trim);
    size_t fixed, states = kv_state_bytes(&kv, NULL);
    uint64_t per_token = kv_growing_bytes(&kv, &fixed);
    if (!per_token && !fixed) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "the model keeps no keys and values");
    fixed = LUTRA_ADD_OVERFLOWS(fixed, states, &fixed) ? SIZE_MAX : fixed;
    if (!per_token) per_token = 1; /* all layers have windows */
    uint64_t available = cpu_memory_available();
    available -= fixed < available / 2 ? fixed : available / 2;
    int64_t fits = (int64_t)(available / 2 / per_token / KV_BLOCK * KV_BLOCK); /* half: the rest is not ours */
    if (fits < KV_BLOCK) fits = KV_BLOCK;
    int trained = list->whole && hp->n_ctx_train > ROWS_MOST ? ROWS_MOST : hp->n_ctx_train;
    s->n_ctx = set->n_ctx ? set->n_ctx : trained;
    if (!set->n_ctx && s->n_ctx > fits) {
        s->n_ctx = (int)fits;
        log_line(&s->model->runtime->log, LUTRA_LOG_WARN,
            "context of %d tokens instead of %d: what half of the free memory holds", s->n_ctx, hp->n_ctx_train);
    }
    s->n_cache = set->n_cache;
    if (!s->n_cache) {
        s->n_cache = (int64_t)s->n_ctx * s->n_seq;
        int64_t limit = fits > s->n_ctx ? fits : s->n_ctx;
        if (s->n_cache > limit) s->n_cache = limit;
    }
    if (s->n_cache < s->n_ctx)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "a cache of %lld tokens cannot hold a context of %d",
            (long long)s->n_cache, s->n_ctx);
    /* Round up, and one block more per sequence for the tails that forks copy. */
    s->n_cache = (s->n_cache + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK + (int64_t)KV_BLOCK * s->n_seq;
    kv.n_block = s->n_cache / KV_BLOCK > INT32_MAX ? 0 : (int)(s->n_cache / KV_BLOCK);
    size_t bytes = kv_bytes(&kv);
    if (bytes > 0 && LUTRA_ADD_OVERFLOWS(bytes, states, &bytes)) bytes = 0;
    if (bytes == 0 || bytes > cpu_memory_available())
        return lutra_fail(err, LUTRA_E_NO_MEMORY,
            "a cache of %lld tokens needs %llu MiB, %llu MiB are free: use a smaller context", (long long)s->n_cache,
            (unsigned long long)((bytes ? bytes : SIZE_MAX) >> 20), (unsigned long long)(cpu_memory_available() >> 20));
    return 0;
}

/* Types of the cache, in the order of their bits. */
static const struct {
    const char *name;
    enum quant_type type;
} cache_types[] = {{"f32", QUANT_F32}, {"f16", QUANT_F16}, {"q8_0", QUANT_Q8_0}, {"q5_0", QUANT_Q5_0},
    {"q4_1", QUANT_Q4_1}, {"q4_0", QUANT_Q4_0}};

/* One side's type, whose whole blocks every head is. */
static int read_cache_type(const struct op_list *list, const char *name, enum quant_type *type, struct lutra_error *err)
{
    size_t i = 0, n = sizeof cache_types / sizeof *cache_types;
    while (i < n && strcmp(name, cache_types[i].name) != 0) i++;
    if (i == n)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED,
            "cache type '%s' is not implemented (f32, f16, q8_0, q5_0, q4_1, q4_0 are)", name);
    *type = cache_types[i].type;
    size_t bytes;
    for (i = 0; i < (size_t)list->n_layer; i++)
        if (list->layer[i].cache == (int)i && quant_row_bytes(*type, list->layer[i].d_head, &bytes) < 0)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED,
                "a cache of %s needs heads of whole blocks of 32; this model's have %d elements", name,
                list->layer[i].d_head);
    return 0;
}

static int check_cache(const struct plan *plan, const enum quant_type *type, struct lutra_error *err)
{
    enum device_cache can = plan_caps(plan).cache;
    bool alike = type[KV_K] == type[KV_V] && !kv_is_rotated(type[KV_K]);
    if (can == DEVICE_CACHE_F16 && !(alike && type[KV_K] == QUANT_F16))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "device '%s' needs a cache of f16", plan->device[0]->name);
    if (can == DEVICE_CACHE_ALIKE && !alike)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "device '%s' needs keys and values of one type, f16, f32 or q8_0",
            plan->device[0]->name);
    return 0;
}

static int check_settings(const struct lutra_session_settings *set, const struct op_list *list, enum quant_type *type,
    struct lutra_error *err)
{
    const struct {
        const char *name;
        int value, least, most;
    } range[] = {{"n_ctx", set->n_ctx, 0, 1 << 24}, {"n_seq", set->n_seq, 1, 4096},
        {"n_batch", set->n_batch, 1, ROWS_MOST}, {"n_out", set->n_out, 0, ROWS_MOST},
        {"n_draft", set->n_draft, 0, ROWS_MOST}};
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (range[i].value < range[i].least || range[i].value > range[i].most)
            return lutra_fail(err, LUTRA_E_ARGUMENT, "%s is %d, outside %d..%d", range[i].name, range[i].value,
                range[i].least, range[i].most);
    if (set->n_queue < 1) return lutra_fail(err, LUTRA_E_ARGUMENT, "n_queue is %d, below 1", set->n_queue);
    if (set->n_cache < 0 || set->n_cache > CACHE_MOST)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "n_cache is %lld, outside 0..%lld", (long long)set->n_cache, (long long)CACHE_MOST);
    const char *k = set->cache_type ? set->cache_type : "f16", *v = set->cache_type_v ? set->cache_type_v : k;
    TRY(read_cache_type(list, k, &type[KV_K], err));
    return read_cache_type(list, v, &type[KV_V], err);
}

/* ---- memory ---- */

/* The session's arrays: added up first (arena->start is NULL), then taken. */
static int take(lutra_session *s, size_t *sum, size_t n, size_t each, void **out, struct lutra_error *err)
{
    size_t bytes;
    if (LUTRA_MUL_OVERFLOWS(n, each, &bytes)) return lutra_fail(err, LUTRA_E_NO_MEMORY, "session: sizes overflow");
    if (s->arena.start) return arena_take(&s->arena, bytes, "session", out, err);
    *sum += arena_cost(bytes);
    *out = NULL;
    return 0;
}

#define TAKE(pointer, n) TRY(take(s, sum, (size_t)(n), sizeof *(pointer), (void **)&(pointer), err))

static int take_hints(lutra_session *s, size_t *sum, struct lutra_error *err)
{
    struct hints *h = &s->hints;
    size_t n_vocab = (size_t)model_ops(s->model->model)->n_vocab;
    TAKE(h->op, h->list.n_op);
    TAKE(h->plan, h->n_row > 0);
    TAKE(h->batch.row, h->n_row ? s->n_batch : 0);
    TAKE(h->out_row, h->n_row);
    TAKE(h->result, h->n_row);
    TAKE(h->top_id, h->n_row * ROW_TOPK);
    TAKE(h->top_logit, h->n_row * ROW_TOPK);
    TAKE(h->id, h->n_short);
    TAKE(h->next_id, h->n_short);
    TAKE(h->source, (size_t)h->n_short * h->row_bytes);
    TAKE(h->seen, h->n_short ? n_vocab / 8 + 1 : 0);
    return 0;
}

static int take_arrays(lutra_session *s, size_t *sum, struct lutra_error *err)
{
    const struct op_list *list = model_ops(s->model->model);
    size_t n_text = ((size_t)s->n_ctx + 1) * (size_t)s->n_seq;
    size_t n_out = (size_t)s->n_out,
           hold = SESSION_STOP_BYTES + TEXT_REASONING_HELD + 4 * text_vocab_max_piece_bytes(s->model->vocab) + 16;
    int32_t *tokens = NULL;
    char *holds = NULL;
    struct row_hints *hints = NULL;
    TAKE(s->waits, 1);
    TAKE(s->batch.row, s->n_batch);
    TAKE(s->batch.mark, s->n_batch);
    TAKE(s->row_domain, s->n_batch);
    TAKE(s->tip, s->n_seq);
    TAKE(s->out_row, n_out);
    TAKE(s->result, n_out);
    TAKE(s->public_result, n_out);
    TAKE(s->logits, list->whole ? 0 : n_out * (size_t)list->n_vocab);
    TAKE(s->hidden, n_out * (size_t)list->d_model);
    if (s->hints.states) TAKE(s->state, (size_t)s->n_batch * (size_t)list->d_model);
    if (s->hints.states) TAKE(s->asked, s->n_batch);
    TAKE(s->top_id, n_out * ROW_TOPK);
    TAKE(s->top_logit, n_out * ROW_TOPK);
    TAKE(s->listed_logit, n_out * ROW_LISTED);
    if (device_set_shares(&s->model->runtime->devices)) {
        size_t rows = (size_t)(s->n_out > s->hints.n_row ? s->n_out : s->hints.n_row);
        TAKE(s->head.part, rows * (size_t)head_units(list->n_vocab));
        TAKE(s->head.top, rows * HEAD_SHARES);
    }
    TAKE(s->sample, s->n_seq);
    TAKE(s->held, s->n_seq + 1);
    TAKE(s->pick, s->n_seq);
    TAKE(s->pick_status, s->n_seq);
    TAKE(tokens, n_text);
    TAKE(holds, hold * (size_t)s->n_seq);
    TAKE(hints, s->hints.wanted ? n_text : 0);
    TAKE(s->way, 2 * s->n_seq + KV_SPARE);
    TAKE(s->kept_hints, s->hints.wanted ? s->n_cache : 0);
    if (!s->hints.wanted) s->kept_hints = NULL;
    TRY(take_hints(s, sum, err));
    if (!s->arena.start) return 0;
    if (!s->hints.wanted) hints = NULL;
    for (int i = 0; i < s->n_seq; i++) {
        size_t at = (size_t)i * ((size_t)s->n_ctx + 1);
        s->sample[i].seq = (struct sequence){.id = -1, .token = tokens + at, .hints = hints ? hints + at : NULL};
        s->sample[i].hold = holds + (size_t)i * hold;
    }
    return 0;
}

static int open_sampling(lutra_session *s, struct lutra_error *err)
{
    struct sampler_limits lim = {.n_vocab = model_ops(s->model->model)->n_vocab,
        .n_seq = s->n_seq,
        .n_history = s->n_ctx,
        .n_bias = SESSION_BIAS,
        .n_thread = pool_size(s->model->runtime->devices.pool)};
    TRY(sampler_open(&s->sampler, &lim, err));
    for (int i = 0; i < s->n_seq; i++)
        TRY(text_stream_open(&s->sample[i].stream, text_vocab_max_piece_bytes(s->model->vocab), err));
    return 0;
}

/* Before passes are measured, a row by the bytes and MACs of the model's weights; a position that attention reads, its
 * share by MACs. */
static void open_cost(lutra_session *s)
{
    const struct demand_rates *rates = &s->model->demand;
    const struct demand *all = &rates->rows[ROWS_ALL], *out = &rates->rows[ROWS_OUT];
    double mac = (double)(all->mac + out->mac), bytes = (double)(all->weight_bytes + out->weight_bytes);
    double row = row_cost_counted(plan_caps(&s->model->plan).flat_rows, mac, bytes);
    if (s->fixed_cost > 0) mac = 0, row = (double)s->fixed_cost;
    row_cost_init(&s->cost, row, mac > 0 ? row * (double)(rates->seen_mac + rates->swa_mac) / mac : 0);
    if (!(s->fixed_cost > 0)) packed_costs_read(s);
}

void session_join(lutra_session *s, int which, struct session_drafter drafter)
{
    s->drafter[which] = drafter;
    s->bytes += drafter.own->bytes;
}

static const struct spec_model *face_of(const lutra_session *s, int which)
{
    return s->drafter[which].ops ? &s->drafter[which].face : NULL;
}

static int open_speculator(lutra_session *s, struct lutra_error *err)
{
    struct spec_limits lim = {.n_draft = s->n_draft,
        .n_seq = s->n_seq,
        .n_vocab = model_ops(s->model->model)->n_vocab,
        .model = face_of(s, DRAFTER_MODEL),
        .mtp = face_of(s, DRAFTER_MTP),
        .cost = &s->cost,
        .clock = &s->model->runtime->clock};
    TRY(speculator_open(&s->speculator, &s->spec, &lim, err));
    source_add(&s->sources, speculator_source(s->speculator));
    return 0;
}

int session_speculate(lutra_session *s, bool anyway, struct lutra_error *err)
{
    bool any = anyway || s->drafter[DRAFTER_MODEL].ops || spec_settings_any(&s->spec);
    int rc = s->speculator || !any ? 0 : open_speculator(s, err);
    s->spec.types = NULL; /* the caller's, while it opens */
    return rc;
}

static int read_experiment(lutra_session *s, const struct lutra_session_settings *set, struct lutra_error *err)
{
    struct lutra_session_experiment x;
    lutra_session_experiment_init(&x, sizeof x);
    TRY(settings_copy(&x, sizeof x, set->experiment, "the session's experiment", err));
    if (!(x.draft_row_cost >= 0 && x.draft_row_cost <= 1))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "draft_row_cost is %g, outside 0..1", (double)x.draft_row_cost);
    s->fixed_cost = x.draft_row_cost;
    return 0;
}

/* Encoders evaluate a text in one pass, with a result of each of its rows: passes are as long as the context. */
static int fit_encoder(lutra_session *s, int most_rows, struct lutra_error *err)
{
    const struct op_list *list = model_ops(s->model->model);
    if (list->n_position && s->n_ctx > list->n_position)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "n_ctx is %d: the model has positions for %d tokens", s->n_ctx, list->n_position);
    if (!list->whole) return 0;
    if (s->n_ctx > most_rows)
        return lutra_fail(err, LUTRA_E_ARGUMENT,
            "n_ctx is %d: an encoder evaluates a text in one pass, of at most %d rows: use a smaller context", s->n_ctx,
            most_rows);
    if (s->n_batch < s->n_ctx) s->n_batch = s->n_ctx;
    s->n_out = s->n_batch;
    return 0;
}

static int open_all(lutra_session *s, const struct lutra_session_settings *set, struct lutra_error *err)
{
    enum quant_type type[2];
    if (!s->model->plan.n_piece) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "no devices are left for the model");
    TRY(check_settings(set, model_ops(s->model->model), type, err));
    s->n_seq = set->n_seq;
    s->n_queue = set->n_queue;
    s->swa_trim = set->swa_trim;
    TRY(read_experiment(s, set, err));
    s->prompt_us = set->prompt_us;
    TRY(choose_sizes(s, set, type, err));
    struct device_caps caps = plan_caps(&s->model->plan);
    TRY(check_cache(&s->model->plan, type, err));
    s->n_batch = set->n_batch < caps.max_rows ? set->n_batch : caps.max_rows;
    int n_draft = set->n_draft ? set->n_draft : 64, n_want = s->n_seq + set->n_draft;
    s->n_draft = n_draft < s->n_batch ? n_draft : s->n_batch;
    s->n_out = set->n_out ? set->n_out : n_want > 64 ? n_want : 64;
    if (s->n_out > s->n_batch) s->n_out = s->n_batch;
    TRY(fit_encoder(s, caps.max_rows < ROWS_MOST ? caps.max_rows : ROWS_MOST, err));
    int bulk = plan_bulk_rows(&s->model->plan);
    bool writes = !model_ops(s->model->model)->whole;
    s->spec = (struct spec_settings){
        writes ? set->spec_type : NULL, set->draft_max, set->draft_min, set->draft_p_min, set->spec_ngram_size_n};
    TRY(hints_open(s, set, err));
    s->batch.bulk = s->n_batch >= s->n_seq + bulk ? bulk : 0; /* a block fits beside all samples, or would wait */

    size_t sum = 0;
    TRY(take_arrays(s, &sum, err));
    TRY(arena_open(&s->arena, "session", sum, 0, err));
    TRY(take_arrays(s, &sum, err));
    s->bytes = sum;
    waits_init(s->waits, s->model->runtime->clock, s->model->runtime->sync);
    if (set->timeline) TRY(timeline_open(&s->timeline, set->timeline, s->waits, err));
    hints_make(s);
    TRY(memory_open(s, type, err));
    TRY(open_sampling(s, err));
    open_cost(s);
    sources_open(s);
    return 0;
}

int session_open(
    lutra_session **out, lutra_model *model, const struct lutra_session_settings *set, struct lutra_error *err)
{
    *out = NULL;
    if (!model->model) return lutra_fail(err, LUTRA_E_ARGUMENT, "the model was opened for its vocabulary only");
    lutra_session *s = calloc(1, sizeof *s);
    if (!s) return lutra_fail(err, LUTRA_E_NO_MEMORY, "session: out of memory");
    s->model = model;
    pthread_mutex_init(&s->grammar_lock, NULL);
    atomic_fetch_add(&model->n_user, 1);
    int rc = open_all(s, set, err);
    if (rc < 0)
        lutra_session_close(&s);
    else
        *out = s;
    return rc;
}

void lutra_session_close(lutra_session **session)
{
    lutra_session *s = session ? *session : NULL;
    if (!s) return;
    requests_close(s);
    struct lutra_error why;
    atomic_fetch_sub(&s->model->n_user, 1);
    packed_costs_write(s);
    for (int i = 0; s->sample && i < s->n_seq; i++) text_stream_close(&s->sample[i].stream);
    for (int i = 0; i < DRAFTERS; i++) /* they may take sources out of the list, which the speculator's is in */
        if (s->drafter[i].ops) s->drafter[i].ops->close(s->drafter[i].self);
    speculator_close(&s->speculator);
    if (timeline_close(&s->timeline, &why) < 0)
        log_line(&s->model->runtime->log, LUTRA_LOG_WARN, "timeline: %s", why.what);
    sampler_close(&s->sampler);
    grammar_cache_close(&s->grammar_cache);
    for (int i = 0; i < 2; i++) grammar_vocab_close(&s->grammar_vocab[i]);
    pthread_mutex_destroy(&s->grammar_lock);
    kv_close(&s->kv);
    memory_close(s);
    arena_close(&s->arena);
    free(s);
    *session = NULL;
}

void lutra_session_sizes_get(const lutra_session *s, int *n_ctx, int64_t *n_cache, uint64_t *bytes)
{
    if (n_ctx) *n_ctx = s ? s->n_ctx : 0;
    if (n_cache) *n_cache = s ? s->n_cache : 0;
    if (bytes) *bytes = s ? s->bytes : 0;
}

struct session_sizes session_sizes(const lutra_session *s)
{
    return (struct session_sizes){s->n_ctx, s->n_seq, s->n_batch, s->n_out, s->batch.bulk, s->n_cache};
}

struct row *session_rows(lutra_session *s)
{
    return s->batch.row;
}

lutra_model *session_model(const lutra_session *s)
{
    return s->model;
}

uint64_t session_now_us(const lutra_session *s)
{
    return clock_now_us(s->model->runtime->clock);
}

struct sample *session_samples(lutra_session *s)
{
    return s->sample;
}

struct request *session_requests(const lutra_session *s)
{
    return s->first;
}

struct row_source **session_sources(lutra_session *s)
{
    return &s->sources;
}

struct sampler *session_sampler(const lutra_session *s)
{
    return s->sampler;
}

const struct row_cost *session_cost(const lutra_session *s)
{
    return &s->cost;
}

struct kv_cache *session_cache(const lutra_session *s)
{
    return s->kv;
}

bool session_is_cancelled(const lutra_session *s)
{
    return atomic_load_explicit(&s->cancel, memory_order_relaxed);
}

const struct text_way *session_texts(const lutra_session *s, int *n)
{
    *n = s->n_way;
    return s->way;
}

void session_share_timeline(lutra_session *s, const lutra_session *with)
{
    s->waits->told = with->waits->told;
    s->waits->user = with->waits->user;
}

void session_give_states(lutra_session *s, const float *const *state)
{
    s->given = state;
}

/* ---- a pass ---- */

static int32_t committed(const void *kv, int32_t seq)
{
    return kv_seq_length(kv, seq);
}

/* Points the results of wanted rows into the session's arrays. */
static int list_results(lutra_session *s, struct lutra_error *err)
{
    const struct op_list *list = model_ops(s->model->model);
    s->n_result = 0;
    for (int r = 0; r < s->batch.n_row; r++) {
        uint32_t want = s->batch.row[r].want & WANT_ALL;
        if (!want) continue;
        size_t i = (size_t)s->n_result;
        if (s->n_result == s->n_out)
            return lutra_fail_at(
                err, LUTRA_E_ARGUMENT, (uint64_t)r, "row %d: more than n_out = %d rows want a result", r, s->n_out);
        s->out_row[s->n_result++] = r;
        s->result[i] = (struct row_result){.row = r,
            .logits = want & WANT_LOGITS ? s->logits + i * (size_t)list->n_vocab : NULL,
            .hidden = want & WANT_HIDDEN ? s->hidden + i * (size_t)list->d_model : NULL,
            .n_listed = s->batch.row[r].n_listed,
            .listed = s->batch.row[r].listed,
            .listed_logit = s->listed_logit + i * ROW_LISTED,
            .top_id = s->top_id + i * ROW_TOPK,
            .top_logit = s->top_logit + i * ROW_TOPK};
    }
    return 0;
}

/* Whether row r is one of several that follow each other, and no draft: of a text that is evaluated. */
static bool in_chain(const struct batch *b, int r)
{
    bool goes_on = r + 1 < b->n_row && b->row[r + 1].parent == r && !(b->row[r + 1].want & ROW_DRAFT);
    return !(b->row[r].want & ROW_DRAFT) && (b->row[r].parent >= 0 || goes_on);
}

static void account(lutra_session *s, const struct pass_args *pass, uint64_t us)
{
    struct demand sum;
    demand_of(&s->model->demand, pass, &sum);
    struct device_caps caps = plan_caps(&s->model->plan);
    int n_row = s->batch.n_row, flat = row_cost_flat(&s->cost, caps.flat_rows, caps.max_rows);
    uint64_t drafts = 0;
    int n_prompt = 0;
    double seen = 0, work = 0;
    struct row_cost_others others = {0};
    for (int r = 0; r < n_row; r++) {
        const struct row *row = &s->batch.row[r];
        seen += row->pos + 1;
        drafts += (row->want & ROW_DRAFT) != 0;
        if (in_chain(&s->batch, r)) {
            n_prompt++;
            work += row_cost_work(&s->cost, row->pos, 1);
        } else {
            others.n_row++;
            others.n_seen += row->pos + 1;
        }
    }
    s->stats.n_pass++;
    s->stats.rows_valid += (uint64_t)n_row - drafts;
    s->stats.rows_wasted += drafts; /* lutra_commit moves accepted ones over */
    s->stats.rows_drafted += drafts;
    s->of_pass.n_underutilized = n_row < flat ? flat - n_row : 0;
    s->stats.rows_underutilized += (uint64_t)s->of_pass.n_underutilized;
    s->stats.weight_bytes += sum.weight_bytes;
    s->stats.cache_bytes += kv_view_read_bytes(pass->kv, n_row);
    s->stats.mac += sum.mac;
    *(n_prompt ? &s->stats.prompt_us : &s->stats.decode_us) += us;
    if (n_prompt) row_cost_learn_mixed(&s->cost, work, &others, us);
    if (n_prompt || s->fixed_cost > 0) return;
    row_cost_learn(&s->cost, n_row, seen, us);
    s->n_cost++;
}

static void take_turn(lutra_session *s, uint32_t devices)
{
    s->has_devices = devices;
    turn_take(&s->model->runtime->turn, devices);
}

/* A pass has its model's devices.  What is prepared for hints, or is read while it runs, may be another device's, whose
 * weights those use. */
static void begin_turn(lutra_session *s)
{
    const atomic_uint *devices = &s->model->devices;
    bool all = s->hints.wanted || atomic_load(&s->model->reading);
    uint32_t set = all ? (uint32_t)TURN_ALL : atomic_load(devices);
    take_turn(s, set);
    while (set != (uint32_t)TURN_ALL && set != atomic_load(devices)) { /* they were others when it was its turn */
        turn_give(&s->model->runtime->turn, set);
        set = atomic_load(devices);
        take_turn(s, set);
    }
}

static void give_turn(lutra_session *s)
{
    turn_give(&s->model->runtime->turn, s->has_devices);
}

/* A device is lost: the model, and this session, go on with the others.  Weights are prepared, for which the session
 * needs all devices: nothing of its pass is under way.  Meanwhile another session may have led the model away. */
static int replace(void *session, struct device *lost, struct lutra_error *err)
{
    lutra_session *s = session;
    give_turn(s);
    take_turn(s, TURN_ALL);
    s->lost_device = lost->name;
    if (model_uses(s->model, lost)) TRY(model_leave_device(s->model, lost, err));
    return memory_follow(s, err);
}

/* Weights that the pass needs and that are still being read. */
static int hold(void *session, const struct op *op, int n, struct lutra_error *err)
{
    const lutra_session *s = session;
    return model_hold(s->model, op, n, err);
}

static int hint_rows(const lutra_session *s, int32_t seq)
{
    int n = 0;
    for (int r = 0; r < s->batch.n_row; r++) n += s->batch.row[r].hints && (seq < 0 || s->batch.row[r].seq == seq);
    return n;
}

static int asked_rows(const lutra_session *s)
{
    int n = 0;
    for (int r = 0; s->asked && r < s->batch.n_row; r++) n += s->asked[r];
    return n;
}

/* The prompts' rows say what they hold likely, and leave their states. */
static int calibrate(
    lutra_session *s, const struct pass_args *pass, const struct plan_rescue *rescue, struct lutra_error *err)
{
    int n = hint_rows(s, -1);
    if (n + asked_rows(s) == 0) return 0;
    uint64_t start = clock_now_us(s->model->runtime->clock);
    int rc = hints_run(s, pass, rescue, err);
    uint64_t us = clock_now_us(s->model->runtime->clock) - start;
    *(n > 0 ? &s->stats.hints_us : &s->stats.draft_us) += us;
    for (struct request *r = s->first; n > 0 && r; r = r->next)
        if (r->seq.id >= 0) r->hints_us += (double)us * hint_rows(s, r->seq.id) / n;
    return rc;
}

static struct pass_args pass_of(lutra_session *s, struct kv_view *view)
{
    return (struct pass_args){.batch = &s->batch,
        .kv = view,
        .value = s->value,
        .out_row = s->out_row,
        .n_out = s->n_result,
        .n_ctx = s->n_ctx,
        .n_ahead = s->of_pass.n_ahead,
        .result = s->result,
        .cancel = &s->cancel,
        .head = s->head.part ? &s->head : NULL};
}

/* What an MTP block's rows read goes to the value that its list has as given. */
static void give_states(lutra_session *s)
{
    const struct op_list *list = model_ops(s->model->model);
    int v = 0;
    while (!(list->given >> v & 1)) v++;
    size_t n = (size_t)list->value[v].dim;
    for (int r = 0; r < s->batch.n_row; r++)
        memcpy((float *)s->value[v].host + (size_t)r * n, s->given[r], n * sizeof(float));
}

/* Where clusters of CPUs share a pass, the caller computes the first one's part, on its processors: on others it would
 * take turns with the threads of another cluster. */
static int run(lutra_session *s, struct kv_view *view, struct lutra_error *err)
{
    struct affinity before;
    lutra_runtime *rt = s->model->runtime;
    struct pass_args pass = pass_of(s, view);
    struct plan_rescue rescue = {.replace = replace, .user = s};
    begin_turn(s);
    if (s->model->reader) rescue.hold = hold;
    affinity_set(model_uses(s->model, rt->devices.cpu) ? rt->devices.caller_cpu : -1, &before);
    uint64_t start = clock_now_us(rt->clock);
    s->lost_device = NULL;
    int rc = memory_follow(s, err); /* another session may have changed the plan */
    if (s->given) give_states(s);
    if (rc == 0) rc = plan_run(model_plan(s->model, s->batch.n_row), &pass, s->waits, &rescue, err);
    const uint64_t us = clock_now_us(rt->clock) - start;
    if (rc == 0 && s->lost_device)
        log_line(&rt->log, LUTRA_LOG_WARN, "the pass that lost %s is done, %.0f ms after it began", s->lost_device,
            (double)us / 1000);
    if (rc == 0) account(s, &pass, us);
    if (rc == 0 && s->hints.n_row) rc = calibrate(s, &pass, &rescue, err);
    if (rc == 0) rc = model_read_rest(s->model, err);
    affinity_restore(&before);
    give_turn(s);
    return rc;
}

/* What rows of encoders may not ask for, and what those of other models may not. */
static int check_rows(const lutra_session *s, struct lutra_error *err)
{
    const struct op_list *list = model_ops(s->model->model);
    for (int r = 0; r < s->batch.n_row; r++) {
        const struct row *row = &s->batch.row[r];
        if (row->want & ROW_SECOND && list->n_segment < 2)
            return lutra_fail_at(
                err, LUTRA_E_ARGUMENT, (uint64_t)r, "row %d: the model tells no second text from a first", r);
        if (!list->whole) continue;
        if (row->want & (WANT_LOGITS | WANT_TOPK | WANT_LOGPROB))
            return lutra_fail_at(
                err, LUTRA_E_UNSUPPORTED, (uint64_t)r, "row %d: an encoder has hidden states and no logits", r);
        if (row->want & ROW_DRAFT || (row->parent < 0 && row->pos > 0))
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)r,
                "row %d: position %d%s: an encoder evaluates a text whole, in one pass", r, row->pos,
                row->want & ROW_DRAFT ? ", a draft" : "");
    }
    return 0;
}

void session_pass_begin(lutra_session *s, struct pass *pass)
{
    struct row_room room = {s->n_batch, s->n_out, s->n_draft};
    if (s->asked) memset(s->asked, 0, (size_t)s->n_batch * sizeof *s->asked);
    pass_begin(pass, &s->batch, s->tip, model_ops(s->model->model)->n_vocab, room);
}

const struct row_result *session_results(const lutra_session *s, int *n)
{
    *n = s->n_result;
    return s->result;
}

static int begin(lutra_session *s, int n_row, struct kv_view *view, struct lutra_error *err)
{
    s->batch.n_row = n_row;
    s->n_result = 0;
    TRY(batch_check(&s->batch, model_ops(s->model->model)->n_vocab, committed, s->kv, err));
    TRY(check_rows(s, err));
    TRY(list_results(s, err));
    return kv_pass_begin(s->kv, &s->batch, view, err);
}

/* The error names the position and, where the file has a value that is no number, the tensor it is in. */
static int check_numbers(const lutra_session *s, struct lutra_error *err)
{
    const struct op_list *list = model_ops(s->model->model);
    for (int i = 0; i < s->n_result; i++) {
        const struct row *row = &s->batch.row[s->result[i].row];
        if (row_result_is_number(&s->result[i], row->want, list->n_vocab, list->d_model)) continue;
        const char *name = weights_not_finite(s->model->weights);
        return lutra_fail_at(err, LUTRA_E_INTERNAL, (uint64_t)row->pos,
            "%s: what the model predicts at position %d is not a number%s%s%s", weights_path(s->model->weights),
            row->pos, name ? "; the tensor '" : "", name ? name : "", name ? "' holds NaN or infinity" : "");
    }
    return 0;
}

int session_forward(lutra_session *s, int n_row, bool numbers, struct lutra_error *err)
{
    struct kv_view view;
    TRY(begin(s, n_row, &view, err));
    int rc = run(s, &view, err);
    if (rc == 0 && numbers) rc = check_numbers(s, err);
    kv_pass_end(s->kv, &s->batch, rc == 0);
    if (rc < 0) s->batch.n_row = s->n_result = 0;
    return rc;
}

int session_hold(lutra_session *s, int n_row, struct kv_view *view, struct pass_args *pass, struct lutra_error *err)
{
    TRY(begin(s, n_row, view, err));
    *pass = pass_of(s, view);
    return 0;
}

void session_let_go(lutra_session *s)
{
    kv_pass_end(s->kv, &s->batch, false);
    s->batch.n_row = s->n_result = 0;
}

const struct row_result *session_result(const lutra_session *s, int32_t row)
{
    for (int i = 0; i < s->n_result; i++)
        if (s->result[i].row == row) return &s->result[i];
    return NULL;
}

void lutra_session_stats_get(const lutra_session *s, struct lutra_stats *stats, size_t size)
{
    struct lutra_stats all = {0};
    if (s) all = s->stats;
    all.size = sizeof all;
    settings_fill(stats, size, &all);
}

void lutra_session_stats_reset(lutra_session *s)
{
    if (s) memset(&s->stats, 0, sizeof s->stats);
}
