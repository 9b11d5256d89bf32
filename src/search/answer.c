/* SPDX-License-Identifier: MIT */
#include "search/answer.h"

#include <stdbool.h>
#include <string.h>

#include "search/answer_spell.h"

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "Step 2: Conclude", "1. Count": a title and not what was worked out. */
static bool is_heading(struct answer_range r)
{
    static const char *const titles[] = {"step", "part", "case", "question", "problem", "example", "solution",
        "approach", "method", "explanation", "reasoning", "analysis", "given", "check", "verification", "verify",
        "conclusion", "conclude", "summary", "calculation", "calculations", "calculate", "understanding", "understand",
        "find", "compute", "determine", "identify", "define", "let", "set", "note", "section", "task", "exercise",
        "option", "final", "answer", "result", NULL};
    r = answer_trim(r);
    const char *p = r.from;
    while (p < r.to && digit(*p)) p++;
    bool numbered = p > r.from && p + 2 < r.to && strchr(".):", *p) && p[1] == ' ' && letter(p[2]);
    return numbered || answer_begins(r, titles);
}

/* What stands behind "Final Answer:", "Result =" in a heading. */
static struct answer_range behind_label(struct answer_range r)
{
    static const char *const labels[] = {
        "final answer", "the final answer", "answer", "the answer", "final result", "result", "conclusion", NULL};
    r = answer_trim(r);
    if (!answer_begins(r, labels)) return r;
    const char *p = r.from;
    while (p < r.to && *p != ':' && *p != '=' && !digit(*p)) p++;
    return p < r.to ? answer_trim((struct answer_range){p, r.to}) : r;
}

/* Words of a phrase that praise or announce an answer instead of giving it. */
static bool says_nothing(struct answer_range r)
{
    static const char *const words[] = {"correct", "right", "wrong", "incorrect", "clear", "helpful", "reasonable",
        "valid", "verified", "confirmed", "consistent", "above", "below", "shown", "given", "boxed", "found",
        "obtained", "computed", "calculated", "determined", "derived", "indeed", "in", "not", "as", "answer", "answers",
        "therefore", "thus", "written", "simplified", "unique", "rounded", "expressed", "also", "already", "what",
        "presented", "provided", "useful", "complete", "to", "inside", "stated", "required", "expected", "that", "easy",
        "simple", "logical", "supported", "based", "accurate", "checked", "within", "your", "sent", "left", NULL};
    enum { LONG = 80 };
    r = answer_trim(r);
    return r.to - r.from > LONG || answer_begins(r, words);
}

struct attempt {
    char clean[ANSWER_CLEAN_BYTES];
    char text[ANSWER_CLEAN_BYTES];
    struct answer_output out;
};

static enum answer_kind spell_place(struct attempt *a, struct answer_range clean)
{
    a->out = (struct answer_output){a->text, 0, ANSWER_CLEAN_BYTES - 1};
    enum answer_kind k = answer_spell(clean, 0, &a->out);
    return a->out.n ? k : ANSWER_NOTHING;
}

/* Words and then a digit: a sentence around its number. */
static bool is_prose(struct answer_range r)
{
    r = answer_trim(r);
    const char *p = r.from;
    while (p < r.to && (letter(*p) || *p & 0x80)) p++;
    if (p - r.from < 2 || p == r.to || !strchr(" ,'-", *p)) return false;
    while (p < r.to && !digit(*p)) p++;
    return p < r.to;
}

static bool last_line(const char *p)
{
    p += strcspn(p, "\n");
    return !p[strspn(p, " \t\r\n")];
}

/* Sure: a number, a choice, mathematics, or a word that ends the text; a title is none. */
static bool take_hash(struct attempt *a, struct answer_range at, bool *sure)
{
    static const char *const verdicts[] = {"yes", "no", "true", "false", "none", NULL};
    struct answer_range clean = answer_undress(at, a->clean), value = behind_label(clean);
    if (value.from == answer_trim(clean).from && is_heading(clean)) return false;
    enum answer_kind k = spell_place(a, value);
    bool word = answer_begins(value, verdicts);
    if (k == ANSWER_IS_WORDS && !word && !last_line(at.to)) return false;
    *sure = k == ANSWER_IS_NUMBER;
    return k != ANSWER_NOTHING && !(k == ANSWER_IS_MATH && is_prose(value) && !last_line(at.to));
}

static bool take_box(struct attempt *a, struct answer_range at)
{
    return spell_place(a, answer_undress(at, a->clean)) != ANSWER_NOTHING;
}

static bool take_phrase(struct attempt *a, struct answer_range at)
{
    struct answer_range clean = answer_undress(at, a->clean);
    enum answer_kind k = spell_place(a, clean);
    if ((k == ANSWER_IS_WORDS || k == ANSWER_IS_MATH) && says_nothing(clean)) return false;
    if (k == ANSWER_IS_MATH && is_prose(clean)) {
        a->out.n = 0;
        return answer_spell_last_number(clean, &a->out);
    }
    return k != ANSWER_NOTHING;
}

/* "45 marbles. (He started with 50.)" without what stands in brackets behind a number. */
static struct answer_range without_remark(struct answer_range r)
{
    struct answer_range t = answer_trim(r);
    if (t.to <= t.from || t.to[-1] != ')') return r;
    const char *p = t.to - 1;
    while (p > t.from && *p != '(') p--;
    bool prose =
        p > t.from + 1 && p[-1] == ' ' && (letter(p[1]) || (t.to - p > 6 && memchr(p, ' ', (size_t)(t.to - p))));
    for (const char *q = t.from; prose && q < p; q++)
        if (digit(*q)) return (struct answer_range){r.from, p};
    return r;
}

/* A choice alone in its line, the last emphasised number, or the last number. */
static bool take_line(struct attempt *a, struct answer_range at)
{
    a->out = (struct answer_output){a->text, 0, ANSWER_CLEAN_BYTES - 1};
    for (const char *p = at.to; p > at.from + 1;) {
        const char *to = NULL;
        for (; p > at.from + 1 && !to; p--)
            if (p[-1] == '*' && p[-2] == '*') to = p - 2;
        p--;
        const char *from = NULL;
        for (; to && p > at.from + 1 && !from; p--)
            if (p[-1] == '*' && p[-2] == '*') from = p;
        if (!from || from > to) break;
        struct answer_range bold = answer_undress((struct answer_range){from, to}, a->clean);
        bool item = from == at.from + 2 && bold.to - bold.from < 4 && strchr(".):", bold.to[-1]); /* "**2.** Add" */
        if (bold.from < bold.to && !item && !is_heading(bold) && spell_place(a, bold) == ANSWER_IS_NUMBER) return true;
    }
    struct answer_range clean = without_remark(answer_undress(at, a->clean));
    if (*at.from == '#' && is_heading((struct answer_range){at.from + strspn(at.from, "# "), at.to})) return false;
    bool title = is_heading(clean) || (clean.from < clean.to && clean.from[1] == ':'); /* "A: 7" */
    if (!title && spell_place(a, clean) == ANSWER_IS_CHOICE) return true;
    a->out.n = 0;
    return answer_spell_last_number(clean, &a->out);
}

/* The marks in order of their worth; a box behind a "####" that may be anything is worth more than that. */
static bool choose(const char *text, struct attempt *a)
{
    struct answer_range hash[ANSWER_PLACES], at[ANSWER_PLACES];
    int n_hash = answer_find(text, ANSWER_HASH, hash), h = 0, n;
    bool sure = false;
    while (h < n_hash && !take_hash(a, hash[h], &sure)) h++;
    const char *marked = h < n_hash ? hash[h].from : text;
    n = answer_find(text, ANSWER_BOX, at);
    for (int i = 0; i < n && at[i].from >= marked; i++)
        if (take_box(a, at[i])) return true;
    if (h < n_hash && sure) return take_hash(a, hash[h], &sure);
    n = answer_find(text, ANSWER_PHRASE, at);
    for (int i = 0; i < n && at[i].from >= marked; i++)
        if (take_phrase(a, at[i])) return true;
    if (h < n_hash) return take_hash(a, hash[h], &sure);
    n = answer_find(text, ANSWER_LINE, at);
    for (int remarks = 0; remarks < 2; remarks++)
        for (int i = 0; i < n; i++)
            if ((remarks || !answer_is_remark(at[i])) && take_line(a, at[i])) return true;
    return false;
}

size_t search_answer(const char *text, char *answer, size_t n_max)
{
    struct attempt a;
    struct answer_output out = {answer, 0, n_max ? n_max - 1 : 0};
    if (choose(text, &a)) answer_put(&out, a.text, a.out.n);
    if (n_max) answer[out.n] = 0;
    return out.n;
}
