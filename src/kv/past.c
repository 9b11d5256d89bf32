/* SPDX-License-Identifier: MIT
 *
 * What blocks hold, so that a text finds its beginning in the cache.
 *
 * A block of a sequence with a text knows its tokens, the class that each was evaluated in, and the node it continues.
 * A node is a text up to the end of a block: equal tokens and classes behind an equal node of one domain are one node,
 * whichever block holds them, so that what is found is compared to the last token, and no hash is trusted.  Blocks are
 * listed by the node that they continue.
 *
 * A block that nobody holds stays listed while there is room: it counts as free, and the least recently used goes first
 * when one is needed; of a sequence its last.
 */
#include "kv/kv_impl.h"

#include <stdlib.h>
#include <string.h>

int kv_text_open(struct kv_cache *kv)
{
    struct kv_texts *x = &kv->texts;
    x->n_bucket = 64;
    while (x->n_bucket < kv->set.n_block && x->n_bucket < 1 << 24) x->n_bucket *= 2;
    x->text = calloc((size_t)kv->set.n_block, sizeof *x->text);
    x->bucket = malloc((size_t)x->n_bucket * sizeof *x->bucket);
    x->path = malloc((size_t)kv->max_table * sizeof *x->path);
    if (!x->text || !x->bucket || !x->path) return LUTRA_E_NO_MEMORY;
    memset(x->bucket, -1, (size_t)x->n_bucket * sizeof *x->bucket);
    x->oldest = x->newest = -1;
    return 0;
}

void kv_text_close(struct kv_cache *kv)
{
    free(kv->texts.text);
    free(kv->texts.bucket);
    free(kv->texts.path);
}

/* ---- the list ---- */

static int32_t *bucket_of(const struct kv_texts *x, uint64_t parent, uint64_t domain)
{
    uint64_t h = (parent + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ domain * UINT64_C(0xc2b2ae3d27d4eb4f);
    h ^= h >> 29;
    return &x->bucket[h * UINT64_C(0xbf58476d1ce4e5b9) >> 32 & (uint64_t)(x->n_bucket - 1)];
}

static void list(struct kv_texts *x, int32_t block, uint64_t parent, uint64_t domain)
{
    struct kv_text *t = &x->text[block];
    int32_t *first = bucket_of(x, parent, domain);
    t->parent = parent;
    t->domain = domain;
    t->listed = true;
    t->next = *first;
    *first = block;
}

static void unlist(struct kv_texts *x, int32_t block)
{
    struct kv_text *t = &x->text[block];
    if (!t->listed) return;
    int32_t *link = bucket_of(x, t->parent, t->domain);
    while (*link != block) link = &x->text[*link].next;
    *link = t->next;
    *t = (struct kv_text){0};
}

/* ---- what is written ---- */

void kv_text_cut(struct kv_cache *kv, int32_t block, int32_t n)
{
    struct kv_text *t = &kv->texts.text[block];
    if (t->n <= n) return;
    kv_state_forget(kv, block, n);
    t->n = n;
    t->node = 0;
    if (n == 0) unlist(&kv->texts, block);
}

void kv_text_copy(struct kv_cache *kv, int32_t to, int32_t from, int32_t n)
{
    struct kv_texts *x = &kv->texts;
    const struct kv_text *t = &x->text[from];
    if (n > t->n) n = t->n;
    if (!t->listed || n < 1) return;
    list(x, to, t->parent, t->domain);
    memcpy(x->text[to].token, t->token, (size_t)n * sizeof *t->token);
    x->text[to].bulk = t->bulk;
    x->text[to].n = n;
}

static bool is_bulk(const struct kv_text *t, int i)
{
    return t->bulk >> i & 1;
}

/* Whether two blocks hold the same first n rows behind one node. */
static bool same_rows(const struct kv_text *a, const struct kv_text *b, int32_t n)
{
    uint64_t mask = n == KV_BLOCK ? UINT64_MAX : (UINT64_C(1) << n) - 1;
    return a->parent == b->parent && a->domain == b->domain && a->n >= n && b->n >= n &&
           !((a->bulk ^ b->bulk) & mask) && !memcmp(a->token, b->token, (size_t)n * sizeof *a->token);
}

bool kv_text_same(const struct kv_cache *kv, int32_t a, int32_t b, int32_t n)
{
    return a == b || same_rows(&kv->texts.text[a], &kv->texts.text[b], n);
}

/* The node that a whole block ends: that of another with the same rows, or a new one. */
static uint64_t node_of(struct kv_texts *x, int32_t block)
{
    const struct kv_text *t = &x->text[block];
    for (int32_t b = *bucket_of(x, t->parent, t->domain); b >= 0; b = x->text[b].next)
        if (x->text[b].node && same_rows(t, &x->text[b], KV_BLOCK)) return x->text[b].node;
    return ++x->n_node;
}

void kv_text_write(struct kv_cache *kv, const struct kv_seq *s, int32_t pos, int32_t token, bool bulk)
{
    if (!s->has_text) return;
    struct kv_texts *x = &kv->texts;
    int32_t b = pos / KV_BLOCK, i = pos % KV_BLOCK, block = s->table[b];
    struct kv_text *t = &x->text[block];
    if (!t->listed) list(x, block, b ? x->text[s->table[b - 1]].node : 0, s->domain);
    t->token[i] = token;
    t->bulk = (t->bulk & ~(UINT64_C(1) << i)) | (uint64_t)bulk << i;
    t->n = i + 1;
    if (t->n == KV_BLOCK) t->node = node_of(x, block);
}

/* ---- blocks that nobody holds ---- */

bool kv_text_keep(struct kv_cache *kv, int32_t block)
{
    struct kv_texts *x = &kv->texts;
    struct kv_text *t = &x->text[block];
    if (!t->listed) return false;
    t->older = x->newest;
    t->newer = -1;
    *(x->newest >= 0 ? &x->text[x->newest].newer : &x->oldest) = block;
    x->newest = block;
    x->n_kept++;
    return true;
}

void kv_text_use(struct kv_cache *kv, int32_t block)
{
    struct kv_texts *x = &kv->texts;
    const struct kv_text *t = &x->text[block];
    *(t->older >= 0 ? &x->text[t->older].newer : &x->oldest) = t->newer;
    *(t->newer >= 0 ? &x->text[t->newer].older : &x->newest) = t->older;
    x->n_kept--;
}

int32_t kv_text_evict(struct kv_cache *kv)
{
    int32_t block = kv->texts.oldest;
    if (block < 0) return -1;
    kv_text_use(kv, block);
    kv_state_forget(kv, block, 0);
    unlist(&kv->texts, block);
    return block;
}

/* ---- what is found ---- */

static bool class_of(const struct kv_past *p, int32_t pos)
{
    return p->bulk > 0 && pos / p->bulk * p->bulk + p->bulk <= p->n_prompt && pos != p->n_prompt - 1;
}

/* Rows of a block, from its first, that are those of the text from position `at` on. */
static int32_t n_common(const struct kv_text *t, const struct kv_past *p, int32_t at)
{
    int32_t n = 0;
    while (n < t->n && at + n < p->n_token && t->token[n] == p->token[at + n] && is_bulk(t, n) == class_of(p, at + n))
        n++;
    return n;
}

int32_t kv_text_find(const struct kv_cache *kv, const struct kv_past *p)
{
    const struct kv_texts *x = &kv->texts;
    uint64_t parent = 0;
    for (int32_t at = 0;;) {
        int32_t best = -1, most = 0;
        for (int32_t b = *bucket_of(x, parent, p->domain); b >= 0; b = x->text[b].next) {
            const struct kv_text *t = &x->text[b];
            int32_t n = t->parent == parent && t->domain == p->domain ? n_common(t, p, at) : 0;
            bool better = n > most || (n == most && n > 0 && kv->refs[b] > 0 && kv->refs[best] == 0);
            if (better) best = b, most = n;
        }
        if (most == 0) return at;
        x->path[at / KV_BLOCK] = best;
        at += most;
        parent = x->text[best].node;
        if (most < KV_BLOCK || !parent) return at;
    }
}
