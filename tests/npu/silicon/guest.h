/* SPDX-License-Identifier: MIT
 *
 * What the files of the Hexagon program share (guest.c, firmware.c, units.c).
 */
#ifndef LUTRA_TESTS_NPU_SILICON_GUEST_H
#define LUTRA_TESTS_NPU_SILICON_GUEST_H

#include "box.h"

enum { SYS_EXIT = 93, SYS_EXIT_GROUP = 94, SYS_FUTEX = 98, SYS_NANOSLEEP = 101, SYS_CLONE = 220, SYS_MMAP = 222 };

extern struct box *box;
extern int box_file;

long call6(long nr, long a, long b, long c, long d, long e, long f);
void *guest_map(uint32_t at, uint32_t bytes, long offset, long fd); /* at 0: anywhere; fd -1: memory of its own */
void guest_sleep(uint32_t us);
int guest_invoke(void); /* the call in the box */

void firmware_begin(void);
/* What a function is to return now. */
int firmware_error(enum box_function f);
/* The TCM that was given; 0: none is held. */
uint32_t firmware_tcm(uint32_t *bytes);
/* Which hardware thread this is: 0 FastRPC's, others by their stacks. */
uint32_t firmware_thread(void);
/* What this thread holds: a vector context, the tile unit. */
enum { FIRMWARE_VECTORS = 1, FIRMWARE_TILES = 2, FIRMWARE_BOTH = 3 };
int firmware_holds(uint32_t thread);
/* Where the window is mapped, as a number; 0: nowhere. */
uint32_t firmware_window(void);

/* cache.c: the window as the program sees it, by way of its cache; where DMA finds it; a line is written back and
 * dropped. */
void *cache_open(uint8_t *memory, uint32_t bytes);
void cache_close(void);
uint8_t *cache_memory(uint32_t at);
void cache_line(uint32_t address);

/* units.c: this thread gives its vector context back. */
void units_leave(void);

/* rings.c */
int guest_rings(void);

#endif
