/* SPDX-License-Identifier: MIT
 *
 * Mutated templates, variables, vocabularies and texts:  fuzz_text [--count N] [--seed S] [--only I]
 *
 * Input i depends only on (seed, i), so a failure is repeated with --only.  Each input must end in success or an
 * error within 20 seconds, and the heap of the library must stay within 64 MiB + 16 times the input.  Built with
 * sanitizers it also finds what they find.
 */
#include <jansson.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/encode.h"
#include "text/stream.h"
#include "text/template.h"

/* ---- the heap, counted by --wrap ---- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static size_t heap_bytes, heap_peak;

static void *count(void *p)
{
    heap_bytes += p ? malloc_usable_size(p) : 0;
    if (heap_bytes > heap_peak) heap_peak = heap_bytes;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return count(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return count(__real_calloc(n, size));
}

/* The old block counts until the new one is there, as a copying realloc holds both. */
void *__wrap_realloc(void *p, size_t n)
{
    size_t before = p ? malloc_usable_size(p) : 0;
    void *moved = count(__real_realloc(p, n));
    if (moved) heap_bytes -= before;
    return moved;
}

void __wrap_free(void *p)
{
    heap_bytes -= p ? malloc_usable_size(p) : 0;
    __real_free(p);
}

/* ---- mutation ---- */

struct rng {
    uint64_t state;
};

static uint64_t draw(struct rng *rng, uint64_t below)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (z ^ z >> 31) % below;
}

enum { MAX_INPUT = 6000, MAX_SEEDS = 256 };

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
    "\xFF", "aaaa", "\xF0\x9F\xA6\x99", "\xED\xA0\x80"};

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
    "strip", "get", "keys", "defined", "string", "mapping", "odd", "in", "not", "and", "or", "if", "loop.index",
    "loop.last", "namespace", "dict", "raise_exception", "caller", "varargs", "s * 9999", "l * 999", "m[0]",
    "messages[-1]", "l[::-1]"};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Puts another operand in the place of the word at or after `at`. */
static void swap_word(struct rng *rng, struct input *in, size_t at)
{
    const char *word = operands[draw(rng, sizeof operands / sizeof *operands)];
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

static void mutate(struct rng *rng, struct input *in, const char *const *words, size_t n_words)
{
    char copy[256];
    for (uint64_t round = draw(rng, 8); round > 0; round--) {
        size_t at = draw(rng, in->n + 1), n = draw(rng, 40) + 1;
        const char *word = words[draw(rng, n_words)];
        switch (draw(rng, 6)) {
        case 0: put(in, at, word, strlen(word)); break;
        case 1: cut(in, at, n); break;
        case 2:
            if (at < in->n) in->bytes[at] = (char)draw(rng, 256);
            break;
        case 3: /* repeat a part, often many times */
            if (n > in->n - at) n = in->n - at;
            memcpy(copy, in->bytes + at, n);
            for (uint64_t times = draw(rng, draw(rng, 4) ? 3 : 200); times > 0; times--) put(in, at, copy, n);
            break;
        case 4: /* move a part */
            if (n > in->n - at) n = in->n - at;
            memcpy(copy, in->bytes + at, n);
            cut(in, at, n);
            put(in, draw(rng, in->n + 1), copy, n);
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

static size_t feed_template(struct rng *rng)
{
    static struct input source, json;
    struct text_template *t;
    struct text_template_text text;
    struct lutra_error err;
    start(&source, seeds[draw(rng, n_seeds)]);
    for (uint64_t more = draw(rng, 4); more > 0; more--) {
        const char *seed = seeds[draw(rng, n_seeds)];
        put(&source, draw(rng, 4) ? source.n : draw(rng, source.n + 1), seed, strlen(seed));
    }
    start(&json, messages);
    for (uint64_t swaps = draw(rng, 6); swaps > 0; swaps--) swap_word(rng, &source, draw(rng, source.n + 1));
    if (draw(rng, 3) == 0) mutate(rng, &source, template_words, sizeof template_words / sizeof *template_words);
    if (draw(rng, 4) == 0) mutate(rng, &json, json_words, sizeof json_words / sizeof *json_words);
    char *exact = malloc(source.n + 1); /* so that reads past the end are seen */
    memcpy(exact, source.bytes, source.n);
    json_t *variables = json_loadb((const char *)json.bytes, json.n, JSON_ALLOW_NUL, NULL);
    if (variables && text_template_parse(&t, exact, source.n, &err) == 0) {
        if (text_template_render(t, variables, 0, &text, &err) == 0) {
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
    if (text_template_render(t, none, 0, &text, &err) == 0) text_template_text_free(&text);
    json_decref(none);
    text_template_close(&t);
    return strlen(source) + 2;
}

static size_t feed_text(const struct text_vocab *v, struct rng *rng)
{
    static struct input in;
    struct text_tokens ids = {0};
    struct text_stream *stream;
    struct lutra_error err;
    start(&in, "Hello <|im_end|> w\xC3\xB6rld 123 's  \n x");
    mutate(rng, &in, text_words, sizeof text_words / sizeof *text_words);
    char *exact = malloc(in.n + 1);
    memcpy(exact, in.bytes, in.n);
    if (text_encode(v, exact, in.n, (unsigned)draw(rng, 4), &ids, &err) == 0 &&
        text_stream_open(&stream, text_vocab_max_piece_bytes(v), &err) == 0) {
        for (size_t i = 0; i < ids.n; i++)
            text_stream_push(stream, text_token_piece(v, ids.ids[i], (unsigned)draw(rng, 2)));
        text_stream_flush(stream);
        text_stream_close(&stream);
    }
    text_tokens_fini(&ids);
    free(exact);
    return in.n;
}

/* A vocabulary of random tokens and merges; half of the time one that opens. */
static size_t feed_vocab(struct rng *rng)
{
    enum { N = 200 };
    static struct input strings[2 * N];
    struct text_bytes tokens[N], merges[N];
    int32_t types[N];
    size_t n = 0;
    static const char *const parts[] = {"a", "b", "ab", "\xC4\xA0", "\xC3\x83", "x", "<|im_end|>", "", " ", "\xFF",
        "abab", "\xE2\x96\x81", "<0x41>", "<0x4"};
    const size_t n_parts = sizeof parts / sizeof *parts;
    bool wild = draw(rng, 2);
    for (size_t i = 0; i < N; i++) {
        start(&strings[i], parts[draw(rng, n_parts)]);
        put(&strings[i], strings[i].n, parts[draw(rng, n_parts)], 1);
        start(&strings[N + i], parts[draw(rng, 6)]);
        put(&strings[N + i], strings[N + i].n, " ", 1);
        put(&strings[N + i], strings[N + i].n, parts[draw(rng, 3)], 1);
        if (wild && draw(rng, 20) == 0)
            mutate(rng, &strings[draw(rng, 2) ? i : N + i], text_words, sizeof text_words / sizeof *text_words);
        tokens[i] = (struct text_bytes){strings[i].bytes, strings[i].n};
        merges[i] = (struct text_bytes){strings[N + i].bytes, strings[N + i].n};
        types[i] = (int32_t)draw(rng, 7) - (wild && draw(rng, 500) == 0);
        n += strings[i].n + strings[N + i].n + 20;
    }
    static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2", "tekken", "default", "deepseek-llm", "kimi-k2"};
    float scores[N];
    for (size_t i = 0; i < N; i++) scores[i] = draw(rng, 50) ? -(float)draw(rng, 40) : (float)NAN;
    struct text_vocab_source src = {.model = draw(rng, 3)    ? "gpt2"
                                             : draw(rng, 20) ? "llama"
                                                             : "t5",
        .scores = draw(rng, 30) ? scores : NULL,
        .add_space_prefix = (int)draw(rng, 3) - 1,
        .pre = pres[draw(rng, wild ? 7 : 6)],
        .n_tok = draw(rng, N + 1),
        .tokens = tokens,
        .types = draw(rng, 3) ? types : NULL,
        .n_merge = draw(rng, N + 1),
        .merges = merges,
        .eos = (int32_t)draw(rng, 10) - 1 - (wild && !draw(rng, 9)),
        .bos = (int32_t)draw(rng, 5),
        .eot = -1,
        .eom = -1,
        .pad = -1,
        .unk = (int32_t)draw(rng, 3) - 1,
        .add_bos = true};
    struct text_vocab *v;
    struct lutra_error err;
    if (text_vocab_open(&v, &src, &err) == 0) {
        n_opened++;
        for (int i = 0; i < 4; i++) n += feed_text(v, rng);
        text_vocab_close(&v);
    }
    return n;
}

static volatile sig_atomic_t current;

static void hang(int sig)
{
    (void)sig;
    char text[] = "fuzz_text: input 0000000000 takes more than 20 s\n";
    for (int i = 26, v = current; i > 16; i--, v /= 10) text[i] = (char)('0' + v % 10);
    if (write(2, text, sizeof text - 1) < 0) _exit(2);
    _exit(1);
}

static long option(int argc, char **argv, const char *name, long fallback)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) return strtol(argv[i + 1], NULL, 10);
    }
    return fallback;
}

int main(int argc, char **argv)
{
    long n = option(argc, argv, "--count", getenv("LUTRA_TEST_LONG") ? 40000 : 2000),
         seed = option(argc, argv, "--seed", 1), only = option(argc, argv, "--only", -1);
    load_seeds(LUTRA_SOURCE_DIR "/tests/unit/text/features.json");
    if (n_seeds == 0) return fprintf(stderr, "fuzz_text: no seeds\n"), 1;
    signal(SIGALRM, hang);
    size_t worst = 0;
    for (long i = only < 0 ? 0 : only; i < (only < 0 ? n : only + 1); i++) {
        struct rng rng = {(uint64_t)seed << 32 ^ (uint64_t)i};
        size_t before = heap_bytes;
        heap_peak = heap_bytes;
        current = (sig_atomic_t)i;
        alarm(20);
        size_t n_bytes = (size_t)i < n_hostile ? feed_hostile(hostile[i])
                         : i % 5 == 4          ? feed_vocab(&rng)
                                               : feed_template(&rng);
        alarm(0);
        size_t used = heap_peak - before;
        if (used > worst) worst = used;
        if (used > (64u << 20) + 16 * n_bytes)
            return fprintf(stderr, "fuzz_text: input %ld uses %zu bytes\n", i, used), 1;
        if (heap_bytes != before) return fprintf(stderr, "fuzz_text: input %ld leaks\n", i), 1;
    }
    printf("%ld inputs, each an error or a success; largest heap %.1f MiB (counted)\n", only < 0 ? n : 1,
        (double)worst / (1 << 20));
    printf("%ld templates parsed, %ld rendered, %ld vocabularies opened\n", n_parsed, n_rendered, n_opened);
    for (size_t i = 0; i < n_seeds; i++) free(seeds[i]);
    for (size_t i = 0; i < n_hostile; i++) free(hostile[i]);
    return 0;
}
