/* SPDX-License-Identifier: MIT
 *
 * What a key may use: fields behind its name in the key file, "models=small,large stores=manuals judges= tokens=500
 * requests=2".  A field that is absent permits all; an empty list nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "state.h"

static const char *const kinds[PERMITS] = {"models", "stores", "judges"};

/* Is name[n] one of a list with commas? */
static bool lists(const char *list, const char *name, size_t n)
{
    for (size_t k; *list; list += k + (list[k] == ',')) {
        k = strcspn(list, ",");
        if (k == n && memcmp(list, name, n) == 0) return true;
    }
    return false;
}

bool permit_has(const struct api_key *key, enum permit_kind kind, const char *name)
{
    return !key || !key->only[kind] || lists(key->only[kind], name, strlen(name));
}

bool permit_model(const struct api_key *key, const struct served *m)
{
    bool any = false;
    for (int k = 0; k < m->set->n_name; k++) any = any || permit_has(key, PERMIT_MODELS, m->set->name[k]);
    return any;
}

void permit_refuse(struct problem *p, enum permit_kind kind, const char *param, const char *name)
{
    static const char *const what[PERMITS] = {"the model", "the store", "the verifier or checker"};
    problem_set(p, 403, "not_permitted", param, "%s: the API key may not use %s '%.80s'", param, what[kind], name);
}

void permit_tokens(const struct exchange *x, struct problem *p)
{
    int most = x->key ? x->key->n_tokens : 0, asked = x->ask.set.max_tokens;
    if (most == 0 || x->ask.embeds || (asked >= 0 && asked <= most)) return;
    problem_set(p, 403, "not_permitted", "max_tokens", "max_tokens: the API key may have replies of %d tokens, and %s",
        most, asked < 0 ? "this one has no limit" : "more are asked for");
}

void permit_begin(struct exchange *x, struct problem *p)
{
    struct api_key *key = x->key;
    if (!key || key->n_requests == 0) return;
    x->counted = true;
    if (atomic_fetch_add(&key->n_running, 1) >= key->n_requests)
        problem_set(p, 429, "too_many_requests", NULL, "the API key has %d requests at work, and may have no more",
            key->n_requests);
}

void permit_end(struct exchange *x)
{
    if (x->counted) atomic_fetch_sub(&x->key->n_running, 1);
    x->counted = false;
}

/* Does the server have what a list names?  The first that it has not, or NULL. */
static const char *find_unknown(const struct server_settings *set, enum permit_kind kind, const char *list, size_t *n)
{
    for (; *list; list += *n + (list[*n] == ',')) {
        bool known = false;
        *n = strcspn(list, ",");
        for (int i = 0; kind == PERMIT_MODELS && i < set->n_model; i++)
            for (int k = 0; k < set->model[i].n_name; k++) known = known || lists(set->model[i].name[k], list, *n);
        for (int i = 0; kind == PERMIT_STORES && i < set->n_store; i++)
            known = known || lists(set->store[i].name, list, *n);
        for (int i = 0; kind == PERMIT_JUDGES && i < set->n_judge; i++)
            known = known || lists(set->judge[i].name, list, *n);
        if (!known) return list;
    }
    return NULL;
}

static bool read_number(const char *text, int *out)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || end == text || n < 1 || n > 1 << 24) return false;
    *out = (int)n;
    return true;
}

int permit_read(const struct server *s, struct api_key *key, const char *path, int line, const char *word)
{
    const char *value = strchr(word, '=');
    size_t n_name = value ? (size_t)(value - word) : 0, n;
    for (int kind = 0; kind < PERMITS; kind++) {
        if (n_name != strlen(kinds[kind]) || memcmp(word, kinds[kind], n_name) != 0) continue;
        const char *unknown = find_unknown(s->set, (enum permit_kind)kind, value + 1, &n);
        if (unknown) s->set->say("%s, line %d: %s: there is no '%.*s'", path, line, kinds[kind], (int)n, unknown);
        free(key->only[kind]);
        key->only[kind] = strdup(value + 1);
        return unknown || !key->only[kind] ? -1 : 0;
    }
    int *to = lists("tokens", word, n_name)     ? &key->n_tokens
              : lists("requests", word, n_name) ? &key->n_requests
                                                : NULL;
    if (to && read_number(value + 1, to)) return 0;
    s->set->say("%s, line %d: '%s': fields are models=, stores=, judges= (names with commas), tokens=N and requests=N",
        path, line, word);
    return -1;
}
