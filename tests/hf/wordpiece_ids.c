/* SPDX-License-Identifier: MIT
 *
 * Ids of texts by a WordPiece vocabulary, a line each.
 *
 *     wordpiece_ids VOCAB TEXTS LOWERCASE STRIP_ACCENTS
 *
 * VOCAB has Hugging Face's tokens ("##" before those that go on), TEXTS texts, each with a NUL behind it; the flags are
 * 1, 0 or -1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/encode.h"

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    size_t room = (size_t)1 << 26;
    char *bytes = malloc(room);
    if (!f || !bytes) exit(1);
    *n = fread(bytes, 1, room, f);
    fclose(f);
    return bytes;
}

/* As GGUF files spell it. */
static struct text_bytes spell(const char *token, size_t n)
{
    bool special = token[0] == '[' && token[n - 1] == ']' && n > 2, goes_on = n > 2 && memcmp(token, "##", 2) == 0;
    if (special) return (struct text_bytes){token, n};
    if (goes_on) return (struct text_bytes){token + 2, n - 2};
    char *to = malloc(n + 3);
    if (!to) exit(1);
    memcpy(to, "\xE2\x96\x81", 3);
    memcpy(to + 3, token, n);
    return (struct text_bytes){to, n + 3};
}

int main(int argc, char **argv)
{
    enum { MOST = 1 << 20 };
    static struct text_bytes token[MOST];
    static int32_t type[MOST];
    struct text_vocab_source src = text_vocab_source_default();
    struct text_vocab *v;
    struct lutra_error err;
    size_t n_vocab, n_text, n;
    if (argc != 5) return 2;
    char *vocab = read_all(argv[1], &n_vocab), *text = read_all(argv[2], &n_text);
    src.model = "bert";
    src.tokens = token, src.types = type;
    src.lowercase = atoi(argv[3]), src.strip_accents = atoi(argv[4]);
    for (size_t at = 0; at < n_vocab && src.n_tok < MOST; at += n + 1, src.n_tok++) {
        n = strlen(vocab + at);
        token[src.n_tok] = spell(vocab + at, n);
        type[src.n_tok] = vocab[at] == '[' && token[src.n_tok].p == vocab + at ? TEXT_TOKEN_CONTROL : TEXT_TOKEN_NORMAL;
        if (strcmp(vocab + at, "[UNK]") == 0) src.unk = (int32_t)src.n_tok;
    }
    if (text_vocab_open(&v, &src, &err) < 0) {
        fprintf(stderr, "%s\n", err.what);
        return 1;
    }
    for (size_t at = 0; at < n_text; at += n + 1) {
        struct text_tokens ids = {0};
        n = strlen(text + at);
        if (text_encode(v, text + at, n, 0, &ids, &err) < 0) return 1;
        for (size_t i = 0; i < ids.n; i++) printf(i ? " %d" : "%d", (int)ids.ids[i]);
        putchar('\n');
        text_tokens_fini(&ids);
    }
    return 0;
}
