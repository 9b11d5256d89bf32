/* SPDX-License-Identifier: MIT */
#include "eval/eval.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static int bad_line(const char *path, int line, const char *why)
{
    say("%s: line %d: %s", path, line, why);
    return EXIT_FAILED;
}

/* The canonical form of a given answer: worked out with its mark ("#### 7", \boxed{7}), or the bare answer. */
static char *given_answer(const char *text, bool worked)
{
    char answer[1024];
    struct buffer marked = {0};
    bool has_mark = strstr(text, "####") || strstr(text, "\\boxed") || strstr(text, "\\fbox");
    if (!worked && !has_mark) buffer_add(&marked, "#### ", 5);
    buffer_add(&marked, text, strlen(text));
    for (char *p = marked.text; !worked && !has_mark && *p; p++)
        if (*p == '\n') *p = ' ';
    size_t n = lutra_answer(marked.text, answer, sizeof answer);
    buffer_free(&marked);
    return n ? copy_text(answer) : NULL;
}

static char *answer_field(const json_t *value)
{
    char number[64];
    if (json_is_string(value)) return given_answer(json_string_value(value), false);
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.12g", json_real_value(value));
    else
        return NULL;
    return given_answer(number, false);
}

/* {question, answer} of plain JSONL and GSM8K, {problem, answer or solution} of MATH500. */
static const char *read_question(struct eval_problem *p, const json_t *root)
{
    const char *question = json_string_value(json_object_get(root, "question"));
    const char *solution = json_string_value(json_object_get(root, "solution"));
    if (!question) question = json_string_value(json_object_get(root, "problem"));
    if (!question) return "no \"question\" or \"problem\" (text)";
    char *answer = answer_field(json_object_get(root, "answer"));
    if (!answer && solution) answer = given_answer(solution, true);
    if (!answer) return "no \"answer\" (text or number), and no \"solution\" with one";
    p->question = copy_text(question);
    p->answer = answer;
    return NULL;
}

static int add_problem(
    struct eval_set *set, int *room, const struct eval_options *o, int line, const char *text, size_t n)
{
    json_error_t err;
    struct eval_problem p = {0};
    json_t *root = json_loadb(text, n, 0, &err);
    if (!root) return bad_line(o->file, line, err.text);
    bool choice = eval_is_choice(root, o->format);
    const char *why = choice ? eval_read_choice(&p, root) : read_question(&p, root);
    json_decref(root);
    if (!why && set->n > 0 && choice != set->choices) why = "another kind of problem than the lines before";
    if (why) return bad_line(o->file, line, why);
    set->choices = choice;
    if (set->n == *room) {
        *room = *room * 2 + 64;
        set->problem = grow_memory(set->problem, (size_t)*room * sizeof *set->problem);
    }
    p.outcome = get_memory(EVAL_SOURCES_MAX * sizeof *p.outcome);
    set->problem[set->n++] = p;
    return 0;
}

static uint64_t hash(const char *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
    return h;
}

int eval_read(struct eval_set *set, const struct eval_options *o)
{
    struct buffer file = {0};
    int room = 0, code = 0, line = 1;
    *set = (struct eval_set){0};
    if (read_file(o->file, &file) < 0) return EXIT_FAILED;
    set->content_hash = hash(file.text, file.n_bytes);
    for (const char *p = file.text, *end = p + file.n_bytes; !code && p < end && !(o->limit && set->n >= o->limit);
         line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);
        if (strspn(p, " \t\r") < n) code = add_problem(set, &room, o, line, p, n);
        p += n + 1;
    }
    if (!code && set->n == 0) {
        say("%s: no problems in it", o->file);
        code = EXIT_FAILED;
    }
    buffer_free(&file);
    return code;
}

void eval_free(struct eval_set *set)
{
    for (int i = 0; i < set->n; i++) {
        struct eval_problem *p = &set->problem[i];
        for (int s = 0; s < EVAL_SOURCES_MAX; s++) eval_outcome_free(&p->outcome[s]);
        for (int c = 0; c < p->n_choice; c++) {
            free(p->context[c]);
            free(p->ending[c]);
        }
        free(p->outcome);
        free(p->prompt.id);
        free(p->question);
        free(p->answer);
    }
    free(set->problem);
    buffer_free(&set->chat_template);
    *set = (struct eval_set){0};
}

static int make_prompt(struct eval_problem *p, struct engine *e, const struct eval_options *o,
    const char *chat_template, struct lutra_error *err)
{
    struct lutra_message m[2] = {{.role = "system", .content = o->system}, {.role = "user", .content = p->question}};
    int from = o->system ? 0 : 1;
    struct lutra_chat chat;
    if (!chat_template && !e->info.chat_template)
        return tokenize(e->model, p->question, strlen(p->question), LUTRA_ADD_SPECIAL, &p->prompt, err);
    lutra_chat_init(&chat, sizeof chat);
    chat.messages = m + from;
    chat.n_message = 2 - from;
    chat.chat_template = chat_template;
    if (o->budget == 0) chat.flags |= LUTRA_CHAT_NO_REASONING;
    return tokenize_chat(e->model, &chat, &p->prompt, err);
}

/* Tokens of the longest context and ending together, near enough to size the cache. */
static int longest_choice(const struct eval_problem *p, struct engine *e, struct lutra_error *err)
{
    struct tokens t = {0};
    int longest = 0;
    for (int c = 0; c < p->n_choice; c++) {
        int n = 1;
        if (tokenize(e->model, p->context[c], strlen(p->context[c]), LUTRA_ADD_SPECIAL, &t, err) < 0) break;
        n += t.n;
        if (tokenize(e->model, p->ending[c], strlen(p->ending[c]), 0, &t, err) < 0) break;
        n += t.n;
        if (n > longest) longest = n;
    }
    free(t.id);
    return longest;
}

int eval_tokenize(struct eval_set *set, struct engine *e, const struct eval_options *o, int *longest)
{
    struct lutra_error err = {0};
    int code = 0;
    *longest = 0;
    if (o->template_file && read_file(o->template_file, &set->chat_template) < 0) return EXIT_FAILED;
    for (int i = 0; !code && i < set->n; i++) {
        struct eval_problem *p = &set->problem[i];
        if (p->n_choice == 0 && make_prompt(p, e, o, set->chat_template.text, &err) < 0) code = fail_with(&err);
        int n = p->n_choice ? longest_choice(p, e, &err) : p->prompt.n;
        if (n > *longest) *longest = n;
    }
    return code;
}
