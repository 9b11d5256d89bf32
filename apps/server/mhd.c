/* SPDX-License-Identifier: MIT */
#include "mhd.h"

#ifdef LUTRA_STATIC
#define MHD_ITSELF(name) .name = MHD_##name,

const char *mhd_load(void)
{
    return NULL;
}

const struct mhd_calls *mhd(void)
{
    static const struct mhd_calls calls = {MHD_CALLS(MHD_ITSELF)};
    return &calls;
}
#else
#include <dlfcn.h>
#include <stddef.h>

#define MHD_PLACE(name) {"MHD_" #name, offsetof(struct mhd_calls, name)},

static struct mhd_calls *table(void)
{
    static struct mhd_calls calls;
    return &calls;
}

const char *mhd_load(void)
{
    static const struct {
        const char *name;
        size_t place;
    } all[] = {MHD_CALLS(MHD_PLACE)};
    void *library = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL); /* for as long as the program runs */
    void *call = library;
    for (size_t i = 0; call && i < sizeof all / sizeof *all; i++) {
        call = dlsym(library, all[i].name);
        *(void **)((char *)table() + all[i].place) = call;
    }
    return call ? NULL : dlerror();
}

const struct mhd_calls *mhd(void)
{
    return table();
}
#endif
