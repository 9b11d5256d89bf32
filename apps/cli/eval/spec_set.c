/* SPDX-License-Identifier: MIT */
#include <ftw.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "eval/spec.h"

/* ---- the store ---- */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void drop_store(struct spec_set *set)
{
    lutra_store_close(&set->store);
    if (set->folder[0]) nftw(set->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    set->folder[0] = 0;
}

static int open_store(struct spec_set *set)
{
    struct lutra_error err = {0};
    const char *tmp = getenv("TMPDIR");
    char path[96];
    snprintf(set->folder, sizeof set->folder, "%.40s/lutra-spec-XXXXXX", tmp && strlen(tmp) <= 40 ? tmp : "/tmp");
    if (!mkdtemp(set->folder)) {
        say("eval: %s: no folder can be made for the store", set->folder);
        set->folder[0] = 0;
        return EXIT_FAILED;
    }
    snprintf(path, sizeof path, "%s/store.db", set->folder);
    if (lutra_store_open(&set->store, path, NULL, &err) == 0) return 0;
    drop_store(set);
    if (err.code != LUTRA_E_UNSUPPORTED) return fail_with(&err);
    set->no_store = copy_text(err.what);
    return 0;
}

static int store_document(struct spec_set *set, const char *text, int i)
{
    struct lutra_error err = {0};
    struct lutra_document d;
    char name[32];
    lutra_document_init(&d, sizeof d);
    snprintf(name, sizeof name, "%d/%d", set->n, i);
    d.name = name;
    d.kind = "text";
    d.bytes = text;
    d.n_bytes = strlen(text);
    return set->store && lutra_store_add(set->store, &d, NULL, &err) < 0 ? fail_with(&err) : 0;
}

static int store_exchange(struct spec_set *set, const char *question, const char *answer)
{
    struct lutra_error err = {0};
    struct lutra_exchange e;
    lutra_exchange_init(&e, sizeof e);
    e.question = question;
    e.n_question = strlen(question);
    e.answer = answer;
    e.n_answer = strlen(answer);
    return set->store && lutra_store_commit(set->store, &e, &err) < 0 ? fail_with(&err) : 0;
}

/* ---- the questions ---- */

static int number_of(struct spec_names *names, const char *name)
{
    for (int i = 0; i < names->n; i++)
        if (!strcmp(names->name[i], name)) return i;
    if (names->n == SPEC_TASKS_MAX) return -1;
    names->name[names->n] = copy_text(name);
    return names->n++;
}

static int read_documents(struct spec_set *set, struct spec_item *item, const json_t *list)
{
    item->document = get_memory((json_array_size(list) + 1) * sizeof *item->document);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text) continue;
        item->document[item->n_document] = copy_text(text);
        int code = store_document(set, text, item->n_document++);
        if (code) return code;
    }
    return 0;
}

static int add_item(struct spec_set *set, int *room, const json_t *root, const char *path, int line)
{
    const char *question = json_string_value(json_object_get(root, "question"));
    const char *answer = json_string_value(json_object_get(root, "answer"));
    const char *task = json_string_value(json_object_get(root, "task"));
    const char *distance = json_string_value(json_object_get(root, "distance"));
    if (!question || !answer || !*answer) {
        say("%s: line %d: no \"question\" or \"answer\" (text)", path, line);
        return EXIT_FAILED;
    }
    if (json_is_true(json_object_get(root, "past"))) return store_exchange(set, question, answer);
    struct spec_item item = {.task = number_of(&set->task, task ? task : "all"),
        .distance = number_of(&set->distance, distance ? distance : "all"),
        .question = copy_text(question),
        .answer = copy_text(answer)};
    if (set->n == *room) {
        *room = *room * 2 + 64;
        set->item = grow_memory(set->item, (size_t)*room * sizeof *set->item);
    }
    int code = read_documents(set, &item, json_object_get(root, "documents"));
    set->item[set->n++] = item;
    if (item.task >= 0 && item.distance >= 0) return code;
    say("%s: line %d: more than %d tasks or distances", path, line, SPEC_TASKS_MAX);
    return EXIT_FAILED;
}

int spec_read(struct spec_set *set, const struct eval_options *o)
{
    struct buffer file = {0};
    int room = 0, line = 1, code = read_file(o->spec, &file) < 0 ? EXIT_FAILED : open_store(set);
    for (const char *p = file.text, *end = p + file.n_bytes; !code && p < end && !(o->limit && set->n >= o->limit);
         line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);
        json_error_t why;
        json_t *root = strspn(p, " \t\r") < n ? json_loadb(p, n, 0, &why) : NULL;
        if (root) code = add_item(set, &room, root, o->spec, line);
        if (!root && strspn(p, " \t\r") < n) {
            say("%s: line %d: %s", o->spec, line, why.text);
            code = EXIT_FAILED;
        }
        json_decref(root);
        p += n + 1;
    }
    if (!code && set->n == 0) {
        say("%s: no questions in it", o->spec);
        code = EXIT_FAILED;
    }
    buffer_free(&file);
    return code;
}

/* ---- prompts ---- */

/* As lutra_passages_message() has it. */
static void put_message(const struct spec_item *item, struct buffer *out)
{
    char head[32];
    buffer_clear(out);
    if (item->n_document) buffer_add(out, "Passages:\n\n", 11);
    for (int i = 0; i < item->n_document; i++) {
        buffer_add(out, head, (size_t)snprintf(head, sizeof head, "[%d] document\n", i + 1));
        buffer_add(out, item->document[i], strlen(item->document[i]));
        buffer_add(out, "\n\n", 2);
    }
    buffer_add(out, item->question, strlen(item->question));
}

int spec_tokenize(struct spec_set *set, const struct engine *e, const char *chat_template, bool forced)
{
    struct lutra_error err = {0};
    struct buffer text = {0};
    int rc = 0;
    bool has_template = chat_template || e->info.chat_template;
    struct lutra_chat chat;
    lutra_chat_init(&chat, sizeof chat);
    chat.chat_template = chat_template;
    chat.n_message = 1;
    for (int i = 0; rc == 0 && i < set->n; i++) {
        struct spec_item *item = &set->item[i];
        put_message(item, &text);
        struct lutra_message message = {"user", text.text, text.n_bytes};
        chat.messages = &message;
        if (!has_template) buffer_add(&text, "\n", 1);
        rc = has_template ? tokenize_chat(e->model, &chat, &item->prompt, &err)
                          : tokenize(e->model, text.text, text.n_bytes, LUTRA_ADD_SPECIAL, &item->prompt, &err);
        if (rc == 0 && forced) rc = tokenize(e->model, item->answer, strlen(item->answer), 0, &item->target, &err);
        int n = item->prompt.n + item->target.n;
        if (n > set->longest) set->longest = n;
    }
    buffer_free(&text);
    return rc < 0 ? fail_with(&err) : 0;
}

void spec_free(struct spec_set *set)
{
    for (int i = 0; i < set->n; i++) {
        struct spec_item *item = &set->item[i];
        for (int d = 0; d < item->n_document; d++) free(item->document[d]);
        free(item->document);
        free(item->question);
        free(item->answer);
        free(item->prompt.id);
        free(item->target.id);
    }
    for (int i = 0; i < SPEC_TASKS_MAX; i++) {
        free(set->task.name[i]);
        free(set->distance.name[i]);
    }
    drop_store(set);
    free(set->item);
    free(set->no_store);
    *set = (struct spec_set){0};
}
