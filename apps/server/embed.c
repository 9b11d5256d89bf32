/* SPDX-License-Identifier: MIT
 *
 * Texts as vectors: OpenAI's POST /v1/embeddings, Ollama's /api/embed and /api/embeddings, llama.cpp's /embedding.
 */
#include "embed.h"

#include <stdlib.h>
#include <string.h>

#include "llama.h"
#include "ollama.h"
#include "state.h"

enum { SLICE_TOKENS = 512 }; /* of texts that are evaluated while other requests wait */

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void read_input(struct ask *a, const struct fields *f, const char *name)
{
    a->embeds = true;
    a->raw = field_any(f, name);
    a->raw_name = name;
    if (!a->raw) field_wrong(f, name, "missing");
    if (json_is_array(a->raw) && json_array_size(a->raw) == 0) field_wrong(f, name, "an empty list");
    field_int(f, "dimensions", 1, 1 << 30, &a->dimensions);
}

static void read_openai(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    const char *format = "float";
    read_input(a, &f, "input");
    field_text(&f, "encoding_format", &format);
    a->base64 = strcmp(format, "base64") == 0;
    if (!a->base64 && strcmp(format, "float") != 0) field_wrong(&f, "encoding_format", "neither float nor base64");
}

static void read_ollama(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    bool cuts = true;
    read_input(a, &f, "input");
    field_bool(&f, "truncate", &cuts);
    a->cuts = cuts;
}

static void read_ollama_prompt(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    read_input(a, &f, "prompt");
    a->cuts = true;
    if (a->raw && !json_is_string(a->raw)) field_wrong(&f, "prompt", "not a string");
}

static void read_llama(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    int norm = 2;
    read_input(a, &f, field_any(&f, "input") ? "input" : "content");
    if (field_int(&f, "embd_normalize", -1, 1 << 30, &norm) && norm != 2)
        field_wrong(&f, "embd_normalize", "vectors have length 1 (2)");
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

bool embed_is_over(const struct exchange *x)
{
    return x->ask.n_vector == x->ask.n_prompt || x->refusal.status || atomic_load(&x->gone);
}

void embed_step(struct exchange *x, bool others)
{
    struct ask *a = &x->ask;
    struct lutra_error err = {0};
    struct lutra_embed_text text[ASK_PROMPTS_MAX];
    struct lutra_rerank_pair pair[ASK_PROMPTS_MAX];
    float *out = a->vector + (size_t)a->n_vector * (a->ranks ? 1 : (size_t)x->model->info.d_model);
    lutra_session *session = x->model->loaded.session;
    int n = 0;
    for (int n_token = 0; a->n_vector + n < a->n_prompt && n < ASK_PROMPTS_MAX; n++) {
        const struct prompt *p = &a->prompt[a->n_vector + n];
        n_token += p->n_token;
        if (n > 0 && n_token > SLICE_TOKENS) break;
        text[n] = (struct lutra_embed_text){p->token, p->n_token};
        pair[n] = (struct lutra_rerank_pair){p->token, p->n_token, p->n_first};
    }
    int rc = a->ranks ? lutra_rerank(session, pair, n, sizeof *pair, out, &err)
                      : lutra_embed(session, text, n, x->model->loaded.pooling, out, &err);
    if (rc == 0) a->n_vector += n;
    if (rc == LUTRA_E_CTX_FULL && others) return; /* of the cache; there will be room when they end */
    if (rc == LUTRA_E_UNSUPPORTED && !a->ranks)
        problem_set(&x->refusal, 400, "unsupported_value", "model", "%s (lutra serve --pooling)", err.what);
    else if (rc < 0)
        problem_from(&x->refusal, a->raw_name, &err);
}

/* ---- replies ---------------------------------------------------------------------------------------------------- */

static void put_list(const struct reply *r, int i, struct text *out)
{
    int n = r->model->info.d_model;
    const float *v = r->ask->vector + (size_t)i * (size_t)n;
    for (int d = 0; d < n; d++) text_print(out, "%c%.9g", d ? ',' : '[', (double)v[d]);
    text_put(out, "]");
}

/* Its floats, least byte first, as base64. */
static void put_base64(const struct reply *r, int i, struct text *out)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = (size_t)r->model->info.d_model;
    const float *v = r->ask->vector + (size_t)i * n;
    text_put(out, "\"");
    for (size_t at = 0; at < 4 * n; at += 3) {
        uint32_t three = 0;
        size_t n_byte = 4 * n - at < 3 ? 4 * n - at : 3;
        char four[] = "====";
        for (size_t k = 0; k < n_byte; k++) {
            uint32_t bits;
            memcpy(&bits, &v[(at + k) / 4], sizeof bits);
            three |= (bits >> 8 * ((at + k) % 4) & 255) << (16 - 8 * k);
        }
        for (size_t k = 0; k <= n_byte; k++) four[k] = digit[three >> (18 - 6 * k) & 63];
        text_add(out, four, 4);
    }
    text_put(out, "\"");
}

static long long count_tokens(const struct reply *r)
{
    long long n = 0;
    for (int i = 0; i < r->ask->n_prompt; i++) n += r->ask->prompt[i].n_token;
    return n;
}

static void tell_openai(struct reply *r)
{
    text_put(r->out, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < r->ask->n_prompt; i++) {
        text_print(r->out, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":", i ? "," : "", i);
        (r->ask->base64 ? put_base64 : put_list)(r, i, r->out);
        text_put(r->out, "}");
    }
    text_put(r->out, "],\"model\":");
    text_json_string(r->out, r->model->set->name[0]);
    text_print(r->out, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}", count_tokens(r), count_tokens(r));
}

static void tell_ollama(struct reply *r)
{
    const char *asked = r->ask->model;
    text_put(r->out, "{\"model\":");
    text_json_string(r->out, asked && *asked ? asked : r->model->set->name[0]);
    text_put(r->out, ",\"embeddings\":[");
    for (int i = 0; i < r->ask->n_prompt; i++) {
        if (i) text_put(r->out, ",");
        put_list(r, i, r->out);
    }
    text_print(r->out, "],\"total_duration\":%llu,\"load_duration\":%llu,\"prompt_eval_count\":%lld}",
        (unsigned long long)(clock_us() - r->start_us) * 1000, (unsigned long long)r->load_us * 1000, count_tokens(r));
}

static void tell_ollama_one(struct reply *r)
{
    text_put(r->out, "{\"embedding\":");
    put_list(r, 0, r->out);
    text_put(r->out, "}");
}

static void tell_llama(struct reply *r)
{
    for (int i = 0; i < r->ask->n_prompt; i++) {
        text_print(r->out, "%s{\"index\":%d,\"embedding\":[", i ? "," : "[", i);
        put_list(r, i, r->out);
        text_put(r->out, "]}");
    }
    text_put(r->out, "]");
}

const struct dialect dialect_embed = {
    .name = "openai", .read = read_openai, .whole = tell_openai, .refuse = openai_error};
const struct dialect dialect_embed_llama = {
    .name = "llama.cpp", .read = read_llama, .whole = tell_llama, .refuse = llama_error};
const struct dialect dialect_embed_ollama = {
    .name = "ollama", .read = read_ollama, .whole = tell_ollama, .refuse = ollama_error};
const struct dialect dialect_embed_ollama_one = {
    .name = "ollama", .read = read_ollama_prompt, .whole = tell_ollama_one, .refuse = ollama_error};
