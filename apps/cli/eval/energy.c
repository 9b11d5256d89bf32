/* SPDX-License-Identifier: MIT
 *
 * Linux's powercap interface: intel-rapl:N/energy_uj, one per processor package.  LUTRA_POWERCAP names another folder
 * (tests).
 */
#include "eval/eval.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static bool read_counter(const char *folder, const char *zone, double *joules)
{
    char path[512];
    long long uj;
    snprintf(path, sizeof path, "%.200s/%.200s/energy_uj", folder, zone);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool ok = fscanf(f, "%lld", &uj) == 1 && uj >= 0;
    fclose(f);
    if (ok) *joules += (double)uj * 1e-6;
    return ok;
}

bool energy_read(double *joules)
{
    const char *folder = getenv("LUTRA_POWERCAP");
    if (!folder) folder = "/sys/class/powercap";
    DIR *dir = opendir(folder);
    bool any = false;
    *joules = 0;
    if (!dir) return false;
    for (struct dirent *e; (e = readdir(dir));) {
        const char *colon = strchr(e->d_name, ':');
        bool package =
            !strncmp(e->d_name, "intel-rapl:", 11) && colon && !strchr(colon + 1, ':'); /* not a part of one */
        any |= package && read_counter(folder, e->d_name, joules);
    }
    closedir(dir);
    return any;
}
