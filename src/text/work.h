/* SPDX-License-Identifier: MIT
 *
 * Who may end long work on text, rendering and tokenizing: its caller, or a deadline.
 *
 *     struct text_work work = {.ask = cancelled, .user = me, .end_us = clock_now_us(work.clock) + 100000};
 *     TRY(text_work_go_on(&work, err)); ... now and then, about every millisecond
 */
#ifndef LUTRA_TEXT_WORK_H
#define LUTRA_TEXT_WORK_H

#include <stdint.h>

#include "base/clock.h"
#include "lutra/status.h"

struct text_work {
    int (*ask)(void *user); /* nonzero: no further; may be NULL */
    void *user;
    struct clock clock;
    uint64_t end_us; /* by the clock; 0 = none */
};

/* 0, LUTRA_E_CANCELLED or LUTRA_E_DEADLINE; NULL is work without end. */
int text_work_go_on(const struct text_work *work, struct lutra_error *err);

#endif
