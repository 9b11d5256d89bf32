/* SPDX-License-Identifier: MIT */
#include "npu/dsp/server.h"

void npu_server_start(struct npu_server *server, const struct npu_machine *machine)
{
    struct npu_ring *r = server->view.ring;
    server->taken = server->answered = server->failed = 0;
    r->npu.machine = *machine;
    r->npu.taken = r->npu.answered = 0;
    r->npu.state = NPU_RING_SERVING;
    npu_ring_flush(&server->view, &r->npu, sizeof r->npu);
    npu_ring_store(&server->view, &r->npu.magic, NPU_RING_MAGIC);
}

static int end(struct npu_server *s, enum npu_ring_state state)
{
    npu_ring_store(&s->view, &s->view.ring->npu.state, (uint32_t)state);
    return -1;
}

static const union npu_cell *cell(struct npu_server *s, uint32_t number)
{
    union npu_cell *c = &s->view.ring->cell[number % NPU_RING_CELLS];
    npu_ring_invalidate(&s->view, c, sizeof *c);
    return c;
}

static void copy(uint32_t *to, const union npu_cell *from)
{
    for (uint32_t i = 0; i < sizeof *from / 4; i++) to[i] = from->word[i];
}

/* Copies the next message of at most `n` cells; 0 where it is none. */
static int take(struct npu_server *s, uint32_t n, struct npu_message *m)
{
    copy((uint32_t *)m, cell(s, s->taken));
    if (m->magic != NPU_RING_MAGIC || m->number != s->answered + 1) return 0;
    if (!m->n_op || m->n_op > NPU_MESSAGE_OPS || m->n_op + 1 > n) return 0;
    for (uint32_t i = 0; i < m->n_op; i++) copy((uint32_t *)&s->op[i], cell(s, s->taken + 1 + i));
    return m->check == npu_ring_check(m, s->op);
}

static struct npu_answer run(struct npu_server *s, const struct npu_message *m)
{
    struct npu_answer a = {.number = m->number};
    if (m->follows && s->failed) a.status = NPU_SKIPPED;
    for (uint32_t i = 0; i < m->n_op && a.status == NPU_OK; i++) {
        a.status = s->execute(s->user, &s->op[i]);
        a.op = i, a.code = s->op[i].code;
    }
    s->failed = a.status != NPU_OK;
    return a;
}

int npu_server_step(struct npu_server *s)
{
    struct npu_ring *r = s->view.ring;
    struct npu_message m;
    uint32_t quit = npu_ring_load(&s->view, &r->host.quit); /* before `written`: what was sent before it is run */
    uint32_t n = npu_ring_load(&s->view, &r->host.written) - s->taken;
    if (!n) return quit ? end(s, NPU_RING_ENDED) : 0;
    if (n > NPU_RING_CELLS || !take(s, n, &m)) return end(s, NPU_RING_BROKEN);
    struct npu_answer *a = &r->answer[m.number % NPU_RING_ANSWERS];
    *a = run(s, &m);
    npu_ring_flush(&s->view, a, sizeof *a);
    s->taken += 1 + m.n_op, s->answered++;
    npu_ring_store(&s->view, &r->npu.taken, s->taken);
    npu_ring_store(&s->view, &r->npu.answered, s->answered);
    return 1;
}
