/* SPDX-License-Identifier: MIT
 *
 * Every endpoint.  A path that ends in '/' stands for all below it.
 */
#include <stdio.h>
#include <string.h>

#include "state.h"

static void health(struct exchange *x, struct text *out, struct problem *p)
{
    if (atomic_load(&x->server->draining))
        problem_set(p, 503, "shutting_down", NULL, "the server is shutting down");
    else
        text_put(out, "{\"status\":\"ok\"}");
}

static const struct route routes[] = {
    {"GET", "/health", .now = health, .is_public = true},
    {"GET", "/v1/health", .now = health, .is_public = true},
    {"GET", "/v1/models", .now = openai_models},
    {"GET", "/models", .now = openai_models},
    {"GET", "/v1/models/", .now = openai_model},
    {"GET", "/metrics", .now = metrics_show, .type = "text/plain; version=0.0.4; charset=utf-8"},
    {"POST", "/v1/chat/completions", .dialect = &dialect_chat},
    {"POST", "/chat/completions", .dialect = &dialect_chat},
    {"POST", "/v1/completions", .dialect = &dialect_completions},
};

static bool is_meant(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);
    if (r->path[n - 1] == '/' && n > 1) return strncmp(r->path, path, n) == 0 && path[n];
    return strcmp(r->path, path) == 0;
}

const struct route *route_find(const char *method, const char *path, struct problem *p)
{
    const char *other = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!is_meant(&routes[i], path)) continue;
        if (strcmp(routes[i].method, method) == 0) return &routes[i];
        other = routes[i].method;
    }
    if (other)
        problem_set(p, 405, "method_not_allowed", NULL, "%.100s takes %s", path, other);
    else
        problem_set(p, 404, "not_found", NULL, "there is no %.200s here", path);
    p->allow = other;
    return NULL;
}
