/* SPDX-License-Identifier: MIT */
/* lutra_dump: llama_dump's counterpart for Lutra, over the public API: the same input, options and logits file.
 *
 *   lutra_dump -m model.gguf -o out.lgt [options] < ids       f32 logits of every position, teacher-forced
 *   lutra_dump -m model.gguf --greedy 200 [options] < ids     free-running argmax; one line of new ids per input line
 *
 * Options (defaults): -t threads (2); --lora adapter.gguf; --kv f32|f16 (f32);
 *   --rows n rows per pass (64; 1 = one token at a time);
 * --device cpu|cpu-ref; --isa NAME; --bulk 1: whole blocks of 32 positions are bulk rows of a prompt for all that
 * follows them (LUTRA_ROW_BULK), evaluated once more for their own logits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lutra.h"

enum { BULK_ROWS = 32 };

struct dump {
    const char *model, *out, *kv, *device, *isa, *lora;
    int n_greedy, n_threads, n_rows, bulk;
    lutra_model *lm;
    lutra_session *s;
    int n_vocab;
};

struct seqs {
    int32_t *ids;
    int *n_tok;
    int n_seq, n_ids;
};

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "lutra_dump: %s: %s\n", what, detail);
    exit(1);
}

static void parse(struct dump *d, int argc, char **argv)
{
    *d = (struct dump){.kv = "f32", .n_threads = 2, .n_rows = 64};
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[++i] : "";
        if (!strcmp(a, "-m"))
            d->model = v;
        else if (!strcmp(a, "-o"))
            d->out = v;
        else if (!strcmp(a, "-t"))
            d->n_threads = atoi(v);
        else if (!strcmp(a, "--lora"))
            d->lora = v;
        else if (!strcmp(a, "--kv"))
            d->kv = v;
        else if (!strcmp(a, "--rows"))
            d->n_rows = atoi(v);
        else if (!strcmp(a, "--greedy"))
            d->n_greedy = atoi(v);
        else if (!strcmp(a, "--device"))
            d->device = v;
        else if (!strcmp(a, "--isa"))
            d->isa = v;
        else if (!strcmp(a, "--bulk"))
            d->bulk = atoi(v);
        else
            die("unknown option", a);
    }
    if (!d->model || !(d->out || d->n_greedy)) die("usage", "-m model.gguf (-o out.lgt | --greedy n) < ids");
}

static struct seqs read_ids(void)
{
    struct seqs q = {0};
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        int n = 0, used;
        q.n_tok = realloc(q.n_tok, sizeof *q.n_tok * ((size_t)q.n_seq + 1));
        for (char *p = line; sscanf(p, "%*d%n", &used) == 0 && *p && *p != '\n'; p += used, n++) {
            q.ids = realloc(q.ids, sizeof *q.ids * ((size_t)q.n_ids + 1));
            q.ids[q.n_ids++] = (int32_t)strtol(p, NULL, 10);
        }
        q.n_tok[q.n_seq++] = n;
    }
    free(line);
    return q;
}

static void open_all(struct dump *d, int n_ctx, lutra_runtime **rt)
{
    struct lutra_error err;
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    rs.n_threads = d->n_threads;
    rs.device = d->device;
    rs.isa = d->isa;
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    if (d->bulk) ss.n_seq = 2;
    ss.n_ctx = n_ctx;
    ss.n_batch = d->bulk ? d->n_rows + BULK_ROWS : d->n_rows;
    ss.n_out = d->n_rows;
    ss.cache_type = d->kv;
    struct lutra_model_info info;
    struct lutra_model_settings ms;
    struct lutra_adapter lora = {d->lora, 1};
    lutra_model_settings_init(&ms, sizeof ms);
    if (d->lora) ms.adapter = &lora, ms.n_adapter = 1;
    if (lutra_runtime_open(rt, &rs, &err) < 0 || lutra_model_open(&d->lm, *rt, d->model, &ms, &err) < 0 ||
        lutra_session_open(&d->s, d->lm, &ss, &err) < 0)
        die("cannot open", err.what);
    lutra_model_info_get(d->lm, &info, sizeof info);
    d->n_vocab = info.n_vocab;
}

/* Evaluates ids[0 .. n-1] at positions from .., wanting every row's logits (all) or the last one's. */
static void forward(struct dump *d, int32_t seq, const int32_t *ids, int n, int from, bool all)
{
    struct lutra_error err;
    struct lutra_row row[512];
    for (int i = 0; i < n; i++)
        row[i] = (struct lutra_row){ids[i], from + i, seq, i - 1, all || i == n - 1 ? LUTRA_WANT_LOGITS : 0, 0};
    if (lutra_forward(d->s, row, n, sizeof *row, &err) < 0) die("forward", err.what);
}

static void write_logits(const struct dump *d, int n, FILE *f)
{
    for (int i = 0; i < n; i++) fwrite(lutra_forward_result(d->s, i)->logits, sizeof(float), (size_t)d->n_vocab, f);
}

/* Logits of a sequence whose every row follows bulk rows: a fork has the logits of a block, the sequence itself goes on
 * with the same block in bulk. */
static void dump_after_bulk(struct dump *d, int32_t seq, const int32_t *ids, int n_tok, FILE *f)
{
    for (int at = 0; at < n_tok; at += BULK_ROWS) {
        struct lutra_error err;
        struct lutra_row row[BULK_ROWS];
        int n = n_tok - at < BULK_ROWS ? n_tok - at : BULK_ROWS;
        int32_t fork;
        if (lutra_seq_fork(d->s, seq, at, 0, &fork, &err) < 0) die("fork", err.what);
        forward(d, fork, ids + at, n, at, true);
        write_logits(d, n, f);
        lutra_seq_close(d->s, fork);
        for (int i = 0; i < n; i++) row[i] = (struct lutra_row){ids[at + i], at + i, seq, i - 1, LUTRA_ROW_BULK, 0};
        if (at + n < n_tok && lutra_forward(d->s, row, n, sizeof *row, &err) < 0) die("forward", err.what);
    }
}

static void dump_logits(struct dump *d, const struct seqs *q)
{
    FILE *f = fopen(d->out, "wb");
    uint32_t head[2] = {(uint32_t)d->n_vocab, (uint32_t)q->n_seq};
    if (!f || fwrite("LGT1", 4, 1, f) != 1 || fwrite(head, sizeof head, 1, f) != 1) die("cannot write", d->out);
    for (int s = 0; s < q->n_seq; s++) fwrite(&q->n_tok[s], 4, 1, f);
    const int32_t *ids = q->ids;
    for (int s = 0; s < q->n_seq; ids += q->n_tok[s++]) {
        int32_t seq;
        if (lutra_seq_open(d->s, 0, &seq, NULL) < 0) die("sequence", "cache full");
        if (d->bulk) dump_after_bulk(d, seq, ids, q->n_tok[s], f);
        for (int at = 0; at < q->n_tok[s] && !d->bulk; at += d->n_rows) {
            int n = q->n_tok[s] - at < d->n_rows ? q->n_tok[s] - at : d->n_rows;
            forward(d, seq, ids + at, n, at, true);
            write_logits(d, n, f);
        }
        lutra_seq_close(d->s, seq);
    }
    if (fclose(f) != 0) die("cannot write", d->out);
}

static int32_t argmax(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static void free_run(struct dump *d, const struct seqs *q)
{
    const int32_t *ids = q->ids;
    for (int s = 0; s < q->n_seq; ids += q->n_tok[s++]) {
        int32_t seq, next = -1;
        int at = 0;
        if (lutra_seq_open(d->s, 0, &seq, NULL) < 0) die("sequence", "cache full");
        for (; at < q->n_tok[s]; at += d->n_rows) {
            int n = q->n_tok[s] - at < d->n_rows ? q->n_tok[s] - at : d->n_rows;
            forward(d, seq, ids + at, n, at, false);
        }
        at = q->n_tok[s];
        for (int i = 0; i < d->n_greedy; i++) {
            next = argmax(lutra_forward_result(d->s, 0)->logits, d->n_vocab);
            printf(i ? " %d" : "%d", next);
            if (lutra_token_is_end(d->lm, next)) break;
            forward(d, seq, &next, 1, at++, false);
        }
        printf("\n");
        lutra_seq_close(d->s, seq);
    }
}

int main(int argc, char **argv)
{
    struct dump d;
    lutra_runtime *rt = NULL;
    parse(&d, argc, argv);
    if (d.n_rows < 1 || d.n_rows > 512) die("--rows", "outside 1..512");
    struct seqs q = read_ids();
    int longest = 0;
    for (int s = 0; s < q.n_seq; s++)
        if (q.n_tok[s] > longest) longest = q.n_tok[s];
    open_all(&d, longest + d.n_greedy + 1, &rt);
    if (d.out)
        dump_logits(&d, &q);
    else
        free_run(&d, &q);
    lutra_session_close(&d.s);
    lutra_model_close(&d.lm);
    lutra_runtime_close(&rt);
    free(q.ids);
    free(q.n_tok);
    return 0;
}
