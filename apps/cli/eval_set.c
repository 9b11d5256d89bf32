/* SPDX-License-Identifier: MIT */
#include "eval.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A plain decimal number loses the zeros that do not count: "007" -> "7", "12.50" -> "12.5", "3." -> "3". */
static void trim_number(char *text)
{
    char *p = text + (*text == '-' || *text == '+');
    size_t whole = strspn(p, "0123456789");
    bool point = p[whole] == '.';
    size_t part = point ? strspn(p + whole + 1, "0123456789") : 0;
    if (whole + part == 0 || p[whole + point + part]) return;
    if (point) {
        char *end = p + whole + 1 + part;
        while (end[-1] == '0') *--end = 0;
        if (end[-1] == '.') *--end = 0;
    }
    size_t zeros = strspn(p, "0");
    if (zeros && (p[zeros] == 0 || p[zeros] == '.')) zeros--;
    memmove(p, p + zeros, strlen(p + zeros) + 1);
    if (*text == '+' || strcmp(text, "-0") == 0) memmove(text, text + 1, strlen(text));
}

static char *normalise(const char *text, size_t n)
{
    char *out = get_memory(n + 1);
    size_t m = 0;
    while (n > 0 && isspace((unsigned char)text[0])) text++, n--;
    while (n > 0 && (isspace((unsigned char)text[n - 1]) || text[n - 1] == '.')) n--;
    for (size_t i = 0; i < n; i++) {
        bool between = text[i] == ',' && i > 0 && isdigit((unsigned char)text[i - 1]) && i + 1 < n &&
                       isdigit((unsigned char)text[i + 1]);
        if (text[i] != '$' && text[i] != '%' && !between) out[m++] = (char)tolower((unsigned char)text[i]);
    }
    while (m > 0 && isspace((unsigned char)out[m - 1])) m--;
    size_t first = 0;
    while (first < m && isspace((unsigned char)out[first])) first++;
    memmove(out, out + first, m - first);
    out[m - first] = 0;
    trim_number(out);
    return out;
}

char *eval_answer(const char *text, bool needs_mark)
{
    const char *mark = NULL;
    for (const char *p = text; (p = strstr(p, "####")); p += 4) mark = p + 4;
    if (!mark) return needs_mark ? NULL : normalise(text, strlen(text));
    while (*mark == ' ' || *mark == '\t') mark++;
    size_t n = strcspn(mark, "\n");
    char *answer = normalise(mark, n);
    if (*answer) return answer;
    free(answer);
    return NULL;
}

static int bad_line(const char *path, int line, const char *why)
{
    say("%s: line %d: %s", path, line, why);
    return EXIT_FAILED;
}

static char *answer_field(const json_t *value)
{
    char number[64];
    if (json_is_string(value)) return eval_answer(json_string_value(value), false);
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.12g", json_real_value(value));
    else
        return NULL;
    return eval_answer(number, false);
}

static int add_problem(struct eval_set *set, int *room, const char *path, int line, const char *text, size_t n)
{
    json_error_t err;
    json_t *root = json_loadb(text, n, 0, &err);
    if (!root) return bad_line(path, line, err.text);
    const char *question = json_string_value(json_object_get(root, "question"));
    char *answer = answer_field(json_object_get(root, "answer"));
    if (question && answer && *answer) {
        if (set->n == *room) {
            *room = *room * 2 + 64;
            set->problem = grow_memory(set->problem, (size_t)*room * sizeof *set->problem);
        }
        set->problem[set->n++] = (struct eval_problem){.question = copy_text(question),
            .answer = answer,
            .sample = get_memory((size_t)set->n_sample * sizeof(struct eval_sample))};
        json_decref(root);
        return 0;
    }
    free(answer);
    json_decref(root);
    return bad_line(path, line, question ? "no \"answer\" (text or number)" : "no \"question\" (text)");
}

int eval_read(struct eval_set *set, const char *path, int limit, int n_sample)
{
    struct buffer file = {0};
    int room = 0, code = 0, line = 1;
    *set = (struct eval_set){.n_sample = n_sample};
    if (read_file(path, &file) < 0) return EXIT_FAILED;
    for (const char *p = file.text, *end = p + file.n_bytes; !code && p < end && !(limit && set->n >= limit); line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);
        if (strspn(p, " \t\r") < n) code = add_problem(set, &room, path, line, p, n);
        p += n + 1;
    }
    if (!code && set->n == 0) {
        say("%s: no problems in it", path);
        code = EXIT_FAILED;
    }
    buffer_free(&file);
    return code;
}

void eval_free(struct eval_set *set)
{
    for (int i = 0; i < set->n; i++) {
        struct eval_problem *p = &set->problem[i];
        for (int j = 0; j < set->n_sample; j++) {
            free(p->sample[j].answer);
            buffer_free(&p->sample[j].text);
        }
        free(p->greedy.answer);
        buffer_free(&p->greedy.text);
        free(p->sample);
        free(p->prompt.id);
        free(p->question);
        free(p->answer);
    }
    free(set->problem);
    *set = (struct eval_set){0};
}

static int make_prompt(
    struct eval_problem *p, struct engine *e, const char *system, const char *chat_template, struct lutra_error *err)
{
    struct lutra_message m[2] = {{"system", system}, {"user", p->question}};
    char *text = NULL;
    if (!chat_template && !e->info.chat_template)
        return tokenize(e->model, p->question, strlen(p->question), LUTRA_ADD_SPECIAL, &p->prompt, err);
    int rc = lutra_chat_render(e->model, chat_template, system ? m : m + 1, system ? 2 : 1, true, &text, err);
    if (rc >= 0) rc = tokenize_chat(e->model, text, &p->prompt, err);
    lutra_free(text);
    return rc;
}

int eval_tokenize(struct eval_set *set, struct engine *e, const struct eval_options *o, int *longest)
{
    struct lutra_error err = {0};
    struct buffer chat_template = {0};
    int code = 0;
    *longest = 0;
    if (o->template_file && read_file(o->template_file, &chat_template) < 0) return EXIT_FAILED;
    for (int i = 0; !code && i < set->n; i++) {
        struct eval_problem *p = &set->problem[i];
        if (make_prompt(p, e, o->system, chat_template.text, &err) < 0) code = fail_with(&err);
        if (p->prompt.n > *longest) *longest = p->prompt.n;
    }
    buffer_free(&chat_template);
    return code;
}
