/* SPDX-License-Identifier: MIT
 *
 * The store in a build without SQLite: it cannot be opened, and says so; nobody has one to call the others with.
 */
#include "base/absent.h"
#include "base/settings.h"
#include "lutra/rag.h"

#define WITHOUT "documents: lutra was built without SQLite (Debian: libsqlite3-dev)"

/* clang-format off */
ABSENT_INIT(lutra_store_settings)
ABSENT_INIT(lutra_document)
ABSENT_INIT(lutra_exchange)
ABSENT_OPEN(out, lutra_store_open(lutra_store **out, const char *path, const struct lutra_store_settings *settings,
    struct lutra_error *err))
ABSENT_CLOSE(store, lutra_store_close(lutra_store **store))
ABSENT_CLOSE(passages, lutra_passages_close(lutra_passages **passages))
ABSENT_VALUE(0, int lutra_passages_count(const lutra_passages *passages))
ABSENT_VALUE(NULL, const struct lutra_passage *lutra_passages_at(const lutra_passages *passages, int i))
ABSENT_VALUE(NULL, const char *lutra_text_charset(const char *bytes, size_t n))
ABSENT(lutra_store_add(lutra_store *store, const struct lutra_document *document, enum lutra_added *what,
    struct lutra_error *err))
ABSENT(lutra_store_holds(lutra_store *store, const struct lutra_document *document, bool *holds,
    struct lutra_error *err))
ABSENT(lutra_store_remove(lutra_store *store, const char *name, int64_t *n_removed, struct lutra_error *err))
ABSENT(lutra_store_list(lutra_store *store, int (*fn)(void *user, const struct lutra_stored *document), void *user,
    struct lutra_error *err))
ABSENT(lutra_store_stats_get(lutra_store *store, struct lutra_store_stats *stats, size_t size, struct lutra_error *err))
ABSENT(lutra_store_compact(lutra_store *store, lutra_progress_fn progress, void *progress_user,
    struct lutra_error *err))
ABSENT(lutra_store_check(lutra_store *store, struct lutra_error *err))
ABSENT_OPEN(out, lutra_store_find(lutra_store *store, const char *query, size_t n_query, int n_max,
    lutra_passages **out, struct lutra_error *err))
ABSENT_OPEN(out, lutra_store_find_after(lutra_store *store, const char *earlier, size_t n_earlier, const char *query,
    size_t n_query, int n_max, lutra_passages **out, struct lutra_error *err))
ABSENT(lutra_passages_shorten(lutra_passages *passages, int i, size_t n_most, const char *question,
    size_t n_question, struct lutra_error *err))
ABSENT_OPEN(words, lutra_passages_shared(lutra_store *store, const lutra_passages *passages, int i,
    const char *question, size_t n_question, const char *answer, size_t n_answer, char **words,
    struct lutra_error *err))
ABSENT_OPEN(text, lutra_passages_message(const lutra_passages *passages, const int *use, int n_use, int first,
    const char *question, size_t n_question, char **text, struct lutra_error *err))
ABSENT(lutra_store_commit(lutra_store *store, const struct lutra_exchange *exchange, struct lutra_error *err))
ABSENT(lutra_store_history(lutra_store *store, int (*fn)(void *user, const struct lutra_stored_exchange *exchange),
    void *user, struct lutra_error *err))
ABSENT(lutra_store_forget(lutra_store *store, struct lutra_error *err))
ABSENT_OPEN(out, lutra_drafts_open(lutra_drafts **out, lutra_store *store, const lutra_model *model,
    lutra_progress_fn progress, void *progress_user, struct lutra_error *err))
ABSENT_CLOSE(drafts, lutra_drafts_close(lutra_drafts **drafts))
ABSENT_VALUE(0, int lutra_drafts_guess(lutra_drafts *drafts, const struct lutra_draft_tip *tip,
    struct lutra_draft *draft, int n_max))
ABSENT(lutra_drafts_likely(const lutra_drafts *drafts, int32_t *token, int n_max, struct lutra_error *err))
ABSENT_OPEN(out, lutra_recall_open(lutra_recall **out, lutra_store *store, const lutra_model *model, uint64_t hints,
    const lutra_passages *passages, const int32_t *prompt, int n_prompt, struct lutra_error *err))
ABSENT_CLOSE(recall, lutra_recall_close(lutra_recall **recall))
ABSENT_VALUE(NULL, const struct lutra_hints *lutra_recall_known(const lutra_recall *recall))
ABSENT_VALUE(, void lutra_recall_take(lutra_recall *recall, int first, const struct lutra_hints *hints, int n))
ABSENT(lutra_recall_save(lutra_recall *recall, struct lutra_error *err))
/* clang-format on */

void lutra_drafts_stats_get(const lutra_drafts *drafts, struct lutra_drafts_stats *stats, size_t size)
{
    settings_fill(stats, size, &(struct lutra_drafts_stats){.size = sizeof *stats});
}
