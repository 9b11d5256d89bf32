/* SPDX-License-Identifier: MIT
 *
 * Tokenizer cases with a real vocabulary:  text_cases vocab.json cases.inp cases.out
 *
 * vocab.json is what vocab_cases.py writes: {"model", "pre", "tokens", "types", "merges", "scores"}.  Cases are divided
 * by a line `__ggml_vocab_test__`; line i of cases.out holds the ids of case i.  The same vocabulary then serves round
 * trips of random bytes and random Unicode, and a megabyte of each of a few hostile texts.
 */
#include <jansson.h>
#include <time.h>

#include "toy.h"

#define DIVIDER "\n__ggml_vocab_test__\n"

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "text_cases: %s%s\n", what, detail);
    exit(1);
}

static char *load(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) die("cannot read ", path);
    long size = ftell(f);
    rewind(f);
    char *text = calloc((size_t)size + 1, 1);
    if (!text || fread(text, 1, (size_t)size, f) != (size_t)size) die("cannot read ", path);
    fclose(f);
    *n = (size_t)size;
    return text;
}

static struct text_bytes *strings(const json_t *root, const char *key, size_t *n)
{
    const json_t *array = json_object_get(root, key);
    *n = json_array_size(array);
    struct text_bytes *out = calloc(*n + 1, sizeof *out);
    for (size_t i = 0; i < *n; i++) {
        const json_t *item = json_array_get(array, i);
        out[i] = (struct text_bytes){json_string_value(item), json_string_length(item)};
    }
    return out;
}

static struct text_vocab *open_vocab(const char *path)
{
    json_error_t why;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &why);
    if (!root) die(path, why.text);
    struct text_vocab_source src = text_vocab_source_default();
    src.model = json_string_value(json_object_get(root, "model"));
    src.pre = json_string_value(json_object_get(root, "pre"));
    struct text_bytes *tokens = strings(root, "tokens", &src.n_tok);
    struct text_bytes *merges = strings(root, "merges", &src.n_merge);
    int32_t *types = calloc(src.n_tok, sizeof *types);
    for (size_t i = 0; i < src.n_tok; i++) {
        types[i] = (int32_t)json_integer_value(json_array_get(json_object_get(root, "types"), i));
    }
    float *scores = calloc(src.n_tok, sizeof *scores);
    for (size_t i = 0; i < src.n_tok; i++) {
        scores[i] = (float)json_number_value(json_array_get(json_object_get(root, "scores"), i));
    }
    src.scores = scores;
    src.tokens = tokens;
    src.merges = merges;
    src.types = types;
    struct text_vocab *v;
    struct lutra_error err;
    clock_t start = clock();
    if (text_vocab_open(&v, &src, &err) < 0) die("open: ", err.what);
    printf("%zu tokens, %zu merges, opened in %.0f ms (measured)\n", src.n_tok, src.n_merge,
        1e3 * (double)(clock() - start) / CLOCKS_PER_SEC);
    free(types);
    free(scores);
    free(tokens);
    free(merges);
    json_decref(root);
    return v;
}

static int check_case(const struct text_vocab *v, const char *text, size_t n, const char *line, int number)
{
    struct text_tokens ids = {0};
    if (text_encode(v, text, n, TEXT_PARSE_SPECIAL, &ids, NULL) < 0) die("encode failed", "");
    size_t at = 0;
    int bad = 0;
    for (char *end; !bad; line = end, at++) {
        long id = strtol(line, &end, 10);
        if (end == line) break;
        bad = at >= ids.n || ids.ids[at] != id;
    }
    if (bad || at != ids.n) {
        fprintf(stderr, "case %d differs at id %zu:\n%.*s\n", number, at, (int)n, text);
        bad = 1;
    }
    text_tokens_fini(&ids);
    return bad;
}

static int check_cases(const struct text_vocab *v, const char *inp, const char *out)
{
    size_t n_text, n_lines;
    char *texts = load(inp, &n_text), *lines = load(out, &n_lines);
    int n_case = 0, n_bad = 0;
    for (char *text = texts, *line = lines; text;) {
        char *end = strstr(text, DIVIDER), *end_line = strchr(line, '\n');
        if (!end_line) break;
        *end_line = 0;
        n_bad += check_case(v, text, end ? (size_t)(end - text) : strlen(text), line, ++n_case);
        text = end ? end + strlen(DIVIDER) : NULL;
        line = end_line + 1;
    }
    printf("%d cases, %d wrong\n", n_case, n_bad);
    free(texts);
    free(lines);
    return n_bad || n_case == 0;
}

static int round_trips(const struct text_vocab *v, const char *text, size_t n)
{
    struct text_tokens ids = {0};
    if (text_encode(v, text, n, TEXT_PARSE_SPECIAL, &ids, NULL) < 0) die("encode failed", "");
    size_t at = 0;
    int same = 1;
    for (size_t i = 0; same && i < ids.n; i++) {
        struct text_bytes piece = text_token_piece(v, ids.ids[i], TEXT_PIECE_SPECIAL);
        if (i == 0 && text_vocab_adds_space(v)) piece = (struct text_bytes){piece.p + 1, piece.n - 1};
        same = piece.n <= n - at && memcmp(piece.p, text + at, piece.n) == 0;
        at += piece.n;
    }
    text_tokens_fini(&ids);
    return same && at == n;
}

/* StarCoder's vocabulary lacks bytes that no text has; only text comes back whole from it. */
static bool has_all_bytes(const struct text_vocab *v)
{
    bool all = true;
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        all &= text_token_find(v, &byte, 1) >= 0;
    }
    return all;
}

static int check_round_trips(const struct text_vocab *v)
{
    bool all_bytes = has_all_bytes(v);
    srand(1);
    for (int round = 0; round < 20000; round++) {
        char text[72];
        size_t n = 0, n_want = (size_t)rand() % 64;
        while (n < n_want) {
            if (all_bytes && (round & 1))
                text[n++] = (char)rand();
            else /* below U+2581, which SentencePiece takes for a space */
                n += (size_t)text_utf8_put((uint32_t)rand() % (rand() & 1 ? 0x250 : 0x2580), text + n);
        }
        if (!round_trips(v, text, n)) {
            fprintf(stderr, "round trip %d fails:", round);
            for (size_t i = 0; i < n; i++) fprintf(stderr, " %02x", (unsigned char)text[i]);
            fputc(10, stderr);
            return 1;
        }
    }
    return 0;
}

static int check_long(const struct text_vocab *v)
{
    enum { N = 1 << 20 };
    static const char *const patterns[] = {"a", " ", "the cat ", "<|im_", "\xFF", "\xE6\x97\xA5", "1", "\n \n"};
    char *text = malloc(N);
    int bad = 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        for (size_t k = 0, m = strlen(patterns[i]); k < N; k++) text[k] = patterns[i][k % m];
        clock_t start = clock();
        int same = round_trips(v, text, N);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        if (!same && (unsigned char)patterns[i][0] == 0xFF && !has_all_bytes(v)) same = 1;
        printf("1 MiB of pattern %zu: %.0f ms (measured)\n", i, 1e3 * seconds);
        if (!same || seconds > 20) bad = 1;
    }
    free(text);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc != 4) die("usage: text_cases vocab.json cases.inp cases.out", "");
    struct text_vocab *v = open_vocab(argv[1]);
    int bad = check_cases(v, argv[2], argv[3]);
    bad |= check_round_trips(v);
    bad |= check_long(v);
    text_vocab_close(&v);
    return bad;
}
