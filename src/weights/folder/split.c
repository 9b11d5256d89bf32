/* SPDX-License-Identifier: MIT
 *
 * A tokenizer.json's pre_tokenizer as a name of tokenizer.ggml.pre (text/presplit.c).  It is recognised by what it is
 * made of, patterns letter by letter: one that merely looks alike may cut text elsewhere.
 */
#include "weights/folder/folder_impl.h"

#include <string.h>

#define ENGLISH "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LIKE_CL100K(digits) ENGLISH "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define CASED(end)                                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" end                    \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" end
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* How a step is written here: a pattern, or these. */
#define BYTE_LEVEL_SPLITS "<bytes>" /* ByteLevel with use_regex: GPT-2's pattern */
#define DIGITS_ONE_BY_ONE "<digits>"

enum { MAX_STEPS = 4 };

static const struct split {
    const char *name;
    bool ignore_merges; /* of models that take whole words first, only */
    const char *step[MAX_STEPS];
} splits[] = {
    {"gpt-2", false, {BYTE_LEVEL_SPLITS}},
    {"gpt-2", false, {GPT2}},
    {"starcoder", false, {DIGITS_ONE_BY_ONE, BYTE_LEVEL_SPLITS}},
    {"llama-bpe", true, {LIKE_CL100K("\\p{N}{1,3}")}},
    {"dbrx", false, {LIKE_CL100K("\\p{N}{1,3}")}},
    {"qwen2", false, {LIKE_CL100K("\\p{N}")}},
    {"qwen35", false,
        {ENGLISH "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES}},
    {"tekken", false, {CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"gpt-4o", false, {CASED(ENGLISH "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"tiny_aya", false,
        {"\\d{1,3}(?=(?:\\d{3})*\\b)", CASED(ENGLISH "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"superbpe", false, {"\\p{N}+", "(?=(\\d{3})+(?!\\d))"}},
    {"deepseek-v3", false,
        {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
            "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
};

static bool is_type(const json_t *step, const char *type)
{
    const char *is = json_string_value(json_object_get(step, "type"));
    return is && strcmp(is, type) == 0;
}

/* A step as `splits` writes it; "" for one that cuts nothing, NULL for one that is not known. */
static const char *step_text(const json_t *step)
{
    const char *behaviour = json_string_value(json_object_get(step, "behavior"));
    const char *pattern = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    bool inverted = json_is_true(json_object_get(step, "invert"));
    if (is_type(step, "ByteLevel")) {
        if (json_is_true(json_object_get(step, "add_prefix_space"))) return NULL;
        return json_is_false(json_object_get(step, "use_regex")) ? "" : BYTE_LEVEL_SPLITS;
    }
    if (is_type(step, "Digits"))
        return json_is_true(json_object_get(step, "individual_digits")) ? DIGITS_ONE_BY_ONE : NULL;
    if (!is_type(step, "Split") || !behaviour || !pattern) return NULL;
    /* Matches stand alone; the patterns match everything, so that removing what they do not match is the same. */
    return strcmp(behaviour, "Isolated") == 0 || (inverted && strcmp(behaviour, "Removed") == 0) ? pattern : NULL;
}

static bool same_steps(const struct split *s, const char *const step[MAX_STEPS])
{
    for (int i = 0; i < MAX_STEPS; i++)
        if (!s->step[i] != !step[i] || (step[i] && strcmp(s->step[i], step[i]) != 0)) return false;
    return true;
}

int folder_split_name(
    const struct folder *f, const json_t *pre_tokenizer, bool ignore_merges, const char **out, struct lutra_error *err)
{
    const json_t *list = json_object_get(pre_tokenizer, "pretokenizers");
    const char *step[MAX_STEPS] = {NULL}, *text = NULL;
    size_t n = is_type(pre_tokenizer, "Sequence") ? json_array_size(list) : 1;
    int n_step = 0;
    for (size_t i = 0; i < n; i++) {
        text = step_text(is_type(pre_tokenizer, "Sequence") ? json_array_get(list, i) : pre_tokenizer);
        if (!text || n_step == MAX_STEPS)
            return lutra_fail(err, LUTRA_E_UNSUPPORTED,
                "%s/tokenizer.json: step %zu of its pre_tokenizer is not implemented", f->label, i + 1);
        if (*text) step[n_step++] = text;
    }
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        if (!same_steps(&splits[i], step) || (splits[i].ignore_merges && !ignore_merges)) continue;
        *out = splits[i].name;
        return 0;
    }
    return lutra_fail(err, LUTRA_E_UNSUPPORTED, "%s/tokenizer.json: the split '%s' of its pre_tokenizer is not known",
        f->label,
        show_name(text && *text ? text
                  : step[0]     ? step[0]
                                : "(none)")
            .s);
}

json_t *folder_split_json(const char *name)
{
    const struct split *s = splits;
    json_t *list = json_array();
    while (strcmp(s->name, name) != 0 || *s->step[0] == '<') s++;
    for (int i = 0; i < MAX_STEPS && s->step[i]; i++)
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                        s->step[i], "behavior", "Isolated", "invert", 0));
    json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                                    "trim_offsets", 0, "use_regex", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}
