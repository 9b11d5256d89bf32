/* SPDX-License-Identifier: MIT
 *
 * Renders templates for jinja_compare.py and template_work.py: one JSON object {"template", "variables", "now"} per
 * line of input, one {"ok": text} or {"error": message, "line": n} per line of output, with the processor time of
 * rendering and how often it asked whether it may go on.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text/template.h"

static int count_asked(void *user)
{
    ++*(json_int_t *)user;
    return 0;
}

static json_t *render(const json_t *request)
{
    const json_t *source = json_object_get(request, "template");
    const json_t *variables = json_object_get(request, "variables");
    struct text_template *t = NULL;
    struct text_template_text text = {0};
    struct lutra_error err = {0};
    json_int_t n_asked = 0;
    struct text_work work = {.ask = count_asked, .user = &n_asked};
    int rc = text_template_parse(&t, json_string_value(source), json_string_length(source), &err);
    clock_t start = clock();
    if (rc == 0)
        rc = text_template_render(t,
            &(struct text_template_input){
                .variables = variables, .now = json_integer_value(json_object_get(request, "now")), .work = &work},
            &text, &err);
    json_t *answer = json_pack("{s:I, s:f}", "asked", n_asked, "seconds", (double)(clock() - start) / CLOCKS_PER_SEC);
    if (rc < 0) {
        json_object_set_new(answer, "error", json_string(err.what));
        json_object_set_new(answer, "line", json_integer((json_int_t)err.where));
    } else {
        json_object_set_new(answer, "ok", json_stringn(text.p, text.n));
    }
    text_template_text_free(&text);
    text_template_close(&t);
    return answer;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        json_error_t why;
        json_t *request = json_loads(line, JSON_ALLOW_NUL, &why);
        if (!request) return fprintf(stderr, "text_render: %s\n", why.text), 1;
        json_t *answer = render(request);
        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(request);
    }
    free(line);
    return 0;
}
