/* SPDX-License-Identifier: MIT
 *
 * A query and a document as the one text that a ranking model reads.
 */
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "engine/model.h"
#include "text/encode.h"

#define TEMPLATE_KEY "tokenizer.chat_template.rerank"

/* Text put together of parts, with marks for what is a stranger's. */
struct filled {
    char *text;     /* [n] */
    uint8_t *input; /* [n] */
    size_t n;
};

static void add(struct filled *f, const char *text, size_t n, bool input)
{
    if (f->text && n) memcpy(f->text + f->n, text, n);
    if (f->input) memset(f->input + f->n, input, n);
    f->n += n;
}

/* The template with both texts in their places; without memory yet, f->n alone. */
static void fill(struct filled *f, struct gguf_str form, const char *query, const char *document)
{
    const struct {
        const char *name, *value;
    } place[] = {{"{query}", query}, {"{document}", document}};
    f->n = 0;
    for (size_t at = 0, n; at < form.n; at += n) {
        const char *value = NULL;
        n = 1;
        for (int i = 0; i < 2 && !value; i++) {
            size_t n_name = strlen(place[i].name);
            if (form.n - at >= n_name && memcmp(form.s + at, place[i].name, n_name) == 0)
                value = place[i].value, n = n_name;
        }
        add(f, value ? value : form.s + at, value ? strlen(value) : 1, value != NULL);
    }
}

static int by_template(const struct lutra_model *m, struct gguf_str form, const char *query, const char *document,
    struct text_tokens *out, struct lutra_error *err)
{
    struct filled f = {0};
    fill(&f, form, query, document);
    f.text = malloc(f.n + 1);
    f.input = malloc(f.n + 1);
    int rc = f.text && f.input ? 0 : lutra_fail(err, LUTRA_E_NO_MEMORY, "rerank: out of memory");
    if (rc == 0) {
        fill(&f, form, query, document);
        rc =
            text_encode_marked(m->vocab, (struct text_bytes){f.text, f.n}, f.input, TEXT_PARSE_SPECIAL, NULL, out, err);
    }
    free(f.text);
    free(f.input);
    return rc;
}

/* A special token where the vocabulary adds it. */
static int add_special(struct text_tokens *out, bool adds, int32_t id, struct lutra_error *err)
{
    if (!adds || id < 0) return 0;
    return text_tokens_push(out, id) < 0 ? lutra_fail(err, LUTRA_E_NO_MEMORY, "rerank: out of memory") : 0;
}

/* [BOS] query [EOS] [SEP] document [EOS], of which a vocabulary has what it adds; BERT's end is [SEP]. */
static int as_pair(const struct lutra_model *m, const char *query, const char *document, struct text_tokens *out,
    size_t *n_first, struct lutra_error *err)
{
    const struct text_vocab *v = m->vocab;
    TRY(add_special(out, text_vocab_adds_bos(v), text_vocab_special(v, TEXT_BOS), err));
    TRY(text_encode(v, query, strlen(query), 0, out, err));
    TRY(add_special(out, text_vocab_adds_eos(v), text_vocab_special(v, TEXT_EOS), err));
    TRY(add_special(out, text_vocab_adds_sep(v), text_vocab_special(v, TEXT_SEP), err));
    *n_first = out->n;
    TRY(text_encode(v, document, strlen(document), 0, out, err));
    return add_special(out, text_vocab_adds_eos(v), text_vocab_special(v, TEXT_EOS), err);
}

int lutra_rerank_tokenize(const lutra_model *m, const char *query, const char *document, int32_t *tokens, int n_max,
    int *n_tok, int *n_first, struct lutra_error *err)
{
    struct text_tokens all = {0};
    struct gguf_str form = {NULL, 0};
    size_t first = 0;
    TRY(handle_check(m, "model", err));
    *n_tok = *n_first = 0;
    if (!query || !document) return lutra_fail(err, LUTRA_E_ARGUMENT, "rerank: no query or no document");
    if (!model_ranks(m))
        return lutra_fail(err, LUTRA_E_UNSUPPORTED, "rerank: model '%s' has no head that ranks", m->name);
    TRY(weights_opt_str(m->weights, TEMPLATE_KEY, &form, err));
    int rc = form.s ? by_template(m, form, query, document, &all, err) : as_pair(m, query, document, &all, &first, err);
    if (rc == 0) {
        text_tokens_give(&all, tokens, n_max, n_tok);
        *n_first = (int)(form.s ? all.n : first);
    }
    text_tokens_fini(&all);
    return rc;
}
