/* SPDX-License-Identifier: MIT
 *
 * The public file functions: quantize, make-model, inspect.
 */
#include "engine/budget.h"
#include "engine/calibrate.h"
#include "engine/engine_impl.h"

#include <jansson.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cpuinfo.h"
#include "quant/quant.h"
#include "weights/convert.h"
#include "weights/groups.h"
#include "weights/imatrix.h"
#include "weights/make_model.h"
#include "weights/mix.h"

/* lutra_progress_fn with its stage name. */
struct progress {
    lutra_progress_fn fn;
    void *user;
    const char *stage;
};

static int report(void *user, uint64_t done, uint64_t total)
{
    const struct progress *p = user;
    return p->fn ? p->fn(p->user, p->stage, done, total) : 0;
}

int files_type_named(const char *what, const char *name, enum quant_type *type, struct lutra_error *err)
{
    const struct quant_info *q = name ? quant_info_by_name(name) : NULL;
    char names[256] = "";
    if (q) {
        *type = q->type;
        return 0;
    }
    for (size_t i = 0, n = 0; (q = quant_info_at(i)); i++)
        if (n < sizeof names) n += (size_t)snprintf(names + n, sizeof names - n, " %s", q->name);
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "%s: type '%s' is not known; there are%s", what, name ? name : "(none)", names);
}

static const struct {
    const char *name;
    int bits;
} groups[] = {{"W2", 2}, {"W3", 3}, {"W4", 4}, {"W8", 8}};
enum { N_GROUPS = sizeof groups / sizeof *groups, N_WRITTEN = 3 /* by a calibration */ };

const char *lutra_quantize_type(int i)
{
    int n = 0;
    while (weights_mix_at((size_t)n)) n++;
    if (i < 0 || i >= n + N_WRITTEN) return NULL;
    return i < n ? weights_mix_at((size_t)i)->name : groups[i - n].name;
}

static int mix_named(const char *name, const struct weights_mix **out, struct lutra_error *err)
{
    char names[256] = "";
    const char *type;
    *out = name ? weights_mix_named(name) : NULL;
    if (*out) return 0;
    const struct quant_info *q = name ? quant_info_by_name(name) : NULL;
    if (q) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "quantize: %s cannot be written, it can be read", q->name);
    for (size_t i = 0, n = 0; (type = lutra_quantize_type((int)i)) && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, " %s", type);
    return lutra_fail(
        err, LUTRA_E_ARGUMENT, "quantize: type '%s' is not known; there are%s", name ? name : "(none)", names);
}

/* bits 0: the type is none of the first n_known. */
static int read_group(const char *who, const char *type, int n_known, int size, bool asymmetric,
    struct quant_group *group, struct lutra_error *err)
{
    *group = (struct quant_group){.size = size ? size : 128, .symmetric = !asymmetric};
    for (int i = 0; type && i < n_known; i++)
        if (strcasecmp(type, groups[i].name) == 0) group->bits = groups[i].bits;
    if (!group->bits && (size || asymmetric))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: only %s have groups of a size", who,
            n_known > N_WRITTEN ? "W2, W3, W4 and W8" : "W2, W3 and W4");
    if (group->bits && group->size != 32 && group->size != 64 && group->size != 128 && group->size != -1)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "%s: groups of %d; there are 32, 64, 128, and -1, whole rows", who, group->size);
    return 0;
}

static int check_group(const struct lutra_quantize_settings *set, struct lutra_error *err)
{
    if (!set->dry_run && (!set->calibration || set->only_measure))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "quantize: %s is written by a calibration", set->type);
    if (set->imatrix || set->n_tensor_type || set->token_embedding_type || set->output_type)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "quantize: %s knows no importance matrix and no types of single tensors", set->type);
    return 0;
}

/* "REGEX=TYPE" as a rule; the pattern is cut out of `text`, a copy. */
static int read_rule(char *text, struct weights_type_rule *rule, struct lutra_error *err)
{
    char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "tensor type: '%s' is not REGEX=TYPE", text);
    *equals = 0;
    rule->pattern = text;
    return files_type_named(text, equals + 1, &rule->type, err);
}

/* Copies of the texts, and the rules that point into them. */
static int read_rules(
    const struct lutra_quantize_settings *set, char **text, struct weights_type_rule *rule, struct lutra_error *err)
{
    for (int i = 0; i < set->n_tensor_type; i++) {
        text[i] = strdup(set->tensor_type[i]);
        if (!text[i]) return lutra_fail(err, LUTRA_E_NO_MEMORY, "quantize: no memory");
        TRY(read_rule(text[i], &rule[i], err));
    }
    return 0;
}

/* The file, of the types that a budget chooses, with the matrices that a calibration has rounded. */
static int write_file(lutra_runtime *runtime, struct weights_quantize_settings *q,
    const struct lutra_quantize_settings *set, const char *in_path, const char *out_path, struct lutra_error *err)
{
    struct calibration *c = NULL;
    struct budget *b = NULL;
    if (q->group && !q->dry_run) TRY(weights_groups_target(out_path, err));
    int rc = set->budget > 0 ? budget_open(&b, runtime, in_path, set, q, err) : 0;
    if (rc == 0 && set->calibration && !set->only_measure && !q->copy && !q->dry_run) {
        rc = calibration_open(&c, runtime, in_path, out_path, set, q, err);
        q->ready = calibration_ready;
        q->ready_user = c;
    }
    if (rc == 0) rc = weights_quantize_file(in_path, out_path, q, err);
    calibration_close(&c, rc == 0);
    budget_close(&b);
    return rc;
}

/* Settings that contradict one another. */
static int check_settings(const struct lutra_quantize_settings *set, struct lutra_error *err)
{
    if (set->resume && (!set->calibration || set->only_measure))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "quantize: only a calibration can be resumed");
    if (set->budget == 0 && set->calibration && set->only_measure)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "quantize: a text to measure over, and no budget");
    if (set->budget == 0 && set->budget_types)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "quantize: types of a budget, and no budget");
    if (set->budget == 0) return 0;
    if (!(set->budget > 0)) return lutra_fail(err, LUTRA_E_ARGUMENT, "budget: %g bits", (double)set->budget);
    if (set->type) return lutra_fail(err, LUTRA_E_ARGUMENT, "budget: it chooses the types, so '%s' cannot", set->type);
    if (!set->calibration)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "budget: types are chosen by a text; there is none");
    return 0;
}

static int quantize_with(lutra_runtime *runtime, struct weights_quantize_settings *q,
    const struct lutra_quantize_settings *set, const char *in_path, const char *out_path, struct lutra_error *err)
{
    enum quant_type type = QUANT_F16;
    struct quant_group group;
    TRY(check_settings(set, err));
    TRY(read_group("quantize", set->type, N_WRITTEN, set->group_size, set->asymmetric, &group, err));
    if (group.bits) TRY(check_group(set, err));
    if (group.bits)
        q->group = &group;
    else if (!q->copy && !(set->budget > 0))
        TRY(mix_named(set->type, &q->mix, err));
    if (set->token_embedding_type) {
        TRY(files_type_named("token embedding", set->token_embedding_type, &type, err));
        q->token_embd_type = (int)type;
    }
    if (set->output_type) {
        TRY(files_type_named("output", set->output_type, &type, err));
        q->output_type = (int)type;
    }
    size_t n = set->n_tensor_type > 0 ? (size_t)set->n_tensor_type : 0;
    char **text = calloc(n + 1, sizeof *text);
    struct weights_type_rule *rule = calloc(n + 1, sizeof *rule);
    int rc =
        text && rule ? read_rules(set, text, rule, err) : lutra_fail(err, LUTRA_E_NO_MEMORY, "quantize: no memory");
    struct imatrix *imatrix = NULL;
    q->rule = rule;
    q->n_rule = n;
    if (rc == 0 && set->imatrix) rc = imatrix_open(&imatrix, set->imatrix, err);
    q->imatrix = imatrix;
    q->imatrix_path = set->imatrix;
    if (rc == 0) rc = write_file(runtime, q, set, in_path, out_path, err);
    imatrix_close(&imatrix);
    for (size_t i = 0; text && i < n; i++) free(text[i]);
    free(text);
    free(rule);
    return rc;
}

int lutra_quantize(lutra_runtime *runtime, const char *in_path, const char *out_path,
    const struct lutra_quantize_settings *settings, struct lutra_error *err)
{
    struct lutra_quantize_settings set;
    lutra_quantize_settings_init(&set, sizeof set);
    TRY(settings_copy(&set, sizeof set, settings, "quantize", err));
    struct progress progress = {set.progress, set.progress_user, "quantizing"};
    struct weights_quantize_settings q = weights_quantize_default();
    q.copy = set.type && (!strcmp(set.type, "COPY") || !strcmp(set.type, "copy"));
    q.exact = set.exact;
    q.pure = set.pure;
    q.allow_requantize = set.allow_requantize;
    q.leave_output = set.leave_output_tensor;
    q.dry_run = set.dry_run;
    TRY(weights_zeros_named(set.zeros, &q.zeros, err));
    q.parallel = runtime_parallel;
    q.parallel_user = runtime;
    q.progress = report;
    q.progress_user = &progress;
    q.log = set.log;
    q.log_user = set.log_user;
    return quantize_with(runtime, &q, &set, in_path, out_path, err);
}

int lutra_make_model(
    lutra_runtime *runtime, const char *path, const struct lutra_make_model_settings *settings, struct lutra_error *err)
{
    struct lutra_make_model_settings set;
    lutra_make_model_settings_init(&set, sizeof set);
    TRY(settings_copy(&set, sizeof set, settings, "make-model", err));
    if (set.n_layer < 0) return lutra_fail(err, LUTRA_E_ARGUMENT, "make-model: n_layer is %d", set.n_layer);
    struct progress progress = {set.progress, set.progress_user, "writing"};
    struct weights_make_settings w = weights_make_default();
    w.shape = set.shape ? set.shape : "(none)";
    w.seed = set.seed;
    w.outliers = set.outliers;
    w.n_layer = (uint32_t)set.n_layer;
    w.progress = report;
    w.progress_user = &progress;
    w.log = runtime->log.fn;
    w.log_user = runtime->log.user;
    struct quant_group group;
    TRY(read_group("make-model", set.type, N_GROUPS, set.group_size, set.asymmetric, &group, err));
    if (group.bits)
        w.group = &group;
    else
        TRY(files_type_named("make-model", set.type, &w.type, err));
    return weights_make_model(path, &w, err);
}

const char *lutra_make_model_shape(int i)
{
    const struct weights_shape *shape = i >= 0 ? weights_shape_at((size_t)i) : NULL;
    return shape ? shape->name : NULL;
}

/* ---- inspect ---- */

enum { INSPECT_HEAD = 8 /* elements shown of a long array */ };

static json_t *element_json(const struct weights_kv *kv, uint64_t i)
{
    int64_t n;
    double f;
    if (kv->elem == WEIGHTS_STRING) {
        struct weights_str s = weights_kv_str(kv, i);
        json_t *text = json_stringn(s.s, s.n);
        return text ? text : json_string("(not UTF-8)");
    }
    if (kv->elem == WEIGHTS_BOOL) return json_boolean(weights_kv_i64(kv, i, &n) && n);
    if (weights_kv_i64(kv, i, &n)) return json_integer(n);
    return weights_kv_f64(kv, i, &f) ? json_real(f) : json_null();
}

static json_t *value_json(const struct weights_kv *kv)
{
    if (kv->kind != WEIGHTS_ARRAY) return element_json(kv, 0);
    json_t *head = json_array();
    for (uint64_t i = 0; i < kv->n && i < INSPECT_HEAD; i++) json_array_append_new(head, element_json(kv, i));
    return json_pack("{s:s, s:s, s:I, s:o}", "type", "array", "of", weights_kind_name(kv->elem), "n", (json_int_t)kv->n,
        "head", head);
}

static json_t *tensor_json(const struct weights *w, const struct tensor *t)
{
    double mean[2];
    json_t *shape = json_array(), *zeros = NULL;
    if (weights_zeros_means(w, t, mean)) zeros = json_pack("{s:f, s:f}", "v1", mean[0], "v2", mean[1]);
    for (int d = 0; d < t->n_dim; d++) json_array_append_new(shape, json_integer(t->ne[d]));
    return json_pack("{s:s, s:s, s:o, s:I, s:o*}", "name", t->name, "type", quant_type_name(t->type), "shape", shape,
        "bytes", (json_int_t)t->bytes, "zeros", zeros);
}

/* What running the model takes, as far as it can run. */
static json_t *memory_json(const struct weights *w)
{
    struct model *m;
    struct lutra_error why;
    json_t *out = json_pack("{s:I, s:I}", "weights", (json_int_t)weights_tensor_bytes(w), "available_now",
        (json_int_t)(cpu_memory_available() & INT64_MAX));
    if (model_open(&m, w, &why) < 0) return out;
    const struct hparams *hp = model_hparams(m);
    int64_t per_token = (int64_t)kv_token_bytes(QUANT_F16, model_ops(m)->layer, model_ops(m)->n_layer);
    json_object_set_new(out, "parameters", json_integer((json_int_t)model_n_param(m)));
    json_object_set_new(out, "context_train", json_integer(hp->n_ctx_train));
    json_object_set_new(out, "cache_per_token_f16", json_integer(per_token));
    json_object_set_new(out, "cache_context_train_f16", json_integer(per_token * hp->n_ctx_train));
    struct kv_settings freed = memory_cache(
        model_ops(m), QUANT_F16, hp->n_ctx_train, (hp->n_ctx_train + KV_BLOCK - 1) / KV_BLOCK, 1, 512, 0, true);
    size_t fixed, growing = kv_growing_bytes(&freed, &fixed);
    if (fixed > 0)
        json_object_set_new(out, "cache_context_train_f16_windows_freed",
            json_integer((json_int_t)(growing * (size_t)hp->n_ctx_train + fixed)));
    model_close(&m);
    return out;
}

static void add_sentence(void *list, const char *sentence)
{
    json_array_append_new(list, json_string(sentence));
}

/* Why the model cannot run: everything, not only the first thing. */
static json_t *lacks_json(const struct weights *w)
{
    struct text_vocab *vocab;
    struct lutra_error why;
    json_t *list = json_array();
    if (weights_kv_find(w, "lutra.zeros.undecided"))
        add_sentence(
            list, "whether its zeros are stored less one cannot be told (lutra.zeros): --zeros v1 or v2 says it");
    model_tell_lacks(w, add_sentence, list);
    if (vocab_read(&vocab, w, &why) < 0) add_sentence(list, why.what);
    text_vocab_close(&vocab);
    return list;
}

static json_t *doubts_json(const struct weights *w)
{
    json_t *list = json_array();
    weights_tell_doubts(w, add_sentence, list);
    return list;
}

int lutra_inspect(const char *path, char **json, struct lutra_error *err)
{
    struct weights *w;
    *json = NULL;
    TRY(weights_open_as(&w, path, (struct weights_how){WEIGHTS_ZEROS_ANY, true}, err));
    json_t *metadata = json_object(), *tensors = json_array();
    for (size_t i = 0; i < weights_kv_count(w); i++) {
        const struct weights_kv *kv = weights_kv_at(w, i);
        json_object_set_new(metadata, kv->key, value_json(kv)); /* a key that is not UTF-8 is left out */
    }
    for (size_t i = 0; i < weights_tensor_count(w); i++)
        json_array_append_new(tensors, tensor_json(w, weights_tensor_at(w, i)));
    json_t *all = json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "file", path, "bytes",
        (json_int_t)weights_file_bytes(w), "metadata", metadata, "tensors", tensors, "memory", memory_json(w), "lacks",
        lacks_json(w), "doubts", doubts_json(w));
    weights_close(&w);
    *json = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    return *json ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
}
