/* SPDX-License-Identifier: MIT
 *
 * Typed access to metadata.  Values lie in the file at any alignment: they are copied out.
 */
#include "weights/weights_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

size_t weights_kv_count(const struct weights *w)
{
    return w->file[0].n_kv;
}

const struct gguf_kv *weights_kv_at(const struct weights *w, size_t i)
{
    return &w->file[0].kv[i];
}

const struct gguf_kv *weights_kv_find(const struct weights *w, const char *key)
{
    return gguf_kv_find(&w->file[0], key);
}

/* ---- by key ---- */

/* NULL without an error text when the key is missing and optional: then *rc is 0. */
static const struct gguf_kv *look_up(
    const struct weights *w, const char *key, bool optional, int *rc, struct lutra_error *err)
{
    const struct gguf_kv *kv = weights_kv_find(w, key);
    *rc = kv || optional
              ? 0
              : lutra_fail(err, LUTRA_E_NOT_FOUND, "%s: key '%s' is missing", w->file[0].label, show_name(key).s);
    return kv;
}

static int wrong_type(const struct weights *w, const struct gguf_kv *kv, const char *want, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' is %s%s, not %s", w->file[0].label, show_name(kv->key).s,
        kv->kind == GGUF_ARRAY ? "an array of " : "of type ", gguf_kind_name(kv->elem), want);
}

static int out_of_range(const struct weights *w, const struct gguf_kv *kv, const char *want, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' holds a value that does not fit in %s", w->file[0].label,
        show_name(kv->key).s, want);
}

static bool is_integer(const struct gguf_kv *kv)
{
    return kv->elem != GGUF_F32 && kv->elem != GGUF_F64 && kv->elem != GGUF_STRING && kv->elem != GGUF_BOOL;
}

static bool is_scalar(const struct gguf_kv *kv)
{
    return kv->kind != GGUF_ARRAY;
}

static int element_u64(
    const struct weights *w, const struct gguf_kv *kv, uint64_t i, uint64_t max, uint64_t *out, struct lutra_error *err)
{
    const char *want = max == UINT32_MAX ? "an unsigned 32-bit integer" : "an unsigned 64-bit integer";
    uint64_t v = 0;
    if (!is_integer(kv)) return wrong_type(w, kv, "an integer", err);
    if (!gguf_kv_u64(kv, i, &v) || v > max) return out_of_range(w, kv, want, err);
    *out = v;
    return 0;
}

static int element_i32(
    const struct weights *w, const struct gguf_kv *kv, uint64_t i, int32_t *out, struct lutra_error *err)
{
    int64_t v;
    if (!is_integer(kv)) return wrong_type(w, kv, "an integer", err);
    if (!gguf_kv_i64(kv, i, &v) || v < INT32_MIN || v > INT32_MAX)
        return out_of_range(w, kv, "a signed 32-bit integer", err);
    *out = (int32_t)v;
    return 0;
}

static int element_f32(
    const struct weights *w, const struct gguf_kv *kv, uint64_t i, float *out, struct lutra_error *err)
{
    double v;
    if (!gguf_kv_f64(kv, i, &v)) return wrong_type(w, kv, "a float", err);
    if (isfinite(v) && fabs(v) > 3.4028234663852886e38) return out_of_range(w, kv, "a float", err);
    *out = (float)v;
    return 0;
}

static int get_u32(const struct weights *w, const char *key, bool optional, uint32_t *out, struct lutra_error *err)
{
    int rc;
    uint64_t v = 0;
    const struct gguf_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (!is_scalar(kv)) return wrong_type(w, kv, "an integer", err);
    TRY(element_u64(w, kv, 0, UINT32_MAX, &v, err));
    *out = (uint32_t)v;
    return 0;
}

static int get_u64(const struct weights *w, const char *key, bool optional, uint64_t *out, struct lutra_error *err)
{
    int rc;
    const struct gguf_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (!is_scalar(kv)) return wrong_type(w, kv, "an integer", err);
    return element_u64(w, kv, 0, UINT64_MAX, out, err);
}

static int get_f32(const struct weights *w, const char *key, bool optional, float *out, struct lutra_error *err)
{
    int rc;
    const struct gguf_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (!is_scalar(kv)) return wrong_type(w, kv, "a float", err);
    return element_f32(w, kv, 0, out, err);
}

static int get_bool(const struct weights *w, const char *key, bool optional, bool *out, struct lutra_error *err)
{
    int rc;
    const struct gguf_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (kv->kind != GGUF_BOOL) return wrong_type(w, kv, "a bool", err);
    *out = *(const uint8_t *)kv->data != 0;
    return 0;
}

static int get_str(
    const struct weights *w, const char *key, bool optional, struct gguf_str *out, struct lutra_error *err)
{
    int rc;
    const struct gguf_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (kv->kind != GGUF_STRING) return wrong_type(w, kv, "a string", err);
    *out = gguf_kv_str(kv, 0);
    return 0;
}

static int get_layer_u32(
    const struct weights *w, const char *key, uint32_t layer, bool optional, uint32_t *out, struct lutra_error *err)
{
    int rc;
    uint64_t v = 0;
    const struct gguf_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (!is_scalar(kv) && layer >= kv->n)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' has %llu values, none for layer %u", w->file[0].label,
            show_name(key).s, (unsigned long long)kv->n, (unsigned)layer);
    TRY(element_u64(w, kv, is_scalar(kv) ? 0 : layer, UINT32_MAX, &v, err));
    *out = (uint32_t)v;
    return 0;
}

/* ---- get: the key must be there; opt: it may be missing ---- */

int weights_get_u32(const struct weights *w, const char *key, uint32_t *out, struct lutra_error *err)
{
    return get_u32(w, key, false, out, err);
}

int weights_opt_u32(const struct weights *w, const char *key, uint32_t *out, struct lutra_error *err)
{
    return get_u32(w, key, true, out, err);
}

int weights_get_u64(const struct weights *w, const char *key, uint64_t *out, struct lutra_error *err)
{
    return get_u64(w, key, false, out, err);
}

int weights_get_f32(const struct weights *w, const char *key, float *out, struct lutra_error *err)
{
    return get_f32(w, key, false, out, err);
}

int weights_opt_f32(const struct weights *w, const char *key, float *out, struct lutra_error *err)
{
    return get_f32(w, key, true, out, err);
}

int weights_get_bool(const struct weights *w, const char *key, bool *out, struct lutra_error *err)
{
    return get_bool(w, key, false, out, err);
}

int weights_opt_bool(const struct weights *w, const char *key, bool *out, struct lutra_error *err)
{
    return get_bool(w, key, true, out, err);
}

int weights_get_str(const struct weights *w, const char *key, struct gguf_str *out, struct lutra_error *err)
{
    return get_str(w, key, false, out, err);
}

int weights_opt_str(const struct weights *w, const char *key, struct gguf_str *out, struct lutra_error *err)
{
    return get_str(w, key, true, out, err);
}

int weights_get_layer_u32(
    const struct weights *w, const char *key, uint32_t layer, uint32_t *out, struct lutra_error *err)
{
    return get_layer_u32(w, key, layer, false, out, err);
}

int weights_opt_layer_u32(
    const struct weights *w, const char *key, uint32_t layer, uint32_t *out, struct lutra_error *err)
{
    return get_layer_u32(w, key, layer, true, out, err);
}

/* ---- arrays ---- */

static int get_any_array(const struct weights *w, const char *key, const struct gguf_kv **out, struct lutra_error *err)
{
    int rc;
    *out = look_up(w, key, false, &rc, err);
    if (!*out) return rc;
    if (is_scalar(*out)) return wrong_type(w, *out, "an array", err);
    return 0;
}

int weights_get_array(
    const struct weights *w, const char *key, enum gguf_kind elem, const struct gguf_kv **out, struct lutra_error *err)
{
    char want[32];
    *out = NULL;
    const struct gguf_kv *kv;
    TRY(get_any_array(w, key, &kv, err));
    if (kv->elem != elem) {
        snprintf(want, sizeof want, "an array of %s", gguf_kind_name(elem));
        return wrong_type(w, kv, want, err);
    }
    *out = kv;
    return 0;
}

/* The array to copy from; checks that its length fits, and reports it. */
static int get_for_copy(const struct weights *w, const char *key, uint64_t n_max, uint64_t *n,
    const struct gguf_kv **kv, struct lutra_error *err)
{
    TRY(get_any_array(w, key, kv, err));
    if ((*kv)->n > n_max)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' has %llu values, at most %llu are expected",
            w->file[0].label, show_name(key).s, (unsigned long long)(*kv)->n, (unsigned long long)n_max);
    *n = (*kv)->n;
    return 0;
}

int weights_copy_i32(
    const struct weights *w, const char *key, int32_t *out, uint64_t n_max, uint64_t *n, struct lutra_error *err)
{
    const struct gguf_kv *kv;
    TRY(get_for_copy(w, key, n_max, n, &kv, err));
    for (uint64_t i = 0; out && i < kv->n; i++) TRY(element_i32(w, kv, i, &out[i], err));
    return 0;
}

int weights_copy_f32(
    const struct weights *w, const char *key, float *out, uint64_t n_max, uint64_t *n, struct lutra_error *err)
{
    const struct gguf_kv *kv;
    TRY(get_for_copy(w, key, n_max, n, &kv, err));
    for (uint64_t i = 0; out && i < kv->n; i++) TRY(element_f32(w, kv, i, &out[i], err));
    return 0;
}
