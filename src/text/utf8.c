/* SPDX-License-Identifier: MIT */
#include "text/utf8.h"

/* Length announced by a lead byte, 0 where the byte cannot start a character. */
static int announced(unsigned char lead)
{
    if (lead < 0x80) return 1;
    if (lead < 0xC2) return 0; /* continuation bytes and overlong two-byte forms */
    if (lead < 0xE0) return 2;
    if (lead < 0xF0) return 3;
    return lead < 0xF5 ? 4 : 0;
}

/* The second byte carries the limits that rule out overlong forms, surrogates and values above U+10FFFF. */
static int second_fits(unsigned char lead, unsigned char second)
{
    unsigned char low = 0x80, high = 0xBF;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    return second >= low && second <= high;
}

int text_utf8_scan(const char *p, size_t n_bytes)
{
    const unsigned char *b = (const unsigned char *)p;
    int need = announced(b[0]);
    if (need < 2) return need ? 1 : -1;
    if (n_bytes < 2) return 0;
    if (!second_fits(b[0], b[1])) return -1;
    for (int i = 2; i < need; i++) {
        if ((size_t)i >= n_bytes) return 0;
        if ((b[i] & 0xC0) != 0x80) return -i;
    }
    return need;
}

size_t text_utf8_valid(const char *p, size_t n_bytes)
{
    size_t at = 0;
    while (at < n_bytes) {
        int k = text_utf8_scan(p + at, n_bytes - at);
        if (k <= 0) break;
        at += (size_t)k;
    }
    return at;
}

uint32_t text_utf8_get(const char *p, int k)
{
    static const unsigned char lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t cp = (unsigned char)p[0] & lead_bits[k];
    for (int i = 1; i < k; i++) cp = cp << 6 | ((unsigned char)p[i] & 0x3F);
    return cp;
}

int text_utf8_put(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3F));
    out[0] = (char)((0xF00 >> n & 0xF0) | cp);
    return n;
}
