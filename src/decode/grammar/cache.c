/* SPDX-License-Identifier: MIT
 *
 * Grammars and their machines, kept for the next request that brings the same text: what states and masks the machine
 * has made by then serves it, too.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "decode/grammar/grammar.h"

struct grammar_entry {
    struct grammar_cache *cache;
    struct grammar *grammar;
    struct grammar_machine *machine;
    const struct grammar_vocab *vocab;
    enum grammar_kind kind;
    char *text;
    size_t n_text;
    uint64_t hash;
    int n_user;
    bool listed; /* by the cache; else it ends with its last user */
    int64_t bytes;
    struct grammar_entry *next; /* used before this one */
};

struct grammar_cache {
    pthread_mutex_t lock;
    struct grammar_entry *first; /* used last */
    int n_most;
    int64_t bytes_most;
};

int grammar_cache_open(struct grammar_cache **out, int n_most, int64_t bytes_most, struct lutra_error *err)
{
    struct grammar_cache *c = *out = calloc(1, sizeof *c);
    if (!c) return lutra_fail(err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    pthread_mutex_init(&c->lock, NULL);
    c->n_most = n_most;
    c->bytes_most = bytes_most;
    return 0;
}

static void entry_close(struct grammar_entry *e)
{
    grammar_machine_close(&e->machine);
    grammar_close(&e->grammar);
    free(e->text);
    free(e);
}

static void unlist(struct grammar_entry *e)
{
    struct grammar_entry **at = &e->cache->first;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    e->listed = false;
    if (e->n_user == 0) entry_close(e);
}

/* The ones used longest ago go until the rest fits. */
static void make_room(struct grammar_cache *c)
{
    int n = 0;
    int64_t bytes = 0;
    struct grammar_entry *next;
    for (struct grammar_entry *e = c->first; e; e = next) {
        next = e->next;
        bytes += e->bytes;
        if (++n > c->n_most || (n > 1 && bytes > c->bytes_most)) unlist(e);
    }
}

void grammar_cache_close(struct grammar_cache **cache)
{
    struct grammar_cache *c = *cache;
    if (!c) return;
    while (c->first) unlist(c->first);
    pthread_mutex_destroy(&c->lock);
    free(c);
    *cache = NULL;
}

static struct grammar_entry *find(struct grammar_cache *c, enum grammar_kind kind, const struct grammar_vocab *vocab,
    const char *text, size_t n, uint64_t hash)
{
    for (struct grammar_entry **at = &c->first; *at; at = &(*at)->next) {
        struct grammar_entry *e = *at;
        if (e->hash != hash || e->kind != kind || e->vocab != vocab || e->n_text != n || memcmp(e->text, text, n) != 0)
            continue;
        *at = e->next; /* to the front */
        e->next = c->first;
        c->first = e;
        e->n_user++;
        return e;
    }
    return NULL;
}

static int compile(struct grammar_entry *e, struct lutra_error *err)
{
    static int (*const open[])(struct grammar **, const char *, size_t, struct lutra_error *) = {
        [GRAMMAR_GBNF] = grammar_open_gbnf,
        [GRAMMAR_SCHEMA] = grammar_open_schema,
        [GRAMMAR_STRUCTURE] = grammar_open_structure,
    };
    TRY(open[e->kind](&e->grammar, e->text, e->n_text, err));
    return grammar_machine_open(&e->machine, e->grammar, e->vocab, err);
}

int grammar_cache_take(struct grammar_cache *cache, enum grammar_kind kind, const char *text, size_t n,
    const struct grammar_vocab *vocab, struct grammar_entry **out, struct lutra_error *err)
{
    uint64_t hash = hash_bytes((uint64_t)kind, text, n);
    pthread_mutex_lock(&cache->lock);
    *out = find(cache, kind, vocab, text, n, hash);
    pthread_mutex_unlock(&cache->lock);
    if (*out) return 0;
    struct grammar_entry *e = calloc(1, sizeof *e);
    char *copy = malloc(n + 1);
    if (!e || !copy) {
        free(e);
        free(copy);
        return lutra_fail(err, LUTRA_E_NO_MEMORY, "grammar: out of memory");
    }
    memcpy(copy, text, n);
    copy[n] = 0;
    *e = (struct grammar_entry){
        .cache = cache, .vocab = vocab, .kind = kind, .text = copy, .n_text = n, .hash = hash, .n_user = 1};
    int rc = compile(e, err); /* meanwhile others may compile the same text: then both are kept for a while */
    if (rc < 0) {
        entry_close(e);
        return rc;
    }
    pthread_mutex_lock(&cache->lock);
    e->bytes = grammar_counts(e->machine).bytes;
    e->listed = true;
    e->next = cache->first;
    cache->first = e;
    make_room(cache);
    pthread_mutex_unlock(&cache->lock);
    *out = e;
    return 0;
}

struct grammar_machine *grammar_entry_machine(const struct grammar_entry *entry)
{
    return entry->machine;
}

const char *grammar_entry_note(const struct grammar_entry *entry)
{
    return grammar_note(entry->grammar);
}

void grammar_entry_measure(struct grammar_entry *entry)
{
    struct grammar_cache *c = entry->cache;
    struct grammar_counts counts = grammar_counts(entry->machine);
    pthread_mutex_lock(&c->lock);
    entry->bytes = counts.bytes;
    if (entry->listed && counts.is_large) unlist(entry);
    make_room(c);
    pthread_mutex_unlock(&c->lock);
}

void grammar_entry_give(struct grammar_entry **entry)
{
    struct grammar_entry *e = *entry;
    if (!e) return;
    pthread_mutex_t *lock = &e->cache->lock;
    pthread_mutex_lock(lock);
    if (--e->n_user == 0 && !e->listed) entry_close(e);
    pthread_mutex_unlock(lock);
    *entry = NULL;
}
