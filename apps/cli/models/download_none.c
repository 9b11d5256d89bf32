/* SPDX-License-Identifier: MIT */
#include "download.h"

bool download_possible(void)
{
    return false;
}

int download_text(const char *url, const char *token, struct buffer *out)
{
    (void)token, (void)out;
    say("%s: this lutra was built without libcurl", url);
    return EXIT_FAILED;
}

int download_file(const struct download *d)
{
    say("%s: this lutra was built without libcurl", d->url);
    return EXIT_FAILED;
}
