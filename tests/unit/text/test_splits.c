/* SPDX-License-Identifier: MIT
 *
 * Every pre-split beside llama.cpp, on recorded sums: 4000 strings of mixed scripts, cut by each split and merged by a
 * vocabulary that has all pairs of bytes in a scattered order, so that a cut at any other place shows in the ids.
 * And some pre-splits on every character of Unicode 17, assigned or not, beside Hugging Face's tokenizers.
 *
 *     text_test_splits              the sums of splits_golden.h
 *     text_test_splits --strings    the strings themselves, a NUL after each
 *     text_test_splits --print      the sums Lutra makes
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "toy.h"

enum { N_STRING = 4000, STRING_BYTES = 320, N_PAIR = 65536 };

static const struct {
    const char *pre;
    uint64_t sum;
} golden[] = {
#include "splits_golden.h"
};
enum { N_GOLDEN = sizeof golden / sizeof *golden };
static const struct {
    const char *pre;
    uint64_t sum;
} characters[] = {{"qwen2", 0x58d87bf21be36149}, {"gpt-4o", 0x9787f003f112bf90}, {"deepseek-v3", 0xf94256cc236b5cdc}};

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* What splits are about: spaces and line ends, contractions, digits, case, marks, symbols, ideographs. */
static const char *const parts[] = {" ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", " \n ", "\v", "\x1c", "'s", "'S",
    "'ll", "'Re", "'", "1", "22", "4096", "12345", "the", "The", "HTTP", "camelCase", "don't", "a", "Z", "...", "?!",
    "//", "~", "~~", "`", "$", "+=", "<|x|>", "#define", "_a_", "{", "\\", "\xC2\xA0", "\xE3\x80\x80", "\xE2\x80\xA8",
    "\xC2\x85", "\xE2\x80\x8B", "\xEF\xBB\xBF", "\xC3\xA9t\xC3\xA9", "\xC3\x89", "\xC3\x9F", "\xC7\x85", "\xCA\xBC",
    "e\xCC\x81", "\xCC\x81", "\xD0\x9F\xD1\x80\xD0\xB8", "\xCE\xB1\xCE\xA9", "\xE6\x97\xA5\xE6\x9C\xAC", "\xE3\x81\xAE",
    "\xE3\x82\xAB\xE3\x83\xBC", "\xED\x95\x9C\xEA\xB5\xAD", "\xD8\xB9\xD8\xB1", "\xE0\xA4\xB9\xE0\xA4\xBF",
    "\xE0\xB9\x84", "\xD7\xA9", "\xE3\x80\x82", "\xEF\xBC\x81", "\xE2\x80\x9C", "\xC2\xBD", "\xE2\x85\xA7",
    "\xD9\xA3\xD9\xA4", "\xC2\xAA", "\xE2\x82\xAC", "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD", "\xF0\x90\x90\x80",
    "\xF0\x9D\x9F\x97", "\xF0\xA0\x80\x80", "\x01"};
enum { N_PART = sizeof parts / sizeof *parts };

/* Starts of blocks of 64 characters that Unicode filled long ago. */
static const uint32_t blocks[] = {0x20, 0x40, 0x80, 0xA0, 0xC0, 0x100, 0x180, 0x240, 0x2C0, 0x300, 0x380, 0x3C0, 0x400,
    0x480, 0x540, 0x600, 0x640, 0x900, 0xE00, 0x10A0, 0x13A0, 0x1E00, 0x1F00, 0x2000, 0x2040, 0x2100, 0x2140, 0x2200,
    0x2C00, 0x3000, 0x3040, 0x3080, 0x4E00, 0x9F80, 0xA640, 0xA720, 0xAC00, 0xFB00, 0xFF00, 0xFF40, 0x10400, 0x1F600};
enum { N_BLOCK = sizeof blocks / sizeof *blocks };

static size_t make_string(uint64_t *state, char text[STRING_BYTES])
{
    size_t n = 0;
    uint32_t mode = draw(state, 4);
    for (uint32_t k = draw(state, 40); k > 0; k--) {
        if (mode == 0 || draw(state, 3) == 0) {
            uint32_t block = blocks[draw(state, N_BLOCK)];
            n += (size_t)text_utf8_put(block + draw(state, 64), text + n);
        } else {
            const char *part = parts[draw(state, N_PART)];
            memcpy(text + n, part, strlen(part));
            n += strlen(part);
        }
    }
    return n;
}

/* 256 bytes, then all pairs; pair i has rank i. */
static struct text_vocab *open_pairs(const char *pre)
{
    static struct toy toy;
    static char token[N_PAIR][4], merge[N_PAIR][5];
    static struct text_bytes tokens[256 + N_PAIR], merges[N_PAIR];
    toy_init(&toy, pre);
    memcpy(tokens, toy.tokens, 256 * sizeof *tokens);
    for (uint32_t i = 0; i < N_PAIR; i++) {
        uint32_t pair = i * 40503u % N_PAIR; /* odd: every pair once */
        struct text_bytes left = tokens[pair >> 8], right = tokens[pair & 255];
        memcpy(token[i], left.p, left.n);
        memcpy(token[i] + left.n, right.p, right.n);
        tokens[256 + i] = (struct text_bytes){token[i], left.n + right.n};
        memcpy(merge[i], left.p, left.n);
        merge[i][left.n] = ' ';
        memcpy(merge[i] + left.n + 1, right.p, right.n);
        merges[i] = (struct text_bytes){merge[i], left.n + 1 + right.n};
    }
    toy.src.tokens = tokens;
    toy.src.types = NULL;
    toy.src.n_tok = 256 + N_PAIR;
    toy.src.merges = merges;
    toy.src.n_merge = N_PAIR;
    struct text_vocab *v;
    struct lutra_error err;
    if (text_vocab_open(&v, &toy.src, &err) < 0) {
        fprintf(stderr, "%s\n", err.what);
        exit(1);
    }
    return v;
}

static uint64_t mix(uint64_t sum, uint32_t value)
{
    for (int i = 0; i < 4; i++) sum = (sum ^ (value >> 8 * i & 255)) * 0x100000001b3u; /* FNV-1a */
    return sum;
}

/* The sum with the ids of one more text and where it ends.  The text must come back from its pieces. */
static uint64_t mix_text(const struct text_vocab *v, const char *text, size_t n, uint64_t sum)
{
    struct text_tokens ids = {0};
    size_t at = 0;
    if (text_encode(v, text, n, 0, &ids, NULL) < 0) exit(1);
    for (size_t i = 0; i < ids.n; i++) {
        struct text_bytes piece = text_token_piece(v, ids.ids[i], 0);
        if (piece.n > n - at || memcmp(piece.p, text + at, piece.n) != 0) exit(1);
        at += piece.n;
        sum = mix(sum, (uint32_t)ids.ids[i]);
    }
    if (at != n) exit(1);
    text_tokens_fini(&ids);
    return mix(sum, UINT32_MAX);
}

/* Of all strings. */
static uint64_t sum_of(const char *pre)
{
    struct text_vocab *v = open_pairs(pre);
    uint64_t state = 1, sum = 0xcbf29ce484222325u;
    char text[STRING_BYTES];
    for (int s = 0; s < N_STRING; s++) sum = mix_text(v, text, make_string(&state, text), sum);
    text_vocab_close(&v);
    return sum;
}

/* Of every character but surrogates, each with an "a" behind it, 64 to a text. */
static uint64_t sum_of_characters(const char *pre)
{
    struct text_vocab *v = open_pairs(pre);
    uint64_t sum = 0xcbf29ce484222325u;
    char text[64 * 5];
    for (uint32_t first = 0; first < 0x110000; first += 64) {
        size_t n = 0;
        for (uint32_t cp = first; cp < first + 64 && (cp < 0xD800 || cp > 0xDFFF); cp++) {
            n += (size_t)text_utf8_put(cp, text + n);
            text[n++] = 'a';
        }
        if (n) sum = mix_text(v, text, n, sum);
    }
    text_vocab_close(&v);
    return sum;
}

static void splits_cut_where_llama_cpp_does(void **state)
{
    (void)state;
    for (int i = 0; i < N_GOLDEN; i++) {
        uint64_t sum = sum_of(golden[i].pre);
        if (sum != golden[i].sum) fail_msg("%s: %016llx", golden[i].pre, (unsigned long long)sum);
    }
}

/* hf/tokenizers compares the same with Hugging Face's tokenizers where npm is to be had. */
static void every_character_of_unicode_17_is_cut_as_its_category_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof characters / sizeof *characters; i++) {
        uint64_t sum = sum_of_characters(characters[i].pre);
        if (sum != characters[i].sum) fail_msg("%s: %016llx", characters[i].pre, (unsigned long long)sum);
    }
}

static int print_strings(void)
{
    uint64_t state = 1;
    char text[STRING_BYTES];
    for (int s = 0; s < N_STRING; s++) {
        fwrite(text, 1, make_string(&state, text), stdout);
        putchar(0);
    }
    return 0;
}

static int print_sums(void)
{
    for (int i = 0; i < N_GOLDEN; i++)
        printf("{\"%s\", 0x%016llx},\n", golden[i].pre, (unsigned long long)sum_of(golden[i].pre));
    for (size_t i = 0; i < sizeof characters / sizeof *characters; i++)
        printf("of all characters: {\"%s\", 0x%016llx},\n", characters[i].pre,
            (unsigned long long)sum_of_characters(characters[i].pre));
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(splits_cut_where_llama_cpp_does),
        cmocka_unit_test(every_character_of_unicode_17_is_cut_as_its_category_says)};
    if (argc > 1 && strcmp(argv[1], "--strings") == 0) return print_strings();
    if (argc > 1 && strcmp(argv[1], "--print") == 0) return print_sums();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
