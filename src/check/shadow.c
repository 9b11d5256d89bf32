/* SPDX-License-Identifier: MIT
 *
 * A text, of which one pass in so many is computed by the reference kernels, too.
 *
 * The row is run first as a draft on a device of its own, "cpu-ref", with the cache that the model's devices have
 * written: so one row costs one row, and what is compared is this row's arithmetic, not a text's.  Then the session
 * evaluates it as always.  The root of the mean square of what their logits differ by is told in units of the logits'
 * deviation.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "check/check_impl.h"
#include "cpu/device.h"
#include "engine/drafters.h"
#include "engine/passes.h"
#include "sched/plan.h"

enum { N_TOKEN = 96, N_BEFORE = 32 };

/* Eight bits of activations in every product of a model of random weights differ by up to 0.1; a wrong one, by 0.3 to
 * 2. */
static const double BOUND_INTEGER = 0.2, BOUND_FLOAT = 0.02;

struct shadow {
    struct checker *c;
    lutra_model *m;
    lutra_session *s;
    struct device *ref;
    struct plan plan;
    float *logits; /* [n_vocab] the reference's */
    int32_t seq;
};

/* Its own packing of every weight: no stored copy of another's layout. */
static int prepare(struct shadow *s, struct lutra_error *err)
{
    for (int i = 0; i < model_n_weight(s->m->model); i++) {
        struct weight *w = model_weight(s->m->model, i);
        const void *stored = w->stored;
        bool keeps;
        TRY(weight_give(w, s->ref, (struct columns){0, w->tensor.ne[1]}, err));
        weights_fetch(s->m->weights, &w->tensor);
        w->stored = NULL;
        int rc = s->ref->ops->prepare(s->ref, w, &keeps, err);
        w->stored = stored;
        TRY(rc);
        TRY(check_progress(s->c, (uint64_t)i, (uint64_t)model_n_weight(s->m->model), err));
    }
    return 0;
}

static int open_ref(struct shadow *s, struct lutra_error *err)
{
    const struct op_list *list = model_ops(s->m->model);
    const struct cpu_device_settings set = {.name = "cpu-ref"};
    TRY(cpu_device_open(&s->ref, s->m->runtime->devices.pool, &set, err));
    TRY(prepare(s, err));
    TRY(plan_open(&s->plan, list, &s->ref, 1, err));
    s->logits = malloc((size_t)list->n_vocab * sizeof *s->logits);
    if (!s->logits) return lutra_fail(err, LUTRA_E_NO_MEMORY, "check: out of memory");
    return s->ref->ops->reserve(s->ref, list, 1, 1, session_sizes(s->s).n_ctx, err);
}

static void close_ref(struct shadow *s)
{
    for (int i = 0; s->ref && i < model_n_weight(s->m->model); i++) {
        struct weight *w = model_weight(s->m->model, i);
        struct held *h = weight_held(w, s->ref);
        if (h && h->packed) s->ref->ops->release(s->ref, w);
        if (h) h->device = NULL;
    }
    if (s->ref) s->ref->ops->close(s->ref);
    free(s->logits);
}

static int32_t token_at(const struct shadow *s, int i)
{
    struct rng_key key = {0x6c757472, 3, 0};
    return (int32_t)(rng_u32(key, (uint32_t)i) % (uint32_t)model_ops(s->m->model)->n_vocab);
}

/* Nothing of it stays. */
static int run_ref(struct shadow *s, struct lutra_error *err)
{
    struct kv_view view;
    struct pass_args pass;
    const struct op_list *list = model_ops(s->m->model);
    TRY(session_hold(s->s, 1, &view, &pass, err));
    bool here = true;
    for (int v = 0; v < list->n_value; v++) here = here && pass.value[v].host;
    turn_take(&s->m->runtime->turn, TURN_ALL);
    int rc = here ? plan_run(&s->plan, &pass, NULL, NULL, err)
                  : lutra_fail(err, LUTRA_E_UNSUPPORTED, "check: shadow: values are in a device's own memory");
    turn_give(&s->m->runtime->turn, TURN_ALL);
    if (rc == 0) memcpy(s->logits, pass.result[0].logits, (size_t)list->n_vocab * sizeof *s->logits);
    session_let_go(s->s);
    return rc;
}

static double difference(const float *a, const float *b, int n)
{
    double off = 0, sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        off += d * d;
        sum += (double)b[i];
        squares += (double)b[i] * (double)b[i];
    }
    double variance = squares / n - sum / n * (sum / n);
    return sqrt(off / n / (variance > 0 ? variance : 1e-30));
}

/* The token at `pos`; *off: how far both are apart, where the reference computes it, too. */
static int step_to(struct shadow *s, int pos, bool both, double *off, struct lutra_error *err)
{
    const struct row row = {.token = token_at(s, pos), .pos = pos, .seq = s->seq, .parent = -1, .want = WANT_LOGITS};
    int n;
    *session_rows(s->s) = row;
    session_rows(s->s)->want |= ROW_DRAFT;
    if (both) TRY(run_ref(s, err));
    *session_rows(s->s) = row;
    TRY(session_forward(s->s, 1, false, err));
    if (both) *off = difference(session_results(s->s, &n)[0].logits, s->logits, model_ops(s->m->model)->n_vocab);
    return 0;
}

static bool has_integers(const lutra_model *m)
{
    for (int i = 0; i < model_n_weight(m->model); i++) {
        enum quant_type type = model_weight(m->model, i)->tensor.type;
        if (type != QUANT_F32 && type != QUANT_F16 && type != QUANT_BF16) return true;
    }
    return false;
}

/* What most rows are off by where a row may choose another expert, which is no mistake; else what all are. */
static double judged(const struct shadow *s, const double *off, int n)
{
    bool experts = model_hparams(s->m->model)->n_expert > 0;
    double at = 0;
    for (int i = 0; i < n; i++) {
        int below = 0;
        for (int k = 0; k < n; k++) below += off[k] < off[i] || (off[k] == off[i] && k < i);
        if (below == (experts ? (n - 1) / 2 : n - 1)) at = off[i];
    }
    return at;
}

static int walk(struct shadow *s, struct lutra_error *err)
{
    const int every = s->c->set.shadow;
    double off[N_TOKEN] = {0}, bound = has_integers(s->m) ? BOUND_INTEGER : BOUND_FLOAT;
    int n = 0;
    for (int i = 0; i < N_BEFORE; i++)
        session_rows(s->s)[i] = (struct row){.token = token_at(s, i), .pos = i, .seq = s->seq, .parent = i - 1};
    TRY(session_forward(s->s, N_BEFORE, false, err));
    for (int pos = N_BEFORE; pos < N_TOKEN; pos++) {
        bool both = (pos - N_BEFORE + 1) % every == 0;
        TRY(step_to(s, pos, both, &off[n], err));
        if (!(off[n] < INFINITY)) off[n] = INFINITY; /* no numbers */
        n += both;
        if (both) TRY(check_progress(s->c, (uint64_t)(pos - N_BEFORE), N_TOKEN - N_BEFORE, err));
    }
    if (judged(s, off, n) > bound)
        check_found(s->c, "%d of %d rows: logits are off those of the reference kernels by %.2g of their deviation", n,
            N_TOKEN - N_BEFORE, judged(s, off, n));
    else
        check_passed(s->c, "%d of %d rows by the reference kernels: within %.2g of the logits' deviation", n,
            N_TOKEN - N_BEFORE, judged(s, off, n));
    return 0;
}

int check_shadow(struct checker *c, lutra_model *model, lutra_session *session, struct lutra_error *err)
{
    struct shadow s = {.c = c, .m = model, .s = session};
    if (c->set.shadow <= 0 || model_ops(model->model)->whole) return 0;
    turn_take(&model->runtime->turn, TURN_ALL);
    int rc = open_ref(&s, err);
    turn_give(&model->runtime->turn, TURN_ALL);
    if (rc == 0) rc = lutra_seq_open(session, N_TOKEN, &s.seq, err);
    if (rc == 0) {
        rc = walk(&s, err);
        lutra_seq_close(session, s.seq);
    }
    turn_take(&model->runtime->turn, TURN_ALL);
    close_ref(&s);
    turn_give(&model->runtime->turn, TURN_ALL);
    return rc;
}
