/* SPDX-License-Identifier: MIT
 *
 * The access log on stderr, without anything that was said: a JSON object for each request, or a short line for people,
 * who are not told of each file of the page.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "state.h"

enum { PATH_BYTES = 500 };

static void add_json(struct text *t, const struct exchange *x, double ms, const struct usage *u, bool ended)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    text_print(t, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"method\":", utc.tm_year + 1900, utc.tm_mon + 1,
        utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
    text_json_string(t, x->method);
    text_put(t, ",\"path\":");
    size_t n_path = strlen(x->path); /* a line has at most 4096 bytes, and a byte becomes up to six */
    text_json(t, x->path, n_path < PATH_BYTES ? n_path : PATH_BYTES);
    if (x->key) {
        text_put(t, ",\"key\":");
        text_json_string(t, x->key->name);
    }
    text_print(t, ",\"status\":%d,\"ms\":%.1f,\"bytes\":%llu", x->status, ms, (unsigned long long)x->sent_bytes);
    if (u) {
        text_print(t, ",\"prompt_tokens\":%lld,\"cached_tokens\":%lld,\"tokens\":%lld", (long long)u->prompt,
            (long long)u->cached, (long long)u->generated);
        if (x->ask.n_dropped) text_print(t, ",\"dropped_messages\":%d", x->ask.n_dropped);
    }
    if (ended && x->problem.code) text_print(t, ",\"error\":\"%s\"", x->problem.code);
    if (!x->complete) text_put(t, ",\"cut\":true");
    text_put(t, "}\n");
}

/* Nothing that a client or a key's file says may move a terminal's cursor. */
static void add_plain(struct text *t, const char *s)
{
    for (size_t i = 0; s[i] && i < PATH_BYTES; i++) text_add(t, s[i] > ' ' && s[i] < 0x7f ? s + i : "?", 1);
}

/* "09:41:07 POST /v1/chat/completions 200, 24 tokens in (20 cached), 311 out, 3.21 s, phone" */
static void add_line(struct text *t, const struct exchange *x, double ms, const struct usage *u, bool ended)
{
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    text_print(t, "%02d:%02d:%02d ", local.tm_hour, local.tm_min, local.tm_sec);
    add_plain(t, x->method), text_put(t, " "), add_plain(t, x->path);
    text_print(t, " %d", x->status);
    if (u) {
        text_print(t, ", %lld tokens in", (long long)u->prompt);
        if (u->cached) text_print(t, " (%lld cached)", (long long)u->cached);
        text_print(t, ", %lld out", (long long)u->generated);
        if (x->ask.n_dropped) text_print(t, ", %d messages dropped", x->ask.n_dropped);
    }
    text_print(t, ", %.2f s", ms * 1e-3);
    if (x->key) text_put(t, ", "), add_plain(t, x->key->name);
    if (ended && x->problem.code) text_print(t, ", %s", x->problem.code);
    text_put(t, x->complete ? "\n" : ", cut off\n");
}

void log_access(const struct exchange *x, uint64_t end_us, bool begun, bool ended)
{
    const struct server_settings *set = x->server->set;
    const double ms = (double)(end_us - x->start_us) * 1e-3;
    struct text t = {0};
    struct usage usage;
    const bool replied = begun && x->at_work && x->reply.n_choice > 0;
    const bool asks = strcmp(x->method, "POST") == 0 || x->status >= 400 || !x->complete;
    if (!set->access_log || !(set->log_json || set->log_all || asks)) return;
    if (replied) usage = reply_usage(&x->reply);
    (set->log_json ? add_json : add_line)(&t, x, ms, replied ? &usage : NULL, ended);
    if (!t.failed) set->line(t.bytes, t.n);
    text_free(&t);
}
