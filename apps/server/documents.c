/* SPDX-License-Identifier: MIT */
#include "documents.h"

#include <stdlib.h>
#include <string.h>

#include "state.h"

enum { PASSAGES_MOST = 100, EARLIER_MOST = 2, PART_BYTES_LEAST = 60 /* a shorter part of a passage says nothing */ };

void documents_read(struct ask *a, const struct fields *f)
{
    struct fields own = {field_object(f, "lutra"), "lutra", f->problem};
    const json_t *rag = field_any(&own, "rag");
    struct fields in = {json_is_object(rag) ? rag : NULL, "lutra.rag", f->problem};
    a->n_passage = 5;
    if (!rag) return;
    if (!in.object) field_text(&own, "rag", &a->store);
    if (in.object && !field_text(&in, "store", &a->store)) field_wrong(&in, "store", "missing");
    field_int(&in, "passages", 1, PASSAGES_MOST, &a->n_passage);
}

static lutra_store *open_store(const struct server_store *set, struct lutra_error *err)
{
    struct lutra_store_settings settings;
    lutra_store *store = NULL;
    lutra_store_settings_init(&settings, sizeof settings);
    settings.must_exist = true;
    return lutra_store_open(&store, set->path, &settings, err) < 0 ? NULL : store;
}

bool documents_check(const struct server *s)
{
    struct lutra_error err = {0};
    for (int i = 0; i < s->set->n_store; i++) {
        lutra_store *store = open_store(&s->set->store[i], &err);
        if (!store) s->set->say("%s", err.what);
        if (!store) return false;
        lutra_store_close(&store);
    }
    return true;
}

/* The last question of a conversation, and those before it, the newest first, a line each. */
static json_t *find_question(const json_t *messages, struct text *earlier)
{
    json_t *last = NULL;
    int n_earlier = 0;
    for (size_t i = json_array_size(messages); i-- > 0 && n_earlier < EARLIER_MOST;) {
        json_t *m = json_array_get(messages, i);
        const char *role = json_string_value(json_object_get(m, "role"));
        const json_t *content = json_object_get(m, "content");
        if (!role || strcmp(role, "user") != 0 || !json_is_string(content)) continue;
        if (last) {
            size_t from = earlier->n;
            text_add(earlier, json_string_value(content), json_string_length(content));
            for (size_t k = from; k < earlier->n; k++)
                if (earlier->bytes[k] == '\n') earlier->bytes[k] = ' ';
            text_put(earlier, "\n");
            n_earlier++;
        } else {
            last = m;
        }
    }
    return last;
}

/* The question behind the best n passages; does the conversation fit with it? */
static bool fits(
    struct exchange *x, const lutra_passages *found, int n, json_t *message, json_t *question, struct problem *p)
{
    struct lutra_error err = {0};
    struct ask *a = &x->ask;
    int use[PASSAGES_MOST], most = x->model->n_ctx - 1, reserve = x->model->n_ctx / 4;
    char *text = NULL;
    for (int i = 0; i < n; i++) use[i] = i;
    if (lutra_passages_message(
            found, use, n, 1, json_string_value(question), json_string_length(question), &text, &err) < 0) {
        problem_from(p, "lutra.rag", &err);
        return false;
    }
    json_t *content = json_string(text);
    lutra_free(text);
    if (!content) problem_set(p, 400, "invalid_value", "lutra.rag", "lutra.rag: a passage is no text");
    if (!content) return false;
    json_object_set_new(message, "content", content);
    if (a->set.max_tokens >= 0 && a->set.max_tokens < reserve) reserve = a->set.max_tokens;
    int n_token = ask_measure(a, x->model, x->server->set->chat_template, p);
    return !p->status && n_token <= most - reserve;
}

static void tell_sources(struct exchange *x, const lutra_passages *found, int n)
{
    struct text t = {0};
    struct event e = {.kind = EVENT_NOTE, .keep = true, .scored = {.token = -1}};
    const struct lutra_passage *by_number[PASSAGES_MOST];
    for (int i = 0; i < n; i++) { /* numbered by place, as lutra_passages_message() does */
        const struct lutra_passage *passage = lutra_passages_at(found, i);
        int number = 0;
        for (int k = 0; k < n; k++) number += lutra_passages_at(found, k)->place < passage->place;
        by_number[number] = passage;
    }
    text_put(&t, "\"sources\":[");
    for (int i = 0; i < n; i++) {
        const struct lutra_passage *passage = by_number[i];
        text_print(&t, "%s{\"number\":%d,\"name\":", i ? "," : "", i + 1);
        text_json_string(&t, passage->name);
        text_print(&t, ",\"begin\":%llu,\"end\":%llu,\"score\":%.9g,\"text\":", (unsigned long long)passage->begin,
            (unsigned long long)passage->end, passage->score);
        text_json(&t, passage->text, passage->n_bytes);
        text_put(&t, "}");
    }
    text_put(&t, "]");
    e.n_bytes = t.n;
    if (t.failed)
        exchange_cancel(x);
    else
        exchange_event(x, &e, t.bytes);
    text_free(&t);
}

/* As many of the best passages as fit; where not even the best one does, the best part of it. */
static int put_best(struct exchange *x, lutra_passages *found, json_t *message, json_t *question, struct problem *p)
{
    struct lutra_error err = {0};
    int n = lutra_passages_count(found);
    while (n > 0 && !fits(x, found, n, message, question, p) && !p->status) n--;
    const struct lutra_passage *best = lutra_passages_at(found, 0);
    while (best && n == 0 && !p->status && best->n_bytes / 2 >= PART_BYTES_LEAST) {
        if (lutra_passages_shorten(
                found, 0, best->n_bytes / 2, json_string_value(question), json_string_length(question), &err) < 0)
            problem_from(p, "lutra.rag", &err);
        else
            n = fits(x, found, 1, message, question, p);
    }
    if (n == 0) json_object_set(message, "content", question);
    return n;
}

void documents_prepare(struct exchange *x, struct problem *p)
{
    const struct server_settings *set = x->server->set;
    struct ask *a = &x->ask;
    struct lutra_error err = {0};
    struct text earlier = {0};
    lutra_passages *found = NULL;
    int i = 0;
    while (i < set->n_store && strcmp(set->store[i].name, a->store) != 0) i++;
    json_t *message = find_question(json_object_get(a->chat, "messages"), &earlier);
    json_t *question = json_incref(json_object_get(message, "content"));
    if (i == set->n_store)
        problem_set(p, 400, "invalid_value", "lutra.rag",
            "lutra.rag: the server was started with no store '%.80s' (--rag)", a->store);
    else if (!permit_has(x->key, PERMIT_STORES, a->store))
        permit_refuse(p, PERMIT_STORES, "lutra.rag", a->store);
    else if (!message)
        problem_set(p, 400, "invalid_value", "messages", "messages: no question of a user, which lutra.rag needs");
    lutra_store *store = p->status ? NULL : open_store(&set->store[i], &err);
    int rc = store ? lutra_store_find_after(store, earlier.bytes, earlier.n, json_string_value(question),
                         json_string_length(question), a->n_passage, &found, &err)
                   : err.code;
    if (rc < 0) problem_from(p, "lutra.rag", &err);
    /* Half of the context for what was said, so that passages have room. */
    if (!p->status) ask_roll(a, x->model, set->chat_template, 0.5, p);
    if (!p->status) {
        int n = put_best(x, found, message, question, p);
        if (!p->status) tell_sources(x, found, n);
    }
    lutra_passages_close(&found);
    lutra_store_close(&store);
    text_free(&earlier);
    json_decref(question);
}
