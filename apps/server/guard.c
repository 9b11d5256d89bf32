/* SPDX-License-Identifier: MIT
 *
 * Who may ask: API keys, the Host header (a page whose name was pointed at this machine must not reach it: DNS
 * rebinding) and the Origin header (pages of other sites).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http.h"
#include "state.h"

/* Is `text` one of them, or is "*" among them? */
static bool is_listed(const char *const *list, int n, const char *text)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i], "*") == 0 || strcasecmp(list[i], text) == 0) return true;
    return false;
}

static int add_key(struct server *s, const char *text, size_t n, const char *name)
{
    if (n == 0 || n >= sizeof s->key->text) {
        s->set->say("a key of %zu bytes; they have 1 to %zu", n, sizeof s->key->text - 1);
        return -1;
    }
    if (s->n_key == KEYS_MAX) {
        s->set->say("more than %d keys", KEYS_MAX);
        return -1;
    }
    struct api_key *k = &s->key[s->n_key++];
    memcpy(k->text, text, n);
    if (name)
        snprintf(k->name, sizeof k->name, "%s", name);
    else
        snprintf(k->name, sizeof k->name, "key %d", s->n_key);
    return 0;
}

/* Lines "KEY [NAME [FIELD=VALUE ...]]"; blank ones and those that begin with '#' do not count. */
static int read_keys(struct server *s, const char *path)
{
    char line[4096];
    int rc = 0, n_before = s->n_key, n_line = 0;
    FILE *f = fopen(path, "re");
    if (!f) {
        s->set->say("%s: %s", path, strerror(errno));
        return -1;
    }
    while (rc == 0 && fgets(line, sizeof line, f)) {
        char *save = NULL, *key = strtok_r(line, " \t\r\n", &save), *name = strtok_r(NULL, " \t\r\n", &save);
        n_line++;
        if (strlen(line) + 1 == sizeof line) {
            s->set->say("%s, line %d: longer than %zu bytes", path, n_line, sizeof line - 2);
            rc = -1;
        }
        if (rc == 0 && key && key[0] != '#') rc = add_key(s, key, strlen(key), name);
        for (char *word; rc == 0 && name && (word = strtok_r(NULL, " \t\r\n", &save));)
            if (key[0] != '#') rc = permit_read(s, &s->key[s->n_key - 1], path, n_line, word);
    }
    fclose(f);
    if (rc == 0 && s->n_key == n_before) {
        s->set->say("%s: no keys in it", path);
        rc = -1;
    }
    return rc;
}

int guard_open(struct server *s)
{
    s->key = calloc(KEYS_MAX, sizeof *s->key);
    if (!s->key) return -1;
    for (int i = 0; i < s->set->n_key; i++)
        for (const char *at = s->set->key[i]; *at;) { /* llama-server's list with commas */
            size_t n = strcspn(at, ",");
            if (add_key(s, at, n, NULL) < 0) return -1;
            at += n + (at[n] == ',');
        }
    return s->set->key_file ? read_keys(s, s->set->key_file) : 0;
}

void guard_close(struct server *s)
{
    for (int i = 0; s->key && i < s->n_key; i++)
        for (int kind = 0; kind < PERMITS; kind++) free(s->key[i].only[kind]);
    if (s->key) explicit_bzero(s->key, KEYS_MAX * sizeof *s->key);
    free(s->key);
}

/* Takes the same time whichever byte differs. */
static bool is_same(const char a[256], const char b[256])
{
    unsigned char differs = 0;
    for (int i = 0; i < 256; i++) differs |= (unsigned char)(a[i] ^ b[i]);
    return differs == 0;
}

static struct api_key *find_key(const struct server *s, const char *given)
{
    char text[256] = {0};
    size_t n = strlen(given);
    struct api_key *found = NULL;
    if (n == 0 || n >= sizeof text) return NULL;
    memcpy(text, given, n);
    for (int i = 0; i < s->n_key; i++)
        if (is_same(s->key[i].text, text)) found = &s->key[i];
    return found;
}

static void check_key(struct exchange *x, struct problem *p)
{
    const char *bearer = http_header(x, "Authorization"), *given = http_header(x, "X-Api-Key");
    if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0) given = bearer + 7 + strspn(bearer + 7, " ");
    x->key = given ? find_key(x->server, given) : NULL;
    if (!x->key)
        problem_set(p, 401, "invalid_api_key", NULL,
            given ? "the API key is not known" : "an API key is needed: Authorization: Bearer KEY");
}

/* The name of "name:port", "[address]:port". */
static void host_name(const char *host, char *out, size_t n_out)
{
    size_t n = host[0] == '[' ? strcspn(host + 1, "]") : strcspn(host, ":");
    snprintf(out, n_out, "%.*s", (int)(n < n_out ? n : n_out - 1), host + (host[0] == '['));
}

/* Does a Host header name this machine?  Addresses do: rebinding needs a name. */
static bool is_own_host(const struct server *s, const char *host)
{
    char name[256];
    unsigned char address[16];
    if (!host) return true; /* no browser */
    host_name(host, name, sizeof name);
    size_t n = strlen(name);
    bool local = strcasecmp(name, "localhost") == 0 || (n > 10 && strcasecmp(name + n - 10, ".localhost") == 0);
    return local || inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1 ||
           strcasecmp(name, s->set->host) == 0 || is_listed(s->set->allow_host, s->set->n_allow_host, name);
}

static void check_origin(struct exchange *x, struct problem *p)
{
    const struct server *s = x->server;
    const char *origin = http_header(x, "Origin"), *host = http_header(x, "Host");
    char own[300];
    if (!origin) return;
    snprintf(own, sizeof own, "http://%s", host ? host : "");
    bool same = host && (strcasecmp(origin, own) == 0 ||
                            (strncasecmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host) == 0));
    if (!same && !is_listed(s->set->allow_origin, s->set->n_allow_origin, origin))
        problem_set(p, 403, "origin_not_allowed", NULL,
            "pages of %.200s may not ask; --allow-origin names those that may", origin);
    else
        snprintf(x->origin, sizeof x->origin, "%s", origin);
}

uint64_t guard_domain(const struct exchange *x)
{
    return x->key ? (uint64_t)(x->key - x->server->key) + 1 : 0;
}

void guard_check(struct exchange *x, bool is_public, struct problem *p)
{
    const struct server *s = x->server;
    const char *host = http_header(x, "Host");
    if (!s->is_unix && s->n_key == 0 && !is_own_host(s, host))
        problem_set(p, 403, "host_not_allowed", NULL,
            "the name %.200s in Host is not this server's; --allow-host adds names", host);
    check_origin(x, p);
    if (s->n_key > 0 && !is_public) check_key(x, p);
}
