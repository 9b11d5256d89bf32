/* SPDX-License-Identifier: MIT
 *
 * What an answer has in common with a passage: the words of the answer are looked up in the index, part by part.
 */
#include "rag/rag_impl.h"
#include "rag/words.h"

enum { PART_BYTES = 384 /* fewer phrases than QUERY_PHRASES_MAX */, SHOWN_MAX = 5, SHARE_RARE = 20, FEW = 3 };

/* Function words, folded: frequent in any text of the language, so that sharing them says nothing. */
static const char *const function_words =
    " about above after again against all also although always among and another any are around because been before "
    "being below best between both but can cannot could did does doing done down during each either else enough even "
    "ever every few for from further get gets given goes had has have having her here hers him his how however into "
    "its itself just last least less like made make makes many may maybe might more most much must near neither never "
    "next none nor not nothing now off often once one only other our out over own per perhaps please rather same said "
    "say says several shall she should since some still such take than that the their them then there these they this "
    "those though three through thus too toward two under until upon use used uses using very was way well were what "
    "when where whether which while who whose why will with within without would yes yet you your answer question "
    "passage passages according based following information provided text "
    "aber alle als auch auf aus bei bis dann dass das dem den der des die dies diese dieser doch durch ein eine einem "
    "einen einer eines fur haben hat ich ihr immer ist kann kein keine mehr mit nach nicht noch nur oder ohne sein "
    "seine sich sie sind sowie uber und unter vom von vor war waren was wenn wer werden wie wird wir wurde zum zur "
    "aux avec ces cette comme dans des elle elles entre est ete etre fait ils les leur lui mais meme nous ont par pas "
    "plus pour que qui sans ses son sont sous sur tous tout tres une vous "
    "como con cuando del desde donde dos ella ellos entre era esta este esto fue han hasta hay las los mas muy otra "
    "otro para pero por porque que ser sin sobre son son su sus tambien tiene todo una uno unos ";

static bool is_function_word(const char *word, size_t n)
{
    for (const char *at = function_words; (at = memmem(at, strlen(at), word, n)); at++)
        if (at[-1] == ' ' && at[n] == ' ') return true;
    return false;
}

static int no_memory(const lutra_store *s, struct lutra_error *err)
{
    return lutra_fail(err, LUTRA_E_NO_MEMORY, "%s: out of memory", s->path);
}

/* ---- words of the question, without their ends ---- */

static int add_token(void *user, int flags, const char *token, int n, int begin, int end)
{
    struct text *t = user;
    (void)flags, (void)begin, (void)end;
    text_add(t, token, (size_t)n);
    text_add(t, " ", 1);
    return t->failed ? SQLITE_NOMEM : SQLITE_OK;
}

/* " owl count " : each token of the text between blanks. */
static int read_tokens(lutra_store *s, const char *text, size_t n, struct text *out, struct lutra_error *err)
{
    text_add(out, " ", 1);
    int code = tokenizer_run(s, text, n, add_token, out);
    return code == SQLITE_OK ? 0 : store_fail(s, code, err);
}

/* Are all tokens of the phrase among the question's, one behind the other? */
static int is_asked(lutra_store *s, const struct text *asked, const char *phrase, bool *yes, struct lutra_error *err)
{
    struct text t = {0};
    int rc = read_tokens(s, phrase, strlen(phrase), &t, err);
    *yes = rc == 0 && memmem(asked->bytes, asked->n, t.bytes, t.n) != NULL;
    text_fini(&t);
    return rc;
}

/* ---- a part of the answer ---- */

struct sharer {
    lutra_store *store;
    struct text asked; /* tokens of the question */
    struct text out;
    int n_out;
    struct query query;
    struct holders holders;
};

/* In few chunks: one of twenty, and in a small store up to three, but not in most. */
static bool is_rare(int64_t n, int64_t n_chunk)
{
    int64_t few = n_chunk / 2 < FEW ? n_chunk / 2 : FEW, most = n_chunk / SHARE_RARE > few ? n_chunk / SHARE_RARE : few;
    return n >= 1 && n <= (most > 1 ? most : 1);
}

/* A word that says little alone: short ones of ASCII without a digit, function words. */
static bool is_plain(const char *word, size_t n)
{
    bool ascii = true, digit = false;
    for (size_t i = 0; i < n; i++) {
        ascii = ascii && (unsigned char)word[i] < 0x80;
        digit = digit || (word[i] >= '0' && word[i] <= '9');
    }
    return ascii && !digit && (n < 3 || is_function_word(word, n));
}

static bool is_listed(const struct text *list, const char *word, size_t n)
{
    for (const char *at = list->bytes; at && (at = memmem(at, list->n - (size_t)(at - list->bytes), word, n)); at++)
        if ((at == list->bytes || at[-1] == ' ') && (at[n] == 0 || at[n] == ',')) return true;
    return false;
}

static int take_part(struct sharer *s, const char *part, size_t n, struct lutra_error *err)
{
    query_fini(&s->query);
    if (!query_read(&s->query, part, n)) return no_memory(s->store, err);
    if (s->query.n == 0) return 0;
    TRY(find_holders(s->store, &s->query, &s->holders, err));
    for (int i = 0; i < s->query.n && s->n_out < SHOWN_MAX; i++) {
        const char *phrase = s->query.text.bytes + s->query.phrase[i], *word = phrase + 1;
        size_t n_word = strlen(phrase) - 2; /* without its quotes */
        bool asked;
        if (!s->holders.has[i] || !is_rare(s->holders.n[i], s->holders.n_chunk) || is_plain(word, n_word)) continue;
        TRY(is_asked(s->store, &s->asked, phrase, &asked, err));
        if (asked || is_listed(&s->out, word, n_word)) continue;
        if (s->n_out++) text_add(&s->out, ", ", 2);
        text_add(&s->out, word, n_word);
    }
    return s->out.failed ? no_memory(s->store, err) : 0;
}

/* The answer without "[1]". */
static void add_uncited(struct text *out, const char *answer, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t end = at + 1;
        while (answer[at] == '[' && end < n && answer[end] >= '0' && answer[end] <= '9') end++;
        bool cites = end > at + 1 && end < n && answer[end] == ']';
        if (cites)
            at = end + 1;
        else
            text_add(out, answer + at++, 1);
    }
}

int lutra_passages_shared(lutra_store *store, const lutra_passages *passages, int i, const char *question,
    size_t n_question, const char *answer, size_t n_answer, char **words, struct lutra_error *err)
{
    const struct lutra_passage *p = lutra_passages_at(passages, i);
    *words = NULL;
    if (!p)
        return lutra_fail(
            err, LUTRA_E_ARGUMENT, "lutra_passages_shared: passage %d of %d", i, lutra_passages_count(passages));
    struct sharer *s = calloc(1, sizeof *s);
    if (!s) return no_memory(store, err);
    struct text plain = {0};
    s->store = store;
    s->holders.chunk = p->chunk;
    text_add(&s->out, "", 0);
    add_uncited(&plain, answer, answer ? n_answer : 0);
    int rc = plain.failed || s->out.failed ? no_memory(store, err) : 0;
    if (rc == 0) rc = read_tokens(store, question ? question : "", question ? n_question : 0, &s->asked, err);
    for (size_t at = 0; rc == 0 && at < plain.n && s->n_out < SHOWN_MAX;) {
        size_t n = text_cut(plain.bytes + at, plain.n - at, PART_BYTES);
        rc = take_part(s, plain.bytes + at, n, err);
        at += n;
    }
    if (rc == 0) {
        *words = s->out.bytes;
        s->out = (struct text){0};
    }
    query_fini(&s->query);
    text_fini(&s->asked);
    text_fini(&s->out);
    text_fini(&plain);
    free(s);
    return rc;
}
