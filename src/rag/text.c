/* SPDX-License-Identifier: MIT */
#include "rag/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text/utf8.h"

enum { SNIFF_BYTES = 1024 };

void text_add(struct text *t, const char *bytes, size_t n)
{
    if (t->failed) return;
    if (n >= t->room - t->n || !t->bytes) {
        size_t room = (t->n + n + 64) * 2;
        char *more = n < SIZE_MAX / 4 - t->n ? realloc(t->bytes, room) : NULL;
        t->failed = !more;
        if (!more) return;
        t->bytes = more;
        t->room = room;
    }
    if (n) memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = 0;
}

void text_fini(struct text *t)
{
    free(t->bytes);
    *t = (struct text){0};
}

void text_add_utf8(struct text *t, const char *bytes, size_t n)
{
    for (size_t at = 0; at < n && !t->failed;) {
        size_t good = text_utf8_valid(bytes + at, n - at);
        text_add(t, bytes + at, good);
        at += good;
        if (at == n) break;
        int bad = text_utf8_scan(bytes + at, n - at);
        text_add(t, TEXT_UTF8_REPLACEMENT, sizeof TEXT_UTF8_REPLACEMENT - 1);
        at = bad < 0 ? at + (size_t)-bad : n; /* 0: cut off by the end */
    }
}

const char *const text_kind_name[TEXT_N_KIND] = {"text", "markdown", "html"};

static const struct {
    const char *end;
    enum text_kind kind;
} name_ends[] = {
    {".md", TEXT_MARKDOWN},
    {".markdown", TEXT_MARKDOWN},
    {".html", TEXT_HTML},
    {".htm", TEXT_HTML},
    {".xhtml", TEXT_HTML},
};

/* Does HTML begin here, behind blanks, marks and comments?  The letters alone decide: "<!doctype html", "<html". */
static bool begins_html(const char *bytes, size_t n)
{
    static const char *const starts[] = {"<!doctype html", "<html"};
    if (n > SNIFF_BYTES) n = SNIFF_BYTES;
    size_t at = n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (at < n && strchr(" \t\r\n", bytes[at]) && bytes[at]) at++;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (n - at > strlen(starts[i]) && strncasecmp(bytes + at, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

enum text_kind text_kind_guess(const char *name, const char *bytes, size_t n)
{
    size_t n_name = strlen(name);
    for (size_t i = 0; i < sizeof name_ends / sizeof *name_ends; i++) {
        size_t n_end = strlen(name_ends[i].end);
        if (n_name > n_end && strcasecmp(name + n_name - n_end, name_ends[i].end) == 0) return name_ends[i].kind;
    }
    return begins_html(bytes, n) ? TEXT_HTML : TEXT_PLAIN;
}

const char *text_refuse(const char *bytes, size_t n)
{
    size_t odd = 0, looked = n < SNIFF_BYTES * 8 ? n : SNIFF_BYTES * 8;
    if (n && memchr(bytes, 0, n)) return "it is binary: it has NUL bytes";
    for (size_t i = 0; i < looked; i++) {
        unsigned char b = (unsigned char)bytes[i];
        odd += (b < ' ' && !strchr("\t\n\v\f\r\b\033", b)) || b == 0x7f;
    }
    return odd * 20 > looked ? "it is binary: more than one byte in 20 is a control character" : NULL;
}

/* How good a cut before text[at] is; 0: inside a character. */
static int break_strength(const char *text, size_t n, size_t at)
{
    char before = text[at - 1];
    if (((unsigned char)text[at] & 0xC0) == 0x80) return 0;
    if (before == '\n') {
        if (text[at] == '#') return 6;
        return at >= 2 && text[at - 2] == '\n' ? 5 : 4;
    }
    if (before != ' ' && before != '\t') return 1;
    return at >= 2 && strchr(".!?", text[at - 2]) && text[at - 2] && at < n ? 3 : 2;
}

size_t text_cut(const char *text, size_t n, size_t most)
{
    size_t best = 0;
    int strength = -1;
    if (n <= most) return n;
    for (size_t at = most; at > most / 2; at--) {
        int s = break_strength(text, n, at);
        if (s > strength) {
            strength = s;
            best = at;
        }
    }
    return best;
}
