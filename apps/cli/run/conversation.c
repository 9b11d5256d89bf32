/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run/chat.h"

enum { MESSAGES_FIRST = 16 };

static const char *const roles[] = {"system", "user", "assistant", "tool"};
enum { N_ROLES = sizeof roles / sizeof *roles };

static char *copy_bytes(const char *text, size_t n)
{
    char *copy = get_memory(n + 1);
    if (n) memcpy(copy, text, n);
    return copy;
}

void conversation_add(struct conversation *c, const char *role, const char *content, size_t n_content)
{
    if (c->n == c->room) {
        c->room = c->room ? c->room * 2 : MESSAGES_FIRST;
        c->message = grow_memory(c->message, (size_t)c->room * sizeof *c->message);
    }
    c->message[c->n++] =
        (struct message){.role = role, .content = copy_bytes(content, n_content), .n_content = n_content};
}

void conversation_add_thought(struct conversation *c, const char *thought, size_t n)
{
    struct message *m = &c->message[c->n - 1];
    m->thought = copy_bytes(thought, n);
    m->n_thought = n;
}

static void free_message(struct message *m)
{
    free(m->content);
    free(m->thought);
}

void conversation_cut(struct conversation *c, int n)
{
    while (c->n > n) free_message(&c->message[--c->n]);
}

void conversation_drop(struct conversation *c, int first, int n)
{
    for (int i = first; i < first + n; i++) free_message(&c->message[i]);
    memmove(c->message + first, c->message + first + n, (size_t)(c->n - first - n) * sizeof *c->message);
    c->n -= n;
}

int conversation_n_system(const struct conversation *c)
{
    return c->n > 0 && strcmp(c->message[0].role, "system") == 0;
}

void conversation_set_system(struct conversation *c, const char *content)
{
    int had = conversation_n_system(c), has = content[0] != 0;
    if (had) free_message(&c->message[0]);
    conversation_add(c, "system", content, strlen(content)); /* makes room */
    struct message last = c->message[--c->n];
    memmove(c->message + has, c->message + had, (size_t)(c->n - had) * sizeof *c->message);
    c->n += has - had;
    if (has)
        c->message[0] = last;
    else
        free_message(&last);
}

void conversation_free(struct conversation *c)
{
    conversation_cut(c, 0);
    free(c->message);
    *c = (struct conversation){0};
}

char *conversation_json(const struct conversation *c, size_t flags)
{
    json_t *list = json_array();
    for (int i = 0; i < c->n; i++) {
        const struct message *m = &c->message[i];
        json_t *one = json_pack("{s:s, s:s%}", "role", m->role, "content", m->content, m->n_content);
        json_t *thought = m->thought ? json_stringn(m->thought, m->n_thought) : NULL;
        if (thought) json_object_set_new(one, "reasoning_content", thought);
        if (m->thought && !thought) json_decref(one), one = NULL;
        json_array_append_new(list, one);
    }
    json_t *all = json_pack("{s:o}", "messages", list);
    char *text = all && json_array_size(list) == (size_t)c->n ? json_dumps(all, flags) : NULL;
    json_decref(all);
    return text;
}

int conversation_save(const struct conversation *c, const char *path)
{
    char *text = conversation_json(c, JSON_INDENT(2));
    if (!text) {
        say("%s: not saved: a message is not UTF-8 text", path);
        return -1;
    }
    struct buffer file = {0};
    buffer_add(&file, text, strlen(text));
    buffer_add(&file, "\n", 1);
    free(text);
    mode_t mask = umask(077); /* nobody else's business */
    int rc = write_file_whole(path, file.text, file.n_bytes);
    umask(mask);
    buffer_free(&file);
    return rc;
}

static const char *known_role(const json_t *role)
{
    for (int i = 0; i < N_ROLES; i++)
        if (json_is_string(role) && strcmp(json_string_value(role), roles[i]) == 0) return roles[i];
    return NULL;
}

int conversation_load(struct conversation *c, const char *path)
{
    struct buffer text = {0};
    struct conversation loaded = {0};
    json_error_t why;
    int rc = -1;
    if (read_file(path, &text) < 0) return -1;
    json_t *all = json_loadb(text.text, text.n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    const json_t *list = json_object_get(all, "messages");
    if (!all) {
        say("%s: line %d: %s", path, why.line, why.text);
    } else if (!json_is_array(list)) {
        say("%s: no array 'messages'", path);
    } else {
        rc = 0;
        for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
            const json_t *m = json_array_get(list, i), *content = json_object_get(m, "content");
            const json_t *thought = json_object_get(m, "reasoning_content");
            const char *role = known_role(json_object_get(m, "role"));
            rc = role && json_is_string(content) ? 0 : -1;
            if (rc == 0) conversation_add(&loaded, role, json_string_value(content), json_string_length(content));
            if (rc == 0 && json_is_string(thought))
                conversation_add_thought(&loaded, json_string_value(thought), json_string_length(thought));
            if (rc < 0)
                say("%s: messages[%zu] needs a 'role' of system, user, assistant or tool and a text 'content'", path,
                    i);
        }
    }
    json_decref(all);
    buffer_free(&text);
    struct conversation gone = rc == 0 ? *c : loaded;
    if (rc == 0) *c = loaded;
    conversation_free(&gone);
    return rc;
}
