/* SPDX-License-Identifier: MIT
 *
 * Parses a GGUF header out of a mapping.  The file is hostile: nothing is used as a size, count or offset before it
 * was compared with the bytes that are left.  Layout: docs/FORMATS.md.
 */
#include "files/file.h"
#include "quant/formats.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

/* Where the parser stands.  Texts name the file; `where` of the error is the byte offset. */
struct cursor {
    const struct model_file *file;
    size_t at;
    struct lutra_error *err;
};

/* The comma lets the compiler see that the value is an error, so that it can follow what TRY leaves set. */
#define FAIL(c, code, ...) (lutra_fail_at((c)->err, code, (c)->at, __VA_ARGS__), code)

static size_t left(const struct cursor *c)
{
    return c->file->bytes - c->at;
}

static int take(struct cursor *c, uint64_t n, const char *what, const uint8_t **out)
{
    if (n > left(c))
        return FAIL(c, LUTRA_E_FORMAT, "%s: %s needs %llu bytes, %zu are left in the file", c->file->label, what,
            (unsigned long long)n, left(c));
    *out = c->file->base + c->at;
    c->at += n;
    return 0;
}

static int take_u32(struct cursor *c, const char *what, uint32_t *out)
{
    const uint8_t *p;
    TRY(take(c, 4, what, &p));
    memcpy(out, p, 4);
    return 0;
}

static int take_u64(struct cursor *c, const char *what, uint64_t *out)
{
    const uint8_t *p;
    TRY(take(c, 8, what, &p));
    memcpy(out, p, 8);
    return 0;
}

/* A key or tensor name: copied, because it becomes a C string. */
static int take_name(struct cursor *c, struct names *names, const char *what, uint64_t max, const char **out)
{
    uint64_t n;
    const uint8_t *p;
    TRY(take_u64(c, what, &n));
    if (n == 0 || n > max)
        return FAIL(c, LUTRA_E_FORMAT, "%s: a %s of %llu bytes (1 to %llu are allowed)", c->file->label, what,
            (unsigned long long)n, (unsigned long long)max);
    TRY(take(c, n, what, &p));
    if (memchr(p, 0, n))
        return FAIL(c, LUTRA_E_FORMAT, "%s: %s '%s' contains a NUL byte", c->file->label, what,
            show_bytes((const char *)p, n).s);
    *out = names_add(names, (const char *)p, n);
    return *out ? 0 : FAIL(c, LUTRA_E_NO_MEMORY, "%s: no memory for names", c->file->label);
}

/* ---- header ---- */

static int check_version(struct cursor *c, uint32_t version)
{
    const char *label = c->file->label;
    if (version == 2 || version == 3) return 0;
    if (version == 1)
        return FAIL(
            c, LUTRA_E_UNSUPPORTED, "%s: GGUF version 1 is not supported (2 and 3 are): convert it again", label);
    if ((version & 0xffffffu) == 0)
        return FAIL(c, LUTRA_E_UNSUPPORTED, "%s: a big-endian GGUF file; only little-endian ones are supported", label);
    return FAIL(c, LUTRA_E_UNSUPPORTED, "%s: GGUF version %u is not supported (2 and 3 are)", label, (unsigned)version);
}

/* What the file is instead, as people bring it. */
static const char *other_format(const uint8_t *p, size_t n)
{
    static const char lfs[] = "version https://git-lfs";
    if (n >= sizeof lfs - 1 && memcmp(p, lfs, sizeof lfs - 1) == 0)
        return "a Git LFS pointer, not the file itself ('git lfs pull' fetches it)";
    if (n > 9 && p[8] == '{' && p[7] == 0)
        return "a safetensors file; name the folder it lies in, with config.json and tokenizer.json";
    if (n >= 4 && memcmp(p, "PK\3\4", 4) == 0)
        return "a zip archive, as PyTorch writes; convert the model to GGUF first";
    if (n >= 2 && p[0] == 0x80 && p[1] <= 5) return "a Python pickle; convert the model to GGUF first";
    if (n >= 4 && (memcmp(p, "lmgg", 4) == 0 || memcmp(p, "tjgg", 4) == 0 || memcmp(p, "fmgg", 4) == 0))
        return "a GGML file from before GGUF; convert the model again";
    return "not a GGUF file (no 'GGUF' at its start)";
}

static int take_header(struct cursor *c, uint64_t *n_tensor, uint64_t *n_kv)
{
    const uint8_t *magic;
    uint32_t version;
    const char *label = c->file->label;
    if (c->file->bytes < 4 || memcmp(c->file->base, "GGUF", 4) != 0) {
        if (c->file->bytes >= 4 && memcmp(c->file->base, "FUGG", 4) == 0)
            return FAIL(
                c, LUTRA_E_UNSUPPORTED, "%s: a big-endian GGUF file; only little-endian ones are supported", label);
        return FAIL(c, LUTRA_E_FORMAT, "%s: %s", label, other_format(c->file->base, c->file->bytes));
    }
    TRY(take(c, 4, "magic", &magic));
    TRY(take_u32(c, "version", &version));
    TRY(check_version(c, version));
    TRY(take_u64(c, "tensor count", n_tensor));
    TRY(take_u64(c, "key count", n_kv));
    if (*n_kv > left(c) / GGUF_MIN_KV_BYTES)
        return FAIL(c, LUTRA_E_FORMAT, "%s: %llu keys do not fit in the %zu bytes left", label,
            (unsigned long long)*n_kv, left(c));
    return 0;
}

/* ---- metadata ---- */

size_t gguf_kind_bytes(uint32_t kind)
{
    switch (kind) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_BOOL: return 1;
    case GGUF_U16:
    case GGUF_I16: return 2;
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_F32: return 4;
    case GGUF_U64:
    case GGUF_I64:
    case GGUF_F64: return 8;
    default: return 0;
    }
}

/* n strings, walked once: their offsets are kept so that element i is found at once.  8 bytes of memory for each
 * string, which has at least 8 bytes in the file. */
static int take_strings(struct cursor *c, struct gguf_kv *kv)
{
    if (kv->n > left(c) / 8)
        return FAIL(c, LUTRA_E_FORMAT, "%s: key '%s': %llu strings do not fit in the %zu bytes left", c->file->label,
            show_name(kv->key).s, (unsigned long long)kv->n, left(c));
    uint64_t *offset = malloc(kv->n ? kv->n * sizeof *offset : 1);
    if (!offset) return FAIL(c, LUTRA_E_NO_MEMORY, "%s: no memory for key '%s'", c->file->label, show_name(kv->key).s);
    kv->offset = offset;
    size_t start = c->at;
    for (uint64_t i = 0; i < kv->n; i++) {
        uint64_t n;
        const uint8_t *p;
        offset[i] = c->at - start;
        TRY(take_u64(c, "string length", &n));
        if (n > left(c))
            return FAIL(c, LUTRA_E_FORMAT, "%s: key '%s': a string of %llu bytes, %zu are left in the file",
                c->file->label, show_name(kv->key).s, (unsigned long long)n, left(c));
        TRY(take(c, n, "string", &p));
    }
    return 0;
}

static int take_values(struct cursor *c, struct gguf_kv *kv)
{
    const uint8_t *p;
    size_t bytes;
    kv->data = c->file->base + c->at;
    if (kv->elem == GGUF_STRING) return take_strings(c, kv);
    if (LUTRA_MUL_OVERFLOWS(kv->n, gguf_kind_bytes(kv->elem), &bytes) || bytes > left(c))
        return FAIL(c, LUTRA_E_FORMAT, "%s: key '%s': %llu values of type %s do not fit in the %zu bytes left",
            c->file->label, show_name(kv->key).s, (unsigned long long)kv->n, gguf_kind_name(kv->elem), left(c));
    TRY(take(c, bytes, "value", &p));
    for (size_t i = 0; kv->elem == GGUF_BOOL && i < bytes; i++)
        if (p[i] > 1)
            return FAIL(
                c, LUTRA_E_FORMAT, "%s: key '%s': a bool of value %d", c->file->label, show_name(kv->key).s, p[i]);
    return 0;
}

static int take_kv(struct cursor *c, struct names *names, struct gguf_kv *kv)
{
    uint32_t kind, elem;
    TRY(take_name(c, names, "key", GGUF_MAX_KEY, &kv->key));
    TRY(take_u32(c, "value type", &kind));
    elem = kind;
    kv->n = 1;
    if (kind == GGUF_ARRAY) {
        TRY(take_u32(c, "array element type", &elem));
        TRY(take_u64(c, "array length", &kv->n));
        if (elem == GGUF_ARRAY)
            return FAIL(c, LUTRA_E_UNSUPPORTED, "%s: key '%s': arrays of arrays are not supported", c->file->label,
                show_name(kv->key).s);
    }
    if (elem != GGUF_STRING && gguf_kind_bytes(elem) == 0)
        return FAIL(c, LUTRA_E_FORMAT, "%s: key '%s': value type %u does not exist", c->file->label,
            show_name(kv->key).s, (unsigned)elem);
    kv->kind = (enum gguf_kind)kind;
    kv->elem = (enum gguf_kind)elem;
    return take_values(c, kv);
}

static int compare_keys(const void *a, const void *b)
{
    const struct gguf_kv *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static int take_metadata(struct cursor *c, struct model_file *file, uint64_t n_kv)
{
    file->kv = calloc(n_kv + 1, sizeof *file->kv);
    file->kv_by_name = calloc(n_kv + 1, sizeof *file->kv_by_name);
    if (!file->kv || !file->kv_by_name) return FAIL(c, LUTRA_E_NO_MEMORY, "%s: no memory for metadata", file->label);
    for (uint64_t i = 0; i < n_kv; i++) {
        file->n_kv = i + 1; /* so that a half-read key is freed */
        TRY(take_kv(c, &file->names, &file->kv[i]));
        file->kv_by_name[i] = &file->kv[i];
    }
    qsort(file->kv_by_name, file->n_kv, sizeof *file->kv_by_name, compare_keys);
    for (size_t i = 1; i < file->n_kv; i++)
        if (strcmp(file->kv_by_name[i - 1]->key, file->kv_by_name[i]->key) == 0)
            return FAIL(
                c, LUTRA_E_FORMAT, "%s: key '%s' occurs twice", file->label, show_name(file->kv_by_name[i]->key).s);
    return 0;
}

const struct gguf_kv *gguf_kv_find(const struct model_file *file, const char *key)
{
    size_t lo = 0, hi = file->n_kv;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(key, file->kv_by_name[mid]->key);
        if (order == 0) return file->kv_by_name[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

int gguf_get_uint(const struct model_file *file, const char *key, uint64_t max, uint64_t *out, struct lutra_error *err)
{
    const struct gguf_kv *kv = gguf_kv_find(file, key);
    uint64_t v = 0;
    if (kv && (kv->kind == GGUF_ARRAY || !gguf_kv_u64(kv, 0, &v) || v > max))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: key '%s' is not an integer from 0 to %llu", file->label, key,
            (unsigned long long)max);
    *out = v;
    return 0;
}

/* ---- tensors ---- */

/* Types that ik_llama.cpp writes into files it calls GGUF. */
static const char *foreign_type(uint32_t type)
{
    static const struct {
        uint32_t type;
        const char *name;
    } ik[] = {{97, "Q8_0_X4"}, {98, "Q8_1_X4"}, {99, "Q8_2_X4"}, {133, "Q6_0"}, {134, "IQ1_BN"}, {135, "IQ2_BN"},
        {136, "Q8_K64"}, {137, "IQ2_K"}, {138, "IQ3_K"}, {139, "IQ4_K"}, {140, "IQ5_K"}, {141, "IQ6_K"},
        {144, "IQ4_KS"}, {145, "IQ2_KS"}, {146, "IQ4_KSS"}, {147, "Q8_K16"}, {148, "Q8_K32"}, {149, "Q8_KR8"},
        {150, "Q8_K128"}, {151, "Q8_KV"}, {152, "IQ5_KS"}, {153, "IQ2_KT"}, {154, "IQ3_KT"}, {155, "IQ4_KT"},
        {156, "IQ3_KS"}, {157, "IQ2_KL"}, {158, "IQ1_KT"}, {202, "Q4_0_R8"}, {206, "Q5_0_R4"}, {208, "Q8_0_R8"},
        {210, "Q2_K_R4"}, {211, "Q3_K_R4"}, {212, "Q4_K_R4"}, {213, "Q5_K_R4"}, {214, "Q6_K_R4"}, {216, "IQ2_XXS_R4"},
        {217, "IQ2_XS_R4"}, {218, "IQ3_XXS_R4"}, {219, "IQ1_S_R4"}, {220, "IQ4_NL_R4"}, {221, "IQ3_S_R4"},
        {222, "IQ2_S_R4"}, {223, "IQ4_XS_R8"}, {229, "IQ1_M_R4"}, {230, "BF16_R16"}, {233, "Q6_0_R4"},
        {335, "IQ2_BN_R4"}, {337, "IQ2_K_R4"}, {338, "IQ3_K_R4"}, {339, "IQ4_K_R4"}, {340, "IQ5_K_R4"},
        {344, "IQ4_KS_R4"}, {352, "IQ5_KS_R4"}, {353, "MXFP4_R8"}, {397, "Q8_K_R16"}, {398, "Q8_KV_R8"},
        {399, "Q8_K_R8"}};
    for (size_t i = 0; i < sizeof ik / sizeof *ik; i++)
        if (ik[i].type == type) return ik[i].name;
    return NULL;
}

static bool is_bitnet(const struct model_file *file)
{
    const struct gguf_kv *arch = gguf_kv_find(file, "general.architecture");
    if (!arch || arch->elem != GGUF_STRING || arch->n != 1) return false;
    struct gguf_str s = gguf_kv_str(arch, 0);
    return s.n >= 6 && memcmp(s.s, "bitnet", 6) == 0;
}

/* Types 36 to 39 are bitnet.cpp's in its files, told by the architecture or by their file type: 40, or, of TL1 and
 * TL2, the number of the type itself, which its converter writes.  Elsewhere 36 to 38 were removed, but 39 is MXFP4,
 * and file types 39 and 40 are those of NVFP4 and Q1_0: TL2 is told by its room (refuse_tl2). */
static bool is_bitnet_file_type(const struct model_file *file, uint32_t type)
{
    const struct gguf_kv *kind = gguf_kv_find(file, "general.file_type");
    int64_t number = 0;
    return kind && gguf_kv_i64(kind, 0, &number) &&
           (number == I2S_FILE_TYPE || (type >= GGUF_TL1 && number == (int64_t)type));
}

static bool is_bitnet_cpp(const struct model_file *file, uint32_t type)
{
    return type >= GGUF_I2_S && type < GGUF_TL2 && (is_bitnet(file) || is_bitnet_file_type(file, type));
}

/* Two bits for each element, then the scale of all (foreign.c). */
static int take_i2s(struct cursor *c, struct tensor *t, uint64_t n)
{
    if (t->ne[0] % QUANT_SUPER)
        return FAIL(c, LUTRA_E_UNSUPPORTED, "%s: tensor '%s': rows of %lld in I2_S: only multiples of %d",
            c->file->label, show_name(t->name).s, (long long)t->ne[0], QUANT_SUPER);
    t->bytes = n / 4 + I2S_TAIL;
    return 0;
}

static int refuse_bitnet_cpp(struct cursor *c, const char *name, uint32_t type)
{
    static const char *const names[] = {"I8_S", "TL1", "TL2"};
    return FAIL(c, LUTRA_E_UNSUPPORTED,
        "%s: tensor '%s' has type %s of bitnet.cpp (%u), which is not supported: make TQ2_0 or TQ1_0 of the float "
        "model",
        c->file->label, show_name(name).s, names[type - GGUF_I8_S], (unsigned)type);
}

static int check_type(struct cursor *c, const char *name, uint32_t type)
{
    const char *label = c->file->label, *known = quant_in_gguf(type) ? quant_type_name(type) : NULL;
    const char *ik = foreign_type(type);
    if (is_bitnet_cpp(c->file, type)) return type == GGUF_I2_S ? 0 : refuse_bitnet_cpp(c, name, type);
    if (known && quant_info_of(type)) return 0;
    if (!known && ik)
        return FAIL(c, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' has type %s of ik_llama.cpp (%u), which is not supported",
            label, show_name(name).s, ik, (unsigned)type);
    if (type == 142 || type == 143)
        return FAIL(c, LUTRA_E_UNSUPPORTED,
            "%s: tensor '%s' has PrismML's type %u, weights in a rotated basis, which is not supported", label,
            show_name(name).s, (unsigned)type);
    if (known)
        return FAIL(c, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' has type %s (%u), which is not supported", label,
            show_name(name).s, known, (unsigned)type);
    if (type == 4 || type == 5 || (type >= 31 && type <= 33) || (type >= 36 && type <= 38))
        return FAIL(c, LUTRA_E_UNSUPPORTED,
            "%s: tensor '%s' has type %u, which was removed from GGUF (or is bitnet.cpp's I8_S or TL1): convert "
            "the model again, ternary weights to TQ2_0 or TQ1_0",
            label, show_name(name).s, (unsigned)type);
    return FAIL(
        c, LUTRA_E_UNSUPPORTED, "%s: tensor '%s' has the unknown type %u", label, show_name(name).s, (unsigned)type);
}

/* ne[] from the file, and bytes from it. */
static int take_shape(struct cursor *c, struct tensor *t, uint32_t n_dim, uint64_t dim[4])
{
    const char *label = c->file->label;
    uint64_t rows = 1, total;
    size_t row_bytes;
    for (uint32_t i = 0; i < 4; i++) {
        dim[i] = 1;
        if (i < n_dim) TRY(take_u64(c, "dimension", &dim[i]));
        if (dim[i] == 0 || dim[i] > INT64_MAX)
            return FAIL(c, LUTRA_E_FORMAT, "%s: tensor '%s': dimension %u is %llu", label, show_name(t->name).s,
                (unsigned)i, (unsigned long long)dim[i]);
        t->ne[i] = (int64_t)dim[i];
    }
    uint32_t type;
    TRY(take_u32(c, "tensor type", &type));
    TRY(check_type(c, t->name, type));
    t->type = (enum quant_type)type;
    t->n_dim = (int)n_dim;
    while (t->n_dim > 2 && dim[t->n_dim - 1] == 1) t->n_dim--; /* some writers give every matrix four dimensions */
    for (int i = 0; i < 4; i++) {
        /* The element count must be an int64 too: others multiply ne[]. */
        if (LUTRA_MUL_OVERFLOWS(rows, dim[i], &rows) || rows > INT64_MAX)
            return FAIL(c, LUTRA_E_FORMAT, "%s: tensor '%s' has more than 2^63 elements", label, show_name(t->name).s);
    }
    if (type == GGUF_I2_S) return take_i2s(c, t, rows);
    if (quant_row_bytes(type, t->ne[0], &row_bytes) < 0)
        return FAIL(c, LUTRA_E_FORMAT, "%s: tensor '%s': a row of %lld is not whole %s blocks of %u", label,
            show_name(t->name).s, (long long)t->ne[0], quant_type_name(type),
            (unsigned)quant_info_of(type)->block_elems);
    if (LUTRA_MUL_OVERFLOWS(rows / dim[0], row_bytes, &total) || total > SIZE_MAX)
        return FAIL(c, LUTRA_E_FORMAT, "%s: tensor '%s' has more than 2^64 bytes", label, show_name(t->name).s);
    t->bytes = total;
    return 0;
}

/* Leaves the offset in t->data as a number until the data section's start is known. */
static int take_tensor(struct cursor *c, struct names *names, struct tensor *t, uint64_t *offset)
{
    uint32_t n_dim;
    uint64_t dim[4];
    TRY(take_name(c, names, "tensor name", GGUF_MAX_NAME, &t->name));
    TRY(take_u32(c, "number of dimensions", &n_dim));
    if (n_dim == 0 || n_dim > 4)
        return FAIL(c, LUTRA_E_FORMAT, "%s: tensor '%s' has %u dimensions (1 to 4 are allowed)", c->file->label,
            show_name(t->name).s, (unsigned)n_dim);
    TRY(take_shape(c, t, n_dim, dim));
    return take_u64(c, "tensor offset", offset);
}

static int get_alignment(struct model_file *file, uint64_t *alignment, struct lutra_error *err)
{
    uint64_t a = 0;
    TRY(gguf_get_uint(file, "general.alignment", UINT32_MAX, &a, err));
    *alignment = gguf_kv_find(file, "general.alignment") ? a : GGUF_ALIGNMENT;
    if (*alignment < 8 || (*alignment & (*alignment - 1)) != 0)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: general.alignment is %llu, not a power of two from 8 on",
            file->label, (unsigned long long)*alignment);
    return 0;
}

/* Of a tensor of type 42, if it has one scale for 128 elements. */
static size_t bytes_by_128(const struct tensor *t)
{
    return t->bytes / (2 * sizeof(struct quant_q2_0)) * Q2_0_128_BYTES;
}

/* Type 42 has one scale for 64 elements or, in older files, for 128, which take 34 bytes instead of 36.  It is the
 * latter where all such tensors lie as far apart as that takes, and one at least has no room for the former. */
static void decide_q2_0(struct model_file *file, const uint64_t *offset, uint64_t start, uint64_t alignment)
{
    bool close = false;
    for (size_t i = 0; i < file->n_tensor; i++) {
        const struct tensor *t = &file->tensor[i];
        uint64_t end = i + 1 < file->n_tensor ? offset[i + 1] : file->bytes - start;
        uint64_t bytes = bytes_by_128(t);
        if (t->type != QUANT_Q2_0) continue;
        if (t->ne[0] % 128 || end < offset[i] || bytes > end - offset[i] || end - offset[i] - bytes >= alignment)
            return;
        close |= t->bytes > end - offset[i];
    }
    for (size_t i = 0; close && i < file->n_tensor; i++)
        if (file->tensor[i].type == QUANT_Q2_0) {
            file->tensor[i].type = (enum quant_type)GGUF_Q2_0_128;
            file->tensor[i].bytes = bytes_by_128(&file->tensor[i]);
        }
}

/* A tensor of type 39 has 17 bytes for 32 elements as MXFP4, and less than half of that as TL2. */
static int refuse_tl2(struct cursor *c, const struct model_file *file, const uint64_t *offset, uint64_t start)
{
    const bool may_be = is_bitnet(file) || is_bitnet_file_type(file, GGUF_TL2);
    for (size_t i = 0; i < file->n_tensor && may_be; i++) {
        const struct tensor *t = &file->tensor[i];
        uint64_t end = i + 1 < file->n_tensor ? offset[i + 1] : file->bytes - start;
        if ((int)t->type == GGUF_TL2 && end >= offset[i] && end - offset[i] < t->bytes)
            return refuse_bitnet_cpp(c, t->name, GGUF_TL2);
    }
    return 0;
}

/* Offsets must be aligned, ascending and not overlapping, and end inside the file. */
static int place_tensors(struct cursor *c, struct model_file *file, const uint64_t *offset)
{
    uint64_t alignment, start, end_before = 0;
    TRY(get_alignment(file, &alignment, c->err));
    start = (c->at + alignment - 1) & ~(alignment - 1); /* at <= file size < 2^63: no overflow */
    if (start <= file->bytes) {
        decide_q2_0(file, offset, start, alignment);
        TRY(refuse_tl2(c, file, offset, start));
    }
    for (size_t i = 0; i < file->n_tensor; i++) {
        struct tensor *t = &file->tensor[i];
        uint64_t end;
        if (offset[i] % alignment)
            return FAIL(c, LUTRA_E_FORMAT, "%s: tensor '%s': offset %llu is not a multiple of %llu", file->label,
                show_name(t->name).s, (unsigned long long)offset[i], (unsigned long long)alignment);
        if (offset[i] < end_before)
            return FAIL(c, LUTRA_E_FORMAT, "%s: tensor '%s' at offset %llu overlaps the one before it", file->label,
                show_name(t->name).s, (unsigned long long)offset[i]);
        if (LUTRA_ADD_OVERFLOWS(offset[i], t->bytes, &end_before) || LUTRA_ADD_OVERFLOWS(start, end_before, &end) ||
            end > file->bytes)
            return FAIL(c, LUTRA_E_FORMAT, "%s: tensor '%s' (%zu bytes at offset %llu) ends outside the file",
                file->label, show_name(t->name).s, t->bytes, (unsigned long long)offset[i]);
        t->data = file->base + start + offset[i];
    }
    file->header_bytes = file->n_tensor ? start + offset[0] : file->bytes;
    return 0;
}

static int take_tensors(struct cursor *c, struct model_file *file, uint64_t n_tensor)
{
    uint64_t *offset = malloc((n_tensor + 1) * sizeof *offset);
    file->tensor = calloc(n_tensor + 1, sizeof *file->tensor);
    int rc = 0;
    if (!offset || !file->tensor) rc = FAIL(c, LUTRA_E_NO_MEMORY, "%s: no memory for tensors", file->label);
    for (uint64_t i = 0; rc == 0 && i < n_tensor; i++) {
        rc = take_tensor(c, &file->names, &file->tensor[i], &offset[i]);
        if (rc == 0) file->n_tensor = i + 1;
    }
    if (rc == 0) rc = place_tensors(c, file, offset);
    free(offset);
    return rc;
}

int gguf_parse(struct model_file *file, struct lutra_error *err)
{
    struct cursor c = {file, 0, err};
    uint64_t n_tensor, n_kv;
    TRY(take_header(&c, &n_tensor, &n_kv));
    TRY(take_metadata(&c, file, n_kv));
    if (n_tensor > left(&c) / GGUF_MIN_TENSOR_BYTES)
        return FAIL(&c, LUTRA_E_FORMAT, "%s: %llu tensors do not fit in the %zu bytes left", file->label,
            (unsigned long long)n_tensor, left(&c));
    return take_tensors(&c, file, n_tensor);
}
