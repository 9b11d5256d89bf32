/* SPDX-License-Identifier: MIT */
#include "search/answer_find.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* The last places, in a ring while the text is read forward; to = NULL: the sentence from there. */
struct places {
    struct answer_range at[ANSWER_PLACES];
    size_t n;
};

static void add(struct places *p, const char *from, const char *to)
{
    if (from < to) p->at[p->n++ % ANSWER_PLACES] = (struct answer_range){from, to};
}

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Length of a word at p, whatever its case, or 0. */
static size_t word_at(const char *p, const char *word)
{
    if ((*p | 32) != (*word | 32)) return 0; /* most words end here */
    size_t n = strlen(word);
    return strncasecmp(p, word, n) ? 0 : n;
}

static size_t any_word_at(const char *p, const char *const *words)
{
    size_t n = 0;
    for (int i = 0; words[i]; i++) {
        size_t m = word_at(p, words[i]);
        if (m > n) n = m;
    }
    return n;
}

/* The end of p's line, or what an answer can be long: every place costs bounded work. */
static const char *line_end(const char *p)
{
    const char *end = p;
    while (*end && *end != '\n' && end - p < ANSWER_PLACE_BYTES) end++;
    return end;
}

/* ---- "####" ---- */

static void find_hashes(const char *text, struct places *out)
{
    for (const char *p = strchr(text, '#'); p; p = strchr(p, '#')) {
        size_t n = strspn(p, "#");
        p += n;
        const char *end = line_end(p), *next = memchr(p, '#', (size_t)(end - p));
        if (n == 4) add(out, p, next ? next : end);
    }
}

/* ---- boxes ---- */

/* What a mark holds that only talks about the mark: \boxed{answer}. */
static bool placeholder(const char *p, const char *end)
{
    static const char *const words[] = {"...", "\\ldots", "\\dots", "\\cdots", "answer", "your answer", "final answer",
        "the answer", "ans", "your_answer", "final_answer", "?", "_", "\xe2\x80\xa6"};
    while (p < end && (blank(*p) || *p == '{')) p++;
    if ((size_t)(end - p) > 6 && !memcmp(p, "\\text{", 6)) p += 6;
    while (end > p && (blank(end[-1]) || end[-1] == '}')) end--;
    size_t n = (size_t)(end - p);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && !strncasecmp(words[i], p, n)) return true;
    return n == 0;
}

/* "{5}" or " 5" behind \boxed.  Braces nest; a box that is never closed ends with its line. */
static struct answer_range boxed(const char *p)
{
    while (blank(*p)) p++;
    if (*p != '{') {
        const char *end = p + strcspn(p, " \t\r\n$");
        bool value = (*p >= '0' && *p <= '9') || (*p && strchr("-+\\.", *p)) || end - p == 1;
        return (struct answer_range){p, value ? end : p};
    }
    int depth = 0;
    const char *end = p;
    do {
        if (*end == '\\' && end[1])
            end++;
        else
            depth += *end == '{' ? 1 : *end == '}' ? -1 : 0;
    } while (depth > 0 && *++end && end - p < ANSWER_PLACE_BYTES);
    if (*end != '}') end = line_end(p);
    return (struct answer_range){p + 1, end};
}

static void find_boxes(const char *text, struct places *out)
{
    static const char *const tags[] = {"<answer>", "<final_answer>", "<ans>", NULL};
    for (const char *p = text + strcspn(text, "\\<"); *p; p += strcspn(p, "\\<")) {
        struct answer_range r = {p, p};
        size_t n = !strncmp(p, "\\boxed", 6) ? 6 : !strncmp(p, "\\fbox", 5) ? 5 : 0;
        if (n && !letter(p[n])) r = boxed(p + n);
        if (!n && (n = any_word_at(p, tags))) {
            const char *end = p + n;
            while (*end && strncmp(end, "</", 2) && !any_word_at(end, tags) && end - p < ANSWER_PLACE_BYTES) end++;
            r = (struct answer_range){p + n, end};
        }
        if (r.from < r.to && !placeholder(r.from, r.to)) add(out, r.from, r.to);
        p += n ? n : 1;
    }
}

/* ---- sentences ---- */

/* What explains an answer, behind it: the sentence ends here. */
static bool explains(const char *q)
{
    static const char *const reasons[] = {" because", " since ", " as we ", " as it ", " as the ", " as shown",
        " when ", " where ", " due to ", " after ", " based on ", " given that ", " according to ", " (since ",
        " (because ", " (or ", " (i.e", " (that is", " (rounded", " (as ", " (see ", " (which ", " (not ",
        " (assuming ", " (for ", " (in ", " (about", " (approximately", " or about ", " or approximately ",
        " \xe2\x80\x94 ", " \xe2\x80\x93 ", " - ", " => ", " --", NULL};
    if (*q == ' ' && any_word_at(q, reasons)) return true;
    if (word_at(q, ", or about ") || word_at(q, ", or approximately ")) return true;
    if (q[0] != ',' || q[1] != ' ') return false;
    const char *w = q + 2;
    size_t n = 0;
    while (letter(w[n])) n++;
    return n > 1 && w[0] >= 'a' && w[n] != '=' && !word_at(w, "and ") && !word_at(w, "or ");
}

/* A mark that ends a sentence at q: behind it, and behind what closes there, comes a blank. */
static bool ends(const char *q)
{
    static const char *const wide[] = {
        "\xe3\x80\x82", "\xef\xbc\x81", "\xef\xbc\x9f", "\xe0\xa5\xa4", "\xef\xbc\x9b", NULL};
    if (!*q || *q == '\n' || any_word_at(q, wide)) return true;
    if (*q == '"' && (q[1] == '}' || q[1] == ',')) return true; /* a text in JSON */
    if (!strchr(".!?;", *q)) return false;
    const char *p = q + 1;
    while (*p && strchr("*_$\"')]}`", *p)) p++;
    if (*p && !blank(*p)) return false;
    /* "B. 12" and "1. 5" stand before what they mark, "vs." and "No." are no ends; "5! = 120" is no sentence */
    return !(*q == '!' && *p == ' ' && strchr("=/+-*", p[1]) && p[1]);
}

/* The rest of a sentence without what explains it; NULL in from = nothing. */
static struct answer_range sentence(const char *p)
{
    static const char *const fillers[] = {"indeed ", "also ", "thus ", "therefore ", "then ", "simply ", "just ",
        "actually ", "option ", "choice ", "letter ", "the letter ", "given by ", "clearly ", "equal to ",
        "therefore, ", "so ", "as follows", "to be ", NULL};
    bool crossed = false;
    for (;;) {
        size_t n = any_word_at(p, fillers);
        if (n)
            p += n;
        else if (*p && (blank(*p) || strchr(":*_`$=\"'>#|", *p)))
            crossed |= *p++ == '\n';
        else if (!strncmp(p, "\\[", 2) || !strncmp(p, "\\(", 2))
            p += 2;
        else if (!strncmp(p, "\xef\xbc\x9a", 3) || !strncmp(p, "\xe2\x86\x92", 3) || !strncmp(p, "\xe2\x80\x94", 3))
            p += 3;
        else if ((crossed && *p == '-' && p[1] == ' ') || !strncmp(p, "- ", 2))
            p += 2;
        else
            break;
    }
    if (!strncmp(p, "\\boxed", 6)) return boxed(p + 6);
    const char *end = p;
    while (!ends(end) && (end == p || !explains(end)) && end - p < ANSWER_PLACE_BYTES) end++;
    return (struct answer_range){p, end};
}

/* Behind the verb or colon that follows "answer", or NULL: "answer to (b) is", "answer (in cm):", "answer**: ". */
static const char *behind_verb(const char *p)
{
    static const char *const verbs[] = {" is:", " is ", " are ", " are:", " was ", " be ", " be:", " equals ",
        " lautet ", " is\n", ":", "=", "\xef\xbc\x9a", "\xe2\x86\x92", " - ", " \xe2\x80\x94 ", " \xe2\x80\x93 ",
        " comes to ", " comes out to ", NULL};
    enum { FAR = 60 };
    const char *from = p;
    for (; *p && p - from < FAR; p++) {
        size_t n = any_word_at(p, verbs);
        if (n) return word_at(p + n + strspn(p + n, " *_"), "not") ? NULL : p + n;
        if (*p == '\n' || (*p && strchr(".!?;,", *p))) return NULL;
    }
    return NULL;
}

/* Only an emphasised word or two in a line: the heading "### Final Answer", "**Answer**". */
static bool heads(const char *text, const char *p, const char *end)
{
    enum { HEAD = 32 };
    const char *from = p;
    while (p > text && p[-1] != '\n' && from - p < HEAD) p--;
    if (p > text && p[-1] != '\n') return false;
    while (*p && strchr(" \t#*_", *p)) p++;
    p += word_at(p, "final ");
    p += word_at(p, "the ");
    p += word_at(p, "correct ");
    if (!word_at(p, "answer")) return false;
    while (*end && strchr(" \t\r*_:#s", *end)) end++;
    return *end == '\n';
}

/* "B" in "(B) is correct", "option **C** is the right answer", at the blank before "is"; from = to: none. */
static struct answer_range chosen_before(const char *text, const char *p)
{
    static const char *const praise[] = {" is correct", " is the correct", " is right", " is the right", " is the best",
        " is the answer", " is the final answer", NULL};
    struct answer_range none = {p, p};
    if (!any_word_at(p, praise)) return none;
    while (p > text && strchr(")*`\"'.", p[-1])) p--;
    if (p == text || p[-1] < 'A' || p[-1] > 'J') return none;
    return p - 1 > text && (letter(p[-2]) || p[-2] & 0x80) ? none : (struct answer_range){p - 1, p};
}

static void find_phrases(const char *text, struct places *out)
{
    static const char *const direct[] = {"\xe7\xad\x94\xe6\xa1\x88\xe6\x98\xaf", "\xe7\xad\x94\xe6\xa1\x88\xe4\xb8\xba",
        "\xe7\xad\x94\xe6\xa1\x88\xef\xbc\x9a", "\xe7\xad\x94\xe6\xa1\x88:", "\xe7\xad\x94\xe3\x81\x88\xe3\x81\xaf",
        "\xe6\xad\xa3\xe8\xa7\xa3\xe3\x81\xaf", "\xeb\x8b\xb5\xec\x9d\x80",
        "\xeb\x8b\xb5:", "\xeb\x8b\xb5: ", "respuesta es", "respuesta final es", "respuesta correcta es",
        "respuesta:", "r\xc3\xa9ponse est", "r\xc3\xa9ponse finale est",
        "r\xc3\xa9ponse :", "r\xc3\xa9ponse:", "antwort ist", "antwort lautet", "antwort:", "resposta \xc3\xa9",
        "resposta:", "risposta \xc3\xa8", "risposta:", "antwoord is",
        "antwoord:", "\xd0\xbe\xd1\x82\xd0\xb2\xd0\xb5\xd1\x82:", "\xd0\x9e\xd1\x82\xd0\xb2\xd0\xb5\xd1\x82:",
        "\xd0\x9e\xd1\x82\xd0\xb2\xd0\xb5\xd1\x82 \xe2\x80\x94",
        "\xe0\xa4\x89\xe0\xa4\xa4\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa4\xb0:",
        "\xd8\xa7\xd9\x84\xd8\xa5\xd8\xac\xd8\xa7\xd8\xa8\xd8\xa9 \xd9\x87\xd9\x8a",
        "\xd8\xa7\xd9\x84\xd8\xac\xd9\x88\xd8\xa7\xd8\xa8 \xd9\x87\xd9\x88", "jawabannya adalah",
        "jawaban:", "cevap:", "\xe6\x95\x85\xe9\x80\x89", "\xe5\xba\x94\xe9\x80\x89", "\xe9\x81\xb8\xe3\x81\xb6", NULL};
    static const char *const picks[] = {"option is ", "choice is ", "choose option ", "choose ", "select option ",
        "i choose ", "i pick ", "option is: ", "choice is: ", "option is:", "option:", "choice:", "it is ", "it's ",
        "must be ", "should be ", "so ", "thus ", "thus, ", "therefore ", "therefore, ", "hence ", "hence, ", NULL};
    for (const char *p = text; *p; p++) {
        bool begins = p == text || !letter(p[-1]);
        size_t n = any_word_at(p, direct);
        const char *from = n ? p + n : NULL;
        if (*p == ' ') {
            struct answer_range r = chosen_before(text, p);
            add(out, r.from, r.to);
        } else if (begins && !from && (n = word_at(p, "answer"))) {
            const char *q = p + n + (p[n] == 's' || p[n] == 'S');
            if (!letter(*q)) from = heads(text, p, q) ? q : behind_verb(q);
        } else if (begins && !from && (n = any_word_at(p, picks))) {
            const char *q = p + n + strspn(p + n, "*(\"'` \\$");
            if (*q >= 'A' && *q <= 'J' && (!q[1] || strchr(".,;:!)]*\"'`$\n", q[1]))) add(out, q, q + 1);
        }
        if (from) out->at[out->n++ % ANSWER_PLACES] = (struct answer_range){from, NULL};
    }
}

/* ---- lines ---- */

bool answer_is_remark(struct answer_range line)
{
    static const char *const words[] = {"note", "let me know", "i hope", "hope this", "feel free", "if you", "please",
        "would you", "do you", "p.s.", "remark", "confidence", "is there", "thank", "good luck", "remember", "tip",
        "(note", "(this", "check", "verification", "verify", "to verify", "(check", "(verif", "double-check",
        "fun fact", "source", "(rounded", "this used", "this took", "this uses", "(this", "next, try", "want ",
        "you can also", "happy ", "great ", "hint", NULL};
    const char *p = line.from;
    if (*p == '#') return true;
    while (p < line.to && strchr(" \t*_>-", *p)) p++;
    return any_word_at(p, words) > 0;
}

static void find_lines(const char *text, struct places *out)
{
    for (const char *p = text; *p;) {
        const char *end = p + strcspn(p, "\n"), *q = p;
        while (q < end && blank(*q)) q++;
        if (end - q > ANSWER_PLACE_BYTES) q = end - ANSWER_PLACE_BYTES; /* the last number is asked for */
        add(out, q, end);
        p = *end ? end + 1 : end;
    }
}

int answer_find(const char *text, enum answer_mark mark, struct answer_range place[ANSWER_PLACES])
{
    static void (*const find[ANSWER_MARKS])(const char *, struct places *) = {
        find_hashes, find_boxes, find_phrases, find_lines};
    struct places found = {.n = 0};
    find[mark](text, &found);
    int n = found.n < ANSWER_PLACES ? (int)found.n : ANSWER_PLACES, kept = 0;
    for (int i = 0; i < n; i++) {
        struct answer_range r = found.at[(found.n - 1 - (size_t)i) % ANSWER_PLACES];
        if (!r.to) r = sentence(r.from);
        if (r.from < r.to && !placeholder(r.from, r.to)) place[kept++] = r;
    }
    return kept;
}
