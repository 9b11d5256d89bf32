/* SPDX-License-Identifier: MIT */
#include "fuzz/gguf/mutate.h"

#define FUZZ_SECOND_FILE
#include "fuzz/fuzz.h"
#include "quant/quant.h"
#include "files/gguf_write.h"
#include "make/make.h"

static uint64_t below(uint64_t *dice, uint64_t n)
{
    return fuzz_roll(dice) % n;
}

/* ---- seeds ---- */

/* Every kind of key. */
static void put_keys(struct gguf_writer *w)
{
    static const uint64_t numbers[4] = {1, 2, 3, 0xffffffffffffffffu};
    static const struct gguf_str strs[3] = {{"alpha", 5}, {"", 0}, {"beta", 4}};
    char key[32];
    for (uint32_t kind = 0; kind <= 12; kind++) {
        if (kind == GGUF_STRING || kind == GGUF_ARRAY || kind == GGUF_BOOL) continue;
        snprintf(key, sizeof key, "scalar.%u", (unsigned)kind);
        gguf_writer_put_scalar(w, key, (enum gguf_kind)kind, numbers);
        snprintf(key, sizeof key, "array.%u", (unsigned)kind);
        gguf_writer_put_array(w, key, (enum gguf_kind)kind, numbers, 4);
    }
    gguf_writer_put_bool(w, "bool", true);
    gguf_writer_put_array(w, "bools", GGUF_BOOL, "\1\0\1", 3);
    gguf_writer_put_str(w, "general.architecture", "llama");
    gguf_writer_put_strs(w, "strings", strs, 3);
    gguf_writer_put_array(w, "none", GGUF_F32, NULL, 0);
    gguf_writer_put_u32(w, "general.alignment", 32);
}

/* One tensor of every type, with 1 to 4 dimensions. */
static void put_tensors(struct gguf_writer *w)
{
    static const uint8_t zeros[4096];
    int64_t ne[4] = {256, 2, 1, 2};
    for (size_t i = 0; quant_info_at(i); i++)
        gguf_writer_add_tensor(w, quant_info_at(i)->name, quant_info_at(i)->type, 1 + (int)i % 4, ne);
    for (size_t i = 0; quant_info_at(i); i++) {
        size_t row;
        quant_row_bytes(quant_info_at(i)->type, 256, &row);
        gguf_writer_data(w, zeros, row * (i % 4 == 0 ? 1 : i % 4 == 3 ? 4 : 2));
    }
}

static int make_seed(int i, const char *path)
{
    struct gguf_writer *w;
    struct weights_make_settings s = weights_make_default();
    if (i == 3) { /* a whole small model: many tensors, a vocabulary */
        s.shape = "tiny-qwen3-40";
        s.type = QUANT_Q4_0;
        s.n_layer = 1;
        return weights_make_model(path, &s, NULL);
    }
    if (gguf_writer_open(&w, path, NULL) < 0) return -1;
    if (i != 1) put_keys(w);
    if (i == 2) {
        gguf_writer_put_u32(w, "split.count", 1);
        gguf_writer_put_u32(w, "split.no", 0);
    }
    if (i != 0) put_tensors(w);
    return gguf_writer_commit(&w, NULL);
}

/* ---- fields of a valid file ---- */

struct walk {
    struct seed *seed;
    size_t at;
};

static uint64_t note(struct walk *w, uint32_t bytes)
{
    uint64_t v = 0;
    memcpy(&v, w->seed->bytes + w->at, bytes);
    if (w->seed->n_field < MAX_FIELDS) w->seed->field[w->seed->n_field++] = (struct field){(uint32_t)w->at, bytes};
    w->at += bytes;
    return v;
}

static void walk_value(struct walk *w, uint64_t kind, uint64_t n)
{
    static const uint8_t width[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    for (uint64_t i = 0; kind == GGUF_STRING && i < n; i++) w->at += note(w, 8);
    if (kind != GGUF_STRING) w->at += width[kind] * n;
}

static void walk_file(struct walk *w)
{
    w->at = 4;
    note(w, 4);
    uint64_t n_tensor = note(w, 8), n_kv = note(w, 8);
    for (uint64_t i = 0; i < n_kv; i++) {
        uint64_t n = 1;
        w->at += note(w, 8);
        uint64_t kind = note(w, 4);
        if (kind == GGUF_ARRAY) {
            kind = note(w, 4);
            n = note(w, 8);
        }
        walk_value(w, kind, n);
    }
    for (uint64_t i = 0; i < n_tensor; i++) {
        w->at += note(w, 8);
        uint64_t n_dim = note(w, 4);
        for (uint64_t k = 0; k < n_dim; k++) note(w, 8);
        note(w, 4);
        note(w, 8);
    }
}

static int read_seed(struct seed *seed, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    seed->bytes = malloc(MAX_INPUT);
    seed->field = malloc(MAX_FIELDS * sizeof *seed->field);
    seed->n = seed->bytes ? fread(seed->bytes, 1, MAX_INPUT, f) : 0;
    fclose(f);
    return seed->bytes && seed->field && seed->n < MAX_INPUT ? 0 : -1;
}

int seeds_make(struct seed seed[N_SEEDS], const char *folder)
{
    char path[512];
    for (int i = 0; i < N_SEEDS; i++) {
        seed[i] = (struct seed){0};
        snprintf(path, sizeof path, "%s/seed-%d.gguf", folder, i);
        int rc = make_seed(i, path);
        if (rc == 0) rc = read_seed(&seed[i], path);
        remove(path);
        if (rc < 0) return rc;
        walk_file(&(struct walk){.seed = &seed[i]});
    }
    return 0;
}

void seeds_free(struct seed seed[N_SEEDS])
{
    for (int i = 0; i < N_SEEDS; i++) {
        free(seed[i].bytes);
        free(seed[i].field);
    }
}

/* ---- mutations ---- */

static uint64_t extreme(uint64_t *dice, size_t n)
{
    switch (below(dice, 14)) {
    case 0: return 0;
    case 1: return 1;
    case 2: return UINT64_MAX;
    case 3: return UINT64_MAX - below(dice, 64);
    case 4: return INT64_MAX;
    case 5: return (uint64_t)INT64_MAX + 1;
    case 6: return UINT32_MAX;
    case 7: return (uint64_t)1 << below(dice, 64);
    case 8: return n;
    case 9: return n - below(dice, n + 1);
    case 10: return UINT64_MAX / (1 + below(dice, 300)) + below(dice, 3);
    case 11: return below(dice, 50);
    case 12: return 65535 + below(dice, 3);
    default: return fuzz_roll(dice);
    }
}

/* A length, count, type or offset of the seed to an extreme, or a step from what it is.  After an insertion the
 * places have moved: then this is just a number somewhere. */
static void hit_field(const struct seed *s, uint64_t *dice, uint8_t *b, size_t n)
{
    struct field f = s->field[below(dice, s->n_field)];
    uint64_t v = 0;
    if (f.at + f.bytes > n) return;
    memcpy(&v, b + f.at, f.bytes);
    v = below(dice, 3) ? extreme(dice, n) : v + below(dice, 5) - 2;
    memcpy(b + f.at, &v, f.bytes);
}

static void hit_anywhere(uint64_t *dice, uint8_t *b, size_t n)
{
    uint64_t v = extreme(dice, n), bytes = below(dice, 2) ? 4 : 8;
    if (n >= bytes) memcpy(b + below(dice, n - bytes + 1), &v, bytes);
}

/* Bytes [from, from + len) of src put in at `to`, moving the rest up. */
static size_t insert(uint8_t *b, size_t n, size_t to, const uint8_t *src, size_t len)
{
    if (n + len > MAX_INPUT) len = MAX_INPUT - n;
    memmove(b + to + len, b + to, n - to);
    memcpy(b + to, src, len);
    return n + len;
}

static size_t duplicate(uint64_t *dice, uint8_t *b, size_t n)
{
    static uint8_t part[MAX_INPUT];
    size_t from = below(dice, n), len = 1 + below(dice, n - from);
    memcpy(part, b + from, len);
    return insert(b, n, below(dice, 2) ? from + len : below(dice, n + 1), part, len);
}

static size_t splice(const struct seed *other, uint64_t *dice, uint8_t *b, size_t n)
{
    size_t from = below(dice, other->n), len = 1 + below(dice, other->n - from), to = below(dice, n + 1);
    if (below(dice, 2)) return insert(b, n, to, other->bytes + from, len);
    if (len > n - to) len = n - to;
    memcpy(b + to, other->bytes + from, len);
    return n;
}

static size_t cut(uint64_t *dice, uint8_t *b, size_t n)
{
    size_t from = below(dice, n), len = below(dice, 2) ? n - from : 1 + below(dice, n - from);
    memmove(b + from, b + from + len, n - from - len);
    return n - len;
}

static void flip(uint64_t *dice, uint8_t *b, size_t n)
{
    size_t head = n < 600 || below(dice, 2) ? n : 600; /* half of them early, where the structure is */
    for (uint64_t i = 0, times = 1 + below(dice, 8); i < times; i++)
        b[below(dice, head)] ^= (uint8_t)(1u << below(dice, 8));
}

size_t mutate(const struct seed seed[N_SEEDS], uint64_t *dice, uint8_t *out)
{
    const struct seed *s = &seed[below(dice, N_SEEDS)];
    size_t n = s->n;
    memcpy(out, s->bytes, n);
    for (uint64_t i = 0, times = 1 + below(dice, 4); i < times && n > 0; i++) {
        switch (below(dice, 9)) {
        case 0:
        case 1:
        case 2: hit_field(s, dice, out, n); break;
        case 3: hit_anywhere(dice, out, n); break;
        case 4:
        case 5: flip(dice, out, n); break;
        case 6: n = cut(dice, out, n); break;
        case 7: n = duplicate(dice, out, n); break;
        default: n = splice(&seed[below(dice, N_SEEDS)], dice, out, n); break;
        }
    }
    return n;
}
