/* SPDX-License-Identifier: MIT
 *
 * Ollama's questions about models.  Nothing is pulled, made or removed: models are those that the server started with.
 */
#include <string.h>

#include "models.h"
#include "ollama.h"
#include "state.h"

/* The version of Ollama whose API this is: clients ask for a least one. */
#define API_VERSION "0.12.0"

static void put_details(const struct served *m, struct text *out)
{
    char size[32];
    double n = (double)m->info.n_param;
    snprintf(size, sizeof size, n >= 1e9 ? "%.1fB" : "%.1fM", n >= 1e9 ? n * 1e-9 : n * 1e-6);
    text_put(out, "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":");
    text_json_string(out, m->info.arch ? m->info.arch : "");
    text_put(out, ",\"families\":[");
    text_json_string(out, m->info.arch ? m->info.arch : "");
    text_print(out, "],\"parameter_size\":\"%s\",\"quantization_level\":", size);
    text_json_string(out, m->info.file_type ? m->info.file_type : "");
    text_put(out, "}");
}

/* "name:latest", as Ollama's lists have it. */
static void put_name(const struct served *m, struct text *out)
{
    struct text name = {0};
    text_put(&name, m->set->name[0]);
    if (!strchr(m->set->name[0], ':')) text_put(&name, ":latest");
    text_json_string(out, name.failed ? "" : name.bytes);
    text_free(&name);
}

static void put_models(struct exchange *x, struct text *out, bool running)
{
    struct server *s = x->server;
    text_put(out, "{\"models\":[");
    for (int i = 0, n = 0; i < s->set->n_model; i++) {
        struct served *m = &s->model[i];
        if (!permit_model(x->key, m)) continue;
        const struct served closed = {.set = m->set}, *shown = &closed;
        if (models_try(m)) shown = m;
        if (running && shown != m) continue;
        text_put(out, n++ ? ",{\"name\":" : "{\"name\":");
        put_name(m, out);
        text_put(out, ",\"model\":");
        put_name(m, out);
        text_print(out, running ? ",\"expires_at\":" : ",\"modified_at\":");
        int64_t stays = running ? models_stays(m) : -1;
        if (running && stays < 0)
            text_put(out, "\"2318-12-31T00:00:00Z\""); /* for good */
        else if (running)
            ollama_time((int64_t)time(NULL) + stays / 1000000, out);
        else
            ollama_time(s->start_time, out);
        char digest[SERVER_DIGEST_BYTES];
        models_digest(m, digest);
        text_print(out, ",\"size\":%llu,\"digest\":\"%s\",", (unsigned long long)shown->info.file_bytes, digest);
        if (running) text_print(out, "\"size_vram\":0,\"context_length\":%d,", m->n_ctx);
        put_details(shown, out);
        text_put(out, "}");
        if (shown == m) models_release(m, false);
    }
    text_put(out, "]}");
}

void ollama_version(struct exchange *x, struct text *out, struct problem *p)
{
    (void)x;
    (void)p;
    text_put(out, "{\"version\":\"" API_VERSION "\"}");
}

void ollama_tags(struct exchange *x, struct text *out, struct problem *p)
{
    (void)p;
    put_models(x, out, false);
}

void ollama_ps(struct exchange *x, struct text *out, struct problem *p)
{
    (void)p;
    put_models(x, out, true);
}

void ollama_show(struct exchange *x, struct text *out, struct problem *p)
{
    if (!front_read(x, p)) return;
    const struct served *m = x->model;
    const struct lutra_model_info *i = &m->info;
    const char *arch = i->arch;
    const char *template = x->server->set->chat_template ? x->server->set->chat_template : i->chat_template;
    text_put(out, "{\"modelfile\":\"\",\"parameters\":\"\",\"template\":");
    text_json_string(out, template ? template : "");
    text_put(out, ",");
    put_details(m, out);
    text_put(out, ",\"model_info\":{\"general.architecture\":");
    text_json_string(out, arch);
    text_print(out,
        ",\"general.parameter_count\":%llu,\"%s.context_length\":%d,\"%s.embedding_length\":%d,\"%s.block_count\":%d,"
        "\"%s.attention.head_count\":%d,\"%s.attention.head_count_kv\":%d,\"%s.vocab_size\":%d},\"capabilities\":"
        "[\"%s\"",
        (unsigned long long)i->n_param, arch, m->n_ctx, arch, i->d_model, arch, i->n_layer, arch, i->n_head, arch,
        i->n_kv_head, arch, i->n_vocab, i->encoder ? "embedding" : "completion");
    if (template && strstr(template, "tools")) text_put(out, ",\"tools\"");
    if (i->reasoning_open) text_put(out, ",\"thinking\"");
    text_print(out, "],\"modified_at\":");
    ollama_time(x->server->start_time, out);
    text_put(out, "}");
}
