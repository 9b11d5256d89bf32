/* SPDX-License-Identifier: MIT
 *
 * The thread that asks a verifier's program (ask.h).
 */
#include "search/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "engine/samples.h"

struct asker {
    struct checker *program;
    struct bell bell;         /* below: with its lock */
    struct ask *first, *last; /* that wait */
    bool ends;
    pthread_t thread;
};

static void ask_free(struct ask *a)
{
    if (!a) return;
    free(a->question);
    free(a->expected);
    free(a->text);
    free(a);
}

/* ---- the thread ---- */

/* With the lock, which is given up while the program is asked. */
static void ask_program(struct asker *k, struct ask *a)
{
    a->state = ASK_RUNS;
    bell_unlock(&k->bell);
    a->reward = checker_ask(k->program, &a->check, a->why, sizeof a->why);
    bell_lock(&k->bell);
    a->state = ASK_KNOWN;
    bell_ring(&k->bell);
    if (a->dropped)
        ask_free(a);
    else
        session_news(a->session);
}

static void *run(void *user)
{
    struct asker *k = user;
    bell_lock(&k->bell);
    while (!k->ends) {
        struct ask *a = k->first;
        if (!a) {
            bell_sleep(&k->bell, CLOCK_NEVER_US);
            continue;
        }
        k->first = a->next;
        if (!k->first) k->last = NULL;
        ask_program(k, a);
    }
    bell_unlock(&k->bell);
    return NULL;
}

static int asker_open(struct asker **out, struct checker *program, struct lutra_error *err)
{
    struct asker *k = calloc(1, sizeof *k);
    *out = NULL;
    if (!k) return lutra_fail(err, LUTRA_E_NO_MEMORY, "checker: out of memory");
    k->program = program;
    bell_init(&k->bell);
    int no = thread_start(&k->thread, run, k);
    if (no) {
        bell_fini(&k->bell);
        free(k);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "checker: no thread: %s", strerror(no));
    }
    *out = k;
    return 0;
}

void asker_close(struct asker **asker)
{
    struct asker *k = *asker;
    if (!k) return;
    bell_lock(&k->bell);
    k->ends = true;
    bell_ring(&k->bell);
    bell_unlock(&k->bell);
    checker_give_up(k->program);
    pthread_join(k->thread, NULL);
    bell_fini(&k->bell);
    free(k);
    *asker = NULL;
}

/* ---- questions ---- */

int ask_open(struct ask **out, struct asker **asker, struct checker *program, lutra_session *session,
    const char *question, const char *expected, size_t n_text, struct lutra_error *err)
{
    *out = NULL;
    if (!*asker) TRY(asker_open(asker, program, err));
    struct ask *a = calloc(1, sizeof *a);
    if (!a) return lutra_fail(err, LUTRA_E_NO_MEMORY, "checker: out of memory");
    a->asker = *asker;
    a->session = session;
    a->question = strdup(question);
    a->expected = strdup(expected);
    a->text = malloc(n_text + 1);
    if (!a->question || !a->expected || !a->text) {
        ask_free(a);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "checker: out of memory");
    }
    *out = a;
    return 0;
}

/* With the lock: takes it out of the queue. */
static void unlink_ask(struct asker *k, const struct ask *a)
{
    struct ask **link = &k->first, *before = NULL;
    while (*link != a) before = *link, link = &before->next;
    *link = a->next;
    if (k->last == a) k->last = before;
}

void ask_close(struct ask **ask)
{
    struct ask *a = *ask;
    if (!a) return;
    *ask = NULL;
    struct asker *k = a->asker;
    bell_lock(&k->bell);
    if (a->state == ASK_WAITS) unlink_ask(k, a);
    a->dropped = a->state == ASK_RUNS;
    bool mine = !a->dropped;
    bell_unlock(&k->bell);
    if (mine) ask_free(a);
}

/* With the lock. */
static void put(struct ask *a, int32_t id, int to, const struct lutra_check *check)
{
    struct asker *k = a->asker;
    a->id = id;
    a->to = to;
    strcpy(a->text, check->text);
    lutra_check_init(&a->check, sizeof a->check);
    a->check.question = a->question;
    a->check.expected = a->expected;
    a->check.text = a->text;
    a->check.step = a->text + (check->step - check->text);
    a->check.whole = check->whole;
    *a->why = 0;
    a->state = ASK_WAITS;
    a->next = NULL;
    *(k->last ? &k->last->next : &k->first) = a;
    k->last = a;
    bell_ring(&k->bell);
}

bool ask_reply(struct ask *a, int32_t id, int to, const struct lutra_check *check, bool idle)
{
    enum { FRESH_US = 1000, IDLE_US = 10000 };
    struct clock clock = clock_real();
    struct bell *bell = &a->asker->bell;
    bell_lock(bell);
    bool fresh = a->state == ASK_NONE || (a->state == ASK_KNOWN && (a->id != id || a->to != to));
    if (fresh) put(a, id, to, check);
    uint64_t now, end = clock_now_us(clock) + (idle ? IDLE_US : fresh ? FRESH_US : 0);
    while (a->state != ASK_KNOWN && (now = clock_now_us(clock)) < end) bell_sleep(bell, end - now);
    bool known = a->state == ASK_KNOWN && a->id == id && a->to == to;
    if (known) a->state = ASK_NONE;
    bell_unlock(bell);
    return known;
}
