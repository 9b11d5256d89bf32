/* SPDX-License-Identifier: MIT
 *
 * The trie of a vocabulary, as arrays: nodes in order of their bytes, so that a walk goes forward and a branch that is
 * not allowed is skipped by one jump.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/grammar_impl.h"

enum { TOKEN_BYTES = 4096 };

struct entry {
    const char *p;
    size_t n;
    int32_t token;
};

static int by_bytes(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    int c = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    if (c) return c;
    return a->n != b->n ? (a->n > b->n) - (a->n < b->n) : (a->token > b->token) - (a->token < b->token);
}

static size_t shared(const struct entry *a, const struct entry *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->p[n] == b->p[n]) n++;
    return n;
}

/* Nodes in order: those of each token that the one before does not have. */
static int fill_nodes(struct grammar_vocab *v, const struct entry *e)
{
    int64_t n = 0;
    for (int32_t i = 0; i < v->n_sorted; i++) n += (int64_t)(e[i].n - (i ? shared(&e[i - 1], &e[i]) : 0));
    if (n > INT32_MAX - 1) return LUTRA_E_ARGUMENT;
    v->n_node = (int32_t)n;
    v->byte = malloc((size_t)n + 1);
    v->depth = malloc(((size_t)n + 1) * sizeof *v->depth);
    v->skip = malloc(((size_t)n + 1) * sizeof *v->skip);
    v->tokens = malloc(((size_t)n + 1) * sizeof *v->tokens);
    int32_t *open = malloc((TOKEN_BYTES + 1) * sizeof *open); /* [depth] the node there */
    if (!v->byte || !v->depth || !v->skip || !v->tokens || !open) {
        free(open);
        return LUTRA_E_NO_MEMORY;
    }
    int32_t at = 0;
    size_t depth = 0;
    for (int32_t i = 0; i < v->n_sorted; i++) {
        size_t keep = i ? shared(&e[i - 1], &e[i]) : 0;
        for (; depth > keep; depth--) v->skip[open[depth]] = at;
        for (; depth < e[i].n; at++) {
            v->byte[at] = (uint8_t)e[i].p[depth];
            v->depth[at] = (uint16_t)++depth;
            v->tokens[at] = i; /* as long as no token ends above: the first one below */
            open[depth] = at;
        }
        if ((int32_t)depth > v->max_depth) v->max_depth = (int32_t)depth;
    }
    for (; depth > 0; depth--) v->skip[open[depth]] = at;
    v->tokens[at] = v->n_sorted;
    free(open);
    return 0;
}

static int fill(struct grammar_vocab *v, const struct grammar_token *token, struct entry *e)
{
    size_t n_bytes = 0;
    for (int32_t t = 0; t < v->n_vocab; t++) {
        v->token[t] = token[t].ends ? -2 : -1;
        if (token[t].ends) v->end[v->n_end++] = t;
        if (!token[t].ends && !token[t].n) v->silent[v->n_silent++] = t;
        if (token[t].ends || !token[t].n) continue;
        if (token[t].n > TOKEN_BYTES) return LUTRA_E_ARGUMENT;
        n_bytes += token[t].n;
        e[v->n_sorted++] = (struct entry){token[t].p, token[t].n, t};
    }
    if (n_bytes > UINT32_MAX / 2) return LUTRA_E_ARGUMENT;
    qsort(e, (size_t)v->n_sorted, sizeof *e, by_bytes);
    v->pool = malloc(n_bytes + 1);
    v->at = malloc(((size_t)v->n_sorted + 1) * sizeof *v->at);
    v->sorted = malloc(((size_t)v->n_sorted + 1) * sizeof *v->sorted);
    if (!v->pool || !v->at || !v->sorted) return LUTRA_E_NO_MEMORY;
    v->at[0] = 0;
    for (int32_t i = 0; i < v->n_sorted; i++) {
        memcpy(v->pool + v->at[i], e[i].p, e[i].n);
        v->at[i + 1] = v->at[i] + (uint32_t)e[i].n;
        v->sorted[i] = e[i].token;
        v->token[e[i].token] = i;
    }
    return fill_nodes(v, e);
}

int grammar_vocab_open(
    struct grammar_vocab **out, const struct grammar_token *token, int32_t n_vocab, struct lutra_error *err)
{
    struct grammar_vocab *v = *out = calloc(1, sizeof *v);
    struct entry *e = malloc(((size_t)n_vocab + 1) * sizeof *e);
    int rc = LUTRA_E_NO_MEMORY;
    if (v) {
        v->n_vocab = n_vocab;
        v->token = malloc(((size_t)n_vocab + 1) * sizeof *v->token);
        v->end = malloc(((size_t)n_vocab + 1) * sizeof *v->end);
        v->silent = malloc(((size_t)n_vocab + 1) * sizeof *v->silent);
        if (v->token && v->end && v->silent && e) rc = fill(v, token, e);
    }
    free(e);
    if (rc >= 0) return 0;
    grammar_vocab_close(out);
    return lutra_fail(
        err, rc, rc == LUTRA_E_NO_MEMORY ? "grammar: out of memory" : "grammar: a token above 4096 bytes");
}

void grammar_vocab_close(struct grammar_vocab **vocab)
{
    struct grammar_vocab *v = *vocab;
    if (!v) return;
    free(v->pool);
    free(v->at);
    free(v->sorted);
    free(v->end);
    free(v->silent);
    free(v->token);
    free(v->byte);
    free(v->depth);
    free(v->skip);
    free(v->tokens);
    free(v);
    *vocab = NULL;
}
