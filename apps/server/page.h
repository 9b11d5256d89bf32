/* SPDX-License-Identifier: MIT
 *
 * The page for people: the files of page/, which the build embeds (cmake/embed.cmake).
 */
#ifndef LUTRA_SERVER_PAGE_H
#define LUTRA_SERVER_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct exchange;
struct text;
struct problem;

struct page_file {
    const char *name, *type;
    const char *etag; /* with its quotes: a hash of the bytes */
    const unsigned char *bytes;
    size_t n;
};
extern const struct page_file page_files[]; /* [n_page_file] */
extern const int n_page_file;

/* Headers of every file of the page: nothing is loaded, framed or sent but from and to this server. */
extern const char page_policy[];

/* Does an If-None-Match header name this file's bytes?  NULL: there is no such header. */
bool page_is_known(const struct page_file *f, const char *if_none_match);

/* Handlers: they set exchange.file. */
void page_root(struct exchange *x, struct text *out, struct problem *p); /* for browsers; else Ollama's words */
void page_show(struct exchange *x, struct text *out, struct problem *p);

#endif
