/* SPDX-License-Identifier: MIT */
#include "quantize/observe.h"

#include <stdlib.h>
#include <string.h>

#include "engine/passes.h"

int observe_chunks(int n, int n_ctx, int most, int *n_chunk, struct lutra_error *err)
{
    *n_chunk = n_ctx >= 16 ? n / n_ctx : 0;
    if (*n_chunk < 1) return lutra_fail(err, LUTRA_E_ARGUMENT, "%d tokens make no chunk of %d (at least 16)", n, n_ctx);
    if (most > 0 && most < *n_chunk) *n_chunk = most;
    return 0;
}

int observe_open(lutra_session **out, lutra_model *model, int n_ctx, struct lutra_error *err)
{
    struct lutra_session_settings set;
    lutra_session_settings_init(&set, sizeof set);
    *out = NULL;
    for (int i = 0; i < model->plan.n_device; i++)
        if (model->plan.device[i] != model->runtime->devices.cpu)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED, "inputs of matrices are seen on the CPU alone, not on %s",
                model->plan.device[i]->name);
    set.n_seq = 1;
    set.n_ctx = set.n_batch = set.n_out = n_ctx;
    TRY(lutra_session_open(out, model, &set, err));
    if (session_sizes(*out).n_batch >= n_ctx) return 0;
    lutra_session_close(out);
    return lutra_fail(err, LUTRA_E_ARGUMENT, "chunks of %d tokens: too long for one pass", n_ctx);
}

struct walk {
    lutra_session *s;
    lutra_model *model;
    const struct op_list *list;
    const struct observer *o;
    const int32_t *ids;
    int n_chunk, n_row;
    struct lutra_model_info info;
    struct pass_args pass;
    char *stored; /* [n_chunk][stored_bytes]: values between two pieces; NULL: one chunk */
    size_t stored_bytes;
};

/* The next matmul behind operation i; n_op: none. */
static int next_matmul(const struct op_list *list, int i)
{
    for (i++; i < list->n_op; i++)
        if (list->op[i].kind == OP_MATMUL) break;
    return i;
}

/* Copies what operation i and those behind it read, to or from a chunk's place; returns its bytes. */
static size_t move_values(const struct walk *w, int i, char *place, bool back)
{
    size_t at = 0;
    for (int v = 0; v < w->list->n_value; v++) {
        size_t bytes = (size_t)w->n_row * (size_t)w->list->value[v].dim * sizeof(float);
        if (op_list_is_dead(w->list, i, v)) continue;
        if (place) memcpy(back ? w->pass.value[v].host : place + at, back ? place + at : w->pass.value[v].host, bytes);
        at += bytes;
    }
    return at;
}

static int open_store(struct walk *w, struct lutra_error *err)
{
    if (w->n_chunk == 1) return 0;
    for (int i = next_matmul(w->list, -1); i < w->list->n_op; i = next_matmul(w->list, i)) {
        size_t bytes = move_values(w, i, NULL, false);
        if (bytes > w->stored_bytes) w->stored_bytes = bytes;
    }
    w->stored = malloc((size_t)w->n_chunk * w->stored_bytes);
    return w->stored
               ? 0
               : lutra_fail(err, LUTRA_E_NO_MEMORY, "no memory for the states of %d chunks: use fewer", w->n_chunk);
}

/* The value that a matmul multiplies, in its usual order. */
static int input_of(const struct op *op)
{
    return op[-1].kind == OP_PERMUTE && op[-1].out[0] == op->in[0] ? op[-1].in[0] : op->in[0];
}

/* Operations first .. last - 1 of one chunk, and a look at what `last` reads. */
static int run_piece(struct walk *w, int chunk, int first, int last, struct lutra_error *err)
{
    struct device *cpu = w->model->runtime->devices.cpu;
    struct segment segment = {&w->list->op[first], last - first, w->list, &w->pass, {0}, 0};
    struct ticket ticket;
    char *place = w->stored ? w->stored + (size_t)chunk * w->stored_bytes : NULL;
    for (int r = 0; r < w->n_row; r++)
        session_rows(w->s)[r].token = w->ids[(size_t)chunk * (size_t)w->n_row + (size_t)r];
    if (w->info.add_bos) session_rows(w->s)[0].token = w->info.bos;
    if (first > 0) move_values(w, first, place, true);
    TRY(cpu->ops->submit(cpu, &segment, NULL, 0, &ticket, err));
    TRY(cpu->ops->wait(cpu, &ticket, err));
    const struct op *op = &w->list->op[last];
    TRY(w->o->inputs(w->o->user, op, w->pass.value[input_of(op)].host, w->n_row, err));
    move_values(w, last, place, false);
    return 0;
}

static int run_chunks(struct walk *w, int first, int last, struct lutra_error *err)
{
    const struct op *op = &w->list->op[first];
    TRY(model_hold(w->model, op, last - first, err));
    for (int c = 0; c < w->n_chunk; c++) TRY(run_piece(w, c, first, last, err));
    model_let_go(w->model, op, last - first);
    return 0;
}

static int run_all(struct walk *w, struct lutra_error *err)
{
    int last;
    for (int first = 0; (last = next_matmul(w->list, first)) < w->list->n_op; first = last) {
        TRY(run_chunks(w, first, last, err));
        if (w->o->seen) TRY(w->o->seen(w->o->user, &w->list->op[last], err));
    }
    return 0;
}

/* All chunks share one set of K/V slots; the pass is never committed. */
static int walk(struct walk *w, int32_t seq, struct lutra_error *err)
{
    struct kv_view view;
    for (int r = 0; r < w->n_row; r++)
        session_rows(w->s)[r] = (struct row){.pos = r, .seq = seq, .parent = r - 1, .want = WANT_HIDDEN};
    TRY(session_hold(w->s, w->n_row, &view, &w->pass, err));
    turn_take(&w->model->runtime->turn, TURN_ALL);
    int rc = open_store(w, err);
    if (rc == 0) rc = run_all(w, err);
    turn_give(&w->model->runtime->turn, TURN_ALL);
    free(w->stored);
    session_let_go(w->s);
    return rc;
}

int observe_run(lutra_session *s, const int32_t *ids, int n_chunk, const struct observer *o, struct lutra_error *err)
{
    lutra_model *model = session_model(s);
    int n_ctx = session_sizes(s).n_ctx;
    struct walk w = {.s = s,
        .model = model,
        .list = model_ops(model->model),
        .o = o,
        .ids = ids,
        .n_chunk = n_chunk,
        .n_row = n_ctx};
    int32_t seq;
    lutra_model_info_get(model, &w.info, sizeof w.info);
    TRY(lutra_seq_open(s, n_ctx, &seq, err));
    int rc = walk(&w, seq, err);
    lutra_seq_close(s, seq);
    return rc;
}

const struct tensor *observe_tensor(const lutra_model *model, const struct weight *w, size_t *first_row)
{
    const char *name = w->tensor.name;
    size_t n = strcspn(name, "[");
    *first_row = (size_t)w->first_row;
    for (size_t i = 0; i < weights_tensor_count(model->weights); i++) {
        const struct tensor *t = weights_tensor_at(model->weights, i);
        if (strncmp(t->name, name, n) == 0 && !t->name[n]) return t;
    }
    return NULL;
}

int observe_exchange(lutra_session *s, struct weight *w, const struct tensor *to, struct lutra_error *err)
{
    struct device *d = w->held[0].device;
    bool keeps_source;
    d->ops->release(d, w);
    w->tensor.type = to->type;
    w->tensor.data = to->data;
    w->tensor.bytes = to->bytes;
    w->stored = NULL;
    TRY(d->ops->prepare(d, w, &keeps_source, err));
    struct session_sizes sizes = session_sizes(s);
    return d->ops->reserve(d, model_ops(session_model(s)->model), sizes.n_batch, sizes.n_out, sizes.n_ctx, err);
}
