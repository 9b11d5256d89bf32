/* SPDX-License-Identifier: MIT */
#include "rag/query.h"

#include <string.h>

#include "rag/rag_impl.h"
#include "rag/words.h"

struct reader {
    struct query *query;
    const char *text; /* folded */
    size_t n;
    bool keeps_particles;
};

static void add_phrase(struct query *q, const char *text, size_t n)
{
    size_t begin = q->text.n;
    if (n == 0 || q->n == QUERY_PHRASES_MAX) return;
    text_add(&q->text, "\"", 1);
    text_add(&q->text, text, n);
    text_add(&q->text, "\"", 2); /* with the NUL */
    if (q->text.failed) return;
    for (int i = 0; i < q->n; i++)
        if (strcmp(q->text.bytes + q->phrase[i], q->text.bytes + begin) == 0) {
            q->text.n = begin;
            return;
        }
    q->phrase[q->n++] = begin;
}

/* Behind `w`: the next word where it follows without a gap. */
static bool follows(const struct reader *r, const struct word *w, struct word *next)
{
    size_t at = w->begin + w->n;
    return word_next(r->text, r->n, &at, next) && next->begin == w->begin + w->n;
}

/* Pairs of neighbours of a run of split characters, a single one by itself.  Korean particles at its end are not looked
 * for: they stand behind every noun. */
static size_t add_run(struct reader *r, struct word w)
{
    size_t begin = w.begin, end = w.begin + w.n, hangul = w.hangul ? w.begin : SIZE_MAX;
    struct word next;
    while (follows(r, &w, &next) && next.split) {
        if (!next.hangul) hangul = SIZE_MAX;
        if (next.hangul && hangul == SIZE_MAX) hangul = next.begin;
        end = next.begin + next.n;
        w = next;
    }
    size_t stop = end;
    if (hangul < end && !r->keeps_particles) stop -= word_particles(r->text + hangul, end - hangul);
    size_t at = begin, before = begin;
    for (int i = 0; at < stop && word_next(r->text, stop, &at, &w); i++) {
        if (i > 0) add_phrase(r->query, r->text + before, w.begin + w.n - before);
        if (i == 0 && at >= stop) add_phrase(r->query, r->text + w.begin, w.n);
        before = w.begin;
    }
    return end;
}

/* Bytes of what joins two words to one phrase at text[at]: of "file_name.txt", "utf-8", "don't"; 0: nothing does. */
static size_t joint(const struct reader *r, size_t at)
{
    static const char *const joints[] = {".", "_", "-", "'", "\xE2\x80\x99"}; /* the last: the typographic one */
    for (size_t i = 0; i < sizeof joints / sizeof *joints; i++) {
        size_t n = strlen(joints[i]);
        if (r->n - at > n && memcmp(r->text + at, joints[i], n) == 0) return n;
    }
    return 0;
}

/* A word and those that are joined to it. */
static size_t add_word(struct reader *r, struct word w)
{
    size_t begin = w.begin, end = w.begin + w.n;
    for (size_t n; end < r->n && (n = joint(r, end));) {
        struct word next;
        size_t at = end + n;
        if (!word_next(r->text, r->n, &at, &next) || next.begin != end + n || next.split) break;
        if (next.begin + next.n - begin > QUERY_WORD_BYTES) break;
        end = next.begin + next.n;
    }
    size_t n = end - begin;
    if (n > QUERY_WORD_BYTES) {
        n = QUERY_WORD_BYTES;
        while (n > 1 && ((unsigned char)r->text[begin + n] & 0xC0) == 0x80) n--;
    }
    add_phrase(r->query, r->text + begin, n);
    return end;
}

static void read_all(struct reader *r)
{
    struct word w;
    for (size_t at = 0; r->query->n < QUERY_PHRASES_MAX && word_next(r->text, r->n, &at, &w);)
        at = w.split ? add_run(r, w) : add_word(r, w);
}

bool query_read(struct query *q, const char *text, size_t n)
{
    *q = (struct query){0};
    return query_add(q, text, n);
}

bool query_add(struct query *q, const char *text, size_t n)
{
    struct text folded = {0};
    int n_before = q->n;
    text_add_folded(&folded, text, n);
    if (!folded.failed && folded.n) {
        struct reader r = {q, folded.bytes, folded.n, false};
        read_all(&r);
        r.keeps_particles = true; /* nothing but particles: then these are what is looked for */
        if (q->n == n_before) read_all(&r);
    }
    bool good = !folded.failed && !q->text.failed;
    text_fini(&folded);
    return good;
}

void query_fini(struct query *q)
{
    text_fini(&q->text);
}
