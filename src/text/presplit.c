/* SPDX-License-Identifier: MIT
 *
 * Pre-splits: how text is cut into words before merging, by the name that GGUF gives in `tokenizer.ggml.pre`.
 *
 * A split is a list of patterns.  The first cuts the text into its matches and what lies between them; each further
 * one cuts those pieces again, and sees nothing outside its piece.  Names and what a name implies are llama.cpp's
 * (src/llama-vocab.cpp).  So are the patterns, except where a tokenizer.json of such a name has a finer one: that
 * stands here.  classes.c says what a pattern may consist of.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "text/vocab_impl.h"

#define ENGLISH "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define OTHERS(and_end) " ?[^\\s\\p{L}\\p{N}]+[\\r\\n" and_end "]*"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* A word of capitals, then small letters: at least one of these, or at least one of those. */
#define CAPITAL "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)                                                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" CAPITAL "*" SMALL "+" end "|[^\\r\\n\\p{L}\\p{N}]?" CAPITAL "+" SMALL "*" end

#define LIKE_GPT2 "'(?:[stmd]|re|ve|ll)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/* Digits in groups of three counted from the right: the first group of a run, of one to three. */
#define FIRST_DIGITS(n_max, end) "(?<!\\p{Nd})\\p{Nd}{1," n_max "}(?=(?:\\p{Nd}{3})*+" end ")"
#define NO_WORD "(?![\\p{L}\\p{M}\\p{Nd}\\p{Pc}])"
#define NO_DIGIT "(?!\\p{Nd})"
#define LIKE_GPT4O CASED("(?:" ENGLISH ")?") "|\\p{N}{1,3}|" OTHERS("/") "|" SPACES
#define LIKE_CL100K(digits) ENGLISH "|" WORD "|" digits "|" OTHERS("") "|" SPACES

/* DeepSeek's letters of scripts with two cases, ideographs (everything from U+0800 on!) and punctuation. */
#define DEEPSEEK_CASED                                                                                                 \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}"   \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}"     \
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}"       \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}"                  \
    "\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"                  \
    "\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}" \
    "\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}"                  \
    "\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}" \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}" \
    "\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}" \
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{"    \
    "FB06}"                                                                                                            \
    "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"              \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
#define DEEPSEEK_IDEOGRAPHS "(?:(?!\\s)[\\x{800}-\\x{9FA5}\\x{AC00}-\\x{D7FF}])+"
#define DEEPSEEK_PUNCTUATION "[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3001}\\x{3002}]"

enum split {
    GPT2,
    DIGITS_GPT2,
    FALCON,
    DEFAULT,
    LLAMA3,
    QWEN2,
    QWEN35,
    TEKKEN,
    GPT4O,
    TINY_AYA,
    SUPERBPE,
    DEEPSEEK_LLM,
    DEEPSEEK_CODER,
    DEEPSEEK3,
    SEED_CODER,
    VIKING,
};

static const char *const splits[][TEXT_MAX_SPLITS] = {
    [GPT2] = {LIKE_GPT2},
    [DIGITS_GPT2] = {"\\p{N}", LIKE_GPT2},
    [FALCON] = {"[\\p{P}$+<=>^~|`]+", LIKE_GPT2, "[0-9][0-9][0-9]"},
    [DEFAULT] = {"[\\p{P}$+<=>^~|]+", LIKE_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"},
    [LLAMA3] = {LIKE_CL100K("\\p{N}{1,3}")},
    [QWEN2] = {LIKE_CL100K("\\p{N}")},
    [QWEN35] = {ENGLISH "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES},
    [SEED_CODER] = {ENGLISH "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|" SPACES},
    [VIKING] = {" ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}"},
    [TEKKEN] = {CASED("") "|\\p{N}|" OTHERS("/") "|" SPACES},
    [GPT4O] = {LIKE_GPT4O},
    /* tokenizer.json: \d{1,3}(?=(?:\d{3})*\b), which reads a run of digits before a letter to its end at each digit. */
    [TINY_AYA] = {FIRST_DIGITS("3", NO_WORD) "|\\G(?<=\\p{Nd})\\p{Nd}{3}", LIKE_GPT4O},
    /* tokenizer.json: a cut at each (?=(\d{3})+(?!\d)); here what stands between two of them. */
    [SUPERBPE] = {"\\p{N}+",
        "(?:(?<=\\p{Nd})\\p{Nd}{3}|" FIRST_DIGITS("3", NO_DIGIT) ")?"
                                                                 "(?:\\P{Nd}++(?:" FIRST_DIGITS("2", NO_DIGIT) ")?)*"},
    /* Spaces and ideographs cannot overlap: one pattern.  \s+$ alone is quadratic in a run of spaces inside a line. */
    [DEEPSEEK_LLM] = {"[\\r\\n]", "\\s?[" DEEPSEEK_CASED "]+", "\\s?" DEEPSEEK_PUNCTUATION "+",
        "(?<!\\s)\\s++$|" DEEPSEEK_IDEOGRAPHS, "\\p{N}+"},
    [DEEPSEEK_CODER] = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_IDEOGRAPHS, "\\p{N}"},
    [DEEPSEEK3] = {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+",
        "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
        "?[\\p{P}\\p{S}]+[\\r\\n]*"
        "|" SPACES},
};

enum { IGNORES_MERGES = 1, ADDS_BOS = 2 };

static const struct pre {
    const char *name;
    enum split split;
    unsigned implies;
} pres[] = {
    {"default", DEFAULT, 0},
    {"gpt-2", GPT2, 0},
    {"phi-2", GPT2, 0},
    {"mpt", GPT2, 0},
    {"olmo", GPT2, 0},
    {"jais", GPT2, 0},
    {"gigachat", GPT2, 0},
    {"a.x-4.0", GPT2, 0},
    {"mellum", GPT2, 0},
    {"exaone4", GPT2, 0},
    {"trillion", GPT2, 0},
    {"granite-docling", GPT2, 0},
    {"roberta-bpe", GPT2, 0},
    {"starcoder", DIGITS_GPT2, 0},
    {"refact", DIGITS_GPT2, 0},
    {"command-r", DIGITS_GPT2, 0},
    {"smollm", DIGITS_GPT2, 0},
    {"codeshell", DIGITS_GPT2, 0},
    {"exaone", DIGITS_GPT2, 0},
    {"minerva-7b", DIGITS_GPT2, 0},
    {"falcon", FALCON, 0},
    {"llama-bpe", LLAMA3, IGNORES_MERGES | ADDS_BOS},
    {"llama3", LLAMA3, IGNORES_MERGES | ADDS_BOS},
    {"llama-v3", LLAMA3, IGNORES_MERGES | ADDS_BOS},
    {"falcon3", LLAMA3, IGNORES_MERGES | ADDS_BOS},
    {"falcon-h1", LLAMA3, IGNORES_MERGES | ADDS_BOS},
    {"pixtral", LLAMA3, IGNORES_MERGES | ADDS_BOS},
    {"midm-2.0", LLAMA3, IGNORES_MERGES | ADDS_BOS},
    {"lfm2", LLAMA3, IGNORES_MERGES | ADDS_BOS},
    {"dbrx", LLAMA3, 0},
    {"smaug-bpe", LLAMA3, 0},
    {"glm4", LLAMA3, 0},
    {"chatglm-bpe", LLAMA3, 0},
    {"qwen2", QWEN2, 0},
    {"deepseek-r1-qwen", QWEN2, 0},
    {"megrez", QWEN2, 0},
    {"kormo", QWEN2, 0},
    {"f2llmv2", QWEN2, 0},
    {"stablelm2", QWEN2, 0},
    {"hunyuan", QWEN2, 0},
    {"solar-open", QWEN2, 0},
    {"grok-2", QWEN2, 0},
    {"qwen35", QWEN35, 0},
    {"seed-coder", SEED_CODER, 0},
    {"viking", VIKING, 0},
    {"tekken", TEKKEN, IGNORES_MERGES | ADDS_BOS},
    {"gpt-4o", GPT4O, 0},
    {"llama4", GPT4O, 0},
    {"kanana2", GPT4O, 0},
    {"minimax-m2", GPT4O, 0},
    {"tiny_aya", TINY_AYA, 0},
    {"cohere2moe", TINY_AYA, 0},
    {"superbpe", SUPERBPE, 0},
    {"deepseek-llm", DEEPSEEK_LLM, 0},
    {"deepseek-coder", DEEPSEEK_CODER, 0},
    {"deepseek-v3", DEEPSEEK3, 0},
    {"hunyuan-dense", DEEPSEEK3, 0},
};

static int compile(pcre2_code **out, const char *pattern, const char *name, struct lutra_error *err)
{
    int code;
    PCRE2_SIZE where;
    *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_DOLLAR_ENDONLY, &code, &where, NULL);
    if (!*out && code == PCRE2_ERROR_HEAP_FAILED) return lutra_fail(err, LUTRA_E_NO_MEMORY, "pre-split: out of memory");
    if (!*out) return lutra_fail(err, LUTRA_E_INTERNAL, "pre-split '%s': PCRE2 error %d at %zu", name, code, where);
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT matching is slower, not different */
    return 0;
}

int text_presplit_open(struct text_vocab *vocab, const char *name, struct lutra_error *err)
{
    const struct pre *pre = NULL;
    char *bytes[TEXT_MAX_SPLITS];
    if (!name || !*name) name = "default";
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        if (strcmp(name, pres[i].name) == 0) pre = &pres[i];
    }
    if (!pre) return lutra_fail(err, LUTRA_E_UNSUPPORTED, "tokenizer.ggml.pre '%s' is not supported", name);
    vocab->ignore_merges = pre->implies & IGNORES_MERGES;
    vocab->add_bos = pre->implies & ADDS_BOS;
    int rc = text_classes_open(&vocab->classes, splits[pre->split], bytes);
    if (rc < 0) lutra_fail(err, rc, "pre-split '%s': %s", name, lutra_status_text(rc));
    for (int i = 0; i < TEXT_MAX_SPLITS; i++) {
        if (rc == 0 && bytes[i]) rc = compile(&vocab->split[i], bytes[i], name, err);
        free(bytes[i]);
    }
    return rc;
}

void text_presplit_fini(struct text_vocab *vocab)
{
    text_classes_fini(&vocab->classes);
    for (int i = 0; i < TEXT_MAX_SPLITS; i++) pcre2_code_free(vocab->split[i]);
}
