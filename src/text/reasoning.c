/* SPDX-License-Identifier: MIT
 *
 * Which part of a text is reasoning: the tags of known model families, found in a growing text (text/reasoning.h).
 */
#include "text/reasoning.h"

#include <string.h>

/* Families, by what their templates and models write. */
static const struct text_tags families[] = {
    {"<think>", "</think>"},                    /* DeepSeek, Qwen3, SmolLM3, Granite, most others */
    {"[THINK]", "[/THINK]"},                    /* Mistral */
    {"<|START_THINKING|>", "<|END_THINKING|>"}, /* Cohere */
    {"<seed:think>", "</seed:think>"},          /* Seed-OSS */
    {"<|inner_prefix|>", "<|inner_suffix|>"},   /* Apertus */
    {"<thought>", "</thought>"},                /* EXAONE Deep */
};

enum { SPACES_BEFORE_TAG = 16 }; /* text with more of them is no reasoning */

const struct text_tags *text_reasoning_tags(const char *chat_template)
{
    for (size_t i = 0; chat_template && i < sizeof families / sizeof *families; i++)
        if (strstr(chat_template, families[i].close)) return &families[i];
    return NULL;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t count_spaces(const char *text, size_t n_bytes)
{
    size_t n = 0;
    while (n < n_bytes && is_space(text[n])) n++;
    return n;
}

bool text_reasoning_opened(const struct text_tags *tags, const char *text, size_t n_bytes)
{
    while (n_bytes > 0 && is_space(text[n_bytes - 1])) n_bytes--;
    size_t n = tags ? strlen(tags->open) : 0;
    return n > 0 && n_bytes >= n && memcmp(text + n_bytes - n, tags->open, n) == 0;
}

void text_reasoning_begin(struct text_reasoning *r, const struct text_tags *tags, bool inside)
{
    r->tags = tags;
    r->state = !tags ? REASONING_OVER : inside ? REASONING_BEGINS : REASONING_MAY_BEGIN;
}

bool text_reasoning_goes_on(const struct text_reasoning *r)
{
    return r->state == REASONING_BEGINS || r->state == REASONING_GOES_ON;
}

/* The opening tag and spaces before it; anything else makes all of the text an answer. */
static size_t find_open(struct text_reasoning *r, const char *text, size_t n_bytes, bool ended, enum text_part *part)
{
    size_t n_tag = strlen(r->tags->open), spaces = count_spaces(text, n_bytes), n = n_bytes - spaces;
    bool fits = spaces <= SPACES_BEFORE_TAG && memcmp(text + spaces, r->tags->open, n < n_tag ? n : n_tag) == 0;
    if (fits && n >= n_tag) {
        r->state = REASONING_BEGINS;
        *part = TEXT_MARK;
        return spaces + n_tag;
    }
    if (fits && !ended) return 0;
    r->state = REASONING_OVER;
    return n_bytes;
}

/* Up to the closing tag, or to what may become one. */
static size_t find_close(struct text_reasoning *r, const char *text, size_t n_bytes, bool ended, enum text_part *part)
{
    const char *close = r->tags->close, *at = memmem(text, n_bytes, close, strlen(close));
    *part = TEXT_REASONING;
    if (at == text) {
        r->state = REASONING_ENDED;
        *part = TEXT_MARK;
        return strlen(close);
    }
    if (at || ended) return at ? (size_t)(at - text) : n_bytes;
    size_t held = strlen(close) - 1 < n_bytes ? strlen(close) - 1 : n_bytes;
    while (held > 0 && memcmp(text + n_bytes - held, close, held) != 0) held--;
    return n_bytes - held;
}

size_t text_reasoning_next(struct text_reasoning *r, const char *text, size_t n_bytes, bool ended, enum text_part *part)
{
    *part = TEXT_ANSWER;
    if (n_bytes == 0 || r->state == REASONING_OVER) return n_bytes;
    if (r->state == REASONING_MAY_BEGIN) return find_open(r, text, n_bytes, ended, part);
    if (r->state == REASONING_GOES_ON) return find_close(r, text, n_bytes, ended, part);
    size_t spaces = count_spaces(text, n_bytes);
    *part = TEXT_MARK;
    if (spaces > 0) return spaces;
    r->state = r->state == REASONING_BEGINS ? REASONING_GOES_ON : REASONING_OVER;
    return text_reasoning_next(r, text, n_bytes, ended, part);
}

static bool is_tag(const char *tag, const char *spelt, size_t n_bytes)
{
    return strlen(tag) == n_bytes && memcmp(tag, spelt, n_bytes) == 0;
}

void text_reasoning_token(struct text_reasoning *r, const char *spelt, size_t n_bytes)
{
    if (r->state == REASONING_MAY_BEGIN && is_tag(r->tags->open, spelt, n_bytes)) r->state = REASONING_BEGINS;
    if (text_reasoning_goes_on(r) && is_tag(r->tags->close, spelt, n_bytes)) r->state = REASONING_ENDED;
}
