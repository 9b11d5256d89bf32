/* SPDX-License-Identifier: MIT
 *
 * --keep-texts: what every candidate wrote and how it was judged, so that answers and scores can be audited.  A list
 * with one object per candidate, in the order of their numbers:
 *
 *     {"parent": -1, "text": "...", "answer": "42", "score": 0.5, "rewards": [0.7, 0.5], "end": "end"}
 *
 * parent: the candidate it was forked from, -1 = the prompt; rewards: the verifier's, step by step, those of the parent
 * first; answer: null where it did not finish, or gave none.
 */
#include "eval/eval.h"

#include <jansson.h>
#include <string.h>

/* Bytes that are no UTF-8 have no JSON form: U+FFFD for each byte of a text that has such. */
static json_t *text_json(const char *text, size_t n)
{
    json_t *out = json_stringn(text, n);
    if (out) return out;
    struct buffer b = {0};
    for (size_t i = 0; i < n; i++) {
        bool ascii = (text[i] & 0x80) == 0;
        buffer_add(&b, ascii ? &text[i] : "\xef\xbf\xbd", ascii ? 1 : 3);
    }
    out = json_stringn(b.text, b.n_bytes);
    buffer_free(&b);
    return out;
}

static json_t *candidate(json_t *list, int i)
{
    while ((int)json_array_size(list) <= i)
        json_array_append_new(list, json_pack("{s:i, s:s, s:n, s:f, s:[], s:n}", "parent", -1, "text", "", "answer",
                                        "score", 0.0, "rewards", "end"));
    return json_array_get(list, (size_t)i);
}

void eval_texts_open(struct eval_outcome *out)
{
    out->texts = json_array();
}

void eval_texts_free(struct eval_outcome *out)
{
    json_decref(out->texts);
    out->texts = NULL;
}

void eval_texts_sample(struct eval_outcome *out, int i, const char *text, size_t n_bytes)
{
    const struct eval_sample *s = &out->sample[i];
    json_t *c = candidate(out->texts, i);
    json_object_set_new(c, "text", text_json(text ? text : "", n_bytes));
    json_object_set_new(c, "answer", s->answer ? text_json(s->answer, strlen(s->answer)) : json_null());
}

void eval_texts_end(struct eval_outcome *out, int i, enum lutra_stop reason)
{
    json_object_set_new(candidate(out->texts, i), "end", json_string(eval_reason_text(reason)));
}

static void add_step(json_t *c, const struct lutra_search_event *event)
{
    const char *before = json_string_value(json_object_get(c, "text"));
    struct buffer b = {0};
    buffer_add(&b, before, strlen(before));
    json_t *step = text_json(event->text, strlen(event->text));
    buffer_add(&b, json_string_value(step), json_string_length(step));
    json_object_set_new(c, "text", json_string(b.text));
    json_object_set_new(c, "score", json_real(event->score));
    json_array_append_new(json_object_get(c, "rewards"), json_real(event->reward));
    json_decref(step);
    buffer_free(&b);
}

void eval_texts_event(struct eval_outcome *out, const struct lutra_search_event *event)
{
    json_t *c = candidate(out->texts, event->candidate);
    if (event->kind == LUTRA_EVENT_STEP) add_step(c, event);
    if (event->kind == LUTRA_EVENT_FORK && event->parent >= 0) {
        json_t *copy = json_deep_copy(candidate(out->texts, event->parent));
        json_object_set_new(copy, "parent", json_integer(event->parent));
        json_object_set_new(copy, "answer", json_null());
        json_object_set_new(copy, "end", json_null());
        json_array_set_new(out->texts, (size_t)event->candidate, copy);
    }
    if (event->kind == LUTRA_EVENT_FINISH && *event->answer)
        json_object_set_new(c, "answer", text_json(event->answer, strlen(event->answer)));
}
