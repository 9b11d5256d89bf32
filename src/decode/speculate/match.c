/* SPDX-License-Identifier: MIT
 *
 * Earlier occurrences of a text's end: a scan of its tokens, without an index to build, keep or fork.
 */
#include "decode/speculate/drafter_impl.h"

enum { STRIDE = 64 };

static int common_end(const int32_t *token, int end, const int32_t *last, int cap)
{
    int n = 0;
    while (n < cap && n < end && token[end - 1 - n] == last[-n]) n++;
    return n;
}

/* Most strides have none: this loop becomes vectors. */
static bool stands_in(const int32_t token[STRIDE], int32_t wanted)
{
    int32_t any = 0;
    for (int i = 0; i < STRIDE; i++) any |= token[i] == wanted;
    return any;
}

int draft_find(const int32_t *token, int n_token, const int32_t *last, int cap, int room, int *end, int *len)
{
    int n = 0;
    *len = 0;
    for (int top = n_token; top > 0; top -= STRIDE) {
        int low = top > STRIDE ? top - STRIDE : 0;
        if (top >= STRIDE && !stands_in(token + low, *last)) continue;
        for (int e = top; e > low; e--) {
            int m = common_end(token, e, last, cap);
            if (m > *len) *len = m, n = 0;
            if (m > 0 && m == *len && n < room) end[n++] = e;
        }
        if (*len == cap && n == room) break;
    }
    return n;
}

int draft_matches(const int32_t *token, int n_token, int cap, int room, int *end, int *len)
{
    return draft_find(token, n_token - 1, token + n_token - 1, cap, room, end, len);
}

int32_t draft_continuation(const int32_t *token, int n_token, int end, int d)
{
    return token[end + d % (n_token - end)];
}

int draft_match_kind(int len, int d, int rank)
{
    int b = 0;
    while (b < 5 && len + d > 1 << b) b++;
    return 4 * b + 2 * (rank > 0) + (d > 0);
}
