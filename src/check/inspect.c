/* SPDX-License-Identifier: MIT
 *
 * What a file says, what running it takes, and why it cannot run: lutra_inspect(), and a model's metadata by key.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "base/settings.h"
#include "engine/model.h"
#include "kv/kv.h"
#include "model/vocab.h"
#include "quant/quant.h"

enum { INSPECT_HEAD = 8 /* elements shown of a long array */ };

static json_t *element_json(const struct gguf_kv *kv, uint64_t i)
{
    int64_t n;
    double f;
    if (kv->elem == GGUF_STRING) {
        struct gguf_str s = gguf_kv_str(kv, i);
        json_t *text = json_stringn(s.s, s.n);
        return text ? text : json_string("(not UTF-8)");
    }
    if (kv->elem == GGUF_BOOL) return json_boolean(gguf_kv_i64(kv, i, &n) && n);
    if (gguf_kv_i64(kv, i, &n)) return json_integer(n);
    return gguf_kv_f64(kv, i, &f) ? json_real(f) : json_null();
}

static json_t *value_json(const struct gguf_kv *kv)
{
    if (kv->kind != GGUF_ARRAY) return element_json(kv, 0);
    json_t *head = json_array();
    for (uint64_t i = 0; i < kv->n && i < INSPECT_HEAD; i++) json_array_append_new(head, element_json(kv, i));
    return json_pack(
        "{s:s, s:s, s:I, s:o}", "type", "array", "of", gguf_kind_name(kv->elem), "n", (json_int_t)kv->n, "head", head);
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
    static const enum quant_type f16[2] = {QUANT_F16, QUANT_F16};
    int64_t per_token = (int64_t)kv_token_bytes(f16, model_ops(m)->layer, model_ops(m)->n_layer);
    json_object_set_new(out, "parameters", json_integer((json_int_t)model_n_param(m)));
    json_object_set_new(out, "context_train", json_integer(hp->n_ctx_train));
    json_object_set_new(out, "cache_per_token_f16", json_integer(per_token));
    json_object_set_new(out, "cache_context_train_f16", json_integer(per_token * hp->n_ctx_train));
    struct kv_settings freed = kv_settings_for(
        model_ops(m), f16, hp->n_ctx_train, (hp->n_ctx_train + KV_BLOCK - 1) / KV_BLOCK, 1, 512, 0, true);
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
static json_t *unsupported_json(const struct weights *w)
{
    struct text_vocab *vocab;
    struct lutra_error why;
    json_t *list = json_array();
    if (weights_kv_find(w, "lutra.zeros.undecided"))
        add_sentence(
            list, "whether its zeros are stored less one cannot be told (lutra.zeros): --zeros v1 or v2 says it");
    model_tell_unsupported(w, add_sentence, list);
    if (vocab_read(&vocab, w, &why) < 0) add_sentence(list, why.what);
    text_vocab_close(&vocab);
    return list;
}

static json_t *warnings_json(const struct weights *w)
{
    json_t *list = json_array();
    weights_tell_warnings(w, add_sentence, list);
    return list;
}

int lutra_inspect(const char *path, char **json, struct lutra_error *err)
{
    struct weights *w;
    *json = NULL;
    TRY(weights_open_as(&w, path, (struct weights_how){WEIGHTS_ZEROS_ANY, true}, err));
    json_t *metadata = json_object(), *tensors = json_array();
    for (size_t i = 0; i < weights_kv_count(w); i++) {
        const struct gguf_kv *kv = weights_kv_at(w, i);
        json_object_set_new(metadata, kv->key, value_json(kv)); /* a key that is not UTF-8 is left out */
    }
    for (size_t i = 0; i < weights_tensor_count(w); i++)
        json_array_append_new(tensors, tensor_json(w, weights_tensor_at(w, i)));
    json_t *all = json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "file", path, "bytes",
        (json_int_t)weights_file_bytes(w), "metadata", metadata, "tensors", tensors, "memory", memory_json(w),
        "unsupported", unsupported_json(w), "warnings", warnings_json(w));
    weights_close(&w);
    *json = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(all);
    return *json ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", path);
}

const char *lutra_model_meta_key(const lutra_model *model, int i)
{
    if (!model || i < 0 || (size_t)i >= weights_kv_count(model->weights)) return NULL;
    return weights_kv_at(model->weights, (size_t)i)->key;
}

static json_t *array_json(const struct gguf_kv *kv)
{
    json_t *all = json_array();
    for (uint64_t i = 0; i < kv->n; i++) json_array_append_new(all, element_json(kv, i));
    return all;
}

int lutra_model_meta(const lutra_model *model, const char *key, char **text, struct lutra_error *err)
{
    *text = NULL;
    TRY(handle_check(model, "model", err));
    const struct gguf_kv *kv = key ? weights_kv_find(model->weights, key) : NULL;
    if (!kv)
        return lutra_fail(
            err, LUTRA_E_NOT_FOUND, "%s: no metadata '%s'", weights_path(model->weights), key ? key : "(NULL)");
    if (kv->kind == GGUF_STRING) { /* bytes as they are */
        struct gguf_str s = gguf_kv_str(kv, 0);
        *text = strndup(s.s, s.n);
    } else {
        json_t *value = kv->kind == GGUF_ARRAY ? array_json(kv) : element_json(kv, 0);
        *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        json_decref(value);
    }
    return *text ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "metadata '%s': out of memory", key);
}
