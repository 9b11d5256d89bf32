/* SPDX-License-Identifier: MIT
 *
 * Times of compiling a schema and of its masks, over a vocabulary like those of large models: words with and without a
 * blank before them, numbers, punctuation, runs of blanks, all bytes.
 *
 *     lutra-bench-grammar [SCHEMA.json] [N_TEXTS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "decode/grammar/grammar.h"

enum { VOCAB = 151936, TEXTS = 20, STEPS = 1500, TOKEN = 40, ROOM = 1 << 20 };

static char bytes[VOCAB][TOKEN];
static struct grammar_token token[VOCAB];
static uint32_t counter;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t draw(uint32_t n)
{
    return rng_u32((struct rng_key){.seed = 36}, counter++) % n;
}

/* Syllables in a row: longer tokens are rarer, as in vocabularies. */
static size_t word(char *to)
{
    static const char *const part[] = {"er", "an", "ing", "th", "st", "re", "o", "a", "ment", "al", "i", "con", "pre",
        "ly", "le", "es", "ch", "u", "de", "s", "tion", "in", "ar", "en", "k", "v", "qu", "j", "z", "x", "\xc3\xa9",
        "\xe4\xb8\xad"};
    size_t n = 0;
    if (draw(2)) to[n++] = ' ';
    for (uint32_t k = 1 + draw(3) + draw(2) + (draw(8) == 0) * draw(4); k > 0 && n + 8 < TOKEN; k--)
        n += (size_t)sprintf(to + n, "%s", part[draw(sizeof part / sizeof *part)]);
    if (draw(9) == 0) to[0] = to[0] == ' ' ? '_' : (char)(to[0] & ~0x20);
    return n;
}

static void make_vocab(void)
{
    static const char *const mark[] = {"\"", "\",", "\":", "\": ", "\": \"", "\", \"", "{\"", "\"}", "},", "}]", "],",
        "[\"", "{", "}", "[", "]", ":", ",", ", ", "\n", "\n\n", "\\n", "\\\"", "://", "==", "--", ".\"", ".\",", "()"};
    for (int t = 0; t < VOCAB; t++) {
        size_t n;
        char *to = bytes[t];
        if (t < 256)
            n = (to[0] = (char)t, 1);
        else if (t < 256 + (int)(sizeof mark / sizeof *mark))
            n = (size_t)sprintf(to, "%s", mark[t - 256]);
        else if (t < 320)
            n = strlen(memset(to, ' ', (size_t)(t - 284)));
        else if (t < 1400)
            n = (size_t)sprintf(to, "%d", t - 320);
        else
            n = word(to);
        token[t] = (struct grammar_token){to, n, t == VOCAB - 1};
    }
}

/* Objects of all kinds of members up to 10 KB. */
static size_t make_schema(char *to, size_t room)
{
    size_t n = (size_t)snprintf(to, room, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; n < 9700; i++)
        n += (size_t)snprintf(to + n, room - n,
            "%s\"member_%d\":{\"type\":\"object\",\"description\":\"What it is for, in one sentence.\",\"properties\":{"
            "\"title\":{\"type\":\"string\",\"minLength\":3,\"maxLength\":120},\"kind\":{\"enum\":[\"small\",\"large\"]"
            "},"
            "\"amount\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":5000},\"when\":{\"type\":\"string\",\"format\":"
            "\"date\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":40},\"maxItems\":20}},"
            "\"required\":[\"title\",\"kind\",\"amount\",\"tags\"],\"additionalProperties\":false}",
            i ? "," : "", i);
    return n + (size_t)snprintf(to + n, room - n, "},\"additionalProperties\":false}");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One text; us[n]: what each mask took. */
static int draw_text(struct grammar_machine *m, double *us, int *n, struct lutra_error *err)
{
    static uint64_t mask[VOCAB / 64 + 1];
    static int32_t allowed[VOCAB];
    int32_t s = grammar_start(m);
    for (int step = 0; step < STEPS; step++) {
        uint64_t start = now_ns();
        int rc = grammar_mask(m, s, mask, err), n_allowed = 0;
        us[(*n)++] = (double)(now_ns() - start) * 1e-3;
        if (rc < 0) return rc;
        for (int32_t t = 0; t < VOCAB; t++)
            if (mask[t / 64] >> t % 64 & 1) allowed[n_allowed++] = t;
        if (n_allowed == 0) return 0;
        bool quote = mask['"' / 64] >> '"' % 64 & 1; /* texts of about 20 tokens */
        int32_t t = quote && draw(20) == 0 ? '"' : allowed[draw((uint32_t)n_allowed)];
        if (token[t].ends) return 0;
        rc = grammar_follow(m, s, t, &s, err);
        if (rc < 0) return rc;
    }
    return 0;
}

static int measure(const char *schema, size_t n_schema, int n_text, struct lutra_error *err)
{
    struct grammar *g;
    struct grammar_vocab *v;
    struct grammar_machine *m;
    double *us = malloc((size_t)n_text * STEPS * sizeof *us);
    if (!us) return LUTRA_E_NO_MEMORY;
    uint64_t start = now_ns();
    int rc = grammar_open_schema(&g, schema, n_schema, err);
    if (rc < 0) return rc;
    printf("compile %zu bytes: %.2f ms\n", n_schema, (double)(now_ns() - start) * 1e-6);
    start = now_ns();
    rc = grammar_vocab_open(&v, token, VOCAB, err);
    printf("vocabulary: %.1f ms\n", (double)(now_ns() - start) * 1e-6);
    if (rc >= 0) rc = grammar_machine_open(&m, g, v, err);
    for (int turn = 0; turn < 2 && rc >= 0; turn++) {
        int n = 0;
        double sum = 0;
        counter = 1000;
        struct grammar_counts before = grammar_counts(m);
        for (int i = 0; i < n_text && rc >= 0; i++) rc = draw_text(m, us, &n, err);
        struct grammar_counts after = grammar_counts(m);
        for (int i = 0; i < n; i++) sum += us[i];
        qsort(us, (size_t)n, sizeof *us, by_value);
        printf("%s: %d masks, mean %.1f us, p99 %.1f us, longest %.1f us; %lld walks of the vocabulary, %.2f million "
               "trie nodes, %lld states, %.1f MB\n",
            turn ? "warm" : "cold", n, sum / n, us[n * 99 / 100], us[n - 1], (long long)(after.cores - before.cores),
            (double)(after.nodes - before.nodes) * 1e-6, (long long)after.states, (double)after.bytes * 1e-6);
    }
    if (rc < 0) return rc;
    grammar_machine_close(&m);
    grammar_vocab_close(&v);
    grammar_close(&g);
    free(us);
    return 0;
}

int main(int argc, char **argv)
{
    static char schema[ROOM];
    struct lutra_error err = {0};
    size_t n = 0;
    if (argc > 1 && strcmp(argv[1], "-") != 0) {
        FILE *f = fopen(argv[1], "rb");
        n = f ? fread(schema, 1, ROOM, f) : 0;
        if (f) fclose(f);
    } else {
        n = make_schema(schema, ROOM);
    }
    make_vocab();
    if (measure(schema, n, argc > 2 ? atoi(argv[2]) : TEXTS, &err) >= 0) return 0;
    fprintf(stderr, "%s\n", err.what);
    return 1;
}
