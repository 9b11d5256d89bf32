/* SPDX-License-Identifier: MIT
 *
 * Ollama's API: POST /api/chat and /api/generate, lines of JSON; a body becomes one of OpenAI's chat.
 */
#include "ollama.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "openai.h"
#include "state.h"

void ollama_error(const struct problem *p, struct text *out)
{
    text_put(out, "{\"error\":");
    text_json_string(out, p->what);
    text_put(out, "}");
}

static void broken(const struct problem *p, struct text *out)
{
    ollama_error(p, out);
    text_put(out, "\n");
}

void ollama_time(int64_t seconds, struct text *out)
{
    struct tm utc;
    time_t t = (time_t)seconds;
    gmtime_r(&t, &utc);
    text_print(out, "\"%04d-%02d-%02dT%02d:%02d:%02dZ\"", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
        utc.tm_min, utc.tm_sec);
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static void refuse_filled(const struct fields *f, const char *name, const char *why)
{
    const json_t *value = field_any(f, name);
    bool empty = (json_is_array(value) && json_array_size(value) == 0) ||
                 (json_is_string(value) && json_string_length(value) == 0);
    if (value && !empty) field_wrong(f, name, "%s", why);
}

/* What chat and generate share, into a body of OpenAI's. */
/* Go's durations, as "1h30m" and "-1s"; microseconds. */
static bool read_duration(const char *text, double *us)
{
    static const struct {
        const char *name;
        double us;
    } units[] = {{"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"h", 3600e6}};
    double sign = *text == '-' ? -1 : 1;
    text += *text == '-' || *text == '+';
    *us = 0;
    if (!*text) return false;
    while (*text) {
        size_t n = strspn(text, "0123456789."), n_unit = strspn(text + n, "nusmh"), i = 0;
        while (i < 6 && (strlen(units[i].name) != n_unit || memcmp(units[i].name, text + n, n_unit) != 0)) i++;
        if (n == 0 || n > 15 || i == 6) return false;
        *us += sign * strtod(text, NULL) * units[i].us;
        text += n + n_unit;
    }
    return true;
}

/* How long the model stays after this request: seconds or a duration; below 0 for good. */
static void read_keep(struct ask *a, const struct fields *f)
{
    const json_t *keep = field_any(f, "keep_alive");
    double us = json_number_value(keep) * 1e6;
    if (!keep) return;
    if (!json_is_number(keep) && !(json_is_string(keep) && read_duration(json_string_value(keep), &us)))
        field_wrong(f, "keep_alive", "neither seconds nor a duration as \"5m\"");
    a->keeps = true;
    a->keep_us = us < 0 ? -1 : us > 1e15 ? -1 : (int64_t)us;
}

static void convert_common(const struct fields *f, json_t *to)
{
    static const char *const same[] = {"temperature", "top_k", "top_p", "min_p", "typical_p", "seed", "stop",
        "repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty", "mirostat", "mirostat_tau",
        "mirostat_eta"};
    json_t *options = field_object(f, "options"), *format = field_any(f, "format"), *think = field_any(f, "think");
    const json_t *n = json_object_get(options, "num_predict");
    bool stream = true, cuts;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) openai_copy(options, same[i], to, same[i]);
    if (field_bool(f, "truncate", &cuts))
        json_object_set_new(to, "truncation", json_string(cuts ? "auto" : "disabled"));
    openai_copy(f->object, "logprobs", to, "logprobs");
    openai_copy(f->object, "top_logprobs", to, "top_logprobs");
    if (json_is_integer(n) && json_integer_value(n) < 0)
        json_object_set_new(to, "max_tokens", json_integer(-1));
    else
        openai_copy(options, "num_predict", to, "max_tokens");
    if (json_is_string(format) && strcmp(json_string_value(format), "json") == 0)
        json_object_set_new(to, "response_format", json_pack("{s:s}", "type", "json_object"));
    else if (json_is_object(format))
        json_object_set_new(
            to, "response_format", json_pack("{s:s,s:{s:O}}", "type", "json_schema", "json_schema", "schema", format));
    else if (format && !(json_is_string(format) && json_string_length(format) == 0))
        field_wrong(f, "format", "neither \"json\" nor a schema");
    if (json_is_boolean(think)) json_object_set(to, "enable_thinking", think);
    if (json_is_string(think)) json_object_set(to, "reasoning_effort", think);
    field_bool(f, "stream", &stream);
    json_object_set_new(to, "stream", json_boolean(stream));
}

static void read_chat(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    json_t *to = json_object(), *copies = json_array(), *m;
    size_t i;
    convert_common(&f, to);
    read_keep(a, &f);
    json_array_foreach(field_array(&f, "messages"), i, m)
    {
        json_t *copy = json_is_object(m) ? json_copy(m) : json_object();
        struct fields in = {m, "messages", p};
        refuse_filled(&in, "images", "images are not read");
        openai_copy(m, "thinking", copy, "reasoning_content");
        openai_copy(m, "tool_name", copy, "name");
        json_array_append_new(copies, copy);
    }
    json_object_set_new(to, "messages", copies);
    openai_copy(a->body, "tools", to, "tools");
    a->nothing = json_array_size(copies) == 0;
    a->stream = json_is_true(json_object_get(to, "stream"));
    if (a->nothing)
        json_decref(to);
    else
        openai_read_converted(a, to, p);
}

static void read_generate(struct ask *a, struct problem *p)
{
    struct fields f = {.object = a->body, .problem = p};
    const char *prompt = "", *system = NULL, *suffix = "";
    bool raw = false;
    json_t *to = json_object(), *messages = json_array();
    convert_common(&f, to);
    read_keep(a, &f);
    field_text(&f, "prompt", &prompt);
    field_text(&f, "system", &system);
    field_text(&f, "suffix", &suffix);
    field_bool(&f, "raw", &raw);
    refuse_filled(&f, "images", "images are not read");
    refuse_filled(&f, "context", "tokens of an earlier answer are not taken: /api/chat has messages");
    refuse_filled(&f, "template", "templates are the model's, or the server's");
    if (system && *system) json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "system", "content", system));
    json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "user", "content", prompt));
    json_object_set_new(to, "messages", messages);
    a->nothing = !*prompt && !*suffix;
    a->stream = json_is_true(json_object_get(to, "stream"));
    if (a->nothing || p->status) {
        json_decref(to);
        return;
    }
    openai_read_converted(a, to, p);
    if (!raw && !*suffix) return;
    json_decref(a->chat);
    a->chat = NULL;
    a->reasoning_in_text = true;
    a->raw = json_object_get(a->body, "prompt");
    if (*suffix) {
        a->prefix = prompt;
        a->suffix = suffix;
    }
}

/* ---- replies ---------------------------------------------------------------------------------------------------- */

static void open_line(struct reply *r)
{
    const char *asked = r->ask->model;
    text_put(r->out, "{\"model\":");
    text_json_string(r->out, asked && *asked ? asked : r->model->set->name[0]);
    text_put(r->out, ",\"created_at\":");
    ollama_time(r->created, r->out);
}

static void close_line(struct reply *r)
{
    text_put(r->out, "}\n");
}

/* The last line's figures: nanoseconds. */
static void put_end(struct reply *r)
{
    const struct lutra_end *e = r->n_choice ? &r->choice[0].end : NULL;
    text_put(r->out, ",\"done\":true,\"done_reason\":");
    text_json_string(r->out, e ? end_word(e) : "load");
    if (!e) return;
    unsigned long long total = e->end_us * 1000ull, first = e->first_us * 1000ull;
    text_print(r->out,
        ",\"total_duration\":%llu,\"load_duration\":0,\"prompt_eval_count\":%d,\"prompt_eval_duration\":%llu,"
        "\"eval_count\":%d,\"eval_duration\":%llu",
        total, e->n_prompt, first, e->n_tok, total > first ? total - first : 0);
    if (r->ask->n_dropped) text_print(r->out, ",\"dropped_messages\":%d", r->ask->n_dropped);
}

static void put_calls(struct reply *r, const struct choice *c, int from)
{
    text_put(r->out, ",\"tool_calls\":[");
    for (int i = from; i < c->n_call; i++) {
        const struct call *call = &c->call[i];
        text_print(r->out, "%s{\"function\":{\"name\":", i > from ? "," : "");
        text_json_string(r->out, call->name);
        text_put(r->out, ",\"arguments\":");
        reply_arguments(call, r->out);
        text_put(r->out, "}}");
    }
    text_put(r->out, "]");
}

static void put_message(struct reply *r, const char *answer, size_t n_answer, const char *thought, size_t n_thought,
    const struct choice *calls)
{
    text_put(r->out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    text_json(r->out, answer, n_answer);
    if (n_thought > 0) {
        text_put(r->out, ",\"thinking\":");
        text_json(r->out, thought, n_thought);
    }
    if (calls && calls->n_call) put_calls(r, calls, 0);
    text_put(r->out, "}");
}

static bool tells_text(const struct delta *d)
{
    return d->kind == DELTA_ANSWER || d->kind == DELTA_REASONING;
}

static void chat_delta(struct reply *r, const struct delta *d)
{
    const struct choice *c = &r->choice[d->choice];
    bool thought = d->kind == DELTA_REASONING, calls = d->kind == DELTA_END && c->n_call > 0;
    if (!tells_text(d) && !calls) return; /* the end comes with the last line; calls come whole */
    open_line(r);
    put_message(r, thought ? "" : d->text, thought ? 0 : d->n, d->text, thought ? d->n : 0, calls ? c : NULL);
    text_put(r->out, ",\"done\":false");
    close_line(r);
}

static void chat_finish(struct reply *r)
{
    open_line(r);
    put_message(r, "", 0, "", 0, NULL);
    put_end(r);
    close_line(r);
}

static void chat_whole(struct reply *r)
{
    const struct choice none = {0}, *c = r->n_choice ? &r->choice[0] : &none;
    open_line(r);
    put_message(r, c->answer.n ? c->answer.bytes : "", c->answer.n, c->reasoning.n ? c->reasoning.bytes : "",
        c->reasoning.n, c);
    put_end(r);
    text_put(r->out, "}");
}

static void generate_delta(struct reply *r, const struct delta *d)
{
    bool thought = d->kind == DELTA_REASONING;
    if (!tells_text(d)) return;
    open_line(r);
    text_put(r->out, ",\"response\":");
    text_json(r->out, d->text, thought ? 0 : d->n);
    if (thought) text_put(r->out, ",\"thinking\":");
    if (thought) text_json(r->out, d->text, d->n);
    text_put(r->out, ",\"done\":false");
    close_line(r);
}

static void generate_finish(struct reply *r)
{
    open_line(r);
    text_put(r->out, ",\"response\":\"\"");
    put_end(r);
    close_line(r);
}

static void generate_whole(struct reply *r)
{
    const struct choice none = {0}, *c = r->n_choice ? &r->choice[0] : &none;
    open_line(r);
    text_put(r->out, ",\"response\":");
    text_json(r->out, c->answer.n ? c->answer.bytes : "", c->answer.n);
    if (c->reasoning.n) text_put(r->out, ",\"thinking\":");
    if (c->reasoning.n) text_json(r->out, c->reasoning.bytes, c->reasoning.n);
    put_end(r);
    text_put(r->out, "}");
}

const struct dialect dialect_ollama_chat = {
    .name = "ollama",
    .read = read_chat,
    .stream_type = "application/x-ndjson",
    .delta = chat_delta,
    .finish = chat_finish,
    .whole = chat_whole,
    .refuse = ollama_error,
    .broken = broken,
};

const struct dialect dialect_ollama_generate = {
    .name = "ollama",
    .read = read_generate,
    .stream_type = "application/x-ndjson",
    .delta = generate_delta,
    .finish = generate_finish,
    .whole = generate_whole,
    .refuse = ollama_error,
    .broken = broken,
};
