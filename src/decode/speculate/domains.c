/* SPDX-License-Identifier: MIT */
#include "decode/speculate/drafter_impl.h"

enum { IDLE_PASSES = 256 };

int draft_domain_find(const struct draft_domain *at, int n, uint64_t domain)
{
    for (int i = 0; i < n; i++)
        if (at[i].used && at[i].domain == domain) return i;
    return -1;
}

int draft_domain_take(struct draft_domain *at, int n, uint64_t domain, int64_t n_pass, bool *was_others)
{
    int i = draft_domain_find(at, n, domain);
    *was_others = false;
    if (i < 0) {
        i = 0;
        for (int k = 1; k < n; k++)
            if (at[k].used < at[i].used) i = k;
        if (at[i].used && n_pass - at[i].used < IDLE_PASSES) return -1;
        *was_others = at[i].used > 0;
    }
    at[i] = (struct draft_domain){domain, n_pass};
    return i;
}
