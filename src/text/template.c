/* SPDX-License-Identifier: MIT */
#include "text/template.h"

#include <locale.h>
#include <stdlib.h>

#include "text/jinja/jinja_impl.h"

enum { MIN_INPUT_BYTES = 1024 }; /* covers what a number or one character is written as */

struct text_template {
    struct jinja_heap heap;
    struct jinja_node *body;
    size_t n_source;
};

int text_template_parse(struct text_template **out, const char *source, size_t n_source, struct lutra_error *err)
{
    *out = NULL;
    struct text_template *t = calloc(1, sizeof *t);
    if (!t) return lutra_fail(err, LUTRA_E_NO_MEMORY, "out of memory for a template");
    t->n_source = n_source;
    t->heap.max_bytes = TEXT_TEMPLATE_MAX_HEAP(n_source);
    int rc = jinja_parse(&t->heap, source, n_source, &t->body, err);
    if (rc < 0) {
        text_template_close(&t);
        return rc;
    }
    *out = t;
    return 0;
}

void text_template_close(struct text_template **tmpl)
{
    if (!*tmpl) return;
    jinja_heap_fini(&(*tmpl)->heap);
    free(*tmpl);
    *tmpl = NULL;
}

static int render(
    const struct text_template *tmpl, const struct text_template_input *input, size_t n_json, struct jinja_run *run)
{
    struct jinja_value context;
    uint8_t *ones = jinja_alloc(&run->heap, n_json);
    if (!ones) return lutra_fail(run->err, LUTRA_E_NO_MEMORY, "out of memory for a render");
    memset(ones, 1, n_json);
    run->all_input = ones;
    run->n_all_input = n_json; /* no string of the variables is longer */
    TRY(jinja_json_values(run, input->variables, input->own, &context));
    run->context = context.dict;
    TRY(jinja_scope_push(run));
    return jinja_exec(run, tmpl->body);
}

int text_template_render(const struct text_template *tmpl, const struct text_template_input *input,
    struct text_template_text *out, struct lutra_error *err)
{
    *out = (struct text_template_text){0};
    size_t n_json = jinja_json_bytes(input->variables, 0) + MIN_INPUT_BYTES, n = tmpl->n_source + n_json;
    if (n_json > UINT32_MAX / 2)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%zu bytes of variables are too many", n_json);
    struct jinja_run run = {.err = err, .now = input->now, .work = input->work, .stack = jinja_stack_here()};
    /* Template and render share one ceiling. */
    run.heap.max_bytes = TEXT_TEMPLATE_MAX_HEAP(n) - tmpl->heap.used_bytes;
    run.out.max_bytes = TEXT_TEMPLATE_MAX_OUTPUT(n);
    /* Numbers are printed with a decimal point whatever the program's locale; only this thread's changes. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return lutra_fail(err, LUTRA_E_NO_MEMORY, "out of memory for a render");
    locale_t before = uselocale(plain);
    int rc = jinja_text_add(&run.out, "", 0, NULL);
    if (rc < 0)
        lutra_fail(err, rc, "out of memory for a render");
    else
        rc = render(tmpl, input, n_json, &run);
    uselocale(before);
    freelocale(plain);
    jinja_heap_fini(&run.heap);
    *out = (struct text_template_text){run.out.p, run.out.n, run.out.input};
    if (rc < 0) text_template_text_free(out);
    return rc;
}

void text_template_text_free(struct text_template_text *text)
{
    free(text->p);
    free(text->input);
    *text = (struct text_template_text){0};
}
