/* SPDX-License-Identifier: MIT
 *
 * Which part of a text is reasoning: the tags of known model families, found in a growing text (text/reasoning.h).
 */
#include "text/reasoning.h"

#include <stdint.h>
#include <string.h>

/* Families, by what their templates and models write. */
static const struct text_tags families[] = {
    {.open = "<think>", .close = "</think>"},                    /* DeepSeek, Qwen3, SmolLM3, Granite, most others */
    {.open = "[THINK]", .close = "[/THINK]"},                    /* Mistral */
    {.open = "<|START_THINKING|>", .close = "<|END_THINKING|>"}, /* Cohere */
    {.open = "<seed:think>", .close = "</seed:think>"},          /* Seed-OSS */
    {.open = "<|inner_prefix|>", .close = "<|inner_suffix|>"},   /* Apertus */
    {.open = "<thought>", .close = "</thought>"},                /* EXAONE Deep */
    {.open = "<|channel>", .close = "<channel|>", .label = "thought\n"}, /* Gemma 4 */
    {.open = "<|channel|>analysis<|message|>",
        .close = "<|end|>",
        .mark = "<|channel|>analysis", /* gpt-oss */
        .to_answer = "<|end|><|start|>assistant<|channel|>final<|message|>",
        .answer = "<|channel|>final<|message|>"},
};

enum { SPACES_BEFORE_TAG = 16 }; /* text with more of them is no reasoning */

const struct text_tags *text_reasoning_tags(const char *chat_template)
{
    for (size_t i = 0; chat_template && i < sizeof families / sizeof *families; i++)
        if (strstr(chat_template, families[i].mark ? families[i].mark : families[i].close)) return &families[i];
    return NULL;
}

const char *text_reasoning_end(const struct text_tags *tags)
{
    return tags->to_answer ? tags->to_answer : tags->close;
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
    if (!tags) return false;
    if (tags->label) { /* "thought" without the space behind it */
        size_t n = strlen(tags->label);
        while (n > 0 && is_space(tags->label[n - 1])) n--;
        if (n_bytes >= n && memcmp(text + n_bytes - n, tags->label, n) == 0) n_bytes -= n;
    }
    size_t n = strlen(tags->open);
    return n_bytes >= n && memcmp(text + n_bytes - n, tags->open, n) == 0;
}

void text_reasoning_begin(struct text_reasoning *r, const struct text_tags *tags, bool inside)
{
    r->tags = tags;
    r->thinks = inside;
    r->once = false;
    r->state = !tags ? REASONING_OVER : inside ? REASONING_BEGINS : REASONING_MAY_BEGIN;
}

bool text_reasoning_is_before(const struct text_reasoning *r)
{
    bool header = r->state == REASONING_HEADER || (r->state == REASONING_MAY_BEGIN && r->tags->answer);
    return header || text_reasoning_goes_on(r);
}

bool text_reasoning_goes_on(const struct text_reasoning *r)
{
    return r->state == REASONING_BEGINS || r->state == REASONING_GOES_ON;
}

static bool begins(const char *tag, const char *text, size_t n_bytes)
{
    size_t n = strlen(tag);
    return memcmp(text, tag, n_bytes < n ? n_bytes : n) == 0;
}

/* The opening tag and spaces before it; anything else makes all of the text an answer. */
static size_t find_open(struct text_reasoning *r, const char *text, size_t n_bytes, bool ended, enum text_part *part)
{
    size_t n_tag = strlen(r->tags->open), spaces = count_spaces(text, n_bytes), n = n_bytes - spaces;
    bool fits = spaces <= SPACES_BEFORE_TAG && begins(r->tags->open, text + spaces, n);
    if (fits && n >= n_tag) {
        r->state = REASONING_BEGINS;
        *part = TEXT_MARK;
        return spaces + n_tag;
    }
    if (fits && !ended) return 0;
    r->state = REASONING_OVER;
    return n_bytes;
}

/* Bytes before `tag`, which is at *at, or before what may become it. */
static size_t before_tag(const char *tag, const char *text, size_t n_bytes, bool ended, const char **at)
{
    *at = memmem(text, n_bytes, tag, strlen(tag));
    if (*at || ended) return *at ? (size_t)(*at - text) : n_bytes;
    size_t held = strlen(tag) - 1 < n_bytes ? strlen(tag) - 1 : n_bytes;
    while (held > 0 && memcmp(text + n_bytes - held, tag, held) != 0) held--;
    return n_bytes - held;
}

/* Up to the closing tag, or to what may become one. */
static size_t find_close(struct text_reasoning *r, const char *text, size_t n_bytes, bool ended, enum text_part *part)
{
    const char *at;
    size_t n = before_tag(r->tags->close, text, n_bytes, ended, &at);
    *part = r->state == REASONING_MESSAGE ? TEXT_ANSWER : TEXT_REASONING;
    if (at != text) return n;
    r->state = r->tags->answer ? REASONING_HEADER : REASONING_ENDED;
    r->thinks = false;
    *part = TEXT_MARK;
    return strlen(r->tags->close);
}

/* ---- harmony: <|start|>assistant<|channel|>CHANNEL<|message|>TEXT<|end|>, the first without its <|start|>assistant */

static size_t skip_header(struct text_reasoning *r, const char *text, size_t n_bytes, bool ended, enum text_part *part)
{
    static const char end[] = "<|message|>", thinks[] = "<|channel|>analysis";
    const char *at, *channel;
    size_t n = before_tag(end, text, n_bytes, ended, &at),
           n_channel = before_tag(thinks, text, n, at || ended, &channel);
    *part = TEXT_MARK;
    if (channel) {
        r->thinks = true;
        return n_channel + sizeof thinks - 1;
    }
    if (at != text) return at ? n : n_channel < n ? n_channel : n;
    r->state = r->thinks ? REASONING_GOES_ON : REASONING_MESSAGE;
    return sizeof end - 1;
}

static size_t find_channel(struct text_reasoning *r, const char *text, size_t n_bytes, bool ended, enum text_part *part)
{
    static const char *const first[] = {"<|channel|>", "<|start|>"};
    bool may = false;
    for (int i = 0; i < 2; i++) {
        if (!begins(first[i], text, n_bytes)) continue;
        may = true;
        if (n_bytes < strlen(first[i])) continue;
        r->state = REASONING_HEADER;
        return skip_header(r, text, n_bytes, ended, part);
    }
    if (may && !ended) return 0;
    r->state = REASONING_OVER;
    return n_bytes;
}

/* ---- all ---- */

/* Spaces and a label behind the tag that opened; 0: reasoning. */
static size_t skip_label(struct text_reasoning *r, const char *text, size_t n_bytes, bool ended)
{
    const char *label = r->tags->label;
    size_t spaces = count_spaces(text, n_bytes), n = label ? strlen(label) : 0;
    if (spaces > 0) return spaces;
    if (label && begins(label, text, n_bytes)) {
        if (n_bytes < n && !ended) return SIZE_MAX;
        if (n_bytes >= n) return n;
    }
    return 0;
}

size_t text_reasoning_next(struct text_reasoning *r, const char *text, size_t n_bytes, bool ended, enum text_part *part)
{
    size_t n = 0;
    bool again;
    *part = TEXT_ANSWER;
    if (n_bytes == 0) return 0;
    switch (r->state) {
    case REASONING_OVER: return n_bytes;
    case REASONING_MAY_BEGIN:
        return r->tags->answer ? find_channel(r, text, n_bytes, ended, part) : find_open(r, text, n_bytes, ended, part);
    case REASONING_HEADER: return skip_header(r, text, n_bytes, ended, part);
    case REASONING_GOES_ON:
    case REASONING_MESSAGE: return find_close(r, text, n_bytes, ended, part);
    case REASONING_BEGINS:
        n = skip_label(r, text, n_bytes, ended);
        if (n == SIZE_MAX) return 0;
        if (n == 0) r->state = REASONING_GOES_ON;
        break;
    case REASONING_ENDED:
        n = count_spaces(text, n_bytes);
        if (n > 0) break;
        again = !r->once && begins(r->tags->open, text, n_bytes);
        if (again && n_bytes < strlen(r->tags->open) && !ended) return 0;
        again = again && n_bytes >= strlen(r->tags->open);
        r->state = again ? REASONING_MAY_BEGIN : REASONING_OVER;
        break;
    }
    *part = TEXT_MARK;
    return n > 0 ? n : text_reasoning_next(r, text, n_bytes, ended, part);
}

static bool is_tag(const char *tag, const char *spelt, size_t n_bytes)
{
    return strlen(tag) == n_bytes && memcmp(tag, spelt, n_bytes) == 0;
}

void text_reasoning_token(struct text_reasoning *r, const char *spelt, size_t n_bytes)
{
    bool may = r->state == REASONING_MAY_BEGIN || (r->state == REASONING_ENDED && !r->once);
    if (may && is_tag(r->tags->open, spelt, n_bytes)) r->state = REASONING_BEGINS;
    if (text_reasoning_goes_on(r) && is_tag(r->tags->close, spelt, n_bytes)) r->state = REASONING_ENDED;
}

bool text_opens_reasoning(const struct text_vocab *vocab, const struct text_tags *tags, const int32_t *token, int n_tok)
{
    char tail[4 * TEXT_REASONING_HELD];
    size_t at = sizeof tail;
    for (int i = n_tok - 1; tags && i >= 0 && at > TEXT_REASONING_HELD; i--) {
        struct text_bytes piece = text_token_piece(vocab, token[i], TEXT_PIECE_SPECIAL);
        if (piece.n > at) break;
        at -= piece.n;
        memcpy(tail + at, piece.p, piece.n);
    }
    return text_reasoning_opened(tags, tail + at, sizeof tail - at);
}
