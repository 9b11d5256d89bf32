/* SPDX-License-Identifier: MIT
 *
 * One value of a key.  Values lie in the file at any alignment: they are copied out.
 */
#include "files/gguf.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

const char *gguf_kind_name(uint32_t kind)
{
    return kind < sizeof kind_names / sizeof *kind_names ? kind_names[kind] : "?";
}

struct gguf_str gguf_kv_str(const struct gguf_kv *kv, uint64_t i)
{
    const char *at = (const char *)kv->data + kv->offset[i];
    uint64_t n;
    memcpy(&n, at, 8);
    return (struct gguf_str){at + 8, n};
}

static const uint8_t *element(const struct gguf_kv *kv, uint64_t i)
{
    return (const uint8_t *)kv->data + i * gguf_kind_bytes(kv->elem);
}

/* An integer of any width, sign-extended; *negative tells a u64 above INT64_MAX from a negative number. */
static bool load_integer(const struct gguf_kv *kv, uint64_t i, uint64_t *out, bool *negative)
{
    const uint8_t *p = element(kv, i);
    uint64_t bits = 0;
    size_t n = gguf_kind_bytes(kv->elem);
    switch (kv->elem) {
    case GGUF_F32:
    case GGUF_F64:
    case GGUF_STRING:
    case GGUF_ARRAY: return false;
    default: break;
    }
    for (size_t k = 0; k < n; k++) bits |= (uint64_t)p[k] << 8 * k;
    bool is_signed = kv->elem == GGUF_I8 || kv->elem == GGUF_I16 || kv->elem == GGUF_I32 || kv->elem == GGUF_I64;
    *negative = is_signed && p[n - 1] & 0x80;
    if (*negative && n < 8) bits |= ~(uint64_t)0 << 8 * n;
    *out = bits;
    return true;
}

bool gguf_kv_i64(const struct gguf_kv *kv, uint64_t i, int64_t *out)
{
    uint64_t bits;
    bool negative;
    if (!load_integer(kv, i, &bits, &negative) || (!negative && bits > INT64_MAX)) return false;
    memcpy(out, &bits, sizeof *out);
    return true;
}

bool gguf_kv_u64(const struct gguf_kv *kv, uint64_t i, uint64_t *out)
{
    uint64_t bits;
    bool negative;
    if (!load_integer(kv, i, &bits, &negative) || negative) return false;
    *out = bits;
    return true;
}

bool gguf_kv_f64(const struct gguf_kv *kv, uint64_t i, double *out)
{
    float f;
    if (kv->elem == GGUF_F64) {
        memcpy(out, element(kv, i), sizeof *out);
        return true;
    }
    if (kv->elem != GGUF_F32) return false;
    memcpy(&f, element(kv, i), sizeof f);
    *out = f;
    return true;
}

bool gguf_kv_number(const struct gguf_kv *kv, double *out)
{
    int64_t whole;
    char text[32], *end;
    if (kv->kind == GGUF_ARRAY) return false;
    if (kv->kind != GGUF_STRING) {
        if (gguf_kv_f64(kv, 0, out)) return true;
        if (!gguf_kv_i64(kv, 0, &whole)) return false;
        *out = (double)whole;
        return true;
    }
    struct gguf_str s = gguf_kv_str(kv, 0);
    if (s.n == 0 || s.n >= sizeof text) return false;
    memcpy(text, s.s, s.n);
    text[s.n] = 0;
    *out = strtod(text, &end);
    return *end == 0;
}
