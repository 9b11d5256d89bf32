/* SPDX-License-Identifier: MIT
 *
 * Multiple choice by log-likelihood: each choice is an ending behind a context, and the likeliest is the answer.  What
 * the choices of a problem share is evaluated once.
 *
 *     WinoGrande  {"sentence": "a _ b", "option1", "option2", "answer": "1"}
 *                     context "a option", ending " b"
 *     MMLU        {"question", "choices": [4], "answer": 0..3 or "A".."D"}
 *                     context the question and its choices, ending " A"
 *     HellaSwag   {"ctx", "endings": [4], "label": "0".."3", "activity_label"}
 *                     context the activity and the text, ending one of theirs
 */
#include "eval/eval.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "feed.h"

enum { GROUP = 8 };

/* ---- reading ---- */

static const char *text_of(const json_t *root, const char *key)
{
    return json_string_value(json_object_get(root, key));
}

bool eval_is_choice(const void *json, const char *format)
{
    const json_t *root = json;
    if (strcmp(format, "auto"))
        return !strcmp(format, "winogrande") || !strcmp(format, "mmlu") || !strcmp(format, "hellaswag");
    return json_object_get(root, "sentence") || json_object_get(root, "endings") || json_object_get(root, "choices");
}

/* A number, "2", or "C"; -1 if it is none of these. */
static int label_of(const json_t *value)
{
    const char *text = json_string_value(value);
    int64_t n;
    if (json_is_integer(value))
        n = json_integer_value(value);
    else if (text && text[0] >= 'A' && text[0] <= 'J' && !text[1])
        n = text[0] - 'A';
    else if (!text || option_number(text, 0, EVAL_CHOICES_MAX, &n) < 0)
        return -1;
    return n >= 0 && n < EVAL_CHOICES_MAX ? (int)n : -1;
}

static char *join(const char *a, const char *b, const char *c)
{
    size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
    char *out = get_memory(n);
    snprintf(out, n, "%s%s%s", a, b, c);
    return out;
}

static void add_choice(struct eval_problem *p, char *context, char *ending)
{
    p->context[p->n_choice] = context;
    p->ending[p->n_choice++] = ending;
}

static const char *read_winogrande(struct eval_problem *p, const json_t *root)
{
    const char *sentence = text_of(root, "sentence"), *blank = sentence ? strchr(sentence, '_') : NULL;
    const char *option[] = {text_of(root, "option1"), text_of(root, "option2")};
    p->right_choice = label_of(json_object_get(root, "answer")) - 1;
    if (!blank || !option[0] || !option[1]) return "no \"sentence\" with a _, \"option1\" and \"option2\"";
    for (int c = 0; c < 2; c++) {
        char *context = join(sentence, option[c], ""); /* longer than needed; the text after _ is replaced */
        memcpy(context + (blank - sentence), option[c], strlen(option[c]) + 1);
        add_choice(p, context, copy_text(blank + 1));
    }
    return NULL;
}

static const char *read_mmlu(struct eval_problem *p, const json_t *root)
{
    const char *question = text_of(root, "question"), *subject = text_of(root, "subject");
    const json_t *choices = json_object_get(root, "choices");
    size_t n = json_array_size(choices);
    struct buffer context = {0};
    if (!question || n < 2 || n > 10) return "no \"question\" with 2 to 10 \"choices\"";
    if (subject) {
        char head[200];
        snprintf(
            head, sizeof head, "The following are multiple choice questions (with answers) about %.100s.\n\n", subject);
        buffer_add(&context, head, strlen(head));
        for (char *c = context.text; *c; c++)
            if (*c == '_') *c = ' ';
    }
    buffer_add(&context, question, strlen(question));
    for (size_t c = 0; c < n; c++) {
        const char *text = json_string_value(json_array_get(choices, c));
        char mark[] = {'\n', (char)('A' + c), '.', ' '};
        buffer_add(&context, mark, sizeof mark);
        if (text) buffer_add(&context, text, strlen(text));
    }
    buffer_add(&context, "\nAnswer:", 8);
    for (size_t c = 0; c < n; c++) add_choice(p, copy_text(context.text), copy_text((char[]){' ', (char)('A' + c), 0}));
    buffer_free(&context);
    p->right_choice = label_of(json_object_get(root, "answer"));
    return NULL;
}

/* Articles from how-to sites carry section marks such as [title]. */
static char *without_marks(const char *text)
{
    char *out = copy_text(text), *to = out;
    for (const char *p = text; *p;) {
        const char *close = *p == '[' ? strchr(p, ']') : NULL;
        if (close) {
            if (!strncmp(p, "[title]", 7) && to > out) {
                while (to > out && to[-1] == ' ') to--;
                *to++ = '.';
            }
            p = close + 1;
            continue;
        }
        if (!(*p == ' ' && to > out && to[-1] == ' ')) *to++ = *p;
        p++;
    }
    *to = 0;
    return out;
}

static const char *read_hellaswag(struct eval_problem *p, const json_t *root)
{
    const char *ctx = text_of(root, "ctx"), *activity = text_of(root, "activity_label");
    const json_t *endings = json_object_get(root, "endings");
    size_t n = json_array_size(endings);
    if (!ctx || n < 2 || n > EVAL_CHOICES_MAX) return "no \"ctx\" with 2 to 16 \"endings\"";
    char *context = join(activity ? activity : "", activity ? ": " : "", ctx), *plain = without_marks(context);
    for (size_t c = 0; c < n; c++) {
        const char *text = json_string_value(json_array_get(endings, c));
        char *ending = join(" ", text ? text : "", ""), *clean = without_marks(ending);
        add_choice(p, copy_text(plain), clean);
        free(ending);
    }
    free(context);
    free(plain);
    p->right_choice = label_of(json_object_get(root, "label"));
    return NULL;
}

const char *eval_read_choice(struct eval_problem *p, const void *json)
{
    const json_t *root = json;
    const char *why = json_object_get(root, "sentence")  ? read_winogrande(p, root)
                      : json_object_get(root, "endings") ? read_hellaswag(p, root)
                                                         : read_mmlu(p, root);
    if (!why && (p->right_choice < 0 || p->right_choice >= p->n_choice)) why = "no right answer among the choices";
    if (!why) p->question = copy_text(p->context[0]);
    return why;
}

/* ---- scoring ---- */

/* One problem of a group. */
struct question {
    struct tokens whole[EVAL_CHOICES_MAX]; /* context and ending */
    int n_context[EVAL_CHOICES_MAX], n_shared;
    int32_t base, seq[EVAL_CHOICES_MAX];
};

static int spell_out(struct eval_run *run, const struct eval_problem *p, struct question *q, struct lutra_error *err)
{
    struct tokens context = {0};
    int rc = 0;
    q->n_shared = INT32_MAX;
    for (int c = 0; rc >= 0 && c < p->n_choice; c++) {
        char *text = join(p->context[c], p->ending[c], "");
        rc = tokenize(run->engine.model, text, strlen(text), LUTRA_ADD_SPECIAL, &q->whole[c], err);
        free(text);
        if (rc >= 0)
            rc = tokenize(run->engine.model, p->context[c], strlen(p->context[c]), LUTRA_ADD_SPECIAL, &context, err);
        q->n_context[c] = context.n < 1 ? 1 : context.n < q->whole[c].n ? context.n : q->whole[c].n;
        int same = 0;
        while (same < q->whole[0].n && same < q->whole[c].n && q->whole[0].id[same] == q->whole[c].id[same]) same++;
        if (same > q->n_context[c] - 1) same = q->n_context[c] - 1;
        if (same < q->n_shared) q->n_shared = same;
    }
    free(context.id);
    return rc;
}

/* The problems list[0..n-1], n <= GROUP, in two rounds of passes: what is shared, then the choices. */
static int score_group(struct eval_run *run, struct feed *f, struct question *q, int source, const int *list, int n,
    struct lutra_error *err)
{
    int rc = 0;
    lutra_session *s = run->engine.session;
    for (int i = 0; rc >= 0 && i < n; i++) {
        rc = spell_out(run, &run->set->problem[list[i]], &q[i], err);
        if (rc >= 0) rc = lutra_seq_open(s, q[i].n_shared + 1, &q[i].base, err);
        if (rc >= 0)
            rc = feed_tokens(f, q[i].base, q[i].whole[0].id, q[i].whole[0].n, 0, q[i].n_shared, INT32_MAX, NULL, err);
    }
    if (rc >= 0) rc = feed_flush(f, err);
    for (int i = 0; rc >= 0 && i < n; i++) {
        struct eval_problem *p = &run->set->problem[list[i]];
        struct eval_outcome *out = &p->outcome[source];
        *out = (struct eval_outcome){.n_sample = p->n_choice, .n_candidates = p->n_choice, .tokens = q[i].n_shared};
        out->sample = get_memory((size_t)p->n_choice * sizeof *out->sample);
        for (int c = 0; rc >= 0 && c < p->n_choice; c++) {
            struct eval_sample *sample = &out->sample[c];
            int n_tok = q[i].whole[c].n;
            sample->n_tok = n_tok - q[i].n_context[c];
            out->tokens += n_tok - 1 - q[i].n_shared;
            rc = lutra_seq_fork(s, q[i].base, -1, n_tok, &q[i].seq[c], err);
            if (rc >= 0)
                rc = feed_tokens(f, q[i].seq[c], q[i].whole[c].id, n_tok, q[i].n_shared, n_tok - 1, q[i].n_context[c],
                    &sample->sum_log_prob, err);
        }
    }
    return rc < 0 ? rc : feed_flush(f, err);
}

int eval_choose(struct eval_run *run, int source, const int *list, int n_list)
{
    struct lutra_error err = {0};
    struct feed f;
    struct question *q = get_memory(GROUP * sizeof *q);
    int code = 0;
    feed_open(&f, run->engine.session, run->opts->engine.n_batch);
    uint64_t start = now_us();
    for (int at = 0; !code && at < n_list; at += GROUP) {
        int n = n_list - at < GROUP ? n_list - at : GROUP;
        if (score_group(run, &f, q, source, list + at, n, &err) < 0) code = fail_with(&err);
        for (int i = 0; !code && i < n; i++) {
            struct eval_problem *p = &run->set->problem[list[at + i]];
            for (int c = 0; c < p->n_choice; c++) lutra_seq_close(run->engine.session, q[i].seq[c]);
            lutra_seq_close(run->engine.session, q[i].base);
            p->outcome[source].done = true;
            if (run->journal) code = eval_journal_add(run, source, list[at + i]);
        }
        if (interrupted()) code = EXIT_INTERRUPTED;
        progress_show("choices", (uint64_t)(at + n), (uint64_t)n_list);
    }
    progress_clear();
    run->set->source[source].seconds += (double)(now_us() - start) * 1e-6;
    for (int i = 0; i < GROUP; i++)
        for (int c = 0; c < EVAL_CHOICES_MAX; c++) free(q[i].whole[c].id);
    free(q);
    feed_close(&f);
    return code;
}
