/* SPDX-License-Identifier: MIT */
#include "quantize/imatrix.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "files/gguf_write.h"
#include "base/temporary.h"
#include "files/names.h"
#include "weights/weights.h"

enum { MAX_ENTRIES = 1 << 20, MAX_COLUMNS = 1 << 24 };

static int no_memory(struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "imatrix: out of memory");
}

int imatrix_new(struct imatrix **out, struct lutra_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? 0 : no_memory(err);
}

void imatrix_close(struct imatrix **matrix)
{
    struct imatrix *m = *matrix;
    if (!m) return;
    for (size_t i = 0; i < m->n_entry; i++) {
        free(m->entry[i].name);
        free(m->entry[i].sum2);
    }
    free(m->entry);
    free(m->dataset);
    free(m);
    *matrix = NULL;
}

int imatrix_add(
    struct imatrix *m, const char *name, size_t n_name, size_t n, struct imatrix_entry **out, struct lutra_error *err)
{
    if (m->n_entry == m->room) {
        size_t room = m->room * 2 + 32;
        struct imatrix_entry *grown = realloc(m->entry, room * sizeof *grown);
        if (!grown) return no_memory(err);
        m->entry = grown;
        m->room = room;
    }
    struct imatrix_entry *e = &m->entry[m->n_entry];
    *e = (struct imatrix_entry){
        .name = strndup(name, n_name), .sum2 = calloc(2 * n + 1, sizeof *e->sum2), .n = n, .n_expert = 1};
    m->n_entry++;
    if (!e->name || !e->sum2) return no_memory(err);
    e->sum = e->sum2 + n;
    *out = e;
    return 0;
}

struct imatrix_entry *imatrix_find(const struct imatrix *m, const char *name)
{
    for (size_t i = 0; i < m->n_entry; i++)
        if (strcmp(m->entry[i].name, name) == 0) return &m->entry[i];
    return NULL;
}

bool imatrix_mean(const struct imatrix_entry *e, size_t n_expert, float *mean)
{
    if (!e || !(e->count > 0) || e->n % n_expert) return false;
    for (size_t first = 0, n = e->n / n_expert; first < e->n; first += n) {
        double all = 0;
        for (size_t i = first; i < first + n; i++) all += e->sum2[i] / e->count / (double)n;
        if (!(all > 0)) all = 1;
        for (size_t i = first; i < first + n; i++) mean[i] = (float)(e->sum2[i] / e->count / all + 1e-4);
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct imatrix_entry *)a)->name, ((const struct imatrix_entry *)b)->name);
}

static int check(struct imatrix *m, const char *path, struct lutra_error *err)
{
    if (m->n_entry) qsort(m->entry, m->n_entry, sizeof *m->entry, by_name);
    for (size_t i = 0; i < m->n_entry; i++) {
        const struct imatrix_entry *e = &m->entry[i];
        bool sane = isfinite(e->count) && e->count >= 0;
        for (size_t k = 0; k < e->n; k++) sane = sane && isfinite(e->sum2[k]) && e->sum2[k] >= 0;
        if (!sane)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s: entry '%s' holds values that are no sums of squares", path,
                show_name(e->name).s);
        if (i && strcmp(e->name, e[-1].name) == 0)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s: entry '%s' is there twice", path, show_name(e->name).s);
    }
    return m->n_entry ? 0 : lutra_fail(err, LUTRA_E_FORMAT, "%s: an imatrix without entries", path);
}

/* ---- GGUF ---- */

static const char sum2_end[] = ".in_sum2";

/* The tensor NAME + end with n values; NULL: there is none. */
static const struct tensor *beside(const struct weights *w, const struct imatrix_entry *e, const char *end, size_t n)
{
    char name[GGUF_MAX_NAME + 16];
    snprintf(name, sizeof name, "%s%s", e->name, end);
    const struct tensor *t = weights_tensor_find(w, name);
    return t && t->type == QUANT_F32 && t->bytes == n * sizeof(float) ? t : NULL;
}

static void widen(const struct tensor *t, double *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, (const char *)t->data + i * sizeof x, sizeof x);
        out[i] = (double)x;
    }
}

/* One count for all experts, the largest: sums of those that saw fewer rows grow, so that their means stay. */
static int scale_experts(struct imatrix_entry *e, const struct tensor *counts, struct lutra_error *err)
{
    const size_t n = e->n / e->n_expert;
    double *count = malloc(e->n_expert * sizeof *count);
    bool sane = true;
    if (!count) return no_memory(err);
    widen(counts, count, e->n_expert);
    for (size_t x = 0; x < e->n_expert; x++) {
        sane = sane && isfinite(count[x]) && count[x] >= 0;
        e->count = fmax(e->count, count[x]);
    }
    for (size_t i = 0; i < e->n && sane; i++) {
        const double factor = count[i / n] > 0 ? e->count / count[i / n] : 0;
        e->sum2[i] *= factor, e->sum[i] *= factor;
    }
    free(count);
    if (!sane) e->count = NAN; /* refused by `check`, which names the entry */
    return 0;
}

static int read_gguf_entry(struct imatrix *m, const struct weights *w, const struct tensor *t, struct lutra_error *err)
{
    size_t n_name = strlen(t->name) - strlen(sum2_end), n = t->bytes / sizeof(float);
    struct imatrix_entry *e;
    if (t->type != QUANT_F32 || t->n_dim > 2 || n > MAX_COLUMNS)
        return lutra_fail(
            err, LUTRA_E_FORMAT, "%s: '%s' is no row of F32 for each expert", weights_path(w), show_name(t->name).s);
    TRY(imatrix_add(m, t->name, n_name, n, &e, err));
    e->n_expert = (size_t)t->ne[1];
    const struct tensor *counts = beside(w, e, ".counts", e->n_expert), *sum = beside(w, e, ".in_sum", n);
    if (!counts)
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: entry '%s' has no counts", weights_path(w), show_name(e->name).s);
    widen(t, e->sum2, n);
    if (sum) widen(sum, e->sum, n);
    return scale_experts(e, counts, err);
}

static int read_gguf(struct imatrix *m, const char *path, struct lutra_error *err)
{
    struct weights *w;
    TRY(weights_open(&w, path, err));
    int rc = 0;
    weights_opt_u32(w, "imatrix.chunk_count", &m->n_chunk, NULL);
    weights_opt_u32(w, "imatrix.chunk_size", &m->chunk_tokens, NULL);
    const struct gguf_kv *texts = weights_kv_find(w, "imatrix.datasets");
    if (texts && texts->elem == GGUF_STRING && texts->n) {
        struct gguf_str s = gguf_kv_str(texts, 0);
        m->dataset = strndup(s.s, s.n);
    }
    for (size_t i = 0; i < weights_tensor_count(w) && rc == 0; i++) {
        const struct tensor *t = weights_tensor_at(w, i);
        size_t n = strlen(t->name), m_end = strlen(sum2_end);
        if (n > m_end && strcmp(t->name + n - m_end, sum2_end) == 0) rc = read_gguf_entry(m, w, t, err);
    }
    weights_close(&w);
    return rc;
}

/* n_row: experts. */
static int add_row(struct gguf_writer *w, const char *name, const char *end, size_t n, size_t n_row)
{
    char full[GGUF_MAX_NAME + 16];
    snprintf(full, sizeof full, "%s%s", name, end);
    return gguf_writer_add_tensor(w, full, QUANT_F32, 2, (const int64_t[]){(int64_t)n, (int64_t)n_row});
}

static void put_row(struct gguf_writer *w, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float f = (float)x[i];
        gguf_writer_data(w, &f, sizeof f);
    }
}

static int write_gguf(const struct imatrix *m, const char *path, struct lutra_error *err)
{
    struct gguf_writer *w;
    struct gguf_str text = {m->dataset ? m->dataset : "", m->dataset ? strlen(m->dataset) : 0};
    TRY(gguf_writer_open(&w, path, err));
    gguf_writer_put_str(w, "general.type", "imatrix");
    gguf_writer_put_strs(w, "imatrix.datasets", &text, m->dataset ? 1 : 0);
    gguf_writer_put_u32(w, "imatrix.chunk_count", m->n_chunk);
    gguf_writer_put_u32(w, "imatrix.chunk_size", m->chunk_tokens);
    for (size_t i = 0; i < m->n_entry; i++) {
        const struct imatrix_entry *e = &m->entry[i];
        if (!(e->count > 0)) continue;
        add_row(w, e->name, sum2_end, e->n / e->n_expert, e->n_expert);
        add_row(w, e->name, ".counts", 1, e->n_expert);
        add_row(w, e->name, ".in_sum", e->n / e->n_expert, e->n_expert);
    }
    for (size_t i = 0; i < m->n_entry; i++) {
        const struct imatrix_entry *e = &m->entry[i];
        if (!(e->count > 0)) continue;
        put_row(w, e->sum2, e->n);
        for (size_t x = 0; x < e->n_expert; x++) put_row(w, &e->count, 1);
        put_row(w, e->sum, e->n);
    }
    return gguf_writer_commit(&w, err);
}

/* ---- .dat ---- */

static bool get_i32(FILE *f, int32_t lo, int32_t hi, int32_t *out)
{
    return fread(out, sizeof *out, 1, f) == 1 && *out >= lo && *out <= hi;
}

static int damaged(const char *path, int32_t i, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_FORMAT, "%s: entry %d of an imatrix .dat is damaged or cut short", path, (int)i + 1);
}

static int read_dat_entry(struct imatrix *m, FILE *f, const char *path, int32_t i, struct lutra_error *err)
{
    char name[GGUF_MAX_NAME + 1];
    int32_t n_name, calls, n;
    struct imatrix_entry *e;
    if (!get_i32(f, 1, GGUF_MAX_NAME, &n_name) || fread(name, 1, (size_t)n_name, f) != (size_t)n_name)
        return damaged(path, i, err);
    if (memchr(name, 0, (size_t)n_name) || !get_i32(f, 0, INT32_MAX, &calls) || !get_i32(f, 1, MAX_COLUMNS, &n))
        return damaged(path, i, err);
    TRY(imatrix_add(m, name, (size_t)n_name, (size_t)n, &e, err));
    e->count = calls;
    for (int32_t k = 0; k < n; k++) {
        float x;
        if (fread(&x, sizeof x, 1, f) != 1) return damaged(path, i, err);
        e->sum2[k] = (double)x;
    }
    return 0;
}

static int read_dat(struct imatrix *m, FILE *f, const char *path, struct lutra_error *err)
{
    int32_t n_entry, n_chunk, n_text;
    if (!get_i32(f, 1, MAX_ENTRIES, &n_entry))
        return lutra_fail(err, LUTRA_E_FORMAT, "%s: neither a GGUF file nor an imatrix .dat", path);
    for (int32_t i = 0; i < n_entry; i++) TRY(read_dat_entry(m, f, path, i, err));
    if (!get_i32(f, 0, INT32_MAX, &n_chunk)) return 0; /* older files end here */
    m->n_chunk = (uint32_t)n_chunk;
    if (!get_i32(f, 1, 4096, &n_text) || !(m->dataset = calloc((size_t)n_text + 1, 1))) return 0;
    if (fread(m->dataset, 1, (size_t)n_text, f) != (size_t)n_text) m->dataset[0] = 0;
    return 0;
}

static void put_i32(FILE *f, size_t x)
{
    int32_t i = (int32_t)x;
    fwrite(&i, sizeof i, 1, f);
}

static void write_dat_entries(const struct imatrix *m, FILE *f)
{
    size_t n_entry = 0, n_text = m->dataset ? strlen(m->dataset) : 0;
    for (size_t i = 0; i < m->n_entry; i++) n_entry += m->entry[i].count > 0;
    put_i32(f, n_entry);
    for (size_t i = 0; i < m->n_entry; i++) {
        const struct imatrix_entry *e = &m->entry[i];
        if (!(e->count > 0)) continue;
        double calls = m->chunk_tokens ? ceil(e->count / m->chunk_tokens) : e->count;
        put_i32(f, strlen(e->name));
        fwrite(e->name, 1, strlen(e->name), f);
        put_i32(f, (size_t)calls);
        put_i32(f, e->n);
        for (size_t k = 0; k < e->n; k++) {
            float x = (float)(e->sum2[k] / e->count * calls);
            fwrite(&x, sizeof x, 1, f);
        }
    }
    put_i32(f, m->n_chunk);
    put_i32(f, n_text);
    fwrite(m->dataset ? m->dataset : "", 1, n_text, f);
}

static int write_dat(const struct imatrix *m, const char *path, struct lutra_error *err)
{
    char *name;
    int fd = temporary_create(path, &name);
    if (!name) return no_memory(err);
    FILE *f = fd >= 0 ? fdopen(fd, "wb") : NULL;
    bool written = f != NULL;
    if (f) {
        write_dat_entries(m, f);
        written = fflush(f) == 0 && !ferror(f) && fsync(fd) == 0 && rename(name, path) == 0;
    }
    int rc = written ? 0 : lutra_fail(err, LUTRA_E_IO, "%s: cannot write: %s", name, strerror(errno));
    if (!written && fd >= 0) unlink(name);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    free(name);
    return rc;
}

/* ---- either ---- */

static int read_either(struct imatrix *m, const char *path, struct lutra_error *err)
{
    char magic[4] = "";
    FILE *f = fopen(path, "rb");
    if (!f) return lutra_fail(err, LUTRA_E_IO, "%s: cannot open: %s", path, strerror(errno));
    bool gguf = fread(magic, 1, 4, f) == 4 && memcmp(magic, "GGUF", 4) == 0;
    rewind(f);
    int rc = gguf ? read_gguf(m, path, err) : read_dat(m, f, path, err);
    fclose(f);
    return rc < 0 ? rc : check(m, path, err);
}

int imatrix_open(struct imatrix **out, const char *path, struct lutra_error *err)
{
    TRY(imatrix_new(out, err));
    int rc = read_either(*out, path, err);
    if (rc < 0) imatrix_close(out);
    return rc;
}

int imatrix_write(struct imatrix *m, const char *path, bool dat, struct lutra_error *err)
{
    TRY(check(m, path, err));
    return dat ? write_dat(m, path, err) : write_gguf(m, path, err);
}
