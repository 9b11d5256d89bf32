/* SPDX-License-Identifier: MIT
 *
 * Documents by how well they answer a query: Jina's and Cohere's POST /v1/rerank, llama.cpp's /rerank and /reranking.
 */
#include "rerank.h"

#include <stdlib.h>

#include "llama.h"
#include "state.h"

static void read_pairs(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    const char *query = NULL;
    a->embeds = a->ranks = true;
    a->raw_name = "documents";
    if (!field_text(&f, "query", &query)) field_wrong(&f, "query", "missing");
    a->query = query;
    a->raw = field_array(&f, "documents");
    if (!a->raw) field_wrong(&f, "documents", "missing");
    if (a->raw && json_array_size(a->raw) == 0) field_wrong(&f, "documents", "an empty list");
    a->n = ASK_TEXTS_MAX;
    field_int(&f, "top_n", 1, 1 << 30, &a->n);
    field_bool(&f, "return_documents", &a->echo);
}

const char *rerank_document(const json_t *document)
{
    return json_string_value(json_is_object(document) ? json_object_get(document, "text") : document);
}

/* A document's place and its score. */
struct ranked {
    int index;
    float score;
};

/* Better ones first, of equal ones the earlier. */
static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score) : x->index - y->index;
}

static void tell_ranks(struct reply *r)
{
    const struct ask *a = r->ask;
    struct ranked *list = calloc((size_t)a->n_prompt, sizeof *list);
    long long n_token = 0;
    if (!list) {
        r->out->failed = true;
        return;
    }
    for (int i = 0; i < a->n_prompt; i++) {
        list[i] = (struct ranked){i, a->vector[i]};
        n_token += a->prompt[i].n_token;
    }
    qsort(list, (size_t)a->n_prompt, sizeof *list, by_score);
    text_put(r->out, "{\"object\":\"list\",\"model\":");
    text_json_string(r->out, r->model->set->name[0]);
    text_print(r->out, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld},\"results\":[", n_token, n_token);
    for (int i = 0; i < a->n_prompt && i < a->n; i++) {
        text_print(
            r->out, "%s{\"index\":%d,\"relevance_score\":%.9g", i ? "," : "", list[i].index, (double)list[i].score);
        if (a->echo) {
            text_put(r->out, ",\"document\":{\"text\":");
            text_json_string(r->out, rerank_document(json_array_get(a->raw, (size_t)list[i].index)));
            text_put(r->out, "}");
        }
        text_put(r->out, "}");
    }
    text_put(r->out, "]}");
    free(list);
}

const struct dialect dialect_rerank = {
    .name = "openai", .read = read_pairs, .whole = tell_ranks, .refuse = openai_error};
const struct dialect dialect_rerank_llama = {
    .name = "llama.cpp", .read = read_pairs, .whole = tell_ranks, .refuse = llama_error};
