/* SPDX-License-Identifier: MIT
 *
 * Log-probs of /v1/completions: a stream tells of each token what a whole reply does, and looks at each once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "openai.h"

enum { TOKENS = 500, ECHOED = 3 };

static int n_asked_for; /* texts of tokens */

void token_text(const struct served *m, int32_t token, struct text *out)
{
    (void)m;
    n_asked_for++;
    text_print(out, "t%d", token);
}

/* What a reply has beside its choices is not of interest here. */
void openai_open(struct reply *r, const char *prefix, const char *object)
{
    (void)prefix, (void)object;
    text_put(r->out, "data: {");
}

void openai_end_choice(struct reply *r, const struct choice *c, const char *word, const char *behind)
{
    (void)c, (void)word;
    text_print(r->out, "}%s", behind);
}

void openai_usage(struct reply *r)
{
    (void)r;
}

void openai_finish(struct reply *r, const char *prefix, const char *object)
{
    (void)r, (void)prefix, (void)object;
}

void openai_error(const struct problem *p, struct text *out)
{
    (void)p, (void)out;
}

void openai_broken(const struct problem *p, struct text *out)
{
    (void)p, (void)out;
}

void openai_common(struct ask *a, const struct fields *f)
{
    (void)a, (void)f;
}

const char *end_word(const struct lutra_end *end)
{
    (void)end;
    return "stop";
}

json_t *field_any(const struct fields *f, const char *name)
{
    (void)f, (void)name;
    return NULL;
}

bool field_bool(const struct fields *f, const char *name, bool *out)
{
    (void)f, (void)name, (void)out;
    return false;
}

bool field_int(const struct fields *f, const char *name, int64_t min, int64_t max, int *out)
{
    (void)f, (void)name, (void)min, (void)max, (void)out;
    return false;
}

bool field_text(const struct fields *f, const char *name, const char **out)
{
    (void)f, (void)name, (void)out;
    return false;
}

void field_wrong(const struct fields *f, const char *name, const char *format, ...)
{
    (void)f, (void)name, (void)format;
}

/* A prompt of ECHOED tokens and a reply of two choices, TOKENS tokens each. */
struct made {
    struct ask ask;
    struct prompt prompt;
    struct choice choice[2];
    struct scored asked[ECHOED - 1], scored[2][TOKENS];
    int32_t token[ECHOED];
    struct text out;
    struct reply reply;
};

static void make(struct made *m, bool echoes)
{
    static char echoed[] = "t1t2t3";
    memset(m, 0, sizeof *m);
    m->ask.set.n_samples = m->ask.n = 2;
    m->ask.n_prompt = 1;
    m->ask.log_probs = true;
    m->ask.scores_prompt = m->ask.echo = echoes;
    m->ask.prompt = &m->prompt;
    m->prompt = (struct prompt){.token = m->token, .n_token = ECHOED, .text = echoes ? echoed : NULL};
    for (int i = 0; i < ECHOED; i++) m->token[i] = 1 + i;
    for (int i = 1; i < ECHOED; i++) m->asked[i - 1] = (struct scored){.token = 1 + i, .log_prob = -0.5f};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < TOKENS; i++) m->scored[k][i] = (struct scored){.token = i * (k + 1), .log_prob = -(float)i};
        m->choice[k] = (struct choice){.scored = m->scored[k]};
    }
    if (echoes) m->choice[0].asked = m->asked, m->choice[0].n_asked = ECHOED - 1;
    m->reply = (struct reply){.ask = &m->ask, .choice = m->choice, .n_choice = 2, .out = &m->out};
    n_asked_for = 0;
}

/* An array that choice `index` has under `name`, those of all events joined; without blanks. */
static void gather(const struct made *m, int index, const char *name, struct text *out)
{
    char choice[32], key[32];
    snprintf(choice, sizeof choice, "{\"index\":%d,", index);
    snprintf(key, sizeof key, "\"%s\":[", name);
    for (const char *at = m->out.bytes; (at = strstr(at, choice)); at++) {
        const char *from = strstr(at, key) + strlen(key), *to = strchr(from, ']');
        if (out->n && to > from) text_put(out, ",");
        text_add(out, from, (size_t)(to - from));
    }
}

static void tell_in_parts(struct made *m, int part)
{
    for (int told = 0; told < TOKENS; told += part)
        for (int k = 0; k < 2; k++) {
            struct choice *c = &m->choice[k];
            c->n_scored = told + part < TOKENS ? told + part : TOKENS;
            dialect_completions.delta(&m->reply, &(struct delta){DELTA_TOKEN, k, "", 0});
            c->n_told = c->n_scored;
            c->begun = true;
        }
}

static void streams_tell_what_whole_replies_do(void **state)
{
    static struct made whole, stream;
    static const char *const names[] = {"tokens", "token_logprobs", "text_offset"};
    (void)state;
    for (int echoes = 0; echoes < 2; echoes++) {
        make(&whole, echoes);
        whole.choice[0].n_scored = whole.choice[1].n_scored = TOKENS;
        dialect_completions.whole(&whole.reply);
        for (int part = 1; part < TOKENS; part += 37) {
            make(&stream, echoes);
            tell_in_parts(&stream, part);
            assert_int_equal(n_asked_for, 2 * (TOKENS + (echoes ? ECHOED : 0))); /* each token is looked at once */
            for (int k = 0; k < 2; k++)
                for (int i = 0; i < 3; i++) {
                    struct text a = {0}, b = {0};
                    gather(&whole, k, names[i], &a);
                    gather(&stream, k, names[i], &b);
                    assert_string_equal(a.bytes, b.bytes);
                    text_free(&a);
                    text_free(&b);
                }
            text_free(&stream.out);
        }
        text_free(&whole.out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(streams_tell_what_whole_replies_do)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
