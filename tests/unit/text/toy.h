/* SPDX-License-Identifier: MIT
 *
 * A small vocabulary for tests: 256 byte tokens, a few merges, a few special tokens.
 */
#ifndef LUTRA_TESTS_UNIT_TEXT_TOY_H
#define LUTRA_TESTS_UNIT_TEXT_TOY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/encode.h"
#include "text/utf8.h"
#include "text/vocab.h"

enum { TOY_MAX = 400 };

struct toy {
    struct text_bytes tokens[TOY_MAX], merges[TOY_MAX];
    int32_t types[TOY_MAX];
    char spelt[256][4];
    struct text_vocab_source src;
};

/* GPT-2's printable spelling of every byte, built the way its bytes_to_unicode does. */
static inline void toy_spell_bytes(struct toy *toy)
{
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174);
        int k = text_utf8_put(printable ? b : next++, toy->spelt[b]);
        toy->tokens[b] = (struct text_bytes){toy->spelt[b], (size_t)k};
        toy->types[b] = TEXT_TOKEN_NORMAL;
    }
}

static inline int32_t toy_token(struct toy *toy, const char *text, int32_t type)
{
    size_t i = toy->src.n_tok++;
    toy->tokens[i] = (struct text_bytes){text, strlen(text)};
    toy->types[i] = type;
    return (int32_t)i;
}

static inline void toy_merge(struct toy *toy, const char *pair)
{
    toy->merges[toy->src.n_merge++] = (struct text_bytes){pair, strlen(pair)};
}

static inline void toy_init(struct toy *toy, const char *pre)
{
    memset(toy, 0, sizeof *toy);
    toy_spell_bytes(toy);
    toy->src = text_vocab_source_default();
    toy->src.model = "gpt2";
    toy->src.pre = pre;
    toy->src.tokens = toy->tokens;
    toy->src.types = toy->types;
    toy->src.merges = toy->merges;
    toy->src.n_tok = 256;
}

#endif
