/* SPDX-License-Identifier: MIT
 *
 * The divisions that the compiler calls for and a vendor's runtime library would bring.
 */
#ifdef __hexagon__

#include <stdint.h>

uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b);
uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b);
uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b);

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
