/* SPDX-License-Identifier: MIT */
#include "text/template.h"

#include <locale.h>
#include <stdlib.h>

#include "text/jinja/jinja_impl.h"

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

static int render(const struct text_template *tmpl, const struct json_t *variables, struct jinja_run *run)
{
    struct jinja_value context;
    TRY(jinja_json_values(run, variables, &context));
    run->context = context.dict;
    TRY(jinja_scope_push(run));
    return jinja_exec(run, tmpl->body);
}

int text_template_render(const struct text_template *tmpl, const struct json_t *variables, int64_t now,
    struct text_template_text *out, struct lutra_error *err)
{
    *out = (struct text_template_text){0};
    size_t n_json = jinja_json_bytes(variables), n = tmpl->n_source + n_json;
    if (n_json > UINT32_MAX / 2)
        return lutra_fail(err, LUTRA_E_ARGUMENT, "%zu bytes of variables are too many", n_json);
    struct jinja_run run = {.err = err, .now = now};
    /* Template and render share one ceiling. */
    run.heap.max_bytes = TEXT_TEMPLATE_MAX_HEAP(n) - tmpl->heap.used_bytes;
    run.out.max_bytes = TEXT_TEMPLATE_MAX_OUTPUT(n);
    /* Numbers are printed with a decimal point whatever the program's locale; only this thread's changes. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return lutra_fail(err, LUTRA_E_NO_MEMORY, "out of memory for a render");
    locale_t before = uselocale(plain);
    int rc = jinja_text_add(&run.out, "", 0);
    if (rc < 0)
        lutra_fail(err, rc, "out of memory for a render");
    else
        rc = render(tmpl, variables, &run);
    uselocale(before);
    freelocale(plain);
    jinja_heap_fini(&run.heap);
    if (rc < 0) {
        free(run.out.p);
        return rc;
    }
    *out = (struct text_template_text){run.out.p, run.out.n};
    return 0;
}

void text_template_text_free(struct text_template_text *text)
{
    free(text->p);
    *text = (struct text_template_text){0};
}
