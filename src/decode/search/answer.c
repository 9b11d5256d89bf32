/* SPDX-License-Identifier: MIT */
#include "decode/search/answer.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

struct range {
    const char *from, *to;
};

static const char *last_of(const char *text, const char *what)
{
    const char *found = NULL;
    for (const char *p = text; (p = strstr(p, what)); p++) found = p;
    return found;
}

static struct range line_from(const char *p)
{
    return (struct range){p, p + strcspn(p, "\n")};
}

/* Inside the braces that open before p. */
static struct range braces_from(const char *p)
{
    int depth = 1;
    const char *end = p;
    for (; *end && depth > 0; end++) depth += *end == '{' ? 1 : *end == '}' ? -1 : 0;
    return (struct range){p, depth == 0 ? end - 1 : end};
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct range last_number(const char *text)
{
    const char *end = text + strlen(text);
    while (end > text && !digit(end[-1])) end--;
    const char *from = end;
    while (from > text && (digit(from[-1]) || from[-1] == ',' || from[-1] == '.')) from--;
    if (from > text && from < end && from[-1] == '-') from--;
    return (struct range){from, end};
}

static struct range find(const char *text)
{
    const char *p;
    if ((p = last_of(text, "####"))) return line_from(p + 4);
    if ((p = last_of(text, "\\boxed{"))) return braces_from(p + 7);
    if ((p = last_of(text, "answer is"))) return line_from(p + 9);
    return last_number(text);
}

/* Leading and trailing blanks, currency and sentence ends carry nothing. */
static struct range trim(struct range r)
{
    while (r.from < r.to && (isspace((unsigned char)*r.from) || strchr("$:=", *r.from))) r.from++;
    while (r.to > r.from && (isspace((unsigned char)r.to[-1]) || strchr("$.%", r.to[-1]))) r.to--;
    return r;
}

size_t search_answer(const char *text, char *answer, size_t n_max)
{
    struct range r = trim(find(text));
    size_t n = 0;
    bool number = r.from < r.to;
    for (const char *p = r.from; p < r.to; p++) number &= digit(*p) || strchr(",.-", *p) != NULL;
    for (const char *p = r.from; p < r.to && n + 1 < n_max; p++)
        if (!(number && *p == ',')) answer[n++] = *p;
    if (number && memchr(answer, '.', n)) { /* 12.50 and 12.5, 3.0 and 3 */
        while (answer[n - 1] == '0') n--;
        if (answer[n - 1] == '.') n--;
    }
    if (n_max > 0) answer[n] = 0;
    return n;
}
