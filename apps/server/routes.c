/* SPDX-License-Identifier: MIT
 *
 * Every endpoint.  A path that ends in '/' stands for all below it.
 */
#include <stdio.h>
#include <string.h>

#include "anthropic.h"
#include "embed.h"
#include "llama.h"
#include "ollama.h"
#include "page.h"
#include "rerank.h"
#include "state.h"

static void health(struct exchange *x, struct text *out, struct problem *p)
{
    if (atomic_load(&x->server->draining))
        problem_set(p, 503, "shutting_down", NULL, "the server is shutting down");
    else
        text_put(out, "{\"status\":\"ok\"}");
}

static void no_changes(struct exchange *x, struct text *out, struct problem *p)
{
    (void)x;
    (void)out;
    problem_set(p, 501, "not_implemented", NULL,
        "models are those that the server was started with; 'lutra pull' fetches others");
}

static const struct route routes[] = {
    {"GET", "/health", .now = health, .is_public = true},
    {"GET", "/v1/health", .now = health, .is_public = true},
    {"GET", "/", .now = page_root, .type = "text/plain; charset=utf-8", .is_public = true},
    {"GET", "/page/", .now = page_show, .is_public = true},
    {"GET", "/metrics", .now = metrics_show, .type = "text/plain; version=0.0.4; charset=utf-8"},
    /* OpenAI */
    {"GET", "/v1/models", .now = openai_models},
    {"GET", "/models", .now = openai_models},
    {"GET", "/v1/models/", .now = openai_model},
    {"POST", "/v1/chat/completions", .dialect = &dialect_chat},
    {"POST", "/chat/completions", .dialect = &dialect_chat},
    {"POST", "/v1/completions", .dialect = &dialect_completions},
    {"POST", "/v1/responses", .dialect = &dialect_responses},
    {"POST", "/v1/embeddings", .dialect = &dialect_embed},
    {"POST", "/v1/rerank", .dialect = &dialect_rerank},
    /* llama.cpp */
    {"GET", "/props", .now = llama_props, .refuse = llama_error},
    {"GET", "/slots", .now = llama_slots, .refuse = llama_error},
    {"POST", "/completion", .dialect = &dialect_llama},
    {"POST", "/completions", .dialect = &dialect_llama},
    {"POST", "/infill", .dialect = &dialect_infill},
    {"POST", "/embedding", .dialect = &dialect_embed_llama},
    {"POST", "/embeddings", .dialect = &dialect_embed_llama},
    {"POST", "/rerank", .dialect = &dialect_rerank_llama},
    {"POST", "/reranking", .dialect = &dialect_rerank_llama},
    {"POST", "/v1/reranking", .dialect = &dialect_rerank_llama},
    {"POST", "/tokenize", .body = llama_tokenize, .refuse = llama_error},
    {"POST", "/detokenize", .body = llama_detokenize, .refuse = llama_error},
    {"POST", "/apply-template", .body = llama_template, .refuse = llama_error},
    {"POST", "/models/load", .body = llama_load, .refuse = llama_error},
    {"POST", "/models/unload", .body = llama_unload, .refuse = llama_error},
    /* Ollama */
    {"GET", "/api/version", .now = ollama_version, .refuse = ollama_error},
    {"GET", "/api/tags", .now = ollama_tags, .refuse = ollama_error},
    {"GET", "/api/ps", .now = ollama_ps, .refuse = ollama_error},
    {"POST", "/api/show", .body = ollama_show, .refuse = ollama_error},
    {"POST", "/api/chat", .dialect = &dialect_ollama_chat},
    {"POST", "/api/generate", .dialect = &dialect_ollama_generate},
    {"POST", "/api/embed", .dialect = &dialect_embed_ollama},
    {"POST", "/api/embeddings", .dialect = &dialect_embed_ollama_one},
    {"POST", "/api/pull", .now = no_changes, .refuse = ollama_error},
    {"POST", "/api/push", .now = no_changes, .refuse = ollama_error},
    {"POST", "/api/create", .now = no_changes, .refuse = ollama_error},
    {"POST", "/api/copy", .now = no_changes, .refuse = ollama_error},
    {"DELETE", "/api/delete", .now = no_changes, .refuse = ollama_error},
    /* Anthropic */
    {"POST", "/v1/messages", .dialect = &dialect_anthropic},
    {"POST", "/v1/messages/count_tokens", .body = anthropic_count, .refuse = anthropic_error},
};

/* What these APIs have and this server does not, by any method: 501. */
static const struct {
    const char *path, *why;
} absent[] = {
    {"/slots/", "prompts are not kept in files"},
    {"/lora-adapters", "adapters are those of the start (--lora), for all requests"},
    {"/v1/responses/", "replies are not stored"},
    {"/v1/conversations", "conversations are not stored"},
    {"/v1/conversations/", "conversations are not stored"},
    {"/v1/threads", "conversations are not stored"},
    {"/v1/assistants", "conversations are not stored"},
    {"/v1/messages/batches", "there are no batches: send the requests together"},
    {"/v1/messages/batches/", "there are no batches"},
    {"/v1/batches", "there are no batches: send the requests together"},
    {"/v1/files", "files are not stored"},
    {"/v1/files/", "files are not stored"},
    {"/v1/audio/", "sounds are neither read nor written"},
    {"/v1/images/", "images are neither read nor written"},
    {"/v1/moderations", "there are no moderations"},
    {"/v1/fine_tuning/", "models are not trained"},
    {"/api/blobs/", "models are those that the server was started with; 'lutra pull' fetches others"},
};

static bool is_meant(const char *meant, const char *path)
{
    size_t n = strlen(meant);
    if (meant[n - 1] == '/' && n > 1) return strncmp(meant, path, n) == 0 && path[n];
    return strcmp(meant, path) == 0;
}

const struct route *route_find(const char *method, const char *path, struct problem *p)
{
    const char *other = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!is_meant(routes[i].path, path)) continue;
        if (strcmp(routes[i].method, method) == 0) return &routes[i];
        other = routes[i].method;
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent && !other; i++) {
        if (!is_meant(absent[i].path, path)) continue;
        problem_set(p, 501, "not_implemented", NULL, "%.100s: %s", path, absent[i].why);
        return NULL;
    }
    if (other)
        problem_set(p, 405, "method_not_allowed", NULL, "%.100s takes %s", path, other);
    else
        problem_set(p, 404, "not_found", NULL, "there is no %.200s here", path);
    p->allow = other;
    return NULL;
}
