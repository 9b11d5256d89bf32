/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "run/chat.h"

enum { MESSAGES_FIRST = 16 };

static const char *const roles[] = {"system", "user", "assistant", "tool"};
enum { N_ROLES = sizeof roles / sizeof *roles };

void conversation_add(struct conversation *c, const char *role, const char *content, size_t n_content)
{
    if (c->n == c->room) {
        c->room = c->room ? c->room * 2 : MESSAGES_FIRST;
        c->message = grow_memory(c->message, (size_t)c->room * sizeof *c->message);
    }
    char *copy = get_memory(n_content + 1);
    memcpy(copy, content, n_content);
    c->message[c->n++] = (struct lutra_message){.role = role, .content = copy, .n_content = n_content};
}

void conversation_cut(struct conversation *c, int n)
{
    while (c->n > n) free((void *)c->message[--c->n].content);
}

void conversation_drop(struct conversation *c, int first, int n)
{
    for (int i = first; i < first + n; i++) free((void *)c->message[i].content);
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
    if (had) free((void *)c->message[0].content);
    conversation_add(c, "system", content, strlen(content)); /* makes room */
    struct lutra_message last = c->message[--c->n];
    memmove(c->message + has, c->message + had, (size_t)(c->n - had) * sizeof *c->message);
    c->n += has - had;
    if (has)
        c->message[0] = last;
    else
        free((void *)last.content);
}

void conversation_free(struct conversation *c)
{
    conversation_cut(c, 0);
    free(c->message);
    *c = (struct conversation){0};
}

int conversation_save(const struct conversation *c, const char *path)
{
    json_t *list = json_array();
    for (int i = 0; i < c->n; i++) {
        const struct lutra_message *m = &c->message[i];
        json_array_append_new(list, json_pack("{s:s, s:s%}", "role", m->role, "content", m->content, m->n_content));
    }
    json_t *all = json_pack("{s:o}", "messages", list);
    char *text = all && json_array_size(list) == (size_t)c->n ? json_dumps(all, JSON_INDENT(2)) : NULL;
    json_decref(all);
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
            const char *role = known_role(json_object_get(m, "role"));
            rc = role && json_is_string(content) ? 0 : -1;
            if (rc == 0)
                conversation_add(&loaded, role, json_string_value(content), json_string_length(content));
            else
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
