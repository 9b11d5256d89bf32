/* SPDX-License-Identifier: MIT
 *
 * What a search found, and the message that asks about it.
 */
#include <stdio.h>

#include "rag/rag_impl.h"
#include "rag/words.h"

/* A text as it may stand between two others: NULs would end it early for those who read it as a string. */
static size_t add_column(struct text *all, sqlite3_stmt *row, int column, size_t *n)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    size_t at = all->n, n_bytes = text ? (size_t)sqlite3_column_bytes(row, column) : 0;
    text_add_utf8(all, text ? text : "", text ? strnlen(text, n_bytes) : 0);
    *n = all->n - at;
    text_add(all, "", 1);
    return at;
}

int passages_add(lutra_passages *p, int64_t chunk, double score, sqlite3_stmt *row)
{
    size_t n_name;
    if (p->n == p->room) {
        int room = p->room * 2 + 8;
        struct found *more = realloc(p->found, (size_t)room * sizeof *more);
        p->all.failed = p->all.failed || !more;
        if (!more) return -1;
        p->found = more;
        p->room = room;
    }
    struct found *f = &p->found[p->n++];
    *f = (struct found){.public = {.chunk = chunk, .score = score}};
    f->document = sqlite3_column_int64(row, 0);
    f->public.begin = (uint64_t)sqlite3_column_int64(row, 1);
    f->public.end = (uint64_t)sqlite3_column_int64(row, 2);
    f->text_at = add_column(&p->all, row, 3, &f->public.n_bytes);
    f->name_at = add_column(&p->all, row, 4, &n_name);
    return p->all.failed ? -1 : 0;
}

/* Does x stand before y? */
static bool is_before(const struct found *x, const struct found *y)
{
    if (x->document != y->document) return x->document < y->document;
    if (x->public.begin != y->public.begin) return x->public.begin < y->public.begin;
    return x->public.chunk < y->public.chunk;
}

int passages_finish(lutra_passages *p)
{
    for (int i = 0; i < p->n && !p->all.failed; i++) {
        p->found[i].public.text = p->all.bytes + p->found[i].text_at;
        p->found[i].public.name = p->all.bytes + p->found[i].name_at;
        for (int k = 0; k < p->n; k++) p->found[i].public.place += is_before(&p->found[k], &p->found[i]);
    }
    return p->all.failed ? -1 : 0;
}

void lutra_passages_close(lutra_passages **passages)
{
    lutra_passages *p = *passages;
    if (!p) return;
    free(p->found);
    text_fini(&p->all);
    free(p);
    *passages = NULL;
}

int lutra_passages_count(const lutra_passages *passages)
{
    return passages ? passages->n : 0;
}

const struct lutra_passage *lutra_passages_at(const lutra_passages *passages, int i)
{
    return passages && i >= 0 && i < passages->n ? &passages->found[i].public : NULL;
}

/* ---- a part of one ---- */

/* Different phrases of the question in a part of a text. */
static int count_phrases(const struct query *q, const char *part, size_t n, struct text *folded)
{
    int count = 0;
    folded->n = 0;
    text_add_folded(folded, part, n);
    for (int i = 0; i < q->n && !folded->failed && folded->n; i++) {
        const char *phrase = q->text.bytes + q->phrase[i] + 1; /* behind its quote */
        count += memmem(folded->bytes, folded->n, phrase, strlen(phrase) - 1) != NULL;
    }
    return count;
}

/* Where the best part of at most n_most bytes begins; parts begin at the text's own breaks. */
static size_t best_part(const struct lutra_passage *p, size_t n_most, const struct query *q, struct text *folded)
{
    size_t best = 0, n_step = n_most / 4 > 1 ? n_most / 4 : 1;
    int most = -1;
    for (size_t at = 0; at < p->n_bytes; at += text_cut(p->text + at, p->n_bytes - at, n_step)) {
        int count = count_phrases(q, p->text + at, text_cut(p->text + at, p->n_bytes - at, n_most), folded);
        if (count <= most) continue;
        most = count;
        best = at;
    }
    return best;
}

int lutra_passages_shorten(
    lutra_passages *passages, int i, size_t n_most, const char *question, size_t n_question, struct lutra_error *err)
{
    const struct lutra_passage *old = lutra_passages_at(passages, i);
    struct query q;
    struct text folded = {0};
    if (!old || n_most < 4)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "lutra_passages_shorten: passage %d of %d, to %zu bytes", i,
            lutra_passages_count(passages), n_most);
    if (old->n_bytes <= n_most) return 0;
    bool good = query_read(&q, question, n_question);
    size_t at = good ? best_part(old, n_most, &q, &folded) : 0, n = text_cut(old->text + at, old->n_bytes - at, n_most);
    good = good && !folded.failed;
    query_fini(&q);
    text_fini(&folded);
    if (!good) return lutra_fail(err, LUTRA_E_NO_MEMORY, "lutra_passages_shorten: out of memory");
    struct lutra_passage *p = &passages->found[i].public;
    if (p->end - p->begin == p->n_bytes) { /* else bytes were replaced: the whole's places stay */
        p->begin += at;
        p->end = p->begin + n;
    }
    p->text += at;
    p->n_bytes = n;
    passages->all.bytes[p->text + n - passages->all.bytes] = 0;
    return 0;
}

/* ---- the message ---- */

/* Paths differ from machine to machine and cost tokens: their last part says as much. */
static const char *short_name(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash && slash[1] ? slash + 1 : name;
}

static int by_place(const void *a, const void *b)
{
    const struct found *x = *(const struct found *const *)a, *y = *(const struct found *const *)b;
    return x->public.place - y->public.place;
}

size_t passage_length(const struct lutra_passage *p)
{
    size_t n = p->n_bytes;
    while (n > 0 && strchr(" \t\r\n", p->text[n - 1])) n--;
    return n;
}

static void put_passages(struct text *out, const struct found *const *list, int n, int first)
{
    char head[32];
    text_add(out, "Passages:\n\n", 11);
    for (int i = 0; i < n; i++) {
        const struct lutra_passage *p = &list[i]->public;
        const char *name = short_name(p->name);
        text_add(out, head, (size_t)snprintf(head, sizeof head, "[%d] ", first + i));
        text_add(out, name, strlen(name));
        text_add(out, "\n", 1);
        text_add(out, p->text, passage_length(p));
        text_add(out, "\n\n", 2);
    }
}

int lutra_passages_message(const lutra_passages *passages, const int *use, int n_use, int first, const char *question,
    size_t n_question, char **text, struct lutra_error *err)
{
    struct text out = {0};
    int n = use ? n_use : lutra_passages_count(passages);
    *text = NULL;
    const struct found **list = malloc((size_t)(n > 0 ? n : 1) * sizeof *list);
    if (!list) return lutra_fail(err, LUTRA_E_NO_MEMORY, "lutra_passages_message: out of memory");
    for (int i = 0; i < n; i++) {
        int k = use ? use[i] : i;
        if (!lutra_passages_at(passages, k)) {
            free(list);
            return lutra_fail_at(err, LUTRA_E_ARGUMENT, (uint64_t)i,
                "lutra_passages_message: use[%d] is %d, of %d passages", i, k, lutra_passages_count(passages));
        }
        list[i] = &passages->found[k];
    }
    qsort(list, (size_t)(n > 0 ? n : 0), sizeof *list, by_place);
    if (n > 0) put_passages(&out, list, n, first);
    text_add(&out, question, n_question);
    free(list);
    if (out.failed) text_fini(&out);
    *text = out.bytes;
    return *text ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "lutra_passages_message: out of memory");
}
