/* SPDX-License-Identifier: MIT
 *
 * A folder of its own for each test, and a store in it.
 */
#ifndef LUTRA_TESTS_RAG_FIXTURE_H
#define LUTRA_TESTS_RAG_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lutra/rag.h"

static char folder[64], store_path[96];

static inline int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/lutra-rag-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(store_path, sizeof store_path, "%s/store.db", folder);
    return 0;
}

static inline int drop_folder(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

#define OK(expr)                                                                                                       \
    do {                                                                                                               \
        struct lutra_error *e_ = &err;                                                                                 \
        *e_ = (struct lutra_error){0};                                                                                 \
        if ((expr) < 0) fail_msg("%s: %s", #expr, e_->what);                                                           \
    } while (0)

static inline lutra_store *open_store(void)
{
    lutra_store *s = NULL;
    struct lutra_error err = {0};
    OK(lutra_store_open(&s, store_path, NULL, &err));
    return s;
}

static inline enum lutra_added add_text(lutra_store *s, const char *name, const char *text)
{
    struct lutra_error err = {0};
    enum lutra_added what;
    struct lutra_document d;
    lutra_document_init(&d, sizeof d);
    d.name = name;
    d.bytes = text;
    d.n_bytes = strlen(text);
    OK(lutra_store_add(s, &d, &what, &err));
    return what;
}

static inline lutra_passages *find_text(lutra_store *s, const char *query, int n)
{
    struct lutra_error err = {0};
    lutra_passages *p = NULL;
    OK(lutra_store_find(s, query, strlen(query), n, &p, &err));
    return p;
}

static inline int count_found(lutra_store *s, const char *query)
{
    lutra_passages *p = find_text(s, query, 100);
    int n = lutra_passages_count(p);
    lutra_passages_close(&p);
    return n;
}

#endif
