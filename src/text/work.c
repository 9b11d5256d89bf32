/* SPDX-License-Identifier: MIT */
#include "text/work.h"

#include <stddef.h>

#include "base/status.h"

int text_work_go_on(const struct text_work *work, struct lutra_error *err)
{
    if (!work) return 0;
    if (work->ask && work->ask(work->user)) return lutra_fail(err, LUTRA_E_CANCELLED, "cancelled");
    if (work->end_us && clock_now_us(work->clock) >= work->end_us)
        return lutra_fail(err, LUTRA_E_DEADLINE, "the deadline passed while text was prepared");
    return 0;
}
