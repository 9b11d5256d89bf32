/* SPDX-License-Identifier: MIT
 *
 * Mutated GBNF grammars and JSON Schemas, to be drawn from and to judge by.  Each ends within 60 seconds, in an error
 * that says something or in a machine whose masks and steps agree, within a bounded heap and without a leak.  A text
 * that was drawn through a schema's machine to its end holds by the same schema where the judge knows it, too.
 *
 *     fuzz_grammar [N [FIRST]] | --long
 */
#include <jansson.h>
#include <stdbool.h>

#include "decode/grammar/grammar.h"
#include "fuzz/fuzz.h"
#include "fuzz/heap.h"
#include "search/json_schema.h"

enum { MAX_INPUT = 3000, SECONDS_PER_INPUT = 60, MAX_STEPS = 60, HEAP_MIB = 640, N_VOCAB = 256 + 8 };

static const char *const grammars[] = {"root ::= \"a\" [0-9]+ ( \"b\" | \"c\" )? end\nend ::= \".\" | \"\\n\"",
    "root ::= item (\",\" ws item){0,4}\nitem ::= [a-zA-Z\\u00e9-\\u00ff] [^,\\]]* # all\nws ::= [ \\t\\n]*",
    "root ::= \"{\" pair* \"}\"\npair ::= \"\\\"\" [^\"]{1,9} \"\\\":\" value\nvalue ::= root | [0-9]{2} | .",
    "root ::= x{3} y{2,} z{,5}\nx ::= \"x\" | \"\\x41\"\ny ::= (\"y\" | x) \"-\"\nz ::= [] | \"\""};
static const char *const schemas[] = {"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","
                                      "\"maxLength\":9},\"n\":{\"type\":\"integer\",\"minimum\":-5,"
                                      "\"maximum\":120}},\"required\":[\"n\"],\"additionalProperties\":false}",
    "{\"type\":\"array\",\"items\":{\"enum\":[1,\"a\",null,[2]]},\"minItems\":1,\"maxItems\":3}",
    "{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^[a-c]{2,4}$\"},{\"type\":\"number\",\"exclusiveMinimum\":0,"
    "\"maximum\":2.5}]}",
    "{\"$ref\":\"#/$defs/t\",\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"l\":{\"$ref\":\"#/$defs/"
    "t\"},\"v\":{\"const\":7}}}}}",
    "{\"oneOf\":[{\"type\":\"null\"},{\"type\":\"boolean\"},{\"type\":\"string\",\"format\":\"date\"}]}",
    "{\"allOf\":[{\"type\":\"integer\"},{\"minimum\":3}],\"title\":\"x\"}",
    "{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":{\"type\":\"null\"},\"minItems\":2}"};
static const char *const words[] = {"root", "::=", "|", "(", ")", "*", "+", "?", "{2}", "{0,65535}", "{99999}", "[^",
    "]", "\"", "\\", "\\u", "\\x", "\n", "#", "\"a\"", "x", "{", "}", "[", ",", ":", "\"type\":", "\"string\"",
    "\"integer\"", "\"minimum\":", "\"maxLength\":", "\"pattern\":", "\"$ref\":\"#\"", "\"anyOf\":[",
    "\"items\":", "\"required\":", "-1", "1e999", "65535", "18446744073709551616", "null", "true", "\xFF",
    "\xF0\x9F\xA6\x99", "(?:a|b)*", "^", "$", "\\\\d", ".", "-"};

static const char *const extra[] = {"ab", "12", "\",", "\": ", "{\"", "}}", "null", "\xC3\xA9"};
static struct grammar_vocab *vocab;
static long n_open, n_refused, n_ended, n_judged;

struct input {
    char p[MAX_INPUT + 1];
    size_t n;
};

static uint64_t draw(uint64_t *dice, uint64_t below)
{
    return fuzz_roll(dice) % below;
}

static void put(struct input *in, size_t at, const char *p, size_t n)
{
    if (n > MAX_INPUT - in->n) n = MAX_INPUT - in->n;
    memmove(in->p + at + n, in->p + at, in->n - at);
    memcpy(in->p + at, p, n);
    in->n += n;
    in->p[in->n] = 0;
}

static void mutate(uint64_t *dice, struct input *in)
{
    char part[64];
    for (uint64_t round = draw(dice, 5); round > 0; round--) {
        size_t at = draw(dice, in->n + 1), n = draw(dice, 40) + 1;
        const char *word = words[draw(dice, sizeof words / sizeof *words)];
        if (n > in->n - at) n = in->n - at;
        switch (draw(dice, 5)) {
        case 0: put(in, at, word, strlen(word)); break;
        case 1:
            memmove(in->p + at, in->p + at + n, in->n - at - n + 1);
            in->n -= n;
            break;
        case 2:
            if (at < in->n) in->p[at] = (char)(draw(dice, 255) + 1);
            break;
        default:
            memcpy(part, in->p + at, n);
            for (uint64_t times = draw(dice, draw(dice, 4) ? 3 : 60); times > 0; times--) put(in, at, part, n);
        }
    }
}

static void open_vocab(void)
{
    static char byte[256];
    struct grammar_token token[N_VOCAB];
    struct lutra_error err;
    for (int i = 0; i < 256; i++) {
        byte[i] = (char)i;
        token[i] = (struct grammar_token){byte + i, 1, false};
    }
    for (int i = 0; i < 7; i++) token[256 + i] = (struct grammar_token){extra[i], strlen(extra[i]), false};
    token[N_VOCAB - 1] = (struct grammar_token){"", 0, true};
    if (grammar_vocab_open(&vocab, token, N_VOCAB, &err) < 0) fuzz_fail("%s", err.what);
}

/* Draws a text: true where it came to its end, with the text in *text. */
static bool walk(struct grammar_machine *m, uint64_t *dice, struct input *text)
{
    uint64_t mask[(N_VOCAB + 63) / 64];
    struct lutra_error err;
    int32_t state = grammar_start(m);
    text->n = 0;
    text->p[0] = 0;
    for (int step = 0; step < MAX_STEPS; step++) {
        int32_t allowed[N_VOCAB], n = 0, next;
        if (grammar_mask(m, state, mask, &err) < 0) return false;
        for (int32_t t = 0; t < N_VOCAB; t++) {
            bool may = mask[t / 64] >> t % 64 & 1;
            if (may) allowed[n++] = t;
            if (draw(dice, 16)) continue; /* a few tokens: the mask says what following them says */
            if (grammar_follow(m, state, t, &next, &err) < 0) return false;
            if (may != (next != GRAMMAR_DEAD)) fuzz_fail("token %d: the mask says %d", t, may);
        }
        if (n == 0) fuzz_fail("a state without a token behind it");
        bool end = grammar_may_end(m, state) && draw(dice, 3) == 0;
        int32_t t = end ? N_VOCAB - 1 : allowed[draw(dice, (uint64_t)n)];
        if (grammar_follow(m, state, t, &state, &err) < 0) return false;
        if (state == GRAMMAR_OVER) return true;
        if (t < 256)
            put(text, text->n, (char[]){(char)t}, 1);
        else
            put(text, text->n, extra[t - 256], strlen(extra[t - 256]));
    }
    return false;
}

static void judge(const struct input *schema, const struct input *text, bool drawn)
{
    struct json_schema *s;
    struct lutra_error err = {0};
    struct lutra_check check;
    char why[160] = "";
    lutra_check_init(&check, sizeof check);
    if (json_schema_open(&s, "schema", schema->p, schema->n, &err) < 0) {
        if (s || !strstr(err.what, "schema: ")) fuzz_fail("an error without its description: '%s'", err.what);
        return;
    }
    check.text = text->p;
    double reward = json_schema_ask(s, &check, why, sizeof why);
    if (reward < 0 && !*why) fuzz_fail("no reward and no reason");
    if (drawn && reward == 0 && strlen(text->p) == text->n)
        fuzz_fail("drawn by the schema, refused by it: %s", text->p);
    n_judged += reward >= 0;
    json_schema_close(&s);
}

static void try_input(uint64_t *dice)
{
    static struct input in, text;
    struct grammar *g;
    struct grammar_machine *m;
    struct lutra_error err = {0};
    bool schema = draw(dice, 2), drawn = false;
    const char *seed = schema ? schemas[draw(dice, sizeof schemas / sizeof *schemas)]
                              : grammars[draw(dice, sizeof grammars / sizeof *grammars)];
    in.n = text.n = 0;
    text.p[0] = 0;
    put(&in, 0, seed, strlen(seed));
    mutate(dice, &in);
    char *exact = malloc(in.n + 1); /* so that reads past the end are seen */
    memcpy(exact, in.p, in.n);
    int rc = (schema ? grammar_open_schema : grammar_open_gbnf)(&g, exact, in.n, &err);
    free(exact);
    if (rc < 0) {
        n_refused++;
        if (!err.what[0] || err.code != rc) fuzz_fail("an error without its description");
    } else {
        n_open++;
        if (grammar_machine_open(&m, g, vocab, &err) < 0) fuzz_fail("%s", err.what);
        for (int i = 0; i < 2 && !drawn; i++) drawn = walk(m, dice, &text);
        n_ended += drawn;
        grammar_machine_close(&m);
        grammar_close(&g);
    }
    if (!schema) return;
    if (!drawn) put(&text, 0, "{\"n\": 3, \"l\": [1, \"a\"]}", 23);
    judge(&in, &text, drawn);
}

int main(int argc, char **argv)
{
    struct fuzz_inputs in = fuzz_begin(argc, argv, 3000, 40000);
    size_t worst = 0;
    json_set_alloc_funcs(malloc, free); /* these here, which are counted */
    open_vocab();
    for (fuzz_input = in.first; fuzz_input < in.first + in.n; fuzz_input++) {
        uint64_t dice = (uint64_t)3 << 32 ^ fuzz_input;
        size_t before = heap_now();
        heap_reset_peak();
        fuzz_watch(SECONDS_PER_INPUT);
        try_input(&dice);
        fuzz_watch(0);
        size_t used = heap_peak() - before;
        if (used > worst) worst = used;
        if (used > (size_t)HEAP_MIB << 20) fuzz_fail("%zu bytes of heap", used);
        if (heap_now() != before) fuzz_fail("a leak: %zu bytes, %zu before", heap_now(), before);
    }
    grammar_vocab_close(&vocab);
    printf("%llu inputs: %ld opened, %ld refused, %ld drawn to the end, %ld judged; largest heap %.1f MiB (counted)\n",
        (unsigned long long)in.n, n_open, n_refused, n_ended, n_judged, (double)worst / (1 << 20));
    return fuzz_end(in, n_open && n_refused && n_ended && n_judged);
}
