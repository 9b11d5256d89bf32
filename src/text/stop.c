/* SPDX-License-Identifier: MIT */
#include "text/stop.h"

#include <string.h>

int text_stop_find(const char *const *stop, int n_stop, const char *text, size_t n, size_t *at)
{
    int found = -1;
    *at = n;
    for (int i = 0; i < n_stop; i++) {
        const char *p = memmem(text, n, stop[i], strlen(stop[i]));
        if (!p || (size_t)(p - text) >= *at) continue;
        *at = (size_t)(p - text);
        found = i;
    }
    return found;
}

size_t text_stop_may_begin(const char *const *stop, int n_stop, const char *text, size_t n)
{
    size_t longest = 0;
    for (int i = 0; i < n_stop; i++) {
        size_t n_stop_text = strlen(stop[i]) - 1, k = n_stop_text < n ? n_stop_text : n;
        while (k > longest && memcmp(text + n - k, stop[i], k)) k--;
        if (k > longest) longest = k;
    }
    /* What is given out ends before a lead byte. */
    while (longest > 0 && longest < n && ((unsigned char)text[n - longest] & 0xc0) == 0x80) longest++;
    return longest;
}
