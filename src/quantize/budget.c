/* SPDX-License-Identifier: MIT */
#include "quantize/budget.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/observe.h"
#include "quantize/files.h"
#include "quantize/imatrix_measure.h"
#include "quantize/rounding.h"
#include "lutra/rows.h"
#include "quantize/imatrix.h"
#include "quantize/mix.h"

/* Those with codebooks are left out: at one row they are slow on small devices. */
static const char standard[] = "TQ2_0,Q2_K,Q3_K,IQ4_XS,Q4_K,Q5_K,Q6_K,Q8_0";
static const double base_bits = 2.5; /* a model of fewer says nothing about its matrices */
enum {
    N_TOKEN = 4096,            /* of a measurement */
    LOGITS_BYTES = 256 << 20,  /* kept of the source */
    ERROR_WEIGHTS = 256 * 1024 /* of a matrix, of which errors are measured */
};

/* How choices are made of shares: raised to a power about what they would be on average, from the lowest rung or from
 * the base's least on. */
static const struct {
    bool from_base;
    double power;
} variant[] = {{false, 1}, {true, 1}, {true, .5}, {true, 0}};
enum { N_VARIANT = sizeof variant / sizeof *variant };

struct rung {
    enum quant_type type;
    size_t bytes;
    double error; /* of rounding, in the base's */
};

struct candidate {
    const struct tensor *t;
    struct rung rung[QUANT_TYPE_END];
    double share, cost;
    int at, best;   /* rung of this choice, of the best so far */
    uint8_t *bytes; /* that the model computes with; NULL: the source's */
    char *pattern;
};

struct budget {
    const struct lutra_quantize_settings *set;
    lutra_model *model;
    lutra_session *s;
    struct imatrix *imatrix;
    enum quant_type ladder[QUANT_TYPE_END]; /* [n_rung] by rising bits */
    int n_rung, base_least;                 /* rungs; the least that shares are measured at */
    struct candidate *candidate;            /* [n] */
    int n;
    size_t fixed_bytes; /* of matrices that the caller's settings decide */
    double n_weight;    /* of all matrices that change */
    struct weights_type_rule *rule;

    int32_t *ids;
    int n_ctx, n_chunk, stride; /* every stride-th row's logits are compared */
    float *logits;              /* [n_chunk * n_ctx / stride][n_vocab] of the source, minus their log-sum-exp */
    int n_measured, n_measurement;
};

static int no_memory(struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "budget: out of memory");
}

/* ---- which types ---- */

static double bits_of(const struct quant_info *q)
{
    return 8.0 * (double)q->block_bytes / (double)q->block_elems;
}

static int add_type(struct budget *b, const char *name, struct lutra_error *err)
{
    enum quant_type type;
    int at = b->n_rung;
    TRY(files_type_named("budget", name, &type, err));
    const struct quant_info *q = quant_info_of(type);
    if (!quant_plain(q->type) || !weights_is_quantized(q->type))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "budget: %s cannot be %s", q->name,
            quant_plain(q->type) ? "chosen: it has no blocks" : "written, it can be read");
    for (int i = 0; i < b->n_rung; i++)
        if (b->ladder[i] == q->type)
            return lutra_fail(err, LUTRA_E_ARGUMENT, "budget: type %s is named a second time", q->name);
    for (; at > 0 && bits_of(quant_info_of(b->ladder[at - 1])) > bits_of(q); at--) b->ladder[at] = b->ladder[at - 1];
    b->ladder[at] = q->type;
    b->n_rung++;
    return 0;
}

static int read_types(struct budget *b, struct lutra_error *err)
{
    const char *at = b->set->budget_types ? b->set->budget_types : standard;
    for (size_t n;; at += n + 1) {
        char name[16];
        n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", n < 15 ? (int)n : 15, at);
        TRY(add_type(b, name, err));
        if (!at[n]) break;
    }
    while (b->base_least + 1 < b->n_rung && bits_of(quant_info_of(b->ladder[b->base_least])) < base_bits)
        b->base_least++;
    return 0;
}

/* ---- which matrices ---- */

static int choose_with(const struct budget *b, struct weights_quantize_settings q, enum quant_type rest,
    struct weights_choice *choice, struct lutra_error *err)
{
    struct weights_type_rule *rule = calloc(q.n_rule + 1, sizeof *rule);
    if (!rule) return no_memory(err);
    memcpy(rule, q.rule, q.n_rule * sizeof *rule);
    rule[q.n_rule++] = (struct weights_type_rule){"", rest};
    q.rule = rule;
    int rc = weights_mix_choose(b->model->weights, &q, choice, err);
    free(rule);
    return rc;
}

static void add_candidate(struct budget *b, const struct tensor *t)
{
    struct candidate *c = &b->candidate[b->n++];
    c->t = t;
    for (int i = 0; i < b->n_rung; i++) {
        c->rung[i].type = weights_legal_type(b->ladder[i], t->ne[0]);
        c->rung[i].bytes = rounding_row_bytes(t, c->rung[i].type) * (size_t)(t->ne[1] * t->ne[2] * t->ne[3]);
    }
}

/* Those that a last rule for all of them decides. */
static int find_candidates(struct budget *b, const struct weights_quantize_settings *q, struct lutra_error *err)
{
    size_t n = weights_tensor_count(b->model->weights);
    struct weights_choice *low = calloc(2 * n + 1, sizeof *low), *high = low + n;
    b->candidate = calloc(n + 1, sizeof *b->candidate);
    int rc = low && b->candidate ? choose_with(b, *q, QUANT_Q4_0, low, err) : no_memory(err);
    if (rc == 0) rc = choose_with(b, *q, QUANT_Q8_0, high, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct tensor *t = weights_tensor_at(b->model->weights, i);
        double n_weight = (double)t->ne[0] * (double)(t->ne[1] * t->ne[2] * t->ne[3]);
        if (low[i].wanted != high[i].wanted)
            add_candidate(b, t);
        else if (low[i].type == t->type)
            continue;
        else
            b->fixed_bytes += rounding_row_bytes(t, low[i].type) * (size_t)(t->ne[1] * t->ne[2] * t->ne[3]);
        b->n_weight += n_weight;
    }
    free(low);
    if (rc == 0 && b->n == 0)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "budget: no matrix is left to choose a type for");
    return rc;
}

static double bytes_allowed(const struct budget *b)
{
    return (double)b->set->budget * b->n_weight / 8 - (double)b->fixed_bytes;
}

static double bytes_at(const struct budget *b, int step)
{
    double sum = 0;
    for (int i = 0; i < b->n; i++) sum += (double)b->candidate[i].rung[step].bytes;
    return sum;
}

/* ---- errors of rounding ---- */

static struct rounding rounding_of(const struct budget *b, const struct tensor *t, enum quant_type type, uint8_t *out)
{
    return (struct rounding){.path = weights_path(b->model->weights), .t = t, .type = type, .out = out};
}

static int measure_errors(struct budget *b, struct candidate *c, struct lutra_error *err)
{
    struct tensor part = *c->t;
    size_t n_in = (size_t)part.ne[0], rows = ERROR_WEIGHTS / n_in + 1,
           all = (size_t)(part.ne[1] * part.ne[2] * part.ne[3]);
    if (rows > all) rows = all;
    part.ne[1] = (int64_t)rows, part.ne[2] = part.ne[3] = 1;
    size_t from_bytes = rounding_row_bytes(&part, part.type);
    float *x = malloc((2 * rows + 1) * n_in * sizeof *x), *y = x + rows * n_in, *weight = y + rows * n_in;
    uint8_t *source = malloc(rows * from_bytes), *out = malloc(rows * n_in * sizeof *x);
    int rc = x && source && out ? 0 : no_memory(err);
    weights_fetch(b->model->weights, c->t);
    for (size_t r = 0; r < rows && rc == 0; r++) {
        memcpy(source + r * from_bytes, (const char *)c->t->data + r * all / rows * from_bytes, from_bytes);
        quant_info_of(part.type)->dequantize(source + r * from_bytes, x + r * n_in, n_in);
    }
    part.data = source;
    const struct imatrix_entry *e = rc == 0 ? imatrix_find(b->imatrix, c->t->name) : NULL;
    bool known = e && e->n == n_in && imatrix_mean(e, 1, weight);
    for (int i = 0; i < b->n_rung && rc == 0; i++) {
        struct rounding r = rounding_of(b, &part, c->rung[i].type, out);
        if (known) r.weight = weight;
        rc = rounding_run(b->model->runtime->devices.pool, &r, err);
        if (rc == 0) quant_info_of(r.type)->dequantize(out, y, rows * n_in);
        for (size_t k = 0; k < rows * n_in && rc == 0; k++) {
            double d = (double)x[k] - (double)y[k];
            c->rung[i].error += (known ? (double)weight[k % n_in] : 1) * d * d;
        }
    }
    free(x);
    free(source);
    free(out);
    return rc;
}

/* ---- divergence ---- */

static double log_sum_exp(const float *x, int n)
{
    float max = x[0];
    double sum = 0;
    for (int i = 1; i < n; i++) max = fmaxf(max, x[i]);
    for (int i = 0; i < n; i++) sum += (double)expf(x[i] - max);
    return (double)max + log(sum);
}

/* Of one row; or keeps the row where base is empty yet. */
static double compare(const float *x, float *base, int n, bool keep)
{
    double lse = log_sum_exp(x, n), sum = 0;
    for (int i = 0; i < n; i++) {
        double log_p = (double)x[i] - lse;
        if (keep)
            base[i] = (float)log_p;
        else if (base[i] > -16)
            sum += (double)expf(base[i]) * ((double)base[i] - log_p);
    }
    return sum;
}

/* The text once more, with the weights as they are now. */
static int measure(struct budget *b, bool keep, double *kl, struct lutra_error *err)
{
    const struct lutra_quantize_settings *set = b->set;
    int n_vocab = (int)text_vocab_n_tok(b->model->vocab), n = 0;
    struct lutra_row *row = calloc((size_t)b->n_ctx, sizeof *row);
    int rc = row ? 0 : no_memory(err);
    *kl = 0;
    for (int c = 0; c < b->n_chunk && rc == 0; c++) {
        int32_t seq;
        rc = lutra_seq_open(b->s, b->n_ctx, &seq, err);
        if (rc < 0) break;
        for (int i = 0; i < b->n_ctx; i++)
            row[i] = (struct lutra_row){.token = b->ids[(size_t)c * (size_t)b->n_ctx + (size_t)i],
                .pos = i,
                .seq = seq,
                .parent = i - 1,
                .want = i % b->stride == b->stride - 1 ? LUTRA_WANT_LOGITS : 0};
        rc = lutra_forward(b->s, row, b->n_ctx, sizeof *row, err);
        for (int i = 0; i < b->n_ctx / b->stride && rc == 0; i++, n++)
            *kl +=
                compare(lutra_forward_result(b->s, i)->logits, b->logits + (size_t)n * (size_t)n_vocab, n_vocab, keep);
        lutra_seq_close(b->s, seq);
    }
    free(row);
    *kl /= n > 0 ? n : 1;
    b->n_measured++;
    if (rc == 0 && set->progress &&
        set->progress(set->progress_user, "measuring", (uint64_t)b->n_measured, (uint64_t)b->n_measurement))
        return lutra_fail(err, LUTRA_E_CANCELLED, "budget: cancelled");
    return rc;
}

/* All weights of the matrix get these bytes. */
static int exchange(
    struct budget *b, const struct candidate *c, enum quant_type type, const void *bytes, struct lutra_error *err)
{
    int rc = 0;
    turn_take(&b->model->runtime->turn, TURN_ALL);
    for (int i = 0; i < model_n_weight(b->model->model) && rc == 0; i++) {
        struct weight *w = model_weight(b->model->model, i);
        size_t first;
        if (observe_tensor(b->model, w, &first) != c->t) continue;
        struct tensor to = w->tensor;
        to.type = type;
        size_t row_bytes = rounding_row_bytes(&to, type);
        to.data = (const uint8_t *)bytes + first * row_bytes;
        to.bytes = row_bytes * (size_t)(to.ne[1] * to.ne[2] * to.ne[3]);
        rc = observe_exchange(b->s, w, &to, err);
    }
    turn_give(&b->model->runtime->turn, TURN_ALL);
    return rc;
}

static int take_type(struct budget *b, struct candidate *c, const struct rung *rung, struct lutra_error *err)
{
    const struct imatrix_entry *e = imatrix_find(b->imatrix, c->t->name);
    float *weight = malloc((size_t)c->t->ne[0] * sizeof *weight);
    uint8_t *bytes = malloc(rung->bytes);
    struct rounding r = rounding_of(b, c->t, rung->type, bytes);
    if (weight && e && e->n == (size_t)c->t->ne[0] && imatrix_mean(e, 1, weight)) r.weight = weight;
    weights_fetch(b->model->weights, c->t);
    int rc = weight && bytes ? rounding_run(b->model->runtime->devices.pool, &r, err) : no_memory(err);
    if (rc == 0) rc = exchange(b, c, rung->type, bytes, err);
    free(weight);
    free(c->bytes);
    c->bytes = bytes;
    return rc;
}

/* What the source's divergence from itself grows by with each matrix alone at the base. */
static int measure_costs(struct budget *b, struct lutra_error *err)
{
    int base = b->base_least;
    double kl;
    while (base + 1 < b->n_rung && bytes_at(b, base + 1) <= bytes_allowed(b)) base++;
    b->n_measurement = b->n + 1 + N_VARIANT;
    TRY(measure(b, true, &kl, err));
    for (int i = 0; i < b->n; i++) {
        struct candidate *c = &b->candidate[i];
        TRY(measure_errors(b, c, err));
        TRY(take_type(b, c, &c->rung[base], err));
        TRY(measure(b, false, &c->share, err));
        TRY(exchange(b, c, c->t->type, c->t->data, err));
        for (int k = 0; k < b->n_rung; k++)
            c->rung[k].error = c->rung[base].error > 0 ? c->rung[k].error / c->rung[base].error : 0;
    }
    return 0;
}

/* ---- the choice ---- */

/* Largest fall of cost per byte among the steps that fit; NULL: none. */
static struct candidate *best_step(struct budget *b, double left, int *to)
{
    struct candidate *best = NULL;
    double best_rate = 0;
    for (int i = 0; i < b->n; i++) {
        struct candidate *c = &b->candidate[i];
        const struct rung *now = &c->rung[c->at];
        for (int k = 0; k < b->n_rung; k++) {
            double more = (double)c->rung[k].bytes - (double)now->bytes,
                   fall = c->cost * (now->error - c->rung[k].error);
            if (more > left || !(fall > 0)) continue;
            double rate = fall / fmax(more, 1);
            if (rate > best_rate) best_rate = rate, best = c, *to = k;
        }
    }
    return best;
}

static void spend(struct budget *b, int lowest)
{
    struct candidate *c;
    int to = 0;
    double left = bytes_allowed(b) - bytes_at(b, lowest);
    for (int i = 0; i < b->n; i++) b->candidate[i].at = lowest;
    while ((c = best_step(b, left, &to))) {
        left -= (double)c->rung[to].bytes - (double)c->rung[c->at].bytes;
        c->at = to;
    }
}

/* Shares of single matrices say too little about all of them together: a few choices are made of them and measured
 * whole. */
static int choose(struct budget *b, struct lutra_error *err)
{
    char line[96];
    double best = INFINITY, kl, mean = 0;
    if (bytes_allowed(b) < bytes_at(b, 0))
        return lutra_fail(err, LUTRA_E_ARGUMENT, "budget: %.3g bits per weight; the least is %.4g",
            (double)b->set->budget, ((double)b->fixed_bytes + bytes_at(b, 0)) * 8 / b->n_weight + 5e-4);
    for (int i = 0; i < b->n; i++) mean += b->candidate[i].share / bytes_at(b, 0);
    for (int v = 0; v < N_VARIANT; v++) {
        int lowest = variant[v].from_base ? b->base_least : 0;
        if (bytes_allowed(b) < bytes_at(b, lowest)) continue;
        for (int i = 0; i < b->n; i++) {
            struct candidate *c = &b->candidate[i];
            double even = mean * (double)c->rung[0].bytes;
            c->cost = even * pow(fmax(c->share, 1e-3 * even) / even, variant[v].power);
        }
        spend(b, lowest);
        for (int i = 0; i < b->n; i++)
            TRY(take_type(b, &b->candidate[i], &b->candidate[i].rung[b->candidate[i].at], err));
        TRY(measure(b, false, &kl, err));
        if (!(kl < best)) continue;
        best = kl;
        for (int i = 0; i < b->n; i++) b->candidate[i].best = b->candidate[i].at;
    }
    snprintf(line, sizeof line, "budget: a divergence of %.4g over %d tokens of the text", best, b->n_chunk * b->n_ctx);
    if (b->set->log) b->set->log(b->set->log_user, LUTRA_LOG_INFO, line);
    return 0;
}

/* The mix is the one of the type with most bytes. */
static int write_rules(struct budget *b, struct weights_quantize_settings *q, struct lutra_error *err)
{
    size_t bytes[QUANT_TYPE_END] = {0};
    enum quant_type most = b->candidate[0].rung[0].type;
    b->rule = calloc(q->n_rule + (size_t)b->n, sizeof *b->rule);
    if (!b->rule) return no_memory(err);
    memcpy(b->rule, q->rule, q->n_rule * sizeof *b->rule);
    q->rule = b->rule;
    for (int i = 0; i < b->n; i++) {
        struct candidate *c = &b->candidate[i];
        const struct rung *rung = &c->rung[c->best];
        size_t room = strlen(c->t->name) + 16;
        c->pattern = malloc(room);
        if (!c->pattern) return no_memory(err);
        snprintf(c->pattern, room, "^\\Q%s\\E$", c->t->name);
        b->rule[q->n_rule++] = (struct weights_type_rule){c->pattern, rung->type};
        bytes[rung->type] += rung->bytes;
        if (bytes[rung->type] > bytes[most]) most = rung->type;
    }
    q->mix = weights_mix_of(most);
    return 0;
}

/* ---- all of it ---- */

/* Chunks from all over the text. */
static int read_text(struct budget *b, struct lutra_error *err)
{
    const struct lutra_quantize_settings *set = b->set;
    int n, n_all;
    struct lutra_model_info info;
    lutra_model_info_get(b->model, &info, sizeof info);
    b->n_ctx = set->calibration_ctx;
    TRY(lutra_tokenize(b->model, set->calibration, set->n_calibration_bytes, LUTRA_ADD_SPECIAL, NULL, 0, &n, err));
    b->ids = malloc(((size_t)n + 1) * sizeof *b->ids);
    if (!b->ids) return no_memory(err);
    TRY(lutra_tokenize(b->model, set->calibration, set->n_calibration_bytes, LUTRA_ADD_SPECIAL, b->ids, n, &n, err));
    TRY(observe_chunks(n, b->n_ctx, 0, &n_all, err));
    TRY(observe_chunks(n, b->n_ctx, (N_TOKEN + b->n_ctx - 1) / b->n_ctx, &b->n_chunk, err));
    for (int c = 0; c < b->n_chunk; c++) {
        int32_t *to = b->ids + (size_t)c * (size_t)b->n_ctx;
        int64_t from = (int64_t)c * n_all / b->n_chunk * b->n_ctx;
        memmove(to, b->ids + from, (size_t)b->n_ctx * sizeof *to);
        if (info.add_bos) *to = info.bos;
    }
    size_t row_bytes = (size_t)info.n_vocab * sizeof *b->logits, n_row = (size_t)b->n_chunk * (size_t)b->n_ctx;
    b->stride = (int)(n_row * row_bytes / LOGITS_BYTES) + 1;
    if (b->stride > b->n_ctx) b->stride = b->n_ctx;
    b->logits = malloc(n_row / (size_t)b->stride * row_bytes);
    return b->logits ? 0 : no_memory(err);
}

static int run(struct budget *b, struct weights_quantize_settings *q, struct lutra_error *err)
{
    struct lutra_session_settings set;
    struct lutra_imatrix_settings of;
    TRY(read_types(b, err));
    TRY(find_candidates(b, q, err));
    TRY(read_text(b, err));
    lutra_imatrix_settings_init(&of, sizeof of);
    of.n_ctx = b->n_ctx;
    TRY(observe_importance(&b->imatrix, b->model, b->ids, b->n_chunk * b->n_ctx, &of, err));
    lutra_session_settings_init(&set, sizeof set);
    set.n_seq = 1;
    set.n_ctx = set.n_batch = b->n_ctx;
    set.n_out = b->n_ctx / b->stride;
    TRY(lutra_session_open(&b->s, b->model, &set, err));
    TRY(measure_costs(b, err));
    TRY(choose(b, err));
    TRY(write_rules(b, q, err));
    if (!q->imatrix) q->imatrix = b->imatrix;
    return 0;
}

int budget_open(struct budget **out, lutra_runtime *rt, const char *path, const struct lutra_quantize_settings *set,
    struct weights_quantize_settings *q, struct lutra_error *err)
{
    struct lutra_model_settings model;
    struct budget *b = *out = calloc(1, sizeof *b);
    if (!b) return no_memory(err);
    b->set = set;
    lutra_model_settings_init(&model, sizeof model);
    model.zeros = set->zeros;
    int rc = model_open_unsorted(&b->model, rt, path, &model, false, err);
    if (rc == 0) rc = run(b, q, err);
    lutra_session_close(&b->s);
    lutra_model_close(&b->model);
    for (int i = 0; i < b->n; i++) {
        free(b->candidate[i].bytes);
        b->candidate[i].bytes = NULL;
    }
    free(b->ids);
    free(b->logits);
    b->ids = NULL;
    b->logits = NULL;
    if (rc < 0) budget_close(out);
    return rc;
}

void budget_close(struct budget **budget)
{
    struct budget *b = *budget;
    if (!b) return;
    for (int i = 0; i < b->n; i++) free(b->candidate[i].pattern);
    imatrix_close(&b->imatrix);
    free(b->candidate);
    free(b->rule);
    free(b);
    *budget = NULL;
}
