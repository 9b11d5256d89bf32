/* SPDX-License-Identifier: MIT
 *
 * The ring between two views of memory that only flush and invalidate bring together, and between two threads.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "npu/dsp/server.h"
#include "npu/host/ring.h"

enum { LINE = 128 };

/* Memory and the NPU's cache of it; the host has none. */
struct machine {
    struct npu_ring *memory, *cache;
    int deaf;               /* invalidates nothing: a server that forgets to */
    uint32_t executed, sum; /* operations and the sum of their k */
    uint32_t fail_at;       /* the operation (k) that fails; 0: none */
    struct npu_ring_end host;
    struct npu_server npu;
};

static void lines(uint8_t *to, const uint8_t *from, size_t at, uint32_t bytes)
{
    size_t first = at / LINE * LINE, end = (at + bytes + LINE - 1) / LINE * LINE;
    memcpy(to + first, from + first, end - first);
}

static void npu_flush(void *user, void *p, uint32_t bytes)
{
    struct machine *m = user;
    lines((uint8_t *)m->memory, (uint8_t *)m->cache, (size_t)((uint8_t *)p - (uint8_t *)m->cache), bytes);
}

static void npu_invalidate(void *user, void *p, uint32_t bytes)
{
    struct machine *m = user;
    if (m->deaf && bytes > 4) return;
    lines((uint8_t *)m->cache, (uint8_t *)m->memory, (size_t)((uint8_t *)p - (uint8_t *)m->cache), bytes);
}

static uint32_t execute(void *user, const struct npu_op *op)
{
    struct machine *m = user;
    m->executed++, m->sum += op->k;
    return op->k && op->k == m->fail_at ? NPU_BAD_SHAPE : NPU_OK;
}

static void open_machine(struct machine *m, int apart)
{
    memset(m, 0, sizeof *m);
    m->memory = aligned_alloc(LINE, NPU_RING_BYTES);
    m->cache = apart ? aligned_alloc(LINE, NPU_RING_BYTES) : m->memory;
    memset(m->cache, 0xa5, NPU_RING_BYTES);
    m->host.view.ring = m->memory;
    m->npu = (struct npu_server){.view = {m->cache, NULL, NULL, m}, .execute = execute, .user = m};
    if (apart) m->npu.view.flush = npu_flush, m->npu.view.invalidate = npu_invalidate;
    npu_ring_begin(&m->host, 1 << 20, 1 << 16, 1);
    assert_false(npu_ring_ready(&m->host));
    npu_server_start(&m->npu, &(struct npu_machine){65536, 65536, 0, 1, 0, 0});
    assert_true(npu_ring_ready(&m->host));
    assert_int_equal(m->memory->npu.machine.tcm_bytes, 65536);
}

static void close_machine(struct machine *m)
{
    if (m->cache != m->memory) free(m->cache);
    free(m->memory);
}

struct draw {
    struct rng_key key;
    uint32_t n;
};

static uint32_t draw(struct draw *d, uint32_t below)
{
    return rng_u32(d->key, d->n++) % below;
}

static uint32_t message(struct npu_op *op, uint32_t n, uint32_t *next)
{
    uint32_t sum = 0;
    memset(op, 0, n * sizeof *op);
    for (uint32_t i = 0; i < n; i++) op[i].k = ++*next, sum += op[i].k;
    return sum;
}

static void everything_sent_is_executed_once(void **state)
{
    static struct npu_op op[NPU_MESSAGE_OPS];
    struct machine m;
    struct npu_answer a;
    struct draw d = {{.seed = 5}, 0};
    uint32_t sent_ops = 0, sent_sum = 0, next = 0, got = 0;
    (void)state;
    open_machine(&m, 1);
    for (int round = 0; round < 60000; round++) {
        uint32_t what = draw(&d, 3), n = 1 + draw(&d, draw(&d, 2) ? 4 : NPU_MESSAGE_OPS), saved = next;
        if (what == 0) {
            uint32_t sum = message(op, n, &next);
            if (npu_ring_send(&m.host, op, n, false))
                sent_ops += n, sent_sum += sum;
            else
                next = saved;
        } else if (what == 1) {
            if (npu_server_step(&m.npu) < 0) fail_msg("the server ended by itself");
        } else if (npu_ring_next(&m.host, &a) > 0) {
            assert_int_equal(a.number, ++got);
            assert_int_equal(a.status, NPU_OK);
        }
        assert_true(m.host.sent - m.host.seen <= NPU_RING_ANSWERS);
        uint32_t cells = m.host.written - m.memory->npu.taken;
        if (cells > NPU_RING_CELLS) fail_msg("%u cells are sent to a ring of %u", cells, NPU_RING_CELLS);
    }
    while (npu_server_step(&m.npu) > 0) {
    }
    while (npu_ring_next(&m.host, &a) > 0) got++;
    assert_int_equal(got, m.host.sent);
    assert_true(got > 10000 && m.executed == sent_ops && m.sum == sent_sum);
    npu_ring_quit(&m.host);
    assert_int_equal(npu_server_step(&m.npu), -1);
    assert_int_equal(m.memory->npu.state, NPU_RING_ENDED);
    close_machine(&m);
}

static void cells_that_were_not_acquired_are_refused(void **state)
{
    struct machine m;
    struct npu_op op = {.k = 1};
    (void)state;
    open_machine(&m, 1);
    m.deaf = 1;
    assert_true(npu_ring_send(&m.host, &op, 1, false));
    assert_int_equal(npu_server_step(&m.npu), -1);
    assert_int_equal(m.executed, 0);
    assert_int_equal(m.memory->npu.state, NPU_RING_BROKEN);
    struct npu_answer a;
    assert_int_equal(npu_ring_next(&m.host, &a), -1);
    close_machine(&m);
}

static void a_failure_skips_what_follows(void **state)
{
    struct machine m;
    struct npu_op op[3] = {{.k = 1}, {.k = 2, .code = NPU_OP_ADD}, {.k = 3}};
    struct npu_answer a;
    (void)state;
    open_machine(&m, 1);
    m.fail_at = 2;
    assert_true(npu_ring_send(&m.host, op, 3, false));
    assert_true(npu_ring_send(&m.host, op, 1, true));
    assert_true(npu_ring_send(&m.host, op, 1, false));
    while (npu_server_step(&m.npu) > 0) {
    }
    assert_int_equal(npu_ring_next(&m.host, &a), 1);
    assert_int_equal(a.status, NPU_BAD_SHAPE);
    assert_int_equal(a.op, 1);
    assert_int_equal(a.code, NPU_OP_ADD);
    assert_int_equal(npu_ring_next(&m.host, &a), 1);
    assert_int_equal(a.status, NPU_SKIPPED);
    assert_int_equal(npu_ring_next(&m.host, &a), 1);
    assert_int_equal(a.status, NPU_OK);
    assert_int_equal(m.executed, 3);
    close_machine(&m);
}

/* One word of the ring that the host owns, changed at random: whatever it says, the server ends or executes what it
 * was sent, unchanged, and never hangs. */
static void a_damaged_ring_ends_the_server(void **state)
{
    static struct npu_op op[NPU_MESSAGE_OPS];
    struct draw d = {{.seed = 7}, 0};
    uint32_t ended = 0;
    (void)state;
    for (int round = 0; round < 2000; round++) {
        struct machine m;
        uint32_t next = 0, sum = 0, n_ops = 0, n_messages = 1 + draw(&d, 4), used = 0;
        open_machine(&m, 0);
        for (uint32_t i = 0; i < n_messages; i++) {
            uint32_t n = 1 + draw(&d, 20);
            sum += message(op, n, &next);
            n_ops += n, used += n + 1;
            assert_true(npu_ring_send(&m.host, op, n, false));
        }
        uint32_t *word = draw(&d, 4) ? &m.memory->cell[draw(&d, used)].word[draw(&d, 16)] : &m.memory->host.written;
        uint32_t before = *word;
        *word = draw(&d, 2) ? *word ^ 1u << draw(&d, 32) : rng_u32(d.key, d.n++);
        int rc, steps = 0;
        while ((rc = npu_server_step(&m.npu)) > 0) assert_true(++steps <= NPU_RING_CELLS);
        ended += rc < 0;
        /* Headers have words that nobody reads, and fewer cells may have been announced; otherwise all ran or it
         * ended. */
        if (rc == 0 && word != &m.memory->host.written) assert_true(m.executed == n_ops && m.sum == sum);
        if (rc < 0 && *word != before) assert_true(m.executed < n_ops || word == &m.memory->host.written);
        close_machine(&m);
    }
    assert_true(ended > 1000);
}

/* A message that is longer than what was announced, and one that no longer says that it follows another: neither is
 * begun. */
static void what_a_header_says_is_judged(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct machine m;
        struct npu_op op[3] = {{.k = 1}, {.k = 2}, {.k = 3}};
        open_machine(&m, 0);
        assert_true(npu_ring_send(&m.host, op, 3, true));
        if (i)
            m.memory->cell[0].message.follows = 0;
        else
            m.memory->host.written--;
        int rc = npu_server_step(&m.npu);
        if (rc >= 0 || m.executed)
            fail_msg(
                "%s is run", i ? "a message that was made to follow none" : "a message longer than what was written");
        close_machine(&m);
    }
}

static void *npu_thread(void *arg)
{
    struct machine *m = arg;
    int rc;
    while ((rc = npu_server_step(&m->npu)) >= 0)
        if (!rc) sched_yield();
    return NULL;
}

static void two_threads(void **state)
{
    static struct npu_op op[NPU_MESSAGE_OPS];
    struct machine m;
    struct npu_answer a;
    struct draw d = {{.seed = 9}, 0};
    pthread_t thread;
    uint32_t next = 0, sum = 0, n_ops = 0;
    (void)state;
    open_machine(&m, 0);
    assert_int_equal(pthread_create(&thread, NULL, npu_thread, &m), 0);
    for (int i = 0; i < 3000; i++) {
        uint32_t n = 1 + draw(&d, 40), rc;
        sum += message(op, n, &next), n_ops += n;
        while (!npu_ring_send(&m.host, op, n, false)) {
            rc = (uint32_t)npu_ring_next(&m.host, &a);
            if ((int)rc < 0) fail_msg("the server ended by itself");
            if (rc == 1)
                assert_int_equal(a.status, NPU_OK);
            else
                sched_yield();
        }
    }
    npu_ring_quit(&m.host);
    assert_int_equal(pthread_join(thread, NULL), 0);
    while (m.host.seen < m.host.sent) assert_int_equal(npu_ring_next(&m.host, &a), 1);
    assert_true(m.executed == n_ops && m.sum == sum);
    close_machine(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_sent_is_executed_once),
        cmocka_unit_test(cells_that_were_not_acquired_are_refused),
        cmocka_unit_test(a_failure_skips_what_follows),
        cmocka_unit_test(a_damaged_ring_ends_the_server),
        cmocka_unit_test(what_a_header_says_is_judged),
        cmocka_unit_test(two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
