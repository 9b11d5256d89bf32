/* SPDX-License-Identifier: MIT
 *
 * What the compiler calls for on Hexagon and a vendor's runtime library would bring: structures and divisions.
 */
#ifdef __hexagon__

#include <stddef.h>
#include <stdint.h>

void *memset(void *dst, int c, size_t n);
void *memcpy(void *restrict dst, const void *restrict src, size_t n);

uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b);
uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b);
uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b);

/* volatile: no loop that would be found to be the function itself. */
void *memset(void *dst, int c, size_t n)
{
    for (size_t i = 0; i < n; i++) ((volatile uint8_t *)dst)[i] = (uint8_t)c;
    return dst;
}

void *memcpy(void *restrict dst, const void *restrict src, size_t n)
{
    for (size_t i = 0; i < n; i++) ((volatile uint8_t *)dst)[i] = ((const uint8_t *)src)[i];
    return dst;
}

uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b)
{
    uint64_t q = 0, r = 0;
    for (int i = 63; i >= 0; i--) {
        r = r << 1 | (a >> i & 1);
        q <<= 1;
        if (r >= b) r -= b, q |= 1;
    }
    return q;
}

uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b)
{
    return (uint32_t)__hexagon_udivdi3(a, b);
}

uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b)
{
    return a - __hexagon_udivsi3(a, b) * b;
}

#endif
