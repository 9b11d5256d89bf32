/* SPDX-License-Identifier: MIT
 *
 * A loaded model: the file, its vocabulary and template, the op list, and the weights prepared for the devices.
 */
#include "engine/packed_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/model_impl.h"
#include "base/settings.h"
#include "kv/kv.h"
#include "model/vocab.h"
#include "quant/quant.h"

/* ---- chat template ---- */

/* A template that does not parse is no reason to refuse the model: chat then says why. */
static int open_chat(struct lutra_model *m, struct lutra_error *err)
{
    struct gguf_str s = {0};
    TRY(weights_opt_str(m->weights, "tokenizer.chat_template", &s, err));
    if (s.n == 0) return 0; /* an empty template would make an empty prompt: it is none */
    m->chat_source = malloc(s.n + 1);
    if (!m->chat_source) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", weights_path(m->weights));
    memcpy(m->chat_source, s.s, s.n);
    m->chat_source[s.n] = 0;
    m->tags = text_reasoning_tags(m->chat_source);
    struct lutra_error why = {0};
    if (text_template_parse(&m->chat, s.s, s.n, &why) < 0)
        log_line(&m->runtime->log, LUTRA_LOG_WARN, "%s: chat template: %s", weights_path(m->weights), why.what);
    return 0;
}

/* ---- weights ---- */

static int place_weights(struct lutra_model *m, struct lutra_error *err)
{
    TRY(plan_give_weights(&m->plan, err));
    TRY(plan_give_weights(&m->plan_many, err));
    for (int i = 0; i < model_n_weight(m->model); i++) {
        struct weight *w = model_weight(m->model, i);
        if (weight_is_given(w)) continue; /* else no operation uses it */
        TRY(weight_give(w, m->runtime->devices.cpu, (struct columns){0, w->tensor.ne[1]}, err));
    }
    return 0;
}

/* What a device has of the model. */
static void release_device(struct lutra_model *m, struct device *d)
{
    for (int i = 0; i < model_n_weight(m->model); i++) {
        struct weight *w = model_weight(m->model, i);
        if (w->only == d) w->only = NULL;
        struct held *h = weight_held(w, d);
        if (h && h->packed) d->ops->release(d, w);
        if (h) h->device = NULL;
    }
    if (d->memory) d->memory->unload(d, model_ops(m->model));
}

static void release_weights(struct lutra_model *m)
{
    turn_take(&m->runtime->turn, TURN_ALL);
    for (int i = 0; i < m->runtime->devices.n_device; i++) {
        struct device *d = m->runtime->devices.device[i];
        release_device(m, d);
        if (d->extras && d->extras->forget) d->extras->forget(d, model_ops(m->model));
    }
    turn_give(&m->runtime->turn, TURN_ALL);
}

/* On every device that has not all that it is to have. */
static int prepare_weight(struct lutra_model *m, struct weight *w, struct lutra_error *err)
{
    bool keeps_source, stored = w->stored != NULL;
    weights_fetch(m->weights, &w->tensor);
    turn_take(&m->runtime->turn, TURN_ALL);
    int rc = weight_prepare(w, &keeps_source, err);
    turn_give(&m->runtime->turn, TURN_ALL);
    if (rc < 0) return rc;
    m->n_damaged += stored && !w->stored;
    if (stored && !w->stored)
        log_line(&m->runtime->log, LUTRA_LOG_WARN, "%s: the copy of tensor '%s' is damaged; packed from the model",
            weights_path(m->packed), w->tensor.name);
    if (!keeps_source && !w->copied) weights_drop_pages(m->weights, &w->tensor);
    return 0;
}

static int load_constants(struct lutra_model *m, struct lutra_error *err)
{
    int rc = 0;
    turn_take(&m->runtime->turn, TURN_ALL);
    for (int i = 0; i < m->runtime->devices.n_device && rc == 0; i++) {
        struct device *d = m->runtime->devices.device[i];
        if (d->memory && model_uses(m, d)) rc = d->memory->load(d, model_ops(m->model), err);
    }
    turn_give(&m->runtime->turn, TURN_ALL);
    return rc;
}

/* What a pass will ask for. */
static void add_demand(struct lutra_model *m)
{
    const struct op_list *list = model_ops(m->model);
    m->demand = (struct demand_rates){0};
    for (int i = 0; i < list->n_op; i++) demand_add(&m->demand, list, &list->op[i]);
}

/* Sessions of other models run between two weights. */
static int prepare_all(struct lutra_model *m, const struct lutra_model_settings *set, struct lutra_error *err)
{
    uint64_t done = 0, total = 0;
    for (int i = 0; i < model_n_weight(m->model); i++)
        if (!weight_is_ready(model_weight(m->model, i), NULL)) total += model_weight(m->model, i)->tensor.bytes;
    for (int i = 0; i < model_n_weight(m->model); i++) {
        struct weight *w = model_weight(m->model, i);
        if (weight_is_ready(w, NULL)) continue;
        if (set->progress && set->progress(set->progress_user, "preparing weights", done, total))
            return lutra_fail(err, LUTRA_E_CANCELLED, "%s: loading was cancelled", weights_path(m->weights));
        const struct weight *next = i + 1 < model_n_weight(m->model) ? model_weight(m->model, i + 1) : NULL;
        if (next && !next->stored && !weight_is_ready(next, NULL) && next->n_packed == next->n_expert)
            weights_prefetch(m->weights, &next->tensor);
        TRY(prepare_weight(m, w, err));
        done += w->tensor.bytes;
    }
    if (set->progress) set->progress(set->progress_user, "preparing weights", total, total);
    return 0;
}

/* Each for the first operation that reads it: embeddings that are the head, too, are looked up only. */
static void use_once(struct lutra_model *m)
{
    const struct op_list *list = model_ops(m->model);
    for (int i = list->n_op - 1; i >= 0; i--)
        for (int k = 0; k < list->op[i].n_weight; k++) list->op[i].weight[k]->use = op_info_of(list->op[i].kind)->use;
}

/* ---- weights that are read while the first prompt is evaluated ---- */

static bool reads_ahead(const struct lutra_model *m, const struct lutra_model_settings *set)
{
    return m->runtime->progressive && !m->lazy_weights && !m->trunk && m->n_plan == 0 && set->expert_ram < 0;
}

/* What prepare will read of it. */
static struct reader_item item_of(const struct weight *w)
{
    struct packed_view v;
    struct reader_item item = {w->tensor.name, w->tensor.data, w->tensor.bytes};
    if (w->stored && packed_view_of(w, &v)) item.data = w->stored, item.bytes = v.bytes;
    return item;
}

/* In the order of their operations; what a folder's tensors are put together from is read when they are. */
static int read_ahead(struct lutra_model *m, struct lutra_error *err)
{
    const struct op_list *list = model_ops(m->model);
    const int n_weight = model_n_weight(m->model);
    int n = 0;
    for (int i = 0; i < n_weight; i++) {
        const struct weight *w = model_weight(m->model, i);
        for (int k = 0; k < WEIGHT_HOLDERS; k++)
            if (w->held[k].device && w->held[k].device->memory)
                return lutra_fail(err, LUTRA_E_UNSUPPORTED, "progressive: %s keeps tensor '%s' in a memory of its own",
                    w->held[k].device->name, w->tensor.name);
    }
    struct reader_item *item = calloc((size_t)list->n_op * OP_WEIGHTS + 1, sizeof *item);
    if (!item) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", weights_path(m->weights));
    for (int i = 0; i < list->n_op; i++)
        for (int k = 0; k < list->op[i].n_weight; k++) {
            const struct weight *w = list->op[i].weight[k];
            if (w->stored || !weights_is_derived(m->weights, &w->tensor)) item[n++] = item_of(w);
        }
    int rc = weights_reader_open(&m->reader, item, n, err);
    atomic_store(&m->reading, rc == 0);
    free(item);
    return rc;
}

static int hold(struct lutra_model *m, struct weight *w, struct lutra_error *err)
{
    if (weight_is_ready(w, NULL)) return 0;
    if (m->reader) TRY(weights_reader_wait(m->reader, w->stored ? w->stored : w->tensor.data, err));
    return prepare_weight(m, w, err);
}

int model_hold(struct lutra_model *m, const struct op *op, int n, struct lutra_error *err)
{
    for (int i = 0; (m->lazy_weights || m->reader) && i < n; i++)
        for (int k = 0; k < op[i].n_weight; k++) TRY(hold(m, op[i].weight[k], err));
    return 0;
}

int model_read_rest(lutra_model *m, struct lutra_error *err)
{
    if (!m->reader) return 0;
    for (int i = 0; i < model_n_weight(m->model); i++) TRY(hold(m, model_weight(m->model, i), err));
    weights_reader_close(&m->reader);
    packed_cache_known(m);
    add_demand(m);
    atomic_store(&m->reading, false);
    return 0;
}

static int limit_experts(struct lutra_model *m, uint64_t bytes, struct lutra_error *err)
{
    int n = model_limit_experts(m->model, bytes, err), n_all = model_hparams(m->model)->n_expert;
    if (n < 0) return n;
    log_line(&m->runtime->log, LUTRA_LOG_INFO, "experts: %d of %d of each layer packed%s", n, n_all,
        n < n_all ? ", others in the file's mapping" : "");
    return 0;
}

static int prepare_weights(struct lutra_model *m, const struct lutra_model_settings *set, struct lutra_error *err)
{
    TRY(place_weights(m, err));
    if (set->expert_ram >= 0) TRY(limit_experts(m, (uint64_t)set->expert_ram, err));
    packed_cache_find(m);
    if (m->lazy_weights)
        use_once(m);
    else if (reads_ahead(m, set))
        TRY(read_ahead(m, err));
    else
        TRY(prepare_all(m, set, err));
    if (!m->reader) packed_cache_known(m);
    add_demand(m);
    return load_constants(m, err);
}

void model_let_go(struct lutra_model *m, const struct op *op, int n)
{
    turn_take(&m->runtime->turn, TURN_ALL);
    for (int i = 0; m->lazy_weights && i < n; i++) {
        for (int k = 0; k < op[i].n_weight; k++) {
            struct weight *w = op[i].weight[k];
            for (int h = 0; h < WEIGHT_HOLDERS; h++)
                if (w->held[h].packed) w->held[h].device->ops->release(w->held[h].device, w);
        }
    }
    turn_give(&m->runtime->turn, TURN_ALL);
}

/* Who runs what, and why not the first device. */
static void report_plan(const struct lutra_model *m)
{
    char line[256];
    for (int i = 0; plan_report(&m->plan, runtime_first(m->runtime), i, line, sizeof line); i++)
        log_line(&m->runtime->log, LUTRA_LOG_INFO, "%s", line);
}

static int open_weights(struct lutra_model *m, const struct lutra_model_settings *set, struct lutra_error *err)
{
    TRY(model_choose_devices(m, set->device, err));
    if (set->override_tensor) TRY(model_override(m, set->override_tensor, err));
    TRY(model_choose_plans(m, set->plan, err));
    TRY(model_open_plans(m, err));
    report_plan(m);
    TRY(packed_cache_open(m, set, err));
    return prepare_weights(m, set, err);
}

int model_leave_device(struct lutra_model *m, struct device *lost, struct lutra_error *err)
{
    struct lutra_model_settings set;
    struct device *device[PLAN_DEVICES];
    lutra_runtime *rt = m->runtime;
    char others[160] = "";
    lutra_model_settings_init(&set, sizeof set);
    for (int i = 0; i < rt->devices.n_device; i++)
        if (rt->devices.device[i] == lost) atomic_store(&rt->lost[i], true);
    int n_device = model_devices(m, device);
    if (n_device == 0) { /* none of those that it was given */
        atomic_store(&m->devices, TURN_ALL);
        n_device = model_devices(m, device);
    }
    for (int i = 0, at = 0; i < n_device && (size_t)at < sizeof others; i++)
        at += snprintf(others + at, sizeof others - (size_t)at, "%s%s", i ? ", " : "", device[i]->name);
    const bool told = err && err->code == LUTRA_E_DEVICE_LOST;
    log_line(&rt->log, LUTRA_LOG_WARN, "%s is lost: %s goes on on %s%s%s%s", lost->name, m->name, others,
        told ? " (" : "", told ? err->what : "", told ? ")" : "");
    release_device(m, lost);
    m->n_plan++;
    TRY(model_open_plans(m, err));
    return prepare_weights(m, &set, err);
}

/* The type most bytes of the file are in. */
static void name_file_type(struct lutra_model *m)
{
    uint64_t bytes[QUANT_TYPE_END] = {0};
    int best = QUANT_F32;
    for (size_t i = 0; i < weights_tensor_count(m->weights); i++) {
        const struct tensor *t = weights_tensor_at(m->weights, i);
        bytes[t->type] += t->bytes;
        if (bytes[t->type] > bytes[best]) best = (int)t->type;
    }
    snprintf(m->file_type, sizeof m->file_type, "%s", quant_type_name((uint32_t)best));
}

static void warn(void *user, const char *sentence)
{
    const struct lutra_model *m = user;
    log_line(&m->runtime->log, LUTRA_LOG_WARN, "%s", sentence);
}

/* The op list, with what adapters add. */
static int open_adapted(struct lutra_model *m, const struct lutra_model_settings *set, struct lutra_error *err)
{
    struct model_adapter adapter[LUTRA_ADAPTERS_MOST];
    if (set->n_adapter < 0 || set->n_adapter > LUTRA_ADAPTERS_MOST || (set->n_adapter && !set->adapter))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "model: %d adapters; at most %d", set->n_adapter, LUTRA_ADAPTERS_MOST);
    for (int i = 0; i < set->n_adapter; i++) {
        float scale = set->adapter[i].scale;
        if (!set->adapter[i].path) return lutra_fail(err, LUTRA_E_ARGUMENT, "model: adapter %d has no path", i);
        if (!(fabsf(scale) <= 1e6f))
            return lutra_fail(
                err, LUTRA_E_ARGUMENT, "%s: a scale of %g is no number below 1e6", set->adapter[i].path, (double)scale);
        TRY(weights_open(&m->adapter[i], set->adapter[i].path, err));
        m->n_adapter = i + 1;
        adapter[i] = (struct model_adapter){m->adapter[i], scale};
        const uint64_t who[] = {m->adapters, packed_identity(m->adapter[i])};
        if (scale != 0) m->adapters = hash_bytes(hash_bytes(1, who, sizeof who), &scale, sizeof scale);
    }
    return model_open_adapted(&m->model, m->weights, adapter, set->n_adapter, err);
}

/* The vocabulary, and what else the file says of texts. */
static int open_text(struct lutra_model *m, const char *path, struct lutra_error *err)
{
    struct gguf_str name = {"", 0}, mark = {NULL, 0};
    TRY(vocab_read(&m->vocab, m->weights, err));
    TRY(open_chat(m, err));
    TRY(model_read_sampling(m, err));
    TRY(weights_opt_str(m->weights, "general.name", &name, err));
    snprintf(m->name, sizeof m->name, "%.*s", (int)(name.n < 120 ? name.n : 120), name.s);
    TRY(weights_opt_str(m->weights, "lutra.prm.mark", &mark, err));
    if (mark.n >= sizeof m->step_mark || (mark.n && memchr(mark.s, 0, mark.n)))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: key 'lutra.prm.mark' is too long or not text", path);
    if (mark.n) memcpy(m->step_mark, mark.s, mark.n);
    name_file_type(m);
    if (m->model && (size_t)model_hparams(m->model)->n_vocab != text_vocab_n_tok(m->vocab))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: %d embeddings for %zu tokens", path,
            model_hparams(m->model)->n_vocab, text_vocab_n_tok(m->vocab));
    return 0;
}

static int open_all(struct lutra_model *m, const char *path, const struct lutra_model_settings *set, bool sorted,
    struct lutra_error *err)
{
    struct weights_how how = {.sorted = sorted};
    TRY(weights_zeros_named(set->zeros, &how.zeros, err));
    if (set->vocab_only && !set->zeros) how.zeros = WEIGHTS_ZEROS_ANY;
    TRY(weights_open_as(&m->weights, path, how, err));
    if (sorted && !set->vocab_only) weights_tell_warnings(m->weights, warn, m); /* the converter tells the quantizer */
    if (!set->vocab_only) TRY(open_adapted(m, set, err)); /* before the vocabulary: the better reason */
    const bool ahead = !set->vocab_only && reads_ahead(m, set);
    if (ahead) TRY(open_weights(m, set, err)); /* which the disk goes on with meanwhile */
    TRY(open_text(m, path, err));
    weights_drop_read_pages(m->weights, !ahead);
    return set->vocab_only || ahead ? 0 : open_weights(m, set, err);
}

static int open_model(lutra_model **out, lutra_runtime *runtime, const char *path,
    const struct lutra_model_settings *settings, bool sorted, bool lazy_weights, struct lutra_error *err)
{
    struct lutra_model_settings set;
    lutra_model_settings_init(&set, sizeof set);
    *out = NULL;
    TRY(handle_check(runtime, "runtime", err));
    TRY(settings_copy(&set, sizeof set, settings, "model", err));
    if (!path) return lutra_fail(err, LUTRA_E_ARGUMENT, "model: no path");
    lutra_model *m = calloc(1, sizeof *m);
    if (!m) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
    m->runtime = runtime;
    atomic_fetch_add(&runtime->n_model, 1);
    m->lazy_weights = lazy_weights;
    int rc = open_all(m, path, &set, sorted, err);
    if (rc == 0) log_line(&runtime->log, LUTRA_LOG_INFO, "%s: %s, %s", path, m->name, m->file_type);
    if (rc < 0) lutra_model_close(&m);
    *out = m; /* NULL where it is closed */
    return rc;
}

int lutra_model_open(lutra_model **out, lutra_runtime *runtime, const char *path,
    const struct lutra_model_settings *settings, struct lutra_error *err)
{
    return open_model(out, runtime, path, settings, true, false, err);
}

int model_open_unsorted(lutra_model **out, lutra_runtime *runtime, const char *path,
    const struct lutra_model_settings *settings, bool lazy_weights, struct lutra_error *err)
{
    return open_model(out, runtime, path, settings, false, lazy_weights, err);
}

static int open_block(lutra_model *m, lutra_model *trunk, struct lutra_error *err)
{
    struct lutra_model_settings set;
    lutra_model_settings_init(&set, sizeof set);
    TRY(model_open_nextn(&m->model, trunk->model, err));
    for (int c = 0; c < PASS_CLASSES; c++) m->plan_kind[c] = trunk->plan_kind[c] == PLAN_CLASS ? PLAN_CLASS : PLAN_EVEN;
    m->mixes = trunk->mixes;
    atomic_store(&m->devices, atomic_load(&trunk->devices));
    TRY(model_open_plans(m, err));
    return prepare_weights(m, &set, err);
}

int model_open_block(lutra_model **out, lutra_model *trunk, struct lutra_error *err)
{
    lutra_model *m = *out = calloc(1, sizeof *m);
    if (!m) return lutra_fail(err, LUTRA_E_NO_MEMORY, "MTP block: out of memory");
    m->trunk = trunk;
    m->runtime = trunk->runtime;
    m->weights = trunk->weights;
    m->vocab = trunk->vocab;
    snprintf(m->name, sizeof m->name, "MTP block of %.100s", trunk->name);
    atomic_fetch_add(&m->runtime->n_model, 1);
    int rc = open_block(m, trunk, err);
    if (rc < 0) lutra_model_close(out);
    return rc;
}

int lutra_model_close(lutra_model **model)
{
    lutra_model *m = model ? *model : NULL;
    if (!m) return 0;
    if (atomic_load(&m->n_user) > 0) return LUTRA_E_BUSY;
    weights_reader_close(&m->reader);
    if (m->model) release_weights(m);
    model_close(&m->model);
    text_template_close(&m->chat);
    free(m->chat_source);
    free(m->samplers);
    free(m->profile);
    if (!m->trunk) text_vocab_close(&m->vocab);
    weights_close(&m->packed);
    for (int i = 0; i < m->n_adapter; i++) weights_close(&m->adapter[i]);
    if (!m->trunk) weights_close(&m->weights);
    atomic_fetch_sub(&m->runtime->n_model, 1);
    free(m);
    *model = NULL;
    return 0;
}

bool model_ranks(const lutra_model *m)
{
    return m->model && model_hparams(m->model)->pooling == POOLING_RANK && model_value_head(m->model)->n_class > 0;
}

void lutra_model_info_get(const lutra_model *m, struct lutra_model_info *info, size_t size)
{
    if (!m) {
        settings_fill(info, size,
            &(struct lutra_model_info){
                .size = sizeof *info, .name = "", .arch = "", .file_type = "", .plan = "", .bos = -1, .eos = -1});
        return;
    }
    struct lutra_model_info all = {.size = sizeof all,
        .name = m->name,
        .file_type = m->file_type,
        .n_vocab = (int)text_vocab_n_tok(m->vocab),
        .file_bytes = weights_file_bytes(m->weights),
        .bos = text_vocab_special(m->vocab, TEXT_BOS),
        .eos = text_vocab_special(m->vocab, TEXT_EOS),
        .add_bos = text_vocab_adds_bos(m->vocab),
        .chat_template = m->chat_source,
        .step_mark = m->step_mark[0] ? m->step_mark : NULL,
        .plan = m->plan_text,
        .reasoning_open = m->tags ? m->tags->open : NULL,
        .reasoning_close = m->tags ? m->tags->close : NULL};
    all.arch = "";
    if (m->model) {
        const struct hparams *hp = model_hparams(m->model);
        all.arch = hp->arch;
        all.n_ctx_train = hp->n_ctx_train;
        all.d_model = hp->d_model;
        all.n_layer = hp->n_layer;
        all.n_head = hp->n_head;
        all.n_kv_head = hp->n_kv_head;
        all.d_head = hp->d_head;
        all.d_ff = hp->d_ff;
        all.encoder = model_ops(m->model)->whole;
        all.ranks = model_ranks(m);
        all.n_param = model_n_param(m->model);
        for (int i = 0; i < model_n_weight(m->model); i++)
            all.packed_bytes += weight_prepared_bytes(model_weight(m->model, i));
        static const enum quant_type f16[2] = {QUANT_F16, QUANT_F16};
        all.cache_bytes_per_token = kv_token_bytes(f16, model_ops(m->model)->layer, model_ops(m->model)->n_layer);
    }
    settings_fill(info, size, &all);
}
