/* SPDX-License-Identifier: MIT
 *
 * Turns on sets of devices: disjoint ones are held at once, others come in order, and nobody is passed over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/turn.h"

struct asker {
    struct turn *turn;
    uint32_t set;
    atomic_int has; /* 0 waits, 1 has its set, 2 may give it back */
    pthread_t thread;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    turn_take(a->turn, a->set);
    atomic_store(&a->has, 1);
    while (atomic_load(&a->has) != 2) usleep(100);
    turn_give(a->turn, a->set);
    return NULL;
}

static void start(struct asker *a, struct turn *t, uint32_t set)
{
    a->turn = t;
    a->set = set;
    atomic_store(&a->has, 0);
    assert_int_equal(pthread_create(&a->thread, NULL, ask, a), 0);
}

static void end(struct asker *a)
{
    while (atomic_load(&a->has) != 1) usleep(100);
    atomic_store(&a->has, 2);
    pthread_join(a->thread, NULL);
}

/* Until somebody is in the queue. */
static void until_waiting(struct turn *t, bool others_behind)
{
    for (bool there = false; !there; usleep(100)) {
        pthread_mutex_lock(&t->lock);
        there = t->first && (!others_behind || t->first->next);
        pthread_mutex_unlock(&t->lock);
    }
}

static void sets_without_a_common_device_are_held_at_once(void **state)
{
    struct turn t;
    struct asker a, b;
    (void)state;
    turn_init(&t);
    turn_take(&t, 1);
    start(&a, &t, 2);
    while (atomic_load(&a.has) != 1) usleep(100); /* this thread still has device 0 */
    start(&b, &t, 4 | 8);
    while (atomic_load(&b.has) != 1) usleep(100);
    turn_take(&t, 1); /* what it has already, again */
    turn_give(&t, 1);
    end(&a);
    end(&b);
    turn_give(&t, 1);
    turn_take(&t, TURN_ALL);
    turn_give(&t, TURN_ALL);
    turn_fini(&t);
}

/* A large set is not starved by small ones that come later, which could have gone. */
static void who_came_first_is_first(void **state)
{
    struct turn t;
    struct asker all, late, other;
    (void)state;
    turn_init(&t);
    turn_take(&t, 1);
    start(&all, &t, 1 | 2);
    until_waiting(&t, false);
    start(&late, &t, 2);
    until_waiting(&t, true);
    start(&other, &t, 4); /* nothing that anybody waits for */
    end(&other);
    assert_int_equal(atomic_load(&all.has), 0);
    assert_int_equal(atomic_load(&late.has), 0);
    turn_give(&t, 1);
    while (atomic_load(&all.has) != 1) usleep(100);
    assert_int_equal(atomic_load(&late.has), 0);
    end(&all);
    end(&late);
    turn_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_without_a_common_device_are_held_at_once), cmocka_unit_test(who_came_first_is_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
