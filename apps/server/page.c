/* SPDX-License-Identifier: MIT
 *
 * GET / and /page/NAME.
 */
#include "page.h"

#include <string.h>

#include "http.h"
#include "state.h"

const char page_policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

static const struct page_file *find(const char *name)
{
    for (int i = 0; i < n_page_file; i++)
        if (strcmp(page_files[i].name, name) == 0) return &page_files[i];
    return NULL;
}

bool page_is_known(const struct page_file *f, const char *if_none_match)
{
    if (!if_none_match) return false;
    return strcmp(if_none_match, "*") == 0 || strstr(if_none_match, f->etag) != NULL;
}

void page_root(struct exchange *x, struct text *out, struct problem *p)
{
    const char *accept = http_header(x, "Accept");
    (void)p;
    if (accept && strstr(accept, "text/html"))
        x->file = find("index.html");
    else
        text_put(out, "Ollama is running"); /* its clients look for these words; it is Lutra, which speaks its API */
}

void page_show(struct exchange *x, struct text *out, struct problem *p)
{
    (void)out;
    x->file = find(x->path + strlen(x->route->path));
    if (!x->file) problem_set(p, 404, "not_found", NULL, "there is no %.200s here", x->path);
}
