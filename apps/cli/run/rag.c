/* SPDX-License-Identifier: MIT
 *
 * `lutra run --rag`: passages before the question, sources after the answer, the exchange into the store's history.
 */
#include "run/rag.h"

#include <stdlib.h>
#include <string.h>

enum { PART_BYTES_LEAST = 60 }; /* a shorter part of a passage says nothing */

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
    buffer_free(&r->earlier);
    free(r->likely);
    free(r->fresh);
    free(r->shown);
}

void rag_forget(struct rag *r, int n_turn)
{
    r->n_shown = r->n_earlier = r->n_dropped = r->last_number = 0;
    r->n_turn = n_turn;
    lutra_recall_close(&r->recall);
    lutra_passages_close(&r->found);
    r->n_fresh = 0;
    buffer_clear(&r->earlier);
}

void rag_drop_turn(struct rag *r)
{
    int kept = 0;
    r->n_dropped++;
    for (int i = 0; i < r->n_shown; i++)
        if (r->shown[i].turn > r->n_dropped) r->shown[kept++] = r->shown[i];
    r->n_shown = kept;
}

static const struct rag_shown *find_shown(const struct rag *r, int64_t chunk)
{
    for (int i = 0; i < r->n_shown; i++)
        if (r->shown[i].chunk == chunk) return &r->shown[i];
    return NULL;
}

/* What the store has for the question and those before it. */
static int find(struct rag *r, const char *question, size_t n)
{
    struct lutra_error err = {0};
    lutra_recall_close(&r->recall);
    lutra_passages_close(&r->found);
    r->n_fresh = 0;
    buffer_clear(&r->question);
    buffer_add(&r->question, question, n);
    int rc = lutra_store_find_after(
        r->store, r->earlier.text, r->earlier.n_bytes, question, n, r->n_passages, &r->found, &err);
    if (rc < 0) return fail_with(&err);
    int n_found = lutra_passages_count(r->found);
    r->fresh = grow_memory(r->fresh, (size_t)(n_found + 1) * sizeof *r->fresh);
    for (int i = 0; i < n_found; i++)
        if (!find_shown(r, lutra_passages_at(r->found, i)->chunk)) r->fresh[r->n_fresh++] = i;
    return 0;
}

int rag_reserve(int n_predict, int n_ctx)
{
    int most = n_ctx / 4;
    return n_predict > 0 && n_predict < most ? n_predict : most;
}

/* The question behind the best k of the new passages; as rag_place.put. */
static int put(struct rag *r, int k, const char *question, size_t n, const struct rag_place *place)
{
    struct lutra_error err = {0};
    char *text = NULL;
    if (place->passages_alone) n = 0;
    if (lutra_passages_message(r->found, r->fresh, k, r->last_number + 1, question, n, &text, &err) < 0) {
        fail_with(&err);
        return -1;
    }
    int fits = (k > 0 ? place->put : place->put_bare)(place->user, text);
    lutra_free(text);
    return fits;
}

static void take(struct rag *r, int k)
{
    r->n_fresh = k;
    r->n_earlier = r->n_shown;
    r->n_turn++;
    if (r->n_shown + k > r->room) {
        r->room = (r->n_shown + k) * 2;
        r->shown = grow_memory(r->shown, (size_t)r->room * sizeof *r->shown);
    }
    for (int i = 0; i < k; i++) { /* numbered by place, as lutra_passages_message() does */
        const struct lutra_passage *p = lutra_passages_at(r->found, r->fresh[i]);
        int before = 0;
        for (int j = 0; j < k; j++) before += lutra_passages_at(r->found, r->fresh[j])->place < p->place;
        r->shown[r->n_shown + i] = (struct rag_shown){p->chunk, r->last_number + 1 + before, r->n_turn};
    }
    r->n_shown += k;
    r->last_number += k;
}

/* As many of the best new passages as fit; where not even the best one does, the best part of it.  *k: how many. */
static int put_best(struct rag *r, const char *question, size_t n, const struct rag_place *place, int *k)
{
    struct lutra_error err = {0};
    int fits = 0, n_fresh = r->n_fresh;
    for (*k = n_fresh; *k > 0 && fits == 0; *k -= fits == 0) fits = put(r, *k, question, n, place);
    if (fits > 0 && *k < n_fresh && !r->quiet) say("%d of %d passages fit into the context", *k, n_fresh);
    if (fits || n_fresh == 0) return fits;
    const struct lutra_passage *best = lutra_passages_at(r->found, r->fresh[0]);
    size_t n_whole = best->n_bytes;
    while (fits == 0 && best->n_bytes / 2 >= PART_BYTES_LEAST) {
        if (lutra_passages_shorten(r->found, r->fresh[0], best->n_bytes / 2, question, n, &err) < 0) {
            fail_with(&err);
            return -1;
        }
        fits = put(r, 1, question, n, place);
    }
    *k = fits > 0;
    if (fits > 0 && !r->quiet)
        say("1 of %d passages fits into the context, cut from %zu to %zu bytes; -c N gives more", n_fresh, n_whole,
            best->n_bytes);
    return fits;
}

int rag_ask(struct rag *r, const char *question, size_t n, const struct rag_place *place)
{
    int code = find(r, question, n), k = 0, n_found = lutra_passages_count(r->found);
    if (code) return code;
    int fits = put_best(r, question, n, place, &k);
    if (fits < 0) return EXIT_FAILED;
    bool has_passages = k > 0 || n_found > r->n_fresh; /* these, or such as the conversation has */
    if (fits == 0 && !has_passages && !r->anyway) {
        say(n_found ? "%s: no passage fits into the context beside the question, which was not asked; -c N gives more, "
                      "--rag-anyway asks without"
                    : "%s: nothing found for this question, which was not asked; --rag-anyway asks all the same",
            r->path);
        r->n_fresh = 0;
        return EXIT_FAILED;
    }
    if (!has_passages && !r->quiet)
        say("%s: nothing found: the answer rests on no document, and the history does not keep it", r->path);
    take(r, k);
    return fits == 0 && put(r, 0, question, n, place) < 0 ? EXIT_FAILED : 0;
}

void rag_take_back(struct rag *r)
{
    if (!r->store) return;
    r->n_shown = r->n_earlier;
    r->n_turn--;
}

/* " : heron, 42": what the answer shares with a passage. */
static int print_shared(const struct rag *r, int i, const struct buffer *answer, int *n_shared)
{
    struct lutra_error err = {0};
    char *words = NULL;
    int rc = lutra_passages_shared(
        r->store, r->found, i, r->question.text, r->question.n_bytes, answer->text, answer->n_bytes, &words, &err);
    if (rc < 0) return fail_with(&err);
    *n_shared += words[0] != 0;
    if (words[0]) fputs(" = ", stdout);
    print_plain(words, strlen(words));
    lutra_free(words);
    putchar('\n');
    return 0;
}

/* The passages found that the model has seen, by their numbers.  *n: how many. */
static int list_given(const struct rag *r, const struct buffer *answer, int *n)
{
    int n_found = lutra_passages_count(r->found), last = 0, n_shared = 0, code = 0;
    *n = 0;
    while (!code) {
        int next = -1, number = 0;
        for (int i = 0; i < n_found; i++) {
            const struct rag_shown *s = find_shown(r, lutra_passages_at(r->found, i)->chunk);
            if (!s || s->number <= last || (next >= 0 && s->number > number)) continue;
            next = i;
            number = s->number;
        }
        if (next < 0) break;
        const struct lutra_passage *p = lutra_passages_at(r->found, next);
        printf("%s[%d] ", last ? "" : "\nPassages given (= rare words or numbers that the answer has, too):\n", number);
        print_plain(p->name, strlen(p->name));
        printf(", bytes %llu to %llu", (unsigned long long)p->begin, (unsigned long long)p->end);
        code = print_shared(r, next, answer, &n_shared);
        last = number;
        ++*n;
    }
    if (*n && !n_shared && !code) puts("The answer has no rare word or number of any of them: it may rest on none.");
    fflush(stdout);
    return code;
}

/* The last two are searched for with the next one. */
static void remember_question(struct rag *r)
{
    struct buffer both = {0};
    size_t n_last = r->earlier.text ? strcspn(r->earlier.text, "\n") : 0;
    for (size_t i = 0; i < r->question.n_bytes; i++) /* one line */
        buffer_add(&both, r->question.text[i] == '\n' ? " " : &r->question.text[i], 1);
    buffer_add(&both, "\n", 1);
    if (n_last) buffer_add(&both, r->earlier.text, n_last);
    buffer_free(&r->earlier);
    r->earlier = both;
}

int rag_finish(struct rag *r, const struct buffer *answer)
{
    struct lutra_error err = {0};
    struct lutra_exchange e;
    int n_given, code = list_given(r, answer, &n_given);
    if (code || n_given == 0) return code;
    remember_question(r);
    if (lutra_recall_save(r->recall, &err) < 0) return fail_with(&err);
    lutra_exchange_init(&e, sizeof e);
    e.question = r->question.text;
    e.n_question = r->question.n_bytes;
    e.answer = answer->text;
    e.n_answer = answer->n_bytes;
    e.passages = r->found;
    return lutra_store_commit(r->store, &e, &err) < 0 ? fail_with(&err) : 0;
}
