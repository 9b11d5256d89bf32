/* SPDX-License-Identifier: MIT */
#include "run/rag.h"

#include <stdlib.h>
#include <string.h>

int rag_start(struct rag *r)
{
    struct lutra_error err = {0};
    struct lutra_store_settings set;
    if (!r->path) return 0;
    lutra_store_settings_init(&set, sizeof set);
    set.must_exist = true;
    return lutra_store_open(&r->store, r->path, &set, &err) < 0 ? fail_with(&err) : 0;
}

char *rag_take_types(const char *types, bool *wants)
{
    bool is_named = false;
    struct buffer rest = {0};
    *wants = false;
    if (!types) return NULL;
    buffer_add(&rest, "", 0);
    for (const char *at = types; *at; at += *at == ',') {
        size_t n = strcspn(at, ",");
        bool is_store = n == 5 && strncmp(at, "store", n) == 0;
        *wants |= is_store || (n == 4 && strncmp(at, "auto", n) == 0);
        is_named |= is_store;
        if (!is_store && rest.n_bytes) buffer_add(&rest, ",", 1);
        if (!is_store) buffer_add(&rest, at, n);
        at += n;
    }
    if (is_named) return rest.text;
    buffer_free(&rest);
    return NULL;
}

int rag_start_drafts(struct rag *r, const lutra_model *model, const lutra_session *session)
{
    struct lutra_error err = {0};
    int rc = lutra_drafts_open(&r->drafts, r->store, model, progress_callback, NULL, &err);
    progress_clear();
    if (rc < 0) return fail_with(&err);
    if (!lutra_session_hints(session)) return 0; /* nobody looks at them */
    r->likely = get_memory(SHORTLIST_MOST * sizeof *r->likely);
    r->n_likely = lutra_drafts_likely(r->drafts, r->likely, SHORTLIST_MOST, &err);
    return r->n_likely < 0 ? fail_with(&err) : 0;
}

int rag_recall(struct rag *r, const lutra_model *model, const lutra_session *session, const struct tokens *prompt)
{
    struct lutra_error err = {0};
    uint64_t hints = lutra_session_hints(session);
    lutra_recall_close(&r->recall);
    if (!hints || !r->found) return 0;
    int rc = lutra_recall_open(&r->recall, r->store, model, hints, r->found, prompt->id, prompt->n, &err);
    return rc < 0 ? fail_with(&err) : 0;
}

void rag_stop(struct rag *r)
{
    lutra_recall_close(&r->recall);
    lutra_drafts_close(&r->drafts);
    lutra_passages_close(&r->found);
    lutra_store_close(&r->store);
    buffer_free(&r->question);
    free(r->likely);
    free(r->fresh);
    free(r->shown);
}

void rag_forget(struct rag *r)
{
    r->n_shown = r->n_earlier = 0;
    lutra_recall_close(&r->recall);
    lutra_passages_close(&r->found);
    r->n_fresh = 0;
}

static const struct rag_shown *find_shown(const struct rag *r, int64_t chunk)
{
    for (int i = 0; i < r->n_shown; i++)
        if (r->shown[i].chunk == chunk) return &r->shown[i];
    return NULL;
}

int rag_find(struct rag *r, const char *question, size_t n)
{
    struct lutra_error err = {0};
    lutra_recall_close(&r->recall);
    lutra_passages_close(&r->found);
    r->n_fresh = 0;
    buffer_clear(&r->question);
    buffer_add(&r->question, question, n);
    if (lutra_store_find(r->store, question, n, r->n_passages, &r->found, &err) < 0) return fail_with(&err);
    int n_found = lutra_passages_count(r->found);
    r->fresh = grow_memory(r->fresh, (size_t)(n_found + 1) * sizeof *r->fresh);
    for (int i = 0; i < n_found; i++)
        if (!find_shown(r, lutra_passages_get(r->found, i)->chunk)) r->fresh[r->n_fresh++] = i;
    if (n_found == 0 && !r->quiet) say("%s has nothing for this question", r->path);
    return 0;
}

int rag_reserve(int n_predict, int n_ctx)
{
    int most = n_ctx / 4;
    return n_predict > 0 && n_predict < most ? n_predict : most;
}

int rag_message(const struct rag *r, int k, const char *question, size_t n, char **text)
{
    struct lutra_error err = {0};
    int rc = lutra_passages_message(r->found, r->fresh, k, r->n_shown + 1, question, n, text, &err);
    return rc < 0 ? fail_with(&err) : 0;
}

void rag_take(struct rag *r, int k)
{
    if (k < r->n_fresh && !r->quiet) say("%d of %d passages fit into the context", k, r->n_fresh);
    r->n_fresh = k;
    r->n_earlier = r->n_shown;
    if (r->n_shown + k > r->room) {
        r->room = (r->n_shown + k) * 2;
        r->shown = grow_memory(r->shown, (size_t)r->room * sizeof *r->shown);
    }
    for (int i = 0; i < k; i++) { /* numbered by place, as lutra_passages_message() does */
        const struct lutra_passage *p = lutra_passages_get(r->found, r->fresh[i]);
        int before = 0;
        for (int j = 0; j < k; j++) before += lutra_passages_get(r->found, r->fresh[j])->place < p->place;
        r->shown[r->n_shown + i] = (struct rag_shown){p->chunk, r->n_shown + 1 + before};
    }
    r->n_shown += k;
}

void rag_take_back(struct rag *r)
{
    r->n_shown = r->n_earlier;
}

/* The passages found that the model has seen, by their numbers. */
static void list_sources(const struct rag *r)
{
    int n = lutra_passages_count(r->found), last = 0;
    for (;;) {
        const struct lutra_passage *next = NULL;
        int number = 0;
        for (int i = 0; i < n; i++) {
            const struct lutra_passage *p = lutra_passages_get(r->found, i);
            const struct rag_shown *s = find_shown(r, p->chunk);
            if (!s || s->number <= last || (next && s->number > number)) continue;
            next = p;
            number = s->number;
        }
        if (!next) break;
        printf("%s[%d] ", last ? "" : "\nSources:\n", number);
        print_plain(next->name, strlen(next->name));
        printf(", bytes %llu to %llu\n", (unsigned long long)next->begin, (unsigned long long)next->end);
        last = number;
    }
    fflush(stdout);
}

int rag_finish(struct rag *r, const struct buffer *answer)
{
    struct lutra_error err = {0};
    struct lutra_exchange e;
    list_sources(r);
    if (lutra_recall_save(r->recall, &err) < 0) return fail_with(&err);
    lutra_exchange_init(&e, sizeof e);
    e.question = r->question.text;
    e.n_question = r->question.n_bytes;
    e.answer = answer->text;
    e.n_answer = answer->n_bytes;
    e.passages = r->found;
    return lutra_store_commit(r->store, &e, &err) < 0 ? fail_with(&err) : 0;
}
