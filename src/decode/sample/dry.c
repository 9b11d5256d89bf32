/* SPDX-License-Identifier: MIT
 *
 * DRY ("don't repeat yourself"): a token that would go on with what the text has said before loses more the longer the
 * match. Published by p-e-w (text-generation-webui, pull request 5677); rules and limits as llama.cpp applies them.
 *
 * With s[0], s[1], ... the text from its end backwards and match[k] the length of the longest common beginning of s and
 * of s[k], s[k + 1], ..., the token s[k - 1] once followed a match of that length.  A sequence breaker ends every
 * match.
 */
#include <math.h>

#include "decode/sample/sampler_impl.h"

/* The first breaker whose head is not below `token`. */
static int find_head(const struct sample_settings *set, int32_t token)
{
    int low = 0, high = set->n_breaker;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (set->breaker[mid].head < token)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The tail of the longest breaker that begins at s[at] and lies in the text; -1: none does. */
static int longest_breaker(const struct sample_state *st, int at)
{
    int32_t head = sample_token_back(st, at);
    int longest = -1;
    for (int b = find_head(&st->set, head); b < st->set.n_breaker && st->set.breaker[b].head == head; b++) {
        const struct sample_breaker *is = &st->set.breaker[b];
        int same = 0;
        if (is->n_tail <= longest || is->n_tail > at) continue;
        while (same < is->n_tail && is->tail[same] == sample_token_back(st, at - same - 1)) same++;
        if (same == is->n_tail) longest = same;
    }
    return longest;
}

/* No match is longer than what stands behind the last breaker. */
static int longest_allowed(const struct sample_state *st, int n)
{
    for (int i = 0; st->set.n_breaker > 0 && i < n; i++) {
        int tail = longest_breaker(st, i);
        if (tail >= 0) return i - tail;
    }
    return n;
}

static bool is_breaker(const struct sample_settings *set, int32_t token)
{
    for (int b = find_head(set, token); b < set->n_breaker && set->breaker[b].head == token; b++)
        if (set->breaker[b].n_tail == 0) return true;
    return false;
}

/* The Z function: match[left .. right) is known to equal match[0 .. right - left), so that each token is compared
 * once. */
static void find_matches(const struct sample_state *st, int n, int32_t *match)
{
    int left = 0, right = 0;
    for (int k = 1; k < n; k++) {
        int m = k < right ? match[k - left] : 0;
        if (k + m >= right) {
            m = k < right ? right - k : 0;
            while (k + m < n && sample_token_back(st, m) == sample_token_back(st, k + m)) m++;
            left = k, right = k + m;
        }
        match[k] = m;
    }
}

int dry_find(const struct sample_state *st, int n_vocab, struct sample_scratch *tmp)
{
    int n = sample_look_back(st, st->dry_window), allowed = st->set.dry_allowed_length, n_found = 0;
    if (n <= allowed) return 0;
    int most = longest_allowed(st, n);
    if (most < allowed) return 0;
    find_matches(st, n, tmp->match);
    for (int k = 1; k < n; k++) {
        int32_t token = sample_token_back(st, k - 1);
        int length = tmp->match[k] < most ? tmp->match[k] : most;
        if (length < allowed || token < 0 || token >= n_vocab || tmp->seen[token] > length) continue;
        if (tmp->seen[token] == 0 && is_breaker(&st->set, token)) continue;
        tmp->seen[token] = length + 1;
        n_found = k;
    }
    return n_found;
}

void dry_clear(const struct sample_state *st, int n_vocab, struct sample_scratch *tmp)
{
    int n = sample_look_back(st, st->dry_window);
    for (int i = 0; i < n; i++) {
        int32_t token = sample_token_back(st, i);
        if (token >= 0 && token < n_vocab) tmp->seen[token] = 0;
    }
}

float dry_penalty(const struct sample_settings *set, int noted)
{
    int more = noted - 1 - set->dry_allowed_length;
    int most = set->dry_base > 1.000001f ? (int)(88.7228391f / logf(set->dry_base)) : 0; /* what a float holds */
    if (most > 0 && more > most) more = most;
    return (float)((double)set->dry_multiplier * pow((double)set->dry_base, more));
}
