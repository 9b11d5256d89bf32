/* SPDX-License-Identifier: MIT
 *
 * Spellings that mean one thing in every vocabulary, whatever type a file gives them.  Converters have typed them
 * normal or left the types out; such a token would be split into text, and generation would run past it.
 * The list is llama.cpp's (its messages "control-looking token" and "all EOG tokens" name them).
 */
#include <string.h>

#include "text/vocab_impl.h"

struct marker {
    const char *text;
    uint8_t type;
    bool ends; /* generation stops at it */
};

static const struct marker markers[] = {
    {"<|eot_id|>", TEXT_TOKEN_CONTROL, true},
    {"<|eom_id|>", TEXT_TOKEN_CONTROL, true},
    {"<|im_end|>", TEXT_TOKEN_CONTROL, true},
    {"<|end|>", TEXT_TOKEN_CONTROL, true},
    {"<|return|>", TEXT_TOKEN_CONTROL, true},
    {"<|call|>", TEXT_TOKEN_CONTROL, true},
    {"<|flush|>", TEXT_TOKEN_CONTROL, true},
    {"<|calls|>", TEXT_TOKEN_CONTROL, true},
    {"<end_of_turn>", TEXT_TOKEN_CONTROL, true},
    {"<|endoftext|>", TEXT_TOKEN_CONTROL, true},
    {"<|end_of_text|>", TEXT_TOKEN_CONTROL, true},
    {"</s>", TEXT_TOKEN_CONTROL, true},
    {"<eos>", TEXT_TOKEN_CONTROL, true},
    {"<EOT>", TEXT_TOKEN_CONTROL, true},
    {"_<EOT>", TEXT_TOKEN_CONTROL, true},
    {"[EOT]", TEXT_TOKEN_CONTROL, true},
    {"[EOS]", TEXT_TOKEN_CONTROL, true},
    {"<end_of_utterance>", TEXT_TOKEN_CONTROL, true},
    {"<｜end▁of▁sentence｜>", TEXT_TOKEN_CONTROL, true},
    /* fill in the middle: a chat never writes them, so padding, repository and file names end it */
    {"<|fim_pad|>", TEXT_TOKEN_CONTROL, true},
    {"<fim-pad>", TEXT_TOKEN_CONTROL, true},
    {"<fim_pad>", TEXT_TOKEN_CONTROL, true},
    {"<PAD>", TEXT_TOKEN_CONTROL, true},
    {"[PAD]", TEXT_TOKEN_CONTROL, true},
    {"<|fim_repo|>", TEXT_TOKEN_CONTROL, true},
    {"<|repo_name|>", TEXT_TOKEN_CONTROL, true},
    {"<fim-repo>", TEXT_TOKEN_CONTROL, true},
    {"<REPO>", TEXT_TOKEN_CONTROL, true},
    {"<reponame>", TEXT_TOKEN_CONTROL, true},
    {"<|file_sep|>", TEXT_TOKEN_CONTROL, true},
    {"<|fim_prefix|>", TEXT_TOKEN_CONTROL, false},
    {"<fim-prefix>", TEXT_TOKEN_CONTROL, false},
    {"<fim_prefix>", TEXT_TOKEN_CONTROL, false},
    {"<｜fim▁begin｜>", TEXT_TOKEN_CONTROL, false},
    {"<PRE>", TEXT_TOKEN_CONTROL, false},
    {"▁<PRE>", TEXT_TOKEN_CONTROL, false},
    {"<|code_prefix|>", TEXT_TOKEN_CONTROL, false},
    {"<|fim_suffix|>", TEXT_TOKEN_CONTROL, false},
    {"<fim-suffix>", TEXT_TOKEN_CONTROL, false},
    {"<fim_suffix>", TEXT_TOKEN_CONTROL, false},
    {"<｜fim▁hole｜>", TEXT_TOKEN_CONTROL, false},
    {"<SUF>", TEXT_TOKEN_CONTROL, false},
    {"▁<SUF>", TEXT_TOKEN_CONTROL, false},
    {"<|code_suffix|>", TEXT_TOKEN_CONTROL, false},
    {"<|fim_middle|>", TEXT_TOKEN_CONTROL, false},
    {"<fim-middle>", TEXT_TOKEN_CONTROL, false},
    {"<fim_middle>", TEXT_TOKEN_CONTROL, false},
    {"<｜fim▁end｜>", TEXT_TOKEN_CONTROL, false},
    {"<MID>", TEXT_TOKEN_CONTROL, false},
    {"▁<MID>", TEXT_TOKEN_CONTROL, false},
    {"<|code_middle|>", TEXT_TOKEN_CONTROL, false},
    /* gpt-oss writes these into its answers and they are to be seen */
    {"<|channel|>", TEXT_TOKEN_USER_DEFINED, false},
    {"<|message|>", TEXT_TOKEN_USER_DEFINED, false},
    {"<|start|>", TEXT_TOKEN_USER_DEFINED, false},
    {"<|constrain|>", TEXT_TOKEN_USER_DEFINED, false},
};

static const struct marker *find(struct text_bytes spelt)
{
    if (spelt.n < 4 || !memchr("<[_\xE2", spelt.p[0], 4)) return NULL;
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) {
        if (strlen(markers[i].text) == spelt.n && !memcmp(markers[i].text, spelt.p, spelt.n)) return &markers[i];
    }
    return NULL;
}

uint8_t text_marker_type(struct text_bytes spelt, uint8_t type)
{
    const struct marker *marker = find(spelt);
    return marker ? marker->type : type;
}

bool text_marker_known(struct text_bytes spelt)
{
    return find(spelt) != NULL;
}

static int32_t control(const struct text_vocab *vocab, const char *text)
{
    int32_t id = text_token_find(vocab, text, strlen(text));
    return text_token_type(vocab, id) == TEXT_TOKEN_CONTROL ? id : -1;
}

size_t text_marker_ends(struct text_vocab *vocab, int32_t ends[TEXT_MAX_ENDS])
{
    _Static_assert(sizeof markers / sizeof *markers <= TEXT_MAX_ENDS, "ends[] is too short");
    /* Where <|return|> or <|flush|> ends a call as well, <|end|> only divides parts of an answer. */
    bool parts =
        (control(vocab, "<|return|>") >= 0 && control(vocab, "<|call|>") >= 0) ||
        (control(vocab, "<|flush|>") >= 0 && (control(vocab, "<|call|>") >= 0 || control(vocab, "<|calls|>") >= 0));
    int32_t end = control(vocab, "<|end|>");
    if (parts && end >= 0) vocab->types[end] = TEXT_TOKEN_USER_DEFINED;
    size_t n = 0;
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++) {
        int32_t id = markers[i].ends ? control(vocab, markers[i].text) : -1;
        if (id >= 0) ends[n++] = id;
    }
    return n;
}
