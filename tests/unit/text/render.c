/* SPDX-License-Identifier: MIT
 *
 * Renders templates for jinja_compare.py: one JSON object {"template", "variables", "now"} per line of input, one
 * {"ok": text} or {"error": message, "line": n} per line of output.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/template.h"

static json_t *render(const json_t *request)
{
    const json_t *source = json_object_get(request, "template");
    const json_t *variables = json_object_get(request, "variables");
    struct text_template *t = NULL;
    struct text_template_text text = {0};
    struct lutra_error err = {0};
    int rc = text_template_parse(&t, json_string_value(source), json_string_length(source), &err);
    if (rc == 0)
        rc = text_template_render(t,
            &(struct text_template_input){
                .variables = variables, .now = json_integer_value(json_object_get(request, "now"))},
            &text, &err);
    json_t *answer = json_object();
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
