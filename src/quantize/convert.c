/* SPDX-License-Identifier: MIT */
#include "quantize/convert.h"

#include "quantize/weighted.h"
#include "quant/zero_point.h"
#include "files/gguf_write.h"
#include "quantize/groups.h"
#include "quantize/imatrix.h"
#include "quantize/mix.h"
#include "files/names.h"
#include "weights/weights.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    CHUNK = 65536, /* elements converted at a time: whole blocks of every type */
    SLAB = 16      /* chunks in flight */
};

struct weights_quantize_settings weights_quantize_default(void)
{
    return (struct weights_quantize_settings){
        .mix = weights_mix_of(QUANT_F16), .token_embd_type = -1, .output_type = -1};
}

/* ---- one run ---- */

struct run {
    const struct weights_quantize_settings *s;
    const struct weights *in;
    struct gguf_writer *out;
    struct weights_choice *choice; /* [n_tensor] */
    uint64_t done_bytes;
    float *f32;   /* [SLAB][CHUNK] */
    uint8_t *raw; /* [SLAB][CHUNK] at the target's bytes per element */
};

static void warn(void *user, const char *sentence)
{
    const struct weights_quantize_settings *s = user;
    if (s->log) s->log(s->log_user, LUTRA_LOG_WARN, sentence);
}

/* The line of a tensor; one that fell back is a warning. */
static void tell(const struct run *run, const struct tensor *t, const struct weights_choice *choice)
{
    char line[256];
    bool fell_back = choice->type != choice->wanted;
    if (!run->s->log) return;
    snprintf(line, sizeof line, "%s: %s -> %s%s", show_name(t->name).s, quant_type_name(t->type),
        quant_type_name(choice->type), fell_back ? " (rows are not whole blocks of the wanted type)" : "");
    run->s->log(run->s->log_user,
        fell_back         ? LUTRA_LOG_WARN
        : run->s->dry_run ? LUTRA_LOG_INFO
                          : LUTRA_LOG_DEBUG,
        line);
}

static void tell_unused(const struct run *run, const struct weights_type_rule *rule)
{
    char line[256];
    for (size_t i = 0; i < weights_tensor_count(run->in); i++)
        if (run->choice[i].rule == rule) return;
    snprintf(line, sizeof line, "tensor type: '%.150s' decides nothing: no matrix that is left to it has such a name",
        rule->pattern);
    if (run->s->log) run->s->log(run->s->log_user, LUTRA_LOG_WARN, line);
}

static int choose_types(struct run *run, struct lutra_error *err)
{
    size_t n = weights_tensor_count(run->in);
    run->choice = malloc((n + 1) * sizeof *run->choice);
    if (!run->choice) return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: no memory", weights_path(run->in));
    TRY(weights_mix_choose(run->in, run->s, run->choice, err));
    for (size_t i = 0; i < run->s->n_rule; i++) tell_unused(run, &run->s->rule[i]);
    for (size_t i = 0; i < n; i++) tell(run, weights_tensor_at(run->in, i), &run->choice[i]);
    return 0;
}

static bool is_rewritten(const struct run *run, const char *key)
{
    if (strncmp(key, "split.", 6) == 0 || strcmp(key, "general.alignment") == 0) return true;
    if (strncmp(key, "lutra.zeros", 11) == 0) return true; /* of a folder: decided */
    if (run->s->copy) return false;
    if (run->s->imatrix && strncmp(key, "quantize.imatrix.", 17) == 0) return true;
    return strcmp(key, "general.file_type") == 0 || strcmp(key, "general.quantization_version") == 0;
}

/* As llama-quantize tells of it. */
static void declare_imatrix(struct run *run)
{
    const struct imatrix *m = run->s->imatrix;
    gguf_writer_put_str(run->out, "quantize.imatrix.file", run->s->imatrix_path ? run->s->imatrix_path : "");
    if (m->dataset) gguf_writer_put_str(run->out, "quantize.imatrix.dataset", m->dataset);
    gguf_writer_put_u32(run->out, "quantize.imatrix.entries_count", (uint32_t)m->n_entry);
    gguf_writer_put_u32(run->out, "quantize.imatrix.chunks_count", m->n_chunk);
}

/* A matrix that an importance file of its model has an entry for: one of a layer, not the embeddings nor the output. */
static bool has_importance(const struct tensor *t)
{
    return t->n_dim >= 2 && t->n_dim <= 3 && strcmp(t->name, "token_embd.weight") && strcmp(t->name, "output.weight");
}

/* The matrices that lack an entry, in one line; the last ones are only counted. */
static void tell_missing(struct run *run, int n_missing, int n_weighed)
{
    enum { NAMED = 12 };
    char line[1024];
    int n = snprintf(line, sizeof line,
        "imatrix: no entry for %d of %d matrices, whose errors are not weighed:", n_missing, n_weighed);
    int named = 0;
    for (size_t i = 0; i < weights_tensor_count(run->in) && named < NAMED && n < (int)sizeof line - 128; i++) {
        const struct tensor *t = weights_tensor_at(run->in, i);
        bool weighed = has_importance(t) && run->choice[i].type != t->type && quant_has_weighted(run->choice[i].type);
        const struct imatrix_entry *e = imatrix_find(run->s->imatrix, t->name);
        if (!weighed || (e && e->count > 0)) continue;
        n += snprintf(line + n, sizeof line - (size_t)n, "%s %s", named++ ? "," : "", show_name(t->name).s);
    }
    if (n_missing > named) snprintf(line + n, sizeof line - (size_t)n, " and %d more", n_missing - named);
    warn((void *)run->s, line);
}

/* An imatrix of another model weighs nothing: refused where no entry fits; what lacks one is named. */
static int check_imatrix(struct run *run, struct lutra_error *err)
{
    const struct imatrix *m = run->s->imatrix;
    const char *matrix = NULL;
    int n_fit = 0, n_weighed = 0, n_missing = 0;
    for (size_t i = 0; i < weights_tensor_count(run->in); i++) {
        const struct tensor *t = weights_tensor_at(run->in, i);
        const struct imatrix_entry *e = imatrix_find(m, t->name);
        bool fits = e && e->count > 0 && t->n_dim >= 2;
        n_fit += fits;
        if (!has_importance(t)) continue;
        if (!matrix) matrix = t->name;
        if (run->choice[i].type == t->type || !quant_has_weighted(run->choice[i].type)) continue;
        n_weighed++;
        n_missing += !fits;
    }
    if (n_fit == 0)
        return lutra_fail(err, LUTRA_E_FORMAT,
            "imatrix %s: none of its %zu entries%s%s%s is of a matrix of %s%s%s%s: it was made for another model",
            run->s->imatrix_path ? run->s->imatrix_path : "", m->n_entry, m->n_entry ? " (the first is '" : "",
            m->n_entry ? show_name(m->entry[0].name).s : "", m->n_entry ? "')" : "", weights_path(run->in),
            matrix ? " (the first is '" : "", matrix ? matrix : "", matrix ? "')" : "");
    if (n_missing > 0) tell_missing(run, n_missing, n_weighed);
    return 0;
}

static void declare(struct run *run)
{
    for (size_t i = 0; i < weights_kv_count(run->in); i++) {
        const struct gguf_kv *kv = weights_kv_at(run->in, i);
        if (!is_rewritten(run, kv->key)) gguf_writer_copy(run->out, kv);
    }
    if (!run->s->copy) {
        gguf_writer_put_u32(run->out, "general.quantization_version", QUANTIZATION_VERSION);
        gguf_writer_put_u32(run->out, "general.file_type", run->s->mix->file_type);
    }
    if (run->s->imatrix && !run->s->copy) declare_imatrix(run);
    for (size_t i = 0; i < weights_tensor_count(run->in); i++) {
        const struct tensor *t = weights_tensor_at(run->in, i);
        gguf_writer_add_tensor(run->out, t->name, run->choice[i].type, t->n_dim, t->ne);
    }
}

static int report(struct run *run, size_t bytes, struct lutra_error *err)
{
    run->done_bytes += bytes;
    if (!run->s->progress) return 0;
    if (run->s->progress(run->s->progress_user, run->done_bytes, weights_tensor_bytes(run->in)) == 0) return 0;
    return lutra_fail(err, LUTRA_E_CANCELLED, "%s: cancelled", weights_path(run->in));
}

/* Input that was converted is not needed again: resident memory stays at a few MiB for any tensor. */
static void drop(const struct run *run, const void *data, size_t bytes)
{
    weights_drop_pages(run->in, &(struct tensor){.data = data, .bytes = bytes});
}

static int copy_tensor(struct run *run, const struct tensor *t, struct lutra_error *err)
{
    const uint8_t *at = t->data;
    for (size_t done = 0, part; done < t->bytes; done += part) {
        part = t->bytes - done < 4u << 20 ? t->bytes - done : 4u << 20;
        TRY(gguf_writer_data(run->out, at + done, part));
        drop(run, at + done, part);
        TRY(report(run, part, err));
    }
    return 0;
}

/* The chunks of a slab, each by one call of convert_chunk. */
struct slab {
    struct run *run;
    const struct quant_info *from, *to;
    const struct quant_kernels *kernels;
    const float *weight; /* [n_expert][n_in] of columns, or NULL */
    size_t n_in, before; /* elements of a row; elements before this slab */
    size_t per_expert;   /* elements that share columns */
    const uint8_t *src;
    size_t n; /* elements in this slab */
    _Atomic int not_finite;
};

static size_t bytes_of(const struct quant_info *q, size_t n)
{
    return n / q->block_elems * q->block_bytes;
}

static void convert_chunk(void *arg, int i)
{
    struct slab *slab = arg;
    size_t first = (size_t)i * CHUNK, n = slab->n - first < CHUNK ? slab->n - first : CHUNK;
    float *x = slab->run->f32 + first;
    uint8_t *out = slab->run->raw + bytes_of(slab->to, first);
    if (slab->to->type == quant_gguf_type(slab->from->type)) { /* the same values */
        quant_zero_point_widen(slab->from->type, slab->src + bytes_of(slab->from, first), out, n);
        return;
    }
    slab->from->dequantize(slab->src + bytes_of(slab->from, first), x, n);
    if (!quant_all_finite(x, n)) slab->not_finite = 1;
    if (!slab->weight) {
        quant_plain(slab->to->type)(x, out, n);
        return;
    }
    for (size_t at = 0, part; at < n; at += part) { /* by rows: a chunk may begin and end inside one */
        size_t element = slab->before + first + at, column = element % slab->n_in;
        const float *weight = slab->weight + element / slab->per_expert * slab->n_in + column;
        part = slab->n_in - column < n - at ? slab->n_in - column : n - at;
        quant_weighted(slab->kernels, slab->to->type, x + at, weight, out + bytes_of(slab->to, at), part);
    }
}

static void convert_slab(struct slab *slab)
{
    const struct weights_quantize_settings *s = slab->run->s;
    int n = (int)((slab->n + CHUNK - 1) / CHUNK);
    if (s->parallel) {
        s->parallel(s->parallel_user, convert_chunk, slab, n);
    } else {
        for (int i = 0; i < n; i++) convert_chunk(slab, i);
    }
}

/* Of the columns, of each expert's where there are such, in *out (to be freed); none: NULL. */
static int find_weight(
    const struct run *run, const struct tensor *t, enum quant_type type, float **out, struct lutra_error *err)
{
    const struct imatrix_entry *e = run->s->imatrix ? imatrix_find(run->s->imatrix, t->name) : NULL;
    *out = NULL;
    if (!e || !(e->count > 0) || !quant_has_weighted(type)) return 0;
    if (e->n != (size_t)t->ne[0] * (size_t)t->ne[2] || t->n_dim > 3)
        return lutra_fail(err, LUTRA_E_FORMAT, "imatrix: entry '%s' has %zu columns, the tensor %lld x %lld x %lld",
            show_name(t->name).s, e->n, (long long)t->ne[0], (long long)t->ne[1], (long long)t->ne[2]);
    *out = malloc(e->n * sizeof **out);
    if (!*out) return lutra_fail(err, LUTRA_E_NO_MEMORY, "quantize: no memory");
    imatrix_mean(e, (size_t)t->ne[2], *out);
    return 0;
}

/* A tensor is one run of whole blocks in both types, so rows need not be looked at. */
static int convert_slabs(
    struct run *run, const struct tensor *t, enum quant_type type, const float *weight, struct lutra_error *err)
{
    struct slab slab = {.run = run,
        .from = quant_info_of(t->type),
        .to = quant_info_of(type),
        .kernels = quant_kernels(),
        .weight = weight,
        .n_in = (size_t)t->ne[0],
        .per_expert = (size_t)(t->ne[0] * t->ne[1])};
    size_t total = t->bytes / slab.from->block_bytes * slab.from->block_elems;
    for (size_t done = 0; done < total; done += slab.n) {
        slab.n = total - done < (size_t)SLAB * CHUNK ? total - done : (size_t)SLAB * CHUNK;
        slab.src = (const uint8_t *)t->data + bytes_of(slab.from, done);
        slab.before = done;
        convert_slab(&slab);
        if (slab.not_finite)
            return lutra_fail(err, LUTRA_E_FORMAT, "%s: tensor '%s' holds a value that is NaN or infinite",
                weights_path(run->in), show_name(t->name).s);
        TRY(gguf_writer_data(run->out, run->raw, bytes_of(slab.to, slab.n)));
        drop(run, slab.src, bytes_of(slab.from, slab.n));
        TRY(report(run, bytes_of(slab.from, slab.n), err));
    }
    return 0;
}

static int convert_tensor(struct run *run, const struct tensor *t, enum quant_type type, struct lutra_error *err)
{
    const void *ready = NULL;
    float *weight;
    if (run->s->ready) TRY(run->s->ready(run->s->ready_user, t, type, &ready, err));
    if (ready) {
        size_t n = (size_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
        TRY(gguf_writer_data(run->out, ready, bytes_of(quant_info_of(type), n)));
        return report(run, t->bytes, err);
    }
    TRY(find_weight(run, t, type, &weight, err));
    int rc = convert_slabs(run, t, type, weight, err);
    free(weight);
    return rc;
}

static int convert_all(struct run *run, struct lutra_error *err)
{
    run->f32 = malloc((size_t)SLAB * CHUNK * sizeof *run->f32);
    run->raw = malloc((size_t)SLAB * CHUNK * sizeof *run->f32);
    if (!run->f32 || !run->raw) return lutra_fail(err, LUTRA_E_NO_MEMORY, "quantize: no memory for buffers");
    for (size_t i = 0; i < weights_tensor_count(run->in); i++) {
        const struct tensor *t = weights_tensor_at(run->in, i);
        weights_fetch(run->in, t);
        enum quant_type type = run->choice[i].type;
        TRY(type == t->type ? copy_tensor(run, t, err) : convert_tensor(run, t, type, err));
    }
    return 0;
}

static int refuse_same_file(const char *in, const char *out, struct lutra_error *err)
{
    struct stat a, b;
    if (stat(in, &a) == 0 && stat(out, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%s: input and output are the same file", in);
    return 0;
}

int weights_quantize_file(
    const char *in, const char *out, const struct weights_quantize_settings *settings, struct lutra_error *err)
{
    struct weights *w;
    struct run run = {.s = settings};
    if (settings->group && !settings->dry_run) return weights_write_groups(in, out, settings, err);
    if (!settings->dry_run) TRY(refuse_same_file(in, out, err));
    TRY(weights_open_as(&w, in, (struct weights_how){settings->zeros, false}, err));
    run.in = w;
    weights_tell_warnings(w, warn, (void *)settings);
    int rc = choose_types(&run, err);
    if (rc == 0 && settings->imatrix && !settings->copy) rc = check_imatrix(&run, err);
    if (rc < 0 || settings->dry_run) goto done;
    rc = gguf_writer_open(&run.out, out, err);
    if (rc < 0) goto done;
    declare(&run);
    rc = convert_all(&run, err);
    /* A writer's failure is described by commit; any other is in *err already. */
    if (rc == 0 || gguf_writer_status(run.out) < 0) rc = gguf_writer_commit(&run.out, err);
done:
    gguf_writer_abort(&run.out);
    free(run.choice);
    free(run.f32);
    free(run.raw);
    weights_close(&w);
    return rc;
}
