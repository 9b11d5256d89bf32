/* SPDX-License-Identifier: MIT
 *
 * Byte-level BPE files spell each byte as a printable character (GPT-2's bytes_to_unicode): printable Latin-1
 * stands for itself, the other 68 bytes are U+0100 .. U+0143 in ascending order.
 */
#include <string.h>

#include "text/utf8.h"
#include "text/vocab_impl.h"

static bool stands_for_itself(uint32_t cp)
{
    return (cp >= 0x21 && cp <= 0x7E) || (cp >= 0xA1 && cp <= 0xAC) || (cp >= 0xAE && cp <= 0xFF);
}

/* The byte that a character spells, -1 if none: 0..32, 127..160, 173 are numbered from U+0100 on. */
static int byte_of(uint32_t cp)
{
    if (cp < 0x100) return stands_for_itself(cp) ? (int)cp : -1;
    uint32_t i = cp - 0x100;
    if (i <= 0x20) return (int)i;
    if (i <= 0x20 + 34) return (int)(0x7F + i - 0x21);
    return i == 0x43 ? 0xAD : -1;
}

size_t text_bytemap_decode(const char *spelt, size_t n_bytes, char *out)
{
    size_t n_out = 0;
    for (size_t at = 0; at < n_bytes;) {
        int k = text_utf8_scan(spelt + at, n_bytes - at);
        size_t step = k > 0 ? (size_t)k : 1;
        int byte = k > 0 ? byte_of(text_utf8_get(spelt + at, k)) : -1;
        if (byte >= 0) {
            out[n_out++] = (char)byte;
        } else { /* not a spelt byte: keep what is there */
            memcpy(out + n_out, spelt + at, step);
            n_out += step;
        }
        at += step;
    }
    return n_out;
}

bool text_bytemap_spells(struct text_bytes spelt)
{
    for (size_t at = 0; at < spelt.n;) {
        int k = text_utf8_scan(spelt.p + at, spelt.n - at);
        if (k <= 0 || byte_of(text_utf8_get(spelt.p + at, k)) < 0) return false;
        at += (size_t)k;
    }
    return true;
}
