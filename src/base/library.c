/* SPDX-License-Identifier: MIT */
#include "base/library.h"

#include <dlfcn.h>

void *library_open(const char *file, const struct library_call *call, size_t n_call, void *table, const char **lacks)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    *lacks = NULL;
    for (size_t i = 0; library && i < n_call; i++) {
        void *found = dlsym(library, call[i].name);
        *(void **)((char *)table + call[i].place) = found;
        if (found || call[i].optional) continue;
        *lacks = call[i].name;
        dlclose(library);
        library = NULL;
    }
    return library;
}
