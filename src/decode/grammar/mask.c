/* SPDX-License-Identifier: MIT
 *
 * Masks: which tokens may come next.
 *
 * Most tokens are decided by the nodes of a state alone, whatever its stacks: they end before the rule does.  These are
 * kept as bits per set of nodes (its core), found by a walk of the whole trie above FRAME_UNKNOWN.  Where a derivation
 * comes to the end of FRAME_UNKNOWN, what follows depends on the stack: such subtrees of the trie are kept as a list
 * and walked again from each state that has the core.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/grammar/machine_impl.h"

enum { MASK_BYTES = 64 << 20 }; /* of masks that states keep beside those of their cores */

static void allow(const struct grammar_vocab *v, int32_t node, uint64_t *bits)
{
    for (int32_t i = v->tokens[node]; i < v->tokens[node + 1]; i++)
        bits[v->sorted[i] / 64] |= UINT64_C(1) << v->sorted[i] % 64;
}

static int note_subtree(struct grammar_machine *m, int32_t x, struct lutra_error *err)
{
    TRY(vec_reserve(&m->subtree, 1, sizeof x, err));
    ((int32_t *)m->subtree.p)[m->subtree.n++] = x;
    return 0;
}

/* Sets the bits of the tokens of nodes from..to - 1 that are allowed behind m->at[depth of from - 1].  Of a core
 * (`core`) it lists subtrees that depend on what stands below. */
static int walk(struct grammar_machine *m, int32_t from, int32_t to, bool core, uint64_t *bits, struct lutra_error *err)
{
    const struct grammar_vocab *v = m->v;
    for (int32_t x = from; x < to;) {
        int32_t d = v->depth[x], before = m->at[d - 1], next;
        TRY(machine_step(m, before, v->byte[x], &next, err));
        m->counts.nodes++;
        bool open = core && (m->open[d - 1] || machine_state(m, before)->escaped);
        if (next < 0) {
            if (open) TRY(note_subtree(m, x, err));
            x = v->skip[x];
            continue;
        }
        allow(v, x, bits);
        m->at[d] = next;
        m->open[d] = open;
        x++;
    }
    return 0;
}

static int new_mask(struct grammar_machine *m, int32_t n_subtree, struct mask **out, struct lutra_error *err)
{
    struct mask *mask = *out = calloc(1, sizeof *mask);
    if (mask) {
        mask->bits = calloc((size_t)m->n_word + 1, sizeof *mask->bits);
        mask->subtree = malloc(((size_t)n_subtree + 1) * sizeof *mask->subtree);
        mask->n_subtree = n_subtree;
        m->counts.bytes += m->n_word * (int64_t)sizeof *mask->bits + n_subtree * (int64_t)sizeof *mask->subtree;
        if (mask->bits && mask->subtree) return 0;
        free(mask->bits);
        free(mask->subtree);
        free(mask);
    }
    *out = NULL;
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
}

/* Takes what a mask says of nodes down to depth `reach`, and works out the others. */
static int walk_beyond(
    struct grammar_machine *m, const struct mask *far, int32_t reach, uint64_t *bits, struct lutra_error *err)
{
    const struct grammar_vocab *v = m->v;
    int32_t known = 0, next = 0; /* m->at[0 .. known] are those of `path` */
    const char *path = NULL;
    memcpy(bits, far->bits, (size_t)m->n_word * sizeof *bits);
    for (int32_t x = 0; x < v->n_node; x++) {
        for (; next < far->n_subtree && far->subtree[next] <= x; next++)
            if (v->depth[far->subtree[next]] <= reach) TRY(note_subtree(m, far->subtree[next], err));
        if (v->depth[x] <= reach) continue;
        for (int32_t i = v->tokens[x]; i < v->tokens[v->skip[x]]; i++)
            bits[v->sorted[i] / 64] &= ~(UINT64_C(1) << v->sorted[i] % 64);
        int32_t above = v->depth[x] - 1, d = 0;
        const char *bytes = v->pool + v->at[v->tokens[x]];
        while (d < above && d < known && path[d] == bytes[d]) d++;
        for (; d < above && m->at[d] >= 0; d++) {
            m->open[d + 1] = m->open[d] || machine_state(m, m->at[d])->escaped;
            TRY(machine_step(m, m->at[d], (uint8_t)bytes[d], &m->at[d + 1], err));
        }
        known = d;
        path = bytes;
        if (d == above && m->at[d] >= 0) TRY(walk(m, x, v->skip[x], true, bits, err));
        x = v->skip[x] - 1;
    }
    return 0;
}

static int core_mask(struct grammar_machine *m, int32_t core, const struct mask **out, struct lutra_error *err)
{
    *out = machine_state(m, core)->mask;
    if (*out) return 0;
    struct state s = *machine_state(m, core);
    const struct mask *far = NULL;
    if (s.far >= 0 && s.reach > 0) TRY(core_mask(m, s.far, &far, err));
    uint64_t *bits = calloc((size_t)m->n_word + 1, sizeof *bits);
    struct mask *mask = NULL;
    m->counts.cores += !far;
    m->subtree.n = 0;
    m->at[0] = core;
    m->open[0] = false;
    int rc = !bits ? lutra_fail(err, LUTRA_E_NO_MEMORY, "grammar: out of memory")
             : far ? walk_beyond(m, far, s.reach, bits, err)
                   : walk(m, 0, m->v->n_node, true, bits, err);
    if (rc >= 0) rc = new_mask(m, m->subtree.n, &mask, err);
    if (rc < 0) {
        free(bits);
        return rc;
    }
    free(mask->bits);
    mask->bits = bits;
    if (m->subtree.n) memcpy(mask->subtree, m->subtree.p, (size_t)m->subtree.n * sizeof(int32_t));
    machine_state(m, core)->mask = mask;
    *out = mask;
    return 0;
}

/* The subtrees that depend on the stack, from the state itself. */
static int walk_subtrees(
    struct grammar_machine *m, int32_t state, const struct mask *core, uint64_t *bits, struct lutra_error *err)
{
    const struct grammar_vocab *v = m->v;
    int32_t known = 0; /* m->at[0 .. known] are those of the subtree before */
    const char *path = NULL;
    m->at[0] = state;
    for (int32_t i = 0; i < core->n_subtree; i++) {
        int32_t x = core->subtree[i], above = v->depth[x] - 1, d = 0;
        const char *bytes = v->pool + v->at[v->tokens[x]];
        while (d < above && d < known && path[d] == bytes[d]) d++;
        for (; d < above && m->at[d] >= 0; d++) TRY(machine_step(m, m->at[d], (uint8_t)bytes[d], &m->at[d + 1], err));
        known = d;
        path = bytes;
        if (d == above && m->at[d] >= 0) TRY(walk(m, x, v->skip[x], false, bits, err));
    }
    return 0;
}

static int keep(struct grammar_machine *m, int32_t state, const uint64_t *bits, struct lutra_error *err)
{
    size_t bytes = ((size_t)m->n_word + 1) * sizeof *bits;
    struct mask *mask;
    if (m->mask_bytes + bytes > MASK_BYTES || machine_state(m, state)->mask) return 0;
    TRY(new_mask(m, 0, &mask, err));
    memcpy(mask->bits, bits, (size_t)m->n_word * sizeof *bits);
    machine_state(m, state)->mask = mask;
    m->mask_bytes += bytes;
    return 0;
}

/* Free text: tokens without text are allowed, too.  1: so are all. */
static int allow_silent(const struct grammar_machine *m, uint64_t *mask)
{
    const struct grammar_vocab *v = m->v;
    for (int32_t i = 0; i < v->n_silent; i++) mask[v->silent[i] / 64] |= UINT64_C(1) << v->silent[i] % 64;
    for (int32_t i = 0; i < v->n_vocab / 64; i++)
        if (mask[i] != UINT64_MAX) return 0;
    return v->n_vocab % 64 == 0 || mask[v->n_vocab / 64] == (UINT64_C(1) << v->n_vocab % 64) - 1;
}

int grammar_mask(struct grammar_machine *machine, int32_t state, uint64_t *mask, struct lutra_error *err)
{
    struct grammar_machine *m = machine;
    memset(mask, 0, (size_t)m->n_word * sizeof *mask);
    m->counts.masks++;
    if (state < 0) return 0;
    const struct mask *own = machine_state(m, state)->mask;
    if (own)
        memcpy(mask, own->bits, (size_t)m->n_word * sizeof *mask);
    else if (machine_state(m, state)->n) {
        int32_t core;
        const struct mask *decided;
        TRY(machine_core(m, state, &core, err));
        TRY(core_mask(m, core, &decided, err));
        memcpy(mask, decided->bits, (size_t)m->n_word * sizeof *mask);
        TRY(walk_subtrees(m, state, decided, mask, err));
        TRY(keep(m, state, mask, err));
    }
    if (machine_state(m, state)->may_end)
        for (int32_t i = 0; i < m->v->n_end; i++) mask[m->v->end[i] / 64] |= UINT64_C(1) << m->v->end[i] % 64;
    return machine_is_free(m, state) ? allow_silent(m, mask) : 0;
}
