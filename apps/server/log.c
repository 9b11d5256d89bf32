/* SPDX-License-Identifier: MIT
 *
 * The access log: a JSON object per request on stderr, without anything that was said.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "state.h"

enum { PATH_BYTES = 500 };

void log_access(const struct exchange *x, uint64_t end_us, bool begun, bool ended)
{
    struct text t = {0};
    struct timespec now;
    struct tm utc;
    if (!x->server->set->access_log) return;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    text_print(&t, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"method\":", utc.tm_year + 1900, utc.tm_mon + 1,
        utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
    text_json_string(&t, x->method);
    text_put(&t, ",\"path\":");
    size_t n_path = strlen(x->path); /* a line has at most 4096 bytes, and a byte becomes up to six */
    text_json(&t, x->path, n_path < PATH_BYTES ? n_path : PATH_BYTES);
    if (x->key) {
        text_put(&t, ",\"key\":");
        text_json_string(&t, x->key->name);
    }
    text_print(&t, ",\"status\":%d,\"ms\":%.1f,\"bytes\":%llu", x->status, (double)(end_us - x->start_us) * 1e-3,
        (unsigned long long)x->sent_bytes);
    if (begun && x->at_work && x->reply.n_choice > 0) {
        struct usage u = reply_usage(&x->reply);
        text_print(&t, ",\"prompt_tokens\":%lld,\"cached_tokens\":%lld,\"tokens\":%lld", (long long)u.prompt,
            (long long)u.cached, (long long)u.generated);
        if (x->ask.n_dropped) text_print(&t, ",\"dropped_messages\":%d", x->ask.n_dropped);
    }
    if (ended && x->problem.code) text_print(&t, ",\"error\":\"%s\"", x->problem.code);
    if (!x->complete) text_put(&t, ",\"cut\":true");
    text_put(&t, "}\n");
    if (!t.failed) x->server->set->line(t.bytes, t.n);
    text_free(&t);
}
