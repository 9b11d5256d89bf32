/* SPDX-License-Identifier: MIT
 *
 * The NPU's cache as a model of the worst it may do to the window: it holds every line from the start on, as it was
 * long ago, and keeps what is written until the line is cleaned; then the whole line goes to memory where the program
 * has changed it, and comes back as memory has it.  So what was never dropped is stale, what was never written back is
 * lost, and a line that was written in part takes stale neighbours with it.  The program is given the cache for its
 * window; DMA that goes past the caches is given memory.
 */
#include "guest.h"
#include "npu/wire/ring.h"

enum { LINE = 64 };

static struct {
    uint8_t *cache, *memory, *filled; /* filled: memory as it was when a line came */
    uint8_t *came;                    /* a byte per line: it came from memory once */
    uint32_t bytes;
} window;

void *cache_open(uint8_t *memory, uint32_t bytes)
{
    window.memory = memory, window.bytes = bytes;
    window.cache = guest_map(0, bytes, 0, -1), window.filled = guest_map(0, bytes, 0, -1);
    window.came = guest_map(0, bytes / LINE, 0, -1);
    return window.cache;
}

void cache_close(void)
{
    window.bytes = 0;
}

uint8_t *cache_memory(uint32_t at)
{
    uint32_t offset = at - (uint32_t)(uintptr_t)window.cache;
    return offset < window.bytes ? window.memory + offset : (uint8_t *)(uintptr_t)at;
}

static int differ(const uint8_t *a, const uint8_t *b)
{
    for (uint32_t i = 0; i < LINE; i += 8)
        if (*(const uint64_t *)(const void *)(a + i) != *(const uint64_t *)(const void *)(b + i)) return 1;
    return 0;
}

static void copy(uint8_t *to, const uint8_t *from)
{
    for (uint32_t i = 0; i < LINE; i += 8) *(uint64_t *)(void *)(to + i) = *(const uint64_t *)(const void *)(from + i);
}

void cache_line(uint32_t address)
{
    uint32_t at = address - (uint32_t)(uintptr_t)window.cache;
    if (at >= window.bytes) return;
    uint8_t *line = window.cache + at, *memory = window.memory + at, *filled = window.filled + at;
    if (differ(line, filled)) {
        if (window.came[at / LINE] && differ(filled, memory) && !box->lines_lost) box->lines_lost = at + 1;
        copy(memory, line);
    }
    window.came[at / LINE] = 1;
    if (!differ(line, memory) && !differ(filled, memory)) return;
    if (at >= NPU_RING_BYTES) box->lines_dropped++;
    copy(filled, memory); /* which the host may be writing: the program sees what was compared */
    copy(line, filled);
}
