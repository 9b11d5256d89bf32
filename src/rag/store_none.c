/* SPDX-License-Identifier: MIT
 *
 * The store in a build without SQLite: it cannot be opened, and says so.
 */
#include "base/status.h"
#include "engine/settings.h"
#include "lutra/rag.h"

void lutra_store_settings_init(struct lutra_store_settings *settings, size_t size)
{
    settings_fill(settings, size, &(struct lutra_store_settings){.size = sizeof *settings});
}

void lutra_document_init(struct lutra_document *document, size_t size)
{
    settings_fill(document, size, &(struct lutra_document){.size = sizeof *document});
}

void lutra_exchange_init(struct lutra_exchange *exchange, size_t size)
{
    settings_fill(exchange, size, &(struct lutra_exchange){.size = sizeof *exchange});
}

static int refuse(struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "documents: lutra was built without SQLite (Debian: libsqlite3-dev)");
}

int lutra_store_open(
    lutra_store **out, const char *path, const struct lutra_store_settings *settings, struct lutra_error *err)
{
    (void)path, (void)settings;
    *out = NULL;
    return refuse(err);
}

void lutra_store_close(lutra_store **store)
{
    *store = NULL;
}

void lutra_passages_close(lutra_passages **passages)
{
    *passages = NULL;
}

int lutra_passages_count(const lutra_passages *passages)
{
    (void)passages;
    return 0;
}

const struct lutra_passage *lutra_passages_get(const lutra_passages *passages, int i)
{
    (void)passages, (void)i;
    return NULL;
}

const char *lutra_text_charset(const char *bytes, size_t n)
{
    (void)bytes, (void)n;
    return NULL;
}

/* Nobody has a store to call these with. */
int lutra_store_add(
    lutra_store *store, const struct lutra_document *document, enum lutra_added *what, struct lutra_error *err)
{
    (void)store, (void)document, (void)what;
    return refuse(err);
}

int lutra_store_holds(lutra_store *store, const struct lutra_document *document, bool *holds, struct lutra_error *err)
{
    (void)store, (void)document, (void)holds;
    return refuse(err);
}

int lutra_store_remove(lutra_store *store, const char *name, int64_t *n_removed, struct lutra_error *err)
{
    (void)store, (void)name, (void)n_removed;
    return refuse(err);
}

int lutra_store_list(
    lutra_store *store, int (*fn)(void *user, const struct lutra_stored *document), void *user, struct lutra_error *err)
{
    (void)store, (void)fn, (void)user;
    return refuse(err);
}

int lutra_store_stats(lutra_store *store, struct lutra_store_stats *stats, size_t size, struct lutra_error *err)
{
    (void)store, (void)stats, (void)size;
    return refuse(err);
}

int lutra_store_compact(lutra_store *store, lutra_progress_fn progress, void *progress_user, struct lutra_error *err)
{
    (void)store, (void)progress, (void)progress_user;
    return refuse(err);
}

int lutra_store_check(lutra_store *store, struct lutra_error *err)
{
    (void)store;
    return refuse(err);
}

int lutra_store_find(
    lutra_store *store, const char *query, size_t n_query, int n_max, lutra_passages **out, struct lutra_error *err)
{
    (void)store, (void)query, (void)n_query, (void)n_max;
    *out = NULL;
    return refuse(err);
}

int lutra_store_find_after(lutra_store *store, const char *earlier, size_t n_earlier, const char *query, size_t n_query,
    int n_max, lutra_passages **out, struct lutra_error *err)
{
    (void)store, (void)earlier, (void)n_earlier, (void)query, (void)n_query, (void)n_max;
    *out = NULL;
    return refuse(err);
}

int lutra_passages_shorten(
    lutra_passages *passages, int i, size_t n_most, const char *question, size_t n_question, struct lutra_error *err)
{
    (void)passages, (void)i, (void)n_most, (void)question, (void)n_question;
    return refuse(err);
}

int lutra_passages_shared(lutra_store *store, const lutra_passages *passages, int i, const char *question,
    size_t n_question, const char *answer, size_t n_answer, char **words, struct lutra_error *err)
{
    (void)store, (void)passages, (void)i, (void)question, (void)n_question, (void)answer, (void)n_answer;
    *words = NULL;
    return refuse(err);
}

int lutra_passages_message(const lutra_passages *passages, const int *use, int n_use, int first, const char *question,
    size_t n_question, char **text, struct lutra_error *err)
{
    (void)passages, (void)use, (void)n_use, (void)first, (void)question, (void)n_question;
    *text = NULL;
    return refuse(err);
}

int lutra_store_commit(lutra_store *store, const struct lutra_exchange *exchange, struct lutra_error *err)
{
    (void)store, (void)exchange;
    return refuse(err);
}

int lutra_store_history(lutra_store *store, int (*fn)(void *user, const struct lutra_stored_exchange *exchange),
    void *user, struct lutra_error *err)
{
    (void)store, (void)fn, (void)user;
    return refuse(err);
}

int lutra_store_forget(lutra_store *store, struct lutra_error *err)
{
    (void)store;
    return refuse(err);
}

int lutra_drafts_open(lutra_drafts **out, lutra_store *store, const lutra_model *model, lutra_progress_fn progress,
    void *progress_user, struct lutra_error *err)
{
    (void)store, (void)model, (void)progress, (void)progress_user;
    *out = NULL;
    return refuse(err);
}

void lutra_drafts_close(lutra_drafts **drafts)
{
    *drafts = NULL;
}

int lutra_drafts_guess(lutra_drafts *drafts, const struct lutra_draft_tip *tip, struct lutra_draft *draft, int n_max)
{
    (void)drafts, (void)tip, (void)draft, (void)n_max;
    return 0;
}

int lutra_drafts_likely(const lutra_drafts *drafts, int32_t *token, int n_max, struct lutra_error *err)
{
    (void)drafts, (void)token, (void)n_max;
    return refuse(err);
}

int lutra_recall_open(lutra_recall **out, lutra_store *store, const lutra_model *model, uint64_t hints,
    const lutra_passages *passages, const int32_t *prompt, int n_prompt, struct lutra_error *err)
{
    (void)store, (void)model, (void)hints, (void)passages, (void)prompt, (void)n_prompt;
    *out = NULL;
    return refuse(err);
}

void lutra_recall_close(lutra_recall **recall)
{
    *recall = NULL;
}

const struct lutra_hints *lutra_recall_known(const lutra_recall *recall)
{
    (void)recall;
    return NULL;
}

void lutra_recall_take(lutra_recall *recall, int first, const struct lutra_hints *hints, int n)
{
    (void)recall, (void)first, (void)hints, (void)n;
}

int lutra_recall_save(lutra_recall *recall, struct lutra_error *err)
{
    (void)recall;
    return refuse(err);
}

void lutra_drafts_stats(const lutra_drafts *drafts, struct lutra_drafts_stats *stats, size_t size)
{
    (void)drafts;
    settings_fill(stats, size, &(struct lutra_drafts_stats){.size = sizeof *stats});
}
