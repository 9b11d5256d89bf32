/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/status.h"
#include "phone/data.h"
#include "phone/profile.h"

/* "8gen3" of "profiles/snapdragon-8gen3.json", or all of the file's name. */
static bool is_named(const char *path, const char *name)
{
    const char *base = strrchr(path, '/') + 1, *dash = strchr(base, '-');
    size_t n = strlen(name);
    return (strncmp(base, name, n) == 0 && strcmp(base + n, ".json") == 0) ||
           (dash && strncmp(dash + 1, name, n) == 0 && strcmp(dash + 1 + n, ".json") == 0);
}

static const struct sim_data *find_profile(const char *name)
{
    const struct sim_data *d = &sim_data[SIM_DATA_PROFILES];
    while (d->name && !is_named(d->name, name)) d++;
    return d;
}

bool soc_profile_is_file(const char *name)
{
    return !find_profile(name)->name;
}

int soc_profile_open(struct soc_profile *out, const char *name, struct lutra_error *err)
{
    const struct sim_data *d = find_profile(name);
    if (d->name) return soc_profile_parse(out, d->bytes, d->n_bytes, d->name, err);
    if (strchr(name, '/') || strstr(name, ".json")) return soc_profile_load(out, name, err);
    return lutra_fail(err, LUTRA_E_NOT_FOUND,
        "no profile '%s'; there are 8gen2, 8gen3, 8elite, and files (a path or NAME.json)", name);
}
