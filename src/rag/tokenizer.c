/* SPDX-License-Identifier: MIT
 *
 * FTS5's tokenizer `lutra`: its own `porter unicode61 remove_diacritics 2` (case and accents folded, English word ends
 * cut), and scripts that write words without blanks cut into characters, which a search joins in pairs (find.c).
 */
#include "rag/rag_impl.h"
#include "text/utf8.h"

struct fold {
    fts5_tokenizer inner;
    Fts5Tokenizer *it;
};

bool tokenizer_splits(uint32_t c)
{
    return (c >= 0x0E00 && c <= 0x0EFF) || (c >= 0x1000 && c <= 0x109F) || /* Thai, Lao; Myanmar */
           (c >= 0x1780 && c <= 0x17FF) ||                                 /* Khmer */
           (c >= 0x3040 && c <= 0x30FF) || (c >= 0x31F0 && c <= 0x31FF) || /* kana */
           (c >= 0x3400 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x20000 && c <= 0x3FFFF); /* ideographs */
}

static void fold_delete(Fts5Tokenizer *tokenizer)
{
    struct fold *f = (struct fold *)tokenizer;
    if (f->it) f->inner.xDelete(f->it);
    free(f);
}

static int fold_create(void *user, const char **arg, int n_arg, Fts5Tokenizer **out)
{
    const char *wanted[] = {"unicode61", "remove_diacritics", "2"};
    fts5_api *fts = user;
    void *inner_user = NULL;
    struct fold *f = calloc(1, sizeof *f);
    (void)arg, (void)n_arg;
    if (!f) return SQLITE_NOMEM;
    int code = fts->xFindTokenizer(fts, "porter", &inner_user, &f->inner);
    if (code == SQLITE_OK) code = f->inner.xCreate(inner_user, wanted, 3, &f->it);
    if (code != SQLITE_OK) {
        free(f);
        return code;
    }
    *out = (Fts5Tokenizer *)f;
    return SQLITE_OK;
}

typedef int (*token_fn)(void *user, int flags, const char *token, int n, int begin, int end);

struct receiver {
    token_fn give;
    void *user;
};

/* One token of the inner tokenizer: as it is, or in pieces. */
static int take_token(void *user, int flags, const char *token, int n, int begin, int end)
{
    struct receiver *r = user;
    int from = 0, code = SQLITE_OK;
    for (int at = 0; at < n && code == SQLITE_OK;) {
        int k = text_utf8_scan(token + at, (size_t)(n - at));
        if (k <= 1 || !tokenizer_splits(text_utf8_get(token + at, k))) {
            at += k > 0 ? k : 1;
            continue;
        }
        if (at > from) code = r->give(r->user, flags, token + from, at - from, begin, end);
        if (code == SQLITE_OK) code = r->give(r->user, flags, token + at, k, begin, end);
        from = at += k;
    }
    return code == SQLITE_OK && from < n ? r->give(r->user, flags, token + from, n - from, begin, end) : code;
}

static int fold_tokenize(Fts5Tokenizer *tokenizer, void *user, int flags, const char *text, int n, token_fn give)
{
    struct fold *f = (struct fold *)tokenizer;
    struct receiver r = {give, user};
    return f->inner.xTokenize(f->it, &r, flags, text, n, take_token);
}

int tokenizer_register(lutra_store *s, struct lutra_error *err)
{
    sqlite3_stmt *stmt = NULL;
    fts5_tokenizer own = {fold_create, fold_delete, fold_tokenize};
    if (sqlite3_prepare_v2(s->db, "SELECT fts5(?1)", -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_pointer(stmt, 1, &s->fts, "fts5_api_ptr", NULL);
        sqlite3_step(stmt);
    }
    sqlite3_finalize(stmt);
    if (!s->fts || s->fts->iVersion < 2)
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s: this SQLite (%s) has no FTS5", s->path, sqlite3_libversion());
    int code = s->fts->xCreateTokenizer(s->fts, "lutra", s->fts, &own, NULL);
    return code == SQLITE_OK ? 0 : store_fail(s, code, err);
}
