/* SPDX-License-Identifier: MIT
 *
 * Draws texts through the masks of JSON Schemas: tests/grammar/schemas.py asks it and validates them.
 *
 * Lines in: a schema each.  Lines out: "error CODE WHAT", or DRAWS lines "text ..." (or "unfinished"), then "done".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/status.h"
#include "decode/grammar/grammar.h"

enum { DRAWS = 6, STEPS = 4000, VOCAB = 320 };

static uint32_t counter;

static uint32_t draw(uint32_t n)
{
    return rng_u32((struct rng_key){1, 0, 0}, counter++) % n;
}

/* All bytes, some longer tokens that cross the parts of a text, and the end. */
static struct grammar_vocab *make_vocab(struct grammar_token *token)
{
    static const char *const more[] = {"\": ", "\",", "\", \"", "{\"", "\"}", "\"}, {\"", "], ", "}]", "true", "null",
        "10", "00", "1.5", "-1", "\\u00", "\\\"", "\n  ", "\xe2\x82", "\xc3\xa9", "ab", "a\",\"b", "2020-", ":00Z"};
    static char byte[256];
    for (int i = 0; i < VOCAB; i++) {
        token[i] = (struct grammar_token){NULL, 0, i == VOCAB - 1};
        if (i < 256) {
            byte[i] = (char)i;
            token[i] = (struct grammar_token){&byte[i], 1, false};
        } else if (i - 256 < (int)(sizeof more / sizeof *more))
            token[i] = (struct grammar_token){more[i - 256], strlen(more[i - 256]), false};
    }
    struct grammar_vocab *v;
    return grammar_vocab_open(&v, token, VOCAB, NULL) < 0 ? NULL : v;
}

/* One text; the longer it is, the likelier are tokens that close something. */
static int draw_text(struct grammar_machine *m, const struct grammar_token *token, struct lutra_error *err)
{
    int32_t state = grammar_start(m);
    static char text[STEPS * 8];
    size_t n_text = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t mask[VOCAB / 64 + 1];
        int allowed[VOCAB], n = 0;
        int rc = grammar_mask(m, state, mask, err);
        if (rc < 0) return rc;
        for (int t = 0; t < VOCAB; t++)
            if (mask[t / 64] >> t % 64 & 1) allowed[n++] = t;
        if (!n) return lutra_fail(err, LUTRA_E_INTERNAL, "nothing is allowed");
        int t = allowed[draw((uint32_t)n)];
        bool inside = mask['#' / 64] >> '#' % 64 & 1; /* a string: there only the quote closes */
        if ((int)draw(100) < step)
            for (int i = 0; i < n; i++)
                if (allowed[i] == '"' || (!inside && (allowed[i] == ']' || allowed[i] == '}')) ||
                    token[allowed[i]].ends)
                    t = allowed[i];
        if (token[t].ends) return printf("text %.*s\n", (int)n_text, text), 0;
        for (size_t i = 0; i < token[t].n; i++) /* a line each: line ends between tokens become blanks */
            text[n_text++] = token[t].p[i] == '\n' ? ' ' : token[t].p[i];
        if ((rc = grammar_follow(m, state, t, &state, err)) < 0) return rc;
    }
    puts("unfinished");
    return 0;
}

int main(void)
{
    static char line[1 << 16];
    struct grammar_token token[VOCAB];
    struct grammar_vocab *v = make_vocab(token);
    while (v && fgets(line, sizeof line, stdin)) {
        struct lutra_error err = {0};
        struct grammar *g;
        struct grammar_machine *m = NULL;
        int rc = grammar_open_schema(&g, line, strlen(line), &err);
        if (rc >= 0) rc = grammar_machine_open(&m, g, v, &err);
        for (int i = 0; i < DRAWS && rc >= 0; i++) rc = draw_text(m, token, &err);
        if (rc < 0)
            printf("error %d %s\n", rc, err.what);
        else
            puts("done");
        fflush(stdout);
        grammar_machine_close(&m);
        grammar_close(&g);
    }
    grammar_vocab_close(&v);
    return 0;
}
