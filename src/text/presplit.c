/* SPDX-License-Identifier: MIT
 *
 * Pre-splits: how text is cut into words before merging, by the name that GGUF gives in `tokenizer.ggml.pre`.
 */
#include <string.h>

#include "base/status.h"
#include "text/vocab_impl.h"

/* Unicode White_Space; PCRE2's \s would add U+180E, which the models' tokenizers do not count as space. */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"
#define CONTRACTION_ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPLIT_LIKE_CL100K(digits)                                                                                      \
    CONTRACTION_ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|[" SPACE      \
                         "]*[\\r\\n]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define SPLIT_GPT2                                                                                                     \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]" \
    "+"

struct pre {
    const char *name, *pattern;
    bool ignore_merges;
};

static const struct pre pres[] = {
    {"gpt-2", SPLIT_GPT2, false},
    {"llama-bpe", SPLIT_LIKE_CL100K("\\p{N}{1,3}"), true},
    {"llama3", SPLIT_LIKE_CL100K("\\p{N}{1,3}"), true},
    {"llama-v3", SPLIT_LIKE_CL100K("\\p{N}{1,3}"), true},
    {"falcon3", SPLIT_LIKE_CL100K("\\p{N}{1,3}"), true},
    {"qwen2", SPLIT_LIKE_CL100K("\\p{N}"), false},
    {"deepseek-r1-qwen", SPLIT_LIKE_CL100K("\\p{N}"), false},
};

int text_presplit_open(pcre2_code **out, const char *name, bool *ignore_merges, struct lutra_error *err)
{
    if (!name) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "tokenizer.ggml.pre is missing: the pre-split is unknown");
    const struct pre *pre = NULL;
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        if (strcmp(name, pres[i].name) == 0) pre = &pres[i];
    }
    if (!pre) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "tokenizer.ggml.pre '%s' is not supported", name);
    int code;
    PCRE2_SIZE where;
    *out = pcre2_compile(
        (PCRE2_SPTR)pre->pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &where, NULL);
    if (!*out && code == PCRE2_ERROR_HEAP_FAILED) return lutra_fail(err, LUTRA_E_NO_MEMORY, "pre-split: out of memory");
    if (!*out) return lutra_fail(err, LUTRA_E_INTERNAL, "pre-split '%s': PCRE2 error %d at %zu", name, code, where);
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT matching is slower, not different */
    *ignore_merges = pre->ignore_merges;
    return 0;
}
