/* SPDX-License-Identifier: MIT
 *
 * FTS5's tokenizer `lutra`: the words of words.c (`lutra_words`), of which FTS5's own `porter` cuts English ends.
 */
#include "rag/rag_impl.h"
#include "rag/words.h"

typedef int (*token_fn)(void *user, int flags, const char *token, int n, int begin, int end);

/* ---- lutra_words: has no state; user is the store, which is no NULL ---- */

static int words_create(void *user, const char **arg, int n_arg, Fts5Tokenizer **out)
{
    (void)arg, (void)n_arg;
    *out = user;
    return SQLITE_OK;
}

static void words_delete(Fts5Tokenizer *tokenizer)
{
    (void)tokenizer;
}

/* Places are those of the folded text: only FTS5's highlight() would look at them. */
static int words_tokenize(Fts5Tokenizer *tokenizer, void *user, int flags, const char *text, int n, token_fn give)
{
    struct text folded = {0};
    struct word w;
    (void)tokenizer, (void)flags;
    if (n > 0) text_add_folded(&folded, text, (size_t)n);
    int code = folded.failed ? SQLITE_NOMEM : SQLITE_OK;
    for (size_t at = 0; code == SQLITE_OK && word_next(folded.bytes, folded.n, &at, &w);)
        code = give(user, 0, folded.bytes + w.begin, (int)w.n, (int)w.begin, (int)(w.begin + w.n));
    text_fini(&folded);
    return code;
}

/* ---- lutra: FTS5 takes a tokenizer's arguments from the table's text, which names `lutra` alone ---- */

static int porter_create(void *user, const char **arg, int n_arg, Fts5Tokenizer **out)
{
    const char *over[] = {"lutra_words"};
    lutra_store *s = user;
    (void)arg, (void)n_arg;
    return s->porter.xCreate(s->porter_user, over, 1, out);
}

int tokenizer_run(lutra_store *s, const char *text, size_t n, token_fn fn, void *user)
{
    Fts5Tokenizer *it = NULL;
    int code = n > INT32_MAX ? SQLITE_TOOBIG : porter_create(s, NULL, 0, &it);
    if (code != SQLITE_OK) return code;
    code = s->porter.xTokenize(it, user, 0, text, (int)n, fn);
    s->porter.xDelete(it);
    return code;
}

int tokenizer_register(lutra_store *s, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    fts5_tokenizer words = {words_create, words_delete, words_tokenize};
    if (sqlite3_prepare_v2(s->db, "SELECT fts5(?1)", -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_pointer(stmt, 1, &s->fts, "fts5_api_ptr", NULL);
        sqlite3_step(stmt);
    }
    sqlite3_finalize(stmt);
    if (!s->fts || s->fts->iVersion < 2)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: this SQLite (%s) has no FTS5", s->path, sqlite3_libversion());
    int code = s->fts->xCreateTokenizer(s->fts, "lutra_words", s, &words, NULL);
    if (code == SQLITE_OK) code = s->fts->xFindTokenizer(s->fts, "porter", &s->porter_user, &s->porter);
    fts5_tokenizer own = {porter_create, s->porter.xDelete, s->porter.xTokenize};
    if (code == SQLITE_OK) code = s->fts->xCreateTokenizer(s->fts, "lutra", s, &own, NULL);
    return code == SQLITE_OK ? 0 : store_fail(s, code, err);
}
