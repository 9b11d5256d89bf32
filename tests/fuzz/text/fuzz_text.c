/* SPDX-License-Identifier: MIT
 *
 * Mutated templates, variables, vocabularies and texts.  Each must end in success or an error within 20 seconds, and
 * the library's heap must stay within 64 MiB + 16 times the input.
 *
 *     fuzz_text                 2,000 inputs from number 1
 *     fuzz_text --long          the 38,000 behind them
 *     fuzz_text N [FIRST]       inputs FIRST .. FIRST + N - 1; input numbers name inputs for good
 */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>

#include "fuzz/fuzz.h"
#include "fuzz/heap.h"
#include "text/encode.h"
#include "text/stream.h"
#include "text/template.h"

/* ---- mutation ---- */

static uint64_t draw(uint64_t *dice, uint64_t below)
{
    return fuzz_roll(dice) % below;
}

enum { MAX_INPUT = 6000, MAX_SEEDS = 256, SECONDS_PER_INPUT = 20 };

struct input {
    char bytes[MAX_INPUT + 1];
    size_t n;
};

static const char *const template_words[] = {"{{", "}}", "{%", "%}", "{%-", "-%}", "{#", "#}", " if ", " else ",
    " for x in ", " endfor ", " endif ", " set ", "namespace(", "range(", "loop.", " is ", " not ", " in ", "|",
    "|tojson", "|map(", "|list", "messages", "[::-1]", "[", "]", "(", ")", "{", "}", "~", "+", "**", "//", "%", "'",
    "\"", "\\", "\n", "999999999999", "1e308", "-", ".", ",", "macro m(", "endmacro", "caller()", "raw", "endraw",
    "break", "join", "split(", "replace(", "|sort", "|indent(", " * 99999", "\xC3\xA9", "\xFF", "\xF0\x9F\xA6", "none",
    "*a", "**a", "=", ":"};
static const char *const json_words[] = {"{", "}", "[", "]", ",", ":", "\"", "\\u", "\\ud83d", "null", "true", "1e999",
    "-0", "123456789012345678901", "\"role\"", "\"content\"", "\"messages\"", "\n", "\x01", "\xFF", "[[[[[[[[",
    "{\"a\":"};
static const char *const text_words[] = {"<|im_end|>", "<|", "|>", " ", "\n", "'s", "123", "\xC3", "\xE2\x80\x83",
    "\xFF", "aaaa", "\xF0\x9F\xA6\x99", "\xED\xA0\x80", "\xCC\x81", "e\xCC\x81", "\xE1\x84\x80\xE1\x85\xA1",
    "\xE2\x96\x81", "\xE0\xA5\x98", "\xCC\xA7", "\xC2\x85"};

static void put(struct input *in, size_t at, const char *bytes, size_t n)
{
    if (n > MAX_INPUT - in->n) n = MAX_INPUT - in->n;
    memmove(in->bytes + at + n, in->bytes + at, in->n - at);
    memcpy(in->bytes + at, bytes, n);
    in->n += n;
}

static void cut(struct input *in, size_t at, size_t n)
{
    if (n > in->n - at) n = in->n - at;
    memmove(in->bytes + at, in->bytes + at + n, in->n - at - n);
    in->n -= n;
}

/* Names, filters, tests and operands that may stand for one another: these keep most templates well formed. */
static const char *const operands[] = {"a", "l", "s", "d", "m", "messages", "x", "loop", "ns", "0", "1", "3.5", "none",
    "true", "range(9)", "range(99999)", "'ab'", "[1, [2, 'x']]", "{'k': l}", "list", "join", "tojson", "upper", "sort",
    "unique", "map", "select", "first", "reverse", "items", "length", "int", "indent", "replace", "title", "split",
    "strip", "get", "keys", "pprint", "urlize", "defined", "string", "mapping", "odd", "in", "not", "and", "or", "if",
    "loop.index", "loop.last", "namespace", "dict", "raise_exception", "caller", "varargs", "s * 9999", "l * 999",
    "m[0]", "messages[-1]", "l[::-1]"};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Puts another operand in the place of the word at or after `at`. */
static void swap_word(uint64_t *dice, struct input *in, size_t at)
{
    const char *word = operands[draw(dice, sizeof operands / sizeof *operands)];
    while (at < in->n && !is_letter(in->bytes[at])) at++;
    while (at > 0 && is_letter(in->bytes[at - 1])) at--;
    size_t end = at;
    while (end < in->n && is_letter(in->bytes[end])) end++;
    static const char statements[] =
        " if elif else endif for in endfor set endset macro endmacro call endcall filter endfilter with raw ";
    in->bytes[in->n] = 0;
    const char *hit = end > at ? statements : NULL;
    for (; hit; hit = strchr(hit + 1, ' ')) {
        if (strncmp(hit + 1, in->bytes + at, end - at) == 0 && hit[1 + end - at] == ' ') return;
    }
    cut(in, at, end - at);
    put(in, at, word, strlen(word));
}

static void mutate(uint64_t *dice, struct input *in, const char *const *words, size_t n_words)
{
    char copy[256];
    for (uint64_t round = draw(dice, 8); round > 0; round--) {
        size_t at = draw(dice, in->n + 1), n = draw(dice, 40) + 1;
        const char *word = words[draw(dice, n_words)];
        switch (draw(dice, 6)) {
        case 0: put(in, at, word, strlen(word)); break;
        case 1: cut(in, at, n); break;
        case 2:
            if (at < in->n) in->bytes[at] = (char)draw(dice, 256);
            break;
        case 3: /* repeat a part, often many times */
            if (n > in->n - at) n = in->n - at;
            memcpy(copy, in->bytes + at, n);
            for (uint64_t times = draw(dice, draw(dice, 4) ? 3 : 200); times > 0; times--) put(in, at, copy, n);
            break;
        case 4: /* move a part */
            if (n > in->n - at) n = in->n - at;
            memcpy(copy, in->bytes + at, n);
            cut(in, at, n);
            put(in, draw(dice, in->n + 1), copy, n);
            break;
        default: cut(in, at, strlen(word)); put(in, at < in->n ? at : in->n, word, strlen(word));
        }
    }
}

/* ---- what is fed ---- */

static char *seeds[MAX_SEEDS], *hostile[MAX_SEEDS];
static size_t n_seeds, n_hostile;
static long n_parsed, n_rendered, n_opened;
static const char messages[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
                               "\"content\": \"h\\u00e9 \\ud83e\\udd99\"}, "
                               "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": "
                               "{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, {}]}}}]}], "
                               "\"tools\": null, \"add_generation_prompt\": true, \"l\": [3, 1, 2], \"s\": \"text\", "
                               "\"a\": 3, \"d\": {\"k\": 1}, \"m\": []}";

static void load_seeds(const char *path)
{
    json_error_t why;
    json_t *file = json_load_file(path, 0, &why), *one;
    size_t i;
    json_array_foreach(json_object_get(file, "cases"), i, one)
    {
        bool parses = json_object_get(one, "text") != NULL;
        if (parses && n_seeds < MAX_SEEDS)
            seeds[n_seeds++] = strdup(json_string_value(json_object_get(one, "template")));
    }
    json_array_foreach(json_object_get(file, "hostile"), i, one)
    {
        if (n_hostile < MAX_SEEDS) hostile[n_hostile++] = strdup(json_string_value(one));
    }
    json_decref(file);
}

static void start(struct input *in, const char *text)
{
    in->n = 0;
    put(in, 0, text, strlen(text));
}

static size_t feed_template(uint64_t *dice)
{
    static struct input source, json;
    struct text_template *t;
    struct text_template_text text;
    struct lutra_error err;
    start(&source, seeds[draw(dice, n_seeds)]);
    for (uint64_t more = draw(dice, 4); more > 0; more--) {
        const char *seed = seeds[draw(dice, n_seeds)];
        put(&source, draw(dice, 4) ? source.n : draw(dice, source.n + 1), seed, strlen(seed));
    }
    start(&json, messages);
    for (uint64_t swaps = draw(dice, 6); swaps > 0; swaps--) swap_word(dice, &source, draw(dice, source.n + 1));
    if (draw(dice, 3) == 0) mutate(dice, &source, template_words, sizeof template_words / sizeof *template_words);
    if (draw(dice, 4) == 0) mutate(dice, &json, json_words, sizeof json_words / sizeof *json_words);
    char *exact = malloc(source.n + 1); /* so that reads past the end are seen */
    memcpy(exact, source.bytes, source.n);
    json_t *variables = json_loadb((const char *)json.bytes, json.n, JSON_ALLOW_NUL, NULL);
    if (variables && text_template_parse(&t, exact, source.n, &err) == 0) {
        if (text_template_render(t, &(struct text_template_input){.variables = variables}, &text, &err) == 0) {
            n_rendered++;
            text_template_text_free(&text);
        }
        n_parsed++;
        text_template_close(&t);
    }
    free(exact);
    json_decref(variables);
    return source.n + json.n;
}

/* Templates made to exhaust something; they are fed as they are. */
static size_t feed_hostile(const char *source)
{
    struct text_template *t;
    struct text_template_text text;
    struct lutra_error err;
    if (text_template_parse(&t, source, strlen(source), &err) < 0) return strlen(source);
    json_t *none = json_object();
    if (text_template_render(t, &(struct text_template_input){.variables = none}, &text, &err) == 0)
        text_template_text_free(&text);
    json_decref(none);
    text_template_close(&t);
    return strlen(source) + 2;
}

static size_t feed_text(const struct text_vocab *v, uint64_t *dice)
{
    static struct input in;
    struct text_tokens ids = {0};
    struct text_stream *stream;
    struct lutra_error err;
    start(&in, "Hello <|im_end|> w\xC3\xB6rld 123 's  \n x");
    mutate(dice, &in, text_words, sizeof text_words / sizeof *text_words);
    char *exact = malloc(in.n + 1);
    memcpy(exact, in.bytes, in.n);
    if (text_encode(v, exact, in.n, (unsigned)draw(dice, 4), &ids, &err) == 0 &&
        text_stream_open(&stream, text_vocab_max_piece_bytes(v), &err) == 0) {
        for (size_t i = 0; i < ids.n; i++)
            text_stream_push(stream, text_token_piece(v, ids.ids[i], (unsigned)draw(dice, 2)));
        text_stream_flush(stream);
        text_stream_close(&stream);
    }
    text_tokens_fini(&ids);
    free(exact);
    return in.n;
}

/* A vocabulary of random tokens and merges; half of the time one that opens. */
static size_t feed_vocab(uint64_t *dice)
{
    enum { N = 200 };
    static struct input strings[2 * N];
    struct text_bytes tokens[N], merges[N];
    int32_t types[N];
    size_t n = 0;
    static const char *const parts[] = {"a", "b", "ab", "\xC4\xA0", "\xC3\x83", "x", "<|im_end|>", "", " ", "\xFF",
        "abab", "\xE2\x96\x81", "<0x41>", "<0x4"};
    const size_t n_parts = sizeof parts / sizeof *parts;
    bool wild = draw(dice, 2);
    for (size_t i = 0; i < N; i++) {
        start(&strings[i], parts[draw(dice, n_parts)]);
        put(&strings[i], strings[i].n, parts[draw(dice, n_parts)], 1);
        start(&strings[N + i], parts[draw(dice, 6)]);
        put(&strings[N + i], strings[N + i].n, " ", 1);
        put(&strings[N + i], strings[N + i].n, parts[draw(dice, 3)], 1);
        if (wild && draw(dice, 20) == 0)
            mutate(dice, &strings[draw(dice, 2) ? i : N + i], text_words, sizeof text_words / sizeof *text_words);
        tokens[i] = (struct text_bytes){strings[i].bytes, strings[i].n};
        merges[i] = (struct text_bytes){strings[N + i].bytes, strings[N + i].n};
        types[i] = (int32_t)draw(dice, 7) - (wild && draw(dice, 500) == 0);
        n += strings[i].n + strings[N + i].n + 20;
    }
    static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2", "tekken", "default", "deepseek-llm", "kimi-k2"};
    float scores[N];
    int32_t added[N][2];
    for (size_t i = 0; i < N; i++) {
        added[i][0] = (int32_t)draw(dice, N + 9) - 4;
        added[i][1] = (int32_t)draw(dice, 40);
    }
    for (size_t i = 0; i < N; i++) scores[i] = draw(dice, 50) ? -(float)draw(dice, 40) : (float)NAN;
    struct text_vocab_source src = {.model = draw(dice, 3)    ? "gpt2"
                                             : draw(dice, 20) ? "llama"
                                                              : "t5",
        .scores = draw(dice, 30) ? scores : NULL,
        .add_space_prefix = (int)draw(dice, 3) - 1,
        .pre = pres[draw(dice, wild ? 7 : 6)],
        .n_tok = draw(dice, N + 1),
        .tokens = tokens,
        .types = draw(dice, 3) ? types : NULL,
        .n_merge = draw(dice, N + 1),
        .merges = merges,
        .eos = (int32_t)draw(dice, 10) - 1 - (wild && !draw(dice, 9)),
        .bos = (int32_t)draw(dice, 5),
        .eot = -1,
        .eom = -1,
        .pad = -1,
        .unk = (int32_t)draw(dice, 3) - 1,
        .add_bos = true,
        .nfc = draw(dice, 3) == 0,
        .ignore_merges = (int)draw(dice, 3) - 1,
        .exact = draw(dice, 2),
        .spaces = (enum text_spaces)draw(dice, 4),
        .split_spaces = draw(dice, 4) == 0,
        .no_bytes = draw(dice, 3) == 0,
        .unknown = (int32_t)draw(dice, N + 9) - 1,
        .fuse_unknown = draw(dice, 2),
        .n_added = draw(dice, N),
        .added = &added[0][0]};
    struct text_vocab *v;
    struct lutra_error err;
    if (text_vocab_open(&v, &src, &err) == 0) {
        n_opened++;
        for (int i = 0; i < 4; i++) n += feed_text(v, dice);
        text_vocab_close(&v);
    }
    return n;
}

int main(int argc, char **argv)
{
    struct fuzz_inputs in = fuzz_begin(argc, argv, 2000, 38000);
    size_t worst = 0;
    load_seeds(LUTRA_SOURCE_DIR "/tests/unit/text/features.json");
    if (n_seeds == 0) fuzz_fail("no seeds");
    for (fuzz_input = in.first; fuzz_input < in.first + in.n; fuzz_input++) {
        uint64_t dice = (uint64_t)1 << 32 ^ (fuzz_input - 1);
        size_t before = heap_now();
        heap_reset_peak();
        fuzz_watch(SECONDS_PER_INPUT);
        size_t n_bytes = fuzz_input <= n_hostile ? feed_hostile(hostile[fuzz_input - 1])
                         : fuzz_input % 5 == 0   ? feed_vocab(&dice)
                                                 : feed_template(&dice);
        fuzz_watch(0);
        size_t used = heap_peak() - before;
        if (used > worst) worst = used;
        if (used > (64u << 20) + 16 * n_bytes) fuzz_fail("%zu bytes of heap", used);
        if (heap_now() != before) fuzz_fail("a leak");
    }
    printf("%llu inputs, each an error or a success; largest heap %.1f MiB (counted)\n", (unsigned long long)in.n,
        (double)worst / (1 << 20));
    printf("%ld templates parsed, %ld rendered, %ld vocabularies opened\n", n_parsed, n_rendered, n_opened);
    for (size_t i = 0; i < n_seeds; i++) free(seeds[i]);
    for (size_t i = 0; i < n_hostile; i++) free(hostile[i]);
    return 0;
}
