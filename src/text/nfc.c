/* SPDX-License-Identifier: MIT
 *
 * Normalization Forms C and D [Unicode Standard Annex 15]: decompose, order marks by combining class, compose.  Linear
 * in the length of the text.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* Hangul syllables are composed of their letters by rule [Unicode Standard 3.12]. */
enum {
    S_BASE = 0xAC00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11A7,
    N_L = 19,
    N_V = 21,
    N_T = 28,
    N_S = N_L * N_V * N_T,
    MAX_PARTS = 4, /* of one character, in the end */
};

/* A decomposed character and its combining class. */
struct part {
    uint32_t cp;
    uint32_t ccc;
};

/* The entry of text_nfc_runs that a character is in; *at: where to look first, kept between calls. */
static uint32_t run_of(uint32_t cp, size_t *at)
{
    size_t low = 0, high = text_n_nfc_runs;
    bool near = text_nfc_runs[*at] >> 9 <= cp && (*at + 1 == high || cp < text_nfc_runs[*at + 1] >> 9);
    while (!near && high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (text_nfc_runs[mid] >> 9 <= cp)
            low = mid;
        else
            high = mid;
    }
    if (!near) *at = low;
    return text_nfc_runs[*at];
}

/* Whether the text is its own form without doubt (the annex's quick check). */
static bool is_nfc(const char *text, size_t n_bytes)
{
    uint32_t last = 0;
    for (size_t at = 0, run = 0; at < n_bytes;) {
        int k = text_utf8_scan(text + at, n_bytes - at);
        uint32_t cp = text_utf8_get(text + at, k);
        at += (size_t)k;
        uint32_t mark = cp < 0x300 ? 0 : run_of(cp, &run) & 0x1FF;
        if (mark >= 0x100 || (mark && mark < last)) return false;
        last = mark;
    }
    return true;
}

static const uint32_t *find_decomposition(uint32_t cp)
{
    size_t low = 0, high = text_n_decompositions / 3;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const uint32_t *entry = &text_decompositions[3 * mid];
        if (entry[0] == cp) return entry;
        if (entry[0] < cp)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* The full canonical decomposition; returns of how many characters. */
static size_t decompose(uint32_t cp, uint32_t out[MAX_PARTS])
{
    size_t n = 0, n_behind = 0;
    uint32_t behind[MAX_PARTS];
    if (cp >= S_BASE && cp < S_BASE + N_S) {
        uint32_t s = cp - S_BASE, t = s % N_T;
        out[n++] = L_BASE + s / (N_V * N_T);
        out[n++] = V_BASE + s % (N_V * N_T) / N_T;
        if (t) out[n++] = T_BASE + t;
        return n;
    }
    for (const uint32_t *entry; n_behind < MAX_PARTS - 1 && (entry = find_decomposition(cp)); cp = entry[1])
        if (entry[2]) behind[n_behind++] = entry[2]; /* only the first part decomposes further */
    out[n++] = cp;
    while (n_behind > 0) out[n++] = behind[--n_behind];
    return n;
}

/* Sorts marks by class and keeps the order within one; count: scratch, `sorted` as long as the run. */
static void order(struct part *run, size_t n, struct part *sorted)
{
    size_t at[256] = {0}, sum = 0;
    for (size_t i = 0; i < n; i++) at[run[i].ccc]++;
    for (size_t c = 0; c < 256; c++) {
        size_t count = at[c];
        at[c] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++) sorted[at[run[i].ccc]++] = run[i];
    memcpy(run, sorted, n * sizeof *run);
}

/* What two characters compose to; 0: nothing. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    if (a - L_BASE < N_L && b - V_BASE < N_V) return S_BASE + ((a - L_BASE) * N_V + (b - V_BASE)) * N_T;
    if (a - S_BASE < N_S && (a - S_BASE) % N_T == 0 && b - T_BASE - 1 < N_T - 1) return a + (b - T_BASE);
    for (size_t low = 0, high = text_n_compositions; low < high;) {
        size_t mid = low + (high - low) / 2;
        const uint32_t *entry = &text_decompositions[3 * (size_t)text_compositions[mid]];
        if (entry[1] == a && entry[2] == b) return entry[0];
        if (entry[1] < a || (entry[1] == a && entry[2] < b))
            low = mid + 1;
        else
            high = mid;
    }
    return 0;
}

/* Composes in place; returns how many are left. */
static size_t compose_all(struct part *part, size_t n)
{
    size_t n_out = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        /* a mark reaches its starter unless one of its class or a higher one, or a starter, is between */
        bool adjacent = starter != SIZE_MAX && starter + 1 == n_out;
        bool reaches = starter != SIZE_MAX && (adjacent || (part[n_out - 1].ccc < part[i].ccc && part[n_out - 1].ccc));
        uint32_t whole = reaches ? compose(part[starter].cp, part[i].cp) : 0;
        if (whole) {
            part[starter].cp = whole;
            continue;
        }
        if (part[i].ccc == 0) starter = n_out;
        part[n_out++] = part[i];
    }
    return n_out;
}

static size_t decompose_all(const char *text, size_t n_bytes, struct part *out)
{
    size_t n = 0;
    for (size_t at = 0, run = 0; at < n_bytes;) {
        int k = text_utf8_scan(text + at, n_bytes - at);
        uint32_t parts[MAX_PARTS];
        size_t n_parts = decompose(text_utf8_get(text + at, k), parts);
        at += (size_t)k;
        for (size_t i = 0; out && i < n_parts; i++) out[n + i] = (struct part){parts[i], run_of(parts[i], &run) & 0xFF};
        n += n_parts;
    }
    return n;
}

static int normalize(const char *text, size_t n_bytes, bool composes, char **out, size_t *n_out)
{
    size_t n = decompose_all(text, n_bytes, NULL);
    struct part *part = malloc(2 * n * sizeof *part + 1);
    char *normal = malloc(4 * n + 1);
    if (!part || !normal) {
        free(part);
        free(normal);
        return LUTRA_E_NO_MEMORY;
    }
    decompose_all(text, n_bytes, part);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && part[end].ccc; end++) {
        }
        if (end > i + 1) order(part + i, end - i, part + n);
        if (end == i) end++;
    }
    if (composes) n = compose_all(part, n);
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += (size_t)text_utf8_put(part[i].cp, normal + bytes);
    free(part);
    *out = normal;
    *n_out = bytes;
    return 0;
}

int text_nfc(const char *text, size_t n_bytes, char **out, size_t *n_out)
{
    *out = NULL;
    *n_out = n_bytes;
    return is_nfc(text, n_bytes) ? 0 : normalize(text, n_bytes, true, out, n_out);
}

int text_nfd(const char *text, size_t n_bytes, char **out, size_t *n_out)
{
    return normalize(text, n_bytes, false, out, n_out);
}
