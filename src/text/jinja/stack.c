/* SPDX-License-Identifier: MIT
 *
 * How deep parsing and rendering may nest: by the bytes of stack that they have used, not by a count of levels, so
 * that a small thread gets an error where it would have overflowed.
 */
#include <pthread.h>

#include "text/jinja/jinja_impl.h"

enum {
    RESERVE_BYTES = 16 << 10, /* for what does not nest: messages, numbers, the time */
    MOST_BYTES = 4 << 20,
    UNKNOWN_BYTES = 24 << 10 /* taken where the thread does not know its stack, as in a coroutine */
};

static uintptr_t here(void)
{
    return (uintptr_t)__builtin_frame_address(0);
}

struct jinja_stack jinja_stack_here(void)
{
    pthread_attr_t attr;
    void *low = NULL;
    size_t bytes = 0;
    uintptr_t now = here(), end = now - UNKNOWN_BYTES;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        if (pthread_attr_getstack(&attr, &low, &bytes) != 0) bytes = 0;
        pthread_attr_destroy(&attr);
    }
    bool inside = bytes > 0 && now > (uintptr_t)low && now - (uintptr_t)low <= bytes;
    if (inside) end = (uintptr_t)low + RESERVE_BYTES;
    if (inside && now > MOST_BYTES && end < now - MOST_BYTES) end = now - MOST_BYTES;
    return (struct jinja_stack){end};
}

bool jinja_stack_left(const struct jinja_stack *stack)
{
    return here() > stack->end;
}
