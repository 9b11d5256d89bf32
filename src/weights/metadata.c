/* SPDX-License-Identifier: MIT
 *
 * Typed access to metadata.  Values lie in the file at any alignment: they are copied out.
 */
#include "weights/weights_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

const char *weights_kind_name(uint32_t kind)
{
    return kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : "?";
}

size_t weights_kv_count(const struct weights *w)
{
    return w->file[0].n_kv;
}

const struct weights_kv *weights_kv_at(const struct weights *w, size_t i)
{
    return &w->file[0].kv[i];
}

const struct weights_kv *weights_kv_find(const struct weights *w, const char *key)
{
    return gguf_kv_find(&w->file[0], key);
}

/* ---- one element ---- */

struct weights_str weights_kv_str(const struct weights_kv *kv, uint64_t i)
{
    const char *at = (const char *)kv->data + kv->offset[i];
    uint64_t n;
    memcpy(&n, at, 8);
    return (struct weights_str){at + 8, n};
}

static const uint8_t *element(const struct weights_kv *kv, uint64_t i)
{
    return (const uint8_t *)kv->data + i * gguf_kind_bytes(kv->elem);
}

/* An integer of any width, sign-extended; *negative tells a u64 above INT64_MAX from a negative number. */
static bool load_integer(const struct weights_kv *kv, uint64_t i, uint64_t *out, bool *negative)
{
    const uint8_t *p = element(kv, i);
    uint64_t bits = 0;
    size_t n = gguf_kind_bytes(kv->elem);
    switch (kv->elem) {
    case WEIGHTS_F32:
    case WEIGHTS_F64:
    case WEIGHTS_STRING:
    case WEIGHTS_ARRAY: return false;
    default: break;
    }
    for (size_t k = 0; k < n; k++) bits |= (uint64_t)p[k] << 8 * k;
    bool is_signed =
        kv->elem == WEIGHTS_I8 || kv->elem == WEIGHTS_I16 || kv->elem == WEIGHTS_I32 || kv->elem == WEIGHTS_I64;
    *negative = is_signed && p[n - 1] & 0x80;
    if (*negative && n < 8) bits |= ~(uint64_t)0 << 8 * n;
    *out = bits;
    return true;
}

bool weights_kv_i64(const struct weights_kv *kv, uint64_t i, int64_t *out)
{
    uint64_t bits;
    bool negative;
    if (!load_integer(kv, i, &bits, &negative) || (!negative && bits > INT64_MAX)) return false;
    memcpy(out, &bits, sizeof *out);
    return true;
}

bool weights_kv_u64(const struct weights_kv *kv, uint64_t i, uint64_t *out)
{
    uint64_t bits;
    bool negative;
    if (!load_integer(kv, i, &bits, &negative) || negative) return false;
    *out = bits;
    return true;
}

bool weights_kv_f64(const struct weights_kv *kv, uint64_t i, double *out)
{
    float f;
    if (kv->elem == WEIGHTS_F64) {
        memcpy(out, element(kv, i), sizeof *out);
        return true;
    }
    if (kv->elem != WEIGHTS_F32) return false;
    memcpy(&f, element(kv, i), sizeof f);
    *out = f;
    return true;
}

/* ---- by key ---- */

/* NULL without an error text when the key is missing and optional: then *rc is 0. */
static const struct weights_kv *look_up(
    const struct weights *w, const char *key, bool optional, int *rc, struct lutra_error *err)
{
    const struct weights_kv *kv = weights_kv_find(w, key);
    *rc = kv || optional
              ? 0
              : lutra_fail(err, LUTRA_E_NOT_FOUND, "%s: key '%s' is missing", w->file[0].label, show_name(key).s);
    return kv;
}

static int wrong_type(const struct weights *w, const struct weights_kv *kv, const char *want, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' is %s%s, not %s", w->file[0].label, show_name(kv->key).s,
        kv->kind == WEIGHTS_ARRAY ? "an array of " : "of type ", weights_kind_name(kv->elem), want);
}

static int out_of_range(const struct weights *w, const struct weights_kv *kv, const char *want, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' holds a value that does not fit in %s", w->file[0].label,
        show_name(kv->key).s, want);
}

static bool is_integer(const struct weights_kv *kv)
{
    return kv->elem != WEIGHTS_F32 && kv->elem != WEIGHTS_F64 && kv->elem != WEIGHTS_STRING && kv->elem != WEIGHTS_BOOL;
}

static bool is_scalar(const struct weights_kv *kv)
{
    return kv->kind != WEIGHTS_ARRAY;
}

static int element_u64(const struct weights *w, const struct weights_kv *kv, uint64_t i, uint64_t max, uint64_t *out,
    struct lutra_error *err)
{
    const char *want = max == UINT32_MAX ? "an unsigned 32-bit integer" : "an unsigned 64-bit integer";
    uint64_t v = 0;
    if (!is_integer(kv)) return wrong_type(w, kv, "an integer", err);
    if (!weights_kv_u64(kv, i, &v) || v > max) return out_of_range(w, kv, want, err);
    *out = v;
    return 0;
}

static int element_i32(
    const struct weights *w, const struct weights_kv *kv, uint64_t i, int32_t *out, struct lutra_error *err)
{
    int64_t v;
    if (!is_integer(kv)) return wrong_type(w, kv, "an integer", err);
    if (!weights_kv_i64(kv, i, &v) || v < INT32_MIN || v > INT32_MAX)
        return out_of_range(w, kv, "a signed 32-bit integer", err);
    *out = (int32_t)v;
    return 0;
}

static int element_f32(
    const struct weights *w, const struct weights_kv *kv, uint64_t i, float *out, struct lutra_error *err)
{
    double v;
    if (!weights_kv_f64(kv, i, &v)) return wrong_type(w, kv, "a float", err);
    if (isfinite(v) && fabs(v) > 3.4028234663852886e38) return out_of_range(w, kv, "a float", err);
    *out = (float)v;
    return 0;
}

static int get_u32(const struct weights *w, const char *key, bool optional, uint32_t *out, struct lutra_error *err)
{
    int rc;
    uint64_t v = 0;
    const struct weights_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (!is_scalar(kv)) return wrong_type(w, kv, "an integer", err);
    TRY(element_u64(w, kv, 0, UINT32_MAX, &v, err));
    *out = (uint32_t)v;
    return 0;
}

static int get_u64(const struct weights *w, const char *key, bool optional, uint64_t *out, struct lutra_error *err)
{
    int rc;
    const struct weights_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (!is_scalar(kv)) return wrong_type(w, kv, "an integer", err);
    return element_u64(w, kv, 0, UINT64_MAX, out, err);
}

static int get_f32(const struct weights *w, const char *key, bool optional, float *out, struct lutra_error *err)
{
    int rc;
    const struct weights_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (!is_scalar(kv)) return wrong_type(w, kv, "a float", err);
    return element_f32(w, kv, 0, out, err);
}

static int get_bool(const struct weights *w, const char *key, bool optional, bool *out, struct lutra_error *err)
{
    int rc;
    const struct weights_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (kv->kind != WEIGHTS_BOOL) return wrong_type(w, kv, "a bool", err);
    *out = *element(kv, 0) != 0;
    return 0;
}

static int get_str(
    const struct weights *w, const char *key, bool optional, struct weights_str *out, struct lutra_error *err)
{
    int rc;
    const struct weights_kv *kv = look_up(w, key, optional, &rc, err);
    if (!kv) return rc;
    if (kv->kind != WEIGHTS_STRING) return wrong_type(w, kv, "a string", err);
    *out = weights_kv_str(kv, 0);
    return 0;
}

static int get_layer_u32(
    const struct weights *w, const char *key, uint32_t layer, bool optional, uint32_t *out, struct lutra_error *err)
{
    int rc;
    uint64_t v = 0;
    const struct weights_kv *kv = look_up(w, key, optional, &rc, err);
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

int weights_get_str(const struct weights *w, const char *key, struct weights_str *out, struct lutra_error *err)
{
    return get_str(w, key, false, out, err);
}

int weights_opt_str(const struct weights *w, const char *key, struct weights_str *out, struct lutra_error *err)
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

static int get_any_array(
    const struct weights *w, const char *key, const struct weights_kv **out, struct lutra_error *err)
{
    int rc;
    *out = look_up(w, key, false, &rc, err);
    if (!*out) return rc;
    if (is_scalar(*out)) return wrong_type(w, *out, "an array", err);
    return 0;
}

int weights_get_array(const struct weights *w, const char *key, enum weights_kind elem, const struct weights_kv **out,
    struct lutra_error *err)
{
    char want[32];
    *out = NULL;
    const struct weights_kv *kv;
    TRY(get_any_array(w, key, &kv, err));
    if (kv->elem != elem) {
        snprintf(want, sizeof want, "an array of %s", weights_kind_name(elem));
        return wrong_type(w, kv, want, err);
    }
    *out = kv;
    return 0;
}

/* The array to copy from; checks that its length fits, and reports it. */
static int get_for_copy(const struct weights *w, const char *key, uint64_t n_max, uint64_t *n,
    const struct weights_kv **kv, struct lutra_error *err)
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
    const struct weights_kv *kv;
    TRY(get_for_copy(w, key, n_max, n, &kv, err));
    for (uint64_t i = 0; out && i < kv->n; i++) TRY(element_i32(w, kv, i, &out[i], err));
    return 0;
}

int weights_copy_f32(
    const struct weights *w, const char *key, float *out, uint64_t n_max, uint64_t *n, struct lutra_error *err)
{
    const struct weights_kv *kv;
    TRY(get_for_copy(w, key, n_max, n, &kv, err));
    for (uint64_t i = 0; out && i < kv->n; i++) TRY(element_f32(w, kv, i, &out[i], err));
    return 0;
}

bool weights_kv_number(const struct weights_kv *kv, double *out)
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
