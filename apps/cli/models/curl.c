/* SPDX-License-Identifier: MIT */
#include "curl.h"

#include <dlfcn.h>
#include <stddef.h>

#define CURL_NAME(name) "curl_" #name,
#define CURL_PLACE(name) offsetof(struct curl_calls, name),

const struct curl_calls *curl_load(const char **why)
{
    static const char *const names[] = {CURL_CALLS(CURL_NAME)};
    static const size_t places[] = {CURL_CALLS(CURL_PLACE)};
    static struct curl_calls calls;
    static bool loaded;
    if (loaded) return &calls;
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        *why = dlerror();
        return NULL;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *call = dlsym(library, names[i]);
        if (!call) {
            *why = dlerror();
            return NULL;
        }
        *(void **)((char *)&calls + places[i]) = call;
    }
    loaded = true;
    return &calls;
}
